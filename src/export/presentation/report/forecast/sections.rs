//! The parts of the report below the tree.

use std::collections::BTreeMap;

use loopwatch_model::cascade::{
    Blocker, Cascade, Claim, Expected, Kept, KindFacts, Node, NodeId, Reason, Step, Stranded,
    built_in_actor,
};
use loopwatch_model::observation::{LeftOut, with_group};

use super::context::Forecast;
use crate::export::presentation::report::document::{IN_JSON, Item, List, More, SHOWN};
use crate::export::view::Number;

/// A list with a title.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// One sentence about the items; may be empty.
    pub(super) lead: &'static str,
    pub(super) list: List,
}

/// Maximum number of names in one item.
const NAMES: usize = 3;
/// Maximum number of unread parts of the cluster in one item: all kinds of a usual cluster.
const PARTS: usize = 100;
/// Maximum number of names in one command.
const NAMES_IN_COMMAND: usize = 12;

/// What stops the deletion, now or later.
pub(super) fn obstacles(forecast: &Forecast<'_>) -> Vec<Section> {
    let prediction = forecast.prediction;
    let mut blockers: Vec<&Blocker> = prediction.blockers.iter().collect();
    blockers.sort_by_key(|blocker| blocker.finalizers.is_empty()); // the causes come first

    with_items([
        section("Blocked by", "", &blockers, |blocker| blocked(forecast, blocker).into()),
        section(
            "Being deleted already",
            "These objects stay in deletion. This deletion neither waits for them nor removes them. \
             The deletion of their dependents begins only after they are gone.",
            &prediction.lingering,
            |blocker| waiting(forecast, blocker, "").into(),
        ),
        section(
            "Finalizers without a controller",
            "After the deletion, nothing removes these finalizers. Their objects can then no longer be deleted.",
            &prediction.stranded,
            |stranded| stranded_item(forecast, stranded).into(),
        ),
    ])
}

/// The objects that stay, and those that go in any case.
pub(super) fn dependents(forecast: &Forecast<'_>) -> Vec<Section> {
    let anyway = match forecast.prediction.anyway.as_slice() {
        [] => Vec::new(),
        ids => vec![objects(forecast, ids)],
    };

    with_items([
        section("Dependents that stay", "", &kept_groups(forecast), |kept| {
            kept_item(forecast, kept).into()
        }),
        section(
            "Deleted in any case",
            "These objects are being deleted already, or their owners are, do not exist, or are in another namespace. \
             The garbage collector deletes them without this deletion, too.",
            &anyway,
            |text| text.clone().into(),
        ),
        section(
            "Expected of Kubernetes",
            "The forecast assumes that Kubernetes removes these finalizers. loopwatch has not checked the condition.",
            &forecast.prediction.expected,
            |expected| expected_item(forecast, expected).into(),
        ),
        section("Parts of the installation that stay", "", forecast.shared, |left_out| {
            left_out_item(left_out).into()
        }),
    ])
}

/// What to do, and what the prediction cannot know.
pub(super) fn advice(forecast: &Forecast<'_>) -> Vec<Section> {
    let steps = forecast.prediction.steps.iter();
    let steps = steps.map(|step| step_item(forecast, step)).collect();

    with_items([
        Section {
            title: "Better order",
            lead: "",
            list: List { is_numbered: true, items: steps, ..List::default() },
        },
        section(
            "Not visible to loopwatch",
            "The deletion may take objects of these kinds, too.",
            &by_reason(forecast.left_out),
            |(why, parts)| hidden_item(why, parts).into(),
        ),
    ])
}

fn with_items<const N: usize>(sections: [Section; N]) -> Vec<Section> {
    sections.into_iter().filter(|section| !section.list.items.is_empty()).collect()
}

/// The commands of a step.
pub(super) fn commands(forecast: &Forecast<'_>, step: &Step) -> Vec<String> {
    match step {
        Step::Delete(nodes) => delete_command(forecast, nodes, "").into_iter().collect(),
        Step::Definitions(nodes) => delete_command(forecast, nodes, "").into_iter().collect(),
        Step::Wait(nodes) => {
            nodes.iter().take(NAMES).filter_map(|node| explain_command(forecast, *node)).collect()
        }
        Step::Targets => {
            let is_definition =
                |id: &NodeId| forecast.graph.node(*id).kind == "CustomResourceDefinition";
            let operator = forecast.operator.is_some();
            let targets =
                forecast.request.targets.iter().filter(|id| !operator || !is_definition(id));
            let flag = match forecast.request.cascade {
                Cascade::Background => String::new(), // the default of kubectl
                cascade => format!(" --cascade={}", cascade.as_str()),
            };

            targets.filter_map(|target| delete_command(forecast, &[*target], &flag)).collect()
        }
    }
}

