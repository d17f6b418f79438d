//! Learns how long an operator usually takes to acknowledge a spec change of a kind, and how long
//! the objects of the kind take to converge after their creation and after an update.
//!
//! The estimator is the product limit of Kaplan and Meier (1958) over fixed buckets. It also uses
//! censored durations: if a spec change was superseded after `t`, or its object deleted, it would
//! have taken longer than `t`. Without these durations, slow kinds would look fast. A late spec
//! change counts as censored at its SLO deadline, whatever came later: an outage shows how long the
//! outage was. A rejected one teaches nothing: the person who fixes the spec decides how long that
//! takes.
//!
//! Old knowledge decays: once [`MEMORY`] spec changes are counted, every count is halved, so that
//! the estimate follows a new version of the operator.

use crate::time::Span;

/// Upper bounds of the buckets in milliseconds: half a second to one day, each 1.25 to 2 times the
/// previous one.
const BOUNDS_MS: [i64; 32] = [
    500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000,
    60_000, 90_000, 120_000, 180_000, 240_000, 360_000, 480_000, 720_000, 960_000, 1_440_000,
    1_920_000, 2_880_000, 3_600_000, 5_400_000, 7_200_000, 14_400_000, 28_800_000, 57_600_000,
    86_400_000,
];

/// The number of counted spec changes at which all counts are halved.
const MEMORY: u64 = 400;

/// What loopwatch has learned about one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// From a spec change of an existing object to converged.
    pub(crate) update: Durations,
    /// From the creation of an object to converged.
    pub(crate) creation: Durations,
    /// From any spec change to its acknowledgement.
    pub(crate) acknowledgement: Durations,
}

/// Durations, counted by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    ended: [u32; BOUNDS_MS.len()],
    censored: [u32; BOUNDS_MS.len()],
}

impl Learned {
    /// Returns the durations until convergence after a creation, or else after an update.
    pub(crate) fn convergence(&mut self, creation: bool) -> &mut Durations {
        if creation { &mut self.creation } else { &mut self.update }
    }

    pub(crate) fn is_empty(&self) -> bool {
        [&self.update, &self.creation, &self.acknowledgement]
            .iter()
            .all(|durations| durations.samples() == 0)
    }

    /// Returns the form that checkpoints store: the counts of updates, of creations and of
    /// acknowledgements; of each first the ended ones, then the censored ones.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        let parts = [&self.update, &self.creation, &self.acknowledgement];
        let counts =
            parts.iter().flat_map(|durations| durations.ended.iter().chain(&durations.censored));
        counts.map(|count| u64::from(*count)).collect()
    }

    /// Reads the form that checkpoints store. Surplus numbers are ignored; missing ones count as
    /// zero, so the checkpoints of older versions, which did not tell creations from updates, load
    /// as updates.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let mut learned = Self::default();
        let parts = [&mut learned.update, &mut learned.creation, &mut learned.acknowledgement];
        let counts = parts
            .into_iter()
            .flat_map(|durations| durations.ended.iter_mut().chain(&mut durations.censored));

        for (count, number) in counts.zip(numbers) {
            *count = u32::try_from(*number).unwrap_or(u32::MAX);
        }

        learned
    }
}

impl Durations {
    /// Adds a spec change that ended after `took`.
    pub(crate) fn add(&mut self, took: Span) {
        self.decay();
        let count = &mut self.ended[bucket(took)];
        *count = count.saturating_add(1);
    }

    /// Adds a spec change that had not ended after `lasted`, when it was late, was superseded, or
    /// its object was suspended, deleted or lost from view.
    pub(crate) fn add_censored(&mut self, lasted: Span) {
        self.decay();
        let count = &mut self.censored[bucket(lasted)];
        *count = count.saturating_add(1);
    }

    /// Returns the number of spec changes that ended.
    pub(crate) fn samples(&self) -> u64 {
        self.ended.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the estimated time within which 95 % of the spec changes end, rounded up to a bucket
    /// bound, or `None` if fewer than 95 % end within the longest time seen.
    pub(crate) fn p95(&self) -> Option<Span> {
        self.within(0.05)
    }

    /// Returns the estimated time within which half of them end, as [`Durations::p95`].
    pub(crate) fn p50(&self) -> Option<Span> {
        self.within(0.5)
    }

    /// Returns the estimated time within which 99 % end, as [`Durations::p95`].
    pub(crate) fn p99(&self) -> Option<Span> {
        self.within(0.01)
    }

    /// Returns the form that checkpoints store: the ended ones, then the censored ones.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        self.ended.iter().chain(&self.censored).map(|count| u64::from(*count)).collect()
    }

    /// Reads the form that checkpoints store, as [`Learned::from_numbers`].
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        Learned::from_numbers(numbers).update
    }

    /// Returns the time after which at most the given share has not ended.
    fn within(&self, share: f64) -> Option<Span> {
        let mut at_risk = self.counted();
        let mut surviving = 1.0_f64;
        for (bucket, bound) in BOUNDS_MS.iter().enumerate() {
            if at_risk == 0 {
                return None;
            }

            surviving *= 1.0 - f64::from(self.ended[bucket]) / at_risk as f64;

            // The margin covers rounding, because the shares are not binary fractions.
            if surviving <= share + 1e-9 {
                return Some(Span(*bound));
            }

            at_risk -= u64::from(self.ended[bucket]) + u64::from(self.censored[bucket]);
        }

        None
    }

    fn counted(&self) -> u64 {
        self.samples() + self.censored.iter().map(|count| u64::from(*count)).sum::<u64>()
    }

    fn decay(&mut self) {
        if self.counted() >= MEMORY {
            self.ended.iter_mut().chain(&mut self.censored).for_each(|count| *count /= 2);
        }
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
        let mut durations = Durations::default();
        for _ in 0..95 {
            durations.add(Span(2_500));
        }

        for _ in 0..5 {
            durations.add(Span::mins(5));
        }

        assert_eq!(durations.p95(), Some(Span(3_000)));
    }

    #[test]
    fn censored_changes_raise_the_estimate() {
        let mut durations = Durations::default();
        for _ in 0..20 {
            durations.add(Span::secs(2));
        }

        assert_eq!(durations.p95(), Some(Span::secs(2)));

        for _ in 0..20 {
            durations.add_censored(Span::mins(1));
        }

        assert_eq!(durations.p95(), None, "half of the changes never ended");
    }

    #[test]
    fn p95_of_no_changes_is_none() {
        assert_eq!(Durations::default().p95(), None);
    }

    #[test]
    fn new_durations_outweigh_old_ones() {
        let mut durations = Durations::default();
        for _ in 0..2_000 {
            durations.add(Span::mins(8));
        }

        for _ in 0..2_000 {
            durations.add(Span::secs(2));
        }

        assert_eq!(durations.p95(), Some(Span::secs(2)));
    }

    #[test]
    fn missing_numbers_in_a_checkpoint_count_as_zero() {
        let learned = Learned::from_numbers(&[7; 3]);
        assert_eq!(learned.to_numbers()[..4], [7, 7, 7, 0]);
        assert_eq!(learned.update.samples(), 21);
    }
}
