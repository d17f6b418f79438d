//! The conditions of namespaces that are being deleted, which say what blocks the deletion.
//!
//! The watch of namespaces transfers metadata only. When it shows a deletion or a change of a
//! namespace that is being deleted, this task reads that one namespace.

use super::NamespaceSink;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use loopwatch_model::observation::{Cause, Condition, NamespaceView, Observation, SourceId};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::lock::lock;
use crate::net::percent_encode;
use crate::sources::api_server::connection::{Cluster, JSON};
use crate::sources::decoding::{ConditionDocument, conditions, or_default};
use crate::sources::feed::{Closed, Feed};

/// The namespaces that are being deleted, shared between their watch and this task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terminating {
    by_name: Arc<Mutex<BTreeMap<String, TerminatingNamespace>>>,
    /// Notified when there may be something to read.
    changed: Arc<Notify>,
}

/// One namespace that is being deleted.
#[derive(Clone, Debug)]
struct TerminatingNamespace {
    /// The namespace as reported, with the last conditions.
    view: NamespaceView,
    /// The resource version of its last event.
    version: String,
    /// When to read it; `None` if its conditions are those of `version`.
    due: Option<Instant>,
    last_read: Option<Instant>,
}

/// The part of a namespace that says what blocks its deletion.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceDocument {
    status: NamespaceStatusDocument,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceStatusDocument {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<ConditionDocument>,
}

/// Limit on namespaces whose conditions are read. All others are reported without conditions.
const MOST: usize = 200;
/// Shortest time between two reads of one namespace, and between a failure and the next attempt.
const READ_EVERY: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The same interval, if the account may not read namespaces.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// Shortest time between two reads of any namespaces. When a whole cluster is torn down, the
/// loopwatch of every operator reads at once.
const PAUSE: Duration = Duration::from_millis(200);
/// Largest namespace, in bytes.
const LARGEST: usize = 1 << 20;

impl Terminating {
    /// Notes a namespace that is being deleted. Returns the conditions that are known.
    pub(super) fn note(&self, view: &NamespaceView, version: &str) -> Vec<Condition> {
        let mut by_name = self.lock();
        let has_room = by_name.len() < MOST;
        let Some(known) = by_name.get_mut(&view.name) else {
            if has_room {
                let (view, version) = (view.clone(), version.to_owned());
                let new = TerminatingNamespace {
                    view,
                    version,
                    due: Some(Instant::now()),
                    last_read: None,
                };

                by_name.insert(new.view.name.clone(), new);
                self.changed.notify_one();
            }

            return Vec::new();
        };

        // A new namespace of the same name has other conditions.
        let conditions = if known.view.deleted == view.deleted {
            known.view.conditions.clone()
        } else {
            Vec::new()
        };

        known.view = NamespaceView { conditions: conditions.clone(), ..view.clone() };
        if known.version != version {
            version.clone_into(&mut known.version);
            let now = Instant::now();
            let earliest = known.last_read.map_or(now, |at| at + READ_EVERY);
            known.due = Some(known.due.unwrap_or(earliest).max(now));
            self.changed.notify_one();
        }

        conditions
    }

    /// Forgets a namespace.
    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Forgets all namespaces except the listed ones.
    pub(super) fn retain(&self, is_listed: impl Fn(&str) -> bool) {
        self.lock().retain(|name, _| is_listed(name));
    }

    /// Reads the conditions of namespaces when they are due.
    pub(crate) async fn follow(self, cluster: Cluster, feed: Feed, failed: bool) {
        if failed && feed.recovered(SourceId::Namespaces).await == Err(Closed) {
            return;
        }
        loop {
            let next = self
                .lock()
                .iter()
                .filter_map(|(name, known)| Some((known.due?, name.clone())))
                .min();
            let Some((due, name)) = next else {
                self.changed.notified().await;
                continue;
            };
            if due > Instant::now() {
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                }
            } else if self.read(&cluster, &feed, &name).await == Err(Closed) {
                return;
            } else {
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads one namespace, and reports its conditions if they have changed.
    async fn read(&self, cluster: &Cluster, feed: &Feed, name: &str) -> Result<(), Closed> {
        self.change(name, |known| known.due = None);
        let path = format!("/api/v1/{}/{}", NamespaceSink::RESOURCE, percent_encode(name));
        let read = cluster.get_json_within::<NamespaceDocument>(&path, JSON, LARGEST).await;
        let now = Instant::now();
        let conditions = match read {
            Ok(NamespaceDocument { status }) => conditions(status.conditions),
            Err(failure) if failure.status == Some(404) => return Ok(()), // the watch reports it
            Err(failure) => {
                let wait =
                    if failure.cause == Cause::Forbidden { REFUSED_FOR } else { RETRY_AFTER };
                self.change(name, |known| {
                    (known.last_read, known.due) = (Some(now), Some(now + wait))
                });
                return Ok(());
            }
        };

        // If the namespace was deleted while this waited for the channel, it must not reappear.
        feed.send_latest(|| {
            let mut by_name = self.lock();
            let known = by_name.get_mut(name)?;
            known.last_read = Some(now);
            known.due = known.due.map(|due| due.max(now + READ_EVERY));

            let has_changed = known.view.conditions != conditions;
            known.view.conditions = conditions;
            has_changed.then(|| Observation::NamespaceSeen(known.view.clone()))
        })
        .await
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut TerminatingNamespace)) {
        if let Some(known) = self.lock().get_mut(name) {
            change(known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, TerminatingNamespace>> {
        lock(&self.by_name)
    }
}