fn section<T>(
    title: &'static str,
    lead: &'static str,
    all: &[T],
    item: impl Fn(&T) -> Item,
) -> Section {
    let items = all.iter().take(SHOWN).map(item).collect();
    let more = More::beyond(SHOWN, all.len(), IN_JSON);
    Section { title, lead, list: List { items, more, ..List::default() } }
}

fn blocked(forecast: &Forecast<'_>, blocker: &Blocker) -> String {
    let already = forecast.graph.node(blocker.node).deleting;
    waiting(forecast, blocker, if already { "is being deleted already and " } else { "" })
}

/// The object, and why it stays in deletion.
fn waiting(forecast: &Forecast<'_>, blocker: &Blocker, already: &str) -> String {
    let object = forecast.name(blocker.node).in_full();
    let stranded = |finalizer: &String| {
        forecast.prediction.stranded.iter().any(|other| other.finalizer == *finalizer)
    };
    let finalizers = blocker.finalizers.iter().take(NAMES).map(|finalizer| {
        match (built_in_actor(finalizer), finalizer.split_once('/')) {
            _ if stranded(finalizer) => {
                format!("keeps the finalizer {finalizer}, which no controller will remove")
            }
            (Some(actor), _) => {
                format!("keeps the finalizer {finalizer}, which is removed by {actor}")
            }
            (None, Some((domain, _))) => {
                format!("waits until the controller of {domain} removes the finalizer {finalizer}")
            }
            (None, None) => {
                format!("waits until its controller removes the finalizer {finalizer}")
            }
        }
    });

    let mut causes: Vec<String> = finalizers.collect();
    let reasons = forecast.graph.node(blocker.node).kept_by.iter();
    causes.extend(reasons.take(NAMES).map(|reason| format!("stays because {reason}")));
    if !blocker.waits_for.is_empty() {
        causes.push(format!("waits for {}", objects(forecast, &blocker.waits_for)));
    }

    format!("{object} {already}{}", causes.join(" and "))
}

fn expected_item(forecast: &Forecast<'_>, Expected { finalizer, nodes }: &Expected) -> String {
    let actor = built_in_actor(finalizer).unwrap_or_default();
    format!("{finalizer} of {}: {actor}", objects(forecast, nodes))
}

fn stranded_item(forecast: &Forecast<'_>, stranded: &Stranded) -> String {
    let Stranded { finalizer, claim, nodes } = stranded;
    let possible = match claim {
        Claim::Domain => "",
        Claim::Possible => {
            " (suspected: it is on the operator's objects, but names another domain)"
        }
    };

    format!("{finalizer}{possible}: {}", objects(forecast, nodes))
}

/// The dependents that stay, by kind, reason and owner.
fn kept_groups(forecast: &Forecast<'_>) -> Vec<(Kept, Vec<NodeId>)> {
    let mut groups: Vec<(Kept, Vec<NodeId>)> = Vec::new();
    let mut positions: BTreeMap<(String, Reason, NodeId), usize> = BTreeMap::new();
    for kept in &forecast.prediction.kept {
        let position = *positions
            .entry((forecast.name(kept.node).kind_name(), kept.reason, kept.owner))
            .or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, nodes)) => nodes.push(kept.node),
            None => groups.push((*kept, vec![kept.node])),
        }
    }

    groups
}

fn kept_item(forecast: &Forecast<'_>, (kept, nodes): &(Kept, Vec<NodeId>)) -> String {
    let (objects, owner) = (objects(forecast, nodes), forecast.name(kept.owner).in_full());
    match kept.reason {
        Reason::Orphaned => format!("{objects}: without the reference to {owner}"),
        Reason::OtherOwner(other) => {
            format!("{objects}: also owned by {}", forecast.name(other).in_full())
        }
        Reason::UnknownOwner => {
            format!("{objects}: also owned by an object that loopwatch cannot read")
        }
        Reason::Unresolvable => {
            format!("{objects}: the garbage collector cannot resolve an owner reference")
        }
        Reason::OwnerStays => format!("{objects}: {owner} never goes"),
        Reason::NotCollected => {
            format!("{objects}: the garbage collector does not delete objects of this kind")
        }
    }
}

fn left_out_item(left_out: &LeftOut) -> String {
    format!("{}: {}", left_out.what, left_out.why)
}

