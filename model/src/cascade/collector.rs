//! Simulates the garbage collector. Decisions follow `pkg/controller/garbagecollector` of
//! Kubernetes, deletions the API server (`registry/generic/registry/store.go`).
//!
//! Each step removes a reference, marks a deletion or removes an object, and is never undone. So
//! the number of steps is at most linear in the number of objects and references.

mod order;

use std::collections::VecDeque;

use super::graph::{Graph, Standing};
use super::{Cascade, NodeId};
use crate::model::world::finalizer_actors::{FOREGROUND, ORPHAN};

/// The state of all objects while the garbage collector works.
pub(super) struct Collector<'g> {
    graph: &'g Graph,
    states: Vec<State>,
    /// Which references still exist, and which of them block the deletion of the owner.
    references: Vec<Reference>,
    /// The objects that the garbage collector has yet to look at.
    queue: VecDeque<u32>,
    /// Objects to delete, because they are inside a terminating scope.
    deletions: VecDeque<u32>,
}

/// The state of one object.
#[derive(Clone, Debug, Default)]
struct State {
    deleting: bool,
    gone: bool,
    /// Whether the object has the finalizer of a foreground deletion.
    foreground: bool,
    /// Whether its foreground deletion has begun.
    was_foreground: bool,
    /// Whether the object has the finalizer that orphans its dependents.
    orphan: bool,
    /// Whether a finalizer that no controller removes keeps the object, or another reason does.
    held: bool,
    /// Whether a deletion was requested during the simulation.
    deleted: bool,
    /// The owner whose deletion caused this one.
    because: Option<u32>,
    queued: bool,
    /// The number of references that the object still has.
    owners: u32,
    /// The number of its references to owners that exist or may exist.
    solid: u32,
    /// The number of its references to owners in foreground deletion.
    waiting: u32,
    /// The number of its references that the garbage collector cannot resolve.
    unresolvable: u32,
    /// References that were dangling or waiting when they were added.
    stale: Vec<u32>,
    /// The number of references of other objects to this one.
    dependents: u32,
    /// The number of those references that block the deletion of this object.
    blocking: u32,
    /// The number of those references whose object is in foreground deletion.
    foreground_dependents: u32,
    /// The number of objects that still exist in this terminating scope.
    contents: u32,
    /// The terminating scopes that wait for this object.
    waiting_scopes: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    exists: bool,
    blocks: bool,
}

impl<'g> Collector<'g> {
    /// Starts with the current state of the graph. `holds` returns whether a finalizer stays on an
    /// object.
    pub(super) fn new(graph: &'g Graph, holds: impl Fn(NodeId, &str) -> bool) -> Self {
        let state = |id: NodeId| {
            let node = graph.node(id);
            let has = |name: &str| node.finalizers.iter().any(|finalizer| finalizer == name);
            State {
                deleting: node.deleting,
                foreground: has(FOREGROUND),
                was_foreground: node.deleting && has(FOREGROUND),
                orphan: has(ORPHAN),
                held: !node.kept_by.is_empty()
                    || graph.own_finalizers(id.0).any(|finalizer| holds(id, finalizer)),
                ..State::default()
            }
        };

        let references = graph
            .edges
            .iter()
            .map(|edge| Reference { exists: true, blocks: edge.blocks })
            .collect();
        let (queue, deletions) = (VecDeque::new(), VecDeque::new());
        let mut collector =
            Self { graph, states: graph.ids().map(state).collect(), references, queue, deletions };

        collector.count();
        collector
    }

    /// Deletes the targets, and runs until nothing is left to do.
    pub(super) fn run(mut self, targets: &[NodeId], cascade: Cascade) -> Self {
        targets.iter().for_each(|target| self.delete(target.0, cascade));
        loop {
            if let Some(node) = self.deletions.pop_front() {
                if !self.states[node as usize].deleting {
                    self.delete(node, Cascade::Background);
                }
            } else if let Some(node) = self.queue.pop_front() {
                self.states[node as usize].queued = false;
                self.attempt(node);
            } else {
                return self;
            }
        }
    }

