//! Reads the states of the parts of an object, such as its environments, shards or members.
//!
//! A summary such as `Ready=True` often says only that the operator has done its own work. The
//! parts show whether this work had the intended effect.

use crate::model::status::reading::facts::{Status, StatusFact};
use crate::model::status::reading::profiles::Profile;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, counts, flags, phases};
use crate::observation::FactValue;

/// Words, in the singular, for parts that an object needs in order to be complete.
const PARTS: &[&str] = &[
    "application",
    "broker",
    "cluster",
    "component",
    "connection",
    "datacenter",
    "destination",
    "domain",
    "endpoint",
    "environment",
    "ingress",
    "instance",
    "listener",
    "member",
    "node",
    "parent",
    "partition",
    "pod",
    "pool",
    "rack",
    "region",
    "replica",
    "server",
    "shard",
    "target",
    "task",
    "worker",
    "workload",
    "zone",
];

/// Words, in the singular, for entries about the past, or about work that may fail without harm to
/// the object.
const RECORDS: &[&str] = &[
    "attempt",
    "backup",
    "deleted",
    "event",
    "failed",
    "history",
    "job",
    "last",
    "log",
    "old",
    "operation",
    "past",
    "previous",
    "recent",
    "removed",
    "revision",
    "run",
    "step",
    "transition",
];

/// Keys for a state that the object is about to enter.
const NEXT: &[&str] = &["candidate", "canary", "proposed", "upcoming"];

/// Reads the phases, flags and errors of parts. Good ones do not count.
///
/// A failed phase of a part means a failure of the object. A failed phase deeper in a part, for
/// example in the checks of a proposed change, means only that the part is not done.
///
/// A task is a part of an object that keeps running, such as a connector. In an object that
/// runs to completion, it is a step, which may fail and be repeated.
pub(super) fn read(status: &Status<'_>, profile: &Profile, runs: bool) -> Option<Signal> {
    let is_step = |fact: &StatusFact<'_>| runs && fact.path.contains("task");
    worst(status.facts().filter(|fact| fact.depth > 1).map(|fact| {
        if is_part(fact) && !is_step(fact) {
            if fact.is_part_flag() && *fact.value == FactValue::Flag(false) {
                let text = format!("{}=false", fact.path);
                return Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, text));
            }

            let is_error = fact.key.len() == 1 && fact.key.get(0) == "error";
            if is_error && status.conditions.is_empty() && has_false_flag(status, fact) {
                return Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path));
            }

            if fact.is_in_error_list()
                && matches!(fact.value, FactValue::Text(text) if !text.trim().is_empty())
            {
                return Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path));
            }

            return bad_phase(fact, profile);
        }

        if is_waiting_container(fact) {
            return Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path));
        }

        let failed = |signal: &Signal| signal.verdict == Verdict::Failed;
        if fact.is_health_of_part() || fact.is_named_health() {
            return phases::phase(fact, profile).filter(failed);
        }

        match bad_phase(fact, profile) {
            signal if is_in_activity(fact) => signal,
            signal if is_in_stage(fact) => signal.filter(failed),
            signal if is_in_status_of_part(fact) => signal.filter(failed),
            _ => None,
        }
    }))
}

/// Flags beside an error text.
const OUTCOMES: &[&str] = &["healthy", "ready", "reconciled", "synced"];

/// Returns whether a flag beside an error text says that it is about the present.
fn has_false_flag(status: &Status<'_>, fact: &StatusFact<'_>) -> bool {
    let Some((parent, _)) = fact.path.rsplit_once('.') else { return false };
    let is_false =
        |flag: &&str| status.fact(&format!("{parent}.{flag}")) == Some(&FactValue::Flag(false));
    matches!(fact.value, FactValue::Text(text) if !flags::is_no_error(text))
        && OUTCOMES.iter().any(is_false)
}

/// Returns whether the kubelet says, in a copy of the state of a container, why it cannot run:
/// `containerState.waiting.reason: ImagePullBackOff`.
fn is_waiting_container(fact: &StatusFact<'_>) -> bool {
    let bad = |text: &str| Words::of(text).sense() == Some(Sense::Bad);
    !fact.listed
        && fact.path.to_ascii_lowercase().ends_with("state.waiting.reason")
        && matches!(fact.value, FactValue::Text(text) if bad(text))
}

