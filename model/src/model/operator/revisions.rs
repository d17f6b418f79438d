//! The revision of the operator that is in charge, and what the totals counted under each.
//!
//! The totals count regardless of the revision. When another revision takes charge, the model notes
//! what they have counted so far, so that their increase since then belongs to the new revision. It
//! remembers one earlier revision: during a rollout, the lead may go back and forth between the
//! two.

use std::collections::VecDeque;

use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::kinds::Kind;
use crate::observation::{PodView, Revision, Role};
use crate::snapshot::{EarlierRevisions, OperatorSummary, RevisionTotals};
use crate::time::Timestamp;

/// The revisions of the operator.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    /// The revision in charge; empty while none is known.
    current: Revision,
    /// The label of the previous revision.
    previous: Option<String>,
    /// When another revision took charge, with the labels of the old and the new one; at most
    /// [`MAX_CHANGES`].
    changes: VecDeque<(Timestamp, String, String)>,
}

/// The maximum number of changes that are remembered.
const MAX_CHANGES: usize = 20;

impl Revisions {
    /// Returns the latest changes: when, and the labels of the old and the new revision.
    pub(super) fn changes(&self) -> impl Iterator<Item = (Timestamp, &str, &str)> {
        self.changes.iter().map(|(at, old, new)| (*at, old.as_str(), new.as_str()))
    }

    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.changes.iter_mut().for_each(|(at, ..)| *at = at.shifted(by_ms));
    }

    /// Notes that another revision took charge. The first known revision replaces none.
    fn note_change(&mut self, now: Timestamp, old: &str, new: &str) {
        if old.is_empty() || old == new {
            return;
        }

        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }

        self.changes.push_back((now, old.to_owned(), new.to_owned()));
    }
}

impl Operator {
    /// Finds out which revision is in charge, after a change of the operator's Pods or leases.
    pub(super) fn review_revision(&mut self, world: &mut World) {
        let Some(revision) =
            self.revision_in_charge(world).filter(|revision| **revision != self.revisions.current)
        else {
            return;
        };
        let (new, old) = (revision.clone(), std::mem::take(&mut self.revisions.current));

        // Counts from before any revision was known belong to the first one.
        if old != Revision::default() && old.label() != new.label() {
            let returns = self.revisions.previous.as_deref() == Some(new.label());
            for number in 0..world.kinds.len() {
                change_revision(world, number, returns);
            }

            self.revisions.previous = Some(old.label().to_owned());
        }

        self.revisions.note_change(world.now, old.label(), new.label());
        self.revisions.current = new;
    }

    /// Returns the label of the revision in charge; empty if none is known.
    pub(crate) fn revision_label(&self) -> String {
        self.revisions.current.label().to_owned()
    }

    /// Returns the revision of the Pod that holds a lease. If no known Pod holds one, returns the
    /// revision of loopwatch's own Pod, or else of the newest ready Pod.
    fn revision_in_charge(&self, world: &World) -> Option<&Revision> {
        let view = self.view.as_ref()?;
        let holds = |pod: &&PodView| {
            self.leases
                .holders_in(world.now, &view.namespace)
                .any(|holder| view.pod_of_holder(holder) == Some(&pod.name))
        };
        let is_ready = |pod: &&PodView| {
            pod.deleted.is_none() && pod.containers.first().is_some_and(|container| container.ready)
        };

        let pods = || view.pods.iter().filter(|pod| !pod.revision.label().is_empty());
        let pod = pods().find(holds).or_else(|| pods().find(|pod| pod.own));
        pod.or_else(|| pods().filter(is_ready).max_by_key(|pod| pod.created))
            .map(|pod| &pod.revision)
    }
}

/// Attributes the counts of a kind from now on to another revision. `returns` says whether it is
/// the one that was in charge before.
fn change_revision(world: &mut World, number: usize, returns: bool) {
    let Some(kind) = world.kinds.get(number).filter(|kind| kind.role == Role::Primary) else {
        return;
    };

    let now = revision_totals(world, number, kind);
    let EarlierRevisions { all, previous } = kind.earlier.as_deref().cloned().unwrap_or_default();
    let current = now.less(&all);
    let all = if returns { now.less(&previous) } else { now };

    world.kinds[number].earlier = Some(Box::new(EarlierRevisions { all, previous: current }));
}

fn revision_totals(world: &World, number: usize, kind: &Kind) -> RevisionTotals {
    let namespaces = world.totals_of_namespaces(number, kind);
    RevisionTotals {
        acknowledge: kind.totals.acknowledge.clone(),
        convergence: kind.totals.convergence.clone(),
        obligations: namespaces
            .iter()
            .map(|(namespace, totals)| (namespace.clone(), totals.obligations))
            .collect(),
        convergences: namespaces
            .into_iter()
            .map(|(namespace, totals)| (namespace, totals.convergences))
            .collect(),
    }
}

impl Operator {
    /// Returns the operator as snapshots show it.
    pub(crate) fn shown_operator(&self, world: &World) -> OperatorSummary {
        let Revisions { current, previous, .. } = &self.revisions;
        OperatorSummary {
            view: self.view.clone(),
            revision: current.clone(),
            previous_revision: previous.clone(),
            framework: self.framework(),
            health: self.operator_health(world),
            down_signs: self.down_signs(world),
            instances: self.summaries(),
        }
    }
}
