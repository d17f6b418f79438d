//! Reads the status of an object and decides whether its current spec is in effect.
//!
//! The rules interpret words, so they apply to any operator; `profiles.rs` lists the few
//! exceptions. For kinds of Kubernetes itself, `workloads.rs` and `builtin.rs` have exact rules,
//! because their controllers are known.
//!
//! ```text
//!  paused? ─▶ acknowledged? ─▶ conditions ─┐
//!                              phases ─────┼─▶ worst signal ─▶ verdict
//!                              flags, counts, parts, errors (mostly if the others have no signal)
//! ```

mod senses; // the meaning of single words
mod words; // the meaning of compounds: condition types, reasons, phases
mod polarity; // the meaning of a condition type
mod prose; // errors in messages
mod signals; // the meaning of one part of a status
mod reasons; // the reason and the message of a condition
mod conditions;
mod roles; // the conditions at one place, by the meaning of their types
mod remarks; // conditions that matter only with something else
mod profiles; // exceptions for well-known kinds
mod workloads; // the workload kinds of Kubernetes, by rules of their own
mod builtin; // other kinds of Kubernetes, by rules of their own
mod facts; // fields of the status, and the meaning of their keys
mod phases;
mod flags; // flags, error texts, the message
mod completion; // objects that run to completion: their kinds, their ends, their results
mod counts;
mod parts; // verdicts in lists
mod remembered; // what the model keeps of the status of an object at rest
mod runs; // objects that do their work once and end
mod service; // whether a workload has any Pod that works
mod claims; // that something runs
mod work; // work in progress on objects that had converged

use self::facts::Status;
use self::signals::{Signal, worst};
use crate::observation::{
    Condition, ConditionStatus, FactValue, HandlerAttempts, ObjectView, StatusShape,
};
use crate::time::{Span, Timestamp};

pub(crate) use self::claims::claim;
pub(crate) use self::prose::lacks_capacity;
pub(crate) use self::remarks::{is_unobserved, observed_generation};
pub(crate) use self::remembered::signal as remembered_signal;
pub(crate) use self::runs::{has_begun, is_timed_work, waits_for_quota, will_end};
pub(crate) use self::service::{Failure, Service, serves, service};
pub(crate) use self::work::{
    is_at_work, reports_work, says_idle, stands, stands_since, unmet_since,
};

/// How long an operator may take after the end of a run to write its conditions.
const WRITTEN_WITHIN: Span = Span::mins(1);

/// Words for work that makes an object for the first time.
const MAKES: [&str; 6] =
    ["bootstrapping", "creating", "initialising", "initializing", "installing", "provisioning"];

/// The failed attempts in a row after which a handler of the operator counts as failing. One or two
/// are part of normal work: a conflict, or something that is not there yet.
const SEVERAL_ATTEMPTS: u32 = 3;

/// The meaning of a status for the current generation, with the rule that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict that applies if no object of this kind ever has conditions about its health. It
    /// differs from `verdict` only if `reason` is [`Reason::NoSummaryYet`].
    pub fallback: Verdict,
    /// Whether the operator has seen the current generation.
    pub acknowledged: Acknowledged,
    /// The rule that decided the verdict.
    pub reason: Reason,
    /// The part of the status that decided the verdict, as text for people, such as `Ready=False
    /// (InvalidSpec)` or `status.phase=Failed`.
    pub signal: String,
}

impl Reading {
    /// Returns the type of the condition, or the path of the field, that decided the verdict.
    pub(crate) fn part(&self) -> &str {
        part_of(&self.signal)
    }
}

/// Returns the type of the condition, or the path of the field, in a signal.
fn part_of(signal: &str) -> &str {
    signal.split(['=', ' ']).next().unwrap_or_default()
}

