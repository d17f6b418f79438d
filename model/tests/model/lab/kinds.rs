//! Watches of kinds.

use loopwatch_model::observation::{Role, Scope, StatusSchema, WatchId, WatchedKind, Why};

/// The group of the operator's kinds.
pub const GROUP: &str = "example.io";

/// Returns the watch of all widgets, which is the only one of a new lab.
pub fn kind() -> WatchedKind {
    primary(GROUP, "Widget")
}

pub fn watch() -> WatchId {
    WatchId("widgets.example.io".into())
}

/// Returns the watch of widgets in one namespace.
pub fn namespaced(namespace: &str) -> WatchedKind {
    watched(Role::Primary, GROUP, "Widget", Scope::Namespace(namespace.into()))
}

/// Returns the watch of a kind of the operator other than the widgets.
pub fn other_kind(kind: &str) -> WatchedKind {
    primary(GROUP, kind)
}

/// Returns the watch of a kind as it is without the permission to list.
pub fn forbidden(kind: WatchedKind) -> WatchedKind {
    WatchedKind { missing: vec!["list".into()], ..kind }
}

/// Returns the watch of a kind of the operator.
pub fn primary(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Primary, group, kind, Scope::AllNamespaces)
}

/// Returns the watch of those objects of a kind that belong to primary objects.
pub fn child(group: &str, kind: &str) -> WatchedKind {
    watched(Role::Child, group, kind, Scope::AllNamespaces)
}

/// Returns the watch of the `ConfigMaps` that belong to primary objects.
pub fn config_maps() -> WatchedKind {
    child("", "ConfigMap")
}

/// Returns the watch of the Deployments that belong to primary objects.
pub fn deployments() -> WatchedKind {
    child("apps", "Deployment")
}

pub fn watched(role: Role, group: &str, kind: &str, scope: Scope) -> WatchedKind {
    let resource = format!("{}s", kind.to_lowercase());
    WatchedKind {
        watch: WatchId::new(group, &resource, &scope),
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        resource,
        scope,
        role,
        status: StatusSchema::Subresource,
        why: if role == Role::Child { Why::CreatePermission } else { Why::StatusPermission },
        missing: Vec::new(),
        suspected: false,
        filtered: role == Role::Child,
        metadata_only: false,
        versions: Vec::new(),
    }
}
