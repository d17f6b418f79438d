//! The operator itself: its instances, their recent past as small charts, and their controllers.

use std::fmt::Write as _;

use loopwatch_model::finding::Value;
use loopwatch_model::observation::{ControllerView, Framework, ProcessView};
use loopwatch_model::snapshot::{InstanceSummary, RecentPoint, Snapshot};
use loopwatch_model::time::Timestamp;

use super::chart::{self, Chart, Line, count};
use super::{Age, Escaped, Number};

/// Maximum number of instances shown, and of controllers of each.
const SHOWN: (usize, usize) = (5, 50);

/// One signal of the recent past.
struct Signal {
    title: fn(&ProcessView) -> &'static str,
    value: fn(&RecentPoint) -> Option<f64>,
    text: fn(f64) -> String,
}

/// The charts, in the order of the page.
const CHARTS: [Signal; 5] = [
    Signal { title: |_| "Reconciles", value: |point| point.reconciles.map(f64::from), text: rate },
    Signal {
        title: |_| "Failed reconciles",
        value: |point| point.failures.map(f64::from),
        text: rate,
    },
    Signal { title: |_| "Queue", value: |point| point.queue_depth.map(f64::from), text: count },
    Signal {
        title: |process| if process.live_heap.is_some() { "Live heap" } else { "Memory" },
        value: |point| point.memory.map(to_f64),
        text: |value| Value::Bytes(to_u64(value)).to_string(),
    },
    Signal {
        title: |process| if process.goroutines.is_some() { "Goroutines" } else { "Threads" },
        value: |point| point.tasks.map(f64::from),
        text: count,
    },
];

/// The instances of the operator.
pub(super) fn operator(page: &mut String, snapshot: &Snapshot) {
    let instances = &snapshot.operator.instances;
    if instances.is_empty() {
        return;
    }

    page.push_str(
        "<section aria-labelledby=\"operator\"><h2 id=\"operator\">The operator</h2><p class=\"lead\">The charts show the last \
         hour. The tables count reconciles since the start of the process.</p>",
    );
    for instance in instances.iter().take(SHOWN.0) {
        instance_card(page, snapshot, instance);
    }

    if let Some(more) = instances.len().checked_sub(SHOWN.0).filter(|more| *more > 0) {
        let _ = write!(
            page,
            "<p class=\"more\">and {} more: <a href=\"api/v1/operator\">instances as JSON</a></p>",
            Number(more as u64)
        );
    }

    page.push_str("</section>");
}

fn instance_card(page: &mut String, snapshot: &Snapshot, instance: &InstanceSummary) {
    let _ = write!(
        page,
        "<article class=\"instance\" data-key=\"i-{key}\" data-find><h3><bdi>{key}</bdi>",
        key = Escaped(&instance.name)
    );
    let metrics = instance.metrics.as_ref().map(|(_, metrics)| metrics);
    if let Some(framework) =
        metrics.map(|metrics| metrics.framework).filter(|it| *it != Framework::Unknown)
    {
        let _ = write!(page, " <small>{}</small>", framework.as_str());
    }

    if metrics.and_then(|metrics| metrics.leading) == Some(false) {
        page.push_str(" <small>does not lead</small>");
    }

    page.push_str("</h3>");
    if let Some((since, cause)) = instance.scrape_failure {
        let age = Age(snapshot.at, since);
        let _ = write!(
            page,
            "<p class=\"lead\">Scrapes of its metrics have failed for {age} ({cause}).</p>"
        );
    }

    if let Some(metrics) = metrics.filter(|metrics| !metrics.problem.is_empty()) {
        let (problem, skipped) = (Escaped(&metrics.problem), Number(metrics.lines_skipped));
        let _ = write!(
            page,
            "<p>loopwatch cannot read all of its metrics: {problem}; lines skipped: {skipped}.</p>"
        );
    }

    page.push_str("<ul class=\"charts\">");
    CHARTS.iter().for_each(|shown| chart(page, shown, instance));
    page.push_str("</ul>");

    if let Some(metrics) = metrics.filter(|metrics| !metrics.controllers.is_empty()) {
        controllers(page, &metrics.controllers);
    }

    page.push_str("</article>");
}

/// Writes one chart, if the signal is available.
fn chart(page: &mut String, signal: &Signal, instance: &InstanceSummary) {
    let times: Vec<Timestamp> = instance.recent.iter().map(|point| point.at).collect();
    let lines = vec![Line { name: "", values: instance.recent.iter().map(signal.value).collect() }];
    let title = (signal.title)(&instance.process);
    chart::write(
        page,
        &Chart { title, period: "the last hour", times: &times, lines, text: signal.text },
    );
}

fn controllers(page: &mut String, controllers: &[ControllerView]) {
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Controllers\"><table><thead><tr>\
         <th scope=\"col\">Controller</th><th scope=\"col\">Queue</th><th scope=\"col\">Workers</th>\
         <th scope=\"col\">Reconciles</th><th scope=\"col\">Failed</th><th scope=\"col\">Longest running</th></tr></thead><tbody>",
    );
    for controller in controllers.iter().take(SHOWN.1) {
        let number = |value: Option<u64>| {
            value.map_or_else(|| "–".to_owned(), |value| Number(value).to_string())
        };
        let reconciles =
            controller.succeeded.into_iter().chain(controller.failed).reduce(u64::saturating_add);
        let workers = match (controller.workers_busy, controller.workers_max) {
            (Some(busy), Some(max)) => format!("{} of {}", Number(busy), Number(max)),
            (busy, _) => number(busy),
        };

        let longest = controller
            .longest_running_seconds
            .map_or_else(|| "–".to_owned(), |age| format!("{age:.0} s"));
        let _ = write!(
            page,
            "<tr><td><bdi>{}</bdi></td><td class=\"num\">{}</td><td class=\"num\">{workers}</td><td class=\"num\">{}</td>\
             <td class=\"num\">{}</td><td class=\"num\">{longest}</td></tr>",
            Escaped(&controller.name),
            number(controller.queue_depth),
            number(reconciles),
            number(controller.failed),
        );
    }

    page.push_str("</tbody></table></div>");
}

/// Writes a rate; a low one per minute, because an idle operator reconciles every few minutes.
fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0/s".to_owned(),
        10.0.. => format!("{per_second:.0}/s"),
        1.0.. => format!("{per_second:.1}/s"),
        _ => format!("{:.1}/min", per_second * 60.0),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a chart needs few digits")]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only converts back what was a count"
)]
fn to_u64(value: f64) -> u64 {
    value.round() as u64
}
