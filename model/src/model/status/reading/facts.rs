//! Reads the phases, flags, results, times and error texts of a status.

use crate::model::status::reading::profiles::Profile;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::{Fact, FactValue, ObjectView};
use crate::time::Timestamp;

/// A fact of the status, with its path split.
pub(super) struct StatusFact<'a> {
    pub(super) path: &'a str,
    /// The number of keys below `status`.
    pub(super) depth: usize,
    /// Whether the fact is inside a list.
    pub(super) listed: bool,
    /// The words of the last key.
    pub(super) key: Words,
    pub(super) value: &'a FactValue,
}

/// First words of keys that hold an earlier or a desired state.
const NOT_CURRENT: &[&str] =
    &["desired", "target", "previous", "expected", "old", "requested", "next", "prior", "last"];

/// Last words of keys that hold a phase, for verdicts, findings and metrics. If an object has
/// several phases, the first word in this list determines the one to show.
const PHASE_KEYS: &[&str] = &[
    "phase",
    "state",
    "status",
    "health",
    "stage",
    "result",
    "outcome",
    "verdict",
    "lifecycle",
    "robustness",
    "compliant",
    "compliance",
    "conclusion",
    "condition",
];

/// Last words of keys that hold a health flag.
const FLAG_KEYS: &[&str] = &[
    "ready",
    "healthy",
    "applied",
    "valid",
    "succeeded",
    "successful",
    "success",
    "synced",
    "ok",
    "operational",
    "available",
    "installed",
    "deployed",
    "reconciled",
    "initialized",
    "bound",
    "connected",
    "completed",
    "complete",
    "active",
    "accepted",
    "created",
    "established",
    "provisioned",
];

/// Reads the phases of an object.
///
/// If its conditions are `summarized`, only the object's own phase and health are read.
pub(super) fn phases(
    object: &ObjectView,
    profile: &Profile,
    runs: bool,
    summarized: bool,
) -> Option<Signal> {
    let phase_facts: Vec<StatusFact<'_>> =
        status_facts(object).filter(StatusFact::is_phase).collect();
    let started = has_started_run(object);
    let read = |fact: &StatusFact<'_>| match phase(fact, profile) {
        // While an object runs to completion, `Running` means work in progress.
        Some(signal)
            if signal.verdict == Verdict::Converged
                && ((!summarized && started && fact.text_is("running"))
                    || (runs && fact.text_is_one_of(BEFORE_THE_END))
                    || is_stage_done(object, fact)) =>
        {
            Some(Signal { verdict: Verdict::Progressing, reason: Reason::PhaseInMotion, ..signal })
        }
        signal => signal,
    };

    if summarized {
        return worst(phase_facts.iter().filter(|fact| fact.is_own_phase()).map(read));
    }

    // The phase with the smallest depth describes most of the object. At the same depth, phases
    // outside lists come first.
    (1..=4).find_map(|depth| {
        let at = |listed: bool| {
            let here =
                phase_facts.iter().filter(move |fact| fact.depth == depth && fact.listed == listed);
            worst(here.map(read))
        };

        at(false).or_else(|| at(true))
    })
}

/// Returns the phase of the object itself, from the key that comes first in [`PHASE_KEYS`]. Returns
/// an empty text if the object has none.
pub(super) fn own_phase(object: &ObjectView) -> &str {
    let own = status_facts(object).filter(|fact| fact.is_phase() && fact.is_own_phase());
    let texts = own.filter_map(|fact| match fact.value {
        FactValue::Text(text) if !text.is_empty() => Some((fact, text.as_str())),
        _ => None,
    });
    let order = |fact: &StatusFact<'_>| PHASE_KEYS.iter().position(|key| *key == fact.key.last());

    // Among equal keys, the deeper one is more specific: `health.status` comes before `status`.
    let first =
        texts.min_by_key(|(fact, _)| (order(fact), fact.key.len(), std::cmp::Reverse(fact.depth)));
    first.map_or("", |(_, text)| text)
}

/// Returns whether a phase of the object itself is the given word.
pub(super) fn is_in_phase(object: &ObjectView, word: &str) -> bool {
    status_facts(object).any(|fact| fact.is_phase() && fact.is_own_phase() && fact.text_is(word))
}

