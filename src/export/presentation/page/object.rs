//! The page of one object: everything that `explain` knows about it.

mod waterfall; // its last piece of work
mod graph; // its owners and children, as a picture
mod family; // its owners and children, as a list
mod tables; // its conditions, finalizers and writers

use loopwatch_model::snapshot::{ExplainedObject, Explanation, Health, Snapshot};
use maud::{Markup, html};

use super::findings::{Cards, Labels};
use super::link::{Plain, objects_of_kind};
use super::markup::{Age, UtcTime, ago, beyond, section, state};
use crate::export::view::{
    BlindSpot, Findings, Number, ObjectName, OverallHealth, TimelineEntry, capitalised,
    group_parameter, grouped_findings, obligation_in_words, reason_in_words, timeline_entries,
};

/// Maximum number of timeline entries shown, newest first.
const ENTRIES: usize = 200;

/// The content of the page.
pub(super) fn object(
    snapshot: &Snapshot,
    explanation: &Explanation,
    trace_id: &str,
    not_visible: &[BlindSpot],
) -> Markup {
    html! {
        (trail(&explanation.object))
        (headline(explanation, trace_id))
        div class="columns" {
            div {
                (obligation(explanation))
                (open_findings(snapshot, explanation))
                (timeline(explanation))
            }
            div {
                (tables::conditions(explanation))
                (tables::finalizers(explanation))
                (family::family(explanation))
                (tables::writers(explanation))
                (super::tables::blind_spots(not_visible))
            }
        }
    }
}

/// The content of the page that says why the requested one does not exist.
pub(super) fn problem(title: &str, problem: &str) -> Markup {
    html! {
        nav class="trail" aria-label="Breadcrumb" {
            a href="./" { "Overview" } " › " a href="objects" { "Objects" }
        }
        section class="headline unknown" aria-label="Problem" {
            h1 { (title) }
            p { (capitalised(problem)) "." }
        }
    }
}

/// The links to the pages above.
fn trail(object: &ExplainedObject) -> Markup {
    let ExplainedObject { group, kind, .. } = object;
    html! {
        nav class="trail" aria-label="Breadcrumb" {
            a href="./" { "Overview" } " › " a href="objects" { "Objects" } " › "
            a href=(objects_of_kind(group, kind)) {
                (kind) " " small { (group_parameter(group)) }
            }
        }
    }
}

fn headline(explanation: &Explanation, trace_id: &str) -> Markup {
    let Explanation { at, object, .. } = explanation;
    let why = reason_in_words(&object.signal, &object.reason);
    let json = ObjectName::from(object).path().replacen("object?", "api/v1/explain?", 1);

    html! {
        section class={ "headline " (health(explanation).as_str()) } aria-label="Object" {
            h1 class="title" { (Plain(object.into())) }
            p {
                (state(&object.state, &object.state))
                @if let Some(since) = object.terminating_since.or(object.since) {
                    " for " (Age(*at, since))
                }
                @if !why.is_empty() { ": " (why) }
            }
            @if !explanation.message.is_empty() { p class="message" { (explanation.message) } }
            (facts(explanation, trace_id))
            p class="asof" { "As of " (UtcTime(*at)) " · " a href=(json) { "as JSON" } }
        }
    }
}

/// The health, according to the state of the object and its own findings.
fn health(explanation: &Explanation) -> OverallHealth {
    let object = &explanation.object;
    let own = explanation
        .findings
        .iter()
        .filter(|finding| object.findings.iter().any(|code| code == finding.info().name));
    let found = own.map(|finding| Health::of(finding.severity)).max().unwrap_or(Health::Healthy);

    match (object.state.as_str(), found) {
        ("failed", _) | (_, Health::Failing) => OverallHealth::Known(Health::Failing),
        ("overdue", _) | (_, Health::Degraded) => OverallHealth::Known(Health::Degraded),
        ("converged" | "finished", Health::Healthy) => OverallHealth::Known(Health::Healthy),
        (_, Health::Healthy) => OverallHealth::Unknown,
    }
}

fn facts(explanation: &Explanation, trace_id: &str) -> Markup {
    let Explanation { at, object, generation, observed_generation, .. } = explanation;
    let fact = |name: &str, value: &Markup| html! { div { dt { (name) } dd { (value) } } };
    let observed = match (generation, observed_generation) {
        (0, None) => None,
        (_, None) => Some("not reported by the status".to_owned()),
        (_, Some(observed)) => Some(format!("observed {observed}")),
    };

    html! {
        dl class="facts" {
            @if let Some(created) = object.created {
                (fact("created", &html! { (Age(*at, created)) " ago" }))
            }
            @if let Some(observed) = observed {
                (fact("generation", &html! { (generation) " " small { (observed) } }))
            }
            @if !explanation.phase.is_empty() {
                (fact("phase", &html! {
                    (explanation.phase)
                    @if let Some(since) = explanation.phase_since {
                        " " small { "for " (Age(*at, since)) }
                    }
                }))
            }
            @if let Some(seconds) = explanation.last_convergence_seconds {
                (fact("last convergence", &html! { (Number(seconds.into())) " s" }))
            }
            @if !object.uid.is_empty() { (fact("UID", &html! { (object.uid) })) }
            @if !trace_id.is_empty() {
                (fact("trace", &html! { code class="trace" { (trace_id) } }))
            }
        }
    }
}

fn obligation(explanation: &Explanation) -> Markup {
    let open = explanation.obligation.iter();
    let sentences: Vec<String> =
        open.flat_map(|open| obligation_in_words(explanation.at, open)).collect();
    if sentences.is_empty() {
        return Markup::default();
    }

    let content = html! {
        ul class="panel" { @for sentence in &sentences { li { (capitalised(sentence)) } } }
    };
    section("obligation", "Obligation", &content)
}

fn open_findings(snapshot: &Snapshot, explanation: &Explanation) -> Markup {
    let all = Findings::of(snapshot);
    let cards = Cards { at: explanation.at, findings: &all, labels: Labels::WithRoots };
    let content = html! {
        @if explanation.findings.is_empty() {
            p class="panel" { "No open findings about this object or its kind." }
        }
        (cards.of(&grouped_findings(&explanation.findings)))
    };
    section("findings", "Findings", &content)
}

fn timeline(explanation: &Explanation) -> Markup {
    let entries = timeline_entries(explanation);
    if entries.is_empty() {
        return Markup::default();
    }

    let content = html! {
        p class="lead" {
            "Changes of the object, and findings that opened and closed, the newest first. \
             loopwatch knows only changes that it saw, and those that the object itself dates."
        }
        (waterfall::bars(explanation))
        ol class="timeline" {
            @for entry in entries.iter().rev().take(ENTRIES) {
                li class=(classes(entry)) data-find {
                    (UtcTime(entry.at)) " "
                    span class="age" { (ago(explanation.at, entry.at)) } " "
                    span class="what" { (entry.text) }
                }
            }
        }
        @if let Some(more) = beyond(ENTRIES, entries.len()) {
            p class="more" { "and " (more) " earlier" }
        }
    };
    section("timeline", "Timeline", &content)
}

/// The sort of an entry, and the severity of its finding.
fn classes(entry: &TimelineEntry) -> String {
    match entry.severity {
        Some(severity) => format!("{} {}", entry.sort, severity.as_str()),
        None => entry.sort.to_string(),
    }
}

#[cfg(test)]
mod tests;
