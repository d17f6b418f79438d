//! The time to decode one object and to read its status, with the time to skip its JSON as the
//! lower bound. Run with `cargo bench --bench decode`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use loopwatch::sources::decoding::{HashKey, object};
use loopwatch_model::model::reading::read;
use serde::de::IgnoredAny;
use serde_json::json;

/// The number of rounds. The fastest one counts, because other processes slow down the others.
const ROUNDS: u32 = 20;
/// Runs per round.
const TIMES: u32 = 2_000;

fn best(mut run: impl FnMut()) -> Duration {
    let round = |run: &mut dyn FnMut()| {
        let begin = Instant::now();
        (0..TIMES).for_each(|_| run());
        begin.elapsed() / TIMES
    };

    (0..ROUNDS).map(|_| round(&mut run)).min().unwrap_or_default()
}

/// A typical object: about four kilobytes, three field managers, three conditions.
fn typical() -> String {
    let condition = |r#type: &str, status: &str| {
        json!({
            "type": r#type, "status": status, "reason": "AllComponentsAvailable", "observedGeneration": 3,
            "message": "Everything is as expected and has been so for a while",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };

    let manager = |name: &str, subresource: &str| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "example.org/v1", "subresource": subresource,
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:finalizers": {".": {}, "v:\"example.org/cleanup\"": {}}},
                "f:spec": {".": {}, "f:replicas": {}, "f:template": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}},
                "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}},
            },
        })
    };

    let parts =
        (0..24).map(|i| json!({"name": format!("part-{i}"), "enabled": true, "weight": i, "image": "example.org/a:1"}));
    json!({
        "apiVersion": "example.org/v1", "kind": "Shop",
        "metadata": {
            "name": "shop-123", "namespace": "default", "uid": "0d7b4c9e-1111-2222-3333-444455556666",
            "resourceVersion": "123456789", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.org/cleanup"], "labels": {"app.kubernetes.io/name": "shop"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{\"a\":1}}".repeat(16)},
            "managedFields": [manager("kubectl", ""), manager("manager", "status"), manager("manager", "")],
        },
        "spec": {"replicas": 3, "parts": parts.collect::<Vec<_>>()},
        "status": {
            "observedGeneration": 3, "phase": "Ready", "replicas": 3, "readyReplicas": 3,
            "conditions": [condition("Ready", "True"), condition("Available", "True"), condition("Degraded", "False")],
        },
    })
    .to_string()
}

fn main() {
    let (text, key) = (typical(), HashKey([3; 16]));
    let view = object(text.as_bytes(), &key).expect("an object");
    let skip = best(|| drop(black_box(serde_json::from_str::<IgnoredAny>(black_box(&text)))));
    let decode = best(|| drop(black_box(object(black_box(text.as_bytes()), &key))));
    let reading = best(|| drop(black_box(read("example.org", "Shop", black_box(&view)))));

    println!(
        "{} bytes: JSON skipped in {skip:?}, object decoded in {decode:?}, status read in {reading:?}",
        text.len()
    );
}
