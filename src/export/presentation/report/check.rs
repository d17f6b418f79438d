//! The report of `check` and `replay`.

use loopwatch_model::finding::{Confidence, Finding, FindingEvent, Severity, Step};
use loopwatch_model::snapshot::{Health, KindSummary, ObjectRow, ObjectState, Snapshot};

use super::document::{
    Block, Cell, Column, Content, Document, FindingItem, Headline, IN_JSON, Ink, Item, List, More,
    SHOWN, Table, TableRow,
};
use super::style::Style;
use super::writer;
use crate::export::presentation::json;
use crate::export::view::{
    BlindSpot, FindingGroup, Findings, FindingsByObject, Input, ObjectName, OverallHealth,
    SHORTEST_AGE, evidence, exceptions_in_words, finding_age, kind_name, objects_in_words,
    reason_in_words, runbook_command, step_in_words, utc,
};

/// The input of the report.
#[derive(Clone, Copy)]
pub(crate) struct CheckReport<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// All objects, if the user set `--all`.
    pub(crate) rows: Option<&'a [ObjectRow]>,
    pub(crate) input: &'a Input,
    /// The finding events of a replay.
    pub(crate) timeline: Option<&'a [FindingEvent]>,
    /// Whether the command has a flag `--all` that the report may recommend.
    pub(crate) offers_all: bool,
}

