//! Shows the last hours: charts of findings, objects and convergence, and the events.

use loopwatch_model::snapshot::{Happening, ObjectState, PastEvent, PastPoint, RecentPast};
use loopwatch_model::time::{Span, Timestamp};
use maud::{Markup, html};

use super::chart::{Chart, ChartLine, chart, count};
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
pub(super) fn timeline(past: &RecentPast) -> Markup {
    let (Some(first), Some(last)) = (past.points.first(), past.points.last()) else {
        return Markup::default();
    };
    if past.points.len() < 2 && past.events.is_empty() {
        return Markup::default();
    }

    let content = html! {
        @if past.points.len() > 1 {
            (charts(&past.points, last.at.since(first.at), !past.events.is_empty()))
        }
        @if !past.events.is_empty() { (events(past)) }
    };
    section("timeline", "Timeline", &content)
}

fn charts(points: &[PastPoint], covered: Span, above_list: bool) -> Markup {
    let times: Vec<Timestamp> = points.iter().map(|point| point.at).collect();
    let period = format!("the last {covered}");
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
        ("Open findings", findings, count as fn(f64) -> String),
        ("Objects not converged", states, count),
        ("Mean time to converge", took, seconds),
        ("Spec changes converged", converged, count),
    ];

    html! {
        p class="lead" {
            "The charts show " (period) "."
            @if above_list { " Below them is what happened, the newest first." }
        }
        ul class="charts instance" {
            @for (title, lines, text) in charts {
                (chart(&Chart { title, period: &period, times: &times, lines, text }))
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
        Happening::Finding { change, code, subject: about, .. } => {
            let class = if matches!(*change, "opened" | "closed") { change } else { "explained" };
            html! {
                li class=(class) data-find {
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

fn seconds(value: f64) -> String {
    Span((value * 1000.0) as i64).to_string()
}

#[cfg(test)]
mod tests;
