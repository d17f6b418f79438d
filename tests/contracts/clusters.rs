//! The opt-in rules and the opt-in dashboard that compare clusters, and their documentation.

use std::collections::BTreeSet;
use std::process::Command;

use loopwatch_testbed::bundled;
use serde_json::Value;

use super::{expect_generated, known, metrics_in, read, root, yaml};

const FILE: &str = "alerts/clusters/clusters.rules.yaml";
const DASHBOARD: &str = "dashboards/clusters/loopwatch-clusters.json";

fn rules() -> Vec<Value> {
    let groups = yaml(&read(FILE))["groups"].as_array().cloned().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().cloned().expect("rules")).collect()
}

fn text<'a>(rule: &'a Value, pointer: &str) -> &'a str {
    rule.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The series that the rules record.
fn recorded() -> BTreeSet<String> {
    let named = |rule: &Value| rule["record"].as_str().map(str::to_owned);
    rules().iter().filter_map(named).collect()
}

#[test]
fn the_prometheus_rule_of_the_clusters_is_generated() {
    expect_generated("alerts/clusters/prometheusrule.yaml", "loopwatch-clusters", &[FILE], FILE);
}

#[test]
fn rules_of_the_clusters_use_only_metrics_that_exist() {
    let known: BTreeSet<String> = [known(), recorded()].into_iter().flatten().collect();
    for rule in rules() {
        let annotations = rule["annotations"].as_object().into_iter().flatten();
        let texts = annotations.filter_map(|(_, text)| text.as_str());
        for metric in texts.chain([text(&rule, "/expr")]).flat_map(metrics_in) {
            assert!(known.contains(&metric), "{metric} is not in the catalog: {rule}");
        }
    }
}

/// Without the label, the series of several clusters would count as those of one.
#[test]
fn rules_of_the_clusters_read_no_series_without_a_cluster() {
    let recorded = recorded();
    for rule in rules() {
        let expression = text(&rule, "/expr");
        for metric in metrics_in(expression).difference(&recorded) {
            for (at, _) in expression.match_indices(metric.as_str()) {
                let rest = &expression[at + metric.len()..];
                let is_whole = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let selector = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
                let has_cluster = selector.is_some_and(|it| it.contains("cluster!=\"\""));
                // Each alert joins it with a series that has a cluster.
                let is_joined = metric == "kind:loopwatch_late_namespaces:ratio_increase6h";

                assert!(!is_whole || has_cluster || is_joined, "{metric}: {expression}");
            }
        }
    }
}

#[test]
fn each_alert_about_clusters_has_texts_and_a_runbook() {
    let alerts: Vec<Value> = rules().into_iter().filter(|rule| rule["alert"].is_string()).collect();
    for alert in &alerts {
        let name = text(alert, "/alert");
        assert_eq!(text(alert, "/labels/severity"), "warning", "{name}");
        assert!(text(alert, "/annotations/summary").contains("(cluster {{ $labels.cluster }})"));

        let runbook = name.trim_start_matches("Loopwatch");
        let description = text(alert, "/annotations/description");
        assert!(description.contains(&format!("Runbook: loopwatch runbook {runbook}")), "{name}");
        assert!(text(alert, "/annotations/runbook_url").contains(&format!("\"{runbook}\"")));
        assert!(root().join(format!("docs/runbooks/{runbook}.md")).is_file(), "{name}");
    }

    assert_eq!(alerts.len(), 2);
}

/// The section about several clusters.
fn section() -> String {
    let page = read("docs/alerts.md");
    let (_, section) = page.split_once("\n## Several clusters\n").expect("the section");
    section.split("\n## ").next().unwrap_or_default().to_owned()
}

/// What a command of loopwatch prints.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_loopwatch")).args(arguments).output();
    String::from_utf8(output.expect("loopwatch runs").stdout).expect("UTF-8")
}

