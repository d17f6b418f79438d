//! The latest Warning Event in the evidence of findings about objects.

use crate::finding::{Evidence, FindingCode};
use crate::model::convergence::workloads::unready_children;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::kube_events::KubeEvents;
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::ObjectKey;
use crate::time::{Span, Timestamp};

/// The findings whose evidence has the latest Warning.
const WITH_WARNING: [FindingCode; 8] = [
    FindingCode::Unacknowledged,
    FindingCode::Overdue,
    FindingCode::Regressed,
    FindingCode::NeverRecovered,
    FindingCode::ReadyButBroken,
    FindingCode::PhaseStuck,
    FindingCode::FinalizerStuck,
    FindingCode::CleanupSlow,
];

/// A Warning may be a little older than the change of the status to which it belongs.
const JUST_BEFORE: Span = Span::mins(1);

/// Adds the latest Warning to the evidence of a finding about an object: one about the object itself
/// since the problem began, or else one about a workload that the object waits for.
pub(super) fn with_last_warning(
    world: &World,
    events: &KubeEvents,
    slot: Slot,
    (code, since): (FindingCode, Timestamp),
    evidence: Evidence,
) -> Evidence {
    if !WITH_WARNING.contains(&code) || events.is_empty() {
        return evidence;
    }

    let since = since.before(JUST_BEFORE);
    let last = |record| events.last_warning(world, record, since);
    let own = world.store.get(slot).and_then(last);
    let warning = own.or_else(|| unready_children(world, slot).find_map(last));
    evidence.text("last_warning", warning.unwrap_or_default())
}

/// Adds a Warning that has just arrived to the evidence of the open findings about its object and
/// the owners of that.
pub(super) fn show_last_warning(
    world: &World,
    events: &KubeEvents,
    findings: &mut OpenFindings,
    watch: u16,
    about: &ObjectKey,
) {
    let Some(slot) = world.store.find(watch, &about.namespace, &about.name) else { return };
    let owners = world.owners_of(slot).iter().filter_map(|owner| world.find_uid(owner.uid()));

    for slot in owners.chain([slot]) {
        let hot = world.store.get(slot).and_then(|record| record.hot.as_ref());
        let codes = hot.map_or(&[][..], |hot| &hot.findings);

        for code in codes.iter().filter(|code| WITH_WARNING.contains(code)) {
            findings.change_evidence(*code, &world.subject(slot), |since, evidence| {
                with_last_warning(world, events, slot, (*code, since), evidence)
            });
        }
    }
}
