//! The permissions that loopwatch and an operator need for a kind, and those that show that the kind is
//! the operator's own.

use loopwatch_model::observation::{Permission, Role, StatusSchema, WatchedKind, Why};

use crate::sources::api_server::api_resources::ApiKind;

/// The permissions to list and watch a resource.
pub(super) fn list_and_watch(group: &str, resource: &str) -> [Permission; 2] {
    ["list", "watch"].map(|verb| permission(verb, group, resource))
}

/// The permission to update the status of a resource.
pub(super) fn update_status(group: &str, resource: &str) -> Permission {
    permission("update", group, &format!("{resource}/status"))
}

/// The two verbs of which an operator usually needs one, and the namespace in which it needs it:
/// to write the status of its own kind, or an object that it creates for one.
pub(super) fn usual_writes(kind: &WatchedKind) -> Option<(&str, [Permission; 2])> {
    let resource = match kind.role {
        Role::Primary if shows_ownership(kind.why) && kind.status == StatusSchema::Subresource => {
            format!("{}/status", kind.resource)
        }
        Role::Child => kind.resource.clone(),
        _ => return None,
    };

    Some((kind.scope.namespace().unwrap_or_default(), update_or_patch(&kind.group, &resource)))
}

/// The permissions of which one shows that a kind is the operator's own; none if something else makes it a
/// primary kind: the user, or a status in its schema.
pub(super) fn ownership(kind: &ApiKind, why: Why) -> Option<[Permission; 2]> {
    let ApiKind { group, resource, .. } = kind;
    let subresource = match why {
        Why::StatusPermission => "status",
        Why::FinalizerPermission => "finalizers",
        _ => return None,
    };

    Some(update_or_patch(group, &format!("{resource}/{subresource}")))
}

/// Whether the account's permissions show that a kind is the operator's own.
pub(super) const fn shows_ownership(why: Why) -> bool {
    matches!(why, Why::StatusPermission | Why::FinalizerPermission)
}

fn update_or_patch(group: &str, resource: &str) -> [Permission; 2] {
    ["update", "patch"].map(|verb| permission(verb, group, resource))
}

fn permission(verb: &str, group: &str, resource: &str) -> Permission {
    Permission { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned() }
}
