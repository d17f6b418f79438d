use std::net::IpAddr;

use loopwatch_model::observation::{ContainerEnd, ContainerView, Revision};
use loopwatch_model::time::Timestamp;
use serde_json::{Value, json};

use super::workload::Workload;
use super::*;
use crate::sources::api_server::WatchSink as _;

mod ports; // which ports may get the token
mod reader; // what a reader observes, by its permissions

/// A Pod of the Deployment `op` with loopwatch as a native sidecar, in the form in which an API
/// server shows it. The kernel has killed its operator once.
const REAL: &str = include_str!("tests/pod.json");

fn real() -> Value {
    serde_json::from_str(REAL).expect("JSON")
}

fn time(text: &str) -> Option<Timestamp> {
    Some(Timestamp::parse(text).expect("a time"))
}

fn own(name: &str) -> OwnPod {
    let revision = Revision { hash: "5f6d8c7b9d".to_owned(), ..Revision::default() };
    OwnPod {
        namespace: "op".to_owned(),
        name: name.to_owned(),
        is_told: true,
        revision,
        ..OwnPod::default()
    }
}

fn seen(pod: &Value, container: Option<&str>) -> (PodView, Option<TargetPod>) {
    let pod: PodDocument = serde_json::from_value(pod.clone()).expect("a Pod");
    let filter = PodFilter {
        namespace: pod.metadata.namespace.clone(),
        workload: WorkloadName::of_pod(&pod.metadata),
        own: Some(pod.metadata.name.clone()),
        container: container.map(str::to_owned),
    };

    let chosen = SeenPods::of(filter.see(&pod)).chosen().expect("a Pod");
    (chosen.views[0].clone(), chosen.targets.first().cloned())
}

#[test]
fn a_real_pod_is_decoded() {
    let (view, target) = seen(&real(), None);
    assert_eq!(
        (view.name.as_str(), view.own, view.phase.as_str()),
        ("op-5f6d8c7b9d-2xk4p", true, "Running")
    );
    assert_eq!((view.created, view.deleted), (time("2026-11-22T10:00:00Z"), None));

    let revision = Revision {
        hash: "5f6d8c7b9d".to_owned(),
        version: "v1.4.0".to_owned(),
        image: "registry.example.com/op:v1.4.0".to_owned(),
    };

    assert_eq!(view.revision, revision);

    let manager = ContainerView {
        name: "manager".to_owned(),
        ready: true,
        running_since: time("2026-11-22T10:05:31Z"),
        restarts: 1,
        ended: Some(ContainerEnd {
            reason: "OOMKilled".to_owned(),
            exit_code: 137,
            started: time("2026-11-22T10:00:03Z"),
            finished: time("2026-11-22T10:05:30Z"),
            ..ContainerEnd::default()
        }),
        memory_limit: Some(128 << 20),
        ..ContainerView::default()
    };

    assert_eq!(view.containers[0], manager, "the annotated container comes first");

    let names: Vec<&str> =
        view.containers.iter().map(|container| container.name.as_str()).collect();

    assert_eq!(
        names,
        ["manager", "webhook", "cache-warmer"],
        "neither loopwatch, nor proxies, nor ended containers"
    );
    assert_eq!(view.containers[1].waiting, "CrashLoopBackOff");

    let helpers: Vec<&str> = view.helpers.iter().map(|helper| helper.name.as_str()).collect();
    assert_eq!(helpers, ["kube-rbac-proxy", "istio-proxy"], "they do not run the operator");

    let target = target.expect("a target");
    assert_eq!(target.instance, "op/op-5f6d8c7b9d-2xk4p");
    assert_eq!(
        (target.own, target.ip, target.host_network),
        (true, Some(IpAddr::from([10, 244, 0, 7])), false)
    );

    let ports: Vec<(&str, &str, u16)> = target
        .ports
        .iter()
        .map(|port| (port.container.as_str(), port.name.as_str(), port.number))
        .collect();
    let expected =
        [("webhook", "", 9443), ("manager", "metrics", 8080), ("kube-rbac-proxy", "https", 8443)];

    assert_eq!(ports, expected, "no port of loopwatch, of the mesh, and no UDP");
    assert_eq!(target.container_ids[0], "4b1e", "without the name of the container runtime");
    assert_eq!(target.container_ids.len(), 2, "a container that waits has none");
}

