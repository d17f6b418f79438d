//! Samples of objects, reduced to their metadata: a few per request, so that a sample costs little
//! even if the kind has a hundred thousand objects.

use loopwatch_model::observation::{Cause, ObjectView};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::net::{Failure, percent_encode};
use crate::sources::api_server::connection::{Cluster, LIST_METADATA};
use crate::sources::decoding::{self, HashKey, ListMetadata, or_default};

/// Some objects of one kind in one scope.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) objects: Vec<ObjectView>,
    /// The number of objects in the scope, if the sample began at the start of the list.
    pub(super) total: Option<u64>,
    /// The token of the rest; empty at the end of the list.
    pub(super) token: String,
}

/// How much of a collection to request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    /// The number of objects, and that after a response that was too large.
    pub(super) limit: usize,
    pub(super) few: usize,
    /// The largest response, in bytes.
    pub(super) largest: usize,
}

#[derive(Deserialize)]
struct SampleDocument {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Box<RawValue>>,
}

/// Largest sample, in bytes. The metadata of an object has approximately 2 KB, but annotations can
/// make it much larger.
const LARGEST: usize = 256 << 10;
/// Number of objects to request after a sample that was too large.
const FEW: usize = 2;

/// Assumed number of further objects, if the API server does not report it.
const UNKNOWN_REST: u64 = 100_000;

impl Sample {
    /// Requests up to `limit` objects of a collection, starting at the token.
    pub(super) async fn request(
        cluster: &Cluster,
        key: &HashKey,
        path: &str,
        limit: usize,
        token: &str,
    ) -> Result<Self, Failure> {
        let portion = Portion { limit, few: FEW, largest: LARGEST };
        Self::request_portion(cluster, key, path, portion, token).await
    }

    /// Requests a portion of a collection, starting at the token.
    pub(super) async fn request_portion(
        cluster: &Cluster,
        key: &HashKey,
        path: &str,
        portion: Portion,
        token: &str,
    ) -> Result<Self, Failure> {
        let Portion { limit, few, largest } = portion;
        let document = match read(cluster, path, limit, token, largest).await {
            Err(failure) if failure.cause == Cause::TooLarge => {
                read(cluster, path, few, token, largest).await
            }
            // The token has expired.
            Err(failure) if failure.cause == Cause::Gone && !token.is_empty() => {
                return Box::pin(Self::request_portion(cluster, key, path, portion, "")).await;
            }
            read => read,
        };

        let SampleDocument { metadata, items } = document?;

        // An unreadable object shows nothing; its watch reports it.
        let objects: Vec<ObjectView> = items
            .iter()
            .filter_map(|item| decoding::object(item.get().as_bytes(), key).ok())
            .collect();
        let rest = match metadata.remaining_item_count {
            Some(count) => count,
            None if metadata.token.is_empty() => 0,
            None => UNKNOWN_REST,
        };

        let total = token.is_empty().then_some(items.len() as u64 + rest);
        Ok(Self { objects, total, token: metadata.token })
    }
}

async fn read(
    cluster: &Cluster,
    path: &str,
    limit: usize,
    token: &str,
    largest: usize,
) -> Result<SampleDocument, Failure> {
    let rest = if token.is_empty() {
        String::new()
    } else {
        format!("&continue={}", percent_encode(token))
    };
    cluster.get_json_within(&format!("{path}?limit={limit}{rest}"), LIST_METADATA, largest).await
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};

    use super::*;
    use crate::sources::testing::InProcess as _;

    async fn request(replies: Vec<Reply>, token: &str) -> (Result<Sample, Failure>, Vec<String>) {
        let script = Script::new(replies);
        let sample =
            Sample::request(&script.cluster(), &HashKey([0; 16]), "/api/v1/pods", 20, token).await;
        (sample, script.asked())
    }

    fn list(objects: &str, rest: &str) -> Reply {
        Reply::Response(200, vec![], format!(r#"{{"metadata":{{{rest}}},"items":[{objects}]}}"#))
    }

    #[tokio::test]
    async fn a_sample_skips_unreadable_objects_and_knows_the_total() {
        let objects = r#"{"metadata":{"name":"a"}},{"metadata":{}}"#;
        let (sample, _) =
            request(vec![list(objects, r#""continue":"t","remainingItemCount":98"#)], "").await;
        let sample = sample.expect("a sample");

        assert_eq!(
            (sample.objects.len(), sample.total, sample.token.as_str()),
            (1, Some(100), "t")
        );

        let (sample, _) = request(vec![list("", r#""continue":"t""#)], "").await;
        assert!(sample.expect("a sample").total > Some(1000), "an unknown number counts as large");
    }

    #[tokio::test]
    async fn an_expired_token_begins_again_and_large_objects_are_read_a_few_at_a_time() {
        let gone = Reply::Response(410, vec![], String::new());
        let (sample, asked) = request(vec![gone, list("", "")], "old").await;

        assert_eq!(sample.expect("a sample").total, Some(0));
        assert_eq!(
            asked,
            ["GET pods limit=20 continue=old metadata", "GET pods limit=20 metadata"]
        );

        let large = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(LARGEST));
        let (sample, asked) = request(vec![list(&large, ""), list("", "")], "").await;

        assert!(sample.is_ok());
        assert_eq!(asked[1], "GET pods limit=2 metadata");
    }
}
