//! The requests of an operator to the API server are denied, fail, or leave an informer without
//! its list.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{UP, opened, secs, wait_converged};
use crate::bed::bed;
use crate::case::SLACK;
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::gate::{Gate, Refusal};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but, summary};
use loopwatch_testbed::wait::{eventually, pause};

/// The operator may no longer write the status of Widgets: each of its attempts is denied.
pub(super) fn rights_withdrawn() {
    let (plane, namespace) = (bed(), "down-rights");
    plane.kube.namespace(namespace);
    service_account(&plane.kube, namespace);

    let mut role = plane
        .kube
        .find(RBAC, "ClusterRole", "", "widget-operator")
        .expect("the role of the zoo's operator");

    role["metadata"] = json!({"name": namespace});
    plane.kube.apply(&role);
    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));

    let account = plane.kubeconfig_of("down-rights.kubeconfig", &plane.url, namespace, ACCOUNT);
    let (operator, sidecar) =
        scraped(namespace, &account, &account, quick_but(json!({"api_window": "3m"})));
    plane.kube.zoo("Widget", namespace, "one", json!({}));
    wait_converged(&sidecar, "Widget", namespace, "one");

    assert_eq!(opened(&sidecar), [], "{}", sidecar.account());

    expect_rights(&account);

    for rule in role["rules"].as_array_mut().into_iter().flatten() {
        rule["resources"]
            .as_array_mut()
            .into_iter()
            .for_each(|list| list.retain(|name| *name != "widgets/status"));
    }

    plane.kube.apply(&role);
    let mut size = 1;
    let found = sidecar.expect(secs(90), "ApiForbidden is found", || {
        size += 1;
        plane.kube.change("Widget", namespace, "one", json!({"size": size}));
        pause(secs(2));

        let findings = sidecar.findings()?;
        let found = findings.iter().find(|found| found.code() == "ApiForbidden").cloned();
        found.ok_or_else(|| summary(&findings))
    });

    assert!(found.evidence("requests").as_u64() >= Some(5), "{found}");
    assert!(sidecar.opened().iter().all(|(code, _)| code != "ApiErrors"), "{}", sidecar.account());

    drop(operator);
}

/// `loopwatch rights` says that the operator writes the status of Widgets, and that nothing shows its
/// reads.
fn expect_rights(account: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_loopwatch"))
        .args(["rights", "-o", "json", "--kubeconfig"])
        .arg(account)
        .output()
        .expect("loopwatch rights");
    let rights: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));

    let of = |verb: &str, resource: &str| {
        let mut granted = rights["granted"].as_array().into_iter().flatten();
        granted
            .find(|right| right["verb"] == verb && right["resource"] == resource)
            .map(|right| right["use"].clone())
    };
    assert_eq!(of("update", "widgets/status"), Some(json!("used")), "{rights}");
    assert_eq!(of("list", "widgets"), Some(json!("not_visible")), "{rights}");
    assert_eq!(of("get", "no-such-kind"), None, "{rights}");
}

/// The API server does not serve one of the kinds that each controller watches, so no controller
/// begins a reconcile, although objects wait. Near miss: the start of the same operator once it
/// does.
pub(super) fn informer_not_synced() {
    const CODE: &str = "InformerNotSynced";

    let (plane, namespace) = (bed(), "down-informer");
    let (gate, of_operator, account) = gated(namespace);
    let settings = quick_but(
        json!({"deadline": "10m", "phase_stuck_after": "10m", "informer_sync_within": "3s"}),
    );

    gate.refuse(Refusal { status: 404, retry_after: None, path: "/secrets" });
    plane.kube.zoo("Widget", namespace, "waits", json!({}));
    let (mut operator, sidecar) = scraped(namespace, &of_operator, &account, settings);
    let (found, _) = sidecar.expect_finding(secs(63) + SLACK, CODE, "Controller", "widget");
    assert_eq!((found.severity(), &found.0["explained_by"]), ("warning", &Value::Null), "{found}");
    assert!(found.evidence("queue_depth").as_u64() >= Some(1), "{found}");

    gate.open();
    sidecar.expect_cleared(secs(90), CODE, "Controller", "widget");
    wait_converged(&sidecar, "Widget", namespace, "waits");

    let before = opened(&sidecar).len();
    plane.kube.zoo("Widget", namespace, "new", json!({}));
    operator.roll();
    wait_converged(&sidecar, "Widget", namespace, "new");
    pause(secs(5));
    assert_eq!(opened(&sidecar).len(), before, "{}", sidecar.account());
}

