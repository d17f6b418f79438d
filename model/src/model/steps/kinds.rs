//! The detectors that look at all objects of one kind.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::{Detection, Reach, percent_of};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::world::World;
use crate::model::world::kinds::failures::{FailureSort, SharedReason};
use crate::model::world::store::{Flag, Slot};
use crate::model::world::timers::Timer;
use crate::model::world::visibility::Visibility;
use crate::settings::Settings;
use crate::time::Timestamp;

/// The maximum number of objects that a finding about a kind names.
const MAX_EXAMPLES: usize = 3;

/// A detector that looks at all objects of a kind, by its number.
type KindDetector = fn(&World, u16) -> Option<Detection>;

/// The detectors of kinds, with their codes.
const OF_KINDS: &[(FindingCode, KindDetector)] =
    &[(FindingCode::Failing, failing), (FindingCode::ConditionMalformed, malformed)];

/// Opens and closes the findings about a kind as a whole, and sets the timer of the kind. While all
/// watches of the kind are blind, nothing changes.
pub(crate) fn review_kind(world: &mut World, findings: &mut OpenFindings, number: u16) {
    let now = world.now;
    update_failing(world, number);

    let watches = || {
        world
            .watches
            .iter()
            .filter(|watch| watch.kind == number && watch.active && watch.missing.is_empty())
    };
    let all: Vec<Visibility> = watches().map(|watch| watch.visibility(now)).collect();
    if !all.is_empty() && all.iter().all(|visibility| *visibility == Visibility::Lost) {
        return; // the return of visibility reviews the kind again
    }

    let grace = all.iter().filter_map(|visibility| match visibility {
        Visibility::Grace(until) => Some(*until),
        Visibility::Clear | Visibility::Lost => None,
    });
    let grace = grace.max();
    let window = world.settings.flap_window;
    let forgets = world.kinds[number as usize].malformed_conditions.forget_old(now, window);
    let mut detections = kind_detections(world, number);
    let subject = world.kind_subject(number);

    for detection in &mut detections {
        if !findings.is_open(detection.code, &subject) {
            detection.due = detection.due.max(grace.unwrap_or(detection.due));
        }
    }

    let dues = detections.iter().map(|detection| detection.due).filter(|due| *due > now);
    let due = dues.chain(forgets).min();
    let old = std::mem::replace(&mut world.kinds[number as usize].due, due);
    world.agenda.timers.set(Timer::Kind(number), old, due);

    let mut open: Vec<FindingCode> = Vec::new();
    for detection in detections.into_iter().filter(|detection| detection.due <= now) {
        open.push(detection.code);
        findings.report(world, subject.clone(), detection);
    }

    for (code, _) in OF_KINDS.iter().filter(|(code, _)| !open.contains(code)) {
        findings.clear(now, *code, &subject);
    }
}

/// Returns all problems that the kind has, or will have if nothing changes.
pub(crate) fn kind_detections(world: &World, number: u16) -> Vec<Detection> {
    let suspected = world.kinds[number as usize].suspected;
    let detections = OF_KINDS.iter().filter_map(|(_, detect)| detect(world, number));
    detections.map(|detection| detection.suspected_if(suspected)).collect()
}

/// Updates since when the kind has been failing, which is when enough of its objects had failed.
fn update_failing(world: &mut World, number: u16) {
    let kind = &mut world.kinds[number as usize];
    let needed = failing_objects(&world.settings, kind.objects);
    kind.failures.failing_since =
        match (kind.failures.regressed.len() >= needed, kind.failures.failing_since) {
            (true, None) => kind.failures.regressed.iter().nth(needed - 1).map(|(since, _)| *since),
            (true, since) => since,
            (false, _) => None,
        };
}

/// Detects that many objects of a kind fail for a cause that is not their own. One user's objects in
/// one namespace are a ticket at most, and never hide that others suffer from something else.
fn failing(world: &World, number: u16) -> Option<Detection> {
    let many = many_regressed(world, number);
    if many.as_ref().is_some_and(|many| many.is_widespread) {
        return many.map(|many| many.detection);
    }

    many_rejected(world, number)
        .or(many.map(|many| many.detection))
        .or_else(|| many_listed(world, number))
}

/// Many objects of a kind that had converged and fail.
struct ManyRegressed {
    detection: Detection,
    /// Whether they fail in several namespaces for the same reason, or in every namespace.
    is_widespread: bool,
}

fn many_regressed(world: &World, number: u16) -> Option<ManyRegressed> {
    let failures = &world.kinds[number as usize].failures;
    let since = failures.failing_since?;
    let regressed = &failures.regressed;
    let shared = regressed.common_reason(|slot| {
        objects_in_namespace_of(world, slot)
            .map_or(usize::MAX, |objects| failing_objects_of_namespace(&world.settings, objects))
    })?;

    let is_widespread = shared.only_in.is_none() || fails_everywhere(world, number);
    let slots = || regressed.iter().map(|(_, slot)| slot);
    let undated =
        |slot: &Slot| world.store.get(*slot).is_some_and(|record| record.flags.has(Flag::Undated));
    let evidence = || {
        let evidence = Evidence::new().with("failed", Value::Count(regressed.len() as i64));
        with_reason(world, number, evidence, shared)
            .with("examples", Value::Names(example_names(world, slots())))
    };

    let due = since.after(world.settings.settle);
    let detection = Detection::new(world.now, FindingCode::Failing, since, due, evidence)
        .weak_if(!is_widespread || slots().any(undated))
        .blocks_if(false)
        .reaching(reach(shared, FailureSort::Regressed));

    Some(ManyRegressed { detection, is_widespread })
}

