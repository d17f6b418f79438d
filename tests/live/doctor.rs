//! `loopwatch doctor` against a real API server, with the definitions of the Prometheus Operator, and a
//! running loopwatch that nobody scrapes.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, bed, test};
use crate::case::Case;
use loopwatch_testbed::definitions;
use loopwatch_testbed::http;
use loopwatch_testbed::sidecar::{program, quick_but};
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("doctor::scrapes", scrapes)]
}

/// Tests that add definitions to the cluster, and therefore run alone.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![alone("doctor::installation", installation)]
}

const NAMESPACE: &str = "doctor";
const MONITORING: &str = "monitoring.coreos.com/v1";

/// Time for the controllers of Kubernetes.
const SOON: Duration = Duration::from_secs(40);

/// An installation is mended step by step, as doctor advises.
fn installation() {
    let kube = &bed().kube;
    kube.namespace(NAMESPACE);
    kube.apply(&workload(
        "op",
        "loopwatch/sidecar",
        json!([{"name": "manager", "image": "manager"}]),
    ));
    expect(
        "no loopwatch",
        1,
        "sidecar",
        "problem",
        "No workload in the namespace doctor has a loopwatch container",
    );

    let container = |image: &str| json!([{"name": "loopwatch", "image": image, "ports": [{"name": "loopwatch-http", "containerPort": 9917}]}]);
    kube.apply(&workload("op", "loopwatch/sidecar", container("registry.invalid/loopwatch:0.1.0")));
    expect("the image of the manifests", 1, "sidecar", "problem", "which no registry has");

    kube.apply(&workload("op", "loopwatch/sidecar", container("registry.example.com/loopwatch:1")));
    expect("it runs", 0, "sidecar", "well", "Deployment doctor/op: loopwatch runs in 1 of 1 Pods");
    expect(
        "no Prometheus Operator",
        0,
        "monitor",
        "off",
        "The Prometheus Operator is not installed",
    );

    kube.apply(&workload(
        "other",
        "control-plane",
        json!([{"name": "manager", "image": "manager"}]),
    ));
    expect(
        "an operator without it",
        1,
        "sidecar",
        "problem",
        "Deployment doctor/other is an operator",
    );
    kube.delete("apps/v1", "Deployment", NAMESPACE, "other");

    let definitions = definitions::find().unwrap_or_else(|missing| panic!("{missing}"));
    let _installed = definitions.install(kube);
    expect("no monitor", 1, "monitor", "problem", "No PodMonitor and no ServiceMonitor");

    kube.namespace("doctor-monitoring");
    kube.apply(&monitor("doctor-monitoring", "loopwatch-http"));
    expect(
        "the wrong namespace",
        1,
        "monitor",
        "problem",
        "only in the namespace doctor-monitoring",
    );
    kube.delete(MONITORING, "PodMonitor", "doctor-monitoring", "loopwatch");

    kube.apply(&monitor(NAMESPACE, "metrics"));
    expect("the wrong port", 1, "monitor", "problem", "none of its ports");

    kube.apply(&monitor(NAMESPACE, "loopwatch-http"));
    expect("a monitor", 0, "monitor", "well", "PodMonitor doctor/loopwatch selects its Pods");
    expect("no Prometheus", 0, "prometheus", "off", "There is no Prometheus object");

    let labels = json!({"matchLabels": {"release": "prom"}});
    kube.apply(&json!({"apiVersion": MONITORING, "kind": "Prometheus",
        "metadata": {"namespace": "doctor-monitoring", "name": "k8s"},
        "spec": {"podMonitorSelector": labels, "podMonitorNamespaceSelector": {}}}));
    expect(
        "its label is missing",
        1,
        "prometheus",
        "problem",
        "podMonitorSelector wants release=prom",
    );

    let mut labelled = monitor(NAMESPACE, "loopwatch-http");
    labelled["metadata"]["labels"] = json!({"release": "prom"});
    kube.apply(&labelled);
    expect(
        "all in order",
        0,
        "prometheus",
        "well",
        "Prometheus doctor-monitoring/k8s selects PodMonitor doctor/loopwatch",
    );

    for namespace in [NAMESPACE, "doctor-monitoring"] {
        kube.delete("v1", "Namespace", "", namespace);
    }
}

/// Nobody scrapes a running loopwatch; then somebody does.
fn scrapes() {
    let case = Case::new("scrapes", &quick_but(json!({"scrape_expected_within": "5s"})));
    let sidecar = &case.sidecar;
    let (finding, _) = sidecar.expect_finding(SOON, "NotScraped", "Source", "scrapes");
    assert_eq!(finding.severity(), "info", "it has no alert: {finding}");

    let server = format!("--server=http://127.0.0.1:{}", sidecar.port);
    let ask = || diagnosis(&["-n=scrapes", &server]);
    let (_, diagnosed) = ask();
    let missing = check(&diagnosed, "scrapes").cloned().unwrap_or_default();
    assert_eq!(missing["state"], "problem", "{diagnosed}");
    let kinds = check(&diagnosed, "kinds").cloned().unwrap_or_default();
    assert!(kinds["text"].to_string().contains("Autoscaled.zoo.loopwatch.dev"), "{diagnosed}");

    http::get(sidecar.port, "/metrics").expect("the metrics");
    let (_, diagnosed) = ask();
    let seen = check(&diagnosed, "scrapes").cloned().unwrap_or_default();
    assert_eq!(seen["state"], "well", "{diagnosed}");
}

/// A Deployment with this label, and these containers.
fn workload(name: &str, label: &str, containers: Value) -> Value {
    let value = if label == "control-plane" { "controller-manager" } else { "true" };
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {label: value}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"app": name, "loopwatch/scrape": "true"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": containers}}}})
}

fn monitor(namespace: &str, port: &str) -> Value {
    json!({"apiVersion": MONITORING, "kind": "PodMonitor",
        "metadata": {"namespace": namespace, "name": "loopwatch"},
        "spec": {"selector": {"matchLabels": {"loopwatch/scrape": "true"}},
            "podMetricsEndpoints": [{"port": port}]}})
}

/// Waits until doctor ends with this code, and says this about a topic.
fn expect(what: &str, code: i32, topic: &str, state: &str, words: &str) {
    eventually(SOON, what, || {
        let (ended, diagnosed) = diagnosis(&["-n", NAMESPACE]);
        let checks = diagnosed["checks"].as_array().into_iter().flatten();
        let said = checks.filter(|check| check["topic"] == topic).any(|check| {
            check["state"] == state
                && check["text"].as_str().is_some_and(|text| text.contains(words))
        });
        if said && ended == code { Ok(()) } else { Err(format!("{ended}: {diagnosed}")) }
    });
}

fn check<'a>(diagnosed: &'a Value, topic: &str) -> Option<&'a Value> {
    diagnosed["checks"].as_array()?.iter().find(|check| check["topic"] == topic)
}

/// The exit code and the JSON of doctor.
fn diagnosis(arguments: &[&str]) -> (i32, Value) {
    let kubeconfig = format!("--kubeconfig={}", bed().kube.kubeconfig.display());
    let output = program("doctor", bed())
        .args(["doctor", "-o=json", &kubeconfig])
        .args(arguments.iter().copied())
        .run();
    let text = String::from_utf8_lossy(&output.stdout);
    let diagnosed = serde_json::from_str(&text)
        .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&output.stderr).into_owned()));
    (output.status.code().unwrap_or(-1), diagnosed)
}
