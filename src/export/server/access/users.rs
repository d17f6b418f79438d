//! Users with passwords, of which the file has bcrypt hashes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bcrypt::HashParts;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::checks::{Checks, Entry};
use super::remembered::{Key, Remembered};
use super::{Undecided, Verdict};

/// The users of a file. A changed file makes new ones, so a remembered verdict ends with the file.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// The hash to compare with if there is no such user, so that the time of a response does not
    /// tell which users exist.
    any_hash: String,
    remembered: Arc<Remembered>,
    checks: Checks,
}

/// The largest number of users.
const MAX_USERS: usize = 100;

/// The largest cost of a hash. Each step doubles the time of a check; 14 takes about a second.
const MAX_COST: u32 = 14;

/// The longest password that bcrypt distinguishes from longer ones, in bytes.
const MAX_PASSWORD: usize = 72;

/// How long to remember a right password.
const ALLOWED_FOR: Duration = Duration::from_secs(600);

/// Checks at the same time. Each one occupies one of few threads.
const RUNNING: usize = 1;

/// After a check, no other one begins for this many times its duration. Strangers with wrong
/// passwords thus cost at most a quarter of a core.
const REST: u32 = 3;

impl Users {
    /// The users with these hashes; `None` if there are none.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Option<Self>, String> {
        let Some(any_hash) = hashes.values().next().cloned() else { return Ok(None) };
        if hashes.len() > MAX_USERS {
            return Err(format!("{} users; the maximum is {MAX_USERS}", hashes.len()));
        }

        for (user, hash) in &hashes {
            check_hash(hash).map_err(|problem| format!("{user}: {problem}"))?;
        }

        let (remembered, checks) = (Remembered::new(ALLOWED_FOR), Checks::new(RUNNING));
        Ok(Some(Self { hashes, any_hash, remembered: Arc::new(remembered), checks }))
    }

    /// Checks a password, which takes a tenth of a second if loopwatch does not remember it.
    pub(super) async fn check(
        &self,
        peer: IpAddr,
        user: String,
        password: String,
    ) -> Result<Verdict, Undecided> {
        if password.len() > MAX_PASSWORD {
            return Ok(Verdict::Wrong);
        }

        let key = Key::of(&[&user, &password]);
        let check = match self.checks.enter(&self.remembered, key, peer).await? {
            Entry::Remembered(verdict) => return Ok(verdict),
            Entry::Check(check) => check,
        };

        let (is_known, hash) = match self.hashes.get(&user) {
            Some(hash) => (true, hash.clone()),
            None => (false, self.any_hash.clone()),
        };
        let (answer, verdict) = oneshot::channel();
        let remembered = Arc::clone(&self.remembered);

        // A task of its own, because a client that disconnects must not free the turn of a check
        // that still runs.
        tokio::spawn(async move {
            let began = Instant::now();
            let matches = spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false));
            let matches = matches.await.unwrap_or(false);
            let verdict = if is_known && matches { Verdict::Allowed } else { Verdict::Wrong };

            remembered.put(key, verdict);
            let _ = answer.send(verdict);
            if verdict == Verdict::Wrong {
                tokio::time::sleep(began.elapsed() * REST).await;
            }
            drop(check);
        });

        verdict.await.map_err(|_| Undecided::Busy)
    }
}

/// The problem with a hash, if there is one.
fn check_hash(hash: &str) -> Result<(), String> {
    let parts = HashParts::from_str(hash).map_err(|_| {
        "expected a bcrypt hash, as `htpasswd -nBC 10 USER` prints it after the colon".to_owned()
    })?;
    match parts.get_cost() {
        4..=MAX_COST => Ok(()),
        cost => Err(format!(
            "the cost of the bcrypt hash is {cost}; the maximum is {MAX_COST}, because each request with a new password takes \
             this work"
        )),
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("count", &self.hashes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: [u8; 4] = [10, 0, 0, 1];

    fn users() -> Users {
        let hash = bcrypt::hash("secret", 4).expect("a hash");
        Users::new(BTreeMap::from([("prometheus".to_owned(), hash)])).expect("valid").expect("one")
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_is_allowed() {
        let users = users();
        for (user, password, expected) in [
            ("prometheus", "secret", Verdict::Allowed),
            ("prometheus", "secret", Verdict::Allowed), // remembered
            ("prometheus", "wrong", Verdict::Wrong),
            ("nobody", "secret", Verdict::Wrong),
            ("", "", Verdict::Wrong),
            ("prometheus", &"x".repeat(100), Verdict::Wrong),
        ] {
            let verdict = users.check(PEER.into(), user.to_owned(), password.to_owned()).await;
            assert_eq!(verdict, Ok(expected), "{user} {password}");
        }
    }

    #[tokio::test]
    async fn wrong_passwords_wait_and_remembered_ones_do_not() {
        let users = Arc::new(users());
        let check = |password: &str| {
            let (users, password) = (Arc::clone(&users), password.to_owned());
            tokio::spawn(async move {
                users.check(PEER.into(), "prometheus".to_owned(), password).await
            })
        };
        assert_eq!(check("secret").await.expect("no panic"), Ok(Verdict::Allowed));

        let flood: Vec<_> = (0..20).map(|number| check(&number.to_string())).collect();
        assert_eq!(check("secret").await.expect("no panic"), Ok(Verdict::Allowed));

        let mut busy = 0;
        for wrong in flood {
            busy += usize::from(wrong.await.expect("no panic") == Err(Undecided::Busy));
        }
        assert!(busy >= 10, "{busy} of 20");
    }

    #[test]
    fn each_hash_is_checked() {
        let expensive = "$2y$31$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u";
        for (hash, problem) in
            [("plain", "expected a bcrypt hash"), (expensive, "the maximum is 14")]
        {
            let users = Users::new(BTreeMap::from([("p".to_owned(), hash.to_owned())]));
            let error = users.map(drop).expect_err("invalid");
            assert!(error.contains(problem) && error.starts_with("p: "), "{error}");
        }
        assert!(Users::new(BTreeMap::new()).expect("valid").is_none());
    }
}
