//! Views of objects of all shapes.

use loopwatch_model::observation::{ConditionStatus, FactValue, ManagerOperation, StatusShape};
use loopwatch_model::time::{Span, Timestamp};
use serde_json::{Value, json};

use super::limits::MAX_MARK;
use super::*;

mod hostile;
mod references;
mod status;

const KEY: HashKey = HashKey([7; 16]);

fn view(json: &Value) -> ObjectView {
    let text = json.to_string();
    object(text.as_bytes(), &KEY).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn of(spec: &Value, status: &Value) -> ObjectView {
    view(&json!({"metadata": {"name": "n"}, "spec": spec, "status": status}))
}

#[test]
fn the_view_keeps_only_fields_that_the_model_needs() {
    let view = view(&json!({
        "apiVersion": "example.org/v1", "kind": "Shop",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "17", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds": 30, "finalizers": ["a.io/f", "b.io/f"],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"a\":1}"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "ou", "controller": true, "blockOwnerDeletion": true},
            ],
            "managedFields": [
                {"manager": "kubectl", "operation": "Apply", "time": "2026-01-01T00:00:01Z",
                 "fieldsV1": {"f:spec": {"f:replicas": {}}, "f:metadata": {"f:finalizers": {".": {}}}}},
                {"manager": "manager", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:02Z",
                 "fieldsV1": {"f:status": {}, "f:metadata": {"f:finalizers": {"v:\"a.io/f\"": {}}}}},
            ],
        },
        "spec": {"replicas": 3, "password": "hunter2", "deep": {"list": [1, 2]}},
        "status": {
            "observedGeneration": 2, "phase": "Ready", "readyReplicas": 3, "url": "https://example.org",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "AllGood", "message": "fine", "severity": "Info",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:03Z",
            }],
        },
    }));

    assert_eq!((view.key.namespace.as_str(), view.key.name.as_str()), ("ns", "n"));
    assert_eq!((view.uid.as_str(), view.version.as_str(), view.generation), ("u", "17", 2));
    assert_eq!(view.created, Timestamp::parse("2026-01-01T00:00:00Z"));
    assert_eq!(view.deleted, Timestamp::parse("2026-01-02T00:00:00Z"));
    assert_eq!(view.grace, Some(Span::secs(30)));
    assert_eq!(view.finalizers, ["a.io/f", "b.io/f"]);
    assert!(
        view.owners[0].controller && view.owners[0].blocks_deletion && view.owners[0].uid == "ou"
    );

    let [applier, operator] = &view.managers[..] else { panic!("two managers") };
    assert_eq!(applier.operation, ManagerOperation::Apply);
    assert!(applier.owns.spec && !applier.owns.status && !applier.owns.finalizers, "{applier:?}");
    assert!(
        !operator.owns.spec && operator.owns.status && operator.owns.finalizers,
        "{operator:?}"
    );
    assert_eq!(
        (operator.finalizers[0].as_str(), operator.subresource.as_str()),
        ("a.io/f", "status")
    );

    assert_eq!((view.status, view.observed_generation), (StatusShape::Filled, Some(2)));

    let condition = &view.conditions[0];
    assert_eq!((condition.r#type.as_str(), condition.status), ("Ready", ConditionStatus::True));
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("AllGood", "fine"));
    assert_eq!((condition.observed_generation, condition.changed.is_some()), (Some(2), true));
    assert_eq!(view.fact("status.phase"), Some(&FactValue::Text("Ready".to_owned())));
    assert_eq!(view.fact("spec.replicas"), Some(&FactValue::Number(3)));
    assert_eq!(view.fact("status.readyReplicas"), Some(&FactValue::Number(3)));
    assert!(view.lints.is_empty() && view.paused.is_none() && view.bytes > 1000);

    let kept = serde_json::to_string(&view).expect("a view is JSON");
    for secret in ["hunter2", "example.org/", "last-applied", "https"] {
        assert!(!kept.contains(secret), "{secret} in {kept}");
    }
}

