//! What phases, counts, flags and error texts say.

use super::Reason;
use super::profiles::Profile;
use super::senses::Sense;
use super::signals::{Says, Signal, worst};
use super::words::Words;
use crate::observation::{Fact, FactValue, ObjectView};

/// A fact of the status, with its path taken apart.
struct Leaf<'a> {
    path: &'a str,
    /// Keys below `status`.
    depth: usize,
    /// Whether it stands in a list.
    listed: bool,
    key: Words,
    value: &'a FactValue,
}

/// Keys that name what was, or what is wanted.
const OTHER_TIMES: &[&str] =
    &["desired", "target", "previous", "expected", "old", "requested", "next", "prior", "last"];

/// Keys that hold a phase.
const PHASES: &[&str] = &[
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

/// Keys that hold a verdict as a flag.
const FLAGS: &[&str] = &[
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

/// What the phases say.
///
/// Conditions that sum the object up leave only its own phase, and its health, to say more.
pub(super) fn phases(object: &ObjectView, profile: &Profile, whole: bool) -> Option<Signal> {
    let leaves: Vec<Leaf<'_>> = leaves(object).filter(|leaf| leaf.is(PHASES) && leaf.is_now()).collect();
    let runs = runs(object) && !whole;
    let phase = |leaf: &Leaf<'_>| match phase(leaf, profile) {
        // For what runs to its end, running is on the way.
        Some(signal) if runs && signal.says == Says::Good && leaf.says("running") => {
            Some(Signal { says: Says::Motion, reason: Reason::PhaseInMotion, ..signal })
        }
        signal => signal,
    };
    if whole {
        return worst(leaves.iter().filter(|leaf| leaf.is_close()).map(phase));
    }
    // The closer to the status itself, the more it is about the whole.
    (1..=4).find_map(|depth| {
        let at = |listed: bool| {
            let here = leaves.iter().filter(move |leaf| leaf.depth == depth && leaf.listed == listed);
            worst(here.map(phase))
        };
        at(false).or_else(|| at(true))
    })
}

fn phase(leaf: &Leaf<'_>, profile: &Profile) -> Option<Signal> {
    let text = match leaf.value {
        FactValue::Text(text) => text.clone(),
        FactValue::Number(number) => number.to_string(),
        FactValue::Flag(_) => return None,
    };
    let special = profile.phases.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text)).map(|(_, sense)| *sense);
    let words = Words::of(&text);
    if leaf.depth > 1 && words.len() == 1 && words.get(0) == "unknown" {
        return None; // that nobody knows about a part says nothing about the whole
    }
    let (says, reason) = match special.or_else(|| words.sense())? {
        Sense::Good => (Says::Good, Reason::PhaseGood),
        Sense::Done => (Says::Done, Reason::PhaseDone),
        Sense::Motion => (Says::Motion, Reason::PhaseInMotion),
        Sense::Lacking => lacking(&text),
        Sense::Bad => (Says::Bad, Reason::PhaseFailed),
        Sense::Rest => (Says::Rest, Reason::PhaseSuspended),
    };
    Some(Signal::new(says, reason, format!("{}={text}", leaf.path)))
}

/// A phase that is not as it should be: not yet, or no longer.
fn lacking(text: &str) -> (Says, Reason) {
    let words = Words::of(text);
    let broken = ["unavailable", "offline", "down", "missing", "disconnected"].iter().any(|word| words.has(word))
        || words.has("compliant");
    if broken { (Says::Bad, Reason::PhaseFailed) } else { (Says::Motion, Reason::PhaseInMotion) }
}

/// What verdict flags say: `status.ready: false`.
pub(super) fn flags(object: &ObjectView) -> Option<Signal> {
    let message = object
        .fact("status.message")
        .is_some_and(|message| matches!(message, FactValue::Text(text) if !text.is_empty()));
    worst(leaves(object).filter(|leaf| leaf.is_flag()).map(|leaf| {
        let words = |value: bool| format!("{}={value}", leaf.path);
        match leaf.value {
            FactValue::Flag(true) => Some(Signal::new(Says::Good, Reason::FlagTrue, words(true))),
            FactValue::Flag(false) if message || leaf.key.last() == "healthy" => {
                Some(Signal::new(Says::Bad, Reason::FlagFalse, words(false)))
            }
            FactValue::Flag(false) => Some(Signal::new(Says::Motion, Reason::FlagFalse, words(false))),
            FactValue::Number(_) | FactValue::Text(_) => None,
        }
    }))
}

