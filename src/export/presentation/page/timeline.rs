//! Shows the last hours: charts of findings, objects and convergence, and the events.

use loopwatch_model::snapshot::{Happening, ObjectState, PastEvent, PastPoint, RecentPast};
use loopwatch_model::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Chart, ChartLine, Frame, Unit, chart};
use super::link::subject;
use super::markup::{Age, UtcTime, section};
use crate::export::view::Number;

/// Maximum number of events shown, newest first.
const SHOWN: usize = 60;

/// The states of the chart. Converged and finished objects would hide all others.
const STATES: [ObjectState; 5] = [
    ObjectState::Progressing,
    ObjectState::Overdue,
    ObjectState::Failed,
    ObjectState::Terminating,
    ObjectState::Unknown,
];

/// The charts and the events, unless there is nothing to show.
pub(super) fn timeline(past: &RecentPast, frame: &Frame) -> Markup {
    if past.points.is_empty() || (past.points.len() < 2 && past.events.is_empty()) {
        return Markup::default();
    }

    let content = html! {
        @if past.points.len() > 1 {
            (charts(&past.points, frame))
        }
        @if !past.events.is_empty() { (events(past)) }
    };
    section("timeline", "Timeline", &content)
}

fn charts(points: &[PastPoint], frame: &Frame) -> Markup {
    let times: Vec<Timestamp> = points.iter().map(|point| point.at).collect();
    let line = |name, value: &dyn Fn(&PastPoint) -> Option<f64>| ChartLine {
        name,
        values: points.iter().map(value).collect(),
    };
    let sum = |point: &PastPoint| Some(f64::from(point.findings.iter().sum::<u32>()));
    let findings = vec![line("", &sum)];

    let states: Vec<ChartLine> = STATES
        .iter()
        .map(|state| line(state.as_str(), &|point| Some(f64::from(point.states[*state as usize]))))
        .filter(|line| line.values.iter().flatten().any(|value| *value > 0.0))
        .collect();
    let took = vec![line("", &|point| point.convergence_seconds.map(f64::from))];
    let converged = vec![line("", &|point| Some(f64::from(point.converged)))];
    let charts = [
        ("Open findings", findings, Unit::Count),
        ("Objects not converged", states, Unit::Count),
        ("Mean time to converge", took, Unit::Seconds),
        ("Spec changes converged", converged, Unit::Count),
    ];

    html! {
        p class="lead" {
            "All charts show the last " (frame.to.since(frame.from)) ", in UTC."
            @if frame.revisions().next().is_some() {
                " Vertical lines mark new revisions of the operator."
            }
            @if frame.has_more {
                " " a href="./#timeline" { "Last hour" } " · "
                a href="./?range=all#timeline" { "All that is known" }
            }
        }
        ul class="charts instance" {
            @for (title, lines, unit) in charts {
                (chart(&Chart { title, frame, times: &times, lines, unit }))
            }
        }
    }
}

fn events(past: &RecentPast) -> Markup {
    let more = past.events.len().saturating_sub(SHOWN) as u64 + past.forgotten;
    html! {
        ol class="timeline" aria-label="Timeline, the newest entry first" {
            @for event in past.events.iter().rev().take(SHOWN) { (entry(past.at, event)) }
        }
        @if more > 0 {
            p class="more" {
                "and " (Number(more)) " earlier: " a href="api/v1/timeline" { "timeline as JSON" }
            }
        }
    }
}

fn entry(now: Timestamp, event: &PastEvent) -> Markup {
    let when = html! { (UtcTime(event.at)) " " span class="age" { (Age(now, event.at)) " ago" } };
    match &event.what {
        Happening::Finding { change, code, severity, subject: about } => {
            let class = if matches!(*change, "opened" | "closed") { change } else { "explained" };
            html! {
                li class={ (class) " " (severity) } data-find {
                    (when) " "
                    span { b class="what" { (code) " " (change.replace('_', " ")) } " " (subject(about)) }
                }
            }
        }
        Happening::Operator { change, name, detail } => {
            let words = match *change {
                "leader_changed" => "changed its leader",
                "revision_changed" => "changed its revision",
                other => other,
            };
            html! {
                li class="operator" data-find {
                    (when) " "
                    span {
                        b class="what" { "operator " (words) } " "
                        bdi { (name) } " "
                        small { (detail) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
