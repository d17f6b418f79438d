//! The versions in which the API server serves kinds.
//!
//! The garbage collector resolves an owner in the version that the reference names. If a definition
//! no longer serves that version, it deletes none of the children.

use std::collections::BTreeMap;

use crate::model::world::World;
use crate::model::world::kinds::kind_name;
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::Slot;

/// The versions by kind.
#[derive(Debug, Default)]
pub(crate) struct ServedVersions {
    /// Sorted, by kind, as `group/Kind`. At most [`MAX_KINDS`].
    kinds: BTreeMap<String, Vec<String>>,
}

const MAX_KINDS: usize = 2_000;

impl World {
    /// Remembers the versions in which the API server serves a kind, and reviews the children of
    /// its objects if they have changed. Without versions, nothing is known.
    pub(crate) fn note_served_versions(&mut self, group: &str, kind: &str, versions: &[String]) {
        // Discovery lists them in order of preference, a definition in its own.
        let mut versions = versions.to_vec();
        versions.sort_unstable();
        versions.dedup();

        let name = kind_name(group, kind);
        let known = &mut self.served_versions.kinds;
        let is_full = known.len() >= MAX_KINDS && !known.contains_key(&name);
        if versions.is_empty() || is_full || known.get(&name) == Some(&versions) {
            return;
        }

        known.insert(name, versions);
        let names_kind = |owner: &Owner| self.owner_kind(owner) == (group, kind);
        let children: Vec<Slot> = self
            .store
            .iter()
            .filter(|(_, record)| record.owners().iter().any(names_kind))
            .map(|(slot, _)| slot)
            .collect();
        self.agenda.objects.extend(children);
    }

    /// Returns whether the API server does not serve the version of an owner that its reference
    /// names.
    pub(crate) fn is_unserved(&self, owner: &Owner) -> bool {
        let (kind, version) = self.owner_version(owner);
        let served = self.served_versions.kinds.get(kind);
        !version.is_empty()
            && served.is_some_and(|served| !served.iter().any(|known| known == version))
    }
}
