//! Shows the operator itself: its instances, their recent past as small charts, and their
//! controllers.

use loopwatch_model::observation::{ControllerView, Framework, ProcessView};
use loopwatch_model::snapshot::{InstanceSummary, RecentPoint, Snapshot};
use loopwatch_model::time::Timestamp;
use maud::{Markup, display, html};

use super::chart::{Chart, ChartLine, Frame, Unit, chart};
use super::markup::{Age, beyond, heading_row, section};
use crate::export::view::Number;

/// Maximum number of instances shown, and of controllers per instance.
const SHOWN: (usize, usize) = (5, 50);

/// One signal of the recent past.
struct ChartedSignal {
    title: fn(&ProcessView) -> &'static str,
    value: fn(&RecentPoint) -> Option<f64>,
    unit: Unit,
}

/// The charts, in the order of the page.
const CHARTS: [ChartedSignal; 5] = [
    ChartedSignal {
        title: |_| "Reconciles",
        value: |point| point.reconciles.map(f64::from),
        unit: Unit::PerSecond,
    },
    ChartedSignal {
        title: |_| "Failed reconciles",
        value: |point| point.failures.map(f64::from),
        unit: Unit::PerSecond,
    },
    ChartedSignal {
        title: |_| "Queue",
        value: |point| point.queue_depth.map(f64::from),
        unit: Unit::Count,
    },
    ChartedSignal {
        title: |process| if process.live_heap.is_some() { "Live heap" } else { "Memory" },
        value: |point| point.memory.map(to_f64),
        unit: Unit::Bytes,
    },
    ChartedSignal {
        title: |process| if process.goroutines.is_some() { "Goroutines" } else { "Threads" },
        value: |point| point.tasks.map(f64::from),
        unit: Unit::Count,
    },
];

/// The instances of the operator.
pub(super) fn operator(snapshot: &Snapshot, frame: &Frame) -> Markup {
    let instances = &snapshot.operator.instances;
    if instances.is_empty() {
        return Markup::default();
    }

    let content = html! {
        p class="lead" {
            "The tables count reconciles since the start of the process."
        }
        @for instance in instances.iter().take(SHOWN.0) { (instance_card(snapshot, instance, frame)) }
        @if let Some(more) = beyond(SHOWN.0, instances.len()) {
            p class="more" {
                "and " (more) " more: " a href="api/v1/operator" { "instances as JSON" }
            }
        }
    };
    section("operator", "The operator", &content)
}

fn instance_card(snapshot: &Snapshot, instance: &InstanceSummary, frame: &Frame) -> Markup {
    let metrics = instance.metrics.as_ref().map(|(_, metrics)| metrics);
    let framework = metrics.map(|metrics| metrics.framework);
    let controllers_of = metrics.map(|metrics| &metrics.controllers).filter(|all| !all.is_empty());

    html! {
        article class="instance" data-key={ "i-" (instance.name) } data-find {
            h3 {
                bdi { (instance.name) }
                @if let Some(known) = framework.filter(|it| *it != Framework::Unknown) {
                    " " small { (known.as_str()) }
                }
                @if metrics.and_then(|metrics| metrics.leading) == Some(false) {
                    " " small { "does not lead" }
                }
            }
            @if let Some((since, cause)) = instance.scrape_failure {
                p class="lead" {
                    "Scrapes of its metrics have failed for " (Age(snapshot.at, since))
                    " (" (display(cause)) ")."
                }
            }
            @if metrics.is_some_and(|metrics| metrics.protected) {
                p class="lead" {
                    "The operator shows its metrics only to authenticated clients or on loopback: without "
                    code { "--export-protected-metrics" } ", " code { "/metrics" }
                    " leaves out their numbers."
                }
            }
            @if let Some(metrics) = metrics.filter(|metrics| !metrics.problem.is_empty()) {
                p {
                    "loopwatch cannot read all of its metrics: " (metrics.problem)
                    "; lines skipped: " (Number(metrics.lines_skipped)) "."
                }
            }
            @if framework == Some(Framework::Unknown) {
                p class="lead" {
                    "loopwatch knows none of its metrics of control loops, and judges the reconciles by the objects alone."
                }
            }
            ul class="charts" { @for signal in &CHARTS { (signal_chart(signal, instance, frame)) } }
            @if let Some(all) = controllers_of { (controllers(all)) }
        }
    }
}

/// One chart, if the signal is available.
fn signal_chart(signal: &ChartedSignal, instance: &InstanceSummary, frame: &Frame) -> Markup {
    let times: Vec<Timestamp> = instance.recent.iter().map(|point| point.at).collect();
    let lines =
        vec![ChartLine { name: "", values: instance.recent.iter().map(signal.value).collect() }];
    let title = (signal.title)(&instance.process);
    chart(&Chart { title, frame, times: &times, lines, unit: signal.unit })
}

fn controllers(controllers: &[ControllerView]) -> Markup {
    let columns = ["Controller", "Queue", "Workers", "Reconciles", "Failed", "Longest running"];
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Controllers" {
            table {
                (heading_row(&columns))
                tbody {
                    @for controller in controllers.iter().take(SHOWN.1) {
                        (controller_row(controller))
                    }
                }
            }
        }
    }
}

fn controller_row(controller: &ControllerView) -> Markup {
    let number = |value: Option<u64>| {
        value.map_or_else(|| "–".to_owned(), |value| Number(value).to_string())
    };
    let reconciles =
        controller.succeeded.into_iter().chain(controller.failed).reduce(u64::saturating_add);
    let workers = match (controller.workers_busy, controller.workers_max) {
        (Some(busy), Some(max)) => format!("{} of {}", Number(busy), Number(max)),
        (busy, _) => number(busy),
    };
    let longest =
        controller.longest_running_seconds.map_or("–".to_owned(), |age| format!("{age:.0} s"));

    html! {
        tr {
            td { bdi { (controller.name) } }
            @for cell in [
                number(controller.queue_depth),
                workers,
                number(reconciles),
                number(controller.failed),
                longest,
            ] {
                td class="num" { (cell) }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a chart needs few digits")]
fn to_f64(value: u64) -> f64 {
    value as f64
}
