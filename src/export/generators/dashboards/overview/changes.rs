//! The rows about spec changes: how many converge in time, how long they take, and whether a new revision of the
//! operator made a difference.

use super::Row;
use crate::export::generators::dashboards::colours::Meaning::{Bad, Good};
use crate::export::generators::dashboards::findings::{TO_RUNBOOK, operator_columns};
use crate::export::generators::dashboards::panels::{Column, Panel, lines, stat, table};
use crate::export::generators::dashboards::queries::{
    Scope, by, legend, merged, quantile_of_revisions, rate, series, some, with_links, with_runbook,
};

const KIND: &str = "{{kind}} {{group}}";
const CONVERGENCE: &str = "loopwatch_convergence_seconds_bucket";
const OBLIGATIONS: &str = "loopwatch_obligations_total";
const ENDED: &str = r#"outcome=~"converged|late""#;

/// Recorded series without a variable: there is one objective, and one rate for each window.
const OBJECTIVE: &str = "max(loopwatch:convergence_objective:ratio)";

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

pub(super) fn changes() -> Row {
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

pub(super) fn rollout() -> Row {
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

pub(super) fn durations() -> Row {
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
