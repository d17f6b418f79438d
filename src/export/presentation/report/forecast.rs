//! The report of `what-if`: the objects that a deletion takes with it, and what stops it.

mod sections; // the parts of the report, as items with commands
mod shape; // the JSON
mod tree; // the deleted objects, grouped by kind

use std::fmt::Write as _;

use loopwatch_model::cascade::{Fate, Graph, NodeId, Prediction, Request};
use loopwatch_model::observation::LeftOut;

use self::sections::Section;
use super::layout::{Ink, paint, plain, wrap, wrap_item};
use super::{Style, markdown};
use crate::export::view::{Number, kind_name};

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

// `write!` into a string does not fail, so its result is dropped throughout.

/// The report as text or Markdown.
#[must_use]
pub(crate) fn text(forecast: &Forecast<'_>, style: Style) -> String {
    if style.markdown { as_markdown(forecast) } else { for_terminal(forecast, style) }
}

/// The report as JSON, on one line.
#[must_use]
pub(crate) fn json(forecast: &Forecast<'_>) -> String {
    let mut text =
        // Plain data cannot fail.
        serde_json::to_string(&shape::ForecastResponse::of(forecast)).unwrap_or_default();
    text.push('\n');
    text
}

fn for_terminal(forecast: &Forecast<'_>, style: Style) -> String {
    let (word, ink) = match forecast.is_clear() {
        true => ("CLEAR", Ink::Good),
        false => ("BLOCKED", Ink::Warning),
    };
    let first = format!("{}  ", paint(word, ink, style.colours));
    let mut out = wrap_item(&forecast.headline(), &first, &" ".repeat(word.len() + 2), style.width);
    let _ = writeln!(out, "\n{}", paint("Deleted", Ink::Strong, style.colours));

    for line in tree::lines(forecast) {
        let (branch, label) = (line.branches(), plain(&line.label));
        out.push_str(&wrap_item(
            &label,
            &format!("  {branch}"),
            &format!("  {}", line.continuation()),
            style.width,
        ));
    }

    for Section { title, lead, items, more } in sections::all(forecast) {
        let _ = writeln!(out, "\n{}", paint(title, Ink::Strong, style.colours));
        out.push_str(&wrap(lead, "  ", style.width));
        for (number, item) in (1..).zip(&items) {
            let bullet = if item.is_step { format!("  {number}. ") } else { "  - ".to_owned() };
            out.push_str(&wrap_item(&item.text, &bullet, &" ".repeat(bullet.len()), style.width));
            for command in &item.commands {
                // The command is never wrapped, because people copy it.
                let _ = writeln!(out, "     $ {}", plain(command));
            }
        }

        if more > 0 {
            let _ = writeln!(out, "  … and {more} more; -o json lists them");
        }
    }

    out
}

fn as_markdown(forecast: &Forecast<'_>) -> String {
    let word = if forecast.is_clear() { "clear" } else { "blocked" };
    let mut out = format!(
        "## loopwatch what-if: {word}\n\n{}.\n\n### Deleted\n\n",
        markdown::text(&forecast.headline())
    );
    for line in tree::lines(forecast) {
        let _ = writeln!(out, "{}- {}", "  ".repeat(line.depth()), markdown::text(&line.label));
    }

    for Section { title, lead, items, more } in sections::all(forecast) {
        let _ = writeln!(out, "\n### {title}\n");
        if !lead.is_empty() {
            let _ = writeln!(out, "{}\n", markdown::text(lead));
        }

        for item in &items {
            let bullet = if item.is_step { "1." } else { "-" };
            let _ = writeln!(out, "{bullet} {}", markdown::text(&item.text));
            for command in &item.commands {
                // A longer fence than any run of backticks inside.
                let _ = writeln!(
                    out,
                    "   ````sh\n   {}\n   ````",
                    plain(command).replace("````", "` ` ` `")
                );
            }
        }

        if more > 0 {
            let _ = writeln!(out, "- … and {more} more");
        }
    }

    out
}

impl Forecast<'_> {
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
    fn headline(&self) -> String {
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
                    self.object(*target),
                    self.request.cascade.as_str()
                )
            }
            (None, None) => "deleting nothing".to_owned(),
        }
    }

    /// `Widget.example.io team-a/web`.
    fn object(&self, id: NodeId) -> String {
        format!("{} {}", self.kind(id), self.place(id))
    }

    /// `Widget.example.io`.
    fn kind(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        kind_name(&node.group, &node.kind)
    }

    /// `team-a/web`, or `web` for a cluster-scoped object.
    fn place(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        if node.namespace.is_empty() {
            node.name.clone()
        } else {
            format!("{}/{}", node.namespace, node.name)
        }
    }

    /// `team-a/a, team-a/b and 7 more`.
    fn places(&self, ids: &[NodeId], most: usize) -> String {
        let shown: Vec<String> = ids.iter().take(most).map(|id| self.place(*id)).collect();
        let more = ids.len().saturating_sub(most);
        let rest =
            if more > 0 { format!(" and {} more", Number(more as u64)) } else { String::new() };

        format!("{}{rest}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests;
