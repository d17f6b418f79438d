//! The exact rules for the built-in workload kinds, whose statuses Kubernetes' own controllers
//! write.
//!
//! The rules combine `kubectl rollout status` (kubernetes/kubectl:
//! pkg/polymorphichelpers/rollout_status.go) with kstatus (kubernetes-sigs/cli-utils:
//! pkg/kstatus/status/core.go). They differ from both in these points:
//!
//! - A Job is done when it is complete, not when it runs.
//! - A Pod in the phase `Failed` has failed.
//! - With the update strategy `OnDelete`, old Pods do not count as outdated, because a person has
//!   to delete them. All replicas must still be ready.
//! - An unschedulable Pod has not failed, because the cluster may still get a node for it.

use crate::model::status::reading::reasons::show;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::{Reason, Verdict, observed_generation};
use crate::observation::{Condition, ConditionStatus, FactValue, ObjectView, StatusShape};

/// The rules of one kind.
type Rules = fn(&ObjectView) -> Signal;

/// The workload kinds, with their rules.
const WORKLOADS: &[(&str, &str, Rules)] = &[
    ("apps", "Deployment", deployment),
    ("apps", "StatefulSet", stateful_set),
    ("apps", "DaemonSet", daemon_set),
    ("apps", "ReplicaSet", replica_set),
    ("batch", "Job", job),
    ("", "Pod", pod),
    ("", "PersistentVolumeClaim", claim),
];

/// The reason of a waiting container that kstatus counts as a failure.
const CRASH_LOOP: &str = "CrashLoopBackOff";

/// Returns whether a kind has rules here.
pub(super) fn has_rules(group: &str, kind: &str) -> bool {
    rules_of(group, kind).is_some()
}

fn rules_of(group: &str, kind: &str) -> Option<Rules> {
    WORKLOADS.iter().find(|(g, k, _)| *g == group && *k == kind).map(|(_, _, rules)| *rules)
}

/// Returns whether objects of a kind run as long as their Pods take, so that no deadline applies.
pub(super) fn runs_without_deadline(group: &str, kind: &str) -> bool {
    group == "batch" && matches!(kind, "Job" | "CronJob")
}

/// Reads the status of a workload. Returns `None` for other kinds, and for an object whose status
/// was not read.
pub(super) fn read(group: &str, kind: &str, object: &ObjectView) -> Option<Signal> {
    let rules = rules_of(group, kind)?;
    let only_metadata = object.hashes.spec == 0 && object.status == StatusShape::Absent;
    (!only_metadata).then(|| rules(object))
}

fn deployment(object: &ObjectView) -> Signal {
    if let Some(signal) = paused(object, "spec.paused").or_else(|| not_observed(object)) {
        return signal;
    }

    let progressing = condition(object, "Progressing");
    if let Some(failed) = progressing.filter(|c| c.status == ConditionStatus::False) {
        return Signal::new(Verdict::Failed, Reason::StalledTrue, show(failed));
    }

    let wanted = ("spec.replicas", number_or(object, "spec.replicas", 1));
    let updated = ("status.updatedReplicas", number(object, "status.updatedReplicas"));
    let all = ("status.replicas", number(object, "status.replicas"));
    let short = short(object, "status.replicas", wanted)
        .or_else(|| short(object, "status.updatedReplicas", wanted))
        .or_else(|| surplus(all, updated))
        .or_else(|| surplus(all, wanted))
        .or_else(|| short(object, "status.availableReplicas", updated))
        .or_else(|| short(object, "status.readyReplicas", wanted));

    if let Some(short) = short {
        return replica_failure(object).unwrap_or(short);
    }

    if wanted.1 == 0 {
        return Signal::new(Verdict::Converged, Reason::ScaledToZero, "spec.replicas=0");
    }

    // A Deployment without `progressDeadlineSeconds` has no condition `Progressing`.
    let done =
        |c: &&Condition| c.status == ConditionStatus::True && c.reason == "NewReplicaSetAvailable";
    if let Some(still) = progressing.filter(|c| !done(c)) {
        return Signal::new(Verdict::Progressing, Reason::InMotion, show(still));
    }

    if let Some(unavailable) =
        condition(object, "Available").filter(|c| c.status != ConditionStatus::True)
    {
        return Signal::new(Verdict::Progressing, Reason::ReadyPending, show(unavailable));
    }

    met(object, "status.availableReplicas")
}

