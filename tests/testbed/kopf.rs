//! The zoo's operator in Python: a process with its own account, without metrics.

use std::path::Path;
use std::time::Duration;

use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::kube::{ZOO, path};
use super::operator::{NAMESPACE, switch_off, switch_on};
use super::wait::eventually;
use super::{http, ports, repository};

/// Its kind.
pub const KIND: &str = "Gadget";

/// Its account.
pub const ACCOUNT: &str = "gadget-operator";

/// The finalizer that kopf adds to each object.
pub const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// A running gadget-operator.
pub struct KopfOperator {
    /// The process.
    pub process: Process,
    faults: u16,
    health: u16,
}

/// Installs its kind and its account.
pub fn install(plane: &ControlPlane) {
    let config = "tests/zoo/kopf-operator/config";
    for file in ["crd/gadgets", "rbac/service_account", "rbac/role", "rbac/role_binding"] {
        plane.kube.apply_file(&format!("{config}/{file}.yaml"), NAMESPACE);
    }
    eventually(Duration::from_secs(20), "Gadget is served", || plane.kube.get(&path(ZOO, KIND, "", "")));
}

// === impl KopfOperator ===

impl KopfOperator {
    /// Starts it for a namespace, and waits until it is healthy. `python` is the interpreter with its packages.
    pub fn start(plane: &ControlPlane, python: &Path, name: &str, namespace: &str) -> Self {
        let kubeconfig = plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
        let [faults, health] = [(); 2].map(|()| ports::free());
        let process = Program::new(name, python, plane.directory())
            .env("KUBECONFIG", kubeconfig)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .arg(repository("tests/zoo/kopf-operator/gadget_operator.py"))
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--fault-listen=127.0.0.1:{faults}"))
            .arg(format!("--liveness=http://127.0.0.1:{health}/healthz"))
            .arg("--ready-after=0.2")
            .start();
        let mut operator = Self { process, faults, health };
        operator.wait_healthy();
        operator
    }

    /// Starts it again with the same flags after it has ended.
    pub fn start_again(&mut self) {
        self.process = self.process.program.start();
        self.wait_healthy();
    }

    /// Switches a fault on: `ReconcileFailing?name=one`.
    pub fn fault(&self, fault: &str) {
        switch_on(self.faults, fault);
    }

    /// Switches a fault off, with any selectors.
    pub fn cure(&self, fault: &str) {
        switch_off(self.faults, fault);
    }

    fn wait_healthy(&mut self) {
        let Self { process, faults, health } = self;
        eventually(Duration::from_secs(40), "the gadget-operator is healthy", || {
            process.assert_running();
            http::get(*health, "/healthz")?;
            http::get(*faults, "/faults")
        });
    }
}
