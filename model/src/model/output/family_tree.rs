//! The owners and the children of one object, as trees of limited size.

use std::collections::{BTreeSet, VecDeque};

use crate::model::Model;
use crate::model::deletion::finalizers;
use crate::model::output::findings_by_object::FindingsByObject;
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::{self, Record, Slot, uid_number, uid_text};
use crate::observation::{Dependent, ObjectAddress};
use crate::snapshot::{ExplainedNode, ExplainedObject, ObjectState};

/// The maximum number of objects in a tree.
const MAX_NODES: usize = 200;

/// The maximum number of objects directly below another one, so that there is room for deeper
/// levels.
const MAX_SIBLINGS: usize = 100;

/// The maximum number of levels.
const MAX_LEVELS: usize = 8;

/// An object in the tree.
enum Member {
    Watched(Slot),
    /// The model does not watch the object, but knows this much about it.
    Unwatched(Box<ExplainedObject>),
}

/// An owner or a child of a member.
struct Relative {
    member: Member,
    uid: u128,
    blocks_owner_deletion: bool,
    /// Objects that need attention have low ranks and come first.
    rank: u8,
}

/// A node while the tree grows.
struct Growing {
    node: ExplainedNode,
    /// The index of the node above it; `None` at the top.
    above: Option<usize>,
}

/// A tree while it grows, level by level.
struct Tree<'a> {
    model: &'a Model,
    findings: &'a FindingsByObject<'a>,
    nodes: Vec<Growing>,
    seen: BTreeSet<u128>,
    /// The number of objects directly below the root that do not fit.
    more: u64,
}

/// Returns the owners of an object, each with its own owners below it.
pub(crate) fn owners(
    model: &Model,
    findings: &FindingsByObject<'_>,
    slot: Slot,
) -> Vec<ExplainedNode> {
    grow(model, findings, slot, Model::owners_beside).0
}

/// Returns the children of an object, each with its own children below it, and the number of
/// children that do not fit.
pub(crate) fn children(
    model: &Model,
    findings: &FindingsByObject<'_>,
    slot: Slot,
) -> (Vec<ExplainedNode>, u64) {
    grow(model, findings, slot, Model::children_beside)
}

fn grow(
    model: &Model,
    findings: &FindingsByObject<'_>,
    root: Slot,
    beside: fn(&Model, &Member) -> Vec<Relative>,
) -> (Vec<ExplainedNode>, u64) {
    let uid = model.world.store.get(root).map_or(store::NO_UID, |record| record.uid);
    let mut tree =
        Tree { model, findings, nodes: Vec::new(), seen: BTreeSet::from([uid]), more: 0 };
    let mut open = VecDeque::from([(Member::Watched(root), None, 0)]);

    while let Some((member, above, level)) = open.pop_front() {
        let added = tree.add(beside(model, &member), above, level);
        open.extend(added.into_iter().map(|(member, index)| (member, Some(index), level + 1)));
    }

    tree.finish()
}

impl Tree<'_> {
    /// Adds the relatives of an object below it, as far as there is room. Returns those that may
    /// have relatives of their own.
    fn add(
        &mut self,
        mut relatives: Vec<Relative>,
        above: Option<usize>,
        level: usize,
    ) -> Vec<(Member, usize)> {
        let room = if level < MAX_LEVELS {
            MAX_NODES.saturating_sub(self.nodes.len()).min(MAX_SIBLINGS)
        } else {
            0
        };
        let more = relatives.len().saturating_sub(room) as u64;
        match above.and_then(|index| self.nodes.get_mut(index)) {
            Some(above) => above.node.more = more,
            None => self.more = more,
        }

        relatives.sort_by_key(|relative| relative.rank);
        relatives.truncate(room);

        let object = |member: &Member| match member {
            Member::Watched(slot) => self
                .model
                .world
                .store
                .get(*slot)
                .map(|record| self.model.explained_object(self.findings, record)),
            Member::Unwatched(object) => Some((**object).clone()),
        };

        let mut shown: Vec<(Relative, ExplainedObject)> = relatives
            .into_iter()
            .filter_map(|relative| object(&relative.member).map(|object| (relative, object)))
            .collect();

        shown.sort_by(|(a, x), (b, y)| {
            let key = |rank, object: &ExplainedObject| {
                (rank, object.kind.clone(), object.namespace.clone(), object.name.clone())
            };
            key(a.rank, x).cmp(&key(b.rank, y))
        });
        let mut added = Vec::new();
        for (Relative { member, uid, blocks_owner_deletion, .. }, object) in shown {
            // Objects without a UID cannot be told apart.
            let repeated = uid != store::NO_UID && !self.seen.insert(uid);
            if !repeated && uid != store::NO_UID {
                added.push((member, self.nodes.len()));
            }

            let node = ExplainedNode {
                object,
                blocks_owner_deletion,
                repeated,
                ..ExplainedNode::default()
            };

            self.nodes.push(Growing { node, above });
        }

        added
    }

    /// Returns the top level of the tree, and the number of objects there that do not fit.
    fn finish(mut self) -> (Vec<ExplainedNode>, u64) {
        let mut top = Vec::new();

        // Nodes come after the nodes above them.
        while let Some(Growing { mut node, above }) = self.nodes.pop() {
            node.nodes.reverse();
            match above.and_then(|index| self.nodes.get_mut(index)) {
                Some(above) => above.node.nodes.push(node),
                None => top.push(node),
            }
        }

        top.reverse();
        (top, self.more)
    }
}

