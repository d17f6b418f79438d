//! Consumers of configuration: which workloads read ConfigMaps and Secrets only when their Pods
//! start, and when that data was written.
//!
//! Most of these ConfigMaps and Secrets are watched, because the operator creates them. loopwatch
//! reads the metadata of all others every ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::findings::detection::Detection;
use crate::model::part::{Part, StepContext, Version};
use crate::model::world::World;
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::data_writes::{DataWrite, LastWrite};
use crate::model::world::limits::Limit;
use crate::model::world::lookups::{ASK_AGAIN, Existence};
use crate::model::world::store::Slot;
use crate::observation::{ObjectAddress, ObjectView, Role, StartupRead};
use crate::time::{Span, Timestamp};

pub(crate) use crate::model::world::limits::MAX_CONSUMERS;

/// The workloads and what they read.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// The workloads whose Pods read something only when they start. At most [`MAX_CONSUMERS`].
    pub(super) consumers: BTreeMap<Slot, Consumer>,
    /// The workloads that read each object.
    readers: BTreeMap<Name, BTreeSet<Slot>>,
    /// When the data of each watched object was written. The number of objects limits the size.
    written: hashbrown::HashMap<Slot, LastWrite>,
    /// The same for unwatched objects that have been read; `None` if the read found nothing.
    read: BTreeMap<Name, Option<ReadData>>,
    /// When to read them again. Some entries may be left over from objects that no workload reads
    /// any more; see [`Configuration::drop_leftovers`].
    reads: BTreeSet<(Timestamp, Name)>,
    /// No read before this time.
    next_read: Timestamp,
    /// When the read that is waiting for an answer was asked for.
    asked: Option<Timestamp>,
    /// When to check the Pods of workloads again.
    checks: BTreeSet<(Timestamp, Slot)>,
    /// What the reads of each workload take, in bytes, by namespace; see [`cost`].
    by_namespace: Crowd<Arc<str>, Slot>,
    due: Option<Timestamp>,
}

/// A workload whose Pods read something only when they start.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    pub(super) reads: Box<[StartupRead]>,
    /// By position in `reads`, the first change that the Pods are not known to have read.
    pub(super) unread: BTreeMap<usize, (Timestamp, bool)>,
    /// No write up to this time can make the workload stale: all Pods are newer, or nothing can
    /// show that they are not.
    pub(super) settled: Timestamp,
    /// When the Pods were last read.
    pub(super) checked: Option<Timestamp>,
    /// Reads of the Pods from before this time do not count.
    pub(super) not_before: Timestamp,
    /// The result of the last check.
    pub(super) stale: Option<Box<Stale>>,
    check_at: Option<Timestamp>,
}

/// What a check of the Pods of a stale workload showed.
#[derive(Clone, Debug)]
pub(super) struct Stale {
    /// When the data that the Pods have not read changed; with several changes, the first.
    pub(super) since: Timestamp,
    /// What changed, as `Kind name`.
    pub(super) names: Vec<String>,
    /// The number of Pods that have not read it.
    pub(super) pods: usize,
    /// The creation of the oldest of them.
    pub(super) oldest: Timestamp,
    /// The data certainly changed, and the Pods read all of its keys.
    pub(super) certain: bool,
}

/// The namespace, whether it is a Secret, and the name of an object.
type Name = (Box<str>, bool, Box<str>);

/// The data of an object that was read.
#[derive(Clone, Copy, Debug)]
struct ReadData {
    uid: u128,
    written: LastWrite,
}

/// The time between two reads of one object.
const READ_EVERY: Span = Span::mins(10);
/// The time before the first read, in which the watches can list their objects.
const FIRST_READ: Span = Span::mins(1);
/// How long to wait for an answer, and thus the shortest time between two reads.
const READ_STEP: Span = Span::secs(2);

/// The number of leftover reads that are not worth dropping.
const FEW_READS: usize = 64;

/// The part of the memory for objects that the names of all reads may take. Each name is kept
/// up to five times, so all of them take a fifth of that memory at most.
const READS_PART: usize = 24;

