//! Bearer tokens of accounts, which the API server authenticates and authorizes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::observation::Cause;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::checks::{Check, Checks, Entry};
use super::remembered::{Key, Remembered};
use super::{Undecided, Verdict};
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::{Review, TokenReviewer};

/// Checks tokens.
pub(super) struct Tokens {
    reviewer: Arc<dyn TokenReviewer>,
    remembered: Remembered,
    checks: Checks,
    /// Why the last review failed.
    failure: Mutex<Option<Failure>>,
}

/// How long to remember that an account may open a path. After this time at the latest, a deleted
/// token or role has no effect any more.
const ALLOWED_FOR: Duration = Duration::from_secs(60);

/// Reviews at the same time.
const RUNNING: usize = 4;

/// After a review that does not allow the request, no other one takes its place for this time.
/// Strangers thus cause at most forty reviews per second.
const REST: Duration = Duration::from_millis(100);

/// Time for a review, which is two requests. Prometheus times out after ten seconds by default.
const WITHIN: Duration = Duration::from_secs(5);

/// The longest token, in bytes. Those of service accounts have about one thousand.
const MAX_TOKEN: usize = 16 * 1024;

/// No account has this token. Its review shows whether loopwatch may ask.
const NO_TOKEN: &str = "loopwatch-asks-whether-it-may-review-tokens";

impl Tokens {
    pub(super) fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        let (remembered, checks) = (Remembered::new(ALLOWED_FOR), Checks::new(RUNNING));
        Self { reviewer, remembered, checks, failure: Mutex::default() }
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
        let check = match self.checks.enter(&self.remembered, key, peer).await? {
            Entry::Remembered(verdict) => return Ok(verdict),
            Entry::Check(check) => check,
        };

        let review = self.review(token, path).await;
        if review != Some(Review::Allowed) {
            tokio::spawn(rest(check));
        }

        let verdict = match review.ok_or(Undecided::Unavailable)? {
            Review::Allowed => Verdict::Allowed,
            Review::Unauthenticated => Verdict::Wrong,
            Review::Forbidden => Verdict::Forbidden,
        };
        self.remembered.put(key, verdict);
        Ok(verdict)
    }

    /// Asks the API server once, to learn whether it answers.
    pub(super) async fn try_reviewer(&self) {
        self.review(NO_TOKEN, "/metrics").await;
    }

    /// Why loopwatch may not ask the API server. Other failures are temporary.
    pub(super) fn problem(&self) -> Option<String> {
        let failure = lock(&self.failure).clone();
        let refused = failure.filter(|failure| failure.cause == Cause::Forbidden)?;

        Some(format!(
            "--web-auth=kubernetes: loopwatch cannot have tokens reviewed, so it refuses all clients of /metrics: {refused}; \
             its account needs the permission to create tokenreviews and subjectaccessreviews (deploy/components/web-auth)"
        ))
    }

    /// The answer of the API server; `None` if there is none, which is logged when it begins.
    async fn review(&self, token: &str, path: &str) -> Option<Review> {
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

        reviewed.ok()
    }
}

/// Delays the next check.
async fn rest(check: Check) {
    sleep(REST).await;
    drop(check);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;

    const PEER: [u8; 4] = [10, 0, 0, 1];

    /// Knows two tokens, and counts the reviews.
    #[derive(Default)]
    struct Stub {
        reviews: AtomicUsize,
        fails: Mutex<Option<Cause>>,
    }

    #[async_trait]
    impl TokenReviewer for Stub {
        async fn review(&self, token: &str, path: &str) -> Result<Review, Failure> {
            self.reviews.fetch_add(1, Ordering::Relaxed);
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

        // From a hundred addresses.
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
        assert!((100..=150).contains(&reviews), "{reviews} within three seconds");
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
