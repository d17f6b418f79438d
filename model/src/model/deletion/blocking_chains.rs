//! Chains of deletions: an object waits for its dependents, they wait for theirs, and the last one
//! is stuck.
//!
//! The search follows the ownership graph. Dependents of objects that the model does not watch are
//! read on demand, once an object above them seems stuck.

use std::collections::BTreeSet;

use crate::finding::FindingCode;
use crate::model::deletion::absence;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::finalizer_actors::{self, FOREGROUND};
use crate::model::world::store::{self, Record, Slot};
use crate::observation::{Dependent, ObjectAddress};
use crate::time::{Span, Timestamp};

/// The last object of a chain, which blocks all others.
#[derive(Clone, Debug)]
pub(crate) struct Blocker {
    /// The last watched object of the chain, if it is not the first. The model judges it, too, so a
    /// finding about it explains the one about the first.
    pub(crate) watched: Option<Slot>,
    /// The last object, as `Kind namespace/name`.
    pub(crate) name: String,
    pub(crate) finalizers: Vec<String>,
    /// The actors that should remove them.
    pub(crate) actors: Vec<String>,
    /// All objects of the chain, the first one first.
    pub(crate) chain: Vec<String>,
    /// When the last object counts as stuck.
    pub(crate) due: Timestamp,
}

/// The state of a search.
struct Search {
    first: Slot,
    /// The first object seems stuck, so reads are justified.
    may_read: bool,
    visited: BTreeSet<u128>,
    chain: Vec<String>,
    watched: Vec<Slot>,
    /// When the last watched object of the chain seems stuck.
    not_before: Timestamp,
    /// The blocker that became stuck first.
    found: Option<Blocker>,
    /// The chain leads back to the first object, so no object blocks all others.
    is_cycle: bool,
}

/// The findings about a deletion that does not end.
pub(crate) const STANDSTILL: [FindingCode; 3] = [
    FindingCode::FinalizerOwnerAbsent,
    FindingCode::DeletionBlockedByDependent,
    FindingCode::FinalizerStuck,
];

/// The maximum number of objects in a chain.
const MAX_DEPTH: usize = 8;

/// The maximum number of objects that a search visits.
const MAX_VISITED: usize = 50;

/// The maximum number of children of one object that a search considers.
const MAX_CHILDREN: usize = 5_000;

/// How old a read may be before it is repeated, if the object still seems stuck.
pub(crate) const READ_AGAIN: Span = Span::mins(10);

/// Returns the object that blocks the deletion of this one: it must be deleted first, and has
/// finalizers that the garbage collector does not remove. `may_read` allows reads of unwatched
/// objects.
pub(crate) fn find_blocker(
    world: &mut World,
    operator: &Operator,
    slot: Slot,
    may_read: bool,
) -> Option<Blocker> {
    let record = world.store.get(slot)?;
    let mut search = Search {
        first: slot,
        may_read,
        visited: BTreeSet::from([record.uid]),
        chain: vec![name_of(world, record)],
        watched: Vec::new(),
        not_before: world.now,
        found: None,
        is_cycle: false,
    };

    search_below(world, operator, &mut search, slot);
    search.found.filter(|_| !search.is_cycle)
}

/// Marks for review the owners that wait for the deletion of this object. If it is `gone`, that is
/// progress for them.
pub(crate) fn review_waiting_owners(world: &mut World, slot: Slot, gone: bool) {
    let mut next = terminating_owners(world, slot);
    if gone {
        for owner in &next {
            let hot = world.store.get_mut(*owner).and_then(|record| record.hot.as_mut());
            if let Some(deletion) = hot.and_then(|hot| hot.deletion.as_mut()) {
                deletion.last_progress = Some(world.now);
                deletion.last_step = Some(world.now);
            }
        }
    }

    let mut seen = BTreeSet::new();
    while let Some(owner) = next.pop() {
        if seen.len() < MAX_VISITED && seen.insert(owner) {
            next.extend(terminating_owners(world, owner));
        }
    }

    // For owners without a finding, progress only moves the due time back, so their timers suffice.
    let has_findings = |slot: &Slot| {
        let hot = world.store.get(*slot).and_then(|record| record.hot.as_ref());
        hot.is_some_and(|hot| STANDSTILL.iter().any(|code| hot.findings.contains(code)))
    };

    world.agenda.objects.extend(seen.into_iter().filter(|slot| !gone || has_findings(slot)));
}

/// Returns the owners that wait for this object, if it is being deleted.
pub(crate) fn waiting_owners(world: &World, slot: Slot) -> Vec<Slot> {
    world.terminating(slot).map_or_else(Vec::new, |_| terminating_owners(world, slot))
}

/// Marks for review the owners that waited for this object and no longer own it.
pub(crate) fn review_owners_left(world: &mut World, slot: Slot, waiting: Vec<Slot>) {
    if !waiting.is_empty() {
        let owners = terminating_owners(world, slot);
        world.agenda.objects.extend(waiting.into_iter().filter(|owner| !owners.contains(owner)));
    }
}

fn terminating_owners(world: &World, slot: Slot) -> Vec<Slot> {
    let owners = world.owners_of(slot).iter().filter_map(|owner| world.find_uid(owner.uid()));
    owners.filter(|owner| world.terminating(*owner).is_some()).collect()
}