#[test]
fn annotations_and_labels_are_kept_by_name() {
    let metadata = json!({
        "name": "n", "namespace": "ns",
        "annotations": {
            "loopwatch.dev/ignore": "Overdue", "example.org/owner-name": "o".repeat(300), "example.org/paused": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{\"password\":\"hunter2\"}",
        },
        "labels": {"app.kubernetes.io/instance": "shop", "team": "payments", "pod-template-hash": "66b6c48dd5"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "ou", "controller": true}],
    });

    let object = view(&json!({"metadata": metadata, "spec": {}, "status": {}}));
    let keys = |marks: &std::collections::BTreeMap<String, String>| {
        marks.keys().cloned().collect::<Vec<_>>().join(" ")
    };

    assert_eq!(keys(&object.annotations), "example.org/owner-name loopwatch.dev/ignore");
    assert_eq!(object.annotations["example.org/owner-name"].len(), MAX_MARK);
    assert_eq!(keys(&object.labels), "app.kubernetes.io/instance pod-template-hash");
    assert!(object.paused.is_some(), "a switch is found beside them");

    let partial = view(
        &json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}),
    );

    assert_eq!((&partial.annotations, &partial.labels), (&object.annotations, &object.labels));
    assert_eq!((&partial.owners, partial.name_hash), (&object.owners, object.name_hash));
    assert_eq!(
        (partial.owners[0].api_version.as_str(), partial.owners[0].controller),
        ("apps/v1", true)
    );
}

