//! Faults of deletion: finalizers that stay, vanish or return, and deletions that something else
//! blocks.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::discovery::{definition, wait_served};
use crate::proof::{
    self, CLEANUP, Fixture, Proof, SOON, TARGET, condition, finalizers, gone, is_terminating,
    owned_by, stays,
};
use loopwatch_testbed::accounts::own_account;
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    proof::trials("deletion", DETECTED)
}

/// Faults that loopwatch reports.
const DETECTED: &[Proof] = &[
    Proof {
        name: "finalizer-owner-absent",
        code: "FinalizerOwnerAbsent",
        subject: ("Widget", TARGET),
        evidence: &["actor", "finalizers", "terminating_for"],
        names: &[CLEANUP],
        // A rollout takes as long as the machine needs to start an operator.
        also: &[("FinalizerStuck", "/target"), ("CleanupSlow", "")],
        threshold: 4,
        flags: &[
            "--leader-elect",
            "--leader-election-namespace=finalizer-owner-absent",
            "--leader-elect-lease-duration=4s",
        ],
        near_miss: roll_by_recreate,
        provoke: uninstall,
        cure: reinstall,
        ..Proof::EMPTY
    },
    Proof {
        name: "cleanup-slow",
        code: "CleanupSlow",
        subject: ("Statusless", TARGET),
        evidence: &["actor", "finalizer", "terminating_for", "threshold"],
        names: &[CLEANUP],
        also: &[("FinalizerStuck", "/target")],
        threshold: 3,
        near_miss: clean_up_fast,
        provoke: clean_up_slowly,
        cure: |fixture| fixture.wait_gone(ZOO, "Statusless", TARGET),
        ..Proof::EMPTY
    },
    Proof {
        name: "finalizer-lost",
        code: "FinalizerLost",
        subject: ("Widget", TARGET),
        evidence: &["finalizer", "actor", "removed_by"],
        names: &[CLEANUP, "zoo-archiver"],
        also: &[("FinalizerFlapping", "/target")], // the operator adds it again each time
        lingers: 30,
        near_miss: release_finalizer,
        provoke: overwrite_finalizers,
        cure: |fixture| {
            fixture.operator.cure("FinalizerLost");
            fixture.wait(ZOO, "Widget", TARGET, "has its finalizer again", |object| {
                finalizers(object) == [CLEANUP]
            });
            fixture.remove(TARGET); // the finalizer of the other controller stays lost
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "finalizer-flapping",
        code: "FinalizerFlapping",
        subject: ("Widget", TARGET),
        evidence: &["finalizer", "returns", "writers"],
        names: &[CLEANUP],
        // A removal by an unknown writer that the operator repairs is suspected to be a loss.
        also: &[("FinalizerLost", "/target"), ("FinalizerLost", "/near")],
        lingers: 20,
        near_miss: |fixture| {
            release_finalizer(fixture);
            fixture.operator.cure("FinalizerReleased");
            regain_finalizer(fixture, "near");
        },
        provoke: flap,
        cure: |fixture| {
            fixture.operator.cure("FinalizerFlapping");
            regain_finalizer(fixture, TARGET);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "deletion-blocked",
        code: "DeletionBlockedByDependent",
        subject: ("Widget", TARGET),
        evidence: &["blocker", "blocker_finalizers", "actor", "chain", "terminating_for"],
        names: &["data-target-0", FOREIGN],
        also: &[
            ("FinalizerStuck", "PersistentVolumeClaim"),
            ("DeletionBlockedByDependent", "StatefulSet"),
            ("CleanupSlow", ""),
        ],
        threshold: 4,
        near_miss: |fixture| {
            chain(fixture, "near");
            fixture.kube.delete_with("Foreground", ZOO, "Widget", &fixture.namespace, "near");
            fixture.wait_gone(ZOO, "Widget", "near");
        },
        provoke: block_leaf,
        cure: |fixture| {
            release(
                &fixture.kube,
                "v1",
                "PersistentVolumeClaim",
                &fixture.namespace,
                "data-target-0",
            );
            fixture.wait_gone(ZOO, "Widget", TARGET);
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "namespace-stuck",
        code: "NamespaceStuck",
        subject: ("Namespace", "{}-other"),
        evidence: &["blocker", "blocker_finalizers", "actor", "terminating_for"],
        names: &[CLEANUP, "Widget"],
        also: &[("FinalizerStuck", "/t"), ("CleanupSlow", "/t")],
        threshold: 4,
        near_miss: block_by_foreign_object,
        provoke: block_namespace,
        cure: unblock_namespaces,
        namespaces: &["other", "near"],
        ..Proof::EMPTY
    },
    Proof {
        name: "definition-stuck",
        code: "DefinitionStuck",
        subject: ("CustomResourceDefinition", "things.{}.example.com"),
        evidence: &["blocker", "blocker_finalizers", "actor", "terminating_for"],
        names: &["example.com/cleanup", "Thing"],
        also: &[
            ("FinalizerStuck", "/target"),
            ("FinalizerOwnerAbsent", "/target"),
            ("CleanupSlow", "/target"),
        ],
        threshold: 4,
        prepare: define,
        near_miss: |fixture| {
            let group = format!("{}-near.example.com", fixture.namespace);
            thing(&fixture.kube, &group, &fixture.namespace, json!([]));
            fixture.kube.delete(EXTENSIONS, DEFINITION, "", &format!("things.{group}"));
            gone(&fixture.kube, EXTENSIONS, DEFINITION, "", &format!("things.{group}"));
        },
        provoke: block_definition,
        cure: |fixture| {
            let group = format!("{}.example.com", fixture.namespace);
            release(&fixture.kube, &format!("{group}/v1"), "Thing", &fixture.namespace, TARGET);
            gone(&fixture.kube, EXTENSIONS, DEFINITION, "", &format!("things.{group}"));
        },
        ..Proof::EMPTY
    },
];

/// A finalizer that no controller in these tests removes.
const FOREIGN: &str = "storage.example.com/detach";

const EXTENSIONS: &str = "apiextensions.k8s.io/v1";
const DEFINITION: &str = "CustomResourceDefinition";

/// Rolls the operator with the strategy Recreate while an object is being deleted: for a moment, no
/// operator runs.
fn roll_by_recreate(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = fixture;
    let template = json!({"metadata": {"labels": {"app": "widget-operator"}},
        "spec": {"serviceAccountName": "widget-operator", "containers": [{"name": "manager", "image": "manager"}]}});
    kube.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": "widget-operator"},
        "spec": {"strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": "widget-operator"}},
            "template": template}}));

    let first = operator_pod(fixture, &|_| true);
    fixture.widget("near");
    fixture.operator.process.stop(Duration::from_secs(10));

    let again = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "yes"}}}}});
    fixture.kube.patch("apps/v1", "Deployment", &fixture.namespace, "widget-operator", &again);
    fixture.kube.delete(ZOO, "Widget", &fixture.namespace, "near");
    operator_pod(fixture, &|name| name != first);
    pause(Duration::from_secs(1));
    fixture.operator.start_again();
    fixture.wait_gone(ZOO, "Widget", "near");
}