#[test]
fn loopwatch_is_recognized_under_other_names() {
    let pod = |container: Value| {
        json!({ "metadata": { "namespace": "op", "name": "op-0" },
            "spec": { "containers": [{ "name": "a", "image": "a" }, container] } })
    };
    let names = |pod: &Value, own: Option<&str>| {
        seen(pod, own).0.containers.into_iter().map(|container| container.name).collect::<Vec<_>>()
    };
    for (container, own) in [
        (json!({ "name": "loopwatch", "image": "x" }), None),
        (json!({ "name": "lw", "image": "mirror:5000/a/loopwatch:1.2@sha256:ab" }), None),
        (
            json!({ "name": "lw", "image": "x", "ports": [{ "name": "loopwatch-http", "containerPort": 9917 }] }),
            None,
        ),
        (json!({ "name": "lw", "image": "x" }), Some("lw")),
    ] {
        assert_eq!(names(&pod(container.clone()), own), ["a"], "{container}");
    }

    for container in [
        json!({ "name": "lw", "image": "x" }),
        json!({ "name": "b", "image": "loopwatch/operator:1" }),
    ] {
        assert_eq!(names(&pod(container.clone()), None).len(), 2, "{container}");
    }
}

#[test]
fn the_first_container_runs_the_operator() {
    let first = |names: &[&str], annotated: Option<&str>| {
        let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        let annotations =
            annotated.map(|name| json!({ "kubectl.kubernetes.io/default-container": name }));
        let metadata = json!({ "namespace": "op", "name": "op-0", "annotations": annotations });
        let (view, _) =
            seen(&json!({ "metadata": metadata, "spec": { "containers": containers } }), None);

        view.containers.iter().map(|container| container.name.clone()).collect::<Vec<_>>()
    };

    assert_eq!(first(&["a", "b", "c"], Some("b")), ["b", "a", "c"]);
    assert_eq!(first(&["a", "controller", "manager"], None), ["manager", "a", "controller"]);
    assert_eq!(first(&["a", "b"], Some("loopwatch")), ["a", "b"], "no container of the operator");
    assert_eq!(first(&["kube-rbac-proxy", "x"], None), ["x"]);
    assert_eq!(
        first(&["istio-proxy"], None),
        ["istio-proxy"],
        "an operator with the name of a helper"
    );
    assert!(first(&["loopwatch"], None).is_empty());
}

#[test]
fn init_containers_that_fail_and_the_last_words_of_a_container_are_seen() {
    let ended = |message: &str| json!({ "terminated": { "exitCode": 1, "message": message } });
    let pod = |message: &str| {
        let status = |name: &str, restarts: u32| json!({ "name": name, "restartCount": restarts, "lastState": ended(message) });
        json!({
            "metadata": { "namespace": "op", "name": "op-0" },
            "spec": {
                "containers": [{ "name": "manager" }],
                "initContainers": [{ "name": "migrate" }, { "name": "download" }],
            },
            "status": {
                "reason": "Evicted",
                "containerStatuses": [status("manager", 1)],
                "initContainerStatuses": [status("migrate", 3), status("download", 0)],
            },
        })
    };
    let (view, _) = seen(&pod("connecting\nno route to host\n\n"), None);
    let helpers: Vec<(&str, u32)> =
        view.helpers.iter().map(|helper| (helper.name.as_str(), helper.restarts)).collect();

    assert_eq!((view.reason.as_str(), helpers), ("Evicted", vec![("migrate", 3)]));

    let message = |text: &str| {
        let (view, _) = seen(&pod(text), None);
        view.containers[0].ended.clone().unwrap_or_default().message
    };
    assert_eq!(message("connecting\nno route to host\n\n"), "no route to host");
    assert_eq!(message("a\npanic: nil map\n\ngoroutine 1 [running]:\nmain.go:7"), "panic: nil map");

    let rust = "thread 'main' panicked at src/main.rs:7:5:";
    assert_eq!(message(&format!("a\n{rust}\nno bucket\nnote: run with RUST_BACKTRACE=1")), rust);
    assert_eq!((message(""), message(&"ü".repeat(300)).len()), (String::new(), 200));
}

#[test]
fn numbers_beyond_their_range_do_not_hide_a_pod() {
    let ports = |port: &Value| {
        let container =
            json!({ "name": "a", "ports": [{ "containerPort": port }, { "containerPort": 8080 }] });
        let status = json!({ "podIP": "10.0.0.7", "containerStatuses": [{ "name": "a", "restartCount": port }] });
        let metadata = json!({ "namespace": "op", "name": "op-0" });
        let (_, target) = seen(
            &json!({ "metadata": metadata, "spec": { "containers": [container] }, "status": status }),
            None,
        );

        target.expect("a target").ports.iter().map(|port| port.number).collect::<Vec<_>>()
    };

    for port in [json!(0), json!(-1), json!(65_536), json!(4_294_967_296_i64), json!(null)] {
        assert_eq!(ports(&port), [8080], "{port}");
    }

    assert_eq!(ports(&json!(65_535)), [65_535, 8080]);
}

