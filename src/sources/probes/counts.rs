//! Counts objects on the model's request, with small reads, one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use loopwatch_model::observation::{Answer, Cause, Observation, Probe, SourceId, WatchId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::{Mutex, mpsc};

use crate::lock::read_lock;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{Cluster, LIST_METADATA, WatchTarget};
use crate::sources::decoding::{ListMetadata, or_default};
use crate::sources::feed::{Closed, Feed};

/// The current address of each watch.
pub(crate) type WatchTargets = Arc<RwLock<BTreeMap<WatchId, WatchTarget>>>;

/// A list of at most one item.
#[derive(Deserialize)]
struct ShortList {
    #[serde(default)]
    metadata: ListMetadata,
    /// Required: a document without `items` is not a list and must not pass for an empty one.
    #[serde(deserialize_with = "or_default")]
    items: Vec<IgnoredAny>,
}

/// Pause between counts, to avoid a burst of requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Counts until the channel closes. After an earlier audit has failed, the first answer shows that
/// the source works again.
pub(crate) async fn answer_counts(
    cluster: Cluster,
    targets: WatchTargets,
    feed: Feed,
    watches: Arc<Mutex<mpsc::Receiver<WatchId>>>,
    mut failed: bool,
) {
    let mut watches = watches.lock().await;
    while let Some(watch) = watches.recv().await {
        let answer = answer(&cluster, &targets, &watch).await;
        if feed.send(Observation::Answered { probe: Probe::Count(watch), answer }).await
            == Err(Closed)
        {
            return;
        }

        if std::mem::take(&mut failed) && feed.recovered(SourceId::Audit).await == Err(Closed) {
            return;
        }

        tokio::time::sleep(PAUSE).await;
    }
}

async fn answer(cluster: &Cluster, targets: &WatchTargets, watch: &WatchId) -> Answer {
    let target = read_lock(targets).get(watch).cloned();
    let Some(target) = target else {
        // The watch has ended in the meantime.
        return Answer::Failed(Cause::NotFound);
    };
    match count(cluster, &target).await {
        Ok((objects, version)) => Answer::Counted { objects, version },
        Err(failure) => Answer::Failed(failure.cause),
    }
}

/// Counts the objects of a kind in one scope. The API server counts only lists without a selector,
/// so this counts the objects of excluded namespaces at the same version and subtracts them.
async fn count(cluster: &Cluster, target: &WatchTarget) -> Result<(u64, String), Failure> {
    let (mut objects, version) = count_at(cluster, &format!("{}?limit=1", target.path)).await?;
    for namespace in &target.without {
        let path = target.path_within(namespace);
        let exact = format!(
            "{path}?limit=1&resourceVersion={}&resourceVersionMatch=Exact",
            percent_encode(&version)
        );

        objects = objects.saturating_sub(count_at(cluster, &exact).await?.0);
    }

    Ok((objects, version))
}

/// Requests one object; the API server reports how many more there are.
async fn count_at(cluster: &Cluster, path: &str) -> Result<(u64, String), Failure> {
    let ShortList { metadata, items } = cluster.get_json(path, LIST_METADATA).await?;
    Ok((items.len() as u64 + metadata.remaining_item_count.unwrap_or(0), metadata.resource_version))
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};

    use super::*;
    use crate::sources::testing::InProcess as _;

    #[tokio::test]
    async fn an_empty_list_counts_as_empty_and_no_list_is_an_error() {
        let counted = |objects| Ok((objects, "7".to_owned()));
        for (body, expected) in [
            (
                r#"{"metadata":{"resourceVersion":"7","remainingItemCount":41},"items":[{}]}"#,
                counted(42),
            ),
            (r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#, counted(0)),
            // The API server writes an empty list that is reduced to metadata like this.
            (r#"{"metadata":{"resourceVersion":"7"},"items":null}"#, counted(0)),
            (r#"{"kind":"Status","metadata":{},"code":200}"#, Err(Cause::Undecodable)),
            ("", Err(Cause::Undecodable)),
        ] {
            let script = Script::new([Reply::Response(200, vec![], body.to_owned())]);
            let target = WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), true);
            let result = count(&script.cluster(), &target).await;

            assert_eq!(result.map_err(|failure| failure.cause), expected, "{body}");
        }
    }

    #[tokio::test]
    async fn excluded_namespaces_are_counted_at_the_same_version_and_subtracted() {
        let list = |more: u64| {
            let body = format!(
                r#"{{"metadata":{{"resourceVersion":"7","remainingItemCount":{more}}},"items":[{{}}]}}"#
            );
            Reply::Response(200, vec![], body)
        };

        let script = Script::new([list(99), list(9), list(4)]);
        let without = vec!["a".to_owned(), "b".to_owned()];
        let target = WatchTarget {
            without,
            ..WatchTarget::new("/apis/example.io/v1/widgets".to_owned(), true)
        };

        assert_eq!(
            count(&script.cluster(), &target).await.expect("counted"),
            (100 - 10 - 5, "7".to_owned())
        );

        let selector = "?fieldSelector=metadata.namespace%21%3Da,metadata.namespace%21%3Db&limit=1";
        assert_eq!(target.request("limit=1"), format!("/apis/example.io/v1/widgets{selector}"));
        assert_eq!(target.path_within("a"), "/apis/example.io/v1/namespaces/a/widgets");
    }
}
