//! The last piece of work on one object as bars over time: from the spec change, the regression or
//! the deletion that began it, to its end or until now.

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{ExplainedChange, ExplainedEvent, ExplainedNode, Explanation};
use loopwatch_model::time::{Span, Timestamp};

use super::text::capitalised;

/// Bars over a common time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waterfall {
    /// What began the work, and when.
    pub(crate) cause: (Timestamp, &'static str),
    /// The time that the bars cover: from a little before the cause.
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) lanes: Vec<Lane>,
}

/// One row of bars.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lane {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

/// Something that took time; an instant begins and ends at the same time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// The colour of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Somebody waits for the operator or for another controller.
    Waits,
    /// Neither good nor bad: a phase, or a condition that is true.
    Plain,
    /// A condition that is not true.
    Hollow,
    Good,
    /// An info finding.
    Informs,
    Warns,
    Bad,
}

/// The maximum number of lanes of findings, of conditions and of children.
const MAX_LANES: usize = 12;

/// The shortest time that a waterfall covers.
const SHORTEST: Span = Span::secs(2);

/// The share of the time before the cause, and after the last change: one in so many.
const MARGIN: i64 = 20;

/// The waterfall of an object, unless nothing is known about its last work.
pub(crate) fn waterfall(explanation: &Explanation) -> Option<Waterfall> {
    let cause = cause(explanation)?;
    let end = if is_over(explanation) { last_change(explanation, cause.0) } else { explanation.at };
    let margin = Span(end.since(cause.0).0.max(SHORTEST.0) / MARGIN);
    let from = cause.0.before(margin);
    let to = end.max(cause.0.after(SHORTEST)).after(margin).min(explanation.at.max(end));

    let period = Period { explanation, from, to: to.max(cause.0.after(Span(1))) };
    let mut lanes = vec![period.specs(), period.phases()];
    lanes.extend(period.conditions());
    lanes.extend(period.finalizers());
    lanes.extend(period.children());
    lanes.extend(period.findings());
    lanes.push(period.events());
    lanes.retain(|lane| !lane.bars.is_empty());

    let to = period.to;
    (!lanes.is_empty()).then_some(Waterfall { cause, from, to, lanes })
}

/// What began the last piece of work.
fn cause(explanation: &Explanation) -> Option<(Timestamp, &'static str)> {
    let Explanation { object, obligation, changes, .. } = explanation;
    let spec = changes.iter().rfind(|change| change.part == "spec");
    let by_spec = spec.map(|change| match change.name.as_str() {
        "created" => (change.at, "the creation"),
        _ => (change.at, "the spec change"),
    });
    let obligation = obligation.as_ref();

    [
        by_spec.or(obligation.and_then(|it| it.opened).map(|at| (at, "the spec change"))),
        obligation.and_then(|it| it.regressed_since).map(|at| (at, "the regression")),
        object.terminating_since.map(|at| (at, "the deletion")),
    ]
    .into_iter()
    .flatten()
    .max_by_key(|(at, _)| *at)
}

/// Whether nobody waits for anything any more.
fn is_over(explanation: &Explanation) -> bool {
    let Explanation { object, obligation, .. } = explanation;
    obligation.is_none() && object.terminating_since.is_none() && object.findings.is_empty()
}

/// The last change that belongs to the work since `cause`.
fn last_change(explanation: &Explanation, cause: Timestamp) -> Timestamp {
    let changes = explanation.changes.iter().map(|change| change.at);
    let events = explanation.timeline.iter().map(|event| event.at);
    let instants = changes.chain(events).chain(explanation.object.since);
    instants.filter(|at| *at <= explanation.at).fold(cause, Timestamp::max)
}

/// What happened to an object in a period.
struct Period<'a> {
    explanation: &'a Explanation,
    from: Timestamp,
    to: Timestamp,
}

