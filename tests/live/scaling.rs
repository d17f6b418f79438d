//! A real HorizontalPodAutoscaler moves the replicas of a Deployment by the length of the
//! operator's queue and by its errors, with the manifests of `docs/integrations.md`.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, alone_with, bed};
use crate::case::Case;
use crate::prometheus::Prometheus;
use loopwatch_testbed::bundled::Pace;
use loopwatch_testbed::external_metrics::ExternalMetrics;
use loopwatch_testbed::kube::documents;
use loopwatch_testbed::prometheus_adapter::PrometheusAdapter;
use loopwatch_testbed::repository;
use loopwatch_testbed::sidecar::quick_but;
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{binaries, definitions};

/// Tests that register an API group, and therefore run alone.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![
        alone("scaling::by_the_queue", by_the_queue),
        alone_with("scaling::by_the_errors", &["prometheus"], by_the_errors),
        alone("scaling::keda", keda),
    ]
}

/// The autoscaler looks every 15 seconds.
const LOOKS: Duration = Duration::from_secs(60);

/// Until its first look, the controller of the autoscalers may have to recover from a test that
/// restarted the API server, and to give up requests to a metrics API that is gone: each takes it 30
/// seconds.
const FIRST_LOOK: Duration = Duration::from_secs(180);

fn by_the_queue() {
    let settings = quick_but(
        json!({"deadline": "5m", "phase_stuck_after": "5m", "reconcile_stuck_after": "5m",
        "queue_backlog_after": "5m", "workers_saturated_after": "5m"}),
    );
    let case = Case::scraping("scaling-queue", &settings, 1);
    let names: Vec<String> = (0..40).map(|number| format!("w-{number:02}")).collect();

    for some in names.chunks(8) {
        some.iter().for_each(|name| _ = case.kube.zoo("Widget", &case.namespace, name, json!({})));
        some.iter().for_each(|name| case.wait_settled("Widget", name));
    }

    let _adapter = ExternalMetrics::serve(bed(), case.sidecar.port);
    for name in ["workers", "others"] {
        case.kube.apply(&deployment(&case.namespace, name));
    }

    let mut autoscaler = manifest(&case.namespace, "HorizontalPodAutoscaler");
    case.kube.apply(&autoscaler);

    // A near miss: a series that does not exist.
    autoscaler["metadata"]["name"] = json!("others");
    autoscaler["spec"]["scaleTargetRef"]["name"] = json!("others");
    autoscaler["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["controller"] =
        json!("widge");
    case.kube.apply(&autoscaler);

    // The queue is empty.
    expect_condition(&case, "workers", "True", "ValidMetricFound");
    expect_condition(&case, "others", "False", "FailedGetExternalMetric");

    assert_eq!(replicas(&case, "workers"), Ok(1));

    case.operator.fault("QueueBacklog?kind=Widget&delay=60s");
    expect_replicas(&case, "workers", 4);
    case.operator.cure("QueueBacklog");
    expect_replicas(&case, "workers", 1);

    assert_eq!(replicas(&case, "others"), Ok(1), "no series changes nothing");

    expect_condition(&case, "others", "False", "FailedGetExternalMetric");
}

/// prometheus-adapter serves what the rules record from a real loopwatch. Reconciles fail, and a
/// standby gets a replica; then objects wait in the queue, and workers do. Near misses: an operator
/// without errors, and a controller that has no series.
fn by_the_errors() {
    let adapter = binaries::prometheus_adapter().unwrap_or_else(|missing| panic!("{missing}"));
    let settings = quick_but(
        json!({"deadline": "10m", "phase_stuck_after": "10m", "reconcile_stuck_after": "10m",
        "queue_backlog_after": "10m", "workers_saturated_after": "10m"}),
    );
    let case = Case::scraping("scaling-errors", &settings, 1);
    let names: Vec<String> = (0..24).map(|number| format!("e-{number:02}")).collect();

    for some in names.chunks(8) {
        some.iter().for_each(|name| _ = case.kube.zoo("Widget", &case.namespace, name, json!({})));
        some.iter().for_each(|name| case.wait_settled("Widget", name));
    }

    let target = [(case.namespace.as_str(), "loopwatch-0", case.sidecar.port)];
    let prometheus = Prometheus::start_with("scaling.prometheus", Pace::Quick, &target, None);
    let errors = "controller:loopwatch_reconcile_errors:per_minute{controller=\"widget\"}";
    eventually(LOOKS, "the rules record the errors", || match prometheus.value(errors)? {
        0.0 => Ok(()),
        errors => Err(format!("{errors} per minute")),
    });

    let rules = block(|text| text.starts_with("externalRules:"));
    let _adapter = PrometheusAdapter::start(bed(), &adapter, prometheus.port, &rules);
    let mut others = manifest_of(&case.namespace, "HorizontalPodAutoscaler", "standby");
    others["metadata"]["name"] = json!("others");
    others["spec"]["scaleTargetRef"]["name"] = json!("others");
    others["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["controller"] =
        json!("widge");

    for name in ["standby", "workers", "others"] {
        case.kube.apply(&deployment(&case.namespace, name));
    }
    case.kube.apply(&manifest_of(&case.namespace, "HorizontalPodAutoscaler", "standby"));
    case.kube.apply(&manifest_of(&case.namespace, "HorizontalPodAutoscaler", "workers"));
    case.kube.apply(&others);

    // Nothing fails, and the queue is empty.
    for name in ["standby", "workers"] {
        expect_condition(&case, name, "True", "ValidMetricFound");
        assert_eq!(replicas(&case, name), Ok(1), "{name}");
    }
    expect_condition(&case, "others", "False", "FailedGetExternalMetric");

    case.operator.fault("ReconcileFailing?kind=Widget");
    expect_replicas(&case, "standby", 2);
    case.operator.cure("ReconcileFailing");
    names.iter().for_each(|name| case.wait_settled("Widget", name));

    case.operator.fault("QueueBacklog?kind=Widget&delay=60s");
    // Objects that still wait for their next attempt are in the queue, too.
    eventually(LOOKS, "one worker for each ten objects in the queue", || {
        match replicas(&case, "workers")? {
            few @ 0..3 => Err(format!("{few} replicas")),
            _ => Ok(()),
        }
    });

    assert_eq!(replicas(&case, "others"), Ok(1), "no series changes nothing");
    expect_condition(&case, "others", "False", "FailedGetExternalMetric");
}

/// The manifest for KEDA complies with the definition of its kind, and KEDA's trigger has its
/// parameters.
fn keda() {
    let definitions = definitions::find().unwrap_or_else(|missing| panic!("{missing}"));
    let kube = &bed().kube;
    let _installed = definitions.install(kube);
    kube.namespace("scaling-keda");

    let mut object = manifest("scaling-keda", "ScaledObject");
    kube.try_apply_strictly(&object).unwrap_or_else(|error| panic!("{error}"));

    let trigger = object["spec"]["triggers"][0].clone();
    assert_eq!(trigger["type"], "prometheus", "{trigger}");

    for parameter in trigger["metadata"].as_object().expect("parameters").keys() {
        assert!(definitions.keda_knows(parameter), "KEDA does not know {parameter}");
    }

    assert!(!definitions.keda_knows("metricName"), "a parameter of earlier versions");

    object["spec"]["maxReplicas"] = json!(5);
    let answer = kube.try_apply_strictly(&object);

    assert!(answer.as_ref().is_err_and(|error| error.contains("maxReplicas")), "{answer:?}");
}

/// The first manifest of a kind in the documentation.
fn manifest(namespace: &str, kind: &str) -> Value {
    manifest_where(namespace, |object| object["kind"] == kind)
}

/// The manifest of an object in the documentation.
fn manifest_of(namespace: &str, kind: &str, name: &str) -> Value {
    manifest_where(namespace, |object| object["kind"] == kind && object["metadata"]["name"] == name)
}

fn manifest_where(namespace: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let all = blocks().into_iter().filter(|block| block.starts_with("apiVersion"));
    let mut all = all.flat_map(|block| documents(&block));
    let mut manifest = all.find(|object| is_wanted(object)).expect("a manifest");

    manifest["metadata"]["namespace"] = json!(namespace);
    manifest
}

/// A block of YAML in the documentation.
fn block(is_wanted: impl Fn(&str) -> bool) -> String {
    blocks().into_iter().find(|block| is_wanted(block)).expect("a block")
}

fn blocks() -> Vec<String> {
    let text =
        std::fs::read_to_string(repository("docs/integrations.md")).expect("the documentation");
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

fn deployment(namespace: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "worker", "image": "registry.k8s.io/pause:3.10"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

fn replicas(case: &Case, name: &str) -> Result<u64, String> {
    let deployment =
        case.kube.find("apps/v1", "Deployment", &case.namespace, name).ok_or("no Deployment")?;
    deployment["spec"]["replicas"].as_u64().ok_or_else(|| deployment.to_string())
}

fn expect_replicas(case: &Case, name: &str, expected: u64) {
    eventually(LOOKS, &format!("{expected} replicas of {name}"), || match replicas(case, name)? {
        replicas if replicas == expected => Ok(()),
        replicas => Err(format!("{replicas} replicas; {}", autoscaler(case, name)["status"])),
    });
}

fn expect_condition(case: &Case, name: &str, status: &str, reason: &str) {
    eventually(FIRST_LOOK, &format!("the autoscaler of {name} says {reason}"), || {
        let autoscaler = autoscaler(case, name);
        let conditions = autoscaler["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let says = |c: &Value| {
            c["type"] == "ScalingActive" && c["status"] == status && c["reason"] == reason
        };
        if conditions.iter().any(says) { Ok(()) } else { Err(autoscaler["status"].to_string()) }
    });
}

fn autoscaler(case: &Case, name: &str) -> Value {
    case.kube
        .find("autoscaling/v2", "HorizontalPodAutoscaler", &case.namespace, name)
        .unwrap_or_default()
}
