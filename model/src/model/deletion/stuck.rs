//! Deletions that do not end: the controller of a finalizer is gone, another object must be deleted
//! first, or the cause is unknown. Each object has at most one of these findings, the one with the
//! most specific cause.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::convergence::object_context;
use crate::model::deletion::absence::{self, Absence};
use crate::model::deletion::blocking_chains::{self, Blocker, READ_AGAIN, STANDSTILL};
use crate::model::deletion::soft_deletion;
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::model::world::finalizer_actors::{self};
use crate::model::world::lookups::ASK_AGAIN;
use crate::model::world::store::{Deletion, Flag, HotRecord, Record, Slot};
use crate::time::Timestamp;

/// Returns the problems that a deletion has, or will have if nothing changes.
pub(crate) fn deletion_detections(
    world: &mut World,
    operator: &Operator,
    slot: Slot,
) -> Vec<Detection> {
    let Some((record, deletion)) = world.terminating(slot).filter(|(_, d)| !d.actors.is_empty())
    else {
        return Vec::new();
    };
    if soft_deletion::holds(&world.settings, deletion) {
        return Vec::new(); // the object stays on purpose
    }

    let absent = absence::first_absence(world, operator, record, deletion);
    if let Some(absence) = absent.as_ref().filter(|absence| absence.due <= world.now) {
        return vec![owner_absent(world, record, deletion, absence)];
    }

    if absent.is_some() {
        note_return(world, slot);
    }

    let Some((_, deletion)) = world.terminating(slot) else { return Vec::new() };
    let seems_stuck_at = deletion.stuck_at(world.settings.finalizer_stuck_after);
    let is_collected = deletion
        .actors
        .iter()
        .any(|(finalizer, _)| finalizer_actors::is_of_garbage_collector(finalizer));
    let blocker = blocking_chains::find_blocker(world, operator, slot, seems_stuck_at <= world.now);

    if let Some(watched) =
        blocker.as_ref().filter(|b| b.due <= world.now).and_then(|blocker| blocker.watched)
    {
        review_blocker(world, watched);
    }

    let Some((record, deletion)) = world.terminating(slot) else { return Vec::new() };
    let mut detections =
        Vec::from_iter(absent.map(|absence| owner_absent(world, record, deletion, &absence)));
    match &blocker {
        Some(blocker) => detections.push(blocked(world, record, deletion, blocker)),
        // When this detection is due, the dependents are read, or read again.
        None if is_collected => {
            let code = FindingCode::DeletionBlockedByDependent;
            let again = world.now.after(READ_AGAIN).after(ASK_AGAIN);
            let due = if seems_stuck_at > world.now { seems_stuck_at } else { again };
            detections.push(detect_deletion(world, record, code, deletion, due, Evidence::new));
        }
        None => {}
    }

    let blocked_at = blocker.map(|blocker| blocker.due);
    if blocked_at.is_none_or(|at| at > world.now) {
        let stuck = finalizer_stuck(world, record, deletion, blocked_at);
        let slow = cleanup_slow(world, record, deletion).filter(|_| stuck.due > world.now);
        detections.push(stuck);
        detections.extend(slow);
    }

    detections
}

/// Counts a finalizer that began to flap and a deletion that became stuck, records whether the
/// controller of a finalizer was absent, and reviews the objects that wait for this one.
pub(crate) fn note_finalizer_findings(
    world: &mut World,
    traces: &mut Traces,
    slot: Slot,
    old: &[FindingCode],
    findings: &[FindingCode],
) {
    let opens = |code| findings.contains(&code) && !old.contains(&code);
    if opens(FindingCode::FinalizerFlapping)
        && let Some(mut context) = object_context::context(world, traces, slot)
    {
        context.count_flapping();
    }

    if world.terminating(slot).is_none() || old == findings {
        return;
    }

    blocking_chains::review_waiting_owners(world, slot, false);
    if !STANDSTILL.iter().any(|code| findings.contains(code)) {
        return;
    }

    let Some(mut context) = object_context::context(world, traces, slot) else { return };
    context.count_timeout();
    if let Some(deletion) = context.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
        deletion.was_abandoned |= findings.contains(&FindingCode::FinalizerOwnerAbsent);
    }
}

/// Records that the controllers of an object's finalizers are alive. One that was absent until now
/// gets time to work.
fn note_return(world: &mut World, slot: Slot) {
    let now = world.now;
    let hot = world.store.get_mut(slot).and_then(|record| record.hot.as_mut());
    let Some(HotRecord { findings, deletion: Some(deletion), .. }) = hot.map(|hot| &mut **hot)
    else {
        return;
    };
    if findings.contains(&FindingCode::FinalizerOwnerAbsent) || deletion.found_absent.is_some() {
        deletion.attended = Some(now);
        deletion.found_absent = None;
    }
}

