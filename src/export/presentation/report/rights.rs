//! The report of `rights`: the permissions of the operator's account, by what loopwatch knows about
//! their use.

use std::collections::BTreeMap;

use loopwatch_model::observation::Permission;
use loopwatch_model::snapshot::{Right, RightUse, Rights};

use super::document::{
    Block, Cell, Column, Content, Document, Headline, Ink, More, Table, TableRow,
};
use super::style::Style;
use super::writer;

/// The sections, in their order: the first ones ask for a change of the role.
const SECTIONS: [(RightUse, &str, &str); 4] = [
    (
        RightUse::Wildcard,
        "Wildcards",
        "They include permissions that nobody has thought of. Name what the operator needs instead; the table shows what it has been seen to use.",
    ),
    (
        RightUse::NotSeen,
        "Not seen in use",
        "loopwatch watches these objects and knows no such write of the operator. A rare task may still need the permission.",
    ),
    (RightUse::Used, "In use", "A write that is no apply counts as update and as patch."),
    (
        RightUse::NotVisible,
        "Not visible",
        "Nothing shows a read, a deletion, or a write of objects that loopwatch does not watch. The audit log of the API server does.",
    ),
];

/// The verbs on one resource in one namespace.
type ByResource<'a> = BTreeMap<(&'a str, String), Vec<&'a Right>>;

/// Writes the report as text or Markdown.
pub(crate) fn rights_report(rights: &Rights, style: Style) -> String {
    let mut document = Document::new(headline(rights));
    for (r#use, title, lead) in SECTIONS {
        let rows = by_resource(rights, r#use);
        if !rows.is_empty() {
            document.add(Block::Title(title));
            document.add(Block::Paragraph(lead));
            document.add(Block::Table(table(&rows, r#use)));
        }
    }

    writer::write(&document, style)
}

fn headline(rights: &Rights) -> Headline {
    let count = |r#use| rights.granted.iter().filter(|right| right.r#use == r#use).count();
    let (wildcards, not_seen) = (count(RightUse::Wildcard), count(RightUse::NotSeen));
    let (word, ink) = match (wildcards, not_seen) {
        _ if rights.granted.is_empty() => ("unknown", Ink::Faint),
        (1.., _) => ("broad", Ink::Warning),
        (0, 1..) => ("reducible", Ink::Note),
        (0, 0) => ("narrow", Ink::Good),
    };

    Headline {
        command: "loopwatch rights",
        word: word.to_owned(),
        ink,
        sentence: format!(
            "{} permissions: {} in use, {not_seen} not seen in use, {wildcards} with wildcards, {} not visible",
            rights.granted.len(),
            count(RightUse::Used),
            count(RightUse::NotVisible),
        ),
        facts: facts(rights),
    }
}

/// What limits the answer.
fn facts(rights: &Rights) -> Vec<String> {
    let until = rights.until;
    let mut facts = vec![match rights.from {
        Some(from) => {
            format!("Writes between {from} and {until}, as the managed fields of objects show them")
        }
        None => format!("No write of the operator is known until {until}"),
    }];

    if rights.granted.is_empty() {
        facts.push("No review has listed the permissions of the account".to_owned());
    }
    if !rights.managers.is_empty() {
        facts.push(format!("The operator writes as {}", rights.managers.join(", ")));
    }
    if rights.is_incomplete {
        facts.push(
            "The API server cannot list all rules, so there may be further permissions".to_owned(),
        );
    }
    if rights.left_out > 0 {
        facts.push(format!("{} further permissions are left out", rights.left_out));
    }
    facts
}

fn by_resource(rights: &Rights, r#use: RightUse) -> ByResource<'_> {
    let mut rows = ByResource::new();
    for right in rights.granted.iter().filter(|right| right.r#use == r#use) {
        let resource = Permission { verb: String::new(), ..right.permission.clone() };
        let key = (right.namespace.as_str(), resource.to_string().trim().to_owned());
        rows.entry(key).or_default().push(right);
    }
    rows
}

fn table(rows: &ByResource<'_>, r#use: RightUse) -> Table {
    let text = |title| Column { title, content: Content::Text };
    let last = match r#use {
        RightUse::Wildcard => Some("Seen in use"),
        RightUse::Used => Some("Last"),
        RightUse::NotSeen | RightUse::NotVisible => None,
    };

    let row = |((namespace, resource), rights): (&(&str, String), &Vec<&Right>)| {
        let verbs: Vec<&str> = rights.iter().map(|right| right.permission.verb.as_str()).collect();
        let scope = if namespace.is_empty() { "all namespaces" } else { namespace };
        let mut cells = vec![resource.clone(), verbs.join(", "), scope.to_owned()];
        cells.extend(last.map(|_| detail(rights, r#use)));
        let in_words = cells.iter().filter(|cell| !cell.is_empty()).cloned().collect::<Vec<_>>();
        TableRow {
            in_words: Some(in_words.join("; ")),
            cells: cells.into_iter().map(Cell::Text).collect(),
        }
    };

    Table {
        columns: ["Resource", "Verbs", "Where"].into_iter().chain(last).map(text).collect(),
        rows: rows.iter().map(row).collect(),
        more: More::default(),
    }
}

/// The last column: the permissions below a wildcard, or the last use.
fn detail(rights: &[&Right], r#use: RightUse) -> String {
    if r#use == RightUse::Used {
        let last = rights.iter().filter_map(|right| right.last).max();
        return last.map(|last| last.to_string()).unwrap_or_default();
    }

    let mut seen: Vec<String> =
        rights.iter().flat_map(|right| &right.seen).map(ToString::to_string).collect();
    seen.sort();
    seen.dedup();
    if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::time::Timestamp;

    use super::*;
    use crate::export::presentation::report::OutputFormat;

    fn right(verb: &str, resource: &str, r#use: RightUse) -> Right {
        let permission = Permission {
            verb: verb.to_owned(),
            group: "example.io".to_owned(),
            resource: resource.to_owned(),
        };
        let seen = match r#use {
            RightUse::Wildcard => vec![right("patch", "widgets", RightUse::Used).permission],
            _ => Vec::new(),
        };
        let last = (r#use == RightUse::Used).then_some(Timestamp(1_767_225_600_000));
        Right { namespace: String::new(), permission, r#use, last, seen }
    }

    #[test]
    fn the_report_says_what_to_reduce_first_and_what_it_cannot_see() {
        let rights = Rights {
            from: Some(Timestamp(1_767_225_600_000)),
            until: Timestamp(1_767_312_000_000),
            managers: vec!["widget-operator".to_owned()],
            granted: vec![
                right("update", "widgets/status", RightUse::Used),
                right("patch", "widgets/status", RightUse::Used),
                right("create", "widgets", RightUse::NotSeen),
                right("*", "*", RightUse::Wildcard),
                right("list", "widgets", RightUse::NotVisible),
            ],
            ..Rights::default()
        };

        let text = rights_report(&rights, Style::of_stdout(OutputFormat::Markdown));
        for part in [
            "broad",
            "5 permissions: 2 in use, 1 not seen in use, 1 with wildcards, 1 not visible",
            "widgets.example.io/status",
            "update, patch",
            "patch widgets.example.io",
            "Writes between 2026-01-01",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }

        let unknown = rights_report(&Rights::default(), Style::of_stdout(OutputFormat::Markdown));
        assert!(unknown.contains("unknown") && !unknown.contains("narrow"), "{unknown}");

        let order = ["Wildcards", "Not seen in use", "In use", "Not visible"]
            .map(|title| text.find(&format!("{title}\n")));
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{text}");
    }
}
