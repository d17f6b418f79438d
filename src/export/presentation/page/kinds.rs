//! The kinds, each with the states of its objects.

use loopwatch_model::observation::Role;
use loopwatch_model::snapshot::{KindSummary, ObjectState, Snapshot, WatchSummary};
use maud::{Markup, PreEscaped, display, html};

use super::link::objects_of_kind;
use super::markup::{Age, section};
use crate::export::view::{Number, group_parameter, is_watch_down, quantile};

pub(super) fn kinds(snapshot: &Snapshot) -> Markup {
    if snapshot.kinds.is_empty() {
        return Markup::default();
    }

    let mut kinds: Vec<_> = snapshot.kinds.iter().collect();
    kinds.sort_by_key(|kind| kind.role == Role::Child); // stable: primary kinds come first

    let (used, unused): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|kind| kind.states().iter().any(|n| *n > 0));
    let content = html! {
        @if snapshot.kinds.iter().any(|kind| kind.role == Role::Child) {
            p class="lead" {
                "The kinds whose status the operator writes and, as child kinds, those that it \
                 creates for them."
            }
        }
        (cards(snapshot, &used))
        // Only names, and collapsed, because an operator may have many kinds without objects.
        @if !unused.is_empty() {
            details data-key="unused-kinds" open[used.is_empty()] {
                summary {
                    (Number(unused.len() as u64)) " kind" @if unused.len() != 1 { "s" }
                    " without objects"
                }
                p class="panel" {
                    @for (index, kind) in unused.iter().enumerate() {
                        @if index > 0 { ", " }
                        span data-find {
                            a href=(objects_of_kind(&kind.group, &kind.kind)) { (kind.kind) }
                            " " small { (group_parameter(&kind.group)) }
                        }
                    }
                }
            }
        }
    };
    section("kinds", "Kinds", &content)
}

fn cards(snapshot: &Snapshot, kinds: &[&KindSummary]) -> Markup {
    html! { div class="kinds" { @for kind in kinds { (card(snapshot, kind)) } } }
}

fn card(snapshot: &Snapshot, kind: &KindSummary) -> Markup {
    let states = kind.states();
    let total: u64 = states.iter().sum();
    let (group, name) = (group_parameter(&kind.group), &kind.kind);
    let list = objects_of_kind(&kind.group, name);

    html! {
        article class="kindcard" data-key={ "k-" (group) "/" (name) } data-find {
            h3 {
                (name)
                @if kind.role == Role::Child { " " span class="role" { "child" } }
                " " small { (group) }
            }
            p class="total" {
                a href=(list) aria-label={ (total) " of the kind " (name) } { (Number(total)) }
            }
            (bar(&states))
            ul class="states" {
                @for (state, count) in in_use(&states) {
                    li class=(state.as_str()) {
                        b { (Number(count)) } " "
                        a href={ (list) "&state=" (state.as_str()) } { (state.as_str()) }
                        @if state == ObjectState::Unknown && has_no_status(snapshot, kind) {
                            " " small { "no status to judge" }
                        }
                    }
                }
            }
            @if kind.role == Role::Primary { (convergence(snapshot, kind)) }
        }
    }
}

/// The states with at least one object.
fn in_use(
    states: &[u64; ObjectState::ALL.len()],
) -> impl Iterator<Item = (ObjectState, u64)> + Clone {
    ObjectState::ALL.iter().copied().zip(states.iter().copied()).filter(|(_, count)| *count > 0)
}

/// Whether loopwatch sees the objects of a child kind, but none has a meaningful status, as with
/// ConfigMaps.
fn has_no_status(snapshot: &Snapshot, kind: &KindSummary) -> bool {
    let sees = |watch: &WatchSummary| watch.synced && !is_watch_down(snapshot, &watch.watch);
    let unknown = kind.states()[ObjectState::Unknown as usize];
    kind.role == Role::Child
        && kind.states().iter().sum::<u64>() == unknown
        && kind.watches.iter().all(sees)
}

/// The deadline of a kind, and how long its objects take to converge.
fn convergence(snapshot: &Snapshot, kind: &KindSummary) -> Markup {
    let histogram = &kind.totals.convergence;
    let latency =
        |q| quantile(histogram, q).map_or("more than a day".to_owned(), |span| span.to_string());
    let fact = |name: &str, value: &Markup| html! { div { dt { (name) } dd { (value) } } };
    let deadline = html! { (display(kind.deadline)) " " small { (kind.deadline_source.as_str()) } };

    html! {
        dl {
            (fact("deadline", &deadline))
            @match histogram.count() {
                0 => { (fact("median convergence", &html! { "no data yet" })) }
                count => {
                    (fact("median convergence", &html! {
                        (latency(0.5)) " "
                        small { "of " (Number(count)) " change" @if count != 1 { "s" } }
                    }))
                    (fact("p90 convergence", &html! { (latency(0.9)) }))
                }
            }
            @if let Some(oldest) = kind.oldest_unconverged {
                (fact("oldest unconverged", &html! { (Age(snapshot.at, oldest)) }))
            }
        }
    }
}

/// A stacked bar of states, in thousandths of its width. Each part has a minimum width, so that one
/// failed object among ten thousand remains visible.
fn bar(states: &[u64; ObjectState::ALL.len()]) -> Markup {
    const MIN_WIDTH: u64 = 12;

    let total: u64 = states.iter().sum();
    let counted: Vec<_> =
        in_use(states).map(|(state, count)| format!("{count} {}", state.as_str())).collect();
    let label = if counted.is_empty() { "no objects".to_owned() } else { counted.join(", ") };

    let shared = 1000_u64.saturating_sub(in_use(states).count() as u64 * MIN_WIDTH);
    let mut x = 0;
    let parts = in_use(states).map(|(state, count)| {
        let part = u128::from(shared) * u128::from(count) / u128::from(total);
        let width = MIN_WIDTH + u64::try_from(part).unwrap_or(0);
        let class = state.as_str();
        let rectangle =
            format!("<rect class=\"{class}\" x=\"{x}\" width=\"{width}\" height=\"10\"/>");

        x += width;
        PreEscaped(rectangle) // loopwatch's own words, and numbers
    });

    html! {
        svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img"
            aria-label=(label) {
            @for part in parts { (part) }
        }
    }
}
