//! Controllers that should remove a finalizer but have stopped.

use crate::model::deletion::finalizers;
use crate::model::operator::Operator;
use crate::model::operator::controllers::Liveness;
use crate::model::world::World;
use crate::model::world::finalizer_actors::Actor;
use crate::model::world::store::{Deletion, Record};
use crate::time::Timestamp;

/// When a controller that works without any other sign of life counts as absent.
const NEVER: Timestamp = Timestamp(i64::MAX);

/// A controller of a finalizer that has stopped, or will count as absent if nothing changes.
pub(super) struct Absence {
    pub(super) actor: String,
    /// It is a part of the operator.
    pub(super) is_own: bool,
    /// Its last sign of life, if loopwatch still knows it.
    pub(crate) last: Option<Timestamp>,
    pub(crate) due: Timestamp,
}

/// Returns when the deletion of an object counts as stuck, or the controller of one of its
/// finalizers as absent.
pub(crate) fn blocks_at(
    world: &World,
    operator: &Operator,
    record: &Record,
    deletion: &Deletion,
) -> Timestamp {
    let stuck = world.kind_of(record.watch).stuck_at(&world.settings, record, deletion);
    first_absence(world, operator, record, deletion).map_or(stuck, |absence| absence.due.min(stuck))
}

/// Returns whether the operator should remove a finalizer.
pub(crate) fn is_removed_by_operator(world: &World, finalizer: &str, actor: &Actor) -> bool {
    matches!(actor, Actor::Operator { .. })
        || finalizers::served_group(finalizer, &world.served_groups).is_some()
}

/// Returns the controller that was or will be absent first.
pub(super) fn first_absence(
    world: &World,
    operator: &Operator,
    record: &Record,
    deletion: &Deletion,
) -> Option<Absence> {
    let group = &world.kind_of(record.watch).group;
    let absences = deletion.actors.iter().filter_map(|(finalizer, actor)| {
        let is_own = is_removed_by_operator(world, finalizer, actor);
        let controller = actor.controller()?;
        let is_continued = deletion.found_absent.is_some();
        let (last, absent_at) =
            match operator.liveness(world, group, controller, is_own, is_continued) {
                Liveness::SeenAlive { last, absent_at } | Liveness::Absent { last, absent_at } => {
                    (Some(last), absent_at)
                }
                // What an earlier process had seen of it, such as its Pods, may be gone by now.
                Liveness::Unknown => {
                    let found = deletion.found_absent?;
                    let written = world.last_write(group, controller);
                    (None, written.filter(|at| *at > found).map_or(found, |_| NEVER))
                }
            };

        // A controller that is started on demand may need that long to start.
        let due = absent_at.max(deletion.since.after(world.settings.owner_absent_after));
        let returns = operator.returns_by(world).filter(|_| is_own);
        let due = due.max(returns.unwrap_or(due));
        Some(Absence { actor: actor.to_string(), is_own, last, due })
    });

    absences.min_by_key(|absence| absence.due)
}
