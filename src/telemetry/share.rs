//! A gauge that several tasks share: it shows the sum of their parts.

use prometheus_client::metrics::gauge::Gauge;

/// The part of one task. It ends with the task.
#[derive(Debug, Default)]
pub(crate) struct GaugeShare {
    gauge: Gauge,
    part: i64,
}

impl GaugeShare {
    pub(crate) fn of(gauge: &Gauge) -> Self {
        Self { gauge: gauge.clone(), part: 0 }
    }

    pub(crate) fn set(&mut self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.gauge.inc_by(value.saturating_sub(self.part));
        self.part = value;
    }
}

impl Drop for GaugeShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_shows_the_sum_of_all_parts() {
        let gauge = Gauge::default();
        let (mut one, mut other) = (GaugeShare::of(&gauge), GaugeShare::of(&gauge));
        one.set(3);
        other.set(4);
        one.set(1);
        assert_eq!(gauge.get(), 5);

        drop(other);
        assert_eq!(gauge.get(), 1);
    }
}
