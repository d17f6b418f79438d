//! Reads the flags, the error texts and the message of a status.

use crate::model::status::reading::facts::{Status, StatusFact};
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict};
use crate::observation::FactValue;

/// Reads the flags of the object, such as `status.ready: false`.
pub(super) fn flags(status: &Status<'_>) -> Option<Signal> {
    let has_message = status
        .fact("status.message")
        .is_some_and(|message| matches!(message, FactValue::Text(text) if !text.is_empty()));
    let ended =
        status.facts().any(|fact| fact.is_end_flag() && *fact.value == FactValue::Flag(true));
    worst(status.facts().filter(|fact| fact.is_flag() || fact.is_fault_flag()).map(|fact| {
        let text = |value: bool| format!("{}={value}", fact.path);
        match fact.value {
            FactValue::Flag(true) if fact.is_fault_flag() => {
                Some(Signal::new(Verdict::Failed, Reason::FaultTrue, text(true)))
            }
            FactValue::Flag(_) if fact.is_fault_flag() => None,
            FactValue::Flag(true) => {
                Some(Signal::new(Verdict::Converged, Reason::FlagTrue, text(true)))
            }
            // Nothing uses it.
            FactValue::Flag(false) if fact.key.last() == "active" && !has_message => {
                Some(Signal::new(Verdict::Suspended, Reason::FlagFalse, text(false)))
            }
            FactValue::Flag(false)
                if has_message || fact.key.last() == "healthy" || (ended && fact.is_result()) =>
            {
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
pub(super) fn flags_of_parts(status: &Status<'_>) -> Option<Signal> {
    let fact = status
        .facts()
        .find(|fact| fact.listed && fact.is_part_flag() && *fact.value == FactValue::Flag(false))?;
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}=false", fact.path)))
}

/// Reads flags that say that work is in progress, or that a step is not done: `isRollingUpdate: true`,
/// `rulesGenerated: false`.
pub(super) fn flags_of_work(status: &Status<'_>) -> Option<Signal> {
    let says = |fact: &&StatusFact<'_>| match fact.value {
        FactValue::Flag(true) => fact.is_flag_of_work(),
        FactValue::Flag(false) => fact.is_flag_of_step(),
        FactValue::Number(_) | FactValue::Text(_) => false,
    };
    let fact = status.facts().find(says)?;
    let value = if *fact.value == FactValue::Flag(true) { "true" } else { "false" };
    Some(Signal::new(Verdict::Progressing, Reason::FlagFalse, format!("{}={value}", fact.path)))
}

/// Reads error texts. Any text that is not blank means a failure.
pub(super) fn errors(status: &Status<'_>) -> Option<Signal> {
    let fact = status.facts().find(|fact| {
        let named =
            fact.depth <= 2 && !fact.listed && (fact.names_error() || fact.is_message_of_error());
        (named || (fact.depth <= 2 && fact.is_in_error_list()))
            && matches!(fact.value, FactValue::Text(text) if !is_no_error(text))
    })?;
    Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path))
}

/// Reads messages with the grade of an error.
pub(super) fn graded_error(status: &Status<'_>) -> Option<Signal> {
    let fact = status.facts().find(|fact| fact.grades_an_error())?;
    Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path))
}

/// Reads lists of errors, however deep.
pub(super) fn listed_errors(status: &Status<'_>) -> Option<Signal> {
    let fact = status.facts().find(|fact| {
        fact.is_in_error_list() && matches!(fact.value, FactValue::Text(text) if !is_no_error(text))
    })?;
    Some(Signal::new(Verdict::Failed, Reason::ErrorText, fact.path))
}

/// Reads `status.error`, which is not about the past, unlike `lastError`.
pub(super) fn present_error(status: &Status<'_>) -> Option<Signal> {
    match status.fact("status.error") {
        Some(FactValue::Text(text)) if !is_no_error(text) => {
            Some(Signal::new(Verdict::Failed, Reason::ErrorText, "status.error"))
        }
        _ => None,
    }
}

/// Returns whether an error text says that there is no error.
pub(super) fn is_no_error(text: &str) -> bool {
    let none = ["", "none", "null", "nil", "ok", "no error", "no errors"];
    none.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

/// Reads the message of a status that says nothing else. Only clear words count.
pub(super) fn message(status: &Status<'_>) -> Option<Signal> {
    let Some(FactValue::Text(text)) = status.fact("status.message") else { return None };
    let (verdict, reason) = match Words::of(text).sense()? {
        Sense::Good => (Verdict::Converged, Reason::PhaseGood),
        Sense::Bad => (Verdict::Failed, Reason::ErrorText),
        _ => return None,
    };

    Some(Signal::new(verdict, reason, format!("status.message={text}")))
}