/// Looks at the dependents of a watched object. Returns whether one of them leads to a blocker.
fn search_below(world: &mut World, operator: &Operator, search: &mut Search, owner: Slot) -> bool {
    let Some((record, deletion)) = world.terminating(owner) else { return false };
    let waits_for_all = deletion.own_finalizers().next().is_some();
    let waits_for_collector = deletion.actors.iter().any(|(f, _)| **f == *FOREGROUND);
    let (uid, address) = (record.uid, world.record_address(record));

    if uid == store::NO_UID {
        return false; // without a UID, nothing shows which objects are its dependents
    }

    let seems_stuck_at = deletion.stuck_at(world.settings.finalizer_stuck_after);
    let blocks = |world: &World, child: Slot| {
        let mut owners = world.owners_of(child).iter().filter(|owner| owner.uid() == uid);
        waits_for_all || owners.any(|owner| owner.blocks_deletion)
    };

    // A dependent without finalizers is about to disappear.
    let waits = |child: Slot| {
        world.terminating(child).is_some_and(|(_, deletion)| !deletion.actors.is_empty())
    };
    let children = world.children_of(uid).filter(|child| waits(*child) && blocks(world, *child));

    // A child that waits for its own controller is more likely to be the last of a chain than one
    // that only waits for others.
    let is_collected = |child: &Slot| {
        world.terminating(*child).is_none_or(|(_, d)| d.own_finalizers().next().is_none())
    };
    let mut children: Vec<(bool, Slot)> =
        children.take(MAX_CHILDREN).map(|child| (is_collected(&child), child)).collect();

    children.sort_unstable();
    let mut leads = false;
    for (_, child) in children.into_iter().take(MAX_VISITED) {
        leads |= search_child(world, operator, search, child);
    }

    if !leads && waits_for_collector && search.may_read {
        search.not_before = seems_stuck_at;
        leads = search_unwatched(world, search, &address, uid);
    }

    leads
}

fn search_child(world: &mut World, operator: &Operator, search: &mut Search, child: Slot) -> bool {
    let Some(record) = world.store.get(child) else { return false };
    if child == search.first {
        search.is_cycle = true;
    }

    if search.is_full() || !search.visited.insert(record.uid) {
        return false;
    }

    search.chain.push(name_of(world, record));
    search.watched.push(child);

    let mut leads = search_below(world, operator, search, child);
    if !leads
        && let Some((record, deletion)) = world.terminating(child)
        && deletion.own_finalizers().next().is_some()
    {
        let finalizers =
            deletion.actors.iter().map(|(finalizer, _)| finalizer.to_string()).collect();
        search.found(
            finalizers,
            deletion.actor_texts(),
            absence::blocks_at(world, operator, record, deletion),
        );
        leads = true;
    }

    search.chain.pop();
    search.watched.pop();
    leads
}

/// Looks at the dependents of an object that the model does not watch.
fn search_unwatched(
    world: &mut World,
    search: &mut Search,
    owner: &ObjectAddress,
    uid: u128,
) -> bool {
    let not_before = world.now.shifted(-READ_AGAIN.0);
    let Some(found) = world.dependents(search.first, owner, uid, not_before) else {
        return false;
    };
    let mut leads = false;

    for dependent in found.iter() {
        let Some(deleted) = dependent.object.deleted.filter(|_| blocks(dependent, uid)) else {
            continue;
        };
        let child = store::uid_number(&dependent.object.uid);
        if world.find_uid(child).is_some() || search.is_full() || !search.visited.insert(child) {
            continue;
        }

        let address = dependent.address();
        search.chain.push(address.to_string());

        let finalizers = &dependent.object.finalizers;
        if finalizers.iter().any(|f| f == FOREGROUND)
            && search_unwatched(world, search, &address, child)
        {
            leads = true;
        } else if finalizers.iter().any(|f| !finalizer_actors::is_of_garbage_collector(f)) {
            let group = address.group.as_str().into();
            let actor = |f: &String| {
                crate::model::deletion::finalizers::actor(
                    &dependent.object,
                    f,
                    &group,
                    None,
                    &world.served_groups,
                )
            };

            let actors = finalizers.iter().map(|f| actor(f).to_string()).collect();
            search.found(
                finalizers.clone(),
                actors,
                deleted.after(world.settings.finalizer_stuck_after).max(search.not_before),
            );
            leads = true;
        }

        search.chain.pop();
    }

    leads
}

fn name_of(world: &World, record: &Record) -> String {
    world.record_address(record).to_string()
}

impl Search {
    fn is_full(&self) -> bool {
        self.visited.len() >= MAX_VISITED || self.chain.len() >= MAX_DEPTH
    }

    /// Takes the last object of the chain as the blocker, unless another one became stuck earlier.
    fn found(&mut self, finalizers: Vec<String>, actors: Vec<String>, due: Timestamp) {
        if self.found.as_ref().is_some_and(|found| found.due <= due) {
            return;
        }

        let name = self.chain.last().cloned().unwrap_or_default();
        let (watched, chain) = (self.watched.last().copied(), self.chain.clone());
        self.found = Some(Blocker { watched, name, finalizers, actors, chain, due });
    }
}

/// Returns whether the garbage collector waits for a dependent before it deletes the owner.
fn blocks(dependent: &Dependent, owner: u128) -> bool {
    let mut owners = dependent
        .object
        .owners
        .iter()
        .filter(|reference| store::uid_number(&reference.uid) == owner);

    owners.any(|reference| reference.blocks_deletion)
}
