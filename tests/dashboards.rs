//! The dashboards: every query has data on a real Prometheus that scrapes replayed incidents, and
//! the panels follow the rules of Grafana's dashboard-linter.

#![expect(clippy::panic, reason = "a broken test should stop")]

#[path = "dashboards/lint.rs"]
mod lint;
#[path = "dashboards/prometheus.rs"]
mod prometheus;
#[path = "dashboards/promql.rs"]
mod promql;
#[path = "dashboards/rollout.rs"]
mod rollout;

use std::collections::BTreeSet;
use std::time::Duration;

use lint::DEVIATIONS;
use loopwatch_model::finding::FINDINGS;
use loopwatch_model::settings::Settings;
use loopwatch_testbed::bundled::{self, DASHBOARDS, Query};
use loopwatch_testbed::standin::{Standin, StreamedLists, Traits};
use loopwatch_testbed::wait::eventually;
use prometheus::{Loopwatch, Prometheus};
use serde_json::Value;

/// The recordings that are played, and how many times as fast as they happened: each takes less
/// than a minute.
const REPLAYS: [(&str, f64); 5] = [
    ("objects", 1.0),
    ("busy", 3.0),
    ("rabbitmq", 4.0),
    ("cache-growth", 200.0),
    ("descriptor-leak", 200.0),
];

/// The time until the last replay has ended and its series have been seen.
const PLAYED: Duration = Duration::from_secs(100);

/// A panel whose series no recording contains, with the test that proves them.
const PROVED_ELSEWHERE: [(&str, &str); 1] = [(
    "Workloads with stale configuration",
    "`references::stale-configuration` of the live tests proves the finding",
)];

#[test]
fn every_query_has_data_on_a_prometheus_that_scrapes_incidents() {
    let server = Standin::start(Traits {
        kinds: 1,
        objects: 5,
        bytes: 500,
        streamed: StreamedLists::Supported,
        changes: 1,
        ..Traits::default()
    });

    let mut targets: Vec<Loopwatch> =
        REPLAYS.iter().map(|(name, speed)| Loopwatch::replay(name, *speed)).collect();
    targets.push(Loopwatch::play("rollout", &rollout::recording(), 12.0));
    targets.push(Loopwatch::run("run", &server));

    let prometheus = Prometheus::start(&targets);
    let mut waiting: Vec<(&str, Query)> = Vec::new();
    for name in DASHBOARDS {
        let queries = bundled::queries(name).into_iter().chain(bundled::annotation_queries(name));
        waiting.extend(queries.map(|query| (name, query)));
    }

    let all = waiting.len();
    assert!(all > 100, "{all} queries");

    for (panel, _) in PROVED_ELSEWHERE {
        waiting.retain(|(_, query)| query.panel != panel);
        assert!(waiting.len() < all, "no panel {panel}");
    }

    let is_empty = |query: &Query| {
        // A 0 that a panel shows although there is no series does not count as data.
        let promql = query.promql.replace(" or vector(0)", "");
        match prometheus.has_data(&promql) {
            Ok(has_data) => !has_data,
            Err(error) => panic!("{}: {}: {error}", query.panel, query.promql),
        }
    };

    eventually(PLAYED, "every panel has data", || {
        waiting.retain(|(_, query)| is_empty(query));
        let panels: BTreeSet<String> =
            waiting.iter().map(|(name, query)| format!("{name}: {}", query.panel)).collect();
        if panels.is_empty() { Ok(()) } else { Err(format!("{panels:#?}")) }
    });
    for name in DASHBOARDS {
        for query in bundled::variable_queries(name) {
            let values = prometheus.label_values(&query.label, &query.selector);
            assert!(
                values.as_ref().is_ok_and(|values| !values.is_empty()),
                "{name}: {query:?}: {values:?}"
            );
        }
    }

    let revisions = prometheus
        .label_values("operator_revision", "loopwatch_obligations_total")
        .expect("values");
    for revision in rollout::REVISIONS {
        assert!(revisions.iter().any(|value| value == revision), "{revisions:?}");
    }
}

