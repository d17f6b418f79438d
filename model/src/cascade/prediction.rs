//! The prediction: compares the result of garbage collection with and without a deletion.

use std::collections::{BTreeMap, BTreeSet};

use super::collector::Collector;
use super::operator::{Stranded, claim, stranded};
use super::{Cascade, DEFINITION, Graph, NAMESPACE, NodeId, Request, Standing};
use crate::model::world::finalizer_actors::{built_in, is_unrelated, waits_for_users};

/// What a deletion would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// The objects that are deleted, the targets first.
    pub taken: Vec<Taken>,
    /// Dependents of these objects that stay.
    pub kept: Vec<Kept>,
    /// Objects that the garbage collector deletes in any case.
    pub anyway: Vec<NodeId>,
    /// The objects that stop the deletion.
    pub blockers: Vec<Blocker>,
    /// Other objects that are being deleted already and stay, although an owner is deleted: the
    /// deletion leaves them behind. Also the owners for which a dependent waits.
    pub lingering: Vec<Blocker>,
    /// Finalizers that no controller removes after the deletion.
    pub stranded: Vec<Stranded>,
    /// Finalizers that Kubernetes removes when other objects no longer use the deleted ones. The graph does
    /// not show who uses them, so the prediction expects the best.
    pub expected: Vec<Expected>,
    /// What to do instead, in this order. Empty if nothing stops the deletion.
    pub steps: Vec<Step>,
}

/// A finalizer that Kubernetes removes under a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The finalizer.
    pub finalizer: String,
    /// The deleted objects that have it.
    pub nodes: Vec<NodeId>,
}

/// An object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The object.
    pub node: NodeId,
    /// The object whose deletion causes this one. `None` for a target.
    pub because: Option<NodeId>,
    /// How far the deletion gets.
    pub fate: Fate,
    /// Whether timing decides if the object is removed or stays in deletion: a dependent that
    /// cannot be removed blocks some of its owners, and the order in which the garbage collector
    /// works decides which.
    pub depends_on_timing: bool,
}

/// How far a deletion gets before a controller removes a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The object is removed.
    Removed,
    /// The object stays in deletion.
    Terminating,
    /// The deletion begins only after another object is gone.
    Waiting,
}

/// A dependent that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The object.
    pub node: NodeId,
    /// The owner that is deleted.
    pub owner: NodeId,
    /// Why the object stays.
    pub reason: Reason,
}

/// Why a dependent stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The deletion removes its reference to the owner.
    Orphaned,
    /// Another owner exists.
    OtherOwner(NodeId),
    /// Another owner may exist: loopwatch cannot read its kind.
    UnknownOwner,
    /// The garbage collector cannot resolve one of its references.
    Unresolvable,
    /// The owner is never removed, because a finalizer keeps it in deletion.
    OwnerStays,
    /// The garbage collector does not watch its kind.
    NotCollected,
}

/// An object in deletion that is not removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The object.
    pub node: NodeId,
    /// Those of its finalizers that a controller must remove.
    pub finalizers: Vec<String>,
    /// The objects that must be removed first: blocking dependents, or the contents of a namespace
    /// or definition.
    pub waits_for: Vec<NodeId>,
}

impl Blocker {
    /// Whether something other than the absence of other objects must end before the object goes.
    fn is_cause(&self, graph: &Graph) -> bool {
        !self.finalizers.is_empty() || !graph.node(self.node).kept_by.is_empty()
    }
}

/// One step of the better order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete these objects of one kind, and wait until they are gone.
    Delete(Vec<NodeId>),
    /// Wait until controllers have removed the finalizers of these objects, which are being deleted
    /// already.
    Wait(Vec<NodeId>),
    /// Delete the targets, except the definitions.
    Targets,
    /// Delete the definitions.
    Definitions(Vec<NodeId>),
}

impl Graph {
    /// Predicts what a deletion does.
    #[must_use]
    pub fn predict(&self, request: &Request) -> Prediction {
        let is_stranded = |id: NodeId, finalizer: &str| {
            request
                .operator
                .as_ref()
                .is_some_and(|operator| claim(self, operator, id, finalizer).is_some())
        };

        let holds = |id: NodeId, finalizer: &str| self.holds(id, finalizer);
        let before = Collector::new(self, holds).run(&[], request.cascade);
        // The dependents of a target that is being deleted already belong to this deletion, too.
        let is_kept = |id: NodeId, finalizer: &str| {
            request.targets.contains(&id) || is_stranded(id, finalizer)
        };
        let before_later = Collector::new(self, is_kept).run(&[], request.cascade);
        let at_once = Collector::new(self, holds).run(&request.targets, request.cascade);
        let later = Collector::new(self, is_stranded).run(&request.targets, request.cascade);

        // Objects that are already being deleted disappear without this deletion, and so does
        // everything below them.
        let is_new = |node: NodeId| {
            let goes_later = later.is_taken(node) && !before_later.is_taken(node);
            !before.is_taken(node)
                && !self.node(node).deleting
                && (at_once.is_taken(node) || goes_later)
        };

        let mut taken = self.taken(request, is_new, &at_once, &later);
        taken.sort_by_key(|taken| (taken.because.is_some(), taken.node));

        let anyway =
            self.ids().filter(|id| before.is_taken(*id) && !request.targets.contains(id)).collect();
        let terminating = taken.iter().filter(|taken| taken.fate == Fate::Terminating);
        let blockers = self.blockers(terminating.map(|taken| taken.node).collect(), &at_once);
        let lingering = self.lingering(&taken, &blockers, &at_once);
        let stranded =
            request.operator.as_ref().map(|operator| stranded(self, operator)).unwrap_or_default();
        let kept = self.kept(&taken, &later);
        let expected = self.expected(&taken);
        let steps = Vec::new();
        let mut prediction =
            Prediction { taken, kept, anyway, blockers, lingering, stranded, expected, steps };

        prediction.steps = self.steps(request, &prediction);
        prediction
    }

