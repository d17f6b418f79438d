//! The test bed's own parts: replicas of the zoo's operator, and the Pods that stand for them.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::kube::{Kube, write_kubeconfig};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::replicas::{LEASE_DURATION, Replicas};
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("zoo::replicas", replicas), test("zoo::secure_metrics", secure_metrics)]
}

/// A leader that is killed, one that crashes and one that flaps, as the API server shows them.
fn replicas() {
    let plane = bed();
    let namespace = "replicas";
    plane.kube.namespace(namespace);

    let mut zoo =
        Replicas::start(plane, namespace, 2, &["--ready-after=200ms", "--wait-for-pods=false"]);
    let first = zoo.wait_for_leader();
    let status = |name: &str| pod_status(&plane.kube, namespace, name);

    zoo.all[first].kill();
    zoo.all[first].pod.ended("OOMKilled", 137);
    zoo.all[first].pod.backs_off();

    let container = status(&zoo.all[first].pod.name)["containerStatuses"][0].take();
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff", "{container}");
    assert_eq!(container["lastState"]["terminated"]["reason"], "OOMKilled", "{container}");
    assert_eq!(
        (&container["ready"], &container["restartCount"]),
        (&json!(false), &json!(0)),
        "{container}"
    );

    let second = 1 - first;
    eventually(LEASE_DURATION * 4, "the standby takes over", || match zoo.leader() {
        Some(leader) if leader == second => Ok(()),
        other => Err(format!("{other:?} leads")),
    });
    zoo.all[first].restart();

    let container = status(&zoo.all[first].pod.name)["containerStatuses"][0].take();
    assert_eq!(
        (&container["ready"], &container["restartCount"]),
        (&json!(true), &json!(1)),
        "{container}"
    );

    zoo.all[second].operator.fault("Crash?delay=100ms");
    assert_eq!(zoo.all[second].wait_end(Duration::from_secs(10), true), 1);

    let container = status(&zoo.all[second].pod.name)["containerStatuses"][0].take();
    assert_eq!(container["state"]["terminated"]["reason"], "Error", "{container}");

    zoo.all[second].restart();
    zoo.wait_for_leader();

    // Out of memory, and, as the only replica that is left, a Lease that changes hands again and
    // again.
    zoo.all[second].operator.fault("OutOfMemory?size=8Mi&delay=100ms");
    assert_eq!(zoo.all[second].wait_end(Duration::from_secs(10), true), 137);

    eventually(LEASE_DURATION * 4, "the first replica leads", || match zoo.leader() {
        Some(leader) if leader == first => Ok(()),
        other => Err(format!("{other:?} leads")),
    });
    let (_, before) = zoo.lease();

    zoo.all[first].operator.fault("LeaderFlapping?period=500ms");
    eventually(Duration::from_secs(20), "the Lease flaps", || match zoo.lease() {
        (_, transitions) if transitions >= before + 3 => Ok(()),
        lease => Err(format!("{lease:?} after {before} transitions")),
    });

    let pod = zoo.all.swap_remove(second).pod;
    pod.terminate();

    let meta =
        plane.kube.find("v1", "Pod", namespace, &pod.name).unwrap_or_default()["metadata"].take();

    assert!(
        meta["deletionTimestamp"].is_string(),
        "a deleted Pod stays until the test removes it: {meta}"
    );

    pod.remove();
}

fn pod_status(kube: &Kube, namespace: &str, name: &str) -> Value {
    kube.find("v1", "Pod", namespace, name).unwrap_or_default()["status"].take()
}

/// The secure metrics answer only accounts that may get them, as those of scaffolded operators do.
fn secure_metrics() {
    let plane = bed();
    let namespace = "secure-metrics";
    plane.kube.namespace(namespace);

    let flags = ["--metrics-secure", "--ready-after=200ms", "--wait-for-pods=false"];
    let operator = Operator::start(plane, "secure-metrics.operator", namespace, &flags);
    let metrics_with = |file: &str, token: &str| {
        let file = plane.directory().join(file);
        let url = format!("https://{}", operator.metrics);
        let file = write_kubeconfig(
            file,
            &url,
            &plane.directory().join("certs/apiserver.crt"),
            token,
            namespace,
        );

        let text = std::fs::read_to_string(&file).expect("our own file");
        let mut config: Value = serde_json::from_str(&text).expect("our own file");
        config["clusters"][0]["cluster"] = json!({"server": url, "insecure-skip-tls-verify": true});
        std::fs::write(&file, config.to_string()).expect("our own file");

        Kube::new(&file)
    };

    let stranger = metrics_with("secure-metrics.stranger.kubeconfig", "nobody");
    eventually(Duration::from_secs(20), "the operator refuses an unknown token", || match stranger
        .text("/metrics")
    {
        // controller-runtime answers 500 to a token that is not valid, and 401 to a request without
        // one.
        Err(error) if error.contains("Authentication failed") || error.contains("500") => Ok(()),
        other => Err(format!("{other:?}")),
    });

    service_account(&plane.kube, namespace);

    // The operator may not even read its own metrics.
    let own = metrics_with("secure-metrics.own.kubeconfig", &plane.kube.token(NAMESPACE, ACCOUNT))
        .text("/metrics");

    assert!(
        own.as_ref().is_err_and(|error| error.contains("denied") || error.contains("403")),
        "{own:?}"
    );

    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding",
        "metadata": {"name": "secure-metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widget-operator-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
    let kube =
        metrics_with("secure-metrics.reader.kubeconfig", &plane.kube.token(namespace, ACCOUNT));

    // The operator caches a refusal for 30 s, if it asked before the binding took effect.
    let text = eventually(Duration::from_secs(60), "the account may read the metrics", || {
        kube.text("/metrics")
    });

    assert!(text.contains("controller_runtime_reconcile_total{"), "{text}");
}
