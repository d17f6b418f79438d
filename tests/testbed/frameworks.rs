//! The zoo's operators in their frameworks: the same faults, each with a process and a Pod that
//! stands for it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::accounts::reader_account_of;
use super::binaries::Missing;
use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::kopf::KopfOperator;
use super::operator::{self, NAMESPACE, Operator, switch_off, switch_on};
use super::pods::{self, StandInPod};
use super::wait::eventually;
use super::{gear, gizmo, http, kopf, ports};

/// A framework with an operator in the zoo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Framework {
    Go,
    Python,
    Java,
    Rust,
}

/// The subject of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On<'a> {
    /// One object, by its name.
    Object(&'a str),
    /// All objects.
    All,
    /// The process.
    Process,
}

/// A running operator of the zoo.
pub struct Member {
    /// Its framework.
    pub framework: Framework,
    /// The process. It has one worker.
    pub process: Process,
    /// Its Pod.
    pub pod: StandInPod,
    /// Where it serves its metrics, if it has any.
    pub metrics: SocketAddr,
    /// Where it serves its profiles, if its runtime has any.
    pprof: Option<SocketAddr>,
    namespace: String,
    faults: u16,
}

/// Installs and starts an operator with the flags that the operators in Java and Rust share, and
/// waits until it runs. Returns the process, and the port of its faults.
fn launch(
    plane: &ControlPlane,
    framework: Framework,
    program: Program,
    name: &str,
    namespace: &str,
    metrics: SocketAddr,
) -> (Process, u16) {
    let account = framework.account();
    operator::install_zoo(plane, account, framework.kind());

    let kubeconfig =
        plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, account);
    let faults = ports::free();
    let mut process = program
        .env("KUBECONFIG", kubeconfig)
        .arg(format!("--namespace={namespace}"))
        .arg(format!("--metrics-listen={metrics}"))
        .arg(format!("--fault-listen=127.0.0.1:{faults}"))
        .args(["--ready-after=0.2", "--concurrency=1"])
        .start();

    eventually(Duration::from_secs(60), &format!("the {account} runs"), || {
        process.assert_running();
        http::get(faults, "/faults")
    });

    (process, faults)
}

impl Framework {
    /// All frameworks.
    pub const ALL: [Self; 4] = [Self::Go, Self::Python, Self::Java, Self::Rust];

    /// Returns the language, in lower case.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Python => "python",
            Self::Java => "java",
            Self::Rust => "rust",
        }
    }

    /// Returns the language and the framework.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Go => "Go (controller-runtime)",
            Self::Python => "Python (kopf)",
            Self::Java => "Java (Java Operator SDK)",
            Self::Rust => "Rust (kube-rs)",
        }
    }

    /// Returns the kind of its operator.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Go => "Widget",
            Self::Python => kopf::KIND,
            Self::Java => gear::KIND,
            Self::Rust => gizmo::KIND,
        }
    }

    /// Returns the account of its operator.
    #[must_use]
    pub fn account(self) -> &'static str {
        match self {
            Self::Go => operator::ACCOUNT,
            Self::Python => kopf::ACCOUNT,
            Self::Java => gear::ACCOUNT,
            Self::Rust => gizmo::ACCOUNT,
        }
    }

    /// Reports whether its operator serves metrics.
    #[must_use]
    pub fn has_metrics(self) -> bool {
        self != Self::Python
    }

    /// Builds or installs its operator, unless that is done already.
    ///
    /// # Errors
    /// Names the missing program and the remedy.
    pub fn prepare(self) -> Result<(), Missing> {
        match self {
            Self::Go => Ok(()), // part of the bed
            Self::Python => kopf::interpreter().map(drop),
            Self::Java => gear::build().map(drop),
            Self::Rust => gizmo::build().map(drop),
        }
    }
}

impl Member {
    /// Installs and starts the operator of a framework for a namespace, in the same namespace.
    pub fn start(plane: &ControlPlane, framework: Framework, namespace: &str) -> Self {
        let name = format!("{namespace}.operator");
        let (address, port) = (Ipv4Addr::new(127, 0, 0, 2), ports::free());
        let at = SocketAddr::from((address, port));
        let built = |found: Result<_, Missing>| found.unwrap_or_else(|missing| panic!("{missing}"));

        plane.kube.namespace(namespace);
        let mut pprof = None;
        let (process, faults) = match framework {
            Framework::Go => {
                let flags = [
                    "--ready-after=200ms",
                    "--wait-for-pods=false",
                    "--autoscale-every=0",
                    "--concurrency=1",
                ];

                let operator = Operator::start_at(plane, &name, namespace, at, &flags);
                let faults = operator.fault_port();
                pprof = Some(operator.pprof);
                (operator.process, faults)
            }
            Framework::Python => {
                kopf::install(plane);
                let operator =
                    KopfOperator::start(plane, &built(kopf::interpreter()), &name, namespace);
                let faults = operator.fault_port();

                (operator.process, faults)
            }
            Framework::Java => launch(
                plane,
                framework,
                gear::program(plane, &built(gear::build()), &name),
                &name,
                namespace,
                at,
            ),
            Framework::Rust => launch(
                plane,
                framework,
                gizmo::program(plane, built(gizmo::build()), &name),
                &name,
                namespace,
                at,
            ),
        };

        reader_account_of(&plane.kube, namespace, framework.account());
        let metrics = framework.has_metrics().then_some(port);
        let pod = pods::deploy_for(&plane.kube, namespace, framework.account(), address, metrics);
        Self {
            framework,
            process,
            pod,
            metrics: at,
            pprof,
            namespace: namespace.to_owned(),
            faults,
        }
    }

    /// Switches a fault on: `ReconcileFailing?attempts=3`.
    pub fn fault(&self, fault: &str, on: On<'_>) {
        let mut fault = fault.to_owned();
        let mut and = |selector: String| {
            let separator = if fault.contains('?') { '&' } else { '?' };
            fault = format!("{fault}{separator}{selector}");
        };
        if on != On::Process {
            if self.framework == Framework::Go {
                and(format!("kind={}", self.framework.kind()));
            }
            and(format!("namespace={}", self.namespace));
        }

        if let On::Object(name) = on {
            and(format!("name={name}"));
        }

        switch_on(self.faults, &fault);
    }

    /// Makes the runtime collect its garbage, if that is possible. Go does so every two minutes.
    pub fn collect_garbage(&self) {
        if let Some(at) = self.pprof {
            http::touch(at, "/debug/pprof/heap?gc=1").unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Switches a fault off.
    pub fn cure(&self, fault: &str) {
        switch_off(self.faults, fault);
    }
}