#[test]
fn addresses_that_no_pod_has_are_not_scraped() {
    for (ip, is_of_pod) in [
        ("10.244.0.7", true),
        ("fd00::7", true),
        ("", false),
        ("127.0.0.9", true),
        ("::ffff:169.254.169.254", false),
        ("0.0.0.0", false),
        ("::", false),
        ("169.254.169.254", false),
        ("fe80::1", false),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("op.example.io", false),
    ] {
        let metadata = json!({ "namespace": "op", "name": "op-0" });
        let (_, target) = seen(&json!({ "metadata": metadata, "status": { "podIP": ip } }), None);

        assert_eq!(target.expect("a target").ip.is_some(), is_of_pod, "{ip}");
    }
}

#[test]
fn a_pod_that_has_ended_is_no_target() {
    for (phase, is_target) in
        [("Pending", true), ("Running", true), ("Unknown", true), ("Failed", false)]
    {
        let mut pod = real();
        pod["status"]["phase"] = json!(phase);

        assert_eq!(seen(&pod, None).1.is_some(), is_target, "{phase}");
    }
}

#[test]
fn odd_pods_are_read() {
    for pod in [
        json!({ "metadata": { "name": "a", "labels": null, "annotations": null, "ownerReferences": null } }),
        json!({ "spec": { "containers": null, "initContainers": null },
            "status": { "containerStatuses": null, "podIP": "" } }),
        json!({ "spec": { "containers": [{ "name": "a", "ports": null, "resources": { "limits": { "memory": 5 } } }] } }),
        json!({ "spec": { "containers": [{ "name": "a", "resources": null }] }, "status": { "containerStatuses": [
            { "name": "a", "state": null, "lastState": {} }, { "name": "b", "state": { "waiting": {} } }] } }),
        json!({ "metadata": { "creationTimestamp": "yesterday" }, "status": { "podIP": "not an address" } }),
    ] {
        let (view, target) = seen(&pod, None);
        assert!(
            view.created.is_none() && target.is_some_and(|target| target.ip.is_none()),
            "{pod}"
        );
    }
}

#[test]
fn only_the_node_controller_makes_a_pod_unready_without_a_reason() {
    for (ready, reason, containers, lost) in [
        ("False", "", "True", true),
        ("True", "", "True", false),
        ("False", "ReadinessGatesNotReady", "True", false),
        ("False", "ContainersNotReady", "False", false),
        ("False", "", "False", false),
        ("Unknown", "", "True", false),
    ] {
        let conditions = json!([{ "type": "Ready", "status": ready, "reason": reason },
            { "type": "ContainersReady", "status": containers }]);
        let (view, _) = seen(&json!({ "status": { "conditions": conditions } }), None);
        assert_eq!(view.node_lost, lost, "{conditions}");
    }

    let (view, _) = seen(
        &json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }),
        None,
    );
    assert!(!view.node_lost, "nothing says that the containers are ready");
}

