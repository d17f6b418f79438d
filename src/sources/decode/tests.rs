//! Views of objects of all shapes.

use loopwatch_model::observation::{ConditionStatus, FactValue, ManagerOperation, StatusShape};
use loopwatch_model::time::{Span, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const KEY: HashKey = HashKey([7; 16]);

fn view(json: &Value) -> ObjectView {
    let text = json.to_string();
    object(text.as_bytes(), &KEY).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn of(spec: &Value, status: &Value) -> ObjectView {
    view(&json!({"metadata": {"name": "n"}, "spec": spec, "status": status}))
}

/// The conditions, each as `at/Type=status`.
fn conditions(status: &Value) -> Vec<String> {
    let show = |c: &loopwatch_model::observation::Condition| format!("{}/{}={}", c.at, c.r#type, c.status.as_str());
    of(&json!({}), status).conditions.iter().map(show).collect()
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
    assert!(view.owners[0].controller && view.owners[0].blocks_deletion && view.owners[0].uid == "ou");
    let [applier, operator] = &view.managers[..] else { panic!("two managers") };
    assert_eq!(applier.operation, ManagerOperation::Apply);
    assert!(applier.owns.spec && !applier.owns.status && !applier.owns.finalizers, "{applier:?}");
    assert!(!operator.owns.spec && operator.owns.status && operator.owns.finalizers, "{operator:?}");
    assert_eq!((operator.finalizers[0].as_str(), operator.subresource.as_str()), ("a.io/f", "status"));
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
    let keys = |marks: &std::collections::BTreeMap<String, String>| marks.keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&object.annotations), "example.org/owner-name loopwatch.dev/ignore");
    assert_eq!(object.annotations["example.org/owner-name"].len(), MAX_MARK);
    assert_eq!(keys(&object.labels), "app.kubernetes.io/instance pod-template-hash");
    assert!(object.paused.is_some(), "a switch is found beside them");

    let partial = view(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}));
    assert_eq!((&partial.annotations, &partial.labels), (&object.annotations, &object.labels));
    assert_eq!((&partial.owners, partial.name_hash), (&object.owners, object.name_hash));
    assert_eq!((partial.owners[0].api_version.as_str(), partial.owners[0].controller), ("apps/v1", true));
}

#[test]
fn of_configuration_the_metadata_has_a_fingerprint_and_entries_of_data_alone_are_marked() {
    let hash_of = |object: &Value, extra| {
        let decoded =
            super::object(object.to_string().as_bytes(), DecodeOptions { key: &KEY, annotations: &[], extra });
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
        let view = view(&json!({"metadata": {"name": "n", "managedFields": [{"manager": "m", "fieldsV1": tree}]}}));
        assert_eq!((view.managers[0].owns.spec, view.managers[0].owns.only_data), (spec, only_data), "{tree}");
    }
}

#[test]
fn annotations_that_the_options_name_are_kept() {
    let annotations = json!({"example.io/trash": "yes", "example.io/other": "x", "soft-delete/enable": "true"});
    let labels = json!({"example.io/trash": "label"});
    let object = json!({"metadata": {"name": "n", "annotations": annotations, "labels": labels}});
    let kept = |annotations: &[String]| {
        let decoded =
            super::object(object.to_string().as_bytes(), DecodeOptions { key: &KEY, annotations, extra: Extra::None });
        let view = decoded.expect("an object");
        (view.annotations.into_keys().collect::<Vec<_>>(), view.labels.len())
    };
    assert_eq!(kept(&[]), (vec!["soft-delete/enable".to_owned()], 0));
    let named = ["example.io/trash".to_owned()];
    assert_eq!(kept(&named), (vec!["example.io/trash".to_owned(), "soft-delete/enable".to_owned()], 0));
}

