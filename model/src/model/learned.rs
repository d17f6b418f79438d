//! Learns how long the objects of a kind usually take to converge.
//!
//! The estimator is the product limit of Kaplan and Meier (1958) over fixed buckets. It also uses censored durations:
//! if a spec change was superseded after `t`, or its object deleted, convergence would have taken longer than `t`.
//! Without these durations, slow kinds would look fast.

use crate::time::Span;

/// Upper bounds of the buckets in milliseconds: half a second to one day, each 1.25 to 2 times the previous one.
const BOUNDS_MS: [i64; 32] = [
    500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 60_000, 90_000,
    120_000, 180_000, 240_000, 360_000, 480_000, 720_000, 960_000, 1_440_000, 1_920_000, 2_880_000, 3_600_000,
    5_400_000, 7_200_000, 14_400_000, 28_800_000, 57_600_000, 86_400_000,
];

/// The durations of the spec changes of one kind, counted by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    converged: [u32; BOUNDS_MS.len()],
    censored: [u32; BOUNDS_MS.len()],
}

// === impl Learned ===

impl Learned {
    /// Adds a spec change that converged after `took`.
    pub(crate) fn add_converged(&mut self, took: Span) {
        let bucket = &mut self.converged[bucket(took)];
        *bucket = bucket.saturating_add(1);
    }

    /// Adds a spec change that had not converged after `lasted`, when it was superseded or its object was suspended,
    /// deleted or lost from view.
    pub(crate) fn add_censored(&mut self, lasted: Span) {
        let bucket = &mut self.censored[bucket(lasted)];
        *bucket = bucket.saturating_add(1);
    }

    /// Returns the number of spec changes that converged.
    pub(crate) fn samples(&self) -> u64 {
        self.converged.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the estimated time within which 95 % of the spec changes converge, rounded up to a bucket bound, or
    /// `None` if fewer than 95 % converge within the longest time seen.
    pub(crate) fn p95(&self) -> Option<Span> {
        let mut at_risk = self.samples() + self.censored.iter().map(|count| u64::from(*count)).sum::<u64>();
        let mut surviving = 1.0_f64;
        for (bucket, bound) in BOUNDS_MS.iter().enumerate() {
            if at_risk == 0 {
                return None;
            }
            surviving *= 1.0 - f64::from(self.converged[bucket]) / at_risk as f64;
            // The margin covers rounding, because 0.05 is not a binary fraction.
            if surviving <= 0.05 + 1e-9 {
                return Some(Span(*bound));
            }
            at_risk -= u64::from(self.converged[bucket]) + u64::from(self.censored[bucket]);
        }
        None
    }

    /// Returns the form that checkpoints store: the counts of converged changes, then those of censored ones.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        self.converged.iter().chain(&self.censored).map(|count| u64::from(*count)).collect()
    }

    /// Reads the form that checkpoints store. Surplus numbers are ignored; missing ones count as zero.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let mut learned = Self::default();
        let buckets = learned.converged.iter_mut().chain(&mut learned.censored);
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
    fn p95_is_the_bound_of_the_bucket_that_reaches_95_percent() {
        let mut learned = Learned::default();
        for _ in 0..95 {
            learned.add_converged(Span(2_500));
        }
        for _ in 0..5 {
            learned.add_converged(Span::mins(5));
        }
        assert_eq!(learned.p95(), Some(Span(3_000)));
    }

    #[test]
    fn censored_changes_raise_the_estimate() {
        let mut learned = Learned::default();
        for _ in 0..20 {
            learned.add_converged(Span::secs(2));
        }
        assert_eq!(learned.p95(), Some(Span::secs(2)));
        for _ in 0..20 {
            learned.add_censored(Span::mins(1));
        }
        assert_eq!(learned.p95(), None, "half of the changes never converged");
    }

    #[test]
    fn p95_of_no_changes_is_none() {
        assert_eq!(Learned::default().p95(), None);
    }

    #[test]
    fn missing_numbers_in_a_checkpoint_count_as_zero() {
        assert_eq!(Learned::from_numbers(&[7; 3]).to_numbers()[..4], [7, 7, 7, 0]);
    }
}
