//! Owns the tasks of the sources: starts one per watch, restarts those that panic, and stops them
//! all. Start to read in `running.rs`.

use loopwatch_model::observation::Probe;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod options;
mod jobs; // what a task does, and for which source
mod tasks; // the running ones
mod launcher; // what all of them need
mod kinds; // watches of objects
mod optional; // watches that need optional permissions
mod webhooks; // watches of webhooks and their endpoints
mod events; // watches of Kubernetes Events
mod operator; // sources about the operator itself
mod probes; // probes of the model
mod polls; // when to poll discovery again
mod running; // the task that decides
#[cfg(test)]
mod tests;

pub(crate) use self::options::{LeaseSelection, SourceOptions};
use self::probes::ProbeSenders;
use self::running::Running;
pub(crate) use self::tasks::panic_message;
use super::api_server::{Cluster, InitialSync};
use super::feed::Feed;

/// Starts the sources.
#[derive(Debug)]
pub(crate) struct Supervisor;

/// The running sources.
#[derive(Debug)]
pub(crate) struct Handle {
    stop: CancellationToken,
    task: JoinHandle<()>,
    probes: ProbeSenders,
    sync: InitialSync,
}

impl Supervisor {
    /// Starts the sources of one cluster on the current runtime.
    #[must_use]
    pub(crate) fn start(cluster: Cluster, options: SourceOptions, feed: Feed) -> Handle {
        let (stop, sync) = (CancellationToken::new(), InitialSync::new());
        let (probes, receivers) = probes::queues();
        let running = Running::new(cluster, options, feed, receivers, sync.clone());
        let task = tokio::spawn(running.run(stop.clone()));

        Handle { stop, task, probes, sync }
    }
}

impl Handle {
    /// Sends a probe of the model to the source that answers it. Returns false if too many probes
    /// wait.
    #[must_use]
    pub(crate) fn ask(&self, probe: Probe) -> bool {
        self.probes.send(probe)
    }

    /// A function that sends reads of objects to the API server, and refuses other probes and those
    /// for which there is no room.
    pub(crate) fn reader(&self) -> impl Fn(Probe) -> bool + Send + 'static {
        let probes = self.probes.clone();
        move |probe| {
            matches!(probe, Probe::Read(_) | Probe::Dependents { .. }) && probes.send(probe)
        }
    }

    /// The progress of the first lists.
    #[must_use]
    pub(crate) fn initial_sync(&self) -> &InitialSync {
        &self.sync
    }

    /// Waits until the supervisor ends without being stopped, which is a bug. Returns the reason.
    pub(crate) async fn ended(&mut self) -> String {
        (&mut self.task).await.map_or_else(panic_message, |()| "the supervisor ended".to_owned())
    }

    /// Stops all sources and waits for their end.
    pub(crate) async fn shutdown(mut self) {
        self.stop.cancel();
        if !self.task.is_finished() {
            // This task catches the panics of all others. An error means that it has itself
            // panicked, so it has ended.
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Handle {
    /// Stops all sources without waiting, so that a panic of the owner leaves none behind.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
