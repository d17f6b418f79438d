//! A node, or an operator, with too little memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Beside, DEPLOYMENT, LOOPWATCH, MANAGER, NAMESPACE, Zoo, expect_kept};
use loopwatch_testbed::wait::{eventually, pause};

/// A Pod that somebody evicts is replaced at once. While the kubelet evicts each new Pod, too, because the
/// machine has too little memory, the operator is down.
pub(super) fn evicted(zoo: &Zoo) {
    let beside = zoo.run(&["--wait-for-pods=false"], &[]);
    beside.expect_ready();
    let outside = zoo.outside();
    zoo.keep_a_widget(&outside);

    let kube = &zoo.node.plane.kube;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/eviction", beside.pod);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": beside.pod, "namespace": NAMESPACE}});
    let made = kube.call("POST", &path, "application/json", Some(&eviction));
    made.unwrap_or_else(|error| panic!("{error}"));
    let next = replacement(zoo, &beside.pod);
    next.expect_ready();
    pause(Duration::from_secs(30)); // longer than `operator_down_after`
    assert!(
        outside.opened().iter().all(|(code, _)| code != "OperatorDown"),
        "{:?}",
        outside.opened()
    );

    zoo.node.set_memory_pressure(true);
    eventually(Duration::from_secs(90), "the kubelet evicts the Pod", || {
        let pod = next.pod();
        if pod["status"]["reason"] == "Evicted" { Ok(()) } else { Err(pod["status"].to_string()) }
    });
    let (found, after) =
        outside.expect_finding(Duration::from_secs(120), "OperatorDown", "Operator", DEPLOYMENT);
    eprintln!("node: evicted: OperatorDown after {after:.0?}: {found}");
    expect_kept(&outside);

    zoo.node.set_memory_pressure(false);
    outside.expect_cleared(Duration::from_secs(240), "OperatorDown", "Operator", DEPLOYMENT);
    zoo.delete_widgets();
}

/// Waits for the Pod that replaces another one.
fn replacement<'a>(zoo: &'a Zoo, old: &str) -> Beside<'a> {
    let pod = eventually(Duration::from_secs(60), "another Pod has started", || {
        let pods = zoo.node.plane.kube.try_list("v1", "Pod", NAMESPACE)?;
        let has_started = |pod: &&Value| {
            let id = &pod["status"]["containerStatuses"][0]["containerID"];
            pod["metadata"]["name"] != old && id.as_str().is_some_and(|id| !id.is_empty())
        };
        let found = pods.iter().find(has_started).ok_or_else(|| json!(pods).to_string())?;
        Ok(found["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    });

    Beside { node: &zoo.node, pod }
}

/// An operator that the kernel kills again and again, but only after it has worked for a while.
pub(super) fn out_of_memory_later(zoo: &Zoo) {
    zoo.configure(json!({"startup_within": "5s", "restarts": 2}));
    let beside = zoo.run(&["--fault=OutOfMemory?size=1Gi&delay=60s"], &[]);
    let found = beside.expect("RestartLoop");
    eprintln!("node: out of memory later: {found}");

    let last = beside.status(MANAGER)["lastState"]["terminated"]["reason"].clone();
    assert_eq!(last, "OOMKilled", "{}", beside.pod());
    assert!(found.to_string().contains("OOMKilled"), "{found}");
    let findings = beside.findings().expect("findings");
    assert!(findings.iter().all(|it| it["code"] != "StartupOutOfMemory"), "{findings:?}");
    assert_eq!(beside.status(LOOPWATCH)["restartCount"], 0, "{}", beside.pod());
    zoo.configure(json!({}));
}