/// The meaning of a status for the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The spec is in effect.
    Converged,
    /// Work is in progress, or has not started.
    Progressing,
    /// The operator cannot bring the spec into effect, or something is broken.
    Failed,
    /// The object is paused on purpose.
    Suspended,
    /// The object ran to completion.
    Finished,
    /// The status says nothing that loopwatch can interpret.
    #[default]
    Unknown,
}

/// Whether the status says that the operator has seen the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acknowledged {
    /// `observedGeneration` has caught up.
    Yes,
    /// `observedGeneration` is behind.
    No,
    /// The status has no `observedGeneration`.
    #[default]
    Unreported,
}

/// Declares [`Reason`], its label values and its words from one list.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $words:literal),+ $(,)?) => {
        /// The rule that decided a verdict; a closed set of label values.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            /// Returns the label value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }

            /// Returns the words for people that stand for a label value; `None` if the text is not
            /// a label value.
            #[must_use]
            pub fn words(label: &str) -> Option<&'static str> {
                match label {
                    $(stringify!($name) => Some($words),)+
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// No rule applied.
    #[default]
    NothingToJudge => "no status to judge",
    /// A field pauses the object.
    Paused => "paused",
    /// An annotation or a label makes the operator skip the object.
    Skipped => "skipped",
    /// The object is only read, so its operator does nothing for it.
    Inert => "its operator does nothing for it",
    /// A handler of the operator fails, and is tried again and again.
    HandlerFails => "a handler of the operator keeps failing",
    /// `observedGeneration` is behind.
    NotAcknowledged => "observedGeneration is behind",
    /// `observedGeneration` is current, and nothing else can be interpreted.
    Acknowledged => "observedGeneration is current",
    /// The operator writes conditions, but none about the health of the object yet.
    NoSummaryYet => "no condition about its health yet",
    /// A summary condition, such as `Ready`, is true.
    ReadyTrue => "a summary condition is True",
    /// A summary condition is false, and its reason is a failure.
    ReadyFalse => "a summary condition is False",
    /// A summary condition is false, and its reason is waiting or work in progress.
    ReadyPending => "a summary condition is not True yet",
    /// A summary condition has the status `Unknown`.
    ReadyUnknown => "a summary condition is Unknown",
    /// An intermediate step is done, and nothing shows that all steps are.
    StepTrue => "a step is done, but perhaps not all of them",
    /// There is no summary condition, and the conditions of all parts are true.
    ConditionsTrue => "all conditions are True",
    /// The condition of a part has the status `Unknown`.
    ConditionUnknown => "a condition is Unknown",
    /// A condition that means a permanent failure, such as `Stalled`, is true.
    StalledTrue => "a condition reports a permanent failure",
    /// A condition that means a fault is true.
    FaultTrue => "a condition reports a fault",
    /// Conditions that mean faults are false, and there are no other conditions.
    NoFault => "no condition reports a fault",
    /// The severity of a condition is `Error`.
    SeverityError => "the severity of a condition is Error",
    /// A condition that means work in progress is true, or an operation on the object runs.
    InMotion => "a condition or an operation reports work in progress",
    /// A condition that means that the object is suspended is true.
    SuspendedTrue => "a condition reports that it is suspended",
    /// The object ran to completion.
    Complete => "it ran to completion",
    /// The object ran to completion and failed.
    EndedBadly => "it ran to completion and failed",
    /// The phase means healthy.
    PhaseGood => "its phase means healthy",
    /// The phase means that the run is complete.
    PhaseDone => "its phase means complete",
    /// The phase means work in progress.
    PhaseInMotion => "its phase means work in progress",
    /// The phase means a failure.
    PhaseFailed => "its phase means a failure",
    /// The phase means suspended.
    PhaseSuspended => "its phase means suspended",
    /// A flag, such as `status.ready`, is true.
    FlagTrue => "a flag such as status.ready is true",
    /// A flag, such as `status.ready`, is false.
    FlagFalse => "a flag such as status.ready is false",
    /// The status contains an error text.
    ErrorText => "the status contains an error",
    /// A condition says that nothing is wanted of the object now.
    Resting => "nothing is wanted of it now",
    /// A schedule has run at least once.
    Scheduled => "its schedule has run",
    /// Replicas are held back on purpose, by `partition`.
    HeldBack => "the partition holds replicas back",
    /// No replicas are wanted.
    ScaledToZero => "it is scaled to zero",
    /// All wanted replicas are ready.
    CountsMet => "all wanted replicas are ready",
    /// Fewer replicas than wanted are ready.
    CountsShort => "fewer replicas are ready than wanted",
}

