//! One look at one object: the object, its owners and its children, as observations.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use futures::StreamExt as _;
use loopwatch_model::cascade::Node;
use loopwatch_model::observation::{
    Answer, Cause, LeftOut, MAX_OBJECT_BYTES, ObjectAddress, ObjectKey, ObjectView, Observation,
    Probe, Role, Scope, StatusSchema, WatchId, WatchedKind, Why,
};
use loopwatch_model::time::Timestamp;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::graph::{ListProgress, OwnershipGraph, is_at};
use super::kind_names::kind_name;
use super::listing::{self, MOST_OBJECTS, ObjectBudget, collection_of, reason};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{
    ApiKind, ApiResources, Cluster, JSON, METADATA, SecretAccess, events_about,
};
use crate::sources::decoding::{self, DecodeOptions, HashKey};
use crate::sources::probes::{ObjectLookups, WatchedChildKinds};

/// The result of one look at an object.
pub(crate) struct CloseUp {
    pub(crate) object: ObjectView,
    /// The object and its family, in the order in which watches would send them.
    pub(crate) observations: Vec<Observation>,
    /// Parts of the cluster that loopwatch could not read.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Answers questions about single objects by reading them.
pub(crate) struct LimitedLookups {
    lookups: ObjectLookups,
    left: usize,
    until: Instant,
}

/// The requests for one look.
struct Look<'a> {
    cluster: &'a Cluster,
    resources: &'a ApiResources,
    hash_key: &'a HashKey,
}

/// Objects that loopwatch reads completely. For others, it knows only their place in the tree.
const READ: usize = 200;
/// Requests at the same time.
const AT_ONCE: usize = 8;
/// Limit on lookups of other objects, such as the targets of references, and on the time for all of
/// them.
const ANSWERS: (usize, Duration) = (50, Duration::from_secs(10));
/// Kinds that everything depends on, but whose objects own none in practice. To find dependents,
/// loopwatch would have to list the whole cluster.
const CHILDLESS: &[(&str, &str)] =
    &[("", "Namespace"), ("", "Node"), ("apiextensions.k8s.io", "CustomResourceDefinition")];

impl CloseUp {
    /// Reads an object, its owners and its children.
    ///
    /// # Errors
    /// The failure of the request for the object itself, such as 404.
    pub(crate) async fn take(
        cluster: &Cluster,
        resources: &ApiResources,
        kind: &ApiKind,
        object: &ObjectAddress,
        hash_key: &HashKey,
        progress: impl Fn(ListProgress),
    ) -> Result<Self, Failure> {
        let look = Look { cluster, resources, hash_key };
        let view = look.read(kind, &object.namespace, &object.name).await?;
        let scope = match object.namespace.as_str() {
            "" => Scope::AllNamespaces,
            namespace => Scope::Namespace(namespace.to_owned()),
        };
        let is_childless = CHILDLESS.contains(&(object.group.as_str(), object.kind.as_str()));
        let mut graph = match is_childless {
            true => OwnershipGraph::default(),
            false => {
                OwnershipGraph::read(cluster, resources, &scope, cluster.namespace(), progress)
                    .await
            }
        };

        graph.ensure(object, Some(node_of(kind, &view)));
        let members = family(&graph.nodes, object);
        let (views, failed) = look.members(&members, object, &view).await;
        let mut left_out = graph.left_out;

        left_out.extend(failed);
        let mut observations = look.observations(views);
        match events_about(cluster, object).await {
            Ok(events) => {
                let watch = look.watched(&object.group, &object.kind).watch;
                let seen =
                    |event| Observation::EventSeen { watch: watch.clone(), event: Box::new(event) };
                observations.extend(events.into_iter().map(seen));
            }
            Err(failure) => {
                let forbidden = failure.cause == Cause::Forbidden;
                let why =
                    if forbidden { "no permission to list".to_owned() } else { reason(&failure) };
                left_out.push(LeftOut { what: "Kubernetes Events about it".to_owned(), why });
            }
        }

        Ok(Self { object: view, observations, left_out })
    }
}

