//! `loopwatch-self`: can you rely on loopwatch, and what does it cost?

use loopwatch_model::finding::Area;

use super::colours::Meaning::{Bad, Good, Warn};
use super::findings::{TO_RUNBOOK, findings_over_time, open_findings, operator_columns};
use super::panels::{Column, Panel, lines, stat, table};
use super::queries::{Scope, by, legend, merged, quantile, rate, series, with_links, with_runbook};
use super::{Dashboard, Row};

const AREAS: [Area; 1] = [Area::Loopwatch];

/// The target of the benchmarks, in seconds. Nothing alerts.
const LAG: f64 = 0.5;

const POD: &str = "{{pod}}";
const DELIVERED: [&str; 6] = ["ok", "rejected", "failed", "dropped", "not_leader", "sampled_out"];

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "loopwatch-self",
        title: "loopwatch / Self",
        description: "loopwatch itself: can it see everything, does it keep up, what does it leave out, and what does it cost?",
        rows: vec![reliable(), sight(), speed(), delivery(), cost()],
        variables: Vec::new(),
        annotations: Vec::new(),
    }
}

fn of_operator(metric: &str) -> String {
    series(metric, Scope::Operator, "")
}

fn of_process(metric: &str) -> String {
    series(metric, Scope::Process, "")
}

fn missing_permissions() -> String {
    by(
        "max",
        "target_namespace, verb, group, resource",
        &of_operator("loopwatch_permission_missing"),
    )
}

fn reliable() -> Row {
    let up = by("min", "source", &of_operator("loopwatch_source_up"));
    let difference = format!("abs({})", of_operator("loopwatch_state_audit_difference"));
    let difference = by("max", "group, kind, target_namespace", &difference);
    let dropped = merged(&of_operator("loopwatch_dropped_total"));
    let rebuilds = merged(&format!("increase({}[1d])", of_process("loopwatch_rebuilds_total")));
    let configuration = of_process("loopwatch_config_last_reload_successful");
    let any = |meaning| [(Good, None), (meaning, Some(1.0))];

    Row {
        title: "Can you rely on what loopwatch says?",
        is_folded: false,
        panels: vec![
            stat(
                "Failing sources",
                "Sources that cannot read what they should. loopwatch does not judge what it cannot see.",
                &format!("sum(1 - {up})"),
                &any(Bad),
            )
            .none("no data"),
            stat(
                "Missing permissions",
                "Permissions that the account lacks. loopwatch leaves out what needs them.",
                &format!("count({} > 0)", missing_permissions()),
                &any(Warn),
            )
            .none("none"),
            stat(
                "Difference from the API server",
                "Objects by which the state of loopwatch differs from the counts of the API server.",
                &format!("sum({difference})"),
                &any(Bad),
            )
            .none("none"),
            stat(
                "Dropped by limits",
                "Objects, series and other things that loopwatch has left out because of a limit.",
                &format!("sum({dropped})"),
                &any(Warn),
            )
            .none("none"),
            stat(
                "Rebuilds",
                "Parts of loopwatch that it has rebuilt after a panic within a day.",
                &format!("sum({rebuilds})"),
                &any(Bad),
            )
            .none("none"),
            stat(
                "Configuration",
                "Whether loopwatch runs with its last configuration file: 1, or 0 with an earlier one.",
                &format!("min({configuration})"),
                &[(Bad, None), (Good, Some(1.0))],
            )
            .none("no file"),
            open_findings(Some(&AREAS)),
            findings_over_time(Some(&AREAS)),
        ],
    }
}

fn sight() -> Row {
    let failures =
        by("sum", "source, cause", &rate("loopwatch_source_failures_total", Scope::Operator, ""));
    let difference =
        format!("abs({})", series("loopwatch_state_audit_difference", Scope::Kind, ""));

    Row {
        title: "Does it see everything?",
        is_folded: false,
        panels: vec![
            sources(),
            lines("Source failures", "Source failures per second, by cause.", "failures per second")
                .query(&failures, &legend("{{source}} {{cause}}"))
                .unit("ops"),
            permissions(),
            lines(
                "Difference from the API server",
                "Objects in loopwatch minus objects in the API server, at the last audit. Expected: 0. A finding opens if two consecutive audits find the same difference.",
                "objects",
            )
            .query(&by("max", "group, kind", &difference), &legend("{{kind}} {{group}}"))
            .threshold(Bad, 1.0),
        ],
    }
}

fn sources() -> Panel {
    let up = by("min", "source", &of_operator("loopwatch_source_up"));
    let success =
        by("max", "source", &of_operator("loopwatch_source_last_success_timestamp_seconds"));
    let queries = [
        with_runbook(&with_links(&up), Some("SourceFailing")),
        format!("time() - {success}"),
        format!("1 - {up}"),
    ];
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        cluster,
        namespace,
        operator,
        Column::new("source", "Source").link("Runbook", TO_RUNBOOK),
        Column::new("Value #A", "Up").wide(90).values(&[("0", "no"), ("1", "yes")]),
        Column::new("Value #B", "Last success").unit("s").wide(130),
        Column::hidden("job"),
        Column::hidden("runbook"),
    ];

    table(
        "Sources",
        "Sources of loopwatch, whether they are up, and the time since they last succeeded; failing ones first. The objects of a failing source are in state unknown. A source links to the runbook.",
        &queries,
        Some("Value #C"),
        columns,
    )
}

