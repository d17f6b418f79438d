//! Remembers verdicts on credentials for a while. It keeps only digests of the credentials.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tokio::time::Instant;

use super::Verdict;
use crate::lock::lock;

/// Verdicts on credentials.
#[derive(Debug)]
pub(super) struct Remembered {
    verdicts: Mutex<HashMap<Key, (Verdict, Instant)>>,
    /// Credentials that were right once, by the part that stays.
    right: Mutex<VecDeque<Key>>,
    /// How long to remember that credentials are allowed.
    allowed_for: Duration,
}

/// The digest of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

/// Largest number of verdicts.
const MAX: usize = 256;

/// How long to remember that credentials are not allowed. Somebody may just have granted access.
const DENIED_FOR: Duration = Duration::from_secs(10);

impl Key {
    /// The digest of these parts, whose order and lengths count.
    pub(super) fn of(parts: &[&str]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }

        let mut key = [0; 32];
        let digest = context.finish();
        key.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
        Self(key)
    }
}

impl Remembered {
    pub(super) fn new(allowed_for: Duration) -> Self {
        Self { verdicts: Mutex::default(), right: Mutex::default(), allowed_for }
    }

    pub(super) fn get(&self, key: Key) -> Option<Verdict> {
        let verdicts = lock(&self.verdicts);
        let (verdict, until) = verdicts.get(&key)?;
        (*until > Instant::now()).then_some(*verdict)
    }

    /// Whether the last verdict on the credentials was that they are allowed, even if it has ended.
    pub(super) fn was_allowed(&self, key: Key) -> bool {
        lock(&self.verdicts).get(&key).is_some_and(|(verdict, _)| *verdict == Verdict::Allowed)
    }

    /// Whether credentials with this lasting part were right once.
    pub(super) fn was_ever_allowed(&self, lasting: Key) -> bool {
        lock(&self.right).contains(&lasting)
    }

    /// Notes that credentials with this lasting part are right. The oldest ones make room.
    pub(super) fn note_right(&self, lasting: Key) {
        let mut right = lock(&self.right);
        right.retain(|known| *known != lasting);
        right.push_back(lasting);
        if right.len() > MAX {
            right.pop_front();
        }
    }

    /// Remembers a verdict. If the table is full, another verdict makes room. Only credentials that
    /// are allowed take the place of others that are, so a stranger with many wrong credentials does
    /// not slow down others.
    pub(super) fn put(&self, key: Key, verdict: Verdict) {
        let mut verdicts = lock(&self.verdicts);
        if verdicts.len() >= MAX && !verdicts.contains_key(&key) {
            let is_allowed = |(verdict, _): &(Verdict, Instant)| *verdict == Verdict::Allowed;
            let oldest = verdicts
                .iter()
                .filter(|(_, entry)| verdict == Verdict::Allowed || !is_allowed(entry))
                .min_by_key(|(_, entry)| (is_allowed(entry), entry.1))
                .map(|(key, _)| *key);

            let Some(oldest) = oldest else { return };
            verdicts.remove(&oldest);
        }

        let time = if verdict == Verdict::Allowed { self.allowed_for } else { DENIED_FOR };
        verdicts.insert(key, (verdict, Instant::now() + time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn verdicts_end_and_refusals_end_earlier() {
        let remembered = Remembered::new(Duration::from_secs(60));
        let (good, bad) = (Key::of(&["a"]), Key::of(&["b"]));
        remembered.put(good, Verdict::Allowed);
        remembered.put(bad, Verdict::Forbidden);
        assert_eq!(
            [good, bad].map(|key| remembered.get(key)),
            [Some(Verdict::Allowed), Some(Verdict::Forbidden)]
        );

        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!([good, bad].map(|key| remembered.get(key)), [Some(Verdict::Allowed), None]);

        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(remembered.get(good), None);
        assert!(remembered.was_allowed(good) && !remembered.was_allowed(bad));
    }

    #[tokio::test(start_paused = true)]
    async fn many_wrong_credentials_replace_each_other_only() {
        let remembered = Remembered::new(Duration::from_secs(60));
        let good = Key::of(&["good"]);
        remembered.put(good, Verdict::Allowed);

        for number in 0..3 * MAX {
            remembered.put(Key::of(&[&number.to_string()]), Verdict::Wrong);
        }
        assert_eq!(remembered.get(good), Some(Verdict::Allowed));
        assert_eq!(lock(&remembered.verdicts).len(), MAX);

        for number in 0..2 * MAX {
            remembered.put(Key::of(&["good", &number.to_string()]), Verdict::Allowed);
        }
        remembered.put(Key::of(&["bad"]), Verdict::Wrong);
        assert_eq!(remembered.get(Key::of(&["bad"])), None);
        assert_eq!(lock(&remembered.verdicts).len(), MAX);
    }

    #[test]
    fn keys_distinguish_the_parts() {
        assert_ne!(Key::of(&["ab", "c"]), Key::of(&["a", "bc"]));
        assert_eq!(Key::of(&["ab", "c"]), Key::of(&["ab", "c"]));
    }
}