fn stateful_set(object: &ObjectView) -> Signal {
    if let Some(signal) = not_observed(object) {
        return signal;
    }

    let wanted = ("spec.replicas", number_or(object, "spec.replicas", 1));
    let all = ("status.replicas", number(object, "status.replicas"));
    let short_of = |path| short(object, path, wanted);
    let unready = short_of("status.replicas")
        .or_else(|| short_of("status.readyReplicas"))
        .or_else(|| surplus(all, wanted));

    if let Some(unready) = unready {
        return unready;
    }

    if updates_on_delete(object) {
        return met_or_zero(object, "status.readyReplicas", wanted.1);
    }

    if let Some(partition) = known(object, "spec.updateStrategy.rollingUpdate.partition") {
        let updated = number(object, "status.updatedReplicas");
        let needed = wanted.1.saturating_sub(partition.max(0));
        let text = format!("status.updatedReplicas={updated} of {needed}, {partition} held back");
        return match (updated < needed, partition > 0 && updated < wanted.1) {
            (true, true) => Signal::new(Verdict::Progressing, Reason::CountsShort, text),
            (true, false) => short_of("status.updatedReplicas")
                .unwrap_or_else(|| met(object, "status.readyReplicas")),
            (false, true) => Signal::new(Verdict::Converged, Reason::HeldBack, text),
            (false, false) => met_or_zero(object, "status.readyReplicas", wanted.1),
        };
    }

    if let Some(old) = short_of("status.currentReplicas")
        .filter(|_| text(object, "status.updateRevision").is_some())
    {
        return old;
    }

    if text(object, "status.currentRevision") != text(object, "status.updateRevision") {
        let revisions = "status.currentRevision is not status.updateRevision";
        return Signal::new(Verdict::Progressing, Reason::InMotion, revisions);
    }

    met_or_zero(object, "status.readyReplicas", wanted.1)
}

fn daemon_set(object: &ObjectView) -> Signal {
    // The status of a new DaemonSet has zeros before its controller has written anything.
    let wanted = ("status.desiredNumberScheduled", number(object, "status.desiredNumberScheduled"));
    let unwritten = observed_generation(object).is_none() && wanted.1 == 0;
    if let Some(signal) = not_observed(object).or_else(|| unwritten.then(|| lagging(object))) {
        return signal;
    }

    let short_of = |path| short(object, path, wanted);
    let outdated =
        if updates_on_delete(object) { None } else { short_of("status.updatedNumberScheduled") };
    short_of("status.currentNumberScheduled")
        .or(outdated)
        .or_else(|| short_of("status.numberAvailable"))
        .or_else(|| short_of("status.numberReady"))
        .unwrap_or_else(|| met(object, "status.numberAvailable"))
}

fn replica_set(object: &ObjectView) -> Signal {
    if let Some(signal) = not_observed(object).or_else(|| replica_failure(object)) {
        return signal;
    }

    let wanted = ("spec.replicas", number_or(object, "spec.replicas", 1));
    let all = ("status.replicas", number(object, "status.replicas"));
    short(object, "status.replicas", wanted)
        .or_else(|| short(object, "status.availableReplicas", wanted))
        .or_else(|| short(object, "status.readyReplicas", wanted))
        .or_else(|| surplus(all, wanted))
        .unwrap_or_else(|| met_or_zero(object, "status.availableReplicas", wanted.1))
}

