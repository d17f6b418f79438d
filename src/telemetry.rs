//! loopwatch about itself: its logs, and the metrics of its own process.

mod collect;
mod process;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as PerLabel;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use tracing_subscriber::EnvFilter;

use crate::export::catalog::Family;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of this build; empty when the builder did not say (`LOOPWATCH_REVISION` at build time).
pub const REVISION: &str = match option_env!("LOOPWATCH_REVISION") {
    Some(revision) => revision,
    None => "",
};

/// The log filter without a flag. kube-client logs whole bodies that it cannot decode, at warning: that would cost
/// memory and could show secrets.
pub const DEFAULT_FILTER: &str = "info,kube_client::client=error";

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error("{filter:?} is not a log filter ({error}); write for example info or loopwatch=debug")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        error: tracing_subscriber::filter::ParseError,
    },
    /// Somebody else has set it up.
    #[error("logging is already set up")]
    AlreadySet,
}

/// Sends logs to standard error, so that standard output stays for what was asked for.
///
/// # Errors
/// When `filter` cannot be read, or logging is already set up.
pub fn init_logs(filter: &str, format: LogFormat) -> Result<(), LogError> {
    use std::io::IsTerminal as _;

    let parsed = EnvFilter::try_new(filter).map_err(|error| LogError::Filter { filter: filter.to_owned(), error })?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr).with_ansi(colours);
    let result = match format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    result.map_err(|_| LogError::AlreadySet)
}

/// Counters and gauges of events inside loopwatch. Everything about the cluster is rendered from the model instead.
#[derive(Debug)]
pub struct SelfMetrics {
    registry: Registry,
    /// Answered HTTP requests.
    pub requests: PerLabel<RequestLabels, Counter>,
    /// How long scrapes took.
    pub render_seconds: Histogram,
    /// Observations that wait for the model.
    pub channel_depth: Gauge,
}

/// Labels of [`SelfMetrics::requests`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Which of our paths, or `other`.
    pub path: &'static str,
    /// The status code.
    pub code: u16,
}

// === impl SelfMetrics ===

impl SelfMetrics {
    /// A fresh registry with everything in it.
    #[must_use]
    pub fn new() -> Self {
        // From a small snapshot (under a millisecond) to every one of a million objects.
        let bounds = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
        let mut own = Self {
            registry: Registry::default(),
            requests: PerLabel::default(),
            render_seconds: Histogram::new(bounds),
            channel_depth: Gauge::<i64, std::sync::atomic::AtomicI64>::default(),
        };
        own.register(Family::HttpRequests, own.requests.clone());
        own.register(Family::RenderSeconds, own.render_seconds.clone());
        own.register(Family::ChannelDepth, own.channel_depth.clone());
        own.registry.register_collector(Box::new(collect::Collected));
        own
    }

    /// What the registry holds, as OpenMetrics text without its end.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails only if a metric does; then what was written before it is still good.
        let _ = prometheus_client::encoding::text::encode_registry(&mut text, &self.registry);
        text
    }

    /// Names and helps stand in the catalog only.
    fn register(&mut self, family: Family, metric: impl Metric) {
        let row = family.metric();
        self.registry.register(row.family_name(), row.help.trim_end_matches('.'), metric);
    }
}

impl Default for SelfMetrics {
    fn default() -> Self {
        Self::new()
    }
}
