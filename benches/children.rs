//! The CPU time of an event about a child that is watched metadata-only, compared with one about a
//! primary object. Run with `cargo bench --bench children`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::{Duration, Instant};

use loopwatch::sources::decoding::{HashKey, object};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Observation, Role, WatchedKind};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_testbed::kinds::watched;
use serde_json::{Value, json};

/// Rounds. The fastest one counts, because other processes slow down the others.
const ROUNDS: i64 = 20;
/// Objects of each kind, each with one event per round.
const OBJECTS: usize = 2_000;

const START: Timestamp = Timestamp(1_767_225_600_000);

fn kind(role: Role) -> WatchedKind {
    match role {
        Role::Primary => watched("example.org", "Shop", "shops", role),
        _ => watched("apps", "Deployment", "deployments", role),
    }
}

fn manager(name: &str, subresource: &str) -> Value {
    json!({
        "manager": name, "operation": "Update", "apiVersion": "example.org/v1", "subresource": subresource,
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:finalizers": {".": {}, "v:\"example.org/cleanup\"": {}}},
            "f:spec": {".": {}, "f:replicas": {}, "f:template": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}},
            "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}},
        },
    })
}

fn metadata(number: usize, version: i64) -> Value {
    json!({
        "name": format!("shop-{number}"), "namespace": format!("team-{}", number % 50),
        "uid": format!("0d7b4c9e-1111-2222-3333-{number:012x}"), "resourceVersion": (1_000_000 + version).to_string(),
        "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": format!("shop-{number}")},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{\"a\":1}}".repeat(16)},
        "managedFields": [manager("kubectl", ""), manager("manager", "status"), manager("manager", "")],
    })
}

/// A primary object of about four kilobytes, three field managers, three conditions.
fn primary(number: usize, version: i64) -> Vec<u8> {
    let condition = |r#type: &str, status: &str| {
        json!({"type": r#type, "status": status, "reason": "AllComponentsAvailable", "observedGeneration": 3,
            "message": "Everything is as expected and has been so for a while",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let parts: Vec<Value> = (0..24)
        .map(|i| json!({"name": format!("part-{i}"), "enabled": true, "weight": i, "image": "example.org/a:1"}))
        .collect();

    let conditions = [
        condition("Ready", "True"),
        condition("Available", "True"),
        condition("Degraded", "False"),
    ];

    json!({
        "apiVersion": "example.org/v1", "kind": "Shop", "metadata": metadata(number, version),
        "spec": {"replicas": 3, "parts": parts},
        "status": {"observedGeneration": 3, "phase": "Ready", "replicas": 3, "readyReplicas": 3,
            "conditions": conditions},
    })
    .to_string()
    .into_bytes()
}

/// The metadata of a Deployment that a primary object owns.
fn child(number: usize, version: i64) -> Vec<u8> {
    let mut metadata = metadata(number, version);
    metadata["ownerReferences"] = json!([{"apiVersion": "example.org/v1", "kind": "Shop", "controller": true,
        "name": format!("shop-{number}"), "uid": metadata["uid"], "blockOwnerDeletion": true}]);
    metadata["uid"] = json!(format!("0d7b4c9e-1111-2222-4444-{number:012x}"));

    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
        .to_string()
        .into_bytes()
}

/// The best times per event to decode it, and to update the model.
fn measure(
    model: &mut Model,
    now: &mut Timestamp,
    role: Role,
    text: fn(usize, i64) -> Vec<u8>,
) -> (Duration, Duration) {
    let (watch, key) = (kind(role).watch, HashKey([3; 16]));
    let mut best = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        let texts: Vec<Vec<u8>> = (0..OBJECTS).map(|number| text(number, round)).collect();
        let began = Instant::now();
        let views: Vec<_> =
            texts.iter().map(|text| object(text, &key).expect("an object")).collect();

        best.0 = best.0.min(began.elapsed());
        let began = Instant::now();
        for view in views {
            *now = now.after(Span(1));
            model
                .apply(*now, Observation::Applied { watch: watch.clone(), object: Box::new(view) });
        }

        if round > 0 {
            best.1 = best.1.min(began.elapsed()); // the objects are new in the first round
        }
    }

    let each = |time: Duration| time / u32::try_from(OBJECTS).unwrap_or(1);
    (each(best.0), each(best.1))
}

fn main() {
    let (mut model, mut now) = (Model::new(Settings::default()), START);
    let kinds = [Role::Primary, Role::Child].map(kind);
    model.apply(now, Observation::KindsDiscovered(kinds.to_vec()));

    for kind in kinds {
        model.apply(now, Observation::ListBegan { watch: kind.watch.clone(), epoch: 1 });
        model.apply(
            now,
            Observation::ListEnded { watch: kind.watch, epoch: 1, version: "1".into() },
        );
    }

    now = now.after(Span::hours(1));
    let (decoded, applied) = measure(&mut model, &mut now, Role::Primary, primary);
    let (child_decoded, child_applied) = measure(&mut model, &mut now, Role::Child, child);

    assert_eq!(model.objects(), 2 * OBJECTS);

    let (of_primary, of_child) = (decoded + applied, child_decoded + child_applied);
    println!(
        "primary, {} bytes: decoded in {decoded:?}, applied in {applied:?}",
        primary(1, 1).len()
    );
    println!(
        "child, {} bytes: decoded in {child_decoded:?}, applied in {child_applied:?}",
        child(1, 1).len()
    );
    println!(
        "an event of a child takes {:.2} times that of a primary",
        of_child.as_secs_f64() / of_primary.as_secs_f64()
    );
}
