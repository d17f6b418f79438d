//! Routes the model's probes to the sources that answer them.

use std::sync::Arc;

use loopwatch_model::observation::{Probe, WatchId};
use tokio::sync::{Mutex, mpsc};

use super::jobs::Job;
use super::launcher::Launcher;
use crate::sources::probes::{
    ObjectLookups, WatchTargets, WatchedChildKinds, answer_counts, answer_fields, answer_lookups,
};

/// The sending ends of the probe queues.
#[derive(Clone, Debug)]
pub(super) struct ProbeSenders {
    counts: mpsc::Sender<WatchId>,
    lookups: mpsc::Sender<Probe>,
    fields: mpsc::Sender<Probe>,
    profiles: mpsc::Sender<Probe>,
}

/// The receiving ends of the probe queues. Each queue outlives a task that panics.
pub(super) struct ProbeReceivers {
    /// The watches whose objects to count.
    counts: ProbeQueue<WatchId>,
    lookups: ProbeQueue<Probe>,
    /// The probes for changed fields, which take most of a minute to answer.
    fields: ProbeQueue<Probe>,
    /// The probes for profiles, which take minutes to answer.
    pub(super) profiles: ProbeQueue<Probe>,
}

pub(super) type ProbeQueue<T> = Arc<Mutex<mpsc::Receiver<T>>>;

/// The maximum number of waiting probes per queue. The model repeats dropped ones.
const PROBES: usize = 64;

/// Creates the queues.
pub(super) fn queues() -> (ProbeSenders, ProbeReceivers) {
    let ((counts, to_count), (lookups, to_look_up)) =
        (mpsc::channel(PROBES), mpsc::channel(PROBES));
    let ((fields, to_compare), (profiles, to_profile)) =
        (mpsc::channel(PROBES), mpsc::channel(PROBES));
    let shared = |receiver| Arc::new(Mutex::new(receiver));

    (
        ProbeSenders { counts, lookups, fields, profiles },
        ProbeReceivers {
            counts: Arc::new(Mutex::new(to_count)),
            lookups: shared(to_look_up),
            fields: shared(to_compare),
            profiles: shared(to_profile),
        },
    )
}

impl ProbeSenders {
    /// Sends a probe of the model to the source that answers it. Returns false if too many probes
    /// wait.
    pub(super) fn send(&self, probe: Probe) -> bool {
        match probe {
            Probe::Count(watch) => self.counts.try_send(watch).is_ok(),
            Probe::Read(_) | Probe::Dependents { .. } => self.lookups.try_send(probe).is_ok(),
            Probe::Fields { .. } => self.fields.try_send(probe).is_ok(),
            Probe::Profile { .. } => self.profiles.try_send(probe).is_ok(),
        }
    }
}

impl ProbeReceivers {
    pub(super) fn start_counts(&self, targets: &WatchTargets, launcher: &mut Launcher) {
        let (cluster, targets, feed) =
            (launcher.cluster.clone(), Arc::clone(targets), launcher.feed.clone());
        let failed = launcher.tasks.has_panicked(&Job::Audit);
        let counting = answer_counts(cluster, targets, feed, Arc::clone(&self.counts), failed);

        launcher.spawn(&Job::Audit, counting);
    }

    pub(super) fn start_fields(&self, targets: &WatchTargets, launcher: &mut Launcher) {
        let (cluster, targets, feed) =
            (launcher.cluster.clone(), Arc::clone(targets), launcher.feed.clone());
        launcher
            .spawn(&Job::Fields, answer_fields(cluster, targets, feed, Arc::clone(&self.fields)));
    }

    pub(super) fn start_lookups(&self, children: &WatchedChildKinds, launcher: &mut Launcher) {
        let discovery = &launcher.options.discovery;
        let (cluster, children) = (launcher.cluster.clone(), children.clone());
        let lookups = ObjectLookups::new(cluster, discovery.hash_key, discovery.secrets, children);
        let failed = launcher.tasks.has_panicked(&Job::Reads);
        let (feed, probes) = (launcher.feed.clone(), Arc::clone(&self.lookups));

        launcher.spawn(&Job::Reads, answer_lookups(lookups, feed, probes, failed));
    }
}