#[test]
fn loopwatch_prints_the_rules_and_the_dashboard_of_the_clusters() {
    assert_eq!(printed(&["rules", "--clusters"]), read(FILE));

    let dashboards: Value =
        serde_json::from_str(&printed(&["dashboards", "--clusters"])).expect("JSON");
    assert_eq!(dashboards, serde_json::json!([dashboard(DASHBOARD)]));
}

fn dashboard(file: &str) -> Value {
    serde_json::from_str(&read(file)).expect("JSON")
}

/// Links between dashboards keep the values of the variables that both have.
#[test]
fn the_dashboard_of_the_clusters_has_a_config_map_and_the_variables_of_the_others() {
    let kustomization = yaml(&read("dashboards/clusters/kustomization.yaml"));
    let generator = &kustomization["configMapGenerator"][0];
    let file = generator["files"][0].as_str().expect("a file");
    assert_eq!(format!("dashboards/clusters/{file}"), DASHBOARD);
    assert_eq!(
        kustomization["generatorOptions"],
        yaml(&read("dashboards/kustomization.yaml"))["generatorOptions"]
    );

    let variables = |file| {
        let list = dashboard(file)["templating"]["list"].take();
        list.as_array().cloned().expect("variables")
    };
    let others = variables("dashboards/loopwatch-overview.json");
    assert!(variables(DASHBOARD).starts_with(&others) && !others.is_empty());
}

/// A central place may receive only some series.
#[test]
fn all_series_that_the_rules_and_the_dashboard_of_the_clusters_read_arrive() {
    let section = section();
    let (_, rest) = section.split_once("Let these series arrive centrally").expect("the list");
    let list = rest.split("\n4. ").next().unwrap_or_default();
    let arriving: BTreeSet<String> = [series_in(list), recorded()].into_iter().flatten().collect();

    for rule in rules() {
        for series in series_in(text(&rule, "/expr")) {
            assert!(arriving.contains(&series), "{series} in {rule}");
        }
    }

    let name = DASHBOARD.trim_start_matches("dashboards/clusters/").trim_end_matches(".json");
    let panels = bundled::queries(name).into_iter().chain(bundled::annotation_queries(name));
    let variables = bundled::variable_queries(name).into_iter();
    let queries = panels.map(|it| it.promql).chain(variables.map(|it| it.selector));

    for series in queries.flat_map(|query| series_in(&query)) {
        assert!(arriving.contains(&series), "{series} in {name}");
    }
}

/// The series of loopwatch, also those that are about no single metric, such as an acknowledged removal.
fn series_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_name(c)).filter(|word| word.starts_with("loopwatch:"));
    words.map(str::to_owned).chain(metrics_in(text)).collect()
}

#[test]
fn the_series_of_the_clusters_are_documented_and_have_the_defaults_of_the_table() {
    let section = section();
    let tables = section.lines().filter(|line| line.starts_with("| `") && line.contains(':'));
    let rows: Vec<Vec<&str>> =
        tables.map(|line| line.split('|').map(str::trim).collect()).collect();

    let names: BTreeSet<String> = rows
        .iter()
        .map(|row| row[1].trim_matches('`'))
        .flat_map(|name| match name.split_once('{') {
            Some((before, windows)) => windows
                .trim_end_matches('}')
                .split(',')
                .map(|window| format!("{before}{window}"))
                .collect(),
            None => vec![name.to_owned()],
        })
        .collect();
    assert_eq!(names, recorded());

    for (number, rule) in rules().iter().enumerate() {
        let expression = text(rule, "/expr");
        let Some(default) = expression.strip_prefix("vector(") else { continue };
        let name = text(rule, "/record");
        let row = rows.iter().find(|row| row[1].trim_matches('`') == name).expect(name);

        assert_eq!(row[2], default.trim_end_matches(')'), "{name}");
        assert_eq!(row[3], format!("`/spec/groups/0/rules/{number}/expr`"), "{name}");
    }
}