#[test]
fn references_are_found_in_the_spec() {
    let object = of(
        &json!({
            "issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer", "group": "cert-manager.io"},
            "secretName": "tls",
            "password": "hunter2",
            "tls": [{"secretName": "a"}, {"secretName": "b"}, {"secretName": "a"}],
            "resourceRefs": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "controlPlaneRef": {"kind": "ControlPlane", "name": "cp"},
            "lifecycle": {"hookRef": {"name": "hook"}},
            "template": {"spec": {
                "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "db", "key": "p", "optional": true}}}]}],
                "volumes": [{"configMap": {"name": "settings"}}, {"persistentVolumeClaim": {"claimName": "data"}}],
            }},
            "ref": {"name": "refs/heads/main"},
            "imageRef": {"name": "Not/A/Name"},
            "fieldRef": {"fieldPath": "metadata.name"},
            "storageClassName": "fast",
        }),
        &json!({}),
    );
    let show = |r: &loopwatch_model::observation::Reference| {
        let optional = if r.optional { "?" } else { "" };
        format!("{}={}/{}/{}{optional}", r.slot, r.group, r.kind, r.namespace)
    };
    let mut shown: Vec<_> = object.references.iter().map(show).collect();
    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            "spec.controlPlaneRef=/ControlPlane/",
            "spec.issuerRef=cert-manager.io/ClusterIssuer/",
            "spec.lifecycle.hookRef=//",
            "spec.resourceRefs[]=apps/Deployment/shop",
            "spec.secretName=/Secret/",
            "spec.storageClassName=/StorageClass/",
            "spec.template.spec.containers[].env[].valueFrom.secretKeyRef=/Secret/?",
            "spec.template.spec.volumes[].configMap=/ConfigMap/",
            "spec.template.spec.volumes[].persistentVolumeClaim.claimName=/PersistentVolumeClaim/",
            "spec.tls[].secretName=/Secret/",
            "spec.tls[].secretName=/Secret/",
        ]
    );
    let target = view(&json!({"metadata": {"name": "letsencrypt"}}));
    let reference = |slot: &str| object.references.iter().find(|r| r.slot == slot).expect(slot);
    assert_eq!(reference("spec.issuerRef").name_hash, target.name_hash);
    assert_eq!(reference("spec.issuerRef").name, "letsencrypt");
    let kept = serde_json::to_string(&object).expect("a view is JSON");
    assert!(!kept.contains("hunter2"), "{kept}");
    assert_eq!(serde_json::from_str::<ObjectView>(&kept).expect("the recorded form").references, object.references);

    let many: Vec<_> = (0..40).map(|i| json!({"secretName": format!("s{i}")})).collect();
    let object = of(&json!({"tls": many}), &json!({}));
    assert_eq!((object.references.len(), object.lints.join(" ")), (32, "many_references".to_owned()));
}

#[test]
fn a_reference_keeps_a_name_only_where_its_form_shows_that_it_is_one() {
    let object = of(
        &json!({
            "named": {"secretName": "a", "claimName": "b", "storageClassName": "c", "serviceAccountName": "d"},
            "maps": {"issuerRef": {"name": "e"}, "secretRefs": [{"name": "f"}], "imagePullSecrets": [{"name": "g"}]},
            "volumes": [{"configMap": {"name": "h", "items": [], "defaultMode": 420}}],
            "env": [{"valueFrom": {"configMapKeyRef": {"name": "i", "key": "k"}}}],
            // Texts that may be secrets, or objects that the operator creates.
            "texts": {"secretRef": "hunter2", "secrets": ["hunter3"], "passwordSecret": "hunter4"},
            "inline": {"secret": {"name": "created", "data": {"k": "v"}}, "serviceAccount": {"create": true, "name": "own"}},
        }),
        &json!({}),
    );
    let mut named: Vec<&str> = object.references.iter().map(|r| r.name.as_str()).filter(|n| !n.is_empty()).collect();
    named.sort_unstable();
    assert_eq!(named, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let unnamed = object.references.iter().filter(|r| r.name.is_empty());
    let mut unnamed: Vec<&str> = unnamed.map(|r| r.slot.as_str()).collect();
    unnamed.sort_unstable();
    assert_eq!(
        unnamed,
        ["spec.inline.secret", "spec.inline.serviceAccount", "spec.texts.secretRef", "spec.texts.secrets[]"]
    );
    let kept = serde_json::to_string(&object).expect("a view is JSON");
    assert!(!kept.contains("hunter"), "{kept}");
}

#[test]
fn the_search_for_references_leaves_the_fingerprint_of_the_spec() {
    let deep = json!({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": {"k": {"l": {"m": {"n": {"o": {"p": 1}}}}}}}}}}}}}}}});
    let reference = json!({"name": "x", "kind": ["K"], "namespace": {"a": 1}, "deep": deep});
    let spec = json!({"x": {"issuerRef": reference, "plain": deep}, "zRef": [reference, "text", 1, null]});
    // Another top-level field is not searched.
    let (searched, other) = (of(&spec, &json!({})), view(&json!({"metadata": {"name": "n"}, "data": spec})));
    assert_eq!((searched.references.len(), other.references.len()), (2, 0));
    let opaque = |key: &str| {
        let (hasher, mut sum, text) = (Hasher::new(&KEY), FingerprintSum::default(), spec.to_string());
        let value = Opaque::spec(&hasher, 1).deserialize(&mut serde_json::Deserializer::from_str(&text));
        sum.entry(&hasher, hasher.text(key), value.expect("JSON"));
        sum.map(&hasher).full
    };
    assert_eq!((searched.hashes.spec, other.hashes.spec), (opaque("spec"), opaque("data")));
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
        assert_eq!(view(&json!({"metadata": {"name": "n"}, "status": status})).status, shape, "{status}");
    }
}

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
        (json!({"metadata": {"name": "n"}, "status": {"observedGeneration": {}}}), "observed_generation"),
        (json!({"metadata": {"name": "n"}, "status": {"observedGeneration": "abc"}}), "observed_generation"),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": "none"}}), "conditions"),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": [1, [2]]}}), "condition"),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": [{"status": "True"}]}}), "condition_type"),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "status": "Maybe"}]}}),
            "condition_status",
        ),
        (
            json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "lastTransitionTime": "x"}]}}),
            "condition_time",
        ),
        (json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "R", "reason": 1}]}}), "condition"),
        // Elsewhere, only entries that look like conditions are judged.
        (json!({"metadata": {"name": "n"}, "status": {"pauseConditions": [{"reason": "a", "startTime": "x"}]}}), ""),
        (json!({"metadata": {"name": "n"}, "status": {"part": {"conditions": ["a", [1]]}, "oldConditions": 1}}), ""),
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
        (json!({"a": {"conditions": ready}, "conditions": ready}), vec!["/Ready=true", "a/Ready=true"]),
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
        (json!({"metadata": {"name": "n"}, "spec": {"managementPolicies": []}}), Some("spec.managementPolicies")),
        (json!({"metadata": {"name": "n"}, "spec": {"managementPolicies": ["*"]}}), None),
        (
            json!({"metadata": {"name": "n", "annotations": {"b.io/paused": "true", "a.io/paused": "true"}}}),
            Some("annotation a.io/paused"),
        ),
        (json!({"metadata": {"name": "n", "labels": {"do_not_reconcile": "true"}}}), Some("label do_not_reconcile")),
        (
            json!({"metadata": {"name": "n", "annotations": {"b.io/paused": "true"}}, "spec": {"paused": true}}),
            Some("spec.paused"),
        ),
    ] {
        assert_eq!(view(&object).paused.map(|pause| pause.by).as_deref(), by, "{object}");
    }
}

