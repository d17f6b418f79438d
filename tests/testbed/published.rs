//! A replica of a published operator as a process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::guard::{Process, Program};
use super::http;
use super::wait::eventually;

/// Gives a program the name that it has in its image: a client names itself after it. Returns its path in
/// this folder.
pub(crate) fn renamed(program: &Path, name: &str, folder: &Path) -> PathBuf {
    let link = folder.join(name);
    std::fs::create_dir_all(folder).expect("our own folder");
    std::os::unix::fs::symlink(program, &link).expect("our own folder");
    link
}

/// A running replica.
pub struct Replica {
    process: Process,
    metrics: u16,
}

impl Replica {
    /// Starts a program, and waits until it serves its metrics on this port.
    pub fn start(program: &Program, metrics: u16) -> Self {
        let mut replica = Self { process: program.start(), metrics };
        replica.wait_serving();
        replica
    }

    /// Stops it like a rollout does.
    pub fn stop(&mut self) {
        self.process.stop(Duration::from_secs(20));
    }

    /// Ends it without warning, as the kernel does if memory is short.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Fails unless it runs.
    pub fn assert_running(&mut self) {
        self.process.assert_running();
    }

    /// Starts it again after it was stopped.
    pub fn start_again(&mut self) {
        self.process = self.process.program.start();
        self.wait_serving();
    }

    fn wait_serving(&mut self) {
        let Self { process, metrics } = self;
        eventually(Duration::from_secs(30), "the operator serves its metrics", || {
            process.assert_running();
            http::get(*metrics, "/metrics")
        });
    }
}
