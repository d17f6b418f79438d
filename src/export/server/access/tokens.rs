//! Bearer tokens of accounts, which the API server authenticates and authorizes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::timeout;
use tracing::{info, warn};

use super::checks::{Checks, Credentials, Entry};
use super::remembered::{Key, Remembered};
use super::{Undecided, Verdict};
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::{Review, TokenReviewer};

/// Checks tokens.
pub(super) struct Tokens {
    reviews: Arc<Reviews>,
    remembered: Arc<Remembered>,
    checks: Checks,
}

/// Asks the API server.
struct Reviews {
    reviewer: Arc<dyn TokenReviewer>,
    /// Why the last review failed.
    failure: Mutex<Option<Failure>>,
}

/// How long to remember that an account may open a path. After this time at the latest, a deleted
/// token or role has no effect any more.
const ALLOWED_FOR: Duration = Duration::from_secs(60);

/// Reviews of each group at the same time.
const RUNNING: usize = 2;

/// After a review that does not allow the request, no other one takes its place for this time.
/// Strangers thus cause at most forty reviews per second: twenty from suspects, and twenty from other
/// peers. The first wrong tokens of each of the 256 peers that fit into the table of suspects come on
/// top of this.
const REST: Duration = Duration::from_millis(100);

/// Time for a review, which is two requests. Prometheus times out after ten seconds by default.
const WITHIN: Duration = Duration::from_secs(5);

/// The longest token, in bytes. Those of service accounts have about one thousand.
const MAX_TOKEN: usize = 16 * 1024;

/// No account has this token. Its review shows whether loopwatch may ask.
const NO_TOKEN: &str = "loopwatch-asks-whether-it-may-review-tokens";

impl Tokens {
    pub(super) fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        let reviews = Arc::new(Reviews { reviewer, failure: Mutex::default() });
        let remembered = Arc::new(Remembered::new(ALLOWED_FOR));
        Self { reviews, remembered, checks: Checks::new(RUNNING) }
    }

    /// Checks whether the account of this token may `get` the path. Without an answer of the API
    /// server, nobody may.
    pub(super) async fn check(
        &self,
        peer: IpAddr,
        token: &str,
        path: &str,
    ) -> Result<Verdict, Undecided> {
        if token.is_empty() || token.len() > MAX_TOKEN {
            return Ok(Verdict::Wrong);
        }

        let key = Key::of(&[token, path]);
        let credentials = Credentials { key, lasting: key };
        let check = match self.checks.enter(&self.remembered, key, peer).await? {
            Entry::Remembered(verdict) => return Ok(verdict),
            Entry::Check(check) => check,
        };

        let reviews = Arc::clone(&self.reviews);
        let (token, path) = (token.to_owned(), path.to_owned());
        let verdict = async move { reviews.verdict(&token, &path).await };
        check.run(&self.remembered, credentials, verdict, |_| REST).await
    }

    /// Asks the API server once, to learn whether it answers.
    pub(super) async fn try_reviewer(&self) {
        self.reviews.verdict(NO_TOKEN, "/metrics").await;
    }

    /// Why loopwatch may not ask the API server. Other failures are temporary.
    pub(super) fn problem(&self) -> Option<String> {
        let failure = lock(&self.reviews.failure).clone();
        let refused = failure.filter(|failure| failure.cause == Cause::Forbidden)?;

        Some(format!(
            "--web-auth=kubernetes: loopwatch cannot have tokens reviewed, so it refuses all clients of /metrics: {refused}; \
             its account needs the permission to create tokenreviews and subjectaccessreviews (deploy/components/web-auth)"
        ))
    }
}

