//! The top of the overview: how the operator is doing, in a few numbers.

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{Health, ObjectState, Snapshot};
use maud::{Markup, html};

use super::link::objects_in_state;
use super::markup::{UtcTime, beyond};
use crate::export::view::{
    Doubt, Findings, Number, OverallHealth, capitalised, encoded, exceptions_in_words,
    objects_by_state, objects_in_words,
};

pub(super) fn headline(snapshot: &Snapshot, health: OverallHealth) -> Markup {
    let states = objects_by_state(snapshot);
    let findings = Findings::of(snapshot);
    let exceptions = exceptions_in_words(snapshot, health);
    html! {
        section class={ "headline " (health.as_str()) @if exceptions.is_some() { " except" } } aria-label="Overall health" {
            h1 {
                span class="dot" aria-hidden="true" {}
                (capitalised(health.as_str()))
                @if let Some(exceptions) = exceptions { ", except for " (exceptions) }
            }
            p {
                @match (health, objects_in_words(snapshot)) {
                    (OverallHealth::Unknown(doubt @ Doubt::Blind), _)
                    | (OverallHealth::Unknown(doubt), None) => {
                        "Unknown because " (doubt.in_words()) "."
                    }
                    (OverallHealth::Unknown(doubt), Some(objects)) => {
                        "Unknown because " (doubt.in_words()) ". " (objects) "."
                    }
                    (_, None) => { "No objects of primary kinds found." }
                    (_, Some(objects)) => { (objects) "." }
                }
            }
            ul class="counts" {
                @for severity in [Severity::Critical, Severity::Warning, Severity::Info] {
                    @let target = if severity == Severity::Info { "#info" } else { "#findings" };
                    (count_tile(severity.as_str(), findings.count(severity) as u64, "finding", target))
                }
                @for state in [
                    ObjectState::Overdue,
                    ObjectState::Failed,
                    ObjectState::Terminating,
                    ObjectState::Unknown,
                ] {
                    @let target = objects_in_state(state);
                    (count_tile(state.as_str(), states[state as usize], "object", &target))
                }
            }
            (namespaces(snapshot))
            p class="asof" { "As of " (UtcTime(snapshot.at)) }
        }
    }
}

/// Namespaces that are not healthy, worst first.
fn namespaces(snapshot: &Snapshot) -> Markup {
    const SHOWN: usize = 20;

    let mut unhealthy: Vec<_> =
        snapshot.health.iter().filter(|(_, health)| **health != Health::Healthy).collect();
    unhealthy.sort_by_key(|(name, health)| (std::cmp::Reverse(**health), *name));
    if unhealthy.is_empty() {
        return Markup::default();
    }

    html! {
        p class="namespaces" {
            @for (name, health) in unhealthy.iter().take(SHOWN) {
                (namespace(name, **health))
            }
            @if let Some(more) = beyond(SHOWN, unhealthy.len()) { span { "and " (more) " more" } }
        }
    }
}

/// A namespace, as a link to all objects in it.
fn namespace(name: &str, health: Health) -> Markup {
    html! {
        span class=(health.as_str()) data-find {
            @if name.is_empty() {
                bdi { "cluster-scoped" }
            } @else {
                a href={ "objects?namespace=" (encoded(name)) } { bdi { (name) } }
            }
            " " (health.as_str())
        }
    }
}

/// A number with its label, such as "3 failed objects". It links to what it counts.
fn count_tile(class: &str, count: u64, noun: &str, target: &str) -> Markup {
    let content = html! {
        b { (Number(count)) } " "
        span { (class) " " (noun) @if count != 1 { "s" } }
    };
    html! {
        li class={ (class) @if count == 0 { " zero" } } {
            @if count == 0 { (content) } @else { a href=(target) { (content) } }
        }
    }
}
