//! What the sources about the operator share: its Pods, and the clues by which to recognize its
//! process and find its profiles.

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
    /// Its address; `None` if it has none yet, or if it is unknown.
    pub(crate) ip: Option<IpAddr>,
    /// Whether it uses the network of its node, or may do so.
    pub(crate) host_network: bool,
    /// The TCP ports of its containers, except those of loopwatch and of a service mesh.
    pub(crate) ports: Vec<TargetPort>,
    /// The IDs of the operator's containers, without the name of the container runtime; the first
    /// runs the operator.
    pub(crate) container_ids: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetPort {
    pub(crate) container: String,
    /// The name of the port; may be empty.
    pub(crate) name: String,
    pub(crate) number: u16,
    /// Whether the Pod's spec names it for the metrics of the operator's own container. Only such
    /// a port may get the token.
    pub(crate) takes_token: bool,
}

/// What a port serves, according to its name, from the most to the least likely to be metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortPurpose {
    Metrics,
    Https,
    Unknown,
    /// Certainly something else, such as a webhook.
    Other,
}

/// The operator's current Pods.
pub(crate) type TargetPods = watch::Receiver<Vec<TargetPod>>;

/// What other sources know about the operator's process. Each source sets its part with
/// `send_if_modified`, because every change leads to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorClue {
    /// The name of the instance in its metrics; empty if unknown.
    pub(crate) instance: String,
    /// `process_start_time_seconds` of the last scrape of loopwatch's own Pod.
    pub(crate) started_seconds: Option<f64>,
    /// The IDs of the operator's containers in loopwatch's own Pod, without the name of the
    /// container runtime, as in the Pod's status. The first one runs the operator.
    pub(crate) containers: Vec<String>,
}

/// The addresses of the metrics by instance, as the source of metrics has found them.
pub(crate) type MetricsAddresses = Arc<RwLock<BTreeMap<String, SocketAddr>>>;

/// What scrapes show other sources: where the metrics are, and when the process started.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScrapeHints {
    /// For the source of profiles.
    pub(crate) addresses: MetricsAddresses,
    /// For the reader of processes.
    pub(crate) clues: watch::Sender<OperatorClue>,
}

impl PortPurpose {
    pub(crate) fn of(name: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        match name {
            _ if has(&["metric", "prom"]) => Self::Metrics,
            _ if has(&[
                "webhook", "health", "probe", "ready", "live", "pprof", "debug", "grpc",
            ]) =>
            {
                Self::Other
            }
            _ if has(&["https"]) => Self::Https,
            _ => Self::Unknown,
        }
    }
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
            // One process may have several addresses. The first one names the instance.
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
