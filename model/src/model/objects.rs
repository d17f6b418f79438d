//! What happens when an object is seen: the old and the new version are compared once, and every part of the model
//! takes from that what it needs.

use std::sync::Arc;

use super::Model;
use super::conditions;
use super::context::{ObjectContext, Seen};
use super::intern::Symbol;
use super::obligations;
use super::reading::{self, Acknowledged, Reading, Verdict};
use super::store::{self, Flags, Owner, Record, Slot};
use super::timers::Timer;
use crate::finding::{FINDINGS, Subject};
use crate::observation::{ObjectKey, ObjectView, StatusSchema, StatusShape};
use crate::snapshot::{ObjectState, Outcome};
use crate::time::Timestamp;

/// Conditions counted per object.
const CONDITIONS: usize = 16;

// === impl Model ===

impl Model {
    /// Takes an object as it is now.
    pub(crate) fn observe(&mut self, watch: u16, mut view: ObjectView, live: bool) {
        let uid = store::uid(&view.uid);
        let version = store::order(&view.version);
        let epoch = self.watches[watch as usize].epoch;
        let mut known = self.store.find(watch, &view.key.namespace, &view.key.name);
        if let Some(slot) = known
            && self.store.get(slot).is_some_and(|record| record.uid != uid)
        {
            self.forget(slot); // deleted and made anew, and the deletion was not seen
            known = None;
        }
        if let Some(record) = known.and_then(|slot| self.store.get_mut(slot)) {
            record.epoch = epoch;
            if record.version == version && version != 0 {
                return; // listed again, unchanged
            }
        }
        if self.kind_of(watch).status == StatusSchema::InBody {
            // Each status write raises the generation, so that what was observed is always behind.
            view.observed_generation = None;
            view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
        }
        let new = known.is_none();
        let Some(slot) = known.or_else(|| self.admit(watch, &view, uid)) else { return };
        self.take(slot, &view, version, new, live);
        self.review(slot);
    }

    /// Takes the news that an object is gone.
    pub(crate) fn observe_deleted(&mut self, watch: u16, key: &ObjectKey) {
        if let Some(slot) = self.store.find(watch, &key.namespace, &key.name) {
            self.forget(slot);
        }
    }