/// What flags of parts say: one that is not there yet keeps the whole from being there.
pub(super) fn listed_flags(object: &ObjectView) -> Option<Signal> {
    let lags = |leaf: &Leaf<'_>| {
        let part = matches!(leaf.key.get(0), "ready" | "applied" | "healthy" | "synced") && leaf.key.len() == 1;
        leaf.listed && leaf.depth == 2 && part && *leaf.value == FactValue::Flag(false)
    };
    let leaf = leaves(object).find(lags)?;
    Some(Signal::new(Says::Motion, Reason::FlagFalse, format!("{}=false", leaf.path)))
}

/// What error texts say: one that is there is meant.
pub(super) fn errors(object: &ObjectView) -> Option<Signal> {
    let leaf = leaves(object).find(|leaf| {
        let error = matches!(leaf.key.last(), "error" | "errors")
            || (leaf.key.len() > 1
                && matches!(leaf.key.get(0), "error" | "failure")
                && matches!(leaf.key.last(), "message" | "reason"));
        let error = error || leaf.path == "status.error.message";
        leaf.depth <= 2
            && !leaf.listed
            && error
            && matches!(leaf.value, FactValue::Text(text) if !text.trim().is_empty())
    })?;
    Some(Signal::new(Says::Bad, Reason::ErrorText, leaf.path))
}

/// What counts of replicas say.
///
/// When something else is `said`, only counts that are there can contradict it.
pub(super) fn counts(object: &ObjectView, said: bool) -> Option<Signal> {
    ratio(object).or_else(|| replicas(object, said)).or_else(|| parts(object))
}

/// Where the wanted count stands, the first that is there.
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

/// Where the count of those that are ready stands.
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

/// Where the count of those that are as the spec asks stands.
const UPDATED: &[&str] = &["status.updatedReplicas", "status.updatedNumberScheduled"];

/// How many are held back on purpose.
const HELD: &[&str] =
    &["spec.updateStrategy.rollingUpdate.partition", "spec.updateStrategy.partition", "spec.partition"];

fn replicas(object: &ObjectView, said: bool) -> Option<Signal> {
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
            // Those that are there and not healthy are worse than those that are not there yet.
            let says = if short.1.ends_with("Healthy") { Says::Bad } else { Says::Motion };
            Some(Signal::new(says, Reason::CountsShort, of(short)))
        }
        (_, Some(updated)) if held > 0 && updated.0 >= wanted.saturating_sub(held) => {
            Some(Signal::new(Says::Rest, Reason::HeldBack, format!("{}, {held} held back", of(updated))))
        }
        (Some(_), Some(updated)) => Some(Signal::new(Says::Motion, Reason::CountsShort, of(updated))),
        (Some((present, path)), None) => Some(Signal::new(Says::Good, Reason::CountsMet, format!("{path}={present}"))),
        (None, _) if wanted > 0 && !said => {
            Some(Signal::new(Says::Motion, Reason::CountsShort, format!("{from}={wanted}, none is ready")))
        }
        (None, _) => None,
    }
}

/// Counts of parts: `instances[0].replicas` and `instances[0].readyReplicas`.
fn parts(object: &ObjectView) -> Option<Signal> {
    worst(leaves(object).map(|leaf| {
        let FactValue::Number(present) = leaf.value else { return None };
        let prefix = leaf.path.strip_suffix(".readyReplicas")?;
        let wanted = match object.fact(&format!("{prefix}.replicas")) {
            Some(FactValue::Number(wanted)) if leaf.depth == 2 => *wanted,
            _ => return None,
        };
        let (says, reason) =
            if *present < wanted { (Says::Motion, Reason::CountsShort) } else { (Says::Good, Reason::CountsMet) };
        Some(Signal::new(says, reason, format!("{}={present} of {wanted}", leaf.path)))
    }))
}

