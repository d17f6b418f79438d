//! Reads what any operator's status says about the current generation, by general rules.
//!
//! ```text
//!  switch? ─▶ acknowledged? ─▶ conditions ─┐
//!                              phases ─────┼─▶ the worst that is said ─▶ verdict
//!                              flags, counts, errors (when the others are silent)
//! ```

mod conditions;
mod facts;
mod polarity;
mod profiles;
mod senses;
mod signals;
mod words;

use crate::observation::{ObjectView, StatusShape};

use self::signals::{Says, Signal, worst};

/// What a status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the operator has seen the current generation.
    pub acknowledged: Acknowledged,
    /// The rule that decided.
    pub reason: Reason,
    /// The words it decided on, for people: `Ready=False (InvalidSpec)`, `status.phase=Failed`.
    pub signal: String,
}

/// What a status says about the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The world is as the spec asks.
    Converged,
    /// Work is under way, or has not begun.
    Progressing,
    /// The operator answered: it cannot, or something is broken.
    Failed,
    /// A person paused it.
    Suspended,
    /// It ran to its end and owes nothing more.
    Finished,
    /// Nothing that can be judged.
    #[default]
    Unknown,
}

/// Whether the operator says it has seen the current generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acknowledged {
    /// `observedGeneration` has caught up.
    Yes,
    /// It lags behind.
    No,
    /// This object says nothing about it.
    #[default]
    Unsaid,
}

/// Declares the enum and its words from one list.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The rule that decided, as a closed list fit for a label.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// As a label value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }
        }
    };
}

reasons! {
    /// No rule applied.
    #[default]
    NothingToJudge,
    /// A switch pauses the object.
    Paused,
    /// `observedGeneration` lags behind.
    NotAcknowledged,
    /// Nothing is said but that the generation was seen.
    Acknowledged,
    /// A condition that sums up is true.
    ReadyTrue,
    /// A condition that sums up is false, for a reason that is no waiting.
    ReadyFalse,
    /// A condition that sums up is false, and the reason is waiting or work.
    ReadyPending,
    /// A condition that sums up is unknown.
    ReadyUnknown,
    /// A step on the way is done, and nothing says that all are.
    StepTrue,
    /// The conditions of parts are true.
    ConditionsTrue,
    /// The condition of a part is unknown.
    ConditionUnknown,
    /// A condition of a final failure is true.
    StalledTrue,
    /// A condition that names a fault is true.
    FaultTrue,
    /// Conditions that name faults are false, and there are no others.
    NoFault,
    /// A condition says by its severity that it is an error.
    SeverityError,
    /// A condition that names work is true.
    InMotion,
    /// A condition says that the object is suspended.
    SuspendedTrue,
    /// It ran to its end.
    Complete,
    /// It ran to its end and failed.
    EndedBadly,
    /// The phase is a good one.
    PhaseGood,
    /// The phase is the last one of a run.
    PhaseDone,
    /// The phase is one on the way.
    PhaseInMotion,
    /// The phase names a failure.
    PhaseFailed,
    /// The phase is one of rest.
    PhaseSuspended,
    /// A verdict flag is true.
    FlagTrue,
    /// A verdict flag is false.
    FlagFalse,
    /// There is an error text.
    ErrorText,
    /// A schedule has fired.
    Scheduled,
    /// Replicas are held back on purpose, as `partition` asks.
    HeldBack,
    /// Nothing is wanted.
    ScaledToZero,
    /// As many replicas as wanted.
    CountsMet,
    /// Fewer replicas than wanted.
    CountsShort,
}

/// Whether a condition says how the object is, rather than how busy it is: only those can flap or be lost.
pub(crate) fn decides(condition: &str) -> bool {
    use polarity::Polarity::{Fault, Lack, Part, Root, Terminal};
    matches!(polarity::kind(condition), Root(_) | Part | Fault | Terminal | Lack)
}

/// Whether an object may stay in a phase for ever, going by the word alone.
pub(crate) fn may_last(phase: &str) -> bool {
    use senses::Sense::{Done, Good, Rest};
    matches!(words::Words::of(phase).sense(), Some(Good | Done | Rest))
}

