//! Child kinds: which objects belong to the operator, and thus which of them the model sees.
//!
//! Only direct children count. loopwatch does not watch deeper layers, such as the ReplicaSets and
//! Pods of a Deployment that the operator creates. The sink also passes on an object that has lost
//! its owner, or that looks like the operator's own without ever having had one, until it is
//! deleted: the model decides whether it is an orphan.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use loopwatch_model::observation::{ObjectKey, ObjectView, Observation, SourceId};
use loopwatch_model::time::Span;
use tokio::sync::Notify;
use tracing::warn;

#[cfg(test)]
mod tests;

use super::objects::ObjectSink;
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::watch::WatchSink;
use crate::sources::decoding::{Evidence, PrimaryKinds, is_candidate, names_owner};
use crate::sources::feed::ServerClock;

/// Passes on the objects that belong to the operator, and hides all others from the model.
pub(crate) struct ChildSink {
    inner: ObjectSink,
    owners: Arc<PrimaryKinds>,
    kept: Kept,
    /// The objects that the model knows, from the last list and the changes since.
    seen: PassedOn,
    /// The list in progress.
    list: Option<ChildList>,
}

/// The objects of a watch that were passed on although they belong to no primary object. They
/// outlive the sink, because a watch starts again if the primary kinds change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Fingerprints of their names.
    names: Arc<Mutex<HashSet<u64>>>,
    hasher: RandomState,
}

/// The objects that were passed on.
#[derive(Default)]
struct PassedOn {
    /// Fingerprints of their names.
    names: HashSet<u64>,
    /// What the owned ones have in common.
    evidence: Evidence,
}

/// A list in progress.
#[derive(Default)]
struct ChildList {
    seen: PassedOn,
    /// Objects that look like the operator's own if later objects of the list resemble them.
    undecided: BTreeMap<ObjectKey, Box<ObjectView>>,
    /// The number of such objects for which there was no room.
    dropped: u64,
    /// Whether the list had to skip an object.
    is_incomplete: bool,
}

/// Passes on primary objects, and announces new ones, because the operator may soon create their
/// first children.
pub(crate) struct PrimarySink {
    inner: ObjectSink,
    new: NewPrimaries,
    clock: ServerClock,
}

/// The namespaces of new primary objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewPrimaries {
    namespaces: Arc<Mutex<BTreeSet<String>>>,
    /// Notified of new primary objects.
    pub(crate) announced: Arc<Notify>,
}

/// The maximum age of a primary object that counts as new.
const NEW: Span = Span::mins(2);
/// Limit on objects that wait for the end of a list.
const MOST_UNDECIDED: usize = 1_000;
/// Limit on announced namespaces.
const MOST_ANNOUNCED: usize = 100;

impl ChildSink {
    pub(crate) fn new(inner: ObjectSink, owners: Arc<PrimaryKinds>, kept: Kept) -> Self {
        Self { inner, owners, kept, seen: PassedOn::default(), list: None }
    }

    /// Removes the last observation unless the model may see its object.
    fn keep_own(&mut self, out: &mut Vec<Observation>) {
        let Some(Observation::Listed { object, .. } | Observation::Applied { object, .. }) =
            out.last()
        else {
            return;
        };
        let name = self.kept.name(&object.key);
        let is_own = self.owners.own(object);
        let is_candidate = !is_own && !self.knows(name) && is_candidate(object);

        let is_passed_on = is_own
            || self.knows(name)
            || names_owner(object, &self.owners, &self.inner.annotations)
            || (is_candidate && self.matches(object));
        if let Some(list) = &mut self.list {
            list.undecided.remove(&object.key);
        }

        if is_passed_on {
            let seen = self.list.as_mut().map_or(&mut self.seen, |list| &mut list.seen);
            if seen.names.insert(name) && is_own {
                seen.evidence.add(object, &self.kept.hasher);
            }

            self.kept.set(name, !is_own);
            return;
        }

        if let (Some(Observation::Listed { object, .. }), Some(list), true) =
            (out.pop(), &mut self.list, is_candidate)
        {
            list.postpone(object);
        }
    }

    /// Whether the model knows an object.
    fn knows(&self, name: u64) -> bool {
        let mut seen = std::iter::once(&self.seen).chain(self.list.as_ref().map(|list| &list.seen));
        seen.any(|seen| seen.names.contains(&name)) || self.kept.contains(name)
    }

    /// Whether an object resembles those that belong to primary objects.
    fn matches(&self, object: &ObjectView) -> bool {
        let mut seen = std::iter::once(&self.seen).chain(self.list.as_ref().map(|list| &list.seen));
        seen.any(|seen| seen.evidence.matches(object, &self.kept.hasher))
    }

