//! Kinds and the states of their objects, unhealthy objects, blind spots, and sources.

use std::fmt::Write as _;

use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectState, Snapshot, WatchSummary};

use super::link::{Link, objects_of_kind};
use super::{Age, Escaped, Number};
use crate::export::view::{BlindSpot, is_watch_down, quantile, reason_in_words};

/// Maximum number of objects shown, and of blind spots. The page links to the API for more objects.
const SHOWN: usize = 100;

pub(super) fn kinds(page: &mut String, snapshot: &Snapshot) {
    if snapshot.kinds.is_empty() {
        return;
    }

    let mut kinds: Vec<_> = snapshot.kinds.iter().collect();
    kinds.sort_by_key(|kind| kind.role == Role::Child); // stable: primary kinds come first

    let (used, unused): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|kind| kind.states().iter().any(|n| *n > 0));
    page.push_str("<section aria-labelledby=\"kinds\"><h2 id=\"kinds\">Kinds</h2>");
    if snapshot.kinds.iter().any(|kind| kind.role == Role::Child) {
        page.push_str(
            "<p class=\"lead\">The kinds whose status the operator writes and, as child kinds, those that it creates for them.</p>",
        );
    }

    kind_cards(page, snapshot, &used);
    if !unused.is_empty() {
        // Collapsed: an operator with many kinds would otherwise fill the screen with cards that
        // show no objects.
        let _ = write!(
            page,
            "<details data-key=\"unused-kinds\"{}><summary>{} kind{} without objects</summary>",
            if used.is_empty() { " open" } else { "" },
            Number(unused.len() as u64),
            if unused.len() == 1 { "" } else { "s" }
        );

        kind_cards(page, snapshot, &unused);
        page.push_str("</details>");
    }

    page.push_str("</section>");
}

fn kind_cards(page: &mut String, snapshot: &Snapshot, kinds: &[&KindSummary]) {
    page.push_str("<div class=\"kinds\">");
    for kind in kinds {
        kind_card(page, snapshot, kind);
    }

    page.push_str("</div>");
}

fn kind_card(page: &mut String, snapshot: &Snapshot, kind: &KindSummary) {
    let states = kind.states();
    let total: u64 = states.iter().sum();
    let role = if kind.role == Role::Child { " <span class=\"role\">child</span>" } else { "" };
    let list = objects_of_kind(&kind.group, &kind.kind);
    let _ = write!(
        page,
        "<article class=\"kindcard\" data-key=\"k-{group}/{name}\" data-find><h3>{name}{role} <small>{group}</small></h3>\
         <p class=\"total\"><a href=\"{list}\" aria-label=\"{total} of the kind {name}\">{}</a></p>",
        Number(total),
        group = Escaped(if kind.group.is_empty() { "core" } else { &kind.group }),
        name = Escaped(&kind.kind),
        list = Escaped(&list),
    );

    bar(page, &states);
    page.push_str("<ul class=\"states\">");
    for (state, count) in ObjectState::ALL.iter().zip(states).filter(|(_, count)| *count > 0) {
        let is_usual = *state == ObjectState::Unknown && has_no_status(snapshot, kind);
        let (state, why) =
            (state.as_str(), if is_usual { " <small>no status to judge</small>" } else { "" });
        let _ = write!(
            page,
            "<li class=\"{state}\"><b>{}</b> <a href=\"{}&amp;state={state}\">{state}</a>{why}</li>",
            Number(count),
            Escaped(&list)
        );
    }

    page.push_str("</ul>");
    if kind.role == Role::Primary {
        convergence(page, snapshot, kind);
    }

    page.push_str("</article>");
}

/// Whether loopwatch sees the objects of a child kind, and none of them has a status that says
/// anything, such as ConfigMaps.
fn has_no_status(snapshot: &Snapshot, kind: &KindSummary) -> bool {
    let sees = |watch: &WatchSummary| watch.synced && !is_watch_down(snapshot, &watch.watch);
    let unknown = kind.states()[ObjectState::Unknown as usize];
    kind.role == Role::Child
        && kind.states().iter().sum::<u64>() == unknown
        && kind.watches.iter().all(sees)
}

/// The deadline of a kind, and how long its objects take to converge.
fn convergence(page: &mut String, snapshot: &Snapshot, kind: &KindSummary) {
    let _ = write!(
        page,
        "<dl><div><dt>deadline</dt><dd>{} <small>{}</small></dd></div>",
        kind.deadline,
        kind.deadline_source.as_str()
    );

    let latency = |q| {
        quantile(&kind.totals.convergence, q)
            .map_or("more than a day".to_owned(), |span| span.to_string())
    };
    let _ = match kind.totals.convergence.count() {
        0 => write!(page, "<div><dt>median convergence</dt><dd>no data yet</dd></div>"),
        count => write!(
            page,
            "<div><dt>median convergence</dt><dd>{} <small>of {} change{}</small></dd></div>\
             <div><dt>p90 convergence</dt><dd>{}</dd></div>",
            latency(0.5),
            Number(count),
            if count == 1 { "" } else { "s" },
            latency(0.9)
        ),
    };

    if let Some(oldest) = kind.oldest_unconverged {
        let _ = write!(
            page,
            "<div><dt>oldest unconverged</dt><dd>{}</dd></div>",
            Age(snapshot.at, oldest)
        );
    }

    page.push_str("</dl>");
}

