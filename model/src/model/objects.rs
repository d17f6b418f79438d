//! Creates, updates and removes objects. Each new version of an object is compared with the previous one; the result,
//! an [`Update`], goes to every part of the model that depends on it.

use std::sync::Arc;

use super::Model;
use super::conditions;
use super::context::{ObjectContext, Update};
use super::intern::Symbol;
use super::obligations;
use super::reading::{self, Acknowledged, Reading, Verdict};
use super::store::{self, OwnerName, Record, RecordFlags, Slot};
use super::timers::Timer;
use super::voices::Voice;
use crate::finding::{FINDINGS, Subject};
use crate::observation::{ConditionStatus, ObjectKey, ObjectView, OwnerReference, StatusSchema};
use crate::snapshot::{ObjectState, Outcome};
use crate::time::Timestamp;

/// The maximum number of top-level conditions of one object that are kept.
const MAX_CONDITIONS: usize = 16;

// === impl Model ===

impl Model {
    /// Handles a version of an object from a list, or from a watch event if `live`.
    pub(crate) fn object_seen(&mut self, watch: u16, mut view: ObjectView, live: bool) {
        let uid = store::uid_number(&view.uid);
        let version = store::version_number(&view.version);
        let epoch = self.watches[watch as usize].epoch;
        let mut known = self.store.find(watch, &view.key.namespace, &view.key.name);
        if let Some(slot) = known
            && self.store.get(slot).is_some_and(|record| record.uid != uid)
        {
            self.remove_object(slot, Outcome::Deleted); // deleted and recreated without a delete event
            known = None;
        }
        if let Some(record) = known.and_then(|slot| self.store.get_mut(slot)) {
            record.epoch = epoch;
            if record.version == version && version != 0 {
                return; // unchanged
            }
        }
        if self.kind_of(watch).status == StatusSchema::InBody {
            // Each status write increments the generation, so the observed generation is always behind.
            view.observed_generation = None;
            view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
        }
        let new = known.is_none();
        let Some(slot) = known.or_else(|| self.insert_object(watch, &view, uid)) else { return };
        self.update_object(slot, &view, version, new, live);
        self.review_object(slot);
    }

    /// Handles the deletion of an object.
    pub(crate) fn object_deleted(&mut self, watch: u16, key: &ObjectKey) {
        if let Some(slot) = self.store.find(watch, &key.namespace, &key.name) {
            self.remove_object(slot, Outcome::Deleted);
        }
    }

    /// Adds an object that the model does not know yet. Returns `None` if `limits.objects` is reached.
    fn insert_object(&mut self, watch: u16, view: &ObjectView, uid: u128) -> Option<Slot> {
        if self.store.len() >= self.settings.limits.objects {
            self.count_dropped("objects");
            return None;
        }
        let now = self.now;
        let (namespace_index, fits) =
            self.watches[watch as usize].namespace(&view.key.namespace, self.settings.limits.namespaces, now);
        if !fits {
            self.count_dropped("namespaces");
        }
        let owners: Vec<OwnerName> = view.owners.iter().map(|owner| self.owner_name(owner)).collect();
        let watch_state = &mut self.watches[watch as usize];
        watch_state.totals.objects += 1;
        let namespace = match watch_state.namespaces.get(namespace_index as usize) {
            Some(known) if *known.name == *view.key.namespace => known.name.clone(),
            _ => view.key.namespace.as_str().into(),
        };
        let blind = watch_state.blind.is_some();
        if let Some(known) = watch_state.namespaces.get_mut(namespace_index as usize) {
            known.count_to(now, blind);
            known.totals.states[ObjectState::Unknown as usize] += 1;
        }
        let kind = watch_state.kind;
        self.kinds[kind as usize].objects += 1;
        let created = view.created.and_then(|t| u32::try_from(t.0 / 1000).ok()).unwrap_or(0);
        Some(self.store.insert(Record {
            uid,
            namespace,
            name: view.key.name.as_str().into(),
            version: 0,
            generation: 0,
            observed: 0,
            spec_hash: 0,
            stable_status_hash: 0,
            since: now,
            owners: (!owners.is_empty()).then(|| owners.into()),
            hot: None,
            created,
            last_convergence_secs: 0,
            namespace_index,
            epoch: watch_state.epoch,
            phase: Symbol::default(),
            conditions: Symbol::default(),
            finalizers: Symbol::default(),
            watch,
            state: ObjectState::Unknown,
            reason: reading::Reason::default(),
            verdict: Verdict::Unknown,
            flags: RecordFlags::default(),
        }))
    }

