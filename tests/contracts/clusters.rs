//! The opt-in rules that compare clusters, and their documentation.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{expect_generated, known, metrics_in, read, root, yaml};

const FILE: &str = "alerts/clusters/clusters.rules.yaml";

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

#[test]
fn the_series_of_the_clusters_are_documented_and_have_the_defaults_of_the_table() {
    let page = read("docs/alerts.md");
    let (_, section) = page.split_once("\n## Several clusters\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
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
