//! The ownership graph: owner references, resolved as the garbage collector would.

use hashbrown::HashMap;

use super::{DEFINITION, KindFacts, NAMESPACE, Node, NodeId};
use crate::model::world::finalizer_actors::is_of_garbage_collector;
use crate::observation::{OwnerReference, names_kind};

/// Objects and their owner references.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    kinds: HashMap<(String, String), KindFacts>,
    /// The references of all nodes, grouped by node.
    pub(super) edges: Vec<Edge>,
    /// The end of the references of each node in `edges`.
    ends: Vec<u32>,
    /// The references to each node.
    pub(super) inward: Vec<Vec<u32>>,
    /// The namespaces and definitions among the nodes, with the objects that are deleted with them.
    pub(super) contents: HashMap<u32, Vec<u32>>,
    /// Groups whose kinds are unknown because their API server does not respond.
    silent: Vec<String>,
}

/// One owner reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) dependent: u32,
    /// The node with the UID, even if the garbage collector does not accept it as the owner.
    pub(super) owner: Option<u32>,
    pub(super) standing: Standing,
    pub(super) blocks: bool,
}

/// How the garbage collector resolves an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The owner exists.
    Found,
    /// There is no such owner: its UID, kind, name or namespace differs.
    Absent,
    /// The API server does not serve the kind of the owner, or a cluster-scoped object names an
    /// owner in a namespace. The garbage collector leaves the object alone.
    Unresolvable,
    /// loopwatch cannot know whether the owner exists. The prediction assumes that it does.
    Unknown,
}

impl Graph {
    /// Builds the graph. `silent` lists the groups whose API server does not respond.
    #[must_use]
    pub fn new(
        nodes: impl IntoIterator<Item = Node>,
        kinds: impl IntoIterator<Item = KindFacts>,
        silent: Vec<String>,
    ) -> Self {
        let key = |kind: KindFacts| ((kind.group.clone(), kind.kind.clone()), kind);
        let mut graph =
            Self { kinds: kinds.into_iter().map(key).collect(), silent, ..Self::default() };
        let mut by_uid: HashMap<String, u32> = HashMap::new();

        for node in nodes {
            let Ok(id) = u32::try_from(graph.nodes.len()) else { break };
            // Some kinds are served in two groups, and an object without a UID can own nothing.
            if node.uid.is_empty() || by_uid.try_insert(node.uid.clone(), id).is_ok() {
                graph.nodes.push(node);
            }
        }

        graph.inward.resize(graph.nodes.len(), Vec::new());
        for id in graph.ids() {
            for reference in &graph.nodes[id.index()].owners {
                let edge = graph.edge(id.0, reference, &by_uid);
                if let (Some(owner), Ok(number)) = (edge.owner, u32::try_from(graph.edges.len())) {
                    graph.inward[owner as usize].push(number);
                }

                graph.edges.push(edge);
            }

            graph.ends.push(u32::try_from(graph.edges.len()).unwrap_or(u32::MAX));
        }

        graph.contents = graph.find_contents();
        graph
    }