#[test]
fn the_dashboards_follow_the_rules_of_the_linter() {
    let mut needed = BTreeSet::new();
    for name in DASHBOARDS {
        for (rule, panel, problem) in lint::violations(&bundled::dashboard(name)) {
            let allows = |one: &lint::Deviation| one.rule == rule && panel.starts_with(one.panel);
            match DEVIATIONS.iter().position(allows) {
                Some(deviation) => _ = needed.insert(deviation),
                None => panic!("{name}: {panel}: {rule}: {problem}"),
            }
        }
    }

    for (number, deviation) in DEVIATIONS.iter().enumerate() {
        assert!(
            needed.contains(&number),
            "nothing deviates from {} ({})",
            deviation.rule,
            deviation.reason
        );
    }
}

/// Replicas of an operator export the same objects. A query that adds them up counts everything
/// twice.
#[test]
fn queries_merge_replicas_of_loopwatch() {
    for name in DASHBOARDS.into_iter().filter(|name| *name != "loopwatch-self") {
        for Query { panel, promql } in bundled::queries(name) {
            for selector in promql::selectors(&promql)
                .into_iter()
                .filter(|one| one.metric.starts_with("loopwatch_"))
            {
                let merged =
                    selector.around.iter().any(|function| ["max", "min"].contains(function));

                assert!(merged, "{name}: {panel}: {} of all replicas in {promql}", selector.metric);
            }
        }
    }
}

/// The thresholds of panels that have one, in the order of the dashboards. All others are 1: any.
fn thresholds() -> Vec<(&'static str, f64, &'static str)> {
    let settings = Settings::default();
    let seconds = |span: loopwatch_model::time::Span| span.0 as f64 / 1000.0;
    let deadline = seconds(settings.deadline);
    let stuck = seconds(settings.finalizer_stuck_after);

    vec![
        ("Health", 2.0, "the value of `failing`"),
        ("Oldest unconverged", deadline, "the finding Overdue"),
        ("Oldest deletion", stuck, "the finding FinalizerStuck"),
        ("Oldest deletion by finalizer", stuck, "the finding FinalizerStuck"),
        ("Time to remove a finalizer", stuck, "the finding FinalizerStuck"),
        (
            "Oldest soft-deleted object",
            seconds(settings.soft_deleted_after),
            "the finding SoftDeleteLingering",
        ),
        ("Error budget remaining, 30 days", 0.0, "the objective"),
        ("Longest queue", f64::from(settings.queue_backlog), "the finding QueueBacklog"),
        ("Failed reconciles", f64::from(settings.reconcile_errors), "the finding ReconcileErrors"),
        (
            "Longest reconcile",
            seconds(settings.reconcile_stuck_after),
            "the finding ReconcileStuck",
        ),
        (
            "Time to exhaustion",
            seconds(settings.exhaustion_within),
            "the finding MemoryExhaustionPredicted",
        ),
        ("Watch delivery lag", 0.5, "the target of the benchmarks; nothing alerts"),
    ]
}

#[test]
fn thresholds_are_those_of_the_findings() {
    let known = thresholds();
    let mut used = BTreeSet::new();
    for name in DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        for panel in bundled::panels(&dashboard) {
            let title = panel["title"].as_str().unwrap_or_default();
            let overrides = panel["fieldConfig"]["overrides"].as_array().into_iter().flatten();
            let properties = overrides.filter_map(|one| one["properties"].as_array()).flatten();
            let overridden =
                properties.filter(|one| one["id"] == "thresholds").map(|one| &one["value"]);

            for thresholds in overridden.chain([&panel["fieldConfig"]["defaults"]["thresholds"]]) {
                let steps = thresholds["steps"].as_array().into_iter().flatten();
                for value in
                    steps.filter_map(|step| step["value"].as_f64()).filter(|value| *value != 1.0)
                {
                    let title =
                        if title == "Unconverged objects" { "Oldest unconverged" } else { title };
                    let row = known.iter().position(|(panel, ..)| *panel == title);
                    let row = row.unwrap_or_else(|| {
                        panic!("{name}: {title}: {value} is the threshold of nothing")
                    });

                    assert_eq!(value, known[row].1, "{name}: {title}: {}", known[row].2);

                    used.insert(row);
                }
            }
        }
    }

    assert_eq!(used.len(), known.len(), "a threshold that no panel has");
}

