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

/// How soon after a spec change an operator crashes that reads the object at once.
const AT_ONCE: Span = Span::secs(10);

/// How long the operator must have run before the first crash, so that hardly anything but the spec
/// change can have caused it.
const QUIET_LIFE: Span = Span::hours(24);

/// From this number of crashes by a panic on, the finding is certain if the first one ended a quiet
/// life at once after the change. An operator that has nothing else to do never shows that it serves
/// other objects.
const CERTAIN_CRASHES: u32 = 5;

/// What Rust and Go write when they panic.
const PANICS: [&str; 2] = ["panicked at", "panic:"];

/// What they write, too, if they panic because they cannot reach the API server.
const CANNOT_CONNECT: [&str; 5] =
    ["i/o timeout", "connection refused", "deadline exceeded", "no such host", "unreachable"];

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
    /// The first crash ended a quiet life at once after the change, and no other object had changed.
    is_sudden: bool,
    /// The revision of the operator that crashed, and how often it panicked since.
    revision: String,
    died_of_panic: u32,
}

/// A crash of the operator.
struct Crash<'a> {
    at: Timestamp,
    /// The end of the container; `None` for a panic that the operator survived.
    end: Option<&'a ContainerEnd>,
}

impl Crash<'_> {
    /// Returns whether the container had run for long.
    fn ends_quiet_life(&self) -> bool {
        let end = self.end.and_then(|end| Some(end.finished?.since(end.started?)));
        end.is_some_and(|ran| ran >= QUIET_LIFE)
    }

    /// Returns whether the last words of the container are those of a panic.
    fn is_by_panic(&self) -> bool {
        let says = |words: &[&str]| {
            self.end.is_some_and(|end| words.iter().any(|word| end.message.contains(word)))
        };
        says(&PANICS) && !says(&CANNOT_CONNECT)
    }
}

impl Suspect {
    /// Returns whether the object still waits for the operator with the same spec.
    fn waits(&self, record: &Record) -> bool {
        record.uid == self.uid && record.spec_hash == self.spec && unacknowledged(record).is_some()
    }

    /// Returns whether its crashes alone show that the object causes them.
    fn is_certain_by_itself(&self) -> bool {
        self.is_sudden && self.died_of_panic >= CERTAIN_CRASHES
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
            let at = end.finished.unwrap_or(world.now).min(world.now);
            self.note_crash(world, &Crash { at, end: Some(end) });
        }
    }

    /// Notes a panic that the operator survives.
    pub(super) fn operator_panicked(&mut self, world: &mut World) {
        self.note_crash(world, &Crash { at: world.now, end: None });
    }

    fn note_crash(&mut self, world: &mut World, crash: &Crash<'_>) {
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
        let Some(mut suspect) = known.or_else(|| newest_unacknowledged(world, crash)) else {
            return;
        };

        suspect.last = suspect.last.max(crash.at);
        match crash.end {
            Some(_) => suspect.restarts = suspect.restarts.saturating_add(1),
            None => suspect.panics = suspect.panics.saturating_add(1),
        }

        let revision = self.revision_label();
        if suspect.restarts > 1 && suspect.revision != revision {
            suspect.is_sudden = false; // a rollout may be the reason, too
        }

        suspect.revision = revision;
        if crash.is_by_panic() {
            suspect.died_of_panic = suspect.died_of_panic.saturating_add(1);
        }

        world.agenda.objects.insert(suspect.slot);
        self.suspect = Some(suspect);
    }
}

/// Returns the object with the newest spec change before a crash that the operator has not
/// acknowledged.
fn newest_unacknowledged(world: &World, crash: &Crash<'_>) -> Option<Suspect> {
    let at = crash.at;
    let primary = world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
    let waiting = primary.flat_map(|kind| &kind.unconverged).filter_map(|(_, slot)| {
        let record = world.store.get(*slot)?;
        Some((unacknowledged(record)?, *slot, record))
    });
    let followed = waiting.filter(|(since, ..)| *since <= at && at.since(*since) <= FOLLOWS_WITHIN);
    let followed: Vec<(Timestamp, Slot, &Record)> = followed.collect();

    let (since, slot, record) =
        followed.iter().max_by_key(|(since, slot, _)| (*since, *slot)).copied()?;
    let at_once = at.since(since) <= AT_ONCE && followed.len() == 1;
    Some(Suspect {
        slot,
        uid: record.uid,
        spec: record.spec_hash,
        restarts: 0,
        panics: 0,
        first: at,
        last: at,
        is_sudden: at_once && crash.ends_quiet_life(),
        revision: String::new(),
        died_of_panic: 0,
    })
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
        let is_certain =
            suspect.panics >= CERTAIN_PANICS || others || suspect.is_certain_by_itself();
        Some(detection.suspected_if(!is_certain))
    }
}

/// Returns since when the operator has not acknowledged the spec of an object.
fn unacknowledged(record: &Record) -> Option<Timestamp> {
    record.unconverged().and_then(|unconverged| unconverged.unacknowledged_since)
}