    /// Makes room for a new object.
    fn admit(&mut self, watch: u16, view: &ObjectView, uid: u128) -> Option<Slot> {
        if self.store.len() >= self.settings.limits.objects {
            self.drop_one("objects");
            return None;
        }
        let now = self.now;
        let (position, fits) =
            self.watches[watch as usize].namespace(&view.key.namespace, self.settings.limits.namespaces, now);
        if !fits {
            self.drop_one("namespaces");
        }
        let owners: Vec<Owner> = view.owners.iter().map(|owner| self.owner(owner)).collect();
        let watch_state = &mut self.watches[watch as usize];
        watch_state.totals.objects += 1;
        let namespace = match watch_state.namespaces.get(position as usize) {
            Some(counted) if *counted.name == *view.key.namespace => counted.name.clone(),
            _ => view.key.namespace.as_str().into(),
        };
        let blind = watch_state.blind.is_some();
        if let Some(counted) = watch_state.namespaces.get_mut(position as usize) {
            counted.count_to(now, blind);
            counted.totals.states[ObjectState::Unknown as usize] += 1;
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
            spec: 0,
            settled: 0,
            since: now,
            owners: (!owners.is_empty()).then(|| owners.into()),
            hot: None,
            created,
            took: 0,
            totals: position,
            epoch: watch_state.epoch,
            phase: Symbol::default(),
            shape: Symbol::default(),
            finalizers: Symbol::default(),
            watch,
            state: ObjectState::Unknown,
            reason: reading::Reason::default(),
            verdict: Verdict::Unknown,
            flags: Flags::default(),
        }))
    }

    fn owner(&mut self, owner: &crate::observation::OwnerReference) -> Owner {
        Owner { kind: self.text(&owner.kind), name: owner.name.as_str().into() }
    }

    /// Compares old and new, and lets every part of the model take what it needs.
    fn take(&mut self, slot: Slot, view: &ObjectView, version: u64, new: bool, live: bool) {
        let phase = self.text(conditions::phase(view));
        let shape = self.shape(&conditions::shape(&view.conditions, CONDITIONS));
        let finalizers: Vec<Arc<str>> = view.finalizers.iter().map(|f| f.as_str().into()).collect();
        let set = self.set(&finalizers);
        let kind = self.store.get(slot).map_or(0, |record| self.watches[record.watch as usize].kind);
        let (group, name) = (self.kinds[kind as usize].group.clone(), self.kinds[kind as usize].kind.clone());
        let reading = reading::read(&group, &name, view);
        let held = self.sets.get(self.store.get(slot).map_or_else(Symbol::default, |record| record.finalizers)).clone();
        let Some(mut context) = self.context(slot) else { return };
        context.count_status(view, new);
        let seen = context.compare(view, &reading, new, live);
        context.update(&seen, version, &reading, set);
        if seen.spec_changed {
            context.forget_history();
        }
        let fits = [context.change_phase(&seen, phase), context.change_conditions(&seen, shape)];
        context.update_obligation(&seen);
        let removed: Vec<Arc<str>> = held.iter().filter(|f| !finalizers.contains(f)).cloned().collect();
        context.delete(&seen, &removed, &finalizers);
        if new && !live {
            context.record.since = began(view, context.now);
        }
        let fits = [fits[0], fits[1], !context.refused];
        for (fits, limit) in fits.into_iter().zip(["phases", "condition_types", "histories"]) {
            if !fits {
                self.drop_one(limit);
            }
        }
    }

    /// Judges an object at this instant and sets its timer. What has become of its kind follows.
    pub(crate) fn review(&mut self, slot: Slot) {
        let Some(mut context) = self.context(slot) else { return };
        context.advance_obligation();
        context.mark_stuck();
        let state = context.state();
        let since = context.state_since(state);
        context.enter(state, since);
        let problems = context.problems();
        let due = context.due();
        let fails = context.fails_without_cause();
        let subject = self.subject(slot);
        let before = self.store.get(slot).and_then(|r| r.hot.as_ref()).map_or(0, |hot| hot.findings);
        let mut after = 0_u64;
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
                after |= 1 << code as u64;
            } else {
                self.drop_one("findings");
            }
        }
        for info in FINDINGS.iter().filter(|info| (before & !after) >> info.code as u64 & 1 == 1) {
            self.open_findings.clear(self.now, info.code, &subject);
        }
        let old_due = self.store.get(slot).and_then(|r| r.hot.as_ref()).and_then(|hot| hot.due);
        self.timers.set(Timer::Object(slot), old_due, due);
        if let Some(record) = self.store.get_mut(slot) {
            record.set_findings_and_due(after, due);
            let has = record.hot.as_ref().is_some_and(|hot| hot.history.is_some());
            let had = std::mem::replace(&mut record.flags.history, has);
            self.histories = self.histories + usize::from(has) - usize::from(had);
        }
        self.note_unhealthy(slot, after != 0);
        self.review_kind_of(slot, fails);
    }

    /// Takes an object out: it is gone.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.remove(slot, Outcome::Deleted);
    }

    /// Takes an object out, and what it still owed ends as `outcome`.
    pub(crate) fn remove(&mut self, slot: Slot, outcome: Outcome) {
        let subject = self.subject(slot);
        let Some(mut context) = self.context(slot) else { return };
        context.close_open(outcome);
        context.clear_unconverged();
        context.deleted();
        context.leave_conditions();
        context.leave_totals();
        let Some(record) = self.store.remove(slot) else { return };
        if let Some(hot) = &record.hot {
            self.timers.set(Timer::Object(slot), hot.due, None);
            for info in FINDINGS.iter().filter(|info| hot.findings >> info.code as u64 & 1 == 1) {
                self.open_findings.clear(self.now, info.code, &subject);
            }
        }
        self.unhealthy.remove(&slot);
        self.histories -= usize::from(record.flags.history);
        let watch = &mut self.watches[record.watch as usize];
        watch.totals.objects = watch.totals.objects.saturating_sub(1);
        let kind = watch.kind;
        self.review_kind(kind);
    }

    /// The object on the desk, with the totals it counts in.
    pub(crate) fn context(&mut self, slot: Slot) -> Option<ObjectContext<'_>> {
        let record = self.store.get_mut(slot)?;
        let watch = self.watches.get_mut(record.watch as usize)?;
        Some(ObjectContext {
            now: self.now,
            settings: &self.settings,
            blind: watch.blind.is_some(),
            room: self.histories < self.settings.limits.histories,
            refused: false,
            slot,
            kind: self.kinds.get_mut(watch.kind as usize)?,
            namespace: watch.namespaces.get_mut(record.totals as usize)?,
            record,
            texts: &self.texts,
            shapes: &self.shapes,
        })
    }

    /// The object as the subject of findings.
    pub(crate) fn subject(&self, slot: Slot) -> Subject {
        let (group, kind, namespace, name) = self.store.get(slot).map_or_else(Default::default, |record| {
            let kind = self.kind_of(record.watch);
            (kind.group.to_string(), kind.kind.to_string(), record.namespace.to_string(), record.name.to_string())
        });
        Subject::Object { group, kind, namespace, name }
    }

    fn note_unhealthy(&mut self, slot: Slot, wrong: bool) {
        let state = self.store.get(slot).map(|record| record.state);
        if wrong || matches!(state, Some(ObjectState::Overdue | ObjectState::Failed)) {
            self.unhealthy.insert(slot);
        } else {
            self.unhealthy.remove(&slot);
        }
    }

    fn review_kind_of(&mut self, slot: Slot, fails: bool) {
        let Some(record) = self.store.get(slot) else { return };
        let (kind, malformed) = (self.watches[record.watch as usize].kind, record.flags.malformed);
        let state = &mut self.kinds[kind as usize];
        let changed = if fails { state.failing.insert(slot) } else { state.failing.remove(&slot) };
        let shape = if malformed { state.malformed.insert(slot) } else { state.malformed.remove(&slot) };
        if changed || shape || !state.failing.is_empty() {
            self.review_kind(kind);
        }
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    fn compare<'v>(&self, view: &'v ObjectView, reading: &Reading, new: bool, live: bool) -> Seen<'v> {
        let record = &*self.record;
        let hashed = view.hashes.spec != 0 && record.spec != 0;
        let differs = if hashed { view.hashes.spec != record.spec } else { view.generation != record.generation };
        let mut verdict = reading.verdict;
        let bare = matches!(view.status, StatusShape::Absent | StatusShape::Empty);
        if verdict == Verdict::Unknown && bare && self.kind.expects_status() {
            verdict = Verdict::Progressing; // its siblings have a status, so it is still to come
        }
        Seen {
            view,
            verdict,
            acknowledged: reading.acknowledged,
            new,
            live,
            spec_changed: !new
                && differs
                && (view.generation > record.generation || view.generation == 0 || self.generation_means_nothing()),
            status_changed: !new && view.hashes.settled != record.settled,
            by_operator: obligations::spec_written_by_operator(view),
            old_spec: record.spec,
            lost: lost(view, verdict, reading.acknowledged),
        }
    }

    fn update(&mut self, seen: &Seen<'_>, version: u64, reading: &Reading, finalizers: Symbol) {
        let (view, record) = (seen.view, &mut *self.record);
        record.version = version;
        record.generation = view.generation;
        record.observed = view.observed_generation.unwrap_or(0);
        record.spec = view.hashes.spec;
        record.settled = view.hashes.settled;
        record.verdict = seen.verdict;
        record.reason = reading.reason;
        record.finalizers = finalizers;
        record.flags.malformed = view.lints.iter().any(|lint| lint.starts_with("condition"));
        if record.flags.malformed {
            self.kind.lints.extend(view.lints.iter().filter(|lint| lint.starts_with("condition")).cloned());
        }
        let rests =
            matches!(seen.verdict, Verdict::Converged | Verdict::Finished | Verdict::Unknown | Verdict::Suspended);
        if !rests || record.hot.is_some() {
            let message = deciding_message(view, &reading.signal);
            let hot = record.hot_mut();
            hot.signal.clone_from(&reading.signal);
            hot.message = message;
        }
    }

    fn count_status(&mut self, view: &ObjectView, new: bool) {
        let has = view.status == StatusShape::Filled;
        let had = !new && self.record.flags.has_status;
        self.record.flags.has_status = has;
        match (had, has) {
            (false, true) => self.kind.with_status += 1,
            (true, false) => self.kind.with_status = self.kind.with_status.saturating_sub(1),
            _ => {}
        }
    }

    fn mark_stuck(&mut self) {
        let stuck_at = self.record.hot.as_ref().and_then(|hot| hot.deletion.as_ref()).map(|d| self.stuck_at(d));
        let held = self.record.finalizers != Symbol::default();
        let now = self.now;
        if let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
            deletion.stuck = held && stuck_at.is_some_and(|at| at <= now);
        }
    }

    /// Since when the object is in the state it now enters.
    fn state_since(&self, state: ObjectState) -> Timestamp {
        let hot = self.record.hot.as_ref();
        match state {
            ObjectState::Terminating => {
                hot.and_then(|h| h.deletion.as_ref()).map_or(self.now, |d| d.since.min(self.now))
            }
            // Of an object that was never seen before, `take` knows better.
            _ if self.record.state == ObjectState::Unknown => self.record.since,
            _ => self.now,
        }
    }

    fn leave_totals(&mut self) {
        self.namespace.count_to(self.now, self.blind);
        let count = &mut self.namespace.totals.states[self.record.state as usize];
        *count = count.saturating_sub(1);
        self.kind.objects = self.kind.objects.saturating_sub(1);
        if self.record.flags.has_status {
            self.kind.with_status = self.kind.with_status.saturating_sub(1);
        }
        self.kind.malformed.remove(&self.slot);
        self.kind.failing.remove(&self.slot);
    }
}

/// When an object that is not at its goal lost it, as its conditions claim: only if it is about the current spec.
fn lost(view: &ObjectView, verdict: Verdict, acknowledged: Acknowledged) -> Option<Timestamp> {
    let wrong = matches!(verdict, Verdict::Progressing | Verdict::Failed) && acknowledged != Acknowledged::No;
    let top_level = view.conditions.iter().filter(|c| c.at.is_empty() && conditions::is_false(c.status));
    top_level.filter(|c| wrong && reading::decides(&c.r#type)).filter_map(|c| c.changed).min()
}

/// Since when an object is as it is, when it is seen for the first time: the newest change that it tells of.
fn began(view: &ObjectView, now: Timestamp) -> Timestamp {
    let changed = view.conditions.iter().filter_map(|c| c.changed).max();
    changed.or_else(|| obligations::spec_written(view)).map_or(now, |at| at.min(now))
}

/// The message of the condition that the signal names first.
fn deciding_message(view: &ObjectView, signal: &str) -> String {
    let named = signal.split(['=', ' ']).next().unwrap_or_default();
    let condition = view.conditions.iter().find(|c| c.r#type == named);
    condition.map(|c| c.message.clone()).unwrap_or_default()
}
