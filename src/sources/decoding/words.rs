//! Infers the meaning of a value from the words in its key.
//!
//! Keys are CamelCase, snake_case or kebab-case, but use the same words.

/// A word in lower case, on the stack. It cuts words that do not fit, which no table contains.
struct LowercaseWord {
    bytes: [u8; 24],
    length: usize,
}

/// Whether a scalar of the status under this key reports progress, as a phase, a count, a verdict
/// or an error does.
pub(super) fn reports_state(key: &str) -> bool {
    last_word_reports_state(LowercaseWord::new(last_word(key)).as_str())
        || first_word_reports_state(LowercaseWord::new(first_word(key)).as_str())
}

/// Whether this key of the status itself holds the revision of its replicas, as in a StatefulSet, or
/// below it, at this depth, the revision that an operation is about.
pub(super) fn is_revision(key: &str, depth: u8) -> bool {
    match depth {
        0 => matches!(key, "currentRevision" | "updateRevision"),
        1 | 2 => key == "revision",
        _ => false,
    }
}

/// Whether the number of items matters in a list of the status itself under this key: the running
/// Jobs of a CronJob, or the parents and ancestors that have accepted an object of the Gateway API.
pub(super) fn is_counted_list(key: &str) -> bool {
    matches!(key, "active" | "parents" | "ancestors")
}

/// Whether a list of the status under this key holds errors.
pub(super) fn lists_errors(key: &str) -> bool {
    matches!(LowercaseWord::new(last_word(key)).as_str(), "errors" | "problems" | "failures")
}

/// Whether a time of the status under this key marks the start or end of a run, or a schedule that
/// fired.
pub(super) fn is_milestone_time(key: &str) -> bool {
    let first = LowercaseWord::new(first_word(key));
    match LowercaseWord::new(last_word(key)).as_str() {
        "time" | "timestamp" | "at" => {
            matches!(
                first.as_str(),
                "start"
                    | "started"
                    | "completion"
                    | "completed"
                    | "end"
                    | "ended"
                    | "finish"
                    | "finished"
                    | "stop"
                    | "stopped"
                    | "termination"
            ) || matches!(key, "lastScheduleTime" | "lastScheduledTime" | "lastSuccessfulTime")
        }
        _ => false,
    }
}

/// Whether a time of the status under this key says when its state last changed.
pub(super) fn is_transition_time(key: &str) -> bool {
    matches!(LowercaseWord::new(last_word(key)).as_str(), "time" | "timestamp" | "at")
        && has_word(key, |word| word == "transition")
}

/// The meaning of a key of the spec.
#[derive(Clone, Copy, Default)]
pub(super) struct SpecKey {
    /// Whether a number under this key is a desired count.
    pub(super) names_count: bool,
    /// Whether a text or a flag under this key is a desired state, or the variant of the object.
    pub(super) names_wanted_state: bool,
}

/// Whether any word of the key satisfies `meant`. Does not allocate.
pub(super) fn has_word(key: &str, meant: impl Fn(&str) -> bool) -> bool {
    let mut rest = key;
    while !rest.is_empty() {
        let word = first_word(rest);
        if meant(LowercaseWord::new(word).as_str()) {
            return true;
        }

        // Skips at least a separator, which is ASCII.
        rest = &rest[word.len().max(1)..];
    }

    false
}

/// Whether a number of the status under this key is the generation that the operator has seen.
/// Others, such as `nodeClassObservedGeneration`, belong to another object.
pub(super) fn is_observed_generation(key: &str) -> bool {
    const SEEN: [&str; 7] =
        ["observed", "evaluated", "reconciled", "handled", "processed", "applied", "synced"];

    let Some(seen) = key.strip_suffix("Generation") else { return false };
    seen == "observed"
        || seen
            .strip_prefix("last")
            .is_some_and(|seen| SEEN.iter().any(|word| seen.eq_ignore_ascii_case(word)))
}

/// Whether the value under this key changes without a change of state, as a time or a heartbeat
/// does.
pub(super) fn is_volatile(key: &str) -> bool {
    let last = LowercaseWord::new(last_word(key));
    match last.as_str() {
        "time" | "timestamp" | "heartbeat" | "at" => true,
        "checked" | "updated" | "seen" | "synced" | "probed" | "resync" | "refreshed"
        | "evaluated" => first_word(key).eq_ignore_ascii_case("last"),
        _ => false,
    }
}

/// Whether a text is a timestamp in the format of RFC 3339 or of Go.
pub(super) fn is_timestamp(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 19
        && b[4] == b'-'
        && b[7] == b'-'
        && (b[10] == b'T' || b[10] == b' ')
        && b[13] == b':'
        && b[16] == b':'
        && b[..4].iter().all(u8::is_ascii_digit)
}

/// The longest prefix of `text` with at most `max` bytes that ends at a character boundary.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max { text } else { &text[..text.floor_char_boundary(max)] }
}

/// Shortens a text to at most `max` bytes.
pub(crate) fn truncate(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}

/// All words in lower case. Allocates, so callers use it for few keys.
pub(super) fn split_words(key: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), key);
    while !rest.is_empty() {
        let word = first_word(rest);
        let end = word.len().max(1).min(rest.len());
        if !word.is_empty() {
            words.push(word.to_ascii_lowercase());
        }

        // Skips a separator, which is ASCII, or a word, which ends on a character boundary.
        rest = if word.is_empty() { &rest[end..] } else { &rest[word.len()..] };
    }

    words
}

