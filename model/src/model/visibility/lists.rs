//! Watches: discovery of kinds, lists and audits.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::Model;
use crate::model::findings::detection::Detection;
use crate::model::visibility::sources::source_subject;
use crate::model::world::kinds::{Kind, OTHER, PendingCount, REMEMBERED_FOR, Watch};
use crate::model::world::store::{self, Flag, Slot};
use crate::model::world::timers::Timer;
use crate::observation::{Answer, Probe, Role, SourceId, WatchId, WatchedKind, Why};
use crate::snapshot::{NamespaceTotals, Outcome};
use crate::time::Span;

/// The shortest time between two audits. Without one, the timer of an audit that cannot be made
/// would fire forever.
const SHORTEST_AUDIT: Span = Span::secs(1);

// === impl Model ===

impl Model {
    /// Replaces the set of watches.
    pub(crate) fn kinds_discovered(&mut self, list: &[WatchedKind]) {
        self.sources.note_success(&SourceId::Discovery, self.now);

        // First, the watches that are no longer discovered make room.
        let wanted: BTreeSet<&WatchId> = list.iter().map(|watched| &watched.watch).collect();
        for number in 0..self.watches.len() {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let watch = &self.watches[number as usize];
            if watch.active && !wanted.contains(&watch.id) {
                self.deactivate_watch(number);
            }
        }

        self.watches_left_out = false;
        for watched in list {
            let Some(number) = self.find_or_add_watch(watched) else {
                self.watches_left_out = true;
                continue;
            };
            let watch = &mut self.watches[number as usize];

            watch.active = true;
            watch.missing.clone_from(&watched.missing);
            watch.filtered = watched.filtered;
            watch.dumped = watched.why == Why::InDump;
            self.update_kind_definition(number, watched);

            if !watched.missing.is_empty() {
                let watch = &mut self.watches[number as usize];
                watch.failed_before |= watch.seen_before;
                self.reset_watch(number);
            }
        }

        let served = self
            .watches
            .iter()
            .filter(|watch| watch.active)
            .map(|watch| &self.kinds[watch.kind as usize]);
        let served = served
            .filter(|kind| kind.role == Role::Primary && !kind.suspected && !kind.group.is_empty());

        self.served_groups = served.map(|kind| kind.group.clone()).collect();
        self.review_permissions();
    }

    fn deactivate_watch(&mut self, number: u16) {
        self.watches[number as usize].active = false;
        self.reset_watch(number);

        let id = self.watches[number as usize].id.clone();
        let source = SourceId::Watch(id);
        self.clear_blind(&source);
        self.watches[number as usize].failing = false;
        self.stop_waiting(number);
        self.sources.deactivate(self.now, &source, &mut self.timers, &mut self.open_findings);
        self.forget_permissions(number);
    }

    /// Updates a kind from discovery. If loopwatch reads the kind in another way from now on, an
    /// object whose version is known is not known.
    fn update_kind_definition(&mut self, number: u16, watched: &WatchedKind) {
        let kind = self.watches[number as usize].kind;
        let state = &mut self.kinds[kind as usize];
        let changed = (state.role, state.status, state.version.as_str())
            != (watched.role, watched.status, &watched.version);

        state.version.clone_from(&watched.version);
        state.status = watched.status;
        state.role = watched.role;

        let suspicion_changed =
            std::mem::replace(&mut state.suspected, watched.suspected) != watched.suspected;
        if changed {
            state.voices.listed = None; // the end of the next list decides again what the kind says
            self.watches
                .iter_mut()
                .filter(|watch| watch.kind == kind)
                .for_each(|watch| watch.reread = true);
        }

        if suspicion_changed && self.kinds[kind as usize].objects > 0 {
            self.review_everything();
        }
    }

    /// Forgets the permissions in the namespace of a watch that is no longer discovered, unless
    /// another watch needs them.
    fn forget_permissions(&mut self, number: u16) {
        let Some(namespace) = self.watches[number as usize].scope.namespace() else { return };
        if !self
            .watches
            .iter()
            .any(|watch| watch.active && watch.scope.namespace() == Some(namespace))
        {
            self.permissions.remove(namespace);
        }
    }

    /// Returns the number of a watch.
    pub(crate) fn find_watch(&self, id: &WatchId) -> Option<u16> {
        self.watch_numbers.get(id).copied()
    }

    pub(crate) fn kind_of(&self, watch: u16) -> &Kind {
        &self.kinds[self.watches[watch as usize].kind as usize]
    }

