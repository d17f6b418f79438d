//! The report of `what-if`: the objects that a deletion takes with it, and what stops it.

mod sections; // the parts of the report, as lists
mod json; // the JSON
mod deletion_tree; // the deleted objects, grouped by kind

use std::fmt::Write as _;

use loopwatch_model::cascade::{Fate, Graph, NodeId, Prediction, Request};
use loopwatch_model::observation::LeftOut;

use self::sections::Section;
use super::Style;
use super::document::{Block, Document, Headline, Ink};
use crate::export::view::{Number, ObjectName};

/// A prediction with its context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast<'a> {
    /// The graph of the prediction.
    pub graph: &'a Graph,
    /// The deletion.
    pub request: &'a Request,
    /// What it would do.
    pub prediction: &'a Prediction,
    /// The operator to uninstall, as `NAMESPACE/DEPLOYMENT`; `None` for the deletion of one object.
    pub operator: Option<&'a str>,
    /// Objects of the installation that stay because others use them.
    pub shared: &'a [LeftOut],
    /// Parts of the cluster that loopwatch could not read.
    pub left_out: &'a [LeftOut],
}

impl Forecast<'_> {
    /// The report as text or Markdown.
    #[must_use]
    pub(crate) fn text(&self, style: Style) -> String {
        style.write(&self.document())
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

    /// Whether nothing stops the deletion, now or later.
    #[must_use]
    pub(crate) fn is_clear(&self) -> bool {
        self.prediction.blockers.is_empty() && self.prediction.stranded.is_empty()
    }

    /// Whether loopwatch could not read everything, so that there may be more objects.
    fn is_lower_limit(&self) -> bool {
        !self.left_out.is_empty()
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

        let parts = [(removed, "at once"), (terminating, "left in deletion"), (waiting, "later")];
        let parts: Vec<String> = parts
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

    fn name(&self, id: NodeId) -> ObjectName<'_> {
        self.graph.node(id).into()
    }

    /// `team-a/a, team-a/b and 7 more`.
    fn places(&self, ids: &[NodeId], most: usize) -> String {
        let shown: Vec<String> =
            ids.iter().take(most).map(|id| self.name(*id).in_namespace()).collect();
        let more = ids.len().saturating_sub(most);
        let rest =
            if more > 0 { format!(" and {} more", Number(more as u64)) } else { String::new() };

        format!("{}{rest}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests;
