//! `loopwatch record` beside a test: for the test of recordings, and to keep what a test did as a scenario.
//!
//! `SCENARIOS=1 cargo test --test live fault::` writes the recordings of these tests into `tests/scenarios`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bed::bed;
use loopwatch_testbed::guard::Process;
use loopwatch_testbed::repository;
use loopwatch_testbed::sidecar::program;
use loopwatch_testbed::wait::{eventually, pause};

/// A running `loopwatch record`. It ends when it is dropped, which fails when it did not write everything.
pub(crate) struct Recorder {
    process: Process,
}

// === impl Recorder ===

impl Recorder {
    /// Records what the account of a running loopwatch sees in a namespace, with its thresholds. `sidecar` is the name of
    /// that loopwatch.
    pub(crate) fn start(sidecar: &str, namespace: &str, kubeconfig: &Path, file: &Path) -> Self {
        let plane = bed();
        let config = plane.directory().join(format!("{sidecar}.config.yaml"));
        let mut process = program(&format!("{sidecar}.recorder"), plane)
            .arg("record")
            .arg(format!("--output={}", file.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--config={}", config.display()))
            .arg(format!("--namespace={namespace}"))
            .start();
        eventually(Duration::from_secs(20), "the recording begins", || {
            process.assert_running();
            file.exists().then_some(()).ok_or("there is no file".to_owned())
        });
        pause(Duration::from_secs(3)); // its first lists
        Self { process }
    }

    /// Records for `tests/scenarios` if that was asked for.
    pub(crate) fn for_scenario(sidecar: &str, namespace: &str, kubeconfig: &Path) -> Option<Self> {
        std::env::var_os("SCENARIOS")?;
        let file: PathBuf = repository(format!("tests/scenarios/{namespace}.jsonl.gz"));
        let _ = std::fs::remove_file(&file); // there may be none
        Some(Self::start(sidecar, namespace, kubeconfig, &file))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let status = self.process.stop(Duration::from_secs(10));
            assert_eq!(status.code(), Some(0), "{}", self.process.program.log_tail(20));
        }
    }
}
