//! The last hours: charts of findings, objects and convergence, and what happened.

use std::fmt::Write as _;

use loopwatch_model::snapshot::{Happening, ObjectState, PastEvent, PastPoint, RecentPast};
use loopwatch_model::time::{Span, Timestamp};

use super::chart::{self, Chart, Line, count};
use super::findings::subject;
use super::{Age, Escaped, Number, UtcTime};

/// Maximum number of events shown, the newest first.
const SHOWN: usize = 60;

/// The states of the chart. Converged and finished objects would make the others invisible.
const STATES: [ObjectState; 5] = [
    ObjectState::Progressing,
    ObjectState::Overdue,
    ObjectState::Failed,
    ObjectState::Terminating,
    ObjectState::Unknown,
];

/// Writes the charts and the events, unless there is nothing to show.
pub(super) fn write(page: &mut String, past: &RecentPast) {
    let (Some(first), Some(last)) = (past.points.first(), past.points.last()) else { return };
    if past.points.len() < 2 && past.events.is_empty() {
        return;
    }

    page.push_str("<section aria-labelledby=\"timeline\"><h2 id=\"timeline\">Timeline</h2>");
    if past.points.len() > 1 {
        charts(page, &past.points, last.at.since(first.at), !past.events.is_empty());
    }

    events(page, past);
    page.push_str("</section>");
}

fn charts(page: &mut String, points: &[PastPoint], covered: Span, above_list: bool) {
    let times: Vec<Timestamp> = points.iter().map(|point| point.at).collect();
    let period = format!("the last {covered}");
    let line = |name, value: &dyn Fn(&PastPoint) -> Option<f64>| Line {
        name,
        values: points.iter().map(value).collect(),
    };
    let sum = |point: &PastPoint| Some(f64::from(point.findings.iter().sum::<u32>()));
    let findings = vec![line("", &sum)];

    let states = STATES
        .iter()
        .map(|state| line(state.as_str(), &|point| Some(f64::from(point.states[*state as usize]))));
    let states: Vec<Line<'_>> =
        states.filter(|line| line.values.iter().flatten().any(|value| *value > 0.0)).collect();
    let took = vec![line("", &|point| point.convergence_seconds.map(f64::from))];
    let converged = vec![line("", &|point| Some(f64::from(point.converged)))];
    let list = if above_list { " Below them is what happened, the newest first." } else { "" };

    let _ = write!(
        page,
        "<p class=\"lead\">The charts show {period}.{list}</p><ul class=\"charts instance\">"
    );
    for (title, lines, text) in [
        ("Open findings", findings, count as fn(f64) -> String),
        ("Objects not converged", states, count),
        ("Mean time to converge", took, seconds),
        ("Spec changes converged", converged, count),
    ] {
        chart::write(page, &Chart { title, period: &period, times: &times, lines, text });
    }

    page.push_str("</ul>");
}

fn events(page: &mut String, past: &RecentPast) {
    if past.events.is_empty() {
        return;
    }

    page.push_str("<ol class=\"timeline\" aria-label=\"Timeline, the newest entry first\">");
    for event in past.events.iter().rev().take(SHOWN) {
        entry(page, past.at, event);
    }

    page.push_str("</ol>");
    let more = past.events.len().saturating_sub(SHOWN) as u64 + past.forgotten;
    if more > 0 {
        let _ = write!(
            page,
            "<p class=\"more\">and {} earlier: <a href=\"api/v1/timeline\">timeline as JSON</a></p>",
            Number(more)
        );
    }
}

fn entry(page: &mut String, now: Timestamp, event: &PastEvent) {
    let when =
        format!("{} <span class=\"age\">{} ago</span>", UtcTime(event.at), Age(now, event.at));
    let _ = match &event.what {
        Happening::Finding { change, code, subject: about, .. } => write!(
            page,
            "<li class=\"{class}\" data-find>{when} <span><b class=\"what\">{code} {words}</b> {about}</span></li>",
            class = if matches!(*change, "opened" | "closed") { change } else { "explained" },
            words = change.replace('_', " "),
            about = subject(about),
        ),
        Happening::Operator { change, name, detail } => write!(
            page,
            "<li class=\"operator\" data-find>{when} <span><b class=\"what\">operator {words}</b> <bdi>{}</bdi> \
             <small>{}</small></span></li>",
            Escaped(name),
            Escaped(detail),
            words = match *change {
                "leader_changed" => "changed its leader",
                "revision_changed" => "changed its revision",
                other => other,
            },
        ),
    };
}

fn seconds(value: f64) -> String {
    Span((value * 1000.0) as i64).to_string()
}

#[cfg(test)]
mod tests;
