//! Limits the checks of credentials in progress, in total and for each peer: a check costs CPU time
//! or a request to the API server, and strangers can cause one. Credentials that were right before
//! do not wait for those of strangers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::remembered::{Key, Remembered};
use super::{Undecided, Verdict};
use crate::lock::lock;

/// The checks in progress.
#[derive(Debug)]
pub(super) struct Checks {
    /// Checks of new credentials.
    of_strangers: Arc<Semaphore>,
    /// Checks of credentials that were right before.
    of_known: Arc<Semaphore>,
    /// The checks of new credentials that run or wait, by peer.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// How a client with credentials goes on.
#[derive(Debug)]
pub(super) enum Entry {
    /// With a verdict that is remembered.
    Remembered(Verdict),
    /// With a check.
    Check(Check),
}

/// The right to run a check. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Check {
    _running: OwnedSemaphorePermit,
    _peer: Option<Peer>,
}

/// The place of a peer in the count.
#[derive(Debug)]
struct Peer {
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

/// Checks of new credentials of one peer that run or wait.
const PER_PEER: usize = 4;

/// How long a check may wait for its turn. Prometheus times out after ten seconds by default.
const WAIT: Duration = Duration::from_secs(3);

impl Checks {
    /// Allows this many checks of new credentials at the same time, and as many of known ones.
    pub(super) fn new(running: usize) -> Self {
        let semaphore = || Arc::new(Semaphore::new(running));
        Self { of_strangers: semaphore(), of_known: semaphore(), peers: Arc::default() }
    }

    /// Returns the verdict on credentials if it is remembered, perhaps because another request has
    /// asked the same meanwhile, or else waits for the turn of a check.
    pub(super) async fn enter(
        &self,
        remembered: &Remembered,
        key: Key,
        peer: IpAddr,
    ) -> Result<Entry, Undecided> {
        if let Some(verdict) = remembered.get(key) {
            return Ok(Entry::Remembered(verdict));
        }

        let check = self.begin(peer, remembered.was_allowed(key)).await.ok_or(Undecided::Busy)?;
        let verdict = remembered.get(key);
        Ok(verdict.map_or(Entry::Check(check), Entry::Remembered))
    }

    /// Waits for the turn of a check; `None` if there are too many.
    async fn begin(&self, address: IpAddr, is_known: bool) -> Option<Check> {
        let (turns, peer) = match is_known {
            true => (&self.of_known, None),
            false => (&self.of_strangers, Some(Peer::count(&self.peers, address)?)),
        };
        let running = timeout(WAIT, Arc::clone(turns).acquire_owned()).await.ok()?.ok()?;
        Some(Check { _running: running, _peer: peer })
    }
}

impl Peer {
    fn count(peers: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Option<Self> {
        let mut counts = lock(peers);
        let count = counts.entry(address).or_default();
        if *count >= PER_PEER {
            return None;
        }

        *count += 1;
        Some(Self { peers: Arc::clone(peers), address })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut counts = lock(&self.peers);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_with_many_checks_does_not_keep_others_out() {
        let (checks, greedy, other) = (Arc::new(Checks::new(1)), [10, 0, 0, 1], [10, 0, 0, 2]);
        let first = checks.begin(greedy.into(), false).await.expect("nothing runs");
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let checks = Arc::clone(&checks);
                tokio::spawn(async move { checks.begin(greedy.into(), false).await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(checks.begin(greedy.into(), true).await.is_some(), "known credentials do not wait");

        drop(first);
        assert!(
            checks.begin(other.into(), false).await.is_some(),
            "it waits for three others at most"
        );

        let mut run = 0;
        for check in waiting {
            run += usize::from(check.await.expect("no panic"));
        }
        assert_eq!(run, PER_PEER - 1);
        assert!(lock(&checks.peers).is_empty());
    }
}
