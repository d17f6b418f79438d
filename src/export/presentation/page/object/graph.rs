//! Draws the owners and the children of an object: owners on its left, children on its right, each
//! with its state. Similar children share one node.

use loopwatch_model::snapshot::{ExplainedNode, ExplainedObject, Explanation};
use maud::{Markup, html};

use crate::export::view::{Number, ObjectName};

/// The size of a node, and the distances between the corners of neighbours.
const NODE: (usize, usize) = (190, 38);
const STEP: (usize, usize) = (238, 46);

/// The maximum number of nodes below another one, and of levels. The list shows all.
const MAX_NODES: usize = 8;
const MAX_LEVELS: usize = 4;

/// So many similar objects share a node.
const MANY: usize = 3;

/// A node of the picture, with those on its far side.
struct Node<'a> {
    object: Option<&'a ExplainedObject>,
    /// The number of objects that the node stands for.
    count: u64,
    nodes: Vec<Node<'a>>,
}

/// A node in its place, by column and by half rows.
struct Placed<'a> {
    node: &'a Node<'a>,
    column: usize,
    row: usize,
    /// The place of the node on its near side.
    near: Option<(usize, usize)>,
}

/// The picture.
pub(super) fn graph(explanation: &Explanation) -> Markup {
    let owners = grouped(&explanation.owners, 0, 1);
    let children = grouped(&explanation.children, explanation.more_children, 1);
    let own = Node { object: Some(&explanation.object), count: 1, nodes: Vec::new() };
    let (left, rows_left) = (depth(&owners), rows(&owners));
    let (columns, rows) = (left + depth(&children) + 1, rows_left.max(rows(&children)).max(1));

    // The object is beside the middle of its children; the lower side moves to the middle.
    let middle = rows - 1;
    let mut placed = vec![Placed { node: &own, column: left, row: middle, near: None }];
    for (nodes, is_owner) in [(&owners, true), (&children, false)] {
        let mut row = rows - self::rows(nodes).min(rows);
        place(nodes, (left, middle), is_owner, &mut row, &mut placed);
    }

    let (width, height) = ((columns - 1) * STEP.0 + NODE.0, (rows - 1) * STEP.1 + NODE.1);
    html! {
        div class="scroll graph" tabindex="0" role="region" aria-label="Owners and children as a picture" {
            svg width=(width + 2) height=(height + 2) viewBox={ "-1 -1 " (width + 2) " " (height + 2) } {
                @for node in &placed { (edge(node)) }
                @for node in &placed { (drawn(node, node.near.is_none())) }
            }
        }
    }
}

/// Makes nodes of objects; those of one kind, with the same state and nothing below, share one.
fn grouped(nodes: &[ExplainedNode], more: u64, level: usize) -> Vec<Node<'_>> {
    let mut found: Vec<Node<'_>> = Vec::new();
    let same = |a: &ExplainedObject, b: &ExplainedObject| {
        (&a.group, &a.kind, &a.state, &a.findings) == (&b.group, &b.kind, &b.state, &b.findings)
    };
    let is_leaf = |node: &ExplainedNode| node.nodes.is_empty() && node.more == 0;
    let similar = |node: &ExplainedNode| {
        nodes.iter().filter(|other| is_leaf(other) && same(&other.object, &node.object)).count()
    };

    for node in nodes {
        let shares = is_leaf(node) && similar(node) >= MANY;
        let known = found.iter_mut().find(|known| {
            shares
                && known.nodes.is_empty()
                && known.object.is_some_and(|it| same(it, &node.object))
        });
        match known {
            Some(known) => known.count += 1,
            None => {
                let below = if level < MAX_LEVELS { &*node.nodes } else { &[] };
                let nodes = grouped(below, node.more, level + 1);
                found.push(Node { object: Some(&node.object), count: 1, nodes });
            }
        }
    }

    let hidden = found.drain(MAX_NODES.min(found.len())..).map(|node| node.count).sum::<u64>();
    if hidden + more > 0 {
        found.push(Node { object: None, count: hidden + more, nodes: Vec::new() });
    }

    found
}

/// The number of columns that nodes take.
fn depth(nodes: &[Node<'_>]) -> usize {
    nodes.iter().map(|node| 1 + depth(&node.nodes)).max().unwrap_or(0)
}

/// The number of rows that nodes take.
fn rows(nodes: &[Node<'_>]) -> usize {
    nodes.iter().map(|node| rows(&node.nodes).max(1)).sum()
}

/// Places nodes below each other, each beside the middle of those on its far side.
fn place<'a>(
    nodes: &'a [Node<'a>],
    near: (usize, usize),
    is_owner: bool,
    row: &mut usize,
    placed: &mut Vec<Placed<'a>>,
) {
    let column = if is_owner { near.0.saturating_sub(1) } else { near.0 + 1 };
    for node in nodes {
        let taken = rows(&node.nodes).max(1);
        let own = *row + taken - 1;
        placed.push(Placed { node, column, row: own, near: Some(near) });

        let mut far = *row;
        place(&node.nodes, (column, own), is_owner, &mut far, placed);
        *row += 2 * taken;
    }
}

