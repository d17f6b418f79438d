//! A watch: one kind in one scope, with what the model knows about its lists, its visibility and
//! its namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::world::kinds::OTHER;
use crate::model::world::kinds::namespace::WatchNamespace;
use crate::model::world::store::Slot;
use crate::observation::{ObjectKey, Scope, WatchId, WatchedKind};
use crate::snapshot::{NamespaceTotals, WatchTotals};
use crate::time::{Span, Timestamp};

/// One kind in one scope.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) id: WatchId,
    pub(crate) kind: u16,
    pub(crate) scope: Scope,
    /// The watch is in the latest list of discovered watches.
    pub(crate) active: bool,
    /// Verbs that the API server denies.
    pub(crate) missing: Vec<String>,
    /// The watch does not report all objects, so audits do not apply.
    pub(crate) filtered: bool,
    /// The watch shows the objects of a dump, which may lack others.
    pub(crate) dumped: bool,
    pub(crate) totals: WatchTotals,
    pub(crate) lists: Lists,
    pub(crate) blindness: Blindness,
    pub(crate) audit: AuditState,
    pub(crate) namespaces: Vec<WatchNamespace>,
    pub(crate) namespace_index: BTreeMap<Arc<str>, u32>,
}

/// The lists and versions that a watch has shown.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The first list is complete.
    pub(crate) synced: bool,
    /// The number of the current list, or of the last one, as counted by the model.
    pub(crate) epoch: u32,
    /// The source's epoch of the list in progress.
    pub(crate) listing: Option<u64>,
    /// The next list is read anew, because loopwatch now reads the kind differently: an equal
    /// version does not mean that an object is unchanged.
    pub(crate) reread: bool,
    /// The number of objects that the watch has shown in the current epoch.
    pub(crate) current: u64,
    /// Objects beyond `limits.objects`, by fingerprint, with the epoch in which they were last
    /// seen. At most [`MAX_EXCLUDED`].
    pub(crate) excluded: BTreeMap<u64, u32>,
    /// Objects that the source skipped since the beginning of the last list.
    pub(crate) skipped: u32,
    /// The newest resource version of an event that changed an object.
    pub(crate) newest_object: u64,
    /// The newest resource version of any event, bookmark or list.
    pub(crate) newest: u64,
}

/// When a watch could not see; `visibility.rs` describes the states.
#[derive(Debug, Default)]
pub(crate) struct Blindness {
    /// Its source fails.
    pub(crate) failing: bool,
    /// When its source began to fail; set once the failure has lasted for `source_failing_after`.
    /// Its objects then count as unknown.
    pub(crate) blind: Option<Timestamp>,
    /// Since when its objects may be out of date; see `visibility.rs`.
    pub(crate) lost_since: Option<Timestamp>,
    /// The end of the grace after blindness.
    pub(crate) grace_until: Timestamp,
    /// The length of that grace.
    pub(crate) grace: Span,
    /// When visibility returned last.
    pub(crate) regained: Timestamp,
    /// When the blindness before that began.
    pub(crate) lost: Timestamp,
    /// Its objects have been up to date before.
    pub(crate) seen_before: bool,
    /// Its source has failed, or its permission was gone, since its objects were up to date.
    pub(crate) failed_before: bool,
    /// Objects to review when visibility returns.
    pub(crate) postponed: BTreeSet<Slot>,
}

/// The maximum number of excluded objects that a watch remembers.
const MAX_EXCLUDED: usize = 100_000;

/// The audit of a watch.
#[derive(Debug, Default)]
pub(crate) struct AuditState {
    pub(crate) due: Option<Timestamp>,
    /// The API server's count at a version that the watch has not reached yet.
    pub(crate) pending: Option<PendingCount>,
    /// Consecutive audits that found the same difference.
    pub(crate) agreeing: u32,
}

/// An object count of the API server at one resource version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCount {
    /// When the count arrived.
    pub(crate) at: Timestamp,
    pub(crate) objects: u64,
    pub(crate) version: u64,
    /// When the watch delivered the last event that the count already included.
    pub(crate) late_event: Option<Timestamp>,
}

