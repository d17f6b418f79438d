//! Compares the owner references of one object with what the model knows: whether the owner exists
//! in the right namespace and with the right UID. `unverified_owners.rs` decides about owners that
//! the model does not know.

use crate::finding::Evidence;
use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::{Flag, NO_UID, Slot, uid_text};
use crate::model::world::visibility::Visibility;
use crate::observation::{ObjectAddress, Role};
use crate::reference::ObjectName;
use crate::snapshot::OwnerHazard;
use crate::time::{Span, Timestamp};

/// One owner reference, for reads and evidence.
#[derive(Clone, Debug)]
pub(crate) struct OwnerFacts {
    pub(crate) uid: u128,
    pub(crate) address: ObjectAddress,
}

/// What the model knows about one owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists.
    Exists,
    /// The reference is bad, whatever a read shows.
    Bad(OwnerHazard),
    /// The model does not know the owner.
    Unknown,
    /// The owner is not one of the operator's objects, or the reference is incomplete, so loopwatch
    /// does not judge it.
    Foreign,
}

/// What the model knows about all owner references of one child.
#[derive(Debug, Default)]
pub(crate) struct OwnerReferences {
    /// The garbage collector keeps the child: one of its owners exists, or may exist because
    /// loopwatch does not judge it.
    pub(crate) is_kept: bool,
    /// The references that are bad, whatever a read shows.
    pub(crate) bad: Vec<(OwnerHazard, OwnerFacts)>,
    /// The owners that the model does not know.
    pub(crate) unknown: Vec<OwnerFacts>,
    /// The owners of foreign kinds that the API server may not serve.
    pub(crate) foreign: Vec<OwnerFacts>,
}

/// An unknown owner can be a new problem only if its watch has been able to see for this fraction
/// of `owner_missing_after`.
const SETTLED_PART: i64 = 5;

/// The time between two attempts while the watch of the owner cannot see.
pub(crate) const LOOK_AGAIN: Span = Span::secs(10);

/// Returns what the model knows about the owner references of a child.
pub(crate) fn references(world: &World, slot: Slot) -> OwnerReferences {
    let is_cut = world.store.get(slot).is_some_and(|record| record.flags.has(Flag::OwnersCut));
    let mut references = OwnerReferences { is_kept: is_cut, ..OwnerReferences::default() };
    for owner in world.owners_of(slot) {
        match owner_state(world, slot, owner) {
            OwnerState::Exists => references.is_kept = true,
            OwnerState::Bad(reason) => {
                references.bad.push((reason, owner_facts(world, slot, owner)))
            }
            OwnerState::Unknown => references.unknown.push(owner_facts(world, slot, owner)),
            OwnerState::Foreign => {
                references.is_kept = true;
                if may_be_unserved(world, owner) {
                    references.foreign.push(owner_facts(world, slot, owner));
                }
            }
        }
    }

    references
}

pub(crate) fn first_unknown(world: &World, slot: Slot) -> Option<(u16, OwnerFacts)> {
    let kind = world.watches[world.store.get(slot)?.watch as usize].kind;
    Some((kind, references(world, slot).unknown.into_iter().next()?))
}

/// Returns whether a reference is complete and names a kind that the API server may not serve. It
/// always serves the core group.
fn may_be_unserved(world: &World, owner: &Owner) -> bool {
    let (group, kind) = world.owner_kind(owner);
    owner.uid() != NO_UID
        && !group.is_empty()
        && !kind.is_empty()
        && !world.owner_name(owner).is_empty()
}

fn owner_state(world: &World, slot: Slot, owner: &Owner) -> OwnerState {
    let Some(child) = world.store.get(slot) else { return OwnerState::Foreign };
    let ((group, kind), name) = (world.owner_kind(owner), world.owner_name(owner));
    if kind.is_empty() || name.is_empty() {
        return OwnerState::Foreign;
    }

    if world.is_unserved(owner) {
        return OwnerState::Bad(OwnerHazard::VersionUnserved);
    }

    let known = world.find_uid(owner.uid()).and_then(|owner| world.store.get(owner));
    let Some(known) = known else {
        return if owner.uid() != NO_UID && is_of_operator(world, group, kind) {
            OwnerState::Unknown
        } else {
            OwnerState::Foreign
        };
    };

    let actual = world.kind_of(known.watch);
    if (*actual.group == *group && *actual.kind != *kind) || name != &*known.name {
        OwnerState::Bad(OwnerHazard::Mismatch)
    } else if known.namespace.is_empty() || known.namespace == child.namespace {
        OwnerState::Exists
    } else if child.namespace.is_empty() {
        OwnerState::Bad(OwnerHazard::NamespacedOwner)
    } else {
        OwnerState::Bad(OwnerHazard::CrossNamespace)
    }
}

