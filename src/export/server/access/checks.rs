//! Limits the checks of credentials in progress, in total and for each peer: a check costs CPU time
//! or a request to the API server, and strangers can cause one.
//!
//! Three groups of checks do not wait for each other: those of credentials that were right before, of
//! new ones, and of those that come from a peer whose credentials were wrong recently. A client with
//! known credentials thus never waits for strangers. A new client waits for the first check of each of
//! their addresses, up to [`WAIT`]; then it is refused and has to try again. Checks of passwords at the
//! highest cost take half of this time each, so a few addresses are enough.
//!
//! There is room for [`super::suspects::MAX`] peers whose credentials were wrong. Strangers with more
//! addresses, which they use in turn, can keep new clients out, because their first checks rest, too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::remembered::{Key, Remembered};
use super::suspects::Suspects;
use super::{Undecided, Verdict};
use crate::lock::lock;

/// The checks in progress.
#[derive(Debug)]
pub(super) struct Checks {
    /// Checks of credentials that were right before.
    of_known: Arc<Semaphore>,
    /// Checks of new credentials.
    of_new: Arc<Semaphore>,
    /// Checks of new credentials of suspects.
    of_suspects: Arc<Semaphore>,
    suspects: Arc<Suspects>,
    /// The checks of new credentials that run or wait, by peer.
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Credentials, by their digests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credentials {
    /// Ends when the configuration about them changes.
    pub(super) key: Key,
    /// Stays: who has had access, and presents the same credentials after they have changed, is no stranger.
    pub(super) lasting: Key,
}

/// How loopwatch decides about credentials.
#[derive(Debug)]
pub(super) enum Entry {
    /// It remembers the verdict.
    Remembered(Verdict),
    /// It has to run a check.
    Check(Check),
}

/// The right to run a check. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Check {
    turn: OwnedSemaphorePermit,
    place: Option<Place>,
    address: IpAddr,
    /// Whether the peer was no suspect when the check began.
    is_first: bool,
    suspects: Arc<Suspects>,
}

/// The place of a check in the count of its peer.
#[derive(Debug)]
struct Place {
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

/// Checks of new credentials of one peer that run or wait.
const PER_PEER: usize = 4;

/// The same for a suspect.
const PER_SUSPECT: usize = 1;

/// How long a check may wait for its turn. Prometheus times out after ten seconds by default.
const WAIT: Duration = Duration::from_secs(3);

impl Checks {
    /// Allows this many checks of each group at the same time.
    pub(super) fn new(of_each_group: usize) -> Self {
        let turns = || Arc::new(Semaphore::new(of_each_group));
        Self {
            of_known: turns(),
            of_new: turns(),
            of_suspects: turns(),
            suspects: Arc::default(),
            peers: Arc::default(),
        }
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

        let begun = timeout(WAIT, self.begin(peer, remembered.was_allowed(key))).await;
        let check = begun.ok().flatten().ok_or(Undecided::Busy)?;
        let verdict = remembered.get(key);
        Ok(verdict.map_or(Entry::Check(check), Entry::Remembered))
    }

    /// Waits for the turn of a check; `None` if the peer has too many.
    async fn begin(&self, address: IpAddr, is_known: bool) -> Option<Check> {
        if is_known {
            return self.take(&self.of_known, address, None).await;
        }

        if !self.suspects.contains(address) {
            let place = Place::of(&self.peers, address, PER_PEER)?;
            let check = self.take(&self.of_new, address, Some(place)).await?;
            if check.is_first {
                return Some(check);
            }
            // Meanwhile, other credentials of this peer were wrong.
        }

        let place = Place::of(&self.peers, address, PER_SUSPECT)?;
        self.take(&self.of_suspects, address, Some(place)).await
    }

    async fn take(
        &self,
        turns: &Arc<Semaphore>,
        address: IpAddr,
        place: Option<Place>,
    ) -> Option<Check> {
        let turn = Arc::clone(turns).acquire_owned().await.ok()?;
        let (suspects, is_first) = (Arc::clone(&self.suspects), !self.suspects.contains(address));
        Some(Check { turn, place, address, is_first, suspects })
    }
}

impl Check {
    /// Runs a check, and remembers its verdict. `check` returns `None` if it cannot decide, and `rest`
    /// returns how long to rest after a check of this duration.
    ///
    /// The check has a task of its own: a client that disconnects must neither free the turn of a check
    /// that still runs nor escape the consequences.
    pub(super) async fn run(
        self,
        remembered: &Arc<Remembered>,
        credentials: Credentials,
        check: impl Future<Output = Option<Verdict>> + Send + 'static,
        rest: fn(Duration) -> Duration,
    ) -> Result<Verdict, Undecided> {
        let (answer, verdict) = oneshot::channel();
        let remembered = Arc::clone(remembered);
        tokio::spawn(async move {
            let began = Instant::now();
            let verdict = check.await;
            let rest = rest(began.elapsed());

            if let Some(verdict) = verdict {
                remembered.put(credentials.key, verdict);
            }
            let were_right = remembered.was_ever_allowed(credentials.lasting);
            if verdict == Some(Verdict::Allowed) {
                remembered.note_right(credentials.lasting);
            }
            let _ = answer.send(verdict);
            self.end(verdict, were_right, rest).await;
        });

        match verdict.await {
            Ok(verdict) => verdict.ok_or(Undecided::Unavailable),
            Err(_) => Err(Undecided::Unavailable), // the check panicked, or the process is ending
        }
    }