/// Returns whether the signal of a failure is a verdict about other objects. A policy that finds a violation
/// works as it should: `status.compliant=NonCompliant`.
pub(crate) fn judges_others(signal: &str) -> bool {
    part_of(signal).rsplit('.').next() == Some("compliant")
}

/// Returns whether a condition type describes health rather than activity. Only these count for
/// flapping and regressions.
pub(crate) fn describes_health(condition_type: &str) -> bool {
    use polarity::Polarity::{Fault, Lacking, Part, Summary, Terminal};

    matches!(polarity::Polarity::of(condition_type), Summary(_) | Part | Fault | Terminal | Lacking)
}

/// Returns whether a condition says that the object, or a part of it, is not healthy.
pub(crate) fn is_bad(condition: &Condition) -> bool {
    use polarity::Polarity::{Fault, Lacking, Part, Summary, Terminal};

    match polarity::Polarity::of(&condition.r#type) {
        Summary(_) | Part => condition.status != ConditionStatus::True,
        Fault | Terminal | Lacking => condition.status == ConditionStatus::True,
        _ => false,
    }
}

/// Returns the phase of an object; empty if it has none.
pub(crate) fn phase(object: &ObjectView) -> &str {
    phases::own_phase(object)
}

/// Returns when the phase with this path last changed, if a time beside it says so: for
/// `status.health.status`, `status.health.lastTransitionTime`.
pub(crate) fn phase_changed(object: &ObjectView, path: &str) -> Option<Timestamp> {
    let parent = path.rsplit_once('.').filter(|_| path.starts_with("status."))?.0;
    object.facts.iter().find_map(|fact| {
        let (beside, key) = fact.path.rsplit_once('.')?;
        let is_time = beside == parent && words::Words::of(key).has("transition");
        match &fact.value {
            FactValue::Text(text) if is_time => Timestamp::parse(text),
            _ => None,
        }
    })
}

/// Returns whether an object may stay in this phase indefinitely, for example in `Running` or
/// `Suspended`.
pub(crate) fn is_resting_phase(phase: &str) -> bool {
    use senses::Sense::{Done, Good, Paused};

    matches!(words::Words::of(phase).sense(), Some(Good | Done | Paused))
}

/// Returns whether objects of the kind run to completion.
pub(crate) fn runs_to_completion(group: &str, kind: &str) -> bool {
    completion::is_run_kind(kind) || profiles::of(group, kind).runs_to_completion
}

/// Returns whether the run of the object has ended and the failure at `failed` belongs to it. A
/// failure more than [`WRITTEN_WITHIN`] after the end does not.
pub(crate) fn ended_with(object: &ObjectView, failed: Timestamp) -> bool {
    completion::run_ended(&Status::of(object))
        .is_some_and(|ended| failed <= ended.after(WRITTEN_WITHIN))
}

/// Returns whether the phase, or the reason of a condition that is not true, names work that makes an
/// object for the first time. Some operators use the same words when they replace parts of it.
pub(crate) fn is_being_made(object: &ObjectView) -> bool {
    let makes = |text: &str| words::Words::of(text).iter().any(|word| MAKES.contains(&word));
    let is_not_true = |condition: &&Condition| condition.status != ConditionStatus::True;
    let mut reasons = object.conditions.iter().filter(is_not_true);

    makes(phases::own_phase(object)) || reasons.any(|condition| makes(&condition.reason))
}

