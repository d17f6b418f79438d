//! The tables on the page of an object: conditions, finalizers and writers.

use loopwatch_model::snapshot::{ExplainedFinalizer, ExplainedWriter, Explanation};
use maud::{Markup, html};

use crate::export::presentation::page::markup::{Age, ago, or_dash, section, table};
use crate::export::view::capitalised;

pub(super) fn conditions(explanation: &Explanation) -> Markup {
    if explanation.conditions.is_empty() {
        return Markup::default();
    }

    let rows = html! {
        @for condition in &explanation.conditions {
            tr data-find {
                th scope="row" { bdi { (condition.r#type) } }
                td {
                    @if condition.status == "absent" { "–" } @else { (capitalised(&condition.status)) }
                }
                td class="num" {
                    @match condition.changed {
                        None => { "–" }
                        Some(since) => { (Age(explanation.at, since)) }
                    }
                }
                td { (or_dash(&condition.reason)) " " small { (condition.message) } }
            }
        }
    };
    let columns = ["Condition", "Status", "For", "Reason and message"];
    section("conditions", "Conditions", &table("conditions", &columns, &rows))
}

pub(super) fn finalizers(explanation: &Explanation) -> Markup {
    let Explanation { object, .. } = explanation;
    if object.finalizers.is_empty() && object.terminating_since.is_none() {
        return Markup::default();
    }

    let title = if object.terminating_since.is_some() { "Deletion" } else { "Finalizers" };
    let columns = ["Finalizer", "To be removed by", "Last sign of life", "Verdict"];
    let rows = html! {
        @for finalizer in &object.finalizers { (finalizer_row(explanation, finalizer)) }
    };
    let content = html! {
        (table("finalizers", &columns, &rows))
        @if let Some(last) = explanation.deletion_progress {
            p class="more" { "The deletion last made progress " (ago(explanation.at, last)) "." }
        }
    };
    section("finalizers", title, &content)
}

fn finalizer_row(explanation: &Explanation, finalizer: &ExplainedFinalizer) -> Markup {
    let ExplainedFinalizer { name, actor, liveness, last_seen, verdict, .. } = finalizer;
    let actor = match actor.as_str() {
        "" | "unknown" => "nothing shows who removes it",
        actor => actor,
    };

    html! {
        tr data-find {
            th scope="row" { bdi { (name) } }
            td { (actor) }
            td class="num" {
                @match (liveness.as_str(), last_seen) {
                    ("alive", Some(last)) => { (ago(explanation.at, *last)) }
                    ("absent", Some(last)) => { "absent for " (Age(explanation.at, *last)) }
                    _ => { "–" }
                }
            }
            td { (or_dash(&verdict.replace('_', " "))) }
        }
    }
}

pub(super) fn writers(explanation: &Explanation) -> Markup {
    if explanation.writers.is_empty() {
        return Markup::default();
    }

    let rows = html! {
        @for ExplainedWriter { manager, parts, at } in &explanation.writers {
            tr {
                th scope="row" { bdi { (manager) } }
                td { @if parts.is_empty() { "metadata" } @else { (parts.join(", ")) } }
                td class="num" {
                    @match at {
                        None => { "–" }
                        Some(at) => { (ago(explanation.at, *at)) }
                    }
                }
            }
        }
    };
    let columns = ["Field manager", "Parts", "Last write"];
    section("writers", "Written by", &table("writers", &columns, &rows))
}
