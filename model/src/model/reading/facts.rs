//! Reads phases, flags, counts and error texts of a status.

use super::profiles::Profile;
use super::senses::Sense;
use super::signals::{Signal, worst};
use super::words::Words;
use super::{Reason, Verdict};
use crate::observation::{Fact, FactValue, ObjectView};

/// A fact of the status, with its path split.
struct StatusFact<'a> {
    path: &'a str,
    /// The number of keys below `status`.
    depth: usize,
    /// Whether the fact is inside a list.
    listed: bool,
    /// The words of the last key.
    key: Words,
    value: &'a FactValue,
}

/// First words of keys that hold an earlier or a desired state.
const NOT_CURRENT: &[&str] =
    &["desired", "target", "previous", "expected", "old", "requested", "next", "prior", "last"];

/// Last words of keys that hold a phase.
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
];

/// Reads the phases of an object.
///
/// If its conditions are `summarized`, only the object's own phase and health are read.
pub(super) fn phases(object: &ObjectView, profile: &Profile, summarized: bool) -> Option<Signal> {
    let phase_facts: Vec<StatusFact<'_>> =
        status_facts(object).filter(|fact| fact.key_ends_with(PHASE_KEYS) && fact.is_current()).collect();
    let running = has_started_run(object) && !summarized;
    let read = |fact: &StatusFact<'_>| match phase(fact, profile) {
        // While an object runs to completion, `Running` means work in progress.
        Some(signal) if running && signal.verdict == Verdict::Converged && fact.text_is("running") => {
            Some(Signal { verdict: Verdict::Progressing, reason: Reason::PhaseInMotion, ..signal })
        }
        signal => signal,
    };
    if summarized {
        return worst(phase_facts.iter().filter(|fact| fact.is_own_phase()).map(read));
    }
    // The phase with the smallest depth describes most of the object. At the same depth, phases outside lists come
    // first.
    (1..=4).find_map(|depth| {
        let at = |listed: bool| {
            let here = phase_facts.iter().filter(move |fact| fact.depth == depth && fact.listed == listed);
            worst(here.map(read))
        };
        at(false).or_else(|| at(true))
    })
}

fn phase(fact: &StatusFact<'_>, profile: &Profile) -> Option<Signal> {
    let text = match fact.value {
        FactValue::Text(text) => text.clone(),
        FactValue::Number(number) => number.to_string(),
        FactValue::Flag(_) => return None,
    };
    let special = profile.phases.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text)).map(|(_, sense)| *sense);
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
    let broken = ["unavailable", "offline", "down", "missing", "disconnected"].iter().any(|word| words.has(word))
        || words.has("compliant");
    if broken { (Verdict::Failed, Reason::PhaseFailed) } else { (Verdict::Progressing, Reason::PhaseInMotion) }
}

/// Reads flags of the object: `status.ready: false`.
pub(super) fn flags(object: &ObjectView) -> Option<Signal> {
    let has_message = object
        .fact("status.message")
        .is_some_and(|message| matches!(message, FactValue::Text(text) if !text.is_empty()));
    worst(status_facts(object).filter(|fact| fact.is_flag()).map(|fact| {
        let text = |value: bool| format!("{}={value}", fact.path);
        match fact.value {
            FactValue::Flag(true) => Some(Signal::new(Verdict::Converged, Reason::FlagTrue, text(true))),
            FactValue::Flag(false) if has_message || fact.key.last() == "healthy" => {
                Some(Signal::new(Verdict::Failed, Reason::FlagFalse, text(false)))
            }
            FactValue::Flag(false) => Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, text(false))),
            FactValue::Number(_) | FactValue::Text(_) => None,
        }
    }))
}

/// Reads flags of parts, in lists: while one is false, the object is not complete.
pub(super) fn flags_of_parts(object: &ObjectView) -> Option<Signal> {
    let is_false = |fact: &StatusFact<'_>| {
        let part = matches!(fact.key.get(0), "ready" | "applied" | "healthy" | "synced") && fact.key.len() == 1;
        fact.listed && fact.depth == 2 && part && *fact.value == FactValue::Flag(false)
    };
    let fact = status_facts(object).find(is_false)?;
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}=false", fact.path)))
}

