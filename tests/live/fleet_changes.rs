//! One loopwatch for all operators, while the operators change.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::alertmanager::{Alertmanager, all_posted, wait_posted};
use crate::bed::test_with;
use crate::case::SLACK;
use crate::fleet::{Fleet, TEAM, WIDGETS, cluster, install};
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::webhook::Webhook;

/// The tests of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with(
        "fleet_changes::an_operator_goes",
        &["prometheus-alertmanager"],
        an_operator_goes,
    )]
}

/// The API version of Deployments.
const APPS: &str = "apps/v1";

/// An operator gets a loopwatch of its own, loses it, and is deleted while one of its objects has a
/// problem. loopwatch restarts after that.
fn an_operator_goes() {
    let plane = cluster();
    let kube = &plane.kube;
    kube.namespace(TEAM);
    reader_account(kube, TEAM);
    let widgets = Replicas::start(&plane, TEAM, 1, &["--wait-for-pods=false"]);
    kube.zoo("Widget", TEAM, "one", json!({}));

    let webhook = Webhook::listen();
    let alertmanager = Alertmanager::start("fleet", &webhook);
    let mut fleet = start(&plane, &alertmanager);
    fleet.expect_operators(&[WIDGETS]);
    fleet.0.expect(SLACK, "it is healthy", || fleet.expect_health(WIDGETS, "healthy"));

    widgets.all[0].operator.fault("Overdue?kind=Widget&name=one");
    kube.change("Widget", TEAM, "one", json!({"size": 7}));
    let alert = wait_posted(&webhook, "firing", "Overdue");
    assert_eq!(alert["labels"]["operator"], WIDGETS);

    // The loopwatch in its Pods posts alerts of its own from now on.
    let deployment = deployment(&plane);
    add_sidecar(&plane, &deployment);
    fleet.expect_operators(&[]);
    wait_posted(&webhook, "resolved", "Overdue");

    kube.apply(&deployment);
    fleet.expect_operators(&[WIDGETS]);
    fleet.expect_finding(WIDGETS, "Overdue");

    // Somebody deletes it by mistake. Its objects are still there.
    kube.delete(APPS, "Deployment", TEAM, name(&deployment));
    fleet.expect_finding(WIDGETS, "OperatorDown");
    fleet.0.process.stop(Duration::from_secs(20));
    fleet.0.start_again();

    fleet.expect_operators(&[WIDGETS]);
    fleet.expect_finding(WIDGETS, "OperatorDown");
    fleet.0.expect(SLACK, "its objects are still watched", || {
        let objects = fleet.get(&format!("/operators/{WIDGETS}/api/v1/objects?kind=Widget"))?;
        let is_there = objects["objects"].as_array().is_some_and(|all| !all.is_empty());
        if is_there { Ok(()) } else { Err(objects.to_string()) }
    });

    let posted = all_posted(&webhook);
    let heartbeats = posted.iter().filter(|it| it["labels"]["alertname"] == "LoopwatchWatchdog");
    assert!(heartbeats.clone().count() > 0, "{posted:?}");
    for heartbeat in heartbeats {
        assert_eq!(heartbeat["labels"]["operator"], Value::Null, "one for all operators");
    }
}

/// Starts loopwatch with a state directory and an Alertmanager.
fn start(plane: &ControlPlane, alertmanager: &Alertmanager) -> Fleet {
    let kubeconfig = install(plane, &plane.url);
    let settings = quick_but(json!({"stopped_after": "5s"}));
    let state = format!("--state-dir={}", plane.directory().join("state").display());
    let alerts = format!("--alertmanager=http://127.0.0.1:{}", alertmanager.port);
    let flags = ["--all-operators", "--scrape-interval=1s", &state, &alerts];
    Fleet(Sidecar::start(plane, "fleet", &kubeconfig, &settings, &flags))
}

/// The Deployment of the operator, as somebody would apply it again.
fn deployment(plane: &ControlPlane) -> Value {
    let name = WIDGETS.rsplit('/').next().unwrap_or_default();
    let path = format!("/apis/{APPS}/namespaces/{TEAM}/deployments/{name}");
    let mut deployment = plane.kube.get(&path).unwrap_or_else(|error| panic!("{error}"));
    let metadata =
        json!({"name": name, "namespace": TEAM, "labels": deployment["metadata"]["labels"]});
    (deployment["metadata"], deployment["status"]) = (metadata, Value::Null);
    deployment
}

fn name(deployment: &Value) -> &str {
    deployment["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds a container with loopwatch to the Pods.
fn add_sidecar(plane: &ControlPlane, deployment: &Value) {
    let mut deployment = deployment.clone();
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array_mut();
    containers.expect("containers").push(json!({"name": "loopwatch", "image": "loopwatch"}));
    plane.kube.apply(&deployment);
}
