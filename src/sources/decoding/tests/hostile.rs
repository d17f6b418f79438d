//! Values of wrong types, and input of any size and form.

use loopwatch_model::observation::FactValue;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn values_of_wrong_types_count_as_absent_and_add_lints() {
    for (object, lints) in [
        (json!({"metadata": {"name": "n", "uid": 5}}), "uid"),
        (json!({"metadata": {"name": "n", "namespace": ["a"]}}), "name"),
        (json!({"metadata": {"name": "n", "resourceVersion": 17}}), "version"),
        (json!({"metadata": {"name": "n", "generation": "many"}}), "generation"),
        (json!({"metadata": {"name": "n", "creationTimestamp": "yesterday"}}), "created"),
        (json!({"metadata": {"name": "n", "creationTimestamp": null}}), ""),
        (json!({"metadata": {"name": "n", "deletionTimestamp": {}}}), "deleted"),
        (json!({"metadata": {"name": "n", "deletionGracePeriodSeconds": []}}), "grace"),
        (json!({"metadata": {"name": "n", "finalizers": "a"}}), "finalizers"),
        (json!({"metadata": {"name": "n", "finalizers": ["a", 1, null]}}), "finalizers"),
        (json!({"metadata": {"name": "n", "ownerReferences": [1]}}), "owners"),
        (json!({"metadata": {"name": "n", "managedFields": {"a": 1}}}), "managers"),
        (json!({"metadata": {"name": "n", "annotations": 1, "labels": []}}), "annotations labels"),
        (json!({"metadata": {"name": "n", "annotations": {"a/paused": {}}}}), "annotations"),
        (json!({"metadata": {"name": "n"}, "status": "Ready"}), "status"),
        (json!({"metadata": {"name": "n"}, "status": [1]}), "status"),
        (json!({"metadata": {"name": "n"}, "status": null}), ""),
        (
            json!({"metadata": {"name": "n"}, "status": {"observedGeneration": {}}}),
            "observed_generation",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"observedGeneration": "abc"}}),
            "observed_generation",
        ),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": "none"}}), "conditions"),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": [1, [2]]}}), "condition"),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"status": "True"}]}}),
            "condition_type",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "status": "Maybe"}]}}),
            "condition_status",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "lastTransitionTime": "x"}]}}),
            "condition_time",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "reason": 1}]}}),
            "condition",
        ),
        // Elsewhere, only entries that look like conditions are judged.
        (
            json!({"metadata": {"name": "n"}, "status": {"pauseConditions": [{"reason": "a", "startTime": "x"}]}}),
            "",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"part": {"conditions": ["a", [1]]}, "oldConditions": 1}}),
            "",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"part": {"conditions": [{"type": "R", "status": "Maybe"}]}}}),
            "condition_status",
        ),
        (json!({"metadata": {"name": "n".repeat(300)}}), "long_name"),
    ] {
        assert_eq!(view(&object).lints.join(" "), lints, "{object}");
    }
}

#[test]
fn every_list_of_a_view_has_a_limit() {
    let many = |count: usize| {
        (0..count).map(|i| json!({"type": format!("T{i}"), "status": "True"})).collect::<Vec<_>>()
    };
    let facts: serde_json::Map<_, _> =
        (0..500).map(|i| (format!("a{i}Phase"), json!("x".repeat(5000)))).collect();
    let names = (0..500).map(|i| format!("f{i}")).collect::<Vec<_>>();
    let mut status = facts;

    status.insert("conditions".to_owned(), json!(many(500)));
    status.insert("child".to_owned(), json!({"conditions": many(500)}));

    let owners = names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let managers = names.iter().map(|name| json!({"manager": name})).collect::<Vec<_>>();
    let metadata = json!({"name": "n", "finalizers": names, "ownerReferences": owners, "managedFields": managers});
    let view = view(&json!({"metadata": metadata, "status": status}));

    assert_eq!((view.conditions.len(), view.facts.len(), view.finalizers.len()), (64, 64, 64));
    assert_eq!((view.owners.len(), view.managers.len()), (64, 64));
    assert_eq!(
        view.lints,
        ["many_conditions", "many_facts", "many_finalizers", "many_managers", "many_owners"]
    );
    assert!(
        view.conditions.iter().any(|condition| condition.at.is_empty()),
        "the object's own must have room"
    );
    assert!(
        view.facts
            .iter()
            .all(|fact| matches!(&fact.value, FactValue::Text(text) if text.len() <= 128))
    );
}

