//! Marks objects of a dump that have no owner, but resemble objects that have one.
//!
//! In a cluster, loopwatch hides all objects without an owner from the model, except those that
//! look like the operator's own. A dump shows everybody's objects, so this tells the model which of
//! them look like the operator's, by the same evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::RandomState;

use loopwatch_model::observation::{ObjectView, is_built_in_group};

use super::index::DumpIndex;
use crate::sources::decoding::{Evidence, PrimaryKinds, is_candidate};

/// The objects by group and kind, with the version.
pub(super) type Objects = BTreeMap<(String, String), (String, Vec<ObjectView>)>;

/// Marks the objects of built-in kinds that have no owner, but resemble those that custom resources
/// own. `index` must be that of the same dump.
///
/// Marks nothing if the dump lacks a kind of these owners: an object without an owner may belong to
/// one of them.
pub(super) fn mark(objects: &mut Objects, index: &DumpIndex) {
    if index.is_broken {
        return;
    }

    let custom: Vec<(String, String)> =
        objects.keys().filter(|(group, _)| !is_built_in_group(group)).cloned().collect();
    let owners: PrimaryKinds =
        custom.iter().map(|(group, kind)| (group.as_str(), kind.as_str())).collect();
    let hasher = RandomState::new();

    for (_, (_, siblings)) in objects.iter_mut().filter(|((group, _), _)| is_built_in_group(group))
    {
        let kinds = owner_kinds(siblings);
        if kinds.is_empty() || !kinds.iter().all(|kind| custom.contains(kind)) {
            continue;
        }

        let mut evidence = Evidence::default();
        siblings
            .iter()
            .filter(|object| owners.own(object))
            .for_each(|object| evidence.add(object, &hasher));
        for object in siblings.iter_mut().filter(|object| object.owners.is_empty()) {
            let shows_owners = |kind| index.shows(kind, &object.key.namespace);
            object.resembles_owned = is_candidate(object)
                && evidence.matches(object, &hasher)
                && kinds.iter().all(shows_owners);
        }
    }
}

/// The kinds of the custom resources that own these objects.
fn owner_kinds(objects: &[ObjectView]) -> BTreeSet<(String, String)> {
    let owners = objects.iter().flat_map(|object| &object.owners);
    let kinds = owners.filter_map(|owner| {
        let (group, _) = owner.api_version.split_once('/')?;
        (!is_built_in_group(group)).then(|| (group.to_owned(), owner.kind.clone()))
    });

    kinds.collect()
}
