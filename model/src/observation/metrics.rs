//! The operator's own metrics, in one vocabulary for all frameworks.

use serde::{Deserialize, Serialize};

use super::omission::is_default;
use super::process::ProcessView;
use crate::time::Span;

/// One scrape of the operator's metrics. Signals that the framework does not expose are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsView {
    /// The instance.
    pub instance: String,
    /// The framework whose metrics these are.
    pub framework: Framework,
    /// Its controllers, ordered by name, at most [`MAX_CONTROLLERS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<ControllerView>,
    /// The number of controllers beyond that limit.
    #[serde(skip_serializing_if = "is_default")]
    pub controllers_left_out: u32,
    /// Its requests to the API server since its start, by HTTP status code; `<error>` stands for
    /// requests without an answer. At most [`MAX_CODES`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(String, u64)>,
    /// Of these requests, those that write and that the API server accepted, by HTTP method: `DELETE`,
    /// `PATCH`, `POST`, `PUT`. Empty if its metrics do not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<(String, u64)>,
    /// The calls of the webhooks that it serves since its start, by path. At most
    /// [`MAX_WEBHOOK_PATHS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<(String, Durations)>,
    /// Whether it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leading: Option<bool>,
    /// Whether it serves these metrics only to authenticated clients, or on loopback only.
    #[serde(skip_serializing_if = "is_default")]
    pub protected: bool,
    /// Its process, as its metrics describe it.
    pub process: ProcessView,
    /// The number of series that it sent.
    pub series: u64,
    /// The number of lines that loopwatch cannot use.
    #[serde(skip_serializing_if = "is_default")]
    pub lines_skipped: u64,
    /// What is wrong with its metrics, for people: the first problem and its line number, without
    /// quoting any content. Empty if nothing is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// The number of bytes that it sent.
    pub bytes: u64,
    /// How long the scrape took.
    pub took: Span,
    /// The time from this scrape to the next one; zero in recordings by older versions.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: Span,
}

/// A framework for operators.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    /// controller-runtime (Go), including Kubebuilder and the Operator SDK.
    ControllerRuntime,
    /// client-go's work queues without controller-runtime.
    ClientGo,
    /// Knative's controllers.
    Knative,
    /// The Java Operator SDK.
    JavaOperatorSdk,
    /// Strimzi.
    Strimzi,
    /// Operators of the Ansible Operator SDK.
    Ansible,
    /// kube-rs, with the metrics of its template.
    KubeRs,
    /// No known metrics of a control loop.
    #[default]
    Unknown,
}

/// A controller of the operator. Counters count since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerView {
    /// Name.
    pub name: String,
    /// Reconciles that succeeded, including those that asked for another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u64>,
    /// Reconciles that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Of the reconciles that succeeded, those that asked to be repeated, at once or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeued: Option<u64>,
    /// Reconciles that panicked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panicked: Option<u64>,
    /// Number and total duration of reconciles, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_seconds: Option<Durations>,
    /// Of these reconciles, the number that took no longer than each of [`RECONCILE_BOUNDS`], in
    /// their order; without the bounds that the framework does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reconcile_buckets: Vec<(f64, u64)>,
    /// Workers that reconcile now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_busy: Option<u64>,
    /// The maximum number of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_max: Option<u64>,
    /// Objects that wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u64>,
    /// Objects added to the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_adds: Option<u64>,
    /// Of these, those that first waited for a time: retries, and reconciles that the controller has
    /// scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_retries: Option<u64>,
    /// Number and total duration of waits in the queue, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_seconds: Option<Durations>,
    /// How long all unfinished reconciles have been running in total, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished_seconds: Option<f64>,
    /// How long the longest of them has been running, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_running_seconds: Option<f64>,
}

/// A number of durations and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    /// Number.
    pub count: u64,
    /// Sum in seconds.
    pub sum: f64,
}

/// The bounds of durations of reconciles, in seconds. Frameworks have up to 40, most of which tell
/// little more than these.
pub const RECONCILE_BOUNDS: [f64; 11] =
    [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The maximum number of controllers in a [`MetricsView`].
pub const MAX_CONTROLLERS: usize = 200;

/// The maximum number of webhooks in a [`MetricsView`].
pub const MAX_WEBHOOK_PATHS: usize = 64;

/// The maximum number of status codes in a [`MetricsView`].
pub const MAX_CODES: usize = 64;

impl Durations {
    /// Returns the mean in seconds; zero if there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean needs only a few digits")]
    pub fn mean(self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

impl Framework {
    /// Returns the value of the `framework` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControllerRuntime => "controller-runtime",
            Self::ClientGo => "client-go",
            Self::Knative => "knative",
            Self::JavaOperatorSdk => "java-operator-sdk",
            Self::Strimzi => "strimzi",
            Self::Ansible => "ansible",
            Self::KubeRs => "kube-rs",
            Self::Unknown => "unknown",
        }
    }
}