/// The names of the objects of a kind in a namespace; fewer if the account may not list all.
pub(crate) async fn object_names(
    cluster: &Cluster,
    kind: &ApiKind,
    namespace: &str,
) -> Vec<String> {
    let scope = match namespace {
        "" => Scope::AllNamespaces,
        namespace => Scope::Namespace(namespace.to_owned()),
    };
    let listed = listing::list(cluster, kind, &scope, "", &ObjectBudget::new(MOST_OBJECTS)).await;

    listed.nodes.into_iter().map(|node| node.name).collect()
}

/// The object, its owners up to the roots, and its descendants, the object first. Those that are
/// being deleted come before others.
fn family<'a>(nodes: &'a [Node], object: &ObjectAddress) -> Vec<&'a Node> {
    let by_uid: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| !node.uid.is_empty())
        .map(|(i, node)| (node.uid.as_str(), i))
        .collect();

    let mut children: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        node.owners
            .iter()
            .for_each(|owner| children.entry(owner.uid.as_str()).or_default().push(index));
    }

    let Some(root) = nodes.iter().position(|node| is_at(node, object)) else { return Vec::new() };
    let (mut seen, mut members) = (BTreeSet::from([root]), vec![root]);
    let up = |node: &Node| {
        node.owners.iter().filter_map(|owner| by_uid.get(owner.uid.as_str()).copied()).collect()
    };
    let down = |node: &Node| match node.uid.as_str() {
        "" => Vec::new(),
        uid => children.get(uid).cloned().unwrap_or_default(),
    };

    follow(nodes, root, &mut seen, &mut members, up);
    follow(nodes, root, &mut seen, &mut members, down);
    members.into_iter().map(|index| &nodes[index]).collect()
}

/// Adds all members that `next` leads to.
fn follow(
    nodes: &[Node],
    root: usize,
    seen: &mut BTreeSet<usize>,
    members: &mut Vec<usize>,
    next: impl Fn(&Node) -> Vec<usize>,
) {
    let mut open = VecDeque::from([root]);
    while let Some(index) = open.pop_front() {
        let mut found = next(&nodes[index]);
        found.sort_by_key(|index| !nodes[*index].deleting);
        for index in found.into_iter().filter(|index| seen.insert(*index)) {
            members.push(index);
            open.push_back(index);
        }
    }
}

fn node_of(kind: &ApiKind, view: &ObjectView) -> Node {
    Node {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: view.key.namespace.clone(),
        name: view.key.name.clone(),
        uid: view.uid.clone(),
        owners: view.owners.clone(),
        finalizers: view.finalizers.clone(),
        deleting: view.deleted.is_some(),
        kept_by: Vec::new(),
    }
}

/// An object about which only its place in the graph is known.
fn outline(node: &Node, now: Timestamp) -> ObjectView {
    ObjectView {
        key: ObjectKey { namespace: node.namespace.clone(), name: node.name.clone() },
        uid: node.uid.clone(),
        owners: node.owners.clone(),
        finalizers: node.finalizers.clone(),
        deleted: node.deleting.then_some(now),
        ..ObjectView::default()
    }
}

