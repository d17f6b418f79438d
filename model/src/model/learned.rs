//! Learns how long a kind usually takes, from the changes that converged and those that did not get to.
//!
//! The estimator is Kaplan and Meier's (1958) product limit over fixed buckets: a change that was superseded or
//! deleted after `t` still says that it took longer than `t`, and leaving those out would make slow kinds look quick.

use crate::time::Span;

/// Upper bounds of the buckets in milliseconds: half a second to a day, each about one and a half times the last.
const BOUNDS_MS: [i64; 32] = [
    500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 60_000, 90_000,
    120_000, 180_000, 240_000, 360_000, 480_000, 720_000, 960_000, 1_440_000, 1_920_000, 2_880_000, 3_600_000,
    5_400_000, 7_200_000, 14_400_000, 28_800_000, 57_600_000, 86_400_000,
];

/// Durations of one kind, those that ended and those that were cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    ended: [u32; BOUNDS_MS.len()],
    cut_off: [u32; BOUNDS_MS.len()],
}

// === impl Learned ===

impl Learned {
    /// One change converged after `took`.
    pub(crate) fn ended(&mut self, took: Span) {
        let bucket = &mut self.ended[bucket(took)];
        *bucket = bucket.saturating_add(1);
    }

    /// One change was cut off after `lasted`, so that it is not known how long it would have taken.
    pub(crate) fn cut_off(&mut self, lasted: Span) {
        let bucket = &mut self.cut_off[bucket(lasted)];
        *bucket = bucket.saturating_add(1);
    }

    /// How many changes converged.
    pub(crate) fn samples(&self) -> u64 {
        self.ended.iter().map(|count| u64::from(*count)).sum()
    }

    /// The time within which 95 % of the changes converge: an upper bound of its bucket. `None` when fewer do so.
    pub(crate) fn p95(&self) -> Option<Span> {
        let mut at_risk = self.samples() + self.cut_off.iter().map(|count| u64::from(*count)).sum::<u64>();
        let mut unfinished = 1.0_f64;
        for (bucket, bound) in BOUNDS_MS.iter().enumerate() {
            if at_risk == 0 {
                return None;
            }
            unfinished *= 1.0 - f64::from(self.ended[bucket]) / at_risk as f64;
            // The margin is for 0.95 not being a binary fraction.
            if unfinished <= 0.05 + 1e-9 {
                return Some(Span(*bound));
            }
            at_risk -= u64::from(self.ended[bucket]) + u64::from(self.cut_off[bucket]);
        }
        None
    }

    /// The recorded form: the ended ones, then those cut off.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        self.ended.iter().chain(&self.cut_off).map(|count| u64::from(*count)).collect()
    }

    /// Reads the recorded form; numbers too many or too few are ignored.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let mut learned = Self::default();
        let buckets = learned.ended.iter_mut().chain(&mut learned.cut_off);
        for (bucket, number) in buckets.zip(numbers) {
            *bucket = u32::try_from(*number).unwrap_or(u32::MAX);
        }
        learned
    }
}

fn bucket(span: Span) -> usize {
    BOUNDS_MS.iter().position(|bound| span.0 <= *bound).unwrap_or(BOUNDS_MS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_five_percent_converge_within_the_learned_time() {
        let mut learned = Learned::default();
        for _ in 0..95 {
            learned.ended(Span(2_500));
        }
        for _ in 0..5 {
            learned.ended(Span::mins(5));
        }
        assert_eq!(learned.p95(), Some(Span(3_000)));
    }

    #[test]
    fn what_was_cut_off_makes_a_kind_slower_not_quicker() {
        let mut learned = Learned::default();
        for _ in 0..20 {
            learned.ended(Span::secs(2));
        }
        assert_eq!(learned.p95(), Some(Span::secs(2)));
        for _ in 0..20 {
            learned.cut_off(Span::mins(1)); // they were still not done after a minute
        }
        assert_eq!(learned.p95(), None, "half of the changes never converged");
    }

    #[test]
    fn nothing_seen_teaches_nothing() {
        assert_eq!(Learned::default().p95(), None);
        assert_eq!(Learned::from_numbers(&[7; 3]).to_numbers()[..4], [7, 7, 7, 0]);
    }
}
