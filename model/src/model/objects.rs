//! Creates, updates and removes objects. Each new version of an object is compared with the previous one; the result,
//! an [`Update`], goes to every part of the model that depends on it.

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use super::Model;
use super::annotated::Annotated;
use super::conditions;
use super::context::{ObjectContext, Restored, Update};
use super::detection::Detection;
use super::intern::Symbol;
use super::kinds::OTHER;
use super::reading::{self, Acknowledged, Reading, Verdict};
use super::sight::Sight;
use super::store::{self, Flag, Flags, Record, Slot};
use super::timers::Timer;
use super::voices::{Silence, Voice};
use super::writers;
use crate::finding::{FindingCode, Subject};
use crate::observation::{ConditionStatus, ObjectKey, ObjectView, Role};
use crate::snapshot::{ObjectState, Outcome};
use crate::time::Timestamp;

/// The maximum number of top-level conditions of one object that are kept.
pub(crate) const MAX_CONDITIONS: usize = 32;

// === impl Model ===

impl Model {
    /// Handles a version of an object from a list, or from a watch event if `live`.
    pub(crate) fn object_seen(&mut self, watch: u16, mut view: ObjectView, live: bool) {
        let uid = store::uid_number(&view.uid);
        let version = store::version_number(&view.version);
        let epoch = self.watches[watch as usize].epoch;
        let mut known = self.store.find(watch, &view.key.namespace, &view.key.name);
        let record = known.and_then(|slot| self.store.get(slot)).filter(|_| live);
        let is_later = |r: &Record| (view.created, view.generation) > (r.created(), r.generation);
        if record.is_some_and(|record| record.is_newer_than(version) && !is_later(record)) {
            return; // an earlier connection has delivered it late
        }
        if let Some(slot) = known
            && self.store.get(slot).is_some_and(|record| record.uid != uid)
        {
            self.remove_object(slot, Outcome::Deleted); // deleted and recreated without a delete event
            known = None;
        }
        let watch_state = &mut self.watches[watch as usize];
        let reread = watch_state.reread;
        if let Some(record) = known.and_then(|slot| self.store.get_mut(slot)) {
            if record.epoch != epoch {
                record.epoch = epoch;
                watch_state.current += 1;
            }
            if record.version == version && version != 0 && !reread {
                return; // unchanged
            }
        }
        if self.kind_of(watch).generation_is_unreliable() {
            // Each status write increments the generation, so the observed generation is always behind.
            view.observed_generation = None;
            view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
        }
        let new = known.is_none();
        let comes_into_sight = new && !(live && self.is_new_object(watch, &view));
        let Some(slot) = known.or_else(|| self.insert_object(watch, &view, uid)) else { return };
        self.review_owners(slot);
        let same_spec = !new && self.store.get(slot).is_some_and(|record| record.spec_hash == view.hashes.spec);
        if !same_spec || reread {
            self.update_crossings(slot, &view, !comes_into_sight && !reread);
            self.update_references(slot, &view, !comes_into_sight && live);
        }
        self.note_writer(slot, &view);
        self.update_soft_deletion(slot, &view);
        self.update_configuration(slot, &view);
        self.update_object(slot, &view, version, new, live);
        if live {
            self.expect_statuses(watch);
        }
        self.review_object(slot);
        self.trace_version(slot, &view);
        self.review_owners(slot);
        self.operator_shows_life();
    }

    /// Handles the deletion of an object, which a watch event of this version shows.
    pub(crate) fn object_deleted(&mut self, watch: u16, key: &ObjectKey, version: &str) {
        self.watches[watch as usize].include(key);
        let known = self.store.find(watch, &key.namespace, &key.name);
        let version = store::version_number(version);
        if let Some(slot) = known.filter(|slot| !self.store.get(*slot).is_some_and(|r| r.is_newer_than(version))) {
            self.remove_object(slot, Outcome::Deleted);
        }
    }

