//! Finalizers: which actor should remove each one, and how long that usually takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::checkpoint::FinalizerMemory;
use crate::model::convergence::object_context::ObjectContext;
use crate::model::world::finalizer_actors::{self, Actor, FinalizerWriters, MAX_WRITERS};
use crate::model::world::kinds::durations::Durations;
use crate::model::world::kinds::{Deletions, FinalizerWaits, Kind};
use crate::model::world::store::{Deletion, Record};
use crate::model::world::{World, controller_names, field_managers};
use crate::observation::{Manager, ObjectView};
use crate::settings::Settings;
use crate::time::{Span, Timestamp};

/// If a controller wrote an object at most this long before the removal of a finalizer, both were
/// probably its work. Times in managed fields are whole seconds.
const SAME_RECONCILE: Span = Span::secs(2);

/// The range of the learned threshold after which a finalizer counts as stuck.
const LEARNED_RANGE: (Span, Span) = (Span::mins(5), Span::hours(24));

/// The multiple of the usual removal time after which a removal is slow.
const SLOW_FACTOR: i64 = 3;

/// How long the garbage collector may take, as a multiple of `finalizer_stuck_after`: it waits for
/// other objects.
const GARBAGE_COLLECTOR_FACTOR: i64 = 4;

/// Returns the actor that should remove a finalizer of an object: a component of Kubernetes, else
/// the field manager that removed it from other objects, else the operator that serves its domain,
/// else the field manager that added it, if it behaves like a controller. A field manager that also
/// writes the status of a primary kind is the operator: frameworks such as kopf add finalizers of
/// their own domain.
pub(crate) fn actor(
    view: &ObjectView,
    finalizer: &str,
    group: &Arc<str>,
    writers: Option<&FinalizerWriters>,
    served: &BTreeSet<Arc<str>>,
) -> Actor {
    if let Some(built_in) = finalizer_actors::built_in(finalizer) {
        return Actor::BuiltIn(built_in);
    }

    if let Some(remover) = writers.and_then(FinalizerWriters::remover) {
        let successor = successor(view, remover, finalizer, group, served);
        return match is_operator(view, remover, group, served) {
            true => Actor::Operator { group: group.clone(), manager: Some(remover.clone()) },
            false => successor.unwrap_or_else(|| remover_actor(remover, finalizer, served)),
        };
    }

    let adder = view
        .managers
        .iter()
        .find(|m| {
            m.finalizers.iter().any(|f| f == finalizer)
                && field_managers::is_controller(view, &m.name)
        })
        .map(|m| -> Arc<str> { m.name.as_str().into() });

    if let Some(operator) = served_group(finalizer, served) {
        if let Some(successor) =
            adder.as_ref().and_then(|adder| successor(view, adder, finalizer, group, served))
        {
            return successor;
        }

        let writes_status = || {
            field_managers::status_writer(view)
                .filter(|_| operator == group)
                .map(|m| m.name.as_str().into())
        };

        return Actor::Operator { group: operator.clone(), manager: adder.or_else(writes_status) };
    }

    match (adder, finalizer.split_once('/')) {
        (Some(manager), _) if is_operator(view, &manager, group, served) => {
            Actor::Operator { group: group.clone(), manager: Some(manager) }
        }
        (Some(manager), _) => Actor::Adder { manager, group: group.clone() },
        (None, Some((domain, _))) => Actor::Domain(domain.into()),
        (None, None) => Actor::Unknown,
    }
}

/// Returns whether a field manager writes the status of an object of a primary kind. A generic name
/// does not count, because it may belong to another program.
fn is_operator(
    view: &ObjectView,
    manager: &str,
    group: &Arc<str>,
    served: &BTreeSet<Arc<str>>,
) -> bool {
    let writes_status =
        || field_managers::status_writer(view).is_some_and(|writer| writer.name == manager);
    served.contains(group) && !controller_names::is_generic(manager) && writes_status()
}

/// Returns the operator of a kind with its current field manager, if that manager has written the
/// status since `manager` last wrote the object: an upgrade may rename the field manager.
fn successor(
    view: &ObjectView,
    manager: &str,
    finalizer: &str,
    group: &Arc<str>,
    served: &BTreeSet<Arc<str>>,
) -> Option<Actor> {
    let group = served_group(finalizer, served).filter(|served| *served == group)?.clone();
    let present = field_managers::status_writer(view)
        .filter(|m| m.name != manager && field_managers::is_controller(view, &m.name))?;
    let last = view.managers.iter().filter(|m| m.name == manager).filter_map(|m| m.time).max();

    (present.time > last)
        .then(|| Actor::Operator { group, manager: Some(present.name.as_str().into()) })
}

