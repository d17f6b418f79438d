//! Observations: all facts that loopwatch can learn about a cluster, as a closed set of types.
//!
//! An [`Observation`] is one fact. Sources make observations from watches, access reviews and
//! reads. With their times, they are the only input of the model. A recording holds one per line,
//! and a replay of these lines gives the same metrics and findings.
//!
//! Version 1 of the recorded form is permanent: variants and fields may be added, never removed or
//! renamed. A reader skips and counts lines that it does not understand. Fields that are absent,
//! empty or false are left out of the recorded form.

mod admission;
mod event;
mod failed_call;
mod holders;
mod kinds;
mod managers;
mod metrics;
mod namespace;
mod object;
mod omission;
mod operator;
mod process;
mod profile;
mod sources;

use serde::{Deserialize, Serialize};

pub use self::admission::{
    CaBundle, ConversionView, CoveredNamespaces, EndpointsView, MAX_RULES, MAX_WEBHOOKS,
    WebhookKind, WebhookRule, WebhookView,
};
pub use self::event::{EventView, MAX_EVENT_MESSAGE, MAX_EVENTS};
pub use self::failed_call::{CallFailure, Consulted, FailedCall};
pub use self::holders::pod_of_holder;
pub use self::kinds::{
    DefinitionView, LeaseView, LeftOut, MAX_GRANTED, PermissionsView, Role, Scope, StatusSchema,
    WatchId, WatchedKind, Why, is_built_in_group, names_kind,
};
pub use self::managers::{CLIENT_MANAGERS, GENERIC_MANAGERS};
pub use self::metrics::{
    ControllerView, Durations, Framework, MAX_CODES, MAX_CONTROLLERS, MAX_WEBHOOK_PATHS,
    MetricsView, RECONCILE_BOUNDS,
};
pub use self::namespace::NamespaceView;
pub use self::object::{
    Condition, ConditionStatus, Fact, FactValue, HandlerAttempts, Hashes, Manager,
    ManagerOperation, ObjectKey, ObjectView, Owned, OwnerReference, Pause, Reference, StartupRead,
    StatusShape,
};
pub use self::operator::{
    ContainerEnd, ContainerView, MAX_END_MESSAGE, MAX_PODS, OperatorView, OperatorWorkload,
    PodView, Revision,
};
pub use self::process::{ProcessView, Runtime};
pub use self::profile::{
    GrowingStack, MAX_FRAMES, MAX_STACKS, MAX_WAITING, ProfileKind, ProfileView, WaitingStack,
};
pub use self::sources::{
    Answer, Cause, Dependent, MAX_DEPENDENTS, MAX_FIELD_BYTES, MAX_FIELDS, ObjectAddress, Probe,
    SourceId,
};
pub use crate::group::with_group;
pub use crate::instance::InstanceName;
pub use crate::permission::Permission;

use crate::checkpoint::Checkpoint;
use crate::settings::Settings;
use crate::time::Timestamp;

