//! The load: 50,000 custom resources of kind Shop, and changes to them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use loopwatch_testbed::accounts::own_account;
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::wait::{eventually, pause};

/// Number of objects.
pub(crate) const COUNT: usize = 50_000;
/// Number of unhealthy objects.
pub(crate) const UNHEALTHY: usize = 50;
/// Changes per second.
pub(crate) const RATE: u32 = 100;
/// Concurrent writers, so that no change waits for the response to another.
const WRITERS: u32 = 4;

const API: &str = "bench.loopwatch.dev/v1";
const NAMESPACES: usize = 50;
/// Objects per etcd transaction; etcd allows at most 128 operations.
const BATCH: usize = 100;

/// Creates the objects and an account that can read them. Returns the kubeconfig of the account.
///
/// Writes the objects directly to etcd, in the API server's storage format, which takes seconds
/// instead of minutes.
pub(crate) fn load(plane: &ControlPlane) -> PathBuf {
    let kube = &plane.kube;
    for space in 0..NAMESPACES {
        kube.namespace(&namespace(space));
    }

    let all: Vec<usize> = (0..COUNT).collect();
    for batch in all.chunks(BATCH) {
        let puts = batch.iter().map(|&number| {
            let key = format!("/registry/bench.loopwatch.dev/shops/{}/{}", namespace(number), name(number));
            json!({"requestPut": {"key": STANDARD.encode(key), "value": STANDARD.encode(shop(number).to_string())}})
        });

        plane.etcd("/v3/kv/txn", &json!({"success": puts.collect::<Vec<_>>()}));
    }

    kube.apply(&definition());
    eventually(Duration::from_secs(120), "the API server serves the objects", || {
        let path = format!("/apis/{API}/shops?limit=1");
        let list = kube.get(&path)?;
        let left = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
        if left as usize == COUNT - 1 { Ok(()) } else { Err(format!("{} objects", left + 1)) }
    });
    own_account(kube, "default", "bench.loopwatch.dev", &["shops", "shops/status"]);

    plane.kubeconfig_of("shop-operator.kubeconfig", &plane.url, "default", ACCOUNT)
}

/// Changes objects for `span` at [`RATE`]: first the spec of an object, then its status, as an
/// operator does. Returns the number of changes.
pub(crate) fn change(plane: &ControlPlane, span: Duration) -> u32 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let start = |writer| scope.spawn(move || change_some(plane, writer, began, span));
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        writers.into_iter().map(|writer| writer.join().unwrap_or_default()).sum()
    })
}

/// The changes of one writer.
fn change_some(plane: &ControlPlane, writer: u32, began: Instant, span: Duration) -> u32 {
    let kube = &plane.kube;
    let every = Duration::from_secs(1) * WRITERS / RATE;
    let mut made = 0;

    while began.elapsed() < span {
        // A prime step spreads changes over all objects. Unhealthy objects stay unchanged.
        let turn = (began.elapsed().as_millis() as usize
            + made as usize * 7_919
            + writer as usize * COUNT / WRITERS as usize)
            % COUNT;
        let number = turn.max(UNHEALTHY);
        let (space, name) = (namespace(number), name(number));
        let patch = |object: &str, change: Value| kube.patch(API, "Shop", &space, object, &change);
        let changed =
            patch(&name, json!({"spec": {"revision": began.elapsed().as_micros() as u64}}));

        made += 1;
        pause_until(began, every * made);

        let seen = json!({"status": {"observedGeneration": changed["metadata"]["generation"]}});
        patch(&format!("{name}/status"), seen);
        made += 1;
        pause_until(began, every * made);
    }

    made
}

fn pause_until(began: Instant, at: Duration) {
    pause(at.saturating_sub(began.elapsed()));
}

fn namespace(number: usize) -> String {
    format!("shop-{}", number % NAMESPACES)
}

fn name(number: usize) -> String {
    format!("shop-{number:05}")
}

/// A typical object: 4.3 KB as JSON, three managers, two conditions, a phase, a finalizer.
fn shop(number: usize) -> Value {
    let healthy = number >= UNHEALTHY;
    let condition = |r#type: &str, status: bool| {
        json!({
            "type": r#type, "status": if status { "True" } else { "False" }, "observedGeneration": 1,
            "reason": if status { "AllComponentsAvailable" } else { "ComponentsUnavailable" },
            "message": if status { "All components answer" } else { "2 of 3 components do not answer" },
            "lastTransitionTime": "2026-01-01T00:10:00Z",
        })
    };

    let manager = |name: &str, subresource: &str, fields: Value| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": API, "subresource": subresource,
            "time": "2026-01-01T00:10:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };

    let parts: Vec<Value> = (0..18)
        .map(|part| json!({"name": format!("part-{part}"), "image": "registry.example.org/shop/part:1.2.3", "weight": part}))
        .collect();
    let spec_fields: Value = (0..12)
        .map(|field| (format!("f:setting{field}"), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let status_fields = json!({"f:status": {"f:phase": {}, "f:observedGeneration": {}, "f:conditions": {
        "k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:reason": {}, "f:message": {}, "f:lastTransitionTime": {}},
        "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:reason": {}, "f:message": {}, "f:lastTransitionTime": {}},
    }}});

    json!({
        "apiVersion": API, "kind": "Shop",
        "metadata": {
            "name": name(number), "namespace": namespace(number),
            "uid": format!("0d7b4c9e-1111-4222-8333-{number:012}"),
            "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["bench.loopwatch.dev/cleanup"],
            "labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": name(number)},
            "annotations": {"bench.loopwatch.dev/applied": "{\"spec\":{\"parts\":[]}}".repeat(20)},
            "managedFields": [
                manager("kubectl-client-side-apply", "", json!({"f:spec": spec_fields})),
                manager("shop-operator", "", json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"bench.loopwatch.dev/cleanup\"": {}}}})),
                manager("shop-operator", "status", status_fields),
            ],
        },
        "spec": {"replicas": 3, "parts": parts},
        "status": {
            "observedGeneration": 1, "phase": if healthy { "Ready" } else { "Degraded" },
            "replicas": 3, "readyReplicas": if healthy { 3 } else { 1 },
            "conditions": [condition("Ready", healthy), condition("Available", healthy)],
        },
    })
}

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.bench.loopwatch.dev"},
        "spec": {
            "group": "bench.loopwatch.dev", "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}