/// Reads the status of one object.
#[must_use]
pub fn read(group: &str, kind: &str, object: &ObjectView) -> Reading {
    let acknowledged = acknowledged(object);
    let reading = |verdict, reason, signal| Reading { verdict, acknowledged, reason, signal };
    if let Some(pause) = &object.paused {
        return reading(Verdict::Suspended, Reason::Paused, pause.by.clone());
    }
    if acknowledged == Acknowledged::No {
        let seen = object.observed_generation.or_else(|| conditions::newest_generation(object)).unwrap_or_default();
        let words = format!("observedGeneration={seen}, generation={}", object.generation);
        return reading(Verdict::Progressing, Reason::NotAcknowledged, words);
    }
    let profile = profiles::of(group, kind);
    match judge(object, &profile) {
        Some(Signal { says, reason, words }) => reading(says.into(), reason, words),
        None if acknowledged == Acknowledged::Yes => reading(Verdict::Converged, Reason::Acknowledged, String::new()),
        None => reading(Verdict::Unknown, Reason::NothingToJudge, String::new()),
    }
}

fn acknowledged(object: &ObjectView) -> Acknowledged {
    // Many operators say it only in their conditions.
    match object.observed_generation.or_else(|| conditions::newest_generation(object)) {
        Some(seen) if seen >= object.generation => Acknowledged::Yes,
        Some(_) => Acknowledged::No,
        None => Acknowledged::Unsaid,
    }
}

fn judge(object: &ObjectView, profile: &profiles::Profile) -> Option<Signal> {
    if object.status != StatusShape::Filled {
        return None;
    }
    let said = conditions::says(object);
    let whole = said.as_ref().is_some_and(|said| said.whole);
    let minimal = said.as_ref().is_some_and(|said| said.minimal);
    let phases = facts::phases(object, profile, whole);
    // A step on the way says less than any phase.
    let said = said.filter(|said| said.signal.reason != Reason::StepTrue || phases.is_none());
    let conditions = said.map(|said| lacks(object, profile, said.signal));
    // What is stopped on purpose is not ready.
    if let Some(phase) = phases.as_ref().filter(|phase| phase.says == Says::Rest)
        && conditions.as_ref().is_some_and(|said| matches!(said.reason, Reason::ReadyFalse | Reason::ReadyPending))
    {
        return Some(phase.clone());
    }
    let said = worst([conditions, phases]);
    if let Some(said) = said.as_ref().filter(|said| whole && said.says > Says::Done)
        && matches!(said.reason, Reason::ReadyFalse | Reason::ReadyPending)
        && facts::scaled_to_zero(object, conditions::rolled_out(object))
    {
        return Some(Signal::new(Says::Good, Reason::ScaledToZero, "status.replicas=0"));
    }
    let said = if whole || said.is_some() { said } else { facts::flags(object) };
    let said = if whole { said } else { worst([said, facts::listed_flags(object)]) };
    let counts = if whole && !minimal { None } else { facts::counts(object, said.is_some()) };
    match worst([said, counts]).or_else(|| facts::schedule(object)) {
        // An error text may be left over from before.
        Some(said) if said.says <= Says::Done => Some(ended(object, profile, said)),
        said => worst([said, facts::errors(object)]),
    }
}

/// Where a condition must be there before all is well, its absence is work in progress.
fn lacks(object: &ObjectView, profile: &profiles::Profile, said: Signal) -> Signal {
    let there = object.conditions.iter().any(|condition| condition.r#type == profile.needs);
    if profile.needs.is_empty() || there || said.says > Says::Done {
        return said;
    }
    Signal::new(Says::Motion, Reason::ReadyPending, format!("no condition {}", profile.needs))
}

/// Tells what ran to its end from what stays as it is: `Succeeded` is said of both.
fn ended(object: &ObjectView, profile: &profiles::Profile, said: Signal) -> Signal {
    let done = said.says == Says::Done || said.words.to_ascii_lowercase().contains("succe");
    let ran = facts::ended(object) || profile.finishes || (said.reason == Reason::Complete && said.says == Says::Done);
    Signal { says: if done && ran { Says::Done } else { Says::Good }, ..said }
}
