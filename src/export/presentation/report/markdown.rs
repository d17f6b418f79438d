//! The report as Markdown, for tickets and pull requests.

use std::fmt::Write as _;

use loopwatch_model::finding::Confidence;
use loopwatch_model::snapshot::{KindSummary, ObjectRow, ObjectState, Snapshot};

use super::layout::plain;
use super::{
    SHOWN, Style, evidence_in_words, headline, lasting, object_name, omitted_kinds, shown_kinds,
    states_in_use, without_finding,
};
use crate::export::view::{BlindSpot, Findings, kind_name, overall_health, reason_in_words};

// `write!` into a string does not fail, so its result is dropped throughout.

pub(super) fn write(
    snapshot: &Snapshot,
    rows: Option<&[ObjectRow]>,
    blind_spots: &[BlindSpot],
    style: Style,
) -> String {
    let mut out =
        format!("## loopwatch: {}\n\n{}.\n", overall_health(snapshot), headline(snapshot));
    findings(&mut out, snapshot);
    kinds(&mut out, snapshot, rows.is_some(), style);

    match rows {
        Some(rows) => {
            objects(&mut out, snapshot, "All objects", &rows.iter().collect::<Vec<_>>(), usize::MAX)
        }
        None => objects(
            &mut out,
            snapshot,
            "Failed or overdue without a finding",
            &without_finding(snapshot),
            2 * SHOWN,
        ),
    }

    if !blind_spots.is_empty() {
        out.push_str("\n### Not visible to loopwatch\n\n");
        for spot in blind_spots {
            let _ = writeln!(out, "- {}: {}", text(&spot.what), text(&spot.why));
        }
    }

    out
}

fn findings(out: &mut String, snapshot: &Snapshot) {
    let found = Findings::of(snapshot);
    for group in found.groups() {
        let info = group.code.info();
        let _ =
            write!(out, "\n### {}: {}\n\n{}\n\n", group.severity.as_str(), info.name, info.meaning);
        for finding in group.findings.iter().take(SHOWN) {
            let suspected =
                if finding.confidence == Confidence::Suspected { ", suspected" } else { "" };
            let (subject, lasting) =
                (text(&finding.subject.to_string()), lasting(snapshot, finding));
            let _ = write!(out, "- **{subject}**{lasting}{suspected}");
            let evidence = evidence_in_words(finding);
            let _ = if evidence.is_empty() {
                writeln!(out)
            } else {
                writeln!(out, " – {}", text(&evidence))
            };

            for other in found.explained_by(finding).iter().take(SHOWN) {
                let _ = writeln!(
                    out,
                    "  - explains {} of {}",
                    other.info().name,
                    text(&other.subject.to_string())
                );
            }
        }

        if group.findings.len() > SHOWN {
            let _ = writeln!(out, "- … and {} more", group.findings.len() - SHOWN);
        }

        let _ = writeln!(out, "\n{}", info.advice);
        if let Some(first) = group.findings.first() {
            // A longer fence than any run of backticks inside.
            let command = plain(&first.command());
            let _ = writeln!(out, "\n````sh\n{}\n````", command.replace("````", "` ` ` `"));
        }
    }
}

fn kinds(out: &mut String, snapshot: &Snapshot, all: bool, style: Style) {
    if snapshot.kinds.is_empty() {
        return;
    }

    out.push_str("\n### Kinds\n");
    let kinds = shown_kinds(snapshot, all);
    if !kinds.is_empty() {
        kind_table(out, &kinds, &states_in_use(snapshot));
    }

    if let Some(omitted) = omitted_kinds(snapshot, all, style) {
        let _ = writeln!(out, "\n{omitted}");
    }
}

fn kind_table(out: &mut String, kinds: &[&KindSummary], states: &[ObjectState]) {
    out.push_str("\n| Kind | Objects |");
    for state in states {
        let _ = write!(out, " {} |", state.as_str());
    }

    out.push_str(" Deadline |\n|---|---:|");
    out.push_str(&"---:|".repeat(states.len()));
    out.push_str("---|\n");

    for kind in kinds {
        let counts = kind.states();
        let _ = write!(
            out,
            "| {} | {} |",
            text(&kind_name(&kind.group, &kind.kind)),
            counts.iter().sum::<u64>()
        );

        for state in states {
            let _ = write!(out, " {} |", counts[*state as usize]);
        }

        let _ = writeln!(out, " {} ({}) |", kind.deadline, kind.deadline_source.as_str());
    }
}

fn objects(out: &mut String, snapshot: &Snapshot, title: &str, rows: &[&ObjectRow], shown: usize) {
    if rows.is_empty() {
        return;
    }

    let _ = write!(
        out,
        "\n### {title}\n\n| State | For | Kind | Object | Reason |\n|---|---|---|---|---|\n"
    );
    for row in rows.iter().take(shown) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            row.state.as_str(),
            snapshot.at.since(row.since),
            text(&kind_name(&row.group, &row.kind)),
            text(&object_name(row)),
            text(reason_in_words(&row.signal, row.reason)),
        );
    }

    if rows.len() > shown {
        let _ = writeln!(out, "\n… and {} more", rows.len() - shown);
    }
}

/// Escapes text, so that it contains no markup, links, mentions or HTML.
pub(super) fn text(raw: &str) -> String {
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