    /// Deletes an object, as the API server does.
    fn delete(&mut self, node: u32, cascade: Cascade) {
        let state = &mut self.states[node as usize];
        if state.gone {
            return;
        }

        let was_foreground = state.deleting && state.foreground;
        let was_deleting = std::mem::replace(&mut state.deleting, true);
        state.deleted = true;
        state.orphan = cascade == Cascade::Orphan;
        state.foreground = cascade == Cascade::Foreground;
        state.was_foreground &= state.foreground; // another policy ends a foreground deletion

        if was_foreground != state.foreground {
            self.change_foreground(node, cascade == Cascade::Foreground);
        }

        if !was_deleting {
            self.delete_contents(node);
        }

        if cascade == Cascade::Orphan {
            self.orphan(node);
        }

        self.finish(node);
    }

    /// Whether the object no longer exists.
    pub(super) fn is_gone(&self, id: NodeId) -> bool {
        self.states[id.index()].gone
    }

    /// Whether the simulation has removed the object or requested its deletion.
    pub(super) fn is_taken(&self, id: NodeId) -> bool {
        let state = &self.states[id.index()];
        state.deleted || state.gone
    }

    /// The owner whose deletion caused that of this object.
    pub(super) fn because(&self, id: NodeId) -> Option<NodeId> {
        self.states[id.index()].because.map(NodeId)
    }

    /// The objects that it owns or contains and waits for, if it is being deleted.
    pub(super) fn waits_for(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let state = &self.states[id.index()];
        let waits = state.deleting && !state.gone;
        let inward = self.graph.inward[id.index()].iter();
        let dependents = inward
            .filter(move |_| waits && state.foreground)
            .filter(|edge| {
                self.references[**edge as usize].exists && self.references[**edge as usize].blocks
            })
            .map(|edge| self.graph.edges[*edge as usize].dependent);

        let contents = self.graph.contents.get(&id.0).into_iter().flatten().copied();
        let contents = contents
            .filter(move |node| waits && *node != id.0 && !self.states[*node as usize].gone);
        dependents.chain(contents).map(NodeId)
    }

    /// Whether the object has lost its reference to this owner.
    pub(super) fn has_lost(&self, id: NodeId, owner: NodeId) -> bool {
        let of = |edge: &u32| self.graph.edges[*edge as usize].owner == Some(owner.0);
        self.graph.references(id.0).filter(of).any(|edge| !self.references[edge as usize].exists)
    }

    /// Counts the references, and queues everything that the garbage collector would find when it
    /// starts.
    fn count(&mut self) {
        for (number, edge) in (0u32..).zip(&self.graph.edges) {
            let waits = edge.owner.is_some_and(|owner| self.is_foreground(owner));
            let dependent = &mut self.states[edge.dependent as usize];
            dependent.owners += 1;

            match edge.standing {
                Standing::Found if waits => {
                    dependent.waiting += 1;
                    dependent.stale.push(number);
                }
                Standing::Found | Standing::Unknown => dependent.solid += 1,
                Standing::Absent => dependent.stale.push(number),
                Standing::Unresolvable => dependent.unresolvable += 1,
            }

            let foreground = self.is_foreground(edge.dependent);
            if let Some(owner) = edge.owner {
                let owner = &mut self.states[owner as usize];
                owner.dependents += 1;
                owner.blocking += u32::from(edge.blocks);
                owner.foreground_dependents += u32::from(foreground);
            }
        }

        for id in self.graph.ids() {
            let node = id.0;
            if self.states[id.index()].deleting {
                self.delete_contents(node);
                if self.states[id.index()].orphan {
                    self.orphan(node);
                }

                self.finish(node);
            }

            self.enqueue(node);
        }
    }

    fn is_foreground(&self, node: u32) -> bool {
        let state = &self.states[node as usize];
        state.deleting && state.foreground
    }

