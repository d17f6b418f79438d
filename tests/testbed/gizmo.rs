//! The zoo's operator in Rust, with kube-rs and the metrics of its template. It has packages of its
//! own, which only its test builds.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::binaries::{Missing, cache, fingerprint, once, sweep};
use super::controlplane::ControlPlane;
use super::guard::Program;
use super::repository;

/// The kind that the operator reconciles.
pub const KIND: &str = "Gizmo";

/// The operator's service account.
pub const ACCOUNT: &str = "gizmo-operator";

/// Finds the operator, or builds it into the cache of built programs.
///
/// # Errors
/// Says why the build failed.
pub fn build() -> Result<PathBuf, Missing> {
    let sources = repository("tests/zoo/gizmo-operator");
    let is_source = |name: &str| name.starts_with("Cargo.") || name.ends_with(".rs");
    let folder = cache()?.join("gizmo");
    let built = once(&folder.join(format!("{:016x}", fingerprint(&sources, is_source)?)), |out| {
        eprintln!("test bed: building the gizmo-operator once, which takes a minute or two");
        let said =
            |error: &dyn std::fmt::Display| format!("cannot build the gizmo-operator: {error}");
        let target = folder.join("target");
        let mut cargo = Command::new("cargo");

        cargo
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(sources.join("Cargo.toml"));
        cargo.arg("--target-dir").arg(&target).stdin(Stdio::null());

        let answer = cargo.output().map_err(|error| said(&error))?;
        if !answer.status.success() {
            return Err(said(&String::from_utf8_lossy(&answer.stderr)).into());
        }

        std::fs::copy(target.join("debug/gizmo-operator"), out).map_err(|error| said(&error))?;
        Ok(())
    })?;

    sweep(&folder, &built);
    Ok(built)
}

/// Returns a command that runs the operator. The caller adds the flags.
pub(crate) fn program(plane: &ControlPlane, built: PathBuf, name: &str) -> Program {
    Program::new(name, built, plane.directory())
}
