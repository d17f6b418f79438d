//! The report of `check` and `replay`: the findings, on one screen, with the next command to run.

mod branches; // lines of a tree
pub(crate) mod explain; // the report of `explain`
pub(crate) mod forecast; // the report of `what-if`
mod layout; // columns, wrapped lines, colours
mod markdown; // for tickets and pull requests
mod terminal; // for people

use std::io::IsTerminal as _;

use loopwatch_model::finding::{Finding, FindingEvent, Severity};
use loopwatch_model::snapshot::{KindSummary, ObjectRow, ObjectState, Snapshot};

use super::json;
use crate::export::view::{Findings, Input, evidence, finding_age, objects_in_words};

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

/// The layout of a text report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether to write Markdown instead of text for a terminal.
    pub markdown: bool,
    /// Whether to use colours.
    pub colours: bool,
    /// Width of the terminal in columns.
    pub width: usize,
    /// Whether the command has a flag `--all` that the report may recommend.
    pub offers_all: bool,
}

/// Width in columns without a terminal: a line length that is easy to read.
const USUAL_WIDTH: usize = 110;

/// Maximum number of findings that the report lists per code. It gives the number of the others.
const SHOWN: usize = 8;

/// The style for standard output: colours only on a terminal, and not if `NO_COLOR` is set.
#[must_use]
pub(crate) fn style(format: OutputFormat) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let width =
        terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| usize::from(width.0));

    Style {
        markdown: format == OutputFormat::Markdown,
        colours: terminal && !unwanted && !dumb,
        width: width.unwrap_or(USUAL_WIDTH).clamp(40, 160),
        offers_all: false,
    }
}

/// The report as text. `rows` holds all objects if the user gave `--all`.
#[must_use]
pub(crate) fn text(
    snapshot: &Snapshot,
    rows: Option<&[ObjectRow]>,
    input: &Input,
    style: Style,
) -> String {
    let blind_spots = input.all_blind_spots(snapshot);
    let write = if style.markdown { markdown::write } else { terminal::write };
    write(snapshot, rows, &blind_spots, style)
}

/// The report as JSON, on one line. `rows` holds all objects if the user gave `--all`, and
/// `timeline` the finding events of a replay.
#[must_use]
pub(crate) fn json(
    snapshot: &Snapshot,
    rows: Option<&[ObjectRow]>,
    input: &Input,
    timeline: Option<&[FindingEvent]>,
) -> String {
    let shape = json::check(snapshot, rows, input, timeline);
    let mut text = serde_json::to_string(&shape).unwrap_or_default(); // plain data cannot fail
    text.push('\n');
    text
}

/// The number of findings by severity, and of objects by state.
fn headline(snapshot: &Snapshot) -> String {
    let findings = Findings::of(snapshot);
    let words = [
        (Severity::Critical, "critical finding"),
        (Severity::Warning, "warning"),
        (Severity::Info, "info finding"),
    ];
    let counts: Vec<_> = words
        .into_iter()
        .filter_map(|(severity, word)| match findings.count(severity) {
            0 => None,
            1 => Some(format!("1 {word}")),
            many => Some(format!("{many} {word}s")),
        })
        .collect();

    let found = if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") };
    match objects_in_words(snapshot) {
        None => found,
        Some(objects) => format!("{found}; {objects}"),
    }
}

/// ` for 3d4h`, or nothing if the age is unknown.
fn lasting(snapshot: &Snapshot, finding: &Finding) -> String {
    finding_age(snapshot, finding).map(|age| format!(" for {age}")).unwrap_or_default()
}

/// The kinds that the table shows: all with `--all`, otherwise those that have objects.
fn shown_kinds(snapshot: &Snapshot, all: bool) -> Vec<&KindSummary> {
    snapshot.kinds.iter().filter(|kind| all || !is_empty(kind)).collect()
}

/// The number of kinds that the table leaves out because they have no objects. Kinds that loopwatch
/// cannot see do not count: the report lists them as not visible.
fn omitted_kinds(snapshot: &Snapshot, all: bool, style: Style) -> Option<String> {
    let seen = |kind: &&KindSummary| kind.watches.iter().any(|watch| watch.synced);
    let count = snapshot.kinds.iter().filter(|kind| !all && is_empty(kind)).filter(seen).count();
    let hint = if style.offers_all { "; show them with --all" } else { "" };

    match count {
        0 => None,
        1 => Some(format!("1 kind without objects{}", hint.replace("them", "it"))),
        many => Some(format!("{many} kinds without objects{hint}")),
    }
}

fn is_empty(kind: &KindSummary) -> bool {
    kind.states().iter().all(|count| *count == 0)
}

/// `team-a/web`, or `web` for a cluster-scoped object.
fn object_name(row: &ObjectRow) -> String {
    if row.namespace.is_empty() {
        row.name.clone()
    } else {
        format!("{}/{}", row.namespace, row.name)
    }
}

/// `actor db-operator, threshold 15m`.
fn evidence_in_words(finding: &Finding) -> String {
    let parts: Vec<_> = evidence(finding).map(|(key, value)| format!("{key} {value}")).collect();
    parts.join(", ")
}

/// The states that at least one object is in: the columns of the table.
fn states_in_use(snapshot: &Snapshot) -> Vec<ObjectState> {
    let used =
        |state: &ObjectState| snapshot.kinds.iter().any(|kind| kind.states()[*state as usize] > 0);
    ObjectState::ALL.iter().copied().filter(used).collect()
}

/// Objects that are overdue or failed and have no finding of their own.
fn without_finding(snapshot: &Snapshot) -> Vec<&ObjectRow> {
    use loopwatch_model::finding::Subject;

    let has_finding = |row: &ObjectRow| {
        snapshot.findings.iter().any(|finding| match &finding.subject {
            Subject::Object { group, kind, namespace, name } => {
                (group, kind, namespace, name) == (&row.group, &row.kind, &row.namespace, &row.name)
            }
            _ => false,
        })
    };

    let bad = |row: &&ObjectRow| matches!(row.state, ObjectState::Overdue | ObjectState::Failed);
    snapshot.unhealthy.iter().filter(bad).filter(|row| !has_finding(row)).collect()
}

#[cfg(test)]
mod tests;