/// Reads error texts: any text that is not blank means a failure.
pub(super) fn errors(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let error = matches!(fact.key.last(), "error" | "errors")
            || (fact.key.len() > 1
                && matches!(fact.key.get(0), "error" | "failure")
                && matches!(fact.key.last(), "message" | "reason"));
        let error = error || fact.path == "status.error.message";
        fact.depth <= 2
            && !fact.listed
            && error
            && matches!(fact.value, FactValue::Text(text) if !text.trim().is_empty())
    })?;
    Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path))
}

/// Reads counts of replicas.
///
/// With `other_signals`, a missing count of ready replicas does not mean that none is ready.
pub(super) fn counts(object: &ObjectView, other_signals: bool) -> Option<Signal> {
    ratio(object).or_else(|| replicas(object, other_signals)).or_else(|| parts(object))
}

/// Paths of the wanted count; the first that is present applies.
const WANTED: &[&str] = &[
    "spec.replicas",
    "spec.size",
    "spec.instances",
    "status.expectedNodes",
    "status.desiredHealthy",
    "status.expectedMachines",
    "status.desiredNumberScheduled",
    "status.desiredReplicas",
    "status.replicas",
    "status.size",
    "status.expectedPods",
];

/// Paths of the count of ready replicas.
const PRESENT: &[&str] = &[
    "status.readyReplicas",
    "status.availableReplicas",
    "status.availableNodes",
    "status.currentHealthy",
    "status.numberReady",
    "status.numberAvailable",
    "status.readyInstances",
    "status.readyNodes",
    "status.ready",
    "status.updatedReadyReplicas",
];

/// Paths of the count of replicas with the current spec.
const UPDATED: &[&str] = &["status.updatedReplicas", "status.updatedNumberScheduled"];

/// Paths of the count of replicas that are held back on purpose.
const HELD: &[&str] =
    &["spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition", "spec.partition"];

fn replicas(object: &ObjectView, other_signals: bool) -> Option<Signal> {
    let find = |paths: &[&'static str]| {
        paths.iter().find_map(|path| match object.fact(path) {
            Some(FactValue::Number(number)) => Some((*number, *path)),
            _ => None,
        })
    };
    let (wanted, from) = find(WANTED)?;
    let of = |(have, path): (i64, &str)| format!("{path}={have} of {from}={wanted}");
    let held = find(HELD).map_or(0, |(held, _)| held).max(0);
    let present = find(PRESENT);
    let updated = find(UPDATED).filter(|(updated, _)| *updated < wanted);
    match (present, updated) {
        (Some(short), _) if short.0 < wanted => {
            // A replica that exists and is unhealthy is worse than one that does not exist yet.
            let verdict = if short.1.ends_with("Healthy") { Verdict::Failed } else { Verdict::Progressing };
            Some(Signal::new(verdict, Reason::CountsShort, of(short)))
        }
        (_, Some(updated)) if held > 0 && updated.0 >= wanted.saturating_sub(held) => {
            Some(Signal::new(Verdict::Suspended, Reason::HeldBack, format!("{}, {held} held back", of(updated))))
        }
        (Some(_), Some(updated)) => Some(Signal::new(Verdict::Progressing, Reason::CountsShort, of(updated))),
        (Some((present, path)), None) => {
            Some(Signal::new(Verdict::Converged, Reason::CountsMet, format!("{path}={present}")))
        }
        (None, _) if wanted > 0 && !other_signals => {
            Some(Signal::new(Verdict::Progressing, Reason::CountsShort, format!("{from}={wanted}, none is ready")))
        }
        (None, _) => None,
    }
}

/// Reads counts of parts: `instances[0].replicas` and `instances[0].readyReplicas`.
fn parts(object: &ObjectView) -> Option<Signal> {
    worst(status_facts(object).map(|fact| {
        let FactValue::Number(present) = fact.value else { return None };
        let prefix = fact.path.strip_suffix(".readyReplicas")?;
        let wanted = match object.fact(&format!("{prefix}.replicas")) {
            Some(FactValue::Number(wanted)) if fact.depth == 2 => *wanted,
            _ => return None,
        };
        let (verdict, reason) = if *present < wanted {
            (Verdict::Progressing, Reason::CountsShort)
        } else {
            (Verdict::Converged, Reason::CountsMet)
        };
        Some(Signal::new(verdict, reason, format!("{}={present} of {wanted}", fact.path)))
    }))
}

