//! The ownership graph at the end of the observations of a dump or a recording, for `what-if`.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::cascade::{KindFacts, Node};
use loopwatch_model::observation::{
    Condition, ConditionStatus, LeftOut, NamespaceView, ObjectKey, ObjectView, Observation,
    OwnerReference, Scope, WatchId, WatchedKind,
};

use crate::sources::survey::OwnershipGraph;

/// The objects of each watch.
#[derive(Debug, Default)]
pub(crate) struct ObservedObjects {
    kinds: Vec<WatchedKind>,
    current: BTreeMap<WatchId, Objects>,
    /// The lists that have begun and not ended.
    lists: BTreeMap<WatchId, Objects>,
    /// The namespaces of which the file says something.
    namespaces: BTreeMap<String, NamespaceState>,
}

/// The deletion of a namespace.
#[derive(Debug, Default)]
struct NamespaceState {
    deleting: bool,
    /// What the namespace controller says about a deletion that does not end.
    kept_by: Vec<String>,
}

/// The conditions with which the namespace controller reports a deletion that ends only after
/// somebody has acted. While objects only end, it reports `NamespaceContentRemaining`.
const HANGING: [&str; 4] = [
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
];

/// The metadata of objects; their kind is that of the watch.
type Objects = BTreeMap<ObjectKey, Node>;

impl ObservedObjects {
    pub(crate) fn see(&mut self, observation: Observation) {
        match observation {
            Observation::KindsDiscovered(kinds) => self.kinds = kinds,
            Observation::ListBegan { watch, .. } => _ = self.lists.insert(watch, Objects::new()),
            Observation::Listed { watch, object } => {
                self.lists.entry(watch).or_default().insert(object.key.clone(), node(*object));
            }
            Observation::ListEnded { watch, .. } => {
                let listed = self.lists.remove(&watch).unwrap_or_default();
                self.current.insert(watch, listed);
            }
            Observation::Applied { watch, object } => {
                self.current.entry(watch).or_default().insert(object.key.clone(), node(*object));
            }
            Observation::Deleted { watch, key, .. } => {
                self.current.entry(watch).or_default().remove(&key);
            }
            Observation::NamespacesListed(views) => {
                let entry = |view: NamespaceView| (view.name.clone(), NamespaceState::of(&view));
                self.namespaces = views.into_iter().map(entry).collect();
            }
            Observation::NamespaceSeen(view) => {
                self.namespaces.insert(view.name.clone(), NamespaceState::of(&view));
            }
            Observation::NamespaceGone(name) => _ = self.namespaces.remove(&name),
            _ => {}
        }
    }

    /// The namespaces of which the file says something, or has objects.
    pub(crate) fn namespaces(&self) -> BTreeSet<&str> {
        let keys = self.current.values().flat_map(BTreeMap::keys);
        let of_objects = keys.map(|key| key.namespace.as_str()).filter(|name| !name.is_empty());
        of_objects.chain(self.namespaces.keys().map(String::as_str)).collect()
    }

    /// The graph of all objects, with a namespace, which no watch contains.
    pub(crate) fn graph_with_namespace(mut self, name: &str) -> OwnershipGraph {
        let kind = "Namespace".to_owned();
        let NamespaceState { deleting, kept_by } = self.namespaces.remove(name).unwrap_or_default();
        let mut graph = self.graph();
        graph.nodes.push(Node {
            kind: kind.clone(),
            name: name.to_owned(),
            deleting,
            kept_by,
            ..Node::default()
        });
        graph.kinds.push(KindFacts {
            kind,
            resource: "namespaces".to_owned(),
            versions: vec!["v1".to_owned()],
            collected: true,
            ..KindFacts::default()
        });

        graph
    }

    /// The graph of all objects. An owner that is not among them may exist, because a file has only
    /// some kinds.
    pub(crate) fn graph(mut self) -> OwnershipGraph {
        let mut graph = OwnershipGraph::default();
        for kind in &self.kinds {
            let objects = self.current.remove(&kind.watch).unwrap_or_default();
            let of_kind = |node: Node| {
                let (group, kind) = (kind.group.clone(), kind.kind.clone());
                Node { group, kind, ..node }
            };
            graph.nodes.extend(objects.into_values().map(of_kind));
            add_kind(&mut graph.kinds, kind);
        }

        graph.silent = unknown_groups(&graph);
        add_named_versions(&mut graph);
        graph.left_out.push(LeftOut {
            what: "all other kinds".to_owned(),
            why: "not in the file".to_owned(),
        });
        graph
    }
}

