//! Remembers for a while which peers have presented wrong credentials.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// The peers whose credentials were wrong recently, and until when they count.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashMap<IpAddr, Instant>>);

/// Largest number of peers.
pub(super) const MAX: usize = 256;

/// How long wrong credentials count.
const FOR: Duration = Duration::from_secs(600);

impl Suspects {
    pub(super) fn contains(&self, peer: IpAddr) -> bool {
        lock(&self.0).get(&peer).is_some_and(|until| *until > Instant::now())
    }

    /// Forgets a peer, whose credentials are right.
    pub(super) fn forget(&self, peer: IpAddr) {
        lock(&self.0).remove(&peer);
    }

    /// Notes wrong credentials of a peer. Returns false if another peer is forgotten before its time
    /// to make room: the one whose last wrong credentials are the oldest.
    pub(super) fn note(&self, peer: IpAddr) -> bool {
        let (mut peers, now) = (lock(&self.0), Instant::now());
        peers.insert(peer, now + FOR);
        if peers.len() <= MAX {
            return true;
        }

        peers.retain(|_, until| *until > now);
        if peers.len() <= MAX {
            return true;
        }

        let oldest = peers.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer);
        if let Some(oldest) = oldest {
            peers.remove(&oldest);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: usize) -> IpAddr {
        let [.., high, low] = number.to_be_bytes();
        [10, 0, high, low].into()
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_credentials_count_for_ten_minutes() {
        let suspects = Suspects::default();
        assert!(suspects.note(peer(1)));
        tokio::time::advance(FOR - Duration::from_secs(1)).await;
        assert!(suspects.contains(peer(1)) && !suspects.contains(peer(2)));

        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!suspects.contains(peer(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_that_was_wrong_least_recently_makes_room() {
        let suspects = Suspects::default();
        for number in 0..MAX {
            assert!(suspects.note(peer(number)), "{number}");
            tokio::time::advance(Duration::from_millis(1)).await;
        }

        assert!(suspects.note(peer(0)), "it is in the table");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!suspects.note(peer(MAX)));
        assert_eq!([0, 1, MAX].map(|number| suspects.contains(peer(number))), [true, false, true]);

        tokio::time::advance(FOR).await;
        assert!(suspects.note(peer(MAX + 1)), "all others have ended");
        assert_eq!(lock(&suspects.0).len(), 1);
    }
}