#[test]
fn hostile_texts_do_not_crash_the_decoder() {
    let deep =
        |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for n in [10, 100, 10_000, 200_000] {
        for inner in
            [deep("[", "]", n), deep("{\"a\":", "}", n), deep("{\"conditions\":[", "]}", n)]
        {
            for field in ["status", "spec", "data"] {
                let text = format!(r#"{{"metadata":{{"name":"n"}},"{field}":{{"x":{inner}}}}}"#);
                let _ = object(text.as_bytes(), &KEY);
            }
        }
    }

    for text in [
        "",
        "{",
        "nul",
        "[1,]",
        "{\"metadata\":{\"name\":\"n\"}} x",
        "{\"metadata\":{\"name\":\"\u{0}",
        "\u{feff}{}",
    ] {
        assert!(matches!(object(text.as_bytes(), &KEY), Err(DecodeError::Json(_))), "{text}");
    }

    assert!(matches!(
        object(b"{\"metadata\":{\"name\":\"\xff\"}}", &KEY),
        Err(DecodeError::Json(_))
    ));

    for text in [
        "{}",
        "[]",
        "null",
        "3",
        "{\"metadata\":null}",
        "{\"metadata\":{\"name\":5}}",
        "{\"metadata\":{\"name\":\"\"}}",
    ] {
        assert!(matches!(object(text.as_bytes(), &KEY), Err(DecodeError::Nameless)), "{text}");
    }
}

proptest! {
    #[test]
    fn any_json_decodes(metadata in any_json(), spec in any_json(), status in any_json(), other in any_json()) {
        let text = json!({"metadata": metadata, "spec": spec, "status": status, "other": other}).to_string();
        let decoded = || object_with_type(text.as_bytes(), &KEY).expect("it is JSON");
        let (type_meta, first) = decoded();
        prop_assert_eq!((&type_meta, &first), (&decoded().0, &decoded().1));
        prop_assert!(first.lints.is_sorted());
        // `object` decodes the same, but requires a name.
        match object(text.as_bytes(), &KEY) {
            Ok(named) => prop_assert_eq!(&named, &first),
            Err(error) => prop_assert!(matches!(error, DecodeError::Nameless)),
        }
        prop_assert_eq!(object(text.as_bytes(), &KEY).is_ok(), !first.key.name.is_empty());
        // A view survives a round trip through a recording.
        let written = serde_json::to_string(&first).expect("a view is JSON");
        prop_assert_eq!(serde_json::from_str::<ObjectView>(&written).expect("it was written so"), first);
    }

    #[test]
    fn arbitrary_bytes_do_not_crash_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = object(&bytes, &KEY);
        let _ = object_with_type(&bytes, &KEY);
    }
}

/// Any JSON, in which the keys that the decoder knows are frequent.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["True", "Ready", "2026-01-01T00:00:00Z", "0", "1/3"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let key = prop_oneof![
            prop::sample::select(vec![
                "metadata",
                "spec",
                "status",
                "conditions",
                "type",
                "status",
                "name",
                "finalizers",
                "managedFields",
                "fieldsV1",
                "f:metadata",
                "f:finalizers",
                "v:\"x\"",
                "annotations",
                "a/paused",
                "suspend",
                "observedGeneration",
                "phase",
                "updateStrategy",
                "replicas",
                "generation",
                "ownerReferences",
                "parents",
                "lastTransitionTime",
            ])
            .prop_map(str::to_owned),
            ".{0,8}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|entries| entries.into_iter().collect::<Value>()),
        ]
    })
}
