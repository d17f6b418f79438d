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

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lint::DEVIATIONS;
use loopwatch_model::finding::FINDINGS;
use loopwatch_model::settings::Settings;
use loopwatch_testbed::bundled::{self, ALL_DASHBOARDS, Query};
use loopwatch_testbed::standin::{Standin, StreamedLists, Traits};
use loopwatch_testbed::wait::eventually;
use prometheus::{Loopwatch, Prometheus};
use serde_json::Value;

/// The recordings that are played, and how many times as fast as they happened: each takes less
/// than a minute.
const REPLAYS: [(&str, f64); 6] = [
    ("demo", 250.0),
    ("objects", 1.0),
    ("busy", 3.0),
    ("rabbitmq", 4.0),
    ("cache-growth", 200.0),
    ("descriptor-leak", 200.0),
];

/// The time until the last replay has ended and its series have been seen.
const PLAYED: Duration = Duration::from_secs(100);

/// The panels whose series no recording contains, with the tests that prove them.
const PROVED_ELSEWHERE: [(&str, &str); 2] = [
    (
        "Workloads with stale configuration",
        "`references::stale-configuration` of the live tests proves the finding",
    ),
    ("Alerts about clusters", "`clusters::one_differs` of the live tests proves the alert"),
];

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
    for name in ALL_DASHBOARDS {
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
    for name in ALL_DASHBOARDS {
        // Only a loopwatch with --all-operators has the label `operator`.
        let queries = bundled::variable_queries(name).into_iter();
        for query in queries.filter(|query| query.variable != "operator") {
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

    expect_rollouts(&prometheus);
    expect_links(&prometheus);
    expect_one_row_for_each_finding(&prometheus);
}

/// Expects that each revision of the operator is annotated.
fn expect_rollouts(prometheus: &Prometheus) {
    for name in ALL_DASHBOARDS {
        let annotations = bundled::annotation_queries(name);
        let rollouts = annotations.iter().find(|query| query.panel == "Rollouts").expect(name);

        for revision in rollout::REVISIONS {
            let one =
                rollouts.promql.replace(r#"revision!="""#, &format!(r#"revision="{revision}""#));
            assert_eq!(prometheus.has_data(&one), Ok(true), "{name}: {revision}");
        }
    }
}

/// Expects that links lead to the addresses that a loopwatch states, otherwise to a forwarded port.
fn expect_links(prometheus: &Prometheus) {
    let rows = |dashboard, panel: &str, index: usize| {
        let queries = bundled::queries(dashboard);
        let mut of_panel = queries.iter().filter(|query| query.panel == panel);
        prometheus.labels(&of_panel.nth(index).expect(panel).promql).expect("a query")
    };
    let of = |rows: &[Value], labels: &[(&str, &str)], link: &str| {
        let row = rows.iter().find(|row| labels.iter().all(|(name, value)| row[name] == *value));
        row.unwrap_or_else(|| panic!("no {labels:?} in {rows:#?}"))[link].clone()
    };

    let sources = rows("loopwatch-self", "Sources", 0);
    let stated = of(&sources, &[("namespace", "run")], "runbook");
    assert_eq!(stated, "https://git.example/SourceFailing.md");
    let local = of(&sources, &[("namespace", "objects")], "runbook");
    assert_eq!(local, "http://localhost:9917/runbooks/SourceFailing");

    let operators = rows("loopwatch-overview", "Operators", 6);
    assert_eq!(of(&operators, &[("namespace", "run")], "page_url"), "https://loopwatch.example/a/");

    let findings = rows("loopwatch-overview", "Open findings", 2);
    let orphan = [("namespace", "objects"), ("finding", "Orphan")];
    let about_loopwatch = [("namespace", "rollout"), ("finding", "PermissionMissing")];
    assert_eq!(
        of(&findings, &orphan, "link"),
        "http://localhost:9917/object?group=&kind=ConfigMap&namespace=objects&name=orphan"
    );
    assert_eq!(of(&findings, &orphan, "runbook"), "http://localhost:9917/runbooks/Orphan");
    assert_eq!(
        of(&findings, &about_loopwatch, "link"),
        "http://localhost:9917/?filter=PermissionMissing#findings"
    );
}

/// Expects that the queries of a table of findings return the same findings, each once, so that
/// Grafana merges them into one row for each.
fn expect_one_row_for_each_finding(prometheus: &Prometheus) {
    const LABELS: [&str; 9] = [
        "cluster",
        "job",
        "namespace",
        "operator",
        "finding",
        "group",
        "kind",
        "target_namespace",
        "name",
    ];

    for name in ALL_DASHBOARDS {
        let queries = bundled::queries(name);
        let of_table = queries.iter().filter(|query| query.panel == "Open findings");
        let findings: Vec<Vec<Vec<String>>> = of_table
            .map(|query| {
                let rows = prometheus.labels(&query.promql).expect("a query");
                let mut rows: Vec<_> = rows
                    .iter()
                    .map(|row| LABELS.map(|label| row[label].to_string()).to_vec())
                    .collect();
                rows.sort();
                rows
            })
            .collect();

        assert!(findings.len() == 3 && !findings[0].is_empty(), "{name}: {findings:?}");
        assert!(findings[0].windows(2).all(|pair| pair[0] != pair[1]), "{name}: {:?}", findings[0]);
        assert!(findings.iter().all(|other| *other == findings[0]), "{name}: {findings:#?}");
    }
}

#[test]
fn the_dashboards_follow_the_rules_of_the_linter() {
    let mut needed = BTreeSet::new();
    for name in ALL_DASHBOARDS {
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
    for name in ALL_DASHBOARDS.into_iter().filter(|name| *name != "loopwatch-self") {
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
        ("Lowest consistency, 1 day", 0.9998, "the aim in docs/alerts.md"),
        ("Watch delivery lag", 0.5, "the target of the benchmarks; nothing alerts"),
    ]
}

#[test]
fn thresholds_are_those_of_the_findings() {
    let known = thresholds();
    let mut used = BTreeSet::new();
    for name in ALL_DASHBOARDS {
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

/// The links of a row in a table, whose addresses its query builds from `loopwatch_links_info`.
const LINKS: [&str; 3] =
    ["${__data.fields.link:raw}", "${__data.fields.runbook:raw}", "${__value.raw:raw}"];

#[test]
fn links_lead_somewhere() {
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let mut links = Vec::new();
        collect_urls(&dashboard, &mut links);

        for url in links.iter().filter(|url| !LINKS.contains(url)) {
            let path = url.strip_prefix("/d/");
            let uid = path.map(|rest| rest.split('?').next().unwrap_or_default());

            assert!(uid.is_some_and(|uid| ALL_DASHBOARDS.contains(&uid)), "{name}: {url}");
        }

        assert!(LINKS[..2].iter().all(|link| links.contains(link)), "{name}: {links:?}");
        expect_fields_of_links(name, &dashboard);
        expect_runbooks(name);

        let tags = |value: &Value| {
            value.as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "loopwatch"))
        };
        let to_others =
            dashboard["links"].as_array().into_iter().flatten().any(|link| tags(&link["tags"]));

        assert!(tags(&dashboard["tags"]) && to_others, "{name} has no link to the others");
    }
}

/// Expects that a table has all fields that its links contain, under these names.
fn expect_fields_of_links(name: &str, dashboard: &Value) {
    for panel in bundled::panels(dashboard) {
        let mut links = Vec::new();
        collect_urls(&panel["fieldConfig"], &mut links);

        let steps = panel["transformations"].as_array().into_iter().flatten();
        let renamed =
            steps.filter_map(|step| step["options"]["renameByName"].as_object()).flatten();
        let fields: BTreeSet<&str> = renamed.filter_map(|(_, name)| name.as_str()).collect();

        for rest in links.iter().flat_map(|url| url.split("${__data.fields.").skip(1)) {
            let field = rest.split(['}', ':']).next().unwrap_or_default();
            assert!(fields.contains(field), "{name}: {}: no {field}", panel["title"]);
        }
    }
}

/// Expects that the runbooks exist whose names the queries of a dashboard contain.
fn expect_runbooks(dashboard: &str) {
    for Query { panel, promql } in bundled::queries(dashboard) {
        for rest in promql.split(r#", "runbook", ""#).skip(1) {
            let name = rest.split('"').next().unwrap_or_default();
            let file = loopwatch_testbed::repository(format!("docs/runbooks/{name}.md"));

            assert!(name.is_empty() || file.is_file(), "{dashboard}: {panel}: no runbook {name}");
        }
    }

    for finding in FINDINGS {
        let file = loopwatch_testbed::repository(format!("docs/runbooks/{}.md", finding.name));
        assert!(file.is_file(), "{}", finding.name);
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
    for name in ALL_DASHBOARDS {
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
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let panels = dashboard["panels"].as_array().expect("panels");
        let (mut empty, mut folded) = (true, 0);

        for panel in panels.iter().rev() {
            if panel["type"] != "row" {
                empty = false;
                continue;
            }

            // A folded row contains its panels; those of an open one follow it.
            let title = panel["title"].as_str().unwrap_or_default();
            let within = panel["panels"].as_array().map_or(0, Vec::len);
            let is_folded = panel["collapsed"] == Value::Bool(true);

            assert_eq!(is_folded, within > 0, "{name}: {title:?}");
            assert!(title.ends_with('?') && (is_folded || !empty), "{name}: {title:?}");

            folded += usize::from(is_folded);
            empty = true;
        }

        assert_eq!(panels[0]["type"], "row", "{name}");
        assert!(folded > 0, "{name} has no folded row");
    }
}

/// Whoever opens a dashboard sees the most urgent findings without scrolling.
#[test]
fn open_findings_come_first_and_the_most_urgent_before_the_others() {
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let panels = bundled::panels(&dashboard);
        let table = panels.iter().find(|panel| panel["type"] == "table").expect("a table");
        assert_eq!(table["title"], "Open findings", "{name}");

        let top = table["gridPos"]["y"].as_u64().unwrap_or(u64::MAX);
        assert!(top <= 5, "{name}: the findings are at {top}");

        let steps = table["transformations"].as_array().expect("transformations");
        let order: Vec<_> = steps.iter().filter_map(|step| step["id"].as_str()).collect();
        assert_eq!(order, ["merge", "sortBy", "organize"], "{name}");

        let sort = &steps[1]["options"]["sort"];
        assert_eq!(*sort, serde_json::json!([{"field": "Value #B", "desc": true}]), "{name}");

        let urgency = table["targets"][1]["expr"].as_str().unwrap_or_default();
        for (rank, severity) in ["info", "warning", "critical"].into_iter().enumerate() {
            let (_, rest) = urgency.split_once(&format!("({rank}e10 - min by")).expect("a rank");
            let severity = format!(r#"severity="{severity}""#);
            assert!(rest.split("e10").next().is_some_and(|of| of.contains(&severity)), "{urgency}");
        }
    }
}

/// Panels that show a series for each kind or controller must not mix those of several operators or
/// groups.
#[test]
fn aggregations_keep_the_operator_and_the_group() {
    let mut kept = 0;
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        for panel in bundled::panels(&dashboard) {
            let is_one_number = panel["type"] == "stat" || panel["type"] == "bargauge";
            let targets = panel["targets"].as_array().into_iter().flatten();

            for expr in targets.filter_map(|target| target["expr"].as_str()) {
                let place = format!("{name}: {}: {expr}", panel["title"]);
                for labels in expr.split(" by (").skip(1) {
                    let labels: Vec<&str> =
                        labels.split(')').next().unwrap_or_default().split(", ").collect();
                    let has = |label| labels.contains(&label);

                    let is_of_operator =
                        ["cluster", "job", "namespace", "operator"].into_iter().all(has);
                    assert!(is_of_operator || is_one_number, "{place}: {labels:?}");
                    assert!(!has("kind") || has("group"), "{place}: {labels:?}");

                    kept += 1;
                }

                for function in ["sum(", "max(", "min(", "avg(", "count("] {
                    for (at, _) in expr.match_indices(function) {
                        // The objective and its burn rates are recorded without labels.
                        let of_objective = expr[at + function.len()..].starts_with("loopwatch:");
                        assert!(of_objective || is_one_number, "{place}");
                    }
                }
            }
        }

        let variables = dashboard["templating"]["list"].as_array().expect("variables");
        for wanted in ["cluster", "job", "namespace", "operator", "group", "kind"] {
            assert!(variables.iter().any(|one| one["name"] == wanted), "{name}: no {wanted}");
        }

        assert!(variables.iter().all(|one| one["type"] != "textbox"), "{name}: a text box");
    }

    assert!(kept > 100, "{kept}");
}

#[test]
fn every_line_has_an_axis_with_a_label_and_says_of_which_operator_it_is() {
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        let panels = bundled::panels(&dashboard);
        for panel in panels.into_iter().filter(|panel| panel["type"] == "timeseries") {
            let label = panel["fieldConfig"]["defaults"]["custom"]["axisLabel"].as_str();
            assert!(label.is_some_and(|label| !label.is_empty()), "{name}: {}", panel["title"]);

            for target in panel["targets"].as_array().into_iter().flatten() {
                let legend = target["legendFormat"].as_str().unwrap_or_default();
                let is_of_operator = legend.ends_with(" · {{cluster}} {{namespace}} {{operator}}");
                let is_objective = ["objective", "fastest alert"].contains(&legend);
                assert!(is_of_operator || is_objective, "{name}: {}: {legend}", panel["title"]);
            }
        }
    }
}

/// Each word has one colour, and each colour one meaning.
#[test]
fn a_word_has_the_same_colour_in_all_dashboards() {
    const COLOURS: [&str; 8] =
        ["green", "blue", "orange", "red", "purple", "#6b7685", "#2f7a75", "text"];

    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        for (word, colour) in coloured_words(&dashboard) {
            assert!(COLOURS.contains(&colour.as_str()), "{name}: {word}: {colour}");

            let first = known.entry(word.clone()).or_insert_with(|| colour.clone());
            assert_eq!(*first, colour, "{name}: {word}");
        }
    }

    for (word, colour) in [
        ("critical", "red"),
        ("failing", "red"),
        ("failed", "red"),
        ("warning", "orange"),
        ("degraded", "orange"),
        ("overdue", "orange"),
        ("info", "blue"),
        ("progressing", "blue"),
        ("terminating", "purple"),
        ("converged", "green"),
        ("healthy", "green"),
    ] {
        assert_eq!(known.get(word).map(String::as_str), Some(colour), "{word}");
    }
}

/// The words of cells and the beginnings of legends, with their colours.
fn coloured_words(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            if let (Some(text), Some(colour)) = (value["text"].as_str(), value["color"].as_str()) {
                found.push((text.to_owned(), colour.to_owned()));
            }

            if value["matcher"]["id"] == "byRegexp" {
                let pattern = value["matcher"]["options"].as_str().unwrap_or_default();
                let word = pattern.trim_start_matches("/^").trim_end_matches("\\b/");
                let properties = value["properties"].as_array().into_iter().flatten();
                let colours = properties.filter_map(|one| one["value"]["fixedColor"].as_str());
                found.extend(colours.map(|colour| (word.to_owned(), colour.to_owned())));
            }

            found.extend(fields.values().flat_map(coloured_words));
        }
        Value::Array(all) => found.extend(all.iter().flat_map(coloured_words)),
        _ => {}
    }

    found
}

/// A Prometheus that keeps fewer days than a query looks back shows less than its panel promises.
#[test]
fn panels_that_look_back_for_weeks_say_which_retention_they_need() {
    let mut long = 0;
    for name in ALL_DASHBOARDS {
        let dashboard = bundled::dashboard(name);
        for panel in bundled::panels(&dashboard) {
            if panel["targets"].to_string().contains("[30d]") {
                let description = panel["description"].as_str().unwrap_or_default();
                assert!(description.contains("30 days of retention"), "{name}: {}", panel["title"]);

                long += 1;
            }
        }
    }

    assert!(long > 0);
}
