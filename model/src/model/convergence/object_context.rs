//! The context for judging one object, and the update that a new version of it brings.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::status::reading::{Acknowledged, Verdict};
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::model::world::departed::Departed;
use crate::model::world::intern::{ConditionSet, Interner};
use crate::model::world::kinds::{Kind, WatchNamespace};
use crate::model::world::store::{Flag, Record, Slot};
use crate::model::world::visibility::Visibility;
use crate::observation::{ObjectView, Role};
use crate::settings::Settings;
use crate::snapshot::{DeadlineSource, ObjectState};
use crate::time::{Span, Timestamp};

/// One object, with the data that is read and changed when it is judged.
pub(crate) struct ObjectContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    /// What the object's watch can see.
    pub(crate) visibility: Visibility,
    /// When the object's watch last became able to see again.
    pub(crate) regained: Timestamp,
    /// When the watch's last blindness began, even if it is not over.
    pub(crate) lost: Timestamp,
    /// The earliest time at which a change that the model sees now may have happened.
    pub(crate) unseen_since: Timestamp,
    /// The object's watch has been blind for so long that its objects count as unknown.
    pub(crate) blind: bool,
    /// The object's namespace is being deleted, so the operator can no longer do its work.
    pub(crate) namespace_deleted: bool,
    /// Somebody has scaled the operator to zero, so nothing is expected of it (see
    /// `operator/scaled_to_zero.rs`).
    pub(crate) operator_stopped: bool,
    /// When the last known outage of the operator ended; the last of all instants while it lasts.
    pub(crate) operator_failed: Timestamp,
    /// The deadline that annotations set.
    pub(crate) annotated_deadline: Option<Span>,
    /// The object may get a history: there are fewer than `limits.histories`, or one of another
    /// namespace makes room.
    pub(crate) may_add_history: bool,
    /// The object needed a history, but the limit was reached.
    pub(crate) history_denied: bool,
    pub(crate) slot: Slot,
    pub(crate) record: &'a mut Record,
    pub(crate) kind: &'a mut Kind,
    pub(crate) departed: &'a mut Departed,
    pub(crate) namespace: &'a mut WatchNamespace,
    pub(crate) texts: &'a Interner<str>,
    pub(crate) condition_sets: &'a Interner<ConditionSet>,
    pub(crate) traces: &'a mut Traces,
    /// The groups of the primary kinds that the operator surely serves.
    pub(crate) served_groups: &'a BTreeSet<Arc<str>>,
    /// Whether loopwatch looks only once.
    pub(crate) looks_once: bool,
}

/// A new version of an object, compared with the previous one.
pub(crate) struct Update<'a> {
    pub(crate) view: &'a ObjectView,
    pub(crate) verdict: Verdict,
    /// The verdict about the previous version.
    pub(crate) old_verdict: Verdict,
    pub(crate) acknowledged: Acknowledged,
    /// The operator has acknowledged a newer spec than before, although perhaps not the newest one.
    pub(crate) acknowledged_more: bool,
    /// The model did not know the object before.
    pub(crate) new: bool,
    /// The version came from a watch event, so the change has just happened. A version from a list
    /// may be of any age.
    pub(crate) live: bool,
    pub(crate) spec_changed: bool,
    /// The status changed in more than timestamps and heartbeats.
    pub(crate) status_changed: bool,
    /// The field manager that writes the status also wrote the spec last.
    pub(crate) spec_written_by_operator: bool,
    /// The fingerprint of the previous spec.
    pub(crate) old_spec_hash: u64,
    /// When the object stopped being converged, according to its conditions.
    pub(crate) lost_at: Option<Timestamp>,
    /// The earliest transition among the conditions that show the object as unconverged, if all of
    /// them have times and one of them decided the verdict.
    pub(crate) all_lost_at: Option<Timestamp>,
    /// The verdict on an earlier spec, if the status is about that one.
    pub(crate) about_earlier: Option<Verdict>,
    /// The findings of an earlier process about the object.
    pub(crate) restored: Restored,
}

