//! The kinds that the API server serves, to resolve the addresses of lookups.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::{Instant, timeout};

use crate::net::Failure;
use crate::sources::api_server::{ApiKind, ApiResources, Cluster};

/// The list of kinds, which may be outdated.
pub(super) struct ServedKinds {
    cluster: Cluster,
    listed: ApiResources,
    /// When the list was read.
    at: Option<Instant>,
    /// When the list was last certainly current.
    current_at: Option<Instant>,
    /// When reading the list last failed, and why.
    failed: Option<(Instant, Cause)>,
}

/// Why a kind cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// It is unknown whether the API server serves the kind.
    Failed(Cause),
    /// The list of kinds may be outdated, but was read so recently that it is not read again before
    /// this time.
    TooEarly(Instant),
}

/// The shortest time between two reads of the list.
const READ_EVERY: Duration = Duration::from_secs(60);
/// The same time, if the list has certainly changed.
const READ_CHANGED_EVERY: Duration = Duration::from_secs(10);
/// Time for a read of the list. No lookup can run during this time.
const WITHIN: Duration = Duration::from_secs(15);
/// How long a failure to read the list counts for all kinds that may be new.
const FAILED_FOR: Duration = Duration::from_secs(10);

impl ServedKinds {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, listed: ApiResources::default(), at: None, current_at: None, failed: None }
    }

    /// Finds a kind; `None` if the API server certainly did not serve it after `asked`.
    ///
    /// # Errors
    /// If that is not certain, or if several groups serve the kind and the address names none.
    pub(super) async fn find(
        &mut self,
        group: &str,
        kind: &str,
        asked: Instant,
    ) -> Result<Option<ApiKind>, NotFound> {
        match self.look_up(group, kind) {
            Ok(None) | Err(NotFound::Failed(Cause::ServerError)) => {
                self.find_again(group, kind, asked).await
            }
            found => found,
        }
    }

    /// Finds a kind in a list that was current after `asked`.
    ///
    /// # Errors
    /// As for [`ServedKinds::find`].
    pub(super) async fn find_again(
        &mut self,
        group: &str,
        kind: &str,
        asked: Instant,
    ) -> Result<Option<ApiKind>, NotFound> {
        if self.current_at.is_none_or(|at| at <= asked) {
            self.renew().await?;
        }
        self.look_up(group, kind)
    }

    /// Makes sure that the list is current. Does not retry an unreadable list for each probe.
    async fn renew(&mut self) -> Result<(), NotFound> {
        if let Some((_, cause)) = self.failed.filter(|(at, _)| at.elapsed() < FAILED_FOR) {
            return Err(NotFound::Failed(cause));
        }

        let late = |_| Err(NotFound::Failed(Cause::Timeout));
        let renewed = timeout(WITHIN, self.renew_now()).await.unwrap_or_else(late);
        self.failed = match renewed {
            Err(NotFound::Failed(cause)) => Some((Instant::now(), cause)),
            _ => None,
        };

        renewed
    }

    async fn renew_now(&mut self) -> Result<(), NotFound> {
        let failed = |failure: Failure| NotFound::Failed(failure.cause);
        let began = Instant::now();
        if let Some(at) = self.at.filter(|at| began.duration_since(*at) < READ_EVERY) {
            if self.listed.has_current_tag(&self.cluster).await.map_err(failed)? {
                self.current_at = Some(began);
                return Ok(());
            }

            let again = at + if self.listed.has_tag() { READ_CHANGED_EVERY } else { READ_EVERY };
            if began < again {
                return Err(NotFound::TooEarly(again));
            }
        }

        self.listed = ApiResources::read(&self.cluster).await.map_err(failed)?;
        (self.at, self.current_at) = (Some(began), Some(began));
        Ok(())
    }

    /// Looks up a kind in the list.
    ///
    /// # Errors
    /// `ServerError` if a group is missing in the list, `Invalid` if the kind is ambiguous.
    fn look_up(&self, group: &str, kind: &str) -> Result<Option<ApiKind>, NotFound> {
        if let Some(found) = self.listed.find_kind(group, kind) {
            return Ok(Some(found.clone()));
        }

        if !group.is_empty() {
            return if self.listed.is_unknown(group) {
                Err(NotFound::Failed(Cause::ServerError))
            } else {
                Ok(None)
            };
        }

        // The address names no group, and the core group does not serve the kind.
        if self.listed.has_unknown_groups() {
            return Err(NotFound::Failed(Cause::ServerError));
        }

        let groups: BTreeSet<&str> = self
            .listed
            .kinds()
            .filter(|served| served.kind == kind)
            .map(|served| served.group.as_str())
            .collect();

        match groups.first() {
            None => Ok(None),
            Some(group) if groups.len() == 1 => Ok(self.listed.find_kind(group, kind).cloned()),
            Some(_) => Err(NotFound::Failed(Cause::Invalid)),
        }
    }
}
