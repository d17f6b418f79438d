//! Reads the conditions of an object.

use crate::model::status::reading::Verdict;
use crate::model::status::reading::facts::Status;
use crate::model::status::reading::polarity::Polarity;
use crate::model::status::reading::reasons::{self, sense};
use crate::model::status::reading::roles::{self, ConditionsByRole, ConditionsReading};
use crate::model::status::reading::senses::Sense;
use crate::model::status::reading::signals::Signal;
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{parts, phases};
use crate::observation::ConditionStatus::{False, True, Unknown};
use crate::observation::{Condition, ObjectView};

/// Last words of the status keys whose conditions are about the object itself, not about its Pods
/// or children.
const OWN_KEYS: &[&str] = &[
    "parents",
    "listeners",
    "ancestors",
    "ingress",
    "condition",
    "conditions",
    "conditioned",
    "status",
    "state",
    "health",
    "common",
    "overall",
];

/// Status lists of the Gateway API, of OpenShift routes and of the Prometheus Operator whose entries
/// have conditions about the object. These conditions count even if `.status.conditions` exists.
const PART_LISTS: &[&str] =
    &["parents", "listeners", "ancestors", "ingress", "bindings", "controllers"];

/// The number of letters that `Scheduled` and `schedulable` have in common; shorter words must be the same.
const STEM: usize = 6;

/// Reads all conditions of an object. Returns `None` if none of them has a meaning.
pub(super) fn read(status: &Status<'_>, kind: &str) -> Option<ConditionsReading> {
    let has_top_level = status.conditions.iter().any(|condition| condition.at.is_empty());

    // Conditions deeper in the status are usually about Pods or children.
    let mut places: Vec<&str> = Vec::new();
    for condition in &status.conditions {
        let at = condition.at.as_str();
        let first = at.split(['.', '[']).next().unwrap_or_default();
        let counts =
            at.is_empty() || PART_LISTS.contains(&first) || (!has_top_level && is_own_key(first));

        if counts && !places.contains(&at) {
            places.push(at);
        }
    }

    // The entry of another controller may stay behind for good, for example when that controller no
    // longer handles the object.
    let is_current = |at: &str| is_entry_of_controller(at) && !is_place_outdated(status, at);
    if places.iter().any(|at| is_current(at)) {
        places.retain(|at| !is_entry_of_controller(at) || is_current(at));
    }

    let combined =
        places.into_iter().filter_map(|at| read_place(status, kind, at)).reduce(|a, b| {
            ConditionsReading {
                signal: a.signal.worse(b.signal),
                summarized: a.summarized && b.summarized,
                minimal: a.minimal || b.minimal,
                dated: a.dated || b.dated,
            }
        });

    match combined {
        // Without a summary of its own, an object is no better than the parts that it consists of.
        Some(reading) if reading.signal.is_good() && !reading.summarized => {
            let signal = part_not_ready(status, kind).unwrap_or(reading.signal);
            Some(ConditionsReading { signal, ..reading })
        }
        None => part_not_ready(status, kind).map(|signal| ConditionsReading {
            signal,
            summarized: false,
            minimal: false,
            dated: false,
        }),
        combined => combined,
    }
}

/// Returns the worst signal of a part, such as `datacenters.dc1` or `zones[0]`, that is not as it should
/// be.
fn part_not_ready(status: &Status<'_>, kind: &str) -> Option<Signal> {
    let is_of_part = |at: &&str| {
        let (first, rest) = at.split_at(at.find(['.', '[']).unwrap_or(at.len()));
        let words = Words::of(first);
        let is_read = PART_LISTS.contains(&first);
        !is_read && !rest.is_empty() && words.len() == 1 && parts::is_list_of_parts(&words)
    };
    let mut places: Vec<&str> = status.conditions.iter().map(|it| it.at.as_str()).collect();
    places.dedup();

    let readings = places.into_iter().filter(is_of_part);
    let signals = readings.filter_map(|at| Some(read_place(status, kind, at)?.signal));
    let bad = |signal: &Signal| matches!(signal.verdict, Verdict::Failed | Verdict::Progressing);
    signals.filter(bad).reduce(Signal::worse)
}

/// Returns whether a condition beside a true `Ready` says that the object is not well, as its phase does.
pub(super) fn agree_with_phase(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.at.is_empty()
            && !is_outdated(object, condition)
            && match Polarity::of(&condition.r#type) {
                Polarity::Part => {
                    condition.status == False
                        && !reasons::has_not_occurred(&condition.reason)
                        && sense(&condition.reason) != Some(Sense::Paused)
                }
                Polarity::Fault => condition.status == True,
                _ => false,
            }
    })
}

/// Returns whether any condition of the object is false with a reason that names a failure.
pub(super) fn names_a_failure(object: &ObjectView) -> bool {
    object
        .conditions
        .iter()
        .any(|condition| condition.status == False && sense(&condition.reason) == Some(Sense::Bad))
}

/// Returns whether conditions under this key of the status are about the object itself.
fn is_own_key(key: &str) -> bool {
    let words = Words::of(key);
    let version = words.len() == 1
        && words.get(0).starts_with('v')
        && words.get(0).as_bytes().get(1).is_some_and(u8::is_ascii_digit);

    version || (OWN_KEYS.contains(&words.last()) && !words.has("pod") && !words.has("node"))
}