    /// Adds an object that the model does not know yet. Returns `None` if `limits.objects` is reached.
    fn insert_object(&mut self, watch: u16, view: &ObjectView, uid: u128) -> Option<Slot> {
        if self.store.len() >= self.settings.limits.objects {
            self.watches[watch as usize].exclude(&view.key);
            self.count_dropped("objects");
            return None;
        }
        let (now, limit) = (self.now, self.settings.limits.namespaces);
        self.watches[watch as usize].include(&view.key);
        let (namespace_index, fits, evicted) = self.watches[watch as usize].namespace(&view.key.namespace, limit, now);
        if let Some(evicted) = evicted {
            let blind = self.watches[watch as usize].blind.is_some();
            self.retire_namespace(watch, OTHER.into(), &evicted.at(now, blind));
        }
        if !fits {
            self.count_dropped("namespaces");
        }
        let watch_state = &mut self.watches[watch as usize];
        watch_state.totals.objects += 1;
        watch_state.current += 1;
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
        let slot = self.store.insert(Record {
            uid,
            namespace,
            name: view.key.name.as_str().into(),
            version: 0,
            generation: 0,
            observed: 0,
            spec_hash: 0,
            stable_status_hash: 0,
            since: now,
            owners: None,
            hot: None,
            created,
            spec_changed: 0,
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
            silence: Silence::default(),
            flags: Flags::default(),
        });
        self.add_to_graph(slot);
        Some(slot)
    }

    /// Compares a version with the previous one and updates every part of the model.
    fn update_object(&mut self, slot: Slot, view: &ObjectView, version: u64, new: bool, live: bool) {
        let old_owners = if view.owners.is_empty() { self.owner_names(slot) } else { Vec::new() };
        let waiting = self.waiting_owners(slot);
        let corrected = self.update_owners(slot, view) && self.owners_changed(slot, view, live);
        self.review_owners_left(slot, waiting);
        self.update_orphan(slot, view, new, if corrected { &[] } else { &old_owners });
        let Some(record) = self.store.get(slot) else { return };
        let reread = self.watches[record.watch as usize].reread;
        let rereads_spec = reread && self.rereads_spec(slot);
        let (kind, old) =
            (self.watches[record.watch as usize].kind, (record.phase, record.conditions, record.finalizers));
        let phase = self.acquire_text(reading::phase(view));
        let mut conditions = conditions::condition_set(&view.conditions);
        let conditions_kept = conditions.len() <= MAX_CONDITIONS;
        conditions.truncate(MAX_CONDITIONS);
        let condition_set = self.acquire_conditions(&conditions);
        let finalizers: Vec<Arc<str>> = view.finalizers.iter().map(|f| f.as_str().into()).collect();
        let finalizer_set = self.acquire_finalizers(&finalizers);
        let (group, name) = (self.kinds[kind as usize].group.clone(), self.kinds[kind as usize].kind.clone());
        let reading = reading::read(&group, &name, view);
        let old_finalizers = self.finalizers_of(slot);
        let restored = if new { self.restored(slot, reading.verdict) } else { Restored::default() };
        let annotated = Annotated::read(&view.annotations);
        let annotated_deadline = self.annotated_deadline(annotated.as_deref(), &view.key.namespace);
        let Some(mut context) = self.context(slot) else { return };
        let deadline_changed =
            std::mem::replace(&mut context.annotated_deadline, annotated_deadline) != annotated_deadline;
        context.note_writers(view);
        let child = context.is_child();
        if child {
            context.ignore_voice();
        } else {
            context.count_voice(view, &reading, new, live);
            context.expect_restored(&restored);
        }
        let about_earlier =
            acknowledged_late(&reading).then(|| reading::read(&group, &name, &without_generation(view)).verdict);
        // The status of whichever spec: the deletion of an object increments its generation, too.
        let said = about_earlier.unwrap_or(reading.verdict);
        let mut update = context.compare(view, &reading, new, live, about_earlier);
        update.spec_changed &= !rereads_spec;
        update.status_changed &= !reread || context.is_status_written(view, version);
        update.restored = restored;
        context.update_record(&update, version, &reading, finalizer_set);
        if update.spec_changed {
            context.clear_history();
        }
        let (mut phase_fits, mut conditions_fit) = (true, true);
        if child {
            context.update_child(phase, condition_set);
        } else {
            phase_fits = context.update_phase(&update, phase);
            conditions_fit = context.update_conditions(&update, condition_set);
            context.update_obligation(&update);
        }
        let shown = (said != Verdict::Failed).then(|| context.shown());
        let removed: Vec<Arc<str>> = old_finalizers.iter().filter(|f| !finalizers.contains(f)).cloned().collect();
        context.update_finalizers(&update, &old_finalizers, &finalizers);
        let finalizers_fit = context.update_deletion(&update, shown, &removed, &finalizers);
        if new && !live {
            context.record.since = unchanged_since(view, reading.acknowledged, context.now);
            let dated = context.record.since < context.now;
            context.record.flags.set(Flag::SinceDated, dated);
        }
        context.update_annotated(annotated);
        if deadline_changed {
            context.update_deadlines();
        }
        let history_fits = !context.history_denied;
        self.texts.release(old.0);
        self.condition_sets.release(old.1);
        self.finalizer_sets.release(old.2);
        for (fits, limit) in [
            (phase_fits, "phases"),
            (conditions_fit, "condition_types"),
            (conditions_kept, "conditions"),
            (finalizers_fit, "finalizers"),
            (history_fits, "histories"),
        ] {
            if !fits {
                self.count_dropped(limit);
            }
        }
    }

