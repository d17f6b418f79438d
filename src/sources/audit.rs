//! Answers what the model wants to know next, by small reads, one at a time.

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

/// Where each watch looks, as of now.
pub(crate) type Targets = Arc<RwLock<BTreeMap<WatchId, WatchTarget>>>;

/// A list of at most one item.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ShortList {
    metadata: ListMetadata,
    items: Vec<IgnoredAny>,
}

/// Questions wait this long for each other: an audit is never worth a burst of requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers questions until nobody asks any more.
pub(crate) async fn run(cluster: Cluster, targets: Targets, feed: Feed, mut questions: mpsc::Receiver<Probe>) {
    while let Some(probe) = questions.recv().await {
        let answer = answer(&cluster, &targets, &probe).await;
        if feed.tell(Observation::Answered { probe, answer }).await == Err(Closed) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn answer(cluster: &Cluster, targets: &Targets, probe: &Probe) -> Answer {
    let Probe::Count(watch) = probe;
    let target = targets.read().unwrap_or_else(PoisonError::into_inner).get(watch).cloned();
    let Some(target) = target else {
        // Asked about a watch that has ended meanwhile.
        return Answer::Failed(Cause::NotFound);
    };
    match count(cluster, &target).await {
        Ok((objects, version)) => Answer::Counted { objects, version },
        Err(failure) => Answer::Failed(failure.cause),
    }
}

/// How many objects the API server has, and at which version: one, and so many more.
async fn count(cluster: &Cluster, target: &WatchTarget) -> Result<(u64, String), Failure> {
    let path = format!("{}?limit=1", target.path);
    let ShortList { metadata, items } = cluster.get_json(&path, LIST_METADATA).await?;
    Ok((items.len() as u64 + metadata.remaining_item_count.unwrap_or(0), metadata.resource_version))
}
