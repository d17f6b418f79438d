//! The report of `doctor`: what does not work in an installation of loopwatch, and what to do.

use super::document::{Block, Document, Headline, Ink, Item, List};
use super::style::Style;
use super::writer;
use crate::export::view::{Check, CheckState};

/// The sections, in their order.
const SECTIONS: [(CheckState, &str); 5] = [
    (CheckState::Problem, "Problems"),
    (CheckState::Limited, "Limited"),
    (CheckState::Unknown, "Unknown"),
    (CheckState::Off, "Not in use"),
    (CheckState::Well, "In order"),
];

/// Writes the report as text or Markdown. `facts` say where `doctor` has looked.
pub(crate) fn doctor_report(checks: &[Check], facts: Vec<String>, style: Style) -> String {
    let mut document = Document::new(headline(checks, facts));
    for (state, title) in SECTIONS {
        let of_state: Vec<&Check> = checks.iter().filter(|check| check.state == state).collect();
        if !of_state.is_empty() {
            document.add(Block::Title(title));
        }

        // Each item with its own commands directly below it.
        for check in of_state {
            document.add(Block::List(List { items: vec![item(check)], ..List::default() }));
        }
    }

    writer::write(&document, style)
}

fn headline(checks: &[Check], facts: Vec<String>) -> Headline {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (problems, unknown) = (count(CheckState::Problem), count(CheckState::Unknown));
    let (word, ink) = match (problems, unknown) {
        (1.., _) => ("broken", Ink::Critical),
        (0, 1..) => ("unclear", Ink::Note),
        (0, 0) => ("well", Ink::Good),
    };

    let ending = if problems == 1 { "" } else { "s" };
    let sentence = format!(
        "{problems} problem{ending}; {} of {} checks in order, {} limited, {unknown} unknown, {} not in use",
        count(CheckState::Well),
        checks.len(),
        count(CheckState::Limited),
        count(CheckState::Off),
    );
    Headline { command: "loopwatch doctor", word: word.to_owned(), ink, sentence, facts }
}

fn item(check: &Check) -> Item {
    let Check { text, advice, commands, .. } = check;
    let text = [text.as_str(), advice].map(str::trim).join(" ");
    Item { text: text.trim().to_owned(), commands: commands.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::presentation::report::OutputFormat;
    use crate::export::view::Topic;

    #[test]
    fn problems_come_first_each_with_its_command() {
        let checks = [
            Check::new(Topic::Sidecar, CheckState::Well, "It runs."),
            Check::new(Topic::Monitor, CheckState::Problem, "Nobody scrapes it.")
                .advise("Label it.")
                .next("kubectl label x"),
        ];
        let text = doctor_report(&checks, Vec::new(), Style::of_stdout(OutputFormat::Markdown));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));

        assert!(at("broken") < at("1 problem;"));
        assert!(at("Nobody scrapes it. Label it.") < at("kubectl label x"));
        assert!(at("kubectl label x") < at("It runs."));

        let unclear = [Check::new(Topic::Rights, CheckState::Unknown, "?")];
        let text = doctor_report(&unclear, Vec::new(), Style::of_stdout(OutputFormat::Markdown));
        assert!(text.contains("unclear") && !text.contains("well"), "{text}");
    }
}
