//! The Helm chart: its copies of files, the table of its values, and its version.

use std::fs;

use serde_json::Value;

use super::{read, root, yaml};

const CHART: &str = "deploy/chart/loopwatch";

/// The files outside the chart that it contains copies of, each with the name of the copy.
const COPIES: [(&str, &str); 7] = [
    ("dashboards/loopwatch-objects.json", "loopwatch-objects.json"),
    ("dashboards/loopwatch-overview.json", "loopwatch-overview.json"),
    ("dashboards/loopwatch-process.json", "loopwatch-process.json"),
    ("dashboards/loopwatch-self.json", "loopwatch-self.json"),
    ("deploy/cluster/operators.yaml", "operators.yaml"),
    ("deploy/components/monitoring/prometheusrule.yaml", "prometheusrule.yaml"),
    ("deploy/components/tenant-alerts/prometheusrule.yaml", "tenant-prometheusrule.yaml"),
];

/// A value of the chart.
struct Row {
    path: String,
    default: Value,
    meaning: String,
}

fn schema() -> Value {
    let text = read(format!("{CHART}/values.schema.json"));
    serde_json::from_str(&text).expect("a schema")
}

/// The values that a schema describes. A schema with a default is one; others only group them.
fn rows(schema: &Value, path: &str, rows: &mut Vec<Row>) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value.get("default") {
            Some(default) => rows.push(Row {
                path,
                default: default.clone(),
                meaning: value["description"].as_str().unwrap_or_default().to_owned(),
            }),
            None => self::rows(value, &path, rows),
        }
    }
}

/// The offset of a value in `values.yaml`, where people read them in this order.
fn position(text: &str, path: &str) -> usize {
    let mut at = 0;
    for (depth, name) in path.split('.').enumerate() {
        let key = format!("\n{}{name}:", "  ".repeat(depth));
        at += text[at..].find(&key).unwrap_or_else(|| panic!("values.yaml has no {path}"));
    }

    at
}

fn in_order() -> Vec<Row> {
    let (text, mut found) = (read(format!("{CHART}/values.yaml")), Vec::new());
    rows(&schema(), "", &mut found);
    found.sort_by_key(|row| position(&text, &row.path));

    found
}

/// A chart cannot read files outside its folder.
#[test]
fn the_copies_in_the_chart_are_up_to_date() {
    for (file, copy) in COPIES {
        let copy = format!("{CHART}/files/{copy}");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(root().join(&copy), read(file)).expect("a file of the chart");
        }

        assert!(read(file) == read(&copy), "{copy} is out of date; run with UPDATE=1");
    }

    let files = fs::read_dir(root().join(CHART).join("files")).expect("a folder").count();
    assert_eq!(files, COPIES.len());
}

#[test]
fn the_values_have_the_defaults_of_their_schema_and_the_table_of_the_chart_is_up_to_date() {
    let values = yaml(&read(format!("{CHART}/values.yaml")));
    let mut table = String::from("| value | default | meaning |\n|---|---|---|\n");
    for Row { path, default, meaning } in in_order() {
        let found = values.pointer(&format!("/{}", path.replace('.', "/")));
        assert_eq!(found, Some(&default), "{path} in values.yaml");
        assert!(meaning.len() > 10, "{path} has no description");

        table += &format!("| `{path}` | `{default}` | {} |\n", meaning.replace('|', "\\|"));
    }

    let file = format!("{CHART}/README.md");
    let text = read(&file);
    let begin = text.find("| value |").expect("a table");
    let end = begin + text[begin..].find("\n\n").expect("the end of the table") + 1;
    let wanted = format!("{}{table}{}", &text[..begin], &text[end..]);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(&file), &wanted).expect("the README of the chart");
    }

    assert!(read(&file) == wanted, "{file} is out of date; run with UPDATE=1");
}

#[test]
fn the_chart_has_the_version_of_loopwatch() {
    let chart = yaml(&read(format!("{CHART}/Chart.yaml")));
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}