#[test]
fn containers_of_one_name_count_once() {
    let init = json!([{ "name": "a", "restartPolicy": "Always" }]);
    let spec = json!({ "containers": [{ "name": "a" }, { "name": "b" }, { "name": "a" }], "initContainers": init });
    let (view, _) = seen(&json!({ "spec": spec }), None);

    let names = view.containers.iter().map(|container| container.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn long_words_in_a_status_are_cut() {
    let long = "w".repeat(300);
    let state = json!({ "waiting": { "reason": long } });
    let ended = json!({ "terminated": { "reason": long } });
    let status = json!({ "phase": long, "reason": long, "containerStatuses": [
        { "name": "a", "containerID": format!("containerd://{long}"), "state": state, "lastState": ended }] });
    let spec = json!({ "containers": [{ "name": "a", "image": long.repeat(10) }] });
    let (view, target) = seen(&json!({ "spec": spec, "status": status }), None);

    let container = &view.containers[0];
    let ended = container.ended.as_ref().expect("an end");
    let words = [&view.phase, &view.reason, &container.waiting, &ended.reason];
    assert!(words.iter().all(|word| word.len() == 128), "{view:?}");
    assert_eq!(view.revision.image.len(), 1024);
    assert_eq!(target.map(|target| target.container_ids[0].len()), Some(128));
}

#[test]
fn the_owner_names_the_workload() {
    let of = |owner: Value, labels: Value| {
        let metadata = json!({ "name": "p", "labels": labels, "ownerReferences": owner });
        let WorkloadName { kind, name } =
            WorkloadName::of_pod(&serde_json::from_value(metadata).expect("metadata"));
        format!("{kind} {name}")
    };

    let owner = |kind: &str, name: &str| json!([{ "kind": "Node", "name": "n" }, { "kind": kind, "name": name, "controller": true }]);
    let hash = json!({ "pod-template-hash": "5f6d8c7b9d" });

    assert_eq!(of(owner("ReplicaSet", "my-op-5f6d8c7b9d"), hash.clone()), "Deployment my-op");
    assert_eq!(of(owner("ReplicaSet", "my-op"), json!({})), "ReplicaSet my-op");
    assert_eq!(of(owner("ReplicaSet", "by-hand"), hash), "ReplicaSet by-hand");

    let rollout = json!({ "rollouts-pod-template-hash": "5f6d8c7b9d" });
    assert_eq!(of(owner("ReplicaSet", "my-op-5f6d8c7b9d"), rollout), "Rollout my-op");
    assert_eq!(
        of(owner("StatefulSet", "my-op"), json!({ "controller-revision-hash": "my-op-1" })),
        "StatefulSet my-op"
    );
    assert_eq!(of(json!(null), json!(null)), "Pod p");
}

#[test]
fn a_rollout_is_under_way_until_the_new_pods_replace_the_old_ones() {
    let complete = json!([{ "type": "Progressing", "reason": "NewReplicaSetAvailable" }]);
    let under_way = json!([{ "type": "Progressing", "reason": "ReplicaSetUpdated" }]);
    let given_up = json!([{ "type": "Progressing", "reason": "ProgressDeadlineExceeded" }]);
    let counts = |all: u32, updated: u32, available: u32, conditions: &Value| {
        json!({ "observedGeneration": 2, "replicas": all, "updatedReplicas": updated,
            "availableReplicas": available, "conditions": conditions })
    };
    let deployment = |spec: Value, status: Value| {
        let document = json!({ "metadata": { "generation": 2 }, "spec": spec, "status": status });
        Workload::new("Deployment", &serde_json::from_value(document).expect("a Deployment")).view
    };

    let two = || json!({ "replicas": 2 });
    for (status, rolling, why) in [
        (counts(2, 2, 2, &complete), false, "done"),
        (
            json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 }),
            true,
            "unseen",
        ),
        (counts(3, 1, 2, &under_way), true, "old Pods remain"),
        (counts(2, 2, 0, &under_way), true, "the new Pods start"),
        (counts(2, 2, 0, &complete), false, "the operator has died"),
        (counts(2, 2, 0, &given_up), false, "the new revision does not start"),
        (counts(1, 1, 1, &complete), true, "more Pods to come"),
    ] {
        assert_eq!(deployment(two(), status).rolling, rolling, "{why}");
    }

    let idle = deployment(
        json!({ "replicas": 0, "strategy": { "type": "Recreate" } }),
        json!({ "observedGeneration": 2 }),
    );

    assert_eq!((idle.replicas, idle.recreates, idle.rolling), (0, true, false));
    assert_eq!(deployment(json!({}), counts(1, 1, 1, &complete)).replicas, 1, "the default");

    let rolls = |kind: &str, spec: Value, status: Value| {
        let document = json!({ "spec": spec, "status": status });
        Workload::new(kind, &serde_json::from_value(document).expect("a workload")).view.rolling
    };
    let status = || json!({ "replicas": 3, "updatedReplicas": 1 });

    assert!(rolls("StatefulSet", json!({ "replicas": 3 }), status()));

    let canary =
        json!({ "replicas": 3, "updateStrategy": { "rollingUpdate": { "partition": 2 } } });

    assert!(!rolls("StatefulSet", canary, status()));
    assert!(!rolls(
        "StatefulSet",
        json!({ "replicas": 3, "updateStrategy": { "type": "OnDelete" } }),
        status()
    ));

    let nodes = json!({ "desiredNumberScheduled": 3, "updatedNumberScheduled": 2 });
    assert!(rolls("DaemonSet", json!({}), nodes.clone()));
    assert!(!rolls("DaemonSet", json!({ "updateStrategy": { "type": "OnDelete" } }), nodes));
}