/// Returns the actor that has removed a finalizer from other objects. A generic name does not lead
/// to a lease, but the operator's group may.
pub(crate) fn remover_actor(
    remover: &Arc<str>,
    finalizer: &str,
    served: &BTreeSet<Arc<str>>,
) -> Actor {
    match served_group(finalizer, served).filter(|_| controller_names::is_generic(remover)) {
        Some(group) => Actor::Operator { group: group.clone(), manager: Some(remover.clone()) },
        None => Actor::Remover(remover.clone()),
    }
}

/// Returns whether only controllers other than `manager` add a finalizer.
fn is_added_by_others(known: &FinalizerWriters, manager: &str) -> bool {
    let mut controllers =
        known.added.iter().filter(|name| !field_managers::is_client(name)).peekable();
    controllers.peek().is_some() && controllers.all(|name| **name != *manager)
}

/// Returns the group of the operator to which the domain of a finalizer belongs.
pub(crate) fn served_group<'a>(
    finalizer: &str,
    served: &'a BTreeSet<Arc<str>>,
) -> Option<&'a Arc<str>> {
    let domain = domain(finalizer)?;
    served.iter().find(|group| controller_names::is_within(domain, group))
}

/// Returns the domain of a finalizer: the part before the slash, or a name such as
/// `finalizer.example.io`.
pub(crate) fn domain(finalizer: &str) -> Option<&str> {
    finalizer
        .split_once('/')
        .map(|(domain, _)| domain)
        .or_else(|| finalizer.contains('.').then_some(finalizer))
}

impl Kind {
    /// Returns how long a deletion may wait for its finalizers before it is stuck: for each, three
    /// times as long as 99 % of the removals take, if loopwatch knows that.
    pub(crate) fn stuck_after(&self, settings: &Settings, deletion: &Deletion) -> Span {
        let own =
            deletion.own_finalizers().map(|finalizer| self.stuck_after_of(settings, finalizer));
        own.max().unwrap_or(Span(
            settings.finalizer_stuck_after.0.saturating_mul(GARBAGE_COLLECTOR_FACTOR),
        ))
    }

    fn stuck_after_of(&self, settings: &Settings, finalizer: &str) -> Span {
        let (shortest, longest) = LEARNED_RANGE;
        let shortest = shortest.min(settings.finalizer_stuck_after);
        self.usual_removal(settings, finalizer)
            .map_or(settings.finalizer_stuck_after, |usual| usual.clamp(shortest, longest))
    }

    /// Returns how long a removal of a finalizer may take before it is slow, and whether that is
    /// learned.
    pub(crate) fn slow_after(&self, settings: &Settings, finalizer: &str) -> (Span, bool) {
        let configured = settings.cleanup_slow_after;
        let learned = self.usual_removal(settings, finalizer).filter(|usual| *usual > configured);
        (learned.unwrap_or(configured), learned.is_some())
    }

    /// Returns three times the time within which 99 % of the removals end.
    fn usual_removal(&self, settings: &Settings, finalizer: &str) -> Option<Span> {
        let removals = &self.deletions.finalizers.get(finalizer)?.removals;
        let enough =
            settings.learn_after > 0 && removals.samples() >= u64::from(settings.learn_after);
        let p99 = removals.p99().filter(|_| enough)?;

        Some(Span(p99.0.saturating_mul(SLOW_FACTOR)))
    }

    /// Returns what should survive a restart, by finalizer.
    pub(crate) fn finalizer_memories(&self) -> impl Iterator<Item = (&Arc<str>, FinalizerMemory)> {
        let names = self
            .deletions
            .finalizers
            .keys()
            .chain(self.deletions.finalizer_writers.keys())
            .chain(self.deletions.restored_removals.keys());
        let names: BTreeSet<&Arc<str>> = names.collect();
        let memories = names.into_iter().map(|name| {
            let removals = self.deletions.finalizers.get(name).map(|waits| &waits.removals);
            let removals = removals.or_else(|| self.deletions.restored_removals.get(name));
            let removals =
                removals.filter(|removals| removals.samples() > 0).map(Durations::to_numbers);
            let removed = self
                .deletions
                .finalizer_writers
                .get(name)
                .map(|writers| &writers.removed)
                .into_iter()
                .flatten();

            let removers = removed.map(|(manager, count)| (manager.to_string(), *count)).collect();
            (name, FinalizerMemory { removals: removals.unwrap_or_default(), removers })
        });

        memories.filter(|(_, memory)| *memory != FinalizerMemory::default())
    }

