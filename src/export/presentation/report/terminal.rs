//! The report for people at a terminal.

use std::fmt::Write as _;

use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::snapshot::{KindSummary, ObjectRow, ObjectState, Snapshot};

use super::layout::{Ink, Table, paint, plain, wrap, wrap_item};
use super::{
    SHOWN, Style, evidence_in_words, headline, lasting, object_name, omitted_kinds, shown_kinds,
    states_in_use, without_finding,
};
use crate::export::view::{
    BlindSpot, FindingGroup, Findings, kind_name, overall_health, reason_in_words,
};

// `write!` into a string does not fail, so its result is dropped throughout.

pub(super) fn write(
    snapshot: &Snapshot,
    rows: Option<&[ObjectRow]>,
    blind_spots: &[BlindSpot],
    style: Style,
) -> String {
    let mut out = String::new();
    let word = overall_health(snapshot);
    let ink = match word {
        "failing" => Ink::Critical,
        "degraded" => Ink::Warning,
        "healthy" => Ink::Good,
        _ => Ink::Strong,
    };

    let indent = " ".repeat(word.len() + 2);
    let first = format!("{}  ", paint(&word.to_uppercase(), ink, style.colours));
    out.push_str(&wrap_item(&headline(snapshot), &first, &indent, style.width));

    let found = Findings::of(snapshot);
    for group in found.groups() {
        findings(&mut out, snapshot, &group, &found, style);
    }

    kinds(&mut out, snapshot, rows.is_some(), style);
    match rows {
        Some(rows) => objects(&mut out, snapshot, "All objects", rows.iter(), rows.len(), style),
        None => {
            let others = without_finding(snapshot);
            let count = others.len();
            objects(
                &mut out,
                snapshot,
                "Failed or overdue without a finding",
                others.into_iter().take(2 * SHOWN),
                count,
                style,
            );
        }
    }

    not_visible(&mut out, blind_spots, style);
    out
}

fn findings(
    out: &mut String,
    snapshot: &Snapshot,
    group: &FindingGroup<'_>,
    found: &Findings<'_>,
    style: Style,
) {
    let info = group.code.info();
    let ink = match group.severity {
        Severity::Critical => Ink::Critical,
        Severity::Warning => Ink::Warning,
        Severity::Info => Ink::Note,
    };
    let severity = paint(&group.severity.as_str().to_uppercase(), ink, style.colours);
    let name = paint(info.name, Ink::Strong, style.colours);

    let _ = writeln!(out, "\n{severity}  {name}");
    out.push_str(&wrap(info.meaning, "  ", style.width));
    for finding in group.findings.iter().take(SHOWN) {
        let lasting = lasting(snapshot, finding);
        let gap = if lasting.is_empty() { "" } else { " " };
        let subject = paint(&plain(&finding.subject.to_string()), Ink::Strong, style.colours);
        let suspected =
            if finding.confidence == Confidence::Suspected { ", suspected" } else { "" };
        let _ = writeln!(out, "  - {subject}{gap}{lasting}{suspected}");

        out.push_str(&wrap(&evidence_in_words(finding), "      ", style.width));
        let because = found.explained_by(finding);
        for other in because.iter().take(SHOWN) {
            let line = format!(
                "explains {} of {},{}",
                other.info().name,
                other.subject,
                super::lasting(snapshot, other)
            );

            let line = line.trim_end_matches(',');
            out.push_str(&wrap(line, "      ", style.width));
        }

        if because.len() > SHOWN {
            let _ = writeln!(out, "      explains {} more", because.len() - SHOWN);
        }
    }

    if group.findings.len() > SHOWN {
        let _ = writeln!(out, "  … and {} more; -o json lists them", group.findings.len() - SHOWN);
    }

    out.push_str(&wrap(info.advice, "  ", style.width));
    if let Some(first) = group.findings.first() {
        // The command is never wrapped, because people copy it.
        let _ = writeln!(out, "  $ {}", plain(&first.command()));
    }
}

