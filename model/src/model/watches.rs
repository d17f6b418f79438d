//! Watches: discovery of kinds, lists, audits, and findings about a kind as a whole.

use std::collections::BTreeSet;

use super::Model;
use super::kinds::{Kind, PendingCount, Watch};
use super::sources::source_subject;
use super::store::{self, Slot};
use super::timers::Timer;
use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::observation::{Answer, Probe, SourceId, WatchId, WatchedKind};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

/// The maximum number of objects that a finding about a kind names.
const MAX_EXAMPLES: usize = 3;

// === impl Model ===

impl Model {
    /// Replaces the set of watches.
    pub(crate) fn kinds_discovered(&mut self, list: &[WatchedKind]) {
        let mut discovered = BTreeSet::new();
        for watched in list {
            let Some(number) = self.find_or_add_watch(watched) else { continue };
            discovered.insert(number);
            let watch = &mut self.watches[number as usize];
            watch.active = true;
            watch.missing.clone_from(&watched.missing);
            let kind = watch.kind;
            let kind = &mut self.kinds[kind as usize];
            kind.version.clone_from(&watched.version);
            kind.status = watched.status;
            if !watched.missing.is_empty() {
                self.reset_watch(number);
            }
        }
        for number in 0..self.watches.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            if !discovered.contains(&number) && self.watches[number as usize].active {
                self.watches[number as usize].active = false;
                self.reset_watch(number);
                let id = self.watches[number as usize].id.clone();
                self.sources.deactivate(self.now, &SourceId::Watch(id), &mut self.timers, &mut self.open_findings);
            }
        }
        self.review_permissions();
    }

    /// Returns the number of a watch.
    pub(crate) fn find_watch(&self, id: &WatchId) -> Option<u16> {
        self.watch_numbers.get(id).copied()
    }

    pub(crate) fn kind_of(&self, watch: u16) -> &Kind {
        &self.kinds[self.watches[watch as usize].kind as usize]
    }

    /// Returns the number of a watch, which it adds if necessary. Returns `None` if `limits.watches` is reached.
    fn find_or_add_watch(&mut self, watched: &WatchedKind) -> Option<u16> {
        if let Some(number) = self.watch_numbers.get(&watched.watch) {
            return Some(*number);
        }
        if self.watches.len() >= self.settings.limits.watches {
            self.count_dropped("watches");
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
        self.watch_numbers.insert(watched.watch.clone(), number);
        Some(number)
    }

    fn new_kind(&self, watched: &WatchedKind) -> Kind {
        let mut kind = Kind::new(watched);
        if let Some(numbers) = self.restored_learning.get(&kind.name()) {
            kind.learned = super::learned::Learned::from_numbers(numbers);
        }
        kind
    }

    /// Resets a watch that no longer sees anything: removes its objects and ends their obligations with the outcome
    /// `unknown`.
    fn reset_watch(&mut self, number: u16) {
        for slot in self.slots_of(number, |_| true) {
            self.remove_object(slot, Outcome::Unknown);
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
            &source_subject(&SourceId::Watch(self.watches[number as usize].id.clone())),
        );
    }

    fn slots_of(&self, watch: u16, wanted: impl Fn(u32) -> bool) -> Vec<Slot> {
        self.store.iter().filter(|(_, r)| r.watch == watch && wanted(r.epoch)).map(|(slot, _)| slot).collect()
    }

    pub(crate) fn list_began(&mut self, number: u16, epoch: u64) {
        let watch = &mut self.watches[number as usize];
        watch.listing = Some(epoch);
        watch.epoch = watch.epoch.wrapping_add(1); // not the source's epoch, which does not fit into a record
        watch.audit.pending = None;
        watch.skipped = 0;
    }

    pub(crate) fn list_ended(&mut self, number: u16, epoch: u64, version: &str) {
        let watch = &mut self.watches[number as usize];
        if watch.listing.take() != Some(epoch) {
            return; // an abandoned list is incomplete, so it does not show which objects are gone
        }
        let current = watch.epoch;
        watch.synced = true;
        watch.newest = watch.newest.max(store::version_number(version));
        for slot in self.slots_of(number, |seen| seen != current) {
            self.remove_object(slot, Outcome::Deleted);
        }
        let due = self.now.after(self.settings.audit_every);
        let old = self.watches[number as usize].audit.due.replace(due);
        self.timers.set(Timer::Audit(number), old, Some(due));
    }

    /// Asks for the next audit of a watch, unless one is pending.
    pub(crate) fn audit_due(&mut self, number: u16) {
        let due = self.now.after(self.settings.audit_every);
        let watch = &mut self.watches[number as usize];
        watch.audit.due = Some(due);
        self.timers.set(Timer::Audit(number), None, Some(due));
        if watch.active && watch.synced && watch.audit.pending.is_none() {
            self.probes.insert(Probe::Count(watch.id.clone()));
        }
    }

    /// Handles the API server's object count: compares it with the model's count once both are at the same version.
    pub(crate) fn probe_answered(&mut self, probe: &Probe, answer: &Answer) {
        let Probe::Count(id) = probe;
        let (Some(number), Answer::Counted { objects, version }) = (self.find_watch(id), answer) else { return };
        let counted =
            PendingCount { at: self.now, objects: *objects, version: store::version_number(version), late_event: None };
        let watch = &mut self.watches[number as usize];
        if counted.version == 0 || watch.listing.is_some() || !watch.synced {
            return;
        }
        if watch.newest_object > counted.version {
            watch.totals.lag.observe(Span::ZERO); // the watch is ahead of the count, so the two cannot be compared
        } else if watch.newest >= counted.version {
            self.compare_counts(number, counted);
        } else {
            watch.audit.pending = Some(counted);
        }
    }

    /// Records that a watch is about to deliver `version`, as an event or as a bookmark. Compares a pending count if
    /// the model is at its version now, because an event of a later version is not applied yet.
    pub(crate) fn version_reached(&mut self, number: u16, version: &str, is_event: bool) {
        let version = store::version_number(version);
        let watch = &mut self.watches[number as usize];
        if let Some(counted) = watch.audit.pending.as_mut() {
            if is_event && version <= counted.version {
                counted.late_event = Some(self.now);
            } else if version >= counted.version {
                let counted = *counted;
                watch.audit.pending = None;
                self.compare_counts(number, counted);
            }
        }
        let watch = &mut self.watches[number as usize];
        watch.newest = watch.newest.max(version);
        if is_event {
            watch.newest_object = watch.newest_object.max(version);
        }
    }

    /// Compares the object counts of the model and the API server at one version. A finding opens after two consecutive
    /// audits with the same difference.
    fn compare_counts(&mut self, number: u16, counted: PendingCount) {
        let watch = &mut self.watches[number as usize];
        let lag = counted.late_event.map_or(Span::ZERO, |late| late.since(counted.at));
        watch.totals.lag.observe(lag);
        let here = i64::try_from(watch.totals.objects).unwrap_or(i64::MAX);
        let server = i64::try_from(counted.objects).unwrap_or(i64::MAX);
        let difference = watch.unexplained(here.saturating_sub(server));
        let same = watch.totals.audit_difference == Some(difference);
        watch.audit.agreeing = if same { watch.audit.agreeing.saturating_add(1) } else { 1 };
        watch.totals.audit_difference = Some(difference);
        let subject = source_subject(&SourceId::Watch(watch.id.clone()));
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

    /// Opens and closes the findings about a kind as a whole, and sets the timer of the kind.
    pub(crate) fn review_kind(&mut self, number: u16) {
        let (now, settings) = (self.now, &self.settings);
        let kind = &mut self.kinds[number as usize];
        let failing = kind.failing.len() as u64;
        let many_fail = failing >= u64::from(settings.failing_objects).max(1)
            && failing * 100 >= kind.objects.saturating_mul(u64::from(settings.failing_percent));
        let since = if many_fail { Some(kind.failing_since.unwrap_or(now)) } else { None };
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
            .with("examples", Value::Names(self.example_names(kind.failing.iter())));
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
            .with("examples", Value::Names(self.example_names(kind.malformed.iter())));
        self.raise(self.now, FindingCode::ConditionMalformed, subject, evidence);
    }

    fn example_names<'a>(&self, slots: impl Iterator<Item = &'a Slot>) -> Vec<String> {
        let records = slots.filter_map(|slot| self.store.get(*slot)).take(MAX_EXAMPLES);
        records
            .map(|r| if r.namespace.is_empty() { r.name.to_string() } else { format!("{}/{}", r.namespace, r.name) })
            .collect()
    }
}
