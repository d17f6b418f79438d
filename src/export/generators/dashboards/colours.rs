//! The meaning of each colour, in all dashboards. The web page gives its colours the same meanings.

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// As it should be.
    Good,
    /// At work, or good to know.
    Busy,
    /// Needs somebody.
    Warn,
    /// Broken.
    Bad,
    /// Being deleted.
    Leave,
    /// Not judged.
    Still,
    /// Has ended, as it should.
    Done,
}

/// The words of severities, states, outcomes and verdicts, with their meanings. A word has the same
/// colour in each panel.
const WORDS: [(Meaning, &[&str]); 7] = [
    (Meaning::Good, &["healthy", "converged", "ok", "success", "removed", "up", "yes"]),
    (Meaning::Busy, &["info", "progressing", "superseded", "Normal"]),
    (
        Meaning::Warn,
        &[
            "warning",
            "degraded",
            "overdue",
            "late",
            "slow",
            "removed_late",
            "blocked_by_dependent",
            "flapping",
            "Warning",
        ],
    ),
    (
        Meaning::Bad,
        &[
            "critical",
            "failing",
            "failed",
            "rejected",
            "stuck",
            "timed_out",
            "owner_absent",
            "lost",
            "error",
            "panic",
            "dropped",
            "down",
            "no",
        ],
    ),
    (Meaning::Leave, &["terminating", "deleted"]),
    (Meaning::Still, &["suspended", "skipped", "unknown", "not_leader", "sampled_out"]),
    (Meaning::Done, &["finished"]),
];

impl Meaning {
    /// The meaning of a word.
    pub(super) fn of(word: &str) -> Self {
        let row = WORDS.iter().find(|(_, words)| words.contains(&word));
        row.map(|(meaning, _)| *meaning).expect("a word of the table")
    }

    /// The colour in Grafana. Names are those of its palette, which it adapts to its theme. The
    /// palette has no grey and no teal: these two are those of the page, and legible in both themes.
    pub(super) const fn colour(self) -> &'static str {
        match self {
            Self::Good => "green",
            Self::Busy => "blue",
            Self::Warn => "orange",
            Self::Bad => "red",
            Self::Leave => "purple",
            Self::Still => "#6b7685",
            Self::Done => "#2f7a75",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use loopwatch_model::finding::Severity;

    use super::*;

    const MEANINGS: [(Meaning, &str); 7] = [
        (Meaning::Good, "good"),
        (Meaning::Busy, "busy"),
        (Meaning::Warn, "warn"),
        (Meaning::Bad, "bad"),
        (Meaning::Leave, "leave"),
        (Meaning::Still, "still"),
        (Meaning::Done, "done"),
    ];

    /// The words that classes of the page have, too.
    const SHARED: [&str; 13] = [
        "critical",
        "warning",
        "info",
        "healthy",
        "degraded",
        "failing",
        "converged",
        "progressing",
        "overdue",
        "failed",
        "terminating",
        "suspended",
        "finished",
    ];

    /// The colours with a meaning that the page uses for a class.
    fn colours_on_the_page(css: &str, class: &str) -> BTreeSet<String> {
        let class = format!(".{class}");
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let mut found = BTreeSet::new();

        for rule in css.split('}') {
            let Some((selector, declarations)) = rule.rsplit_once('{') else { continue };
            let is_about = selector
                .match_indices(&class)
                .any(|(at, _)| !selector[at + class.len()..].starts_with(is_word));
            if !is_about {
                continue;
            }

            let variables = declarations.split("var(--").skip(1);
            let names = variables.filter_map(|rest| Some(rest.split_once(')')?.0));
            let meanings = names.filter(|name| MEANINGS.iter().any(|(_, known)| known == name));
            found.extend(meanings.map(str::to_owned));
        }

        found
    }

    #[test]
    fn the_page_gives_its_colours_the_same_meanings() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/export/presentation/page/page.css");
        let css = std::fs::read_to_string(file).expect("the style sheet");
        for word in SHARED {
            let meaning = Meaning::of(word);
            let (_, variable) =
                MEANINGS.iter().find(|(other, _)| *other == meaning).expect("a variable");

            let found = colours_on_the_page(&css, word);
            assert!(found.iter().all(|other| other == variable), "{word}: {found:?}");
            assert!(!found.is_empty() || word == "info", "{word} has no colour on the page");
        }

        for meaning in [Meaning::Still, Meaning::Done] {
            assert!(css.contains(&format!(": {};", meaning.colour())), "{meaning:?}");
        }
    }

    #[test]
    fn each_word_has_one_meaning_and_each_meaning_one_colour() {
        let words: Vec<&str> = WORDS.iter().flat_map(|(_, words)| *words).copied().collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());

        let colours: BTreeSet<&str> =
            MEANINGS.iter().map(|(meaning, _)| meaning.colour()).collect();
        assert_eq!(colours.len(), MEANINGS.len());

        for severity in Severity::ALL {
            assert!(words.contains(&severity.as_str()), "{severity:?}");
        }
    }
}
