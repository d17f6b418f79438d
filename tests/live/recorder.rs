//! `loopwatch record` in a test: to test recordings, and to keep a test as a scenario.
//!
//! `SCENARIOS=1 cargo test --test live fault::` writes the recordings of these tests into
//! `tests/scenarios`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bed::bed;
use loopwatch_testbed::guard::Process;
use loopwatch_testbed::repository;
use loopwatch_testbed::sidecar::program;
use loopwatch_testbed::wait::{eventually, pause};

/// A running `loopwatch record`. Dropping it stops it, and panics if it exits with an error.
pub(crate) struct Recorder {
    process: Process,
}

impl Recorder {
    /// Records one namespace, or all of them if `namespace` is empty, with the account and
    /// thresholds of a running loopwatch, whose name is `sidecar`.
    pub(crate) fn start(sidecar: &str, namespace: &str, kubeconfig: &Path, file: &Path) -> Self {
        Self::start_with(sidecar, namespace, kubeconfig, file, &[])
    }

    /// Like [`Recorder::start`], with additional flags.
    pub(crate) fn start_with(
        sidecar: &str,
        namespace: &str,
        kubeconfig: &Path,
        file: &Path,
        flags: &[&str],
    ) -> Self {
        Self::start_beside(sidecar, namespace, kubeconfig, file, flags, &[])
    }

    /// Like [`Recorder::start_with`], with environment variables, such as those of a Pod.
    pub(crate) fn start_beside(
        sidecar: &str,
        namespace: &str,
        kubeconfig: &Path,
        file: &Path,
        flags: &[&str],
        environment: &[(&str, &Path)],
    ) -> Self {
        let plane = bed();
        let config = plane.directory().join(format!("{sidecar}.config.yaml"));
        let scope = (!namespace.is_empty()).then(|| format!("--namespace={namespace}"));
        let program = program(&format!("{sidecar}.recorder"), plane);
        let mut process = environment
            .iter()
            .fold(program, |program, (name, value)| program.env(name, *value))
            .arg("record")
            .arg(format!("--output={}", file.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--config={}", config.display()))
            .args(scope)
            .args(flags)
            .start();

        eventually(Duration::from_secs(20), "the recording begins", || {
            process.assert_running();
            file.exists().then_some(()).ok_or("there is no file".to_owned())
        });
        pause(Duration::from_secs(3)); // until its first lists are complete

        Self { process }
    }

    /// If `SCENARIOS` is set, records a namespace as the scenario of the same name in
    /// `tests/scenarios`, with additional flags.
    pub(crate) fn for_scenario(
        sidecar: &str,
        namespace: &str,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Option<Self> {
        Self::scenario(namespace, sidecar, namespace, kubeconfig, flags)
    }

    /// If `SCENARIOS` is set, records some namespaces, separated by commas, as the scenario `name`.
    pub(crate) fn for_scenario_in(
        namespaces: &str,
        name: &str,
        sidecar: &str,
        kubeconfig: &Path,
    ) -> Option<Self> {
        Self::scenario(name, sidecar, namespaces, kubeconfig, &[])
    }

    /// Records all namespaces as the scenario `name` if `SCENARIOS` is set.
    pub(crate) fn for_wide_scenario(name: &str, sidecar: &str, kubeconfig: &Path) -> Option<Self> {
        Self::scenario(name, sidecar, "", kubeconfig, &["--secrets=metadata"])
    }

    fn scenario(
        name: &str,
        sidecar: &str,
        namespace: &str,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Option<Self> {
        std::env::var_os("SCENARIOS")?;
        let file: PathBuf = repository(format!("tests/scenarios/{name}.jsonl.gz"));
        let _ = std::fs::remove_file(&file); // it may not exist
        Some(Self::start_with(sidecar, namespace, kubeconfig, &file, flags))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A recording of a failed test helps to find the cause.
        let status = self.process.stop(Duration::from_secs(10));
        if !std::thread::panicking() {
            assert_eq!(status.code(), Some(0), "{}", self.process.program.log_tail(20));
        }
    }
}