fn job(object: &ObjectView) -> Signal {
    let ended = |name| condition(object, name).filter(|c| c.status == ConditionStatus::True);
    if let Some(complete) = ended("Complete") {
        return Signal::new(Verdict::Finished, Reason::Complete, show(complete));
    }

    // With `FailureTarget`, the failure is certain, and the Job only waits for its Pods to end.
    if let Some(failed) = ended("Failed").or_else(|| ended("FailureTarget")) {
        return Signal::new(Verdict::Failed, Reason::EndedBadly, show(failed));
    }

    if let Some(signal) = paused(object, "spec.suspend") {
        return signal;
    }

    if text(object, "status.startTime").is_none() {
        return Signal::new(Verdict::Progressing, Reason::CountsShort, "no status.startTime");
    }

    let count = |path: &str| number(object, path);
    let succeeded = format!("status.succeeded={}", count("status.succeeded"));
    let wanted = known(object, "spec.completions")
        .map_or_else(String::new, |n| format!(" of spec.completions={n}"));
    let failed = match count("status.failed") {
        0 => String::new(),
        failed => format!(", status.failed={failed}"),
    };

    Signal::new(Verdict::Progressing, Reason::InMotion, format!("{succeeded}{wanted}{failed}"))
}

fn pod(object: &ObjectView) -> Signal {
    let phase = text(object, "status.phase").unwrap_or_default();
    let in_phase = || format!("status.phase={phase}");
    match phase {
        "Succeeded" => return Signal::new(Verdict::Finished, Reason::PhaseDone, in_phase()),
        "Failed" => return Signal::new(Verdict::Failed, Reason::PhaseFailed, failed_pod(object)),
        "Running" | "Pending" | "" => {}
        // In the phase `Unknown`, the node does not respond.
        _ => return Signal::new(Verdict::Unknown, Reason::NothingToJudge, in_phase()),
    }

    let ready = condition(object, "Ready");
    if let Some(ready) = ready.filter(|c| phase == "Running" && c.status == ConditionStatus::True) {
        return Signal::new(Verdict::Converged, Reason::ReadyTrue, show(ready));
    }

    let crashing = waiting(object)
        .find(|(path, reason)| *reason == CRASH_LOOP && path.contains(".containerStatuses["));
    if let Some((path, reason)) = crashing.filter(|_| phase == "Running") {
        return Signal::new(Verdict::Failed, Reason::FaultTrue, format!("{path}={reason}"));
    }

    let stuck = waiting(object)
        .find(|(_, reason)| !matches!(*reason, "ContainerCreating" | "PodInitializing"));
    let scheduled =
        condition(object, "PodScheduled").filter(|c| c.status == ConditionStatus::False);
    let signal = match (stuck, scheduled, ready) {
        (Some((path, reason)), _, _) => format!("{path}={reason}"),
        (None, Some(scheduled), _) => show(scheduled),
        (None, None, Some(ready)) if phase == "Running" => show(ready),
        _ if phase.is_empty() => "no status.phase".to_owned(),
        _ => in_phase(),
    };

    let reason = if phase == "Running" { Reason::ReadyPending } else { Reason::PhaseInMotion };
    Signal::new(Verdict::Progressing, reason, signal)
}

fn claim(object: &ObjectView) -> Signal {
    let phase = text(object, "status.phase").unwrap_or_default();
    let (verdict, reason) = match phase {
        "Bound" => (Verdict::Converged, Reason::PhaseGood),
        "Lost" => (Verdict::Failed, Reason::PhaseFailed),
        _ => (Verdict::Progressing, Reason::PhaseInMotion),
    };
    let signal = if phase.is_empty() {
        "no status.phase".to_owned()
    } else {
        format!("status.phase={phase}")
    };

    Signal::new(verdict, reason, signal)
}

/// Returns a signal if `field` pauses the object. The built-in controllers ignore annotations that
/// pause objects.
fn paused(object: &ObjectView, field: &str) -> Option<Signal> {
    let pause = object.paused.as_ref().filter(|pause| pause.by == field)?;
    Some(Signal::new(Verdict::Suspended, Reason::Paused, pause.by.clone()))
}