/// Waits for the only Pod of the operator's Deployment, and returns its name.
fn operator_pod(fixture: &Fixture, wanted: &dyn Fn(&str) -> bool) -> String {
    eventually(SOON, "a Pod of the operator runs", || {
        let pods = operator_pods(fixture);
        match &pods[..] {
            [pod] if pod["status"]["phase"] == "Running" => {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                if wanted(name) { Ok(name.to_owned()) } else { Err(format!("{name} still runs")) }
            }
            _ => Err(format!("{} Pods", pods.len())),
        }
    })
}

fn operator_pods(fixture: &Fixture) -> Vec<Value> {
    let pods = fixture
        .kube
        .try_list("v1", "Pod", &fixture.namespace)
        .unwrap_or_else(|error| panic!("{error}"));

    pods.into_iter().filter(|pod| pod["metadata"]["labels"]["app"] == "widget-operator").collect()
}

/// Deletes the operator's Deployment and kills its process, so that its Lease survives it. Then
/// deletes an object.
fn uninstall(fixture: &mut Fixture) {
    fixture.widget(TARGET);
    fixture.kube.delete("apps/v1", "Deployment", &fixture.namespace, "widget-operator");
    fixture.operator.process.kill();
    eventually(SOON, "the operator's Pods are gone", || match operator_pods(fixture).len() {
        0 => Ok(()),
        pods => Err(format!("{pods} Pods")),
    });
    fixture.kube.delete(ZOO, "Widget", &fixture.namespace, TARGET);

    stays(3, "nobody removes the finalizer", || {
        let target = fixture.find(ZOO, "Widget", TARGET).unwrap_or_default();
        is_terminating(&target) && finalizers(&target) == [CLEANUP]
    });
    let lease = fixture
        .find("coordination.k8s.io/v1", "Lease", "widget-operator.zoo.loopwatch.dev")
        .unwrap_or_default();

    assert!(
        lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()),
        "{lease}"
    );
}

fn reinstall(fixture: &mut Fixture) {
    fixture.operator.start_again();
    fixture.wait_gone(ZOO, "Widget", TARGET);
}