/// Returns whether a kind is a built-in workload kind, whose status has exact rules.
#[must_use]
pub fn is_workload(group: &str, kind: &str) -> bool {
    workloads::has_rules(group, kind)
}

/// Returns whether the object is a running Job, or a CronJob with one. Its owner may wait for it,
/// but no deadline applies to the object itself.
pub(crate) fn is_running_job(group: &str, kind: &str, reading: &Reading) -> bool {
    workloads::runs_without_deadline(group, kind) && reading.reason == Reason::InMotion
}

/// Reads the status of one object of the given kind.
#[must_use]
pub fn read(group: &str, kind: &str, object: &ObjectView) -> Reading {
    let acknowledged = acknowledged(object);
    let reading = |verdict, reason, signal| Reading {
        verdict,
        fallback: verdict,
        acknowledged,
        reason,
        signal,
    };

    let exact = workloads::read(group, kind, object).or_else(|| builtin::read(group, kind, object));
    if let Some(Signal { verdict, reason, text }) = exact {
        return reading(verdict, reason, text);
    }

    // `spec.running: false` states a desire. An object that is still starting is not paused yet.
    // Nor is one that is still stopping.
    let is_in = |words: &[&str]| {
        let status = Status::of(object);
        words.iter().any(|word| phases::is_in_phase(&status, word))
    };
    let pause = object.paused.as_ref().filter(|pause| {
        !(pause.by == "spec.running" && is_in(&["starting"]))
            && (pause.is_mark() || !is_in(&["pausing", "stopping", "suspending"]))
    });
    if let Some(pause) = pause {
        let reason = if pause.is_mark() { Reason::Skipped } else { Reason::Paused };
        return reading(Verdict::Suspended, reason, pause.by.clone());
    }

    let profile = profiles::of(group, kind);
    let is_inert = profile.inert.is_some_and(|(path, value)| {
        object.status != StatusShape::Filled
            && matches!(object.fact(path), Some(FactValue::Text(text)) if text == value)
    });
    if is_inert {
        return reading(Verdict::Converged, Reason::Inert, String::new());
    }

    if acknowledged == Acknowledged::No {
        let seen = observed_generation(object).unwrap_or_default();
        let text = format!("observedGeneration={seen}, generation={}", object.generation);
        return reading(Verdict::Progressing, Reason::NotAcknowledged, text);
    }

    let runs = completion::is_run_kind(kind);
    let signal = worst_signal(&Status::of(object), kind, &profile, runs);

    // Healthy entries of lists do not make up for missing conditions about health.
    let from_parts = |signal: &Signal| signal.is_good() && signal.text.contains('[');
    let unsaid = if signal.as_ref().is_none_or(from_parts) {
        remarks::none_about_health(object)
    } else {
        None
    };
    let said = match signal {
        Some(Signal { verdict, reason, text }) => reading(verdict, reason, text),
        // That the operator has seen a run says nothing about its end, if conditions will say that.
        None if acknowledged == Acknowledged::Yes && (!runs || object.conditions.is_empty()) => {
            reading(Verdict::Converged, Reason::Acknowledged, String::new())
        }
        None => reading(Verdict::Unknown, Reason::NothingToJudge, String::new()),
    };

    if matches!(said.verdict, Verdict::Converged | Verdict::Unknown)
        && let Some(attempts) = failing_handler(object)
    {
        let text = format!("{} attempts of handler {}", attempts.failed, attempts.handler);
        return reading(Verdict::Progressing, Reason::HandlerFails, text);
    }

    match unsaid {
        Some(Signal { verdict, reason, text }) => {
            Reading { fallback: said.verdict, ..reading(verdict, reason, text) }
        }
        None => said,
    }
}