/// Reads the conditions at one place of the status.
fn read_place(status: &Status<'_>, kind: &str, at: &str) -> Option<ConditionsReading> {
    let here = || status.conditions.iter().filter(|condition| condition.at == at);
    let named = here().filter(|condition| at.is_empty() && names_phase(status, condition));
    let entered = named.map(|condition| condition.changed).max();
    let mut place = ConditionsByRole::new(kind, entered, phases::is_in_motion(status));
    let is_history = is_history(here);
    let newest = here().map(|condition| condition.changed).max().flatten();
    let counts = |condition: &&Condition| {
        !repeats_phase(status, condition)
            && !carries_number(condition)
            && (!is_history || condition.changed == newest)
            && !is_refuted(status, condition)
    };
    for condition in here().filter(counts) {
        let outdated = is_outdated(status, condition);

        // If the status has its own `observedGeneration`, that of a summary condition may lag.
        let undecided =
            (outdated && status.observed_generation.is_none()) || is_worked_on(status, condition);
        place.add(condition, outdated, undecided);
    }

    place.reading()
}

/// Returns whether a controller of the Gateway API writes the conditions at this place: each has
/// entries of its own in `parents` or `ancestors`.
fn is_entry_of_controller(at: &str) -> bool {
    ["parents[", "ancestors[", "controllers["].iter().any(|list| at.starts_with(list))
}

/// Returns whether any condition at a place is about an earlier generation.
fn is_place_outdated(object: &ObjectView, at: &str) -> bool {
    let mut here = object.conditions.iter().filter(|condition| condition.at == at);
    here.any(|condition| is_outdated(object, condition))
}

/// Returns whether a true summary has the name of the object's phase: `Ready=True` in the phase
/// `ready`. The operator then writes a condition for each phase, and `initializing=True` may remain
/// from a phase that the object has left.
fn names_phase(status: &Status<'_>, condition: &Condition) -> bool {
    condition.status == True
        && matches!(Polarity::of(&condition.r#type), Polarity::Summary(_))
        && phases::is_in_phase(status, &condition.r#type)
}

/// Returns whether a condition has the name of the object's phase, and does not name work that ends:
/// `Running=True` in the phase `Running`. It says no more than the phase.
fn repeats_phase(status: &Status<'_>, condition: &Condition) -> bool {
    condition.status == True
        && condition.at.is_empty()
        && Polarity::of(&condition.r#type) == Polarity::InProgress
        && roles::may_be_steady(condition)
        && phases::is_in_phase(status, &condition.r#type)
}

/// Returns whether the conditions are a history: the operator appends one whenever something changes, so
/// that a type is there several times, and only the newest says how the object is now.
fn is_history<'a, I: Iterator<Item = &'a Condition>>(here: impl Fn() -> I) -> bool {
    let is_event = |condition: &Condition| condition.changed.is_some() && condition.status == True;
    let is_repeated = |(position, condition): (usize, &Condition)| {
        here().take(position).any(|earlier| earlier.r#type == condition.r#type)
    };

    here().all(is_event) && here().enumerate().any(is_repeated)
}

/// Returns whether a later condition says the opposite, although this one still stands: `Unschedulable=True`
/// beside `Scheduled=True`. Some operators only ever add such conditions.
fn is_refuted(object: &ObjectView, condition: &Condition) -> bool {
    let denies = |name: &str| {
        let denied = ["Un", "Not", "Non"].into_iter().find_map(|prefix| name.strip_prefix(prefix));
        let stem = denied.and_then(|denied| denied.get(..STEM.min(denied.len())));
        stem.filter(|stem| stem.starts_with(char::is_alphabetic)).map(str::to_ascii_lowercase)
    };
    let Some(stem) = denies(&condition.r#type).filter(|_| condition.status == True) else {
        return false;
    };

    object.conditions.iter().any(|other| {
        other.at == condition.at
            && other.status == True
            && other.changed > condition.changed
            && other.r#type.to_ascii_lowercase().starts_with(&stem)
    })
}

/// Returns whether a condition only carries a number: `IPsAvailable=Unknown` with the message `250`.
fn carries_number(condition: &Condition) -> bool {
    condition.status == Unknown && condition.message.trim().parse::<f64>().is_ok()
}

/// Returns whether a condition is about an earlier generation.
fn is_outdated(object: &ObjectView, condition: &Condition) -> bool {
    condition.observed_generation.is_some_and(|seen| seen < object.generation)
}

/// Returns whether a false condition shares its reason with a true condition that means work in
/// progress: `Ready=False (Expired)` beside `Issuing=True (Expired)`. Unless the reason is an
/// error, it then says why the operator works, not that it failed.
fn is_worked_on(object: &ObjectView, condition: &Condition) -> bool {
    let Condition { at, reason, .. } = condition;
    let works = |other: &Condition| {
        other.status == True
            && other.at == *at
            && other.reason == *reason
            && Polarity::of(&other.r#type) == Polarity::InProgress
            && !is_outdated(object, other)
    };

    condition.status == False
        && condition.severity != "Error"
        && !reason.is_empty()
        && object.conditions.iter().any(works)
        && !Words::of(reason).iter().any(|word| word.starts_with("err") || word.starts_with("fail"))
}
