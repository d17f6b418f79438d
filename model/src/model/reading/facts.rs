//! What phases, counts, flags and error texts say.

use super::profiles::Profile;
use super::signals::{Says, Signal, worst};
use super::words::{Sense, Words};
use super::Reason;
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
const OTHER_TIMES: &[&str] = &["desired", "target", "previous", "expected", "old", "requested", "next", "prior", "last"];

/// Keys that hold a phase.
const PHASES: &[&str] = &[
    "phase", "state", "status", "health", "stage", "result", "outcome", "verdict", "lifecycle", "robustness", "compliant",
    "compliance", "conclusion", "condition",
];

/// Keys that hold a verdict as a flag.
const FLAGS: &[&str] = &[
    "ready", "healthy", "applied", "valid", "succeeded", "successful", "success", "synced", "ok", "operational",
    "available", "installed", "deployed", "reconciled", "initialized", "bound", "connected", "completed", "complete",
];

/// What the phases say.
pub(super) fn phases(object: &ObjectView, profile: &Profile) -> Option<Signal> {
    let leaves: Vec<Leaf<'_>> = leaves(object).filter(|leaf| leaf.is(PHASES) && leaf.is_now()).collect();
    // The closer to the status itself, the more it is about the whole.
    (1..=4).find_map(|depth| {
        let at = |listed: bool| {
            let here = leaves.iter().filter(move |leaf| leaf.depth == depth && leaf.listed == listed);
            worst(here.map(|leaf| phase(leaf, profile)))
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
    let (says, reason) = match special.or_else(|| Words::of(&text).sense())? {
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
    let message = object.fact("status.message").is_some_and(|message| matches!(message, FactValue::Text(text) if !text.is_empty()));
    worst(leaves(object).filter(|leaf| leaf.depth <= 2 && !leaf.listed && leaf.is(FLAGS) && leaf.is_now()).map(|leaf| {
        let words = |value: bool| format!("{}={value}", leaf.path);
        match leaf.value {
            FactValue::Flag(true) => Some(Signal::new(Says::Good, Reason::FlagTrue, words(true))),
            FactValue::Flag(false) if message => Some(Signal::new(Says::Bad, Reason::FlagFalse, words(false))),
            FactValue::Flag(false) => Some(Signal::new(Says::Motion, Reason::FlagFalse, words(false))),
            FactValue::Number(_) | FactValue::Text(_) => None,
        }
    }))
}

/// What error texts say: one that is there is meant.
pub(super) fn errors(object: &ObjectView) -> Option<Signal> {
    let leaf = leaves(object).find(|leaf| {
        let error = matches!(leaf.key.last(), "error" | "errors")
            || (leaf.key.len() > 1 && matches!(leaf.key.get(0), "error" | "failure") && matches!(leaf.key.last(), "message" | "reason"));
        leaf.depth <= 2 && !leaf.listed && error && matches!(leaf.value, FactValue::Text(text) if !text.trim().is_empty())
    })?;
    Some(Signal::new(Says::Bad, Reason::ErrorText, leaf.path))
}

/// What counts of replicas say.
pub(super) fn counts(object: &ObjectView) -> Option<Signal> {
    let number = |path: &str| match object.fact(path) {
        Some(FactValue::Number(number)) => Some(*number),
        _ => None,
    };
    let find = |paths: &[&str]| paths.iter().find_map(|path| number(path).map(|number| (number, (*path).to_owned())));
    let (wanted, from) = find(&["spec.replicas", "spec.size", "spec.instances", "status.expectedNodes", "status.desiredHealthy",
        "status.desiredNumberScheduled", "status.desiredReplicas", "status.replicas", "status.expectedPods"])?;
    let have = find(&["status.readyReplicas", "status.availableReplicas", "status.availableNodes", "status.currentHealthy",
        "status.numberReady", "status.numberAvailable", "status.readyInstances", "status.readyNodes"]);
    let updated = find(&["status.updatedReplicas", "status.updatedNumberScheduled"]);
    let short = |(have, path): &(i64, String)| {
        (*have < wanted).then(|| {
            let says = if path.ends_with("Healthy") { Says::Bad } else { Says::Motion };
            Signal::new(says, Reason::CountsShort, format!("{path}={have} of {from}={wanted}"))
        })
    };
    match have {
        None if wanted > 0 => Some(Signal::new(Says::Motion, Reason::CountsShort, format!("{from}={wanted}"))),
        None => None,
        Some(have) => short(&have)
            .or_else(|| updated.as_ref().and_then(short))
            .or_else(|| Some(Signal::new(Says::Good, Reason::CountsMet, format!("{}={}", have.1, have.0)))),
    }
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

    /// Whether it is about the present of the object.
    fn is_now(&self) -> bool {
        let first = self.key.get(0);
        self.key.len() == 1 || !OTHER_TIMES.contains(&first) || self.key.has("operation")
    }
}