/// Returns whether the kind of an owner belongs to the operator: it is watched, or in the group of
/// a primary kind.
pub(crate) fn is_of_operator(world: &World, group: &str, kind: &str) -> bool {
    let is_primary = |role: Role| role == Role::Primary;
    world.kinds.iter().any(|k| {
        *k.group == *group && (*k.kind == *kind || (is_primary(k.role) && !group.is_empty()))
    })
}

/// Returns the watches that would show the unknown owners of a child.
pub(crate) fn owner_watches(world: &World, slot: Slot) -> impl Iterator<Item = &Watch> {
    let namespace =
        world.store.get(slot).map(|record| record.namespace.clone()).unwrap_or_default();
    let kinds: Vec<(&str, &str)> =
        world.owners_of(slot).iter().map(|owner| world.owner_kind(owner)).collect();

    world.watches.iter().filter(move |watch| {
        let kind = &world.kinds[watch.kind as usize];
        watch.active
            && watch.missing.is_empty()
            && watch.covers(&namespace)
            && kinds.contains(&(&*kind.group, &*kind.kind))
    })
}

/// Returns whether the owners' watches have been able to see for long enough to distinguish a new
/// problem from an old one.
pub(crate) fn owners_seen_clearly(world: &World, slot: Slot) -> bool {
    let settled = Span(world.settings.owner_missing_after.0 / SETTLED_PART);
    owner_watches(world, slot).all(|watch| {
        watch.visibility(world.now) == Visibility::Clear
            && world.now.since(watch.blindness.regained) >= settled
    })
}

/// Returns when to look again if a watch of the owners cannot see now.
pub(crate) fn owners_hidden_until(world: &World, slot: Slot) -> Option<Timestamp> {
    let hidden = |watch: &Watch| match watch.visibility(world.now) {
        Visibility::Clear => None,
        Visibility::Grace(until) => Some(until),
        Visibility::Lost => Some(world.now.after(LOOK_AGAIN)),
    };

    owner_watches(world, slot).filter_map(hidden).max()
}

pub(crate) fn owner_facts(world: &World, slot: Slot, owner: &Owner) -> OwnerFacts {
    let (group, kind) = world.owner_kind(owner);
    let address = ObjectAddress {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: world
            .store
            .get(slot)
            .map(|record| record.namespace.to_string())
            .unwrap_or_default(),
        name: world.owner_name(owner).to_owned(),
    };

    OwnerFacts { uid: owner.uid(), address }
}

/// Returns the owner as the model knows it, whatever its namespace.
pub(crate) fn owner_object(world: &World, owner: &OwnerFacts) -> ObjectName {
    let ObjectAddress { group, kind, name, .. } = owner.address.clone();
    let known = world.find_uid(owner.uid).and_then(|slot| world.store.get(slot));
    let namespace = known.map_or_else(String::new, |record| record.namespace.to_string());
    ObjectName { group, kind, namespace, name }
}

pub(crate) fn bad_owner_evidence(
    world: &World,
    reason: OwnerHazard,
    owner: &OwnerFacts,
    writer: &str,
) -> Evidence {
    let OwnerFacts { uid, address } = owner;
    let group = if reason == OwnerHazard::KindUnknown {
        format!(".{}", address.group)
    } else {
        String::new()
    };
    let evidence = Evidence::new()
        .text("owner", format!("{}{}/{}", address.kind, group.trim_end_matches('.'), address.name))
        .text("owner_uid", uid_text(*uid))
        .text("writer", writer.to_owned());

    match (reason, world.find_uid(*uid).and_then(|slot| world.store.get(slot))) {
        (OwnerHazard::CrossNamespace, Some(known)) => {
            evidence.text("owner_namespace", known.namespace.to_string())
        }
        (
            OwnerHazard::KindUnknown
            | OwnerHazard::VersionUnserved
            | OwnerHazard::Mismatch
            | OwnerHazard::NamespacedOwner,
            _,
        ) => evidence.text("reason", reason.as_str()),
        _ => evidence,
    }
}
