//! Estimates quantiles of histograms.

use loopwatch_model::histogram::Histogram;
use loopwatch_model::time::Span;

/// The quantile `q`, estimated as in Prometheus: linearly within its bucket. `None` without values,
/// or if the quantile is beyond the last bucket.
#[must_use]
pub(crate) fn quantile(histogram: &Histogram, q: f64) -> Option<Span> {
    let total = histogram.count();
    if total == 0 {
        return None;
    }

    let rank = q * total as f64;
    let (mut lower, mut below) = (0.0, 0);
    for (bound, count) in histogram.buckets() {
        if count as f64 >= rank && count > below {
            let part = (rank - below as f64) / (count - below) as f64;
            let seconds = lower + (bound - lower) * part;
            return bound.is_finite().then_some(Span((seconds * 1000.0) as i64));
        }

        (lower, below) = (bound, count);
    }

    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_estimated_as_in_prometheus() {
        let mut histogram = Histogram::default();
        assert_eq!(quantile(&histogram, 0.5), None);

        for _ in 0..10 {
            histogram.observe(Span::secs(7)); // the bucket from 5 to 10
        }

        assert_eq!(quantile(&histogram, 0.5), Some(Span(7_500)));

        histogram.observe(Span::hours(100));
        assert_eq!(quantile(&histogram, 0.99), None, "beyond the last bound");
    }
}
