//! Users with passwords, of which the file has bcrypt hashes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr as _;

use bcrypt::HashParts;

/// The users of a file.
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// The hash to compare with if there is no such user: that of the highest cost. The time of a
    /// response then does not tell which users exist, if all hashes have the same cost.
    any_hash: String,
}

/// The largest number of users.
const MAX_USERS: usize = 100;

/// The smallest cost of bcrypt. A hash with a smaller one cannot be compared.
const MIN_COST: u32 = 4;

/// The largest cost of a hash. Each step doubles the time of a check; 14 takes more than a second.
const MAX_COST: u32 = 14;

impl Users {
    /// The users with these hashes; `None` if there are none.
    pub(super) fn new(hashes: BTreeMap<String, String>) -> Result<Option<Self>, String> {
        if hashes.len() > MAX_USERS {
            return Err(format!("{} users; the maximum is {MAX_USERS}", hashes.len()));
        }

        let mut costliest = None;
        for (user, hash) in &hashes {
            let cost = cost(hash).map_err(|problem| format!("{user}: {problem}"))?;
            costliest = costliest.max(Some((cost, hash)));
        }

        let any_hash = costliest.map(|(_, hash)| hash.clone());
        Ok(any_hash.map(|any_hash| Self { hashes, any_hash }))
    }

    /// The hash of a user, if there is such a user.
    pub(super) fn hash(&self, user: &str) -> Option<&str> {
        self.hashes.get(user).map(String::as_str)
    }

    /// A hash for a user that does not exist.
    pub(super) fn any_hash(&self) -> &str {
        &self.any_hash
    }
}

/// The cost of a hash, or the problem with it.
fn cost(hash: &str) -> Result<u32, String> {
    let parts = HashParts::from_str(hash).map_err(|_| {
        "expected a bcrypt hash, as `htpasswd -nBC 10 USER` prints it after the colon".to_owned()
    })?;
    match parts.get_cost() {
        cost @ MIN_COST..=MAX_COST => Ok(cost),
        cost @ ..MIN_COST => Err(format!(
            "the cost of the bcrypt hash is {cost}; the minimum of bcrypt is {MIN_COST}"
        )),
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

    #[test]
    fn each_hash_is_checked() {
        let expensive = "$2y$31$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u";
        let cheap = expensive.replace("$31$", "$03$");
        for (hash, problem) in [
            ("plain", "expected a bcrypt hash"),
            (expensive, "the cost of the bcrypt hash is 31; the maximum is 14"),
            (&cheap, "the cost of the bcrypt hash is 3; the minimum of bcrypt is 4"),
        ] {
            let users = Users::new(BTreeMap::from([("p".to_owned(), hash.to_owned())]));
            let error = users.map(drop).expect_err("invalid");
            assert!(error.contains(problem) && error.starts_with("p: "), "{error}");
        }
        assert!(Users::new(BTreeMap::new()).expect("valid").is_none());
    }

    #[test]
    fn a_user_that_does_not_exist_takes_as_long_as_the_costliest() {
        let hash = |cost| bcrypt::hash("secret", cost).expect("a hash");
        let hashes =
            [("a", 4), ("b", 6), ("c", 5)].map(|(user, cost)| (user.to_owned(), hash(cost)));
        let users = Users::new(BTreeMap::from(hashes)).expect("valid").expect("some");
        assert_eq!(cost(users.any_hash()), Ok(6));
    }
}
