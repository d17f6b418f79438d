//! The kinds that the API server serves, for the addresses of reads.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::Instant;

use crate::sources::cluster::Cluster;
use crate::sources::discovery::api_resources::{ApiKind, ApiResources};

/// The list of kinds, as old as it may be.
pub(super) struct Kinds {
    cluster: Cluster,
    listed: ApiResources,
    /// When the list was read.
    at: Option<Instant>,
}

/// The shortest time between two reads of the list.
const READ_EVERY: Duration = Duration::from_secs(60);

// === impl Kinds ===

impl Kinds {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, listed: ApiResources::default(), at: None }
    }

    /// Finds a kind; `None` if the API server certainly does not serve it.
    ///
    /// # Errors
    /// If that is not certain, or if several groups serve the kind and the address names none.
    pub(super) async fn find(&mut self, group: &str, kind: &str) -> Result<Option<ApiKind>, Cause> {
        match self.look_up(group, kind) {
            Ok(None) | Err(Cause::ServerError) => self.find_again(group, kind).await,
            found => found,
        }
    }

    /// Finds a kind in a list that is current.
    ///
    /// # Errors
    /// As for [`Kinds::find`].
    pub(super) async fn find_again(&mut self, group: &str, kind: &str) -> Result<Option<ApiKind>, Cause> {
        self.renew().await?;
        self.look_up(group, kind)
    }

    /// Makes sure that the list is current.
    ///
    /// # Errors
    /// If it may be outdated, and was read a short time ago.
    async fn renew(&mut self) -> Result<(), Cause> {
        if self.at.is_some_and(|at| at.elapsed() < READ_EVERY) {
            let is_current = self.listed.has_current_tag(&self.cluster).await;
            return if is_current.map_err(|failure| failure.cause)? { Ok(()) } else { Err(Cause::Throttled) };
        }
        self.listed = ApiResources::read(&self.cluster).await.map_err(|failure| failure.cause)?;
        self.at = Some(Instant::now());
        Ok(())
    }

    /// Looks a kind up in the list.
    ///
    /// # Errors
    /// `ServerError` if a group is missing in the list, `Invalid` if the kind is ambiguous.
    fn look_up(&self, group: &str, kind: &str) -> Result<Option<ApiKind>, Cause> {
        if let Some(found) = self.listed.find_kind(group, kind) {
            return Ok(Some(found.clone()));
        }
        if !group.is_empty() {
            return if self.listed.is_unknown(group) { Err(Cause::ServerError) } else { Ok(None) };
        }
        // The address names no group, and the core group does not serve the kind.
        if self.listed.has_unknown_groups() {
            return Err(Cause::ServerError);
        }
        let groups: BTreeSet<&str> =
            self.listed.kinds().filter(|served| served.kind == kind).map(|served| served.group.as_str()).collect();
        match groups.first() {
            None => Ok(None),
            Some(group) if groups.len() == 1 => Ok(self.listed.find_kind(group, kind).cloned()),
            Some(_) => Err(Cause::Invalid),
        }
    }
}
