//! Which Pod holds a lease, according to the identity of the holder. client-go appends `_` and a
//! UUID to the name of the Pod; other programs append a word, such as
//! `-external-cert-manager-controller`.

use std::ops::RangeInclusive;

/// The lengths at which the hash of a Deployment's template counts as one. A shorter one is rare,
/// and may be a word.
const HASH_LENGTHS: RangeInclusive<usize> = 6..=10;

/// The characters of such a hash. Kubernetes encodes each decimal digit as one of them.
const HASH_ALPHABET: &str = "456789bcdf";

/// The length of the random end of a Pod's name.
const SUFFIX_LENGTH: usize = 5;

/// The characters of the random end of a Pod's name: no vowels, so that it forms no words.
const SUFFIX_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns the name of the Pod in the identity of a lease's holder, as far as its form shows where
/// the name ends.
#[must_use]
pub fn pod_of_holder(holder: &str) -> &str {
    let whole = holder.split('_').next().unwrap_or(holder);
    end_of_generated(whole).and_then(|end| whole.get(..end)).unwrap_or(whole)
}

/// Returns the name of the Pod in the identity of a lease's holder if it has the form of a Pod of
/// the workload. `widget-operator-agent-x2x4v` has not: it belongs to another workload, whose name
/// is longer.
pub(super) fn pod_of_workload<'a>(holder: &'a str, workload: &str) -> Option<&'a str> {
    let rest = holder.strip_prefix(workload)?;
    let generated = match rest.strip_prefix('-') {
        Some(rest) => 1 + generated_length(rest)?,
        None if rest.is_empty() || rest.starts_with('_') => 0,
        None => return None,
    };

    holder.get(..workload.len() + generated)
}

/// Returns whether the identity of a lease's holder is the name of this Pod, or begins with it.
#[must_use]
pub(super) fn is_held_by(holder: &str, pod: &str) -> bool {
    let rest = holder.strip_prefix(pod);
    !pod.is_empty()
        && rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

/// Returns where the name of a Deployment's Pod ends: after the hash of its template and its own
/// random end.
fn end_of_generated(text: &str) -> Option<usize> {
    let (mut begin, mut follows_hash) = (0, false);
    for part in text.split('-') {
        let end = begin + part.len();
        if follows_hash && is_suffix(part) {
            return Some(end);
        }

        follows_hash = begin > 0 && is_hash(part);
        begin = end + 1;
    }

    None
}

/// Returns the length of what Kubernetes has appended to the name of the workload.
fn generated_length(text: &str) -> Option<usize> {
    let first = first_word(text);
    let second = text.get(first.len()..).and_then(|rest| rest.strip_prefix('-')).map(first_word);
    if is_hash(first) {
        let second = second.filter(|second| !second.is_empty())?;
        return Some(first.len() + 1 + second.len());
    }

    let is_ordinal = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    (is_ordinal || is_suffix(first)).then_some(first.len())
}

fn first_word(text: &str) -> &str {
    text.split(|next: char| !next.is_ascii_alphanumeric()).next().unwrap_or(text)
}

fn is_hash(part: &str) -> bool {
    HASH_LENGTHS.contains(&part.len()) && part.chars().all(|c| HASH_ALPHABET.contains(c))
}

/// Returns whether this is the random end of a Pod's name.
fn is_suffix(part: &str) -> bool {
    part.len() == SUFFIX_LENGTH && part.chars().all(|c| SUFFIX_ALPHABET.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_of_a_holder_ends_where_the_program_has_appended_something() {
        for (holder, pod) in [
            ("operator-7d9f8c6b5-x2x4v_6f1c", "operator-7d9f8c6b5-x2x4v"),
            ("operator-7d9f8c6b5-x2x4v", "operator-7d9f8c6b5-x2x4v"),
            (
                "cert-manager-6d9f8c6b5-x2x4v-external-cert-manager-controller",
                "cert-manager-6d9f8c6b5-x2x4v",
            ),
            ("operator-0_6f1c", "operator-0"),
            ("node-1.example.io_6f1c", "node-1.example.io"),
            ("7d9f8c6b5-x2x4v-tail", "7d9f8c6b5-x2x4v-tail"),
            ("backup-bcdf456-agent-7d9f8c6b5-x2x4v_1", "backup-bcdf456-agent-7d9f8c6b5-x2x4v"),
            ("", ""),
        ] {
            assert_eq!(pod_of_holder(holder), pod);
        }
    }

    #[test]
    fn only_generated_parts_may_follow_the_name_of_the_workload() {
        for (holder, pod) in [
            ("operator-7d9f8c6b5-x2x4v_6f1c", Some("operator-7d9f8c6b5-x2x4v")),
            ("operator-7d9f8c6b5-x2x4v-leader-election", Some("operator-7d9f8c6b5-x2x4v")),
            ("operator-0_6f1c", Some("operator-0")),
            ("operator-12-election", Some("operator-12")),
            ("operator-x2x4v_1", Some("operator-x2x4v")),
            ("operator", Some("operator")),
            ("operator_1", Some("operator")),
            ("operator-agent-x2x4v_1", None),
            ("operator-webhook-7d9f8c6b5-x2x4v_1", None),
            ("operator-agent-0", None),
            ("operators-0", None),
            ("other-0", None),
            ("operator\u{fc}", None),
            ("", None),
        ] {
            assert_eq!(pod_of_workload(holder, "operator"), pod, "{holder}");
        }
    }

    #[test]
    fn a_holder_begins_with_the_whole_name_of_its_pod() {
        assert!(is_held_by("operator-1_x", "operator-1") && is_held_by("operator-1", "operator-1"));
        assert!(is_held_by("operator-1-external-lock", "operator-1"));
        assert!(!is_held_by("operator-10_x", "operator-1") && !is_held_by("", ""));
    }
}
