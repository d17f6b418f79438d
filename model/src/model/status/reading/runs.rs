//! Whether an object is a run, which does its work once and ends, and whether that work has begun.

use crate::model::status::reading::facts::StatusFact;
use crate::model::status::reading::phases;
use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::words::Words;
use crate::observation::{Condition, ConditionStatus, FactValue, ObjectView};

/// Condition types that become true when a run ends.
const ENDS: &[&str] = &["complete", "completed", "done", "finished", "succeeded"];

/// Words for a run that waits to begin, even if its operator has noted a start time.
const NOT_BEGUN: &[&str] =
    &["blocked", "new", "pending", "queued", "scheduling", "unschedulable", "unscheduled"];

/// Words for a run that probably has not begun, unless its operator has noted a start time.
const PREPARES: &[&str] = &[
    "accepted",
    "creating",
    "initializing",
    "preparing",
    "starting",
    "submitted",
    "validating",
    "waiting",
];

/// Words for a run that is under way, in addition to those that mean work in progress.
const BEGUN: &[&str] = &[
    "copying",
    "downloading",
    "executing",
    "exporting",
    "finalizing",
    "importing",
    "inprogress",
    "migrating",
    "processing",
    "progress",
    "restoring",
    "running",
    "started",
    "transferring",
    "uploading",
];

/// Returns whether an object has a condition that will say that its work is complete.
pub(crate) fn will_end(object: &ObjectView) -> bool {
    ending(object).is_some()
}

/// Returns whether the work of a run has begun.
pub(crate) fn has_begun(object: &ObjectView) -> bool {
    let shown = Words::of(phases::shown_phase(object));
    let reason = Words::of(ending(object).map_or("", |condition| &condition.reason));
    let work = Words::of(work(object).map_or("", |condition| &condition.reason));
    let said = [&shown, &reason, &work];
    let says = |words: &[&str]| words.iter().any(|word| said.iter().any(|said| said.has(word)));
    let in_progress = || [&shown, &reason].iter().any(|w| w.sense() == Some(Sense::InProgress));

    !says(NOT_BEGUN) && (says(BEGUN) || has_start(object) || (in_progress() && !says(PREPARES)))
}

/// Returns whether a queue holds the object back until there is room: `QuotaReserved=False` of Kueue.
pub(crate) fn waits_for_quota(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.at.is_empty()
            && condition.r#type == "QuotaReserved"
            && condition.status == ConditionStatus::False
    })
}

/// Returns whether a phase means work that has begun. An object in the phase `Pending` only waits.
pub(super) fn names_work(phase: &str) -> bool {
    let words = Words::of(phase);
    words.sense() == Some(Sense::InProgress) && !NOT_BEGUN.iter().any(|word| words.has(word))
}

/// Returns whether the status says when its work began, which the phase shows to be under way: such an object
/// does one piece of work, whatever the name of its kind.
pub(crate) fn is_timed_work(object: &ObjectView) -> bool {
    has_start(object) && names_work(phases::own_phase(object))
}

/// Returns the condition that says that work is under way: `Progressing=True (Started)`.
fn work(object: &ObjectView) -> Option<&Condition> {
    object.conditions.iter().find(|condition| {
        condition.at.is_empty()
            && condition.status == ConditionStatus::True
            && Polarity::of(&condition.r#type) == Polarity::InProgress
    })
}

/// Returns the condition that will say that the work is complete.
fn ending(object: &ObjectView) -> Option<&Condition> {
    object.conditions.iter().find(|condition| {
        let words = Words::of(&condition.r#type);
        condition.at.is_empty()
            && words.len() == 1
            && ENDS.contains(&words.last())
            && condition.status != ConditionStatus::True
    })
}

/// Returns whether the status says when the work began.
fn has_start(object: &ObjectView) -> bool {
    object.facts.iter().filter_map(StatusFact::of).any(|fact| {
        fact.depth == 1
            && matches!(fact.key.get(0), "start" | "started")
            && matches!(fact.key.last(), "time" | "timestamp" | "at")
            && matches!(fact.value, FactValue::Text(text) if !text.is_empty())
    })
}
