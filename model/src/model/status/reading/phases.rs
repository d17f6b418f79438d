//! Reads the phases of an object.

use crate::model::status::reading::facts::{PHASE_KEYS, Status, StatusFact};
use crate::model::status::reading::profiles::Profile;
use crate::model::status::reading::senses::{self, Sense};
use crate::model::status::reading::signals::{Signal, worst};
use crate::model::status::reading::words::Words;
use crate::model::status::reading::{Reason, Verdict, completion, prose, reasons};
use crate::observation::{FactValue, ObjectView};

/// Reads the phases of an object.
///
/// If its conditions are `summarized`, only the object's own phase and health are read.
pub(super) fn phases(
    status: &Status<'_>,
    profile: &Profile,
    runs: bool,
    summarized: bool,
) -> Option<Signal> {
    let phase_facts = || status.facts().filter(|fact| fact.is_phase());
    let started = completion::has_started_run(status);
    // The replicas of the shards of a single node have nowhere to go.
    let is_alone = || status.fact("status.availableNodes") == Some(&FactValue::Number(1));
    let read = |fact: &StatusFact<'_>| match phase(fact, profile) {
        Some(signal) if fact.text_is("yellow") && is_alone() => {
            Some(Signal { verdict: Verdict::Converged, reason: Reason::PhaseGood, ..signal })
        }
        // While an object runs to completion, `Running` means work in progress.
        Some(signal)
            if signal.verdict == Verdict::Converged
                && ((!summarized && started && fact.text_is("running"))
                    || (runs && fact.text_is_one_of(completion::BEFORE_THE_END))
                    || is_stage_done(status, fact)) =>
        {
            Some(Signal { verdict: Verdict::Progressing, reason: Reason::PhaseInMotion, ..signal })
        }
        // Some operators reconcile as long as the object exists.
        Some(signal)
            if signal.verdict == Verdict::Progressing
                && fact.text_is("reconciling")
                && says_success(status) =>
        {
            Some(Signal { verdict: Verdict::Converged, reason: Reason::PhaseGood, ..signal })
        }
        signal => signal.map(|signal| with_message(status, fact, signal)),
    };

    if summarized {
        return worst(phase_facts().filter(|fact| fact.is_own_phase()).map(read));
    }

    let is_healthy = phase_facts().filter(|fact| fact.is_own_phase()).any(|fact| {
        phase(fact, profile).is_some_and(|signal| signal.verdict == Verdict::Converged)
    });
    // Beside a good health, a difference from the source is no lack: a person may decide when to
    // apply it.
    let is_drift = |fact: &StatusFact<'_>| is_healthy && names_drift(fact);
    // An operation that ended with an earlier revision is over once the object is healthy.
    let is_past = |fact: &StatusFact<'_>| {
        is_healthy
            && fact.is_of_operation()
            && !fact.text_is("running")
            && is_of_earlier_revision(status)
    };

    // If nobody knows what the phase of the object means, a good phase of something in it does not tell.
    let is_unread = || {
        let own = own_phase(status);
        !own.is_empty()
            && !profile.phases.iter().any(|(word, _)| word.eq_ignore_ascii_case(own))
            && Words::of(own).sense().is_none()
    };
    let tells = |signal: &Signal| !signal.is_good() || !is_unread();

    // The phase with the smallest depth describes most of the object. At the same depth, phases
    // outside lists come first.
    (1..=4).find_map(|depth| {
        let at = |listed: bool| {
            let here = phase_facts().filter(|fact| fact.depth == depth && fact.listed == listed);
            let here = here.filter(|fact| !is_drift(fact) && !is_past(fact));
            let here = here.filter(|fact| !is_spare(status, fact));
            let mut signals: Vec<(bool, Signal)> =
                here.filter_map(|fact| Some((fact.is_own_phase(), read(fact)?))).collect();

            // A part that is off, such as `backup.phase: Disabled`, does not suspend the others.
            let off = |(own, signal): &(bool, Signal)| !own && signal.verdict == Verdict::Suspended;
            if !signals.iter().all(off) {
                signals.retain(|signal| !off(signal));
            }

            // The attempt that failed is being repeated.
            let retries = |(own, signal): &(bool, Signal)| {
                *own && signal.text.to_ascii_lowercase().ends_with("=retrying")
            };
            if signals.iter().any(retries) {
                signals.retain(|(_, signal)| signal.verdict != Verdict::Failed);
            }

            worst(signals.into_iter().map(|(_, signal)| Some(signal)))
        };

        at(false).or_else(|| at(true)).filter(tells)
    })
}

