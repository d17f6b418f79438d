//! What conditions say.

use super::polarity::{GOALS, Polarity, ROOTS, kind};
use super::senses::Sense;
use super::signals::{Says, Signal};
use super::words::Words;
use super::{Reason, Verdict};
use crate::observation::ConditionStatus::{self, Absent, False, True, Unknown};
use crate::observation::{Condition, ObjectView};

/// Words of the places in which conditions are about the object itself, not about its pods or children.
const OWN: &[&str] = &[
    "parents",
    "listeners",
    "ancestors",
    "condition",
    "conditions",
    "conditioned",
    "status",
    "state",
    "health",
    "common",
    "overall",
];

/// Lists in which every entry is a verdict of its own on the object, and all count.
const PARTS: &[&str] = &["parents", "listeners", "ancestors"];

/// What conditions say.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) signal: Signal,
    /// Whether they sum the object up.
    pub(super) whole: bool,
    /// Whether they do so by the least that is needed: `Available` with one replica of three.
    pub(super) minimal: bool,
}

/// What all conditions of an object say together, and whether they sum it up.
pub(super) fn says(object: &ObjectView) -> Option<Said> {
    let top = object.conditions.iter().any(|condition| condition.at.is_empty());
    let mut places: Vec<&str> = Vec::new();
    for condition in &object.conditions {
        let at = condition.at.as_str();
        let first = at.split(['.', '[']).next().unwrap_or_default();
        let counts = at.is_empty() || PARTS.contains(&first) || (!top && own(first));
        if counts && !places.contains(&at) {
            places.push(at);
        }
    }
    places.into_iter().filter_map(|at| group(object, at)).reduce(|a, b| Said {
        signal: a.signal.worse(b.signal),
        whole: a.whole && b.whole,
        minimal: a.minimal || b.minimal,
    })
}

/// Whether conditions under this key of the status are the object's own.
fn own(key: &str) -> bool {
    let words = Words::of(key);
    let version = words.len() == 1
        && words.get(0).starts_with('v')
        && words.get(0).as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    version || (OWN.contains(&words.last()) && !words.has("pod") && !words.has("node"))
}

/// What the conditions at one place say.
fn group(object: &ObjectView, at: &str) -> Option<Said> {
    let mut sum = Sum::default();
    for condition in object.conditions.iter().filter(|condition| condition.at == at) {
        let stale = condition.observed_generation.is_some_and(|seen| seen < object.generation);
        sum.add(condition, stale, object.observed_generation.is_some());
    }
    sum.verdict()
}

/// The conditions of one place, sorted by what they are.
#[derive(Default)]
struct Sum {
    /// The condition that is closest to the whole, and what it says.
    root: Option<(u8, Signal)>,
    /// The worst of the other roots that say something bad or under way.
    roots: Option<Signal>,
    part: Option<Signal>,
    end: Option<Signal>,
    fault: Option<Signal>,
    terminal: Option<Signal>,
    motion: Option<Signal>,
    /// Work that is said to be over.
    over: Option<Signal>,
    /// Work that may mean nothing.
    restless: Option<Signal>,
    rest: Option<Signal>,
    /// A step on the way.
    step: Option<Signal>,
    /// Whether it is in use: a verdict only where there is no other.
    active: Option<Signal>,
    /// Bad or moving types that say no.
    cleared: Option<Signal>,
}

/// Whether reason or message say why something is not as it should be.
fn says_something(condition: &Condition) -> bool {
    let wrong = |text: &str| matches!(sense(text), Some(Sense::Bad | Sense::Motion | Sense::Lacking));
    wrong(&condition.reason) || wrong(&condition.message)
}

/// Whether the reason of a type that names work says that it is over.
fn is_over(condition: &Condition) -> bool {
    Words::of(&condition.reason).iter().any(|word| GOALS.contains(&word))
}

fn sense(text: &str) -> Option<Sense> {
    Words::of(text).sense()
}

/// Whether the type says that the object is in use.
fn is_active(condition: &Condition) -> bool {
    condition.r#type.eq_ignore_ascii_case("active")
}

fn put(slot: &mut Option<Signal>, signal: Signal) {
    *slot = Some(match slot.take() {
        Some(kept) => kept.worse(signal),
        None => signal,
    });
}

// === impl Sum ===

impl Sum {
    /// Takes a condition in; `stale` when it is about an earlier generation, `dated` when the status as a whole says
    /// which generation it is about, so that a root may lag on purpose.
    fn add(&mut self, condition: &Condition, stale: bool, dated: bool) {
        match kind(&condition.r#type) {
            Polarity::Root(place) if stale && !dated => {
                self.add_root(place, Signal::new(Says::Motion, Reason::ReadyPending, show(condition)));
            }
            Polarity::Root(place) => self.root(place, condition),
            Polarity::End => self.end(condition),
            _ if stale => {}
            Polarity::Part => self.part(condition),
            Polarity::Weak | Polarity::Step => self.minor(condition),
            kind @ (Polarity::Fault | Polarity::Terminal | Polarity::Lack) => self.fault(kind, condition),
            Polarity::Motion => self.motion(condition),
            Polarity::Rest | Polarity::Neutral => self.rest(condition),
        }
    }

