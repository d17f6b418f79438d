//! References between namespaces, and the events when one appears or disappears.
//!
//! An event is the difference between two versions of an object. The first version that loopwatch
//! sees of an object has no predecessor, so its references are no events, unless the object has
//! just been created. Only references that cross namespaces are kept, because most objects have
//! none.

use std::collections::{BTreeSet, VecDeque};

use crate::model::Model;
use crate::model::world::intern::Symbol;
use crate::model::world::store::{self, Slot};
use crate::observation::{ObjectView, Reference};
use crate::reference::{
    ObjectName, ReferenceChange, ReferenceEvent, ReferenceEventId, ReferenceForm,
};
use crate::time::Span;

/// The maximum number of references between namespaces that are kept.
pub(crate) const MAX_CROSSINGS: usize = 20_000;
/// The maximum number of events that are kept. Beyond it, the oldest are dropped.
pub(crate) const MAX_REFERENCE_EVENTS: usize = 10_000;
/// How old an object may be when the watch shows it for the first time. An older one has just come
/// into sight, with references that are no news: a child was adopted, for example.
const NEW_FOR: Span = Span::mins(1);
/// The lint of an object whose further references the decoder has left out.
const CUT: &str = "many_references";
/// Separates the parts of a place. No name of a group, a kind or a namespace contains it.
const SEPARATOR: &str = "\0";
/// The part of the references for which there is room beyond them: an eighth.
const SPARE: usize = 8;

/// The references between namespaces that objects hold.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// The references, ordered by the slots of their objects. A tree or a table would need more
    /// memory for them.
    held: Vec<Crossing>,
    /// Objects of which not all references are known, because they did not fit or the decoder left
    /// some out.
    incomplete: BTreeSet<Slot>,
    /// Events since the last call of [`Model::reference_events`].
    events: VecDeque<ReferenceEvent>,
}

/// One reference between namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crossing {
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
const _: () = assert!(size_of::<Crossing>() <= 24, "a reference has grown past its budget");

// === impl Crossings ===

impl Crossings {
    /// Replaces the references of an object, and returns the old ones.
    fn replace(&mut self, slot: Slot, new: Vec<Crossing>) -> Vec<Crossing> {
        let start = self.held.partition_point(|crossing| crossing.slot < slot);
        let count = self.held[start..].iter().take_while(|crossing| crossing.slot == slot).count();
        let more = new.len().saturating_sub(count);

        if self.held.capacity() - self.held.len() < more {
            // By itself, the vector would double.
            self.held.reserve_exact(more + self.held.len() / SPARE);
        }

        let old = self.held.splice(start..start + count, new).collect();
        if self.held.capacity() > 64 + 2 * self.held.len() {
            self.held.shrink_to(self.held.len() + self.held.len() / SPARE);
        }

        old
    }
}

// === impl TargetName ===

impl TargetName {
    fn of(reference: &Reference) -> Self {
        match reference.name.as_str() {
            "" => Self::Unnamed(reference.name_hash),
            name => Self::Named(name.into()),
        }
    }
}

// === impl Model ===

impl Model {
    /// Removes and returns the reference events since the last call. Only the newest 10,000 are
    /// kept.
    pub fn reference_events(&mut self) -> Vec<ReferenceEvent> {
        std::mem::take(&mut self.crossings.events).into()
    }

    /// Compares the references of a version of an object with those of the previous one.
    /// `comparable` says that the difference is news: the previous version was read in the same way
    /// or, of a new object, that there was none.
    pub(crate) fn update_crossings(&mut self, slot: Slot, view: &ObjectView, comparable: bool) {
        let own = &view.key.namespace;

        // An object without a namespace of its own can only refer to the namespaces of others.
        let crosses =
            |r: &&Reference| !own.is_empty() && !r.namespace.is_empty() && r.namespace != *own;
        let crossing: Vec<&Reference> = view.references.iter().filter(crosses).collect();
        let was_complete = !self.crossings.incomplete.remove(&slot);
        let old = self.crossings.replace(slot, Vec::new());
        let is_cut = view.lints.iter().any(|lint| lint == CUT);

        if crossing.is_empty() && old.is_empty() && !is_cut {
            return;
        }

        let new = if is_cut { None } else { self.crossings_of(slot, &crossing) };
        match &new {
            Some(new) if comparable && was_complete => {
                let version = store::version_number(&view.version);
                for gone in old.iter().filter(|crossing| !new.contains(crossing)) {
                    self.announce_crossing(version, ReferenceChange::Disappeared, gone);
                }

                for came in new.iter().filter(|crossing| !old.contains(crossing)) {
                    self.announce_crossing(version, ReferenceChange::Appeared, came);
                }
            }
            Some(_) => {}
            None => _ = self.crossings.incomplete.insert(slot),
        }

        let new = new.unwrap_or_default();
        self.count_crossings(slot, old.len(), new.len());
        self.crossings.replace(slot, new);
        self.release_crossings(&old);
    }