/// The parts that loopwatch could not read, by reason.
fn by_reason(left_out: &[LeftOut]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for LeftOut { what, why } in left_out {
        reasons.entry(why).or_default().push(what);
    }

    reasons.into_iter().collect()
}

fn hidden_item(why: &str, parts: &[&str]) -> String {
    if let [part] = parts {
        return format!("{part}: {why}");
    }

    let shown: Vec<&str> = parts.iter().take(PARTS).copied().collect();
    let more = parts.len().saturating_sub(PARTS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{why}: {}{rest}", shown.join(", "))
}

fn step_item(forecast: &Forecast<'_>, step: &Step) -> Item {
    let text = match step {
        Step::Delete(nodes) => {
            format!("Delete {}, and wait until they are gone.", objects(forecast, nodes))
        }
        Step::Wait(nodes) => format!(
            "Wait until controllers have removed the finalizers of {}. The deletion has already begun.",
            objects(forecast, nodes)
        ),
        Step::Targets if forecast.operator.is_some() => {
            "Delete the operator: its workload, service account, bindings and roles.".to_owned()
        }
        Step::Targets => match forecast.request.targets.first() {
            Some(target) => format!("Delete {}.", forecast.name(*target).in_full()),
            None => String::new(),
        },
        Step::Definitions(nodes) => format!("Delete {}.", objects(forecast, nodes)),
    };

    let text = match step {
        Step::Delete(nodes) if nodes.len() == 1 => text.replace("they are gone", "it is gone"),
        _ => text,
    };

    Item { text, commands: commands(forecast, step) }
}

/// `Widget.example.io team-a/a, team-a/b and 7 more`, for objects of one kind; otherwise with the
/// kind of each.
fn objects(forecast: &Forecast<'_>, ids: &[NodeId]) -> String {
    let Some(first) = ids.first() else { return "nothing".to_owned() };
    if ids.iter().all(|id| forecast.name(*id).kind_name() == forecast.name(*first).kind_name()) {
        return format!("{} {}", forecast.name(*first).kind_name(), forecast.places(ids, NAMES));
    }

    let shown: Vec<String> =
        ids.iter().take(NAMES).map(|id| forecast.name(*id).in_full()).collect();
    let more = ids.len().saturating_sub(NAMES);
    let rest = if more > 0 { format!(" and {} more", Number(more as u64)) } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

/// The command that deletes objects of one kind, if it fits on a line: objects of one namespace by
/// name, or all objects.
fn delete_command(forecast: &Forecast<'_>, ids: &[NodeId], flag: &str) -> Option<String> {
    let first = forecast.graph.node(*ids.first()?);
    let facts = forecast.graph.kind(&first.group, &first.kind)?;
    let resource = resource(facts);
    let nodes = || ids.iter().map(|id| forecast.graph.node(*id));

    if ids.len() <= NAMES_IN_COMMAND
        && nodes().all(|node| node.namespace == first.namespace && is_plain(&node.name))
    {
        let names: Vec<&str> = nodes().map(|node| node.name.as_str()).collect();
        let (names, within) = (names.join(" "), within(first));

        return Some(format!("kubectl delete {resource} {names}{within}{flag}"));
    }

    let of_kind = forecast.graph.ids().filter(|id| {
        let node = forecast.graph.node(*id);
        node.group == first.group && node.kind == first.kind
    });
    let all = facts.complete && of_kind.count() == ids.len() && ids.len() > 1;

    all.then(|| {
        format!(
            "kubectl delete {resource} --all{}{flag}",
            if facts.namespaced { " -A" } else { "" }
        )
    })
}

/// The command that shows which controller has to act on an object.
fn explain_command(forecast: &Forecast<'_>, id: NodeId) -> Option<String> {
    let node = forecast.graph.node(id);
    let facts = forecast.graph.kind(&node.group, &node.kind)?;
    let command = || format!("loopwatch explain {} {}{}", resource(facts), node.name, within(node));
    is_plain(&node.name).then(command)
}

/// The resource with its group, for kubectl.
fn resource(KindFacts { group, resource, .. }: &KindFacts) -> String {
    with_group(resource, group)
}

/// Whether a name needs no quoting and is no flag. RBAC accepts a name such as `--all`.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c))
}

/// The flag that names the namespace of an object, if it is in one.
fn within(node: &Node) -> String {
    let flag = || format!(" -n {}", node.namespace);
    if node.namespace.is_empty() { String::new() } else { flag() }
}
