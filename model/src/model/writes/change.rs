//! What a version of an object changes, compared with the version before it.

use crate::model::world::World;
use crate::model::world::store::{self, Record, Slot};
use crate::observation::{ObjectView, Role};

/// The change that a version brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The spec differs.
    pub(super) spec: bool,
    /// The meaning of the status differs: more than times and heartbeats.
    pub(super) status: bool,
    /// Nothing differs but times in the status, or metadata that the model does not read, such as
    /// annotations.
    pub(super) is_waste: bool,
}

/// Groups whose objects exist to be rewritten: leases, events, endpoints and metrics.
const HEARTBEATS: [&str; 4] =
    ["coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "metrics.k8s.io"];

impl Change {
    /// Compares a version with the record, which still shows the version before it. Returns `None` if
    /// nothing can be said: for kinds whose objects exist to be rewritten, and for a version without
    /// fingerprints. A missing fingerprint is not an equal one: loopwatch watches only the metadata of
    /// many kinds.
    ///
    /// Of a child, only the spec counts: controllers of the cluster write its status.
    pub(super) fn of(world: &World, slot: Slot, view: &ObjectView) -> Option<Self> {
        let record = world.store.get(slot)?;
        let kind = world.kind_of(record.watch);
        let is_known = record.spec_hash != 0 || record.stable_status_hash != 0;
        let has_fingerprint = view.hashes.spec != 0 || view.hashes.status != 0;
        if HEARTBEATS.contains(&&*kind.group) || !is_known || !has_fingerprint {
            return None;
        }

        let spec = record.spec_hash != view.hashes.spec;
        if kind.role != Role::Primary {
            return Some(Self { spec, status: false, is_waste: false });
        }

        let status = record.stable_status_hash != view.hashes.settled;
        let is_waste =
            !spec && !status && view.deleted.is_none() && has_same_marks(world, record, view);
        Some(Self { spec, status, is_waste })
    }

    pub(super) fn is_real(self) -> bool {
        self.spec || self.status
    }
}

/// Whether the generation, the finalizers and the owners are the same. Where the status is part of the
/// body, each write increments the generation.
fn has_same_marks(world: &World, record: &Record, view: &ObjectView) -> bool {
    let unreliable = world.kind_of(record.watch).generation_is_unreliable();
    let finalizers = world.shared.finalizer_sets.get(record.finalizers);
    let owners = record.owners();

    (unreliable || record.generation.number() == view.generation)
        && finalizers.iter().map(|it| &**it).eq(view.finalizers.iter().map(String::as_str))
        && owners.len() == view.owners.len()
        && owners
            .iter()
            .zip(&view.owners)
            .all(|(known, seen)| known.uid() == store::uid_number(&seen.uid))
}
