//! Objects that run to completion: their kinds, their starts, their ends and their results.

use crate::model::status::reading::facts::Status;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::FactValue;
use crate::time::Timestamp;

/// Good phases of an object that runs to completion, before it is complete.
pub(super) const BEFORE_THE_END: &[&str] = &[
    "accepted",
    "active",
    "created",
    "initialized",
    "prepared",
    "running",
    "scheduled",
    "targetready",
];

/// Last words of kinds whose objects run to completion.
const RUN_KINDS: &[&str] = &[
    "analysis",
    "backup",
    "download",
    "evaluation",
    "execution",
    "experiment",
    "export",
    "import",
    "job",
    "migration",
    "operation",
    "restore",
    "run",
    "task",
    "test",
    "upgrade",
    "upload",
    "workflow",
];

/// Last words of kinds that are runs if the word before is one: `BackupSession`, `JobSet`, and the
/// `ActionSet` of Kanister.
const GROUPS_OF_RUNS: &[&str] = &["session", "set"];

/// Words of kinds whose objects only start runs, or run without an end.
const NOT_RUN_KINDS: &[&str] = &["cron", "scheduled", "service", "session", "streaming", "watch"];

/// Returns whether the words of a kind say that its objects run to completion: `PipelineRun`,
/// `SchemaMigration`.
pub(super) fn is_run_kind(kind: &str) -> bool {
    let words = Words::of(kind);
    if GROUPS_OF_RUNS.contains(&words.last()) {
        let before = words.get(words.len().saturating_sub(2));
        return before == "action" || RUN_KINDS.contains(&before);
    }

    RUN_KINDS.contains(&words.last()) && !NOT_RUN_KINDS.iter().any(|word| words.has(word))
}

/// Returns whether the name of a condition names the run as a whole: `BackupCompleted`, `UpgradeCompleted`.
pub(super) fn names_run(r#type: &str, kind: &str) -> bool {
    let kind = Words::of(kind);
    let names = |word: &str| RUN_KINDS.contains(&word) || kind.has(word);
    Words::of(r#type).iter().any(names)
}

/// Reads a flag that says that the work is not done yet, such as `completed: false`.
pub(super) fn unfinished(status: &Status<'_>) -> Option<Signal> {
    let fact =
        status.facts().find(|fact| fact.is_end_flag() && *fact.value == FactValue::Flag(false))?;
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}=false", fact.path)))
}

/// Reads a bad result of an object that ran to completion, such as `pass: false` or
/// `verdict: Fail`.
pub(super) fn bad_result(status: &Status<'_>) -> Option<Signal> {
    let fact = status.facts().find(|fact| {
        let flag = fact.is_result();
        let verdict =
            fact.depth <= 2 && fact.key_ends_with(&["verdict", "result", "outcome", "conclusion"]);
        // `state: Complete, reason: Failed`
        let reason =
            fact.path == "status.reason" && fact.text_is_one_of(&["error", "failed", "failure"]);

        match fact.value {
            FactValue::Flag(passed) => flag && !passed,
            FactValue::Text(text) => {
                let is_bad = || fact.is_current() && Words::of(text).sense() == Some(Sense::Bad);
                reason || (verdict && is_bad())
            }
            FactValue::Number(_) => false,
        }
    })?;
    Some(Signal::new(Verdict::Failed, Reason::EndedBadly, fact.path))
}

/// Returns whether the object has started a run: its status has a start time, or counts both
/// successes and failures.
pub(super) fn has_started_run(status: &Status<'_>) -> bool {
    let counts = |path: &&str| matches!(status.fact(path), Some(FactValue::Number(_)));
    ["status.succeeded", "status.failed"].iter().all(counts)
        || has_time_of(status, &["start", "started"])
}

/// Events that end a run.
const RUN_ENDS: &[&str] = &["completion", "completed", "end", "ended", "finish", "finished"];

/// Events that stop a run or a service.
const STOPS: &[&str] = &["stop", "stopped", "termination"];

/// Returns whether the status has an end time.
pub(super) fn ended(status: &Status<'_>) -> bool {
    has_time_of(status, RUN_ENDS) || has_time_of(status, STOPS)
}

/// Returns the end time of a run; the latest, if its status has several.
pub(super) fn run_ended(status: &Status<'_>) -> Option<Timestamp> {
    times_of(status, RUN_ENDS).filter_map(Timestamp::parse).max()
}

/// Returns whether the status has a time whose key begins with one of `events`, such as `startTime`
/// or `completedAt`.
fn has_time_of(status: &Status<'_>, events: &[&str]) -> bool {
    times_of(status, events).next().is_some()
}

/// Returns the times whose keys begin with one of `events`.
fn times_of<'o>(status: &'o Status<'_>, events: &[&str]) -> impl Iterator<Item = &'o str> {
    status.facts().filter_map(|fact| {
        let time = matches!(fact.key.last(), "time" | "timestamp" | "at")
            && events.contains(&fact.key.get(0));
        match fact.value {
            FactValue::Text(text) if fact.depth == 1 && time && !text.is_empty() => {
                Some(text.as_str())
            }
            _ => None,
        }
    })
}

/// Reads a schedule. A schedule that has run at least once counts as converged.
pub(super) fn schedule(status: &Status<'_>) -> Option<Signal> {
    let fact = status.facts().find(|fact| {
        let fired = fact.key.get(0) == "last"
            && matches!(fact.key.get(1), "schedule" | "scheduled" | "successful");
        fact.depth == 1 && fired && fact.key.last() == "time"
    })?;

    Some(Signal::new(Verdict::Converged, Reason::Scheduled, fact.path))
}