    fn root(&mut self, place: u8, condition: &Condition) {
        match condition.status {
            True => self.add_root(place, Signal::new(Says::Good, Reason::ReadyTrue, show(condition))),
            False => self.add_root(place, denied(condition)),
            Unknown => {
                let says = if sense(&condition.reason) == Some(Sense::Bad) { Says::Bad } else { Says::Motion };
                self.add_root(place, Signal::new(says, Reason::ReadyUnknown, show(condition)));
            }
            // Without one of the three statuses only the words count.
            Absent if says_something(condition) => self.add_root(place, denied(condition)),
            Absent => {}
        }
    }

    fn part(&mut self, condition: &Condition) {
        let signal = match condition.status {
            True => Signal::new(Says::Good, Reason::ConditionsTrue, show(condition)),
            False => denied(condition),
            Unknown => Signal::new(Says::Motion, Reason::ConditionUnknown, show(condition)),
            Absent => return,
        };
        put(&mut self.part, signal);
    }

    fn end(&mut self, condition: &Condition) {
        let signal = match condition.status {
            True if sense(&condition.reason) == Some(Sense::Bad) => {
                Signal::new(Says::Bad, Reason::EndedBadly, show(condition))
            }
            True => Signal::new(Says::Done, Reason::Complete, show(condition)),
            False | Unknown => denied(condition),
            Absent => return,
        };
        put(&mut self.end, signal);
    }

    /// Types that only sound good, or are true long before all is well.
    fn minor(&mut self, condition: &Condition) {
        let step = kind(&condition.r#type) == Polarity::Step;
        match condition.status {
            True if step => put(&mut self.step, Signal::new(Says::Motion, Reason::StepTrue, show(condition))),
            True => put(&mut self.part, Signal::new(Says::Good, Reason::ConditionsTrue, show(condition))),
            False if step || matches!(sense(&condition.reason), Some(Sense::Bad | Sense::Motion)) => {
                put(&mut self.part, denied(condition));
            }
            False | Unknown | Absent => {}
        }
    }

    fn fault(&mut self, kind: Polarity, condition: &Condition) {
        let new = |says, reason| Signal::new(says, reason, show(condition));
        match (kind, condition.status) {
            (Polarity::Terminal, True) => put(&mut self.terminal, new(Says::Bad, Reason::StalledTrue)),
            (Polarity::Lack, True) => put(&mut self.fault, new(denied(condition).says, Reason::FaultTrue)),
            (Polarity::Fault, True | Absent) => {
                // A good reason contradicts the type: then it says nothing.
                let mild = matches!(condition.severity.as_str(), "Info" | "Warning");
                if !mild && !matches!(sense(&condition.reason), Some(Sense::Good | Sense::Done)) {
                    put(&mut self.fault, new(Says::Bad, Reason::FaultTrue));
                }
            }
            (_, False) => put(&mut self.cleared, new(Says::Good, Reason::NoFault)),
            _ => {}
        }
    }

    fn motion(&mut self, condition: &Condition) {
        let new = |says, reason| Signal::new(says, reason, show(condition));
        match condition.status {
            True if is_over(condition) => put(&mut self.over, new(Says::Good, Reason::InMotion)),
            // A deployment is `Progressing` for ever, also at its goal; only a reason says more.
            True if condition.r#type == "Progressing" && condition.reason.is_empty() => {
                put(&mut self.restless, new(Says::Motion, Reason::InMotion));
            }
            True | Unknown => put(&mut self.motion, new(Says::Motion, Reason::InMotion)),
            False if sense(&condition.reason) == Some(Sense::Bad) => {
                put(&mut self.fault, new(Says::Bad, Reason::FaultTrue));
            }
            False | Absent => {}
        }
    }

