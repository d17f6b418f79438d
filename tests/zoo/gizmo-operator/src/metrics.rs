//! The metrics of an operator that began with the template of kube-rs. kube-rs has none of its own.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    instance: String,
    error: String,
}

pub struct Metrics {
    registry: Registry,
    runs: Counter,
    failures: Family<Failure, Counter>,
    duration: Histogram,
}

/// Measures a reconcile until it is dropped.
pub struct Timer<'a> {
    metrics: &'a Metrics,
    began: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        let duration = Histogram::new([0.01, 0.1, 0.25, 0.5, 1., 5., 15., 60.]);
        let (runs, failures) = (Counter::default(), Family::default());
        let mut registry = Registry::with_prefix("gizmo_ctrl_reconcile");
        registry.register("runs", "reconciliations", runs.clone());
        registry.register("failures", "reconciliation errors", failures.clone());
        registry.register_with_unit("duration", "reconcile duration", Unit::Seconds, duration.clone());

        Self { registry, runs, failures, duration }
    }
}

impl Metrics {
    pub fn count_and_measure(&self) -> Timer<'_> {
        self.runs.inc();
        Timer { metrics: self, began: Instant::now() }
    }

    pub fn count_failure(&self, instance: String, error: String) {
        self.failures.get_or_create(&Failure { instance, error }).inc();
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = encode(&mut text, &self.registry); // writing to a text does not fail
        text
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.metrics.duration.observe(self.began.elapsed().as_secs_f64());
    }
}
