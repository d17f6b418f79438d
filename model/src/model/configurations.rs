//! When the data of ConfigMaps and Secrets was written, and which workloads read it only when their Pods start.
//!
//! loopwatch never reads the data. The managed fields show when a writer last changed something in its part of the object,
//! which may be its data or its metadata. It was the data for certain if the writer has no part in the metadata, or if
//! loopwatch has seen the versions before and after, with the same metadata. Neither `immutable` nor the type of a Secret
//! can change, so they need no regard.

use std::collections::{BTreeMap, BTreeSet};

use super::Model;
use super::stale::Stale;
use super::store::Slot;
use super::timers::Timer;
use crate::observation::{ObjectView, Role, StartupRead};
use crate::time::{Span, Timestamp};

/// The workloads and what they read.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    /// The workloads whose Pods read something only when they start. At most [`MAX_CONSUMERS`].
    pub(super) consumers: BTreeMap<Slot, Consumer>,
    /// The workloads that read each object.
    readers: BTreeMap<Name, BTreeSet<Slot>>,
    /// When the data of each watched object was written. The number of objects limits the size.
    written: BTreeMap<Slot, Written>,
    /// When to check the Pods of workloads again.
    checks: BTreeSet<(Timestamp, Slot)>,
    due: Option<Timestamp>,
}

/// A workload whose Pods read something only when they start.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    pub(super) reads: Box<[StartupRead]>,
    /// No write up to this time can make the workload stale: all Pods are younger, or it cannot be known.
    pub(super) settled: Timestamp,
    /// When the Pods were read last.
    pub(super) checked: Option<Timestamp>,
    /// The Pods must be read at this time or later.
    pub(super) not_before: Timestamp,
    /// What the last check has shown.
    pub(super) stale: Option<Box<Stale>>,
    check_at: Option<Timestamp>,
}

/// The namespace, whether it is a Secret, and the name of an object.
type Name = (Box<str>, bool, Box<str>);

/// When the data of an object was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// When somebody last wrote the object or its metadata, in seconds.
    at: u32,
    /// When the data changed, in seconds; 0 if it may be as old as the object.
    changed: u32,
    /// It was the data for certain, not the metadata.
    certain: bool,
    marks_hash: u64,
}

/// The maximum number of workloads whose configuration is followed.
pub(super) const MAX_CONSUMERS: usize = 20_000;

/// The resolution of times in managed fields, doubled, because the creation of an object spans several instants.
const SAME_TIME: Span = Span::secs(2);

// === impl Configurations ===

impl Configurations {
    fn set_reads(&mut self, slot: Slot, namespace: &str, reads: &[StartupRead]) {
        let name = |read: &StartupRead| (namespace.into(), read.secret, read.name.as_str().into());
        let old = self.consumers.remove(&slot).unwrap_or_default();
        for read in &old.reads {
            if let Some(slots) = self.readers.get_mut(&name(read)) {
                slots.remove(&slot);
                if slots.is_empty() {
                    self.readers.remove(&name(read));
                }
            }
        }
        if reads.is_empty() {
            if let Some(at) = old.check_at {
                self.checks.remove(&(at, slot));
            }
            return;
        }
        for read in reads {
            self.readers.entry(name(read)).or_default().insert(slot);
        }
        self.consumers.insert(slot, Consumer { reads: reads.into(), ..old });
    }

    /// Sets when the Pods of a workload are checked again.
    pub(super) fn check_at(&mut self, slot: Slot, at: Option<Timestamp>) {
        let Some(consumer) = self.consumers.get_mut(&slot) else { return };
        if let Some(old) = std::mem::replace(&mut consumer.check_at, at) {
            self.checks.remove(&(old, slot));
        }
        self.checks.extend(at.map(|at| (at, slot)));
    }

