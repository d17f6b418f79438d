//! The timeline of one object: changes, and findings that opened and cleared.

use std::fmt;

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{ExplainedChange, ExplainedEvent, Explanation};
use loopwatch_model::time::Timestamp;

use super::text::capitalised;

/// One entry of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimelineEntry {
    /// When it happened, or when loopwatch saw it.
    pub(crate) at: Timestamp,
    pub(crate) sort: EntrySort,
    /// The severity of the finding; `None` for other entries, and for a severity of a later release.
    pub(crate) severity: Option<Severity>,
    pub(crate) text: String,
}

/// The sort of an entry. Entries of the same instant come in this order, causes before effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntrySort {
    /// Somebody changed the object.
    Changed,
    Event,
    Opened,
    Closed,
    /// The explanation of a finding changed.
    Explained,
}

/// The timeline, oldest first.
pub(crate) fn timeline_entries(explanation: &Explanation) -> Vec<TimelineEntry> {
    let mut entries: Vec<TimelineEntry> = explanation.timeline.iter().map(found).collect();
    entries.extend(explanation.changes.iter().map(changed));
    entries.extend(
        milestones(explanation)
            .into_iter()
            .filter(|(part, at, _)| at.is_some_and(|at| !is_seen(explanation, part, at)))
            .filter_map(|(_, at, text)| Some(change(at?, text))),
    );

    for condition in &explanation.conditions {
        let Some(at) = condition.changed else { continue };
        let is_known = |seen: &ExplainedChange| {
            seen.part == "condition"
                && seen.name == condition.r#type
                && seen.value == condition.status
                && seen.at.since(at).0.abs() < 2_000
        };
        if !explanation.changes.iter().any(is_known) {
            entries.push(change(
                at,
                format!("condition {} {}", condition.r#type, became(&condition.status)),
            ));
        }
    }

    entries.sort();
    entries.dedup();
    entries
}

/// The instants that the object itself records, and those of the obligation, each with the part of
/// the change that makes it superfluous.
fn milestones(explanation: &Explanation) -> [(&'static str, Option<Timestamp>, String); 6] {
    let Explanation { object, obligation, .. } = explanation;
    let obligation = obligation.as_ref();
    // An object that loopwatch first sees when it is overdue has been so since its deadline.
    let missed = obligation.and_then(|o| o.deadline).filter(|_| object.state == "overdue");
    let entered = |since: Timestamp| missed.map_or(since, |missed| since.max(missed));

    [
        ("spec", object.created, "created".to_owned()),
        ("spec", obligation.and_then(|o| o.opened), "the spec changed".to_owned()),
        (
            "acknowledgement",
            obligation.and_then(|o| o.acknowledged),
            "the operator acknowledged the spec".to_owned(),
        ),
        ("", obligation.and_then(|o| o.regressed_since), "stopped being converged".to_owned()),
        ("", object.terminating_since, "the deletion began".to_owned()),
        // The beginning of a deletion has its own entry.
        (
            "",
            object
                .since
                .filter(|_| !["unknown", "terminating"].contains(&&*object.state))
                .map(entered),
            format!("became {}", object.state),
        ),
    ]
}

/// Whether loopwatch saw a change of this part at about this instant. Times in objects are whole
/// seconds.
fn is_seen(explanation: &Explanation, part: &str, at: Timestamp) -> bool {
    let is_close = |seen: Timestamp| seen.since(at).0.abs() < 2_000;
    explanation.changes.iter().any(|seen| seen.part == part && is_close(seen.at))
}

fn found(event: &ExplainedEvent) -> TimelineEntry {
    let ExplainedEvent { at, change, code, severity, count, message, reporter } = event;
    if change == "event" {
        let often = if *count > 1 { format!(", {count} times") } else { String::new() };
        let by = if reporter.is_empty() { String::new() } else { format!(" by {reporter}") };
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let text = format!("Event {code} ({severity}{often}){by}{message}");

        return TimelineEntry { at: *at, sort: EntrySort::Event, severity: None, text };
    }

    let sort = match change.as_str() {
        "opened" => EntrySort::Opened,
        "closed" => EntrySort::Closed,
        _ => EntrySort::Explained,
    };

    let text = format!("{code} {}", change.replace('_', " "));
    TimelineEntry { at: *at, sort, severity: Severity::named(severity), text }
}

fn changed(seen: &ExplainedChange) -> TimelineEntry {
    let ExplainedChange { at, part, name, was, value, reason, by } = seen;
    let joined = |before: &str, text: &str, after: &str| match text {
        "" => String::new(),
        text => format!("{before}{text}{after}"),
    };
    let text = match part.as_str() {
        "spec" if name == "created" => format!("created{}", joined(" by ", by, "")),
        "spec" => format!(
            "the spec changed{}{}",
            joined(" to generation ", value, ""),
            joined(", by ", by, "")
        ),
        "acknowledgement" => {
            format!(
                "the operator acknowledged {}",
                match value.as_str() {
                    "" => "the spec".to_owned(),
                    generation => format!("generation {generation}"),
                }
            )
        }
        "phase" if name.is_empty() => format!("the phase ended{}", joined(", and was ", was, "")),
        "phase" => format!("the phase became {name}{}", joined(", and was ", was, "")),
        "condition" if value.is_empty() && !was.is_empty() => {
            format!("condition {name} disappeared, and was {}", capitalised(was))
        }
        "condition" if !value.is_empty() => format!(
            "condition {name} {}{}{}",
            became(value),
            joined(" (", reason, ")"),
            joined(", and was ", &capitalised(was), "")
        ),
        _ if value.is_empty() => format!("{part} {name} changed"),
        _ => format!("{part} {name} {value}"),
    };

    change(*at, text)
}

/// A condition without a status, as Argo CD writes them, says something by being there.
fn became(status: &str) -> String {
    match status {
        "absent" => "was reported, without a status".to_owned(),
        status => format!("became {}", capitalised(status)),
    }
}

fn change(at: Timestamp, text: String) -> TimelineEntry {
    TimelineEntry { at, sort: EntrySort::Changed, severity: None, text }
}

impl fmt::Display for EntrySort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Event => "event",
            Self::Opened => "opened",
            Self::Closed => "closed",
            Self::Explained => "explained",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample;

    #[test]
    fn the_timeline_shows_changes_before_the_findings_that_they_cause() {
        let mut explanation = sample::explanation();
        let opened = explanation.timeline[0].at;
        explanation.changes[0].at = opened;

        let texts: Vec<String> =
            timeline_entries(&explanation).into_iter().map(|entry| entry.text).collect();

        assert_eq!(
            texts,
            [
                "created",
                "the spec changed",
                "condition Ready became False",
                "the deletion began",
                "the phase became Deleting",
                "FinalizerStuck opened",
                "Event CleanupFailed (warning, 214 times) by database-operator: bucket orders-legacy: access denied",
            ]
        );
    }

    #[test]
    fn a_change_that_loopwatch_saw_is_not_told_twice() {
        let mut explanation = sample::explanation();
        let at = explanation.conditions[0].changed.expect("a time");
        let seen = ExplainedChange {
            at,
            part: "condition".to_owned(),
            name: "Ready".to_owned(),
            was: "true".to_owned(),
            value: "false".to_owned(),
            ..ExplainedChange::default()
        };

        explanation.changes = vec![seen];
        let texts: Vec<String> =
            timeline_entries(&explanation).into_iter().map(|entry| entry.text).collect();
        let about: Vec<&String> =
            texts.iter().filter(|text| text.starts_with("condition")).collect();

        assert_eq!(about, ["condition Ready became False, and was True"]);
    }

    #[test]
    fn the_author_of_a_spec_change_and_the_reason_of_a_condition_are_told() {
        let mut explanation = sample::explanation();
        let opened = explanation.obligation.as_ref().and_then(|it| it.opened).expect("a time");
        let text = str::to_owned;
        explanation.changes = vec![
            ExplainedChange {
                at: opened,
                part: text("spec"),
                name: text("changed"),
                value: text("7"),
                by: text("kubectl-edit"),
                ..ExplainedChange::default()
            },
            ExplainedChange {
                at: opened,
                part: text("condition"),
                name: text("Synced"),
                was: text("true"),
                value: text("false"),
                reason: text("Rolling"),
                ..ExplainedChange::default()
            },
        ];
        let texts: Vec<String> =
            timeline_entries(&explanation).into_iter().map(|entry| entry.text).collect();

        for expected in [
            "the spec changed to generation 7, by kubectl-edit",
            "condition Synced became False (Rolling), and was True",
        ] {
            assert!(texts.iter().any(|text| text == expected), "{expected} is missing: {texts:?}");
        }
        assert!(!texts.contains(&"the spec changed".to_owned()), "told once");
    }
}