impl Period<'_> {
    /// A bar, cut to the period; `None` if it is not within.
    fn bar(&self, (from, to): (Timestamp, Timestamp), tone: Tone, text: String) -> Option<Bar> {
        let within = from <= self.to && to >= self.from;
        let (from, to) = (from.max(self.from), to.min(self.to));
        within.then_some(Bar { from, to, tone, text })
    }

    fn changes(&self, part: &str) -> impl Iterator<Item = &ExplainedChange> + Clone {
        self.explanation.changes.iter().filter(move |change| change.part == part)
    }

    /// Each spec change until its acknowledgement.
    fn specs(&self) -> Lane {
        let obligation = self.explanation.obligation.as_ref();
        let observed = self.explanation.observed_generation;
        let bars = self.changes("spec").filter_map(|change| {
            let seen = self.changes("acknowledgement").map(|change| change.at);
            let recorded = obligation.and_then(|it| it.acknowledged);
            let acknowledged = seen.chain(recorded).filter(|at| *at >= change.at).min();
            let what = if change.name == "created" { "created" } else { "spec changed" };
            let by =
                if change.by.is_empty() { String::new() } else { format!(" by {}", change.by) };

            let (to, then) = match acknowledged {
                Some(at) => (at, format!("acknowledged after {}", at.since(change.at))),
                None if obligation.is_some_and(|it| it.unacknowledged_since.is_some()) => {
                    (self.to, "not acknowledged".to_owned())
                }
                None if observed.is_none() => {
                    (change.at, "the status reports no acknowledgement".to_owned())
                }
                None => (change.at, "acknowledged".to_owned()),
            };
            self.bar((change.at, to), Tone::Waits, format!("{what}{by}, {then}"))
        });

        Lane { label: "acknowledgement".to_owned(), bars: bars.collect() }
    }

    fn phases(&self) -> Lane {
        let changes: Vec<_> = self.changes("phase").collect();
        let current = (self.explanation.phase.as_str(), self.explanation.phase_since);
        let steps = steps(&changes, |change| &change.name, current);
        let steps = steps.into_iter().filter(|(_, _, phase, _)| !phase.is_empty());
        let bars = steps.filter_map(|(from, to, phase, _)| {
            let bounds = (from.unwrap_or(self.from), to.unwrap_or(self.to));
            self.bar(bounds, Tone::Plain, phase.to_owned())
        });

        Lane { label: "phase".to_owned(), bars: bars.collect() }
    }

    fn conditions(&self) -> Vec<Lane> {
        let conditions = self.explanation.conditions.iter().take(MAX_LANES);
        let lanes = conditions.map(|condition| {
            let of_condition = |change: &&ExplainedChange| change.name == condition.r#type;
            let changes: Vec<_> = self.changes("condition").filter(of_condition).collect();
            let current = (condition.status.as_str(), condition.changed);
            let steps = steps(&changes, |change| &change.value, current);

            let bars = steps.into_iter().filter(|(_, _, status, _)| !status.is_empty());
            let bars = bars.filter_map(|(from, to, status, reason)| {
                let tone = if status == "true" { Tone::Plain } else { Tone::Hollow };
                let why = if to.is_none() { &*condition.reason } else { reason };
                let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
                let bounds = (from.unwrap_or(self.from), to.unwrap_or(self.to));
                self.bar(bounds, tone, format!("{}{why}", capitalised(status)))
            });

            Lane { label: condition.r#type.clone(), bars: bars.collect() }
        });

        lanes.collect()
    }

    /// The finalizers that the deletion has waited for.
    fn finalizers(&self) -> Vec<Lane> {
        let Some(began) = self.explanation.object.terminating_since else { return Vec::new() };
        let present = self.explanation.object.finalizers.iter();
        let present = present.map(|finalizer| (&finalizer.name, self.to, "still there"));
        let removed = self.changes("finalizer").filter(|change| change.value == "removed");
        let removed = removed.map(|change| (&change.name, change.at, "removed"));

        let lanes = present.chain(removed).take(MAX_LANES).map(|(name, to, word)| Lane {
            label: name.clone(),
            bars: self.bar((began, to), Tone::Waits, word.to_owned()).into_iter().collect(),
        });
        lanes.collect()
    }

    /// The children that changed their states in the period.
    fn children(&self) -> Vec<Lane> {
        let changed = |node: &&ExplainedNode| {
            let instants = [node.object.created, node.object.since];
            let is_told = !["unknown", "absent", "not_visible"].contains(&&*node.object.state);
            is_told && instants.into_iter().flatten().any(|at| at >= self.from && at <= self.to)
        };
        let lanes = self.explanation.children.iter().filter(changed).take(MAX_LANES).map(|node| {
            let object = &node.object;
            let is_at_rest = matches!(object.state.as_str(), "converged" | "finished");
            let tone = match object.state.as_str() {
                "failed" => Tone::Bad,
                "overdue" => Tone::Warns,
                _ if is_at_rest => Tone::Good,
                _ => Tone::Waits,
            };
            let since = object.since.unwrap_or(self.from);
            let before = object.created.unwrap_or(self.from).max(self.from);
            let work = self.bar((before, since), Tone::Waits, "not ready".to_owned());

            Lane {
                label: format!("{} {}", object.kind, object.name),
                bars: work
                    .filter(|_| before < since)
                    .into_iter()
                    .chain(self.bar((since, self.to), tone, object.state.clone()))
                    .collect(),
            }
        });

        lanes.collect()
    }

    /// The findings that were open in the period. The opening of an early one may be forgotten.
    fn findings(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut open: Vec<&ExplainedEvent> = Vec::new();
        let mut add = |opened: &ExplainedEvent, to: Timestamp| {
            let tone = tone_of(&opened.severity);
            let Some(bar) = self.bar((opened.at, to), tone, "open".to_owned()) else { return };
            if let Some(lane) = lanes.iter_mut().find(|lane| lane.label == opened.code) {
                lane.bars.push(bar);
            } else if lanes.len() < MAX_LANES {
                lanes.push(Lane { label: opened.code.clone(), bars: vec![bar] });
            }
        };

        for event in &self.explanation.timeline {
            let known = open.iter().position(|opened| opened.code == event.code);
            match (event.change.as_str(), known) {
                ("opened", None) => open.push(event),
                ("closed", Some(index)) => add(open.swap_remove(index), event.at),
                _ => {}
            }
        }

        open.into_iter().for_each(|opened| add(opened, self.to));
        lanes
    }

    fn events(&self) -> Lane {
        let events = self.explanation.timeline.iter().filter(|event| event.change == "event");
        let bars = events.filter_map(|event| {
            let tone = if event.severity == "warning" { Tone::Warns } else { Tone::Plain };
            self.bar((event.at, event.at), tone, format!("{}: {}", event.code, event.message))
        });
        Lane { label: "Events".to_owned(), bars: bars.collect() }
    }
}

