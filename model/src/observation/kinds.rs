//! What is watched, why, and with which rights.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::object::Condition;
use crate::time::{Span, Timestamp};

/// Names one watch: a kind in one scope. Written `widgets.example.io` for the whole cluster and
/// `widgets.example.io/team-a` for one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WatchId(pub std::sync::Arc<str>);

/// One kind in one scope that loopwatch watches or would like to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedKind {
    /// The name of this watch.
    pub watch: WatchId,
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The version that is read.
    pub version: String,
    /// Kind, for example `Widget`.
    pub kind: String,
    /// Plural resource name, for example `widgets`.
    pub resource: String,
    /// The scope of the watch.
    pub scope: Scope,
    /// Why the kind matters.
    pub role: Role,
    /// How the kind reports status, as its definition says.
    #[serde(default)]
    pub status: StatusSchema,
    /// Why it is watched.
    pub why: Why,
    /// Verbs that were asked for and refused: not empty means that this scope cannot be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Where a watch looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A cluster-scoped kind.
    Cluster,
    /// A namespaced kind, in all namespaces.
    AllNamespaces,
    /// A namespaced kind, in this namespace.
    Namespace(String),
}

/// Why a kind matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The operator owes its objects something: it writes their status.
    Primary,
    /// The operator creates such objects for its primaries.
    Child,
}

/// How a kind reports status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusSchema {
    /// Through the status subresource.
    Subresource,
    /// In the schema, but without a subresource: status writes raise the generation.
    InBody,
    /// Not at all.
    None,
    /// Not known: no definition could be read.
    #[default]
    Unknown,
}

/// Why a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Named by flag or file.
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
    /// A custom resource with a status (`check` looks at all of them).
    HasStatus,
    /// It stands in the dump that is judged.
    #[serde(rename = "in_snapshot")]
    InDump,
}

/// What loopwatch reads of a custom resource definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefinitionView {
    /// `plural.group`.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Versions the API server serves.
    pub served: Vec<String>,
    /// The version in which objects are stored.
    pub storage: String,
    /// Versions in which objects may still be stored.
    pub stored: Vec<String>,
    /// How the storage version reports status.
    pub status: StatusSchema,
    /// `Established`, `NamesAccepted`, `NonStructuralSchema`, `Terminating` …
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When its deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
}

/// What the account may and may not do, in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionsView {
    /// Empty for the whole cluster.
    pub namespace: String,
    /// The API server could not list all rules: what is not listed may still be allowed.
    pub incomplete: bool,
    /// Rights that a source needs and does not have.
    pub missing: Vec<Permission>,
    /// Permissions that no operator needs: wildcards.
    pub excess: Vec<Permission>,
}

/// A verb on a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Permission {
    /// `list`, `watch`, `*` …
    pub verb: String,
    /// API group; empty for the core group, `*` for all.
    pub group: String,
    /// Plural resource, with `/subresource`.
    pub resource: String,
}

/// A leader election lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseView {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who holds it; empty when nobody does.
    pub holder: String,
    /// When it was last renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Timestamp>,
    /// For how long a renewal counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How often the holder changed.
    pub transitions: i64,
}

// === impl WatchId ===

impl WatchId {
    /// Names the watch of `resource` in `scope`.
    #[must_use]
    pub fn new(group: &str, resource: &str, scope: &Scope) -> Self {
        let dot = if group.is_empty() { "" } else { "." };
        let id = match scope {
            Scope::Namespace(namespace) => format!("{resource}{dot}{group}/{namespace}"),
            Scope::Cluster | Scope::AllNamespaces => format!("{resource}{dot}{group}"),
        };
        Self(id.into())
    }
}

impl fmt::Display for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Scope ===

impl Scope {
    /// The namespace of a namespaced scope.
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

// === impl Permission ===

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}")
    }
}
