//! The exact rules for some kinds of Kubernetes that are not workloads: CronJobs, definitions of custom
//! resources, PodDisruptionBudgets and CertificateSigningRequests.

use crate::model::status::reading::reasons::show;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::ConditionStatus::{False, True};
use crate::observation::{Condition, FactValue, ObjectView, StatusShape};
use crate::time::Timestamp;

/// Reads the status of an object of these kinds. Returns `None` for other kinds, and if the status
/// says nothing.
pub(super) fn read(group: &str, kind: &str, object: &ObjectView) -> Option<Signal> {
    match (group, kind) {
        ("batch", "CronJob") => cron_job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("policy", "PodDisruptionBudget") => budget(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => signing_request(object),
        _ => None,
    }
}

/// Reads a CronJob. Its controller writes the time of a success when it removes the Job from
/// `active`. Without an active Job, a missing success after the last start is therefore a failure
/// (kubernetes/kubernetes: pkg/controller/cronjob/cronjob_controllerv2.go).
fn cron_job(object: &ObjectView) -> Option<Signal> {
    if let Some(pause) = object.paused.as_ref().filter(|pause| pause.by == "spec.suspend") {
        return Some(Signal::new(Verdict::Suspended, Reason::Paused, pause.by.clone()));
    }

    if let Some(FactValue::Number(active @ 1..)) = object.fact("status.active") {
        let text = format!("status.active={active}");
        return Some(Signal::new(Verdict::Progressing, Reason::InMotion, text));
    }

    let time = |path| match object.fact(path) {
        Some(FactValue::Text(text)) => Timestamp::parse(text),
        _ => None,
    };
    let scheduled = time("status.lastScheduleTime")?;
    match time("status.lastSuccessfulTime") {
        Some(succeeded) if succeeded >= scheduled => {
            Some(Signal::new(Verdict::Converged, Reason::Scheduled, "status.lastSuccessfulTime"))
        }
        _ => Some(Signal::new(
            Verdict::Failed,
            Reason::EndedBadly,
            "no status.lastSuccessfulTime after status.lastScheduleTime",
        )),
    }
}

/// Reads a definition, like kstatus (kubernetes-sigs/cli-utils: pkg/kstatus/status/core.go). The
/// API server serves one whose schema is not structural.
fn definition(object: &ObjectView) -> Option<Signal> {
    if object.status == StatusShape::Absent {
        return None;
    }

    let condition = |name: &str| {
        let mut own = object.conditions.iter().filter(|condition| condition.at.is_empty());
        own.find(|condition| condition.r#type == name)
    };
    let is = |name, status| condition(name).filter(|condition| condition.status == status);
    let new = |verdict, reason, at: &Condition| Some(Signal::new(verdict, reason, show(at)));

    if let Some(terminating) = is("Terminating", True) {
        return new(Verdict::Progressing, Reason::InMotion, terminating);
    }

    if let Some(fault) = is("NamesAccepted", False) {
        return new(Verdict::Failed, Reason::ReadyFalse, fault);
    }

    match condition("Established") {
        Some(established) if established.status == True => {
            new(Verdict::Converged, Reason::ReadyTrue, established)
        }
        Some(refused) if refused.status == False && refused.reason != "Installing" => {
            new(Verdict::Failed, Reason::ReadyFalse, refused)
        }
        Some(pending) => new(Verdict::Progressing, Reason::ReadyPending, pending),
        None => Some(Signal::new(
            Verdict::Progressing,
            Reason::ReadyPending,
            "no condition Established",
        )),
    }
}

/// Reads a PodDisruptionBudget. It is in effect once its controller has counted the Pods, whether or
/// not it allows a disruption then: a budget for the only Pod of a primary never does
/// (kubernetes/kubernetes: pkg/controller/disruption/disruption.go).
fn budget(object: &ObjectView) -> Option<Signal> {
    let own = object.conditions.iter().filter(|condition| condition.at.is_empty());
    let mut allowed = own.filter(|condition| condition.r#type == "DisruptionAllowed");
    if object.observed_generation.is_some_and(|seen| seen < object.generation) {
        return None;
    }

    if let Some(failed) = allowed.clone().find(|condition| condition.reason == "SyncFailed") {
        return Some(Signal::new(Verdict::Failed, Reason::ReadyFalse, show(failed)));
    }

    let counted =
        |condition: &&Condition| condition.status == True || condition.reason == "InsufficientPods";
    let allowed = allowed.find(counted)?;
    Some(Signal::new(Verdict::Converged, Reason::ConditionsTrue, show(allowed)))
}

/// Reads a CertificateSigningRequest. Its signer needs no more than an approval, and only writes the
/// certificate afterwards (kubernetes/api: certificates/v1/types.go).
fn signing_request(object: &ObjectView) -> Option<Signal> {
    let is = |name: &str| {
        let mut own = object.conditions.iter().filter(|condition| condition.at.is_empty());
        own.find(|condition| condition.r#type == name && condition.status == True)
    };
    let new = |verdict, reason, at: &Condition| Some(Signal::new(verdict, reason, show(at)));

    match (is("Failed").or_else(|| is("Denied")), is("Approved")) {
        (Some(refused), _) => new(Verdict::Failed, Reason::EndedBadly, refused),
        (None, Some(approved)) => new(Verdict::Finished, Reason::Complete, approved),
        (None, None) => None,
    }
}