/// The colour of a finding. A later release may have severities that this one does not know.
fn tone_of(severity: &str) -> Tone {
    match Severity::named(severity) {
        Some(Severity::Critical) => Tone::Bad,
        Some(Severity::Warning) => Tone::Warns,
        Some(Severity::Info) => Tone::Informs,
        None => Tone::Plain,
    }
}

/// The values between changes, each with its beginning, its end and the reason. The first one began
/// before the first change, and the last one lasts.
fn steps<'a>(
    changes: &[&'a ExplainedChange],
    value: impl Fn(&'a ExplainedChange) -> &'a str,
    (current, since): (&'a str, Option<Timestamp>),
) -> Vec<(Option<Timestamp>, Option<Timestamp>, &'a str, &'a str)> {
    let Some(first) = changes.first() else {
        let only = (!current.is_empty()).then_some((since, None, current, ""));
        return only.into_iter().collect();
    };
    let ends = changes.iter().skip(1).map(|change| Some(change.at)).chain([None]);
    let later = changes.iter().zip(ends);
    let earlier = (!first.was.is_empty()).then_some((None, Some(first.at), &*first.was, ""));

    earlier
        .into_iter()
        .chain(later.map(|(change, end)| (Some(change.at), end, value(change), &*change.reason)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample;

    fn shown(waterfall: &Waterfall) -> Vec<String> {
        let start = waterfall.cause.0;
        let bar = |bar: &Bar| {
            format!("{}..{} {}", bar.from.since(start).0, bar.to.since(start).0, bar.text)
        };
        let lane = |lane: &Lane| {
            let bars: Vec<String> = lane.bars.iter().map(bar).collect();
            format!("{}: {}", lane.label, bars.join(" | "))
        };
        waterfall.lanes.iter().map(lane).collect()
    }

    fn change(at: Timestamp, part: &str, name: &str, was: &str, value: &str) -> ExplainedChange {
        let text = str::to_owned;
        ExplainedChange {
            at,
            part: text(part),
            name: text(name),
            was: text(was),
            value: text(value),
            ..ExplainedChange::default()
        }
    }

    #[test]
    fn a_converged_change_is_shown_from_its_cause_to_its_end() {
        let at = |ms: i64| sample::now().before(Span::hours(1)).after(Span(ms));
        let mut explanation = Explanation { at: sample::now(), ..Explanation::default() };
        explanation.object.state = "converged".to_owned();
        (explanation.object.since, explanation.phase) = (Some(at(10_000)), "Ready".to_owned());
        explanation.observed_generation = Some(7);
        explanation.conditions.push(loopwatch_model::snapshot::ExplainedCondition {
            r#type: "Ready".to_owned(),
            status: "true".to_owned(),
            ..Default::default()
        });

        let mut spec = change(at(0), "spec", "changed", "", "7");
        "kubectl-edit".clone_into(&mut spec.by);
        let mut lost = change(at(1_000), "condition", "Ready", "true", "false");
        "Rolling".clone_into(&mut lost.reason);
        explanation.changes = vec![
            spec,
            change(at(1_000), "acknowledgement", "", "", "7"),
            lost,
            change(at(1_000), "phase", "Updating", "Ready", ""),
            change(at(10_000), "phase", "Ready", "Updating", ""),
            change(at(10_000), "condition", "Ready", "false", "true"),
        ];

        let waterfall = waterfall(&explanation).expect("its cause is known");
        assert_eq!(waterfall.cause, (at(0), "the spec change"));
        assert_eq!((waterfall.from, waterfall.to), (at(-500), at(10_500)));
        assert_eq!(
            shown(&waterfall),
            [
                "acknowledgement: 0..1000 spec changed by kubectl-edit, acknowledged after 1s",
                "phase: 0..1000 Ready | 1000..10000 Updating | 10000..10500 Ready",
                "Ready: 0..1000 True | 1000..10000 False (Rolling) | 10000..10500 True",
            ]
        );
    }

    #[test]
    fn a_deletion_that_lasts_is_shown_until_now() {
        let explanation = sample::explanation();
        let waterfall = waterfall(&explanation).expect("its cause is known");
        let labels: Vec<&str> = waterfall.lanes.iter().map(|lane| &*lane.label).collect();

        assert_eq!(waterfall.cause.1, "the deletion");
        assert_eq!(waterfall.to, explanation.at);
        assert!(labels.contains(&"db.example.io/volume-cleanup"), "{labels:?}");
        assert!(labels.contains(&"FinalizerStuck") && labels.contains(&"Events"), "{labels:?}");
        assert_eq!(super::waterfall(&Explanation::default()), None, "nothing is known");
    }
}