impl Model {
    fn owners_beside(&self, member: &Member) -> Vec<Relative> {
        let Member::Watched(slot) = member else { return Vec::new() };
        let owner = |owner: &Owner| {
            let uid = owner.uid();
            let member = match self.world.find_uid(uid) {
                Some(slot) => Member::Watched(slot),
                None => Member::Unwatched(Box::new(self.unseen_owner(*slot, owner))),
            };

            Relative { member, uid, blocks_owner_deletion: owner.blocks_deletion, rank: 0 }
        };

        self.world.owners_of(*slot).iter().map(owner).collect()
    }

    /// Returns an owner that is not visible: it is gone, or its kind or namespace is not watched.
    fn unseen_owner(&self, child: Slot, owner: &Owner) -> ExplainedObject {
        let (group, kind) = self.world.owner_kind(owner);
        let namespace = self.world.store.get(child).map_or("", |record| &record.namespace);
        let address = |namespace: &str| ObjectAddress {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: self.world.owner_name(owner).to_owned(),
        };

        let is_gone = self.world.graph.departed(owner.uid()).is_some()
            || [namespace, ""]
                .into_iter()
                .any(|namespace| self.world.is_known_absent(&address(namespace), owner.uid()));
        let ObjectAddress { group, kind, name, .. } = address("");
        let state = if is_gone { "absent" } else { "not_visible" };
        let uid = if owner.uid() == store::NO_UID { String::new() } else { uid_text(owner.uid()) };

        ExplainedObject {
            group,
            kind,
            name,
            uid,
            state: state.to_owned(),
            ..ExplainedObject::default()
        }
    }

    fn children_beside(&self, member: &Member) -> Vec<Relative> {
        let (uid, address) = match member {
            Member::Watched(slot) => match self.world.store.get(*slot) {
                Some(record) => (record.uid, self.world.record_address(record)),
                None => return Vec::new(),
            },
            Member::Unwatched(object) => (uid_number(&object.uid), address_of(object)),
        };

        if uid == store::NO_UID {
            return Vec::new();
        }

        let mut relatives: Vec<Relative> = Vec::new();
        for slot in self.world.children_of(uid) {
            let Some(record) = self.world.store.get(slot) else { continue };
            let blocks = self
                .world
                .owners_of(slot)
                .iter()
                .any(|owner| owner.uid() == uid && owner.blocks_deletion);
            let (member, rank) = (Member::Watched(slot), rank(record));

            relatives.push(Relative {
                member,
                uid: record.uid,
                blocks_owner_deletion: blocks,
                rank,
            });
        }

        let read = self.world.known_dependents(&address, uid);
        let unwatched = read.iter().flat_map(|read| read.iter());
        relatives.extend(
            unwatched.filter(|d| self.world.find_uid(uid_number(&d.object.uid)).is_none()).map(
                |dependent| {
                    let mut owners = dependent
                        .object
                        .owners
                        .iter()
                        .filter(|owner| uid_number(&owner.uid) == uid);
                    let blocks_owner_deletion = owners.any(|owner| owner.blocks_deletion);
                    let member = Member::Unwatched(Box::new(self.unwatched_child(dependent)));
                    let rank = if dependent.object.deleted.is_some() { 1 } else { 4 };

                    Relative {
                        member,
                        uid: uid_number(&dependent.object.uid),
                        blocks_owner_deletion,
                        rank,
                    }
                },
            ),
        );

        relatives
    }

    /// Returns a child whose metadata was read, but nothing else.
    fn unwatched_child(&self, dependent: &Dependent) -> ExplainedObject {
        let Dependent { group, kind, object } = dependent;
        let finalizer = |name: &String| {
            let actor = finalizers::actor(
                object,
                name,
                &group.as_str().into(),
                None,
                &self.world.served_groups,
            );
            self.explained_finalizer(group, name, &actor, "")
        };
        let state =
            if object.deleted.is_some() { ObjectState::Terminating } else { ObjectState::Unknown };

        ExplainedObject {
            group: group.clone(),
            kind: kind.clone(),
            namespace: object.key.namespace.clone(),
            name: object.key.name.clone(),
            uid: object.uid.clone(),
            state: state.as_str().to_owned(),
            created: object.created,
            terminating_since: object.deleted,
            finalizers: object.finalizers.iter().map(finalizer).collect(),
            ..ExplainedObject::default()
        }
    }
}

fn address_of(object: &ExplainedObject) -> ObjectAddress {
    let ExplainedObject { group, kind, namespace, name, .. } = object.clone();
    ObjectAddress { group, kind, namespace, name }
}

/// Returns the rank of an object among its siblings, the lowest first.
fn rank(record: &Record) -> u8 {
    let hot = record.hot.as_ref();
    match record.state {
        _ if hot.is_some_and(|hot| !hot.findings.is_empty()) => 0,
        _ if hot.is_some_and(|hot| hot.deletion.is_some()) => 1,
        ObjectState::Overdue | ObjectState::Failed => 2,
        ObjectState::Progressing => 3,
        _ => 4,
    }
}
