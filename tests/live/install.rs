//! What users install: `deploy/` is rendered, the API server takes it, its Pods are admitted, and the account that it
//! makes can do what it is for.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::guard::Program;
use loopwatch_testbed::kube::{ZOO_KINDS, documents, plural};
use loopwatch_testbed::repository;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::eventually;

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    vec![test("install::sidecar", sidecar), test("install::standalone", standalone)]
}

/// Findings that tell of the zoo's definitions, which are what they are.
const TRUE_ANYWAY: &str = "StatusSubresourceMissing";

/// Nobody works on the objects of these tests.
fn patient() -> Value {
    quick_but(json!({"deadline": "1h", "phase_stuck_after": "1h"}))
}

/// `examples/zoo`: one line under `components:` beside the operator, and the opt-in rights to read more.
fn sidecar() {
    // Under other names than the operator that all tests share.
    let rendered = render("deploy/examples/zoo")
        .replace("zoo-system", "installed")
        .replace("widget-operator", "installed-operator");
    apply(&rendered);
    let pod = admitted("installed", "installed-operator");
    let containers = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
    let named = containers.iter().filter_map(|list| list.as_array()).flatten().any(|c| c["name"] == "loopwatch");
    assert!(named, "{pod}");
    assert!(
        pod["spec"]["containers"][0]["readinessProbe"].is_object(),
        "the operator's own probe is still there: {pod}"
    );

    let plane = bed();
    let kubeconfig = plane.kubeconfig_of("installed.kubeconfig", &plane.url, "installed", "installed-operator");
    let loopwatch = Sidecar::start(plane, "installed", &kubeconfig, &patient(), &[]);
    loopwatch.wait_synced(ZOO_KINDS.len() + 3);
    watches_the_zoo(&loopwatch, &ZOO_KINDS);
}

/// `examples/standalone`: an account of its own, with the kinds that it is given.
fn standalone() {
    let resources = ZOO_KINDS.map(plural);
    let mut rendered = documents(&render("deploy/examples/standalone"));
    let kinds = rendered
        .iter_mut()
        .find(|object| object["metadata"]["name"] == "loopwatch-kinds" && object["kind"] == "ClusterRole");
    let kinds = kinds.expect("the place for the kinds");
    kinds["rules"] =
        json!([{"apiGroups": ["zoo.loopwatch.dev"], "resources": resources, "verbs": ["get", "list", "watch"]}]);
    rendered.iter().for_each(apply_one);
    let pod = admitted("loopwatch", "loopwatch");
    assert_eq!(pod["spec"]["serviceAccountName"], "loopwatch", "{pod}");

    let plane = bed();
    let kubeconfig = plane.kubeconfig_of("standalone.kubeconfig", &plane.url, "loopwatch", "loopwatch");
    let loopwatch = Sidecar::start(plane, "standalone", &kubeconfig, &patient(), &[]);
    // Where nothing tells who owns a kind, only those that report something are of interest.
    let reporting: Vec<&str> = ZOO_KINDS.into_iter().filter(|kind| *kind != "Statusless").collect();
    loopwatch.wait_synced(reporting.len());
    watches_the_zoo(&loopwatch, &reporting);
}

/// Every kind of the zoo is a primary one, nothing is missing, and nothing is wrong but what is.
fn watches_the_zoo(loopwatch: &Sidecar, expected: &[&str]) {
    let status = loopwatch.status().unwrap_or_default();
    let kinds = status["kinds"].as_array().cloned().unwrap_or_default();
    for kind in expected {
        let found = kinds.iter().find(|k| k["kind"] == *kind);
        assert!(found.is_some_and(|k| k["role"] == "primary"), "{kind}: {status}");
    }
    assert_eq!(status["not_visible"], json!([]), "{status}");
    let no_status = "nosubresources.zoo.loopwatch.dev";
    loopwatch.expect_finding(Duration::from_secs(20), TRUE_ANYWAY, "CustomResourceDefinition", no_status);
    loopwatch.expect(Duration::from_secs(10), "every source works", || {
        let status = loopwatch.status()?;
        let sources = status["sources"].as_array().cloned().unwrap_or_default();
        let down: Vec<_> = sources.iter().filter(|source| source["up"] != true).collect();
        if down.is_empty() && sources.len() > expected.len() { Ok(()) } else { Err(json!(down).to_string()) }
    });
    // Other tests have objects with faults in namespaces of their own; here it is about what loopwatch says of itself.
    let about_itself = ["SourceFailing", "PermissionMissing", "PermissionExcess", "ConfigInvalid", "StateInconsistent"];
    let found: Vec<_> =
        loopwatch.opened().into_iter().filter(|(code, _)| about_itself.contains(&code.as_str())).collect();
    assert!(found.is_empty(), "{found:?}");
}

fn render(folder: &str) -> String {
    let plane = bed();
    let output = Program::new("kustomize", &plane.binaries.kustomize, plane.directory())
        .arg("build")
        .arg(repository(folder))
        .run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn apply(rendered: &str) {
    documents(rendered).iter().for_each(apply_one);
}

/// Applies what the API server knows; the kinds of the Prometheus Operator are not installed here. Definitions are there.
fn apply_one(object: &Value) {
    let api = object["apiVersion"].as_str().unwrap_or_default();
    if !api.starts_with("monitoring.coreos.com/") && object["kind"] != "CustomResourceDefinition" {
        bed().kube.apply(object);
    }
}

/// Waits for a Pod of a Deployment. The namespace of `base` enforces the restricted standard, so that a Pod in it keeps that.
fn admitted(namespace: &str, deployment: &str) -> Value {
    let kube = &bed().kube;
    eventually(Duration::from_secs(40), &format!("a Pod of {deployment} is admitted"), || {
        let pods = kube.try_list("v1", "Pod", namespace)?;
        let mine = |pod: &&Value| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(deployment));
        pods.iter().find(mine).cloned().ok_or_else(|| {
            let object = kube.find("apps/v1", "Deployment", namespace, deployment).unwrap_or_default();
            object["status"].to_string()
        })
    })
}
