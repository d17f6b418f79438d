//! What the sources about the operator tell each other: its Pods, and what may recognize its process
//! and find its profiles.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, RwLock};

use loopwatch_model::observation::MetricsView;
use tokio::sync::watch;

use crate::lock::write_lock;

/// A Pod whose metrics and processes are the operator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetPod {
    /// `namespace/pod`.
    pub(crate) instance: String,
    /// Whether loopwatch runs in this Pod.
    pub(crate) own: bool,
    /// Its address; absent before it has one, or if it is not known.
    pub(crate) ip: Option<IpAddr>,
    /// Whether it uses the network of its node, or may do so.
    pub(crate) host_network: bool,
    /// The TCP ports of its containers, without those of loopwatch and of a service mesh.
    pub(crate) ports: Vec<TargetPort>,
    /// The IDs of the operator's containers, without the name of the container runtime; the first
    /// runs the operator.
    pub(crate) container_ids: Vec<String>,
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetPort {
    /// The name of the container.
    pub(crate) container: String,
    /// The name of the port; may be empty.
    pub(crate) name: String,
    /// The number of the port.
    pub(crate) number: u16,
}

/// The Pods of the operator as they are now.
pub(crate) type TargetPods = watch::Receiver<Vec<TargetPod>>;

/// What other sources know about the operator's process. Each of them fills in its part with
/// `send_if_modified`: every change leads to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorClue {
    /// The name of the instance in its metrics; empty if it is not known.
    pub(crate) instance: String,
    /// `process_start_time_seconds` of the last scrape of loopwatch's own Pod.
    pub(crate) started_seconds: Option<f64>,
    /// The IDs of the operator's containers in loopwatch's own Pod, without the name of the
    /// container runtime, as in the Pod's status. The first one runs the operator.
    pub(crate) containers: Vec<String>,
}

/// The addresses of the metrics by instance. The source of metrics fills it with those that it has
/// found.
pub(crate) type MetricsAddresses = Arc<RwLock<BTreeMap<String, SocketAddr>>>;

/// What a scrape tells other sources: where the metrics are, and when the process started.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScrapeHints {
    /// For the source of profiles.
    pub(crate) addresses: MetricsAddresses,
    /// For the reader of processes.
    pub(crate) clues: watch::Sender<OperatorClue>,
}

impl ScrapeHints {
    /// Notes a scrape. `is_near` says whether the instance may be in loopwatch's own Pod.
    pub(super) fn scraped(&self, view: &MetricsView, address: Option<SocketAddr>, is_near: bool) {
        if let Some(address) = address {
            let mut addresses = write_lock(&self.addresses);
            addresses.insert(view.instance.clone(), address);
        }

        let started = view.process.started.map(|at| at.0 as f64 / 1_000.0);
        self.clues.send_if_modified(|clue| {
            // One process may have several addresses. The first one names it.
            let is_new = clue.instance.is_empty();
            let changed =
                is_new || clue.instance == view.instance && clue.started_seconds != started;
            let changed = is_near && changed;

            if changed {
                clue.instance.clone_from(&view.instance);
                clue.started_seconds = started;
            }

            changed
        });
    }

    /// Forgets an instance.
    pub(super) fn gone(&self, instance: &str) {
        write_lock(&self.addresses).remove(instance);
        self.clues.send_if_modified(|clue| {
            let changed = clue.instance == instance;
            if changed {
                (clue.instance, clue.started_seconds) = (String::new(), None);
            }

            changed
        });
    }
}