    /// Whether a finalizer keeps an object for a time that nothing shows. Kubernetes removes its own by
    /// itself, but one that is still there after the deletion has begun waits for something.
    fn holds(&self, id: NodeId, finalizer: &str) -> bool {
        built_in(finalizer).is_none() || (self.node(id).deleting && is_unrelated(finalizer))
    }

    /// The finalizers of the deleted objects that stay while others use these objects.
    fn expected(&self, taken: &[Taken]) -> Vec<Expected> {
        let mut expected: BTreeMap<&String, Vec<NodeId>> = BTreeMap::new();
        for Taken { node, .. } in taken.iter().filter(|taken| !self.node(taken.node).deleting) {
            for finalizer in self.own_finalizers(node.0).filter(|it| waits_for_users(it)) {
                expected.entry(finalizer).or_default().push(*node);
            }
        }

        let all = expected.into_iter();
        all.map(|(finalizer, nodes)| Expected { finalizer: finalizer.clone(), nodes }).collect()
    }

    fn taken(
        &self,
        request: &Request,
        is_new: impl Fn(NodeId) -> bool,
        at_once: &Collector<'_>,
        later: &Collector<'_>,
    ) -> Vec<Taken> {
        let targets: BTreeSet<NodeId> = request.targets.iter().copied().collect();
        let order = at_once.depends_on_order();
        let taken = |node: NodeId| {
            let is_target = targets.contains(&node);
            if !is_target && !is_new(node) {
                return None;
            }

            let fate = match (at_once.is_gone(node), at_once.is_taken(node)) {
                (true, _) => Fate::Removed,
                (false, true) => Fate::Terminating,
                (false, false) => Fate::Waiting,
            };
            let because =
                at_once.because(node).or_else(|| later.because(node)).filter(|_| !is_target);

            // Without a known cause, the first target counts as the cause.
            let because =
                because.or_else(|| request.targets.first().copied().filter(|_| !is_target));
            let depends_on_timing = fate != Fate::Waiting && order[node.index()];
            Some(Taken { node, because, fate, depends_on_timing })
        };

        self.ids().filter_map(taken).collect()
    }

    /// These objects, which stay in deletion, and those that stop them.
    fn blockers(&self, mut open: Vec<NodeId>, at_once: &Collector<'_>) -> Vec<Blocker> {
        let mut seen: BTreeSet<NodeId> = open.iter().copied().collect();
        let mut blockers = Vec::new();

        while let Some(node) = open.pop() {
            let waits_for: Vec<NodeId> = at_once.waits_for(node).collect();
            let finalizers =
                self.own_finalizers(node.0).filter(|finalizer| self.holds(node, finalizer));
            blockers.push(Blocker {
                node,
                finalizers: finalizers.cloned().collect(),
                waits_for: waits_for.clone(),
            });
            open.extend(waits_for.into_iter().filter(|other| seen.insert(*other)));
        }

        blockers.sort_by_key(|blocker| blocker.node);
        blockers
    }

    /// The objects that are being deleted already and stay, below the deleted objects and below each
    /// other, and above the objects whose deletion begins later.
    fn lingering(
        &self,
        taken: &[Taken],
        blockers: &[Blocker],
        at_once: &Collector<'_>,
    ) -> Vec<Blocker> {
        let known: BTreeSet<NodeId> = blockers.iter().map(|blocker| blocker.node).collect();
        let stays = |node: &NodeId| {
            self.node(*node).deleting && !at_once.is_gone(*node) && !known.contains(node)
        };
        let dependents = |owner: NodeId| {
            let inward = self.inward[owner.index()].iter().map(|edge| &self.edges[*edge as usize]);
            let found = inward.filter(|edge| edge.standing == Standing::Found);
            found.map(|edge| NodeId(edge.dependent))
        };

        let later = taken.iter().filter(|taken| taken.fate == Fate::Waiting);
        let owners = later.flat_map(|taken| self.owners(taken.node)).filter_map(|(.., id)| id);
        let below = taken.iter().flat_map(|taken| dependents(taken.node));
        let mut open: Vec<NodeId> = owners.chain(below).filter(stays).collect();
        let mut found: BTreeSet<NodeId> = open.iter().copied().collect();

        while let Some(node) = open.pop() {
            open.extend(dependents(node).filter(stays).filter(|other| found.insert(*other)));
        }

        let mut lingering = self.blockers(found.into_iter().collect(), at_once);
        lingering.retain(|blocker| !known.contains(&blocker.node));
        lingering
    }