/// Reads a count that is written as text: `statusReplicas: 1/3`.
fn ratio(object: &ObjectView) -> Option<Signal> {
    worst(status_facts(object).filter(|fact| fact.depth <= 2 && !fact.listed).map(|fact| {
        let FactValue::Text(text) = fact.value else { return None };
        let (have, wanted) = text.split_once('/')?;
        let (have, wanted): (u32, u32) = (have.trim().parse().ok()?, wanted.trim().parse().ok()?);
        let (verdict, reason) = if have < wanted {
            (Verdict::Progressing, Reason::CountsShort)
        } else {
            (Verdict::Converged, Reason::CountsMet)
        };
        Some(Signal::new(verdict, reason, format!("{}={text}", fact.path)))
    }))
}

/// Returns whether the object is scaled to zero.
///
/// A positive `spec.replicas` contradicts `status.replicas: 0`, unless the rollout is complete.
pub(super) fn scaled_to_zero(object: &ObjectView, rolled_out: bool) -> bool {
    let number = |path| match object.fact(path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    };
    let wanted = number("spec.replicas").unwrap_or(0) > 0 && !rolled_out;
    !wanted && number("status.replicas") == Some(0) && number("status.unavailableReplicas").unwrap_or(0) == 0
}

/// Returns whether the object runs to completion and has started: the status has a start time, or counts both successes
/// and failures.
fn has_started_run(object: &ObjectView) -> bool {
    let counts = |path: &&str| matches!(object.fact(path), Some(FactValue::Number(_)));
    ["status.succeeded", "status.failed"].iter().all(counts) || has_time_of(object, &["start", "started"])
}

/// Returns whether the status has an end time.
pub(super) fn ended(object: &ObjectView) -> bool {
    has_time_of(
        object,
        &["completion", "completed", "end", "ended", "finish", "finished", "stop", "stopped", "termination"],
    )
}

/// Returns whether the status has a time whose key begins with one of `events`: `startTime`, `completedAt`.
fn has_time_of(object: &ObjectView, events: &[&str]) -> bool {
    status_facts(object).any(|fact| {
        let time = matches!(fact.key.last(), "time" | "timestamp" | "at") && events.contains(&fact.key.get(0));
        fact.depth == 1 && time && matches!(fact.value, FactValue::Text(text) if !text.is_empty())
    })
}

/// Reads schedules: a schedule that has run at least once counts as converged.
pub(super) fn schedule(object: &ObjectView) -> Option<Signal> {
    let fact = status_facts(object).find(|fact| {
        let fired = fact.key.get(0) == "last" && matches!(fact.key.get(1), "schedule" | "scheduled" | "successful");
        fact.depth == 1 && fired && fact.key.last() == "time"
    })?;
    Some(Signal::new(Verdict::Converged, Reason::Scheduled, fact.path))
}

fn status_facts(object: &ObjectView) -> impl Iterator<Item = StatusFact<'_>> {
    object.facts.iter().filter_map(|Fact { path, value }| {
        let below = path.strip_prefix("status.")?;
        let key = below.rsplit('.').next().unwrap_or(below);
        Some(StatusFact {
            path,
            depth: below.split('.').count(),
            listed: below.contains('['),
            key: Words::of(key),
            value,
        })
    })
}

// === impl StatusFact ===

impl StatusFact<'_> {
    fn key_ends_with(&self, keys: &[&str]) -> bool {
        keys.contains(&self.key.last())
    }

    fn text_is(&self, word: &str) -> bool {
        matches!(self.value, FactValue::Text(text) if text.eq_ignore_ascii_case(word))
    }

    /// Returns whether this is the phase or the health of the object itself: `phase`, `health.status`, `ceph.health`.
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
