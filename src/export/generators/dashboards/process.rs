//! `loopwatch-process`: the operator itself. Does it run, does it keep up, and what does it use?

use loopwatch_model::finding::Area;
use loopwatch_model::settings::Settings;
use serde_json::Value;

use super::colours::Meaning::{Bad, Good, Warn};
use super::findings::{findings_over_time, open_findings};
use super::panels::{Panel, lines, stat};
use super::queries::{Scope, by, legend, merged, quantile, rate, series, some};
use super::{Dashboard, Row, annotation, seconds, variable};

const AREAS: [Area; 2] = [Area::Operator, Area::Process];

const POD: &str = "{{operator_pod}}";
const CONTROLLER: &str = "{{controller}}";
const MEMORY: &str = "loopwatch_operator_memory_bytes";
const LIMIT: &str = "loopwatch_operator_memory_limit_bytes";
const RECONCILES: &str = "loopwatch_reconcile_duration_seconds";
const RESULTS: [&str; 3] = ["success", "error", "panic"];

pub(super) fn dashboard() -> Dashboard {
    let pods = series("loopwatch_operator_signal_available", Scope::Operator, "");

    Dashboard {
        uid: "loopwatch-process",
        title: "loopwatch / Process",
        description: "The operator itself: whether it runs, whether it keeps up with its work, what it uses, and when it will run out.",
        rows: vec![broken(), presence(), work(), resources(), trends()],
        variables: vec![variable(
            "operator_pod",
            "Operator Pod",
            ".*",
            "The Pod of the operator.",
            &format!("label_values({pods}, operator_pod)"),
        )],
        annotations: vec![restarts()],
    }
}

fn restarts() -> Value {
    let counter = series("loopwatch_operator_restarts_total", Scope::Pod, "");
    let query = by("max", "operator_pod, container", &format!("increase({counter}[2m])"));
    let title = "Restart of {{operator_pod}} {{container}}";

    annotation("Restarts", Warn, &format!("{query} > 0"), title, "cluster,namespace,operator")
}

/// The present value of a gauge, for each of these labels.
fn levels(
    (title, description, axis): (&str, &str, &str),
    metric: &str,
    (labels, words): (&str, &str),
) -> Panel {
    lines(title, description, axis)
        .query(&by("max", labels, &series(metric, Scope::Pod, "")), &legend(words))
}