    /// Returns when the problems of a new object began that an earlier process had found.
    fn restored(&self, slot: Slot, verdict: Verdict) -> Restored {
        let Some(record) = self.store.get(slot).filter(|_| self.open_findings.has_restored()) else {
            return Restored::default();
        };
        let subject = self.subject(slot);
        let kind = self.kind_subject(self.watches[record.watch as usize].kind);
        let start = |code, subject| self.open_findings.restored_start(code, subject);
        let of_object = |code| start(code, &subject).filter(|at| Some(*at) >= record.created());
        let failing = start(FindingCode::Failing, &kind).filter(|_| verdict == Verdict::Failed);
        Restored {
            regressed: start(FindingCode::Regressed, &subject).or(failing).filter(|at| Some(*at) >= record.created()),
            overdue: of_object(FindingCode::Overdue),
            unacknowledged: of_object(FindingCode::Unacknowledged),
            not_recovered: of_object(FindingCode::NeverRecovered),
            phase_stuck: of_object(FindingCode::PhaseStuck),
        }
    }

    /// Returns whether the fingerprint of the object's spec may change because loopwatch reads its kind in another way.
    fn rereads_spec(&self, slot: Slot) -> bool {
        self.store.get(slot).is_some_and(|record| self.kind_of(record.watch).generation_is_unreliable())
    }

