//! Small charts of the recent past, all over the same time.

use std::fmt::Write as _;

use loopwatch_model::finding::Value;
use loopwatch_model::snapshot::{Happening, RecentPast, Snapshot};
use loopwatch_model::time::{Span, Timestamp};
use maud::{Markup, PreEscaped, html};

use crate::export::view::Number;

/// The width and the height of a chart in SVG units.
const SIZE: f64 = 1000.0;

/// The distance between the lines of a chart and its upper and lower edge.
const MARGIN: f64 = 20.0;

/// The time that the charts show unless the reader wants all.
const USUAL: Span = Span::hours(1);

/// What all charts of a page have in common.
pub(super) struct Frame {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// New revisions of the operator, each with its name.
    revisions: Vec<(Timestamp, String)>,
    /// Whether the page knows more of the past than the usual time.
    pub(super) has_more: bool,
}

/// One chart: some lines over the same time.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) frame: &'a Frame,
    /// The times of the values, in order.
    pub(super) times: &'a [Timestamp],
    pub(super) lines: Vec<ChartLine>,
    pub(super) unit: Unit,
}

/// One line of a chart.
pub(super) struct ChartLine {
    /// The name of the line; empty if it is the only one.
    pub(super) name: &'static str,
    /// The values, one per instant; absent ones leave a gap.
    pub(super) values: Vec<Option<f64>>,
}

/// How to write the values of a chart. The script writes those below the pointer in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Count,
    Bytes,
    PerSecond,
    Seconds,
}

impl Frame {
    /// The usual time or, if the reader `wants_all`, the whole past.
    pub(super) fn of(snapshot: &Snapshot, past: &RecentPast, wants_all: bool) -> Self {
        let instances = snapshot.operator.instances.iter();
        let first = instances.filter_map(|instance| Some(instance.recent.first()?.at));
        let first = first.chain(past.points.first().map(|point| point.at)).min();
        let to = past.points.last().map_or(snapshot.at, |point| point.at.max(snapshot.at));
        let usual = to.before(USUAL);
        let all = first.unwrap_or(to);

        let revisions = past.events.iter().filter_map(|event| match &event.what {
            Happening::Operator { change: "revision_changed", name, detail } => {
                Some((event.at, format!("new revision of {name} {detail}")))
            }
            _ => None,
        });
        Self {
            from: if wants_all { all } else { all.max(usual) },
            to,
            revisions: revisions.collect(),
            has_more: all < usual,
        }
    }

    /// The new revisions that the charts show.
    pub(super) fn revisions(&self) -> impl Iterator<Item = &(Timestamp, String)> {
        self.revisions.iter().filter(|(at, _)| *at >= self.from && *at <= self.to)
    }

    /// The horizontal place of an instant.
    fn x(&self, at: Timestamp) -> f64 {
        let all = self.to.since(self.from).seconds().max(1.0);
        (SIZE * at.since(self.from).seconds() / all).clamp(0.0, SIZE).round()
    }
}

impl Unit {
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Count => Number(to_u64(value)).to_string(),
            Self::Bytes => Value::Bytes(to_u64(value)).to_string(),
            Self::PerSecond => rate(value),
            Self::Seconds => Span(value.mul_add(1000.0, 0.5) as i64).to_string(),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::PerSecond => "rate",
            Self::Seconds => "seconds",
        }
    }
}

/// One chart as an item of a list; nothing if it has no values.
pub(super) fn chart(chart: &Chart<'_>) -> Markup {
    let Chart { title, frame, times, lines, unit } = chart;
    let start = times.partition_point(|at| *at < frame.from);
    let all = || lines.iter().flat_map(|line| line.values.iter().skip(start).flatten().copied());
    let Some(first) = lines.first().filter(|_| all().next().is_some()) else {
        return Markup::default();
    };
    let (highest, lowest) = (all().fold(f64::MIN, f64::max), all().fold(f64::MAX, f64::min));
    let range = format!("between {} and {}", unit.text(lowest), unit.text(highest));
    let period = frame.to.since(frame.from);

    html! {
        li {
            span { (title) }
            b { @if first.name.is_empty() { (unit.text(last(first))) } }
            div class="plot" {
                small { span { (unit.text(highest)) } span { "0" } }
                svg viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img"
                    data-unit=(unit.as_str()) data-max=(highest)
                    aria-label={ (title) " in the last " (period) ": " (range) } {
                    @for (at, text) in frame.revisions() {
                        path class="mark" d={ "M" (frame.x(*at)) " 0V1000" } { title { (text) } }
                    }
                    @for line in lines { (path(chart, line, start, highest)) }
                    path class="cursor" {}
                }
                (axis(frame))
            }
            @if !first.name.is_empty() {
                ul class="legend" {
                    @for line in lines {
                        li class=(line.name) { (unit.text(last(line))) " " (line.name) }
                    }
                }
            }
        }
    }
}

/// The times at both ends, and the place for the value below the pointer.
fn axis(frame: &Frame) -> Markup {
    let time = |at: Timestamp| at.to_string().get(11..16).unwrap_or_default().to_owned();
    html! {
        small class="x" data-from=(frame.from.0) data-to=(frame.to.0) {
            span { (time(frame.from)) } output {} span { (time(frame.to)) }
        }
    }
}

fn last(line: &ChartLine) -> f64 {
    line.values.iter().rev().flatten().next().copied().unwrap_or_default()
}

/// A line as steps: each value holds until the next one. The scale starts at zero, so that small
/// changes of a large number look small. Absent values leave gaps.
fn path(chart: &Chart<'_>, line: &ChartLine, start: usize, highest: f64) -> Markup {
    let Chart { frame, times, .. } = chart;
    let mut steps = String::new();
    let mut level: Option<f64> = None;
    let mut end = 0.0;

    for (at, value) in times.iter().zip(&line.values).skip(start) {
        let x = frame.x(*at);
        let y = value.map(|value| {
            let share = value / highest.max(f64::MIN_POSITIVE);
            (SIZE - MARGIN - (SIZE - 2.0 * MARGIN) * share).round()
        });
        if y != level {
            // `write!` to a string cannot fail.
            let _ = match (level, y) {
                (None, Some(y)) => write!(steps, "M{x} {y}"),
                (Some(_), Some(y)) => write!(steps, "H{x}V{y}"),
                (Some(_), None) => write!(steps, "H{x}"),
                (None, None) => Ok(()),
            };
        }

        (level, end) = (y, x);
    }

    if level.is_some() {
        let _ = write!(steps, "H{end}");
    }

    html! {
        path class=[Some(line.name).filter(|name| !name.is_empty())] d=(PreEscaped(steps)) {}
    }
}

/// Formats a rate. A low one is per minute, because an idle operator reconciles every few minutes.
fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0/s".to_owned(),
        10.0.. => format!("{per_second:.0}/s"),
        1.0.. => format!("{per_second:.1}/s"),
        _ => format!("{:.1}/min", per_second * 60.0),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only converts back what was a count"
)]
fn to_u64(value: f64) -> u64 {
    value.round() as u64
}
