//! Generates the section of `docs/operator.md` about the metrics of each framework.

use std::fmt::Write as _;

use super::{
    TABLES, ansible, client_go, controller_runtime, go, java_operator_sdk, jvm, knative, kube_rs,
    process, python, strimzi,
};
use crate::sources::operator::scrape::normalize::rules::{Metric, Rule, Signal, Table, Take};

/// A section: its title, its tables, whether it is about controllers, and its remarks.
type Section = (&'static str, &'static [&'static Table], bool, &'static str);

const SECTIONS: [Section; 12] = [
    (
        "controller-runtime (Kubebuilder, Operator SDK)",
        &[
            &controller_runtime::TABLE,
            &client_go::TABLE,
            &client_go::CLIENT,
            &controller_runtime::WEBHOOKS,
        ],
        true,
        "All versions. Those before 0.19 may not count panics and have no label `controller` at work queues, where loopwatch \
         then uses `name`. With priority queues, loopwatch adds the depths of all priorities.",
    ),
    (
        "client-go without controller-runtime",
        &[&client_go::TABLE, &client_go::CLIENT],
        true,
        "A work queue does not know results. A reconcile is one item that a worker has processed.",
    ),
    (
        "Ansible Operator SDK",
        &[
            &ansible::TABLE,
            &controller_runtime::TABLE,
            &client_go::TABLE,
            &client_go::CLIENT,
            &controller_runtime::WEBHOOKS,
        ],
        true,
        "It uses controller-runtime, which counts a playbook that fails as an error. loopwatch recognizes the framework \
         by `ansible_operator_build_info`, `ansible_operator_reconcile_result` or `ansible_operator_reconciles`.",
    ),
    (
        "Knative until 2025 (OpenCensus)",
        &[&knative::TABLE],
        true,
        "Knative exports the seconds of unfinished work as a histogram, from which nobody can read the current value. Of \
         its own metrics of Go, loopwatch reads the garbage collections (`<component>_go_num_gc`) and the heap goal \
         (`<component>_go_next_gc`).",
    ),
    (
        "Knative since 2025 (OpenTelemetry)",
        &[&knative::OPEN_TELEMETRY],
        true,
        "It no longer counts results, and its counter of requests names no status code except 200, so loopwatch does not \
         read that.",
    ),
    (
        "Java Operator SDK",
        &[&java_operator_sdk::TABLE],
        true,
        "The operator must configure `MicrometerMetricsV2` (names that begin with `reconciliations_`) or the deprecated \
         `MicrometerMetrics` (`operator_sdk_`); without either, it has no such metrics. The framework creates a counter when \
         it counts for the first time; loopwatch reads 0 until then. A live operator with version 5.3 serves exactly these \
         names ([the same faults in four frameworks](#the-same-faults-in-four-frameworks)).",
    ),
    (
        "Strimzi",
        &[&strimzi::TABLE],
        true,
        "A controller is a kind, in all namespaces together. Strimzi creates a counter when it counts for the first time; \
         loopwatch reads 0 until then.",
    ),
    (
        "kube-rs",
        &[&kube_rs::TABLE],
        true,
        "kube-rs has no metrics, but operators that began with its template have these, with a prefix that each operator \
         chooses. loopwatch takes the prefix as the name of the controller. Reconciles that ended without an error have \
         succeeded.",
    ),
    (
        "Go",
        &[&go::TABLE, &process::TABLE],
        false,
        "The live heap comes from the package `runtime/metrics`. controller-runtime 0.22 exports it, 0.19 does not.",
    ),
    (
        "JVM",
        &[&jvm::TABLE, &process::TABLE],
        false,
        "From Micrometer, or from Prometheus' client. Micrometer knows the live heap only after a collection of the old \
         generation, and no resident memory.",
    ),
    (
        "Python",
        &[&python::TABLE, &process::TABLE],
        false,
        "kopf has no metrics. These come from `prometheus_client`, if the operator serves them.",
    ),
    (
        "Rust",
        &[&process::RUST, &process::TABLE],
        false,
        "These come from the crate `prometheus` with the feature `process`, if the operator serves them.",
    ),
];

/// A signal, its displayed name, and the consequence of its absence.
type Meaning = (Signal, &'static str, &'static str);

const OF_CONTROLLERS: [Meaning; 20] = [
    (
        Signal::Succeeded,
        "reconciles that succeeded",
        "loopwatch cannot tell whether every reconcile fails",
    ),
    (
        Signal::Failed,
        "reconciles that failed",
        "loopwatch cannot tell whether every reconcile fails",
    ),
    (
        Signal::Requeued,
        "reconciles that asked for another one",
        "loopwatch cannot tell polling from other reconciles",
    ),
    (
        Signal::Panicked,
        "reconciles that panicked",
        "loopwatch notices panics only if they end the process",
    ),
    (Signal::Reconciles, "number of reconciles", "the reconcile rate is unknown"),
    (Signal::ReconcileSeconds, "duration of reconciles", "the duration is unknown"),
    (
        Signal::ReconcilesWithin,
        "reconciles by their duration",
        "loopwatch knows the mean duration, but no quantiles",
    ),
    (Signal::WorkersBusy, "busy workers", "loopwatch cannot tell whether all workers are busy"),
    (
        Signal::WorkersMax,
        "maximum number of workers",
        "loopwatch cannot tell whether all workers are busy",
    ),
    (Signal::QueueDepth, "queue depth", "loopwatch does not notice a backlog"),
    (Signal::QueueAdds, "additions to the queue", "the load is unknown"),
    (
        Signal::QueueRetries,
        "retries and scheduled reconciles",
        "loopwatch does not count the objects that wait for another attempt",
    ),
    (Signal::QueueWaits, "number of waits in the queue", "the wait before a reconcile is unknown"),
    (
        Signal::QueueSeconds,
        "duration of waits in the queue",
        "the wait before a reconcile is unknown",
    ),
    (Signal::Unfinished, "seconds of unfinished reconciles", "the sum of their times is unknown"),
    (
        Signal::LongestRunning,
        "longest unfinished reconcile",
        "loopwatch notices a reconcile that never ends only by busy workers, while no other reconcile ends",
    ),
    (
        Signal::Requests,
        "requests to the API server by status code",
        "loopwatch does not see rejected requests",
    ),
    (
        Signal::WebhookCalls,
        "calls of its webhooks",
        "loopwatch does not notice a webhook that answers slowly",
    ),
    (
        Signal::WebhookSeconds,
        "duration of calls of its webhooks",
        "loopwatch does not notice a webhook that answers slowly",
    ),
    (Signal::Leading, "leadership", "the Lease tells which replica leads"),
];

const OF_PROCESSES: [Meaning; 13] = [
    (Signal::Started, "start time", "loopwatch notices a restart only by counters that fall"),
    (Signal::CpuSeconds, "CPU time", "the CPU usage is unknown"),
    (Signal::Resident, "resident memory", "only `/proc` tells the memory of the process"),
    (
        Signal::LiveHeap,
        "live heap",
        "the memory trend uses resident memory, which shows slow leaks only",
    ),
    (
        Signal::HeapGoal,
        "heap goal",
        "loopwatch does not notice that the collector runs ever more often",
    ),
    (
        Signal::RuntimeLimit,
        "memory limit of the runtime",
        "the time to exhaustion refers to the container's limit",
    ),
    (Signal::GcPercent, "GOGC", "loopwatch assumes 100"),
    (
        Signal::GcCycles,
        "garbage collections",
        "loopwatch does not notice a process that only collects garbage",
    ),
    (
        Signal::GcLimitedCycle,
        "last limited garbage collection",
        "loopwatch does not notice a process at its limit",
    ),
    (Signal::Goroutines, "goroutines", "loopwatch watches threads instead"),
    (Signal::Threads, "threads", "loopwatch does not notice leaked threads"),
    (Signal::OpenFds, "open file descriptors", "loopwatch does not notice leaked descriptors"),
    (
        Signal::MaxFds,
        "maximum of file descriptors",
        "the time to exhaustion of descriptors is unknown",
    ),
];

/// Signals that only Go has. Their absence means nothing for other languages.
const OF_GO: [Signal; 4] =
    [Signal::HeapGoal, Signal::GcPercent, Signal::GcLimitedCycle, Signal::Goroutines];

const HEAD: &str = "\
loopwatch reads the operator's metrics in the Prometheus text format 0.0.4 or in OpenMetrics 1.0, and turns the metrics of
each framework into the same signals. The tables list the metric for each signal, and the consequence if a framework does not
have the signal. A signal that a framework does not have is absent, never 0.

- loopwatch adds the values of series that differ only in other labels.
- A negative counter, or one that is not a number, makes the signal absent.
- loopwatch skips lines that it cannot read, and reports the number and the problem of the first one.
- loopwatch reads at most 256 MiB, 5,000,000 lines, 64 KiB per line, 64 labels per series and 200 controllers.
- Native histograms are not part of these formats. Operators that export only native histograms have no durations.
- Of a histogram of durations, loopwatch keeps the buckets up to 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30 and 60 s that
  the framework has, as `loopwatch_reconcile_duration_seconds`, so a controller has at most 14 series. Without any of these
  buckets, only the number and the sum remain.
";

/// The metric, as a query would select it.
fn metric(rule: &Rule) -> String {
    let name = match rule.metric {
        Metric::Is(name) => name.to_owned(),
        Metric::Begins(beginning) => format!("{beginning}<controller>"),
        Metric::Ends(ending) => format!("<component>{ending}"),
    };
    let only = rule
        .only
        .map(|(label, values)| format!("{{{label}=~\"{}\"}}", values.join("|")))
        .unwrap_or_default();

    let unit = match rule.factor {
        0.001 => " (ms)",
        1e-9 => " (ns)",
        _ => "",
    };

    format!("`{name}{}`{unit}", only.replace("=~", if only.contains('|') { "=~" } else { "=" }))
}

/// The metrics of a signal in one table; `None` if there are none.
fn of_table(table: &Table, signal: Signal) -> Option<String> {
    let rules = table.rules.iter().filter(|rule| rule.signal == signal && rule.take != Take::Zero);
    let text = rules.fold(String::new(), |text, rule| match (text.is_empty(), rule.take) {
        (true, _) => metric(rule),
        (false, Take::Less) => format!("{text} less {}", metric(rule)),
        (false, _) => format!("{text}, {}", metric(rule)),
    });

    (!text.is_empty()).then(|| text.replace('|', "\\|"))
}

/// The metrics of a signal; `None` if there are none.
fn metrics(tables: &[&Table], signal: Signal, of_controllers: bool) -> Option<String> {
    let mut texts = tables.iter().filter_map(|table| of_table(table, signal));
    if of_controllers {
        // A framework's own metric replaces that of a library below it.
        return texts.next();
    }

    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn markdown() -> String {
    let mut page = String::from(HEAD);
    for (title, tables, of_controllers, remark) in SECTIONS {
        let _ = write!(page, "\n### {title}\n\n{remark}\n\n| signal | metric |\n|---|---|\n");
        let meanings: &[Meaning] = if of_controllers { &OF_CONTROLLERS } else { &OF_PROCESSES };
        let mut lost: Vec<(String, &str)> = Vec::new();

        for (signal, name, consequence) in meanings {
            match metrics(tables, *signal, of_controllers) {
                Some(metrics) => {
                    let _ = writeln!(page, "| {name} | {metrics} |");
                }
                None if OF_GO.contains(signal) => {}
                None => match lost.iter_mut().find(|(_, known)| known == consequence) {
                    Some((names, _)) => names.push_str(&format!(", {name}")),
                    None => lost.push(((*name).to_owned(), consequence)),
                },
            }
        }

        if !lost.is_empty() {
            page.push_str("\n| absent signal | consequence |\n|---|---|\n");
            for (names, consequence) in lost {
                let _ = writeln!(page, "| {names} | {consequence} |");
            }
        }
    }

    page
}

#[test]
fn the_documentation_matches_the_tables() {
    crate::golden::check_section("docs/operator.md", "metrics by framework", &markdown());
}

#[test]
fn the_documentation_covers_every_rule() {
    let page = markdown();
    for rule in TABLES.iter().flat_map(|table| table.rules) {
        let shown = match rule.metric {
            Metric::Is(name) => name,
            Metric::Begins(part) | Metric::Ends(part) => part,
        };
        let is_marker = matches!(rule.signal, Signal::Runtime(_)) || rule.take == Take::Zero;

        assert!(
            is_marker || page.contains(shown.trim_end_matches("_count")),
            "{shown} is not documented"
        );
    }
}