    /// Judges an object at this instant, opens and closes findings about it, sets its timer, and reviews its kind. If
    /// its watch is blind, only the obligation can end, as unknown; the rest waits for the return of sight.
    pub(crate) fn review_object(&mut self, slot: Slot) {
        self.review_links(slot);
        let relations = self.relation_detections(slot);
        let Some(mut context) = self.context(slot) else { return };
        context.advance_obligation();
        if context.sight == Sight::Lost && context.record.hot.is_some() {
            let due = context.obligation_due().filter(|_| context.record.flags.has(Flag::Judged));
            self.set_object_timer(slot, due);
            return self.postpone_review(slot);
        }
        let was_hot = context.record.hot.is_some();
        let is_first = !context.record.flags.has(Flag::Judged) && context.record.verdict != Verdict::Unknown;
        let state = context.state();
        let since = context.state_since(state);
        context.enter_state(state, since);
        context.record.flags.set(Flag::Judged, true);
        let mut detections = context.detections();
        if !relations.is_empty() {
            detections.extend(relations);
            context.record.hot_mut(); // holds the timer and the findings
        }
        if context.namespace_deleted {
            detections.retain(|detection| detection.code.info().area == "deletion");
        } else if context.operator_stopped {
            detections.retain(|detection| detection.code.info().area != "convergence");
        }
        let due = context.due(&detections);
        let kept = context.is_unready_child();
        let expected: Vec<FindingCode> = detections.iter().map(|detection| detection.code).collect();
        let old = context.record.hot.as_ref().map_or_else(Vec::new, |hot| hot.findings.clone());
        let mut found: Vec<Detection> =
            detections.into_iter().filter(|detection| context.is_finding(detection)).collect();
        let mut failing_since = context.failing_since();
        if !found.is_empty() || failing_since.is_some() {
            let subject = self.subject(slot);
            found.retain(|detection| !self.is_silenced(slot, detection.code, &subject));
            // Silenced objects do not make their kind fail.
            failing_since = failing_since.filter(|_| !self.is_silenced(slot, FindingCode::Failing, &subject));
        }
        let findings: Vec<FindingCode> = found.iter().map(|detection| detection.code).collect();
        if !findings.is_empty() || !old.is_empty() {
            self.update_findings(slot, found, &old);
        }
        if (was_hot || is_first) && self.open_findings.has_restored() {
            self.open_findings.keep_restored_of(&self.subject(slot), &expected);
        }
        let (has_findings, noted) = (!findings.is_empty(), findings.clone());
        self.update_kind(slot, failing_since);
        self.set_object_timer(slot, due);
        if let Some(record) = self.store.get_mut(slot) {
            record.set_findings_and_due(findings, due, kept);
            let has = record.hot.as_ref().is_some_and(|hot| hot.history.is_some());
            let had = record.flags.has(Flag::HasHistory);
            record.flags.set(Flag::HasHistory, has);
            self.histories = self.histories + usize::from(has) - usize::from(had);
        }
        self.update_unhealthy(slot, has_findings);
        self.note_workload(slot);
        self.note_finalizer_findings(slot, &old, &noted);
    }

    /// Opens the findings in `found` and closes those in `old` that are not among them.
    fn update_findings(&mut self, slot: Slot, found: Vec<Detection>, old: &[FindingCode]) {
        let subject = self.subject(slot);
        let codes: Vec<FindingCode> = found.iter().map(|detection| detection.code).collect();
        for mut detection in found {
            detection.evidence = self.with_workloads(slot, detection.code, detection.evidence);
            self.raise(subject.clone(), detection);
        }
        for code in old.iter().filter(|code| !codes.contains(code)) {
            self.open_findings.clear(self.now, *code, &subject);
        }
    }

    fn set_object_timer(&mut self, slot: Slot, due: Option<Timestamp>) {
        let Some(hot) = self.store.get_mut(slot).and_then(|record| record.hot.as_mut()) else { return };
        let old = std::mem::replace(&mut hot.due, due);
        self.timers.set(Timer::Object(slot), old, due);
    }