/// Creates a namespace, a gate before the API server, and the kubeconfigs of the operator, which
/// goes through the gate, and of loopwatch.
fn gated(namespace: &str) -> (Gate, PathBuf, PathBuf) {
    let plane = bed();
    plane.kube.namespace(namespace);

    let gate = Gate::with_token(plane, &plane.kube.token(NAMESPACE, ACCOUNT));
    let kubeconfig = |file: &str, url: &str| plane.kubeconfig_of(file, url, NAMESPACE, ACCOUNT);
    let of_operator = kubeconfig(&format!("{namespace}.gate.kubeconfig"), &gate.url());
    let of_loopwatch = kubeconfig(&format!("{namespace}.kubeconfig"), &plane.url);

    (gate, of_operator, of_loopwatch)
}

/// Starts an operator without Pods, and loopwatch, which knows the address of its metrics.
fn scraped(
    namespace: &str,
    of_operator: &Path,
    of_loopwatch: &Path,
    settings: Value,
) -> (Operator, Sidecar) {
    let kubeconfig = format!("--kubeconfig={}", of_operator.display());
    // The last --kubeconfig counts.
    let flags = [
        "--ready-after=200ms",
        "--wait-for-pods=false",
        "--cache-sync-timeout=10m",
        kubeconfig.as_str(),
    ];
    let operator = Operator::start(bed(), &format!("{namespace}.operator"), namespace, &flags);
    let flags = [
        format!("--namespace={namespace}"),
        format!("--scrape=http://{}/metrics", operator.metrics),
        "--scrape-interval=1s".to_owned(),
    ];

    let name = format!("{namespace}.loopwatch");
    let flags = flags.each_ref().map(String::as_str);
    let sidecar = Sidecar::start(bed(), &name, of_loopwatch, &settings, &flags);
    sidecar.wait_watched("Widget", 1);
    sidecar.expect(secs(30), "the operator is up", || match sidecar.metric(UP)? {
        1.0 => Ok(()),
        other => Err(other.to_string()),
    });

    (operator, sidecar)
}

/// The API server refuses all requests of the operator for a while, during which objects change.
/// Then the operator catches up, and loopwatch says how long that took.
pub(super) fn api_fails_and_recovers() {
    let (plane, namespace) = (bed(), "down-api");
    let (gate, of_operator, account) = gated(namespace);
    let settings = quick_but(json!({"api_window": "1m"}));
    let (operator, sidecar) = scraped(namespace, &of_operator, &account, settings);
    let names: Vec<String> = (0..5).map(|index| format!("widget-{index}")).collect();

    names.iter().for_each(|name| drop(plane.kube.zoo("Widget", namespace, name, json!({}))));
    names.iter().for_each(|name| wait_converged(&sidecar, "Widget", namespace, name));

    // A single refusal is not a fault.
    gate.refuse(Refusal { status: 503, retry_after: None, path: "widgets/widget-0/status" });
    plane.kube.change("Widget", namespace, "widget-0", json!({"size": 2}));
    eventually(secs(10), "the gate refuses", || {
        if gate.refused() > 0 { Ok(()) } else { Err(String::new()) }
    });
    gate.open();
    wait_converged(&sidecar, "Widget", namespace, "widget-0");
    pause(secs(3));

    let opened: Vec<_> =
        opened(&sidecar).into_iter().filter(|(code, _)| code != "ReconcileErrors").collect();

    assert_eq!(opened, [], "{}", sidecar.account()); // three errors in a short time are information

    gate.refuse(Refusal { status: 503, retry_after: None, path: "/" });
    gate.end_streams();
    names
        .iter()
        .for_each(|name| drop(plane.kube.change("Widget", namespace, name, json!({"size": 3}))));

    // Without a Pod, the operator has the name of its instance.
    let name = operator.metrics.to_string();
    sidecar.expect(secs(30), "most requests fail", || {
        let findings = sidecar.findings()?;
        let found = findings.iter().find(|found| found.is("ApiErrors", "Operator", &name));
        found
            .filter(|found| found.severity() == "critical")
            .map(|_| ())
            .ok_or_else(|| summary(&findings))
    });

    sidecar.expect_finding(secs(4) + SLACK, "Unacknowledged", "Widget", "widget-1");
    pause(secs(32)); // a shorter fault counts as a broken connection
    gate.open();

    let over = std::time::Instant::now();
    let series = "loopwatch_operator_recovery_seconds";
    let took = sidecar.expect(secs(180), "the recovery is measured", || sidecar.metric(series));
    let elapsed = over.elapsed().as_secs_f64();

    // The time counts from the last failed request, and the operator retries less and less often.
    assert!(
        took > 0.0 && took <= elapsed + 32.0,
        "the recovery took {took} s, {elapsed:.0} s after the fault"
    );

    for name in &names {
        wait_converged(&sidecar, "Widget", namespace, name);
    }

    sidecar.expect_cleared(secs(60), "ApiErrors", "Operator", &name);
    drop(operator);
}