/// Good phases of an object that runs to completion, before it is complete.
const BEFORE_THE_END: &[&str] =
    &["accepted", "active", "created", "initialized", "running", "scheduled"];

/// Last words of kinds whose objects run to completion.
const RUN_KINDS: &[&str] = &[
    "analysis",
    "backup",
    "evaluation",
    "execution",
    "export",
    "import",
    "job",
    "migration",
    "restore",
    "run",
    "task",
    "test",
];

/// Words of kinds whose objects only start runs, or run without an end.
const NOT_RUN_KINDS: &[&str] = &["cron", "scheduled", "session", "streaming"];

/// Returns whether the words of a kind say that its objects run to completion: `PipelineRun`,
/// `SchemaMigration`.
pub(super) fn is_run_kind(kind: &str) -> bool {
    let words = Words::of(kind);
    RUN_KINDS.contains(&words.last()) && !NOT_RUN_KINDS.iter().any(|word| words.has(word))
}

/// Returns whether a fact such as `stageStatus: success` says only that one stage is done:
/// `status.stage` exists and does not itself name a good end, such as `completed`.
fn is_stage_done(object: &ObjectView, fact: &StatusFact<'_>) -> bool {
    let stage =
        fact.key.len() == 2 && matches!(fact.key.get(0), "stage" | "step") && fact.depth == 1;
    let path = if fact.key.get(0) == "stage" { "status.stage" } else { "status.step" };
    match object.fact(path) {
        Some(FactValue::Text(text)) if stage => {
            !matches!(Words::of(text).sense(), Some(Sense::Good | Sense::Done))
        }
        _ => false,
    }
}

/// Reads one phase. Returns `None` if its text has no meaning.
pub(super) fn phase(fact: &StatusFact<'_>, profile: &Profile) -> Option<Signal> {
    let text = match fact.value {
        FactValue::Text(text) => text.clone(),
        FactValue::Number(number) => number.to_string(),
        FactValue::Flag(_) => return None,
    };
    let special = profile
        .phases
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&text))
        .map(|(_, sense)| *sense);

    let words = Words::of(&text);
    if fact.depth > 1 && words.len() == 1 && words.get(0) == "unknown" {
        return None; // an unknown part says nothing about the object
    }

    let (verdict, reason) = match special.or_else(|| words.sense())? {
        Sense::Good => (Verdict::Converged, Reason::PhaseGood),
        Sense::Done => (Verdict::Finished, Reason::PhaseDone),
        Sense::InProgress => (Verdict::Progressing, Reason::PhaseInMotion),
        Sense::Lacking => read_lacking(&text),
        Sense::Bad => (Verdict::Failed, Reason::PhaseFailed),
        Sense::Paused => (Verdict::Suspended, Reason::PhaseSuspended),
    };

    Some(Signal::new(verdict, reason, format!("{}={text}", fact.path)))
}

/// Reads a phase with the sense [`Sense::Lacking`]: the object is either broken or not ready yet.
fn read_lacking(text: &str) -> (Verdict, Reason) {
    let words = Words::of(text);
    let broken = ["unavailable", "offline", "down", "missing", "disconnected"]
        .iter()
        .any(|word| words.has(word))
        || words.has("compliant");
    if broken {
        (Verdict::Failed, Reason::PhaseFailed)
    } else {
        (Verdict::Progressing, Reason::PhaseInMotion)
    }
}

/// Reads the flags of the object, such as `status.ready: false`.
pub(super) fn flags(object: &ObjectView) -> Option<Signal> {
    let has_message = object
        .fact("status.message")
        .is_some_and(|message| matches!(message, FactValue::Text(text) if !text.is_empty()));
    worst(status_facts(object).filter(|fact| fact.is_flag() || fact.is_fault_flag()).map(|fact| {
        let text = |value: bool| format!("{}={value}", fact.path);
        match fact.value {
            FactValue::Flag(true) if fact.is_fault_flag() => {
                Some(Signal::new(Verdict::Failed, Reason::FaultTrue, text(true)))
            }
            FactValue::Flag(_) if fact.is_fault_flag() => None,
            FactValue::Flag(true) => {
                Some(Signal::new(Verdict::Converged, Reason::FlagTrue, text(true)))
            }
            FactValue::Flag(false) if has_message || fact.key.last() == "healthy" => {
                Some(Signal::new(Verdict::Failed, Reason::FlagFalse, text(false)))
            }
            FactValue::Flag(false) => {
                Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, text(false)))
            }
            FactValue::Number(_) | FactValue::Text(_) => None,
        }
    }))
}