/// Deletes many objects whose cleanup is fast, and one whose cleanup takes a second.
fn clean_up_fast(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = &*fixture;
    let names: Vec<String> =
        (0..24).map(|number| format!("fast-{number}")).chain(["near".to_owned()]).collect();
    fixture.fault("CleanupSlow?delay=1s", "near");

    for name in &names {
        kube.zoo("Statusless", namespace, name, json!({}));
    }

    for name in &names {
        fixture.wait(ZOO, "Statusless", name, "has a finalizer", |object| {
            finalizers(object) == [CLEANUP]
        });
        kube.delete(ZOO, "Statusless", namespace, name);
    }

    names.iter().for_each(|name| fixture.wait_gone(ZOO, "Statusless", name));
}

/// The cleanup takes three times as long as the threshold, and then succeeds.
fn clean_up_slowly(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = &*fixture;
    kube.zoo("Statusless", namespace, TARGET, json!({}));
    fixture.wait(ZOO, "Statusless", TARGET, "has a finalizer", |object| {
        finalizers(object) == [CLEANUP]
    });
    fixture.fault("CleanupSlow?delay=9s", TARGET);
    kube.delete(ZOO, "Statusless", namespace, TARGET);
    stays(3, "the cleanup lasts", || {
        fixture
            .find(ZOO, "Statusless", TARGET)
            .is_some_and(|target| finalizers(&target) == [CLEANUP])
    });
}

/// The operator itself removes its finalizer from an object that is not being deleted.
fn release_finalizer(fixture: &mut Fixture) {
    fixture.widget("near");
    fixture.fault("FinalizerReleased", "near");

    let near = fixture
        .wait(ZOO, "Widget", "near", "has no finalizer", |object| finalizers(object).is_empty());

    assert!(!is_terminating(&near), "{near}");
}

/// The operator adds its finalizer again. It looks at the object only after a change of the spec: the
/// last time that it looked, its cache may not have shown the removal.
fn regain_finalizer(fixture: &Fixture, name: &str) {
    fixture.kube.change("Widget", &fixture.namespace, name, json!({"size": 2}));
    fixture.wait(ZOO, "Widget", name, "has its finalizer again", |object| {
        finalizers(object) == [CLEANUP]
    });
}

/// Two controllers replace the list of finalizers by their own, whenever that is missing.
fn overwrite_finalizers(fixture: &mut Fixture) {
    let archived = |object: &Value| {
        finalizers(object) == ["archiver.example.com/copy"] && !is_terminating(object)
    };
    fixture.widget(TARGET);
    fixture.fault("FinalizerLost", TARGET);

    let target = fixture.wait(ZOO, "Widget", TARGET, "has lost the operator's finalizer", archived);
    let managers = target["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let archiver = managers.iter().find(|entry| entry["manager"] == "zoo-archiver");

    assert!(
        archiver.is_some_and(|entry| entry.to_string().contains("archiver.example.com/copy")),
        "{target}"
    );

    // A change makes the operator write its list, and then the other controller.
    let events = fixture.watch((ZOO, "Widget"), &fixture.namespace, 2, || {
        fixture.kube.change("Widget", &fixture.namespace, TARGET, json!({"size": 7}));
    });

    assert!(
        events.iter().any(|(_, object)| finalizers(object) == [CLEANUP]),
        "the operator writes its list: {events:?}"
    );

    fixture.wait(ZOO, "Widget", TARGET, "has lost the operator's finalizer again", archived);
}

/// The operator adds and removes its finalizer again and again.
fn flap(fixture: &mut Fixture) {
    fixture.widget(TARGET);
    let events = fixture.watch((ZOO, "Widget"), &fixture.namespace, 5, || {
        fixture.fault("FinalizerFlapping?period=400ms", TARGET)
    });
    let lists = events.iter().filter(|(_, object)| object["metadata"]["name"] == TARGET);
    let mut lists: Vec<_> = lists.map(|(_, object)| finalizers(object)).collect();

    lists.dedup();
    assert!(lists.len() >= 8, "{lists:?}");
}

/// Creates a Widget that owns a StatefulSet, whose controller creates a Pod and a volume claim that
/// it owns.
fn chain(fixture: &Fixture, name: &str) {
    let Fixture { kube, namespace, .. } = fixture;
    let widget = fixture.widget(name);
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});

    kube.create_as(
        proof::MANAGER,
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": [owned_by(&widget)]},
        "spec": {"serviceName": name, "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}, "volumeClaimTemplates": [claim],
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "app"}]}}}}),
    );

    let pvc = format!("data-{name}-0");
    fixture.wait("v1", "PersistentVolumeClaim", &pvc, "belongs to the StatefulSet", |claim| {
        claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    });
}

