//! References between namespaces, with an event for each that appears or disappears.
//!
//! An event is the difference between two versions of an object. The first version that loopwatch
//! sees has no predecessor, so its references cause no events unless the object has just been
//! created. Only references that cross namespaces are kept, because most objects have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::part::{Part, StepContext, Version};
use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::intern::Symbol;
use crate::model::world::limits::{Limit, MAX_CROSS_REFERENCES};
use crate::model::world::store::{self, Slot};
use crate::observation::{ObjectView, Reference};
use crate::reference::{ObjectName, ReferenceChange, ReferenceForm};
use crate::time::Span;

/// An object that is at most this old when the watch first shows it is new. An older one has only
/// become visible, for example because it was adopted, so its references do not count as new.
const NEW_FOR: Span = Span::mins(1);
/// The lint of an object with more references than the decoder keeps.
const CUT: &str = "many_references";
/// Separates the parts of a place. No name of a group, a kind or a namespace contains it.
const SEPARATOR: &str = "\0";
/// The divisor for the spare capacity: an eighth of the references.
const SPARE: usize = 8;

/// The references between namespaces that objects hold.
#[derive(Debug, Default)]
pub(crate) struct CrossNamespace {
    /// Ordered by the slots of their objects. A tree or a hash table would need more memory.
    held: Vec<CrossReference>,
    /// Objects with references that are not known, because they did not fit or the decoder left
    /// them out.
    incomplete: BTreeSet<Slot>,
    /// The number of references that each object holds, by namespace.
    by_namespace: Crowd<Arc<str>, Slot>,
}

/// One reference between namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CrossReference {
    slot: Slot,
    /// Group, kind, namespace and path, which many references have in common.
    place: Symbol,
    target: TargetName,
}

/// The name of the object that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetName {
    /// The fingerprint, if the view has no name.
    Unnamed(u64),
    Named(Box<str>),
}

// The memory budget: at most 64 bytes per reference, for a name of up to 32 bytes.
const _: () = assert!(size_of::<CrossReference>() <= 24, "a reference has grown past its budget");

impl Part for CrossNamespace {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        if version.has_other_spec {
            self.update_references(step.world, version);
        }
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, deleted: bool) {
        self.remove_references(step.world, slot, deleted);
    }
}

impl CrossNamespace {
    /// Replaces the references of an object, and returns the old ones.
    fn replace(&mut self, slot: Slot, new: Vec<CrossReference>) -> Vec<CrossReference> {
        let start = self.held.partition_point(|crossing| crossing.slot < slot);
        let count = self.held[start..].iter().take_while(|crossing| crossing.slot == slot).count();
        let more = new.len().saturating_sub(count);

        if self.held.capacity() - self.held.len() < more {
            // By default, the vector would double its capacity.
            self.held.reserve_exact(more + self.held.len() / SPARE);
        }

        let old = self.held.splice(start..start + count, new).collect();
        if self.held.capacity() > 64 + 2 * self.held.len() {
            self.held.shrink_to(self.held.len() + self.held.len() / SPARE);
        }

        old
    }
}

impl TargetName {
    fn of(reference: &Reference) -> Self {
        match reference.name.as_str() {
            "" => Self::Unnamed(reference.name_hash),
            name => Self::Named(name.into()),
        }
    }
}

impl CrossNamespace {
    /// Compares the references of a version of an object with those of the previous one.
    fn update_references(&mut self, world: &mut World, version: &Version<'_>) {
        let (slot, view) = (version.slot, version.view);
        let own = &view.key.namespace;

        // A reference from a cluster-scoped object does not cross namespaces.
        let crosses =
            |r: &&Reference| !own.is_empty() && !r.namespace.is_empty() && r.namespace != *own;
        let crossing: Vec<&Reference> = view.references.iter().filter(crosses).collect();
        let was_complete = !self.incomplete.remove(&slot);
        let old = self.replace(slot, Vec::new());
        let is_cut = view.lints.iter().any(|lint| lint == CUT);

        if crossing.is_empty() && old.is_empty() && !is_cut {
            return;
        }

        // A difference counts only if loopwatch read the previous version in the same way, or knows
        // that there was none.
        let comparable = !version.becomes_visible && !version.is_reread;
        let namespace: Arc<str> = own.as_str().into();
        self.by_namespace.remove(&namespace, &slot);
        let fits = !is_cut && self.make_room(world, &namespace, crossing.len());
        let new = fits.then(|| held_references(world, slot, &crossing)).flatten();
        match &new {
            Some(new) if comparable && was_complete => {
                let version = store::version_number(&view.version);
                for gone in old.iter().filter(|crossing| !new.contains(crossing)) {
                    announce(world, version, ReferenceChange::Disappeared, gone);
                }

                for came in new.iter().filter(|crossing| !old.contains(crossing)) {
                    announce(world, version, ReferenceChange::Appeared, came);
                }
            }
            Some(_) => {}
            None => _ = self.incomplete.insert(slot),
        }

        let new = new.unwrap_or_default();
        count_references(world, slot, old.len(), new.len());
        if !new.is_empty() {
            self.by_namespace.insert(&namespace, slot, new.len());
        }
        self.replace(slot, new);
        release_references(world, &old);
    }