    /// Returns the number of a watch, which it adds if necessary. Returns `None` if
    /// `limits.watches` is reached.
    fn find_or_add_watch(&mut self, watched: &WatchedKind) -> Option<u16> {
        if let Some(number) = self.watch_numbers.get(&watched.watch) {
            return Some(*number);
        }

        let free = match self.watches.len() < self.settings.limits.watches {
            true => None,
            false => match self.watches.iter().position(|watch| !watch.active) {
                Some(inactive) => Some(inactive),
                None => {
                    self.count_dropped("watches");
                    return None;
                }
            },
        };

        let kind = match self
            .kinds
            .iter()
            .position(|k| *k.group == watched.group && *k.kind == watched.kind)
        {
            Some(kind) => kind,
            None => {
                self.kinds.push(self.new_kind(watched));
                self.kinds.len() - 1
            }
        };

        let number = u16::try_from(free.unwrap_or(self.watches.len())).ok()?;
        let watch = Watch::new(watched, u16::try_from(kind).ok()?, self.now);
        match free {
            Some(position) => {
                self.retire_watch(number);
                self.watches[position] = watch;
            }
            None => self.watches.push(watch),
        }

        self.watch_numbers.insert(watched.watch.clone(), number);
        Some(number)
    }

    /// Keeps the totals of a watch that makes room for another one.
    fn retire_watch(&mut self, number: u16) {
        let watch = std::mem::take(&mut self.watches[number as usize]);
        self.watch_numbers.remove(&watch.id);
        for namespace in &watch.namespaces {
            let totals = namespace.at(self.now, watch.blind.is_some());
            self.retire_totals(watch.kind, namespace.name.clone(), &totals);
        }
    }

    /// Keeps the totals of a namespace that makes room for another one.
    pub(crate) fn retire_namespace(
        &mut self,
        watch: u16,
        name: Arc<str>,
        totals: &NamespaceTotals,
    ) {
        self.retire_totals(self.watches[watch as usize].kind, name, totals);
    }

    fn retire_totals(&mut self, kind: u16, name: Arc<str>, totals: &NamespaceTotals) {
        let retired = &mut self.kinds[kind as usize].retired;
        let fits = retired.len() < self.settings.limits.namespaces || retired.contains_key(&name);
        retired.entry(if fits { name } else { OTHER.into() }).or_default().add(totals);
    }

    fn new_kind(&self, watched: &WatchedKind) -> Kind {
        let mut kind = Kind::new(watched);
        if let Some(numbers) = self.restored_learning.get(&kind.name()) {
            kind.learned = crate::model::world::kinds::durations::Learned::from_numbers(numbers);
        }

        if let Some(memories) = self.restored_finalizers.get(&kind.name()) {
            kind.restore_finalizers(self.settings.limits.finalizers, memories);
        }

        kind
    }

    /// Resets a watch that no longer sees anything: removes its objects and ends their obligations
    /// with the outcome `unknown`. The model remembers for a while what the objects were like: a
    /// permission or a scope may return.
    fn reset_watch(&mut self, number: u16) {
        let slots = self.slots_of(number, |_| true);
        if !slots.is_empty() {
            self.remember_objects(number, &slots);
        }

        for slot in slots {
            self.remove_object(slot, Outcome::Unknown);
        }

        let watch = &mut self.watches[number as usize];
        watch.synced = false;
        watch.seen_before = false;
        watch.listing = None;
        watch.excluded.clear();

        let due = watch.audit.due.take();
        watch.audit.pending = None;
        watch.totals.audit_difference = None;
        self.timers.set(Timer::Audit(number), due, None);
        self.open_findings.clear(
            self.now,
            FindingCode::StateInconsistent,
            &source_subject(&SourceId::Watch(self.watches[number as usize].id.clone())),
        );
        self.update_sight(number);
    }

    /// Remembers which objects of a watch have converged with their specs, and the starts of the
    /// findings about them.
    fn remember_objects(&mut self, number: u16, slots: &[Slot]) {
        let kind = self.watches[number as usize].kind as usize;
        let unreliable = self.kinds[kind].generation_is_unreliable();
        self.kinds[kind].departed.begin(self.now);
        self.open_findings.forget_aside(self.now);

        for slot in slots {
            let Some(record) = self.store.get(*slot) else { continue };
            if let Some(hot) = record.hot.as_ref().filter(|hot| !hot.findings.is_empty()) {
                let (subject, until) = (self.subject(*slot), self.now.after(REMEMBERED_FOR));
                hot.findings
                    .iter()
                    .for_each(|code| self.open_findings.set_aside(*code, &subject, until));
            }

            let converged = record.flags.has(Flag::SpecConverged) && record.obligation().is_none();
            if let Some(spec) = record.spec_identity(unreliable).filter(|_| converged) {
                let regressed =
                    record.unconverged().and_then(|unconverged| unconverged.regressed_since);
                self.kinds[kind].departed.add(spec, regressed);
            }
        }
    }

