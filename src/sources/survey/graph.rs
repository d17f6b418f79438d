//! Reads the ownership graph of a cluster once: the metadata of all objects that the account may
//! list, in pages.

use std::time::Duration;

use futures::StreamExt as _;
use loopwatch_model::cascade::{KindFacts, Node};
use loopwatch_model::observation::{Cause, LeftOut, ObjectAddress, Scope};

use super::kind_names::{is_collected, kind_name};
use super::listing::{self, Listed, MOST_OBJECTS, ObjectBudget, collection_of};
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::{ApiKind, ApiResources, Cluster, METADATA, is_name};

/// Objects, kinds, and the parts of the cluster that loopwatch could not read.
#[derive(Debug, Default)]
pub(crate) struct OwnershipGraph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) kinds: Vec<KindFacts>,
    /// Groups whose API server does not respond.
    pub(crate) silent: Vec<String>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Kinds that the API server has stopped serving since discovery, by group and name.
    withdrawn: Vec<(String, String)>,
}

/// The progress of the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListProgress {
    pub(crate) listed: usize,
    pub(crate) kinds: usize,
    pub(crate) objects: usize,
}

/// Lists that loopwatch requests at the same time.
const AT_ONCE: usize = 6;
/// How often loopwatch reads the served kinds again because a list was not found, and the wait
/// before the second time. Discovery can lag behind a deleted definition.
const REDISCOVERIES: u32 = 3;
const REDISCOVER_AFTER: Duration = Duration::from_secs(1);

impl OwnershipGraph {
    /// Reads all objects in `scope`. For one namespace, it also reads the cluster-scoped kinds
    /// whose objects own one of its objects, but no other namespaces: dependents there cannot have
    /// an owner here. `home` is the namespace to read if the account may not list all namespaces.
    pub(crate) async fn read(
        cluster: &Cluster,
        resources: &ApiResources,
        scope: &Scope,
        home: &str,
        progress: impl Fn(ListProgress),
    ) -> Self {
        Self::read_at_most(MOST_OBJECTS, cluster, resources, scope, home, progress).await
    }

    pub(super) async fn read_at_most(
        most: usize,
        cluster: &Cluster,
        resources: &ApiResources,
        scope: &Scope,
        home: &str,
        progress: impl Fn(ListProgress),
    ) -> Self {
        let room = ObjectBudget::new(most);
        let mut graph = Self { silent: resources.unknown().cloned().collect(), ..Self::default() };
        let wanted = |kind: &&ApiKind| {
            is_collected(kind) && (kind.namespaced || scope.namespace().is_none())
        };
        let first: Vec<&ApiKind> = resources.kinds().filter(wanted).collect();

        graph.list(&room, cluster, &first, scope, home, &progress).await;
        let owners: Vec<&ApiKind> = resources
            .kinds()
            .filter(|kind| {
                is_collected(kind)
                    && scope.namespace().is_some()
                    && !kind.namespaced
                    && graph.refers_to(kind)
            })
            .collect();

        graph.list(&room, cluster, &owners, &Scope::Cluster, home, &progress).await;
        for kind in resources.kinds() {
            let known = |facts: &KindFacts| facts.group == kind.group && facts.kind == kind.kind;
            let withdrawn =
                |(group, name): &(String, String)| *group == kind.group && *name == kind.kind;

            if !graph.kinds.iter().any(known) && !graph.withdrawn.iter().any(withdrawn) {
                graph.kinds.push(facts(kind, false));
            }
        }

        let silent = graph.silent.iter().map(|group| LeftOut {
            what: format!("all kinds of {group}"),
            why: "the API server of the group does not respond".to_owned(),
        });

        graph.left_out.extend(silent);
        graph.left_out.sort();

        // Lists end in any order, but the output must be the same for the same cluster.
        let place = |node: &Node| {
            (node.group.clone(), node.kind.clone(), node.namespace.clone(), node.name.clone())
        };
        graph.nodes.sort_by_cached_key(place);
        graph.hold_namespaces();

        graph
    }

    /// Adds an object that no list contains, such as one of a kind that the account may get but not
    /// list. An object that was not read and that a complete list lacks does not exist.
    pub(crate) fn ensure(&mut self, object: &ObjectAddress, read: Option<Node>) {
        let listed = |facts: &KindFacts| {
            facts.complete && facts.group == object.group && facts.kind == object.kind
        };
        let exists = read.is_some() || !self.kinds.iter().any(listed);
        if exists && !self.nodes.iter().any(|node| is_at(node, object)) {
            let ObjectAddress { group, kind, namespace, name } = object.clone();
            self.nodes.push(Node { group, kind, namespace, name, ..read.unwrap_or_default() });
            self.hold_namespaces();
        }
    }

