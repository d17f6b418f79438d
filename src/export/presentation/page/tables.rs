//! Shows unhealthy objects, blind spots, and sources.

use loopwatch_model::snapshot::{Snapshot, SourceSummary};
use maud::{Markup, html};

use super::link::Link;
use super::markup::{Age, section, state, table};
use crate::export::view::{BlindSpot, Number, reason_in_words};

/// Maximum number of objects and of blind spots shown. The page links to the API for more objects.
const SHOWN: usize = 100;

pub(super) fn unhealthy_objects(snapshot: &Snapshot) -> Markup {
    if snapshot.unhealthy.is_empty() {
        return Markup::default();
    }

    let rows = html! {
        @for row in snapshot.unhealthy.iter().take(SHOWN) {
            @let key = format!("o-{}/{}/{}/{}", row.group, row.kind, row.namespace, row.name);
            tr data-key=(key) data-find {
                td { (Link(row.into())) }
                td { (state(row.state.as_str(), row.state.as_str())) }
                td class="num" { (Age(snapshot.at, row.since)) }
                td { (reason_in_words(&row.signal, row.reason)) }
            }
        }
    };
    let more = snapshot.unhealthy.len().saturating_sub(SHOWN) as u64 + snapshot.unhealthy_dropped;
    let content = html! {
        (table("objects", &["Object", "State", "For", "Reason"], &rows))
        @if more > 0 {
            p class="more" {
                "and " (Number(more)) " more: "
                a href="objects?state=overdue" { "overdue" } ", "
                a href="objects?state=failed" { "failed" }
            }
        }
    };
    section("objects", "Unhealthy objects", &content)
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

    let rows = html! {
        @for source in &snapshot.sources { (source_row(snapshot, source)) }
    };
    let content = html! {
        p class="lead" {
            "Where loopwatch gets its data. While a source fails, no finding about its objects opens \
             or closes."
        }
        (table("sources", &["Source", "State", "For", "Last success", "Failures"], &rows))
    };
    section("sources", "Sources", &content)
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
        tr data-key={ "s-" (source.source) } {
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