impl Reviews {
    /// The answer of the API server; `None` if there is none, which is logged when it begins.
    async fn verdict(&self, token: &str, path: &str) -> Option<Verdict> {
        let reviewed = timeout(WITHIN, self.reviewer.review(token, path)).await;
        let reviewed = reviewed.unwrap_or_else(|_| Err(Failure::timeout("token review", WITHIN)));
        let failure = reviewed.as_ref().err().cloned();

        let before = std::mem::replace(&mut *lock(&self.failure), failure.clone());
        match (before, failure) {
            (Some(_), None) => info!("the API server reviews tokens again"),
            (before, Some(failure)) if before.as_ref().map(|f| f.cause) != Some(failure.cause) => {
                warn!(%failure, "cannot have tokens reviewed; /metrics refuses its clients");
            }
            _ => {}
        }

        reviewed.ok().map(|review| match review {
            Review::Allowed => Verdict::Allowed,
            Review::Unauthenticated => Verdict::Wrong,
            Review::Forbidden => Verdict::Forbidden,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use tokio::time::sleep;

    use super::*;

    const PEER: [u8; 4] = [10, 0, 0, 1];

    /// Knows two tokens, and counts the reviews.
    #[derive(Default)]
    struct Stub {
        reviews: AtomicUsize,
        takes: Duration,
        fails: Mutex<Option<Cause>>,
    }

    #[async_trait]
    impl TokenReviewer for Stub {
        async fn review(&self, token: &str, path: &str) -> Result<Review, Failure> {
            self.reviews.fetch_add(1, Ordering::Relaxed);
            sleep(self.takes).await;
            if let Some(cause) = *lock(&self.fails) {
                return Err(Failure::new(cause, "no"));
            }
            Ok(match (token, path) {
                ("prometheus", "/metrics") | ("admin", _) => Review::Allowed,
                ("prometheus", _) => Review::Forbidden,
                _ => Review::Unauthenticated,
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_are_remembered_for_a_minute() {
        let stub = Arc::new(Stub::default());
        let tokens = Tokens::new(stub.clone());
        for (token, path, expected) in [
            ("prometheus", "/metrics", Verdict::Allowed),
            ("prometheus", "/loopwatch", Verdict::Forbidden),
            ("nobody", "/metrics", Verdict::Wrong),
        ] {
            for _ in 0..3 {
                assert_eq!(tokens.check(PEER.into(), token, path).await, Ok(expected), "{token}");
            }
        }
        assert_eq!(stub.reviews.load(Ordering::Relaxed), 3);

        tokio::time::advance(ALLOWED_FOR + Duration::from_secs(1)).await;
        *lock(&stub.fails) = Some(Cause::Timeout);
        assert_eq!(
            tokens.check(PEER.into(), "prometheus", "/metrics").await,
            Err(Undecided::Unavailable),
            "without the API server, nobody may"
        );
        assert_eq!(tokens.problem(), None, "it is temporary");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cause_few_reviews_and_do_not_delay_known_clients() {
        let stub = Arc::new(Stub::default());
        let tokens = Arc::new(Tokens::new(stub.clone()));
        let allowed = tokens.check(PEER.into(), "prometheus", "/metrics").await;
        assert_eq!(allowed, Ok(Verdict::Allowed));
        tokio::time::advance(ALLOWED_FOR + Duration::from_secs(1)).await;

        // From a hundred addresses: at most two first tokens of each, and then twenty per second.
        let began = tokio::time::Instant::now();
        let flood: Vec<_> = (0..400_usize)
            .map(|number| {
                let tokens = Arc::clone(&tokens);
                let (peer, token) = (
                    [10, 0, 1, u8::try_from(number / 4).expect("small")],
                    format!("stolen-{number}"),
                );
                tokio::spawn(async move { tokens.check(peer.into(), &token, "/metrics").await })
            })
            .collect();
        tokio::task::yield_now().await;
        let allowed = tokens.check(PEER.into(), "prometheus", "/metrics").await;
        assert_eq!((allowed, began.elapsed()), (Ok(Verdict::Allowed), Duration::ZERO));

        for stranger in flood {
            let verdict = stranger.await.expect("no panic");
            assert!(verdict == Ok(Verdict::Wrong) || verdict == Err(Undecided::Busy));
        }
        let reviews = stub.reviews.load(Ordering::Relaxed);
        assert!((155..=265).contains(&reviews), "{reviews} within three seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_from_many_addresses_do_not_keep_out_a_new_client() {
        let tokens = Arc::new(Tokens::new(Arc::new(Stub::default())));
        let flood: Vec<_> = (1..=50_u8)
            .flat_map(|host| [host; 4])
            .map(|host| {
                let tokens = Arc::clone(&tokens);
                tokio::spawn(async move {
                    for number in 0_u64.. {
                        let token = format!("stolen-{host}-{number}-{:?}", tokio::task::id());
                        let _ = tokens.check([10, 0, 1, host].into(), &token, "/metrics").await;
                        sleep(Duration::from_millis(50)).await;
                    }
                })
            })
            .collect();

        for moment in 0..20 {
            sleep(Duration::from_secs(1)).await;
            let (began, peer) = (tokio::time::Instant::now(), [10, 0, 2, moment]);
            let path = format!("/metrics/{moment}"); // a new client each time
            let verdict = tokens.check(peer.into(), "admin", &path).await;
            assert_eq!(verdict, Ok(Verdict::Allowed), "{moment}");
            assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        }

        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_disconnects_does_not_escape_the_rest() {
        let takes = Duration::from_millis(10);
        let stub = Arc::new(Stub { takes, ..Stub::default() });
        let tokens = Tokens::new(stub.clone());
        for number in 0..100 {
            let token = format!("stolen-{number}");
            let check = tokens.check(PEER.into(), &token, "/metrics");
            let _ = timeout(Duration::from_millis(1), check).await; // the connection is closed
        }

        let reviews = stub.reviews.load(Ordering::Relaxed);
        assert!(reviews <= 2 * RUNNING, "{reviews} within a tenth of a second");
    }

    #[tokio::test]
    async fn a_missing_permission_is_a_problem_until_it_is_granted() {
        let stub = Arc::new(Stub::default());
        *lock(&stub.fails) = Some(Cause::Forbidden);
        let tokens = Tokens::new(stub.clone());

        tokens.try_reviewer().await;
        let problem = tokens.problem().expect("a problem");
        assert!(problem.contains("tokenreviews") && problem.contains("components/web-auth"));

        *lock(&stub.fails) = None;
        tokens.try_reviewer().await;
        assert_eq!(tokens.problem(), None);
    }
}