#[test]
fn timestamps_and_heartbeats_do_not_change_the_settled_hash() {
    let status = |status: Value| of(&json!({}), &status).hashes;
    let a = json!({"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let later = json!({"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"});
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
fn hashes_depend_on_content_and_secret_but_not_on_the_order_of_keys() {
    let read = |text: &str, key: u8| object(text.as_bytes(), &HashKey([key; 16])).expect("an object").hashes;
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
    // The value must not change between versions of this program: recordings and checkpoints contain it.
    assert_eq!(format!("{:016x}", read(one, 1).spec), "1261ff2a8f860364");
}

#[test]
fn every_list_of_a_view_has_a_limit() {
    let many =
        |count: usize| (0..count).map(|i| json!({"type": format!("T{i}"), "status": "True"})).collect::<Vec<_>>();
    let facts: serde_json::Map<_, _> = (0..500).map(|i| (format!("a{i}Phase"), json!("x".repeat(5000)))).collect();
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
    assert_eq!(view.lints, ["many_conditions", "many_facts", "many_finalizers", "many_managers", "many_owners"]);
    assert!(view.conditions.iter().any(|condition| condition.at.is_empty()), "the object's own must have room");
    assert!(view.facts.iter().all(|fact| matches!(&fact.value, FactValue::Text(text) if text.len() <= 128)));
}

#[test]
fn hostile_texts_do_not_crash_the_decoder() {
    let deep = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for n in [10, 100, 10_000, 200_000] {
        for inner in [deep("[", "]", n), deep("{\"a\":", "}", n), deep("{\"conditions\":[", "]}", n)] {
            for field in ["status", "spec", "data"] {
                let text = format!(r#"{{"metadata":{{"name":"n"}},"{field}":{{"x":{inner}}}}}"#);
                let _ = object(text.as_bytes(), &KEY);
            }
        }
    }
    for text in
        ["", "{", "nul", "[1,]", "{\"metadata\":{\"name\":\"n\"}} x", "{\"metadata\":{\"name\":\"\u{0}", "\u{feff}{}"]
    {
        assert!(matches!(object(text.as_bytes(), &KEY), Err(DecodeError::Json(_))), "{text}");
    }
    assert!(matches!(object(b"{\"metadata\":{\"name\":\"\xff\"}}", &KEY), Err(DecodeError::Json(_))));
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
        prop::sample::select(vec!["True", "Ready", "2026-01-01T00:00:00Z", "0", "1/3"]).prop_map(Value::from),
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
            prop::collection::vec((key, inner), 0..6).prop_map(|entries| entries.into_iter().collect::<Value>()),
        ]
    })
}
