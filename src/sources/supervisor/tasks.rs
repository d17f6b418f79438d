//! The running tasks by job. A task that panics is reported and restarted.

use std::collections::BTreeMap;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::jobs::Job;
use crate::net::Backoff;

/// The running tasks.
#[derive(Default)]
pub(super) struct Tasks {
    set: JoinSet<()>,
    running: BTreeMap<Job, AbortHandle>,
    names: BTreeMap<Id, Job>,
    /// Jobs whose task panicked, and the time of their restart.
    restarts: BTreeMap<Job, Instant>,
    backoffs: BTreeMap<Job, Backoff>,
}

/// An event among the tasks.
pub(super) enum TaskEvent {
    /// A task panicked with this message. Its job will be due again.
    Panicked(Job, String),
    /// A job is due for its restart.
    Due(Job),
}

impl Tasks {
    pub(super) fn spawn(&mut self, job: Job, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), job.clone());
        self.running.insert(job, handle);
    }

    /// Whether the job was started. It may have ended, or be waiting for its restart.
    pub(super) fn has(&self, job: &Job) -> bool {
        self.running.contains_key(job) || self.restarts.contains_key(job)
    }

    /// Whether the job is about to start again after a panic.
    pub(super) fn has_panicked(&self, job: &Job) -> bool {
        self.backoffs.contains_key(job)
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.running.keys().chain(self.restarts.keys())
    }

    /// Stops a job and waits for its end, so that it sends nothing afterwards.
    pub(super) async fn stop(&mut self, job: &Job) {
        self.restarts.remove(job);
        let Some(handle) = self.running.remove(job) else { return };
        handle.abort();

        let id = handle.id();
        while self.names.contains_key(&id) {
            match self.set.join_next_with_id().await {
                Some(ended) => drop(self.ended(ended)),
                None => return,
            }
        }
    }

    pub(super) async fn stop_all(&mut self) {
        self.restarts.clear();
        self.running.clear();
        self.names.clear();
        self.set.shutdown().await;
    }

    /// The next event among the tasks.
    pub(super) async fn next(&mut self) -> TaskEvent {
        let next =
            self.restarts.iter().min_by_key(|(_, due)| **due).map(|(job, due)| (job.clone(), *due));
        loop {
            let due = async {
                match &next {
                    Some((_, due)) => tokio::time::sleep_until(*due).await,
                    None => std::future::pending().await,
                }
            };

            let ended = tokio::select! {
                ended = self.set.join_next_with_id(), if !self.set.is_empty() => ended,
                () = due => None,
            };
            match (ended, &next) {
                (Some(ended), _) => {
                    if let Some((job, message)) = self.ended(ended) {
                        return TaskEvent::Panicked(job, message);
                    }
                }
                (None, Some((job, _))) => {
                    self.restarts.remove(job);
                    return TaskEvent::Due(job.clone());
                }
                (None, None) => {}
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) -> Option<(Job, String)> {
        let (id, message) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), error.is_panic().then(|| panic_message(error))),
        };
        let job = self.names.remove(&id)?;
        let is_current = self.running.get(&job).is_some_and(|handle| handle.id() == id);
        let message = message?;

        if is_current {
            self.running.remove(&job);
            let wait = self.backoffs.entry(job.clone()).or_insert_with(Backoff::new).wait(None);
            self.restarts.insert(job.clone(), Instant::now() + wait);
        }

        Some((job, message))
    }
}

/// The message of a panic.
pub(crate) fn panic_message(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default()
}
