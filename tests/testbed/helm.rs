//! Helm, which installs the chart as users do.

use std::path::Path;

use super::controlplane::ControlPlane;
use super::guard::Program;

/// A version of Helm that works on the cluster of the test bed.
#[derive(Clone, Debug)]
pub struct Helm {
    program: Program,
}

impl Helm {
    /// Creates a Helm with folders of its own. `name` is that of its folder.
    pub fn new(plane: &ControlPlane, name: &str, binary: &Path) -> Self {
        let home = plane.directory().join(name);
        let folder = |of: &str| home.join(of);
        let program = Program::new(name, binary, plane.directory())
            .env("KUBECONFIG", plane.kube.kubeconfig.as_os_str())
            .env("HELM_CACHE_HOME", folder("cache"))
            .env("HELM_CONFIG_HOME", folder("config"))
            .env("HELM_DATA_HOME", folder("data"));

        Self { program }
    }

    /// Runs a command, and returns what it prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.try_run(arguments).unwrap_or_else(|error| panic!("helm {arguments:?}: {error}"))
    }

    /// Runs a command. Returns what it prints, or the error.
    pub fn try_run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.program.clone().args(arguments.iter().copied()).run();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

        match output.status.success() {
            true => Ok(text(&output.stdout)),
            // `lint` prints its complaints to standard output.
            false => Err(text(&output.stdout) + &text(&output.stderr)),
        }
    }
}