/// The corner of a node.
const fn corner((column, row): (usize, usize)) -> (usize, usize) {
    (column * STEP.0, row * STEP.1 / 2)
}

/// The line between a node and the one on its near side.
fn edge(placed: &Placed<'_>) -> Markup {
    let Some(near) = placed.near else { return Markup::default() };
    let (own, near) = (corner((placed.column, placed.row)), corner(near));
    let (left, right) = if own.0 < near.0 { (own, near) } else { (near, own) };
    let (x1, x2) = (left.0 + NODE.0, right.0);
    let (y1, y2, middle) = (left.1 + NODE.1 / 2, right.1 + NODE.1 / 2, (x1 + x2) / 2);
    html! {
        path d={ "M" (x1) " " (y1) "C" (middle) " " (y1) " " (middle) " " (y2) " " (x2) " " (y2) } {}
    }
}

fn drawn(placed: &Placed<'_>, is_own: bool) -> Markup {
    let (x, y) = corner((placed.column, placed.row));
    let Some(object) = placed.node.object else {
        return html! {
            text x=(x + 14) y=(y + 24) { "and " (Number(placed.node.count)) " more" }
        };
    };
    let (class, word) = match object.state.as_str() {
        "absent" => ("failed", "does not exist"),
        "not_visible" => ("unknown", "not visible to loopwatch"),
        // A ConfigMap has no status.
        "unknown" if object.reason == "NothingToJudge" => ("unknown", ""),
        word => (word, word),
    };
    let count = placed.node.count;
    let exists = !matches!(object.state.as_str(), "absent" | "not_visible");
    let is_link = exists && count == 1 && !is_own;

    let content = html! {
        title {
            (ObjectName::from(object).in_full()) @if !word.is_empty() { ": " (word) }
            @for code in &object.findings { ", " (code) }
        }
        rect class=[is_own.then_some("own")] width="100%" height="100%" rx="7" {}
        rect class={ "mark " (class) } x="1" y="1" width="5" height=(NODE.1 - 2) rx="2" {}
        text class="kindname" x="14" y="15" {
            (object.kind) @if !word.is_empty() { " · " (word) }
            @if !object.findings.is_empty() { " ⚠" }
        }
        text x="14" y="31" {
            @if count == 1 { (object.name) } @else { (Number(count)) " objects" }
        }
    };
    html! {
        svg x=(x) y=(y) width=(NODE.0) height=(NODE.1) {
            @if is_link { a href=(ObjectName::from(object).path()) { (content) } }
            @else { (content) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::sample;

    #[test]
    fn similar_children_share_a_node_and_the_rest_is_counted() {
        let explanation = sample::explanation();
        let picture = graph(&explanation).into_string();
        for expected in [
            ">6 objects</text>",
            ">and 3 more</text>",
            ">and 12 more</text>",
            ">Fleet · converged</text>",
            ">Plan · does not exist</text>",
            ">ConfigMap · unknown</text>",
            "name=orders-settings\">",
        ] {
            assert!(picture.contains(expected), "{expected} is missing: {picture}");
        }

        assert!(!picture.contains("name=large"), "no link to an object that does not exist");
        assert_eq!(picture.matches("<path").count() + 1, nodes(&picture), "each has one edge");
    }

    fn nodes(picture: &str) -> usize {
        picture.matches("class=\"kindname\"").count() + picture.matches(" more</text>").count()
    }

    #[test]
    fn nodes_do_not_overlap() {
        let explanation = sample::explanation();
        let (owners, children) =
            (grouped(&explanation.owners, 0, 1), grouped(&explanation.children, 12, 1));
        let (mut placed, left) = (Vec::new(), depth(&owners));
        for (nodes, is_owner) in [(&owners, true), (&children, false)] {
            place(nodes, (left, 0), is_owner, &mut 0, &mut placed);
        }

        for (index, one) in placed.iter().enumerate() {
            let clash = placed[index + 1..]
                .iter()
                .any(|other| one.column == other.column && one.row.abs_diff(other.row) < 2);
            assert!(!clash, "column {}, row {}", one.column, one.row);
        }
    }
}
