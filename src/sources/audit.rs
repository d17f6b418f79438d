//! Answers the probes of the model with small reads, one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use loopwatch_model::observation::{Answer, Cause, Observation, Probe, SourceId, WatchId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::{Mutex, mpsc};

use super::cluster::{Cluster, LIST_METADATA};
use super::failure::Failure;
use super::feed::{Closed, Feed};
use super::metadata::{ListMetadata, or_default};
use super::watch::WatchTarget;

/// The current address of each watch.
pub(crate) type WatchTargets = Arc<RwLock<BTreeMap<WatchId, WatchTarget>>>;

/// A list of at most one item.
#[derive(Deserialize)]
struct ShortList {
    #[serde(default)]
    metadata: ListMetadata,
    /// Required: a document without `items` is no list and must not pass for an empty one.
    #[serde(deserialize_with = "or_default")]
    items: Vec<IgnoredAny>,
}

/// Pause between probes, to avoid a burst of requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers probes until the channel closes. If an earlier audit has failed, the first answer shows that this one works.
pub(crate) async fn run(
    cluster: Cluster,
    targets: WatchTargets,
    feed: Feed,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    mut failed: bool,
) {
    let mut probes = probes.lock().await;
    while let Some(probe) = probes.recv().await {
        let answer = answer(&cluster, &targets, &probe).await;
        if feed.send(Observation::Answered { probe, answer }).await == Err(Closed) {
            return;
        }
        if std::mem::take(&mut failed) && feed.recovered(SourceId::Audit).await == Err(Closed) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn answer(cluster: &Cluster, targets: &WatchTargets, probe: &Probe) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::fake::{Reply, Script};

    #[tokio::test]
    async fn an_empty_list_counts_as_empty_and_no_list_is_an_error() {
        let counted = |objects| Ok((objects, "7".to_owned()));
        for (body, expected) in [
            (r#"{"metadata":{"resourceVersion":"7","remainingItemCount":41},"items":[{}]}"#, counted(42)),
            (r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#, counted(0)),
            // So the API server writes an empty list that is reduced to metadata.
            (r#"{"metadata":{"resourceVersion":"7"},"items":null}"#, counted(0)),
            (r#"{"kind":"Status","metadata":{},"code":200}"#, Err(Cause::Undecodable)),
            ("", Err(Cause::Undecodable)),
        ] {
            let script = Script::new([Reply::Response(200, vec![], body.to_owned())]);
            let target = WatchTarget { path: "/apis/example.io/v1/widgets".to_owned(), metadata_only: true };
            let result = count(&script.cluster(), &target).await;
            assert_eq!(result.map_err(|failure| failure.cause), expected, "{body}");
        }
    }
}
