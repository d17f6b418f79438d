//! The recent changes of single objects, for explanations: who changed the spec, when the operator
//! acknowledged it, and what the status said after that.
//!
//! A change is the difference between two versions of an object that watch events bring, so a list
//! shows none. The memory is limited for all objects together: the namespace with most changes
//! makes room, and there the object that has not changed for longest. The time of the last spec
//! change is also part of each record, so it outlasts the changes here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::part::{Part, StepContext, Version};
use crate::model::status::reading;
use crate::model::world::World;
use crate::model::world::crowd::Crowd;
use crate::model::world::field_managers;
use crate::model::world::limits::MAX_CONDITIONS;
use crate::model::world::store::{Record, Slot};
use crate::observation::{Condition, ObjectView, Role};
use crate::snapshot::{ConditionState, ExplainedChange};
use crate::time::Timestamp;

/// The maximum number of changes of all objects, of up to a few hundred bytes each.
const MAX_CHANGES: usize = 2_048;

/// The maximum number of changes per object. The last spec change stays for as long as any.
const MAX_PER_OBJECT: usize = 24;

/// The maximum length of a text that others write, in characters.
const LONGEST_TEXT: usize = 128;

/// The recent changes of all objects.
#[derive(Debug, Default)]
pub(crate) struct RecentChanges {
    objects: BTreeMap<Slot, Changes>,
    /// The number of changes of each object, by namespace. Within a namespace, the object that has
    /// not changed for longest comes first.
    by_namespace: Crowd<Arc<str>, (Timestamp, Slot)>,
}

/// The changes of one object, the earliest first.
#[derive(Debug)]
struct Changes {
    namespace: Arc<str>,
    /// Without unused capacity: most objects have few changes, and there are many objects.
    changes: Vec<Change>,
}

/// One change.
#[derive(Debug)]
struct Change {
    at: Timestamp,
    what: What,
}

/// What changed.
#[derive(Debug)]
enum What {
    Spec {
        /// The new generation; 0 if the kind has none.
        generation: i64,
        /// The field manager that wrote the spec; empty if it is not known.
        by: Box<str>,
        is_creation: bool,
    },
    /// The operator acknowledged this generation.
    Acknowledged(i64),
    Condition {
        r#type: Arc<str>,
        /// The old and the new status. An absent condition has none.
        was: &'static str,
        value: &'static str,
        reason: Box<str>,
    },
    Phase {
        was: Arc<str>,
        value: Box<str>,
    },
    Finalizer {
        name: Box<str>,
        added: bool,
    },
}

// The memory budget: less than 200 KiB for all changes, not counting texts.
const _: () = assert!(size_of::<Change>() <= 80, "a change has grown past its budget");

impl Part for RecentChanges {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        let Version { slot, view, .. } = *version;
        if !version.is_live || version.becomes_visible || version.is_reread {
            return;
        }

        let world = &*step.world;
        let Some(record) = world.store.get(slot) else { return };
        let found = differences(world, record, view);
        if !found.is_empty() {
            self.add(slot, &record.namespace, world.now, found);
        }
    }

    fn removed(&mut self, _step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.forget(slot);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.by_namespace = Crowd::default();
        for (slot, of) in &mut self.objects {
            of.changes.iter_mut().for_each(|change| change.at = change.at.shifted(by_ms));
            self.by_namespace.insert(&of.namespace, (of.last(), *slot), of.changes.len());
        }
    }
}

impl RecentChanges {
    /// Returns the changes of an object, the earliest first.
    pub(crate) fn of(&self, slot: Slot) -> Vec<ExplainedChange> {
        self.objects.get(&slot).map(Changes::explained).unwrap_or_default()
    }

    fn add(&mut self, slot: Slot, namespace: &Arc<str>, now: Timestamp, found: Vec<What>) {
        let mut of = self
            .take(slot)
            .unwrap_or_else(|| Changes { namespace: namespace.clone(), changes: Vec::new() });
        of.changes.reserve_exact(found.len().min(MAX_PER_OBJECT));
        for what in found {
            of.make_room();
            of.changes.push(Change { at: now, what });
        }

        of.changes.shrink_to_fit();

        self.by_namespace.insert(namespace, (of.last(), slot), of.changes.len());
        self.objects.insert(slot, of);
        while self.by_namespace.size() > MAX_CHANGES {
            let oldest =
                self.by_namespace.largest().and_then(|group| self.by_namespace.first(group));
            let Some((_, oldest)) = oldest.copied() else { return };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, slot: Slot) {
        drop(self.take(slot));
    }

    fn take(&mut self, slot: Slot) -> Option<Changes> {
        let of = self.objects.remove(&slot)?;
        self.by_namespace.remove(&of.namespace, &(of.last(), slot));
        Some(of)
    }
}

impl Changes {
    fn last(&self) -> Timestamp {
        self.changes.last().map_or(Timestamp(0), |change| change.at)
    }

    /// Drops the earliest change, unless that is the last one of the spec.
    fn make_room(&mut self) {
        if self.changes.len() < MAX_PER_OBJECT {
            return;
        }

        let is_spec = |change: &Change| matches!(change.what, What::Spec { .. });
        let earliest = usize::from(self.changes.iter().rposition(is_spec) == Some(0));
        self.changes.remove(earliest);
    }