impl NamespaceState {
    fn of(view: &NamespaceView) -> Self {
        let hangs = |condition: &&Condition| {
            condition.status == ConditionStatus::True && HANGING.contains(&&*condition.r#type)
        };
        let said = |Condition { r#type, message, .. }: &Condition| {
            format!("its condition {type} says: {message}")
        };
        let kept_by = view.conditions.iter().filter(hangs).map(said).collect();

        Self { deleting: view.deleted.is_some(), kept_by }
    }
}

/// An object without its kind.
fn node(object: ObjectView) -> Node {
    let ObjectView { key, uid, owners, finalizers, deleted, .. } = object;
    let ObjectKey { namespace, name } = key;
    let deleting = deleted.is_some();

    Node { namespace, name, uid, owners, finalizers, deleting, ..Node::default() }
}

/// Adds a kind, unless another watch of the kind has added it.
fn add_kind(kinds: &mut Vec<KindFacts>, kind: &WatchedKind) {
    let is_same = |known: &KindFacts| known.group == kind.group && known.kind == kind.kind;
    if kinds.iter().any(is_same) {
        return;
    }

    kinds.push(KindFacts {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
        versions: kind.versions.iter().chain([&kind.version]).cloned().collect(),
        namespaced: kind.scope != Scope::Cluster,
        complete: false,
        collected: true,
    });
}

/// The groups of owners whose kind the file lacks, so that the prediction does not take them for
/// kinds that the API server does not serve.
fn unknown_groups(graph: &OwnershipGraph) -> Vec<String> {
    let owners = graph.nodes.iter().flat_map(|node| &node.owners);
    let unknown = owners.filter_map(|owner| {
        let (group, _) = group_and_version(owner);
        let is_known =
            graph.kinds.iter().any(|kind| kind.group == group && kind.kind == owner.kind);
        (!is_known).then_some(group)
    });
    let groups: BTreeSet<&str> = unknown.collect();

    groups.into_iter().map(str::to_owned).collect()
}

/// Adds the versions in which owner references name the kinds, for kinds whose served versions are
/// not known: those have only the version of the objects.
fn add_named_versions(graph: &mut OwnershipGraph) {
    for kind in graph.kinds.iter_mut().filter(|kind| kind.versions.len() == 1) {
        let owners = graph.nodes.iter().flat_map(|node| &node.owners);
        let named: BTreeSet<&str> = owners
            .filter(|owner| owner.kind == kind.kind)
            .map(group_and_version)
            .filter(|(group, _)| *group == kind.group)
            .map(|(_, version)| version)
            .collect();
        kind.versions.extend(named.into_iter().map(str::to_owned));
    }
}

fn group_and_version(owner: &OwnerReference) -> (&str, &str) {
    owner.api_version.split_once('/').unwrap_or(("", &owner.api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str, owner: &str) -> Box<ObjectView> {
        let reference = OwnerReference {
            api_version: "example.io/v1beta1".to_owned(),
            kind: "Widget".to_owned(),
            name: "web".to_owned(),
            uid: owner.to_owned(),
            ..OwnerReference::default()
        };
        Box::new(ObjectView {
            key: ObjectKey { namespace: "shop".to_owned(), name: name.to_owned() },
            uid: uid.to_owned(),
            owners: if owner.is_empty() { Vec::new() } else { vec![reference] },
            ..ObjectView::default()
        })
    }

    #[test]
    fn the_graph_has_the_objects_at_the_end() {
        let scope = Scope::AllNamespaces;
        let watch = WatchId::new("example.io", "widgets", &scope);
        let kind: WatchedKind = serde_json::from_value(serde_json::json!({
            "watch": watch, "group": "example.io", "version": "v1", "kind": "Widget",
            "resource": "widgets", "scope": scope, "role": "primary", "status": "unknown",
            "why": "in_snapshot",
        }))
        .expect("a kind");

        let mut objects = ObservedObjects::default();
        let began = |epoch| Observation::ListBegan { watch: watch.clone(), epoch };
        let listed = |object| Observation::Listed { watch: watch.clone(), object };
        let ended =
            |epoch| Observation::ListEnded { watch: watch.clone(), epoch, version: String::new() };
        for observation in [
            Observation::KindsDiscovered(vec![kind]),
            began(1),
            listed(object("old", "0", "")),
            ended(1),
            began(2),
            listed(object("web", "1", "")),
            listed(object("gone", "2", "")),
            ended(2),
            Observation::Applied { watch: watch.clone(), object: object("child", "3", "1") },
            Observation::Deleted {
                watch: watch.clone(),
                key: object("gone", "", "").key,
                version: String::new(),
            },
        ] {
            objects.see(observation);
        }

        let graph = objects.graph();
        let names: Vec<(&str, &str)> =
            graph.nodes.iter().map(|node| (&*node.kind, &*node.name)).collect();
        assert_eq!(names, [("Widget", "child"), ("Widget", "web")]);
        assert_eq!(graph.kinds[0].versions, ["v1", "v1beta1"], "a reference names the second");
        assert!(!graph.kinds[0].complete && graph.silent.is_empty());
    }
}