    /// The object at this position.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// All positions.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// The position of an object.
    #[must_use]
    pub fn find(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<NodeId> {
        let is = |node: &Node| {
            node.name == name
                && node.namespace == namespace
                && node.kind == kind
                && node.group == group
        };
        self.ids().find(|id| is(self.node(*id)))
    }

    /// What is known about a kind.
    #[must_use]
    pub fn kind(&self, group: &str, kind: &str) -> Option<&KindFacts> {
        self.kinds.get(&(group.to_owned(), kind.to_owned()))
    }

    /// The kind that an owner reference names.
    fn named_kind(&self, group: &str, text: &str) -> Option<&KindFacts> {
        self.kind(group, text).or_else(|| {
            let mut kinds = self.kinds.values();
            kinds.find(|known| known.group == group && names_kind(text, &known.kind))
        })
    }

    /// The owner references of an object, with the owner if it is in the graph.
    pub fn owners(
        &self,
        id: NodeId,
    ) -> impl Iterator<Item = (&OwnerReference, Standing, Option<NodeId>)> {
        let edges = self.references(id.0).map(|edge| &self.edges[edge as usize]);
        let references = self.nodes[id.index()].owners.iter();
        references
            .zip(edges)
            .map(|(reference, edge)| (reference, edge.standing, edge.owner.map(NodeId)))
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The positions of the references of a node.
    pub(super) fn references(&self, node: u32) -> std::ops::Range<u32> {
        let begin = node.checked_sub(1).map_or(0, |previous| self.ends[previous as usize]);
        begin..self.ends[node as usize]
    }

    /// Whether the garbage collector watches objects of the kind of this node.
    pub(super) fn is_collected(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        self.kind(&node.group, &node.kind).is_none_or(|kind| kind.collected)
    }

    /// The finalizers of a node without those of the garbage collector itself.
    pub(super) fn own_finalizers(&self, node: u32) -> impl Iterator<Item = &String> {
        let finalizers = self.nodes[node as usize].finalizers.iter();
        finalizers.filter(|finalizer| !is_of_garbage_collector(finalizer))
    }

    fn edge(
        &self,
        dependent: u32,
        reference: &OwnerReference,
        by_uid: &HashMap<String, u32>,
    ) -> Edge {
        let owner = by_uid.get(&reference.uid).copied();
        let standing = self.standing(&self.nodes[dependent as usize], reference, owner);
        Edge { dependent, owner, standing, blocks: reference.blocks_deletion }
    }

    fn standing(
        &self,
        dependent: &Node,
        reference: &OwnerReference,
        owner: Option<u32>,
    ) -> Standing {
        let (group, version) =
            reference.api_version.split_once('/').unwrap_or(("", &reference.api_version));
        let Some(kind) = self.named_kind(group, &reference.kind) else {
            let silent = self.silent.iter().any(|silent| silent == group);
            return if silent { Standing::Unknown } else { Standing::Unresolvable };
        };
        if !kind.versions.iter().any(|served| served == version) {
            return Standing::Unresolvable;
        }

        if kind.namespaced && dependent.namespace.is_empty() {
            return Standing::Unresolvable;
        }

        // The garbage collector looks for the owner by name in the namespace of the dependent, and
        // compares its UID.
        let namespace = if kind.namespaced { &dependent.namespace } else { "" };
        match owner.map(|owner| &self.nodes[owner as usize]) {
            Some(owner) => {
                let is_it = owner.kind == kind.kind
                    && owner.group == group
                    && owner.name == reference.name
                    && owner.namespace == namespace;
                if is_it { Standing::Found } else { Standing::Absent }
            }
            None if kind.complete => Standing::Absent,
            None => Standing::Unknown,
        }
    }

    fn find_contents(&self) -> HashMap<u32, Vec<u32>> {
        let (mut namespaces, mut definitions) = (HashMap::new(), HashMap::new());
        for id in self.ids() {
            let Node { group, kind, name, .. } = self.node(id);
            match (group.as_str(), kind.as_str()) {
                NAMESPACE => _ = namespaces.insert(name.as_str(), id.0),
                DEFINITION => _ = definitions.insert(name.as_str(), id.0),
                _ => {}
            }
        }

        let mut contents: HashMap<u32, Vec<u32>> = HashMap::new();
        if namespaces.is_empty() && definitions.is_empty() {
            return contents;
        }

        let definition_of: HashMap<(&str, &str), u32> = self
            .kinds
            .values()
            .filter_map(|facts| {
                let name = format!("{}.{}", facts.resource, facts.group);
                Some((
                    (facts.group.as_str(), facts.kind.as_str()),
                    *definitions.get(name.as_str())?,
                ))
            })
            .collect();

        for id in self.ids() {
            let Node { group, kind, namespace, .. } = self.node(id);
            let within = namespaces.get(namespace.as_str()).filter(|_| !namespace.is_empty());
            let defined_by = definition_of.get(&(group.as_str(), kind.as_str()));

            for container in
                within.into_iter().chain(defined_by).filter(|container| **container != id.0)
            {
                contents.entry(*container).or_default().push(id.0);
            }
        }

        contents
    }
}
