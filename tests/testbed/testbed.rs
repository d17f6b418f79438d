//! A real cluster on this machine, with real operators in it and loopwatch beside them.
//!
//! ```text
//!   binaries ──▶ control plane (etcd, API server, controllers, scheduler, fake kubelet) ◀── kube (as administrator)
//!                      ▲                       ▲
//!                  wire, gate                operator (of the zoo; its faults are switched over HTTP)
//!                      ▲
//!                  sidecar (loopwatch, with the operator's own account)
//! ```
//!
//! Everything is started through a [`guard`], so that nothing outlives the process that started it. Helpers panic with
//! what they saw: they only ever serve tests and people at a terminal.
//! Included by `tests/live.rs`, by `example.rs` beside it and by `benches/beside`, which each use a part of it.

pub mod accounts;
pub mod binaries;
pub mod controlplane;
pub mod gate;
pub mod guard;
pub mod http;
pub mod kube;
pub mod operator;
pub mod ports;
pub mod sidecar;
pub mod wait;
pub mod webhook;
pub mod wire;

use std::path::{Path, PathBuf};

/// A file of this repository.
pub fn repository(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The program under test. Cargo tells tests where it is, and examples not.
pub fn loopwatch() -> &'static Path {
    match option_env!("CARGO_BIN_EXE_loopwatch") {
        Some(path) => Path::new(path),
        None => panic!("only tests know where loopwatch is"),
    }
}
