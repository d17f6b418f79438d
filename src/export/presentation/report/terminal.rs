//! Writes a document for a terminal.

use std::fmt::Write as _;

use loopwatch_model::finding::Severity;

use super::document::{
    Block, Cell, Content, Document, FindingItem, Headline, Ink, List, More, Table,
};
use super::layout::{Grid, paint, plain, wrap, wrap_item};
use super::style::Style;
use crate::export::view::without_code_marks;

/// Writes blocks in one style.
struct Terminal {
    out: String,
    style: Style,
}

// `write!` to a string cannot fail, so this file drops its result.

pub(super) fn write(document: &Document, style: Style) -> String {
    let mut terminal = Terminal { out: String::new(), style };
    terminal.headline(&document.headline);
    document.blocks.iter().for_each(|block| terminal.block(block));

    terminal.out
}

impl Terminal {
    fn headline(&mut self, headline: &Headline) {
        let word = headline.word.to_uppercase();
        let first = format!("{}  ", self.paint(&word, headline.ink));
        let indent = " ".repeat(word.chars().count() + 2);
        self.wrapped_item(&headline.sentence, &first, &indent);

        for fact in &headline.facts {
            self.wrapped(fact, &indent);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Title(title) => {
                let title = self.paint(title, Ink::Strong);
                self.line(&format!("\n{title}"));
            }
            Block::FindingTitle { severity, name } => self.finding_title(*severity, name),
            Block::Paragraph(prose) => self.wrapped(&without_code_marks(prose), "  "),
            Block::Findings { items, more } => {
                items.iter().for_each(|item| self.finding(item));
                self.more(*more);
            }
            Block::List(list) => self.list(list),
            Block::Tree(lines) => {
                for line in lines {
                    let (first, further) = (line.branches(), line.continuation());
                    self.wrapped_item(&line.label, &format!("  {first}"), &format!("  {further}"));
                }
            }
            Block::Table(table) => self.table(table),
            Block::Note(note) => self.line(&format!("  {note}")),
            Block::Command(command) => self.command(command, "  "),
        }
    }

    fn finding_title(&mut self, severity: Severity, name: &str) {
        let ink = match severity {
            Severity::Critical => Ink::Critical,
            Severity::Warning => Ink::Warning,
            Severity::Info => Ink::Note,
        };
        let severity = self.paint(&severity.as_str().to_uppercase(), ink);
        let name = self.paint(name, Ink::Strong);
        self.line(&format!("\n{severity}  {name}"));
    }

    fn finding(&mut self, item: &FindingItem) {
        const INDENT: &str = "      ";

        let subject = self.paint(&plain(&item.subject), Ink::Strong);
        let gap = if item.lasting.is_empty() { "" } else { " " };
        let suspected = if item.is_suspected { ", suspected" } else { "" };
        self.line(&format!("  - {subject}{gap}{}{suspected}", item.lasting));

        self.wrapped(&item.evidence, INDENT);
        for (explained, lasting) in &item.explains {
            let comma = if lasting.is_empty() { "" } else { "," };
            self.wrapped(&format!("explains {explained}{comma}{lasting}"), INDENT);
        }

        if item.explains_more > 0 {
            self.line(&format!("{INDENT}explains {} more", item.explains_more));
        }
    }

    fn list(&mut self, list: &List) {
        let shown = list.screenful.unwrap_or(list.items.len());
        for (number, item) in (1..).zip(list.items.iter().take(shown)) {
            let (bullet, indent) = match list.is_numbered {
                true => (format!("  {number}. "), "     "),
                false => ("  - ".to_owned(), "    "),
            };
            self.wrapped_item(&item.text, &bullet, &" ".repeat(bullet.len()));
            item.commands.iter().for_each(|command| self.command(command, indent));
        }

        self.more(match list.items.len().saturating_sub(shown) {
            0 => list.more,
            hidden => More { count: hidden + list.more.count, ..list.more },
        });
    }

    fn table(&mut self, table: &Table) {
        let heading = table.columns.iter().map(|column| column.title.to_uppercase()).collect();
        let is_right = |content| matches!(content, Content::Number | Content::Age);
        let right = table.columns.iter().map(|column| is_right(column.content)).collect();
        let mut grid = Grid::new(heading, right);

        for row in &table.rows {
            grid.add(row.cells.iter().map(|cell| match cell {
                Cell::Text(text) => plain(text),
                Cell::Count(0) => "·".to_owned(),
                Cell::Count(count) => count.to_string(),
            }));
        }

        let in_words: Option<Vec<&String>> =
            table.rows.iter().map(|row| row.in_words.as_ref()).collect();
        match in_words.filter(|_| grid.width() > self.style.width) {
            Some(rows) => rows.into_iter().for_each(|row| self.wrapped_item(row, "  - ", "    ")),
            None => self.out.push_str(&grid.text(self.style.colours)),
        }

        self.more(table.more);
    }

    fn more(&mut self, more: More) {
        if more.count > 0 {
            self.line(&format!("  … and {} more{}", more.count, more.hint));
        }
    }

    /// Never wraps a command, because people copy it.
    fn command(&mut self, command: &str, indent: &str) {
        self.line(&format!("{indent}$ {}", plain(command)));
    }

    fn wrapped(&mut self, text: &str, indent: &str) {
        self.out.push_str(&wrap(text, indent, self.style.width));
    }

    fn wrapped_item(&mut self, text: &str, first: &str, further: &str) {
        self.out.push_str(&wrap_item(text, first, further, self.style.width));
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }

    fn paint(&self, text: &str, ink: Ink) -> String {
        paint(text, ink, self.style.colours)
    }
}