impl Look<'_> {
    /// Reads an object. Only the status is of interest, so this reads only the metadata of built-in
    /// kinds without one, such as Secrets.
    async fn read(
        &self,
        kind: &ApiKind,
        namespace: &str,
        name: &str,
    ) -> Result<ObjectView, Failure> {
        let path = format!("{}/{}", collection_of(kind, namespace), percent_encode(name));
        let accept = if kind.is_built_in() && !kind.has_status { METADATA } else { JSON };
        let document: Box<RawValue> =
            self.cluster.get_json_within(&path, accept, MAX_OBJECT_BYTES).await?;
        let options: DecodeOptions<'_> = self.hash_key.into();

        decoding::object(document.get().as_bytes(), options)
            .map_err(|error| Failure::new(Cause::Undecodable, format!("{path}: {error}")))
    }

    /// Reads as many members of the family as there is room for. Returns the objects by kind, and
    /// the kinds of those that it cannot read.
    async fn members(
        &self,
        members: &[&Node],
        object: &ObjectAddress,
        read: &ObjectView,
    ) -> (BTreeMap<(String, String), Vec<ObjectView>>, Vec<LeftOut>) {
        let now = self.cluster.clock().now();
        let requests = members.iter().enumerate().map(|(index, node)| async move {
            let kind = self.resources.find_kind(&node.group, &node.kind);
            match kind.filter(|_| index < READ) {
                _ if is_at(node, object) => (*node, Ok(Some(read.clone()))),
                None => (*node, Ok(None)),
                Some(kind) => (*node, self.read(kind, &node.namespace, &node.name).await.map(Some)),
            }
        });

        let mut requests = futures::stream::iter(requests).buffered(AT_ONCE);
        let mut views: BTreeMap<(String, String), Vec<ObjectView>> = BTreeMap::new();
        let mut failed: BTreeMap<String, String> = BTreeMap::new();

        while let Some((node, result)) = requests.next().await {
            let view = match result {
                Ok(Some(view)) => view,
                Ok(None) => outline(node, now),
                Err(failure) if failure.status == Some(404) => continue, // deleted meanwhile
                Err(failure) => {
                    let kind = self.resources.find_kind(&node.group, &node.kind);
                    let name = kind.map_or_else(|| node.kind.clone(), kind_name);
                    let why = if failure.cause == Cause::Forbidden {
                        "no permission to get".to_owned()
                    } else {
                        reason(&failure)
                    };

                    failed.entry(name).or_insert(why);
                    outline(node, now)
                }
            };
            views.entry((node.group.clone(), node.kind.clone())).or_default().push(view);
        }

        (views, failed.into_iter().map(|(what, why)| LeftOut { what, why }).collect())
    }

    fn observations(&self, views: BTreeMap<(String, String), Vec<ObjectView>>) -> Vec<Observation> {
        let kinds: Vec<(WatchedKind, Vec<ObjectView>)> = views
            .into_iter()
            .map(|((group, kind), views)| (self.watched(&group, &kind), views))
            .collect();
        let mut observations = vec![Observation::KindsDiscovered(
            kinds.iter().map(|(kind, _)| kind.clone()).collect(),
        )];
        for (WatchedKind { watch, .. }, views) in kinds {
            observations.push(Observation::ListBegan { watch: watch.clone(), epoch: 1 });
            let listed =
                |view| Observation::Listed { watch: watch.clone(), object: Box::new(view) };
            observations.extend(views.into_iter().map(listed));
            observations.push(Observation::ListEnded { watch, epoch: 1, version: String::new() });
        }

        observations
    }

    /// Returns the watched kind of the family's objects. As in a dump, the kind may have objects
    /// that loopwatch did not read.
    fn watched(&self, group: &str, kind: &str) -> WatchedKind {
        let known = self.resources.find_kind(group, kind).cloned().unwrap_or_default();
        let scope = if known.namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        WatchedKind {
            watch: WatchId::new(group, &known.resource, &scope),
            group: group.to_owned(),
            version: known.version,
            kind: kind.to_owned(),
            resource: known.resource,
            scope,
            role: Role::Primary,
            status: StatusSchema::Unknown,
            why: Why::InDump,
            missing: Vec::new(),
            suspected: false,
            filtered: false,
            metadata_only: false,
            versions: Vec::new(),
        }
    }
}

impl LimitedLookups {
    pub(crate) fn new(cluster: &Cluster, hash_key: HashKey) -> Self {
        let lookups = ObjectLookups::new(
            cluster.clone(),
            hash_key,
            SecretAccess::Metadata,
            WatchedChildKinds::default(),
        );
        Self { lookups, left: ANSWERS.0, until: Instant::now() + ANSWERS.1 }
    }

    /// Answers a question. Beyond the limits, every answer is a failure.
    pub(crate) async fn answer(&mut self, probe: &Probe) -> Answer {
        if self.left == 0 {
            return Answer::Failed(Cause::Throttled);
        }

        self.left -= 1;
        timeout_at(self.until, self.lookups.ask(probe))
            .await
            .unwrap_or(Answer::Failed(Cause::Timeout))
    }
}