/// The start of each problem that an earlier process had found in an object that is new to this
/// one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Restored {
    /// The object had regressed, or its kind was failing.
    pub(crate) regressed: Option<Timestamp>,
    /// The object was overdue.
    pub(crate) overdue: Option<Timestamp>,
    /// The operator had not acknowledged a spec change.
    pub(crate) unacknowledged: Option<Timestamp>,
    /// The object had not recovered after its spec was reverted.
    pub(crate) not_recovered: Option<Timestamp>,
    /// The object was stuck in a phase.
    pub(crate) phase_stuck: Option<Timestamp>,
    /// The controller of a finalizer of the deleted object was absent.
    pub(crate) owner_absent: bool,
}

/// Returns the context in which to judge an object.
pub(crate) fn context<'a>(
    world: &'a mut World,
    traces: &'a mut Traces,
    slot: Slot,
) -> Option<ObjectContext<'a>> {
    let record = world.store.get(slot)?;
    let annotated = record.hot.as_ref().and_then(|hot| hot.annotated.as_deref());
    let annotated_deadline = world.namespaces.deadline(annotated, &record.namespace);
    let namespace_deleted = world.namespaces.is_terminating(&record.namespace);
    let may_add_history = world.histories.len() < world.settings.limits.histories
        || world.histories.gives_way_to(&record.namespace, 1).is_some();

    let record = world.store.get_mut(slot)?;
    let watch = world.watches.get_mut(record.watch as usize)?;
    let kind = world.kinds.get_mut(watch.kind as usize)?;

    Some(ObjectContext {
        now: world.now,
        settings: &world.settings,
        visibility: watch.visibility(world.now),
        regained: watch.blindness.regained,
        lost: watch.blindness.lost_since.unwrap_or(watch.blindness.lost),
        unseen_since: watch.unseen_since(world.now),
        blind: watch.blindness.blind.is_some(),
        namespace_deleted,
        operator_stopped: world.operator_stopped && kind.role == Role::Primary,
        operator_failed: world.operator_failed,
        annotated_deadline,
        may_add_history,
        history_denied: false,
        slot,
        kind,
        departed: &mut world.departed,
        namespace: watch.namespaces.get_mut(record.namespace_index as usize)?,
        record,
        texts: &world.shared.texts,
        condition_sets: &world.shared.condition_sets,
        traces,
        served_groups: &world.served_groups,
        looks_once: world.looks_once,
    })
}

/// Returns the state of an object at this instant.
pub(crate) fn state(world: &mut World, slot: Slot) -> Option<ObjectState> {
    let mut untraced = Traces::default();
    context(world, &mut untraced, slot).map(|context| context.state())
}

impl ObjectContext<'_> {
    /// Returns how long the object may take to converge after its `creation` or, if `false`, an
    /// update. The time that runs take shows nothing about when they begin, so that is learned by
    /// itself.
    pub(crate) fn deadline(&self, creation: bool) -> (Span, DeadlineSource) {
        match self.annotated_deadline {
            Some(annotated) => (annotated, DeadlineSource::Configured),
            None if creation && self.is_of_runs() => self.kind.beginning_deadline(self.settings),
            None => self.kind.deadline(self.settings, creation),
        }
    }

    /// Returns how long the operator may take to acknowledge a spec change.
    pub(crate) fn acknowledgement_deadline(&self) -> Span {
        self.annotated_deadline.unwrap_or_else(|| self.kind.acknowledgement_deadline(self.settings))
    }

    /// Returns the time after which an obligation counts as late.
    pub(crate) fn slo_deadline(&self) -> Span {
        self.annotated_deadline.unwrap_or_else(|| self.kind.slo_deadline(self.settings))
    }

    /// Moves the object to a state that it entered at `since`.
    pub(crate) fn enter_state(&mut self, state: ObjectState, since: Timestamp) {
        if self.record.state == state {
            return;
        }

        self.namespace.count_to(self.now, self.blind);
        let old = &mut self.namespace.totals.states[self.record.state as usize];
        *old = old.saturating_sub(1);
        self.namespace.totals.states[state as usize] += 1;
        self.record.state = state;

        let dated = self.record.flags.has(Flag::SinceDated) && since == self.record.since;
        self.record.flags.set(Flag::SinceDated, dated);
        self.record.since = since;
    }
}