    /// Passes on the postponed objects that resemble other objects of the list, and takes over the
    /// result of the list.
    fn end_list(&mut self, out: &mut Vec<Observation>) {
        let Some(ChildList { seen, undecided, dropped, is_incomplete }) = self.list.take() else {
            return;
        };
        let earlier = std::mem::replace(&mut self.seen, seen);
        for (key, object) in undecided {
            if self.matches(&object) {
                let name = self.kept.name(&key);
                self.seen.names.insert(name);
                self.kept.set(name, true);
                out.push(Observation::Listed { watch: self.inner.watch.clone(), object });
            }
        }

        if is_incomplete {
            // The model keeps all objects that this list lacks.
            self.seen.names.extend(earlier.names);
        } else {
            self.kept.retain(&self.seen.names);
        }

        if dropped > 0 {
            warn!(watch = %self.inner.watch, dropped, "hid objects that may belong to the operator, for lack of room");
        }
    }
}

impl WatchSink for ChildSink {
    fn source(&self) -> SourceId {
        self.inner.source()
    }

    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>) {
        self.list = Some(ChildList::default());
        self.inner.began(epoch, out);
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        self.inner.listed(object, out)?;
        self.keep_own(out);
        Ok(())
    }

    fn skipped(&mut self) {
        if let Some(list) = &mut self.list {
            list.is_incomplete = true;
        }
    }

    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>) {
        self.end_list(out);
        self.inner.ended(epoch, version, out);
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let version = self.inner.applied(object, out)?;
        self.keep_own(out);
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let version = self.inner.deleted(object, out)?;
        if let Some(Observation::Deleted { key, .. }) = out.last() {
            let name = self.kept.name(key);
            let is_known = self.knows(name);
            self.kept.set(name, false);
            self.seen.names.remove(&name);

            if let Some(list) = &mut self.list {
                list.seen.names.remove(&name);
                list.undecided.remove(key);
            }

            if !is_known {
                out.pop();
            }
        }

        Ok(version)
    }

    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>) {
        self.inner.progressed(version, out);
    }
}

impl Kept {
    /// The fingerprint of a name.
    fn name(&self, key: &ObjectKey) -> u64 {
        self.hasher.hash_one(key)
    }

    fn contains(&self, name: u64) -> bool {
        self.lock().contains(&name)
    }

    /// Adds or removes an object.
    fn set(&self, name: u64, is_kept: bool) {
        let mut names = self.lock();
        if is_kept {
            names.insert(name)
        } else {
            names.remove(&name)
        };
    }

    /// Removes all others.
    fn retain(&self, names: &HashSet<u64>) {
        self.lock().retain(|name| names.contains(name));
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u64>> {
        lock(&self.names)
    }
}

impl ChildList {
    /// Keeps an object until the end of the list.
    fn postpone(&mut self, object: Box<ObjectView>) {
        // An object without any owner is more likely to be the operator's.
        let room = if object.owners.is_empty() { MOST_UNDECIDED } else { MOST_UNDECIDED / 2 };
        if self.undecided.len() < room {
            self.undecided.insert(object.key.clone(), object);
        } else {
            self.dropped += 1;
        }
    }
}

impl PrimarySink {
    pub(crate) fn new(inner: ObjectSink, new: NewPrimaries, clock: ServerClock) -> Self {
        Self { inner, new, clock }
    }
}

impl WatchSink for PrimarySink {
    fn source(&self) -> SourceId {
        self.inner.source()
    }

    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>) {
        self.inner.began(epoch, out);
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        self.inner.listed(object, out)
    }

    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>) {
        self.inner.ended(epoch, version, out);
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let version = self.inner.applied(object, out)?;
        if let Some(Observation::Applied { object, .. }) = out.last()
            && object.generation <= 1
            && object.created.is_some_and(|created| self.clock.now().since(created) < NEW)
        {
            self.new.announce(&object.key.namespace);
        }

        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        self.inner.deleted(object, out)
    }

    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>) {
        self.inner.progressed(version, out);
    }
}

impl NewPrimaries {
    fn announce(&self, namespace: &str) {
        let mut namespaces = lock(&self.namespaces);
        if namespaces.len() < MOST_ANNOUNCED && !namespaces.contains(namespace) {
            namespaces.insert(namespace.to_owned());
        }

        self.announced.notify_one();
    }

    /// Takes all announced namespaces.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.namespaces))
    }
}