#[test]
fn of_configuration_the_metadata_has_a_fingerprint_and_entries_of_data_alone_are_marked() {
    let hash_of = |object: &Value, extra| {
        let decoded = super::object(
            object.to_string().as_bytes(),
            DecodeOptions { key: &KEY, annotations: &[], extra },
        );

        decoded.expect("an object").marks_hash
    };

    let metadata = json!({"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "1", "b": "2"},
        "annotations": {"c": "3"}, "finalizers": ["x/y"], "ownerReferences": [{"kind": "Shop", "name": "o", "uid": "1"}]});
    let with = |key: &str, value: Value| {
        let mut metadata = metadata.clone();
        metadata[key] = value;
        json!({"metadata": metadata})
    };
    let hash = hash_of(&with("name", json!("n")), Extra::Marks);

    assert_ne!(hash, 0);
    assert_eq!(hash_of(&with("name", json!("n")), Extra::None), 0);

    let last_applied = json!({"c": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    for (key, same) in [
        ("resourceVersion", json!("2")),
        ("labels", json!({"b": "2", "a": "1"})),
        ("annotations", last_applied),
        ("managedFields", json!([{"manager": "m"}])),
    ] {
        assert_eq!(hash_of(&with(key, same), Extra::Marks), hash, "{key}");
    }

    for (key, other) in [
        ("labels", json!({"a": "1", "b": "3"})),
        ("labels", json!({"a": "1", "b": "2", "c": "3"})),
        ("annotations", json!({"c": "4"})),
        ("annotations", json!({"example.org/owner-name": "4", "c": "3"})),
        ("finalizers", json!([])),
        ("ownerReferences", json!([{"kind": "Shop", "name": "p", "uid": "2"}])),
    ] {
        assert_ne!(hash_of(&with(key, other), Extra::Marks), hash, "{key}");
    }

    for (tree, spec, only_data) in [
        (json!({"f:data": {".": {}, "f:a": {}}}), true, true),
        (json!({"f:data": {}, "f:binaryData": {}}), true, true),
        (json!({"f:data": {}, "f:metadata": {"f:labels": {}}}), true, false),
        (json!({"f:metadata": {"f:labels": {"f:data": {}}}}), false, false),
        (json!({"f:data": {}, "f:type": {}}), true, false),
        (json!({"f:data": {}, "f:status": {}}), true, false),
        (json!({"f:immutable": {}}), false, false),
    ] {
        let view = view(
            &json!({"metadata": {"name": "n", "managedFields": [{"manager": "m", "fieldsV1": tree}]}}),
        );

        assert_eq!(
            (view.managers[0].owns.spec, view.managers[0].owns.only_data),
            (spec, only_data),
            "{tree}"
        );
    }
}

#[test]
fn annotations_that_the_options_name_are_kept() {
    let annotations =
        json!({"example.io/trash": "yes", "example.io/other": "x", "soft-delete/enable": "true"});
    let labels = json!({"example.io/trash": "label"});
    let object = json!({"metadata": {"name": "n", "annotations": annotations, "labels": labels}});
    let kept = |annotations: &[String]| {
        let decoded = super::object(
            object.to_string().as_bytes(),
            DecodeOptions { key: &KEY, annotations, extra: Extra::None },
        );
        let view = decoded.expect("an object");

        (view.annotations.into_keys().collect::<Vec<_>>(), view.labels.len())
    };

    assert_eq!(kept(&[]), (vec!["soft-delete/enable".to_owned()], 0));

    let named = ["example.io/trash".to_owned()];
    assert_eq!(
        kept(&named),
        (vec!["example.io/trash".to_owned(), "soft-delete/enable".to_owned()], 0)
    );
}

#[test]
fn switches_are_found_and_the_most_specific_one_is_kept() {
    for (object, by) in [
        (json!({"metadata": {"name": "n"}, "spec": {"suspend": true}}), Some("spec.suspend")),
        (json!({"metadata": {"name": "n"}, "spec": {"suspend": false}}), None),
        (
            json!({"metadata": {"name": "n"}, "spec": {"clusterOperation": {"stopped": true}}}),
            Some("spec.clusterOperation.stopped"),
        ),
        (
            json!({"metadata": {"name": "n"}, "spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}}),
            Some("spec.updateStrategy.rollingUpdate.paused"),
        ),
        (json!({"metadata": {"name": "n"}, "spec": {"backup": {"suspend": true}}}), None),
        (json!({"metadata": {"name": "n"}, "spec": {"template": {"paused": true}}}), None),
        (
            json!({"metadata": {"name": "n"}, "spec": {"managementPolicies": []}}),
            Some("spec.managementPolicies"),
        ),
        (json!({"metadata": {"name": "n"}, "spec": {"managementPolicies": ["*"]}}), None),
        (
            json!({"metadata": {"name": "n", "annotations": {"b.io/paused": "true", "a.io/paused": "true"}}}),
            Some("annotation a.io/paused"),
        ),
        (
            json!({"metadata": {"name": "n", "labels": {"do_not_reconcile": "true"}}}),
            Some("label do_not_reconcile"),
        ),
        (
            json!({"metadata": {"name": "n", "annotations": {"b.io/paused": "true"}}, "spec": {"paused": true}}),
            Some("spec.paused"),
        ),
    ] {
        assert_eq!(view(&object).paused.map(|pause| pause.by).as_deref(), by, "{object}");
    }
}

#[test]
fn hashes_depend_on_content_and_secret_but_not_on_the_order_of_keys() {
    let read = |text: &str, key: u8| {
        object(text.as_bytes(), &HashKey([key; 16])).expect("an object").hashes
    };
    let one = r#"{"metadata":{"name":"n"},"spec":{"a":1,"b":[1,2]},"status":{"x":1,"y":2}}"#;
    let other = r#"{"status":{"y":2,"x":1},"spec":{"b":[1,2],"a":1},"metadata":{"name":"other","generation":9}}"#;

    assert_eq!(read(one, 1), read(other, 1));
    assert_ne!(read(one, 1).spec, read(one, 2).spec);
    assert_ne!(read(one, 1).spec, read(&one.replace("[1,2]", "[2,1]"), 1).spec);

    // Data outside the spec counts as spec: a ConfigMap has nothing else.
    let map = |value| {
        of(&json!({}), &json!({})).hashes.spec
            ^ view(&json!({"metadata": {"name": "n"}, "data": {"k": value}})).hashes.spec
    };

    assert_ne!(map("a"), map("b"));

    // The value must not change between versions of this program: recordings and checkpoints
    // contain it.
    assert_eq!(format!("{:016x}", read(one, 1).spec), "1261ff2a8f860364");
}

/// kopf 1.38, with its default storage: the same record in an annotation and in the status.
#[test]
fn attempts_of_a_handler_are_read_wherever_kopf_notes_them() {
    let note = |retries: u32, more: &str| {
        format!(
            r#"{{"started":"2026-01-01T00:00:00.5+00:00","delayed":"2026-01-01T00:00:09+00:00","purpose":"update","retries":{retries},"success":false,"failure":false{more}}}"#
        )
    };
    let view = view(&json!({
        "metadata": {"name": "n", "annotations": {
            "kopf.zalando.org/reconcile.spec": note(4, r#","message":"the backend refuses""#),
            "shop.example.org/publish": note(2, ""),
            "kopf.zalando.org/begun": note(0, ""),
            "kopf.zalando.org/done": note(3, "").replace("\"success\":false", "\"success\":true"),
            "kopf.zalando.org/last-handled-configuration": note(9, ""),
            "kopf.zalando.org/broken": note(9, "]"),
            "example.org/other": "{\"retries\":7}",
        }},
        "status": {"kopf": {"progress": {
            "reconcile/spec": {"started": "2026-01-01T00:00:00", "retries": 4, "message": "the backend refuses"},
            "audit/sub": {"started": "2026-01-01T00:00:00", "retries": 5, "success": null, "message": null},
            "odd": 7,
        }}},
    }));

    let mut attempts: Vec<_> = view
        .attempts
        .iter()
        .map(|record| (record.handler.as_str(), record.failed, record.error.as_str()))
        .collect();
    attempts.sort_unstable();
    assert_eq!(
        attempts,
        [("audit.sub", 5, ""), ("publish", 2, ""), ("reconcile.spec", 4, "the backend refuses")]
    );
    assert_eq!(view.status, StatusShape::Empty, "the notes are no status");
    assert!(view.annotations.is_empty() && view.facts.is_empty() && view.lints.is_empty());
}