/// Reviews an object that blocks others if no finding about it is open, so that its finding opens
/// in the same step and explains theirs from the start.
pub(crate) fn review_blocker(world: &mut World, slot: Slot) {
    let hot = world.store.get(slot).and_then(|record| record.hot.as_ref());
    if hot.is_none_or(|hot| !STANDSTILL.iter().any(|code| hot.findings.contains(code))) {
        world.agenda.objects.insert(slot);
    }
}

/// Detects that the controller that should remove a finalizer was alive but has stopped.
fn owner_absent(
    world: &World,
    record: &Record,
    deletion: &Deletion,
    absence: &Absence,
) -> Detection {
    detect_deletion(world, record, FindingCode::FinalizerOwnerAbsent, deletion, absence.due, || {
        Evidence::new()
            .with("actor", Value::Names(vec![absence.actor.clone()]))
            .with("finalizers", Value::Names(finalizer_names(deletion)))
            .with("terminating_for", Value::Age(deletion.since))
            .with_some("last_seen", absence.last.map(Value::Time))
            .with_some("absent_for", absence.last.map(Value::Age))
    })
    .foreign_if(!absence.is_own)
}

/// Detects that another object, which must be deleted first, is stuck.
fn blocked(world: &World, record: &Record, deletion: &Deletion, blocker: &Blocker) -> Detection {
    let code = FindingCode::DeletionBlockedByDependent;
    let detection = detect_deletion(world, record, code, deletion, blocker.due, || {
        Evidence::new()
            .text("blocker", blocker.name.clone())
            .with("blocker_finalizers", Value::Names(blocker.finalizers.clone()))
            .with("actor", Value::Names(blocker.actors.clone()))
            .with("chain", Value::Names(blocker.chain.clone()))
            .with("terminating_for", Value::Age(deletion.since))
            .with("last_progress", Value::Time(deletion.last_progress.unwrap_or(deletion.since)))
    });

    detection.blocked_by(blocker.watched.map(|slot| world.subject(slot)))
}

/// Detects a deletion that makes no progress for an unknown cause. If a dependent may block it but
/// is not stuck yet, this waits until the dependent is.
fn finalizer_stuck(
    world: &World,
    record: &Record,
    deletion: &Deletion,
    blocked_at: Option<Timestamp>,
) -> Detection {
    let kind = world.kind_of(record.watch);
    let threshold = kind.stuck_after(&world.settings, deletion);
    let stuck = kind.stuck_at(&world.settings, record, deletion);
    let due = blocked_at.map_or(stuck, |at| at.max(stuck));
    detect_deletion(world, record, FindingCode::FinalizerStuck, deletion, due, || {
        Evidence::new()
            .with("actor", Value::Names(deletion.actor_texts()))
            .with("finalizers", Value::Names(finalizer_names(deletion)))
            .with("terminating_for", Value::Age(deletion.since))
            .with("last_progress", Value::Time(deletion.last_progress.unwrap_or(deletion.since)))
            .with("threshold", Value::Span(threshold))
            .text("message", record.hot.as_ref().map_or("", |hot| &hot.message))
    })
    .foreign_if(
        !deletion
            .actors
            .iter()
            .any(|(finalizer, actor)| absence::is_removed_by_operator(world, finalizer, actor)),
    )
}

/// Detects a deletion that is not stuck, but takes longer than usual.
fn cleanup_slow(world: &World, record: &Record, deletion: &Deletion) -> Option<Detection> {
    let kind = world.kind_of(record.watch);
    let own = deletion
        .own_finalizers()
        .map(|finalizer| (kind.slow_after(&world.settings, finalizer), finalizer));
    let ((after, learned), finalizer) = own.max_by_key(|((after, _), _)| *after)?;
    let due = deletion.attended_since().after(after);

    Some(detect_deletion(world, record, FindingCode::CleanupSlow, deletion, due, || {
        Evidence::new()
            .text("finalizer", finalizer.to_string())
            .with("actor", Value::Names(deletion.actor_texts()))
            .with("terminating_for", Value::Age(deletion.since))
            .with("threshold", Value::Span(after))
            .text("threshold_source", if learned { "learned" } else { "configured" })
    }))
}

/// Returns a detection about a deletion.
fn detect_deletion(
    world: &World,
    record: &Record,
    code: FindingCode,
    deletion: &Deletion,
    due: Timestamp,
    evidence: impl FnOnce() -> Evidence,
) -> Detection {
    // Without managed fields, nothing shows who writes the object, so the finding must not
    // page.
    let detection = Detection::new(world.now, code, deletion.since, due, evidence)
        .weak_if(record.flags.has(Flag::Undated))
        .critical_if(record.is_critical())
        .not_before(record.created());

    // Progress shows that the operator no longer works on what preceded the deletion.
    let waited_since = deletion.waited_since.filter(|_| deletion.last_progress.is_none());
    Detection { waited_since, ..detection }
}

fn finalizer_names(deletion: &Deletion) -> Vec<String> {
    deletion.actors.iter().map(|(finalizer, _)| finalizer.to_string()).collect()
}