fn permissions() -> Panel {
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        cluster,
        namespace,
        operator,
        Column::new("verb", "Verb"),
        Column::new("resource", "Resource").link("Runbook", TO_RUNBOOK),
        Column::new("group", "Group"),
        Column::new("target_namespace", "In namespace"),
        Column::hidden("job"),
        Column::hidden("runbook"),
    ];

    table(
        "Missing permissions",
        "Permissions that loopwatch needs but its account lacks, so that it cannot see a part of the cluster. An empty namespace means the whole cluster. A resource links to the runbook.",
        &[with_runbook(&with_links(&missing_permissions()), Some("PermissionMissing"))],
        None,
        columns,
    )
    .none("No missing permissions")
}

fn speed() -> Row {
    let lag = quantile("0.99", "group, kind", "loopwatch_watch_lag_seconds_bucket", Scope::Kind);
    let observations =
        by("sum", "source", &rate("loopwatch_observations_total", Scope::Operator, ""));
    let waiting = by("max", "", &of_process("loopwatch_channel_depth"));
    let dropped = by("sum", "limit", &rate("loopwatch_dropped_total", Scope::Operator, ""));
    let dropped = format!("60 * {dropped}");

    Row {
        title: "Does it keep up?",
        is_folded: false,
        panels: vec![
            lines(
                "Watch delivery lag",
                "Time from a change on the API server until loopwatch receives it, measured by audits: 99th percentile. The target is 0.5 s.",
                "lag",
            )
            .query(&lag, &legend("p99 {{kind}} {{group}}"))
            .unit("s")
            .interval("5m")
            .threshold(Warn, LAG),
            lines("Observations", "Observations processed per second, by kind of source.", "observations per second")
                .query(&observations, &legend("{{source}}"))
                .unit("ops"),
            lines(
                "Waiting observations",
                "Observations that wait for the model, of at most 1,024. If the number stays high, the sources wait, too.",
                "observations",
            )
            .query(&waiting, &legend("waiting")),
            lines(
                "Dropped by limits",
                "Items that loopwatch did not judge or export because a limit was reached, by limit. Expected: 0, except for object_series if many objects are unhealthy.",
                "items per minute",
            )
            .query(&dropped, &legend("{{limit}}"))
            .unit("cpm"),
        ],
    }
}

/// Requests or spans that loopwatch sends, by result.
fn sent(title: &str, description: &str, axis: &str, labels: &str, metric: &str) -> Panel {
    let words: Vec<String> = labels.split(", ").map(|label| format!("{{{{{label}}}}}")).collect();
    let query = by("sum", labels, &rate(metric, Scope::Process, ""));

    lines(title, description, axis)
        .query(&query, &legend(&words.join(" ")))
        .words(&DELIVERED)
        .wide(8)
}

fn delivery() -> Row {
    let requests =
        by("sum", "path, code", &rate("loopwatch_http_requests_total", Scope::Process, ""));
    let render = quantile("0.99", "", "loopwatch_render_seconds_bucket", Scope::Process);

    Row {
        title: "Does it deliver?",
        is_folded: true,
        panels: vec![
            lines("Requests", "Requests to loopwatch per second, by path and status code.", "requests per second")
                .query(&requests, &legend("{{code}} {{path}}"))
                .codes()
                .unit("reqps"),
            lines("Time to render the metrics", "Time to render one scrape: the 99th percentile.", "time")
                .query(&render, &legend("p99"))
                .unit("s"),
            sent(
                "Requests to Alertmanager",
                "Requests with alerts per second, if loopwatch posts alerts itself, by Alertmanager and result.",
                "requests per second",
                "result, alertmanager",
                "loopwatch_alertmanager_requests_total",
            )
            .unit("reqps"),
            sent(
                "Events for the webhook",
                "Events per second, if loopwatch notifies the operator, by result.",
                "events per second",
                "result",
                "loopwatch_notify_requests_total",
            )
            .unit("reqps"),
            sent(
                "Traces",
                "Spans per second, if loopwatch sends traces, by result. Spans that the collector did not accept are dropped or rejected.",
                "spans per second",
                "result",
                "loopwatch_spans_total",
            )
            .unit("ops"),
        ],
    }
}

fn cost() -> Row {
    let of_pod = |of: &str| by("max", "pod", of);
    let memory = of_pod(&of_process("process_resident_memory_bytes"));
    let cpu = format!("rate({}[$__rate_interval])", of_process("process_cpu_seconds_total"));
    let allocated = of_pod(&of_process("loopwatch_allocator_allocated_bytes"));
    let resident = of_pod(&of_process("loopwatch_allocator_resident_bytes"));
    let [cluster, namespace, _] = operator_columns();

    Row {
        title: "What does it cost?",
        is_folded: true,
        panels: vec![
            lines(
                "Memory",
                "Resident memory of each loopwatch. loopwatch sets its limit on objects so that it uses at most about 85% of the memory limit of its container.",
                "memory",
            )
            .query(&memory, &legend(POD))
            .unit("bytes"),
            lines("CPU", "CPU usage of each loopwatch, in cores. Close to zero while nothing changes.", "cores")
                .query(&of_pod(&cpu), &legend(POD)),
            lines(
                "Memory of the allocator",
                "Memory that loopwatch uses (allocated), and memory that its allocator keeps (resident).",
                "memory",
            )
            .query(&allocated, &legend("allocated {{pod}}"))
            .query(&resident, &legend("resident {{pod}}"))
            .unit("bytes"),
            table(
                "Versions",
                "Version of each running loopwatch.",
                &[by("max", "pod, version, revision", &of_process("loopwatch_build_info"))],
                None,
                vec![
                    cluster,
                    namespace,
                    Column::new("pod", "Pod"),
                    Column::new("version", "Version"),
                    Column::new("revision", "Revision"),
                    Column::hidden("job"),
                ],
            ),
        ],
    }
}
