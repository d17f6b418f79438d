//! The object that makes the operator crash. Restarts or panics follow its newest spec change,
//! which the operator never acknowledges.
//!
//! The first crash only makes the object a suspect. It stays a suspect until its spec is
//! acknowledged or changes, even if other objects change later: an operator that crashes
//! acknowledges nothing any more. Kills for memory and regular ends do not count. Crashes while the
//! API server fails do not count either, because such failures make operators exit, too.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::store::{Record, Slot};
use crate::model::world::visibility::Visibility;
use crate::observation::{ContainerEnd, Role};
use crate::time::{Span, Timestamp};

/// How soon after a spec change the first crash must follow.
const FOLLOWS_WITHIN: Span = Span::mins(2);

/// From this number of panics on, the finding is certain: the operator survives them and goes on
/// with other objects.
const CERTAIN_PANICS: u32 = 2;

/// The object that may make the operator crash.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    slot: Slot,
    uid: u128,
    spec: u64,
    restarts: u32,
    panics: u32,
    /// When the first and the last crash happened.
    first: Timestamp,
    last: Timestamp,
}

impl Suspect {
    /// Returns whether the object still waits for the operator with the same spec.
    fn waits(&self, record: &Record) -> bool {
        record.uid == self.uid && record.spec_hash == self.spec && unacknowledged(record).is_some()
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        (self.first, self.last) = (self.first.shifted(by_ms), self.last.shifted(by_ms));
    }
}

impl Operator {
    /// Notes the ends of containers.
    pub(super) fn containers_ended(&mut self, world: &mut World, ends: &[ContainerEnd]) {
        let is_crash = |end: &&ContainerEnd| end.exit_code != 0 && end.reason != "OOMKilled";
        for end in ends.iter().filter(is_crash) {
            self.operator_crashed(world, end.finished.unwrap_or(world.now).min(world.now), false);
        }
    }

    /// Notes a crash: a panic, or else the end of a container.
    pub(super) fn operator_crashed(&mut self, world: &mut World, at: Timestamp, panicked: bool) {
        let primary =
            || world.watches.iter().filter(|watch| watch.active && watch.missing.is_empty());
        let mut primary =
            primary().filter(|watch| world.kinds[watch.kind as usize].role == Role::Primary);
        let api_fails = self.is_found(FindingCode::ApiErrors);

        if api_fails || primary.any(|watch| watch.visibility(world.now) != Visibility::Clear) {
            return;
        }

        let known = self.suspect.take();
        let known = known
            .filter(|known| world.store.get(known.slot).is_some_and(|record| known.waits(record)));
        let Some(mut suspect) = known.or_else(|| newest_unacknowledged(world, at)) else { return };

        suspect.last = suspect.last.max(at);
        if panicked {
            suspect.panics = suspect.panics.saturating_add(1);
        } else {
            suspect.restarts = suspect.restarts.saturating_add(1);
        }

        world.agenda.objects.insert(suspect.slot);
        self.suspect = Some(suspect);
    }
}

/// Returns the object with the newest spec change before a crash that the operator has not
/// acknowledged.
fn newest_unacknowledged(world: &World, at: Timestamp) -> Option<Suspect> {
    let primary = world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
    let waiting = primary.flat_map(|kind| &kind.unconverged).filter_map(|(_, slot)| {
        let record = world.store.get(*slot)?;
        Some((unacknowledged(record)?, *slot, record))
    });
    let followed = waiting.filter(|(since, ..)| *since <= at && at.since(*since) <= FOLLOWS_WITHIN);

    let (_, slot, record) = followed.max_by_key(|(since, slot, _)| (*since, *slot))?;
    let (uid, spec) = (record.uid, record.spec_hash);
    Some(Suspect { slot, uid, spec, restarts: 0, panics: 0, first: at, last: at })
}

impl Operator {
    /// Detects an object that makes the operator crash.
    pub(crate) fn poison_object(&self, world: &World, slot: Slot) -> Option<Detection> {
        let suspect = self.suspect.as_ref().filter(|suspect| suspect.slot == slot)?;
        let record = world.store.get(slot).filter(|record| suspect.waits(record))?;

        if suspect.restarts.saturating_add(suspect.panics) < world.settings.poison_crashes {
            return None;
        }

        let primary = world.kinds.iter().filter(|kind| kind.role == Role::Primary);
        let others = primary
            .flat_map(|kind| kind.acknowledged.since(suspect.first))
            .any(|other| other != slot);
        let detection =
            Detection::new(world.now, FindingCode::PoisonObject, suspect.first, world.now, || {
                Evidence::new()
                    .with("restarts", Value::Count(i64::from(suspect.restarts)))
                    .with("panics", Value::Count(i64::from(suspect.panics)))
                    .with("last_crash", Value::Age(suspect.last))
                    .with_some("unacknowledged_for", unacknowledged(record).map(Value::Age))
            });

        // An operator that acknowledges nothing at all may have another reason to crash.
        Some(detection.suspected_if(suspect.panics < CERTAIN_PANICS && !others))
    }
}

/// Returns since when the operator has not acknowledged the spec of an object.
fn unacknowledged(record: &Record) -> Option<Timestamp> {
    record.unconverged().and_then(|unconverged| unconverged.unacknowledged_since)
}