    /// Removes an object and ends its obligation, if one is open, with `outcome`.
    pub(crate) fn remove_object(&mut self, slot: Slot, outcome: Outcome) {
        self.remove_crossings(slot, outcome == Outcome::Deleted);
        self.remove_references(slot);
        self.soft_deleted.remove(&slot);
        self.remove_configuration(slot);
        let subject = self.subject(slot);
        self.trace_child(slot, true);
        let Some(mut context) = self.context(slot) else { return };
        context.close_obligation(outcome);
        context.clear_unconverged();
        context.finish_deletion(outcome == Outcome::Deleted);
        context.uncount_phase_and_conditions();
        context.remove_from_totals();
        self.update_kind(slot, None);
        self.review_owners(slot);
        self.orphans.remove(slot);
        self.review_logically_owned(slot);
        self.links_removed(slot, outcome == Outcome::Deleted);
        self.review_waiting_owners(slot, outcome == Outcome::Deleted);
        self.remove_from_graph(slot, outcome == Outcome::Deleted);
        let Some(record) = self.store.remove(slot) else { return };
        self.texts.release(record.phase);
        self.condition_sets.release(record.conditions);
        self.finalizer_sets.release(record.finalizers);
        if let Some(hot) = &record.hot {
            self.timers.set(Timer::Object(slot), hot.due, None);
            for code in &hot.findings {
                self.open_findings.clear(self.now, *code, &subject);
            }
        }
        self.unhealthy.remove(&slot);
        self.unready_workloads.remove(&slot);
        self.reviews.objects.remove(&slot);
        self.kinds[self.watches[record.watch as usize].kind as usize].listed_silent.remove(&slot);
        self.histories -= usize::from(record.flags.has(Flag::HasHistory));
        let watch = &mut self.watches[record.watch as usize];
        watch.postponed.remove(&slot);
        watch.totals.objects = watch.totals.objects.saturating_sub(1);
        watch.current -= u64::from(watch.epoch == record.epoch);
        self.reviews.kinds.insert(watch.kind);
        if self.containers.has_namespace(&record.namespace) || self.containers.has_definitions() {
            self.containers_changed();
        }
    }

