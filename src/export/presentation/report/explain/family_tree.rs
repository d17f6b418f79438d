//! Shows the owners of an object above it, and its children below it. Similar children share a
//! line.

use std::collections::BTreeMap;

use loopwatch_model::snapshot::{ExplainedFinalizer, ExplainedNode, ExplainedObject, Explanation};
use loopwatch_model::time::Timestamp;

use crate::export::presentation::report::tree::TreeLine;
use crate::export::view::{Number, ObjectName, age, kind_name};

/// Maximum number of names on one line.
const NAMES: usize = 4;
/// Maximum number of lines of the tree.
const LINES: usize = 30;

/// The lines of the tree: the chain of first owners, the object, and its children.
pub(super) fn lines(explanation: &Explanation) -> Vec<TreeLine> {
    let at = explanation.at;
    let mut chain: Vec<&ExplainedNode> = Vec::new();
    let mut above = explanation.owners.first();

    while let Some(owner) = above {
        chain.push(owner);
        above = owner.nodes.first();
    }

    let mut lines = Vec::new();
    let mut last = Vec::new();
    for owner in chain.iter().rev() {
        lines.push(TreeLine::new(label(at, owner, &[&owner.object]), last.clone()));
        last.push(true);
    }

    lines.push(TreeLine::new(
        format!("{} ◀", ObjectName::from(&explanation.object).in_full()),
        last.clone(),
    ));
    let hidden = grow(at, &explanation.children, explanation.more_children, &last, &mut lines);
    if hidden > 0 {
        lines.push(TreeLine::new(
            format!("… and {} more; -o json lists them", Number(hidden)),
            Vec::new(),
        ));
    }

    lines
}

/// The owners that are not in the tree.
pub(super) fn other_owners(explanation: &Explanation) -> Vec<String> {
    let mut others = Vec::new();
    let (mut child, mut owners) = (None, &explanation.owners);
    loop {
        others.extend(owners.iter().skip(1).map(|owner| {
            let of = child
                .map(|child| format!(", of {}", ObjectName::from(child).in_full()))
                .unwrap_or_default();
            label(explanation.at, owner, &[&owner.object]) + &of
        }));
        let Some(first) = owners.first() else { return others };

        (child, owners) = (Some(&first.object), &first.nodes);
    }
}

/// Adds objects with everything below them. Returns the number of objects that do not fit on the
/// screen.
fn grow(
    at: Timestamp,
    nodes: &[ExplainedNode],
    more: u64,
    above: &[bool],
    lines: &mut Vec<TreeLine>,
) -> u64 {
    let groups = groups(at, nodes);
    let (mut hidden, count) = (0, groups.len());
    for (index, group) in groups.into_iter().enumerate() {
        let Some(first) = group.first() else { continue };
        if lines.len() >= LINES {
            hidden += group.iter().map(|node| 1 + below(node)).sum::<u64>();
            continue;
        }

        let last = [above, &[index + 1 == count && more == 0]].concat();
        let objects: Vec<&ExplainedObject> = group.iter().map(|node| &node.object).collect();
        lines.push(TreeLine::new(label(at, first, &objects), last.clone()));
        hidden += grow(at, &first.nodes, first.more, &last, lines);
    }

    if more > 0 {
        lines
            .push(TreeLine::new(format!("… and {} more", Number(more)), [above, &[true]].concat()));
    }

    hidden
}

/// The nodes in groups: those that look the same share one.
fn groups(at: Timestamp, nodes: &[ExplainedNode]) -> Vec<Vec<&ExplainedNode>> {
    let mut groups: Vec<Vec<&ExplainedNode>> = Vec::new();
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    for node in nodes {
        let ExplainedObject { group, kind, findings, .. } = &node.object;
        let is_plain =
            node.nodes.is_empty() && node.more == 0 && !node.repeated && findings.is_empty();
        let key = (kind_name(group, kind), remarks(at, &node.object, true));

        match places.get(&key).filter(|_| is_plain).and_then(|place| groups.get_mut(*place)) {
            Some(group) => group.push(node),
            None => {
                if is_plain {
                    places.insert(key, groups.len());
                }
                groups.push(vec![node]);
            }
        }
    }

    groups
}

fn below(node: &ExplainedNode) -> u64 {
    node.more + node.nodes.iter().map(|node| 1 + below(node)).sum::<u64>()
}

/// `3 × Pod team-a/a, team-a/b, team-a/c, converged`.
fn label(at: Timestamp, first: &ExplainedNode, objects: &[&ExplainedObject]) -> String {
    let number = if objects.len() > 1 {
        format!("{} × ", Number(objects.len() as u64))
    } else {
        String::new()
    };
    let names: Vec<String> =
        objects.iter().take(NAMES).map(|object| ObjectName::from(*object).in_namespace()).collect();
    let more = objects.len().saturating_sub(NAMES);
    let rest = if more > 0 { format!(" and {} more", Number(more as u64)) } else { String::new() };

    let kind = kind_name(&first.object.group, &first.object.kind);
    let again = if first.repeated { " (repeated)" } else { "" };
    format!(
        "{number}{kind} {}{rest}{}{again}",
        names.join(", "),
        remarks(at, &first.object, objects.len() > 1)
    )
}

/// `, terminating for 3d4h; finalizer x: the controller of y [FinalizerStuck]`. For a `group` of
/// objects, this omits what differs among them.
fn remarks(at: Timestamp, object: &ExplainedObject, group: bool) -> String {
    let ExplainedObject { state, signal, terminating_since, finalizers, findings, .. } = object;
    let mut text = match state.as_str() {
        "absent" => ", which does not exist".to_owned(),
        "not_visible" => ", not visible to loopwatch".to_owned(),
        // A ConfigMap has no status.
        "unknown" if object.reason == "NothingToJudge" => String::new(),
        state => format!(", {state}"),
    };

    if let Some(since) = terminating_since.filter(|_| !group) {
        text.push_str(&format!(" for {}", age(at, since)));
    }

    if !signal.is_empty() && !group && !matches!(state.as_str(), "converged" | "finished") {
        text.push_str(&format!(": {signal}"));
    }

    for ExplainedFinalizer { name, actor, .. } in finalizers {
        let by = if actor == "unknown" { "nobody known".to_owned() } else { actor.clone() };
        text.push_str(&format!("; finalizer {name}, to be removed by {by}"));
    }

    if !findings.is_empty() {
        text.push_str(&format!(" [{}]", findings.join(", ")));
    }

    text
}