/// Returns the handler that has failed several times in a row. The operator still works on the
/// object then, whatever the status says.
fn failing_handler(object: &ObjectView) -> Option<&HandlerAttempts> {
    object.most_attempts().filter(|attempts| attempts.failed >= SEVERAL_ATTEMPTS)
}

fn acknowledged(object: &ObjectView) -> Acknowledged {
    match observed_generation(object) {
        Some(seen) if seen >= object.generation => Acknowledged::Yes,
        Some(_) => Acknowledged::No,
        None => Acknowledged::Unreported,
    }
}

fn worst_signal(
    status: &Status<'_>,
    kind: &str,
    profile: &profiles::Profile,
    runs: bool,
) -> Option<Signal> {
    if status.status != StatusShape::Filled {
        return None;
    }

    if let Some(signal) = resting(status, profile) {
        return Some(signal);
    }

    // A phase has no generation, so a `Ready=True` that has one overrules a bad phase, unless another
    // condition agrees with that.
    let conditions = conditions::read(status, kind);
    let summarized = conditions.as_ref().is_some_and(|conditions| conditions.summarized);
    let minimal = conditions.as_ref().is_some_and(|conditions| conditions.minimal);
    let dated = conditions
        .as_ref()
        .is_some_and(|conditions| conditions.dated && conditions.signal.is_good());
    let overruled = dated && !conditions::agree_with_phase(status);
    let phases = phases::phases(status, profile, runs, summarized).filter(|phase| {
        !overruled || !matches!(phase.verdict, Verdict::Failed | Verdict::Progressing)
    });

    // An object in the phase `Running` has been deployed, so an unhealthy part is a fault.
    let unhealthy =
        remarks::unhealthy_part(status).filter(|_| phases::is_in_phase(status, "running"));

    let work = profile.work.and_then(|path| status.facts().find(|fact| fact.path == path));
    let work = work.and_then(|fact| phases::phase(fact, profile));
    let phases = worst([phases, work.filter(|signal| !signal.is_good())]);

    let is_done =
        || words::Words::of(phases::own_phase(status)).sense() == Some(senses::Sense::Done);
    if profile.ends_with_phase && is_done() {
        return phases;
    }

    // A phase takes precedence over a condition that reports a completed step.
    let conditions = conditions.map(|conditions| conditions.signal);
    let conditions =
        conditions.filter(|signal| signal.reason != Reason::StepTrue || phases.is_none());
    let conditions = conditions.map(|signal| with_required_condition(status, profile, signal));

    // An object that is paused on purpose is not ready, but it has not failed.
    if let Some(phase) = phases.as_ref().filter(|phase| phase.verdict == Verdict::Suspended)
        && conditions.as_ref().is_some_and(Signal::is_summary_false)
        && !conditions::names_a_failure(status)
    {
        return Some(phase.clone());
    }

    // Once the phase says that a run has ended, a condition without a summary, such as
    // `Running=False`, does not mean work in progress.
    let ended = |signal: &Signal| runs && signal.verdict == Verdict::Finished;
    let conditions = conditions.filter(|signal| {
        signal.verdict != Verdict::Progressing || summarized || !phases.as_ref().is_some_and(ended)
    });
    let phases = worst([phases, completion::unfinished(status)]);
    let signal = worst([conditions, phases, unhealthy]);

    // An object that is scaled to zero need not be ready.
    if let Some(signal) = signal.as_ref().filter(|signal| summarized && !signal.is_good())
        && signal.is_summary_false()
        && !conditions::names_a_failure(status)
        && counts::scaled_to_zero(status, remarks::rolled_out(status))
    {
        return Some(Signal::new(Verdict::Converged, Reason::ScaledToZero, "status.replicas=0"));
    }

    // A summary covers flags and counts, except counts of parts that are too low. `Available` alone
    // does not cover counts.
    let signal = if summarized || signal.is_some() { signal } else { flags::flags(status) };
    let signal = match summarized {
        true => signal,
        false => worst([signal, flags::flags_of_parts(status), flags::flags_of_work(status)]),
    };
    let counts = if summarized && !minimal {
        parts::short_counts(status)
    } else {
        counts::read(status, signal.is_some())
    };

    // Counts that are too low confirm a fault whose reason contradicts it.
    let short = counts.as_ref().is_some_and(|counts| counts.reason == Reason::CountsShort);
    let doubtful = if short { remarks::doubtful_fault(status) } else { None };
    let signal = worst([signal, counts, doubtful]).or_else(|| completion::schedule(status));

    let signal = match signal {
        Some(signal) if signal.verdict == Verdict::Suspended => Some(signal),
        Some(signal) if signal.verdict == Verdict::Finished => {
            Some(completion::bad_result(status).unwrap_or(signal))
        }
        signal => worst([signal, parts::read(status, profile, runs)]),
    };

    match signal {
        // Beside a good signal, an error text may be left over from an earlier attempt. Steps that
        // are done, however, say nothing about a later error.
        Some(signal) if signal.reason == Reason::NoFault => {
            flags::listed_errors(status).or(Some(signal))
        }
        Some(signal) if signal.is_good() => {
            let later = signal.reason == Reason::ConditionsTrue;
            let present = if later { flags::present_error(status) } else { None };
            let present = present.or_else(|| errors_of_the_work(status));
            let error = present.or_else(|| flags::graded_error(status));
            error.or_else(|| Some(converged_or_finished(status, profile, runs, signal)))
        }
        signal => worst([signal, flags::errors(status), flags::graded_error(status)])
            .or_else(|| flags::message(status)),
    }
}