/// Reads the flags of parts, in lists. While one is false, the object is not complete.
pub(super) fn flags_of_parts(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object)
        .find(|fact| fact.listed && fact.is_part_flag() && *fact.value == FactValue::Flag(false))?;
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}=false", fact.path)))
}

/// Reads a flag that says that the work is not done yet, such as `completed: false`.
pub(super) fn unfinished(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let end = matches!(fact.key.last(), "complete" | "completed" | "done" | "finished");
        fact.depth == 1
            && !fact.listed
            && fact.key.len() == 1
            && end
            && *fact.value == FactValue::Flag(false)
    })?;
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}=false", fact.path)))
}

/// Reads a bad result of an object that ran to completion, such as `pass: false` or
/// `verdict: Fail`.
pub(super) fn bad_result(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let result =
            matches!(fact.key.last(), "pass" | "passed" | "success" | "succeeded" | "successful");
        let flag = fact.depth == 1 && !fact.listed && fact.key.len() == 1 && result;
        let verdict =
            fact.depth <= 2 && fact.key_ends_with(&["verdict", "result", "outcome", "conclusion"]);

        match fact.value {
            FactValue::Flag(passed) => flag && !passed,
            FactValue::Text(text) => {
                verdict && fact.is_current() && Words::of(text).sense() == Some(Sense::Bad)
            }
            FactValue::Number(_) => false,
        }
    })?;
    Some(Signal::new(Verdict::Failed, Reason::EndedBadly, fact.path))
}

/// Reads error texts. Any text that is not blank means a failure.
pub(super) fn errors(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let named =
            fact.depth <= 2 && !fact.listed && (fact.names_error() || fact.is_message_of_error());
        (named || (fact.depth <= 2 && fact.is_in_error_list()))
            && matches!(fact.value, FactValue::Text(text) if !text.trim().is_empty())
    })?;
    Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path))
}

/// Returns whether the object has started a run: its status has a start time, or counts both
/// successes and failures.
fn has_started_run(object: &ObjectView) -> bool {
    let counts = |path: &&str| matches!(object.fact(path), Some(FactValue::Number(_)));
    ["status.succeeded", "status.failed"].iter().all(counts)
        || has_time_of(object, &["start", "started"])
}

/// Events that end a run.
const RUN_ENDS: &[&str] = &["completion", "completed", "end", "ended", "finish", "finished"];

/// Events that stop a run or a service.
const STOPS: &[&str] = &["stop", "stopped", "termination"];

/// Returns whether the status has an end time.
pub(super) fn ended(object: &ObjectView) -> bool {
    has_time_of(object, RUN_ENDS) || has_time_of(object, STOPS)
}

/// Returns the end time of a run; the latest, if its status has several.
pub(super) fn run_ended(object: &ObjectView) -> Option<Timestamp> {
    times_of(object, RUN_ENDS).filter_map(Timestamp::parse).max()
}

/// Returns whether the status has a time whose key begins with one of `events`, such as `startTime`
/// or `completedAt`.
fn has_time_of(object: &ObjectView, events: &[&str]) -> bool {
    times_of(object, events).next().is_some()
}

/// Returns the times whose keys begin with one of `events`.
fn times_of<'o>(object: &'o ObjectView, events: &[&str]) -> impl Iterator<Item = &'o str> {
    status_facts(object).filter_map(|fact| {
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
pub(super) fn schedule(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let fired = fact.key.get(0) == "last"
            && matches!(fact.key.get(1), "schedule" | "scheduled" | "successful");
        fact.depth == 1 && fired && fact.key.last() == "time"
    })?;

    Some(Signal::new(Verdict::Converged, Reason::Scheduled, fact.path))
}

pub(super) fn status_facts(object: &ObjectView) -> impl Iterator<Item = StatusFact<'_>> {
    object.facts.iter().filter_map(|Fact { path, value }| {
        let below = path.strip_prefix("status.")?;
        let key = below.rsplit('.').next().unwrap_or(below);
        let key = key.split('[').next().unwrap_or(key);
        Some(StatusFact {
            path,
            depth: below.split('.').count(),
            listed: below.contains('['),
            key: Words::of(key),
            value,
        })
    })
}

