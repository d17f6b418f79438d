//! Lays out columns, wrapped lines and colours. Names and messages come from tenants, so this file
//! replaces all characters that control a terminal.

use super::document::Ink;
use crate::export::view::controls_display;

/// Rows of text whose columns are as wide as their widest cell.
pub(super) struct Grid {
    rows: Vec<Vec<String>>,
    /// For each column, whether it is right-aligned.
    right: Vec<bool>,
}

/// `text` in the colour of `ink`, if colours are in use. The colours have the meanings that they have
/// on the page and in the dashboards.
pub(super) fn paint(text: &str, ink: Ink, colours: bool) -> String {
    let code = match ink {
        Ink::Critical => "1;31",
        Ink::Warning => "1;33",
        Ink::Note => "1;94",
        Ink::Good => "32",
        Ink::Faint => "2",
        Ink::Strong => "1",
    };
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// `text` on one line and without characters that control a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => ' ',
            other if controls_display(other) => '\u{fffd}',
            other => other,
        })
        .collect()
}

/// `text` in lines of at most `width` columns, each with `indent`. A longer word gets its own line.
pub(super) fn wrap(text: &str, indent: &str, width: usize) -> String {
    wrap_item(text, indent, indent, width)
}

/// Like [`wrap`], with another text before the first line.
pub(super) fn wrap_item(text: &str, first: &str, indent: &str, width: usize) -> String {
    let room = width.saturating_sub(indent.chars().count()).max(20);
    let (mut lines, mut line, mut length) = (String::new(), String::new(), 0);
    for word in plain(text).split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > room {
            let before = if lines.is_empty() { first } else { indent };
            lines.push_str(&format!("{before}{line}\n"));
            (line, length) = (String::new(), 0);
        }

        if length > 0 {
            line.push(' ');
            length += 1;
        }

        line.push_str(word);
        length += word_length;
    }

    if length > 0 {
        let before = if lines.is_empty() { first } else { indent };
        lines.push_str(&format!("{before}{line}\n"));
    }

    lines
}

impl Grid {
    /// Begins with a heading. `right` says for each column whether it is right-aligned.
    pub(super) fn new(heading: Vec<String>, right: Vec<bool>) -> Self {
        Self { rows: vec![heading], right }
    }

    pub(super) fn add(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(cells.collect());
    }

    /// The width of all columns, in characters.
    pub(super) fn width(&self) -> usize {
        self.widths().iter().map(|width| width + 2).sum()
    }

    /// The rows as text, with a faint heading.
    pub(super) fn text(&self, colours: bool) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::from(" ");
            for (column, cell) in row.iter().enumerate() {
                let space =
                    widths.get(column).copied().unwrap_or(0).saturating_sub(cell.chars().count());
                let is_right = self.right.get(column).copied().unwrap_or(false);
                let (before, after) = if is_right { (space, 0) } else { (0, space) };

                line.push_str(&format!(" {:before$}{cell}{:after$} ", "", ""));
            }

            let line = line.trim_end();
            text.push_str(&if number == 0 {
                paint(line, Ink::Faint, colours)
            } else {
                line.to_owned()
            });
            text.push('\n');
        }

        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }

        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_at_words_and_long_words_get_their_own_line() {
        assert_eq!(wrap("one two three four five", "  ", 22), "  one two three four\n  five\n");

        let long = "x".repeat(50);
        assert_eq!(wrap(&format!("a {long} b"), "", 20), format!("a\n{long}\nb\n"));
        assert_eq!(wrap("", "  ", 20), "");
    }

    #[test]
    fn terminal_control_characters_are_replaced() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{202e}d\u{9b}e"), "a\u{fffd}[2Jb c\u{fffd}d\u{fffd}e");
    }
}
