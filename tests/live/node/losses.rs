//! A Pod that loses its place, or its memory.

use std::time::Duration;

use serde_json::json;

use super::{LOOPWATCH, MANAGER, NAMESPACE, Zoo, expect_kept};
use loopwatch_testbed::wait::pause;

/// A Pod that somebody evicts, as `kubectl drain` does, is replaced at once.
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
    zoo.started(&beside.pod).expect_ready();
    pause(Duration::from_secs(30)); // longer than `operator_down_after`

    // True anyway: only who has a token may read the metrics, and loopwatch elsewhere sends it to no Pod.
    let true_anyway = ["StatusSubresourceMissing", "SourceFailing"];
    let mut opened = outside.opened();
    opened.retain(|(code, _)| !true_anyway.contains(&code.as_str()));
    assert!(opened.is_empty(), "{opened:?}");
    expect_kept(&outside);
    zoo.delete_widgets();
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