    fn explained(&self) -> Vec<ExplainedChange> {
        self.changes.iter().map(Change::explained).collect()
    }
}

impl Change {
    fn explained(&self) -> ExplainedChange {
        let of = |part: &str, name: &str| ExplainedChange {
            at: self.at,
            part: part.to_owned(),
            name: name.to_owned(),
            ..ExplainedChange::default()
        };
        let number = |generation: i64| {
            if generation > 0 { generation.to_string() } else { String::new() }
        };

        match &self.what {
            What::Spec { generation, by, is_creation } => ExplainedChange {
                value: number(*generation),
                by: by.to_string(),
                ..of("spec", if *is_creation { "created" } else { "changed" })
            },
            What::Acknowledged(generation) => {
                ExplainedChange { value: number(*generation), ..of("acknowledgement", "") }
            }
            What::Condition { r#type, was, value, reason } => ExplainedChange {
                was: (*was).to_owned(),
                value: (*value).to_owned(),
                reason: reason.to_string(),
                ..of("condition", r#type)
            },
            What::Phase { was, value } => {
                ExplainedChange { was: was.to_string(), ..of("phase", value) }
            }
            What::Finalizer { name, added } => ExplainedChange {
                value: if *added { "added" } else { "removed" }.to_owned(),
                ..of("finalizer", name)
            },
        }
    }
}

/// Compares a version of an object with its record, which still shows the previous version. Causes
/// come before effects. The status of a child says too much that nobody asks about.
fn differences(world: &World, record: &Record, view: &ObjectView) -> Vec<What> {
    let mut found = Vec::new();
    if world.kind_of(record.watch).role == Role::Primary {
        found.extend(spec_change(record, view));
        found.extend(acknowledgement(record, view));
        found.extend(phase_change(world, record, view));
        let known = world.shared.condition_sets.get(record.conditions);
        found.extend(condition_changes(known, &view.conditions));
    }

    // The first finalizers of a new object are part of its creation.
    if record.version > 0 {
        let known = world.shared.finalizer_sets.get(record.finalizers);
        found.extend(finalizer_changes(known, &view.finalizers));
    }

    found
}

fn spec_change(record: &Record, view: &ObjectView) -> Option<What> {
    let is_creation = record.version == 0;
    let changed = is_creation || record.spec_hash != view.hashes.spec;
    if !changed {
        return None;
    }

    // Who only removes fields has no entry of a write then; the last one is about an earlier change.
    let is_new = |at: &Timestamp| record.spec_change().is_none_or(|last| *at > last);
    let is_known = is_creation || field_managers::last_spec_write(view).as_ref().is_none_or(is_new);
    let by = if is_known { cut(field_managers::spec_writer(view)) } else { "" };
    Some(What::Spec { generation: view.generation, by: by.into(), is_creation })
}

fn acknowledgement(record: &Record, view: &ObjectView) -> Option<What> {
    let observed = reading::observed_generation(view)?;
    (observed > record.observed.number()).then_some(What::Acknowledged(observed))
}

fn phase_change(world: &World, record: &Record, view: &ObjectView) -> Option<What> {
    let (was, value) = (world.shared.texts.get(record.phase), reading::phase(view));
    let changed = **was != *value;
    changed.then(|| What::Phase { was: was.clone(), value: cut(value).into() })
}

/// Returns the top-level conditions whose status has changed, and those that have gone.
fn condition_changes(known: &[ConditionState], now: &[Condition]) -> Vec<What> {
    let mut found: Vec<What> = Vec::new();
    // The record keeps only these, of which the first of each type counts.
    let top_level = || now.iter().filter(|c| c.at.is_empty() && !c.r#type.is_empty());
    let mut types: Vec<&str> = Vec::new();
    for condition in top_level() {
        let before = known.iter().find(|known| *known.r#type == *condition.r#type);
        let (was, value) = (before.map_or("", |known| known.status), condition.status.as_str());
        let is_first = !types.contains(&condition.r#type.as_str());
        if is_first && types.len() == MAX_CONDITIONS {
            break;
        }
        types.push(&condition.r#type);

        if was != value && is_first && found.len() < MAX_PER_OBJECT / 2 {
            found.push(What::Condition {
                r#type: before.map_or_else(|| cut(&condition.r#type).into(), |c| c.r#type.clone()),
                was,
                value,
                reason: cut(&condition.reason).into(),
            });
        }
    }

    for gone in known.iter().filter(|known| top_level().all(|c| *c.r#type != *known.r#type)) {
        if found.len() < MAX_PER_OBJECT / 2 {
            found.push(What::Condition {
                r#type: gone.r#type.clone(),
                was: gone.status,
                value: "",
                reason: Box::default(),
            });
        }
    }

    found
}

fn finalizer_changes<'a>(
    known: &'a [Arc<str>],
    now: &'a [String],
) -> impl Iterator<Item = What> + use<'a> {
    let came = now.iter().filter(|name| known.iter().all(|known| **known != ***name));
    let gone = known.iter().filter(|known| now.iter().all(|name| **name != ***known));
    let change = |name: &str, added| What::Finalizer { name: cut(name).into(), added };

    came.map(move |name| change(name, true))
        .chain(gone.map(move |name| change(name, false)))
        .take(MAX_PER_OBJECT / 2)
}

/// Returns the start of a text that others write.
fn cut(text: &str) -> &str {
    text.char_indices().nth(LONGEST_TEXT).map_or(text, |(end, _)| &text[..end])
}
