//! The content of a report, without its form: a headline and blocks. `terminal.rs` and
//! `markdown.rs` write it.

use loopwatch_model::finding::Severity;

use super::tree::TreeLine;

pub(super) struct Document {
    pub(super) headline: Headline,
    pub(super) blocks: Vec<Block>,
}

/// The answer in one sentence.
pub(super) struct Headline {
    /// The command, as the user typed it: `loopwatch what-if`.
    pub(super) command: &'static str,
    /// The answer in one lower-case word: `degraded`.
    pub(super) word: String,
    pub(super) ink: Ink,
    pub(super) sentence: String,
    /// Further lines about the answer.
    pub(super) facts: Vec<String>,
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Critical,
    Warning,
    /// An info finding.
    Note,
    Good,
    /// Less important than the rest.
    Faint,
    /// More important than the rest.
    Strong,
}

/// A part of a report.
pub(super) enum Block {
    /// The title of the blocks that follow.
    Title(&'static str),
    /// The title of the findings of one code and severity.
    FindingTitle {
        severity: Severity,
        name: &'static str,
    },
    /// Sentences of loopwatch's own, which need no escaping.
    Paragraph(&'static str),
    Findings {
        items: Vec<FindingItem>,
        more: More,
    },
    List(List),
    Tree(Vec<TreeLine>),
    Table(Table),
    /// A remark below a table.
    Note(String),
    /// A command for people to copy.
    Command(String),
}

/// One finding, below the title of its code.
pub(super) struct FindingItem {
    pub(super) subject: String,
    /// ` for 3d4h`; empty if the age is unknown.
    pub(super) lasting: String,
    pub(super) is_suspected: bool,
    pub(super) evidence: String,
    /// The findings that this one explains, each with its age.
    pub(super) explains: Vec<(String, String)>,
    /// The number of explained findings that are not in `explains`.
    pub(super) explains_more: usize,
}

/// A list of items of one kind.
#[derive(Default)]
pub(super) struct List {
    /// Whether the order of the items matters.
    pub(super) is_numbered: bool,
    pub(super) items: Vec<Item>,
    pub(super) more: More,
    /// How many items fit on a screen; `None` for all.
    pub(super) screenful: Option<usize>,
}

/// One item of a list.
#[derive(Default)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) commands: Vec<String>,
}

/// The omitted rest of a list or a table.
#[derive(Clone, Copy, Default)]
pub(super) struct More {
    pub(super) count: usize,
    /// Where a user at a terminal finds the rest; may be empty.
    pub(super) hint: &'static str,
}

/// Rows of cells below a heading.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<TableRow>,
    pub(super) more: More,
}

/// The heading of a column.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) content: Content,
}

/// What a column contains, which decides its alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Text,
    Age,
    Number,
}

/// A row of a table.
pub(super) struct TableRow {
    pub(super) cells: Vec<Cell>,
    /// The row as a sentence, for a terminal that is too narrow for the table.
    pub(super) in_words: Option<String>,
}

/// A cell of a table.
pub(super) enum Cell {
    Text(String),
    /// A number that is often 0.
    Count(u64),
}

/// Maximum number of entries of one sort that a report lists. For the rest, it gives only the
/// number.
pub(super) const SHOWN: usize = 8;

/// Where to find the whole list, if the report shows only its beginning.
pub(super) const IN_JSON: &str = "; -o json lists them";

impl Document {
    pub(super) fn new(headline: Headline) -> Self {
        Self { headline, blocks: Vec::new() }
    }

    pub(super) fn add(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds a list with a title, unless it has no items.
    pub(super) fn add_list(&mut self, title: &'static str, list: List) {
        if !list.items.is_empty() {
            self.add(Block::Title(title));
            self.add(Block::List(list));
        }
    }
}

impl List {
    /// A list of unordered texts.
    pub(super) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        Self { items: texts.into_iter().map(Item::from).collect(), ..Self::default() }
    }
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        Self { text, commands: Vec::new() }
    }
}

impl More {
    /// The rest of `all` after the first `shown`.
    pub(super) fn beyond(shown: usize, all: usize, hint: &'static str) -> Self {
        Self { count: all.saturating_sub(shown), hint }
    }
}
