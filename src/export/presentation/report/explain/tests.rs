//! The report on a hand-made explanation.

use super::*;
use crate::export::presentation::json;
use crate::export::sample;
use crate::export::view::BlindSpot;
use crate::golden;

fn explained() -> (String, Explained) {
    let explanation = sample::explanation();
    let spots = [BlindSpot { what: "Secret".to_owned(), why: "no permission to list".to_owned() }];
    let text = serde_json::to_string_pretty(&json::explain(&explanation, String::new(), &spots))
        .expect("plain data");
    let explained = serde_json::from_str(&text).expect("it reads back");

    (text + "\n", explained)
}

const PLAIN: Style = Style { markdown: false, colours: false, width: 110 };

#[test]
fn the_report_matches_its_golden_files() {
    let (json, explained) = explained();
    golden::check("tests/golden/explain.json", &json);
    golden::check("tests/golden/explain.txt", &explain_report(&explained, PLAIN));
    golden::check(
        "tests/golden/explain.md",
        &explain_report(&explained, Style { markdown: true, ..PLAIN }),
    );
}

#[test]
fn an_explanation_reads_back_unchanged() {
    let (_, Explained { explanation, findings, .. }) = explained();
    let original = sample::explanation();

    assert_eq!(findings.len(), original.findings.len());
    assert_eq!(
        explanation,
        loopwatch_model::snapshot::Explanation { findings: Vec::new(), ..original }
    );
}

#[test]
fn names_and_messages_cannot_control_the_terminal() {
    let (_, explained) = explained();
    assert!(!explain_report(&explained, PLAIN).contains('\u{1b}'));
    assert!(
        explain_report(&explained, Style { colours: true, ..PLAIN }).contains("\u{1b}[1;33m"),
        "but colours can"
    );
}

#[test]
fn an_answer_of_a_newer_or_older_loopwatch_is_shown_as_far_as_it_is_known() {
    let explained: Explained = serde_json::from_str(
        r#"{"version":1,"object":{"kind":"Widget","name":"web","state":"asleep"},"new":[1]}"#,
    )
    .expect("it is JSON");

    assert!(
        explain_report(&explained, PLAIN).starts_with("ASLEEP  Widget web"),
        "{}",
        explain_report(&explained, PLAIN)
    );
}

#[test]
fn the_report_names_the_trace_if_there_is_one() {
    let (_, explained) = explained();
    assert!(!explain_report(&explained, PLAIN).contains("trace 39cd"));

    let explained =
        Explained { trace_id: "39cdcabd88df6a67d85622020c9ff471".to_owned(), ..explained };

    let report = explain_report(&explained, PLAIN);
    let unwrapped = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("trace 39cdcabd88df6a67d85622020c9ff471"), "{report}");
}