/// Reads counts of parts that are too low, such as `shards[1].readyReplicas` or `readyMembers`.
pub(super) fn short_counts(status: &Status<'_>) -> Option<Signal> {
    let counts_parts = |fact: &StatusFact<'_>| {
        is_part(fact) || (fact.depth == 1 && !fact.key.has("replicas") && names_part(&fact.key))
    };
    counts::pairs(status, &["ready"], counts_parts).filter(|signal| !signal.is_good())
}

fn bad_phase(fact: &StatusFact<'_>, profile: &Profile) -> Option<Signal> {
    let signal =
        Some(fact).filter(|fact| fact.is_phase()).and_then(|fact| phases::phase(fact, profile))?;

    // In a map of parts, the name of the part is one more key than in a list.
    // A part may have parts itself, such as the tasks of a connector.
    let shallow = if fact.listed { 2 } else { 3 + wrappers(fact) };
    let deeper = fact.depth > shallow && !is_phase_of_listed_part(fact);
    match signal.verdict {
        Verdict::Failed if deeper => {
            Some(Signal { verdict: Verdict::Progressing, reason: Reason::PhaseInMotion, ..signal })
        }
        Verdict::Failed | Verdict::Progressing => Some(signal),
        _ => None,
    }
}

/// Returns whether a fact is in a list or map of parts, or in a state that the object is about to
/// enter. Facts in records of the past are not.
fn is_part(fact: &StatusFact<'_>) -> bool {
    let mut part = false;
    for (i, key) in fact.path.split('.').skip(1).enumerate() {
        let (name, listed) = key.split_once('[').map_or((key, false), |(name, _)| (name, true));
        let words = Words::of(name);
        if words.iter().any(|word| RECORDS.contains(&singular(word))) {
            return false;
        }

        let mapped = i + 2 < fact.depth && words.last().ends_with('s');
        part |= ((listed || mapped) && names_part(&words)) || NEXT.contains(&name);
    }

    part
}

/// Returns the number of keys above the map of parts: one in
/// `activeServiceStatus.applicationStatuses.app.status`.
fn wrappers(fact: &StatusFact<'_>) -> usize {
    let keys = fact.path.split('.').skip(1);
    keys.take_while(|key| !names_part(&Words::of(key))).count().min(1)
}

/// Returns whether the list with the fact is a list of parts, as in `connectors[0].tasks[1].state`.
fn is_phase_of_listed_part(fact: &StatusFact<'_>) -> bool {
    let list = fact.path.rsplit('.').nth(1).and_then(|key| key.split_once('['));
    list.is_some_and(|(name, _)| names_part(&Words::of(name)))
}

/// Returns whether a key of the status names the parts of an object, but not its Pods or the nodes on
/// which these run, which come and go.
pub(super) fn is_list_of_parts(words: &Words) -> bool {
    names_part(words) && !words.has("pods") && !words.has("nodes")
}

fn names_part(words: &Words) -> bool {
    words.iter().any(|word| PARTS.contains(&singular(word)))
}

/// Returns whether a fact is in the status of a part, such as
/// `status.modelStatus.transitionStatus`.
fn is_in_status_of_part(fact: &StatusFact<'_>) -> bool {
    let words = Words::of(fact.path.split('.').nth(1).unwrap_or_default());
    fact.depth == 2
        && !fact.listed
        && words.len() > 1
        && words.last() == "status"
        && !words.iter().any(|word| RECORDS.contains(&singular(word)))
}

/// Returns whether a fact is in the state of an activity of the object, such as
/// `status.provisioning.state`.
fn is_in_activity(fact: &StatusFact<'_>) -> bool {
    let words = Words::of(fact.path.split('.').nth(1).unwrap_or_default());
    let names_activity = (words.len() == 1 && words.sense() == Some(Sense::InProgress))
        // `replicasChange.state`
        || (words.len() > 1 && words.last() == "change" && !RECORDS.contains(&words.get(0)));
    fact.depth == 2 && !fact.listed && names_activity
}

/// Returns whether a fact is in the present stage of the object's work: `stage.state`.
fn is_in_stage(fact: &StatusFact<'_>) -> bool {
    let stage = fact.path.split('.').nth(1).unwrap_or_default();
    fact.depth == 2 && matches!(stage, "stage" | "currentStage" | "step" | "currentStep")
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').filter(|stem| !stem.ends_with('s')).unwrap_or(word)
}
