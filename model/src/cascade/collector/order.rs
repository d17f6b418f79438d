//! Finds the results that depend on the order in which the garbage collector works. Its workers
//! process many objects concurrently, so any order is possible.

use super::Collector;
use crate::cascade::NodeId;
use crate::cascade::graph::Standing;

impl Collector<'_> {
    /// Whether each object's removal depends on the order in which the garbage collector works. An
    /// object that stays in deletion blocks all owners in foreground deletion, except those to
    /// which it has lost its reference. It loses a reference if the garbage collector processes it
    /// while another owner is not being deleted yet.
    pub(in crate::cascade) fn depends_on_order(&self) -> Vec<bool> {
        let stays =
            |node: u32| self.states[node as usize].deleting && !self.states[node as usize].gone;
        let mut depends = vec![false; self.states.len()];

        // Objects that are removed here may stay in another order, because a dependent stays.
        let mut open: Vec<u32> =
            self.graph.ids().map(|id| id.0).filter(|node| stays(*node)).collect();
        while let Some(node) = open.pop() {
            for owner in
                self.foreground_owners(node).filter(|owner| self.states[*owner as usize].gone)
            {
                if !std::mem::replace(&mut depends[owner as usize], true) {
                    open.push(owner);
                }
            }
        }

        // Objects that stay here may be removed in another order, if each dependent that blocks
        // them may lose its reference or be removed.
        let may_lose = |node: u32| {
            !self.graph.node(NodeId(node)).deleting && self.foreground_owners(node).nth(1).is_some()
        };
        let mut blockers = vec![0u32; self.states.len()];
        for (edge, reference) in self.graph.edges.iter().zip(&self.references) {
            if let Some(owner) = edge
                .owner
                .filter(|_| reference.exists && reference.blocks && !may_lose(edge.dependent))
            {
                blockers[owner as usize] += 1;
            }
        }

        let may_go = |node: u32, blockers: &[u32]| {
            let state = &self.states[node as usize];
            stays(node)
                && state.foreground
                && !state.held
                && state.contents == 0
                && blockers[node as usize] == 0
        };

        let mut open: Vec<u32> =
            self.graph.ids().map(|id| id.0).filter(|node| may_go(*node, &blockers)).collect();
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut depends[node as usize], true) || may_lose(node) {
                continue;
            }
            for edge in self.graph.references(node) {
                let reference = self.references[edge as usize];
                let owner = self.graph.edges[edge as usize].owner;
                if let Some(owner) = owner.filter(|_| reference.exists && reference.blocks) {
                    blockers[owner as usize] -= 1;
                    if may_go(owner, &blockers) {
                        open.push(owner);
                    }
                }
            }
        }

        depends
    }

    /// The owners in foreground deletion that a dependent blocks, unless it loses its reference.
    fn foreground_owners(&self, node: u32) -> impl Iterator<Item = u32> {
        let edges = self.graph.references(node).map(|edge| &self.graph.edges[edge as usize]);
        let owners = edges
            .filter(|edge| edge.blocks && edge.standing == Standing::Found)
            .filter_map(|edge| edge.owner);

        owners.filter(|owner| self.states[*owner as usize].was_foreground)
    }
}
