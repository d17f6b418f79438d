//! prometheus-adapter as a process: it answers the API `external.metrics.k8s.io` from a Prometheus,
//! behind the API server's aggregation.

use std::path::Path;

use serde_json::json;

use super::controlplane::ControlPlane;
use super::external_metrics::Registration;
use super::guard::{Process, Program};
use super::ports;

/// The running adapter, which is registered at the API server until this is dropped.
pub struct PrometheusAdapter {
    _registration: Registration,
    _process: Process,
}

impl PrometheusAdapter {
    /// Starts the adapter with the text of its configuration, and waits until the API server
    /// reaches it.
    pub fn start(plane: &ControlPlane, binary: &Path, prometheus: u16, rules: &str) -> Self {
        let (folder, port) = (plane.directory(), ports::free());
        let config = folder.join("prometheus-adapter.yaml");
        std::fs::write(&config, rules).expect("our own folder");
        allow(plane);

        let kubeconfig = |flag: &str| format!("--{flag}={}", plane.kube.kubeconfig.display());
        let process = Program::new("prometheus-adapter", binary, folder)
            .arg(format!("--config={}", config.display()))
            .arg(format!("--prometheus-url=http://127.0.0.1:{prometheus}"))
            .args(["--metrics-relist-interval=5s", "--metrics-max-age=1m"])
            .args(["--bind-address=127.0.0.1", "--authentication-skip-lookup"])
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", folder.join("prometheus-adapter.certs").display()))
            .args(
                ["lister-kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
                    .map(kubeconfig),
            )
            .start();

        Self { _registration: Registration::at(plane, port), _process: process }
    }
}

/// The API server of the test bed has no client certificate for its aggregation, so its requests
/// are anonymous.
fn allow(plane: &ControlPlane) {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let metadata = json!({"name": "external-metrics-reader"});
    let rule = json!({"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]});
    let discovery = json!({"nonResourceURLs": ["/apis", "/apis/*"], "verbs": ["get"]});

    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata,
        "rules": [rule, discovery]}));
    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "external-metrics-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}]}));
}