fn kinds(out: &mut String, snapshot: &Snapshot, all: bool, style: Style) {
    if snapshot.kinds.is_empty() {
        return;
    }

    title(out, "Kinds", style);
    let kinds = shown_kinds(snapshot, all);
    if !kinds.is_empty() {
        kind_table(out, &kinds, &states_in_use(snapshot), style);
    }

    if let Some(omitted) = omitted_kinds(snapshot, all, style) {
        let _ = writeln!(out, "  {omitted}");
    }
}

fn kind_table(out: &mut String, kinds: &[&KindSummary], states: &[ObjectState], style: Style) {
    let mut heading = vec!["KIND".to_owned(), "OBJECTS".to_owned()];
    heading.extend(states.iter().map(|state| state.as_str().to_uppercase()));
    heading.push("DEADLINE".to_owned());

    let mut table = Table::new(heading, 1..states.len() + 2);
    for kind in kinds {
        let counts = kind.states();
        let mut cells =
            vec![kind_name(&kind.group, &kind.kind), counts.iter().sum::<u64>().to_string()];
        cells.extend(states.iter().map(|state| match counts[*state as usize] {
            0 => "·".to_owned(),
            count => count.to_string(),
        }));
        cells.push(format!("{} ({})", kind.deadline, kind.deadline_source.as_str()));
        table.row(cells);
    }

    if table.width() <= style.width {
        out.push_str(&table.text(style.colours));
        return;
    }

    // The table is too wide for the terminal, so each kind becomes a list item.
    for kind in kinds {
        let counts = kind.states();
        let used = states.iter().filter(|state| counts[**state as usize] > 0);
        let words: Vec<_> =
            used.map(|state| format!("{} {}", counts[*state as usize], state.as_str())).collect();
        let (name, deadline) = (kind_name(&kind.group, &kind.kind), kind.deadline);
        let words = if words.is_empty() { "no objects".to_owned() } else { words.join(", ") };

        out.push_str(&wrap_item(
            &format!("{name}: {words}; deadline {deadline}"),
            "  - ",
            "    ",
            style.width,
        ));
    }
}

fn objects<'a>(
    out: &mut String,
    snapshot: &Snapshot,
    name: &str,
    rows: impl Iterator<Item = &'a ObjectRow>,
    count: usize,
    style: Style,
) {
    if count == 0 {
        return;
    }

    let heading = ["STATE", "FOR", "KIND", "OBJECT", "REASON"].map(str::to_owned).to_vec();
    let mut table = Table::new(heading, 1..2);
    let mut shown = 0;

    for row in rows {
        table.row(vec![
            row.state.as_str().to_owned(),
            snapshot.at.since(row.since).to_string(),
            kind_name(&row.group, &row.kind),
            object_name(row),
            reason_in_words(&row.signal, row.reason).to_owned(),
        ]);
        shown += 1;
    }

    title(out, name, style);
    out.push_str(&table.text(style.colours));
    if count > shown {
        let hint = if style.offers_all { "; --all lists them" } else { "" };
        let _ = writeln!(out, "  … and {} more{hint}", count - shown);
    }
}

fn not_visible(out: &mut String, spots: &[BlindSpot], style: Style) {
    if spots.is_empty() {
        return;
    }

    title(out, "Not visible to loopwatch", style);
    for spot in spots.iter().take(4 * SHOWN) {
        out.push_str(&wrap_item(
            &format!("{}: {}", spot.what, spot.why),
            "  - ",
            "    ",
            style.width,
        ));
    }

    if spots.len() > 4 * SHOWN {
        let _ = writeln!(out, "  … and {} more; -o json lists them", spots.len() - 4 * SHOWN);
    }
}

fn title(out: &mut String, text: &str, style: Style) {
    let _ = writeln!(out, "\n{}", paint(text, Ink::Strong, style.colours));
}
