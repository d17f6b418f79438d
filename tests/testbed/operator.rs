//! An operator of the zoo as a process, with its own account.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::wait::eventually;
use super::{http, ports};

/// The namespace of the operator's account.
pub const NAMESPACE: &str = "zoo-system";

/// The operator's account.
pub const ACCOUNT: &str = "widget-operator";

/// A running widget-operator.
pub struct Operator {
    /// The process.
    pub process: Process,
    faults: u16,
    health: u16,
    /// Where it serves its metrics, over plain HTTP unless a flag says otherwise.
    pub metrics: SocketAddr,
    /// Where it serves its profiles.
    pub pprof: SocketAddr,
}

/// Installs the zoo's kinds and its operator's account in a cluster.
pub fn install(plane: &ControlPlane) {
    let zoo = "tests/zoo/widget-operator/config";
    plane.kube.apply_file(&format!("{zoo}/manager/namespace.yaml"), "");
    for file in [
        "service_account",
        "role",
        "role_binding",
        "leader_election_role",
        "leader_election_role_binding",
    ] {
        plane.kube.apply_file(&format!("{zoo}/rbac/{file}.yaml"), NAMESPACE);
    }

    for file in ["auth_role", "auth_role_binding", "reader_role"] {
        plane.kube.apply_file(&format!("{zoo}/metrics/{file}.yaml"), NAMESPACE);
    }

    for kind in super::kube::ZOO_KINDS {
        plane.kube.apply_file(&format!("{zoo}/crd/{}.yaml", super::kube::plural(kind)), "");
    }

    for kind in super::kube::ZOO_KINDS {
        eventually(Duration::from_secs(20), &format!("{kind} is served"), || {
            plane.kube.get(&super::kube::path(super::kube::ZOO, kind, "", ""))
        });
    }
}

/// Installs the kind and the account of another operator of the zoo, which is in this folder.
pub(crate) fn install_zoo(plane: &ControlPlane, folder: &str, kind: &str) {
    let config = format!("tests/zoo/{folder}/config");
    let definition = format!("crd/{}", super::kube::plural(kind));
    for file in [definition.as_str(), "rbac/service_account", "rbac/role", "rbac/role_binding"] {
        plane.kube.apply_file(&format!("{config}/{file}.yaml"), NAMESPACE);
    }

    eventually(Duration::from_secs(20), &format!("{kind} is served"), || {
        plane.kube.get(&super::kube::path(super::kube::ZOO, kind, "", ""))
    });
}

impl Operator {
    /// Starts an operator for `namespace` with additional flags, and waits until it is ready.
    pub fn start(plane: &ControlPlane, name: &str, namespace: &str, flags: &[&str]) -> Self {
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        Self::start_at(plane, name, namespace, metrics, flags)
    }

    /// Like [`Operator::start`], with the address of its metrics. Its profiles have the same
    /// address, and another port.
    pub fn start_at(
        plane: &ControlPlane,
        name: &str,
        namespace: &str,
        metrics: SocketAddr,
        flags: &[&str],
    ) -> Self {
        Self::launch(plane, name, namespace, metrics, flags, None)
    }

    /// Like [`Operator::start`], with a limit that the runtime keeps, such as `200MiB`.
    pub fn start_limited(
        plane: &ControlPlane,
        name: &str,
        namespace: &str,
        memory: &str,
        flags: &[&str],
    ) -> Self {
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()));
        Self::launch(plane, name, namespace, metrics, flags, Some(memory))
    }

    fn launch(
        plane: &ControlPlane,
        name: &str,
        namespace: &str,
        metrics: SocketAddr,
        flags: &[&str],
        memory: Option<&str>,
    ) -> Self {
        let file = format!("{name}.kubeconfig");
        let kubeconfig = plane.kubeconfig_of(&file, &plane.url, NAMESPACE, ACCOUNT);
        let [faults, health, pprof] = [(); 3].map(|()| ports::free());
        let pprof = SocketAddr::from((metrics.ip(), pprof));
        let program = Program::new(name, &plane.binaries.widget_operator, plane.directory());
        let process = memory
            .into_iter()
            .fold(program, |program, memory| program.env("GOMEMLIMIT", memory))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--metrics-bind-address={metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--pprof-bind-address={pprof}"))
            .arg(format!("--fault-listen=127.0.0.1:{faults}"))
            .args(flags)
            .start();

        let mut operator = Self { process, faults, health, metrics, pprof };
        operator.wait_ready();
        operator
    }

    /// Kills it and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.process.kill();
        self.start_again();
    }

    /// Stops it like a rollout does, and starts it again.
    pub fn roll(&mut self) {
        self.process.stop(Duration::from_secs(20));
        self.start_again();
    }

    /// Starts it again with the same flags after it has ended.
    pub fn start_again(&mut self) {
        self.process = self.process.program.start();
        self.wait_ready();
    }

    /// Switches a fault on: `Overdue?namespace=team-a&name=one`.
    pub fn fault(&self, fault: &str) {
        switch_on(self.faults, fault);
    }

    /// Switches a fault off, with any selectors.
    pub fn cure(&self, fault: &str) {
        switch_off(self.faults, fault);
    }

    /// Returns the port on which its faults are switched.
    pub fn fault_port(&self) -> u16 {
        self.faults
    }

    /// Makes the runtime collect its garbage.
    pub fn collect_garbage(&self) {
        http::touch(self.pprof, "/debug/pprof/heap?gc=1").unwrap_or_else(|error| panic!("{error}"));
    }

    fn wait_ready(&mut self) {
        let Self { process, faults, health, .. } = self;
        eventually(Duration::from_secs(30), "the operator is ready", || {
            process.assert_running();
            http::get(*health, "/readyz")?;
            http::get(*faults, "/faults")
        });
    }
}

/// Switches a fault of an operator on: `Overdue?namespace=team-a&name=one`.
pub fn switch_on(port: u16, fault: &str) {
    switch("PUT", port, fault);
}

/// Switches a fault of an operator off, with any selectors.
pub fn switch_off(port: u16, fault: &str) {
    switch("DELETE", port, fault.split('?').next().unwrap_or_default());
}

fn switch(method: &str, port: u16, fault: &str) {
    let answer = http::request(method, port, &format!("/faults/{fault}"), &[], "");
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));

    assert_eq!(answer.status, 200, "{method} {fault}: {}", answer.body);
}
