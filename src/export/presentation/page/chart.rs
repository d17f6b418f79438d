//! Small charts of the recent past.

use std::fmt::Write as _;

use loopwatch_model::time::Timestamp;
use maud::{Markup, PreEscaped, html};

use crate::export::view::Number;

/// The size of a chart in SVG units.
const SIZE: (f64, f64) = (240.0, 40.0);

/// One chart: some lines over the same time.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// The period as text: `the last hour`.
    pub(super) period: &'a str,
    /// The times of the values, in order.
    pub(super) times: &'a [Timestamp],
    pub(super) lines: Vec<ChartLine>,
    /// How to write a value.
    pub(super) text: fn(f64) -> String,
}

/// One line of a chart.
pub(super) struct ChartLine {
    /// The name of the line; empty if it is the only one.
    pub(super) name: &'static str,
    /// The values, one per instant; absent ones leave a gap.
    pub(super) values: Vec<Option<f64>>,
}

/// One chart as an item of a list; nothing if it has no values.
pub(super) fn chart(chart: &Chart<'_>) -> Markup {
    let Chart { title, period, times, lines, text } = chart;
    let all = || lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let Some(first) = lines.first().filter(|_| all().next().is_some()) else {
        return Markup::default();
    };
    let (highest, lowest) = (all().fold(f64::MIN, f64::max), all().fold(f64::MAX, f64::min));
    let range = format!("between {} and {}", text(lowest), text(highest));
    let view_box = format!("0 0 {} {}", SIZE.0, SIZE.1);

    html! {
        li {
            span { (title) }
            b { @if first.name.is_empty() { (text(last(first))) } }
            svg viewBox=(view_box) preserveAspectRatio="none" role="img"
                aria-label={ (title) " in " (period) ": " (range) } {
                @for line in lines { (polylines(times, line, highest)) }
            }
            small { "highest: " (text(highest)) }
            @if !first.name.is_empty() {
                ul class="legend" {
                    @for line in lines { li class=(line.name) { (text(last(line))) " " (line.name) } }
                }
            }
        }
    }
}

fn last(line: &ChartLine) -> f64 {
    line.values.iter().rev().flatten().next().copied().unwrap_or_default()
}

/// The SVG of a line. The scale starts at zero, so that small changes of a large number look small.
/// Absent values leave gaps.
fn polylines(times: &[Timestamp], line: &ChartLine, highest: f64) -> PreEscaped<String> {
    let mut svg = String::new(); // contains only loopwatch's own names, and numbers
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return PreEscaped(svg) };
    let span = last.since(*first).seconds().max(1.0);
    let mut open = false;

    for (index, (at, value)) in times.iter().zip(&line.values).enumerate() {
        let Some(value) = value else {
            svg.push_str(if std::mem::take(&mut open) { "\"/>" } else { "" });
            continue;
        };
        let is_absent = |neighbour: Option<&Option<f64>>| neighbour.is_none_or(Option::is_none);
        let is_dot = !open && is_absent(line.values.get(index + 1));

        if open {
            svg.push(' ');
        } else {
            let class = [line.name, if is_dot { "dot" } else { "" }].join(" ");
            let _ = match class.trim() {
                "" => write!(svg, "<polyline points=\""),
                class => write!(svg, "<polyline class=\"{class}\" points=\""),
            };
        }

        open = true;
        let x = SIZE.0 * at.since(*first).seconds() / span;
        let y = SIZE.1 - 1.0 - (SIZE.1 - 2.0) * value / highest.max(f64::MIN_POSITIVE);
        let _ = write!(svg, "{x:.1},{y:.1}");

        // A line needs two ends to be visible.
        if is_dot {
            let _ = write!(svg, " {x:.1},{y:.1}");
        }
    }

    svg.push_str(if open { "\"/>" } else { "" });
    PreEscaped(svg)
}

/// Formats a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only converts back what was a count"
)]
pub(super) fn count(value: f64) -> String {
    Number(value.round() as u64).to_string()
}
