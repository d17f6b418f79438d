//! The controller of cert-manager as a process: a published operator, unchanged.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::controlplane::ControlPlane;
use super::guard::Program;
use super::kube::{Kube, documents, path};
use super::ports;
use super::published::Replica;
use super::wait::eventually;

/// The namespace of its account, its lease and the Secrets of its cluster issuers, and the name of
/// all its parts.
pub const NAMESPACE: &str = "cert-manager";

/// The API version of its main kinds.
pub const API: &str = "cert-manager.io/v1";

/// The controller's kinds, with their API versions.
pub const KINDS: [(&str, &str); 6] = [
    (API, "Certificate"),
    (API, "CertificateRequest"),
    (API, "Issuer"),
    (API, "ClusterIssuer"),
    ("acme.cert-manager.io/v1", "Order"),
    ("acme.cert-manager.io/v1", "Challenge"),
];

/// The command that runs another one with a host name of its own.
const OWN_HOST: [&str; 4] = ["unshare", "--user", "--map-root-user", "--uts"];

/// Installs its definitions, and its account with the permissions of its Helm chart.
pub fn install(plane: &ControlPlane) {
    let kube = &plane.kube;
    kube.namespace(NAMESPACE);
    kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAMESPACE, "namespace": NAMESPACE}}));

    for object in manifests(plane) {
        kube.apply(&object);
    }

    for (api, kind) in KINDS {
        eventually(Duration::from_secs(20), &format!("{kind} is served"), || {
            kube.get(&path(api, kind, "", ""))
        });
    }
}

/// Its definitions and permissions.
pub(crate) fn manifests(plane: &ControlPlane) -> Vec<Value> {
    let file = &plane.binaries.cert_manager_templates;
    let templates =
        std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    documents(&render(&templates))
}

/// Renders the templates of the chart as `helm install cert-manager --namespace cert-manager` does:
/// names, namespaces and the account are all `cert-manager`. Expressions on lines of their own only
/// add labels, or depend on defaults.
fn render(templates: &str) -> String {
    let mut text = String::new();
    for line in templates.lines().filter(|line| !line.trim_start().starts_with("{{")) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            text += before;
            text += NAMESPACE;
            rest = after.split_once("}}").map_or("", |(_, after)| after);
        }

        text += rest;
        text.push('\n');
    }

    text
}

/// Returns whether several replicas can run on this machine. cert-manager's leader election tells
/// replicas apart by their host names only, so each needs a host name of its own.
pub fn can_replicate() -> bool {
    let mut command = Command::new(OWN_HOST[0]);
    command.args(&OWN_HOST[1..]).args(["hostname", "replica"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the host name of the replica that leads.
pub fn leader(kube: &Kube) -> Result<String, String> {
    let lease = kube
        .find("coordination.k8s.io/v1", "Lease", NAMESPACE, "cert-manager-controller")
        .unwrap_or_default();
    let holder =
        lease["spec"]["holderIdentity"].as_str().and_then(|holder| holder.split_once("-external-"));

    holder
        .map(|(host, _)| host.to_owned())
        .ok_or_else(|| format!("nobody leads: {}", lease["spec"]))
}

/// Starts a replica, with the host name `host` if replicas can have names, and waits until it
/// serves its metrics.
pub fn start(plane: &ControlPlane, host: &str) -> Replica {
    let kubeconfig =
        plane.kubeconfig_of(&format!("{host}.kubeconfig"), &plane.url, NAMESPACE, NAMESPACE);
    let metrics = ports::free();
    let program = match can_replicate() {
        false => Program::new(host, &plane.binaries.cert_manager, plane.directory()),
        true => Program::new(host, OWN_HOST[0], plane.directory())
            .args(&OWN_HOST[1..])
            .args(["sh", "-c", "hostname \"$0\" && exec \"$@\"", host])
            .arg(&plane.binaries.cert_manager),
    };

    let program = program
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--cluster-resource-namespace={NAMESPACE}"))
        .arg(format!("--leader-election-namespace={NAMESPACE}"))
        .args(["--leader-election-lease-duration=15s", "--leader-election-renew-deadline=10s"])
        .arg("--leader-election-retry-period=2s")
        // The default limits would slow down busy tests.
        .args(["--kube-api-qps=100", "--kube-api-burst=200"])
        .arg(format!("--metrics-listen-address=127.0.0.1:{metrics}"));

    Replica::start(&program, metrics)
}