impl Part for Configuration {
    fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        self.update_configuration(step.world, version.slot, version.view);
    }

    fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, _deleted: bool) {
        self.remove_configuration(step.world, slot);
    }

    fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        self.stale_configuration(step.world, step.findings, slot).into_iter().collect()
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    fn due(&mut self, step: &mut StepContext<'_>) {
        self.configurations_due(step.world);
    }

    fn clock_stepped(&mut self, by_ms: i64) {
        self.shift(by_ms);
    }
}

impl Configuration {
    fn set_reads(
        &mut self,
        now: Timestamp,
        slot: Slot,
        namespace: &Arc<str>,
        reads: &[StartupRead],
    ) {
        let name = |read: &StartupRead| name(namespace, read);
        let old = self.consumers.remove(&slot).unwrap_or_default();
        for read in &old.reads {
            if let Some(slots) = self.readers.get_mut(&name(read)) {
                slots.remove(&slot);
                if slots.is_empty() {
                    self.readers.remove(&name(read));
                    self.read.remove(&name(read));
                }
            }
        }

        if reads.is_empty() {
            self.by_namespace.remove(namespace, &slot);
            if let Some(at) = old.check_at {
                self.checks.remove(&(at, slot));
            }
            return self.drop_leftovers();
        }

        for read in reads {
            let slots = self.readers.entry(name(read)).or_default();
            if slots.is_empty() {
                self.reads.insert((now.after(FIRST_READ), name(read)));
            }

            slots.insert(slot);
        }

        self.by_namespace.insert(namespace, slot, cost(reads));
        self.consumers
            .insert(slot, Consumer { reads: reads.into(), unread: BTreeMap::new(), ..old });
        self.drop_leftovers();
    }

    /// Drops the entries of objects that no workload reads any more, once they are most of all: a
    /// workload may change again and again what it reads.
    fn drop_leftovers(&mut self) {
        if self.reads.len() <= 2 * self.readers.len() + FEW_READS {
            return;
        }

        let (readers, mut kept) = (&self.readers, BTreeSet::new());
        self.reads.retain(|(_, name)| readers.contains_key(name) && kept.insert(name.clone()));
    }

    /// Sets when the Pods of a workload are checked again.
    pub(super) fn check_at(&mut self, slot: Slot, at: Option<Timestamp>) {
        let Some(consumer) = self.consumers.get_mut(&slot) else { return };
        if let Some(old) = std::mem::replace(&mut consumer.check_at, at) {
            self.checks.remove(&(old, slot));
        }

        self.checks.extend(at.map(|at| (at, slot)));
    }

