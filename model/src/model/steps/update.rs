//! Updates every part of the model that depends on a new version of an object.

use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::Model;
use crate::model::convergence::compare::about_earlier;
use crate::model::convergence::object_context::{self, ObjectContext, Restored, Update};
use crate::model::deletion::blocking_chains;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::ownership::orphans;
use crate::model::status::reading::{self, Acknowledged, Reading, Verdict};
use crate::model::world::annotations::Annotated;
use crate::model::world::intern::Symbol;
use crate::model::world::limits::Limit;
use crate::model::world::store::{Flag, Generation, Slot, Unconverged};
use crate::model::world::symbols::Symbols;
use crate::model::world::{World, field_managers};
use crate::observation::{ObjectView, Role};
use crate::time::Timestamp;

/// The finalizers of an object, before and after an update.
struct Finalizers {
    old: Vec<Arc<str>>,
    new: Vec<Arc<str>>,
}

impl Model {
    /// Compares a version with the previous one and updates every part of the model.
    pub(super) fn update_object(
        &mut self,
        slot: Slot,
        view: &ObjectView,
        version: u64,
        new: bool,
        live: bool,
    ) {
        self.update_ownership(slot, view, new, live);
        let Some(record) = self.world.store.get(slot) else { return };
        let (old, watch) = (Symbols::of(record), &self.world.watches[record.watch as usize]);
        let (reread, kind) = (watch.lists.reread, &self.world.kinds[watch.kind as usize]);

        // Reading the kind differently may change the fingerprint of the spec.
        let rereads_spec = reread && kind.generation_is_unreliable();
        let (group, name) = (kind.group.clone(), kind.kind.clone());
        let reading = reading::read(&group, &name, view);
        let finalizers = Finalizers {
            old: self.world.finalizers_of(slot),
            new: view.finalizers.iter().map(|finalizer| finalizer.as_str().into()).collect(),
        };
        let (symbols, conditions_kept) = self.world.acquire_symbols(view, &finalizers.new);

        let restored = if new {
            restored(&self.world, &self.findings, slot, reading.verdict)
        } else {
            Restored::default()
        };
        let annotated = Annotated::read(&view.annotations);
        let deadline = self.world.namespaces.deadline(annotated.as_deref(), &view.key.namespace);
        let Some(mut context) = object_context::context(&mut self.world, &mut self.traces, slot)
        else {
            return;
        };
        let deadline_changed =
            std::mem::replace(&mut context.annotated_deadline, deadline) != deadline;

        context.note_writers(view);
        context.note_content(view, &reading, new, live, &restored);

        let about_earlier = about_earlier(&group, &name, view, &reading);
        let mut update = context.compare(view, &reading, new, live, about_earlier);
        update.spec_changed &= !rereads_spec;
        update.status_changed &= !reread || context.is_status_written(view, version);
        update.restored = restored;
        context.update_record(&update, version, &reading, symbols.finalizers);

        let fits = context.update_parts(&update, symbols, &finalizers, &reading);
        context.update_annotated(annotated);
        if deadline_changed {
            context.update_deadlines();
        }

        self.world.release_symbols(old);
        for (fits, limit) in fits.into_iter().chain([(conditions_kept, Limit::Conditions)]) {
            if !fits {
                self.world.count_dropped(limit);
            }
        }
    }

    /// Updates the owners of an object, and the owners that wait for its deletion.
    fn update_ownership(&mut self, slot: Slot, view: &ObjectView, new: bool, live: bool) {
        let old_owners = if view.owners.is_empty() {
            orphans::owner_names(&self.world, slot)
        } else {
            Vec::new()
        };
        let waiting = blocking_chains::waiting_owners(&self.world, slot);
        let corrected = self.world.update_owners(slot, view)
            && self.parts.ownership.owners_changed(
                &mut self.world,
                &mut self.findings,
                slot,
                view,
                live,
            );
        blocking_chains::review_owners_left(&mut self.world, slot, waiting);
        self.parts.ownership.update_orphan(
            &mut self.world,
            &self.findings,
            slot,
            view,
            new,
            if corrected { &[] } else { &old_owners },
        );
    }
}

/// Returns the start of each problem that an earlier process had found in a new object.
fn restored(world: &World, findings: &OpenFindings, slot: Slot, verdict: Verdict) -> Restored {
    let Some(record) = world.store.get(slot).filter(|_| findings.has_restored()) else {
        return Restored::default();
    };
    let subject = world.subject(slot);
    let kind = world.kind_subject(world.watches[record.watch as usize].kind);
    let start = |code, subject| findings.restored_start(code, subject);
    let of_object = |code| start(code, &subject).filter(|at| Some(*at) >= record.created());

    let failing = start(FindingCode::Failing, &kind).filter(|_| verdict == Verdict::Failed);
    Restored {
        regressed: start(FindingCode::Regressed, &subject)
            .or(failing)
            .filter(|at| Some(*at) >= record.created()),
        overdue: of_object(FindingCode::Overdue),
        unacknowledged: of_object(FindingCode::Unacknowledged),
        not_recovered: of_object(FindingCode::NeverRecovered),
        phase_stuck: of_object(FindingCode::PhaseStuck),
        owner_absent: of_object(FindingCode::FinalizerOwnerAbsent).is_some(),
    }
}