/// Reads the errors beside a phase that says that the work is over, but not how it ended: `Processed`.
fn errors_of_the_work(status: &Status<'_>) -> Option<Signal> {
    let is_over = words::Words::of(phases::own_phase(status)).last() == "processed";
    if is_over { flags::listed_errors(status) } else { None }
}

/// Reads a condition that means that nothing is wanted of the object now.
fn resting(status: &Status<'_>, profile: &profiles::Profile) -> Option<Signal> {
    let mut own = status.conditions.iter().filter(|condition| condition.at.is_empty());
    own.find_map(|condition| {
        let says = |text: &str| condition.reason == text || condition.message == text;
        let mut rests = profile.rests.iter();
        let (.., verdict) =
            rests.find(|(name, text, _)| condition.r#type == *name && says(text))?;

        Some(Signal::new(*verdict, Reason::Resting, reasons::show(condition)))
    })
}

/// Turns a good signal into work in progress if the condition that the profile requires is missing.
fn with_required_condition(
    status: &Status<'_>,
    profile: &profiles::Profile,
    signal: Signal,
) -> Signal {
    let required = profile.required_condition;
    let present = status.conditions.iter().any(|condition| condition.r#type == required);
    if required.is_empty() || present || !signal.is_good() {
        return signal;
    }

    Signal::new(Verdict::Progressing, Reason::ReadyPending, format!("no condition {required}"))
}

/// Decides whether a good signal means converged or finished. The word `Succeeded` alone does not
/// decide, because objects that keep running use it as well as those that ran to completion.
fn converged_or_finished(
    status: &Status<'_>,
    profile: &profiles::Profile,
    runs: bool,
    signal: Signal,
) -> Signal {
    let done =
        signal.verdict == Verdict::Finished || signal.text.to_ascii_lowercase().contains("succe");
    // Of an object that goes on, such as one in the phase `Running`, only the installation is complete.
    let goes_on = words::Words::of(phases::own_phase(status)).sense() == Some(senses::Sense::Good);
    let complete =
        signal.reason == Reason::Complete && signal.verdict == Verdict::Finished && !goes_on;
    let ran = completion::ended(status) || profile.runs_to_completion || runs || complete;

    Signal { verdict: if done && ran { Verdict::Finished } else { Verdict::Converged }, ..signal }
}
