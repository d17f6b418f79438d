//! What the users see of the account's permissions: those that it has, lacks and has in excess.

use std::collections::BTreeMap;

use loopwatch_model::observation::{
    LeftOut, MAX_GRANTED, Permission, PermissionsView, WatchedKind,
};

use super::needed::usual_writes;
use super::reviews::Reviews;
use super::withdrawn::Withdrawn;

/// Builds one view of the cluster, and one of each home or watched namespace.
pub(super) fn permissions(
    kinds: &[WatchedKind],
    excess: &[Permission],
    left_out: Vec<LeftOut>,
    reviews: &Reviews,
) -> Vec<PermissionsView> {
    let mut views = BTreeMap::new();
    let (granted, granted_left_out) = within_limit(reviews.everywhere.listed());
    let cluster = PermissionsView {
        excess: excess.to_vec(),
        granted,
        granted_left_out,
        left_out,
        ..PermissionsView::default()
    };
    views.insert(String::new(), cluster);

    let view = |namespace: &str| {
        let rules = reviews.namespaces().find(|(name, ..)| *name == namespace);
        let rules = rules.map(|(_, rules, _)| rules);
        let own = rules.map(|rules| rules.beyond(&reviews.everywhere).listed());
        let (granted, granted_left_out) = within_limit(own.unwrap_or_default());
        PermissionsView {
            namespace: namespace.to_owned(),
            incomplete: rules.is_some_and(|rules| rules.incomplete),
            granted,
            granted_left_out,
            ..PermissionsView::default()
        }
    };

    for (namespace, ..) in reviews.namespaces().filter(|(.., is_home)| *is_home) {
        views.insert(namespace.to_owned(), view(namespace));
    }

    for kind in kinds {
        let namespace = kind.scope.namespace().unwrap_or_default();
        let view = views.entry(namespace.to_owned()).or_insert_with(|| view(namespace));
        view.missing.extend(kind.missing.iter().map(|verb| Permission {
            verb: verb.clone(),
            group: kind.group.clone(),
            resource: kind.resource.clone(),
        }));
    }

    views.into_values().collect()
}

/// The permissions that a view has room for, and the number of the others.
fn within_limit(mut listed: Vec<Permission>) -> (Vec<Permission>, u32) {
    let left_out = listed.len().saturating_sub(MAX_GRANTED);
    listed.truncate(MAX_GRANTED);
    (listed, u32::try_from(left_out).unwrap_or(u32::MAX))
}

/// Adds the withdrawn permissions and the writes that the operator's kinds usually need to the
/// views, as far as the account lacks them.
pub(super) fn add_lacking(
    kinds: &[WatchedKind],
    reviews: &Reviews,
    withdrawn: &Withdrawn,
    views: &mut [PermissionsView],
) {
    let denies =
        |permission: &Permission, namespace: &str| reviews.is_denied(permission, namespace);
    let mut writes: Vec<(&str, [Permission; 2])> = kinds.iter().filter_map(usual_writes).collect();
    writes.retain(|(namespace, either)| either.iter().all(|p| denies(p, namespace)));

    for view in views {
        let of_view = |namespace: &str| namespace == view.namespace;
        let lost = withdrawn.suspects().filter(|(namespace, _)| of_view(namespace));
        view.withdrawn = lost
            .filter(|(namespace, permission)| denies(permission, namespace))
            .map(|(_, permission)| permission.clone())
            .collect();
        let unwritable = writes.iter().filter(|(namespace, _)| of_view(namespace));
        view.unwritable = unwritable.map(|(_, [update, _])| update.clone()).collect();
    }
}
