//! `loopwatch-clusters`: does an operator behave differently in one of several clusters? It reads
//! what the opt-in rules of `alerts/clusters` record.

use super::colours::Meaning::{Bad, Good, Warn};
use super::findings::{open_findings, operator_columns};
use super::overview::HEALTH;
use super::panels::{Column, Panel, bars, lines, stat, table};
use super::queries::{OPERATOR, Scope, by, legend, merged, series, with_links, with_selection};
use super::{Dashboard, Row, variable};

/// Selects the versions of the operator, which are comparable between clusters.
const VERSION: &str = r#"operator_version=~"$operator_version""#;

/// The labels of a kind in the figures of one version.
const KIND: &str = "group, kind, operator_version";

/// How a line of a kind begins.
const OF_KIND: &str = "{{operator_version}} {{kind}} {{group}}";

/// The share of the time of a day in which the last audits should agree with the API server.
const CONSISTENCY: f64 = 0.9998;

const RUNNING: &str = "version:loopwatch_operator:info";
const LATE_6H: &str = "kind_version:loopwatch_obligations_late:ratio_increase6h";
const LATE_1H: &str = "kind_version:loopwatch_obligations_late:ratio_increase1h";
const CHANGES: &str = "kind_version_outcome:loopwatch_obligations:increase6h";
const UNHEALTHY: &str = "kind_version:loopwatch_object_seconds_unhealthy:avg1h";
const HEALTH_OF_VERSION: &str = "version:loopwatch_control_loop_health:max";
const AGREEING: &str = "job:loopwatch_audits_agreeing:avg1d";

pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "loopwatch-clusters",
        title: "loopwatch / Clusters",
        description: "Whether an operator behaves differently in one of several clusters. For the one Prometheus that has the series of all clusters, with the rules of alerts/clusters.",
        rows: vec![differing(), operators(), kinds(), over_time(), versions(), trust()],
        variables: vec![version()],
        annotations: Vec::new(),
    }
}

/// The variable for the versions of the operator.
fn version() -> serde_json::Value {
    let query = format!("label_values({}, operator_version)", series(RUNNING, Scope::Operator, ""));

    variable(
        "operator_version",
        "Operator version",
        ".*",
        "The version of the operator: its image without registry and path, else its label app.kubernetes.io/version, else its revision.",
        &query,
    )
}

/// A series that is recorded for each version of the operator.
fn of_version(metric: &str, scope: Scope, matchers: &str) -> String {
    let separator = if matchers.is_empty() { "" } else { "," };
    series(metric, scope, &format!("{VERSION}{separator}{matchers}"))
}

/// The same for each kind, of the copy that says most if a pair of Prometheus servers sends it.
fn of_kind(metric: &str, matchers: &str) -> String {
    by("max", KIND, &of_version(metric, Scope::Kind, matchers))
}