    /// Restores what an earlier process knew about finalizers.
    pub(crate) fn restore_finalizers(
        &mut self,
        limit: usize,
        memories: &[(String, FinalizerMemory)],
    ) {
        for (finalizer, memory) in memories.iter().take(limit) {
            let removers = memory.removers.iter().take(MAX_WRITERS);
            let writers =
                self.deletions.finalizer_writers.entry(finalizer.as_str().into()).or_default();
            writers.removed =
                removers.map(|(manager, count)| (manager.as_str().into(), *count)).collect();
            self.deletions
                .restored_removals
                .insert(finalizer.as_str().into(), Durations::from_numbers(&memory.removals));
        }
    }

    /// Returns the waits for a finalizer, if there is room for them.
    pub(crate) fn waits_for(
        &mut self,
        limit: usize,
        finalizer: &Arc<str>,
    ) -> Option<&mut FinalizerWaits> {
        let fits = self.deletions.finalizers.contains_key(finalizer)
            || self.deletions.finalizers.len() < limit
            || self.retire_finalizer();
        let Deletions { finalizers, restored_removals, .. } = &mut self.deletions;

        fits.then(|| {
            finalizers.entry(finalizer.clone()).or_insert_with(|| {
                let removals = restored_removals.remove(finalizer).unwrap_or_default();
                FinalizerWaits { removals, ..FinalizerWaits::default() }
            })
        })
    }
}

impl ObjectContext<'_> {
    /// Remembers which field managers write objects of the kind, when, and which finalizers they
    /// add. Writes by a person's client, which is not a controller, do not count as signs of life.
    pub(crate) fn note_writers(&mut self, view: &ObjectView) {
        let limit = self.settings.limits.finalizers;
        for manager in &view.managers {
            if let Some(at) = manager.time.filter(|_| !field_managers::is_client(&manager.name)) {
                self.kind.writes.note(view, manager, at);
            }
        }

        for manager in view.managers.iter().filter(|m| m.owns.status || !m.finalizers.is_empty()) {
            if let Some(at) =
                manager.time.filter(|_| field_managers::is_controller(view, &manager.name))
            {
                note_write(&mut self.kind.writers, &manager.name, at);
            }
            for finalizer in &manager.finalizers {
                let writers = &mut self.kind.deletions.finalizer_writers;
                if let Some(known) = writers.get_mut(finalizer.as_str()) {
                    known.note_adder(&manager.name);
                } else if writers.len() < limit {
                    writers.entry(finalizer.as_str().into()).or_default().note_adder(&manager.name);
                }
            }
        }
    }

    /// Learns which field manager removed finalizers from an object that is being deleted. `known`
    /// is the newest write of the previous version. A removal leaves no trace in the managed
    /// fields, so the remover is known only if it wrote something else at the same time.
    pub(crate) fn note_removals(
        &mut self,
        view: &ObjectView,
        removed: &[Arc<str>],
        known: Option<Timestamp>,
    ) {
        let is_new = |m: &&Manager| {
            m.time > known || m.time.is_some_and(|at| self.now.since(at) <= SAME_RECONCILE)
        };
        let recent = view
            .managers
            .iter()
            .filter(|m| field_managers::is_controller(view, &m.name))
            .filter(is_new);
        let names: BTreeSet<&str> = recent.map(|m| m.name.as_str()).collect();
        let [remover] = Vec::from_iter(names)[..] else { return };

        for finalizer in
            removed.iter().filter(|finalizer| finalizer_actors::built_in(finalizer).is_none())
        {
            let of_operator = served_group(finalizer, self.served_groups).is_some();

            // Another operator may remove its finalizer while this one writes the status.
            let of_another =
                |known: &FinalizerWriters| !of_operator && is_added_by_others(known, remover);
            if let Some(known) = self
                .kind
                .deletions
                .finalizer_writers
                .get_mut(finalizer)
                .filter(|known| !of_another(known))
            {
                known.note_removal(remover);
            }
        }
    }

    /// Returns each finalizer with the actor that should remove it.
    pub(crate) fn actors(
        &self,
        view: &ObjectView,
        finalizers: &[Arc<str>],
    ) -> Vec<(Arc<str>, Actor)> {
        let writers = &self.kind.deletions.finalizer_writers;
        let actor =
            |f: &Arc<str>| actor(view, f, &self.kind.group, writers.get(f), self.served_groups);
        finalizers.iter().map(|f| (f.clone(), actor(f))).collect()
    }
}