    fn enqueue(&mut self, node: u32) {
        let state = &mut self.states[node as usize];
        if !state.gone && !std::mem::replace(&mut state.queued, true) {
            self.queue.push_back(node);
        }
    }

    /// Processes an object as the garbage collector does: `attemptToDeleteItem`.
    fn attempt(&mut self, node: u32) {
        let state = &self.states[node as usize];
        if state.gone {
            return;
        }

        if state.deleting {
            if state.foreground && state.blocking == 0 {
                self.states[node as usize].foreground = false;
                self.change_foreground(node, false);
                self.finish(node);
            }

            return;
        }

        if state.owners == 0 || state.unresolvable > 0 || !self.graph.is_collected(node) {
            return;
        }

        if state.solid > 0 {
            self.drop_stale(node);
            return;
        }

        let (waiting, dependents, circular) =
            (state.waiting > 0, state.dependents > 0, state.foreground_dependents > 0);
        let (foreground, orphan) = (state.foreground, state.orphan);
        self.states[node as usize].because = self.cause(node);

        if waiting && dependents {
            if circular {
                self.unblock(node);
            }
            self.delete(node, Cascade::Foreground);
        } else if orphan {
            self.delete(node, Cascade::Orphan);
        } else if foreground {
            self.delete(node, Cascade::Foreground);
        } else {
            self.delete(node, Cascade::Background);
        }
    }

    /// The owner whose deletion leaves this object without an owner.
    fn cause(&self, node: u32) -> Option<u32> {
        let stale = self.states[node as usize].stale.iter().rev();
        let owners = stale.filter_map(|edge| self.graph.edges[*edge as usize].owner);
        owners.filter(|owner| *owner != node).find(|owner| self.states[*owner as usize].deleted)
    }

    /// Removes the references to owners that are gone or wait for this object.
    fn drop_stale(&mut self, node: u32) {
        for edge in std::mem::take(&mut self.states[node as usize].stale) {
            if self.references[edge as usize].exists && !self.is_solid(edge) {
                self.drop_reference(edge);
            }
        }
    }

    fn is_solid(&self, edge: u32) -> bool {
        let edge = &self.graph.edges[edge as usize];
        match edge.standing {
            Standing::Found => edge.owner.is_some_and(|owner| {
                let owner_state = &self.states[owner as usize];
                !owner_state.gone && !self.is_foreground(owner)
            }),
            Standing::Unknown | Standing::Unresolvable => true,
            Standing::Absent => false,
        }
    }

    /// Removes one reference of an object that stays.
    fn drop_reference(&mut self, edge: u32) {
        let Reference { blocks, .. } = std::mem::replace(
            &mut self.references[edge as usize],
            Reference { exists: false, blocks: false },
        );
        let solid = self.is_solid(edge);
        let edge = self.graph.edges[edge as usize];
        let owner_gone = edge.owner.is_some_and(|owner| self.states[owner as usize].gone);
        let dependent = &mut self.states[edge.dependent as usize];

        dependent.owners -= 1;
        match edge.standing {
            Standing::Unresolvable => dependent.unresolvable -= 1,
            Standing::Unknown | Standing::Found if solid => dependent.solid -= 1,
            Standing::Found if !owner_gone => dependent.waiting -= 1,
            Standing::Found | Standing::Unknown | Standing::Absent => {}
        }

        let Some(owner) = edge.owner else { return };
        let foreground = self.is_foreground(edge.dependent);
        let state = &mut self.states[owner as usize];
        state.dependents -= 1;
        state.blocking -= u32::from(blocks);
        state.foreground_dependents -= u32::from(foreground);

        if self.is_foreground(owner) {
            self.enqueue(owner);
        }
    }