/// Returns the phase of the object itself, from the key that comes first in [`PHASE_KEYS`]. Returns
/// an empty text if the object has none.
pub(super) fn own_phase(object: &ObjectView) -> &str {
    let texts = object.facts.iter().filter_map(|fact| match &fact.value {
        FactValue::Text(text) if !text.is_empty() => Some((StatusFact::of(fact)?, text.as_str())),
        _ => None,
    });
    let own = texts.filter(|(fact, _)| fact.is_phase() && fact.is_own_phase());
    let order = |fact: &StatusFact<'_>| PHASE_KEYS.iter().position(|key| *key == fact.key.last());

    // Among equal keys, the deeper one is more specific: `health.status` comes before `status`.
    let first =
        own.min_by_key(|(fact, _)| (order(fact), fact.key.len(), std::cmp::Reverse(fact.depth)));
    first.map_or("", |(_, text)| text)
}

/// Returns the phase of the object itself or, if it has none, the only one in a map of its status:
/// `state.phase`.
pub(super) fn shown_phase(object: &ObjectView) -> &str {
    let own = own_phase(object);
    if !own.is_empty() {
        return own;
    }

    let mut below = object.facts.iter().filter_map(|fact| match &fact.value {
        FactValue::Text(text) if !text.is_empty() => {
            let known = StatusFact::of(fact)?;
            (known.depth == 2 && !known.listed && known.is_phase()).then_some(text.as_str())
        }
        _ => None,
    });
    below.next().filter(|_| below.next().is_none()).unwrap_or_default()
}

/// Returns whether a fact is about a strategy that does not work, beside one that does: one is enough.
fn is_spare(status: &Status<'_>, fact: &StatusFact<'_>) -> bool {
    let is_strategy = |fact: &StatusFact<'_>| fact.path.starts_with("status.strategies[");
    let is_good = |fact: &StatusFact<'_>| matches!(fact.value, FactValue::Text(text) if Words::of(text).sense() == Some(Sense::Good));
    let works = |other: &StatusFact<'_>| is_strategy(other) && is_good(other);

    is_strategy(fact) && !is_good(fact) && status.facts().any(works)
}

/// Returns whether a flag or the message beside a phase says that the last reconcile succeeded.
fn says_success(status: &Status<'_>) -> bool {
    let succeeded = |text: &str| ["ok", "success"].iter().any(|it| text.eq_ignore_ascii_case(it));
    status.fact("status.ready") == Some(&FactValue::Flag(true))
        || matches!(status.fact("status.message"), Some(FactValue::Text(text)) if succeeded(text))
}

/// Returns whether a phase of the object itself is the given word.
pub(super) fn is_in_phase(status: &Status<'_>, word: &str) -> bool {
    status.facts().any(|fact| fact.is_phase() && fact.is_own_phase() && fact.text_is(word))
}

/// Returns whether a phase of the object itself means work in progress.
pub(super) fn is_in_motion(status: &Status<'_>) -> bool {
    status.facts().any(|fact| {
        let in_motion = |text: &str| Words::of(text).sense() == Some(Sense::InProgress);
        fact.is_phase()
            && fact.is_own_phase()
            && matches!(fact.value, FactValue::Text(text) if in_motion(text))
    })
}

/// Returns whether a phase only compares the live state with the wanted one: `sync.status:
/// OutOfSync`.
fn names_drift(fact: &StatusFact<'_>) -> bool {
    let FactValue::Text(text) = fact.value else { return false };
    let words = Words::of(text);
    !fact.is_own_phase()
        && (words.has("outofsync") || (words.get(0) == "out" && words.last() == "sync"))
}

