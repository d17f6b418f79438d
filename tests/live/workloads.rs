//! The workloads that objects own: findings about an object name those that it waits for.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::SLACK;
use crate::events::may_read_events;
use loopwatch_testbed::kube::{Kube, ZOO_KINDS};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("workloads::a_stuck_rollout_is_named", a_stuck_rollout_is_named),
        test("workloads::ready_but_broken", ready_but_broken),
    ]
}

/// Enough for a rollout of fake Pods on a busy machine.
const DEADLINE: Duration = Duration::from_secs(15);
/// The controller of ReplicaSets tries again after longer and longer waits.
const PATIENCE: Duration = Duration::from_secs(150);

/// A Deployment of a Widget gets a Pod that no node fits, and the operator waits for it. Another
/// Widget rolls out meanwhile, and loopwatch reports nothing about it.
fn a_stuck_rollout_is_named() {
    let (plane, namespace) = (bed(), "stuck-rollout");
    let kube = &plane.kube;
    kube.namespace(namespace);

    let operator =
        Operator::start(plane, "stuck-rollout.operator", namespace, &["--ready-after=200ms"]);
    may_read_events(kube, namespace);
    let kubeconfig =
        plane.kubeconfig_of("stuck-rollout.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let settings =
        quick_but(json!({"deadline": "15s", "regressed_after": "15s", "phase_stuck_after": "40s"}));
    let scope = format!("--namespace={namespace}");
    let sidecar =
        Sidecar::start(plane, "stuck-rollout.loopwatch", &kubeconfig, &settings, &[&scope]);

    sidecar.wait_synced(ZOO_KINDS.len());
    let in_state = |kind: &str, name: &str, state: &str| {
        sidecar.expect(Duration::from_secs(60), &format!("{kind} {name} is {state}"), || {
            let object = sidecar.object(kind, namespace, name)?;
            if object["state"] == state { Ok(object) } else { Err(object.to_string()) }
        })
    };

    for name in ["stuck", "healthy"] {
        kube.zoo("Widget", namespace, name, json!({}));
        in_state("Widget", name, "converged");
        in_state("Deployment", &format!("widget-{name}"), "converged");
    }

    let selector = |node: Value| {
        let template = json!({"spec": {"nodeSelector": {"example.io/node": node}}});
        let spec = json!({"progressDeadlineSeconds": 5, "template": template});
        kube.patch("apps/v1", "Deployment", namespace, "widget-stuck", &json!({"spec": spec}));
    };

    selector(json!("nowhere"));
    for name in ["stuck", "healthy"] {
        kube.change(
            "Widget",
            namespace,
            name,
            json!({"image": "registry.k8s.io/pause:3.9", "replicas": 2}),
        );
    }

    sidecar.expect_finding(DEADLINE + SLACK, "Overdue", "Widget", "stuck");

    // Its Deployment may exceed its own deadline a moment later.
    let named =
        "Deployment stuck-rollout/widget-stuck: Progressing=False (ProgressDeadlineExceeded)";
    sidecar.expect(SLACK, "the finding names the Deployment", || {
        let (finding, _) = sidecar.expect_finding(SLACK, "Overdue", "Widget", "stuck");
        let waits_for = finding.evidence("waits_for");
        if *waits_for == json!([named]) { Ok(()) } else { Err(finding.to_string()) }
    });
    in_state("Deployment", "widget-stuck", "failed");

    in_state("Deployment", "widget-healthy", "converged");
    in_state("Widget", "healthy", "converged");

    selector(Value::Null);
    sidecar.expect_cleared(SLACK + SLACK, "Overdue", "Widget", "stuck");
    in_state("Deployment", "widget-stuck", "converged");

    // The operator itself warns when an object becomes degraded, and not when it is ready.
    operator.fault("Regressed?kind=Widget&name=healthy");
    sidecar.expect_finding(DEADLINE + SLACK, "Regressed", "Widget", "healthy");
    expect_warning(&sidecar, "Regressed", "healthy", "BackendLost: the backend went away");
    operator.cure("Regressed");
    sidecar.expect_cleared(SLACK, "Regressed", "Widget", "healthy");

    // A quota refuses the Pods of a new Deployment. Warnings about it are evidence; those about
    // other Deployments are not.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace}, "spec": {"hard": {"pods": "0"}}});
    kube.apply(&quota);
    kube.zoo("Widget", namespace, "refused", json!({}));
    sidecar.expect_finding(DEADLINE + SLACK, "Overdue", "Widget", "refused");
    warn(kube, namespace, "widget-healthy", "Unrelated", "someone else's trouble");
    warn(kube, namespace, "widget-refused", "QuotaReached", "no more Pods");
    expect_warning(&sidecar, "Overdue", "refused", "QuotaReached: no more Pods");

    kube.delete("v1", "ResourceQuota", namespace, "none");
    sidecar.expect_cleared(PATIENCE, "Overdue", "Widget", "refused");

    let subject = format!("Widget {namespace}/stuck");
    let expected = [("Regressed", "healthy"), ("Overdue", "refused"), ("PhaseStuck", "refused")]
        .map(|(code, name)| (code.to_owned(), format!("Widget {namespace}/{name}")));
    let others: Vec<_> = sidecar
        .opened()
        .into_iter()
        .filter(|found| found.1 != subject && !expected.contains(found))
        .collect();

    assert!(others.is_empty(), "{others:?}\n{}", sidecar.account());
}

/// Writes a Warning about a Deployment, as its controller does.
fn warn(kube: &Kube, namespace: &str, name: &str, reason: &str, message: &str) {
    let about = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name});
    kube.create_as(
        "test",
        &json!({"apiVersion": "v1", "kind": "Event", "involvedObject": about,
        "metadata": {"name": format!("about-{name}"), "namespace": namespace}, "type": "Warning",
        "reason": reason, "message": message, "count": 1, "source": {"component": "test"}}),
    );
}

