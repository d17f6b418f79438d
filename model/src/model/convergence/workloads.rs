//! The workloads that primary objects own: their owners wait for those that are not ready.
//!
//! The state of an object of a child kind is only evidence. Obligations are about primary objects,
//! so a child opens no obligation and no finding about convergence, and counts only towards the
//! total of its state.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context::ObjectContext;
use crate::model::status::coverage::{StatusContent, StatusSummary};
use crate::model::status::reading::{self, Verdict};
use crate::model::world::World;
use crate::model::world::intern::Symbol;
use crate::model::world::store::{NO_UID, Record, Slot};
use crate::observation::Role;
use crate::snapshot::ObjectState;

/// The findings whose evidence names the workloads that the object waits for.
const NAME_WORKLOADS: [FindingCode; 3] =
    [FindingCode::Unacknowledged, FindingCode::Overdue, FindingCode::Regressed];

/// The maximum number of workloads that one finding names.
const MAX_NAMED: usize = 3;

/// The maximum number of workloads that a search for unready children examines.
const MAX_SEARCHED: usize = 10_000;

/// Adds the workloads that the object waits for to the evidence of a finding about it.
pub(crate) fn with_workloads(
    world: &World,
    slot: Slot,
    code: FindingCode,
    evidence: Evidence,
) -> Evidence {
    if !NAME_WORKLOADS.contains(&code) || world.unready_workloads.is_empty() {
        return evidence;
    }

    let names = waits_for(world, slot);
    if names.is_empty() { evidence } else { evidence.with("waits_for", Value::Names(names)) }
}

/// Names the unready workloads that the object owns, the failed ones first.
fn waits_for(world: &World, slot: Slot) -> Vec<String> {
    let children = unready_children(world, slot);
    let mut named: Vec<(bool, String)> = children
        .filter_map(|record| {
            let state = world.state_of(record);
            let signal = record.hot.as_ref().map_or("", |hot| hot.signal.as_str());
            let why = match state {
                ObjectState::Unknown => return None, // its watch is blind
                ObjectState::Terminating => state.as_str(),
                _ if signal.is_empty() => state.as_str(),
                _ => signal,
            };

            let text = format!("{}: {why}", world.record_address(record));
            Some((state != ObjectState::Failed, text))
        })
        .collect();

    named.sort();
    named.into_iter().take(MAX_NAMED).map(|(_, text)| text).collect()
}

/// Returns the workloads that the object owns and that are not ready.
pub(crate) fn unready_children(world: &World, owner: Slot) -> impl Iterator<Item = &Record> {
    let uid = world.store.get(owner).map_or(NO_UID, |record| record.uid);
    let unready = world
        .children_of(uid)
        .filter(|slot| world.unready_workloads.contains(slot))
        .take(MAX_SEARCHED);

    unready.filter_map(|slot| world.store.get(slot))
}

/// Records whether a reviewed object is a workload that its owner waits for.
pub(crate) fn note_workload(world: &mut World, slot: Slot) {
    let Some(record) = world.store.get(slot) else { return };
    let rests = matches!(
        record.state,
        ObjectState::Converged | ObjectState::Finished | ObjectState::Unknown
    );
    let waited_for = !rests && record.owners.is_some() && {
        let kind = world.kind_of(record.watch);
        reading::is_workload(&kind.group, &kind.kind)
    };

    if waited_for {
        world.unready_workloads.insert(slot);
    } else {
        world.unready_workloads.remove(&slot);
    }
}

/// Marks the owners of a workload for a review if findings about them may name it. Called
/// before and after each change of the workload, which may have changed its owners, and before
/// its removal.
pub(crate) fn review_owners(world: &mut World, slot: Slot) {
    if world.unhealthy.is_empty() || !world.unready_workloads.contains(&slot) {
        return;
    }

    let owners = world.owners_of(slot).iter().filter_map(|owner| world.find_uid(owner.uid()));
    let owners: Vec<Slot> = owners.filter(|owner| world.unhealthy.contains(owner)).collect();
    world.agenda.objects.extend(owners);
}

impl ObjectContext<'_> {
    /// Returns whether the operator creates objects of this kind for its primary objects.
    pub(crate) fn is_child(&self) -> bool {
        self.kind.role == Role::Child
    }

    /// Ignores whether the status of a child is silent: nothing is expected of it.
    pub(crate) fn ignore_content(&mut self) {
        self.kind.silent_status.coverage.count(self.record.silence.content(), StatusContent::Other);
        self.record.silence = StatusSummary::default();
    }

    /// Sets the phase and the conditions of a child, which no total of its kind counts. If its kind
    /// was a primary kind before, nothing is expected of it any longer.
    pub(crate) fn update_child(&mut self, phase: Symbol, conditions: Symbol) {
        self.uncount_phase_and_conditions();
        self.clear_unconverged();
        (self.record.phase, self.record.conditions) = (phase, conditions);
    }

    /// Returns whether the object is a child whose status explains what its owner waits for.
    pub(crate) fn is_unready_child(&self) -> bool {
        self.is_child() && matches!(self.record.verdict, Verdict::Progressing | Verdict::Failed)
    }
}
