//! Shows the owners and the children of an object as trees.

use loopwatch_model::snapshot::{ExplainedNode, ExplainedObject, Explanation};
use loopwatch_model::time::Timestamp;
use maud::{Markup, html};

use crate::export::presentation::page::link::{Link, Plain};
use crate::export::presentation::page::markup::{Age, section, state};
use crate::export::view::Number;

pub(super) fn family(explanation: &Explanation) -> Markup {
    let Explanation { at, owners, children, more_children, .. } = explanation;
    html! {
        @for (id, title, nodes, more) in
            [("owners", "Owners", owners, 0), ("children", "Children", children, *more_children)]
        {
            @if !nodes.is_empty() || more > 0 {
                (section(id, title, &html! { div class="panel" { (tree(*at, nodes, more)) } }))
            }
        }
    }
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
