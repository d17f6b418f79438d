//! The operator's own Pods: permissions decide how much of them a sidecar sees.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, own_account};
use loopwatch_testbed::kube::path;
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::sidecar::{Sidecar, program, quick};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test(
        "pods::permissions_decide_what_a_sidecar_sees",
        permissions_decide_what_a_sidecar_sees,
    )]
}

const NAMESPACE: &str = "own-pods";

/// A Deployment with two Pods, each with loopwatch as a native sidecar. The kubelet of the test bed
/// is fake, so the sidecar runs outside, with the environment that a Pod has.
fn permissions_decide_what_a_sidecar_sees() {
    let kube = &bed().kube;
    kube.namespace(NAMESPACE);
    own_account(kube, NAMESPACE, "zoo.loopwatch.dev", &["statuslesses"]);
    kube.apply(&deployment("v1.4.0"));

    let pods = eventually(Duration::from_secs(60), "two Pods run", || {
        let pods = kube.try_list("v1", "Pod", NAMESPACE)?;
        let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        if running == 2 { Ok(pods) } else { Err(json!(pods).to_string()) }
    });
    let pod = &pods[0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (own, hash) =
        (text(&pod["metadata"]["name"]), text(&pod["metadata"]["labels"]["pod-template-hash"]));

    assert!(!hash.is_empty(), "{pod}");

    // The account may not read Pods: the environment says who the operator is.
    let account = bed().kubeconfig_of("own-pods.kubeconfig", &bed().url, NAMESPACE, ACCOUNT);
    let environment = [
        ("POD_NAME", own.as_str()),
        ("POD_NAMESPACE", NAMESPACE),
        ("POD_TEMPLATE_HASH", hash.as_str()),
    ];
    let paths = environment.map(|(name, value)| (name, Path::new(value)));
    let sidecar = Sidecar::start_with(bed(), "own-pods.loopwatch", &account, &quick(), &[], &paths);

    let info = format!(
        r#"loopwatch_operator_info{{framework="unknown",revision="{hash}",version="",image=""}}"#
    );
    sidecar.expect(Duration::from_secs(20), "the revision is known", || sidecar.metric(&info));

    let source = sidecar.source("pods").expect("the source");
    assert!(source.to_string().contains("reader-rights"), "{source}");

    let view = record("none", &account, &environment);
    assert_eq!((&view["name"], &view["complete"]), (&json!("op"), &json!(false)), "{view}");
    assert_eq!(view["pods"][0]["revision"], json!({"hash": hash}), "{view}");

    // The account may get Pods: loopwatch reads its own one, with the end of a container.
    allow(&["get"], &[]);
    die(&own);

    let view = record("get", &account, &environment);
    assert_eq!(view["pods"].as_array().map(Vec::len), Some(1), "{view}");

    let seen = &view["pods"][0];
    assert_eq!((&seen["name"], &seen["own"]), (&json!(own), &json!(true)), "{view}");

    let revision =
        json!({"hash": hash, "version": "v1.4.0", "image": "registry.example.com/op:v1.4.0"});

    assert_eq!(seen["revision"], revision, "{view}");

    let names: Vec<&Value> =
        seen["containers"].as_array().into_iter().flatten().map(|c| &c["name"]).collect();

    assert_eq!(names, ["manager", "webhook"], "neither loopwatch nor the mesh: {view}");

    let manager = &seen["containers"][0];
    assert_eq!(
        (&manager["restarts"], &manager["memory_limit"]),
        (&json!(1), &json!(128 << 20)),
        "{view}"
    );
    assert_eq!(
        (&manager["ended"]["reason"], &manager["ended"]["exit_code"]),
        (&json!("OOMKilled"), &json!(137)),
        "{view}"
    );

    // It may list and watch Pods, and get the Deployment.
    allow(&["get", "list", "watch"], &["deployments"]);
    let view = record("all", &account, &environment);

    assert_eq!(
        (view["pods"].as_array().map(Vec::len), &view["complete"]),
        (Some(2), &json!(true)),
        "{view}"
    );
    assert_eq!(view["workload"], json!({"kind": "Deployment", "replicas": 2}), "{view}");

    // A rollout also ends loopwatch's own Pod. This sidecar outlives it, and sees the new revision
    // take over.
    let sidecar = Sidecar::start_with(bed(), "own-pods.rollout", &account, &quick(), &[], &paths);
    let runs = |image: &str| {
        sidecar.expect(Duration::from_secs(60), &format!("{image} is in charge"), || {
            let metrics = sidecar.metrics()?;
            let info: Vec<&str> = metrics
                .lines()
                .filter(|line| line.starts_with("loopwatch_operator_info{"))
                .collect();
            if info.len() == 1 && info[0].contains(image) { Ok(()) } else { Err(info.join("\n")) }
        });
    };

    runs("op:v1.4.0");
    kube.apply(&deployment("v1.5.0"));
    runs("op:v1.5.0");

    let source = sidecar.source("pods").expect("the source");
    assert_eq!((&source["up"], &source["off"]), (&json!(true), &Value::Null), "{source}");
}

/// Grants verbs on Pods, and `get` on some workloads.
fn allow(verbs: &[&str], workloads: &[&str]) {
    let kube = &bed().kube;
    let metadata = json!({"name": "own-pods", "namespace": NAMESPACE});
    let mut rules = vec![json!({"apiGroups": [""], "resources": ["pods"], "verbs": verbs})];

    if !workloads.is_empty() {
        rules.push(json!({"apiGroups": ["apps"], "resources": workloads, "verbs": ["get"]}));
    }

    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own-pods"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]}));
    pause(Duration::from_secs(1)); // the authorizer learns of it by a watch
}

/// The kernel kills the operator in a Pod, and the kubelet starts it again.
fn die(pod: &str) {
    let kube = &bed().kube;
    let path = format!("{}/status", path("v1", "Pod", NAMESPACE, pod));
    let mut statuses = kube.get(&path).expect("a Pod")["status"]["containerStatuses"].clone();
    let all = statuses.as_array_mut().expect("statuses");
    let manager = all.iter_mut().find(|status| status["name"] == "manager").expect("its status");

    manager["restartCount"] = json!(1);
    manager["lastState"] = json!({"terminated": {"reason": "OOMKilled", "exitCode": 137,
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:10:00Z"}});

    let change = json!({"status": {"containerStatuses": statuses}});
    kube.call("PATCH", &path, "application/merge-patch+json", Some(&change)).expect("a new status");
}

/// Records for a few seconds, and returns the last view of the operator.
fn record(name: &str, account: &Path, environment: &[(&str, &str)]) -> Value {
    let file = bed().directory().join(format!("own-pods.{name}.jsonl"));
    let program = program(&format!("own-pods.{name}"), bed());
    let program =
        environment.iter().fold(program, |program, (name, value)| program.env(name, *value));
    let kubeconfig = format!("--kubeconfig={}", account.display());
    let output = program.args(["record", "--for=4s", &kubeconfig, "--output"]).arg(&file).run();
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let seen = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());

    let mut views = seen.filter_map(|line| line["saw"].get("operator_seen").cloned());
    views
        .next_back()
        .unwrap_or_else(|| panic!("no view: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn deployment(version: &str) -> Value {
    let labels = json!({"app": "op", "app.kubernetes.io/version": version});
    let manager = json!({"name": "manager", "image": format!("registry.example.com/op:{version}"),
        "ports": [{"name": "metrics", "containerPort": 8080}], "resources": {"limits": {"memory": "128Mi"}}});
    let loopwatch = json!({"name": "loopwatch", "image": "registry.example.com/loopwatch:0.1.0", "restartPolicy": "Always"});
    let containers = [
        json!({"name": "webhook", "image": "webhook"}),
        manager,
        json!({"name": "istio-proxy", "image": "proxy"}),
    ];

    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op", "namespace": NAMESPACE}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "op"}}, "template": {"metadata": {"labels": labels},
        "spec": {"initContainers": [loopwatch], "containers": containers}}}})
}
