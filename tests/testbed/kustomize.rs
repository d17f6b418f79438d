//! kustomize, which renders manifests as users do.

use std::path::Path;

use super::controlplane::ControlPlane;
use super::guard::Program;
use super::repository;

/// Renders the kustomization of a folder.
pub fn build(plane: &ControlPlane, folder: &Path) -> String {
    try_build(plane, folder).unwrap_or_else(|error| panic!("{error}"))
}

/// Renders the kustomization of a folder, or returns what kustomize says.
pub fn try_build(plane: &ControlPlane, folder: &Path) -> Result<String, String> {
    let output = Program::new("kustomize", &plane.binaries.kustomize, plane.directory())
        .arg("build")
        .arg(folder)
        .run();

    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// Returns the path of a component of `deploy/` from a folder, because kustomize accepts no
/// absolute paths.
pub fn component(folder: &Path, name: &str) -> String {
    let canonical = |path: &Path| path.canonicalize().expect("it exists");
    let up = "../".repeat(canonical(folder).components().count() - 1);
    let component = canonical(&repository("deploy/components").join(name));
    format!("{up}{}", component.display().to_string().trim_start_matches('/'))
}
