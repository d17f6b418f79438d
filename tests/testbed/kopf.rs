//! The zoo's operator in Python: a process with its own account, without metrics.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use siphasher::sip::SipHasher13;

use super::binaries::{Missing, cache, once, sweep};
use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::operator::{NAMESPACE, install_zoo, switch_off, switch_on};
use super::wait::eventually;
use super::{http, ports, repository};

/// The kind that the operator reconciles.
pub const KIND: &str = "Gadget";

/// The operator's service account.
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

/// Finds the Python interpreter with the operator's packages, or installs these in the cache of
/// built programs.
///
/// # Errors
/// Names the missing program and the remedy.
pub fn interpreter() -> Result<PathBuf, Missing> {
    let requirements = repository("tests/zoo/kopf-operator/requirements.txt");
    let pinned = fs::read(&requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let mut hash = SipHasher13::new();

    hash.write(&pinned);
    let folder = cache()?.join("kopf");
    let environment = once(&folder.join(format!("{:016x}", hash.finish())), |out| {
        eprintln!("test bed: installing kopf from PyPI once, which takes a few seconds");
        python("python3".as_ref(), &["-m".as_ref(), "venv".as_ref(), out.as_ref()])?;

        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--requirement",
        ];

        let arguments: Vec<&OsStr> =
            pip.iter().map(OsStr::new).chain([requirements.as_os_str()]).collect();
        python(&out.join("bin/python"), &arguments)
    })?;

    sweep(&folder, &environment);
    Ok(environment.join("bin/python"))
}

/// Runs Python.
fn python(interpreter: &Path, arguments: &[&OsStr]) -> Result<(), Missing> {
    let help = "install Python 3.10 or later with venv and pip (on Debian: apt-get install python3-venv), with access to PyPI";
    let said =
        |error: &dyn fmt::Display| Missing::Python(format!("cannot install kopf: {error}; {help}"));
    let answer = Command::new(interpreter).args(arguments).stdin(Stdio::null()).output();
    let answer =
        answer.map_err(|error| said(&format_args!("{}: {error}", interpreter.display())))?;

    match answer.status.success() {
        true => Ok(()),
        false => {
            Err(said(&String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).trim()))
        }
    }
}

/// Installs its kind and its account.
pub fn install(plane: &ControlPlane) {
    install_zoo(plane, "kopf-operator", KIND);
}

impl KopfOperator {
    /// Starts it for a namespace, and waits until it is healthy. `python` is the interpreter with
    /// its packages.
    pub fn start(plane: &ControlPlane, python: &Path, name: &str, namespace: &str) -> Self {
        let kubeconfig =
            plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
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

    /// Returns the port on which its faults are switched.
    pub fn fault_port(&self) -> u16 {
        self.faults
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
