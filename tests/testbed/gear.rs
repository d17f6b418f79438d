//! The zoo's operator in Java, built with Maven. Its framework is the Java Operator SDK, with the metrics that the SDK recommends.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::binaries::{Missing, cache, fingerprint, once, sweep};
use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::kube::{ZOO, path};
use super::operator::NAMESPACE;
use super::wait::eventually;
use super::{http, ports, repository};

/// Its kind.
pub const KIND: &str = "Gear";

/// Its account.
pub const ACCOUNT: &str = "gear-operator";

/// Finds the operator with its libraries, or builds it into the cache of built programs. Returns the folder.
///
/// # Errors
/// Names the missing program and the remedy.
pub fn build() -> Result<PathBuf, Missing> {
    let sources = repository("tests/zoo/gear-operator");
    let is_source = |name: &str| name == "pom.xml" || name.ends_with(".java");
    let folder = cache()?.join("gear");
    let built = once(&folder.join(format!("{:016x}", fingerprint(&sources, is_source)?)), |out| {
        eprintln!(
            "test bed: building the gear-operator once, which takes a minute or two, with libraries from Maven Central"
        );
        maven(&sources.join("pom.xml"), out)
    })?;
    sweep(&folder, &built);
    Ok(built)
}

fn maven(pom: &Path, out: &Path) -> Result<(), Missing> {
    let help = "install a JDK 17 or later and Maven (on Debian: apt-get install maven), with access to Maven Central";
    let said = |error: &dyn fmt::Display| Missing::Java(format!("cannot build the gear-operator: {error}; {help}"));
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet", "--file"]).arg(pom).arg(format!("-Dbuild.folder={}", out.display()));
    let answer =
        command.args(["-DskipTests", "package"]).stdin(Stdio::null()).output().map_err(|error| said(&error))?;
    match answer.status.success() {
        true => Ok(()),
        false => Err(said(&String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).trim())),
    }
}

/// Installs its kind and its account.
pub fn install(plane: &ControlPlane) {
    let config = "tests/zoo/gear-operator/config";
    for file in ["crd/gears", "rbac/service_account", "rbac/role", "rbac/role_binding"] {
        plane.kube.apply_file(&format!("{config}/{file}.yaml"), NAMESPACE);
    }
    eventually(Duration::from_secs(20), "Gear is served", || plane.kube.get(&path(ZOO, KIND, "", "")));
}

/// Starts it for a namespace with one worker, and waits until it runs. Returns the process, and the port of its faults.
pub fn start(plane: &ControlPlane, built: &Path, name: &str, namespace: &str, metrics: SocketAddr) -> (Process, u16) {
    let kubeconfig = plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
    let faults = ports::free();
    let classes = built.display();
    let mut process = Program::new(name, "java", plane.directory())
        .env("KUBECONFIG", kubeconfig)
        .arg("-Xmx256m") // as in a container with a limit of half a gibibyte
        .arg("-cp")
        .arg(format!("{classes}/classes:{classes}/lib/*"))
        .arg("dev.loopwatch.zoo.GearOperator")
        .arg(format!("--namespace={namespace}"))
        .arg(format!("--metrics-listen={metrics}"))
        .arg(format!("--fault-listen=127.0.0.1:{faults}"))
        .args(["--ready-after=0.2", "--concurrency=1"])
        .start();
    eventually(Duration::from_secs(60), "the gear-operator runs", || {
        process.assert_running();
        http::get(faults, "/faults")
    });
    (process, faults)
}