    fn owner_name(&mut self, owner: &OwnerReference) -> OwnerName {
        OwnerName { kind: self.intern_text(&owner.kind), name: owner.name.as_str().into() }
    }

    /// Compares a version with the previous one and updates every part of the model.
    fn update_object(&mut self, slot: Slot, view: &ObjectView, version: u64, new: bool, live: bool) {
        let phase = self.intern_text(reading::phase(view));
        let condition_set = self.intern_conditions(&conditions::condition_set(&view.conditions, MAX_CONDITIONS));
        let finalizers: Vec<Arc<str>> = view.finalizers.iter().map(|f| f.as_str().into()).collect();
        let finalizer_set = self.intern_finalizers(&finalizers);
        let kind = self.store.get(slot).map_or(0, |record| self.watches[record.watch as usize].kind);
        let (group, name) = (self.kinds[kind as usize].group.clone(), self.kinds[kind as usize].kind.clone());
        let reading = reading::read(&group, &name, view);
        let old_set = self.store.get(slot).map_or_else(Symbol::default, |record| record.finalizers);
        let old_finalizers = self.finalizer_sets.get(old_set).clone();
        let Some(mut context) = self.context(slot) else { return };
        context.count_voice(view, &reading, new, live);
        let update = context.compare(view, &reading, new, live);
        context.update_record(&update, version, &reading, finalizer_set);
        if update.spec_changed {
            context.clear_history();
        }
        let phase_fits = context.update_phase(&update, phase);
        let conditions_fit = context.update_conditions(&update, condition_set);
        context.update_obligation(&update);
        let removed: Vec<Arc<str>> = old_finalizers.iter().filter(|f| !finalizers.contains(f)).cloned().collect();
        let finalizers_fit = context.update_deletion(&update, &removed, &finalizers);
        if new && !live {
            context.record.since = unchanged_since(view, context.now);
        }
        let history_fits = !context.history_denied;
        for (fits, limit) in [
            (phase_fits, "phases"),
            (conditions_fit, "condition_types"),
            (finalizers_fit, "finalizers"),
            (history_fits, "histories"),
        ] {
            if !fits {
                self.count_dropped(limit);
            }
        }
    }

    /// Judges an object at this instant, opens and closes findings about it, sets its timer, and reviews its kind.
    pub(crate) fn review_object(&mut self, slot: Slot) {
        let Some(mut context) = self.context(slot) else { return };
        context.advance_obligation();
        context.update_stuck();
        let state = context.state();
        let since = context.state_since(state);
        context.enter_state(state, since);
        let problems = context.problems();
        let due = context.due();
        let fails = context.fails_after_converging();
        let subject = self.subject(slot);
        let old_findings = self.store.get(slot).and_then(|r| r.hot.as_ref()).map_or(0, |hot| hot.findings);
        let mut findings = 0_u64;
        for (code, since, evidence) in problems {
            let fits = self.open_findings.raise(
                self.now,
                since,
                code,
                subject.clone(),
                evidence,
                self.settings.limits.findings,
            );
            if fits {
                findings |= 1 << code as u64;
            } else {
                self.count_dropped("findings");
            }
        }
        for info in FINDINGS.iter().filter(|info| (old_findings & !findings) >> info.code as u64 & 1 == 1) {
            self.open_findings.clear(self.now, info.code, &subject);
        }
        let old_due = self.store.get(slot).and_then(|r| r.hot.as_ref()).and_then(|hot| hot.due);
        self.timers.set(Timer::Object(slot), old_due, due);
        if let Some(record) = self.store.get_mut(slot) {
            record.set_findings_and_due(findings, due);
            let has = record.hot.as_ref().is_some_and(|hot| hot.history.is_some());
            let had = std::mem::replace(&mut record.flags.has_history, has);
            self.histories = self.histories + usize::from(has) - usize::from(had);
        }
        self.update_unhealthy(slot, findings != 0);
        self.update_kind(slot, fails);
    }