/// Returns whether the last operation of an Argo CD Application was about another revision than the one
/// that it is compared with now (argoproj/argo-cd: pkg/apis/application/v1alpha1/types.go).
fn is_of_earlier_revision(status: &Status<'_>) -> bool {
    let now = status.fact("status.sync.revision");
    let operation = status.fact("status.operationState.syncResult.revision");
    now.is_some() && operation.is_some() && now != operation
}

/// Returns whether a fact such as `stageStatus: success` says only that one stage is done:
/// `status.stage` exists and does not itself name a good end, such as `completed`.
fn is_stage_done(status: &Status<'_>, fact: &StatusFact<'_>) -> bool {
    let stage =
        fact.key.len() == 2 && matches!(fact.key.get(0), "stage" | "step") && fact.depth == 1;
    let path = if fact.key.get(0) == "stage" { "status.stage" } else { "status.step" };
    match status.fact(path) {
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
    if fact.is_of_operation() && fact.text_is("running") {
        let text = format!("{}={text}", fact.path);
        return Some(Signal::new(Verdict::Progressing, Reason::InMotion, text));
    }

    let special = profile
        .phases
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&text))
        .map(|(_, sense)| *sense);

    let words = Words::of(&text);
    if fact.depth > 1 && words.len() == 1 && words.get(0) == "unknown" {
        return None; // an unknown part says nothing about the object
    }

    let (verdict, reason) = match special.or_else(|| sense(&words))? {
        Sense::Good => (Verdict::Converged, Reason::PhaseGood),
        Sense::Done => (Verdict::Finished, Reason::PhaseDone),
        // Until a person decides, the operator has nothing to do.
        Sense::InProgress if fact.is_own_phase() && reasons::waits_for_person(&words) => {
            (Verdict::Suspended, Reason::PhaseSuspended)
        }
        Sense::InProgress => (Verdict::Progressing, Reason::PhaseInMotion),
        Sense::Lacking => read_lacking(&text),
        Sense::Bad => (Verdict::Failed, Reason::PhaseFailed),
        Sense::Paused => (Verdict::Suspended, Reason::PhaseSuspended),
    };

    Some(Signal::new(verdict, reason, format!("{}={text}", fact.path)))
}

/// Returns the meaning of a phase. `resources-created` names a step, and `runningWorkflow` what runs.
fn sense(words: &Words) -> Option<Sense> {
    let is_step = words.len() > 1 && words.last() == "created";
    let names_work = words.len() == 2
        && words.get(0) == "running"
        && senses::of(words.last()).is_none()
        && words.last().len() > 3;
    match words.sense()? {
        Sense::Good if is_step || names_work => Some(Sense::InProgress),
        sense => Some(sense),
    }
}

/// Turns a phase such as `NotReady` into a failure if the message of the status is an error.
fn with_message(status: &Status<'_>, fact: &StatusFact<'_>, signal: Signal) -> Signal {
    let FactValue::Text(phase) = fact.value else { return signal };
    let lacking = fact.depth == 1 && Words::of(phase).sense() == Some(Sense::Lacking);
    match status.fact("status.message") {
        Some(FactValue::Text(message)) if lacking && prose::reports_error(message) => {
            Signal { verdict: Verdict::Failed, reason: Reason::PhaseFailed, ..signal }
        }
        _ => signal,
    }
}

/// Reads a phase with the sense [`Sense::Lacking`]: the object is either broken or not ready yet.
fn read_lacking(text: &str) -> (Verdict, Reason) {
    let words = Words::of(text);
    let broken = ["unavailable", "down", "missing"].iter().any(|word| words.has(word))
        || words.has("compliant")
        || words.has("found");
    if broken {
        (Verdict::Failed, Reason::PhaseFailed)
    } else {
        (Verdict::Progressing, Reason::PhaseInMotion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Fact;

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
