//! kustomize, which renders manifests as users do.

use std::path::Path;

use serde_json::{Value, json};

use super::controlplane::ControlPlane;
use super::guard::Program;
use super::kube::documents;
use super::repository;

/// Renders the kustomization of a folder.
pub fn build(plane: &ControlPlane, folder: &Path) -> String {
    try_build(plane, folder).unwrap_or_else(|error| panic!("{error}"))
}

/// Renders the manifests of an operator with the component that lets loopwatch read more. The files that the
/// kustomization names are in `operator` in this folder.
pub(crate) fn with_reader_rights(
    plane: &ControlPlane,
    folder: &Path,
    mut kustomization: Value,
) -> Vec<Value> {
    // As docs/recipes.md says: a label chooses the workload for the component.
    let label = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "any", "labels": {"loopwatch/sidecar": "true"}}});
    kustomization["patches"] =
        json!([{"target": {"kind": "Deployment"}, "patch": label.to_string()}]);

    let outer =
        json!({"resources": ["operator"], "components": [component(folder, "reader-rights")]});
    for (folder, kustomization) in
        [(folder.join("operator"), kustomization), (folder.into(), outer)]
    {
        let file = folder.join("kustomization.yaml");
        std::fs::write(file, kustomization.to_string()).expect("our own folder");
    }

    documents(&build(plane, folder))
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