    /// Removes an object and ends its obligation, if one is open, with `outcome`.
    pub(crate) fn remove_object(&mut self, slot: Slot, outcome: Outcome) {
        let subject = self.subject(slot);
        let Some(mut context) = self.context(slot) else { return };
        context.close_obligation(outcome);
        context.clear_unconverged();
        context.finish_deletion();
        context.uncount_phase_and_conditions();
        context.remove_from_totals();
        let Some(record) = self.store.remove(slot) else { return };
        if let Some(hot) = &record.hot {
            self.timers.set(Timer::Object(slot), hot.due, None);
            for info in FINDINGS.iter().filter(|info| hot.findings >> info.code as u64 & 1 == 1) {
                self.open_findings.clear(self.now, info.code, &subject);
            }
        }
        self.unhealthy.remove(&slot);
        self.histories -= usize::from(record.flags.has_history);
        let watch = &mut self.watches[record.watch as usize];
        watch.totals.objects = watch.totals.objects.saturating_sub(1);
        let kind = watch.kind;
        self.review_kind(kind);
    }

    /// Returns the context in which to judge an object.
    pub(crate) fn context(&mut self, slot: Slot) -> Option<ObjectContext<'_>> {
        let record = self.store.get_mut(slot)?;
        let watch = self.watches.get_mut(record.watch as usize)?;
        Some(ObjectContext {
            now: self.now,
            settings: &self.settings,
            blind: watch.blind.is_some(),
            may_add_history: self.histories < self.settings.limits.histories,
            history_denied: false,
            slot,
            kind: self.kinds.get_mut(watch.kind as usize)?,
            namespace: watch.namespaces.get_mut(record.namespace_index as usize)?,
            record,
            texts: &self.texts,
            condition_sets: &self.condition_sets,
        })
    }

    /// Returns the object as the subject of a finding.
    pub(crate) fn subject(&self, slot: Slot) -> Subject {
        let (group, kind, namespace, name) = self.store.get(slot).map_or_else(Default::default, |record| {
            let kind = self.kind_of(record.watch);
            (kind.group.to_string(), kind.kind.to_string(), record.namespace.to_string(), record.name.to_string())
        });
        Subject::Object { group, kind, namespace, name }
    }

    fn update_unhealthy(&mut self, slot: Slot, has_findings: bool) {
        let state = self.store.get(slot).map(|record| record.state);
        if has_findings || matches!(state, Some(ObjectState::Overdue | ObjectState::Failed)) {
            self.unhealthy.insert(slot);
        } else {
            self.unhealthy.remove(&slot);
        }
    }

    /// Updates the kind's sets of failing and malformed objects. Reviews the kind if a set changed, and while any
    /// object is failing.
    fn update_kind(&mut self, slot: Slot, fails: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let (kind, malformed) = (self.watches[record.watch as usize].kind, record.flags.malformed_conditions);
        let sets = &mut self.kinds[kind as usize];
        let failing_changed = if fails { sets.failing.insert(slot) } else { sets.failing.remove(&slot) };
        let malformed_changed = if malformed { sets.malformed.insert(slot) } else { sets.malformed.remove(&slot) };
        if failing_changed || malformed_changed || !sets.failing.is_empty() {
            self.review_kind(kind);
        }
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    fn compare<'v>(&self, view: &'v ObjectView, reading: &Reading, new: bool, live: bool) -> Update<'v> {
        let record = &*self.record;
        let hashed = view.hashes.spec != 0 && record.spec_hash != 0;
        let differs = if hashed { view.hashes.spec != record.spec_hash } else { view.generation != record.generation };
        let verdict = self.verdict_on(reading, live);
        Update {
            view,
            verdict,
            acknowledged: reading.acknowledged,
            new,
            live,
            spec_changed: !new
                && differs
                && (view.generation > record.generation || view.generation == 0 || self.generation_is_unreliable()),
            status_changed: !new && view.hashes.settled != record.stable_status_hash,
            spec_written_by_operator: obligations::spec_written_by_operator(view),
            old_spec_hash: record.spec_hash,
            lost_at: lost_at(view, verdict, reading.acknowledged),
        }
    }

    fn update_record(&mut self, update: &Update<'_>, version: u64, reading: &Reading, finalizers: Symbol) {
        let (view, record) = (update.view, &mut *self.record);
        record.version = version;
        record.generation = view.generation;
        record.observed = view.observed_generation.unwrap_or(0);
        record.spec_hash = view.hashes.spec;
        record.stable_status_hash = view.hashes.settled;
        record.verdict = update.verdict;
        record.reason = reading.reason;
        record.finalizers = finalizers;
        record.flags.malformed_conditions = view.lints.iter().any(|lint| lint.starts_with("condition"));
        if record.flags.malformed_conditions {
            self.kind.lints.extend(view.lints.iter().filter(|lint| lint.starts_with("condition")).cloned());
        }
        let at_rest =
            matches!(update.verdict, Verdict::Converged | Verdict::Finished | Verdict::Unknown | Verdict::Suspended);
        if !at_rest || record.hot.is_some() {
            let message = deciding_message(view, &reading.signal);
            let hot = record.hot_mut();
            hot.signal.clone_from(&reading.signal);
            hot.message = message;
        }
    }

    fn update_stuck(&mut self) {
        let stuck_at = self.record.hot.as_ref().and_then(|hot| hot.deletion.as_ref()).map(|d| self.stuck_at(d));
        let held = self.record.finalizers != Symbol::default();
        let now = self.now;
        if let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
            deletion.stuck = held && stuck_at.is_some_and(|at| at <= now);
        }
    }

    /// Returns when the object entered `state`, its state as of now.
    fn state_since(&self, state: ObjectState) -> Timestamp {
        let hot = self.record.hot.as_ref();
        match state {
            ObjectState::Terminating => {
                hot.and_then(|h| h.deletion.as_ref()).map_or(self.now, |d| d.since.min(self.now))
            }
            // An object whose state was unknown may have been in this state all along, so it keeps the time that it
            // has. For a new object from a list, `update_object` has set that time.
            _ if self.record.state == ObjectState::Unknown => self.record.since,
            _ => self.now,
        }
    }

    fn remove_from_totals(&mut self) {
        self.namespace.count_to(self.now, self.blind);
        let count = &mut self.namespace.totals.states[self.record.state as usize];
        *count = count.saturating_sub(1);
        self.kind.objects = self.kind.objects.saturating_sub(1);
        self.kind.voices.count(self.record.flags.voice, Voice::Other);
        self.kind.malformed.remove(&self.slot);
        self.kind.failing.remove(&self.slot);
    }
}