    /// Moves all instants of loopwatch's clock to its new setting.
    fn shift(&mut self, by_ms: i64) {
        let checks = std::mem::take(&mut self.checks);
        self.checks = checks.into_iter().map(|(at, slot)| (at.shifted(by_ms), slot)).collect();

        let reads = std::mem::take(&mut self.reads);
        self.reads = reads.into_iter().map(|(at, name)| (at.shifted(by_ms), name)).collect();
        self.next_read = self.next_read.shifted(by_ms);
        self.asked = self.asked.map(|at| at.shifted(by_ms));
        self.due = self.due.map(|due| due.shifted(by_ms));

        for consumer in self.consumers.values_mut() {
            consumer.not_before = consumer.not_before.shifted(by_ms);
            let own = consumer.checked.iter_mut().chain(&mut consumer.check_at);
            own.for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

impl Configuration {
    /// Records when the data of an object was written, or what the Pods of a workload read.
    fn update_configuration(&mut self, world: &mut World, slot: Slot, view: &ObjectView) {
        let Some(record) = world.store.get(slot) else { return };
        let kind = world.kind_of(record.watch);
        if kind.role == Role::Primary {
            return;
        }

        if kind.group.is_empty() && matches!(&*kind.kind, "ConfigMap" | "Secret") {
            let old = self.written.get(&slot).copied();
            let Some(new) = DataWrite::of(view).map(|write| LastWrite::after(&write, old)) else {
                return;
            };

            self.written.insert(slot, new);
            if old.is_none_or(|old| old.changed != new.changed) {
                self.review_readers(world, &configuration_name(world, slot));
            }

            return;
        }

        let known = self.consumers.get(&slot);
        if known.map_or(&[][..], |consumer| &consumer.reads) == view.startup.as_slice() {
            return;
        }

        let namespace = record.namespace.clone();
        if self.make_room(world, slot, &namespace, cost(&view.startup)) {
            self.set_reads(world.now, slot, &namespace, &view.startup);
            self.set_configurations_timer(world);
        } else {
            // What the workload read before shows nothing about what it reads now.
            self.remove_configuration(world, slot);
        }
    }

    /// Makes room for the reads of a workload: those of workloads in the namespace whose reads take
    /// most memory are forgotten. Returns whether there is room.
    fn make_room(
        &mut self,
        world: &mut World,
        slot: Slot,
        namespace: &Arc<str>,
        cost: usize,
    ) -> bool {
        let limit = world.settings.limits.object_memory() / READS_PART;
        let old = self.consumers.get(&slot).map(|consumer| self::cost(&consumer.reads));
        let has_room = |known: &Self| {
            (old.is_some() || known.consumers.len() < MAX_CONSUMERS)
                && known.by_namespace.size() + cost <= limit + old.unwrap_or_default()
        };

        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, cost).copied();
        let forget = |known: &mut Self, world: &mut World, other| {
            known.remove_configuration(world, other);
            world.agenda.objects.insert(other);
        };

        crowd::make_room(self, world, Limit::Configuration, has_room, leaves, forget)
    }

    /// Forgets an object.
    fn remove_configuration(&mut self, world: &mut World, slot: Slot) {
        if self.written.remove(&slot).is_some() {
            let name = configuration_name(world, slot);
            self.review_readers(world, &name);
            if self.readers.contains_key(&name) {
                // The object may only have lost its owner and still exist.
                self.reads.insert((world.now.after(FIRST_READ), name));
                self.set_configurations_timer(world);
            }
        }

        if self.consumers.contains_key(&slot) {
            let namespace =
                world.store.get(slot).map(|record| record.namespace.clone()).unwrap_or_default();
            self.set_reads(world.now, slot, &namespace, &[]);
            self.set_configurations_timer(world);
        }
    }
}

/// Returns what the reads of one workload take, in bytes: their names, each with its entry.
fn cost(reads: &[StartupRead]) -> usize {
    reads.iter().map(|read| read.name.len() + 64).sum()
}

fn configuration_name(world: &World, slot: Slot) -> Name {
    let Some(record) = world.store.get(slot) else { return Name::default() };
    (
        (*record.namespace).into(),
        &*world.kind_of(record.watch).kind == "Secret",
        record.name.clone(),
    )
}

impl Configuration {
    /// Marks the workloads that read an object for review.
    fn review_readers(&self, world: &mut World, name: &Name) {
        world.agenda.objects.extend(self.readers.get(name).into_iter().flatten());
    }

    /// Returns when the data of an object was written, if a watch or a read has shown it.
    pub(super) fn written(
        &self,
        world: &World,
        namespace: &str,
        read: &StartupRead,
    ) -> Option<LastWrite> {
        let watched = self.watched_data(world, namespace, kind(read), &read.name);
        watched.or_else(|| Some(self.read.get(&name(namespace, read))?.as_ref()?.written))
    }

    fn watched_data(
        &self,
        world: &World,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Option<LastWrite> {
        let mut slots = world
            .watches_of("", kind)
            .filter_map(|(number, _)| world.store.find(number, namespace, name));
        slots.find_map(|slot| self.written.get(&slot)).copied()
    }

    /// Returns whether a watch or a read has yet to show when the data of an object was written.
    pub(super) fn is_awaited(&self, world: &World, namespace: &str, read: &StartupRead) -> bool {
        self.written(world, namespace, read).is_none()
            && !self.read.contains_key(&name(namespace, read))
    }

    /// Looks up the unwatched objects that are due, until one needs a request.
    fn read_configurations(&mut self, world: &mut World) {
        if self.next_read > world.now {
            return;
        }
        while let Some((at, name)) = self.reads.first().cloned().filter(|(at, _)| *at <= world.now)
        {
            self.reads.pop_first();
            let slot = self.readers.get(&name).and_then(|slots| slots.first().copied());
            let kind = if name.1 { "Secret" } else { "ConfigMap" };
            let Some(slot) =
                slot.filter(|_| self.watched_data(world, &name.0, kind, &name.2).is_none())
            else {
                continue;
            };

            let (group, kind) = (String::new(), kind.to_owned());
            let address = ObjectAddress {
                group,
                kind,
                namespace: name.0.to_string(),
                name: name.2.to_string(),
            };

            let answer = world.brief_existence(slot, &address, at);
            let asked = *self.asked.get_or_insert(world.now);
            if answer.is_none() && world.now < asked.after(ASK_AGAIN) {
                // The entry keeps its due time, so that the answer to this read counts as recent
                // enough.
                self.next_read = world.now.after(READ_STEP);
                self.reads.insert((at, name));
                return;
            }

            self.asked = None;
            self.configuration_read(world, &name, &answer.unwrap_or(Existence::Unreadable));
            self.reads.insert((world.now.after(READ_EVERY), name));
        }
    }

    fn configuration_read(&mut self, world: &mut World, name: &Name, answer: &Existence) {
        let old = self.read.get(name).copied().flatten();
        let new = match answer {
            Existence::Exists(found) => found.data.as_ref().map(|write| {
                let written = old.filter(|old| old.uid == found.uid).map(|old| old.written);
                ReadData { uid: found.uid, written: LastWrite::after(write, written) }
            }),
            Existence::Absent | Existence::KindUnknown => None,
            Existence::Unreadable | Existence::Failed | Existence::Dependents(_) => old,
        };

        self.read.insert(name.clone(), new);
        let changed = |data: Option<ReadData>| data.map(|data| data.written.changed);
        if changed(old) != changed(new) {
            self.review_readers(world, name);
        }
    }

    /// Handles the timer: checks the Pods of workloads again.
    fn configurations_due(&mut self, world: &mut World) {
        while let Some((_, slot)) = self.checks.first().copied().filter(|(at, _)| *at <= world.now)
        {
            self.checks.pop_first();
            if let Some(consumer) = self.consumers.get_mut(&slot) {
                (consumer.check_at, consumer.not_before) = (None, world.now);
                world.agenda.objects.insert(slot);
            }
        }

        self.read_configurations(world);
        self.set_configurations_timer(world);
    }

    pub(super) fn set_configurations_timer(&mut self, world: &World) {
        let check = self.checks.first().map(|(at, _)| *at);
        let read = self.reads.first().map(|(at, _)| (*at).max(self.next_read));

        // A timer that is due now would fire again within the same step.
        let due = check.into_iter().chain(read).min();
        self.due = due.map(|due| due.max(world.now.after(Span(1))));
    }
}

/// Returns the kind of an object that Pods read.
pub(super) const fn kind(read: &StartupRead) -> &'static str {
    if read.secret { "Secret" } else { "ConfigMap" }
}

fn name(namespace: &str, read: &StartupRead) -> Name {
    (namespace.into(), read.secret, read.name.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_reads_other_names_again_and_again_leaves_nothing_behind() {
        let mut configuration = Configuration::default();
        for number in 0..10_000 {
            let read = StartupRead { name: format!("config-{number}"), ..StartupRead::default() };
            configuration.set_reads(Timestamp(number), 7, &"team-a".into(), &[read]);
        }

        assert!(configuration.reads.len() <= FEW_READS + 3, "{}", configuration.reads.len());
        assert_eq!((configuration.readers.len(), configuration.by_namespace.size()), (1, 11 + 64));

        configuration.set_reads(Timestamp(0), 7, &"team-a".into(), &[]);
        assert_eq!((configuration.readers.len(), configuration.by_namespace.size()), (0, 0));
    }
}
