//! The report of `what-if`: the objects that a deletion takes with it, and the blockers.

mod context; // the prediction, and its subject
mod sections; // the parts of the report, as lists
mod json; // the JSON
mod deletion_tree; // the deleted objects, grouped by kind

use loopwatch_model::cascade::{Fate, NodeId};

pub(crate) use self::context::Forecast;
use self::context::Verdict;
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
        let (word, ink) = match self.verdict() {
            Verdict::Clear => ("clear", Ink::Good),
            Verdict::Uncertain => ("uncertain", Ink::Warning),
            Verdict::Blocked => ("blocked", Ink::Warning),
        };
        let mut document = Document::new(Headline {
            command: "loopwatch what-if",
            word: word.to_owned(),
            ink,
            sentence: self.sentence(),
            facts: self.facts(),
        });

        add_sections(&mut document, sections::obstacles(self));
        document.add(Block::Title("Deleted"));
        document.add(Block::Tree(deletion_tree::lines(self)));
        add_sections(&mut document, sections::dependents(self));
        add_sections(&mut document, sections::advice(self));

        document
    }

    fn count(&self, fate: Fate) -> usize {
        self.prediction.taken.iter().filter(|taken| taken.fate == fate).count()
    }

    /// `deleting Widget.example.io team-a/web with --cascade=background deletes 6 objects`.
    fn sentence(&self) -> String {
        let total = self.prediction.taken.len();
        let least = if self.is_lower_limit() { "at least " } else { "" };
        let s = if total == 1 { "" } else { "s" };
        let mut text =
            format!("{} deletes {least}{} object{s}", self.action(), Number(total as u64));
        if total > 0 && self.count(Fate::Terminating) == total {
            text.push_str(" and leaves it in deletion");
        }

        text
    }

    /// How far the deletion gets, and what it does not reach.
    fn facts(&self) -> Vec<String> {
        let fates = [
            (Fate::Removed, "at once"),
            (Fate::Terminating, "left in deletion"),
            (Fate::Waiting, "later"),
        ];
        let total = self.prediction.taken.len();
        let counts = fates.map(|(fate, how)| (self.count(fate), how));
        let parts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0 && *count < total)
            .map(|(count, how)| format!("{} {how}", Number(count as u64)))
            .collect();
        let mut facts = Vec::from_iter((!parts.is_empty()).then(|| parts.join(", ")));

        let unsure = self.unsure();
        if unsure > 0 {
            let (count, stay) = (Number(unsure as u64), if unsure == 1 { "stays" } else { "stay" });
            facts.push(format!("timing decides whether {count} of them {stay} in deletion"));
        }

        let is_deleting = |id: &NodeId| self.graph.node(*id).deleting;
        if self.operator.is_none() && self.request.targets.iter().any(is_deleting) {
            facts.insert(0, "it is being deleted already".to_owned());
        }

        if self.is_target_in_doubt() {
            facts.push("it stays in deletion while other objects use it".to_owned());
        }

        let lingering = self.prediction.lingering.len();
        if lingering > 0 {
            let count = Number(lingering as u64);
            let (s, are, stay) =
                if lingering == 1 { ("", "is", "stays") } else { ("s", "are", "stay") };
            facts.push(format!(
                "{count} other object{s} {are} being deleted already and {stay} in deletion"
            ));
        }

        facts
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

fn add_sections(document: &mut Document, sections: Vec<Section>) {
    for Section { title, lead, list } in sections {
        document.add(Block::Title(title));
        document.blocks.extend((!lead.is_empty()).then_some(Block::Paragraph(lead)));
        document.add(Block::List(list));
    }
}

#[cfg(test)]
mod tests;
