//! The jobs of the supervisor's tasks, each with the source that it reports about.

use loopwatch_model::observation::{SourceId, WatchId, WebhookKind};

use crate::sources::api_server::Definitions;

/// The job of one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// Watches the objects of a kind.
    Watch(WatchId),
    Definitions,
    Lease,
    Namespaces,
    /// Reads the conditions of namespaces that are being deleted.
    Terminating,
    /// Watches the configurations of admission webhooks.
    Webhooks(WebhookKind),
    /// Watches the endpoints of their Services.
    Endpoints,
    /// Watches Kubernetes Events about the objects of this watch.
    Events(WatchId),
    /// Follows the operator's workload and Pods.
    Pods,
    Audit,
    Reads,
    /// Finds out which fields change.
    Fields,
    Metrics,
    /// Compares profiles.
    Profiles,
    /// Reads the operator's process.
    Process,
}

impl Job {
    /// The source that fails if this job fails.
    pub(super) fn source(&self) -> SourceId {
        match self {
            Self::Watch(watch) => SourceId::Watch(watch.clone()),
            Self::Definitions => SourceId::Watch(Definitions::watch()),
            Self::Lease => SourceId::Lease,
            Self::Namespaces | Self::Terminating => SourceId::Namespaces,
            Self::Webhooks(_) | Self::Endpoints => SourceId::Webhooks,
            Self::Events(_) => SourceId::Events,
            Self::Pods => SourceId::Pods,
            Self::Audit => SourceId::Audit,
            Self::Reads | Self::Fields => SourceId::Reads,
            Self::Metrics => SourceId::Metrics,
            Self::Profiles => SourceId::Profiles,
            Self::Process => SourceId::Process,
        }
    }

    /// Whether it gets only a watch that the kinds leave.
    pub(super) fn gives_way(&self) -> bool {
        matches!(self, Self::Webhooks(_) | Self::Endpoints)
    }

    /// Whether it holds a connection that counts towards `--max-watches`. The watches of Events get
    /// only what the others leave.
    pub(super) fn counts_as_watch(&self) -> bool {
        matches!(
            self,
            Self::Watch(_)
                | Self::Definitions
                | Self::Lease
                | Self::Namespaces
                | Self::Webhooks(_)
                | Self::Endpoints
                | Self::Pods
        )
    }
}
