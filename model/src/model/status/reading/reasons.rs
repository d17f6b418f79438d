//! Reads the reason and the message of a condition.

use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, prose};
use crate::observation::{Condition, ConditionStatus};

/// Words for an update.
const UPDATES: &[&str] = &["rollout", "update", "updating", "upgrade", "upgrading"];

pub(super) fn sense(text: &str) -> Option<Sense> {
    Words::of(text).sense()
}

/// Returns whether the reason or the message reports a problem or work in progress.
pub(super) fn explains_a_problem(condition: &Condition) -> bool {
    let problem =
        |text: &str| matches!(sense(text), Some(Sense::Bad | Sense::InProgress | Sense::Lacking));
    problem(&condition.reason) || problem(&condition.message)
}

/// Reads a false condition of a good type, such as `Ready`. Its severity, reason and message show
/// whether the object is waiting or has failed.
pub(super) fn false_signal(condition: &Condition, kind: &str) -> Signal {
    let text = show(condition);
    let by_severity = match condition.severity.as_str() {
        "Error" => Some((Verdict::Failed, Reason::SeverityError)),
        "Info" => Some((Verdict::Progressing, Reason::ReadyPending)),
        _ => None,
    };
    if let Some((verdict, reason)) = by_severity {
        return Signal::new(verdict, reason, text);
    }

    let given = Words::of(&condition.reason);
    if waits_for_person(&given) || (given.get(0) == "user" && given.get(1) == "specified") {
        return Signal::new(Verdict::Suspended, Reason::SuspendedTrue, text);
    }

    // The reason `NotReady` only repeats the type `Ready`.
    let repeats = given.len() == 2
        && given.get(0) == "not"
        && given.get(1) == Words::of(&condition.r#type).last();
    let reason = given.sense().filter(|_| !repeats);
    let message = match Words::of(&condition.message).sense() {
        Some(Sense::Bad) if prose::waits(&condition.message) => Some(Sense::InProgress),
        sense => sense,
    };
    let (verdict, reason) = match (reason, message) {
        (Some(Sense::Bad), _) | (Some(Sense::Lacking), Some(Sense::Bad)) => {
            (Verdict::Failed, Reason::ReadyFalse)
        }
        (Some(Sense::Lacking), _)
            if lacks_another_object(&given, condition)
                || (prose::reports_error(&condition.message)
                    && !prose::waits(&condition.message)) =>
        {
            (Verdict::Failed, Reason::ReadyFalse)
        }
        (Some(Sense::InProgress), _) if prose::begins_with_error(&condition.message) => {
            (Verdict::Failed, Reason::ReadyFalse)
        }
        (Some(Sense::Paused), _)
            if is_about_object(&given, condition, kind)
                && !prose::reports_error(&condition.message) =>
        {
            (Verdict::Suspended, Reason::SuspendedTrue)
        }
        // Something that the object needs is off, such as a key or an account.
        (Some(Sense::Paused), _) => (Verdict::Failed, Reason::ReadyFalse),
        (Some(Sense::InProgress | Sense::Lacking), _) => {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        (_, Some(Sense::Bad)) => (Verdict::Failed, Reason::ReadyFalse),
        (_, Some(Sense::InProgress)) => (Verdict::Progressing, Reason::ReadyPending),
        (None, Some(Sense::Lacking))
            if condition.reason.is_empty() && !prose::reports_error(&condition.message) =>
        {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        // The reason only repeats the type: `Updated=False (Updated)`.
        (Some(Sense::Good | Sense::Done), None | Some(Sense::Lacking))
            if condition.reason.ends_with(&condition.r#type)
                && !prose::reports_error(&condition.message) =>
        {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        // Reason and message contradict the status, so the condition is out of date.
        (Some(Sense::Good | Sense::Done), Some(Sense::Good | Sense::Done)) => {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        _ if repeats
            && (condition.message.is_empty()
                || condition.message.eq_ignore_ascii_case(&condition.reason)) =>
        {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        _ if given.has("running") => (Verdict::Progressing, Reason::ReadyPending),
        _ if condition.reason.is_empty() && condition.message.is_empty() => {
            (Verdict::Progressing, Reason::ReadyPending)
        }
        _ => (Verdict::Failed, Reason::ReadyFalse),
    };

    Signal::new(verdict, reason, text)
}

/// Words for what an operator creates itself, or waits for.
const AWAITED: &[&str] = &[
    "daemonset",
    "dependency",
    "deployment",
    "job",
    "machine",
    "node",
    "pod",
    "pods",
    "replica",
    "set",
    "statefulset",
];

/// Those that an operator creates itself.
const WORKLOADS: &[&str] = &["daemonset", "deployment", "pod", "pods", "statefulset"];

/// Returns whether a reason such as `BackendNotFound` or `SecretMissing` says that the object names
/// another one that does not exist. `DeploymentNotFound` only says that the operator has not created
/// it yet, and a message may say that it waits.
fn lacks_another_object(reason: &Words, condition: &Condition) -> bool {
    let not_found = reason.len() > 1
        && condition.status == ConditionStatus::False
        && (reason.get(reason.len() - 2), reason.last()) == ("not", "found")
        && condition.severity != "Warning";
    // The reasons `NotFound` and `Missing` alone do not say what is missing.
    let message = Words::of(&condition.message);
    let is_bare = reason.len() == 1 || (reason.len() == 2 && reason.get(0) == "not");
    let unnamed = if is_bare { prose::without_names(&condition.message) } else { String::new() };
    let unnamed = Words::of(&unnamed);
    let awaited = AWAITED.iter().any(|word| reason.has(word))
        || WORKLOADS.iter().any(|word| unnamed.has(word))
        || message.sense() == Some(Sense::InProgress)
        || prose::waits(&condition.message);

    (not_found || reason.has("missing")) && !awaited
}

/// Returns whether neither the reason nor the message of a false condition says why it is false.
pub(super) fn is_unexplained(condition: &Condition) -> bool {
    let bad = |text: &str| sense(text) == Some(Sense::Bad);
    let explained = bad(&condition.reason)
        || bad(&condition.message)
        || prose::reports_error(&condition.message);

    let silent = matches!(sense(&condition.reason), None | Some(Sense::Good | Sense::Done));
    condition.severity.is_empty() && silent && !explained
}

/// Returns whether the object as a whole waits for the approval of a person: `Waiting=True` with a
/// message such as `waiting for admin approval`. Until then, the operator has nothing to do.
pub(super) fn waits_for_approval(condition: &Condition) -> bool {
    let waiting = ["waiting", "pending", "awaiting"]
        .iter()
        .any(|word| condition.r#type.eq_ignore_ascii_case(word));
    let approval =
        |text: &str| Words::of(text).has("approval") && sense(text) == Some(Sense::InProgress);

    waiting && (approval(&condition.reason) || approval(&condition.message))
}

/// Returns whether the message of a condition asks a person to approve something: `Plan generated: set
/// approvePlan to approve this plan`.
pub(super) fn asks_for_approval(condition: &Condition) -> bool {
    let words = Words::of(&condition.message);
    let asks = (1..words.len()).any(|i| words.get(i - 1) == "to" && words.get(i) == "approve");
    asks && sense(&condition.reason) != Some(Sense::Bad)
}

/// Returns whether a reason says that a step has not been taken, without saying that it must be:
/// `UpdateExecuted=False (NotYetOccurred)`.
pub(super) fn has_not_occurred(reason: &str) -> bool {
    let words = Words::of(reason);
    words.get(0) == "not" && words.get(1) == "yet" && matches!(words.last(), "occurred" | "occured") // as the Machine Config Operator spells it
}

/// Returns whether a reason says that something is in progress: `RestoreInProgress`.
pub(super) fn is_in_progress(reason: &str) -> bool {
    let words = Words::of(reason);
    words.get(words.len().saturating_sub(2)) == "in" && words.last() == "progress"
}

/// Returns whether a reason names an update of the object's own parts.
pub(super) fn names_update(reason: &str) -> bool {
    let words = Words::of(reason);
    UPDATES.iter().any(|word| words.has(word))
}

/// Returns whether a condition type says that something is required, or that a change is to be made,
/// perhaps by a person: `TLSRequired`, `RequiresUpdate`, `PendingRestart`.
pub(super) fn wants_change(r#type: &str) -> bool {
    let words = Words::of(r#type);
    words.last() == "required"
        || words.len() == 2
            && matches!(words.get(0), "needs" | "pending" | "requires")
            && matches!(words.last(), "reboot" | "restart" | "update" | "upgrade")
}

/// Returns whether a condition says that a run waits for its schedule: `Complete=False
/// (CronJobScheduled)`.
pub(super) fn waits_for_schedule(condition: &Condition) -> bool {
    let reason = Words::of(&condition.reason);
    reason.has("cron")
        && reason.last() == "scheduled"
        && sense(&condition.message) != Some(Sense::Bad)
}

/// Words for what a person does after `user`: in `WaitingForUserPool`, nobody has to decide.
const DECISIONS: &[&str] =
    &["action", "approval", "confirmation", "decision", "input", "interaction", "intervention"];

/// Returns whether a phase or a reason says that the object waits until a person decides: `Waiting for
/// user action`, `PendingApproval`, `RequiresApproval`, `WaitingPromotion`.
pub(super) fn waits_for_person(phase: &Words) -> bool {
    let waits = ["await", "awaiting", "pending", "wait", "waiting", "waits"];
    let of_user =
        (1..phase.len()).any(|i| phase.get(i - 1) == "user" && DECISIONS.contains(&phase.get(i)));
    let person = ["approval", "manual", "promotion"].iter().any(|word| phase.has(word));
    let unapproved =
        (1..phase.len()).any(|i| phase.get(i - 1) == "not" && phase.get(i) == "approved");

    // `RequiresManualIntervention` is a failure.
    let asks = phase.has("approval") && ["needs", "requires"].iter().any(|word| phase.has(word));

    unapproved || asks || (waits.iter().any(|word| phase.has(word)) && (person || of_user))
}

/// Words for those who may pause an object. In `UserDisabled` and `OperatorStopped`, however, they
/// are off themselves.
const AGENTS: &[&str] = &["admin", "administrator", "controller", "operator", "user"];

/// Other words that may stand beside `Paused` or `Suspended` without naming another thing.
const PAUSE_WORDS: &[&str] = &[
    "archived",
    "at",
    "autoscaling",
    "been",
    "by",
    "currently",
    "demand",
    "deployment",
    "dispatching",
    "for",
    "graceful",
    "has",
    "intentionally",
    "is",
    "kubernetes",
    "management",
    "manually",
    "object",
    "on",
    "operation",
    "parent",
    "purpose",
    "queue",
    "reconcile",
    "reconciler",
    "reconciliation",
    "request",
    "requested",
    "resource",
    "rollout",
    "scaling",
    "schedule",
    "size",
    "spec",
    "state",
    "sync",
    "synchronization",
    "temporarily",
    "to",
    "was",
    "workload",
    "zero",
];

/// Returns whether a type or a reason such as `Paused`, `ReconciliationPaused` or `SuspendedByUser`
/// says that somebody paused this object. `KMSKeyDisabled` and `AccountSuspended` say that
/// something else is off.
pub(super) fn is_about_object(pause: &Words, condition: &Condition, kind: &str) -> bool {
    let (r#type, kind) = (Words::of(&condition.r#type), Words::of(kind));

    // A reason may repeat words of the type: `MonitoringReady=False (MonitoringDisabled)`.
    let of_type = |word: &str| condition.status == ConditionStatus::False && r#type.has(word);
    let has_agent =
        ["by", "pause", "paused", "request", "requested"].iter().any(|word| pause.has(word));
    pause.iter().all(|word| {
        senses::of(word) == Some(Sense::Paused)
            || PAUSE_WORDS.contains(&word)
            || (has_agent && AGENTS.contains(&word))
            || of_type(word)
            || kind.has(word)
    })
}

/// Formats a condition as people write it: `Ready=False (InvalidSpec)`.
pub(super) fn show(condition: &Condition) -> String {
    let Condition { at, r#type, status, reason, .. } = condition;
    let dot = if at.is_empty() { "" } else { "." };
    let status = match status {
        ConditionStatus::True => "=True",
        ConditionStatus::False => "=False",
        ConditionStatus::Unknown => "=Unknown",
        ConditionStatus::Absent => "",
    };

    // Each reading shows its condition, and `concat` is several times as fast as `format!`.
    if reason.is_empty() {
        [at, dot, r#type, status].concat()
    } else {
        [at, dot, r#type, status, " (", reason, ")"].concat()
    }
}