fn last_word_reports_state(word: &str) -> bool {
    matches!(
        word,
        "phase" | "state" | "status" | "health" | "stage" | "result" | "outcome" | "verdict" | "lifecycle"
            | "robustness" | "availability" | "compliant" | "compliance" | "conclusion" | "progress" | "condition" | "summary"
            // errors
            | "message" | "msg" | "reason" | "error" | "errors" | "err" | "failure" | "failures"
            // verdicts
            | "ready" | "healthy" | "unhealthy" | "synced" | "sync" | "applied" | "valid" | "ok" | "success"
            | "succeeded" | "successful" | "pass" | "passed" | "failed" | "failing" | "degraded" | "stalled" | "complete" | "completed"
            | "done" | "finished" | "initialized" | "operational" | "installed" | "deployed" | "bound" | "connected"
            | "accepted" | "created" | "established" | "provisioned" | "reconciled" | "reconciling" | "progressing" | "paused"
            | "generated" | "suspended" | "stopped" | "active" | "running" | "pending" | "terminating" | "online" | "enabled"
            // counts
            | "replicas" | "instances" | "nodes" | "members" | "pods" | "shards" | "brokers" | "machines" | "servers"
            | "workers" | "available" | "unavailable" | "desired" | "expected" | "current" | "updated" | "scheduled"
            | "misscheduled" | "standby" | "total" | "size" | "count" | "allowed"
    )
}

fn first_word_reports_state(word: &str) -> bool {
    matches!(
        word,
        "ready" | "available" | "unavailable" | "updated" | "desired" | "expected" | "number" | "healthy" | "unhealthy"
            // errors
            | "error" | "err"
            // flags such as `isRollingUpdate`
            | "is"
    )
}

/// The text from the last boundary between words to the end.
fn last_word(key: &str) -> &str {
    let bytes = key.as_bytes();
    for i in (1..bytes.len()).rev() {
        if is_separator(bytes[i - 1])
            || (bytes[i].is_ascii_uppercase() && !bytes[i - 1].is_ascii_uppercase())
        {
            return key.get(i..).unwrap_or(key);
        }
    }

    key
}

/// The text up to the first boundary between words.
fn first_word(key: &str) -> &str {
    let bytes = key.as_bytes();
    for i in 0..bytes.len() {
        if is_separator(bytes[i])
            || (i > 0 && bytes[i].is_ascii_uppercase() && !bytes[i - 1].is_ascii_uppercase())
        {
            return key.get(..i).unwrap_or(key);
        }
    }

    key
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.' | b'/' | b' ')
}

impl SpecKey {
    pub(super) fn of(key: &str) -> Self {
        let last = LowercaseWord::new(last_word(key));
        let names_count = matches!(
            last.as_str(),
            "replicas"
                | "replica"
                | "size"
                | "instances"
                | "nodes"
                | "members"
                | "shards"
                | "servers"
                | "count"
                | "partition"
                | "completions"
        );

        let names_wanted_state = matches!(
            last.as_str(),
            "state"
                | "status"
                | "phase"
                | "mode"
                | "strategy"
                | "policy"
                | "active"
                | "running"
                | "enabled"
                | "disabled"
        ) || key == "type";

        Self { names_count, names_wanted_state }
    }
}

impl LowercaseWord {
    fn new(word: &str) -> Self {
        let mut lower = Self { bytes: [0; 24], length: word.len().min(24) };
        lower.bytes[..lower.length].copy_from_slice(&word.as_bytes()[..lower.length]);
        lower.bytes[..lower.length].make_ascii_lowercase();
        lower
    }

    fn as_str(&self) -> &str {
        // No table contains a word that was cut inside a character.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_in_every_spelling() {
        for (key, words) in [
            ("readyReplicas", vec!["ready", "replicas"]),
            ("do-not_reconcile", vec!["do", "not", "reconcile"]),
            ("pause", vec!["pause"]),
            ("", vec![]),
            ("--a.b/", vec!["a", "b"]),
            ("zürichReady", vec!["zürich", "ready"]),
        ] {
            assert_eq!(split_words(key), words, "{key}");
        }
    }

    #[test]
    fn keys_report_state_by_their_words() {
        for key in [
            "phase",
            "updateStatus",
            "PostgresClusterStatus",
            "readyReplicas",
            "numberReady",
            "failureReason",
        ] {
            assert!(reports_state(key), "{key}");
        }

        for key in ["name", "url", "statusText", "certificate", "podIP", "readerEndpoint"] {
            assert!(!reports_state(key), "{key}");
        }
    }

    #[test]
    fn heartbeats_are_volatile() {
        for key in
            ["lastTransitionTime", "lastChecked", "observedAt", "reconciledAt", "lastHeartBeatTime"]
        {
            assert!(is_volatile(key), "{key}");
        }

        for key in ["updated", "format", "lastOperation", "checked", "time_zone"] {
            assert!(!is_volatile(key), "{key}");
        }

        assert!(
            is_timestamp("2026-01-01T00:00:00Z") && is_timestamp("2025-07-24 19:54:15 +0000 UTC")
        );
        assert!(!is_timestamp("2026-01-01") && !is_timestamp("v1.2.3-4-gabcdef0123456"));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "ä");
        assert_eq!(cut("äöü", 6), "äöü");
    }
}
