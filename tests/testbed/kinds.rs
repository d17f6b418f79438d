//! Watched kinds, for benchmarks and tests that feed a model without a cluster.

use loopwatch_model::observation::{Role, Scope, StatusSchema, WatchId, WatchedKind, Why};

/// A kind that is watched in all namespaces: a child kind as discovery watches it, metadata-only
/// and without foreign objects, any other one with its status.
#[must_use]
pub fn watched(group: &str, kind: &str, resource: &str, role: Role) -> WatchedKind {
    WatchedKind {
        watch: WatchId::new(group, resource, &Scope::AllNamespaces),
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
        scope: Scope::AllNamespaces,
        role,
        status: StatusSchema::Subresource,
        why: Why::StatusPermission,
        missing: Vec::new(),
        suspected: false,
        filtered: role == Role::Child,
        metadata_only: role == Role::Child,
        versions: Vec::new(),
    }
}
