//! Compares the metrics that loopwatch repeats with those that the operator serves.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::case::SLACK;
use loopwatch_testbed::http;
use loopwatch_testbed::operator::Operator;
use loopwatch_testbed::sidecar::Sidecar;

/// A metric of loopwatch, and the series of controller-runtime whose sum it must equal.
struct Repeated {
    family: &'static str,
    /// The value of `result`.
    result: &'static str,
    of: &'static str,
    /// The label of controller-runtime with the name of the controller.
    label: &'static str,
    /// The values of its label `result` that count; empty for all.
    results: &'static [&'static str],
}

const REQUEUED: &[&str] = &["requeue", "requeue_after"];

/// All families of the section "The operator's loop".
const LOOP: [Repeated; 14] = [
    of("reconciles_total", "controller_runtime_reconcile_total", "controller")
        .with("success", &["success", "requeue", "requeue_after"]),
    of("reconciles_total", "controller_runtime_reconcile_total", "controller")
        .with("error", &["error"]),
    of("reconciles_total", "controller_runtime_reconcile_panics_total", "controller")
        .with("panic", &[]),
    of("reconcile_requeues_total", "controller_runtime_reconcile_total", "controller")
        .with("", REQUEUED),
    of(
        "reconcile_duration_seconds_count",
        "controller_runtime_reconcile_time_seconds_count",
        "controller",
    ),
    of(
        "reconcile_duration_seconds_sum",
        "controller_runtime_reconcile_time_seconds_sum",
        "controller",
    ),
    of("reconcile_longest_running_seconds", "workqueue_longest_running_processor_seconds", "name"),
    of("queue_depth", "workqueue_depth", "name"),
    of("queue_adds_total", "workqueue_adds_total", "name"),
    of("queue_retries_total", "workqueue_retries_total", "name"),
    of("queue_wait_seconds_total", "workqueue_queue_duration_seconds_sum", "name"),
    of("queue_unfinished_seconds", "workqueue_unfinished_work_seconds", "name"),
    of("workers_busy", "controller_runtime_active_workers", "controller"),
    of("workers_max", "controller_runtime_max_concurrent_reconciles", "controller"),
];

const fn of(family: &'static str, of: &'static str, label: &'static str) -> Repeated {
    Repeated { family, result: "", of, label, results: &[] }
}

impl Repeated {
    const fn with(self, result: &'static str, results: &'static [&'static str]) -> Self {
        Self { result, results, ..self }
    }

    /// The series that loopwatch must have for the metrics of an instance.
    fn expected(&self, text: &str, pod: SocketAddr) -> BTreeMap<String, f64> {
        let mut expected = BTreeMap::new();
        for (labels, value) in samples(text, self.of) {
            let Some(controller) = label(labels, self.label) else { continue };
            let counts =
                label(labels, "result").is_none_or(|result| self.results.contains(&result));
            if !self.results.is_empty() && !counts {
                continue;
            }

            let result = if self.result.is_empty() {
                String::new()
            } else {
                format!(",result=\"{}\"", self.result)
            };
            let labels = format!("operator_pod=\"{pod}\",controller=\"{controller}\"{result}");

            *expected.entry(format!("loopwatch_{}{{{labels}}}", self.family)).or_default() += value;
        }

        expected
    }
}

/// Waits until each series about the operator's loop has the value that the operator serves. The
/// operator must be idle.
pub(crate) fn expect_repeated(sidecar: &Sidecar, operator: &Operator) {
    sidecar.expect(SLACK * 2, "the metrics of loopwatch are those of the operator", || {
        let theirs = http::get(operator.metrics.port(), "/metrics")?;
        let ours = sidecar.metrics()?;
        for repeated in &LOOP {
            let expected = repeated.expected(&theirs, operator.metrics);
            if expected.is_empty() {
                return Err(format!("the operator does not serve {}", repeated.of));
            }

            expect_series(&ours, &expected)?;
        }

        expect_series(&ours, &buckets(&theirs, operator.metrics))?;

        let mut requests = BTreeMap::<String, f64>::new();
        for (labels, value) in samples(&theirs, "rest_client_requests_total") {
            let code = label(labels, "code").unwrap_or_default();
            let series = format!(
                "loopwatch_operator_requests_total{{operator_pod=\"{}\",code=\"{code}\"}}",
                operator.metrics
            );

            *requests.entry(series).or_default() += value;
        }

        expect_series(&ours, &requests)
    });
}

/// The buckets of reconciles that loopwatch must have: of some bounds that controller-runtime and
/// loopwatch have, and without a bound.
fn buckets(text: &str, pod: SocketAddr) -> BTreeMap<String, f64> {
    let family = "controller_runtime_reconcile_time_seconds_bucket";
    let known = samples(text, family).filter_map(|(labels, value)| {
        let bound = match label(labels, "le")? {
            "0.1" => "0.1",
            "1" => "1.0",
            "60" => "60.0",
            "+Inf" => "+Inf",
            _ => return None,
        };
        let controller = label(labels, "controller")?;
        let labels = format!("operator_pod=\"{pod}\",controller=\"{controller}\",le=\"{bound}\"");
        Some((format!("loopwatch_reconcile_duration_seconds_bucket{{{labels}}}"), value))
    });
    known.collect()
}

/// Checks that a text contains these series with these values.
fn expect_series(text: &str, expected: &BTreeMap<String, f64>) -> Result<(), String> {
    for (series, value) in expected {
        let line =
            text.lines().find_map(|line| line.strip_prefix(series.as_str())?.strip_prefix(' '));
        let shown: Option<f64> = line.and_then(|rest| rest.split(' ').next()?.parse().ok());
        if shown.is_none_or(|shown| (shown - value).abs() > 1e-6 * value.abs().max(1.0)) {
            return Err(format!("{series} is {shown:?} instead of {value}"));
        }
    }

    Ok(())
}

/// The labels and values of a family.
fn samples<'a>(text: &'a str, family: &str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let (labels, value) = line.strip_prefix(family)?.strip_prefix('{')?.rsplit_once("} ")?;
        Some((labels, value.parse().ok()?))
    })
}

/// The value of a label. Those of the zoo need no escapes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels
        .split(',')
        .find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
}