/// Returns when an unconverged object stopped being converged: the earliest transition among its false conditions.
/// Returns `None` if its status is about an earlier spec.
fn lost_at(view: &ObjectView, verdict: Verdict, acknowledged: Acknowledged) -> Option<Timestamp> {
    let unconverged = matches!(verdict, Verdict::Progressing | Verdict::Failed) && acknowledged != Acknowledged::No;
    let top_level = view.conditions.iter().filter(|c| c.at.is_empty() && c.status == ConditionStatus::False);
    top_level.filter(|c| unconverged && reading::describes_health(&c.r#type)).filter_map(|c| c.changed).min()
}

/// Returns when an object that is new from a list entered its state: at the newest transition of its conditions or,
/// without one, at the last write of its spec.
fn unchanged_since(view: &ObjectView, now: Timestamp) -> Timestamp {
    let changed = view.conditions.iter().filter_map(|c| c.changed).max();
    changed.or_else(|| obligations::spec_written(view)).map_or(now, |at| at.min(now))
}

/// Returns the message of the condition whose type `signal` begins with.
fn deciding_message(view: &ObjectView, signal: &str) -> String {
    let named = signal.split(['=', ' ']).next().unwrap_or_default();
    let condition = view.conditions.iter().find(|c| c.r#type == named);
    condition.map(|c| c.message.clone()).unwrap_or_default()
}
