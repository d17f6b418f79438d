//! The sources about the operator itself.

use std::sync::Arc;
use std::time::Duration;

use super::jobs::Job;
use super::launcher::Launcher;
use super::probes::ProbeQueue;
use crate::sources::api_server::{OperatorIdentity, Selection};
use crate::sources::operator::{
    MetricsAddresses, PodsHandle, PodsReader, ProcessReader, Profiler, ScrapeHints, Scraper,
    answer_profiles, follow_process,
};
use crate::system::own_pod::OwnPod;
use loopwatch_model::observation::Probe;

/// What the sources about the operator share.
#[derive(Default)]
pub(super) struct OperatorSources {
    pods: PodsHandle,
    /// Where the operator's metrics are.
    metrics_addresses: MetricsAddresses,
}

/// Time to wait for the operator's Pods, if they are read only once.
const PODS_WITHIN: Duration = Duration::from_secs(5);

impl OperatorSources {
    /// Starts to follow the operator's Pods. The task itself finds out which of them the account
    /// may read, and does so again after each review of the permissions.
    pub(super) async fn follow_pods(&mut self, launcher: &mut Launcher) {
        let is_known = match launcher.cluster.operator() {
            // An administrator who watches every kind has no operator, even in a Pod.
            Some(OperatorIdentity::Beside(_)) => {
                launcher.options.discovery.select == Selection::OperatorPermissions
            }
            Some(OperatorIdentity::Named(_) | OperatorIdentity::Found(_)) => true,
            None => false,
        };
        if launcher.tasks.has(&Job::Pods) {
            self.pods.review.notify_one();
        } else if is_known {
            self.start_pods(launcher);
            if launcher.options.discovery.once {
                let _ = tokio::time::timeout(PODS_WITHIN, self.pods.done.notified()).await;
            }
        }
    }

    pub(super) fn start_pods(&self, launcher: &mut Launcher) {
        let Some(identity) = launcher.cluster.operator().cloned() else { return };
        let (cluster, feed, shared) =
            (launcher.cluster.clone(), launcher.feed.clone(), Arc::clone(&launcher.watches));
        let once = launcher.options.discovery.once;
        let reader = PodsReader::new(cluster, identity, feed, shared, self.pods.clone(), once);

        launcher.spawn(&Job::Pods, reader.run());
    }

    /// Scrapes the addresses that the user has named, or all that loopwatch finds.
    pub(super) fn scraper(&self, launcher: &Launcher) -> Scraper {
        let (options, pods) = (launcher.options.scrape.clone(), self.pods.targets());
        let (own, feed) = (launcher.cluster.own_pod().cloned(), launcher.feed.clone());
        let hints = ScrapeHints {
            addresses: Arc::clone(&self.metrics_addresses),
            clues: self.pods.clues(),
        };

        Scraper::new(options, own, pods, feed, hints)
    }

    pub(super) fn start_metrics(&self, launcher: &mut Launcher) {
        let scraping = self.scraper(launcher).run();
        launcher.spawn(&Job::Metrics, scraping);
    }

    pub(super) fn start_profiles(&self, probes: &ProbeQueue<Probe>, launcher: &mut Launcher) {
        let (options, own) =
            (launcher.options.profiles.clone(), launcher.cluster.own_pod().cloned());
        let profiler = Profiler::new(options, own, Arc::clone(&self.metrics_addresses));
        let failed = launcher.tasks.has_panicked(&Job::Profiles);
        let (feed, probes) = (launcher.feed.clone(), Arc::clone(probes));

        launcher.spawn(&Job::Profiles, answer_profiles(profiler, feed, probes, failed));
    }

    pub(super) fn start_process(&self, launcher: &mut Launcher) {
        let pod = launcher.cluster.own_pod().map(OwnPod::instance);
        let options = &launcher.options;
        let named = options.scrape.target.first_instance();
        let (clues, every) = (self.pods.clues().subscribe(), options.scrape.interval);
        let reader = ProcessReader::new(options.process, pod, named, clues, every);

        launcher.spawn(&Job::Process, follow_process(reader, launcher.feed.clone()));
    }
}
