//! The web page, for people who open loopwatch through `kubectl port-forward`.
//!
//! The server renders the whole page, so that it is complete without JavaScript and only this
//! module turns a snapshot into markup. The script fetches the page every few seconds and applies
//! the differences. Names and messages come from tenants: `maud`'s templates escape every value
//! ([ADR 17](../../../docs/adr/0017-templates-escape-by-type.md)), and the content security policy
//! prevents the browser from running anything but this server's own script file.

mod frame; // the frame around the content of all pages
mod markup; // parts of pages: sections, tables, times
mod chart; // small charts of the recent past
mod link; // links to objects
mod findings; // cards for findings
mod headline; // the top of the overview
mod kinds; // the kinds, each with the states of its objects
mod writes; // who writes how much
mod operator; // the operator itself
mod operators; // many operators
mod relations; // deletions, ownership and references
mod tables; // unhealthy objects, sources, blind spots
mod timeline; // the last hours
mod object; // one object
mod objects; // a table of objects
mod runbook; // one runbook, and the list of all

use loopwatch_model::snapshot::{ExplainedObject, Explanation, RecentPast, Snapshot};
use maud::{Markup, display, html};

pub(crate) use self::objects::ObjectTable;
use crate::export::view::{Input, Operators, OverallHealth, RecordingInput, Runbook, utc};
use crate::published::PUBLISHED;

/// Allows the browser to load loopwatch's two files and forbids everything inline.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub(crate) const CSS: &str = include_str!("page/page.css");

pub(crate) const JS: &str = include_str!("page/page.js");

/// What a reader wants of the overview.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish<'a> {
    /// The words of the filter.
    pub(crate) words: &'a str,
    /// Whether the charts show all that is known of the past, instead of the last hour.
    pub(crate) whole_past: bool,
}

/// Renders the overview.
#[must_use]
pub(crate) fn render(
    snapshot: &Snapshot,
    past: &RecentPast,
    input: &Input,
    wish: Wish<'_>,
) -> String {
    let charts = chart::Frame::of(snapshot, past, wish.whole_past);
    let health = OverallHealth::of(snapshot, input);
    let blind_spots = input.all_blind_spots(snapshot);
    let main = html! {
        (recording(input))
        (frame::nothing_matches())
        (headline::headline(snapshot, health))
        div class="columns" {
            div {
                (findings::findings(snapshot, health, blind_spots.is_empty()))
                (tables::unhealthy_objects(snapshot))
                (relations::deletions(snapshot))
                (relations::ownership_and_references(snapshot))
                (tables::blind_spots(&blind_spots))
            }
            div {
                (timeline::timeline(past, &charts))
                (operator::operator(snapshot, &charts))
                (kinds::kinds(snapshot))
                (writes::writes(snapshot))
                (tables::sources(snapshot))
            }
        }
    };

    frame::page(health.as_str(), &frame::filter(wish.words), &main)
}

/// Renders the overview of many operators. `snapshot` is that of loopwatch itself.
#[must_use]
pub(crate) fn render_operators(all: &Operators, snapshot: &Snapshot, input: &Input) -> String {
    let health = OverallHealth::of(snapshot, input);
    let blind_spots = input.all_blind_spots(snapshot);
    let main = html! {
        (frame::nothing_matches())
        (operators::operators(all, snapshot.at))
        @if !snapshot.findings.is_empty() {
            (findings::findings(snapshot, health, true))
        }
        (tables::blind_spots(&blind_spots))
        (tables::sources(snapshot))
    };

    let title = all.health().map_or("unknown", |health| health.as_str());
    frame::page_of_many(title, &frame::filter(""), &main)
}

/// Renders the page of one object. `trace_id` is empty without traces.
#[must_use]
pub(crate) fn render_object(
    snapshot: &Snapshot,
    explanation: &Explanation,
    trace_id: &str,
    input: &Input,
) -> String {
    let not_visible = input.blind_spots_of_one_object(snapshot);
    let main = html! {
        (recording(input))
        (object::object(snapshot, explanation, trace_id, &not_visible))
    };

    let ExplainedObject { kind, name, state, .. } = &explanation.object;
    frame::page(&format!("{state} · {kind} {name}"), &frame::search(), &main)
}

/// Renders the list of the runbooks.
#[must_use]
pub(crate) fn render_runbooks(input: &Input) -> String {
    let main = html! { (recording(input)) (runbook::list()) };
    frame::page("Runbooks", &Markup::default(), &main)
}

/// Renders a runbook.
#[must_use]
pub(crate) fn render_runbook(runbook: &Runbook, input: &Input) -> String {
    let main =
        html! { (recording_below("../", input)) (runbook::runbook(runbook, PUBLISHED.docs)) };
    frame::page_below("../", runbook.name, &Markup::default(), &main)
}

/// Renders a page that says why the requested one does not exist.
#[must_use]
pub(crate) fn render_problem(title: &str, problem: &str, input: &Input) -> String {
    let main = html! { (recording(input)) (object::problem(title, problem)) };
    frame::page(title, &Markup::default(), &main)
}

/// Renders a page in place of a plain text that says why a request failed. `depth` is the number of
/// folders in its path. Strangers may see it, so it says nothing else.
#[must_use]
pub(crate) fn render_refusal(title: &str, text: &str, depth: usize) -> String {
    frame::refusal(&"../".repeat(depth), title, text)
}

/// Renders the table of objects.
#[must_use]
pub(crate) fn render_objects(
    snapshot: &Snapshot,
    table: &ObjectTable<'_>,
    input: &Input,
) -> String {
    let main = html! { (recording(input)) (objects::objects(snapshot, table)) };
    frame::page("Objects", &Markup::default(), &main)
}

/// Names the operator if it is one of many. Or says that loopwatch shows a recording, and whether it is
/// still playing: while it is, the script refreshes the page every second.
fn recording(input: &Input) -> Markup {
    recording_below("", input)
}

/// The same for a page in a folder, from which the relative URL `root` leads to the overview.
fn recording_below(root: &str, input: &Input) -> Markup {
    if let Some(operator) = &input.operator {
        return operators::of_many(root, operator);
    }
    let Some(RecordingInput { begins: Some(begins), shows: Some(shows), speed, .. }) =
        &input.recording
    else {
        return Markup::default();
    };
    let elapsed = display(shows.since(*begins));
    match speed {
        Some(speed) => html! {
            p class="recording" role="note" data-every="1000" {
                b { "A recording plays" } " at " (speed) " times its original speed. "
                (elapsed) " have passed since it began."
            }
        },
        None => html! {
            p class="recording" role="note" {
                b { "The recording has ended." } " loopwatch shows its last moment, "
                (utc(*shows)) ", " (elapsed) " after it began. All ages count until that moment."
            }
        },
    }
}

#[cfg(test)]
mod tests;