    fn slots_of(&self, watch: u16, wanted: impl Fn(u32) -> bool) -> Vec<Slot> {
        self.store
            .iter()
            .filter(|(_, r)| r.watch == watch && wanted(r.epoch))
            .map(|(slot, _)| slot)
            .collect()
    }

    pub(crate) fn list_began(&mut self, number: u16, epoch: u64) {
        let watch = &mut self.watches[number as usize];
        watch.listing = Some(epoch);
        // Not the source's epoch, which does not fit into a record.
        watch.epoch = watch.epoch.wrapping_add(1);
        watch.current = 0;
        watch.audit.pending = None;
        watch.skipped = 0;
        self.update_sight(number);
    }

    pub(crate) fn list_ended(&mut self, number: u16, epoch: u64, version: &str) {
        let watch = &mut self.watches[number as usize];
        if watch.listing != Some(epoch) {
            return; // an abandoned list is incomplete, so it does not show which objects are gone
        }

        watch.listing = None;
        let current = watch.epoch;
        watch.synced = true;
        watch.reread = false;

        // Lower than before if the API server was restored from a backup.
        watch.newest = store::version_number(version);
        watch.newest_object = watch.newest_object.min(watch.newest);
        watch.excluded.retain(|_, seen| *seen == current);

        if watch.has_removed_objects() {
            for slot in self.slots_of(number, |seen| seen != current) {
                self.remove_object(slot, Outcome::Deleted);
            }
        }

        self.review_silence(number);
        self.schedule_audit(number);
        self.update_sight(number);
    }

    /// Asks for the next audit of a watch, unless one is pending.
    pub(crate) fn audit_due(&mut self, number: u16) {
        let watch = &mut self.watches[number as usize];
        watch.audit.due = None;
        if watch.active && watch.synced && !watch.filtered && watch.audit.pending.is_none() {
            // The next audit is due once a source has taken this probe: after a gap, one audit is
            // enough.
            self.probes.insert(Probe::Count(watch.id.clone()));
        } else {
            self.schedule_audit(number);
        }
    }

    pub(crate) fn schedule_audit(&mut self, number: u16) {
        let due = self.now.after(self.settings.audit_every.max(SHORTEST_AUDIT));
        let old = self.watches[number as usize].audit.due.replace(due);
        self.timers.set(Timer::Audit(number), old, Some(due));
    }

    /// Handles the API server's object count: compares it with the model's count once both are at
    /// the same version.
    pub(crate) fn count_answered(&mut self, id: &WatchId, answer: &Answer) {
        let (Some(number), Answer::Counted { objects, version }) = (self.find_watch(id), answer)
        else {
            return;
        };
        let counted = PendingCount {
            at: self.now,
            objects: *objects,
            version: store::version_number(version),
            late_event: None,
        };

        let watch = &mut self.watches[number as usize];
        if counted.version == 0 || watch.listing.is_some() || !watch.synced {
            return;
        }

        if watch.newest_object > counted.version {
            // The watch is ahead of the count, so the two cannot be compared.
            watch.totals.lag.observe(Span::ZERO);
        } else if watch.newest >= counted.version {
            self.compare_counts(number, counted);
        } else {
            watch.audit.pending = Some(counted);
        }
    }

    /// Records that a watch is about to deliver `version`, as an event or as a bookmark. Compares a
    /// pending count if the model is at its version now, because an event of a later version is not
    /// applied yet.
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

    /// Compares the object counts of the model and the API server at one version. A finding opens
    /// after two consecutive audits with the same difference.
    fn compare_counts(&mut self, number: u16, counted: PendingCount) {
        let watch = &mut self.watches[number as usize];
        let lag = counted.late_event.map_or(Span::ZERO, |late| late.since(counted.at));
        watch.totals.lag.observe(lag);

        // Objects beyond the limit are missing on purpose, and the finding about the limit reports
        // them.
        let here = watch.totals.objects.saturating_add(watch.excluded.len() as u64);
        let here = i64::try_from(here).unwrap_or(i64::MAX);
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
            let (at, now) = (counted.at, self.now);

            self.raise(
                subject,
                Detection::new(now, FindingCode::StateInconsistent, at, now, || evidence),
            );
        }
    }
}
