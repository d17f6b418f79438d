//! The meaning of compounds.
//!
//! Condition types, reasons and phases are compounds of a few English words: `FetchFailed`,
//! `in_progress`, `Cluster in healthy state`. [`Words`] splits them, looks each word up in the
//! table of `senses.rs`, and gives the compound the meaning of its head. In English, that is
//! usually the last word before a preposition.

use arrayvec::ArrayString;

use crate::model::status::reading::senses;
use crate::model::status::reading::senses::Sense::{
    self, Bad, Done, Good, InProgress, Lacking, Paused,
};

/// Words that negate a later one.
const NEGATIONS: &[&str] = &["isnt", "doesnt", "never", "no", "non", "not", "without"];

/// Words whose negation means a refusal rather than a delay.
const REFUSED_IF_NEGATED: &[&str] = &[
    "accepted",
    "allowed",
    "authenticated",
    "authorized",
    "compliant",
    "controlled",
    "correct",
    "correctly",
    "healthy",
    "permitted",
    "properly",
    "quorum",
    "reachable",
    "schedulable",
    "supported",
    "valid",
];

/// Nouns that a negation reaches across other words, as in `NoDiskPressure`.
const FAULT_NOUNS: &[&str] = &["conflicts", "errors", "pressure", "violations", "warnings"];

/// Words for what somebody must add before the operator can go on.
const SPACE: &[&str] = &["capacity", "disk", "memory", "room", "space", "storage"];

/// Words that begin a modifier of the head, as in `WaitingForQuota` and `FailedToPull`.
const PREPOSITIONS: &[&str] = &[
    "after", "as", "at", "because", "before", "by", "due", "for", "from", "in", "of", "on", "to",
    "until", "while", "with",
];

/// The words of a text in lower case, without an allocation.
///
/// `Words` reads at most 128 bytes and 24 words. Longer texts are prose, and the beginning of prose
/// usually decides.
pub(super) struct Words {
    text: ArrayString<SIZE>,
    spans: [(u8, u8); COUNT],
    count: usize,
}

const SIZE: usize = 128;
const COUNT: usize = 24;

impl Words {
    /// Splits `CamelCase`, `SCREAMING_SNAKE`, `kebab-case` and prose into words.
    pub(super) fn of(text: &str) -> Self {
        let read = &text[..text.floor_char_boundary(SIZE)];
        let mut words = Self {
            text: ArrayString::from(read).unwrap_or_default(),
            spans: [(0, 0); COUNT],
            count: 0,
        };
        words.text.make_ascii_lowercase();

        let source = text.as_bytes();
        let mut begin = None;
        for (i, &byte) in read.as_bytes().iter().enumerate() {
            if !byte.is_ascii_alphanumeric() && byte.is_ascii() && byte != b'\'' {
                words.close(begin.take(), i);
                continue;
            }

            let boundary = i > 0 && byte.is_ascii_uppercase() && {
                let before = source[i - 1];
                let after = source.get(i + 1).copied().unwrap_or(b' ');

                // As in `podReady` and `APIServer`.
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase() && after.is_ascii_lowercase())
            };

            if boundary {
                words.close(begin.take(), i);
            }

            begin.get_or_insert(i);
        }

