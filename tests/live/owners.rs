//! What the sources see of owners: children that lose theirs, and reads of single objects.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::recorder::Recorder;
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("owners::children_that_lose_their_owner_stay", children_that_lose_their_owner_stay),
        test("owners::owners_are_read", owners_are_read),
    ]
}

/// Creates an account that owns widgets and ConfigMaps, and may read nothing else.
fn widget_account(kube: &Kube, namespace: &str) {
    service_account(kube, namespace);
    let name = format!("{namespace}-owner");
    let verbs = ["get", "list", "watch", "create", "update"];
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": [
        {"apiGroups": ["zoo.loopwatch.dev"], "resources": ["widgets", "widgets/status"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]}),
    );
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
}

fn owner(kind: &str, name: &str, uid: &Value) -> Value {
    json!([{"apiVersion": ZOO, "kind": kind, "name": name, "uid": uid}])
}

/// Creates a ConfigMap with the field manager of the test bed.
fn child(kube: &Kube, namespace: &str, name: &str, owners: &Value) {
    kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}}));
}

/// An object that loses its owner stays visible until it is deleted, and so does one that the
/// manager of owned objects created without an owner. Objects of others stay hidden.
fn children_that_lose_their_owner_stay() {
    let (plane, namespace) = (bed(), "lost-owner");
    let kube = &plane.kube;
    kube.namespace(namespace);
    widget_account(kube, namespace);

    let widget = kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    let owner = owner("Widget", "one", &widget["metadata"]["uid"]);
    for name in ["child", "sibling"] {
        child(kube, namespace, name, &owner);
    }

    // In every namespace, by the controller manager.
    let root = eventually(Duration::from_secs(20), "a foreign ConfigMap", || {
        kube.find("v1", "ConfigMap", namespace, "kube-root-ca.crt").ok_or("not there".to_owned())
    });

    assert!(root["metadata"]["ownerReferences"].is_null());

    let kubeconfig = plane.kubeconfig_of("lost-owner.kubeconfig", &plane.url, namespace, ACCOUNT);
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &quick_but(json!({})), &[]);
    let sees = |name: &str| sidecar.object("ConfigMap", namespace, name);
    sidecar.expect(Duration::from_secs(20), "its children are watched", || {
        sees("child").and(sees("sibling"))
    });
    kube.patch(
        "v1",
        "ConfigMap",
        namespace,
        "child",
        &json!({"metadata": {"ownerReferences": null}}),
    );

    child(kube, namespace, "never-owned", &json!([]));
    sidecar.expect(Duration::from_secs(10), "an object of its manager is visible", || {
        sees("never-owned")
    });
    sees("child").unwrap_or_else(|error| panic!("it has only lost its owner: {error}"));
    sees("kube-root-ca.crt").expect_err("an object of somebody else");
    kube.delete("v1", "ConfigMap", namespace, "child");
    sidecar.expect(Duration::from_secs(10), "a deleted object is gone", || match sees("child") {
        Ok(object) => Err(object.to_string()),
        Err(_) => Ok(()),
    });
}

/// Reads find owners, find that they are absent or of an unknown kind, and show nothing if they are
/// refused.
fn owners_are_read() {
    let (plane, namespace) = (bed(), "reads");
    let kube = &plane.kube;
    kube.namespace(namespace);
    widget_account(kube, namespace);

    let widget = kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    child(kube, namespace, "sibling", &owner("Widget", "one", &widget["metadata"]["uid"]));

    let kubeconfig = plane.kubeconfig_of("reads.kubeconfig", &plane.url, namespace, ACCOUNT);
    let settings = json!({"settings": quick_but(json!({"owner_missing_after": "2s"}))});
    std::fs::write(plane.directory().join("reads.config.yaml"), settings.to_string())
        .expect("our own folder");

    let file = plane.directory().join("reads.jsonl");
    let recorder = Recorder::start("reads", namespace, &kubeconfig, &file);
    pause(Duration::from_secs(3)); // until loopwatch can tell new references from old ones

    let uid = json!("11111111-2222-3333-4444-555555555555");
    for (kind, name) in
        [("Widget", "one"), ("Widget", "none"), ("Widgett", "one"), ("Statusless", "one")]
    {
        child(
            kube,
            namespace,
            &format!("{}-{name}", kind.to_lowercase()),
            &owner(kind, name, &uid),
        );
    }

    pause(Duration::from_secs(10));
    drop(recorder); // which completes the file

    let recorded = std::fs::read_to_string(&file).expect("a recording");
    let answers: BTreeMap<String, String> = recorded.lines().filter_map(answer).collect();
    let given: Vec<(&str, &str)> =
        answers.iter().map(|(owner, answer)| (owner.as_str(), answer.as_str())).collect();
    let expected = [
        ("Statusless one", "failed: forbidden"),
        ("Widget none", "absent"),
        ("Widget one", "found"),
        ("Widgett one", "kind_unknown"),
    ];

    assert_eq!(given, expected);
}

/// Returns the object and the answer, if the line of a recording is the answer to a read.
fn answer(line: &str) -> Option<(String, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let answered = line.as_object()?.values().find_map(|value| value.get("answered"))?;
    let address = &answered["probe"]["read"];
    let name = format!("{} {}", address["kind"].as_str()?, address["name"].as_str()?);
    let answer = match &answered["answer"] {
        Value::String(answer) => answer.clone(),
        answer => match answer["failed"].as_str() {
            Some(cause) => format!("failed: {cause}"),
            None => answer.as_object()?.keys().next()?.clone(),
        },
    };

    Some((name, answer))
}
