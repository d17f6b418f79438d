//! The report of `explain`: one object on one screen.

mod kinship; // its owners and children, as one tree
mod parts; // the other parts of the report

use std::fmt::Write as _;

use loopwatch_model::snapshot::ExplainedObject;

use self::parts::Part;
use super::layout::{Ink, paint, plain, wrap_item};
use super::{Style, markdown};
use crate::export::presentation::json::Explained;
use crate::export::view::kind_name;

// `write!` into a string does not fail, so its result is dropped throughout.

/// The report as text or Markdown.
#[must_use]
pub(crate) fn text(explained: &Explained, style: Style) -> String {
    if style.markdown { as_markdown(explained) } else { for_terminal(explained, style) }
}

fn for_terminal(explained: &Explained, style: Style) -> String {
    let word = parts::word(&explained.explanation);
    let first = format!("{}  ", paint(&word, ink(explained), style.colours));
    let indent = " ".repeat(word.chars().count() + 2);
    let mut out = wrap_item(&parts::headline(&explained.explanation), &first, &indent, style.width);

    for line in parts::introduction(explained) {
        out.push_str(&wrap_item(&line, &indent, &indent, style.width));
    }

    for Part { title, lines } in parts::all(explained) {
        let _ = writeln!(out, "\n{}", paint(title, Ink::Strong, style.colours));
        for line in lines {
            let (first, further) = (format!("  {}", line.first), format!("  {}", line.further));
            out.push_str(&wrap_item(&line.text, &first, &further, style.width));
            if let Some(command) = line.command {
                // The command is never wrapped, because people copy it.
                let _ = writeln!(out, "  {}$ {}", line.further, plain(&command));
            }
        }
    }

    out
}

fn as_markdown(explained: &Explained) -> String {
    let word = parts::word(&explained.explanation).to_lowercase();
    let headline = parts::headline(&explained.explanation);
    let mut out = format!(
        "## loopwatch explain: {}\n\n{}.\n",
        markdown::text(&word),
        markdown::text(&headline)
    );

    for line in parts::introduction(explained) {
        let _ = write!(out, "\n{}\n", markdown::text(&line));
    }

    for Part { title, lines } in parts::all(explained) {
        let _ = writeln!(out, "\n### {title}\n");
        for line in lines {
            let _ = writeln!(out, "{}- {}", "  ".repeat(line.depth), markdown::text(&line.text));
            if let Some(command) = line.command {
                // A longer fence than any run of backticks inside.
                let _ = writeln!(
                    out,
                    "   ````sh\n   {}\n   ````",
                    plain(&command).replace("````", "` ` ` `")
                );
            }
        }
    }

    out
}

fn ink(explained: &Explained) -> Ink {
    let has =
        |severity: &str| explained.findings.iter().any(|finding| finding.severity == severity);
    match explained.explanation.object.state.as_str() {
        _ if has("critical") => Ink::Critical,
        _ if has("warning") => Ink::Warning,
        "overdue" | "failed" => Ink::Warning,
        "converged" | "finished" => Ink::Good,
        _ => Ink::Strong,
    }
}

/// `Widget.example.io team-a/web`.
fn object_name(object: &ExplainedObject) -> String {
    format!("{} {}", kind_name(&object.group, &object.kind), place(object))
}

/// `team-a/web`, or `web` for a cluster-scoped object.
fn place(object: &ExplainedObject) -> String {
    if object.namespace.is_empty() {
        object.name.clone()
    } else {
        format!("{}/{}", object.namespace, object.name)
    }
}

#[cfg(test)]
mod tests;
