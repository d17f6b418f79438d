//! What discovery costs: requests, bytes and time, with many foreign objects and with many kinds.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, bed};
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::gate::Gate;
use loopwatch_testbed::kube::{Kube, ZOO, path, write_kubeconfig};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::sidecar::{Sidecar, program, quick};
use loopwatch_testbed::wait::{eventually, pause};

/// Tests that fill the cluster.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![
        alone("cost::foreign_pods", foreign_pods),
        alone("cost::many_definitions", many_definitions),
    ]
}

/// Connections that fill the cluster.
const WRITERS: usize = 4;

/// An operator may create Pods, and its namespace holds 10,000 that belong to others. loopwatch
/// transfers few of them and reports none, not even one that hangs. It finds the first child that
/// appears in another namespace.
fn foreign_pods() {
    let plane = bed();
    let (kube, namespace, other) = (&plane.kube, "foreign", "foreign-not");
    kube.namespace(namespace);
    kube.namespace(other);
    pod_owner(kube, namespace);
    kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    each(10_000, |number| {
        let pod = pod(namespace, &format!("pod-{number:05}"), None);
        let answer =
            kube.call("POST", &path("v1", "Pod", namespace, ""), "application/json", Some(&pod));
        answer.unwrap_or_else(|error| panic!("{error}"));
    });

    kube.delete("v1", "Pod", namespace, "pod-00000"); // a finalizer keeps it

    let gate = Gate::before(plane);
    let kubeconfig = plane.kubeconfig_of("foreign.kubeconfig", &gate.url(), namespace, ACCOUNT);
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &quick(), &[]);
    sidecar.wait_synced(1);
    pause(Duration::from_secs(60));

    let (bytes, requests) = (gate.traffic().bytes(), gate.traffic().requests());
    eprintln!("foreign_pods: {} KiB in {requests} requests within a minute", bytes >> 10);

    assert!(bytes < 5 << 20, "{bytes} bytes");
    assert_eq!(sidecar.objects("kind=Pod"), Ok(Vec::new()));

    // Other tests leave objects with real problems in their own namespaces.
    let opened = sidecar.opened();
    let others: Vec<_> =
        opened.iter().filter(|(_, on)| on.starts_with("Pod") || on.contains("foreign")).collect();

    assert!(others.is_empty(), "{others:?}");

    // A new primary object brings the next sample forward.
    kube.zoo("Widget", other, "two", json!({"suspend": true}));
    let uid = kube.find(ZOO, "Widget", other, "two").unwrap_or_default()["metadata"]["uid"].clone();
    kube.apply(&pod(other, "own", Some(&uid)));

    let child = sidecar.expect(Duration::from_secs(60), "the first child is found", || {
        sidecar.object("Pod", other, "own")
    });

    assert_eq!(child["owners"], json!(["Widget/two"]), "{child}");
    assert_eq!(sidecar.objects("kind=Pod").unwrap_or_default().len(), 1);

    let total = gate.traffic().bytes();
    eprintln!("foreign_pods: {} KiB with the first child", total >> 10);

    assert!(total < 5 << 20, "{total} bytes");

    drop(sidecar);
    let delete = json!({"gracePeriodSeconds": 0});
    kube.patch("v1", "Pod", namespace, "pod-00000", &json!({"metadata": {"finalizers": null}}));

    let _ =
        kube.call("DELETE", &path("v1", "Pod", namespace, ""), "application/json", Some(&delete));
}

/// The delay of a distant API server.
const DELAY: Duration = Duration::from_millis(40);

/// `check` as administrator on 500 definitions, far from the API server.
fn many_definitions() {
    let plane = bed();
    let kube = &plane.kube;
    each(500, |number| {
        kube.apply(&definition(number));
    });
    eventually(Duration::from_secs(120), "all kinds are served", || {
        let served = kube.get("/apis/many.loopwatch.dev/v1")?;
        let count = served["resources"]
            .as_array()
            .map_or(0, |r| r.iter().filter(|r| !r["name"].to_string().contains('/')).count());
        if count == 500 { Ok(()) } else { Err(count.to_string()) }
    });

    let token = admin_token(kube);
    let authority = plane.directory().join("certs/apiserver.crt");
    let gate = Gate::delayed(plane, DELAY);
    let file = plane.directory().join("many.kubeconfig");
    let kubeconfig = write_kubeconfig(file, &gate.url(), &authority, &token, "default");
    let timed = |kubeconfig: &Path| {
        let began = Instant::now();
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let check = program("check-many", plane).arg("check").args([&kubeconfig, "-o", "json"]);
        (check.run(), began.elapsed())
    };

    let (output, took) = timed(&kubeconfig);
    let (requests, reviews) = (gate.traffic().requests(), gate.traffic().reviews());
    let (_, direct) = timed(&plane.kube.kubeconfig);
    eprintln!(
        "many_definitions: {took:.1?}, without the delay {direct:.1?}; {requests} requests, {reviews} of them reviews"
    );

    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let kinds = report["status"]["kinds"].as_array().map_or(0, Vec::len);
    each(500, |number| {
        kube.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name(number))
    });

    assert!(kinds >= 500, "{kinds} kinds: {}", String::from_utf8_lossy(&output.stderr));
    assert!(reviews <= 5, "{reviews} reviews");

    // Several requests at once: one after the other, they would add all delays.
    let delays = DELAY * u32::try_from(requests).expect("a thousand");
    assert!(took < direct + delays / 2, "{took:?}, without the delay {direct:?}");
}

/// Calls a function for each number, on several threads.
pub(crate) fn each(count: usize, call: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let call = &call;
            scope.spawn(move || (writer..count).step_by(WRITERS).for_each(call));
        }
    });
}

/// An account that owns widgets and may create Pods, in all namespaces.
fn pod_owner(kube: &Kube, namespace: &str) {
    service_account(kube, namespace);
    let name = format!("{namespace}-pods");
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": ["zoo.loopwatch.dev"], "resources": ["widgets", "widgets/status"],
            "verbs": ["get", "list", "watch", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]}]}));
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}),
    );
}

/// A Pod that no scheduler takes, and that a finalizer keeps.
fn pod(namespace: &str, name: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|uid| json!({"apiVersion": ZOO, "kind": "Widget", "name": "two", "uid": uid}))
        .collect();
    let finalizers = if name == "pod-00000" { json!(["example.io/hangs"]) } else { json!([]) };

    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "finalizers": finalizers, "ownerReferences": owners,
            "labels": {"app.kubernetes.io/name": "foreign", "app.kubernetes.io/instance": name}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]}})
}

fn name(number: usize) -> String {
    format!("kind{number}s.many.loopwatch.dev")
}

fn definition(number: usize) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name(number)},
        "spec": {"group": "many.loopwatch.dev", "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
            "names": {"kind": format!("Kind{number}"), "listKind": format!("Kind{number}List"),
                "plural": format!("kind{number}s"), "singular": format!("kind{number}")}}})
}

/// The token of the administrator, from its kubeconfig.
fn admin_token(kube: &Kube) -> String {
    let text = std::fs::read_to_string(&*kube.kubeconfig).expect("our own file");
    let config: Value = serde_json::from_str(&text).expect("our own file");
    config["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
}
