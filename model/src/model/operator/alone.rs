//! A Pod that restarts again and again, and is the only one that loopwatch sees, as with a sidecar.
//! Other Pods may run, so the Pod does not show whether the operator is down. The objects do: if the
//! operator serves none of them while a change waits for longer than it may, the restarts are the
//! reason.

use crate::model::operator::Operator;
use crate::model::operator::history::STALE_AFTER;
use crate::model::operator::review::Verdicts;
use crate::model::world::World;
use crate::model::world::kinds::Kind;
use crate::observation::Role;
use crate::time::{Span, Timestamp};

/// How long before the first restart a change may have come that waits because of the restarts. The
/// change may have caused them.
const CHANGED_BEFORE: Span = Span::mins(2);

impl Operator {
    /// Returns whether the restarts of a Pod since `first` keep the operator from serving anything,
    /// as far as loopwatch sees: it sees no other Pod, no other one leads, the operator has
    /// acknowledged nothing since, and a change has waited for longer than its deadline.
    pub(super) fn serves_nobody(
        &self,
        world: &World,
        verdicts: &mut Verdicts,
        pod: &str,
        first: Timestamp,
    ) -> bool {
        let leads = self.operator_leaders(world, STALE_AFTER).any(|leader| leader != pod);
        let acknowledged = |kind: &Kind| kind.acknowledged.since(first).next().is_some();
        if !self.sees_only(pod) || leads || served_kinds(world).any(acknowledged) {
            return false;
        }

        let due = first_missed(world, first.before(CHANGED_BEFORE));
        verdicts.look_again(due);
        due.is_some_and(|due| due <= world.now)
    }

    /// Returns whether loopwatch sees only this Pod of the operator, although others may run.
    fn sees_only(&self, pod: &str) -> bool {
        let mut pods = self.operator_pods().map(|(seen, _)| seen.name.as_str());
        let is_partial = self.view.as_ref().is_some_and(|view| !view.complete);
        is_partial && pods.next() == Some(pod) && pods.next().is_none()
    }
}

/// Returns when the first deadline passes of the changes since `from` that the operator has not
/// acknowledged.
fn first_missed(world: &World, from: Timestamp) -> Option<Timestamp> {
    let missed = served_kinds(world).filter_map(|kind| {
        let deadline = kind.acknowledgement_deadline(&world.settings);
        let records = kind.unconverged.iter().filter_map(|(_, slot)| world.store.get(*slot));
        let waiting = records.filter_map(|record| record.unconverged()?.unacknowledged_since);
        let first = waiting.filter(|since| *since >= from).min()?;
        Some(first.after(deadline))
    });

    missed.min()
}

fn served_kinds(world: &World) -> impl Iterator<Item = &Kind> {
    world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected)
}