fn broken() -> Row {
    let settings = Settings::default();
    let above = |value: f64| [(Good, None), (Warn, Some(value))];
    let of = |metric, matchers| by("max", "operator_pod", &series(metric, Scope::Pod, matchers));
    let tasks = |kind| of("loopwatch_operator_tasks", kind);
    let highest = |metric| format!("max({})", series(metric, Scope::Pod, ""));
    let errors = series("loopwatch_reconciles_total", Scope::Pod, r#"result="error""#);
    let memory = format!(
        "max(({} or {}) / {})",
        of(MEMORY, r#"type="working_set""#),
        of(MEMORY, r#"type="resident""#),
        of(LIMIT, r#"type="container""#)
    );
    let exhaustion = series("loopwatch_time_to_exhaustion_seconds", Scope::Pod, "");

    Row {
        title: "Is the operator in trouble?",
        is_folded: false,
        panels: vec![
            stat(
                "Longest queue",
                "Objects that wait in the longest queue. By default, a queue counts as a backlog above 500 objects for 2 minutes.",
                &highest("loopwatch_queue_depth"),
                &above(f64::from(settings.queue_backlog)),
            )
            .none("not available"),
            stat(
                "Failed reconciles",
                "Failed reconciles of the controller with the most failures, in the last 5 minutes. By default, a finding opens from 3 on.",
                &format!("max(increase({errors}[5m]))"),
                &above(f64::from(settings.reconcile_errors)),
            )
            .decimals(0)
            .none("not available"),
            stat(
                "Longest reconcile",
                "Age of the reconcile that has been running longest. By default, it counts as stuck after ten minutes if it also takes several times as long as usual.",
                &highest("loopwatch_reconcile_longest_running_seconds"),
                &above(seconds(settings.reconcile_stuck_after)),
            )
            .unit("s")
            .none("not available"),
            stat(
                "Memory, % of limit",
                "Memory of the operator, as a share of its container's limit: the working set, else the resident memory.",
                &memory,
                &[(Good, None)],
            )
            .unit("percentunit")
            .none("no limit"),
            stat(
                "Time to exhaustion",
                "Estimated time until the operator reaches a limit, if its trend goes on; none without a confirmed trend. Below one day, a finding about memory opens.",
                &format!("min({exhaustion})"),
                &[(Warn, None), (Good, Some(seconds(settings.exhaustion_within)))],
            )
            .unit("s")
            .none("none"),
            stat(
                "Tasks",
                "Goroutines of the operator, else threads.",
                &format!("max({} or {})", tasks(r#"type="goroutines""#), tasks(r#"type="threads""#)),
                &[(Good, None)],
            )
            .none("not available"),
            open_findings(Some(&AREAS)),
            findings_over_time(Some(&AREAS)),
        ],
    }
}

fn presence() -> Row {
    let hourly = |metric| merged(&format!("increase({}[1h])", series(metric, Scope::Pod, "")));
    let up = by("max", "", &series("loopwatch_operator_up", Scope::Operator, ""));
    let lease = series("loopwatch_lease_renew_age_seconds", Scope::Operator, "");
    let restarts = hourly("loopwatch_operator_restarts_total");
    let kills = hourly("loopwatch_operator_oom_kills_total");

    Row {
        title: "Does it run?",
        is_folded: false,
        panels: vec![
            lines(
                "Operator up",
                "Up if something shows that the operator is there, down while OperatorDown is open; no line if nothing shows either.",
                "up or down",
            )
            .query(&up, &legend("operator"))
            .values(&[("0", "down"), ("1", "up")])
            .most(1.0)
            .wide(8),
            lines(
                "Restarts and kills",
                "Restarts of the operator's containers, and processes that the kernel killed because of the memory limit, per hour. Requires the permission to read the operator's Pods, or the process component.",
                "per hour",
            )
            .query(&by("sum", "operator_pod, container", &restarts), &legend("restarts of {{operator_pod}} {{container}}"))
            .query(&by("sum", "operator_pod", &kills), &legend("killed {{operator_pod}}"))
            .coloured("/^restarts/", Warn)
            .coloured("/^killed/", Bad)
            .wide(8),
            lines("Leader election", "Time since the holder of each lease last renewed it.", "age of the renewal")
                .query(&by("min", "target_namespace, lease", &lease), &legend("{{target_namespace}}/{{lease}}"))
                .unit("s")
                .none("no leases")
                .wide(8),
        ],
    }
}

fn work() -> Row {
    let of = |metric: &str| by("sum", "controller", &rate(metric, Scope::Pod, ""));
    let mean = |sum: &str, count: &str| format!("{} / {}", of(sum), of(count));
    let share = |share| quantile(share, "controller", &format!("{RECONCILES}_bucket"), Scope::Pod);
    let results =
        by("sum", "controller, result", &rate("loopwatch_reconciles_total", Scope::Pod, ""));
    let codes = by("sum", "code", &rate("loopwatch_operator_requests_total", Scope::Pod, ""));
    let highest = |metric| by("max", "controller", &series(metric, Scope::Pod, ""));

    Row {
        title: "Does it keep up with its work?",
        is_folded: false,
        panels: vec![
            lines("Reconciles", "Reconciles per second, by controller and result.", "reconciles per second")
                .query(&some(&results), &legend("{{result}} {{controller}}"))
                .words(&RESULTS)
                .unit("reqps")
                .interval("2m"),
            lines(
                "Duration of reconciles",
                "Mean, median and 99th percentile of the duration of the reconciles that ended, and the age of the one that has been running longest.",
                "duration",
            )
            .query(&mean(&format!("{RECONCILES}_sum"), &format!("{RECONCILES}_count")), &legend("mean {{controller}}"))
            .query(&highest("loopwatch_reconcile_longest_running_seconds"), &legend("running {{controller}}"))
            .query(&share("0.5"), &legend("p50 {{controller}}"))
            .query(&share("0.99"), &legend("p99 {{controller}}"))
            .unit("s")
            .interval("2m"),
            levels(
                ("Queue depth", "Objects that wait in the queue of each controller.", "objects"),
                "loopwatch_queue_depth",
                ("controller", CONTROLLER),
            ),
            lines("Wait in the queue", "Mean wait of objects in the queue of each controller.", "mean wait")
                .query(&mean("loopwatch_queue_wait_seconds_total", "loopwatch_queue_adds_total"), &legend(CONTROLLER))
                .unit("s")
                .interval("2m"),
            levels(
                ("Workers", "Busy workers of each controller, and their maximum.", "workers"),
                "loopwatch_workers_busy",
                ("controller", "busy {{controller}}"),
            )
            .query(&highest("loopwatch_workers_max"), &legend("max {{controller}}"))
            .limits("/^max /"),
            lines("Requests to the API server", "Requests of the operator per second, by HTTP status code.", "requests per second")
                .query(&codes, &legend("{{code}}"))
                .codes()
                .unit("reqps")
                .interval("2m"),
        ],
    }
}

fn resources() -> Row {
    let of_pod = ("operator_pod", POD);
    let of_type = ("operator_pod, type", "{{type}} {{operator_pod}}");
    let limit = by("max", "operator_pod, type", &series(LIMIT, Scope::Pod, ""));
    let descriptors =
        by("max", "operator_pod", &series("loopwatch_operator_max_fds", Scope::Pod, ""));
    let rate_of = |metric| by("max", "operator_pod", &rate(metric, Scope::Pod, ""));
    let cpu_limit =
        by("max", "operator_pod", &series("loopwatch_operator_cpu_limit_cores", Scope::Pod, ""));
    let throttled = format!(
        "{} / {}",
        rate_of("loopwatch_operator_cpu_throttled_periods_total"),
        rate_of("loopwatch_operator_cpu_periods_total")
    );

    Row {
        title: "What does it use?",
        is_folded: true,
        panels: vec![
            levels(
                ("Memory", "Memory of the operator, by type, with its limits.", "memory"),
                MEMORY,
                of_type,
            )
            .query(&limit, &legend("limit of {{type}} {{operator_pod}}"))
            .limits("/^limit /")
            .unit("bytes"),
            levels(
                ("Tasks", "Goroutines and threads of the operator.", "tasks"),
                "loopwatch_operator_tasks",
                of_type,
            ),
            lines("CPU", "CPU cores that the operator uses, with their limit.", "cores")
                .query(&rate_of("loopwatch_operator_cpu_seconds_total"), &legend(POD))
                .query(&cpu_limit, &legend("limit of {{operator_pod}}"))
                .limits("/^limit /")
                .interval("2m"),
            lines(
                "CPU throttling",
                "Share of the periods of the CPU limit in which the kernel throttled the operator. It matters only if objects wait in the queues meanwhile.",
                "share of periods",
            )
            .query(&throttled, &legend(POD))
            .unit("percentunit")
            .most(1.0)
            .interval("2m"),
            levels(
                (
                    "File descriptors",
                    "Open file descriptors of the operator, with their maximum.",
                    "descriptors",
                ),
                "loopwatch_operator_open_fds",
                of_pod,
            )
            .query(&descriptors, &legend("max {{operator_pod}}"))
            .limits("/^max /")
            .wide(8),
            lines(
                "Garbage collections",
                "Garbage collections per second.",
                "collections per second",
            )
            .query(&rate_of("loopwatch_operator_gc_cycles_total"), &legend(POD))
            .unit("ops")
            .interval("2m")
            .wide(8),
        ],
    }
}

fn trends() -> Row {
    let heap = by("max", "operator_pod", &series(MEMORY, Scope::Pod, r#"type="live_heap""#));
    let slope = |matchers, labels| {
        by("max", labels, &series("loopwatch_trend_slope", Scope::Pod, matchers))
    };
    let growth = slope(r#"signal="live_heap""#, "operator_pod");
    let counts = slope(r#"signal=~"tasks|descriptors""#, "operator_pod, signal");

    Row {
        title: "When will it run out?",
        is_folded: true,
        panels: vec![
            lines("Memory and its trend", "Live heap of the operator, and its projected trend: the live heap in an hour.", "live heap")
                .query(&heap, &legend(POD))
                .query(&format!("{heap} + {growth}"), &legend("in an hour {{operator_pod}}"))
                .unit("bytes"),
            levels(
                ("Time to exhaustion", "Estimated time until the operator reaches a limit, by resource.", "time"),
                "loopwatch_time_to_exhaustion_seconds",
                ("operator_pod, resource", "{{resource}} {{operator_pod}}"),
            )
            .unit("s"),
            lines(
                "Growth of tasks and descriptors",
                "Change per hour of the number of tasks and of open file descriptors, without the share of new objects.",
                "change per hour",
            )
            .query(&counts, &legend("{{signal}} {{operator_pod}}")),
            levels(
                ("Memory pressure", "Share of time in which tasks of the container waited for memory.", "share of time"),
                "loopwatch_operator_memory_pressure_ratio",
                ("operator_pod", POD),
            )
            .unit("percentunit"),
        ],
    }
}
