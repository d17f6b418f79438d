//! Reads one page of a list at a time.

use std::time::Duration;

use kube::client::Body;
use loopwatch_model::observation::{Cause, MAX_OBJECT_BYTES};

use super::event::ListEnvelope;
use super::frames::{Frame, ItemSplitter};
use super::{Listing, WatchTarget};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::connection::{Cluster, JSON, LIST_METADATA, next_chunk};
use crate::sources::decoding::ListMetadata;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPage {
    listing: Listing,
    token: String,
}

/// The body of a page, read item by item.
pub(crate) struct PageBody {
    body: Body,
    items: ItemSplitter,
}

/// Objects per page. Larger pages save little time and cost both sides memory.
const PAGE_SIZE: u32 = 100;
/// Time without data after which a page fails.
const PAGE_IDLE: Duration = Duration::from_secs(30);

impl ListPage {
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

    /// How to list again after the token of this page has expired.
    pub(crate) fn after_expiry(&self) -> Listing {
        match self.listing {
            Listing::Streamed | Listing::Paged { expired: 0 } => Listing::Paged { expired: 1 },
            Listing::Paged { .. } | Listing::Whole => Listing::Whole,
        }
    }

    pub(crate) async fn open(
        &self,
        cluster: &Cluster,
        target: &WatchTarget,
    ) -> Result<PageBody, Failure> {
        let request = match (self.listing, self.token.as_str()) {
            (Listing::Whole, _) => target.request(""),
            (_, "") => target.request(&format!("limit={PAGE_SIZE}")),
            (_, token) => {
                target.request(&format!("limit={PAGE_SIZE}&continue={}", percent_encode(token)))
            }
        };
        let body =
            cluster.open(&request, if target.metadata_only { LIST_METADATA } else { JSON }).await?;

        Ok(PageBody { body, items: ItemSplitter::new(MAX_OBJECT_BYTES) })
    }
}

impl PageBody {
    /// The next object; `None` at the end of the page.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Failure> {
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

    /// The metadata of a page, after its last item. Fails if the page is truncated.
    pub(crate) fn end(self) -> Result<ListMetadata, Failure> {
        ListEnvelope::parse(self.items.envelope())
    }
}