impl CheckReport<'_> {
    /// The report as JSON, on one line.
    #[must_use]
    pub(crate) fn json(&self) -> String {
        let shape = json::check(self.snapshot, self.rows, self.input, self.timeline);
        let mut text = serde_json::to_string(&shape).unwrap_or_default(); // plain data cannot fail
        text.push('\n');
        text
    }

    /// The report as text or Markdown.
    #[must_use]
    pub(crate) fn text(&self, style: Style) -> String {
        writer::write(&self.document(), style)
    }

    fn document(&self) -> Document {
        let mut document = Document::new(self.headline());
        let findings = Findings::of(self.snapshot);
        for group in findings.groups() {
            self.add_findings(&mut document, &group, &findings);
        }

        self.add_kinds(&mut document);
        match self.rows {
            Some(rows) => {
                self.add_objects(
                    &mut document,
                    "All objects",
                    &rows.iter().collect::<Vec<_>>(),
                    usize::MAX,
                );
            }
            None => {
                let rows = without_finding(self.snapshot);
                let title = "Failed or overdue without a finding";
                self.add_objects(&mut document, title, &rows, 2 * SHOWN);
                if !rows.is_empty() {
                    document.add(Block::Paragraph(WHY_NO_FINDING));
                }
            }
        }

        let spots = self.input.all_blind_spots(self.snapshot);
        let items = spots.into_iter().map(|BlindSpot { what, why }| format!("{what}: {why}"));
        let more = More { count: 0, hint: IN_JSON };
        let list = List { screenful: Some(4 * SHOWN), more, ..List::of(items) };
        document.add_list("Not visible to loopwatch", list);
        document
    }

    fn headline(&self) -> Headline {
        let health = OverallHealth::of(self.snapshot, self.input);
        let exceptions = exceptions_in_words(self.snapshot, health);
        let ink = match health {
            _ if exceptions.is_some() => Ink::Warning,
            OverallHealth::Known(Health::Failing) => Ink::Critical,
            OverallHealth::Known(Health::Degraded) => Ink::Warning,
            OverallHealth::Known(Health::Healthy) => Ink::Good,
            OverallHealth::Unknown(_) => Ink::Strong,
        };

        Headline {
            command: "loopwatch",
            word: health.as_str().to_owned(),
            ink,
            sentence: match (exceptions, health) {
                (Some(exceptions), _) => {
                    format!("except for {exceptions}; {}", counts(self.snapshot))
                }
                (None, OverallHealth::Unknown(doubt)) => {
                    format!("because {}; {}", doubt.in_words(), counts(self.snapshot))
                }
                (None, OverallHealth::Known(_)) => counts(self.snapshot),
            },
            facts: Vec::new(),
        }
    }

    fn add_findings(&self, document: &mut Document, group: &FindingGroup<'_>, all: &Findings<'_>) {
        let info = group.code.info();
        document.add(Block::FindingTitle { severity: group.severity, name: info.name });
        document.add(Block::Paragraph(info.meaning));

        let shown = group.findings.iter().take(SHOWN);
        let items = shown.map(|finding| self.finding_item(finding, all.explained_by(finding)));
        document.add(Block::Findings {
            items: items.collect(),
            more: More::beyond(SHOWN, group.findings.len(), IN_JSON),
        });

        document.add(Block::Paragraph(info.advice));
        document.blocks.extend(group.findings.first().map(|first| Block::Command(first.command())));
        document.add(Block::Command(runbook_command(info.name)));
        add_steps(document, &group.findings);
    }

    fn finding_item(&self, finding: &Finding, explains: &[&Finding]) -> FindingItem {
        let lasting = |finding: &Finding| {
            let age = finding_age(self.snapshot, finding);
            age.map(|age| format!(" for {age}")).unwrap_or_default()
        };
        let since = |finding: &Finding| {
            finding_age(self.snapshot, finding).map(|_| format!(", since {}", utc(finding.since)))
        };
        let explained = |other: &&Finding| {
            (format!("{} of {}", other.info().name, other.subject), lasting(other))
        };
        let evidence: Vec<String> =
            evidence(finding).map(|(key, value)| format!("{key} {value}")).collect();

        FindingItem {
            subject: finding.subject.to_string(),
            lasting: lasting(finding) + &since(finding).unwrap_or_default(),
            is_suspected: finding.confidence == Confidence::Suspected,
            evidence: evidence.join(", "),
            explains: explains.iter().take(SHOWN).map(explained).collect(),
            explains_more: explains.len().saturating_sub(SHOWN),
        }
    }

    fn add_kinds(&self, document: &mut Document) {
        if self.snapshot.kinds.is_empty() {
            return;
        }

        document.add(Block::Title("Kinds"));
        let all = self.rows.is_some();
        let kinds: Vec<&KindSummary> =
            self.snapshot.kinds.iter().filter(|kind| all || !is_empty(kind)).collect();
        if !kinds.is_empty() {
            document.add(Block::Table(kind_table(&kinds, &states_in_use(self.snapshot))));
        }

        document.blocks.extend(self.omitted_kinds().map(Block::Note));
    }

    /// The number of kinds that the table omits because they have no objects. Invisible kinds do
    /// not count: the report lists them separately.
    fn omitted_kinds(&self) -> Option<String> {
        if self.rows.is_some() {
            return None;
        }

        let seen = |kind: &&KindSummary| kind.watches.iter().any(|watch| watch.synced);
        let count = self.snapshot.kinds.iter().filter(|kind| is_empty(kind)).filter(seen).count();
        let hint = if self.offers_all { "; show them with --all" } else { "" };
        match count {
            0 => None,
            1 => Some(format!("1 kind without objects{}", hint.replace("them", "it"))),
            many => Some(format!("{many} kinds without objects{hint}")),
        }
    }

    fn add_objects(
        &self,
        document: &mut Document,
        title: &'static str,
        rows: &[&ObjectRow],
        shown: usize,
    ) {
        if rows.is_empty() {
            return;
        }

        let column = |title, content| Column { title, content };
        let text = |title| column(title, Content::Text);
        let row = |row: &&ObjectRow| {
            // A report that looks once does not know when an object without times entered its state.
            let age = self.snapshot.at.since(row.since);
            let is_unknown = self.timeline.is_none() && age < SHORTEST_AGE;
            let cells = [
                row.state.as_str().to_owned(),
                if is_unknown { "unknown".to_owned() } else { age.to_string() },
                kind_name(&row.group, &row.kind),
                ObjectName::from(*row).in_namespace(),
                reason_in_words(&row.signal, row.reason).to_owned(),
            ];
            TableRow { cells: cells.map(Cell::Text).into(), in_words: None }
        };
        let hint = if self.offers_all { "; --all lists them" } else { "" };

        document.add(Block::Title(title));
        document.add(Block::Table(Table {
            columns: vec![
                text("State"),
                column("For", Content::Age),
                text("Kind"),
                text("Object"),
                text("Reason"),
            ],
            rows: rows.iter().take(shown).map(row).collect(),
            more: More::beyond(shown, rows.len(), hint),
        }));
    }
}

