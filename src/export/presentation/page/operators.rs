//! The overview of many operators.

use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Timestamp;
use maud::{Markup, html};

use super::markup::{UtcTime, heading_row, section};
use crate::export::view::{
    Number, OperatorSummary, Operators, SkippedOperator, capitalised, encoded,
};

pub(super) fn operators(all: &Operators, at: Timestamp) -> Markup {
    html! {
        (headline(all, at))
        (table(all))
        (not_judged(&all.skipped))
        (unclaimed(&all.unclaimed))
    }
}

fn headline(all: &Operators, at: Timestamp) -> Markup {
    let health = all.health().map_or("unknown", |health| health.as_str());
    let number = all.operators.len();
    html! {
        section class={ "headline " (health) } aria-label="Overall health" {
            h1 { span class="dot" aria-hidden="true" {} (capitalised(health)) }
            p {
                @if !all.is_complete {
                    "loopwatch is still looking for the operators of the cluster. "
                }
                (Number(number as u64)) " operator" @if number != 1 { "s" } ", worst first."
            }
            p class="asof" { "As of " (UtcTime(at)) }
        }
    }
}

fn table(all: &Operators) -> Markup {
    let content = html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby="operators" {
            table class="stacked" {
                (heading_row(&["Operator", "Health", "Findings", "Objects", "Kinds"]))
                tbody { @for operator in &all.operators { (row(operator)) } }
            }
        }
    };
    section("operators", "Operators", &content)
}

fn row(operator: &OperatorSummary) -> Markup {
    let OperatorSummary { name, health, findings, worst, kinds, suspected_kinds, .. } = operator;
    html! {
        tr data-key={ "op-" (name) } data-find {
            td data-label="Operator" { a href=(path(name)) { bdi { (name) } } }
            td data-label="Health" class=(health.as_str()) { (capitalised(health.as_str())) }
            td data-label="Findings" {
                (counts(findings))
                @if let Some(worst) = worst { ": " bdi { (worst.code.name()) " " (worst.subject.name()) } }
            }
            td data-label="Objects" { (objects(operator)) }
            td data-label="Kinds" {
                (names(kinds))
                @if !suspected_kinds.is_empty() {
                    @if !kinds.is_empty() { "; " }
                    "perhaps " (names(suspected_kinds))
                }
            }
        }
    }
}

/// The names of kinds, without their groups.
fn names(kinds: &[String]) -> String {
    let names = kinds.iter().map(|kind| kind.rsplit('/').next().unwrap_or(kind));
    names.collect::<Vec<_>>().join(", ")
}

/// `2 critical, 1 warning`, or `none`.
fn counts(findings: &[u64; 3]) -> String {
    let named =
        findings.iter().zip(["critical", "warning", "info"]).filter(|(count, _)| **count > 0);
    let named: Vec<String> =
        named.map(|(count, name)| format!("{} {name}", Number(*count))).collect();
    if named.is_empty() { "none".to_owned() } else { named.join(", ") }
}

/// `12, of which 1 failed`.
fn objects(operator: &OperatorSummary) -> String {
    let unwell =
        [ObjectState::Overdue, ObjectState::Failed, ObjectState::Terminating, ObjectState::Unknown];
    let unwell: Vec<String> = unwell
        .into_iter()
        .filter(|state| operator.states[*state as usize] > 0)
        .map(|state| format!("{} {}", Number(operator.states[state as usize]), state.as_str()))
        .collect();
    match unwell.is_empty() {
        true => Number(operator.objects()).to_string(),
        false => format!("{}, of which {}", Number(operator.objects()), unwell.join(", ")),
    }
}

/// The path of the page of an operator.
fn path(name: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    format!("operators/{}/{}/", encoded(namespace), encoded(name))
}

fn not_judged(skipped: &[SkippedOperator]) -> Markup {
    if skipped.is_empty() {
        return Markup::default();
    }

    let content = html! {
        ul class="panel" {
            @for SkippedOperator { name, why } in skipped {
                li data-find { bdi { (name) } ": " (why) "." }
            }
        }
    };
    section("not-judged", "Not judged", &content)
}

fn unclaimed(kinds: &[String]) -> Markup {
    if kinds.is_empty() {
        return Markup::default();
    }

    let content = html! {
        p class="panel" {
            "No operator that loopwatch has found owns these kinds: "
            @for (index, kind) in kinds.iter().enumerate() {
                @if index > 0 { ", " }
                span data-find { (kind) }
            }
            "."
        }
    };
    section("unclaimed", "Kinds without an operator", &content)
}

/// Names the operator on its own pages, with the way back to all of them.
pub(super) fn of_many(root: &str, name: &str) -> Markup {
    html! {
        p class="recording" role="note" {
            "Operator " b { bdi { (name) } } ". " a href={ (root) "../../../" } { "All operators of the cluster" }
        }
    }
}