impl Watch {
    /// Returns whether the objects of a namespace, or those without one, are in the scope of the
    /// watch.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.scope.namespace().is_none_or(|within| within == namespace)
    }

    /// Returns whether everything in a namespace is in the scope of the watch, and if it is empty,
    /// everything in the cluster.
    pub(crate) fn covers_all_of(&self, namespace: &str) -> bool {
        self.scope.namespace().is_none_or(|within| within == namespace && !namespace.is_empty())
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        self.blindness.blind.iter_mut().for_each(shift);
        self.blindness.lost_since.iter_mut().for_each(shift);
        shift(&mut self.blindness.grace_until);
        shift(&mut self.blindness.regained);
        shift(&mut self.blindness.lost);
        self.audit.due.iter_mut().for_each(shift);

        if let Some(pending) = self.audit.pending.as_mut() {
            shift(&mut pending.at);
            pending.late_event.iter_mut().for_each(shift);
        }

        self.namespaces.iter_mut().for_each(|namespace| shift(&mut namespace.counted_to));
    }

    pub(crate) fn new(watched: &WatchedKind, kind: u16, now: Timestamp) -> Self {
        let (id, scope) = (watched.watch.clone(), watched.scope.clone());
        let blindness = Blindness { lost_since: Some(now), ..Blindness::default() };
        Self { id, kind, scope, active: true, blindness, ..Self::default() }
    }

    /// Remembers an object that does not fit into the model.
    pub(crate) fn exclude(&mut self, key: &ObjectKey) {
        let fingerprint = fingerprint(key);
        if self.lists.excluded.len() < MAX_EXCLUDED
            || self.lists.excluded.contains_key(&fingerprint)
        {
            self.lists.excluded.insert(fingerprint, self.lists.epoch);
        }
    }

    /// Forgets that an object was excluded: it fits now, or is gone.
    pub(crate) fn include(&mut self, key: &ObjectKey) {
        if !self.lists.excluded.is_empty() {
            self.lists.excluded.remove(&fingerprint(key));
        }
    }

    /// Returns whether an object has not fitted into the model.
    pub(crate) fn is_excluded(&self, key: &ObjectKey) -> bool {
        !self.lists.excluded.is_empty() && self.lists.excluded.contains_key(&fingerprint(key))
    }

    /// Returns the position of `namespace`, adding it if necessary. If `limit` namespaces have
    /// objects, further ones share the position of [`OTHER`], and the second value is then `false`.
    /// The third is the namespace without objects that the new one replaces, if any.
    pub(crate) fn namespace(
        &mut self,
        namespace: &str,
        limit: usize,
        now: Timestamp,
    ) -> (u32, bool, Option<WatchNamespace>) {
        if let Some(position) = self.namespace_index.get(namespace) {
            return (*position, true, None);
        }

        let has_room = self.namespaces.len() < limit;
        let empty = if has_room {
            None
        } else {
            self.namespaces.iter().position(WatchNamespace::may_make_room)
        };
        let fits = has_room || empty.is_some();
        let name: Arc<str> = if fits { namespace.into() } else { OTHER.into() };

        if let Some(position) = self.namespace_index.get(&name) {
            return (*position, fits, None);
        }

        let new = WatchNamespace {
            name: name.clone(),
            totals: NamespaceTotals::default(),
            counted_to: now,
        };
        let (position, evicted) = match empty {
            Some(position) => {
                (position, Some(std::mem::replace(&mut self.namespaces[position], new)))
            }
            None => {
                self.namespaces.push(new);
                (self.namespaces.len() - 1, None)
            }
        };

        if let Some(evicted) = &evicted {
            self.namespace_index.remove(&evicted.name);
        }

        let position = u32::try_from(position).unwrap_or(u32::MAX);
        self.namespace_index.insert(name, position);
        (position, fits, evicted)
    }
}

/// Returns a 64-bit fingerprint of an object's namespace and name (FNV-1a).
fn fingerprint(key: &ObjectKey) -> u64 {
    let bytes = key.namespace.bytes().chain([0xff]).chain(key.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