/// Returns a signal if the controller has not seen the current generation.
pub(super) fn not_observed(object: &ObjectView) -> Option<Signal> {
    let lags = match observed_generation(object) {
        Some(seen) => seen < object.generation,
        None => object.status != StatusShape::Filled,
    };

    lags.then(|| lagging(object))
}

fn lagging(object: &ObjectView) -> Signal {
    let seen = observed_generation(object).unwrap_or_default();
    let text = format!("observedGeneration={seen}, generation={}", object.generation);
    Signal::new(Verdict::Progressing, Reason::NotAcknowledged, text)
}

/// Returns a signal if the count at `path` is lower than wanted.
fn short(object: &ObjectView, path: &str, (of, wanted): (&str, i64)) -> Option<Signal> {
    let have = number(object, path);
    let text = || format!("{path}={have} of {of}={wanted}");
    (have < wanted).then(|| Signal::new(Verdict::Progressing, Reason::CountsShort, text()))
}

/// Returns a signal if the controller still has to delete Pods.
fn surplus((path, have): (&str, i64), (of, wanted): (&str, i64)) -> Option<Signal> {
    let text = || format!("{path}={have}, more than {of}={wanted}");
    (have > wanted).then(|| Signal::new(Verdict::Progressing, Reason::InMotion, text()))
}

fn met(object: &ObjectView, path: &str) -> Signal {
    Signal::new(Verdict::Converged, Reason::CountsMet, format!("{path}={}", number(object, path)))
}

fn met_or_zero(object: &ObjectView, path: &str, wanted: i64) -> Signal {
    if wanted == 0 {
        return Signal::new(Verdict::Converged, Reason::ScaledToZero, "spec.replicas=0");
    }
    met(object, path)
}

/// Returns a signal if the controller cannot create or delete Pods, for example because of a quota.
/// It keeps trying.
pub(super) fn replica_failure(object: &ObjectView) -> Option<Signal> {
    let failure =
        condition(object, "ReplicaFailure").filter(|c| c.status == ConditionStatus::True)?;
    Some(Signal::new(Verdict::Progressing, Reason::FaultTrue, show(failure)))
}

/// Returns whether a new Pod template takes effect only when a person deletes the old Pods.
fn updates_on_delete(object: &ObjectView) -> bool {
    text(object, "spec.updateStrategy.type") == Some("OnDelete")
}

/// Returns the reason of a failed Pod, such as `Evicted`, or its phase, as text for people.
fn failed_pod(object: &ObjectView) -> String {
    match text(object, "status.reason") {
        Some(reason) => format!("status.reason={reason}"),
        None => "status.phase=Failed".to_owned(),
    }
}

/// Returns the reasons of all waiting containers, each after its path.
pub(super) fn waiting(object: &ObjectView) -> impl Iterator<Item = (&str, &str)> {
    object.facts.iter().filter_map(|fact| match &fact.value {
        FactValue::Text(reason) if fact.path.ends_with(".state.waiting.reason") => {
            Some((fact.path.as_str(), reason.as_str()))
        }
        _ => None,
    })
}

pub(super) fn condition<'o>(object: &'o ObjectView, name: &str) -> Option<&'o Condition> {
    object.conditions.iter().find(|condition| condition.at.is_empty() && condition.r#type == name)
}

pub(super) fn known(object: &ObjectView, path: &str) -> Option<i64> {
    match object.fact(path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    }
}

/// Returns a count; 0 if it is absent, because the controllers leave out zeros.
pub(super) fn number(object: &ObjectView, path: &str) -> i64 {
    number_or(object, path, 0)
}

fn number_or(object: &ObjectView, path: &str, default: i64) -> i64 {
    known(object, path).unwrap_or(default)
}

pub(super) fn text<'o>(object: &'o ObjectView, path: &str) -> Option<&'o str> {
    match object.fact(path) {
        Some(FactValue::Text(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}