/// One fact about the cluster, or about a source of such facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// The checkpoint of an earlier run: the first observation after a restart and of a recording
    /// segment.
    Restored(Box<Checkpoint>),
    /// The watches that should exist, including those that the account has no permission for.
    /// Replaces the earlier list.
    KindsDiscovered(Vec<WatchedKind>),
    /// A full list of one watch began. Objects that are not listed before the `ListEnded` of this
    /// epoch are gone.
    ListBegan {
        /// The watch, which determines the kind and the scope of the list.
        watch: WatchId,
        /// Increases with every list of this watch. The next `ListBegan` abandons an unfinished
        /// list.
        epoch: u64,
    },
    /// One object of the current list.
    Listed {
        /// The watch.
        watch: WatchId,
        /// The object as listed.
        object: Box<ObjectView>,
    },
    /// The list is complete.
    ListEnded {
        /// The watch.
        watch: WatchId,
        /// The epoch of the `ListBegan`.
        epoch: u64,
        /// The resource version of the list.
        version: String,
    },
    /// An object was added or modified.
    Applied {
        /// The watch.
        watch: WatchId,
        /// The object as it is now.
        object: Box<ObjectView>,
    },
    /// An object was deleted.
    Deleted {
        /// The watch.
        watch: WatchId,
        /// The object's namespace and name.
        key: ObjectKey,
        /// Its resource version at deletion.
        version: String,
    },
    /// A bookmark: the watch has delivered all changes up to `version`.
    Progressed {
        /// The watch.
        watch: WatchId,
        /// The resource version reached.
        version: String,
    },
    /// A source skipped an object that it could not read, and continued.
    Skipped {
        /// The source.
        source: SourceId,
        /// [`Cause::TooLarge`] or [`Cause::Undecodable`].
        cause: Cause,
    },
    /// A custom resource definition as it is now.
    DefinitionSeen(DefinitionView),
    /// A custom resource definition was deleted, by its name.
    DefinitionGone(String),
    /// All custom resource definitions have been listed; these are their names. Others no longer
    /// exist.
    DefinitionsListed(Vec<String>),
    /// The webhooks of one kind of configuration that have a Service in the namespace of the operator,
    /// or in a dump anywhere. Replaces the earlier list of this kind.
    WebhooksListed {
        /// The kind of configuration.
        kind: WebhookKind,
        /// The webhooks, at most [`MAX_WEBHOOKS`].
        webhooks: Vec<WebhookView>,
    },
    /// The endpoints of the Services of webhooks, as far as they have EndpointSlices. Replaces the earlier
    /// list. Nothing is known about the endpoints of other Services.
    EndpointsListed(Vec<EndpointsView>),
    /// All namespaces with annotations for loopwatch, and those that are being deleted. Replaces
    /// the earlier list.
    NamespacesListed(Vec<NamespaceView>),
    /// The current form of a namespace whose annotations for loopwatch or whose deletion changed.
    NamespaceSeen(NamespaceView),
    /// Such a namespace was deleted, by its name.
    NamespaceGone(String),
    /// The permissions of the account, missing and excessive.
    #[serde(rename = "rights_reviewed")]
    PermissionsReviewed(PermissionsView),
    /// A leader election lease as it is now. In recordings by older versions, a deleted lease has
    /// no holder.
    LeaseSeen(LeaseView),
    /// A lease was deleted.
    LeaseGone {
        /// Namespace of the lease.
        namespace: String,
        /// Name of the lease.
        name: String,
    },
    /// All leases of a namespace have been listed. Others no longer exist.
    LeasesListed {
        /// The namespace.
        namespace: String,
        /// The names of its leases.
        names: Vec<String>,
    },
    /// A Kubernetes Event about an object, new or changed.
    EventSeen {
        /// The watch of the object's kind.
        watch: WatchId,
        /// The Event as it is now.
        event: Box<EventView>,
    },
    /// The operator's workload and Pods as they are now. Replaces the earlier view.
    OperatorSeen(Box<OperatorView>),
    /// One scrape of the metrics of one instance of the operator.
    MetricsScraped(Box<MetricsView>),
    /// A scrape failed.
    ScrapeFailed {
        /// The instance.
        instance: String,
        /// The cause, from a closed list. [`Cause::Refused`] means that nothing listens there.
        cause: Cause,
        /// The error message, for people; cut to [`MAX_DETAIL`] bytes.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A process of the operator, as the kernel describes it.
    ProcessSeen(Box<ProcessView>),
    /// A process of the operator has ended.
    ProcessGone {
        /// The instance.
        instance: String,
    },
    /// The answer to a probe of the model.
    Answered {
        /// The probe.
        probe: Probe,
        /// The answer.
        answer: Answer,
    },
    /// Nobody has scraped `/metrics` of loopwatch for as long as the settings allow.
    ScrapesMissed {
        /// The end of the last scrape, or the start of loopwatch.
        since: Timestamp,
    },
    /// Somebody scrapes `/metrics` of loopwatch, or nobody has to.
    ScrapesSeen,
    /// A source failed and will retry.
    SourceFailed {
        /// The source that failed.
        source: SourceId,
        /// The cause, from a closed list.
        cause: Cause,
        /// The error message, for people; cut to [`MAX_DETAIL`] bytes.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A source works: it has started, or has recovered from a failure.
    SourceRecovered {
        /// The source that works.
        source: SourceId,
    },
    /// A source is off, because the account lacks an optional permission or the user switched it
    /// off.
    SourceOff {
        /// The source that is off.
        source: SourceId,
        /// The reason, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A source works, but cannot read everything that it should.
    SourceRestricted {
        /// The source that works.
        source: SourceId,
        /// What it cannot read, and why, for people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// The settings changed, because the user edited the configuration file. Replaces the earlier
    /// settings.
    SettingsChanged(Box<Settings>),
    /// The clock of the timestamps was set. The timestamp of this observation is the first under
    /// the new setting. An earlier timestamp `t` is `t + by_ms` under the new setting; times that
    /// others wrote, such as creation times, stay as they are.
    ///
    /// The clock follows the API server's, so setting the clock of the node has no effect. It is
    /// set at the first response of the API server if the node's clock is wrong, and later after a
    /// suspension of the machine or when the API server's clock is set. In recordings by older
    /// versions, it is the clock of the node.
    ClockStepped {
        /// Milliseconds by which the clock was set forward; negative if it was set back.
        by_ms: i64,
    },
    /// Time passed without another observation.
    Tick,
}

/// The largest object that a source reads, in bytes. By default etcd refuses requests over 1.5 MiB;
/// no known API server allows more than 8 MiB.
pub const MAX_OBJECT_BYTES: usize = 8 << 20;

/// The maximum length of [`Observation::SourceFailed`]'s `detail`, in bytes.
pub const MAX_DETAIL: usize = 512;
