//! The reports for people: of `check` and `replay`, of `explain`, and of `what-if`. Each builds a
//! document of blocks, which one of two writers turns into text.

mod document; // headlines, lists, trees, tables, commands
mod terminal; // writes a document for people at a terminal
mod markdown; // writes a document for tickets and pull requests
mod layout; // columns, wrapped lines, colours
mod tree; // lines of a tree
mod check; // the findings, on one screen, with the next command to run
mod explain; // one object
mod forecast; // what a deletion takes with it

use std::io::IsTerminal as _;

pub(crate) use self::check::CheckReport;
use self::document::Document;
pub(crate) use self::explain::explain_report;
pub(crate) use self::forecast::Forecast;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text for a terminal.
    Table,
    /// Versioned JSON.
    Json,
    /// Markdown for tickets.
    Markdown,
}

/// How to write a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether to write Markdown instead of text for a terminal.
    markdown: bool,
    /// Whether to use colours.
    colours: bool,
    /// Width of the terminal in columns.
    width: usize,
}

/// Width in columns without a terminal: a line length that is easy to read.
const USUAL_WIDTH: usize = 110;

/// Maximum number of entries that a report lists of one sort. It gives the number of the others.
const SHOWN: usize = 8;

impl Style {
    /// The style for standard output: colours only on a terminal, and not if `NO_COLOR` is set.
    #[must_use]
    pub(crate) fn of_stdout(format: OutputFormat) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let width = terminal_size::terminal_size()
            .filter(|_| terminal)
            .map(|(width, _)| usize::from(width.0));

        Self {
            markdown: format == OutputFormat::Markdown,
            colours: terminal && !unwanted && !dumb,
            width: width.unwrap_or(USUAL_WIDTH).clamp(40, 160),
        }
    }

    fn write(self, document: &Document) -> String {
        if self.markdown { markdown::write(document) } else { terminal::write(document, self) }
    }
}
