//! A real control plane on this machine, with operators of the zoo and loopwatch as further
//! processes.
//!
//! ```text
//!   binaries ──▶ control plane (etcd, API server, controllers, scheduler, fake kubelet) ◀── kube (as administrator)
//!                      ▲                       ▲
//!                  wire, gate                operator (of the zoo; faults are switched over HTTP), cert_manager, rabbitmq
//!                      ▲
//!                  sidecar (loopwatch, with the operator's own account)
//! ```
//!
//! Every program starts through a [`guard`], so that none outlives the process that started it. A
//! helper that fails panics and shows the last state that it saw: its callers are tests, benchmarks
//! and people at a terminal.

#![expect(
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and builds report their progress"
)]

pub mod accounts;
pub mod binaries;
pub mod bundled;
pub mod cert_manager;
pub mod controlplane;
pub mod definitions;
pub mod external_metrics;
pub mod frameworks;
pub mod gate;
pub mod gear;
pub mod gizmo;
pub mod guard;
pub mod helm;
pub mod http;
pub mod jaeger;
pub mod kinds;
pub mod kopf;
pub mod kube;
pub mod images;
pub mod kustomize;
pub mod node;
pub mod operator;
pub mod pods;
pub mod ports;
pub mod prometheus_adapter;
pub mod published;
pub mod published_operators;
pub mod rabbitmq;
pub mod replicas;
pub mod sidecar;
pub mod standin;
pub mod stretch;
pub mod tls;
pub mod usage;
pub mod verdicts;
pub mod wait;
pub mod webhook;
pub mod wire;

use std::path::{Path, PathBuf};

/// Returns the path of a file in this repository.
pub fn repository(path: impl AsRef<Path>) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}
