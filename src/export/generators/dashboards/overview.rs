//! `loopwatch-overview`: what is broken, which operators need somebody, and whether spec changes
//! converge in time.

mod changes;

use loopwatch_model::settings::Settings;

use self::changes::{changes, durations, rollout};
use super::colours::Meaning::{Bad, Good, Warn};
use super::findings::{TO_PAGE, findings_over_time, open_findings, operator_columns};
use super::panels::{Column, bars, lines, stat, table};
use super::queries::{
    OPERATOR, Scope, by, count, each_operator, findings, gauge, legend, per_minute, series,
    with_links, with_page, with_path, with_selection,
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

const UNHEALTHY: &str = r#"state=~"failed|overdue""#;
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
