//! Who writes how much: the versions of objects by kind and field manager.

use std::cmp::Reverse;

use loopwatch_model::snapshot::Snapshot;
use maud::{Markup, html};

use super::markup::{section, table};
use crate::export::view::{Number, group_parameter};

/// The maximum number of rows. The metrics have all of them.
const SHOWN: usize = 10;

pub(super) fn writes(snapshot: &Snapshot) -> Markup {
    let mut rows: Vec<_> = snapshot
        .kinds
        .iter()
        .flat_map(|kind| {
            kind.totals.writes.iter().map(move |(manager, counts)| (kind, manager, counts))
        })
        .collect();
    if rows.is_empty() {
        return Markup::default();
    }

    rows.sort_by_key(|(.., counts)| Reverse((counts.wasted, counts.versions)));
    let more = rows.len().saturating_sub(SHOWN);
    let body = html! {
        @for (kind, manager, counts) in rows.iter().take(SHOWN) {
            tr data-key={ "w-" (group_parameter(&kind.group)) "/" (kind.kind) "/" (manager) } data-find {
                td { (kind.kind) " " small { (group_parameter(&kind.group)) } }
                td { (manager) }
                td class="num" { (Number(counts.versions)) }
                td class="num" { (Number(counts.wasted)) }
            }
        }
    };

    let columns = ["Kind", "Field manager", "Versions", "Without a change"];
    let content = html! {
        details data-key="writes" {
            summary { "Versions since loopwatch started, those without a change first" }
            (table("writes", &columns, &body))
            @if more > 0 {
                p class="more" {
                    "and " (Number(more as u64)) " more in the metric " code { "loopwatch_writes_total" }
                }
            }
        }
    };
    section("writes", "Who writes how much", &content)
}
