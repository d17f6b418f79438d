//! Writes a document as Markdown, for tickets and pull requests. An empty line separates blocks.

use std::fmt::Write as _;

use super::document::{Block, Cell, Content, Document, FindingItem, Item, List, More, Table};
use super::layout::plain;

// `write!` to a string cannot fail, so this file drops its result.

pub(super) fn write(document: &Document) -> String {
    let headline = &document.headline;
    let (word, sentence) = (text(&headline.word), text(&headline.sentence));
    let mut out = format!("## {}: {word}\n\n{sentence}.\n", headline.command);

    for fact in &headline.facts {
        let _ = write!(out, "\n{}\n", text(fact));
    }

    for block in &document.blocks {
        out.push('\n');
        write_block(&mut out, block);
    }

    out
}

fn write_block(out: &mut String, block: &Block) {
    let _ = match block {
        Block::Title(title) => writeln!(out, "### {title}"),
        Block::FindingTitle { severity, name } => {
            writeln!(out, "### {}: {name}", severity.as_str())
        }
        Block::Paragraph(prose) => writeln!(out, "{prose}"),
        Block::Note(note) => writeln!(out, "{}", text(note)),
        Block::Command(command) => write!(out, "{}", fenced(command, "")),
        Block::Findings { items, more } => {
            items.iter().for_each(|item| write_finding(out, item));
            write_more(out, "- ", *more);
            Ok(())
        }
        Block::List(list) => {
            write_list(out, list);
            Ok(())
        }
        Block::Tree(lines) => lines.iter().try_for_each(|line| {
            writeln!(out, "{}- {}", "  ".repeat(line.depth()), text(&line.label))
        }),
        Block::Table(table) => {
            write_table(out, table);
            Ok(())
        }
    };
}

fn write_finding(out: &mut String, item: &FindingItem) {
    let suspected = if item.is_suspected { ", suspected" } else { "" };
    let _ = write!(out, "- **{}**{}{suspected}", text(&item.subject), item.lasting);
    if !item.evidence.is_empty() {
        let _ = write!(out, " – {}", text(&item.evidence));
    }

    out.push('\n');
    for (explained, _) in &item.explains {
        let _ = writeln!(out, "  - explains {}", text(explained));
    }
}

fn write_list(out: &mut String, list: &List) {
    let bullet = if list.is_numbered { "1." } else { "-" };
    for Item { text: item, commands } in &list.items {
        let _ = writeln!(out, "{bullet} {}", text(item));
        for command in commands {
            out.push_str(&fenced(command, "   "));
        }
    }

    write_more(out, "- ", list.more);
}

fn write_table(out: &mut String, table: &Table) {
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title).collect();
    let rules = table.columns.iter().map(|column| match column.content {
        Content::Number => "---:|",
        Content::Text | Content::Age => "---|",
    });
    let _ = writeln!(out, "| {} |\n|{}", titles.join(" | "), rules.collect::<String>());

    for row in &table.rows {
        out.push('|');
        for cell in &row.cells {
            let _ = match cell {
                Cell::Text(cell) => write!(out, " {} |", text(cell)),
                Cell::Count(count) => write!(out, " {count} |"),
            };
        }

        out.push('\n');
    }

    write_more(out, "\n", table.more);
}

fn write_more(out: &mut String, before: &str, more: More) {
    if more.count > 0 {
        let _ = writeln!(out, "{before}… and {} more", more.count);
    }
}

/// A command between fences that are longer than any run of backticks in it.
fn fenced(command: &str, indent: &str) -> String {
    let command = plain(command).replace("````", "` ` ` `");
    format!("{indent}````sh\n{indent}{command}\n{indent}````\n")
}

/// Escapes text, so that it contains no markup, links, mentions or HTML.
fn text(raw: &str) -> String {
    let mut safe = String::new();
    for character in plain(raw).chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"), // a mention would notify people
            '\\' | '`' | '*' | '[' | ']' | '|' | '#' | '!' | '~' => {
                safe.push('\\');
                safe.push(character);
            }
            '_' if safe.ends_with(|before: char| !before.is_alphanumeric()) => safe.push_str("\\_"),
            other => safe.push(other),
        }
    }

    safe
}