    /// The dependents of deleted objects that stay.
    fn kept(&self, taken: &[Taken], later: &Collector<'_>) -> Vec<Kept> {
        let gone: BTreeSet<NodeId> = taken.iter().map(|taken| taken.node).collect();
        let mut kept = BTreeMap::new();
        for owner in taken.iter().map(|taken| taken.node) {
            for edge in &self.inward[owner.index()] {
                let node = NodeId(self.edges[*edge as usize].dependent);
                if !gone.contains(&node) && !later.is_taken(node) && !kept.contains_key(&node) {
                    let reason = self.reason(node, owner, &gone, later);
                    kept.insert(node, Kept { node, owner, reason });
                }
            }
        }

        kept.into_values().collect()
    }

    fn reason(
        &self,
        node: NodeId,
        owner: NodeId,
        gone: &BTreeSet<NodeId>,
        later: &Collector<'_>,
    ) -> Reason {
        let standings: Vec<_> =
            self.owners(node).map(|(_, standing, owner)| (standing, owner)).collect();
        let other = standings.iter().find_map(|(standing, other)| {
            other.filter(|other| {
                *standing == Standing::Found && !gone.contains(other) && !later.is_gone(*other)
            })
        });
        if standings.iter().any(|(standing, _)| *standing == Standing::Unresolvable) {
            return Reason::Unresolvable;
        }

        match other {
            Some(other) => Reason::OtherOwner(other),
            None if standings.iter().any(|(standing, _)| *standing == Standing::Unknown) => {
                Reason::UnknownOwner
            }
            None if later.has_lost(node, owner) => Reason::Orphaned,
            None if !later.is_gone(owner) => Reason::OwnerStays,
            None => Reason::NotCollected,
        }
    }

    /// A better order, if something stops the deletion.
    fn steps(&self, request: &Request, prediction: &Prediction) -> Vec<Step> {
        let definitions: Vec<NodeId> =
            request.targets.iter().copied().filter(|target| self.is(*target, DEFINITION)).collect();
        let mut first: BTreeSet<NodeId> = BTreeSet::new();
        let stopping = prediction.blockers.iter().chain(&prediction.lingering);
        first.extend(stopping.filter(|blocker| blocker.is_cause(self)).map(|blocker| blocker.node));

        // Finalizers that the operator only possibly removes do not require the deletion of
        // objects.
        let claimed =
            prediction.stranded.iter().filter(|stranded| stranded.claim == super::Claim::Domain);
        first.extend(claimed.flat_map(|stranded| &stranded.nodes).copied());

        // The operator must also see the deletion of its other objects.
        if !definitions.is_empty() {
            let instances = definitions
                .iter()
                .filter_map(|definition| self.contents.get(&definition.0))
                .flatten();

            first.extend(instances.map(|node| NodeId(*node)));
        }

        first.retain(|node| !request.targets.contains(node) && !self.is(*node, NAMESPACE));
        if first.is_empty() {
            return Vec::new();
        }

        let mut steps: Vec<Step> = Vec::new();
        let (waits, deletes): (Vec<NodeId>, Vec<NodeId>) =
            first.into_iter().partition(|node| self.node(*node).deleting);
        let mut kinds: BTreeMap<(usize, &str, &str), Vec<NodeId>> = BTreeMap::new();

        for id in deletes {
            let node = self.node(id);
            kinds.entry((self.rank(id, request), &node.group, &node.kind)).or_default().push(id);
        }

        steps.extend(kinds.into_values().map(Step::Delete));
        if !waits.is_empty() {
            steps.push(Step::Wait(waits));
        }

        if definitions.len() < request.targets.len() {
            steps.push(Step::Targets);
        }

        if !definitions.is_empty() {
            steps.push(Step::Definitions(definitions));
        }

        steps
    }

    /// Objects of the operator come first: their deletion also deletes their dependents, in the
    /// operator's order.
    fn rank(&self, id: NodeId, request: &Request) -> usize {
        let node = self.node(id);
        let is_primary =
            |(group, kind): &(String, String)| *group == node.group && *kind == node.kind;
        let primary = request
            .operator
            .as_ref()
            .is_some_and(|operator| operator.primaries.iter().any(is_primary));

        usize::from(!primary && request.cascade != Cascade::Foreground)
    }

    fn is(&self, id: NodeId, (group, kind): (&str, &str)) -> bool {
        let node = self.node(id);
        node.group == group && node.kind == kind
    }
}