/// A stacked bar of states, in thousandths of its width. Each part has a minimum width, so that one
/// failed object among ten thousand stays visible.
fn bar(page: &mut String, states: &[u64; ObjectState::ALL.len()]) {
    const MIN_WIDTH: u64 = 12;

    let total: u64 = states.iter().sum();
    let parts = states.iter().filter(|count| **count > 0).count() as u64;
    let label: Vec<_> = ObjectState::ALL
        .iter()
        .zip(states)
        .filter(|(_, n)| **n > 0)
        .map(|(s, n)| format!("{n} {}", s.as_str()))
        .collect();

    let _ = write!(
        page,
        "<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        if label.is_empty() { "no objects".to_owned() } else { label.join(", ") }
    );
    let shared = 1000_u64.saturating_sub(parts * MIN_WIDTH);
    let mut x = 0;

    for (state, count) in ObjectState::ALL.iter().zip(states).filter(|(_, count)| **count > 0) {
        let width = MIN_WIDTH
            + u64::try_from(u128::from(shared) * u128::from(*count) / u128::from(total))
                .unwrap_or(0);
        let _ = write!(
            page,
            "<rect class=\"{}\" x=\"{x}\" width=\"{width}\" height=\"10\"/>",
            state.as_str()
        );

        x += width;
    }

    page.push_str("</svg>");
}

pub(super) fn unhealthy_objects(page: &mut String, snapshot: &Snapshot) {
    if snapshot.unhealthy.is_empty() {
        return;
    }

    page.push_str(
        "<section aria-labelledby=\"objects\"><h2 id=\"objects\">Unhealthy objects</h2><div class=\"scroll\" tabindex=\"0\" \
         role=\"region\" aria-labelledby=\"objects\"><table class=\"stacked\"><thead><tr><th scope=\"col\">Object</th><th scope=\"col\">State</th>\
         <th scope=\"col\">For</th><th scope=\"col\">Reason</th></tr></thead><tbody>",
    );
    for row in snapshot.unhealthy.iter().take(SHOWN) {
        let state = row.state.as_str();
        let _ = write!(
            page,
            "<tr data-key=\"o-{uid}\" data-find><td>{link}</td><td><span class=\"state {state}\">{state}</span></td><td class=\"num\">{age}</td>\
             <td>{reason}</td></tr>",
            uid = Escaped(&format!("{}/{}/{}/{}", row.group, row.kind, row.namespace, row.name)),
            link = Link(row.into()),
            age = Age(snapshot.at, row.since),
            reason = Escaped(reason_in_words(&row.signal, row.reason)),
        );
    }

    page.push_str("</tbody></table></div>");
    let more = snapshot.unhealthy.len().saturating_sub(SHOWN) as u64 + snapshot.unhealthy_dropped;
    if more > 0 {
        let _ = write!(
            page,
            "<p class=\"more\">and {} more: <a href=\"objects?state=overdue\">overdue</a>, \
             <a href=\"objects?state=failed\">failed</a></p>",
            Number(more)
        );
    }

    page.push_str("</section>");
}

pub(super) fn blind_spots(page: &mut String, spots: &[BlindSpot]) {
    if spots.is_empty() {
        return;
    }

    page.push_str(
        "<section aria-labelledby=\"blind\"><h2 id=\"blind\">Not visible</h2><p class=\"lead\">loopwatch cannot see \
         or use the following, and does not report problems with it.</p><ul class=\"spots\">",
    );
    for spot in spots.iter().take(SHOWN) {
        let _ = write!(
            page,
            "<li data-find><b>{}</b><span>{}</span></li>",
            Escaped(&spot.what),
            Escaped(&spot.why)
        );
    }

    page.push_str("</ul></section>");
}

pub(super) fn sources(page: &mut String, snapshot: &Snapshot) {
    if snapshot.sources.is_empty() {
        return;
    }

    page.push_str(
        "<section aria-labelledby=\"sources\"><h2 id=\"sources\">Sources</h2>\
         <p class=\"lead\">Where loopwatch gets its data. While a source fails, no finding about its objects opens or closes.</p><div class=\"scroll\" tabindex=\"0\" \
         role=\"region\" aria-labelledby=\"sources\"><table class=\"stacked\"><thead><tr><th scope=\"col\">Source</th><th scope=\"col\">State</th>\
         <th scope=\"col\">For</th><th scope=\"col\">Last success</th><th scope=\"col\">Failures</th></tr></thead><tbody>",
    );
    for source in &snapshot.sources {
        let (class, state) = match (&source.off, source.up) {
            (Some(_), _) => ("off", "off"),
            (None, true) => ("up", "up"),
            (None, false) => ("down", "failing"),
        };
        let last_success = source
            .last_success
            .map_or("never".to_owned(), |at| format!("{} ago", Age(snapshot.at, at)));

        let failures: Vec<_> = source
            .failures
            .iter()
            .map(|(cause, count)| format!("{}: {count}", cause.replace('_', " ")))
            .collect();
        let _ = write!(
            page,
            "<tr data-key=\"s-{name}\"><td><bdi>{name}</bdi></td><td><span class=\"state {class}\">{state}</span></td>\
             <td class=\"num\">{}</td><td class=\"num\">{last_success}</td><td>{}</td></tr>",
            Age(snapshot.at, source.since),
            Escaped(
                source
                    .off
                    .as_deref()
                    .or(source.restricted.as_deref())
                    .unwrap_or(&failures.join(", "))
            ),
            name = Escaped(&source.source),
        );
    }

    page.push_str("</tbody></table></div></section>");
}