    /// Notes that no namespace goes while the API server of a group does not respond: the namespace
    /// controller cannot know whether the namespace has objects of that group.
    fn hold_namespaces(&mut self) {
        let reason = |group: &String| format!("the API server of {group} does not respond");
        let reasons: Vec<String> = self.silent.iter().map(reason).collect();
        let is_namespace = |node: &&mut Node| node.group.is_empty() && node.kind == "Namespace";
        for node in self.nodes.iter_mut().filter(is_namespace) {
            node.kept_by.clone_from(&reasons);
        }
    }

    /// Lists kinds. A definition can be deleted, or stop serving a version, between discovery and
    /// the list. The API server answers such a list with 404, so this function then reads the
    /// served kinds again.
    async fn list(
        &mut self,
        room: &ObjectBudget,
        cluster: &Cluster,
        kinds: &[&ApiKind],
        scope: &Scope,
        home: &str,
        progress: &impl Fn(ListProgress),
    ) {
        let mut missing = self.list_once(room, cluster, kinds, scope, home, progress).await;
        for attempt in 0..REDISCOVERIES {
            if missing.is_empty() {
                return;
            }
            if attempt > 0 {
                tokio::time::sleep(REDISCOVER_AFTER).await;
            }

            let Ok(resources) = ApiResources::read(cluster).await else { continue };
            missing.retain(|kind| !self.is_withdrawn(kind, &resources));

            let kinds: Vec<&ApiKind> = missing
                .iter()
                .map(|kind| resources.find_kind(&kind.group, &kind.kind).unwrap_or(kind))
                .collect();
            missing = self.list_once(room, cluster, &kinds, scope, home, progress).await;
        }

        for kind in missing {
            self.kinds.push(facts(&kind, false));
            let why = "the API server lists this kind but does not find it".to_owned();
            self.left_out.push(LeftOut { what: kind_name(&kind), why });
        }
    }

    /// Whether the API server has stopped serving a kind. Remembers such a kind.
    fn is_withdrawn(&mut self, kind: &ApiKind, resources: &ApiResources) -> bool {
        let withdrawn = resources.find_kind(&kind.group, &kind.kind).is_none()
            && !resources.unknown().any(|group| *group == kind.group);
        if withdrawn {
            self.withdrawn.push((kind.group.clone(), kind.kind.clone()));
        }

        withdrawn
    }

    /// Lists each kind, and returns the kinds that the API server does not find.
    async fn list_once(
        &mut self,
        room: &ObjectBudget,
        cluster: &Cluster,
        kinds: &[&ApiKind],
        scope: &Scope,
        home: &str,
        progress: &impl Fn(ListProgress),
    ) -> Vec<ApiKind> {
        let lists = kinds.iter().map(|kind| async move {
            (*kind, listing::list(cluster, kind, scope, home, room).await)
        });
        let mut lists = futures::stream::iter(lists).buffer_unordered(AT_ONCE);
        let (mut listed, mut missing) = (0, Vec::new());

        while let Some((kind, Listed { nodes, left_out, found })) = lists.next().await {
            listed += 1;
            if found {
                self.kinds.push(facts(kind, left_out.is_none()));
                self.nodes.extend(nodes);

                if let Some(why) = left_out {
                    self.left_out.push(LeftOut { what: kind_name(kind), why });
                }
            } else {
                missing.push(kind.clone());
            }

            progress(ListProgress { listed, kinds: kinds.len(), objects: self.nodes.len() });
        }

        missing
    }

    /// Whether an object names an owner of this kind.
    fn refers_to(&self, kind: &ApiKind) -> bool {
        self.nodes.iter().flat_map(|node| &node.owners).any(|owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            group == kind.group && owner.kind == kind.kind
        })
    }
}

/// Whether a node is the object at an address.
pub(super) fn is_at(node: &Node, address: &ObjectAddress) -> bool {
    node.name == address.name
        && node.namespace == address.namespace
        && node.kind == address.kind
        && node.group == address.group
}

/// Reads the metadata of one object.
///
/// # Errors
/// The failure of the request, such as 404.
pub(crate) async fn find_object(
    cluster: &Cluster,
    kind: &ApiKind,
    object: &ObjectAddress,
) -> Result<Node, Failure> {
    if !is_name(&object.name) || !(object.namespace.is_empty() || is_name(&object.namespace)) {
        return Err(Failure::new(Cause::Invalid, "no object can have this name or namespace"));
    }

    let path =
        format!("{}/{}", collection_of(kind, &object.namespace), percent_encode(&object.name));
    let document = cluster.get_json(&path, METADATA).await?;
    Ok(listing::node(kind, document))
}

fn facts(kind: &ApiKind, complete: bool) -> KindFacts {
    KindFacts {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
        versions: kind.versions.clone(),
        namespaced: kind.namespaced,
        complete,
        collected: is_collected(kind),
    }
}