/// Detects that the operator rejects one spec change after the other for the same reason, in several
/// namespaces, and at most one user's converge. Each of these objects may have a bad spec, so this is
/// a ticket.
fn many_rejected(world: &World, number: u16) -> Option<Detection> {
    let failures = &world.kinds[number as usize].failures;
    let shared = failures.rejected_reason(world.settings.failing_objects.max(1) as usize)?;
    let due = shared.since.after(world.settings.settle);
    Some(ticket(world, number, shared, (FailureSort::Rejected, "rejected"), due))
}

/// One user may make this many bad objects by hand. A program that makes more of them is worth a look.
const MANY_OF_ONE_USER: usize = 10;

/// Detects that many objects of a kind fail for one reason, and that loopwatch has not seen when they
/// began to. If they are in several namespaces, their specs are probably not the cause. If all objects of
/// the kind are in one namespace, one user may have made them all, so it is only suspected.
fn many_listed(world: &World, number: u16) -> Option<Detection> {
    let kind = &world.kinds[number as usize];
    let is_in_one = world.namespaces_with_objects(number).nth(1).is_none();
    let least = if is_in_one { MANY_OF_ONE_USER } else { 0 };
    let needed = failing_objects(&world.settings, kind.objects).max(least);
    let shared = kind.failures.listed.frequent_reason(needed, is_in_one)?;
    let detection = ticket(world, number, shared, (FailureSort::Listed, "failed"), shared.since);

    Some(detection.suspected_if(is_in_one))
}

/// The finding about objects of which nothing shows that their specs are not the cause; `key` counts them.
fn ticket(
    world: &World,
    number: u16,
    shared: SharedReason<'_>,
    (sort, key): (FailureSort, &'static str),
    due: Timestamp,
) -> Detection {
    let evidence = || {
        let evidence = Evidence::new().with(key, Value::Count(shared.objects() as i64));
        with_reason(world, number, evidence, shared)
            .with("examples", Value::Names(example_names(world, shared.slots())))
    };

    Detection::new(world.now, FindingCode::Failing, shared.since, due, evidence)
        .weak_if(true)
        .blocks_if(false)
        .reaching(reach(shared, sort))
}

fn with_reason(
    world: &World,
    number: u16,
    evidence: Evidence,
    shared: SharedReason<'_>,
) -> Evidence {
    evidence
        .with("objects", Value::count(world.kinds[number as usize].objects))
        .with("namespaces", Value::Count(shared.namespaces() as i64))
        .text("reason", shared.reason.to_string())
}

fn reach(shared: SharedReason<'_>, sort: FailureSort) -> Reach {
    Reach {
        reason: shared.reason.clone(),
        only_in: shared.only_in.cloned(),
        since: shared.since,
        sort,
    }
}

/// Returns whether enough objects fail in each namespace that has any.
fn fails_everywhere(world: &World, number: u16) -> bool {
    let regressed = &world.kinds[number as usize].failures.regressed;
    world.namespaces_with_objects(number).all(|namespace| {
        let failed = regressed.in_namespace(&namespace.name);
        failed >= failing_percent_of(&world.settings, namespace.objects())
    })
}

/// Returns the number of objects in the namespace of an object.
fn objects_in_namespace_of(world: &World, slot: Slot) -> Option<u64> {
    let record = world.store.get(slot)?;
    let namespaces = &world.watches[record.watch as usize].namespaces;
    Some(namespaces.get(record.namespace_index as usize)?.objects())
}

/// Detects that the operator writes malformed conditions, now or recently.
fn malformed(world: &World, number: u16) -> Option<Detection> {
    let kind = &world.kinds[number as usize];
    kind.malformed_conditions.seen?;

    Some(Detection::new(world.now, FindingCode::ConditionMalformed, world.now, world.now, || {
        Evidence::new()
            .with("lints", Value::Names(kind.malformed_conditions.lints.iter().cloned().collect()))
            .with("objects", Value::Count(kind.malformed_conditions.malformed.len() as i64))
            .with(
                "examples",
                Value::Names(example_names(world, kind.malformed_conditions.malformed.iter())),
            )
    }))
}

fn example_names<'a>(world: &World, slots: impl Iterator<Item = &'a Slot>) -> Vec<String> {
    let records = slots.filter_map(|slot| world.store.get(*slot)).take(MAX_EXAMPLES);
    records
        .map(|r| {
            if r.namespace.is_empty() {
                r.name.to_string()
            } else {
                format!("{}/{}", r.namespace, r.name)
            }
        })
        .collect()
}

/// Returns the number of objects that must fail before their kind counts as failing.
fn failing_objects(settings: &Settings, objects: u64) -> usize {
    failing_percent_of(settings, objects).max(settings.failing_objects as usize)
}

/// Returns the number of objects of a namespace that must fail before the namespace counts. A
/// namespace may have a single object.
fn failing_objects_of_namespace(settings: &Settings, objects: u64) -> usize {
    failing_percent_of(settings, objects).min(settings.failing_objects.max(1) as usize)
}

fn failing_percent_of(settings: &Settings, objects: u64) -> usize {
    percent_of(objects, settings.failing_percent).max(1)
}
