//! The report of `what-if`: the objects that a deletion takes with it, and the blockers.

mod context; // the prediction, and its subject
mod sections; // the parts of the report, as lists
mod json; // the JSON
mod deletion_tree; // the deleted objects, grouped by kind

use std::fmt::Write as _;

use loopwatch_model::cascade::Fate;

pub(crate) use self::context::Forecast;
use self::sections::Section;
use super::document::{Block, Document, Headline, Ink};
use super::style::Style;
use super::writer;
use crate::export::view::Number;

impl Forecast<'_> {
    /// The report as text or Markdown.
    #[must_use]
    pub(crate) fn text(&self, style: Style) -> String {
        writer::write(&self.document(), style)
    }

    /// The report as JSON, on one line.
    #[must_use]
    pub(crate) fn json(&self) -> String {
        let shape = json::ForecastResponse::of(self);
        let mut text = serde_json::to_string(&shape).unwrap_or_default(); // plain data cannot fail
        text.push('\n');
        text
    }

    fn document(&self) -> Document {
        let (word, ink) = match self.is_clear() {
            true => ("clear", Ink::Good),
            false => ("blocked", Ink::Warning),
        };
        let mut document = Document::new(Headline {
            command: "loopwatch what-if",
            word: word.to_owned(),
            ink,
            sentence: self.sentence(),
            facts: Vec::new(),
        });

        document.add(Block::Title("Deleted"));
        document.add(Block::Tree(deletion_tree::lines(self)));
        for Section { title, lead, list } in sections::all(self) {
            document.add(Block::Title(title));
            document.blocks.extend((!lead.is_empty()).then_some(Block::Paragraph(lead)));
            document.add(Block::List(list));
        }

        document
    }

    /// `deleting Widget.example.io team-a/web with --cascade=background deletes 6 objects: 4 at
    /// once, …`.
    fn sentence(&self) -> String {
        let count = |fate| self.prediction.taken.iter().filter(|taken| taken.fate == fate).count();
        let (removed, terminating, waiting) =
            (count(Fate::Removed), count(Fate::Terminating), count(Fate::Waiting));
        let total = removed + terminating + waiting;
        let least = if self.is_lower_limit() { "at least " } else { "" };
        let s = if total == 1 { "" } else { "s" };
        let mut text =
            format!("{} deletes {least}{} object{s}", self.action(), Number(total as u64));

        let fates = [(removed, "at once"), (terminating, "left in deletion"), (waiting, "later")];
        let parts: Vec<String> = fates
            .into_iter()
            .filter(|(count, _)| *count > 0 && *count < total)
            .map(|(count, how)| format!("{} {how}", Number(count as u64)))
            .collect();
        if !parts.is_empty() {
            let _ = write!(text, ": {}", parts.join(", "));
        } else if terminating > 0 {
            text.push_str(" and leaves it in deletion");
        }

        text
    }

    fn action(&self) -> String {
        match (self.operator, self.request.targets.first()) {
            (Some(operator), _) => format!("uninstalling {operator}"),
            (None, Some(target)) => {
                format!(
                    "deleting {} with --cascade={}",
                    self.name(*target).in_full(),
                    self.request.cascade.as_str()
                )
            }
            (None, None) => "deleting nothing".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
