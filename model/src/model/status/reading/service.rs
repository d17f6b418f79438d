//! Whether a workload of Kubernetes has any Pod that works. Its owner may say Ready nevertheless.

use crate::model::status::reading::reasons::show;
use crate::model::status::reading::workloads::{
    condition, known, not_observed, number, replica_failure, text, waiting,
};
use crate::observation::{Condition, ConditionStatus, ObjectView, StatusShape};
use crate::time::Timestamp;

/// What the status of a workload says about its Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// It wants no Pods, or nothing about them is known.
    Nothing,
    /// Its controller has not written about the current spec yet, or a container is starting.
    Starting,
    /// At least one Pod is ready.
    Serves,
    /// No Pod is ready, or the rollout has failed.
    Fails(Failure),
}

/// How a workload fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The part of the status that shows it, as text for people.
    pub(crate) signal: String,
    /// When it began, according to a condition of the status.
    pub(crate) since: Option<Timestamp>,
}

/// The reasons of a waiting container that does not start without a change of something else.
const BROKEN: &[&str] = &[
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// Returns whether objects of a kind serve by Pods that run all the time.
pub(crate) fn serves(group: &str, kind: &str) -> bool {
    match group {
        "apps" => matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet"),
        "" => kind == "Pod",
        _ => false,
    }
}

/// Reads whether a workload serves.
pub(crate) fn service(kind: &str, object: &ObjectView) -> Service {
    if object.deleted.is_some() || object.status != StatusShape::Filled {
        return Service::Nothing; // only its metadata may be known
    }

    match kind {
        "Pod" => of_pod(object),
        _ if not_observed(object).is_some() => Service::Starting,
        "Deployment" => of_deployment(object),
        "StatefulSet" => of_replicas(object),
        "DaemonSet" => of_daemon_set(object),
        _ => Service::Nothing,
    }
}

fn of_deployment(object: &ObjectView) -> Service {
    if object.paused.as_ref().is_some_and(|pause| pause.by == "spec.paused") {
        return Service::Nothing;
    }

    let timed_out = condition(object, "Progressing").filter(|c| c.status == ConditionStatus::False);
    match (timed_out, of_replicas(object)) {
        (_, Service::Nothing) => Service::Nothing,
        (Some(timed_out), _) => failed_by(timed_out),
        (None, service) => service,
    }
}

/// Reads a workload that counts its replicas. The API server and the controller always write the number
/// that is wanted and the observed generation, so without these, the counts are unknown, and not zero.
fn of_replicas(object: &ObjectView) -> Service {
    let wanted = known(object, "spec.replicas").filter(|_| object.observed_generation.is_some());
    let Some(wanted) = wanted.filter(|wanted| *wanted > 0) else { return Service::Nothing };
    if number(object, "status.readyReplicas") > 0 {
        return Service::Serves;
    }

    let refused = replica_failure(object).map(|signal| signal.text);
    let count = || format!("status.readyReplicas=0 of spec.replicas={wanted}");
    let unavailable = condition(object, "Available").filter(|c| c.status == ConditionStatus::False);
    Service::Fails(Failure {
        signal: refused.unwrap_or_else(count),
        since: unavailable.and_then(|condition| condition.changed),
    })
}

fn of_daemon_set(object: &ObjectView) -> Service {
    let wanted = number(object, "status.desiredNumberScheduled");
    match (wanted, number(object, "status.numberReady")) {
        (0, _) => Service::Nothing,
        (_, 0) => {
            let of = format!("status.desiredNumberScheduled={wanted}");
            let signal = format!("status.numberReady=0 of {of}");
            Service::Fails(Failure { signal, since: None })
        }
        _ => Service::Serves,
    }
}

fn of_pod(object: &ObjectView) -> Service {
    if !matches!(text(object, "status.phase"), Some("Running" | "Pending")) {
        return Service::Nothing;
    }

    let ready = condition(object, "Ready");
    if ready.is_some_and(|c| c.status == ConditionStatus::True) {
        return Service::Serves;
    }

    let Some((path, reason)) = waiting(object).find(|(_, reason)| BROKEN.contains(reason)) else {
        return Service::Starting;
    };
    let since = ready.and_then(|condition| condition.changed);
    Service::Fails(Failure { signal: format!("{path}={reason}"), since })
}

fn failed_by(condition: &Condition) -> Service {
    Service::Fails(Failure { signal: show(condition), since: condition.changed })
}