impl ObjectContext<'_> {
    /// Counts what the status of a version says, unless the object is a child.
    fn note_content(
        &mut self,
        view: &ObjectView,
        reading: &Reading,
        new: bool,
        live: bool,
        restored: &Restored,
    ) {
        if self.is_child() {
            self.ignore_content();
        } else {
            self.count_content(view, reading, new, live);
            self.expect_restored(restored);
        }
    }

    /// Updates everything about the object itself, after its record. Returns for each limit whether
    /// the object is within it.
    fn update_parts(
        &mut self,
        update: &Update<'_>,
        symbols: Symbols,
        finalizers: &Finalizers,
        reading: &Reading,
    ) -> [(bool, Limit); 4] {
        if update.spec_changed {
            self.clear_history();
        }

        let (mut phase_fits, mut conditions_fit) = (true, true);
        let waited_since = self.record.unconverged().map(Unconverged::waits_since);
        if self.is_child() {
            self.update_child(symbols.phase, symbols.conditions);
        } else {
            phase_fits = self.update_phase(update, symbols.phase);
            conditions_fit = self.update_conditions(update, symbols.conditions);
            self.update_obligation(update);
        }

        // The status counts whichever spec it is about: deleting an object increments its
        // generation, too.
        let said = update.about_earlier.unwrap_or(reading.verdict);
        let shown = (said != Verdict::Failed).then(|| self.shown());
        let removed = finalizers.removed();
        self.update_finalizers(update, &finalizers.old, &finalizers.new);

        let finalizers_fit =
            self.update_deletion(update, shown, &removed, &finalizers.new, waited_since);
        if update.new && !update.live {
            self.record.since = unchanged_since(update.view, reading, self.now);
            let dated = self.record.since < self.now;
            self.record.flags.set(Flag::SinceDated, dated);
        }

        [
            (phase_fits, Limit::Phases),
            (conditions_fit, Limit::ConditionTypes),
            (finalizers_fit, Limit::Finalizers),
            (!self.history_denied, Limit::Histories),
        ]
    }

    fn update_record(
        &mut self,
        update: &Update<'_>,
        version: u64,
        reading: &Reading,
        finalizers: Symbol,
    ) {
        let (view, record) = (update.view, &mut *self.record);
        record.version = version;
        record.generation = Generation::of(view.generation);
        record.observed = Generation::of(reading::observed_generation(view).unwrap_or(0));
        record.spec_hash = view.hashes.spec;
        record.stable_status_hash = view.hashes.settled;
        record.verdict = update.verdict;
        record.reason = reading.reason;

        record.finalizers = finalizers;
        record.flags.set(Flag::Undated, view.managers.is_empty());

        let malformed = self.kind.role == Role::Primary
            && view.lints.iter().any(|lint| lint.starts_with("condition"));
        record.flags.set(Flag::MalformedConditions, malformed);
        if malformed {
            self.kind
                .malformed_conditions
                .lints
                .extend(view.lints.iter().filter(|lint| lint.starts_with("condition")).cloned());
        }

        let at_rest = matches!(
            update.verdict,
            Verdict::Converged | Verdict::Finished | Verdict::Unknown | Verdict::Suspended
        );
        if !at_rest || record.hot.is_some() {
            let message = deciding_message(view, reading);
            let hot = record.hot_mut();
            hot.signal.clone_from(&reading.signal);
            hot.message = message;
            hot.attempts = view.most_attempts().cloned().map(Box::new);
        }
    }

    /// Stores the annotations that tune findings. Objects that have any (few do) keep them at all
    /// times, because a change of another object may open a finding about them.
    fn update_annotated(&mut self, annotated: Option<Box<Annotated>>) {
        if annotated.is_some() || self.record.hot.is_some() {
            self.record.hot_mut().annotated = annotated;
        }
    }
}

impl Finalizers {
    fn removed(&self) -> Vec<Arc<str>> {
        self.old.iter().filter(|finalizer| !self.new.contains(finalizer)).cloned().collect()
    }
}

/// Returns when a new object from a list entered its state: at the newest transition of its phase and
/// its conditions or, if they have no times or are about an earlier spec, at the last spec write.
fn unchanged_since(view: &ObjectView, reading: &Reading, now: Timestamp) -> Timestamp {
    let transitions = view.conditions.iter().filter_map(|c| c.changed);
    let transitions = transitions.chain(reading::phase_changed(view, reading.part()));
    let is_current = reading.acknowledged != Acknowledged::No;
    let changed = transitions.max().filter(|_| is_current);
    changed.or_else(|| field_managers::spec_written(view)).map_or(now, |at| at.min(now))
}

/// Returns the message of the condition that decided the verdict.
fn deciding_message(view: &ObjectView, reading: &Reading) -> String {
    let condition = view.conditions.iter().find(|c| c.r#type == reading.part());
    condition.map(|c| c.message.clone()).unwrap_or_default()
}
