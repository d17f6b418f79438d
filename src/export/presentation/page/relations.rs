//! Deletions that wait for finalizers; owners, orphans, references and soft deletion, per kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use loopwatch_model::finding::{Confidence, Evidence, FindingCode, Subject, Value};
use loopwatch_model::snapshot::{DeletionRow, DeletionVerdict, KindSummary, OwnerHazard, Snapshot};

use super::link::Link;
use super::{Age, Escaped, Number};

/// Maximum number of kinds shown, and of finalizers of one object.
const SHOWN: usize = 100;

/// The objects whose deletion waits for finalizers, oldest first.
pub(super) fn deletions(page: &mut String, snapshot: &Snapshot) {
    if snapshot.deletions.is_empty() {
        return;
    }

    let blockers = blockers(snapshot);
    page.push_str(
        "<section aria-labelledby=\"deletions\"><h2 id=\"deletions\">Deletions</h2><p class=\"lead\">These objects are being \
         deleted. Each waits for the controllers that remove its finalizers.</p><div class=\"scroll\" tabindex=\"0\" \
         role=\"region\" aria-labelledby=\"deletions\"><table class=\"stacked\"><thead><tr><th scope=\"col\">Object</th><th scope=\"col\">For</th>\
         <th scope=\"col\">Verdict</th><th scope=\"col\">Finalizers</th></tr></thead><tbody>",
    );
    for row in &snapshot.deletions {
        deletion(
            page,
            snapshot,
            row,
            blockers.get(&(&*row.group, &*row.kind, &*row.namespace, &*row.name)).copied(),
        );
    }

    page.push_str("</tbody></table></div>");
    if let Some(more) = more(snapshot) {
        let _ = write!(
            page,
            "<p class=\"more\">and {} more: <a href=\"objects?state=terminating\">all terminating objects</a></p>",
            Number(more)
        );
    }

    page.push_str("</section>");
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

fn deletion(page: &mut String, snapshot: &Snapshot, row: &DeletionRow, blocker: Option<&str>) {
    let (class, verdict) = match row.verdict {
        DeletionVerdict::Progressing => ("progressing", "progressing"),
        DeletionVerdict::Slow => ("overdue", "slow"),
        DeletionVerdict::Stuck => ("failed", "stuck"),
        DeletionVerdict::OwnerAbsent => ("failed", "controller absent"),
        DeletionVerdict::BlockedByDependent => ("overdue", "blocked"),
    };

    let _ = write!(
        page,
        "<tr data-key=\"d-{key}\" data-find><td>{link}</td><td class=\"num\">{age}</td><td><span class=\"state {class}\">{verdict}</span></td><td>",
        key = Escaped(&format!("{}/{}/{}/{}", row.group, row.kind, row.namespace, row.name)),
        link = Link(row.into()),
        age = Age(snapshot.at, row.since),
    );

    if let Some(blocker) = blocker {
        let _ = write!(page, "<p>blocked by <bdi>{}</bdi></p>", Escaped(blocker));
    }

    page.push_str("<ul class=\"waits\">");
    for (finalizer, actor) in row.finalizers.iter().take(SHOWN) {
        let by = if actor == "unknown" { "actor " } else { "to be removed by " };
        let _ = write!(
            page,
            "<li><bdi>{}</bdi> <small>{by}{}</small></li>",
            Escaped(finalizer),
            Escaped(actor)
        );
    }

    if let Some(more) = row.finalizers.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(page, "<li>and {} more</li>", Number(more as u64));
    }

    page.push_str("</ul></td></tr>");
}

/// The objects that block deletions, by group, kind, namespace and name of the objects that wait
/// for them.
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
pub(super) fn ownership_and_references(page: &mut String, snapshot: &Snapshot) {
    let orphans = orphans(snapshot);
    let rows: Vec<_> = snapshot
        .kinds
        .iter()
        .map(|kind| {
            (
                kind,
                cells(
                    snapshot,
                    kind,
                    orphans.get(&(&*kind.group, &*kind.kind)).copied().unwrap_or(0),
                ),
            )
        })
        .filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
        .collect();

    if rows.is_empty() {
        return;
    }

    page.push_str(
        "<section aria-labelledby=\"relations\"><h2 id=\"relations\">Ownership and references</h2><div class=\"scroll\" \
         tabindex=\"0\" role=\"region\" aria-labelledby=\"relations\"><table><thead><tr><th scope=\"col\">Kind</th>\
         <th scope=\"col\">Bad owner references</th><th scope=\"col\">Orphans</th><th scope=\"col\">Dangling references</th>\
         <th scope=\"col\">Soft-deleted</th></tr></thead><tbody>",
    );
    for (kind, cells) in rows.iter().take(SHOWN) {
        let _ = write!(
            page,
            "<tr data-key=\"r-{group}/{name}\" data-find><th scope=\"row\">{name} <small>{group}</small></th>",
            group = Escaped(if kind.group.is_empty() { "core" } else { &kind.group }),
            name = Escaped(&kind.kind),
        );

        for cell in cells {
            let _ = write!(page, "<td>{}</td>", Escaped(if cell.is_empty() { "–" } else { cell }));
        }

        page.push_str("</tr>");
    }

    page.push_str("</tbody></table></div>");
    if let Some(more) = rows.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(page, "<p class=\"more\">and {} more kinds</p>", Number(more as u64));
    }

    page.push_str("</section>");
}

/// The texts of a kind's columns; empty where there is nothing to show.
fn cells(snapshot: &Snapshot, kind: &KindSummary, orphans: u64) -> [String; 4] {
    let counts = &kind.owner_references;
    let bad = OwnerHazard::ALL.iter().zip(counts.bad).filter(|(_, count)| *count > 0);
    let mut bad: Vec<String> =
        bad.map(|(reason, count)| format!("{} {}", Number(count), words(*reason))).collect();
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
        if orphans > 0 { Number(orphans).to_string() } else { String::new() },
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
    }
}

/// The number of confirmed orphans, by group and kind.
fn orphans(snapshot: &Snapshot) -> BTreeMap<(&str, &str), u64> {
    let mut counts = BTreeMap::new();
    let confirmed =
        snapshot.findings.iter().filter(|finding| finding.confidence == Confidence::Confirmed);
    for finding in confirmed.filter(|finding| finding.code == FindingCode::Orphan) {
        *counts.entry((finding.subject.group(), finding.subject.kind())).or_default() += 1;
    }

    counts
}
