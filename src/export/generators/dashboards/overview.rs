//! `loopwatch-overview`: what is broken, which operators need somebody, and whether spec changes
//! converge in time.

use loopwatch_model::settings::Settings;

use super::colours::Meaning::{Bad, Good, Warn};
use super::findings::{TO_PAGE, TO_RUNBOOK, findings_over_time, open_findings, operator_columns};
use super::panels::{Column, Panel, bars, lines, stat, table};
use super::queries::{
    OPERATOR, Scope, by, count, each_operator, findings, gauge, legend, merged, per_minute,
    quantile_of_revisions, rate, series, some, with_links, with_page, with_path, with_runbook,
    with_selection,
};
use super::{Dashboard, Row, seconds};

/// All states of objects, in the order of their urgency.
const STATES: [&str; 9] = [
    "failed",
    "overdue",
    "terminating",
    "progressing",
    "unknown",
    "suspended",
    "skipped",
    "finished",
    "converged",
];

/// The health of an operator, in words.
pub(super) const HEALTH: [(&str, &str); 3] =
    [("0", "healthy"), ("1", "degraded"), ("2", "failing")];
const UP: [(&str, &str); 2] = [("0", "down"), ("1", "up")];

const KIND: &str = "{{kind}} {{group}}";
const UNHEALTHY: &str = r#"state=~"failed|overdue""#;
const CONVERGENCE: &str = "loopwatch_convergence_seconds_bucket";
const OBLIGATIONS: &str = "loopwatch_obligations_total";
const ENDED: &str = r#"outcome=~"converged|late""#;

/// Recorded series without a variable: there is one objective, and one rate for each window.
const OBJECTIVE: &str = "max(loopwatch:convergence_objective:ratio)";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "loopwatch-overview",
        title: "loopwatch / Overview",
        description: "What is broken and who has to act, which operators need somebody, and whether their spec changes converge in time.",
        rows: vec![broken(), operators(), changes(), objects(), rollout(), durations(), statuses()],
        variables: Vec::new(),
        annotations: Vec::new(),
    }
}

