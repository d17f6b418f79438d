//! The zoo's operator in Python. It has no metrics, so loopwatch judges it from outside.

use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{bed, test_after};
use crate::case::SLACK;
use loopwatch_testbed::kopf::{self, ACCOUNT, FINALIZER, KIND, KopfOperator};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::NAMESPACE;
use loopwatch_testbed::sidecar::{Sidecar, quick};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_after("kopf::from_outside", kopf::interpreter, from_outside)]
}

/// The namespace of the test.
const TEAM: &str = "gadgets";

/// A finding that is correct here: kopf may read the definitions of all operators, including that
/// of the zoo's kind without a status subresource.
const TRUE_ANYWAY: &str = "StatusSubresourceMissing";

/// A healthy operator causes no finding. When it stops, each change is unacknowledged, and each
/// deletion waits.
fn from_outside(python: PathBuf) {
    let plane = bed();
    let kube = &plane.kube;
    kopf::install(plane);
    kube.namespace(TEAM);

    let mut operator = KopfOperator::start(plane, &python, "kopf.operator", TEAM);
    let kubeconfig =
        plane.kubeconfig_of("kopf.loopwatch.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let sidecar =
        Sidecar::start(plane, "kopf.loopwatch", &kubeconfig, &quick(), &["--namespace=gadgets"]);

    sidecar.wait_watched(KIND, 1);

    // Healthy: creations, changes, a deletion, a restart, and, as a near miss, a handler that fails
    // twice.
    for name in ["one", "two", "gone"] {
        kube.zoo(KIND, TEAM, name, json!({}));
        wait_converged(&sidecar, name);
    }

    operator.fault("ReconcileFailing?name=two&attempts=2");
    for name in ["one", "two"] {
        kube.change(KIND, TEAM, name, json!({"size": 2}));
    }

    remove(kube, "gone");
    for name in ["one", "two"] {
        wait_acknowledged(kube, name, 2);
        wait_converged(&sidecar, name);
    }

    operator.cure("ReconcileFailing");
    operator.process.stop(Duration::from_secs(10));
    operator.start_again();
    pause(Duration::from_secs(2)); // longer than the threshold `settle`
    expect_only(&sidecar, &[]);

    // The operator stops: first its process hangs, then it ends.
    operator.fault("Unacknowledged");
    kube.change(KIND, TEAM, "one", json!({"size": 3}));

    let (finding, _) =
        sidecar.expect_finding(Duration::from_secs(4) + SLACK, "Unacknowledged", KIND, "one");

    assert_eq!(finding.evidence("observed_generation"), 2, "{finding}");

    operator.cure("Unacknowledged");
    sidecar.expect_cleared(SLACK, "Unacknowledged", KIND, "one");

    // A handler fails again and again, and kopf notes that in the object.
    operator.fault("ReconcileFailing?name=one");
    kube.change(KIND, TEAM, "one", json!({"size": 4}));
    let finding = sidecar.expect(Duration::from_secs(8) + SLACK, "three attempts", || {
        let open = sidecar.findings()?;
        let found = open.iter().find(|finding| finding.is("Unacknowledged", KIND, "one"));
        let several = found.filter(|finding| finding.evidence("attempts").as_u64() >= Some(3));
        several.cloned().ok_or_else(|| format!("{found:?}"))
    });

    assert_eq!(finding.evidence("last_error"), "the backend refuses the connection", "{finding}");
    let handler = finding.evidence("handler").as_str().unwrap_or_default();
    assert!(handler.starts_with("reconcile"), "{finding}");

    operator.cure("ReconcileFailing");
    sidecar.expect_cleared(SLACK, "Unacknowledged", KIND, "one");
    wait_converged(&sidecar, "one");

    operator.process.kill();
    kube.change(KIND, TEAM, "two", json!({"size": 4}));
    kube.delete(ZOO, KIND, TEAM, "one");
    sidecar.expect_finding(Duration::from_secs(4) + SLACK, "Unacknowledged", KIND, "two");

    let (stuck, _) =
        sidecar.expect_finding(Duration::from_secs(4) + SLACK, "FinalizerStuck", KIND, "one");

    assert_eq!(stuck.evidence("finalizers"), &json!([FINALIZER]), "{stuck}");

    operator.start_again();
    sidecar.expect_cleared(SLACK, "Unacknowledged", KIND, "two");
    sidecar.expect_cleared(SLACK, "FinalizerStuck", KIND, "one");
    expect_only(&sidecar, &["Unacknowledged", "Overdue", "FinalizerStuck"]);
}

/// Expects that loopwatch never reported another finding about the operator's objects.
fn expect_only(sidecar: &Sidecar, codes: &[&str]) {
    let mut others = sidecar.opened();
    others.retain(|(code, _)| !codes.contains(&code.as_str()) && code != TRUE_ANYWAY);

    assert_eq!(others, [], "{}", sidecar.account());
}

fn wait_converged(sidecar: &Sidecar, name: &str) {
    sidecar.expect(Duration::from_secs(20), &format!("{name} has converged"), || {
        let object = sidecar.object(KIND, TEAM, name)?;
        if object["state"] == "converged" { Ok(()) } else { Err(object.to_string()) }
    });
}

fn wait_acknowledged(kube: &Kube, name: &str, generation: u64) {
    eventually(Duration::from_secs(20), &format!("{name} is acknowledged"), || {
        let status = kube.status(KIND, TEAM, name);
        if status["observedGeneration"] == generation { Ok(()) } else { Err(status.to_string()) }
    });
}

fn remove(kube: &Kube, name: &str) {
    kube.delete(ZOO, KIND, TEAM, name);
    eventually(Duration::from_secs(20), &format!("{name} is gone"), || {
        kube.find(ZOO, KIND, TEAM, name)
            .map_or(Ok(()), |object| Err(object["metadata"].to_string()))
    });
}