fn differing() -> Row {
    let running = of_version(RUNNING, Scope::Operator, "");
    let alerts =
        series("ALERTS", Scope::Operator, r#"alertname=~"LoopwatchCluster.+",alertstate="firing""#);
    let worst = of_version(HEALTH_OF_VERSION, Scope::Operator, "");
    let agreeing = series(AGREEING, Scope::Operator, "");
    let some = |meaning| [(Good, None), (meaning, Some(1.0))];

    Row {
        title: "Which clusters need somebody?",
        is_folded: false,
        panels: vec![
            stat(
                "Alerts about clusters",
                "Firing alerts that compare clusters: a cluster misses deadlines far more often than the others with the same version, or none of its metrics arrive.",
                &format!("count({alerts}) or vector(0)"),
                &some(Warn),
            ),
            stat(
                "Clusters",
                "Clusters in which the version of an operator is known.",
                &format!("count(count by (cluster) ({running}))"),
                &[(Good, None)],
            )
            .none("no data"),
            stat(
                "Operators",
                "Operators whose version is known, in all clusters together.",
                &format!("count({})", by("max", "", &running)),
                &[(Good, None)],
            )
            .none("no data"),
            stat(
                "Versions",
                "Different versions of the operators that are in charge now.",
                &format!("count(count by (operator_version) ({running}))"),
                &[(Good, None)],
            )
            .none("no data"),
            stat(
                "Health",
                "Health of the least healthy operator. Healthy: no warning, no critical finding and no overdue object. Degraded: a warning or an overdue object. Failing: a critical finding.",
                &format!("max({worst})"),
                &[(Good, None), (Warn, Some(1.0)), (Bad, Some(2.0))],
            )
            .values(&HEALTH)
            .none("no data"),
            stat(
                "Lowest consistency, 1 day",
                "Share of the time of a day in which the last audits of all watches agree with the API server, of the loopwatch that agrees least. While they do not agree, do not compare its cluster with others.",
                &format!("min({agreeing})"),
                &[(Bad, None), (Good, Some(CONSISTENCY))],
            )
            .unit("percentunit")
            .decimals(2)
            .none("no data"),
            open_findings(None),
        ],
    }
}

/// One row for each cluster, operator and version.
fn operators() -> Row {
    let labels = "operator_version";
    let of = |function, metric, matchers| {
        by(function, labels, &of_version(metric, Scope::Kind, matchers))
    };
    let changes = of("sum", CHANGES, "");
    let late = of("sum", CHANGES, r#"outcome="late""#);
    let late = format!("({late} or 0 * {changes}) / ({changes} > 0)");
    let running = by("max", labels, &of_version(RUNNING, Scope::Operator, ""));
    let consistency = by("min", "", &series(AGREEING, Scope::Operator, ""));
    let queries = [
        by("max", labels, &of_version(HEALTH_OF_VERSION, Scope::Operator, "")),
        changes,
        late,
        of("max", UNHEALTHY, ""),
        format!("{consistency} * on ({OPERATOR}) group_left (operator_version) {running}"),
        with_selection(&with_links(&with_revision(&running))),
    ];

    let to_overview = "/d/loopwatch-overview?var-cluster=${__data.fields.Cluster}&var-job=${__data.fields.Job}&${__data.fields.selection:raw}&${__url_time_range}";
    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        cluster.link("Its overview", to_overview),
        namespace.link("Its overview", to_overview),
        operator.link("Its overview", to_overview),
        Column::new("job", "Job"),
        Column::new("operator_version", "Version"),
        Column::new("revision", "Revision"),
        Column::new("Value #A", "Health").wide(100).values(&HEALTH),
        Column::new("Value #B", "Spec changes, 6 h").decimals(0),
        Column::new("Value #C", "Late, 6 h").unit("percentunit"),
        Column::new("Value #D", "Overdue or failed, 1 h").unit("percentunit"),
        Column::new("Value #E", "Consistency, 1 day").unit("percentunit").decimals(2),
        Column::new("page_url", "Page of loopwatch")
            .link("Page of loopwatch", "${__value.raw:raw}"),
        Column::hidden("selection"),
    ];

    let description = "One row for each cluster, operator and version within six hours, those with most late spec changes first. A row without a revision is a version that is no longer in charge. \
        Overdue or failed: the share of the time that objects of the worst kind spent so. Consistency: the share of the time in which the last audits of loopwatch agree with the API server.";

    Row {
        title: "How does each operator do in each cluster?",
        is_folded: false,
        panels: vec![
            table(
                "Operators by cluster and version",
                description,
                &queries,
                Some("Value #C"),
                columns,
            )
            .wide(24)
            .none("Nothing is recorded by cluster: load the rules of alerts/clusters"),
        ],
    }
}

/// The same series with the label `revision`. During a rollout, replicas may disagree about it.
fn with_revision(running: &str) -> String {
    let info = by("max", "revision", &series("loopwatch_operator_info", Scope::Operator, ""));
    format!("{running} * on ({OPERATOR}) group_left (revision) topk by ({OPERATOR}) (1, {info})")
}

/// The median of the clusters, beside the ratio of each.
fn median() -> String {
    let recorded = format!(
        "kind_version:loopwatch_obligations_late:median6h{{group=~\"$group\",kind=~\"$kind\",{VERSION}}}"
    );
    format!("0 * {} + on ({KIND}) group_left () {recorded}", of_kind(LATE_6H, ""))
}

/// One row for each cluster, operator, version and kind, as the alert compares them.
fn kinds() -> Row {
    let late = of_kind(LATE_6H, "");
    let queries = [
        by("sum", KIND, &of_version(CHANGES, Scope::Kind, "")),
        late.clone(),
        median(),
        of_kind(LATE_1H, ""),
        converged("0.5"),
        converged("0.99"),
        of_kind(UNHEALTHY, ""),
        format!("{late} - ({})", median()),
    ];

    let [cluster, namespace, operator] = operator_columns();
    let columns = vec![
        Column::new("kind", "Kind"),
        Column::new("group", "Group"),
        Column::new("operator_version", "Version"),
        cluster,
        namespace,
        operator,
        Column::new("Value #A", "Spec changes, 6 h").decimals(0),
        Column::new("Value #B", "Late, 6 h").unit("percentunit"),
        Column::new("Value #C", "Median of the clusters").unit("percentunit"),
        Column::new("Value #D", "Late, 1 h").unit("percentunit"),
        Column::new("Value #E", "p50, 1 h").unit("s"),
        Column::new("Value #F", "p99, 1 h").unit("s"),
        Column::new("Value #G", "Overdue or failed, 1 h").unit("percentunit"),
        Column::hidden("job"),
    ];

    let description = "The same kind and version in each cluster, those first that are furthest above the median of the clusters. Clusters with few spec changes have no part in the median. Of two clusters, \
        it is the better one, and of four the second best. Compare times to converge with care: they depend on the objects.";

    Row {
        title: "Which kinds differ, and by how much?",
        is_folded: false,
        panels: vec![
            table("Kinds by cluster and version", description, &queries, Some("Value #H"), columns)
                .wide(24)
                .none("Nothing is recorded by cluster: load the rules of alerts/clusters"),
        ],
    }
}

/// A quantile of the time to converge.
fn converged(quantile: &str) -> String {
    let matcher = format!(r#"quantile="{quantile}""#);
    of_kind("kind_version:loopwatch_convergence_seconds:quantile1h", &matcher)
}

fn over_time() -> Row {
    let share = |title, description, query: &str| {
        lines(title, description, "share").query(query, &legend(OF_KIND)).unit("percentunit")
    };
    let time = |title, description, quantile| {
        lines(title, description, "time to converge")
            .query(&converged(quantile), &legend(OF_KIND))
            .unit("s")
    };

    Row {
        title: "Since when does a cluster differ?",
        is_folded: true,
        panels: vec![
            share(
                "Late spec changes by cluster, 1 h",
                "Ratio of spec changes that missed their deadline within the last hour.",
                &of_kind(LATE_1H, ""),
            ),
            share(
                "Time overdue or failed by cluster, 1 h",
                "Share of the time that objects spent overdue or failed within the last hour. It depends on the objects, so no alert compares it.",
                &of_kind(UNHEALTHY, ""),
            ),
            time(
                "Median time to converge by cluster, 1 h",
                "Half of the spec changes converged within this time.",
                "0.5",
            ),
            time(
                "Longest times to converge by cluster, 1 h",
                "All but one of a hundred spec changes converged within this time.",
                "0.99",
            ),
            firing(),
        ],
    }
}

/// The alerts of all clusters over time.
fn firing() -> Panel {
    let alerts =
        series("ALERTS", Scope::Operator, r#"alertname=~"Loopwatch.+",alertstate="firing""#);

    lines("Alerts by cluster", "Alerts of loopwatch that fire in each cluster.", "alerts")
        .query(&by("sum", "alertname, finding", &alerts), &legend("{{alertname}} {{finding}}"))
        .wide(24)
}

fn versions() -> Row {
    let running = by("max", "operator_version", &of_version(RUNNING, Scope::Operator, ""));
    let clusters =
        format!("count by (operator_version) (count by (cluster, operator_version) ({running}))");
    let health = by("max", "operator_version", &of_version(HEALTH_OF_VERSION, Scope::Operator, ""));

    Row {
        title: "Which cluster runs which version?",
        is_folded: true,
        panels: vec![
            bars(
                "Clusters by version",
                "Number of clusters in which each version of an operator is in charge. No alert says that versions differ, because rollouts in stages are normal.",
                &clusters,
                "{{operator_version}}",
            ),
            lines(
                "Health by cluster and version",
                "0 healthy, 1 degraded, 2 failing, of the version in charge.",
                "health",
            )
            .query(&health, &legend("{{operator_version}}"))
            .most(2.0),
        ],
    }
}

fn trust() -> Row {
    let difference = series("loopwatch_state_audit_difference", Scope::Kind, "");
    let difference = by("max", "", &merged(&format!("abs({difference})")));

    Row {
        title: "Can you rely on the loopwatch of each cluster?",
        is_folded: true,
        panels: vec![
            lines(
                "Consistency by cluster, 1 day",
                "Share of the time of a day in which the last audits of all watches agree with the API server.",
                "share",
            )
            .query(&by("min", "", &series(AGREEING, Scope::Operator, "")), &legend("consistency"))
            .unit("percentunit")
            .most(1.0),
            lines(
                "Largest difference from the API server",
                "Objects of one watch that loopwatch counts too many or too few, by the last audit of each. A single difference may be a change during the audit.",
                "objects",
            )
            .query(&difference, &legend("difference")),
        ],
    }
}