/// Adds the steps that end the first findings of a group, and counts the findings that have more.
fn add_steps(document: &mut Document, findings: &[&Finding]) {
    let with_steps: Vec<(&Finding, Vec<Step>)> = findings
        .iter()
        .take(SHOWN)
        .map(|finding| (*finding, finding.steps()))
        .filter(|(_, steps)| !steps.is_empty())
        .collect();
    if with_steps.is_empty() {
        return;
    }

    document.add(Block::Paragraph("Steps for a person; loopwatch runs none of them:"));
    for (finding, steps) in with_steps.iter().take(STEPS_SHOWN) {
        let item = |step: &Step| Item {
            text: format!("{}: {}", finding.subject, step_in_words(step.purpose, step.danger)),
            commands: vec![step.command.clone()],
        };
        let items = steps.iter().map(item).collect();
        document.add(Block::List(List { items, is_numbered: true, ..List::default() }));
    }

    if let Some(more) = findings.len().checked_sub(STEPS_SHOWN).filter(|more| *more > 0) {
        document.add(Block::Note(format!("and the steps for {more} more{IN_JSON}")));
    }
}

/// The number of findings of one code whose steps the report shows.
const STEPS_SHOWN: usize = 3;

/// Why objects that are not well may have no finding of their own.
const WHY_NO_FINDING: &str = "A failed object has no finding of its own unless something shows that it had converged with its \
                              current spec: otherwise its user can correct the spec. Another finding may explain an overdue object.";

/// The number of findings by severity, and of objects by state.
fn counts(snapshot: &Snapshot) -> String {
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

/// The kinds by state, with their deadlines.
fn kind_table(kinds: &[&KindSummary], states: &[ObjectState]) -> Table {
    let number = |title| Column { title, content: Content::Number };
    let text = |title| Column { title, content: Content::Text };
    let columns = [text("Kind"), number("Objects")]
        .into_iter()
        .chain(states.iter().map(|state| number(state.as_str())))
        .chain([text("Deadline")]);

    let row = |kind: &&KindSummary| {
        let counts = kind.states();
        let (name, deadline) = (kind_name(&kind.group, &kind.kind), kind.deadline);
        let in_use = states.iter().filter(|state| counts[**state as usize] > 0);
        let counted: Vec<String> =
            in_use.map(|state| format!("{} {}", counts[*state as usize], state.as_str())).collect();
        let words = if counted.is_empty() { "no objects".to_owned() } else { counted.join(", ") };
        let in_words = format!("{name}: {words}; deadline {deadline}");

        let mut cells = vec![Cell::Text(name), Cell::Text(counts.iter().sum::<u64>().to_string())];
        cells.extend(states.iter().map(|state| Cell::Count(counts[*state as usize])));
        cells.push(Cell::Text(format!("{deadline} ({})", kind.deadline_source.as_str())));
        TableRow { cells, in_words: Some(in_words) }
    };

    Table {
        columns: columns.collect(),
        rows: kinds.iter().map(row).collect(),
        more: More::default(),
    }
}

fn is_empty(kind: &KindSummary) -> bool {
    kind.states().iter().all(|count| *count == 0)
}

/// The states that at least one object is in: the columns of the table.
fn states_in_use(snapshot: &Snapshot) -> Vec<ObjectState> {
    let used =
        |state: &ObjectState| snapshot.kinds.iter().any(|kind| kind.states()[*state as usize] > 0);
    ObjectState::ALL.iter().copied().filter(used).collect()
}

/// Objects that are overdue or failed and have no finding of their own.
fn without_finding(snapshot: &Snapshot) -> Vec<&ObjectRow> {
    let by_object = FindingsByObject::of(snapshot);
    let has_finding = |row: &ObjectRow| !by_object.own(row).is_empty();

    let bad = |row: &&ObjectRow| matches!(row.state, ObjectState::Overdue | ObjectState::Failed);
    snapshot.unhealthy.iter().filter(bad).filter(|row| !has_finding(row)).collect()
}

#[cfg(test)]
mod tests;