fn expect_warning(sidecar: &Sidecar, code: &str, name: &str, warning: &str) {
    sidecar.expect(SLACK, &format!("{code} shows the Warning {warning}"), || {
        let (finding, _) = sidecar.expect_finding(SLACK, code, "Widget", name);
        if *finding.evidence("last_warning") == warning { Ok(()) } else { Err(finding.to_string()) }
    });
}

/// The Deployment of a Widget loses its Pod, and the operator does not look. Another one is healthy all the
/// time, and a third one breaks as well, but its operator says so.
fn ready_but_broken() {
    let (plane, namespace) = (bed(), "ready-but-broken");
    let kube = &plane.kube;
    kube.namespace(namespace);

    let operator =
        Operator::start(plane, "ready-but-broken.operator", namespace, &["--ready-after=200ms"]);
    let kubeconfig =
        plane.kubeconfig_of("ready-but-broken.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let settings = quick_but(json!({"broken_after": "6s", "deadline": "8s"}));
    let scope = format!("--namespace={namespace}");
    let sidecar =
        Sidecar::start(plane, "ready-but-broken.loopwatch", &kubeconfig, &settings, &[&scope]);
    sidecar.wait_synced(ZOO_KINDS.len());

    for name in ["target", "healthy", "honest"] {
        kube.zoo("Widget", namespace, name, json!({}));
        sidecar.expect(Duration::from_secs(60), &format!("{name} has converged"), || {
            let states = [("Widget", name.to_owned()), ("Deployment", format!("widget-{name}"))]
                .map(|(kind, name)| sidecar.object(kind, namespace, &name));
            match states {
                [Ok(owner), Ok(child)]
                    if owner["state"] == "converged" && child["state"] == "converged" =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        });
    }

    // With this strategy, the old Pod goes before the new one comes.
    let place = |name: &str, node: Value| {
        let template = json!({"spec": {"nodeSelector": {"example.io/node": node}}});
        let strategy = json!({"type": "Recreate", "rollingUpdate": null});
        let spec = json!({"strategy": strategy, "template": template});
        kube.patch("apps/v1", "Deployment", namespace, name, &json!({"spec": spec}));
    };
    operator.fault("ReadyButBroken?kind=Widget&name=target");
    place("widget-target", json!("nowhere"));
    place("widget-honest", json!("nowhere"));

    let (finding, _) =
        sidecar.expect_finding(DEADLINE + SLACK, "ReadyButBroken", "Widget", "target");
    let workload =
        "Deployment ready-but-broken/widget-target: status.readyReplicas=0 of spec.replicas=1";
    assert_eq!(*finding.evidence("workloads"), json!([workload]), "{finding}");
    assert_eq!(finding.evidence("says"), "Ready=True", "{finding}");

    place("widget-target", Value::Null);
    sidecar.expect_cleared(SLACK + SLACK, "ReadyButBroken", "Widget", "target");

    let found = sidecar.opened();
    let of_code: Vec<_> = found.iter().filter(|(code, _)| code == "ReadyButBroken").collect();
    assert_eq!(of_code.len(), 1, "{found:?}");
    assert!(found.iter().all(|(_, subject)| !subject.ends_with("/healthy")), "{found:?}");
}