    /// Makes the references of an object in a cycle non-blocking, so that every object of the cycle
    /// can be removed.
    fn unblock(&mut self, node: u32) {
        for edge in self.graph.references(node) {
            let reference = &mut self.references[edge as usize];
            if !reference.exists || !std::mem::replace(&mut reference.blocks, false) {
                continue;
            }

            if let Some(owner) = self.graph.edges[edge as usize].owner {
                self.states[owner as usize].blocking -= 1;
                if self.is_foreground(owner) {
                    self.enqueue(owner);
                }
            }
        }
    }

    /// Begins or ends the foreground deletion of an object.
    fn change_foreground(&mut self, node: u32, begins: bool) {
        let graph = self.graph;
        for number in &graph.inward[node as usize] {
            let edge = &graph.edges[*number as usize];
            if !self.references[*number as usize].exists || edge.standing != Standing::Found {
                continue;
            }

            let dependent = &mut self.states[edge.dependent as usize];
            if begins {
                dependent.solid -= 1;
                dependent.waiting += 1;
                dependent.stale.push(*number);
                self.enqueue(edge.dependent);
            } else {
                dependent.waiting -= 1;
                dependent.solid += 1;
            }
        }

        for number in graph.references(node) {
            let owner = graph.edges[number as usize]
                .owner
                .filter(|_| self.references[number as usize].exists);
            if let Some(owner) = owner.map(|owner| &mut self.states[owner as usize]) {
                if begins {
                    owner.foreground_dependents += 1
                } else {
                    owner.foreground_dependents -= 1
                }
            }
        }

        if begins {
            self.states[node as usize].was_foreground = true;
            self.enqueue(node);
        }
    }

    /// Removes the references of all dependents, and then the finalizer that requested this.
    fn orphan(&mut self, node: u32) {
        let graph = self.graph;
        for edge in &graph.inward[node as usize] {
            if self.references[*edge as usize].exists {
                self.drop_reference(*edge);
            }
        }

        self.states[node as usize].orphan = false;
    }

    /// Deletes the objects inside a namespace, and the instances of a definition.
    fn delete_contents(&mut self, node: u32) {
        let graph = self.graph;
        for inside in graph.contents.get(&node).into_iter().flatten() {
            if self.states[*inside as usize].gone {
                continue;
            }

            self.states[node as usize].contents += 1;
            let state = &mut self.states[*inside as usize];
            state.waiting_scopes.push(node);

            if !state.deleting {
                state.because.get_or_insert(node);
                self.deletions.push_back(*inside);
            }
        }
    }

    /// Removes an object that is being deleted, if nothing keeps it.
    fn finish(&mut self, node: u32) {
        let state = &self.states[node as usize];
        let kept = state.held || state.foreground || state.orphan || state.contents > 0;
        if state.gone || !state.deleting || kept {
            return;
        }

        // Removing an object may empty a namespace, whose removal may empty a definition, but
        // nothing more.
        let mut removed = vec![node];
        while let Some(node) = removed.pop() {
            removed.extend(self.remove(node));
        }
    }

    /// Removes an object, and returns the namespaces and definitions that this empties.
    fn remove(&mut self, node: u32) -> Vec<u32> {
        let graph = self.graph;
        for edge in graph.references(node) {
            if self.references[edge as usize].exists {
                self.drop_reference(edge);
            }
        }

        self.states[node as usize].gone = true;
        for number in &graph.inward[node as usize] {
            let edge = &graph.edges[*number as usize];
            if self.references[*number as usize].exists && edge.standing == Standing::Found {
                let dependent = &mut self.states[edge.dependent as usize];
                dependent.solid -= 1;
                dependent.stale.push(*number);
                self.enqueue(edge.dependent);
            }
        }

        let mut empty = Vec::new();
        for scope in std::mem::take(&mut self.states[node as usize].waiting_scopes) {
            let state = &mut self.states[scope as usize];
            state.contents -= 1;

            let kept = state.held || state.foreground || state.orphan || state.contents > 0;
            if !kept && !state.gone {
                empty.push(scope);
            }
        }

        empty
    }
}
