//! Faults of ownership: owners that are missing, replaced, out of reach or gone.

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::case::TWIN;
use crate::proof::{self, Fixture, MANAGER, Proof, SOON, TARGET, is_terminating, owned_by, stays};
use loopwatch_testbed::accounts::RBAC;
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    proof::trials("ownership", DETECTED)
}

/// Faults that loopwatch reports.
const DETECTED: &[Proof] = &[
    Proof {
        name: "orphan",
        code: "Orphan",
        subject: ("ConfigMap", "widget-target-config"),
        evidence: &["former_owner", "reason"],
        names: &["Widget", TARGET, "released"],
        also: &[("Orphan", "/widget-target")],
        threshold: 4,
        near_miss: |fixture| {
            fixture.kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": fixture.namespace, "name": "foreign"}}));
            fixture.widget("near");
            fixture.remove("near");

            for (api, kind, name) in children("near") {
                fixture.wait_gone(api, kind, &name);
            }
        },
        provoke: orphan,
        cure: |fixture| {
            for (api, kind, name) in children(TARGET) {
                fixture.kube.delete(api, kind, &fixture.namespace, &name);
                fixture.wait_gone(api, kind, &name);
            }
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-replaced",
        code: "OwnerReplaced",
        subject: ("ConfigMap", "widget-target-config"),
        evidence: &["owner"],
        names: &["Widget", TARGET],
        // The Widget loses its Deployment again and again.
        also: &[
            ("OwnerReplaced", "/widget-target"),
            ("RecreateLoop", "/widget-target"), // the effect, which OwnerReplaced explains
            ("ConditionFlapping", "Widget owner-replaced/target"),
            ("PhaseCycling", "Widget owner-replaced/target"),
        ],
        lingers: 16,
        near_miss: |fixture| {
            fixture.widget("near");
            fixture.remove("near");

            let uid = fixture.widget("near")["metadata"]["uid"].clone();
            for (api, kind, name) in children("near") {
                fixture.wait(api, kind, &name, "belongs to the new object", |child| {
                    owner(child)["uid"] == uid
                });
            }
        },
        provoke: replace_owner,
        cure: |fixture| {
            fixture.operator.cure("OwnerReplaced");
            let target = fixture.find(ZOO, "Widget", TARGET).unwrap_or_default();
            fixture.wait(
                CONFIG_MAP.0,
                CONFIG_MAP.1,
                "widget-target-config",
                "belongs to the new object",
                |child| owner(child)["uid"] == target["metadata"]["uid"],
            );
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-missing",
        code: "OwnerMissing",
        subject: ("ConfigMap", "lost"),
        evidence: &["owner"],
        names: &["Widget", "ghost"],
        lingers: 16,
        near_miss: |fixture| {
            let twin = fixture.find(ZOO, "Widget", TWIN).unwrap_or_default();
            fixture.config_map(
                &fixture.namespace,
                "near",
                json!({"ownerReferences": [owned_by(&twin)]}),
            );
        },
        provoke: |fixture| {
            let mut ghost = owned_by(&fixture.find(ZOO, "Widget", TWIN).unwrap_or_default());
            ghost["name"] = json!("ghost");
            ghost["uid"] = json!("00000000-0000-4000-8000-000000000001");
            expect_collected(fixture, &fixture.namespace, "lost", || {
                fixture.config_map(&fixture.namespace, "lost", json!({"ownerReferences": [ghost]}));
            });
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "cross-namespace-owner",
        code: "CrossNamespaceOwner",
        subject: ("ConfigMap", "widget-target-shared"),
        evidence: &["owner"],
        names: &["Widget", TARGET, "cross-namespace-owner"],
        lingers: 16,
        near_miss: |fixture| {
            let annotations = logical_owner(&fixture.namespace, TWIN);
            fixture.config_map(&fixture.other, "near", json!({"annotations": annotations}));
        },
        provoke: |fixture| {
            fixture.widget(TARGET);
            let fault = format!("CrossNamespaceOwner?to={}", fixture.other);
            expect_collected(fixture, &fixture.other, "widget-target-shared", || {
                fixture.fault(&fault, TARGET)
            });
        },
        cure: |fixture| fixture.operator.cure("CrossNamespaceOwner"),
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-unresolvable",
        code: "OwnerUnresolvable",
        subject: ("ConfigMap", "gadget"),
        evidence: &["owner"],
        names: &["Gadget", "gone.example.com"],
        threshold: 4,
        lingers: 16,
        near_miss: own_by_unreadable_kind,
        provoke: |fixture| {
            let twin = fixture.find(ZOO, "Widget", TWIN).unwrap_or_default();
            let gadget = json!({"apiVersion": "gone.example.com/v1", "kind": "Gadget", "name": "gadget",
                "uid": "00000000-0000-4000-8000-000000000002"});
            let owners = json!({"ownerReferences": [owned_by(&twin), gadget]});

            fixture.config_map(&fixture.namespace, "gadget", owners);
            stays(5, "the object of an unknown owner", || {
                fixture.find("v1", "ConfigMap", "gadget").is_some()
            });
        },
        cure: |fixture| fixture.kube.delete("v1", "ConfigMap", &fixture.namespace, "gadget"),
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-of-wrong-kind",
        code: "OwnerMissing",
        subject: ("ConfigMap", "mistaken"),
        evidence: &["owner"],
        names: &["PhaseOnly", TWIN],
        lingers: 16,
        provoke: |fixture| {
            let mut mistaken = owned_by(&fixture.find(ZOO, "Widget", TWIN).unwrap_or_default());
            mistaken["kind"] = json!("PhaseOnly");
            expect_collected(fixture, &fixture.namespace, "mistaken", || {
                fixture.config_map(
                    &fixture.namespace,
                    "mistaken",
                    json!({"ownerReferences": [mistaken]}),
                );
            });

            assert!(fixture.find(ZOO, "Widget", TWIN).is_some_and(|twin| !is_terminating(&twin)));
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-of-cluster-scoped",
        code: "OwnerUnresolvable",
        subject: ("ClusterRole", "a-{}"),
        evidence: &["owner"],
        names: &["Widget", "early"],
        threshold: 4,
        lingers: 16,
        prepare: own_cluster_role,
        provoke: expect_kept,
        cure: |fixture| {
            fixture.kube.delete(RBAC, "ClusterRole", "", &format!("a-{}", fixture.namespace))
        },
        ..Proof::EMPTY
    },
    Proof {
        name: "owner-cycle",
        code: "OwnerCycle",
        subject: ("Widget", "other"), // the first of the two
        evidence: &["cycle"],
        names: &[TARGET, "other"],
        threshold: 4,
        lingers: 16,
        near_miss: own_twice,
        provoke: |fixture| {
            let [target, other] = [TARGET, "other"].map(|name| fixture.widget(name));
            set_owners(fixture, TARGET, json!([owned_by(&other)]));
            set_owners(fixture, "other", json!([owned_by(&target)]));
            stays(4, "objects that own each other", || {
                [TARGET, "other"].iter().all(|name| {
                    let object = fixture.find(ZOO, "Widget", name).unwrap_or_default();
                    owner(&object)["kind"] == "Widget" && !is_terminating(&object)
                })
            });
        },
        cure: |fixture| set_owners(fixture, TARGET, Value::Null),
        ..Proof::EMPTY
    },
];

const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

/// API version, kind and name of the children of a Widget.
fn children(widget: &str) -> [(&'static str, &'static str, String); 3] {
    [
        (CONFIG_MAP.0, CONFIG_MAP.1, format!("widget-{widget}-config")),
        ("v1", "Secret", format!("widget-{widget}-token")),
        ("apps/v1", "Deployment", format!("widget-{widget}")),
    ]
}

/// The first owner reference of an object, or null.
fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

fn set_owners(fixture: &Fixture, name: &str, owners: Value) {
    let change = json!({"metadata": {"ownerReferences": owners}});
    fixture.kube.patch_as(MANAGER, ZOO, "Widget", &fixture.namespace, name, &change);
}

/// Annotations that name a Widget as the owner of an object in any namespace.
pub(crate) fn logical_owner(namespace: &str, name: &str) -> Value {
    json!({"zoo.loopwatch.dev/owner-ns": namespace, "zoo.loopwatch.dev/owner-name": name,
        "zoo.loopwatch.dev/owner-kind": "Widget"})
}

/// Expects that an action creates a ConfigMap, and that the garbage collector deletes it within
/// seconds, as often as the operator creates it again.
fn expect_collected(fixture: &Fixture, namespace: &str, name: &str, act: impl FnOnce()) {
    let events = fixture.watch(CONFIG_MAP, namespace, 8, act);
    let kinds: Vec<&str> = events
        .iter()
        .filter(|(_, object)| object["metadata"]["name"] == name)
        .map(|(kind, _)| kind.as_str())
        .collect();

    assert!(!kinds.is_empty(), "nothing created {name}: {events:?}");
    assert!(kinds.chunks(2).all(|pair| pair == ["ADDED", "DELETED"]), "{kinds:?}: {events:?}");
}

/// Deletes a Widget whose children stay, without an owner.
fn orphan(fixture: &mut Fixture) {
    fixture.widget(TARGET);
    fixture.kube.delete_with("Orphan", ZOO, "Widget", &fixture.namespace, TARGET);
    fixture.wait_gone(ZOO, "Widget", TARGET);

    for (api, kind, name) in children(TARGET) {
        fixture.wait(api, kind, &name, "has no owner", |child| owner(child).is_null());
    }

    stays(3, "children without an owner", || {
        children(TARGET).iter().all(|(api, kind, name)| fixture.find(api, kind, name).is_some())
    });
}

/// Deletes a Widget and creates it again, while the operator keeps the old UID for its children:
/// the garbage collector deletes them, and the operator creates them again.
fn replace_owner(fixture: &mut Fixture) {
    let old = fixture.widget(TARGET)["metadata"]["uid"].clone();
    fixture.fault("OwnerReplaced", TARGET);
    fixture.remove(TARGET);

    let events = fixture.watch(CONFIG_MAP, &fixture.namespace, 8, || {
        fixture.kube.zoo("Widget", &fixture.namespace, TARGET, json!({}));
    });
    let child =
        events.iter().filter(|(_, object)| object["metadata"]["name"] == "widget-target-config");
    let added: Vec<_> = child.filter(|(kind, _)| kind == "ADDED").collect();

    assert!(added.len() >= 2, "the operator creates it again: {events:?}");
    assert!(added.iter().all(|(_, child)| owner(child)["uid"] == old), "{added:?}");

    let target = fixture.find(ZOO, "Widget", TARGET).unwrap_or_default();
    assert!(target["metadata"]["uid"] != old && !is_terminating(&target), "{target}");
}

/// Creates an object with a second owner, which exists, but of a kind that loopwatch may not read.
fn own_by_unreadable_kind(fixture: &mut Fixture) {
    let Fixture { kube, namespace, .. } = &*fixture;
    let account = kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": namespace, "name": "near"}}));
    let twin = fixture.find(ZOO, "Widget", TWIN).unwrap_or_default();
    let owners = json!({"ownerReferences": [owned_by(&twin), owned_by(&account)]});

    fixture.config_map(namespace, "near", owners);
}

/// Lets loopwatch's account create and read cluster roles, like an operator that creates them for
/// its objects.
fn allow_cluster_roles(kube: &Kube, namespace: &str) {
    let name = format!("{namespace}:roles");
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
            "verbs": ["create", "get", "list", "watch"]}]}),
    );
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}),
    );
}