    /// Ends a check with its verdict, if there is one. Unless the credentials are right, the turn
    /// becomes free only after a rest, so that strangers cannot cause many checks.
    ///
    /// After the first wrong credentials of a peer, it becomes free at once, because a new client may
    /// wait for it. If so many peers present wrong ones that some are forgotten too early, these
    /// checks rest, too.
    ///
    /// Credentials that nobody can decide about make a suspect, too: a stranger may choose them so. Those that
    /// were right once do not: a scraper may get the new password later than loopwatch.
    async fn end(self, verdict: Option<Verdict>, were_right: bool, rest: Duration) {
        let Self { turn, place, address, is_first, suspects } = self;
        drop(place); // the next check of the peer may wait
        let rests = match verdict {
            Some(Verdict::Allowed) => {
                suspects.forget(address);
                false
            }
            Some(Verdict::Wrong | Verdict::Forbidden) if were_right => true,
            Some(Verdict::Wrong | Verdict::Forbidden) => {
                let has_room = suspects.note(address);
                !(is_first && has_room)
            }
            None => {
                suspects.note(address);
                true
            }
        };

        if rests {
            sleep(rest).await;
        }
        drop(turn);
    }
}

impl Place {
    /// A place, if the peer has fewer than this many.
    fn of(
        peers: &Arc<Mutex<HashMap<IpAddr, usize>>>,
        address: IpAddr,
        limit: usize,
    ) -> Option<Self> {
        let mut counts = lock(peers);
        let count = counts.entry(address).or_default();
        if *count >= limit {
            return None;
        }

        *count += 1;
        Some(Self { peers: Arc::clone(peers), address })
    }
}

impl Drop for Place {
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
    use tokio::time::Instant;

    use super::super::suspects::MAX as MAX_SUSPECTS;
    use super::*;

    /// How long a check takes in these tests, and its rest.
    const TAKES: Duration = Duration::from_millis(100);
    const REST: Duration = Duration::from_millis(300);

    /// Checks the credentials of a peer. Returns whether it was its first check, or `None` if there
    /// were too many.
    async fn check(checks: &Checks, peer: [u8; 4], key: Key, verdict: Verdict) -> Option<bool> {
        let remembered = Remembered::new(Duration::from_secs(60));
        let Ok(Entry::Check(check)) = checks.enter(&remembered, key, peer.into()).await else {
            return None;
        };
        sleep(TAKES).await;

        let is_first = check.is_first;
        tokio::spawn(check.end(Some(verdict), false, REST));
        Some(is_first)
    }

    /// Wrong credentials from this many addresses, four at a time from each, without an end.
    fn flood(checks: &Arc<Checks>, addresses: u8) -> Vec<tokio::task::JoinHandle<()>> {
        let attack = |host: u8| {
            let checks = Arc::clone(checks);
            tokio::spawn(async move {
                loop {
                    check(&checks, [10, 0, 1, host], Key::of(&["bad"]), Verdict::Wrong).await;
                    sleep(Duration::from_millis(20)).await;
                }
            })
        };
        (1..=addresses).flat_map(|host| [host; 4]).map(attack).collect()
    }

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

