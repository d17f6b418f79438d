//! Small charts of the recent past.

use std::fmt::Write as _;

use loopwatch_model::time::Timestamp;

use super::{Escaped, Number};

/// The size of a chart in its own units.
const SIZE: (f64, f64) = (240.0, 40.0);

/// One chart: some lines over the same time.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// The time that it covers, for people: `the last hour`.
    pub(super) period: &'a str,
    /// The instants of the values, in order.
    pub(super) times: &'a [Timestamp],
    pub(super) lines: Vec<Line<'a>>,
    /// How to write a value.
    pub(super) text: fn(f64) -> String,
}

/// One line of a chart.
pub(super) struct Line<'a> {
    /// Its name; empty if it is the only one.
    pub(super) name: &'a str,
    /// The values, one per instant; absent ones leave a gap.
    pub(super) values: Vec<Option<f64>>,
}

/// Writes one chart as an item of a list, unless it has no values.
pub(super) fn write(page: &mut String, chart: &Chart<'_>) {
    let all = || chart.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let Some(first) = chart.lines.first().filter(|_| all().next().is_some()) else { return };
    let (highest, lowest) = (all().fold(f64::MIN, f64::max), all().fold(f64::MAX, f64::min));
    let last =
        |line: &Line<'_>| line.values.iter().rev().flatten().next().copied().unwrap_or_default();
    let (title, period) = (Escaped(chart.title), chart.period);
    let _ = write!(page, "<li><span>{title}</span><b>");

    if first.name.is_empty() {
        page.push_str(&(chart.text)(last(first)));
    }

    let _ = write!(
        page,
        "</b><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{title} in {period}: between \
         {} and {}\">",
        SIZE.0,
        SIZE.1,
        (chart.text)(lowest),
        (chart.text)(highest),
    );

    chart.lines.iter().for_each(|line| polylines(page, chart.times, line, highest));
    let _ = write!(page, "</svg><small>highest: {}</small>", (chart.text)(highest));
    if !first.name.is_empty() {
        page.push_str("<ul class=\"legend\">");
        for line in &chart.lines {
            let _ = write!(
                page,
                "<li class=\"{0}\">{1} {0}</li>",
                Escaped(line.name),
                (chart.text)(last(line))
            );
        }

        page.push_str("</ul>");
    }

    page.push_str("</li>");
}

/// Writes the line of a chart. It starts at zero, so that small changes of a large number look
/// small, and has a gap where the signal was absent.
fn polylines(page: &mut String, times: &[Timestamp], line: &Line<'_>, highest: f64) {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
    let span = last.since(*first).seconds().max(1.0);
    let mut open = false;

    for (index, (at, value)) in times.iter().zip(&line.values).enumerate() {
        let Some(value) = value else {
            page.push_str(if std::mem::take(&mut open) { "\"/>" } else { "" });
            continue;
        };
        let is_absent = |neighbour: Option<&Option<f64>>| neighbour.is_none_or(Option::is_none);
        let is_dot = !open && is_absent(line.values.get(index + 1));

        if open {
            page.push(' ');
        } else {
            let class = [line.name, if is_dot { "dot" } else { "" }].join(" ");
            let _ = match class.trim() {
                "" => write!(page, "<polyline points=\""),
                class => write!(page, "<polyline class=\"{}\" points=\"", Escaped(class)),
            };
        }

        open = true;
        let x = SIZE.0 * at.since(*first).seconds() / span;
        let y = SIZE.1 - 1.0 - (SIZE.1 - 2.0) * value / highest.max(f64::MIN_POSITIVE);
        let _ = write!(page, "{x:.1},{y:.1}");

        if is_dot {
            let _ = write!(page, " {x:.1},{y:.1}");
        }
    }

    page.push_str(if open { "\"/>" } else { "" });
}

/// Writes a number of things.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only converts back what was a count"
)]
pub(super) fn count(value: f64) -> String {
    Number(value.round() as u64).to_string()
}
