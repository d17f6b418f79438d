//! Shows unhealthy objects, blind spots, and sources.

use std::collections::BTreeSet;

use loopwatch_model::finding::{Finding, FindingId};
use loopwatch_model::snapshot::{ObjectRow, ObjectState, Snapshot, SourceSummary};
use loopwatch_model::time::Timestamp;
use maud::{Markup, html};

use super::findings::{self, anchor};
use super::link::{Link, objects_in_state};
use super::markup::{Age, section, state, table};
use crate::export::view::{BlindSpot, FindingsByObject, Number, ObjectName, reason_in_words};

/// Maximum number of objects and of blind spots shown. The page links to the API for more objects.
const SHOWN: usize = 100;

/// The objects that are overdue or failed, or have a finding. Those whose findings the page shows
/// above are collapsed, so that each problem has one place.
pub(super) fn unhealthy_objects(snapshot: &Snapshot) -> Markup {
    if snapshot.unhealthy.is_empty() {
        return Markup::default();
    }

    let (by_object, shown) = (FindingsByObject::of(snapshot), findings::shown(snapshot));
    let rows = snapshot.unhealthy.iter().take(SHOWN).map(|row| (row, by_object.about(row)));
    let (above, others): (Vec<_>, Vec<_>) =
        rows.partition(|(_, found)| found.iter().any(|finding| shown.contains(&finding.id)));
    let table = |rows: &[(&ObjectRow, Vec<&Finding>)]| {
        let rows = html! {
            @for (row, found) in rows {
                (unhealthy_row(snapshot.at, row, &findings_cell(&by_object, &shown, row, found)))
            }
        };
        table("objects", &["Object", "State", "For", "Reason", "Finding"], &rows)
    };

    let more = snapshot.unhealthy.len().saturating_sub(SHOWN) as u64 + snapshot.unhealthy_dropped;
    let is_rejected = others.iter().any(|(row, found)| row.rejected && found.is_empty());
    let content = html! {
        @if is_rejected {
            p class="lead" {
                "No finding opens if the operator rejects the spec of a single object: its user can \
                 correct it."
            }
        }
        @if !others.is_empty() { (table(&others)) }
        @if !above.is_empty() {
            details data-key="found-objects" {
                summary {
                    (Number(above.len() as u64)) " object" @if above.len() != 1 { "s" }
                    " with findings above"
                }
                (table(&above))
            }
        }
        @if more > 0 {
            p class="more" {
                "and " (Number(more)) " more: "
                a href=(objects_in_state(ObjectState::Overdue)) { "overdue" } ", "
                a href=(objects_in_state(ObjectState::Failed)) { "failed" }
            }
        }
    };
    section("objects", "Unhealthy objects", &content)
}

fn unhealthy_row(at: Timestamp, row: &ObjectRow, found: &Markup) -> Markup {
    let key = format!("o-{}/{}/{}/{}", row.group, row.kind, row.namespace, row.name);
    html! {
        tr data-key=(key) data-find {
            td { (Link(row.into())) }
            td { (state(row.state.as_str(), row.state.as_str())) }
            td class="num" { (Age(at, row.since)) }
            td { (reason_in_words(&row.signal, row.reason)) }
            td { (found) }
        }
    }
}

/// Links to the findings about an object, or why there are none.
fn findings_cell(
    by_object: &FindingsByObject<'_>,
    shown: &BTreeSet<FindingId>,
    row: &ObjectRow,
    found: &[&Finding],
) -> Markup {
    html! {
        @for (index, finding) in found.iter().enumerate() {
            @if index > 0 { ", " }
            @if shown.contains(&finding.id) {
                a href={ "#" (anchor(finding)) } { (finding.info().name) }
            } @else {
                a href={ (ObjectName::from(row).path()) "#findings" } { (finding.info().name) }
            }
        }
        @if found.is_empty() { small { (by_object.why_none(row).unwrap_or("none")) } }
    }
}

pub(super) fn blind_spots(spots: &[BlindSpot]) -> Markup {
    if spots.is_empty() {
        return Markup::default();
    }

    let content = html! {
        p class="lead" {
            "loopwatch cannot see or use the following, and does not report problems with it."
        }
        ul class="spots" {
            @for spot in spots.iter().take(SHOWN) {
                li data-find { b { (spot.what) } span { (spot.why) } }
            }
        }
    };
    section("blind", "Not visible", &content)
}

pub(super) fn sources(snapshot: &Snapshot) -> Markup {
    if snapshot.sources.is_empty() {
        return Markup::default();
    }

    let needs_attention = |source: &&SourceSummary| {
        source.off.is_none() && (!source.up || source.restricted.is_some())
    };
    let (failing, others): (Vec<_>, Vec<_>) = snapshot.sources.iter().partition(needs_attention);
    let table = |sources: &[&SourceSummary]| {
        let rows = html! { @for source in sources { (source_row(snapshot, source)) } };
        table("sources", &["Source", "State", "For", "Last success", "Failures"], &rows)
    };
    let content = html! {
        p class="lead" {
            "Where loopwatch gets its data. While a source fails, no finding about its objects opens \
             or closes."
        }
        @if !failing.is_empty() { (table(&failing)) }
        @if !others.is_empty() {
            details data-key="sources-up" {
                summary { (sources_in_words(&others, failing.is_empty())) }
                (table(&others))
            }
        }
    };
    section("sources", "Sources", &content)
}

/// `12 sources, all up`, or `12 more: 10 up, 2 off` below a table of those that fail.
fn sources_in_words(sources: &[&SourceSummary], are_all: bool) -> String {
    let off = sources.iter().filter(|source| source.off.is_some()).count() as u64;
    let up = sources.len() as u64 - off;
    let are = |count: u64| if count == 1 { "is" } else { "are" };
    let noun = if sources.len() == 1 { "source" } else { "sources" };

    match (off, are_all) {
        (0, true) => format!("{} {noun}, all up", Number(up)),
        (0, false) => format!("{} more {} up", Number(up), are(up)),
        (off, true) => format!(
            "{} {noun}: {} {} up, {} {} off",
            Number(up + off),
            Number(up),
            are(up),
            Number(off),
            are(off)
        ),
        (off, false) => {
            format!("{} more: {} up, {} off", Number(up + off), Number(up), Number(off))
        }
    }
}

fn source_row(snapshot: &Snapshot, source: &SourceSummary) -> Markup {
    let (class, word) = match (&source.off, source.up) {
        (Some(_), _) => ("off", "off"),
        (None, true) => ("up", "up"),
        (None, false) => ("down", "failing"),
    };
    let failures: Vec<_> = source
        .failures
        .iter()
        .map(|(cause, count)| format!("{}: {count}", cause.replace('_', " ")))
        .collect();
    let remark = source.off.as_deref().or(source.restricted.as_deref());

    html! {
        tr data-key={ "s-" (source.source) } data-find {
            td { bdi { (source.source) } }
            td { (state(class, word)) }
            td class="num" { (Age(snapshot.at, source.since)) }
            td class="num" {
                @match source.last_success {
                    None => { "never" }
                    Some(at) => { (Age(snapshot.at, at)) " ago" }
                }
            }
            td { (remark.unwrap_or(&failures.join(", "))) }
        }
    }
}