    fn rest(&mut self, condition: &Condition) {
        let rests = kind(&condition.r#type) == Polarity::Rest;
        match condition.status {
            True if rests => put(&mut self.rest, Signal::new(Says::Rest, Reason::SuspendedTrue, show(condition))),
            False if !rests && condition.severity == "Error" => {
                put(&mut self.fault, Signal::new(Says::Bad, Reason::SeverityError, show(condition)));
            }
            True if is_active(condition) => {
                put(&mut self.active, Signal::new(Says::Good, Reason::ConditionsTrue, show(condition)));
            }
            False if is_active(condition) => put(&mut self.active, denied(condition)),
            True | False | Unknown | Absent => {}
        }
    }

    fn add_root(&mut self, place: u8, signal: Signal) {
        let (place, signal) = match self.root.take() {
            Some((kept, other)) if kept <= place => {
                put(&mut self.roots, signal);
                (kept, other)
            }
            Some((_, other)) => {
                put(&mut self.roots, other);
                (place, signal)
            }
            None => (place, signal),
        };
        self.root = Some((place, signal));
    }

    fn verdict(self) -> Option<Said> {
        let Self { root, roots, part, end, fault, terminal, motion, over, restless, rest, step, active, cleared } =
            self;
        if let Some(signal) = rest.or(terminal) {
            return Some(Said { signal, whole: true, minimal: false });
        }
        // What also says how it is now has not ended: a rollout is complete, and healthy.
        let end = match end {
            Some(signal) if signal.says == Says::Done && root.is_some() => Some(Signal { says: Says::Good, ..signal }),
            end => end,
        };
        let place = root.as_ref().map_or(usize::MAX, |(place, _)| usize::from(*place));
        let whole = place < ROOTS.len() || end.is_some();
        let minimal = ROOTS.get(place) == Some(&"available");
        let root = root.map(|(_, signal)| signal);
        let well = |signal: &Option<Signal>| signal.as_ref().is_some_and(|signal| signal.says <= Says::Done);
        // What sums up is explained by its parts, not overruled by them.
        let settled = (whole && well(&root)) || well(&end);
        let part = part.filter(|_| !settled);
        let restless = restless.filter(|_| !settled);
        let all = [root, roots, end, fault, motion, restless, part, over];
        let signal = super::signals::worst(all).or(step).or(cleared).or(active)?;
        Some(Said { signal, whole, minimal })
    }
}

/// The newest generation that a condition of the object itself is about.
pub(super) fn newest_generation(object: &ObjectView) -> Option<i64> {
    let own = object.conditions.iter().filter(|condition| condition.at.is_empty());
    own.filter_map(|condition| condition.observed_generation).max()
}

/// Whether a rollout is said to be over.
pub(super) fn rolled_out(object: &ObjectView) -> bool {
    object.conditions.iter().any(|condition| {
        condition.r#type == "Progressing" && condition.status == ConditionStatus::True && is_over(condition)
    })
}

/// What a good type says when it is false: the reason tells waiting from failure.
fn denied(condition: &Condition) -> Signal {
    let words = show(condition);
    let by_severity = match condition.severity.as_str() {
        "Error" => Some((Says::Bad, Reason::SeverityError)),
        "Info" => Some((Says::Motion, Reason::ReadyPending)),
        _ => None,
    };
    if let Some((says, reason)) = by_severity {
        return Signal::new(says, reason, words);
    }
    let given = Words::of(&condition.reason);
    // That it is not ready because it is not ready is no reason.
    let reason = given.sense().filter(|_| {
        !(given.len() == 2 && given.get(0) == "not" && given.get(1) == Words::of(&condition.r#type).last())
    });
    let message = Words::of(&condition.message).sense();
    let (says, reason) = match (reason, message) {
        (Some(Sense::Bad), _) | (Some(Sense::Lacking), Some(Sense::Bad)) => (Says::Bad, Reason::ReadyFalse),
        (Some(Sense::Rest), _) => (Says::Rest, Reason::SuspendedTrue),
        (Some(Sense::Motion | Sense::Lacking), _) => (Says::Motion, Reason::ReadyPending),
        (_, Some(Sense::Bad)) => (Says::Bad, Reason::ReadyFalse),
        (_, Some(Sense::Motion)) => (Says::Motion, Reason::ReadyPending),
        _ if given.has("running") => (Says::Motion, Reason::ReadyPending),
        _ if condition.reason.is_empty() && condition.message.is_empty() => (Says::Motion, Reason::ReadyPending),
        _ => (Says::Bad, Reason::ReadyFalse),
    };
    Signal::new(says, reason, words)
}

/// The condition as people write it: `Ready=False (InvalidSpec)`.
fn show(condition: &Condition) -> String {
    let Condition { at, r#type, status, reason, .. } = condition;
    let dot = if at.is_empty() { "" } else { "." };
    let status = match status {
        ConditionStatus::True => "=True",
        ConditionStatus::False => "=False",
        ConditionStatus::Unknown => "=Unknown",
        ConditionStatus::Absent => "",
    };
    if reason.is_empty() { format!("{at}{dot}{type}{status}") } else { format!("{at}{dot}{type}{status} ({reason})") }
}

impl From<Says> for Verdict {
    fn from(says: Says) -> Self {
        match says {
            Says::Good => Self::Converged,
            Says::Done => Self::Finished,
            Says::Motion => Self::Progressing,
            Says::Rest => Self::Suspended,
            Says::Bad => Self::Failed,
        }
    }
}
