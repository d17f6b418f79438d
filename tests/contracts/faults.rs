//! The table of faults names only findings, metrics and live tests that exist.

use std::fs;

use loopwatch::export::metrics::CATALOG;
use loopwatch_model::finding::FINDINGS;
use loopwatch_testbed::frameworks::Framework;

use crate::{read, root};

/// One row of the table in `tests/faults.md`.
struct Row {
    id: String,
    /// Findings and metrics.
    seen_by: String,
    tests: String,
}

fn rows() -> Vec<Row> {
    let page = read("tests/faults.md");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = page.lines().filter(|line| line.starts_with("| F")).map(cells);
    rows.map(|cells| {
        let [_, id, _, seen_by, tests, _] = <[String; 6]>::try_from(cells).expect("four cells");
        Row { id, seen_by, tests }
    })
    .collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a file of the live tests has this test. The rows of `proof.rs` have names of their own,
/// to which the file adds its name.
fn is_live_test(name: &str) -> bool {
    let (file, own) = name.split_once("::").expect("the name of a file");
    let source = |file: &str| {
        fs::read_to_string(root().join(format!("tests/live/{file}.rs"))).unwrap_or_default()
    };
    let of_frameworks =
        file == "frameworks" && Framework::ALL.iter().any(|framework| framework.label() == own);
    let file = if file == "fault" { "faults" } else { file };

    of_frameworks
        || source(file).contains(&format!("\"{name}\""))
        || source(file).contains(&format!("name: \"{}\"", own.replace('_', "-")))
}

#[test]
fn the_table_of_faults_has_each_fault_once_and_in_order() {
    let ids: Vec<String> = rows().into_iter().map(|row| row.id).collect();
    let expected: Vec<String> = (1..=45).map(|number| format!("F{number:02}")).collect();

    assert_eq!(ids, expected);
}

#[test]
fn the_table_of_faults_names_findings_metrics_and_tests_that_exist() {
    for Row { id, seen_by, tests } in rows() {
        let links = seen_by.split("](../docs/runbooks/").skip(1);
        for name in links.filter_map(|link| link.split(".md)").next()) {
            assert!(FINDINGS.iter().any(|row| row.name == name), "{id}: {name}");
        }

        for metric in quoted(&seen_by).filter(|word| word.starts_with("loopwatch_")) {
            assert!(CATALOG.iter().any(|row| row.metric.name == metric), "{id}: {metric}");
        }

        for test in quoted(&tests) {
            assert!(is_live_test(test), "{id}: {test}");
        }

        let is_proved = tests == "Model" || quoted(&tests).next().is_some();
        assert!(is_proved || seen_by.contains("Not built"), "{id} has no test");
    }
}
