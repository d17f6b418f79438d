//! Sources of observations, the causes of their failures, and the probes that the model may send to
//! them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kinds::WatchId;
use super::object::{ObjectKey, ObjectView};
use super::profile::{ProfileKind, ProfileView};

/// A source of observations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceId {
    /// The configuration: flags, environment and file.
    Config,
    /// API discovery and access reviews.
    Discovery,
    /// The watch of one kind in one scope, or of the custom resource definitions.
    Watch(WatchId),
    /// Counts of objects that the model asked for. The source fails only if its task does: a failed
    /// count is an [`Answer::Failed`].
    Audit,
    /// The operator's leader election leases.
    Lease,
    /// Objects that the model asked for. The source fails only if its task does: a failed read is
    /// an [`Answer::Failed`].
    Reads,
    /// The annotations and deletions of namespaces.
    Namespaces,
    /// The configurations of admission webhooks, and the endpoints of their Services.
    Webhooks,
    /// Kubernetes Events about objects of the primary kinds.
    Events,
    /// The operator's workload and Pods.
    Pods,
    /// The operator's own metrics.
    Metrics,
    /// The operator's processes.
    Process,
    /// The operator's profiles.
    Profiles,
    /// A dump: files from `kubectl get -o yaml|json`.
    #[serde(rename = "snapshot")]
    Dump,
}

/// The cause of a source's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// 403: the account lacks a permission.
    Forbidden,
    /// 401: the API server does not accept the credentials.
    Unauthorized,
    /// 404: the kind or object does not exist.
    NotFound,
    /// 410: the resource version is too old; a new list follows.
    Gone,
    /// 429: the API server limits the request rate.
    Throttled,
    /// 5xx: the API server failed.
    ServerError,
    /// No answer in time.
    Timeout,
    /// The connection could not be established, or broke.
    Connection,
    /// The peer refused the connection: nothing listens there.
    Refused,
    /// A TLS handshake failed, or a certificate is invalid.
    Tls,
    /// The answer could not be decoded.
    Undecodable,
    /// The answer was larger than the limit.
    TooLarge,
    /// The user's input is invalid.
    Invalid,
    /// Any other cause.
    Other,
}

/// A question that the model asks the sources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// How many objects does the API server have in the scope of this watch, and at which resource
    /// version?
    Count(WatchId),
    /// Does this object exist, and what is its metadata?
    Read(ObjectAddress),
    /// Which objects name this one as an owner?
    Dependents {
        /// The owner.
        owner: ObjectAddress,
        /// Its UID.
        uid: String,
    },
    /// In which fields do the next versions of this object differ?
    Fields {
        /// A watch of the object.
        watch: WatchId,
        /// The object.
        object: ObjectKey,
    },
    /// Which stacks of this instance grow?
    Profile {
        /// The instance.
        instance: String,
        /// The kind of profile.
        kind: ProfileKind,
    },
}

/// The kind, namespace and name of an object. The sources find out which version and resource to
/// read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectAddress {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// An object that names another one as an owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependent {
    /// API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Its metadata.
    #[serde(flatten)]
    pub object: ObjectView,
}

/// The maximum number of objects in [`Answer::Dependents`].
pub const MAX_DEPENDENTS: usize = 500;

/// The maximum number of fields in [`Answer::Fields`].
pub const MAX_FIELDS: usize = 5;

/// The maximum length of a field in [`Answer::Fields`], in bytes.
pub const MAX_FIELD_BYTES: usize = 128;

/// The answer to a [`Probe`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The number of objects at one resource version.
    Counted {
        /// Number of objects.
        objects: u64,
        /// The list's resource version.
        version: String,
    },
    /// The object exists; this is its metadata.
    Found(Box<ObjectView>),
    /// The API server serves the kind, but there is no such object.
    Absent,
    /// The API server serves no such kind.
    KindUnknown,
    /// The dependents of an object.
    Dependents {
        /// The dependents that the sources found, at most [`MAX_DEPENDENTS`].
        found: Vec<Dependent>,
        /// Whether these are all: every kind that may have dependents was readable, and there are
        /// no more.
        complete: bool,
    },
    /// The paths of the fields that differ, such as `status.conditions[Ready].lastTransitionTime`, the most
    /// frequent first; at most [`MAX_FIELDS`]. Empty if there were no versions.
    Fields(Vec<String>),
    /// Two profiles, compared.
    Profiled(Box<ProfileView>),
    /// The sources could not get the answer.
    Failed(Cause),
}

impl fmt::Display for ObjectAddress {
    /// Writes the object for people, without its group: `Widget team-a/web`, or `Node a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

impl Dependent {
    /// Returns the address of the object.
    #[must_use]
    pub fn address(&self) -> ObjectAddress {
        ObjectAddress {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.object.key.namespace.clone(),
            name: self.object.key.name.clone(),
        }
    }
}

impl fmt::Display for SourceId {
    /// Writes the value of the `source` label, for example `watch/widgets.example.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("config"),
            Self::Discovery => f.write_str("discovery"),
            Self::Watch(watch) => write!(f, "watch/{watch}"),
            Self::Audit => f.write_str("audit"),
            Self::Reads => f.write_str("reads"),
            Self::Lease => f.write_str("lease"),
            Self::Namespaces => f.write_str("namespaces"),
            Self::Webhooks => f.write_str("webhooks"),
            Self::Events => f.write_str("events"),
            Self::Pods => f.write_str("pods"),
            Self::Metrics => f.write_str("metrics"),
            Self::Process => f.write_str("process"),
            Self::Profiles => f.write_str("profiles"),
            Self::Dump => f.write_str("snapshot"),
        }
    }
}

impl Cause {
    /// Returns the value of the `cause` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Refused => "refused",
            Self::Tls => "tls",
            Self::Undecodable => "undecodable",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
