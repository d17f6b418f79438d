//! Checks passwords, and remembers the right ones. A change of the file does not make it forget those
//! of users whose hash stays the same.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tracing::warn;

use super::checks::{Checks, Credentials, Entry};
use super::remembered::{Key, Remembered};
use super::users::Users;
use super::{Undecided, Verdict};

/// Checks passwords against the users that the file has at the moment.
#[derive(Debug)]
pub(super) struct Passwords {
    remembered: Arc<Remembered>,
    checks: Checks,
}

/// A password, and the hash to compare it with.
struct Comparison {
    password: String,
    hash: String,
    /// Whether the hash is that of the user. If there is no such user, the comparison only takes the
    /// same time.
    is_of_user: bool,
}

/// The longest password, in bytes. bcrypt would ignore the rest of a longer one.
const MAX_PASSWORD: usize = 72;

/// How long to remember a right password.
const ALLOWED_FOR: Duration = Duration::from_secs(600);

/// Checks of each group at the same time. Each one occupies one of few threads.
const RUNNING: usize = 1;

/// After a wrong password, no other check of the same group begins for this many times the duration
/// of the check. Strangers with wrong passwords thus cost at most half a core: a quarter from
/// suspects, and a quarter from other peers. The first wrong password of each of the 256 peers that
/// fit into the table of suspects comes on top of this.
const REST: u32 = 3;

impl Default for Passwords {
    fn default() -> Self {
        let remembered = Arc::new(Remembered::new(ALLOWED_FOR));
        Self { remembered, checks: Checks::new(RUNNING) }
    }
}

impl Passwords {
    /// Checks a password. If loopwatch does not remember it, this takes a tenth of a second at a cost of
    /// 10, and sixteen times as long at the highest cost.
    pub(super) async fn check(
        &self,
        users: &Users,
        peer: IpAddr,
        user: &str,
        password: String,
    ) -> Result<Verdict, Undecided> {
        // bcrypt repeats a short password with a NUL in between, so one with a NUL could pass for a shorter one.
        if password.len() > MAX_PASSWORD || password.contains('\0') {
            return Ok(Verdict::Wrong);
        }

        // The hash is a part of the key: a verdict ends when the file has another one, or none.
        let hash = users.hash(user);
        let key = Key::of(&[hash.unwrap_or_default(), user, &password]);
        let credentials = Credentials { key, lasting: Key::of(&[user, &password]) };
        let check = match self.checks.enter(&self.remembered, key, peer).await? {
            Entry::Remembered(verdict) => return Ok(verdict),
            Entry::Check(check) => check,
        };

        let is_of_user = hash.is_some();
        let hash = hash.unwrap_or_else(|| users.any_hash()).to_owned();
        let comparison = Comparison { password, hash, is_of_user };
        check.run(&self.remembered, credentials, comparison.verdict(), |took| took * REST).await
    }
}

