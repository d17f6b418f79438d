//! Shows the owners and the children of an object: as a picture, and as lists with all details.

use loopwatch_model::snapshot::{ExplainedNode, ExplainedObject, Explanation};
use loopwatch_model::time::Timestamp;
use maud::{Markup, html};

use super::graph;
use crate::export::presentation::page::link::{Link, Plain};
use crate::export::presentation::page::markup::{Age, section, state};
use crate::export::view::Number;

pub(super) fn family(explanation: &Explanation) -> Markup {
    let Explanation { at, owners, children, more_children, .. } = explanation;
    if owners.is_empty() && children.is_empty() && *more_children == 0 {
        return Markup::default();
    }

    let content = html! {
        div class="panel" {
            (graph::graph(explanation))
            details data-key="family" {
                summary { "As a list, with the reasons of the states" }
                @for (title, nodes, more) in
                    [("Owners", owners, 0), ("Children", children, *more_children)]
                {
                    @if !nodes.is_empty() || more > 0 { h3 { (title) } (tree(*at, nodes, more)) }
                }
            }
        }
    };
    section("family", "Owners and children", &content)
}

/// Objects, each with the objects below it. The model limits their number and depth.
fn tree(at: Timestamp, nodes: &[ExplainedNode], more: u64) -> Markup {
    html! {
        ul class="tree" {
            @for node in nodes {
                li data-find {
                    (relative(at, &node.object))
                    @if node.repeated { " " small { "repeated" } }
                    @if !node.nodes.is_empty() || node.more > 0 {
                        (tree(at, &node.nodes, node.more))
                    }
                }
            }
            @if more > 0 { li { small { "and " (Number(more)) " more" } } }
        }
    }
}

fn relative(at: Timestamp, object: &ExplainedObject) -> Markup {
    let is_at_rest = matches!(object.state.as_str(), "converged" | "finished");
    html! {
        @match object.state.as_str() {
            "absent" => { (Plain(object.into())) " " (state("failed", "does not exist")) }
            "not_visible" => {
                (Plain(object.into())) " " (state("unknown", "not visible to loopwatch"))
            }
            // A ConfigMap has no status.
            "unknown" if object.reason == "NothingToJudge" => { (Link(object.into())) }
            word => { (Link(object.into())) " " (state(word, word)) }
        }
        @if let Some(since) = object.terminating_since { " for " (Age(at, since)) }
        @if !is_at_rest && !object.signal.is_empty() { " " small { (object.signal) } }
        @for code in &object.findings { " " span class="tag" { (code) } }
    }
}
