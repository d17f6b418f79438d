//! Learns how long an operator usually takes to acknowledge a spec change of a kind, and how long
//! the objects of the kind take to converge after their creation and after an update.
//!
//! The estimator is the product limit of Kaplan and Meier (1958) over fixed buckets. It also uses
//! censored durations: if a spec change was superseded after `t`, or its object deleted, it would
//! have taken longer than `t`. Without these durations, slow kinds would look fast. A rejected one
//! teaches nothing: the person who fixes the spec decides how long that takes.
//!
//! A late spec change counts as censored at its SLO deadline. If nothing suggests that it waited
//! for the end of an outage (see `pace.rs`), its real duration also counts as late work. Late work
//! has an estimate of its own, because a few late changes among many quick ones, such as a batch at
//! night, may be just as usual. A duration is usual once [`USUAL_FROM`] changes took about as long.
//!
//! Old knowledge decays: once [`MEMORY`] spec changes are counted, every count is halved, so that
//! the estimate follows a new version of the operator. Late work decays more slowly, so that the
//! quick changes of a day do not erase the batch of the night.

use crate::model::world::kinds::pace::Answer;
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

/// The number of halvings after which the counts of late work are halved, too.
const LATE_MEMORY: u8 = 8;

/// The number of late changes of about the same duration from which on this duration is usual.
const USUAL_FROM: u32 = 5;

/// What loopwatch has learned about one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    /// From a spec change of an existing object to converged.
    pub(crate) update: Durations,
    /// From the creation of an object to converged.
    pub(crate) creation: Durations,
    /// From any spec change to its acknowledgement.
    pub(crate) acknowledgement: Durations,
    /// From the beginning of a run to its end. None of them counts as late.
    pub(crate) run: Durations,
    /// From the creation of a run to its beginning.
    pub(crate) beginning: Durations,
}

/// Durations, counted by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    ended: [u32; BOUNDS_MS.len()],
    censored: [u32; BOUNDS_MS.len()],
    /// Late changes by their real duration. `censored` counts each of them, too.
    late: [u32; BOUNDS_MS.len()],
    /// How often the other counts have been halved since the late ones were.
    halvings: u8,
}

impl Learned {
    /// Returns the durations until an answer of the operator.
    pub(crate) const fn durations(&mut self, answer: Answer) -> &mut Durations {
        match answer {
            Answer::Update => &mut self.update,
            Answer::Creation => &mut self.creation,
            Answer::Acknowledgement => &mut self.acknowledgement,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        [&self.update, &self.creation, &self.acknowledgement]
            .iter()
            .all(|durations| durations.samples() == 0 && durations.late_samples() == 0)
    }

    /// Returns the form that checkpoints store: the counts of updates, of creations and of
    /// acknowledgements; of each first the ended ones, then the censored ones. The late ones of all
    /// three follow, then the runs that ended, and then all counts of beginnings.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        let parts = [&self.update, &self.creation, &self.acknowledgement];
        let counts =
            parts.iter().flat_map(|durations| durations.ended.iter().chain(&durations.censored));
        let late = parts.iter().flat_map(|durations| &durations.late);
        let Durations { ended, censored, late: begun_late, .. } = &self.beginning;
        let runs = self.run.ended.iter().chain(ended).chain(censored).chain(begun_late);
        counts.chain(late).chain(runs).map(|count| u64::from(*count)).collect()
    }

    /// Reads the form that checkpoints store. Surplus numbers are ignored; missing ones count as
    /// zero, so the checkpoints of older versions, which did not tell creations from updates, load
    /// as updates.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Self {
        let mut learned = Self::default();
        let mut numbers = numbers.iter().map(|number| u32::try_from(*number).unwrap_or(u32::MAX));
        let parts = [&mut learned.update, &mut learned.creation, &mut learned.acknowledgement];

        for Durations { ended, censored, .. } in parts {
            ended.iter_mut().chain(censored).zip(&mut numbers).for_each(|(count, n)| *count = n);
        }

        for durations in [&mut learned.update, &mut learned.creation, &mut learned.acknowledgement]
        {
            durations.late.iter_mut().zip(&mut numbers).for_each(|(count, n)| *count = n);
        }

        let Durations { ended, censored, late, .. } = &mut learned.beginning;
        let runs = learned.run.ended.iter_mut().chain(ended).chain(censored).chain(late);
        runs.zip(&mut numbers).for_each(|(count, n)| *count = n);
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

    /// Adds the real duration of a late spec change, which counts as censored already.
    pub(crate) fn add_late(&mut self, took: Span) {
        if self.late_samples() >= MEMORY {
            self.late.iter_mut().for_each(|count| *count /= 2);
        }

        let count = &mut self.late[bucket(took)];
        *count = count.saturating_add(1);
    }

