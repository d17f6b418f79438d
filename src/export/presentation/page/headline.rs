//! The top of the overview: how the operator is doing, in a few numbers.

use loopwatch_model::finding::Severity;
use loopwatch_model::snapshot::{Health, ObjectState, Snapshot};
use maud::{Markup, html};

use super::markup::{UtcTime, beyond};
use crate::export::view::{
    Findings, Number, OverallHealth, capitalised, exceptions_in_words, objects_by_state,
    objects_in_words,
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
                    (OverallHealth::Unknown, _) => { "No watch is up and synced." }
                    (_, None) => { "No objects of primary kinds found." }
                    (_, Some(objects)) => { (objects) "." }
                }
            }
            ul class="counts" {
                @for severity in [Severity::Critical, Severity::Warning, Severity::Info] {
                    (count_tile(severity.as_str(), findings.count(severity) as u64, "finding"))
                }
                @for state in [
                    ObjectState::Overdue,
                    ObjectState::Failed,
                    ObjectState::Terminating,
                    ObjectState::Unknown,
                ] {
                    (count_tile(state.as_str(), states[state as usize], "object"))
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
                span class=(health.as_str()) data-find {
                    bdi { (if name.is_empty() { "cluster-scoped" } else { name }) }
                    " " (health.as_str())
                }
            }
            @if let Some(more) = beyond(SHOWN, unhealthy.len()) { span { "and " (more) " more" } }
        }
    }
}

/// A number with its label, such as "3 failed objects".
fn count_tile(class: &str, count: u64, noun: &str) -> Markup {
    html! {
        li class={ (class) @if count == 0 { " zero" } } {
            b { (Number(count)) } " "
            span { (class) " " (noun) @if count != 1 { "s" } }
        }
    }
}
