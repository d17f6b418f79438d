//! What conditions say.

use super::signals::{Says, Signal};
use super::words::{Sense, Words};
use super::{Reason, Verdict};
use crate::observation::{Condition, ConditionStatus, ObjectView};

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

/// What the type of a condition says when it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sums the object up: `Ready`, `Available`. A smaller number is closer to the whole.
    Root(u8),
    /// Good, but of a part: `ConfigurationsReady`.
    Part,
    /// Ran to its end: `Complete`.
    End,
    /// Wrong: `FetchFailed`.
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
const ROOTS: &[&str] = &["ready", "available", "healthy", "succeeded", "operational", "successful"];

/// Words in the reason of a type that names work by which the work is over.
const GOALS: &[&str] = &[
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
pub(super) fn kind(r#type: &str) -> Kind {
    let name = r#type.rsplit_once('/').map_or(r#type, |(_, name)| name);
    let words = Words::of(name);
    if words.len() == 1 {
        if let Some(place) = ROOTS.iter().position(|root| *root == words.get(0)) {
            return Kind::Root(place as u8);
        }
        if NEUTRAL.contains(&words.get(0)) {
            return Kind::Neutral;
        }
        if STEPS.contains(&words.get(0)) {
            return Kind::Step;
        }
        if words.get(0) == "running" {
            return Kind::Motion; // of an Ansible or import run, or of a pod of an object that means to be idle
        }
    }
    if words.last().starts_with("warning") {
        return Kind::Neutral;
    }
    if matches!(words.last(), "stalled" | "terminal") {
        return Kind::Terminal;
    }
    match words.sense() {
        Some(Sense::Good) if words.len() == 1 => Kind::Root(ROOTS.len() as u8),
        Some(Sense::Good) => Kind::Part,
        Some(Sense::Done) if words.len() == 1 => Kind::End,
        Some(Sense::Done) => Kind::Part,
        Some(Sense::Bad) => Kind::Fault,
        Some(Sense::Lacking) => Kind::Lack,
        Some(Sense::Motion) => Kind::Motion,
        Some(Sense::Rest) if words.len() <= 2 => Kind::Rest,
        Some(Sense::Rest) => Kind::Neutral,
        None if words.last().len() > 4 && words.last().ends_with("ed") => Kind::Weak,
        None => Kind::Neutral,
    }
}

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
    let wrong = |text: &str| matches!(Words::of(text).sense(), Some(Sense::Bad | Sense::Motion | Sense::Lacking));
    wrong(&condition.reason) || wrong(&condition.message)
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
        use ConditionStatus::{Absent, False, True, Unknown};
        let kind = kind(&condition.r#type);
        match kind {
            Kind::Root(place) if stale && !dated => {
                return self.add_root(place, Signal::new(Says::Motion, Reason::ReadyPending, show(condition)));
            }
            Kind::Root(_) | Kind::End => {}
            _ if stale => return,
            _ => {}
        }
        let show = || show(condition);
        match (kind, condition.status) {
            (Kind::Root(place), True) => self.add_root(place, Signal::new(Says::Good, Reason::ReadyTrue, show())),
            (Kind::Root(place), False) => self.add_root(place, denied(condition)),
            (Kind::Root(place), Unknown) => {
                let failed = Words::of(&condition.reason).sense() == Some(Sense::Bad);
                let says = if failed { Says::Bad } else { Says::Motion };
                self.add_root(place, Signal::new(says, Reason::ReadyUnknown, show()));
            }
            (Kind::Root(place), Absent) => {
                // Without one of the three statuses only the words count.
                let signal = denied(condition);
                if says_something(condition) {
                    self.add_root(place, signal);
                }
            }
            (Kind::Part, True) => put(&mut self.part, Signal::new(Says::Good, Reason::ConditionsTrue, show())),
            (Kind::Part, False) => put(&mut self.part, denied(condition)),
            (Kind::Part, Unknown) => put(&mut self.part, Signal::new(Says::Motion, Reason::ConditionUnknown, show())),
            (Kind::End, True) => {
                let failed = Words::of(&condition.reason).sense() == Some(Sense::Bad);
                let (says, reason) =
                    if failed { (Says::Bad, Reason::EndedBadly) } else { (Says::Done, Reason::Complete) };
                put(&mut self.end, Signal::new(says, reason, show()));
            }
            (Kind::End, False | Unknown) => put(&mut self.end, denied(condition)),
            (Kind::Terminal, True) => put(&mut self.terminal, Signal::new(Says::Bad, Reason::StalledTrue, show())),
            (Kind::Fault, True | Absent) => {
                // A good reason contradicts the type: then it says nothing.
                let mild = matches!(condition.severity.as_str(), "Info" | "Warning");
                let good = matches!(Words::of(&condition.reason).sense(), Some(Sense::Good | Sense::Done));
                if !mild && !good {
                    put(&mut self.fault, Signal::new(Says::Bad, Reason::FaultTrue, show()));
                }
            }
            (Kind::Lack, True) => {
                let Signal { says, .. } = denied(condition);
                put(&mut self.fault, Signal::new(says, Reason::FaultTrue, show()));
            }
            (Kind::Motion, True) => {
                let over = Words::of(&condition.reason).iter().any(|word| GOALS.contains(&word));
                let slot = match condition.r#type.as_str() {
                    _ if over => &mut self.over,
                    // A deployment is `Progressing` for ever, also at its goal; only a reason says more.
                    "Progressing" if condition.reason.is_empty() => &mut self.restless,
                    _ => &mut self.motion,
                };
                let says = if over { Says::Good } else { Says::Motion };
                put(slot, Signal::new(says, Reason::InMotion, show()));
            }
            (Kind::Motion, Unknown) => put(&mut self.motion, Signal::new(Says::Motion, Reason::InMotion, show())),
            (Kind::Motion, False) if Words::of(&condition.reason).sense() == Some(Sense::Bad) => {
                put(&mut self.fault, Signal::new(Says::Bad, Reason::FaultTrue, show()));
            }
            (Kind::Weak, True) => put(&mut self.part, Signal::new(Says::Good, Reason::ConditionsTrue, show())),
            (Kind::Weak, False) => {
                if matches!(Words::of(&condition.reason).sense(), Some(Sense::Bad | Sense::Motion)) {
                    put(&mut self.part, denied(condition));
                }
            }
            (Kind::Step, True) => put(&mut self.step, Signal::new(Says::Motion, Reason::StepTrue, show())),
            (Kind::Step, False) => put(&mut self.part, denied(condition)),
            (Kind::Neutral, True) if is_active(condition) => {
                put(&mut self.active, Signal::new(Says::Good, Reason::ConditionsTrue, show()));
            }
            (Kind::Neutral, False) if is_active(condition) => put(&mut self.active, denied(condition)),
            (Kind::Rest, True) => put(&mut self.rest, Signal::new(Says::Rest, Reason::SuspendedTrue, show())),
            (Kind::Neutral, False) if condition.severity == "Error" => {
                put(&mut self.fault, Signal::new(Says::Bad, Reason::SeverityError, show()));
            }
            (Kind::Fault | Kind::Terminal | Kind::Lack, False) => {
                put(&mut self.cleared, Signal::new(Says::Good, Reason::NoFault, show()));
            }
            _ => {}
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
        let over = || Words::of(&condition.reason).iter().any(|word| GOALS.contains(&word));
        condition.r#type == "Progressing" && condition.status == ConditionStatus::True && over()
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