/// Deletes a Widget in the foreground. A finalizer on the last object of the chain blocks all of
/// them.
fn block_leaf(fixture: &mut Fixture) {
    chain(fixture, TARGET);
    let Fixture { kube, namespace, .. } = &*fixture;
    let leaf = ("v1", "PersistentVolumeClaim", "data-target-0");
    kube.patch(leaf.0, leaf.1, namespace, leaf.2, &json!({"metadata": {"finalizers": [FOREIGN]}}));
    kube.delete_with("Foreground", ZOO, "Widget", namespace, TARGET);

    let only = |expected: &'static str| {
        move |object: &Value| is_terminating(object) && finalizers(object) == [expected]
    };
    fixture.wait(leaf.0, leaf.1, leaf.2, "is being deleted", only(FOREIGN));
    fixture.wait(
        "apps/v1",
        "StatefulSet",
        TARGET,
        "waits for its dependents",
        only("foregroundDeletion"),
    );

    fixture.wait(ZOO, "Widget", TARGET, "waits for its dependents", only("foregroundDeletion"));
    stays(3, "the deletion is blocked", || fixture.find(ZOO, "Widget", TARGET).is_some());
}

/// Removes all finalizers of an object.
fn release(kube: &Kube, api: &str, kind: &str, namespace: &str, name: &str) {
    kube.patch(api, kind, namespace, name, &json!({"metadata": {"finalizers": null}}));
}

/// Deletes a namespace that an object of another program blocks, although the operator's object
/// there is gone.
fn block_by_foreign_object(fixture: &mut Fixture) {
    let kube = &fixture.kube;
    let near = near_namespace(fixture);
    fixture.make(&near, "near", json!({}));
    kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": near, "name": "foreign", "finalizers": [FOREIGN]}}));
    kube.delete("v1", "Namespace", "", &near);
    gone(kube, ZOO, "Widget", &near, "near");
}

fn near_namespace(fixture: &Fixture) -> String {
    format!("{}-near", fixture.namespace)
}

/// Deletes a namespace with an object that the operator does not clean up.
fn block_namespace(fixture: &mut Fixture) {
    let Fixture { kube, other, operator, .. } = &*fixture;
    fixture.make(other, TARGET, json!({}));
    operator.fault(&format!("FinalizerStuck?namespace={other}"));
    kube.delete("v1", "Namespace", "", other);

    let blocked = |name: &str, by: &str| {
        let namespace = kube.find("v1", "Namespace", "", name).unwrap_or_default();
        let remaining = condition(&namespace, "NamespaceFinalizersRemaining");
        let is_blocked = |c: &Value| {
            c["status"] == "True" && c["message"].as_str().is_some_and(|m| m.contains(by))
        };

        if remaining.is_some_and(is_blocked) {
            Ok(())
        } else {
            Err(namespace["status"].to_string())
        }
    };

    let near = near_namespace(fixture);
    for (name, by) in [(other, CLEANUP), (&near, FOREIGN)] {
        eventually(SOON, "the namespace names the finalizer that blocks it", || blocked(name, by));
    }

    stays(3, "both namespaces are blocked", || {
        blocked(other, CLEANUP).is_ok() && blocked(&near, FOREIGN).is_ok()
    });
}

/// Removes what blocks the two namespaces.
fn unblock_namespaces(fixture: &mut Fixture) {
    let near = near_namespace(fixture);
    fixture.operator.cure("FinalizerStuck");
    release(&fixture.kube, "v1", "ConfigMap", &near, "foreign");

    for name in [&fixture.other, &near] {
        gone(&fixture.kube, "v1", "Namespace", "", name);
    }
}

/// Creates two definitions, and grants the account of loopwatch permissions for one.
fn define(kube: &Kube, namespace: &str) {
    let groups = [format!("{namespace}.example.com"), format!("{namespace}-near.example.com")];
    for group in &groups {
        kube.apply(&definition(group, &["v1"]));
        wait_served(kube, group, "v1", true);
    }

    own_account(kube, namespace, &groups[0], &["things", "things/status", "things/finalizers"]);
}

fn thing(kube: &Kube, group: &str, namespace: &str, finalizers: Value) {
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing",
        "metadata": {"name": TARGET, "namespace": namespace, "finalizers": finalizers}, "spec": {"size": 1}});
    eventually(SOON, "an object of the new kind is made", || kube.try_apply(&object));
}

/// Deletes a definition while one of its objects keeps a finalizer.
fn block_definition(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = &*fixture;
    let group = format!("{namespace}.example.com");
    thing(kube, &group, namespace, json!([format!("{group}/cleanup")]));

    let name = format!("things.{group}");
    kube.delete(EXTENSIONS, DEFINITION, "", &name);
    eventually(SOON, "the definition waits for its objects", || {
        let definition = kube.find(EXTENSIONS, DEFINITION, "", &name).unwrap_or_default();
        let terminating =
            condition(&definition, "Terminating").is_some_and(|c| c["status"] == "True");
        let object =
            kube.find(&format!("{group}/v1"), "Thing", namespace, TARGET).unwrap_or_default();

        if terminating && is_terminating(&object) {
            Ok(())
        } else {
            Err(definition["status"].to_string())
        }
    });
}
