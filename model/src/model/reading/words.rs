//! What compounds mean, whoever writes them.
//!
//! Condition types, reasons and phases are compounds of few English words: `FetchFailed`, `in_progress`,
//! `Cluster in healthy state`. They are taken apart, each word is looked up in one table, and the compound means what
//! its head means.

use super::senses::Sense::{Bad, Done, Good, Lacking, Motion, Rest};
use super::senses::{self, Sense};

/// Words that turn the next one around.
const NEGATIONS: &[&str] = &["isnt", "doesnt", "never", "no", "non", "not", "without"];

/// What is refused when it is not so.
const REFUSABLE: &[&str] = &[
    "accepted",
    "allowed",
    "authenticated",
    "authorized",
    "compliant",
    "correct",
    "permitted",
    "schedulable",
    "supported",
    "valid",
];

/// Words that begin what only explains the head: `WaitingForQuota`, `FailedToPull`.
const PREPOSITIONS: &[&str] = &[
    "after", "as", "at", "because", "before", "by", "due", "for", "from", "in", "of", "on", "to", "until", "while",
    "with",
];

/// The words of a text in lower case, without an allocation. Prose is cut: what matters stands at its beginning.
pub(super) struct Words {
    bytes: [u8; SIZE],
    spans: [(u8, u8); COUNT],
    count: usize,
}

const SIZE: usize = 128;
const COUNT: usize = 24;

// === impl Words ===

impl Words {
    /// Takes `CamelCase`, `SCREAMING_SNAKE`, `kebab-case` and prose apart.
    pub(super) fn of(text: &str) -> Self {
        let mut words = Self { bytes: [0; SIZE], spans: [(0, 0); COUNT], count: 0 };
        let source = text.as_bytes();
        let length = source.len().min(SIZE);
        let mut begin = None;
        for i in 0..length {
            let byte = source[i];
            if !byte.is_ascii_alphanumeric() && byte.is_ascii() && byte != b'\'' {
                words.close(begin.take(), i);
                continue;
            }
            let boundary = i > 0 && byte.is_ascii_uppercase() && {
                let before = source[i - 1];
                let after = source.get(i + 1).copied().unwrap_or(b' ');
                // `podReady` and `APIServer`.
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && after.is_ascii_lowercase())
            };
            if boundary {
                words.close(begin.take(), i);
            }
            words.bytes[i] = byte.to_ascii_lowercase();
            begin.get_or_insert(i);
        }
        words.close(begin, length);
        words
    }

    fn close(&mut self, begin: Option<usize>, end: usize) {
        if let Some(begin) = begin
            && self.count < COUNT
        {
            // Both fit: SIZE is below 256.
            self.spans[self.count] = (begin as u8, end as u8);
            self.count += 1;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// The word at a position; empty beyond the last.
    pub(super) fn get(&self, i: usize) -> &str {
        let (begin, end) = if i < self.count { self.spans[i] } else { (0, 0) };
        std::str::from_utf8(&self.bytes[usize::from(begin)..usize::from(end)]).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|i| self.get(i))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.iter().any(|other| other == word)
    }

    pub(super) fn last(&self) -> &str {
        self.get(self.count.wrapping_sub(1))
    }

    /// What the compound means.
    pub(super) fn sense(&self) -> Option<Sense> {
        let split = (1..self.count).find(|i| self.divides(*i)).unwrap_or(self.count);
        // Ready to begin is not yet begun.
        if split + 1 < self.count && self.get(split) == "to" && self.get(split - 1) == "ready" {
            return Some(Motion);
        }
        self.part(0, split).or_else(|| self.part(split, self.count))
    }

    /// Whether a word begins what only explains; `in sync`, `up to date` and `in progress` belong together.
    fn divides(&self, i: usize) -> bool {
        let next = if i + 1 < self.count { self.get(i + 1) } else { "" };
        PREPOSITIONS.contains(&self.get(i))
            && !matches!(
                (self.get(i - 1), self.get(i), next),
                ("up", "to", _) | (_, "in", "sync" | "progress") | ("out", "of", _)
            )
    }

    /// What is wrong decides wherever it stands; else the head does, which in English is the last word.
    fn part(&self, begin: usize, end: usize) -> Option<Sense> {
        // Velero's `FinalizingPartiallyFailed` is still finalizing.
        if end > begin + 2 && self.get(end - 2) == "partially" && self.get(end - 1).starts_with("fail") {
            return Some(Motion);
        }
        let mut negated = None;
        let mut sum = None;
        for i in begin..end {
            if NEGATIONS.contains(&self.get(i)) {
                negated = Some(i);
                continue;
            }
            let Some(sense) = self.word(i) else { continue };
            let sense = match negated.take() {
                None => Some(sense),
                Some(at) => turned(self.get(i), sense, i - at == 1),
            };
            if sum != Some(Bad) {
                sum = sense.or(sum);
            }
        }
        sum
    }

    fn word(&self, i: usize) -> Option<Sense> {
        let next = if i + 1 < self.count { self.get(i + 1) } else { "" };
        let before = if i > 0 { self.get(i - 1) } else { "" };
        match (self.get(i), next) {
            ("failing", "over") | ("failover", _) | ("setting", "up") => Some(Motion),
            ("in", "sync") | ("up", "to") => Some(Good),
            ("out", "of") | ("over", "quota") => Some(Lacking),
            ("timed", "out") => Some(Bad),
            // Scaling down is not being down.
            ("up" | "down", _) if before.ends_with("ing") => Some(Motion),
            (_, _) if before == "being" => Some(Motion),
            // New what?
            ("new", _) if self.count > 1 => None,
            (word, _) => senses::of(word),
        }
    }
}

/// A sense after a negation: `NotReady` lacks something, `NotAllowed` is a refusal, `NoErrors` is well.
fn turned(word: &str, sense: Sense, adjacent: bool) -> Option<Sense> {
    match sense {
        Good | Done if REFUSABLE.contains(&word) => Some(Bad),
        Good | Done => Some(Lacking),
        Bad if adjacent => Some(Good),
        Bad => Some(Bad),
        Motion | Lacking | Rest => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compounds_mean_what_their_head_means() {
        for (text, sense) in [
            ("FetchFailed", Some(Bad)),
            ("RUNNING", Some(Good)),
            ("in_progress", Some(Motion)),
            ("APIServerAvailable", Some(Good)),
            ("Cluster in healthy state", Some(Good)),
            ("WaitingForFailedPods", Some(Motion)),
            ("FailedToWait", Some(Bad)),
            ("ReadyToStart", Some(Motion)),
            ("NotReady", Some(Lacking)),
            ("NotAllPodsReady", Some(Lacking)),
            ("NotAllowedByListeners", Some(Bad)),
            ("NoErrors", Some(Good)),
            ("NotProgressing", None),
            ("ContinuousArchivingSuccess", Some(Good)),
            ("FinalizingPartiallyFailed", Some(Motion)),
            ("PartiallyFailed", Some(Bad)),
            ("failing over", Some(Motion)),
            ("ScalingDown", Some(Motion)),
            ("down", Some(Lacking)),
            ("OutOfSync", Some(Lacking)),
            ("InSync", Some(Good)),
            ("up-to-date", Some(Good)),
            ("TimedOut", Some(Bad)),
            ("New", Some(Motion)),
            ("NewReplicaSetAvailable", Some(Good)),
            ("Resource is being created", Some(Motion)),
            ("HEALTH_ERR", Some(Bad)),
            ("Überraschung", None),
            ("", None),
        ] {
            assert_eq!(Words::of(text).sense(), sense, "{text}");
        }
    }
}
