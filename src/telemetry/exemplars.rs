//! Exemplars: for a bucket of a histogram or a counter, one trace that shows what it counted.
//!
//! Contains only traces that the collector has accepted, so that every link works.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use loopwatch_model::histogram::LATENCY_BOUNDS;
use loopwatch_model::time::{Span, Timestamp};

/// The newest exemplar of each bucket and each counter.
#[derive(Debug, Default)]
pub struct Exemplars(Mutex<BTreeMap<Counted, Exemplar>>);

/// A bucket or a counter with an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// A bucket of `loopwatch_acknowledge_seconds`.
    Acknowledge {
        /// The group, the kind and the operator's revision.
        labels: [String; 3],
        /// The index of the bucket.
        bucket: usize,
    },
    /// A bucket of `loopwatch_convergence_seconds`.
    Convergence {
        /// The group, the kind and the operator's revision.
        labels: [String; 3],
        /// The index of the bucket.
        bucket: usize,
    },
    /// `loopwatch_obligations_total{outcome="late"}`.
    Late {
        /// The group, the kind, the namespace and the operator's revision.
        labels: [String; 4],
    },
}

/// A span that shows what a metric counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// The ID in hexadecimal.
    pub trace_id: String,
    /// The ID in hexadecimal.
    pub span_id: String,
    /// The counted value: a duration in seconds, or 1.
    pub value: f64,
    /// When it was counted.
    pub at: Timestamp,
}

/// The maximum number of exemplars, beyond which the oldest are dropped: twenty kinds with every
/// bucket in use need 600.
const MAX_EXEMPLARS: usize = 2_000;

/// By how much an exemplar may be newer than one that arrives later. If it is newer than that, the
/// clock was ahead.
const AHEAD: Span = Span::hours(1);

impl Exemplars {
    /// Remembers an exemplar, unless a newer one is known.
    pub fn note(&self, counted: Counted, exemplar: Exemplar) {
        let mut known = self.locked();
        match known.get(&counted) {
            Some(other) if other.at > exemplar.at && other.at.since(exemplar.at) < AHEAD => return,
            None if known.len() >= MAX_EXEMPLARS => {
                let oldest = known
                    .iter()
                    .min_by_key(|(_, exemplar)| exemplar.at)
                    .map(|(counted, _)| counted.clone());

                oldest.and_then(|oldest| known.remove(&oldest));
            }
            _ => {}
        }

        known.insert(counted, exemplar);
    }

    #[must_use]
    pub fn get(&self, counted: &Counted) -> Option<Exemplar> {
        self.locked().get(counted).cloned()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Counted, Exemplar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Returns the bucket of `loopwatch_acknowledge_seconds` that counts `took`.
    #[must_use]
    pub fn acknowledge(labels: [String; 3], took: Span) -> Self {
        Self::Acknowledge { labels, bucket: bucket(took) }
    }

    /// Returns the bucket of `loopwatch_convergence_seconds` that counts `took`.
    #[must_use]
    pub fn convergence(labels: [String; 3], took: Span) -> Self {
        Self::Convergence { labels, bucket: bucket(took) }
    }
}

fn bucket(took: Span) -> usize {
    let seconds = took.seconds();
    LATENCY_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exemplar(at: i64) -> Exemplar {
        Exemplar {
            trace_id: format!("{at:032x}"),
            span_id: format!("{at:016x}"),
            value: 1.0,
            at: Timestamp(at),
        }
    }

    fn late(namespace: &str) -> Counted {
        Counted::Late { labels: ["g", "k", namespace, ""].map(str::to_owned) }
    }

    #[test]
    fn the_newest_exemplar_stays() {
        let exemplars = Exemplars::default();
        exemplars.note(late("a"), exemplar(2));
        exemplars.note(late("a"), exemplar(1));

        assert_eq!(exemplars.get(&late("a")), Some(exemplar(2)));

        exemplars.note(late("a"), exemplar(3));
        assert_eq!(exemplars.get(&late("a")), Some(exemplar(3)));
    }

    #[test]
    fn an_exemplar_of_a_clock_that_was_ahead_does_not_stay_until_that_time_comes() {
        let (exemplars, day) = (Exemplars::default(), Span::hours(24).0);
        exemplars.note(late("a"), exemplar(day));
        exemplars.note(late("a"), exemplar(1));

        assert_eq!(exemplars.get(&late("a")), Some(exemplar(1)));
    }

    #[test]
    fn the_oldest_exemplars_make_room() {
        let exemplars = Exemplars::default();
        for number in 0..MAX_EXEMPLARS + 10 {
            exemplars.note(late(&number.to_string()), exemplar(number as i64));
        }

        assert_eq!(exemplars.locked().len(), MAX_EXEMPLARS);
        assert_eq!(exemplars.get(&late("9")), None);
        assert!(exemplars.get(&late("10")).is_some());
    }

    #[test]
    fn a_duration_belongs_to_the_bucket_that_counts_it() {
        let labels = || ["g", "k", ""].map(str::to_owned);
        for (took, expected) in
            [(Span(0), 0), (Span(1000), 3), (Span(1001), 4), (Span::hours(48), 17)]
        {
            let bucket = match Counted::convergence(labels(), took) {
                Counted::Convergence { bucket, .. } => bucket,
                other => panic!("{other:?}"),
            };

            assert_eq!(bucket, expected);

            let mut histogram = loopwatch_model::histogram::Histogram::default();
            histogram.observe(took);

            let first = histogram.buckets().position(|(_, count)| count == 1);
            assert_eq!(first, Some(bucket));
        }
    }
}