    /// Returns the context in which to judge an object.
    pub(crate) fn context(&mut self, slot: Slot) -> Option<ObjectContext<'_>> {
        let record = self.store.get(slot)?;
        let annotated = record.hot.as_ref().and_then(|hot| hot.annotated.as_deref());
        let annotated_deadline = self.annotated_deadline(annotated, &record.namespace);
        let namespace_deleted = self.containers.has_namespace(&record.namespace);
        let operator_stopped = self.is_stopped_for(record.watch);
        let record = self.store.get_mut(slot)?;
        let watch = self.watches.get_mut(record.watch as usize)?;
        Some(ObjectContext {
            now: self.now,
            settings: &self.settings,
            sight: watch.sight(self.now),
            regained: watch.regained,
            lost: watch.lost_since.unwrap_or(watch.lost),
            unseen_since: watch.unseen_since(self.now),
            blind: watch.blind.is_some(),
            namespace_deleted,
            operator_stopped,
            annotated_deadline,
            may_add_history: self.histories < self.settings.limits.histories,
            history_denied: false,
            slot,
            kind: self.kinds.get_mut(watch.kind as usize)?,
            namespace: watch.namespaces.get_mut(record.namespace_index as usize)?,
            record,
            texts: &self.texts,
            condition_sets: &self.condition_sets,
            traces: &mut self.traces,
            served_groups: &self.served_groups,
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
        let record = self.store.get(slot).filter(|record| self.kind_of(record.watch).role == Role::Primary);
        let state = record.map(|record| record.state);
        if has_findings || matches!(state, Some(ObjectState::Overdue | ObjectState::Failed)) {
            self.unhealthy.insert(slot);
        } else {
            self.unhealthy.remove(&slot);
        }
    }

    /// Updates the kind's sets of failing and malformed objects. The kind is reviewed if a set changed, and while any
    /// object is failing.
    fn update_kind(&mut self, slot: Slot, failing_since: Option<Timestamp>) {
        let Some(record) = self.store.get_mut(slot) else { return };
        let number = self.watches[record.watch as usize].kind;
        let kind = &mut self.kinds[number as usize];
        let malformed = record.flags.has(Flag::MalformedConditions);
        let old = record.hot.as_mut().and_then(|hot| std::mem::replace(&mut hot.failing_since, failing_since));
        if old != failing_since {
            if let Some(old) = old {
                kind.failing.remove(&(old, slot));
            }
            kind.failing.extend(failing_since.map(|since| (since, slot)));
        }
        let malformed_changed = if malformed { kind.malformed.insert(slot) } else { kind.malformed.remove(&slot) };
        if old != failing_since || malformed_changed || !kind.failing.is_empty() || kind.failing_since.is_some() {
            self.reviews.kinds.insert(number);
        }
    }
}

// === impl ObjectContext ===

impl ObjectContext<'_> {
    fn compare<'v>(
        &self,
        view: &'v ObjectView,
        reading: &Reading,
        new: bool,
        live: bool,
        about_earlier: Option<Verdict>,
    ) -> Update<'v> {
        let record = &*self.record;
        let hashed = view.hashes.spec != 0 && record.spec_hash != 0;
        let differs = if hashed { view.hashes.spec != record.spec_hash } else { view.generation != record.generation };
        let status_changed = !new && view.hashes.settled != record.stable_status_hash;
        let old_verdict = record.verdict;
        let mut verdict = self.verdict_on(reading, live);
        if about_earlier == Some(Verdict::Finished) && (new || old_verdict == Verdict::Finished) {
            verdict = Verdict::Finished; // a run that is over does not answer a later spec change
        }
        // A version that a list shows may be several changes later, of which the last ones undid the first ones. The
        // deletion of an object increments its generation, too.
        let undone = !live && view.deleted.is_none() && view.generation > record.generation.saturating_add(1);
        Update {
            view,
            verdict,
            old_verdict,
            acknowledged_more: !new && reading::observed_generation(view).unwrap_or(0) > record.observed,
            acknowledged: reading.acknowledged,
            new,
            live,
            spec_changed: !new
                && (differs || (undone && !self.kind.generation_is_unreliable()))
                && (view.generation > record.generation
                    || view.generation == 0
                    || self.kind.generation_is_unreliable()),
            status_changed,
            spec_written_by_operator: writers::spec_written_by_operator(view, self.known_spec_write()),
            old_spec_hash: record.spec_hash,
            lost_at: lost_at(view, verdict, reading),
            all_lost_at: all_lost_at(view, verdict, reading),
            about_earlier,
            restored: Restored::default(),
        }
    }

    /// Returns whether the managed fields show that the status of an unconverged object has been written since the
    /// previous version. If loopwatch reads the kind in another way, fingerprints of the status do not show it.
    fn is_status_written(&self, view: &ObjectView, version: u64) -> bool {
        let written = writers::status_writer(view).and_then(|m| m.time);
        version != self.record.version && self.record.unconverged().is_some_and(|u| written > u.last_status_write)
    }

    /// Returns up to when the spec writes of persons are known.
    fn known_spec_write(&self) -> Timestamp {
        let changed = self.record.spec_change().unwrap_or(Timestamp(0));
        let opened = self.record.obligation().map_or(Timestamp(0), |obligation| obligation.opened);
        changed.max(opened).max(self.record.created().unwrap_or(changed))
    }

    /// Returns a fingerprint of the phase and the conditions.
    fn shown(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new(); // the same in every process
        (self.texts.get(self.record.phase), self.condition_sets.get(self.record.conditions)).hash(&mut hasher);
        hasher.finish()
    }

    fn update_record(&mut self, update: &Update<'_>, version: u64, reading: &Reading, finalizers: Symbol) {
        let (view, record) = (update.view, &mut *self.record);
        record.version = version;
        record.generation = view.generation;
        record.observed = reading::observed_generation(view).unwrap_or(0);
        record.spec_hash = view.hashes.spec;
        record.stable_status_hash = view.hashes.settled;
        record.verdict = update.verdict;
        record.reason = reading.reason;
        record.finalizers = finalizers;
        record.flags.set(Flag::Undated, view.managers.is_empty());
        let malformed = self.kind.role == Role::Primary && view.lints.iter().any(|lint| lint.starts_with("condition"));
        record.flags.set(Flag::MalformedConditions, malformed);
        if malformed {
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

    /// Keeps the annotations that tune findings. Few objects have any, and a finding may open about each of them at any
    /// time: other objects may change, too.
    fn update_annotated(&mut self, annotated: Option<Box<Annotated>>) {
        if annotated.is_some() || self.record.hot.is_some() {
            self.record.hot_mut().annotated = annotated;
        }
    }

    /// Returns when the object entered `state`, its state as of now.
    fn state_since(&self, state: ObjectState) -> Timestamp {
        let hot = self.record.hot.as_ref();
        match state {
            ObjectState::Terminating => {
                hot.and_then(|h| h.deletion.as_ref()).map_or(self.now, |d| d.since.min(self.now))
            }
            // A new object from a list may have been in this state for long; `update_object` has set the time.
            _ if !self.record.flags.has(Flag::Judged) => self.record.since,
            _ => self.now,
        }
    }

    fn remove_from_totals(&mut self) {
        self.namespace.count_to(self.now, self.blind);
        let count = &mut self.namespace.totals.states[self.record.state as usize];
        *count = count.saturating_sub(1);
        self.kind.objects = self.kind.objects.saturating_sub(1);
        self.kind.voices.count(self.record.silence.voice(), Voice::Other);
        self.record.flags.set(Flag::MalformedConditions, false);
    }
}

/// Returns whether the status is about an earlier spec.
fn acknowledged_late(reading: &Reading) -> bool {
    reading.acknowledged == Acknowledged::No
}

/// Returns the view without anything that says which spec the status is about.
fn without_generation(view: &ObjectView) -> ObjectView {
    let mut view = ObjectView { observed_generation: None, ..view.clone() };
    view.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
    view
}

/// Returns when an unconverged object stopped being converged: when the condition that decided the verdict changed or,
/// if it was another part of the status, the latest transition among the false conditions. Returns `None` if its status
/// is about an earlier spec.
fn lost_at(view: &ObjectView, verdict: Verdict, reading: &Reading) -> Option<Timestamp> {
    let unconverged = matches!(verdict, Verdict::Progressing | Verdict::Failed);
    if !unconverged || reading.acknowledged == Acknowledged::No {
        return None;
    }
    let top_level = || view.conditions.iter().filter(|c| c.at.is_empty());
    let named = reading.signal.split(['=', ' ']).next().unwrap_or_default();
    let decided = top_level().find(|c| c.r#type == named).and_then(|c| c.changed);
    let lost = top_level().filter(|c| c.status == ConditionStatus::False && reading::describes_health(&c.r#type));
    decided.or_else(|| lost.filter_map(|c| c.changed).max())
}

/// Returns when the first of all conditions turned that show that an object is not converged. Before that, it was
/// converged as far as conditions show. Returns `None` if a time is missing, or if the verdict rests on anything else.
fn all_lost_at(view: &ObjectView, verdict: Verdict, reading: &Reading) -> Option<Timestamp> {
    lost_at(view, verdict, reading)?;
    let named = reading.signal.split(['=', ' ']).next().unwrap_or_default();
    let top_level = || view.conditions.iter().filter(|c| c.at.is_empty());
    let decided = top_level().find(|c| c.r#type == named)?;
    let mut bad = top_level().filter(|c| reading::is_bad(c)).chain([decided]);
    bad.try_fold(Timestamp(i64::MAX), |first, condition| Some(first.min(condition.changed?)))
}

/// Returns when an object that is new from a list entered its state: at the newest transition of its conditions or,
/// if the conditions have no times or are about an earlier spec, at the last write of its spec.
fn unchanged_since(view: &ObjectView, acknowledged: Acknowledged, now: Timestamp) -> Timestamp {
    let transitions = view.conditions.iter().filter_map(|c| c.changed);
    let changed = if acknowledged == Acknowledged::No { None } else { transitions.max() };
    changed.or_else(|| writers::spec_written(view)).map_or(now, |at| at.min(now))
}

/// Returns the message of the condition whose type `signal` begins with.
fn deciding_message(view: &ObjectView, signal: &str) -> String {
    let named = signal.split(['=', ' ']).next().unwrap_or_default();
    let condition = view.conditions.iter().find(|c| c.r#type == named);
    condition.map(|c| c.message.clone()).unwrap_or_default()
}
