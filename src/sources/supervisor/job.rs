//! The jobs of the supervisor's tasks, each with the source that it reports about.

use loopwatch_model::observation::{SourceId, WatchId};

use crate::sources::api_server::Definitions;

/// The job of one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Watch(WatchId),
    Definitions,
    Lease,
    Namespaces,
    /// Kubernetes Events about the objects of this watch.
    Events(WatchId),
    /// The operator's workload and Pods.
    Pods,
    /// Reads the conditions of namespaces that are being deleted.
    Terminating,
    Audit,
    Reads,
    Metrics,
    /// Compares profiles.
    Profiles,
    /// Reads the operator's process.
    Process,
}

impl Job {
    /// The source that fails if this job fails.
    pub(crate) fn source(&self) -> SourceId {
        match self {
            Self::Watch(watch) => SourceId::Watch(watch.clone()),
            Self::Definitions => SourceId::Watch(Definitions::watch()),
            Self::Lease => SourceId::Lease,
            Self::Namespaces | Self::Terminating => SourceId::Namespaces,
            Self::Events(_) => SourceId::Events,
            Self::Pods => SourceId::Pods,
            Self::Audit => SourceId::Audit,
            Self::Reads => SourceId::Reads,
            Self::Metrics => SourceId::Metrics,
            Self::Profiles => SourceId::Profiles,
            Self::Process => SourceId::Process,
        }
    }
}