/// A count written as a text: `statusReplicas: 1/3`.
fn ratio(object: &ObjectView) -> Option<Signal> {
    worst(leaves(object).filter(|leaf| leaf.depth <= 2 && !leaf.listed).map(|leaf| {
        let FactValue::Text(text) = leaf.value else { return None };
        let (have, wanted) = text.split_once('/')?;
        let (have, wanted): (u32, u32) = (have.trim().parse().ok()?, wanted.trim().parse().ok()?);
        let (says, reason) =
            if have < wanted { (Says::Motion, Reason::CountsShort) } else { (Says::Good, Reason::CountsMet) };
        Some(Signal::new(says, reason, format!("{}={text}", leaf.path)))
    }))
}

/// Whether the counts say that nothing is wanted.
///
/// A spec that asks for more contradicts them, unless the rollout is over.
pub(super) fn scaled_to_zero(object: &ObjectView, rolled_out: bool) -> bool {
    let number = |path| match object.fact(path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    };
    let wanted = number("spec.replicas").unwrap_or(0) > 0 && !rolled_out;
    !wanted && number("status.replicas") == Some(0) && number("status.unavailableReplicas").unwrap_or(0) == 0
}

/// Whether the status is that of something that runs to its end: it has begun, or counts its runs.
pub(super) fn runs(object: &ObjectView) -> bool {
    let counts = |path: &&str| matches!(object.fact(path), Some(FactValue::Number(_)));
    ["status.succeeded", "status.failed"].iter().all(counts) || marks(object, &["start", "started"])
}

/// Whether the status says when it ended.
pub(super) fn ended(object: &ObjectView) -> bool {
    marks(object, &["completion", "completed", "end", "ended", "finish", "finished", "stop", "stopped", "termination"])
}

/// Whether the status holds the time of such a milestone.
fn marks(object: &ObjectView, first: &[&str]) -> bool {
    leaves(object).any(|leaf| {
        let time = matches!(leaf.key.last(), "time" | "timestamp" | "at") && first.contains(&leaf.key.get(0));
        leaf.depth == 1 && time && matches!(leaf.value, FactValue::Text(text) if !text.is_empty())
    })
}

/// A schedule that has fired works.
pub(super) fn schedule(object: &ObjectView) -> Option<Signal> {
    let leaf = leaves(object).find(|leaf| {
        let fired = leaf.key.get(0) == "last" && matches!(leaf.key.get(1), "schedule" | "scheduled" | "successful");
        leaf.depth == 1 && fired && leaf.key.last() == "time"
    })?;
    Some(Signal::new(Says::Good, Reason::Scheduled, leaf.path))
}

fn leaves(object: &ObjectView) -> impl Iterator<Item = Leaf<'_>> {
    object.facts.iter().filter_map(|Fact { path, value }| {
        let below = path.strip_prefix("status.")?;
        let key = below.rsplit('.').next().unwrap_or(below);
        Some(Leaf { path, depth: below.split('.').count(), listed: below.contains('['), key: Words::of(key), value })
    })
}

// === impl Leaf ===

impl Leaf<'_> {
    fn is(&self, keys: &[&str]) -> bool {
        keys.contains(&self.key.last())
    }

    fn says(&self, word: &str) -> bool {
        matches!(self.value, FactValue::Text(text) if text.eq_ignore_ascii_case(word))
    }

    /// Whether it is a phase of the object itself, or its health: `phase`, `health.status`, `ceph.health`.
    fn is_close(&self) -> bool {
        self.depth == 1
            || (self.depth == 2
                && !self.listed
                && (self.path.ends_with(".health") || self.path == "status.health.status"))
    }

    /// Whether it is a verdict: `ready`, `isReady`, `readyToUse`.
    fn is_flag(&self) -> bool {
        let first = self.key.get(0);
        let named = self.is(FLAGS) && (self.key.len() == 1 || first == "is");
        self.depth <= 2 && !self.listed && (named || (first == "ready" && self.key.len() > 1))
    }

    /// Whether it is about the present of the object.
    fn is_now(&self) -> bool {
        let first = self.key.get(0);
        self.key.len() == 1 || !OTHER_TIMES.contains(&first) || self.key.has("operation")
    }
}
