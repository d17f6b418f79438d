//! Answers the probes of the model with small reads, one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use loopwatch_model::observation::{Answer, Cause, Observation, Probe, WatchId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use super::cluster::{Cluster, LIST_METADATA};
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::metadata::ListMetadata;
use super::watch::WatchTarget;

/// The current address of each watch.
pub(crate) type Targets = Arc<RwLock<BTreeMap<WatchId, WatchTarget>>>;

/// A list of at most one item.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ShortList {
    metadata: ListMetadata,
    items: Vec<IgnoredAny>,
}

/// Pause between probes, to avoid a burst of requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers probes until the channel closes.
pub(crate) async fn run(cluster: Cluster, targets: Targets, feed: Feed, mut probes: mpsc::Receiver<Probe>) {
    while let Some(probe) = probes.recv().await {
        let answer = answer(&cluster, &targets, &probe).await;
        if feed.send(Observation::Answered { probe, answer }).await == Err(Closed) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn answer(cluster: &Cluster, targets: &Targets, probe: &Probe) -> Answer {
    let Probe::Count(watch) = probe;
    let target = targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
    let Some(target) = target else {
        // The watch has ended in the meantime.
        return Answer::Failed(Cause::NotFound);
    };
    match count(cluster, &target).await {
        Ok((objects, version)) => Answer::Counted { objects, version },
        Err(failure) => Answer::Failed(failure.cause),
    }
}

/// Counts the objects of a kind in one scope: requests one, and the API server estimates the rest.
async fn count(cluster: &Cluster, target: &WatchTarget) -> Result<(u64, String), Failure> {
    let path = format!("{}?limit=1", target.path);
    let ShortList { metadata, items } = cluster.get_json(&path, LIST_METADATA).await?;
    Ok((items.len() as u64 + metadata.remaining_item_count.unwrap_or(0), metadata.resource_version))
}
