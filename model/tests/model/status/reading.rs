//! Properties that the reading of every status has, checked on random statuses, and what the model
//! makes of readings.

use loopwatch_model::model::reading::{Acknowledged, Reason, Verdict, read};
use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, ObjectView, Pause, StatusShape,
};
use loopwatch_model::time::Span;
use proptest::prelude::*;

use crate::lab::{Lab, Widget};

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "Ready",
        "Not",
        "Failed",
        "Progressing",
        "Waiting",
        "For",
        "No",
        "in",
        "sync",
        "up",
        "to",
        "partially",
        "Ünready",
        "_",
        "-",
        "new",
        "",
        "being",
        "Paused",
        "0",
        "ACK.Terminal",
        "x/y",
        "partition",
        "Unknown",
    ]);
    prop_oneof![prop::collection::vec(word, 0..6).prop_map(|words| words.concat()), ".{0,300}"]
}

fn condition() -> impl Strategy<Value = Condition> {
    let status = prop::sample::select(vec![
        ConditionStatus::True,
        ConditionStatus::False,
        ConditionStatus::Unknown,
        ConditionStatus::Absent,
    ]);

    let at = prop::sample::select(vec![
        "",
        "parents[0]",
        "listeners[1]",
        "podStatus",
        "conditionStatus",
        "v1beta2",
    ]);

    (at, words(), status, words(), words(), words(), prop::option::of(any::<i64>())).prop_map(
        |(at, r#type, status, reason, message, severity, observed_generation)| Condition {
            at: at.to_owned(),
            r#type,
            status,
            reason,
            message,
            severity,
            observed_generation,
            changed: None,
            failed_call: None,
        },
    )
}

fn fact() -> impl Strategy<Value = Fact> {
    let path = prop_oneof![
        prop::sample::select(vec![
            "status.phase",
            "status.state",
            "status.ready",
            "status.replicas",
            "status.readyReplicas",
            "spec.replicas",
            "status.updatedReplicas",
            "status.error",
            "status.a[0].applied",
            "status.a.b.state",
            "status.",
            "spec.updateStrategy.rollingUpdate.partition",
            "status.completionTime",
            "status.succeeded",
            "status.failed",
        ])
        .prop_map(str::to_owned),
        ".{0,40}",
    ];

    let value = prop_oneof![
        any::<bool>().prop_map(FactValue::Flag),
        any::<i64>().prop_map(FactValue::Number),
        words().prop_map(FactValue::Text),
        "[0-9]{1,3}/[0-9]{1,20}".prop_map(FactValue::Text),
    ];

    (path, value).prop_map(|(path, value)| Fact { path, value })
}

fn object() -> impl Strategy<Value = ObjectView> {
    let shape =
        prop::sample::select(vec![StatusShape::Absent, StatusShape::Empty, StatusShape::Filled]);
    (
        any::<i64>(),
        prop::option::of(any::<i64>()),
        prop::collection::vec(condition(), 0..6),
        prop::collection::vec(fact(), 0..8),
        shape,
        any::<bool>(),
    )
        .prop_map(|(generation, observed_generation, conditions, facts, status, paused)| {
            ObjectView {
                generation,
                observed_generation,
                conditions,
                facts,
                status,
                paused: paused.then(|| Pause { by: "spec.suspend".to_owned() }),
                ..ObjectView::default()
            }
        })
}

proptest! {
    #[test]
    fn every_status_is_read_consistently(
        group in prop::sample::select(vec!["", "gloo.solo.io", "s3.aws.upbound.io", "acme.cert-manager.io", "a.b"]),
        object in object(),
    ) {
        let reading = read(group, "Any", &object);
        prop_assert_eq!(&reading, &read(group, "Any", &object));
        prop_assert_eq!(object.paused.is_some(), reading.reason == Reason::Paused);
        if reading.verdict == Verdict::Failed {
            prop_assert!(reading.acknowledged != Acknowledged::No, "failed for an earlier generation");
        }
        if object.status != StatusShape::Filled && object.paused.is_none() {
            prop_assert!(!matches!(reading.verdict, Verdict::Failed | Verdict::Suspended | Verdict::Finished));
        }
    }
}

#[test]
fn objects_whose_key_is_disabled_are_found() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..10).map(|i| lab.converged(&format!("db{i}"))).collect();
    for widget in &mut widgets {
        lab.apply(widget.observe().condition("Ready", ConditionStatus::False, "KMSKeyDisabled"));
    }

    lab.advance(Span::hours(24));
    assert!(
        !lab.findings().is_empty(),
        "ten databases are down for a day, state {:?}",
        lab.state("db1")
    );
}