/// Records when a field manager wrote. If there is no room, the one with the oldest write is
/// dropped.
fn note_write(writes: &mut Vec<(Arc<str>, Timestamp)>, manager: &str, at: Timestamp) {
    if let Some((_, last)) = writes.iter_mut().find(|(name, _)| **name == *manager) {
        *last = at.max(*last);
    } else if writes.len() < MAX_WRITERS {
        writes.push((manager.into(), at));
    } else if let Some(oldest) =
        writes.iter_mut().min_by_key(|(_, last)| *last).filter(|(_, last)| *last < at)
    {
        *oldest = (manager.into(), at);
    }
}

impl Deletion {
    /// Returns the finalizers that the garbage collector does not remove.
    pub(crate) fn own_finalizers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.actors
            .iter()
            .map(|(finalizer, _)| finalizer)
            .filter(|finalizer| !finalizer_actors::is_of_garbage_collector(finalizer))
    }

    /// Returns the texts of all actors, each once.
    pub(crate) fn actor_texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for text in self.actors.iter().map(|(_, actor)| actor.to_string()) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }

        texts
    }
}

/// Returns what loopwatch has learned about finalizers, by kind and finalizer, to survive a
/// restart.
pub(crate) fn finalizer_memories(world: &World) -> BTreeMap<String, FinalizerMemory> {
    let earlier = world.restored.finalizers.iter();
    let earlier = earlier.flat_map(|(kind, all)| {
        all.iter().map(move |(f, memory)| (format!("{kind} {f}"), memory.clone()))
    });
    let mut memories: BTreeMap<String, FinalizerMemory> = earlier.collect();

    for kind in &world.kinds {
        let name = kind.name();
        memories
            .extend(kind.finalizer_memories().map(|(f, memory)| (format!("{name} {f}"), memory)));
    }

    memories
}

/// Returns the texts of the actors that should remove the finalizers of an object.
pub(crate) fn actors_of(world: &World, record: &Record) -> Vec<String> {
    if let Some(deletion) = record.deletion() {
        return deletion.actors.iter().map(|(_, actor)| actor.to_string()).collect();
    }

    let kind = world.kind_of(record.watch);
    let finalizers = world.shared.finalizer_sets.get(record.finalizers).iter();
    finalizers.map(|finalizer| expected_actor(world, kind, finalizer).to_string()).collect()
}

/// Returns the actor that should remove a finalizer of an object that is not being deleted, as far
/// as other objects of the kind show.
pub(crate) fn expected_actor(world: &World, kind: &Kind, finalizer: &Arc<str>) -> Actor {
    let writers = kind.deletions.finalizer_writers.get(finalizer);
    if let Some(built_in) = finalizer_actors::built_in(finalizer) {
        return Actor::BuiltIn(built_in);
    }

    if let Some(remover) = writers.and_then(FinalizerWriters::remover) {
        return remover_actor(remover, finalizer, &world.served_groups);
    }

    let is_controller = |name: &&Arc<str>| kind.writers.iter().any(|(writer, _)| writer == *name);
    let adder = writers.and_then(|writers| writers.added.iter().find(is_controller)).cloned();
    match (served_group(finalizer, &world.served_groups), adder, finalizer.split_once('/')) {
        (Some(group), manager, _) => Actor::Operator { group: group.clone(), manager },
        (None, Some(manager), _) => Actor::Adder { manager, group: kind.group.clone() },
        (None, None, Some((domain, _))) => Actor::Domain(domain.into()),
        (None, None, None) => Actor::Unknown,
    }
}

/// Restores what an earlier process learned about finalizers. Kinds that are not known yet get it
/// when they appear.
pub(crate) fn restore_finalizers(world: &mut World, memories: BTreeMap<String, FinalizerMemory>) {
    for (key, memory) in memories {
        if let Some((kind, finalizer)) = key.split_once(' ') {
            world
                .restored
                .finalizers
                .entry(kind.to_owned())
                .or_default()
                .push((finalizer.to_owned(), memory));
        }
    }

    let limit = world.settings.limits.finalizers;
    for kind in &mut world.kinds {
        if let Some(memories) = world.restored.finalizers.get(&kind.name()) {
            kind.restore_finalizers(limit, memories);
        }
    }
}
