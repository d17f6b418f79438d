//! The meaning of condition types.

use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::words::Words;

/// The meaning of a condition type for the object if the condition is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polarity {
    /// The whole object is healthy: `Ready`, `Available`. Holds the position in [`SUMMARY_TYPES`],
    /// or its length for any other type. The summary with the lowest position decides.
    Summary(u8),
    /// A part of the object is healthy: `ConfigurationsReady`.
    Part,
    /// The object ran to completion: `Complete`.
    Completion,
    /// Something is wrong: `FetchFailed`.
    Fault,
    /// Something is wrong and the operator will not retry: `Stalled`.
    Terminal,
    /// The object is not healthy yet, or not any more: `NotReady`.
    Lacking,
    /// Work is in progress: `Reconciling`.
    InProgress,
    /// The object is paused on purpose: `Suspended`.
    Paused,
    /// An intermediate step is done: `Launched`.
    Step,
    /// Probably good, because it is a past participle: `RecommendationProvided`.
    Weak,
    /// Unrelated to health.
    Neutral,
}

/// Types that sum up the whole object, most comprehensive first.
pub(super) const SUMMARY_TYPES: &[&str] =
    &["ready", "available", "healthy", "succeeded", "operational", "successful"];

/// Words in the reason of a [`Polarity::InProgress`] type that mean that the work is done.
pub(super) const FINISHED_WORDS: &[&str] = &[
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

/// Types of intermediate steps, which become true long before the object is healthy.
const STEPS: &[&str] = &["approved", "launched", "registered", "scheduled", "started"];

/// Types that are unrelated to health although their words suggest otherwise. An upgradeable or
/// drifted object, for example, may be healthy.
const NEUTRAL: &[&str] = &[
    "active",
    "upgradeable",
    "admitted",
    "cordoned",
    "drifted",
    "warning",
    "evicted",
    "preempted",
    "removed",
    "requeued",
];

/// Last words of types that report the fault which the words before them name: `ConflictDetected`.
const REPORTS: &[&str] = &[
    "detected",
    "encountered",
    "found",
    "observed",
    "occurred",
    "present",
    "raised",
    "reached",
    "reported",
    "seen",
];

/// Nouns for faults.
const FAULTS: &[&str] = &["conflicts", "error", "errors", "failures", "issues", "problems"];

/// Words that deny what the last word says: `UnableToBeScheduled`, `NotDeployed`.
const DENIES: &[&str] = &["cannot", "could", "failed", "no", "non", "not", "to", "unable"];

/// Returns the meaning of a type whose last word says that a fault is dealt with or absent:
/// `RejectionHandlerReady`, `FailuresTolerated`, `ErrorFree`.
fn handled(words: &Words, sense: Option<Sense>) -> Option<Polarity> {
    let is_fault = matches!(sense, Some(Sense::Bad | Sense::Lacking));
    let last = words.last();
    let denies = |word: &str| DENIES.contains(&word) || word.starts_with("partial");
    if words.len() < 2 || !is_fault || words.iter().any(denies) || REPORTS.contains(&last) {
        return None;
    }

    match senses::of(last) {
        Some(Sense::Good) => Some(Polarity::Part),
        None if last == "free" || is_participle(last) => Some(Polarity::Weak),
        _ => None,
    }
}

fn is_participle(word: &str) -> bool {
    word.len() > 4 && word.ends_with("ed")
}

impl Polarity {
    /// Returns whether no word of a condition type has a meaning, such as `Example`.
    pub(super) fn is_unknown(r#type: &str) -> bool {
        let name = r#type.rsplit_once('/').map_or(r#type, |(_, name)| name);
        let words = Words::of(name);
        Self::of(name) == Self::Neutral
            && words.sense().is_none()
            && !NEUTRAL.contains(&words.last())
    }

    /// Returns whether a condition type is about the last operation on the object: `LastAsyncOperation`.
    pub(super) fn is_last_operation(r#type: &str) -> bool {
        let words = Words::of(r#type);
        words.get(0) == "last" && words.last() == "operation"
    }

    /// Returns the meaning of a condition type.
    pub(super) fn of(r#type: &str) -> Self {
        let name = r#type.rsplit_once('/').map_or(r#type, |(_, name)| name);
        let words = Words::of(name);
        if words.len() == 1 {
            if let Some(position) =
                SUMMARY_TYPES.iter().position(|summary| *summary == words.get(0))
            {
                return Self::Summary(position as u8);
            }

            if words.get(0) == "health" {
                return Self::Summary(SUMMARY_TYPES.len() as u8);
            }

            if NEUTRAL.contains(&words.get(0)) {
                return Self::Neutral;
            }

            if STEPS.contains(&words.get(0)) {
                return Self::Step;
            }

            if words.get(0) == "built" {
                return Self::Part; // a later build may fail beside `Ready`
            }

            if words.get(0) == "ignored" {
                return Self::Paused; // the object is meant for another operator or another cloud
            }

            if words.get(0) == "running" {
                // For example an Ansible run, an import, or a Pod of an object that should be idle.
                return Self::InProgress;
            }
        }

        if words.get(0) == "ready" && words.get(1) == "to" {
            return Self::Part; // `ReadyToServe`
        }

        if words.get(0) == "supported" && words.last() == "version" {
            return Self::Neutral; // a Gateway may be accepted on a best-effort basis
        }

        if words.get(0) == "well" && is_participle(words.last()) {
            return Self::Part; // `WellFormed`
        }

        if words.get(0) == "no" && ["matching", "matched"].iter().any(|word| words.has(word)) {
            return Self::Fault; // `NoMatchingInstance`, `NoPodsMatched`
        }

        if matches!(words.last(), "exist" | "exists") && FAULTS.iter().any(|word| words.has(word)) {
            return Self::Fault; // `ImportImageErrorsExist`
        }

        if words.last().starts_with("warning") {
            return Self::Neutral;
        }

        if matches!(words.last(), "stalled" | "terminal") {
            return Self::Terminal;
        }

        if words.len() > 1 && words.last() == "started" {
            return Self::Step; // `ProvisioningStarted` stays true after the end
        }

        let sense = words.sense();
        if let Some(polarity) = handled(&words, sense) {
            return polarity;
        }

        match sense {
            Some(Sense::Good) if words.len() == 1 => Self::Summary(SUMMARY_TYPES.len() as u8),
            Some(Sense::Good) => Self::Part,
            Some(Sense::Done) if words.len() == 1 => Self::Completion,
            Some(Sense::Done) => Self::Part,
            Some(Sense::Bad) => Self::Fault,
            Some(Sense::Lacking) => Self::Lacking,
            // `ScalingLimited` is not about the scaling, but about its limits.
            Some(Sense::InProgress)
                if words.len() > 1
                    && senses::of(words.last()).is_none()
                    && is_participle(words.last()) =>
            {
                Self::Neutral
            }
            Some(Sense::InProgress) => Self::InProgress,
            Some(Sense::Paused) if words.len() <= 2 => Self::Paused,
            Some(Sense::Paused) => Self::Neutral,
            None if is_participle(words.last()) => Self::Weak,
            None => Self::Neutral,
        }
    }
}