impl Comparison {
    /// Compares on another thread, because it takes long. `None` if the comparison fails: a failure
    /// says nothing about the password.
    async fn verdict(self) -> Option<Verdict> {
        let Self { password, hash, is_of_user } = self;
        let compared = spawn_blocking(move || bcrypt::verify(password, &hash)).await;
        let matches = match compared {
            Ok(Ok(matches)) => matches,
            Ok(Err(error)) => {
                warn!(%error, "cannot compare a password with its hash");
                return None;
            }
            Err(error) => {
                warn!(%error, "the check of a password failed");
                return None;
            }
        };

        Some(if matches && is_of_user { Verdict::Allowed } else { Verdict::Wrong })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PEER: [u8; 4] = [10, 0, 0, 1];

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).expect("a hash")
    }

    fn users(hashes: &[(&str, &str)]) -> Users {
        let hashes = hashes.iter().map(|(user, hash)| ((*user).to_owned(), (*hash).to_owned()));
        Users::new(hashes.collect::<BTreeMap<_, _>>()).expect("valid").expect("at least one")
    }

    async fn check(
        passwords: &Passwords,
        users: &Users,
        user: &str,
        password: &str,
    ) -> Result<Verdict, Undecided> {
        passwords.check(users, PEER.into(), user, password.to_owned()).await
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_is_allowed() {
        let (passwords, users) = (Passwords::default(), users(&[("prometheus", &hash("secret"))]));
        for (user, password, expected) in [
            ("prometheus", "secret", Verdict::Allowed),
            ("prometheus", "secret", Verdict::Allowed), // remembered
            ("prometheus", "wrong", Verdict::Wrong),
            ("prometheus", "secret\0secret", Verdict::Wrong),
            ("nobody", "secret", Verdict::Wrong),
            ("", "", Verdict::Wrong),
            ("prometheus", &"x".repeat(100), Verdict::Wrong),
        ] {
            let verdict = check(&passwords, &users, user, password).await;
            assert_eq!(verdict, Ok(expected), "{user} {password}");
        }
    }

    #[tokio::test]
    async fn a_comparison_that_fails_decides_nothing() {
        let compared = |hash: &str| {
            let (password, hash) = ("secret".to_owned(), hash.to_owned());
            Comparison { password, hash, is_of_user: true }.verdict()
        };
        assert_eq!(compared("no hash").await, None);
        assert_eq!(compared(&hash("secret")).await, Some(Verdict::Allowed));
        assert_eq!(compared(&hash("other")).await, Some(Verdict::Wrong));
    }

    #[tokio::test]
    async fn wrong_passwords_wait_and_remembered_ones_do_not() {
        let passwords = Arc::new(Passwords::default());
        let users = Arc::new(users(&[("prometheus", &hash("secret"))]));
        let spawn = |password: &str| {
            let (passwords, users) = (Arc::clone(&passwords), Arc::clone(&users));
            let password = password.to_owned();
            tokio::spawn(async move { check(&passwords, &users, "prometheus", &password).await })
        };
        assert_eq!(spawn("secret").await.expect("no panic"), Ok(Verdict::Allowed));

        let flood: Vec<_> = (0..20).map(|number| spawn(&number.to_string())).collect();
        assert_eq!(spawn("secret").await.expect("no panic"), Ok(Verdict::Allowed));

        let mut busy = 0;
        for wrong in flood {
            busy += usize::from(wrong.await.expect("no panic") == Err(Undecided::Busy));
        }
        assert!(busy >= 10, "{busy} of 20");
    }

    /// Wrong passwords from fifty addresses all the time. A new client waits for none of them.
    #[tokio::test(start_paused = true)]
    async fn a_new_client_is_served_during_a_flood_of_wrong_passwords() {
        let passwords = Arc::new(Passwords::default());
        let users = Arc::new(users(&[("prometheus", &hash("secret"))]));
        let attack = |host: u8| {
            let (passwords, users) = (Arc::clone(&passwords), Arc::clone(&users));
            async move {
                for number in 0_u64.. {
                    let password = format!("{host}-{number}");
                    let peer = [10, 0, 1, host].into();
                    let _ = passwords.check(&users, peer, "prometheus", password).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        let flood: Vec<_> = (1..=50).map(|host| tokio::spawn(attack(host))).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;

        let began = tokio::time::Instant::now();
        let verdict = check(&passwords, &users, "prometheus", "secret").await;
        assert_eq!(verdict, Ok(Verdict::Allowed));
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        flood.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_right_password_stays_known_while_the_hash_of_its_user_stays() {
        let (passwords, kept) = (Passwords::default(), hash("secret"));
        let before = users(&[("grafana", &hash("other")), ("prometheus", &kept)]);
        assert_eq!(check(&passwords, &before, "prometheus", "secret").await, Ok(Verdict::Allowed));
        assert_eq!(check(&passwords, &before, "grafana", "other").await, Ok(Verdict::Allowed));

        let known = |users: &Users, user: &str, password: &str| {
            let key = Key::of(&[users.hash(user).unwrap_or_default(), user, password]);
            passwords.remembered.get(key)
        };
        let after = users(&[("grafana", &hash("new")), ("prometheus", &kept)]);
        assert_eq!(known(&after, "prometheus", "secret"), Some(Verdict::Allowed));

        // A changed hash counts at once, even one of the same password.
        assert_eq!(check(&passwords, &after, "grafana", "other").await, Ok(Verdict::Wrong));
        assert_eq!(check(&passwords, &after, "grafana", "new").await, Ok(Verdict::Allowed));
        let salted = users(&[("prometheus", &hash("secret"))]);
        assert_eq!(known(&salted, "prometheus", "secret"), None);

        // So does a removed user, and one that comes back is a new one or the same.
        let removed = users(&[("grafana", &hash("new"))]);
        assert_eq!(check(&passwords, &removed, "prometheus", "secret").await, Ok(Verdict::Wrong));
        assert_eq!(known(&before, "prometheus", "secret"), Some(Verdict::Allowed));
    }
}