    /// Makes room for this many references: those of objects in the namespace with most of them are
    /// forgotten, and thus incomplete. Returns whether there is room.
    fn make_room(&mut self, world: &mut World, namespace: &Arc<str>, count: usize) -> bool {
        let has_room = |known: &Self| known.held.len() + count <= MAX_CROSS_REFERENCES;
        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, count).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            known.remove_references(world, other, false);
            known.incomplete.insert(other);
        };

        crowd::make_room(self, world, Limit::CrossReferences, has_room, leaves, forget)
    }
}

/// Updates the count of the object's kind after the object's number of references changed from
/// `old` to `new`.
fn count_references(world: &mut World, slot: Slot, old: usize, new: usize) {
    let Some(record) = world.store.get(slot) else { return };
    let totals = &mut world.kinds[world.watches[record.watch as usize].kind as usize].totals;
    totals.cross_references =
        totals.cross_references.saturating_add(new as u64).saturating_sub(old as u64);
}

impl CrossNamespace {
    /// Forgets the references of an object. If it was `deleted`, they have disappeared.
    fn remove_references(&mut self, world: &mut World, slot: Slot, deleted: bool) {
        self.incomplete.remove(&slot);
        let old = self.replace(slot, Vec::new());
        if let Some(record) = world.store.get(slot) {
            self.by_namespace.remove(&record.namespace, &slot);
        }

        let version = world.store.get(slot).map_or(0, |record| record.version);

        for gone in old.iter().filter(|_| deleted) {
            announce(world, version, ReferenceChange::Disappeared, gone);
        }

        release_references(world, &old);
        count_references(world, slot, old.len(), 0);
    }
}

/// Returns whether the references of an object that the model does not know yet count as new: the
/// object was created just now, or while its watch was blind.
pub(crate) fn is_new_object(world: &World, watch: u16, view: &ObjectView) -> bool {
    let unseen_since = world.watches[watch as usize].unseen_since(world.now);
    view.created.is_none_or(|created| created.after(NEW_FOR) >= unseen_since)
}

/// Returns the references of an object in stored form, or `None` if not all of their texts fit.
fn held_references(
    world: &mut World,
    slot: Slot,
    references: &[&Reference],
) -> Option<Vec<CrossReference>> {
    let mut held: Vec<CrossReference> = Vec::with_capacity(references.len());
    for reference in references {
        let Reference { slot: path, group, kind, namespace, .. } = reference;
        let place = world.acquire_text(&[group.as_str(), kind, namespace, path].join(SEPARATOR));
        let crossing = CrossReference { slot, place, target: TargetName::of(reference) };

        if place == Symbol::default() {
            release_references(world, &held);
            return None;
        }

        if held.contains(&crossing) {
            world.shared.texts.release(place);
        } else {
            held.push(crossing);
        }
    }

    Some(held)
}

fn release_references(world: &mut World, held: &[CrossReference]) {
    held.iter().for_each(|crossing| world.shared.texts.release(crossing.place));
}

fn announce(world: &mut World, version: u64, change: ReferenceChange, crossing: &CrossReference) {
    let place = world.shared.texts.get(crossing.place).clone();
    let mut parts = place.splitn(4, SEPARATOR).map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    let (group, kind, namespace, path) = (part(), part(), part(), part());
    let name = match &crossing.target {
        TargetName::Named(name) => name.to_string(),
        TargetName::Unnamed(_) => String::new(),
    };

    let number =
        world.store.get(crossing.slot).map(|record| world.watches[record.watch as usize].kind);
    if let Some(number) = number {
        world.kinds[number as usize].totals.cross_reference_changes[change as usize] += 1;
    }

    let form = ReferenceForm::CrossNamespaceReference;
    let target = ObjectName { group, kind, namespace, name };
    world.push_reference_event(crossing.slot, version, (form, change), path, target);
}
