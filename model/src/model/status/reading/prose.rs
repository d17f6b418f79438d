//! Finds words that report errors in messages, which are prose.

/// Words that report an error wherever they occur.
const ERRORS: &[&str] =
    &["cannot", "denied", "error", "errors", "failed", "failure", "forbidden", "invalid", "unable"];

/// Words that deny an error if they precede it directly.
const DENIALS: &[&str] = &["0", "any", "if", "no", "not", "previously", "without"];

/// Texts about capacity that the cluster lacks, in lower case and without spaces.
const LACKS_CAPACITY: &[&str] = &[
    "exceededquota",
    "insufficientcapacity",
    "insufficientcpu",
    "insufficientinstancecapacity",
    "insufficientmemory",
    "nodesareavailable",
    "quotaexceeded",
    "unschedulable",
];

/// Returns whether a text says that the cluster, or the quota of a namespace, has no room for the
/// object. That is no answer to its spec: there may be room later.
pub(crate) fn lacks_capacity(text: &str) -> bool {
    let letters = text.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    LACKS_CAPACITY.iter().any(|lack| letters.contains(lack))
}

/// Returns whether a message reports an error anywhere: `Pod "a" is not Ready because "PullError":
/// no such image`.
pub(super) fn reports_error(message: &str) -> bool {
    let mut before = "";
    words(message).any(|word| {
        let found =
            is_error(word) && !DENIALS.iter().any(|denial| denial.eq_ignore_ascii_case(before));
        before = word;
        found
    })
}

/// Returns whether a message begins with an error: `failed to create Secret: forbidden`.
pub(super) fn begins_with_error(message: &str) -> bool {
    words(message).next().is_some_and(is_error)
}

/// Returns whether a message says that something will be tried again, or waits for something that goes on:
/// `capacity is not found, will try later`, `cannot be modified while in 'creating' status`.
pub(super) fn waits(message: &str) -> bool {
    let (mut before, has_failed) = ("", reports_error(message));
    let is_refused = message.contains("cannot be ");
    words(message).any(|word| {
        let is = |other: &str| before.eq_ignore_ascii_case(other);
        let found = match word.to_ascii_lowercase().as_str() {
            "try" | "retry" => is("will") && !has_failed,
            "in" => is("while") && is_refused,
            "pending" => is("address"),
            _ => false,
        };
        before = word;
        found
    })
}

/// Returns a message without the names in it: `secrets "node-tls" not found` becomes `secrets  not found`.
pub(super) fn without_names(message: &str) -> String {
    message.split(['"', '\'', '`']).step_by(2).collect::<Vec<_>>().join(" ")
}

fn words(message: &str) -> impl Iterator<Item = &str> {
    message.split(|c: char| !c.is_ascii_alphanumeric() && c != '\'').filter(|word| !word.is_empty())
}

/// Returns whether a word reports an error, or is a compound such as `ReconciliationError`.
fn is_error(word: &str) -> bool {
    ERRORS.iter().any(|error| error.eq_ignore_ascii_case(word))
        || (word.len() > 5 && word.ends_with("Error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_waits_says_for_what() {
        for (message, waiting) in [
            ("Capacity is not found, CA will try to find it later.", true),
            ("DB instance cannot be modifed while in 'modifying' status", true),
            ("failed to assign to all addresses: address pending for hostname x", true),
            ("authorization failed, will retry", false),
            ("connection refused while it was being created", false),
            ("error while in namespace x", false),
            ("", false),
        ] {
            assert_eq!(waits(message), waiting, "{message}");
        }
    }

    #[test]
    fn errors_are_found_in_prose() {
        for (message, anywhere, first) in [
            ("failed to create Secret: forbidden", true, true),
            ("Pod is not Ready because \"PullError\": no such image", true, false),
            ("Waiting for 3 pods, no errors so far", false, false),
            ("Waiting for the rollout", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (reports_error(message), begins_with_error(message)),
                (anywhere, first),
                "{message}"
            );
        }
    }
}