#[test]
fn links_lead_somewhere() {
    for name in DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let mut links = Vec::new();
        collect_urls(&dashboard, &mut links);

        let urls: Vec<&str> = links.into_iter().filter(|url| !url.is_empty()).collect();
        for url in &urls {
            match url.strip_prefix("${page}") {
                Some(path) => expect_runbooks(path),
                None => {
                    let uid = url
                        .strip_prefix("/d/")
                        .map(|rest| rest.split('?').next().unwrap_or_default());

                    assert!(uid.is_some_and(|uid| DASHBOARDS.contains(&uid)), "{name}: {url}");
                }
            }
        }

        assert!(
            urls.contains(&"${page}/runbooks") && urls.contains(&"${page}"),
            "{name}: {urls:?}"
        );

        let tags = |value: &Value| {
            value.as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "loopwatch"))
        };
        let to_others =
            dashboard["links"].as_array().into_iter().flatten().any(|link| tags(&link["tags"]));

        assert!(tags(&dashboard["tags"]) && to_others, "{name} has no link to the others");
    }
}

/// Expects that a path on the page leads to runbooks that exist, if it leads to one.
fn expect_runbooks(path: &str) {
    let Some(runbook) = path.strip_prefix("/runbooks/") else { return };
    for finding in FINDINGS {
        let name = runbook.replace("${__value.raw}", finding.name);
        let file = loopwatch_testbed::repository(format!("docs/runbooks/{name}.md"));

        assert!(file.is_file(), "{path}: no {name}");
    }
}

fn collect_urls<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("url").and_then(Value::as_str));
            fields.values().for_each(|field| collect_urls(field, into));
        }
        Value::Array(all) => all.iter().for_each(|one| collect_urls(one, into)),
        _ => {}
    }
}

/// Metrics with exemplars lead from a panel to a trace, if the panel asks for them.
#[test]
fn panels_of_metrics_with_exemplars_show_them() {
    let mut shown = 0;
    for name in DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let panels =
            bundled::panels(&dashboard).into_iter().filter(|panel| panel["type"] == "timeseries");
        for target in panels.filter_map(|panel| panel["targets"].as_array()).flatten() {
            let expr = target["expr"].as_str().unwrap_or_default();
            let has = ["convergence_seconds_bucket", "acknowledge_seconds_bucket"]
                .iter()
                .any(|one| expr.contains(one));

            assert!(!has || target["exemplar"] == Value::Bool(true), "{name}: {expr}");

            shown += usize::from(has);
        }
    }

    assert!(shown >= 5, "{shown}");

    let page =
        std::fs::read_to_string(loopwatch_testbed::repository("docs/traces.md")).expect("readable");

    assert!(page.contains("exemplarTraceIdDestinations") && page.contains("`loopwatch-overview`"));
}

#[test]
fn every_row_asks_a_question_that_its_panels_answer() {
    for name in DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let panels = dashboard["panels"].as_array().expect("panels");
        let mut empty = true;

        for panel in panels.iter().rev() {
            if panel["type"] != "row" {
                empty = false;
                continue;
            }

            let title = panel["title"].as_str().unwrap_or_default();
            assert!(title.ends_with('?') && !empty, "{name}: {title:?}");

            empty = true;
        }

        assert_eq!(panels[0]["type"], "row", "{name}");
    }
}
