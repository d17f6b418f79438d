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
            fixture.kube.zoo(
                "Widget",
                &fixture.namespace,
                TARGET,
                json!({"secretRef": {"name": "absent"}}),
            );
            fixture.wait(ZOO, "Widget", TARGET, "waits for the Secret", |object| {
                ready_reason(object) == "SecretNotFound"
            });

            assert!(fixture.find("v1", "Secret", "absent").is_none());
        },
        cure: |fixture| {
            secret(fixture, "absent");
            fixture.wait(ZOO, "Widget", TARGET, "is ready", |object| {
                object["status"]["phase"] == "Ready"
            });
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

fn secret(fixture: &Fixture, name: &str) {
    fixture.kube.apply(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": fixture.namespace, "name": name}, "stringData": {"password": "none"}}));
}

/// Refers to a Secret that is created later, within the threshold, and to Secrets without which the
/// object is ready.
fn refer_late_and_optionally(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = &*fixture;
    kube.zoo("Widget", namespace, "late", json!({"secretRef": {"name": "late"}}));
    fixture.wait(ZOO, "Widget", "late", "waits for the Secret", |object| {
        ready_reason(object) == "SecretNotFound"
    });
    pause(Duration::from_secs(2));
    secret(fixture, "late");
    fixture.wait(ZOO, "Widget", "late", "is ready", |object| object["status"]["phase"] == "Ready");

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
