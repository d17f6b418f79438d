//! Lists one kind, reduced to metadata, in pages.

use std::cell::Cell;
use std::time::Duration;

use loopwatch_model::cascade::Node;
use loopwatch_model::observation::{Cause, OwnerReference, Scope};
use serde::Deserialize;

use crate::net::Failure;
use crate::sources::api_server::{ApiKind, Cluster, Frame, ListPage, Listing, WatchTarget};
use crate::sources::decoding::or_default;

/// The number of objects that all lists together may still read.
pub(super) struct ObjectBudget(Cell<usize>);

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) nodes: Vec<Node>,
    /// Why some of its objects are missing.
    pub(super) left_out: Option<String>,
    /// Whether the API server serves the kind. Without it, `left_out` has the API server's words.
    pub(super) found: bool,
}

/// An object that is reduced to its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MetadataDocument {
    metadata: OwnershipMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnershipMetadata {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerDocument>,
    #[serde(deserialize_with = "or_default")]
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerDocument {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// How often loopwatch requests a page after temporary failures.
const ATTEMPTS: u32 = 3;
/// The wait before the first retry, and the longest one.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Limit on pages of one kind, so that every list ends.
const MOST_PAGES: usize = 10_000;
/// Why loopwatch stops before the end of a list.
const TOO_MANY: &str = "there are too many objects to read them all";

/// Limit on objects, so that a huge cluster does not exhaust the memory.
pub(super) const MOST_OBJECTS: usize = 500_000;

impl Default for Listed {
    fn default() -> Self {
        Self { nodes: Vec::new(), left_out: None, found: true }
    }
}

impl ObjectBudget {
    pub(super) fn new(objects: usize) -> Self {
        Self(Cell::new(objects))
    }

    /// Takes the room for one object. Returns false if there is no room.
    pub(super) fn take(&self) -> bool {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    pub(super) fn give_back(&self, objects: usize) {
        self.0.set(self.0.get() + objects);
    }
}

/// Lists a kind in a scope, or in the namespace `home` if the account may not list all namespaces.
pub(super) async fn list(
    cluster: &Cluster,
    kind: &ApiKind,
    scope: &Scope,
    home: &str,
    room: &ObjectBudget,
) -> Listed {
    let namespace = scope.namespace().unwrap_or_default();
    let mut listed = Listed::default();
    let Err(failure) = pages(cluster, kind, namespace, room, &mut listed).await else {
        return listed;
    };

    listed.left_out = Some(reason(&failure));
    listed.found = failure.cause != Cause::NotFound;
    if failure.cause == Cause::Forbidden
        && kind.namespaced
        && namespace.is_empty()
        && !home.is_empty()
    {
        let mut at_home = Listed::default();
        if pages(cluster, kind, home, room, &mut at_home).await.is_ok() {
            room.give_back(listed.nodes.len());
            at_home.left_out = Some(format!("permission to list only in the namespace {home}"));
            return at_home;
        }

        room.give_back(at_home.nodes.len());
    }

    listed
}

async fn pages(
    cluster: &Cluster,
    kind: &ApiKind,
    namespace: &str,
    room: &ObjectBudget,
    listed: &mut Listed,
) -> Result<(), Failure> {
    let target = WatchTarget::new(collection_of(kind, namespace), true);
    let mut page = ListPage::first(Listing::Paged { expired: 0 });
    let mut attempts = 0;

    for _ in 0..MOST_PAGES {
        let before = listed.nodes.len();
        let failure = match read(cluster, kind, &target, &page, room, listed).await {
            Ok(token) if token.is_empty() => return Ok(()),
            Ok(token) => {
                page = page.followed_by(token);
                attempts = 0;
                continue;
            }
            Err(failure) => failure,
        };

        if failure.cause == Cause::Gone && page.is_continued() {
            page = ListPage::first(page.after_expiry());
            room.give_back(listed.nodes.len());
            *listed = Listed::default();
            continue;
        }

        room.give_back(listed.nodes.len() - before);
        listed.nodes.truncate(before);
        attempts += 1;

        let passes = matches!(
            failure.cause,
            Cause::Throttled
                | Cause::Timeout
                | Cause::ServerError
                | Cause::Connection
                | Cause::Undecodable
        );

        if !passes || attempts >= ATTEMPTS {
            return Err(failure);
        }

        let wait = failure.retry_after.unwrap_or(WAIT.0 * 2u32.pow(attempts - 1));
        tokio::time::sleep(wait.min(WAIT.1)).await;
    }

    listed.left_out = Some(TOO_MANY.to_owned());
    Ok(())
}

/// Reads one page, and returns the token of the next one.
async fn read(
    cluster: &Cluster,
    kind: &ApiKind,
    target: &WatchTarget,
    page: &ListPage,
    room: &ObjectBudget,
    listed: &mut Listed,
) -> Result<String, Failure> {
    let mut body = page.open(cluster, target).await?;
    let mut skipped = 0u32;
    while let Some(frame) = body.next().await? {
        match frame {
            Frame::Document(text) => match serde_json::from_slice(&text) {
                Ok(document) if room.take() => listed.nodes.push(node(kind, document)),
                Ok(_) => {
                    listed.left_out = Some(TOO_MANY.to_owned());
                    return Ok(String::new());
                }
                Err(_) => skipped += 1,
            },
            Frame::Oversized => skipped += 1,
        }
    }

    let end = body.end()?;
    if skipped > 0 {
        listed.left_out = Some("some of its objects are too large or unreadable".to_owned());
    }

    Ok(end.token)
}

pub(super) fn node(kind: &ApiKind, document: MetadataDocument) -> Node {
    let OwnershipMetadata {
        namespace,
        name,
        uid,
        deletion_timestamp,
        owner_references,
        finalizers,
    } = document.metadata;

    let owner = |owner: OwnerDocument| OwnerReference {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller == Some(true),
        blocks_deletion: owner.block_owner_deletion == Some(true),
    };

    Node {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace,
        name,
        uid,
        owners: owner_references.into_iter().map(owner).collect(),
        finalizers,
        deleting: deletion_timestamp.is_some(),
        kept_by: Vec::new(),
    }
}

/// The path of a collection; an empty namespace means the cluster or all namespaces.
pub(super) fn collection_of(kind: &ApiKind, namespace: &str) -> String {
    kind.collection(Some(namespace).filter(|namespace| !namespace.is_empty()))
}

/// Why loopwatch could not read something, in a few words.
pub(super) fn reason(failure: &Failure) -> String {
    match failure.cause {
        Cause::Forbidden => "no permission to list".to_owned(),
        _ => failure.detail.clone(),
    }
}
