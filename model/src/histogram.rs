//! Classic Prometheus histograms with fixed bucket bounds.

/// Upper bounds in seconds for convergence, acknowledgement and finalizer removal: from a tenth of a
/// second, in which a fast controller acknowledges a change, to one day.
pub const LATENCY_BOUNDS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0,
    43_200.0, 86_400.0,
];

/// Upper bounds in seconds for how soon findings open, and how long they last: ten series for each
/// of up to sixty findings, twice. The thresholds of findings are minutes to an hour.
pub const FINDING_BOUNDS: &[f64] = &[10.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0];

/// Upper bounds in seconds for the delivery lag of watches. loopwatch aims at less than half a
/// second, so the bounds are densest below that.
pub const LAG_BOUNDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// A histogram: the number of values per bucket, and the sum of all values in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum_ms: u64,
}

impl Histogram {
    /// Returns an empty histogram. `bounds` are upper bounds in seconds, in ascending order; the
    /// bucket for infinity is added.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_ms: 0 }
    }

    /// Counts one value. A negative value falls into the first bucket and adds zero to the sum.
    pub fn observe(&mut self, value: crate::time::Span) {
        let seconds = value.seconds();
        let bucket =
            self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += 1;
        self.sum_ms = self.sum_ms.saturating_add(u64::try_from(value.0).unwrap_or(0));
    }

    /// Adds the values of another histogram with the same bounds.
    pub fn add(&mut self, other: &Self) {
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(count, more)| *count = count.saturating_add(*more));
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
    }

    /// Returns this histogram without the values of another one with the same bounds, which it
    /// contains.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let counts = self
            .counts
            .iter()
            .zip(&other.counts)
            .map(|(count, less)| count.saturating_sub(*less))
            .collect();
        Self { bounds: self.bounds, counts, sum_ms: self.sum_ms.saturating_sub(other.sum_ms) }
    }

    /// Yields the upper bound and the cumulative count of each bucket; the last bound is infinity.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        }))
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all values in seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum_ms as f64 / 1000.0
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(LATENCY_BOUNDS)
    }
}
