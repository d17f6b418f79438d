//! Faults of references: owners in annotations that are gone, references that lead nowhere or to
//! data that a workload has not read, and soft deletes that nobody completes.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::case::TWIN;
use crate::ownership::logical_owner;
use crate::proof::{self, Fixture, Proof, SOON, TARGET, is_terminating, stays};
use loopwatch_model::time::Timestamp;
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    proof::trials("references", DETECTED)
}

/// Faults that loopwatch reports.
const DETECTED: &[Proof] = &[
    Proof {
        name: "stale-configuration",
        code: "StaleConfiguration",
        subject: ("Deployment", "widget-target"),
        evidence: &["configuration", "changed_at", "pods", "oldest_pod"],
        names: &["ConfigMap", "widget-target-config"],
        threshold: 30, // several reads, one after the other
        near_miss: |fixture| {
            let before = running_pod(fixture, "near", &|_| true);
            pause(TICK);
            fixture.make(&fixture.namespace, "near", json!({"size": 7}));
            running_pod(fixture, "near", &|name| name != before);
        },
        provoke: leave_stale,
        cure: |fixture| {
            let before = running_pod(fixture, TARGET, &|_| true);
            fixture.operator.cure("StaleConfiguration");
            running_pod(fixture, TARGET, &|name| name != before);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "logical-owner-missing",
        code: "LogicalOwnerMissing",
        subject: ("ConfigMap", "shared"),
        evidence: &["owner"],
        names: &["Widget", TARGET],
        threshold: 4,
        near_miss: |fixture| {
            let annotations = logical_owner(&fixture.namespace, TWIN);
            fixture.config_map(&fixture.other, "near", json!({"annotations": annotations}));
        },
        provoke: |fixture| {
            fixture.widget(TARGET);
            let annotations = logical_owner(&fixture.namespace, TARGET);
            fixture.config_map(&fixture.other, "shared", json!({"annotations": annotations}));
            fixture.remove(TARGET);
            stays(3, "the object without its owner", || {
                fixture.kube.find("v1", "ConfigMap", &fixture.other, "shared").is_some()
            });
        },
        cure: |fixture| fixture.kube.delete("v1", "ConfigMap", &fixture.other, "shared"),
        ..Proof::EMPTY
    },
    Proof {
        name: "dangling-reference",
        code: "DanglingReference",
        subject: ("Widget", TARGET),
        evidence: &["reference", "target"],
        names: &["Secret", "absent", "secretRef"],
        also: &[("Overdue", "/target"), ("PhaseStuck", "/target")],
        threshold: 4,
        near_miss: refer_late_and_optionally,
        provoke: |fixture| {
            wait_in_vain(fixture, TARGET, json!({"secretRef": {"name": "absent"}}), "Secret");
            assert!(fixture.find("v1", "Secret", "absent").is_none());
        },
        cure: |fixture| {
            data(fixture, "Secret", &fixture.namespace, "absent");
            wait_ready(fixture, TARGET);
        },
        ..Proof::EMPTY
    },
    // No deadline passes in this test, so each object may wait for long before its target arrives.
    Proof {
        name: "dangling-config-map",
        code: "DanglingReference",
        subject: ("Widget", TARGET),
        evidence: &["reference", "target", "missing_for"],
        names: &["ConfigMap", "dangling-config-map/absent", "spec.configMapRef"],
        settings: &[("dangling_after", "45s"), ("deadline", "10m"), ("phase_stuck_after", "10m")],
        threshold: 90, // the last lookup may come half of the time later
        lingers: 90,
        near_miss: |fixture| {
            let absent = json!({"configMapRef": {"name": "late"}});
            wait_in_vain(fixture, "late", absent, "ConfigMap");
            pause(Duration::from_secs(20));
            data(fixture, "ConfigMap", &fixture.namespace, "late");
            wait_ready(fixture, "late");

            let optional = json!({"configMapRef": {"name": "absent", "optional": true}});
            fixture.make(&fixture.namespace, "optional", optional);
        },
        provoke: |fixture| {
            let absent = json!({"configMapRef": {"name": "absent"}});
            wait_in_vain(fixture, TARGET, absent, "ConfigMap");
        },
        cure: |fixture| {
            data(fixture, "ConfigMap", &fixture.namespace, "absent");
            wait_ready(fixture, TARGET);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "dangling-custom-resource",
        code: "DanglingReference",
        subject: ("Widget", TARGET),
        evidence: &["reference", "target"],
        names: &["Autoscaled", "dangling-custom-resource/absent", "spec.sourceRef"],
        also: &[("Overdue", "/target"), ("PhaseStuck", "/target")],
        threshold: 4,
        near_miss: |fixture| {
            let Fixture { kube, namespace, .. } = &*fixture;
            kube.zoo("Autoscaled", namespace, "present", json!({}));
            fixture.make(namespace, "near", source("present"));

            let mut optional = source("absent");
            optional["sourceRef"]["optional"] = json!(true);
            fixture.make(namespace, "optional", optional);
        },
        provoke: |fixture| wait_in_vain(fixture, TARGET, source("absent"), "Source"),
        cure: |fixture| {
            fixture.kube.zoo("Autoscaled", &fixture.namespace, "absent", json!({}));
            wait_ready(fixture, TARGET);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "dangling-elsewhere",
        code: "DanglingReference",
        subject: ("Widget", TARGET),
        evidence: &["reference", "target"],
        names: &["Secret", "dangling-elsewhere-other/here", "spec.secretRef"],
        also: &[("Overdue", "/target"), ("PhaseStuck", "/target")],
        threshold: 4,
        near_miss: |fixture| {
            // One Secret exists only in the other namespace, the other one only in that of the
            // object.
            data(fixture, "Secret", &fixture.other, "there");
            data(fixture, "Secret", &fixture.namespace, "here");
            fixture.make(&fixture.namespace, "near", elsewhere(fixture, "there"));
            fixture.make(&fixture.namespace, "own", json!({"secretRef": {"name": "here"}}));
        },
        provoke: |fixture| wait_in_vain(fixture, TARGET, elsewhere(fixture, "here"), "Secret"),
        cure: |fixture| {
            data(fixture, "Secret", &fixture.other, "here");
            wait_ready(fixture, TARGET);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "soft-delete-lingering",
        code: "SoftDeleteLingering",
        subject: ("Widget", TARGET),
        evidence: &["phase", "deleted_at"],
        names: &["deleted_at"],
        near_miss: |fixture| soft_delete(fixture, "near", 3600),
        provoke: |fixture| soft_delete(fixture, TARGET, 25 * 3600),
        cure: |fixture| {
            let annotations =
                json!({"soft-delete/enable": null, "soft-delete/phase": null, "deleted_at": null});
            let restored = json!({"metadata": {"annotations": annotations}});
            fixture.kube.patch(ZOO, "Widget", &fixture.namespace, TARGET, &restored);
        },
        ..Proof::EMPTY
    },
];

/// Longer than the resolution of times in objects.
const TICK: Duration = Duration::from_millis(1200);

fn ready_reason(object: &Value) -> &Value {
    proof::condition(object, "Ready").map_or(&Value::Null, |condition| &condition["reason"])
}

/// Creates a Secret or a ConfigMap.
fn data(fixture: &Fixture, kind: &str, namespace: &str, name: &str) {
    fixture.kube.apply(&json!({"apiVersion": "v1", "kind": kind,
        "metadata": {"namespace": namespace, "name": name}}));
}

/// The spec of a Widget that refers to an object of another kind.
fn source(name: &str) -> Value {
    json!({"sourceRef": {"apiGroup": "zoo.loopwatch.dev", "kind": "Autoscaled", "name": name}})
}

/// The spec of a Widget that refers to a Secret in the other namespace.
fn elsewhere(fixture: &Fixture, name: &str) -> Value {
    json!({"secretRef": {"name": name, "namespace": fixture.other}})
}

/// Creates a Widget whose target does not exist, and waits until the operator says so.
fn wait_in_vain(fixture: &Fixture, name: &str, spec: Value, target: &str) {
    fixture.kube.zoo("Widget", &fixture.namespace, name, spec);
    fixture.wait(ZOO, "Widget", name, &format!("waits for the {target}"), |object| {
        *ready_reason(object) == format!("{target}NotFound")
    });
}

fn wait_ready(fixture: &Fixture, name: &str) {
    fixture.wait(ZOO, "Widget", name, "is ready", |object| object["status"]["phase"] == "Ready");
}

/// Refers to a Secret that is created later, within the threshold, and to Secrets without which the
/// object is ready.
fn refer_late_and_optionally(fixture: &mut Fixture) {
    let namespace = &fixture.namespace;
    wait_in_vain(fixture, "late", json!({"secretRef": {"name": "late"}}), "Secret");
    pause(Duration::from_secs(2));
    data(fixture, "Secret", namespace, "late");
    wait_ready(fixture, "late");

    let optional = json!({"secretRef": {"name": "absent", "optional": true},
        "configMapRef": {"name": "absent", "optional": true}});
    fixture.make(namespace, "optional", optional);
}

/// Marks a Widget as softly deleted, some time ago.
fn soft_delete(fixture: &Fixture, name: &str, seconds_ago: i64) {
    let deleted_at =
        Timestamp((jiff::Timestamp::now().as_second() - seconds_ago) * 1000).to_string();
    fixture.widget(name);

    let annotations = json!({"soft-delete/enable": "true", "soft-delete/phase": "stable", "deleted_at": deleted_at});
    let change = json!({"metadata": {"annotations": annotations}});
    let object = fixture.kube.patch(ZOO, "Widget", &fixture.namespace, name, &change);

    assert!(!is_terminating(&object), "{object}");
}

/// Creates a Widget unless it exists, and waits for the only Pod of its Deployment. Returns the
/// name of the Pod.
fn running_pod(fixture: &Fixture, widget: &str, wanted: &dyn Fn(&str) -> bool) -> String {
    if fixture.find(ZOO, "Widget", widget).is_none() {
        fixture.widget(widget);
    }
    eventually(SOON, &format!("one Pod of {widget} runs"), || {
        let mut pods = fixture.kube.try_list("v1", "Pod", &fixture.namespace)?;
        pods.retain(|pod| {
            pod["metadata"]["labels"]["app.kubernetes.io/instance"] == widget
                && !is_terminating(pod)
        });
        match &pods[..] {
            [pod] if pod["status"]["phase"] == "Running" => {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                if wanted(name) { Ok(name.to_owned()) } else { Err(format!("{name} still runs")) }
            }
            _ => Err(json!(pods).to_string()),
        }
    })
}

/// Changes the ConfigMap that a Deployment reads as environment variables. The operator does not
/// roll the Deployment.
fn leave_stale(fixture: &mut Fixture) {
    let before = running_pod(fixture, TARGET, &|_| true);
    fixture.fault("StaleConfiguration", TARGET);
    pause(3 * TICK); // loopwatch takes writes within two seconds of the creation for a part of it
    fixture.make(&fixture.namespace, TARGET, json!({"size": 7}));

    let map = fixture.wait("v1", "ConfigMap", "widget-target-config", "is new", |map| {
        map["data"]["size"] == "7"
    });
    stays(3, "the Pod that started before", || running_pod(fixture, TARGET, &|_| true) == before);

    let pod = fixture.find("v1", "Pod", &before).unwrap_or_default();
    let fields = map["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let written = fields
        .iter()
        .find(|entry| entry["fieldsV1"]["f:data"].is_object())
        .expect("somebody wrote the data");
    let [written, started] = [&written["time"], &pod["status"]["startTime"]]
        .map(|time| time.as_str().unwrap_or_default());

    assert!(started < written, "started {started}, written {written}");
}
