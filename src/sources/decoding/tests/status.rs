//! Statuses of all shapes.

use loopwatch_model::observation::{CallFailure, Condition, Consulted, StatusShape};
use serde_json::{Value, json};

use super::*;

/// The conditions, each as `at/Type=status`.
fn conditions(status: &Value) -> Vec<String> {
    let show = |c: &Condition| format!("{}/{}={}", c.at, c.r#type, c.status.as_str());
    of(&json!({}), status).conditions.iter().map(show).collect()
}

#[test]
fn the_items_of_some_lists_are_counted() {
    for (status, count) in [
        (json!({"active": [{"kind": "Job", "name": "a"}]}), Some(1)),
        (json!({"parents": []}), Some(0)),
        (json!({"ancestors": [{"conditions": []}, {"conditions": []}]}), Some(2)),
        (json!({"nested": {"active": [{}]}}), None),
        (json!({"targets": []}), None),
    ] {
        let view = of(&json!({}), &status);
        let mut counts = view.facts.iter().filter_map(|fact| match fact.value {
            FactValue::Number(number) => Some(number),
            _ => None,
        });

        assert_eq!(counts.next_back(), count, "{status}");
    }
}

#[test]
fn zero_values_make_an_empty_status() {
    for (status, shape) in [
        (json!({}), StatusShape::Empty),
        (json!({"id": "", "revision": 0, "nested": {"b": [null]}}), StatusShape::Empty),
        (json!({"ready": false}), StatusShape::Filled),
        (json!({"replicas": 0}), StatusShape::Filled),
        (json!({"conditions": []}), StatusShape::Filled),
        (json!({"id": "a"}), StatusShape::Filled),
        (json!({"observedGeneration": 1}), StatusShape::Filled),
    ] {
        assert_eq!(
            view(&json!({"metadata": {"name": "n"}, "status": status})).status,
            shape,
            "{status}"
        );
    }
}

#[test]
fn the_observed_generation_is_read_in_all_its_forms() {
    for (status, generation) in [
        (json!({"observedGeneration": 3}), Some(3)),
        (json!({"observedGeneration": "3"}), Some(3)),
        (json!({"observedGeneration": 0}), None),
        (json!({"observedGeneration": -1}), None),
        (json!({"observedGeneration": null}), None),
        (json!({"lastEvaluatedGeneration": 3}), Some(3)),
        (json!({"lastHandledGeneration": 1, "observedGeneration": 2}), Some(2)),
        (json!({"observedGeneration": 2, "reconciledGeneration": 1}), Some(2)),
        (json!({"nodeClassObservedGeneration": 3}), None),
        (json!({"child": {"observedGeneration": 3}}), None),
    ] {
        assert_eq!(of(&json!({}), &status).observed_generation, generation, "{status}");
    }
}

#[test]
fn conditions_are_found_at_every_level_and_in_every_form() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    for (status, found) in [
        (json!({"conditions": ready}), vec!["/Ready=true"]),
        (json!({"conditions": [{"type": "Ready", "status": false}]}), vec!["/Ready=false"]),
        (json!({"conditions": [{"type": "Ready"}]}), vec!["/Ready=absent"]),
        (json!({"conditions": {"Ready": {"status": "unknown"}}}), vec!["/Ready=unknown"]),
        (json!({"conditions": {"Ready": true, "note": "text"}}), vec!["/Ready=true"]),
        (json!({"conditions": {"type": "Ready", "status": "True"}}), vec!["/Ready=true"]),
        (
            json!({"a": {"conditions": ready}, "conditions": ready}),
            vec!["/Ready=true", "a/Ready=true"],
        ),
        (json!({"parents": [{}, {"conditions": ready}]}), vec!["parents[1]/Ready=true"]),
        (json!({"conditionStatus": {"conditions": ready}}), vec!["conditionStatus/Ready=true"]),
        (json!({"v1beta2": {"conditions": ready}}), vec!["v1beta2/Ready=true"]),
        (json!({"resourceConditions": ready}), vec!["resourceConditions/Ready=true"]),
        (json!({"disks": {"d": {"conditions": ready}}}), vec!["disks.d/Ready=true"]),
        (json!({"addresses": ready}), vec![]),
    ] {
        assert_eq!(conditions(&status), found, "{status}");
    }
}

#[test]
fn timestamps_and_heartbeats_do_not_change_the_settled_hash() {
    let status = |status: Value| of(&json!({}), &status).hashes;
    let a = json!({"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let later =
        json!({"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"});
    let b = json!({"type": "B", "status": "True"});
    let base = status(json!({"conditions": [a, b], "n": 1}));

    for same in [
        json!({"conditions": [later, b], "n": 1}),
        json!({"conditions": [b, a], "n": 1}),
        json!({"conditions": [a, b], "n": 1, "lastChecked": "2026-01-01T00:00:00Z"}),
        json!({"conditions": [a, b], "n": 1, "lastHeartbeatTime": 1_700_000_000}),
        json!({"conditions": [a, b], "n": 1, "anything": "2026-01-01T00:00:00.123Z"}),
    ] {
        let other = status(same.clone());
        assert_eq!(other.settled, base.settled, "{same}");
        assert_ne!(other.status, base.status, "{same}");
    }

    for other in [
        json!({"conditions": [a], "n": 1}),
        json!({"conditions": [a, b], "n": 2}),
        json!({"conditions": [a, b], "n": "1"}),
        json!({"conditions": [a, b], "n": [1]}),
        json!({"conditions": [a, b], "n": {"n": 1}}),
        json!({"conditions": [a, b], "n": 1, "m": null}),
        json!({"conditions": [a, b], "m": 1}),
    ] {
        assert_ne!(status(other.clone()).settled, base.settled, "{other}");
    }
}

#[test]
fn the_cause_of_a_failed_call_is_read_behind_the_cut_of_the_message() {
    let failed = |padding: usize| {
        let padding = "x".repeat(padding);
        format!(
            r#"{padding} failed calling webhook "v.example.io": Post "https://hook.ops.svc:443/v": no endpoints available"#
        )
    };
    let denied = r#"admission webhook "v.example.io" denied the request: no"#;
    let view = of(
        &json!({}),
        &json!({"conditions": [
            {"type": "Ready", "status": "False", "message": failed(400)},
            {"type": "Synced", "status": "False", "message": denied},
            {"type": "Valid", "status": "False", "message": 7},
        ]}),
    );

    let call = view.conditions[0].failed_call.as_deref().expect("a failed call");
    assert_eq!(call.consulted, Consulted::Admission("v.example.io".to_owned()));
    assert_eq!((call.service.as_str(), call.cause), ("ops/hook", CallFailure::NoEndpoints));
    assert_eq!(view.conditions[1].failed_call, None);
    assert_eq!(view.conditions[2].failed_call, None);
}