    /// Returns the time within which 95 % of the usual late changes end, rounded up to a bucket
    /// bound. Durations that only a few changes took are not usual.
    pub(crate) fn usual_late(&self) -> Option<Span> {
        let usual = |index: usize| {
            let near = index.saturating_sub(1)..=(index + 1).min(BOUNDS_MS.len() - 1);
            self.late[near].iter().map(|count| u64::from(*count)).sum::<u64>()
                >= u64::from(USUAL_FROM)
        };
        let counts = || (0..BOUNDS_MS.len()).filter(|index| usual(*index));
        let total: u64 = counts().map(|index| u64::from(self.late[index])).sum();

        let mut longer = total;
        counts()
            .find(|index| {
                longer -= u64::from(self.late[*index]);
                self.late[*index] > 0 && longer * 20 <= total
            })
            .map(|index| Span(BOUNDS_MS[index]))
    }

    /// Returns the time within which 95 % end, of the usual late ones if that is longer; `None` with
    /// fewer than `learn_after` durations, or if that is 0.
    pub(crate) fn usual(&self, learn_after: u32) -> Option<Span> {
        let enough = |count: u64| learn_after > 0 && count >= u64::from(learn_after);
        let p95 = self.p95().filter(|_| enough(self.samples()));
        let late = self.usual_late().filter(|_| enough(self.counted()));
        p95.max(late)
    }

    /// Returns the longest duration that counts, rounded up to a bucket bound.
    pub(crate) fn longest(&self) -> Option<Span> {
        let seen = |index: &usize| self.ended[*index] > 0 || self.late[*index] > 0;
        (0..BOUNDS_MS.len()).rev().find(seen).map(|index| Span(BOUNDS_MS[index]))
    }

    /// Returns the shortest and the longest duration that count, each as the middle of its bucket:
    /// the bound of a wide bucket may be almost twice as long as the duration.
    pub(crate) fn extremes(&self) -> Option<(Span, Span)> {
        let seen = |index: &usize| self.ended[*index] > 0 || self.late[*index] > 0;
        let middle = |index: usize| {
            let lower = index.checked_sub(1).map_or(0, |below| BOUNDS_MS[below]);
            Span(lower.midpoint(BOUNDS_MS[index]))
        };

        let shortest = (0..BOUNDS_MS.len()).find(seen)?;
        let longest = (0..BOUNDS_MS.len()).rev().find(seen)?;
        Some((middle(shortest), middle(longest)))
    }

    /// Returns the number of late changes with a real duration.
    fn late_samples(&self) -> u64 {
        self.late.iter().map(|count| u64::from(*count)).sum()
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

    /// Returns the estimated time within which 99.9 % end, as [`Durations::p95`]. `None` if a single
    /// change that had not ended after that time makes the estimate uncertain.
    pub(crate) fn p999(&self) -> Option<Span> {
        self.within(0.001)
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

    /// Returns the number of spec changes that ended or are censored.
    pub(crate) fn counted(&self) -> u64 {
        self.samples() + self.censored.iter().map(|count| u64::from(*count)).sum::<u64>()
    }

    fn decay(&mut self) {
        if self.counted() < MEMORY {
            return;
        }

        self.ended.iter_mut().chain(&mut self.censored).for_each(|count| *count /= 2);
        self.halvings += 1;
        if self.halvings >= LATE_MEMORY {
            self.halvings = 0;
            self.late.iter_mut().for_each(|count| *count /= 2);
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
    fn a_late_duration_is_usual_once_five_changes_took_about_as_long() {
        let mut durations = Durations::default();
        for minutes in [25, 31, 26, 35] {
            durations.add_late(Span::mins(minutes));
        }

        durations.add_late(Span::hours(9));
        assert_eq!(durations.usual_late(), None);

        durations.add_late(Span::mins(29));
        assert_eq!(durations.usual_late(), Some(Span::mins(48)), "nine hours are not usual");
    }

    #[test]
    fn late_work_outlasts_the_quick_changes_of_a_day_but_not_those_of_a_month() {
        let mut durations = Durations::default();
        (0..20).for_each(|_| durations.add_late(Span::mins(15)));
        (0..1_500).for_each(|_| durations.add(Span::secs(2)));
        assert_eq!(durations.usual_late(), Some(Span::mins(16)));

        (0..10_000).for_each(|_| durations.add(Span::secs(2)));
        assert_eq!(durations.usual_late(), None);
    }

    #[test]
    fn late_work_survives_a_checkpoint() {
        let mut learned = Learned::default();
        (0..7).for_each(|_| learned.acknowledgement.add_late(Span::mins(25)));
        learned.run.add(Span::mins(3));
        learned.beginning.add(Span::mins(2));
        learned.beginning.add_censored(Span::mins(10));
        learned.beginning.add_late(Span::hours(3));
        assert_eq!(Learned::from_numbers(&learned.to_numbers()), learned);
    }

    #[test]
    fn missing_numbers_in_a_checkpoint_count_as_zero() {
        let learned = Learned::from_numbers(&[7; 3]);
        assert_eq!(learned.to_numbers()[..4], [7, 7, 7, 0]);
        assert_eq!(learned.update.samples(), 21);
    }
}
