//! The permissions of the operator's account, compared with its writes. The managed fields of objects
//! show creations and changes. Nothing shows reads, deletions, or writes of objects that loopwatch does
//! not watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::Model;
use crate::observation::{Permission, PermissionsView};
use crate::snapshot::{Right, RightUse, Rights};
use crate::time::Timestamp;

/// The verbs whose use the managed fields show.
const SEEN_VERBS: [&str; 3] = ["create", "update", "patch"];

/// The subresources whose writes the managed fields name. Empty stands for the object itself.
const SEEN_SUBRESOURCES: [&str; 3] = ["", "status", "scale"];

impl Model {
    /// Returns the permissions of the operator's account, and which of them it has been seen to use.
    #[must_use]
    pub fn rights(&self) -> Rights {
        let managers: BTreeSet<&Arc<str>> =
            self.operator.operator_writers(&self.world).map(|(name, _)| name).collect();
        let used = self.used_permissions(&managers);
        let views = self.world.permissions.values();
        let granted = views.clone().flat_map(|view| self.rights_of(view, &used)).collect();

        Rights {
            from: used.values().map(|(first, _)| *first).min(),
            until: self.world.now,
            managers: managers.into_iter().map(ToString::to_string).collect(),
            granted,
            is_incomplete: views.clone().any(|view| view.incomplete),
            left_out: views.map(|view| u64::from(view.granted_left_out)).sum(),
        }
    }

    /// Returns each permission that a write of these managers has probably used, with the first and
    /// the last of these writes.
    fn used_permissions(
        &self,
        managers: &BTreeSet<&Arc<str>>,
    ) -> BTreeMap<Permission, (Timestamp, Timestamp)> {
        let mut used = BTreeMap::new();
        let mut note = |permission: Permission, at: Timestamp| {
            let (first, last) = used.entry(permission).or_insert((at, at));
            (*first, *last) = (at.min(*first), at.max(*last));
        };

        for kind in &self.world.kinds {
            for write in kind.writes.known.iter().filter(|w| managers.contains(&w.manager)) {
                let resource = match &*write.subresource {
                    "" => kind.resource.clone(),
                    subresource => format!("{}/{subresource}", kind.resource),
                };
                for verb in write.way.verbs() {
                    note(permission(verb, &kind.group, &resource), write.at);
                }
            }
        }

        for alive in self.operator.leases_alive() {
            for verb in ["update", "patch"] {
                note(permission(verb, "coordination.k8s.io", "leases"), alive);
            }
        }

        used
    }

    fn rights_of<'a>(
        &'a self,
        view: &'a PermissionsView,
        used: &'a BTreeMap<Permission, (Timestamp, Timestamp)>,
    ) -> impl Iterator<Item = Right> + 'a {
        view.granted.iter().map(move |permission| {
            let covered = || used.iter().filter(|(used, _)| permission.includes(used));
            let last = covered().map(|(_, (_, last))| *last).max();
            let is_wildcard = permission.is_wildcard();
            let seen = covered().filter(|_| is_wildcard).map(|(used, _)| used.clone()).collect();

            let r#use = match last {
                _ if is_wildcard => RightUse::Wildcard,
                Some(_) => RightUse::Used,
                None if self.shows_use(permission) => RightUse::NotSeen,
                None => RightUse::NotVisible,
            };
            let (namespace, permission) = (view.namespace.clone(), permission.clone());
            Right { namespace, permission, r#use, last, seen }
        })
    }

    /// Returns whether objects that loopwatch watches would show a use of the permission.
    fn shows_use(&self, permission: &Permission) -> bool {
        let Permission { verb, group, resource } = permission;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let is_watched = || {
            self.world.watches.iter().any(|watch| {
                let kind = &self.world.kinds[usize::from(watch.kind)];
                let is_same = *kind.group == **group && kind.resource == resource;
                is_same && watch.active && watch.lists.synced && !kind.writes.are_left_out
            })
        };

        SEEN_VERBS.contains(&verb.as_str())
            && SEEN_SUBRESOURCES.contains(&subresource)
            && is_watched()
    }
}

fn permission(verb: &str, group: &str, resource: &str) -> Permission {
    Permission { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned() }
}
