//! Shows the deleted objects as a tree: below each object or group of objects, the objects whose
//! deletion it causes. Objects of one kind and fate share a line, so the tree has few lines even
//! for thousands of objects.

use std::collections::BTreeMap;

use loopwatch_model::cascade::{Fate, NodeId, Taken};

use super::context::Forecast;
use crate::export::presentation::report::tree::TreeLine;
use crate::export::view::Number;

/// Objects of one kind and fate.
struct DeletedGroup {
    kind: String,
    fate: Fate,
    depends_on_timing: bool,
    nodes: Vec<NodeId>,
}

/// The objects, by the object whose deletion causes theirs.
type Caused<'a> = BTreeMap<Option<NodeId>, Vec<&'a Taken>>;

/// Maximum number of names on one line.
const NAMES: usize = 4;
/// Maximum number of levels.
const DEPTH: usize = 6;
/// Maximum number of lines.
const LINES: usize = 40;

pub(super) fn lines(forecast: &Forecast<'_>) -> Vec<TreeLine> {
    let mut caused = Caused::new();
    for taken in &forecast.prediction.taken {
        caused.entry(taken.because).or_default().push(taken);
    }

    let mut lines = Vec::new();
    let roots = groups(forecast, &caused, &[None]);
    let hidden = grow(forecast, &caused, roots, None, &mut lines);

    if hidden > 0 {
        let label = format!("… and {} more; -o json lists them", Number(hidden as u64));
        lines.push(TreeLine::new(label, Vec::new()));
    }

    lines
}

/// Adds groups with everything below them. Returns the number of objects for which there was no
/// room.
fn grow(
    forecast: &Forecast<'_>,
    caused: &Caused<'_>,
    groups_here: Vec<DeletedGroup>,
    above: Option<&[bool]>,
    lines: &mut Vec<TreeLine>,
) -> usize {
    let mut hidden = 0;
    let count = groups_here.len();
    for (index, group) in groups_here.into_iter().enumerate() {
        if lines.len() >= LINES {
            hidden += group.nodes.len() + below(caused, &group.nodes);
            continue;
        }

        // The targets are below nothing, so they have no branches.
        let last = above.map_or_else(Vec::new, |above| [above, &[index + 1 == count]].concat());
        let mut label = label(forecast, &group);
        let parents: Vec<Option<NodeId>> = group.nodes.iter().copied().map(Some).collect();
        let children = groups(forecast, caused, &parents);
        let deepest = last.len() >= DEPTH && !children.is_empty();

        if deepest {
            let below = below(caused, &group.nodes);
            label.push_str(&format!(", and {} below", Number(below as u64)));
        }

        lines.push(TreeLine::new(label, last.clone()));
        if !deepest {
            hidden += grow(forecast, caused, children, Some(&last), lines);
        }
    }

    hidden
}

/// The objects whose deletion these objects cause, by kind and fate.
fn groups(
    forecast: &Forecast<'_>,
    caused: &Caused<'_>,
    parents: &[Option<NodeId>],
) -> Vec<DeletedGroup> {
    let mut found: BTreeMap<(String, Fate, bool), Vec<NodeId>> = BTreeMap::new();
    for taken in parents.iter().filter_map(|parent| caused.get(parent)).flatten() {
        found
            .entry((forecast.name(taken.node).kind_name(), taken.fate, taken.depends_on_timing))
            .or_default()
            .push(taken.node);
    }

    found
        .into_iter()
        .map(|((kind, fate, depends_on_timing), nodes)| DeletedGroup {
            kind,
            fate,
            depends_on_timing,
            nodes,
        })
        .collect()
}

/// The number of objects below these.
fn below(caused: &Caused<'_>, nodes: &[NodeId]) -> usize {
    let mut open: Vec<NodeId> = nodes.to_vec();
    let mut count = 0;
    while let Some(node) = open.pop() {
        let children = caused.get(&Some(node)).map(Vec::as_slice).unwrap_or_default();
        count += children.len();
        open.extend(children.iter().map(|taken| taken.node));
    }

    count
}

fn label(forecast: &Forecast<'_>, group: &DeletedGroup) -> String {
    let DeletedGroup { kind, fate, depends_on_timing, nodes } = group;
    let number =
        if nodes.len() > 1 { format!("{} × ", Number(nodes.len() as u64)) } else { String::new() };
    let fate = match fate {
        _ if *depends_on_timing => " (may be left in deletion)",
        Fate::Removed => "",
        Fate::Terminating => " (left in deletion)",
        Fate::Waiting => " (later)",
    };

    format!("{number}{kind} {}{fate}", forecast.places(nodes, NAMES))
}