#[test]
fn a_selector_is_written_as_in_a_request() {
    let document = json!({ "spec": { "selector": { "matchLabels": { "a/b": "1", "c": "" }, "matchExpressions": [
        { "key": "d", "operator": "In", "values": ["x", "y"] }, { "key": "e", "operator": "NotIn", "values": ["z"] },
        { "key": "f", "operator": "Exists" }, { "key": "g", "operator": "DoesNotExist", "values": null }] } } });
    let workload =
        Workload::new("Deployment", &serde_json::from_value(document).expect("a Deployment"));

    assert_eq!(workload.labels, "a/b=1,c=,d in (x,y),e notin (z),f,!g");
}

#[test]
fn pods_that_were_evicted_do_not_hide_the_one_that_runs() {
    let workload = WorkloadName { kind: "StatefulSet".to_owned(), name: "op".to_owned() };
    let filter = PodFilter { namespace: "op".to_owned(), workload, own: None, container: None };
    let seen = SeenPods::default();
    let mut sink = PodSink::new(filter, seen.clone(), Arc::default());
    let mut out = Vec::new();
    let bytes = |name: &str, phase: &str| {
        let owner = json!({ "kind": "StatefulSet", "name": "op", "controller": true });
        let metadata = json!({ "namespace": "op", "name": name, "resourceVersion": "7", "ownerReferences": [owner] });
        json!({ "metadata": metadata, "status": { "phase": phase } }).to_string().into_bytes()
    };

    sink.began(1, &mut out);
    for index in 0..600 {
        sink.listed(&bytes(&format!("op-{index:03}"), "Failed"), &mut out).expect("a Pod");
    }

    sink.listed(&bytes("op-runs", "Running"), &mut out).expect("a Pod");
    sink.ended(1, "9", &mut out);
    sink.applied(&bytes("op-starts", "Pending"), &mut out).expect("a Pod");

    let chosen = seen.chosen().expect("Pods");
    let names: Vec<&str> = chosen.views.iter().map(|view| view.name.as_str()).collect();

    assert_eq!((names.len(), chosen.targets.len(), chosen.left_out), (50, 2, 450));
    assert_eq!(names[47..], ["op-049", "op-runs", "op-starts"]);
}

#[test]
fn many_pods_are_cut_but_for_the_own_one() {
    let filter = PodFilter {
        namespace: "op".to_owned(),
        workload: WorkloadName { kind: "StatefulSet".to_owned(), name: "op".to_owned() },
        own: Some("op-zz".to_owned()),
        container: None,
    };

    let seen = SeenPods::default();
    let mut sink = PodSink::new(filter, seen.clone(), Arc::default());
    let mut out = Vec::new();
    let pod = |name: &str| {
        json!({ "metadata": { "namespace": "op", "name": name, "resourceVersion": "7",
            "ownerReferences": [{ "kind": "StatefulSet", "name": "op", "controller": true }] } })
    };
    let bytes = |name: &str| pod(name).to_string().into_bytes();

    sink.began(1, &mut out);
    for index in 0..70 {
        sink.listed(&bytes(&format!("op-{index:02}")), &mut out).expect("a Pod");
    }

    sink.listed(&bytes("op-zz"), &mut out).expect("a Pod");
    assert!(seen.chosen().is_none(), "the list is not complete");

    sink.ended(1, "9", &mut out);
    let chosen = seen.chosen().expect("Pods");

    assert_eq!((chosen.views.len(), chosen.left_out), (50, 21));
    assert_eq!((chosen.views[48].name.as_str(), chosen.views[49].own), ("op-48", true));

    // Pods that a list skips are not gone; those that it does not have are.
    sink.began(2, &mut out);
    sink.skipped();
    sink.ended(2, "9", &mut out);

    assert_eq!(seen.chosen().expect("Pods").left_out, 21);

    sink.began(3, &mut out);
    sink.listed(&bytes("op-01"), &mut out).expect("a Pod");
    sink.ended(3, "9", &mut out);

    assert_eq!(seen.chosen().expect("Pods").views.len(), 1);

    sink.applied(&bytes("op-02"), &mut out).expect("a Pod");
    sink.deleted(&bytes("op-01"), &mut out).expect("a Pod");

    assert_eq!(seen.chosen().expect("Pods").views[0].name, "op-02");
    assert!(out.is_empty());
}
