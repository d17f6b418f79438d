//! What the type of a condition says when it is true: good, bad, under way, or nothing.

use super::senses::Sense;
use super::words::Words;

/// What the type of a condition says when it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polarity {
    /// Sums the object up: `Ready`, `Available`. A smaller number is closer to the whole.
    Root(u8),
    /// Good, but of a part: `ConfigurationsReady`.
    Part,
    /// Ran to its end: `Complete`.
    End,
    /// Problem: `FetchFailed`.
    Fault,
    /// Final: `Stalled`.
    Terminal,
    /// Lacking: `NotReady`.
    Lack,
    /// Under way: `Reconciling`.
    Motion,
    /// At rest: `Suspended`.
    Rest,
    /// A step on the way to what sums up: `Launched`.
    Step,
    /// Good, going by its form only: `RecommendationProvided`.
    Weak,
    /// Says nothing about health.
    Neutral,
}

/// Types that sum an object up, closest to the whole first.
pub(super) const ROOTS: &[&str] = &["ready", "available", "healthy", "succeeded", "operational", "successful"];

/// Words in the reason of a type that names work by which the work is over.
pub(super) const GOALS: &[&str] = &[
    "available",
    "complete",
    "completed",
    "done",
    "expected",
    "finished",
    "ready",
    "succeeded",
    "success",
    "successful",
    "successfully",
];

/// Types that are true long before all is well.
const STEPS: &[&str] = &["approved", "launched", "registered", "scheduled"];

/// Types that look like a verdict and are none: idle, upgradeable and drifted objects are well.
const NEUTRAL: &[&str] =
    &["active", "upgradeable", "admitted", "drifted", "warning", "evicted", "preempted", "requeued"];

/// What the type of a condition says.
pub(super) fn kind(r#type: &str) -> Polarity {
    let name = r#type.rsplit_once('/').map_or(r#type, |(_, name)| name);
    let words = Words::of(name);
    if words.len() == 1 {
        if let Some(place) = ROOTS.iter().position(|root| *root == words.get(0)) {
            return Polarity::Root(place as u8);
        }
        if NEUTRAL.contains(&words.get(0)) {
            return Polarity::Neutral;
        }
        if STEPS.contains(&words.get(0)) {
            return Polarity::Step;
        }
        if words.get(0) == "running" {
            return Polarity::Motion; // of an Ansible or import run, or of a pod of an object that means to be idle
        }
    }
    if words.last().starts_with("warning") {
        return Polarity::Neutral;
    }
    if matches!(words.last(), "stalled" | "terminal") {
        return Polarity::Terminal;
    }
    match words.sense() {
        Some(Sense::Good) if words.len() == 1 => Polarity::Root(ROOTS.len() as u8),
        Some(Sense::Good) => Polarity::Part,
        Some(Sense::Done) if words.len() == 1 => Polarity::End,
        Some(Sense::Done) => Polarity::Part,
        Some(Sense::Bad) => Polarity::Fault,
        Some(Sense::Lacking) => Polarity::Lack,
        Some(Sense::Motion) => Polarity::Motion,
        Some(Sense::Rest) if words.len() <= 2 => Polarity::Rest,
        Some(Sense::Rest) => Polarity::Neutral,
        None if words.last().len() > 4 && words.last().ends_with("ed") => Polarity::Weak,
        None => Polarity::Neutral,
    }
}
