//! Computes the overall health, the number of objects in each state, and why an object is in its
//! state.

use std::fmt::Write as _;

use loopwatch_model::finding::{Finding, Subject};
use loopwatch_model::model::reading::Reason;
use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{Health, ObjectState, Snapshot};

use super::blind_spots::{is_watch_down, watches};
use super::input::Input;
use super::text::Number;

/// The worst health of any namespace, of the operator itself, and of what is in no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverallHealth {
    Known(Health),
    /// Nothing bad is known, but nothing shows that all is well.
    Unknown(Doubt),
}

/// Why nothing bad is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No watch is up and synced.
    Blind,
    /// The dump has no objects that loopwatch judges.
    NothingInDump,
    /// There are objects, and loopwatch cannot judge any of them.
    NothingJudged,
    /// Objects have failed, and none has converged.
    NothingConverged,
    /// loopwatch could not read a part of its input.
    InputUnread,
}

impl OverallHealth {
    /// Sums up a snapshot, which loopwatch has made from this input.
    #[must_use]
    pub(crate) fn of(snapshot: &Snapshot, input: &Input) -> Self {
        // Objects stay Ready when their operator dies, and a broken definition or webhook is in no namespace.
        let is_in_no_namespace = |finding: &&Finding| {
            matches!(
                finding.subject,
                Subject::Operator { .. }
                    | Subject::Controller { .. }
                    | Subject::Definition { .. }
                    | Subject::Webhook { .. }
                    | Subject::Policy { .. }
            )
        };
        let elsewhere = snapshot
            .findings
            .iter()
            .filter(is_in_no_namespace)
            .map(|finding| Health::of(finding.severity));

        let worst =
            snapshot.health.values().copied().chain(elsewhere).max().unwrap_or(Health::Healthy);
        match Doubt::of(snapshot, input) {
            Some(doubt) if worst == Health::Healthy => Self::Unknown(doubt),
            _ => Self::Known(worst),
        }
    }

    /// `healthy`, `degraded`, `failing` or `unknown`.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Known(health) => health.as_str(),
            Self::Unknown(_) => "unknown",
        }
    }
}

impl Doubt {
    fn of(snapshot: &Snapshot, input: &Input) -> Option<Self> {
        let sees = watches(snapshot)
            .any(|(_, watch)| watch.synced && !is_watch_down(snapshot, &watch.watch));
        let states = objects_by_state(snapshot);
        let total: u64 = states.iter().sum();
        let count = |state: ObjectState| states[state as usize];
        let works = count(ObjectState::Converged) + count(ObjectState::Finished);

        if !sees && input.dump.is_some() {
            Some(Self::NothingInDump)
        } else if !sees {
            Some(Self::Blind)
        } else if !input.is_whole() {
            Some(Self::InputUnread)
        } else if total > 0 && count(ObjectState::Unknown) == total {
            Some(Self::NothingJudged)
        } else if count(ObjectState::Failed) > 0 && works == 0 {
            Some(Self::NothingConverged)
        } else {
            None
        }
    }

    /// The reason, after `because`.
    #[must_use]
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::Blind => "no watch is up and synced",
            Self::NothingInDump => "the dump has no objects that loopwatch judges",
            Self::NothingJudged => "loopwatch cannot judge any of the objects",
            Self::NothingConverged => "objects have failed, and none has converged",
            Self::InputUnread => "loopwatch could not read all of its input",
        }
    }
}

/// The number of objects in each state, over all primary kinds.
#[must_use]
pub(crate) fn objects_by_state(snapshot: &Snapshot) -> [u64; ObjectState::ALL.len()] {
    let mut sum = [0; ObjectState::ALL.len()];
    for kind in snapshot.kinds.iter().filter(|kind| kind.role == Role::Primary) {
        for (total, count) in sum.iter_mut().zip(kind.states()) {
            *total += count;
        }
    }

    sum
}

/// `8 objects: 5 converged, 2 progressing, 1 unknown (cannot be judged)`, over all primary kinds;
/// `None` if there are no objects. States without objects are absent, except converged.
#[must_use]
pub(crate) fn objects_in_words(snapshot: &Snapshot) -> Option<String> {
    let states = objects_by_state(snapshot);
    let total: u64 = states.iter().sum();
    let mut text = format!("{} object{}:", Number(total), if total == 1 { "" } else { "s" });

    for (state, count) in ObjectState::ALL.iter().zip(states) {
        if count > 0 || *state == ObjectState::Converged {
            let comma = if text.ends_with(':') { "" } else { "," };
            let _ = write!(text, "{comma} {} {}", Number(count), state.as_str());
        }
    }

    if states[ObjectState::Unknown as usize] > 0 {
        text.push_str(" (cannot be judged)"); // unknown is the last state
    }

    (total > 0).then_some(text)
}

/// The objects that are not well although the overall health is good, in words: `1 failed object`;
/// `None` if there are none. No finding is about them: most often, the operator has rejected their
/// specs, which their users can correct.
#[must_use]
pub(crate) fn exceptions_in_words(snapshot: &Snapshot, health: OverallHealth) -> Option<String> {
    let states = objects_by_state(snapshot);
    let [failed, overdue] =
        [ObjectState::Failed, ObjectState::Overdue].map(|state| states[state as usize]);
    let noun = |count: u64| if count == 1 { "object" } else { "objects" };
    let text = match (failed, overdue) {
        (0, 0) => return None,
        (failed, 0) => format!("{} failed {}", Number(failed), noun(failed)),
        (0, overdue) => format!("{} overdue {}", Number(overdue), noun(overdue)),
        (failed, overdue) => {
            format!("{} failed and {} overdue objects", Number(failed), Number(overdue))
        }
    };

    (health == OverallHealth::Known(Health::Healthy)).then_some(text)
}