fn broken() -> Row {
    let severity =
        |severity| format!("sum({}) or vector(0)", findings(&format!(r#"severity="{severity}""#)));
    let down = by("max", "", &series("loopwatch_operator_up", Scope::Operator, ""));
    let up = by("min", "source", &series("loopwatch_source_up", Scope::Operator, ""));
    let health = format!(
        "max({})",
        series(
            "loopwatch_control_loop_health",
            Scope::Operator,
            r#"target_namespace=~"$target_namespace""#
        )
    );
    let unhealthy = format!("sum({})", gauge("loopwatch_objects", Scope::Objects, UNHEALTHY));

    Row {
        title: "What is broken, and who has to act?",
        is_folded: false,
        panels: vec![
            stat(
                "Health",
                "Health of the worst namespace. Healthy: no warning, no critical finding and no overdue object. Degraded: a warning or an overdue object. Failing: a critical finding.",
                &health,
                &[(Good, None), (Warn, Some(1.0)), (Bad, Some(2.0))],
            )
            .values(&HEALTH)
            .none("no data"),
            stat(
                "Operators down",
                "Operators with the finding OperatorDown. Operators about which nothing is known do not count.",
                &format!("sum(1 - {down})"),
                &[(Good, None), (Bad, Some(1.0))],
            )
            .none("no data"),
            stat(
                "Critical findings",
                "Open critical findings: an operator does not work. Excludes suspected findings and findings that another finding explains. Alerts fire at 1.",
                &severity("critical"),
                &[(Good, None), (Bad, Some(1.0))],
            ),
            stat(
                "Warnings",
                "Open warnings: some objects are affected. Excludes suspected findings and findings that another finding explains. Alerts fire at 1.",
                &severity("warning"),
                &[(Good, None), (Warn, Some(1.0))],
            ),
            stat(
                "Overdue or failed objects",
                "Objects that have not converged by their deadline, or whose operator reports a failure. Each failed object counts, also one whose spec the operator rejects, which opens no finding.",
                &format!("{unhealthy} or vector(0)"),
                &[(Good, None), (Warn, Some(1.0))],
            ),
            stat(
                "Failing sources",
                "Sources that cannot read what they should. loopwatch does not judge what it cannot see: the objects of these sources are in state unknown.",
                &format!("sum(1 - {up})"),
                &[(Good, None), (Bad, Some(1.0))],
            )
            .none("no data")
            .link("Details: loopwatch / Self", "/d/loopwatch-self?${__all_variables}&${__url_time_range}"),
            open_findings(None),
            findings_over_time(None),
            lines(
                "Objects by state, over time",
                "Objects by state, except converged and finished. Unknown: loopwatch cannot judge or cannot see the object.",
                "objects",
            )
            .query(
                &by("sum", "state", &gauge("loopwatch_objects", Scope::Objects, r#"state!~"converged|finished""#)),
                &legend("{{state}}"),
            )
            .words(&STATES)
            .stacked(),
        ],
    }
}

/// One row for each operator.
fn operators() -> Row {
    let of_severity = |severity| count(&findings(&format!(r#"severity="{severity}""#)));
    let info = by(
        "max",
        "framework, revision, version",
        &series("loopwatch_operator_info", Scope::Operator, ""),
    );

    // During a rollout, replicas may disagree about the revision in charge.
    let known = format!("topk by ({OPERATOR}) (1, {info})");
    let operators = format!("({known} or on ({OPERATOR}) {})", each_operator());
    let health = by("max", "", &series("loopwatch_control_loop_health", Scope::Operator, ""));
    let unhealthy = count(&gauge("loopwatch_objects", Scope::Objects, UNHEALTHY));
    let queries = [
        health.clone(),
        by("max", "", &series("loopwatch_operator_up", Scope::Operator, "")),
        of_severity("critical"),
        of_severity("warning"),
        unhealthy.clone(),
        count(&gauge("loopwatch_objects", Scope::Objects, "")),
        with_selection(&with_links(&operators)),
        format!("1e6 * ({health}) + on ({OPERATOR}) ({unhealthy})"),
    ];
    let some = |meaning| [(Good, None), (meaning, Some(1.0))];
    let to_process = "/d/loopwatch-process?${cluster:queryparam}&var-job=${__data.fields.Job}&${__data.fields.selection:raw}&${__url_time_range}";
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        cluster,
        namespace.link("Its process", to_process),
        operator.link("Its process", to_process),
        Column::new("job", "Job"),
        Column::new("Value #A", "Health").wide(100).values(&HEALTH),
        Column::new("Value #B", "Operator up").wide(110).values(&UP),
        Column::new("Value #C", "Critical").wide(90).steps(&some(Bad)),
        Column::new("Value #D", "Warnings").wide(90).steps(&some(Warn)),
        Column::new("Value #E", "Overdue or failed").wide(140).steps(&some(Warn)),
        Column::new("Value #F", "Objects").wide(90),
        Column::new("framework", "Framework"),
        Column::new("version", "Version"),
        Column::new("revision", "Revision"),
        Column::new("page_url", "Page of loopwatch")
            .link("Page of loopwatch", "${__value.raw:raw}"),
        Column::hidden("selection"),
    ];

    let description = "One row for each operator, the least healthy first, and of these the one with most overdue or failed objects. The name leads to its process. Its page and its runbooks are \
        at the address of --external-url, otherwise at that of `kubectl port-forward … 9917:9918`.";

    Row {
        title: "Which operators need somebody?",
        is_folded: false,
        panels: vec![
            table("Operators", description, &queries, Some("Value #H"), columns)
                .wide(24)
                .none("No operators"),
        ],
    }
}

/// The share of the error budget of 30 days that each kind has spent.
fn spent() -> String {
    let changes = |matchers| {
        let recorded =
            series("kind_outcome:loopwatch_obligations:increase5m", Scope::Kind, matchers);
        by("sum", "group, kind", &format!("sum_over_time({recorded}[30d])"))
    };
    let all = changes("");
    let late = changes(r#"outcome="late""#);

    format!("({late} or 0 * {all}) / ({all} > 0) / (1 - scalar({OBJECTIVE}))")
}

/// The burn rate of the worst kind, as a share of the one that alerts.
fn burn(window: &str) -> String {
    let late = format!("kind:loopwatch_obligations_late:ratio_increase{window}");
    let factor = format!(r#"scalar(max(loopwatch:error_budget_burn:factor{{window="{window}"}}))"#);
    let worst = by("max", "", &series(&late, Scope::Kind, ""));

    format!("{worst} / ({factor} * (1 - scalar({OBJECTIVE})))")
}

fn changes() -> Row {
    let retention = "This needs the recording rules, and 30 days of retention. Prometheus keeps 15 days by default (--storage.tsdb.retention.time): \
        with less than 30 days, the panel shows the error budget of the days that Prometheus still has.";
    let burning = [("1h", "critical"), ("6h", "critical"), ("1d", "warning"), ("3d", "warning")];
    let mut burn_rates = lines(
        "Error budget burn rate, relative to its alerts",
        "Burn rate of the worst kind in each window, as a share of the burn rate at which the alert of that window fires (by default 14.4, 6, 3 and 1 times the sustainable rate; the recorded series loopwatch:error_budget_burn:factor has the values in use). At 100%, the alert fires if there were enough late changes and an object was overdue recently. Requires the recording rules.",
        "share of the rate that alerts",
    )
    .unit("percentunit")
    .none("no spec changes in this period")
    .threshold(Bad, 1.0)
    .wide(10);
    for (window, severity) in burning {
        burn_rates = burn_rates.query(&burn(window), &legend(&format!("{window} ({severity})")));
    }

    Row {
        title: "Do spec changes converge in time?",
        is_folded: false,
        panels: vec![
            stat(
                "Error budget remaining, 30 days",
                &format!("Remaining share of the error budget over 30 days, for the worst kind. The error budget is the number of spec changes that may miss their deadline. Below 0%, the operator misses the objective. {retention}"),
                &format!("min(1 - {})", spent()),
                &[(Bad, None), (Good, Some(0.0))],
            )
            .unit("percentunit")
            .decimals(0)
            .none("no spec changes yet")
            .high(9),
            lines(
                "Spec changes converged in time",
                "Ratio of spec changes that converged within the deadline of their kind, over the last hour, with the objective and the ratio at which the fastest alert fires. Requires the recording rules.",
                "share of spec changes",
            )
            .query(
                &format!("1 - {}", series("kind:loopwatch_obligations_late:ratio_increase1h", Scope::Kind, "")),
                &legend(KIND),
            )
            .query(OBJECTIVE, "objective")
            .query(
                &format!(r#"1 - max(loopwatch:error_budget_burn:factor{{window="1h"}}) * (1 - {OBJECTIVE})"#),
                "fastest alert",
            )
            .unit("percentunit")
            .most(1.0)
            .none("no spec changes in this period")
            .limits("/^(objective|fastest alert)$/")
            .wide(10)
            .high(9),
            burn_rates.high(9),
            budgets(retention),
            lines(
                "Oldest unconverged object by kind",
                "Age of the oldest unconverged object of each kind, with the deadline of the kind. Objects past the deadline are overdue.",
                "age",
            )
            .query(&by("max", "group, kind", &series("loopwatch_unconverged_oldest_seconds", Scope::Kind, "")), &legend(KIND))
            .query(&deadline(), &legend("deadline of {{kind}} {{group}}"))
            .unit("s")
            .none("none")
            .limits("/^deadline/"),
        ],
    }
}

fn deadline() -> String {
    by("max", "group, kind", &series("loopwatch_deadline_seconds", Scope::Kind, ""))
}

/// The error budget of each kind.
fn budgets(retention: &str) -> Panel {
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        Column::new("kind", "Kind").link("Runbook", TO_RUNBOOK),
        Column::new("group", "Group"),
        Column::new("Value", "Budget spent")
            .unit("percentunit")
            .decimals(0)
            .wide(120)
            .steps(&[(Good, None), (Bad, Some(1.0))]),
        cluster,
        namespace,
        operator,
        Column::hidden("job"),
        Column::hidden("runbook"),
    ];

    table(
        "Error budget by kind",
        &format!("The share of the error budget of 30 days that each kind has spent, the largest first. From 100% on, the operator misses the objective. A kind links to the runbook. {retention}"),
        &[with_runbook(&with_links(&format!("({})", spent())), Some("ErrorBudgetBurn"))],
        Some("Value"),
        columns,
    )
    .none("No spec changes yet")
}

fn objects() -> Row {
    let deadline = seconds(Settings::default().deadline);
    let since = by(
        "min",
        "group, kind, target_namespace, name, reason",
        &series("loopwatch_object_unconverged_timestamp_seconds", Scope::Objects, ""),
    );
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        Column::new("kind", "Kind"),
        Column::new("target_namespace", "Namespace"),
        Column::new("name", "Name").link("On the page of loopwatch", TO_PAGE),
        Column::new("reason", "Reason"),
        Column::new("Value", "Unconverged for")
            .unit("s")
            .wide(130)
            .steps(&[(Good, None), (Warn, Some(deadline))]),
        cluster,
        namespace,
        operator,
        Column::hidden("job"),
        Column::hidden("group"),
        Column::hidden("link"),
    ];

    let of_namespaces = r#"target_namespace=~"$target_namespace""#;
    let namespaces = [
        by(
            "max",
            "target_namespace",
            &series("loopwatch_control_loop_health", Scope::Operator, of_namespaces),
        ),
        by("sum", "target_namespace", &gauge("loopwatch_objects", Scope::Objects, UNHEALTHY)),
        by("sum", "target_namespace", &gauge("loopwatch_objects", Scope::Objects, "")),
    ];
    let [of_cluster, of_namespace, of_operator] = operator_columns();

    Row {
        title: "Which objects and namespaces are affected?",
        is_folded: false,
        panels: vec![
            table(
                "Unconverged objects",
                "Unconverged objects, the oldest first, with the reason for their state. The default deadline is ten minutes. By default, the 500 worst objects have series. The name leads to the object on the page of loopwatch.",
                &[with_page(&with_path(&with_links(&format!("(time() - {since})"))))],
                Some("Value"),
                columns,
            )
            .none("No unconverged objects")
            .wide(24),
            stat(
                "Oldest unconverged",
                "Age of the oldest unconverged object. The default deadline is ten minutes.",
                &format!("max({})", series("loopwatch_unconverged_oldest_seconds", Scope::Kind, "")),
                &[(Good, None), (Warn, Some(deadline))],
            )
            .unit("s")
            .none("none")
            .high(8),
            bars(
                "Objects by state",
                "Number of objects in each state. Unknown: loopwatch cannot judge or cannot see the object.",
                &format!("sum by (state) ({})", gauge("loopwatch_objects", Scope::Objects, "")),
                "{{state}}",
            )
            .words(&STATES)
            .none("0")
            .wide(8),
            table(
                "Namespaces",
                "Health of each namespace, the worst first.",
                &namespaces,
                Some("Value #A"),
                vec![
                    Column::new("target_namespace", "Namespace"),
                    Column::new("Value #A", "Health").wide(110).values(&HEALTH),
                    Column::new("Value #B", "Overdue or failed"),
                    Column::new("Value #C", "Objects"),
                    of_cluster,
                    of_namespace,
                    of_operator,
                    Column::hidden("job"),
                ],
            )
            .none("No namespaces yet"),
        ],
    }
}

fn rollout() -> Row {
    let revisions = "group, kind, operator_revision";
    let increase = |window, matchers| {
        let of = format!("increase({}[{window}])", series(OBLIGATIONS, Scope::Objects, matchers));
        by("sum", revisions, &merged(&of))
    };
    let late = |window| {
        format!("{} / ({} > 0)", increase(window, r#"outcome="late""#), increase(window, ENDED))
    };
    let converged = |function: &str| {
        let buckets = by("sum", &format!("le, {revisions}"), &merged(&format!("{function})")));
        format!("histogram_quantile(0.95, {buckets})")
    };
    let buckets = series(CONVERGENCE, Scope::Kind, "");
    let [cluster, namespace, operator] = operator_columns();

    Row {
        title: "Did the rollout make it slower?",
        is_folded: true,
        panels: vec![
            lines(
                "Time to converge by operator revision",
                "Time from a spec change until the object converged, by the revision of the operator in charge at the end: 95th percentile. During a rollout, replicas of loopwatch may disagree about the revision for a moment.",
                "time to converge",
            )
            .traced(
                &converged(&format!("rate({buckets}[$__rate_interval]")),
                &legend("{{operator_revision}} {{kind}} {{group}}"),
            )
            .unit("s")
            .interval("5m"),
            lines(
                "Late spec changes by operator revision",
                "Ratio of spec changes that missed their deadline over the last hour, by the revision of the operator in charge at the end. Only changes that converged or were late count.",
                "share of spec changes",
            )
            .query(&late("1h"), &legend("{{operator_revision}} {{kind}} {{group}}"))
            .unit("percentunit")
            .most(1.0),
            table(
                "Revisions compared",
                "Each revision of the operator in the selected time range: finished spec changes, the share that missed their deadline, and the 95th percentile of the time to converge. Compare only revisions with enough changes. Revisions with equal percentiles may differ by less than a bucket of the histogram.",
                &[
                    format!("{} > 0", increase("$__range", ENDED)),
                    late("$__range"),
                    format!("{} >= 0", converged(&format!("increase({buckets}[$__range]"))),
                ],
                None,
                vec![
                    Column::new("kind", "Kind"),
                    Column::new("group", "Group"),
                    Column::new("operator_revision", "Operator revision"),
                    Column::new("Value #A", "Spec changes").decimals(0),
                    Column::new("Value #B", "Late").unit("percentunit"),
                    Column::new("Value #C", "p95").unit("s"),
                    cluster,
                    namespace,
                    operator,
                    Column::hidden("job"),
                ],
            )
            .none("No spec changes")
            .wide(24),
        ],
    }
}

fn durations() -> Row {
    let acknowledge = "loopwatch_acknowledge_seconds_bucket";
    let labels = "group, kind";
    let time =
        |states| by("sum", labels, &rate("loopwatch_object_seconds_total", Scope::Objects, states));
    let outcomes = format!(
        "60 * {}",
        by(
            "sum",
            "outcome",
            &merged(&format!(
                "sum without (operator_revision) (rate({}[$__rate_interval]))",
                series(OBLIGATIONS, Scope::Objects, "")
            ))
        )
    );

    Row {
        title: "How long do spec changes take, and how do they end?",
        is_folded: true,
        panels: vec![
            lines(
                "Time to converge",
                "Time from a spec change until the object converged: median and 95th percentile, with the deadline of the kind. Includes only changes that have converged; for the others, see \"Oldest unconverged object by kind\".",
                "time to converge",
            )
            .traced(&quantile_of_revisions("0.5", labels, CONVERGENCE), &legend("p50 {{kind}} {{group}}"))
            .traced(&quantile_of_revisions("0.95", labels, CONVERGENCE), &legend("p95 {{kind}} {{group}}"))
            .query(&deadline(), &legend("deadline of {{kind}} {{group}}"))
            .unit("s")
            .limits("/^deadline/")
            .interval("5m"),
            lines(
                "Time to acknowledge",
                "Time from a spec change until the operator acknowledges it in observedGeneration: median and 95th percentile.",
                "time to acknowledge",
            )
            .traced(&quantile_of_revisions("0.5", labels, acknowledge), &legend("p50 {{kind}} {{group}}"))
            .traced(&quantile_of_revisions("0.95", labels, acknowledge), &legend("p95 {{kind}} {{group}}"))
            .unit("s")
            .interval("5m"),
            lines(
                "Outcomes of spec changes",
                "Spec changes by outcome. Rejected: the operator reported that it cannot apply the spec. A change counts as late when its deadline passes.",
                "spec changes per minute",
            )
            .query(&some(&outcomes), &legend("{{outcome}}"))
            .words(&["converged", "late", "rejected", "superseded", "deleted", "suspended", "skipped", "unknown"])
            .unit("cpm")
            .stacked()
            .interval("5m"),
            lines(
                "Time unconverged",
                "Share of time that objects spent progressing, overdue or failed. Has a value even if there are no spec changes.",
                "share of time",
            )
            .query(
                &format!(
                    "{} / {}",
                    time(r#"state=~"progressing|overdue|failed""#),
                    time(r#"state!~"unknown|suspended|finished""#)
                ),
                &legend(KIND),
            )
            .unit("percentunit"),
        ],
    }
}

fn statuses() -> Row {
    Row {
        title: "What do the objects and Kubernetes say?",
        is_folded: true,
        panels: vec![
            lines("Conditions", "Objects by condition type and status.", "objects").query(
                &by("sum", "group, kind, type, status", &gauge("loopwatch_condition_objects", Scope::Kind, "")),
                &legend("{{type}}={{status}} {{kind}} {{group}}"),
            ),
            lines(
                "Condition changes without a spec change",
                "Changes of a condition's status without a spec change. A condition that changes six times within 30 minutes is flapping.",
                "changes per minute",
            )
            .query(
                &per_minute("group, kind, type", "loopwatch_condition_flaps_total", Scope::Kind),
                &legend("{{type}} {{kind}} {{group}}"),
            )
            .unit("cpm"),
            lines(
                "Who writes how much?",
                "Versions of the objects, by the field manager that wrote them.",
                "versions per minute",
            )
            .query(
                &per_minute("group, kind, manager", "loopwatch_writes_total", Scope::Kind),
                &legend("{{manager}} {{kind}} {{group}}"),
            )
            .unit("cpm"),
            lines(
                "Writes without a change",
                "Versions that changed nothing but times in the status, or metadata such as annotations. Ten of one object within two minutes open the finding HotLoop.",
                "versions per minute",
            )
            .query(
                &per_minute("group, kind, manager", "loopwatch_wasted_writes_total", Scope::Kind),
                &legend("{{manager}} {{kind}} {{group}}"),
            )
            .unit("cpm"),
            lines("Phases", "Objects by phase.", "objects").query(
                &by("sum", "group, kind, phase", &gauge("loopwatch_phase_objects", Scope::Kind, "")),
                &legend("{{phase}} {{kind}} {{group}}"),
            ),
            lines(
                "Kubernetes Events",
                "Events about the objects, by type and reason: what the operator and Kubernetes say. Requires the permission to read Events.",
                "Events per minute",
            )
            .query(
                &per_minute("group, kind, type, reason", "loopwatch_events_total", Scope::Kind),
                &legend("{{type}} {{reason}} {{kind}} {{group}}"),
            )
            .words(&["Normal", "Warning"])
            .unit("cpm"),
        ],
    }
}
