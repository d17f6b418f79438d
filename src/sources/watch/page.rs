//! Lists that are read by pages.

use std::time::Duration;

use bytes::Bytes;
use kube::client::Body;
use loopwatch_model::observation::Cause;

use super::event::ListEnvelope;
use super::frames::ItemSplitter;
use super::{Listing, WatchTarget};
use crate::sources::cluster::{Cluster, JSON, LIST_METADATA, encode, next_chunk};
use crate::sources::failure::Failure;
use crate::sources::metadata::ListMetadata;

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    listing: Listing,
    token: String,
}

/// A page that is being read.
pub(crate) struct PageBody {
    body: Body,
    items: ItemSplitter,
}

/// ObjectSink per page. Larger ones save little time and cost both sides memory.
const PAGE_SIZE: u32 = 100;
/// No object is larger, see the limit of a watch line.
const LARGEST_ITEM: usize = 8 << 20;
/// A page that stops arriving for so long has been lost on the way.
const PAGE_IDLE: Duration = Duration::from_secs(30);

// === impl Page ===

impl Page {
    pub(crate) fn first(listing: Listing) -> Self {
        Self { listing, token: String::new() }
    }

    pub(crate) fn followed_by(self, token: String) -> Self {
        Self { token, ..self }
    }

    /// Whether this page continues an earlier one.
    pub(crate) fn is_continued(&self) -> bool {
        !self.token.is_empty()
    }

    /// How to list again when the token of this page has expired.
    pub(crate) fn after_expiry(&self) -> Listing {
        match self.listing {
            Listing::Streamed | Listing::Paged { expired: 0 } => Listing::Paged { expired: 1 },
            Listing::Paged { .. } | Listing::Whole => Listing::Whole,
        }
    }

    pub(crate) async fn open(&self, cluster: &Cluster, target: &WatchTarget) -> Result<PageBody, Failure> {
        let WatchTarget { path, metadata_only } = target;
        let request = match (self.listing, self.token.as_str()) {
            (Listing::Whole, _) => path.clone(),
            (_, "") => format!("{path}?limit={PAGE_SIZE}"),
            (_, token) => format!("{path}?limit={PAGE_SIZE}&continue={}", encode(token)),
        };
        let body = cluster.open(&request, if *metadata_only { LIST_METADATA } else { JSON }).await?;
        Ok(PageBody { body, items: ItemSplitter::new(LARGEST_ITEM) })
    }
}

// === impl PageBody ===

impl PageBody {
    /// The next object; `None` when the page is at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.items.next() {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => {}
                Err(error) => return Err(Failure::new(Cause::TooLarge, error.to_string())),
            }
            match next_chunk(&mut self.body, PAGE_IDLE).await? {
                Some(chunk) => self.items.push(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// What the page says about itself, once it has been read. A page that broke off does not parse.
    pub(crate) fn end(self) -> Result<ListMetadata, Failure> {
        ListEnvelope::parse(self.items.envelope())
    }
}