    /// Updates the number of references of the object's kind: the object had `old` of them and has
    /// `new` now.
    fn count_crossings(&mut self, slot: Slot, old: usize, new: usize) {
        let Some(record) = self.store.get(slot) else { return };
        let totals = &mut self.kinds[self.watches[record.watch as usize].kind as usize].totals;
        totals.cross_references =
            totals.cross_references.saturating_add(new as u64).saturating_sub(old as u64);
    }

    /// Forgets the references of an object. If it was `deleted`, they have disappeared.
    pub(crate) fn remove_crossings(&mut self, slot: Slot, deleted: bool) {
        self.crossings.incomplete.remove(&slot);
        let old = self.crossings.replace(slot, Vec::new());
        let version = self.store.get(slot).map_or(0, |record| record.version);

        for gone in old.iter().filter(|_| deleted) {
            self.announce_crossing(version, ReferenceChange::Disappeared, gone);
        }

        self.release_crossings(&old);
        self.count_crossings(slot, old.len(), 0);
    }

    /// Returns whether the references of an object that the model does not know yet are news: it
    /// was created just now, or while its watch could not see it.
    pub(crate) fn is_new_object(&self, watch: u16, view: &ObjectView) -> bool {
        let unseen_since = self.watches[watch as usize].unseen_since(self.now);
        view.created.is_none_or(|created| created.after(NEW_FOR) >= unseen_since)
    }

    /// Returns the references of an object in the form in which they are kept, or `None` if they do
    /// not all fit.
    fn crossings_of(&mut self, slot: Slot, references: &[&Reference]) -> Option<Vec<Crossing>> {
        if self.crossings.held.len() + references.len() > MAX_CROSSINGS {
            self.count_dropped("cross_references");
            return None;
        }

        let mut crossings: Vec<Crossing> = Vec::with_capacity(references.len());
        for reference in references {
            let Reference { slot: path, group, kind, namespace, .. } = reference;
            let place = self.acquire_text(&[group.as_str(), kind, namespace, path].join(SEPARATOR));
            let crossing = Crossing { slot, place, target: TargetName::of(reference) };

            if place == Symbol::default() {
                self.release_crossings(&crossings);
                return None;
            }

            if crossings.contains(&crossing) {
                self.texts.release(place);
            } else {
                crossings.push(crossing);
            }
        }

        Some(crossings)
    }

    fn release_crossings(&mut self, crossings: &[Crossing]) {
        crossings.iter().for_each(|crossing| self.texts.release(crossing.place));
    }

    fn announce_crossing(&mut self, version: u64, change: ReferenceChange, crossing: &Crossing) {
        let place = self.texts.get(crossing.place).clone();
        let mut parts = place.splitn(4, SEPARATOR).map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (group, kind, namespace, path) = (part(), part(), part(), part());
        let name = match &crossing.target {
            TargetName::Named(name) => name.to_string(),
            TargetName::Unnamed(_) => String::new(),
        };

        let number =
            self.store.get(crossing.slot).map(|record| self.watches[record.watch as usize].kind);
        if let Some(number) = number {
            self.kinds[number as usize].totals.cross_reference_changes[change as usize] += 1;
        }

        let form = ReferenceForm::CrossNamespaceReference;
        let target = ObjectName { group, kind, namespace, name };
        self.push_reference_event(crossing.slot, version, (form, change), path, target);
    }

    /// Queues the event that an object's reference to `target` at `path` has changed.
    pub(crate) fn push_reference_event(
        &mut self,
        slot: Slot,
        version: u64,
        (form, change): (ReferenceForm, ReferenceChange),
        path: String,
        target: ObjectName,
    ) {
        let Some(record) = self.store.get(slot) else { return };
        let (kind, uid) = (self.kind_of(record.watch), store::uid_text(record.uid));
        let source = ObjectName {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
        };

        let (id, at) = (ReferenceEventId(0), self.now);
        let event =
            ReferenceEvent { id, at, change, form, source, path, target }.identified(&uid, version);
        if self.crossings.events.len() >= MAX_REFERENCE_EVENTS {
            self.crossings.events.pop_front();
            self.count_dropped("reference_events");
        }

        self.crossings.events.push_back(event);
    }
}