        words.close(begin, read.len());
        words
    }

    fn close(&mut self, begin: Option<usize>, end: usize) {
        if let Some(begin) = begin
            && self.count < COUNT
        {
            // Both casts are lossless, because SIZE is less than 256.
            self.spans[self.count] = (begin as u8, end as u8);
            self.count += 1;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Returns the word at a position, or an empty text beyond the last.
    pub(super) fn get(&self, i: usize) -> &str {
        let (begin, end) = if i < self.count { self.spans[i] } else { (0, 0) };
        &self.text[usize::from(begin)..usize::from(end)]
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

    /// Returns the meaning of the compound, if it has one.
    pub(super) fn sense(&self) -> Option<Sense> {
        let split = (1..self.count).find(|i| self.begins_modifier(*i)).unwrap_or(self.count);

        if self.get(0) == "scaled" && self.get(1) == "to" && self.get(2) == "zero" {
            return Some(Paused);
        }

        if self.get(0) == "zero" && matches!(self.get(1), "replicas" | "size") {
            return Some(Paused); // `ZeroSizeDeployment`
        }

        // `Not enough disk space`, unlike `NotEnoughReplicas`, which may be starting.
        let lacks = |i: usize| {
            matches!(self.get(i - 1), "no" | "not")
                && self.get(i) == "enough"
                && SPACE.contains(&self.get(i + 1))
        };
        if (1..self.count).any(lacks) {
            return Some(Bad);
        }

        // A volume that waits for the first Pod that uses it waits on purpose. Its importer fills it only
        // then: `PendingPopulation`.
        let is_unused = self.has("first") && self.last() == "consumer";
        if is_unused || (self.count == 2 && self.last() == "population") {
            return Some(Paused);
        }

        // `WaitApplied` waits until something is applied.
        let waits = matches!(self.get(0), "wait" | "waiting" | "await" | "awaiting");
        if waits && self.sense_of(0, self.count) != Some(Bad) {
            return Some(InProgress);
        }

        // `ReadyToStart` has not started.
        if split + 1 < self.count && self.get(split) == "to" && self.get(split - 1) == "ready" {
            return Some(InProgress);
        }

        self.sense_of(0, split).or_else(|| self.sense_of(split, self.count))
    }

    /// Returns whether the word at `i` begins a modifier. In the fixed phrases `in sync`, `up to
    /// date`, `in progress` and `out of`, and after a negation, as in `not in active state`, the
    /// preposition does not.
    fn begins_modifier(&self, i: usize) -> bool {
        let next = if i + 1 < self.count { self.get(i + 1) } else { "" };
        PREPOSITIONS.contains(&self.get(i))
            && !NEGATIONS.contains(&self.get(i - 1))
            && !matches!(
                (self.get(i - 1), self.get(i), next),
                ("up", "to", _) | (_, "in", "sync" | "progress") | ("out", "of", _)
            )
    }

    /// Returns the meaning of a range of words. A bad word decides wherever it stands. Without one,
    /// the last word with a meaning decides.
    fn sense_of(&self, begin: usize, end: usize) -> Option<Sense> {
        // `FinalizingPartiallyFailed` (Velero) is still finalizing.
        if end > begin + 2
            && self.get(end - 2) == "partially"
            && senses::of(self.get(end - 1)) == Some(Bad)
        {
            return Some(InProgress);
        }

        // The position of a negation that has not reached a word yet.
        let mut negated = None;
        let mut result = None;
        for i in begin..end {
            if NEGATIONS.contains(&self.get(i)) {
                negated = Some(i);
                continue;
            }

            if self.get(i) == "missing" && i + 1 < end {
                negated = Some(i); // `missing ready replicas`
            }

            let Some(sense) = self.sense_at(i) else { continue };
            if negated == Some(i) {
                result = result.filter(|result| *result == Bad).or(Some(sense));
                continue;
            }

            let sense = match negated.take() {
                None => Some(sense),
                Some(at) => negated_sense(self.get(i), sense, i - at == 1),
            };
            if result != Some(Bad) {
                result = sense.or(result);
            }
        }

        result
    }

    /// Returns the meaning of one word, taking its neighbours into account.
    fn sense_at(&self, i: usize) -> Option<Sense> {
        let next = if i + 1 < self.count { self.get(i + 1) } else { "" };
        let before = if i > 0 { self.get(i - 1) } else { "" };
        match (self.get(i), next) {
            ("failed", "over") => Some(Good),
            // The spec is not in effect.
            ("rolled", "back")
            | ("rollback", "complete" | "completed" | "done" | "succeeded" | "successful") => {
                Some(Bad)
            }
            // `RequiredPackages` names the packages; `RestartRequired` says what to do.
            ("required", next) if !next.is_empty() && !PREPOSITIONS.contains(&next) => None,
            ("failing", "over") | ("failover", _) | ("setting", "up") => Some(InProgress),
            ("in", "sync") | ("up", "to") => Some(Good),
            ("out", "of") | ("over", "quota") => Some(Lacking),
            ("timed", "out") => Some(Bad),
            // A count that is too low, as during a rollout.
            ("insufficient", "replicas" | "pods" | "members" | "instances") => Some(Lacking),
            // In prose, this is a conflict. As a reason, `AlreadyExists` may also explain why the
            // operator had nothing to do.
            ("already", "exists") if self.count > 3 => Some(Bad),
            // `ScalingDown` does not mean that the object is down.
            ("up" | "down", _) if before.ends_with("ing") => Some(InProgress),
            (_, _) if before == "being" => Some(InProgress),
            // `New` has a meaning only when it stands alone.
            ("new", _) if self.count > 1 => None,
            (word, _) => senses::of(word),
        }
    }
}

/// Returns a sense after a negation: `NotReady` is lacking, `NotAllowed` is a refusal, `NoErrors`
/// is good.
///
/// `adjacent` means that the negation directly precedes the word. In `NoDataFailed`, it does not,
/// so the failure stands.
fn negated_sense(word: &str, sense: Sense, adjacent: bool) -> Option<Sense> {
    match sense {
        Good | Done if REFUSED_IF_NEGATED.contains(&word) => Some(Bad),
        Good | Done => Some(Lacking),
        Bad if adjacent || FAULT_NOUNS.contains(&word) => Some(Good),
        Bad => Some(Bad),
        InProgress if word == "started" => Some(InProgress), // it still waits
        InProgress | Lacking | Paused => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compounds_have_the_sense_of_their_head() {
        for (text, sense) in [
            ("FetchFailed", Some(Bad)),
            ("RUNNING", Some(Good)),
            ("in_progress", Some(InProgress)),
            ("APIServerAvailable", Some(Good)),
            ("Cluster in healthy state", Some(Good)),
            ("WaitingForFailedPods", Some(InProgress)),
            ("FailedToWait", Some(Bad)),
            ("ReadyToStart", Some(InProgress)),
            ("NotReady", Some(Lacking)),
            ("missing ready replicas", Some(Lacking)),
            ("SecretMissing", Some(Lacking)),
            ("NotAllPodsReady", Some(Lacking)),
            ("NotAllowedByListeners", Some(Bad)),
            ("NoErrors", Some(Good)),
            ("NoDiskPressure", Some(Good)),
            ("NoDataFailed", Some(Bad)),
            ("NotProgressing", None),
            ("ContinuousArchivingSuccess", Some(Good)),
            ("FinalizingPartiallyFailed", Some(InProgress)),
            ("PartiallyFailed", Some(Bad)),
            ("failing over", Some(InProgress)),
            ("FailedOver", Some(Good)),
            ("UPDATE_ROLLBACK_COMPLETE", Some(Bad)),
            ("ROLLED_BACK", Some(Bad)),
            ("RollbackInProgress", Some(InProgress)),
            ("RequiredPackages", None),
            ("RestartRequired", Some(InProgress)),
            ("WaitForFirstConsumer", Some(Paused)),
            ("PendingPopulation", Some(Paused)),
            ("InstallationNotStarted", Some(InProgress)),
            ("ScalingDown", Some(InProgress)),
            ("down", Some(Lacking)),
            ("OutOfSync", Some(Lacking)),
            ("InSync", Some(Good)),
            ("up-to-date", Some(Good)),
            ("TimedOut", Some(Bad)),
            ("New", Some(InProgress)),
            ("NewReplicaSetAvailable", Some(Good)),
            ("Resource is being created", Some(InProgress)),
            ("HEALTH_ERR", Some(Bad)),
            ("Überraschung", None),
            ("", None),
        ] {
            assert_eq!(Words::of(text).sense(), sense, "{text}");
        }
    }
}
