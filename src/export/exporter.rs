//! What every exporter shares: the view of the model, how much of it is shown, and our own metrics.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use loopwatch_model::model::Model;
use tokio::sync::Semaphore;

use super::prometheus::{ObjectSeries, Render, TextFormat};
use super::view::View;
use crate::telemetry::SelfMetrics;

/// Scrapes rendered at the same time: two, so that a pair of Prometheus replicas need not wait for each other. More
/// would only use more memory and processor at once.
pub(super) const CONCURRENT_RENDERS: usize = 2;

/// How much is shown, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Which objects get series of their own.
    pub object_series: ObjectSeries,
    /// How many series of single objects a family may have, unless all were asked for.
    pub max_object_series: usize,
    /// Whether page and API answer other hosts too.
    pub expose_ui: bool,
}

/// Shows a model.
pub struct Exporter {
    pub(super) view: Arc<dyn View>,
    pub(super) options: ExportOptions,
    pub(super) metrics: Arc<SelfMetrics>,
    pub(super) renders: Arc<Semaphore>,
    series_dropped: AtomicU64,
}

// === impl Exporter ===

impl Exporter {
    /// Shows `model` as `options` say.
    #[must_use]
    pub fn new(model: Arc<Mutex<Model>>, metrics: Arc<SelfMetrics>, options: ExportOptions) -> Self {
        Self::of(model, metrics, options)
    }

    /// Shows any view.
    #[must_use]
    pub fn of(view: Arc<dyn View>, metrics: Arc<SelfMetrics>, options: ExportOptions) -> Self {
        let renders = Arc::new(Semaphore::new(CONCURRENT_RENDERS));
        Self { view, options, metrics, renders, series_dropped: AtomicU64::new(0) }
    }

    /// Our own metrics, for those who count.
    #[must_use]
    pub fn own(&self) -> &SelfMetrics {
        &self.metrics
    }

    /// Begins an exposition of what the model shows now.
    #[must_use]
    pub fn render(&self, format: TextFormat) -> Render {
        let ExportOptions { object_series, max_object_series, .. } = self.options;
        let (view, metrics) = (self.view.clone(), self.metrics.clone());
        Render::new(view, metrics, format, object_series, max_object_series, &self.series_dropped)
    }
}

// === impl ExportOptions ===

impl Default for ExportOptions {
    fn default() -> Self {
        Self { object_series: ObjectSeries::Unhealthy, max_object_series: 500, expose_ui: false }
    }
}
