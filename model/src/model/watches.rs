//! What is watched: kinds come and go, lists begin and end, and the state is compared with the server's.

use std::collections::BTreeSet;

use super::Model;
use super::kinds::{Counted, Kind, Watch};
use super::store::{self, Slot};
use super::timers::Timer;
use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::observation::{Answer, Probe, SourceId, WatchId, WatchedKind};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

/// How many objects a finding about a kind names.
const EXAMPLES: usize = 3;

// === impl Model ===

impl Model {
    /// Replaces what is watched.
    pub(crate) fn discovered(&mut self, list: &[WatchedKind]) {
        let mut named = BTreeSet::new();
        for watched in list {
            let Some(number) = self.watch_number(watched) else { continue };
            named.insert(number);
            let watch = &mut self.watches[number as usize];
            watch.active = true;
            watch.missing.clone_from(&watched.missing);
            let kind = watch.kind;
            let kind = &mut self.kinds[kind as usize];
            kind.version.clone_from(&watched.version);
            kind.status = watched.status;
            if !watched.missing.is_empty() {
                self.lose_sight(number);
            }
        }
        for number in 0..self.watches.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            if !named.contains(&number) && self.watches[number as usize].active {
                self.watches[number as usize].active = false;
                self.lose_sight(number);
                let id = self.watches[number as usize].id.clone();
                self.sources.forget(self.now, &SourceId::Watch(id), &mut self.timers, &mut self.open_findings);
            }
        }
        self.review_permissions();
    }

    /// The number of a watch by its name, when it is known.
    pub(crate) fn watch(&self, id: &WatchId) -> Option<u16> {
        self.watch_of.get(id).copied()
    }

    pub(crate) fn kind_of(&self, watch: u16) -> &Kind {
        &self.kinds[self.watches[watch as usize].kind as usize]
    }

    fn watch_number(&mut self, watched: &WatchedKind) -> Option<u16> {
        if let Some(number) = self.watch_of.get(&watched.watch) {
            return Some(*number);
        }
        if self.watches.len() >= self.settings.limits.watches {
            self.drop_one("watches");
            return None;
        }
        let kind = match self.kinds.iter().position(|k| *k.group == watched.group && *k.kind == watched.kind) {
            Some(kind) => kind,
            None => {
                self.kinds.push(self.new_kind(watched));
                self.kinds.len() - 1
            }
        };
        let number = u16::try_from(self.watches.len()).ok()?;
        self.watches.push(Watch::new(watched, u16::try_from(kind).ok()?));
        self.watch_of.insert(watched.watch.clone(), number);
        Some(number)
    }

    fn new_kind(&self, watched: &WatchedKind) -> Kind {
        let mut kind = Kind::new(watched);
        if let Some(numbers) = self.restored_learning.get(&kind.name()) {
            kind.learned = super::learned::Learned::from_numbers(numbers);
        }
        kind
    }

    /// The watch sees nothing any more: its objects are forgotten, and what they owed is unknown.
    fn lose_sight(&mut self, number: u16) {
        for slot in self.slots_of(number, |_| true) {
            self.remove(slot, Outcome::Unknown);
        }
        let watch = &mut self.watches[number as usize];
        watch.synced = false;
        watch.listing = None;
        let due = watch.audit.due.take();
        watch.audit.pending = None;
        watch.totals.audit_difference = None;
        self.timers.set(Timer::Audit(number), due, None);
        self.open_findings.clear(
            self.now,
            FindingCode::StateInconsistent,
            &source_of(&self.watches[number as usize].id),
        );
    }

    fn slots_of(&self, watch: u16, wanted: impl Fn(u32) -> bool) -> Vec<Slot> {
        self.store.slots().filter(|(_, r)| r.watch == watch && wanted(r.epoch)).map(|(slot, _)| slot).collect()
    }

    pub(crate) fn list_began(&mut self, number: u16, epoch: u64) {
        let watch = &mut self.watches[number as usize];
        watch.listing = Some(epoch);
        watch.epoch = watch.epoch.wrapping_add(1); // ours, so that it fits into a record
        watch.audit.pending = None;
    }

    pub(crate) fn list_ended(&mut self, number: u16, epoch: u64, version: &str) {
        let watch = &mut self.watches[number as usize];
        if watch.listing.take() != Some(epoch) {
            return; // an abandoned list says nothing about what is gone
        }
        let current = watch.epoch;
        watch.synced = true;
        watch.newest = watch.newest.max(store::order(version));
        for slot in self.slots_of(number, |seen| seen != current) {
            self.forget(slot);
        }
        let due = self.now.after(self.settings.audit_every);
        let old = self.watches[number as usize].audit.due.replace(due);
        self.timers.set(Timer::Audit(number), old, Some(due));
    }

    /// Time for the next audit.
    pub(crate) fn audit_due(&mut self, number: u16) {
        let due = self.now.after(self.settings.audit_every);
        let watch = &mut self.watches[number as usize];
        watch.audit.due = Some(due);
        self.timers.set(Timer::Audit(number), None, Some(due));
        if watch.active && watch.synced && watch.audit.pending.is_none() {
            self.probes.insert(Probe::Count(watch.id.clone()));
        }
    }

    pub(crate) fn answered(&mut self, probe: &Probe, answer: &Answer) {
        let Probe::Count(id) = probe;
        let (Some(number), Answer::Counted { objects, version }) = (self.watch(id), answer) else { return };
        let counted = Counted { at: self.now, objects: *objects, version: store::order(version), late_event: None };
        let watch = &mut self.watches[number as usize];
        if counted.version == 0 || watch.listing.is_some() || !watch.synced {
            return;
        }
        if watch.newest_object > counted.version {
            watch.totals.lag.observe(Span::ZERO); // already past it, so that counts are of different instants
        } else if watch.newest >= counted.version {
            self.compare(number, counted);
        } else {
            watch.audit.pending = Some(counted);
        }
    }

    /// The watch is about to deliver `version`, of an object when `event`: now the state is as of the version before.
    pub(crate) fn reach(&mut self, number: u16, version: &str, event: bool) {
        let version = store::order(version);
        let watch = &mut self.watches[number as usize];
        if let Some(counted) = watch.audit.pending.as_mut() {
            if event && version <= counted.version {
                counted.late_event = Some(self.now);
            } else if version >= counted.version {
                let counted = *counted;
                watch.audit.pending = None;
                self.compare(number, counted);
            }
        }
        let watch = &mut self.watches[number as usize];
        watch.newest = watch.newest.max(version);
        if event {
            watch.newest_object = watch.newest_object.max(version);
        }
    }

    /// Here and there at the same version: the counts must be the same.
    fn compare(&mut self, number: u16, counted: Counted) {
        let watch = &mut self.watches[number as usize];
        let lag = counted.late_event.map_or(Span::ZERO, |late| late.since(counted.at));
        watch.totals.lag.observe(lag);
        let here = i64::try_from(watch.totals.objects).unwrap_or(i64::MAX);
        let server = i64::try_from(counted.objects).unwrap_or(i64::MAX);
        let difference = here.saturating_sub(server);
        let same = watch.totals.audit_difference == Some(difference);
        watch.audit.agreeing = if same { watch.audit.agreeing.saturating_add(1) } else { 1 };
        watch.totals.audit_difference = Some(difference);
        let subject = source_of(&watch.id);
        if difference == 0 {
            self.open_findings.clear(self.now, FindingCode::StateInconsistent, &subject);
        } else if watch.audit.agreeing >= 2 {
            let evidence = Evidence::new()
                .with("here", Value::Count(here))
                .with("server", Value::Count(server))
                .text("version", counted.version.to_string());
            self.raise(counted.at, FindingCode::StateInconsistent, subject, evidence);
        }
    }

    /// What holds for a kind as a whole.
    pub(crate) fn review_kind(&mut self, number: u16) {
        let (now, settings) = (self.now, &self.settings);
        let kind = &mut self.kinds[number as usize];
        let failing = kind.failing.len() as u64;
        let many = failing >= u64::from(settings.failing_objects).max(1)
            && failing * 100 >= kind.objects.saturating_mul(u64::from(settings.failing_percent));
        let since = if many { Some(kind.failing_since.unwrap_or(now)) } else { None };
        kind.failing_since = since;
        let holds_at = since.map(|since| since.after(settings.settle));
        let due = holds_at.filter(|at| *at > now);
        let old = std::mem::replace(&mut kind.due, due);
        self.timers.set(Timer::Kind(number), old, due);
        let subject = Subject::Kind { group: kind.group.to_string(), kind: kind.kind.to_string() };
        match since.filter(|_| due.is_none()) {
            Some(since) => self.raise_failing(number, since, subject.clone()),
            None => self.open_findings.clear(self.now, FindingCode::Failing, &subject),
        }
        self.review_malformed(number, subject);
    }

    fn raise_failing(&mut self, number: u16, since: Timestamp, subject: Subject) {
        let kind = &self.kinds[number as usize];
        let first = kind.failing.first().and_then(|slot| self.store.get(*slot));
        let signal = first.and_then(|record| record.hot.as_ref()).map_or_else(String::new, |hot| hot.signal.clone());
        let evidence = Evidence::new()
            .with("failed", Value::Count(kind.failing.len() as i64))
            .with("objects", Value::Count(i64::try_from(kind.objects).unwrap_or(i64::MAX)))
            .text("reason", signal)
            .with("examples", Value::Names(self.names(kind.failing.iter())));
        self.raise(since, FindingCode::Failing, subject, evidence);
    }

    fn review_malformed(&mut self, number: u16, subject: Subject) {
        let kind = &mut self.kinds[number as usize];
        if kind.malformed.is_empty() {
            kind.lints.clear();
            return self.open_findings.clear(self.now, FindingCode::ConditionMalformed, &subject);
        }
        let kind = &self.kinds[number as usize];
        let evidence = Evidence::new()
            .with("lints", Value::Names(kind.lints.iter().cloned().collect()))
            .with("objects", Value::Count(kind.malformed.len() as i64))
            .with("examples", Value::Names(self.names(kind.malformed.iter())));
        self.raise(self.now, FindingCode::ConditionMalformed, subject, evidence);
    }

    fn names<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> Vec<String> {
        let records = slots.filter_map(|slot| self.store.get(*slot)).take(EXAMPLES);
        records
            .map(|r| if r.namespace.is_empty() { r.name.to_string() } else { format!("{}/{}", r.namespace, r.name) })
            .collect()
    }
}

pub(crate) fn source_of(watch: &WatchId) -> Subject {
    Subject::Source { name: SourceId::Watch(watch.clone()).to_string() }
}