impl StatusFact<'_> {
    fn key_ends_with(&self, keys: &[&str]) -> bool {
        keys.contains(&self.key.last())
    }

    fn text_is(&self, word: &str) -> bool {
        self.text_is_one_of(&[word])
    }

    fn text_is_one_of(&self, words: &[&str]) -> bool {
        matches!(self.value, FactValue::Text(text) if words.iter().any(|word| text.eq_ignore_ascii_case(word)))
    }

    /// Returns whether this is a current phase or state.
    pub(super) fn is_phase(&self) -> bool {
        self.key_ends_with(PHASE_KEYS) && self.is_current()
    }

    /// Returns whether this is a flag of a part, such as `shards[2].ready`.
    pub(super) fn is_part_flag(&self) -> bool {
        self.depth == 2
            && self.key.len() == 1
            && matches!(self.key.get(0), "ready" | "applied" | "healthy" | "synced")
    }

    /// Returns whether this is a flag that means a fault: `failed`, `noMatchingInstances`.
    fn is_fault_flag(&self) -> bool {
        let nothing_matches = self.key.get(0) == "no" && self.key.get(1) == "matching";
        self.depth == 1
            && matches!(self.value, FactValue::Flag(_))
            && (nothing_matches || self.key.sense() == Some(Sense::Bad))
    }

    /// Returns whether the key names an error text: `error`, `lastError`, `errMsg`,
    /// `failureReason`.
    fn names_error(&self) -> bool {
        let text = matches!(
            self.key.last(),
            "message" | "msg" | "reason" | "description" | "details" | "text" | "cause"
        );
        let about_error =
            || self.key.iter().any(|word| matches!(word, "error" | "err" | "failure"));

        matches!(self.key.last(), "error" | "errors" | "err") || (text && about_error())
    }

    /// Returns whether this is the text of an error in a map: `error.message`,
    /// `reconciliationError.reason`.
    fn is_message_of_error(&self) -> bool {
        let parent = self.path.rsplit('.').nth(1).unwrap_or_default();
        self.depth == 2
            && matches!(self.key.last(), "message" | "reason" | "description")
            && matches!(Words::of(parent).last(), "error" | "err" | "failure")
    }

    /// Returns whether this is in a list of errors, such as `errors[0]` or `problems[0].message`.
    pub(super) fn is_in_error_list(&self) -> bool {
        self.path
            .split('.')
            .filter_map(|key| key.split_once('['))
            .any(|(name, _)| matches!(Words::of(name).last(), "errors" | "problems" | "failures"))
    }

    /// Returns whether this is the phase or the health of the object itself: `phase`,
    /// `health.status`, `ceph.health`.
    fn is_own_phase(&self) -> bool {
        self.depth == 1
            || (self.depth == 2
                && !self.listed
                && (self.path.ends_with(".health") || self.path == "status.health.status"))
    }

    /// Returns whether this is a health flag: `ready`, `isReady`, `readyToUse`.
    fn is_flag(&self) -> bool {
        let first = self.key.get(0);
        let named = self.key_ends_with(FLAG_KEYS) && (self.key.len() == 1 || first == "is");
        self.depth <= 2 && !self.listed && (named || (first == "ready" && self.key.len() > 1))
    }

    /// Returns whether this describes the present, unlike `desiredState` or `lastPhase`.
    fn is_current(&self) -> bool {
        let first = self.key.get(0);
        self.key.len() == 1 || !NOT_CURRENT.contains(&first) || self.key.has("operation")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_the_list_holds_the_phase() {
        for (paths, phase) in [
            (&["status.stage"][..], "status.stage"),
            (&["status.state", "status.phase"], "status.phase"),
            (&["status.status", "status.health.status"], "status.health.status"),
            (&["status.clusterState"], "status.clusterState"),
            (
                &["status.lastState", "status.desiredPhase", "status.parts[0].phase", "spec.state"],
                "",
            ),
        ] {
            let fact =
                |path: &&str| Fact { path: (*path).into(), value: FactValue::Text((*path).into()) };
            let object =
                ObjectView { facts: paths.iter().map(fact).collect(), ..ObjectView::default() };

            assert_eq!(own_phase(&object), phase, "{paths:?}");
        }
    }
}
