//! Definitions of the Prometheus Operator and of KEDA, for the manifests that need them. Nothing
//! here runs these programs.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::binaries::{Missing, module_folder};
use super::kube::{Kube, documents};
use super::wait::{eventually, until};

/// The folder of the Go module that pins the versions, below `controlplane`.
const PINNED_BY: &str = "definitions";

/// The time within which the API server starts or stops serving a kind.
const SOON: Duration = Duration::from_secs(30);

/// A Go module with definitions.
struct Source {
    module: &'static str,
    folder: &'static str,
    /// Each file with the plural name of its kind and its API version.
    files: &'static [(&'static str, &'static str, &'static str)],
}

const SOURCES: [Source; 2] = [
    Source {
        module: "github.com/prometheus-operator/prometheus-operator",
        folder: "example/prometheus-operator-crd",
        files: &[
            ("monitoring.coreos.com_podmonitors.yaml", "podmonitors", "monitoring.coreos.com/v1"),
            (
                "monitoring.coreos.com_servicemonitors.yaml",
                "servicemonitors",
                "monitoring.coreos.com/v1",
            ),
            ("monitoring.coreos.com_prometheuses.yaml", "prometheuses", "monitoring.coreos.com/v1"),
            (
                "monitoring.coreos.com_prometheusagents.yaml",
                "prometheusagents",
                "monitoring.coreos.com/v1alpha1",
            ),
            (
                "monitoring.coreos.com_prometheusrules.yaml",
                "prometheusrules",
                "monitoring.coreos.com/v1",
            ),
            (
                "monitoring.coreos.com_alertmanagerconfigs.yaml",
                "alertmanagerconfigs",
                "monitoring.coreos.com/v1alpha1",
            ),
        ],
    },
    Source {
        module: KEDA,
        folder: "config/crd/bases",
        files: &[("keda.sh_scaledobjects.yaml", "scaledobjects", "keda.sh/v1alpha1")],
    },
];

const KEDA: &str = "github.com/kedacore/keda/v2";

/// The text of the definitions.
pub struct Definitions {
    texts: Vec<(String, &'static str, &'static str)>,
    /// The source of KEDA's trigger for Prometheus.
    keda_trigger: String,
}

/// Definitions in a cluster: their names, and the paths of their objects. They are removed when
/// this is dropped: other tests count what they find, or install them again.
pub struct Installed(Kube, Vec<(String, String)>);

/// Finds the definitions in the cache of Go, or downloads their modules.
///
/// # Errors
/// If Go is not installed, or the module proxy cannot be reached.
pub fn find() -> Result<Definitions, Missing> {
    let read = |file: PathBuf| {
        let said = |error: &dyn fmt::Display| Missing::from(format!("{}: {error}", file.display()));
        fs::read_to_string(&file).map_err(|error| said(&error))
    };
    let mut texts = Vec::new();
    for Source { module, folder, files } in &SOURCES {
        let folder = module_folder(PINNED_BY, module)?.join(folder);
        for (file, plural, api) in *files {
            texts.push((read(folder.join(file))?, *plural, *api));
        }
    }

    let keda_trigger =
        read(module_folder(PINNED_BY, KEDA)?.join("pkg/scalers/prometheus_scaler.go"))?;
    Ok(Definitions { texts, keda_trigger })
}

impl Definitions {
    /// Creates the definitions, and waits until their kinds are served.
    pub fn install(&self, kube: &Kube) -> Installed {
        let mut installed = Installed(kube.clone(), Vec::new());
        for (text, plural, api) in &self.texts {
            let path = format!("/apis/{api}/{plural}");
            for definition in documents(text) {
                kube.apply(&definition);
                let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                installed.1.push((name, path.clone()));
            }

            eventually(SOON, &format!("{plural} are served"), || kube.get(&path));
        }

        installed
    }

    /// Returns whether KEDA's trigger for Prometheus has a parameter of this name.
    pub fn keda_knows(&self, parameter: &str) -> bool {
        let tag = format!("keda:\"name={parameter},");
        self.keda_trigger.replace(';', ",").contains(&tag)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for (name, path) in &self.1 {
            self.0.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name);
            let gone =
                until(SOON, || self.0.get(path).map_or_else(|_| Ok(()), |_| Err(String::new())));
            if gone.is_err() {
                eprintln!("{name} is still served");
            }
        }
    }
}
