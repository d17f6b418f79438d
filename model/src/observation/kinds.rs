//! Watched kinds, their definitions, the account's permissions, and leases.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::admission::ConversionView;
use super::object::Condition;
use super::omission::is_default;
use crate::group::with_group;
use crate::permission::Permission;
use crate::time::{Span, Timestamp};

/// The name of a watch, that is, of one kind in one scope: `widgets.example.io` for the whole
/// cluster, `widgets.example.io/team-a` for one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WatchId(pub std::sync::Arc<str>);

/// One kind in one scope that loopwatch watches, or would watch if it had the permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedKind {
    /// The name of this watch.
    pub watch: WatchId,
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The API version that loopwatch reads.
    pub version: String,
    /// Kind, for example `Widget`.
    pub kind: String,
    /// Plural resource name, for example `widgets`.
    pub resource: String,
    /// The scope of the watch.
    pub scope: Scope,
    /// The kind's role.
    pub role: Role,
    /// How the kind reports status, according to its definition.
    #[serde(default)]
    pub status: StatusSchema,
    /// Why loopwatch watches the kind.
    pub why: Why,
    /// Verbs that the API server denies. If there are any, loopwatch cannot watch this scope.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether nothing shows that this operator serves the kind: its account may write all kinds,
    /// none of the sampled objects has a status or a finalizer of this operator, and no lease names
    /// the kind's domain. Findings about such a kind are only suspected.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspected: bool,
    /// Whether the watch reports only the objects that belong to a primary kind. Their number then
    /// differs from that of the API server, so audits do not apply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filtered: bool,
    /// Whether the watch reads only the metadata of the objects, so that their status is unknown.
    /// Recordings by older versions leave it out, although they hold only the metadata of children.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata_only: bool,
    /// All versions in which the API server serves the kind; empty in dumps, and in recordings by
    /// older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
}

/// The scope of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A cluster-scoped kind.
    Cluster,
    /// A namespaced kind, in all namespaces.
    #[default]
    AllNamespaces,
    /// A namespaced kind, in this namespace.
    Namespace(String),
}

/// The role of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A primary kind: the operator writes the status of its objects.
    #[default]
    Primary,
    /// A child kind: the operator creates its objects for its primaries.
    Child,
}

/// How a kind reports status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusSchema {
    /// Through the status subresource.
    Subresource,
    /// In the schema, but without the subresource: each status write increments
    /// `metadata.generation`.
    InBody,
    /// The kind has no status.
    None,
    /// Unknown: loopwatch could not read a definition.
    #[default]
    Unknown,
}

/// Why loopwatch watches a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The user named it by flag or file.
    Configured,
    /// The account may write its status.
    #[serde(rename = "status_right")]
    StatusPermission,
    /// The account may write its finalizers.
    #[serde(rename = "finalizer_right")]
    FinalizerPermission,
    /// The account may create it.
    #[serde(rename = "create_right")]
    CreatePermission,
    /// The kind is a custom resource. `check`, `record --all`, and accounts that may only read or
    /// may write all kinds watch all custom resources.
    HasStatus,
    /// The dump contains objects of the kind.
    #[serde(rename = "in_snapshot")]
    InDump,
}

/// The part of a custom resource definition that loopwatch reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefinitionView {
    /// `plural.group`.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Versions that the API server serves.
    pub served: Vec<String>,
    /// The storage version.
    pub storage: String,
    /// `status.storedVersions`: versions in which objects may still be stored.
    pub stored: Vec<String>,
    /// How the storage version reports status.
    pub status: StatusSchema,
    /// Whether the API server drops the status of every object: the storage version has a status
    /// subresource, but its schema declares no field of the status.
    #[serde(skip_serializing_if = "is_default")]
    pub drops_status: bool,
    /// The parts of an object in which the storage version keeps fields that its schema does not
    /// declare: `root`, `spec` or `status`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keeps_unknown: Vec<String>,
    /// The webhook that converts its objects; absent if it has none, or one with a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversion: Option<ConversionView>,
    /// Its conditions: `Established`, `NamesAccepted`, `NonStructuralSchema`, `Terminating` and
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// `metadata.creationTimestamp`; absent in recordings by older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
}

/// Returns whether an owner reference that says `text` names this kind. The garbage collector also
/// resolves a kind in lower case.
#[must_use]
pub fn names_kind(text: &str, kind: &str) -> bool {
    text == kind
        || (text.eq_ignore_ascii_case(kind) && !text.contains(|c: char| c.is_ascii_uppercase()))
}

/// Returns whether an API group is one of Kubernetes itself. Any other group belongs to an
/// operator.
#[must_use]
pub fn is_built_in_group(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// The permissions of the account in one scope, compared with what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionsView {
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Whether the API server could not list all rules, so verbs that are not listed may still be
    /// allowed.
    pub incomplete: bool,
    /// Permissions that a source needs and the account does not have.
    pub missing: Vec<Permission>,
    /// Permissions that hardly any operator needs: those with wildcards.
    pub excess: Vec<Permission>,
    /// Permissions that an earlier review showed and the latest one does not, the oldest withdrawal
    /// first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withdrawn: Vec<Permission>,
    /// Writes that an operator of the watched kinds usually needs and the account may not do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwritable: Vec<Permission>,
    /// All permissions that the rules of this scope list, sorted, at most [`MAX_GRANTED`]; those of
    /// a namespace without those of the cluster. `*` stands for all verbs, groups or resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Permission>,
    /// The number of permissions beyond that limit.
    #[serde(skip_serializing_if = "is_default")]
    pub granted_left_out: u32,
    /// Parts of the cluster that loopwatch leaves out although the account may read them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// The maximum number of granted permissions in a [`PermissionsView`].
pub const MAX_GRANTED: usize = 1_000;

/// A part of the cluster that loopwatch leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// The part, for people. Sources name numbers and kinds, but no objects or namespaces.
    pub what: String,
    /// The reason, for people.
    pub why: String,
}

/// A leader election lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseView {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// The holder's identity; empty if nobody holds the lease.
    pub holder: String,
    /// `spec.acquireTime`: when the holder began to lead, according to the operator's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquired: Option<Timestamp>,
    /// `spec.renewTime`, according to the operator's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Timestamp>,
    /// When `renewTime` was written, according to the API server's clock: from
    /// `metadata.managedFields`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Timestamp>,
    /// `spec.leaseDurationSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// `spec.leaseTransitions`: how many times the holder changed.
    pub transitions: i64,
}

impl WatchId {
    /// Returns the name of the watch of `resource` in `scope`.
    #[must_use]
    pub fn new(group: &str, resource: &str, scope: &Scope) -> Self {
        let resource = with_group(resource, group);
        let id = match scope {
            Scope::Namespace(namespace) => format!("{resource}/{namespace}"),
            Scope::Cluster | Scope::AllNamespaces => resource,
        };

        Self(id.into())
    }
}

impl fmt::Display for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Scope {
    /// Returns the namespace, if the scope is one namespace.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(namespace) => Some(namespace),
            Self::Cluster | Self::AllNamespaces => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::AllNamespaces => f.write_str("all namespaces"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
        }
    }
}
