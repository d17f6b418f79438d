//! The zoo's operator in Java, built with Maven. Its framework is the Java Operator SDK, with the
//! metrics that the SDK recommends.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::binaries::{Missing, cache, fingerprint, once, sweep};
use super::controlplane::ControlPlane;
use super::guard::Program;
use super::repository;

/// The kind that the operator reconciles.
pub const KIND: &str = "Gear";

/// The operator's service account.
pub const ACCOUNT: &str = "gear-operator";

/// Finds the operator with its libraries, or builds it into the cache of built programs. Returns
/// the folder.
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
    let said = |error: &dyn fmt::Display| {
        Missing::Java(format!("cannot build the gear-operator: {error}; {help}"))
    };
    let mut command = Command::new("mvn");

    command
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(pom)
        .arg(format!("-Dbuild.folder={}", out.display()));
    let answer = command
        .args(["-DskipTests", "package"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| said(&error))?;
    match answer.status.success() {
        true => Ok(()),
        false => {
            Err(said(&String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).trim()))
        }
    }
}

/// Returns a command that runs the operator. The caller adds the flags. `built` is the folder with
/// its classes and libraries.
pub(crate) fn program(plane: &ControlPlane, built: &Path, name: &str) -> Program {
    let built = built.display();
    Program::new(name, "java", plane.directory())
        .arg("-Xmx1g") // as in a container with a limit
        .args([
            "-cp".to_owned(),
            format!("{built}/classes:{built}/lib/*"),
            "dev.loopwatch.zoo.GearOperator".to_owned(),
        ])
}