/// Creates a cluster role that an object in a namespace owns. It exists before loopwatch starts,
/// with an early name, so that the first sample of cluster roles shows it.
fn own_cluster_role(kube: &Kube, namespace: &str) {
    allow_cluster_roles(kube, namespace);
    kube.zoo("Widget", namespace, "early", json!({}));

    let owner = kube.find(ZOO, "Widget", namespace, "early").unwrap_or_default();
    let metadata = json!({"name": format!("a-{namespace}"), "ownerReferences": [owned_by(&owner)]});
    kube.create_as(
        MANAGER,
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": []}),
    );
}

/// Expects that the garbage collector reports the invalid reference in an Event, and never deletes
/// the cluster role.
fn expect_kept(fixture: &mut Fixture) {
    let (kube, name) = (&fixture.kube, format!("a-{}", fixture.namespace));
    let role = kube.find(RBAC, "ClusterRole", "", &name).unwrap_or_default();
    eventually(SOON, "the garbage collector complains", || {
        let events = kube.try_list("v1", "Event", "default")?;
        let about = |event: &&Value| event["involvedObject"]["uid"] == role["metadata"]["uid"];
        match events.iter().find(about) {
            Some(event) if event["reason"] == "OwnerRefInvalidNamespace" => Ok(()),
            event => Err(format!("{event:?} among {} events", events.len())),
        }
    });
    stays(3, "the cluster role", || kube.find(RBAC, "ClusterRole", "", &name).is_some());
}

/// Creates two objects that together own a third one. That is not a cycle.
fn own_twice(fixture: &mut Fixture) {
    let twin = owned_by(&fixture.find(ZOO, "Widget", TWIN).unwrap_or_default());
    let namespace = &fixture.namespace;
    let [left, right] = ["left", "right"].map(|name| {
        owned_by(&fixture.config_map(namespace, name, json!({"ownerReferences": [twin]})))
    });

    fixture.config_map(namespace, "near", json!({"ownerReferences": [left, right]}));
}
