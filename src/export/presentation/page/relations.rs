//! Shows deletions that wait for finalizers, and per kind owners, orphans, references and soft
//! deletion.

use std::collections::BTreeMap;

use loopwatch_model::finding::{Confidence, Evidence, FindingCode, Subject, Value};
use loopwatch_model::snapshot::{DeletionRow, DeletionVerdict, KindSummary, OwnerHazard, Snapshot};
use maud::{Markup, html};

use super::link::Link;
use super::markup::{Age, beyond, heading_row, or_dash, section, state, table};
use crate::export::view::{Number, group_parameter};

/// Maximum number of kinds shown, and of finalizers per object.
const SHOWN: usize = 100;

/// The objects whose deletion waits for finalizers, oldest first.
pub(super) fn deletions(snapshot: &Snapshot) -> Markup {
    if snapshot.deletions.is_empty() {
        return Markup::default();
    }

    let blockers = blockers(snapshot);
    let blocker_of = |row: &DeletionRow| {
        blockers.get(&(&*row.group, &*row.kind, &*row.namespace, &*row.name)).copied()
    };
    let table = |deletions: &[&DeletionRow]| {
        let rows = html! {
            @for row in deletions { (deletion(snapshot, row, blocker_of(row))) }
        };
        table("deletions", &["Object", "For", "Verdict", "Finalizers"], &rows)
    };

    let found = |row: &&DeletionRow| row.verdict != DeletionVerdict::Progressing;
    let (found, others): (Vec<_>, Vec<_>) = snapshot.deletions.iter().partition(found);
    let content = html! {
        p class="lead" {
            "These objects are being deleted. Each waits for the controllers that remove its \
             finalizers."
        }
        @if !others.is_empty() { (table(&others)) }
        @if !found.is_empty() {
            details data-key="found-deletions" {
                summary {
                    (Number(found.len() as u64)) " object" @if found.len() != 1 { "s" }
                    " with findings above"
                }
                (table(&found))
            }
        }
        @if let Some(more) = more(snapshot) {
            p class="more" {
                "and " (Number(more)) " more: "
                a href="objects?state=terminating" { "all terminating objects" }
            }
        }
    };
    section("deletions", "Deletions", &content)
}

/// The number of terminating objects that the list leaves out.
fn more(snapshot: &Snapshot) -> Option<u64> {
    use loopwatch_model::snapshot::{MAX_DELETIONS, ObjectState};

    let terminating = snapshot
        .kinds
        .iter()
        .map(|kind| kind.states()[ObjectState::Terminating as usize])
        .sum::<u64>();
    let full = snapshot.deletions.len() >= MAX_DELETIONS;

    terminating.checked_sub(MAX_DELETIONS as u64).filter(|more| full && *more > 0)
}

fn deletion(snapshot: &Snapshot, row: &DeletionRow, blocker: Option<&str>) -> Markup {
    let (class, verdict) = match row.verdict {
        DeletionVerdict::Progressing => ("progressing", "progressing"),
        DeletionVerdict::Slow => ("overdue", "slow"),
        DeletionVerdict::Stuck => ("failed", "stuck"),
        DeletionVerdict::OwnerAbsent => ("failed", "controller absent"),
        DeletionVerdict::BlockedByDependent => ("overdue", "blocked"),
    };
    let key = format!("d-{}/{}/{}/{}", row.group, row.kind, row.namespace, row.name);

    html! {
        tr data-key=(key) data-find {
            td { (Link(row.into())) }
            td class="num" { (Age(snapshot.at, row.since)) }
            td { (state(class, verdict)) }
            td {
                @if let Some(blocker) = blocker { p { "blocked by " bdi { (blocker) } } }
                ul class="waits" {
                    @for (finalizer, actor) in row.finalizers.iter().take(SHOWN) {
                        @let by = if actor == "unknown" { "actor " } else { "to be removed by " };
                        li { bdi { (finalizer) } " " small { (by) (actor) } }
                    }
                    @if let Some(more) = beyond(SHOWN, row.finalizers.len()) {
                        li { "and " (more) " more" }
                    }
                }
            }
        }
    }
}

/// The objects that block deletions, by group, kind, namespace and name of the blocked object.
fn blockers(snapshot: &Snapshot) -> BTreeMap<(&str, &str, &str, &str), &str> {
    let blocked = snapshot
        .findings
        .iter()
        .filter(|finding| finding.code == FindingCode::DeletionBlockedByDependent);
    let named = blocked.filter_map(|finding| {
        match (&finding.subject, text(&finding.evidence, "blocker")?) {
            (Subject::Object { group, kind, namespace, name }, blocker) => {
                Some(((&**group, &**kind, &**namespace, &**name), blocker))
            }
            _ => None,
        }
    });

    named.collect()
}

