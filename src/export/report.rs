//! The report of `check` and `replay`: what is wrong, in one screen, and what to do next.

mod layout; // columns, wrapped lines, colours
mod markdown; // for tickets and pull requests
mod terminal; // for people

use std::io::IsTerminal as _;

use loopwatch_model::finding::{Finding, Severity};
use loopwatch_model::snapshot::{ObjectRow, ObjectState, Snapshot};

use super::{json, summary};

/// What the report is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for a terminal.
    Table,
    /// The versioned JSON.
    Json,
    /// Markdown, to paste.
    Markdown,
}

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether it is Markdown.
    pub markdown: bool,
    /// Whether it may use colours.
    pub colours: bool,
    /// Columns.
    pub width: usize,
}

/// Columns where nothing says how many there are: what people read with ease.
const USUAL_WIDTH: usize = 110;

/// Findings of one code that are shown; the rest is a number.
const SHOWN: usize = 8;

/// The style for standard output: colours only on a terminal, and not when `NO_COLOR` is set.
#[must_use]
pub fn style(format: OutputFormat) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    let width = terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| usize::from(width.0));
    Style {
        markdown: format == OutputFormat::Markdown,
        colours: terminal && !unwanted && !dumb,
        width: width.unwrap_or(USUAL_WIDTH).clamp(40, 160),
    }
}

/// The report as text. `rows` are all objects, with `--all`.
#[must_use]
pub fn text(snapshot: &Snapshot, rows: Option<&[ObjectRow]>, style: Style) -> String {
    if style.markdown { markdown::write(snapshot, rows) } else { terminal::write(snapshot, rows, style) }
}

/// The report as JSON, on one line. `rows` are all objects, with `--all`.
#[must_use]
pub fn json(snapshot: &Snapshot, rows: Option<&[ObjectRow]>) -> String {
    let shape = json::check(snapshot, rows);
    let mut text = serde_json::to_string(&shape).unwrap_or_default(); // plain data has no way to fail
    text.push('\n');
    text
}

/// Everything in one sentence.
fn headline(snapshot: &Snapshot) -> String {
    let findings = summary::Findings::of(snapshot);
    let states = summary::states(snapshot);
    let total: u64 = states.iter().sum();
    let fine = states[ObjectState::Converged as usize] + states[ObjectState::Finished as usize];
    let counts: Vec<_> = [(Severity::Critical, "critical"), (Severity::Warning, "warning"), (Severity::Info, "note")]
        .into_iter()
        .filter_map(|(severity, word)| match findings.count(severity) {
            0 => None,
            1 => Some(format!("1 {word}")),
            many if severity == Severity::Critical => Some(format!("{many} {word}")),
            many => Some(format!("{many} {word}s")),
        })
        .collect();
    let found = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    match total {
        0 => found,
        _ => format!("{found}; {fine} of {total} objects are where their specs want them"),
    }
}

/// `Widget.example.io`, or `Pod` for the core group.
fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// `team-a/web`, or `web` for what is cluster-scoped.
fn object_name(row: &ObjectRow) -> String {
    if row.namespace.is_empty() { row.name.clone() } else { format!("{}/{}", row.namespace, row.name) }
}

/// `actor db-operator, threshold 15m`.
fn evidence(finding: &Finding) -> String {
    let parts: Vec<_> = summary::evidence(finding).map(|(key, value)| format!("{key} {value}")).collect();
    parts.join(", ")
}

/// States that any kind has objects in: the columns of the table.
fn states_in_use(snapshot: &Snapshot) -> Vec<ObjectState> {
    let used = |state: &ObjectState| snapshot.kinds.iter().any(|kind| kind.states()[*state as usize] > 0);
    ObjectState::ALL.iter().copied().filter(used).collect()
}

/// Objects that are past their deadline or failed, unless a finding has said so above.
fn unsaid(snapshot: &Snapshot) -> Vec<&ObjectRow> {
    use loopwatch_model::finding::Subject;

    let said = |row: &ObjectRow| {
        snapshot.findings.iter().any(|finding| match &finding.subject {
            Subject::Object { group, kind, namespace, name } => {
                (group, kind, namespace, name) == (&row.group, &row.kind, &row.namespace, &row.name)
            }
            _ => false,
        })
    };
    let bad = |row: &&ObjectRow| matches!(row.state, ObjectState::Overdue | ObjectState::Failed);
    snapshot.unhealthy.iter().filter(bad).filter(|row| !said(row)).collect()
}

#[cfg(test)]
mod tests;
