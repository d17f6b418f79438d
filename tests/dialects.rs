//! How the status of operators is read, one status per line of `dialects.jsonl`: `is` gives the
//! verdict, `for` the rule that decides, where it matters. The statuses are invented, but follow
//! the operators' documentation and output.

#![expect(clippy::panic, reason = "a test names the line that it cannot read")]

use std::fmt::Write as _;

use loopwatch::sources::decoding::{HashKey, object_with_type};
use loopwatch_model::model::reading::{Reading, read};
use loopwatch_model::observation::{Fact, FactValue, ObjectView};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct DialectCase<'a> {
    case: String,
    is: String,
    r#for: Option<String>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl DialectCase<'_> {
    /// Returns the group, the kind and the view of the object.
    fn decode(&self) -> (String, String, ObjectView) {
        let (own, object) =
            object_with_type(self.object.get().as_bytes(), &HashKey([0; 16])).expect("an object");
        let group = own.api_version.split_once('/').map_or("", |(group, _)| group);
        (group.to_owned(), own.kind, object)
    }
}

fn cases() -> impl Iterator<Item = (usize, DialectCase<'static>)> {
    include_str!("dialects.jsonl").lines().enumerate().map(|(line, text)| {
        let case =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("line {}: {error}", line + 1));
        (line, case)
    })
}

#[test]
fn statuses_are_read_as_their_operators_intend() {
    let (mut read_cases, mut wrong) = (0, String::new());
    for (line, case) in cases() {
        let (group, kind, object) = case.decode();
        let Reading { verdict, reason, signal, .. } = read(&group, &kind, &object);
        let as_expected = format!("{verdict:?}") == case.is
            && case.r#for.as_ref().is_none_or(|r| r == reason.as_str());

        if !as_expected {
            let expected = case.r#for.unwrap_or_default();
            let _ = writeln!(
                wrong,
                "line {}, {}: expected {} {expected}, read {verdict:?} {} [{signal}]",
                line + 1,
                case.case,
                case.is,
                reason.as_str()
            );
        }

        read_cases += 1;
    }

    assert!(wrong.is_empty(), "{wrong}");
    assert!(read_cases > 200, "only {read_cases} cases");
}

/// Changes a status in a way that does not change its meaning.
type Change = fn(&mut ObjectView);

#[test]
fn the_order_and_unrelated_fields_do_not_matter() {
    let changes: [(&str, Change); 4] = [
        ("the conditions in reverse", |object| object.conditions.reverse()),
        ("the fields in reverse", |object| object.facts.reverse()),
        ("the conditions by type", |object| {
            object.conditions.sort_by(|a, b| a.r#type.cmp(&b.r#type))
        }),
        ("further fields", |object| {
            for path in ["status.hash", "status.url", "status.pods[0].name", "status.nodeName"] {
                let value = FactValue::Text("a1b2c3".to_owned());
                object.facts.push(Fact { path: path.to_owned(), value });
            }
        }),
    ];

    for (line, case) in cases() {
        let (group, kind, object) = case.decode();
        let verdict = read(&group, &kind, &object).verdict;
        for (name, change) in &changes {
            let mut changed = object.clone();
            change(&mut changed);
            let changed = read(&group, &kind, &changed).verdict;
            assert_eq!(changed, verdict, "line {}, {}, {name}", line + 1, case.case);
        }
    }
}

/// Returns whether a group is one of Kubernetes' own, whose words have only one spelling.
fn has_exact_words(group: &str) -> bool {
    ["", "apps", "batch", "apiextensions.k8s.io"].contains(&group)
}

#[test]
fn synonyms_in_reasons_and_phases_do_not_matter() {
    const SYNONYMS: [(&str, &str); 12] = [
        ("Failed", "Errored"),
        ("Failure", "Error"),
        ("Waiting", "Awaiting"),
        ("Succeeded", "Completed"),
        ("Creating", "Provisioning"),
        ("Pending", "Queued"),
        ("NotFound", "Missing"),
        ("Timeout", "TimedOut"),
        ("Invalid", "Malformed"),
        ("Updating", "Upgrading"),
        ("Paused", "Suspended"),
        ("Suspended", "Paused"),
    ];

    for (line, case) in cases() {
        let (group, kind, object) = case.decode();
        if has_exact_words(&group) {
            continue;
        }

        let verdict = read(&group, &kind, &object).verdict;
        for (word, synonym) in SYNONYMS {
            let mut changed = object.clone();
            for condition in &mut changed.conditions {
                condition.reason = with_synonym(&condition.reason, word, synonym);
            }
            for fact in &mut changed.facts {
                if let FactValue::Text(text) = &mut fact.value
                    && matches!(fact.path.as_str(), "status.phase" | "status.state")
                {
                    *text = with_synonym(text, word, synonym);
                }
            }

            let changed = read(&group, &kind, &changed).verdict;
            assert_eq!(changed, verdict, "line {}, {}: {word}, {synonym}", line + 1, case.case);
        }
    }
}

/// Replaces a word of a compound such as `FetchFailed` by a synonym. `FailedOver` is one verb.
fn with_synonym(compound: &str, word: &str, synonym: &str) -> String {
    match compound.split_once(word) {
        Some((before, after))
            if !after.starts_with(|c: char| c.is_ascii_lowercase()) && after != "Over" =>
        {
            format!("{before}{synonym}{after}")
        }
        _ => compound.to_owned(),
    }
}

#[test]
fn the_spelling_of_a_phase_does_not_matter() {
    let spellings: [fn(&str) -> String; 2] = [str::to_ascii_uppercase, str::to_ascii_lowercase];

    for (line, case) in cases() {
        let (group, kind, object) = case.decode();
        if has_exact_words(&group) {
            continue;
        }

        // A compound needs its capitals to be split into words.
        let is_word = |text: &str| {
            text.bytes().all(|b| b.is_ascii_alphabetic())
                && !text.bytes().skip(1).any(|b| b.is_ascii_uppercase())
        };
        let is_phase = |fact: &Fact| matches!(fact.path.as_str(), "status.phase" | "status.state");
        let verdict = read(&group, &kind, &object).verdict;
        for spell in spellings {
            let mut changed = object.clone();
            for fact in changed.facts.iter_mut().filter(|fact| is_phase(fact)) {
                if let FactValue::Text(text) = &mut fact.value
                    && is_word(text)
                {
                    *text = spell(text);
                }
            }

            let changed = read(&group, &kind, &changed).verdict;
            assert_eq!(changed, verdict, "line {}, {}", line + 1, case.case);
        }
    }
}