    /// Moves all own instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let checks = std::mem::take(&mut self.checks);
        self.checks = checks.into_iter().map(|(at, slot)| (at.shifted(by_ms), slot)).collect();
        self.due = self.due.map(|due| due.shifted(by_ms));
        for consumer in self.consumers.values_mut() {
            consumer.not_before = consumer.not_before.shifted(by_ms);
            let own = consumer.checked.iter_mut().chain(&mut consumer.check_at);
            own.for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

// === impl Written ===

impl Written {
    fn read(view: &ObjectView, old: Option<Self>) -> Option<Self> {
        let entries = view.managers.iter().filter(|manager| manager.owns.spec);
        let newest = entries.filter_map(|manager| Some((manager.time?, !manager.owns.only_data))).max()?;
        let at = u32::try_from(newest.0.0 / 1000).ok()?;
        let new = Self { at, changed: 0, certain: false, marks_hash: view.marks_hash };
        let is_change = view.created.is_some_and(|created| newest.0 >= created.after(SAME_TIME));
        let same_metadata = |old: Self| view.marks_hash != 0 && view.marks_hash == old.marks_hash;
        Some(match old {
            Some(old) if at <= old.at => Self { at: old.at, changed: old.changed, certain: old.certain, ..new },
            Some(old) if is_change && (!newest.1 || same_metadata(old)) => Self { changed: at, certain: true, ..new },
            // The metadata has changed, and maybe the data as well.
            Some(old) if old.changed > 0 => Self { changed: old.changed, certain: old.certain, ..new },
            _ if is_change => Self { changed: at, certain: !newest.1, ..new },
            _ => new,
        })
    }

    /// Returns when the data last changed, and whether that is certain; `None` if it may be as old as the object.
    pub(super) fn change(self) -> Option<(Timestamp, bool)> {
        (self.changed > 0).then(|| (Timestamp(i64::from(self.changed) * 1000), self.certain))
    }
}

// === impl Model ===

impl Model {
    /// Takes when the data of an object was written, or what the Pods of a workload read.
    pub(crate) fn update_configuration(&mut self, slot: Slot, view: &ObjectView) {
        let Some(record) = self.store.get(slot) else { return };
        let kind = self.kind_of(record.watch);
        if kind.role == Role::Primary {
            return;
        }
        if kind.group.is_empty() && matches!(&*kind.kind, "ConfigMap" | "Secret") {
            let old = self.configurations.written.get(&slot).copied();
            let Some(new) = Written::read(view, old) else { return };
            self.configurations.written.insert(slot, new);
            if old.is_none_or(|old| old.changed != new.changed) {
                self.review_readers(slot);
            }
            return;
        }
        let known = self.configurations.consumers.get(&slot);
        if known.map_or(&[][..], |consumer| &consumer.reads) == view.startup.as_slice() {
            return;
        }
        if known.is_none() && self.configurations.consumers.len() >= MAX_CONSUMERS {
            return self.count_dropped("configurations");
        }
        self.configurations.set_reads(slot, &view.key.namespace, &view.startup);
        self.set_configurations_timer();
    }

    /// Forgets an object.
    pub(crate) fn remove_configuration(&mut self, slot: Slot) {
        if self.configurations.written.remove(&slot).is_some() {
            self.review_readers(slot);
        }
        if self.configurations.consumers.contains_key(&slot) {
            let namespace = self.store.get(slot).map(|record| record.namespace.clone()).unwrap_or_default();
            self.configurations.set_reads(slot, &namespace, &[]);
            self.set_configurations_timer();
        }
    }

    /// Marks the workloads that read an object for a review.
    fn review_readers(&mut self, slot: Slot) {
        let Some(record) = self.store.get(slot).filter(|_| !self.configurations.readers.is_empty()) else { return };
        let is_secret = &*self.kind_of(record.watch).kind == "Secret";
        let name = ((*record.namespace).into(), is_secret, record.name.clone());
        self.reviews.objects.extend(self.configurations.readers.get(&name).into_iter().flatten());
    }

    /// Returns when the data of an object was written, if a watch shows it.
    pub(super) fn written(&self, namespace: &str, read: &StartupRead) -> Option<Written> {
        let kind = kind(read);
        let mut slots = self.watches_of("", kind).filter_map(|(n, _)| self.store.find(n, namespace, &read.name));
        slots.find_map(|slot| self.configurations.written.get(&slot)).copied()
    }

    /// Handles the timer: checks the Pods of workloads again.
    pub(crate) fn configurations_due(&mut self) {
        self.configurations.due = None;
        while let Some((_, slot)) = self.configurations.checks.first().copied().filter(|(at, _)| *at <= self.now) {
            self.configurations.checks.pop_first();
            if let Some(consumer) = self.configurations.consumers.get_mut(&slot) {
                (consumer.check_at, consumer.not_before) = (None, self.now);
                self.reviews.objects.insert(slot);
            }
        }
        self.set_configurations_timer();
    }

    pub(super) fn set_configurations_timer(&mut self) {
        let due = self.configurations.checks.first().map(|(at, _)| *at);
        let old = std::mem::replace(&mut self.configurations.due, due);
        self.timers.set(Timer::Configurations, old, due);
    }
}

/// Returns the kind of an object that Pods read.
pub(super) const fn kind(read: &StartupRead) -> &'static str {
    if read.secret { "Secret" } else { "ConfigMap" }
}