    #[tokio::test(start_paused = true)]
    async fn a_flood_delays_a_new_client_by_one_check_of_each_address_at_most() {
        let checks = Arc::new(Checks::new(1));
        let flood = flood(&checks, 20);
        tokio::task::yield_now().await;

        let began = Instant::now();
        let first = check(&checks, [10, 0, 2, 1], Key::of(&["good"]), Verdict::Allowed).await;
        assert_eq!(first, Some(true));
        assert!(began.elapsed() <= 21 * TAKES, "{:?}", began.elapsed());
        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_client_does_not_wait_for_addresses_with_wrong_credentials() {
        let checks = Arc::new(Checks::new(1));
        let flood = flood(&checks, 50);
        sleep(51 * TAKES).await;

        for host in 1..=30 {
            let began = Instant::now();
            let peer = [10, 0, 2, host];
            let first = check(&checks, peer, Key::of(&["good"]), Verdict::Allowed).await;
            assert_eq!((first, began.elapsed()), (Some(true), TAKES), "{host}");
        }

        // A suspect waits in its own group, and may be refused. Known credentials do not wait.
        let checked = checks.begin([10, 0, 1, 7].into(), true).await;
        assert!(checked.is_some_and(|check| !check.is_first));
        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_checks_of_strangers_refuse_a_new_client_once() {
        let (checks, remembered) = (Arc::new(Checks::new(1)), Remembered::new(WAIT));
        for host in 1..=4 {
            let checks = Arc::clone(&checks);
            tokio::spawn(async move {
                let check = checks.begin([10, 0, 1, host].into(), false).await.expect("a turn");
                sleep(WAIT / 2).await; // a password at the highest cost
                check.end(Some(Verdict::Wrong), false, WAIT * 3 / 2).await;
            });
        }
        tokio::task::yield_now().await;

        let (key, client) = (Key::of(&["good"]), [10, 0, 2, 1].into());
        let refused = checks.enter(&remembered, key, client).await;
        assert!(matches!(refused, Err(Undecided::Busy)), "{refused:?}");

        sleep(Duration::from_secs(30)).await;
        let began = Instant::now();
        assert!(matches!(checks.enter(&remembered, key, client).await, Ok(Entry::Check(_))));
        assert_eq!(began.elapsed(), Duration::ZERO, "the next scrape");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_panics_decides_nothing_and_frees_its_turn() {
        let (checks, remembered) = (Checks::new(1), Arc::new(Remembered::new(WAIT)));
        let (key, peer) = (Key::of(&["good"]), [10, 0, 0, 1].into());
        let Ok(Entry::Check(check)) = checks.enter(&remembered, key, peer).await else {
            panic!("nothing runs");
        };

        let verdict = check
            .run(
                &remembered,
                Credentials { key, lasting: key },
                async { panic!("a bug") },
                |took| took,
            )
            .await;
        assert_eq!(verdict, Err(Undecided::Unavailable));
        assert_eq!(checks.of_new.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspect_has_one_check_at_a_time_and_rests() {
        let (checks, peer) = (Arc::new(Checks::new(1)), [10, 0, 0, 1]);
        let key = Key::of(&["bad"]);
        assert_eq!(check(&checks, peer, key, Verdict::Wrong).await, Some(true));
        tokio::task::yield_now().await;
        assert_eq!(checks.of_new.available_permits(), 1, "a new client need not wait for a rest");

        let again = check(&checks, peer, key, Verdict::Forbidden);
        let beside = check(&checks, peer, key, Verdict::Wrong);
        assert_eq!(tokio::join!(again, beside), (Some(false), None), "one at a time");
        tokio::task::yield_now().await;
        assert_eq!(checks.of_suspects.available_permits(), 0, "it rests");

        // The next one waits for the end of the rest, and is not refused.
        let began = Instant::now();
        assert_eq!(check(&checks, peer, key, Verdict::Allowed).await, Some(false));
        assert!(began.elapsed() >= REST, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn checks_without_an_answer_make_a_suspect_and_right_credentials_none() {
        let (checks, remembered) = (Checks::new(1), Arc::new(Remembered::new(WAIT)));
        let (stranger, scraper) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let run = async |peer: IpAddr, key: &str, lasting: &str, verdict: Option<Verdict>| {
            let credentials = Credentials { key: Key::of(&[key]), lasting: Key::of(&[lasting]) };
            let entered = checks.enter(&remembered, credentials.key, peer).await;
            let Ok(Entry::Check(check)) = entered else { panic!("{entered:?}") };
            let _ = check.run(&remembered, credentials, async move { verdict }, |_| REST).await;
            sleep(2 * REST).await;
        };

        run(stranger, "slow", "slow", None).await;
        assert!(checks.suspects.contains(stranger), "strangers may choose such credentials");

        // The file has another password, and the scraper gets it later.
        run(scraper, "old hash, old", "old", Some(Verdict::Allowed)).await;
        run(scraper, "new hash, old", "old", Some(Verdict::Wrong)).await;
        assert!(!checks.suspects.contains(scraper), "it is no stranger");

        run(scraper, "new hash, typo", "typo", Some(Verdict::Wrong)).await;
        assert!(checks.suspects.contains(scraper));
        run(scraper, "new hash, new", "new", Some(Verdict::Allowed)).await;
        assert!(!checks.suspects.contains(scraper));
    }

    #[tokio::test(start_paused = true)]
    async fn first_checks_rest_once_there_are_more_peers_than_places() {
        let checks = Arc::new(Checks::new(1));
        for number in 0..=MAX_SUSPECTS {
            let [.., high, low] = number.to_be_bytes();
            let key = Key::of(&["bad"]);
            assert_eq!(check(&checks, [10, 1, high, low], key, Verdict::Wrong).await, Some(true));
            tokio::task::yield_now().await;
            let rests = checks.of_new.available_permits() == 0;
            assert_eq!(rests, number == MAX_SUSPECTS, "{number}");
        }
    }
}