fn text<'a>(evidence: &'a Evidence, key: &str) -> Option<&'a str> {
    match evidence.0.get(key)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The kinds with bad owner references, orphans, dangling references or soft-deleted objects.
pub(super) fn ownership_and_references(snapshot: &Snapshot) -> Markup {
    let orphans = orphans(snapshot);
    let orphans_of =
        |kind: &KindSummary| orphans.get(&(&*kind.group, &*kind.kind)).copied().unwrap_or_default();
    let rows: Vec<_> = snapshot
        .kinds
        .iter()
        .map(|kind| (kind, cells(snapshot, kind, orphans_of(kind))))
        .filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
        .collect();
    if rows.is_empty() {
        return Markup::default();
    }

    let columns =
        ["Kind", "Bad owner references", "Orphans", "Dangling references", "Soft-deleted"];
    let content = html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby="relations" {
            table {
                (heading_row(&columns))
                tbody {
                    @for (kind, cells) in rows.iter().take(SHOWN) {
                        @let group = group_parameter(&kind.group);
                        tr data-key={ "r-" (group) "/" (kind.kind) } data-find {
                            th scope="row" { (kind.kind) " " small { (group) } }
                            @for cell in cells { td { (or_dash(cell)) } }
                        }
                    }
                }
            }
        }
        @if let Some(more) = beyond(SHOWN, rows.len()) {
            p class="more" { "and " (more) " more kinds" }
        }
    };
    section("relations", "Ownership and references", &content)
}

/// The texts of a kind's columns; empty if there is nothing to show.
fn cells(snapshot: &Snapshot, kind: &KindSummary, orphans: Orphans) -> [String; 4] {
    let counts = &kind.owner_references;
    let mut bad: Vec<String> = OwnerHazard::ALL
        .iter()
        .zip(counts.bad)
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| format!("{} {}", Number(count), words(*reason)))
        .collect();
    let seen: u64 = kind.totals.hazards.iter().sum();

    if seen > 0 {
        bad.push(format!("{} seen since loopwatch started", Number(seen)));
    }

    let dangling =
        kind.dangling.iter().map(|(target, count)| format!("{} to {target}", Number(*count)));
    let deleted = kind.soft_deleted.iter().map(|(phase, marked)| {
        let oldest = marked
            .oldest
            .map_or_else(String::new, |at| format!(", oldest for {}", snapshot.at.since(at)));
        format!("{} in phase {}{oldest}", Number(marked.objects), phase.as_str())
    });

    [
        bad.join(", "),
        orphans.in_words(),
        dangling.collect::<Vec<_>>().join(", "),
        deleted.collect::<Vec<_>>().join(", "),
    ]
}

const fn words(reason: OwnerHazard) -> &'static str {
    match reason {
        OwnerHazard::Missing => "missing",
        OwnerHazard::Replaced => "replaced",
        OwnerHazard::CrossNamespace => "in another namespace",
        OwnerHazard::KindUnknown => "of an unknown kind",
        OwnerHazard::Mismatch => "with another kind or name",
        OwnerHazard::NamespacedOwner => "in a namespace, of objects without one",
        OwnerHazard::Cycle => "in a cycle",
        OwnerHazard::VersionUnserved => "in a version that is not served",
    }
}

/// The orphans of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Orphans {
    confirmed: u64,
    suspected: u64,
}

impl Orphans {
    /// `3, 2 suspected`; empty if there are none.
    fn in_words(self) -> String {
        let suspected = format!("{} suspected", Number(self.suspected));
        match (self.confirmed, self.suspected) {
            (0, 0) => String::new(),
            (confirmed, 0) => Number(confirmed).to_string(),
            (0, _) => suspected,
            (confirmed, _) => format!("{}, {suspected}", Number(confirmed)),
        }
    }
}

/// The orphans, by group and kind.
fn orphans(snapshot: &Snapshot) -> BTreeMap<(&str, &str), Orphans> {
    let mut counts: BTreeMap<_, Orphans> = BTreeMap::new();
    for finding in snapshot.findings.iter().filter(|it| it.code == FindingCode::Orphan) {
        let of_kind = counts.entry((finding.subject.group(), finding.subject.kind())).or_default();
        match finding.confidence {
            Confidence::Confirmed => of_kind.confirmed += 1,
            Confidence::Suspected => of_kind.suspected += 1,
        }
    }

    counts
}
