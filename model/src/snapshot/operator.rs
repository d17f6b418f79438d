//! The operator itself, in a snapshot.

use std::sync::Arc;

use serde::Serialize;

use crate::observation::{Cause, Framework, MetricsView, OperatorView, ProcessView, Revision};
use crate::time::{Span, Timestamp};

use super::words::DownSign;

/// The operator, as far as loopwatch can see it.
#[derive(Clone, Debug, Default)]
pub struct OperatorSummary {
    /// Its workload and Pods; absent until they are read for the first time.
    pub view: Option<Arc<OperatorView>>,
    /// The revision in charge; empty if it is not known.
    pub revision: Revision,
    /// The label of the revision before that; absent if loopwatch has seen only one.
    pub previous_revision: Option<String>,
    /// The framework whose metrics it exposes.
    pub framework: Framework,
    /// Its health.
    pub health: OperatorHealth,
    /// The signs that it is gone; empty unless `OperatorDown` is open.
    pub down_signs: Vec<DownSign>,
    /// Its instances, ordered by name.
    pub instances: Vec<InstanceSummary>,
}

/// The health of the operator itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorHealth {
    /// Whether it is up; absent if nothing shows it.
    pub up: Option<bool>,
    /// How long the operator took after the last fault of the API server to drain its queues and
    /// converge its objects.
    pub recovery: Option<Span>,
    /// The end of the API server's fault from which the operator is now recovering.
    pub recovering_since: Option<Timestamp>,
    /// When another replica was last seen to lead. As a sidecar, loopwatch scrapes only its own
    /// replica, so it may not see why objects wait.
    pub led_elsewhere: Option<Timestamp>,
}

/// One instance of the operator.
#[derive(Clone, Debug, Default)]
pub struct InstanceSummary {
    /// Its name, an [`InstanceName`](crate::observation::InstanceName).
    pub name: String,
    /// The last scrape and its time.
    pub metrics: Option<(Timestamp, Arc<MetricsView>)>,
    /// Since when scrapes fail, and why; absent if the last one succeeded.
    pub scrape_failure: Option<(Timestamp, Cause)>,
    /// Its process, with each signal from the best source: the kernel, or its metrics.
    pub process: ProcessView,
    /// The same process as the kernel alone shows it; empty if loopwatch cannot see it there.
    pub by_kernel: ProcessView,
    /// Its recent past, oldest first, at most [`RECENT_POINTS`].
    pub recent: Vec<RecentPoint>,
}

/// An instance of the operator at an earlier time. Signals that were not available are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RecentPoint {
    /// The time.
    pub at: Timestamp,
    /// Reconciles per second, of all controllers.
    pub reconciles: Option<f32>,
    /// Failed reconciles per second, of all controllers.
    pub failures: Option<f32>,
    /// Objects that wait in all queues.
    pub queue_depth: Option<u32>,
    /// Its memory, in bytes: the live heap, else the anonymous memory, else the resident memory.
    pub memory: Option<u64>,
    /// Its tasks: goroutines, else threads.
    pub tasks: Option<u32>,
}

/// The maximum number of points of the recent past.
pub const RECENT_POINTS: usize = 120;