/// Why an object is in its state: the part of its status that decided it or, if that is unknown,
/// the rule in words. All texts for people use this; the API also has the label value.
#[must_use]
pub(crate) fn reason_in_words<'a>(signal: &'a str, reason: &'a str) -> &'a str {
    if signal.is_empty() { Reason::words(reason).unwrap_or(reason) } else { signal }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::Severity;

    use super::super::input::DumpInput;
    use super::*;
    use crate::export::sample::{empty, healthy, sample};

    #[test]
    fn objects_are_counted_by_state_and_unknown_is_explained() {
        let said = objects_in_words(&sample().snapshot).expect("objects");
        assert!(said.starts_with("488 objects: 344 converged, 4 progressing, "), "{said}");
        assert!(said.ends_with(", 4 unknown (cannot be judged)"), "{said}");
        assert_eq!(objects_in_words(&empty().snapshot), None);

        let mut blind = healthy().snapshot;
        blind.kinds[0].namespaces.values_mut().next().expect("one").states =
            [0, 0, 0, 0, 0, 0, 0, 0, 1];

        assert_eq!(
            objects_in_words(&blind).as_deref(),
            Some("1 object: 0 converged, 1 unknown (cannot be judged)")
        );
    }

    #[test]
    fn good_health_names_the_objects_that_are_not_well() {
        let said = |failed, overdue| {
            let mut snapshot = healthy().snapshot;
            let namespace = snapshot.kinds[0].namespaces.values_mut().next().expect("one");
            namespace.states[ObjectState::Failed as usize] = failed;
            namespace.states[ObjectState::Overdue as usize] = overdue;
            exceptions_in_words(&snapshot, OverallHealth::of(&snapshot, &Input::default()))
        };

        assert_eq!(said(0, 0), None);
        assert_eq!(said(1, 0).as_deref(), Some("1 failed object"));
        assert_eq!(said(0, 2).as_deref(), Some("2 overdue objects"));
        assert_eq!(said(1, 1).as_deref(), Some("1 failed and 1 overdue objects"));
        let failing = sample().snapshot;
        assert_eq!(
            exceptions_in_words(&failing, OverallHealth::of(&failing, &Input::default())),
            None
        );
    }

    #[test]
    fn the_overall_health_is_that_of_the_worst_namespace() {
        assert_eq!(OverallHealth::of(&sample().snapshot, &Input::default()).as_str(), "failing");
        assert_eq!(OverallHealth::of(&empty().snapshot, &Input::default()).as_str(), "unknown");

        let mut blind = healthy().snapshot;
        assert_eq!(OverallHealth::of(&blind, &Input::default()).as_str(), "healthy");

        blind.kinds[0].watches[0].synced = false;
        assert_eq!(
            OverallHealth::of(&blind, &Input::default()).as_str(),
            "unknown",
            "what cannot be seen is never good"
        );
    }

    #[test]
    fn health_is_unknown_if_no_object_can_be_judged_or_a_part_of_the_input_is_missing() {
        let mut snapshot = healthy().snapshot;
        let states = &mut snapshot.kinds[0].namespaces.values_mut().next().expect("one").states;
        let sum: u64 = states.iter().sum();
        *states = [0; ObjectState::ALL.len()];
        states[ObjectState::Unknown as usize] = sum;
        let health = OverallHealth::of(&snapshot, &Input::default());
        assert_eq!(health, OverallHealth::Unknown(Doubt::NothingJudged));

        let dump = |problems| {
            let dump = DumpInput { objects: 1, problems, ..DumpInput::default() };
            Input { dump: Some(dump), ..Input::default() }
        };
        let broken = dump(vec!["document at line 7: not YAML".to_owned()]);
        let timed_out = Input { lists_timed_out: true, ..Input::default() };
        for (input, expected) in [
            (broken, OverallHealth::Unknown(Doubt::InputUnread)),
            (timed_out, OverallHealth::Unknown(Doubt::InputUnread)),
            (dump(Vec::new()), OverallHealth::Known(Health::Healthy)),
        ] {
            assert_eq!(OverallHealth::of(&healthy().snapshot, &input), expected);
            assert_eq!(OverallHealth::of(&sample().snapshot, &input).as_str(), "failing");
        }
    }

    #[test]
    fn the_overall_health_includes_the_operator_although_its_objects_say_ready() {
        let found = |subject: &Subject, severity| {
            let mut snapshot = healthy().snapshot;
            let finding = sample().snapshot.findings.remove(0);
            snapshot.findings = vec![Finding { subject: subject.clone(), severity, ..finding }];
            OverallHealth::of(&snapshot, &Input::default()).as_str()
        };

        let operator =
            Subject::Operator { namespace: "ops".to_owned(), name: "db-operator".to_owned() };
        let controller = Subject::Controller { name: "database".to_owned() };
        for subject in [&operator, &controller] {
            assert_eq!(found(subject, Severity::Critical), "failing");
            assert_eq!(found(subject, Severity::Warning), "degraded");
            assert_eq!(found(subject, Severity::Info), "healthy");
        }

        let source = Subject::Source { name: "metrics".to_owned() };
        assert_eq!(
            found(&source, Severity::Warning),
            "healthy",
            "a problem of loopwatch, not of the operator"
        );
    }
}
