//! The logs and metrics of loopwatch itself.

#[cfg(test)]
pub(crate) mod captured;
mod config;
mod exemplars;
mod fields;
mod labels;
mod process;
mod readings;
mod share;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use tracing_subscriber::EnvFilter;

pub use self::config::ConfigReads;
pub use self::exemplars::{Counted, Exemplar, Exemplars};
pub use self::labels::{
    AlertmanagerLabels, RebuildLabels, RebuiltPart, RequestLabels, ResultLabels, SendResult,
    UnreadLabels, UnreadPart,
};
pub use self::process::ProcessReadings;
pub use self::readings::{AllocatorReadings, Readings, RuntimeReadings};
pub(crate) use self::share::GaugeShare;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of this build, from `LOOPWATCH_REVISION` at build time; empty if that was not set.
pub const REVISION: &str = match option_env!("LOOPWATCH_REVISION") {
    Some(revision) => revision,
    None => "",
};

/// The default log filter. At warning level, kube-client logs the whole of every body that it
/// cannot decode, which would cost memory and could reveal secrets.
pub const DEFAULT_FILTER: &str = "info,kube_client::client=error";

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A failure to set up logging.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "{filter:?} is not a valid log filter ({error}); use, for example, info or loopwatch=debug"
    )]
    Filter { filter: String, error: tracing_subscriber::filter::ParseError },
    /// Logging has been set up before.
    #[error("logging is already set up")]
    AlreadySet,
}

/// Sends logs to standard error; standard output is for results.
///
/// # Errors
/// If `filter` is invalid, or logging is already set up.
pub fn init_logs(filter: &str, format: LogFormat) -> Result<(), LogError> {
    use std::io::IsTerminal as _;

    let parsed = EnvFilter::try_new(filter)
        .map_err(|error| LogError::Filter { filter: filter.to_owned(), error })?;
    let colours = std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let logs = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        // Otherwise, a failure to write a line is written to standard error, too, and panics.
        .log_internal_errors(false)
        .with_ansi(colours);

    let result = match format {
        LogFormat::Text => logs.fmt_fields(fields::quoted()).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };

    result.map_err(|_| LogError::AlreadySet)
}

/// Metrics of loopwatch itself, counted as events happen. Metrics of the cluster come from the
/// model.
#[derive(Debug)]
pub struct SelfMetrics {
    /// HTTP requests with a response.
    pub requests: Family<RequestLabels, Counter>,
    /// Durations of scrapes.
    pub render_seconds: Histogram,
    /// Observations in the channel to the model.
    pub channel_depth: Gauge,
    /// Results of reading the configuration.
    pub config: ConfigReads,
    /// Parts of the recording that the replay ignores.
    pub recording_unread: Family<UnreadLabels, Gauge>,
    /// Rebuilds after a panic.
    pub rebuilds: Family<RebuildLabels, Counter>,
    /// Requests to the webhook.
    pub notify_requests: Family<ResultLabels, Counter>,
    /// Alerts for Alertmanagers.
    pub alerting: AlertingMetrics,
    /// Spans for the collector.
    pub spans: Family<ResultLabels, Counter>,
    /// Requests to the collector.
    pub trace_requests: Family<ResultLabels, Counter>,
    /// Exemplars from traces that the collector has accepted.
    pub exemplars: Exemplars,
    /// The URLs to which alerts link: of the web page and of Grafana; empty if unset.
    pub links: [String; 3],
    /// Whether the exposition contains the numbers that the operator shows only to authenticated
    /// clients.
    pub exports_protected: bool,
}

/// The metrics of the alerts that loopwatch posts.
#[derive(Clone, Debug, Default)]
pub struct AlertingMetrics {
    /// Requests to Alertmanagers.
    pub requests: Family<AlertmanagerLabels, Counter>,
    /// Firing alerts.
    pub firing: Gauge,
    /// Alerts dropped for lack of room.
    pub dropped: Counter,
    /// Addresses of Alertmanagers beyond the limit, counted at each posting.
    pub addresses_dropped: Counter,
}

impl SelfMetrics {
    /// All metrics at zero.
    #[must_use]
    pub fn new() -> Self {
        // From a small snapshot (under a millisecond) to a scrape of a million objects.
        let bounds = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
        let rebuilds = Family::default();
        for part in RebuiltPart::ALL.iter().copied() {
            drop(rebuilds.get_or_create_owned(&RebuildLabels { part }));
        }

        Self {
            requests: Family::default(),
            render_seconds: Histogram::new(bounds),
            channel_depth: Gauge::default(),
            config: ConfigReads::default(),
            recording_unread: Family::default(),
            rebuilds,
            notify_requests: Family::default(),
            alerting: AlertingMetrics::default(),
            spans: Family::default(),
            trace_requests: Family::default(),
            exemplars: Exemplars::default(),
            links: <[String; 3]>::default(),
            exports_protected: false,
        }
    }
}

impl Default for SelfMetrics {
    fn default() -> Self {
        Self::new()
    }
}
