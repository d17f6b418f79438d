//! Child kinds: which objects belong to a primary object, and which of them the model sees.
//!
//! Only direct children count. loopwatch does not watch deeper layers, such as the ReplicaSets and Pods of a Deployment
//! that the operator creates.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use loopwatch_model::observation::{ObjectKey, ObjectView, Observation, SourceId};
use loopwatch_model::time::Span;
use tokio::sync::Notify;

use super::clock::ServerClock;
use super::failure::Failure;
use super::watch::Sink;
use super::watch::objects::ObjectSink;

/// The watched primary kinds, as group and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners(BTreeSet<(String, String)>);

/// Passes on the objects that belong to a primary object, and hides all others from the model.
pub(crate) struct ChildSink {
    inner: ObjectSink,
    owners: Arc<Owners>,
    /// Fingerprints of the names of objects that the model knows.
    known: HashSet<u64>,
    hasher: RandomState,
}

/// Passes on primary objects, and announces new ones, because the operator may soon create their first children.
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

/// Age up to which a primary object counts as new.
const NEW: Span = Span::mins(2);
/// Limit on announced namespaces.
const MOST_ANNOUNCED: usize = 100;

// === impl Owners ===

impl Owners {
    /// Whether an object of one of these kinds owns `object`.
    pub(crate) fn own(&self, object: &ObjectView) -> bool {
        object.owners.iter().any(|owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            self.0.iter().any(|(own_group, kind)| own_group == group && *kind == owner.kind)
        })
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Owners {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(kinds: I) -> Self {
        Self(kinds.into_iter().map(|(group, kind)| (group.to_owned(), kind.to_owned())).collect())
    }
}

// === impl ChildSink ===

impl ChildSink {
    pub(crate) fn new(inner: ObjectSink, owners: Arc<Owners>) -> Self {
        Self { inner, owners, known: HashSet::new(), hasher: RandomState::new() }
    }

    /// Removes the last observation unless the model may see its object.
    fn keep_own(&mut self, out: &mut Vec<Observation>) {
        let Some(Observation::Listed { object, .. } | Observation::Applied { object, .. }) = out.last() else { return };
        let name = self.name(&object.key);
        if self.owners.own(object) {
            self.known.insert(name);
            return;
        }
        match out.pop() {
            // The object has lost its owner.
            Some(Observation::Listed { watch, object } | Observation::Applied { watch, object })
                if self.known.remove(&name) =>
            {
                let ObjectView { key, version, .. } = *object;
                out.push(Observation::Deleted { watch, key, version });
            }
            _ => {}
        }
    }

    fn name(&self, key: &ObjectKey) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl Sink for ChildSink {
    fn source(&self) -> SourceId {
        self.inner.source()
    }

    fn began(&mut self, epoch: u64, out: &mut Vec<Observation>) {
        self.known.clear();
        self.inner.began(epoch, out);
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        self.inner.listed(object, out)?;
        self.keep_own(out);
        Ok(())
    }

    fn ended(&mut self, epoch: u64, version: &str, out: &mut Vec<Observation>) {
        self.inner.ended(epoch, version, out);
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let version = self.inner.applied(object, out)?;
        self.keep_own(out);
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let version = self.inner.deleted(object, out)?;
        if let Some(Observation::Deleted { key, .. }) = out.last()
            && !self.known.remove(&self.name(key))
        {
            out.pop();
        }
        Ok(version)
    }

    fn progressed(&mut self, version: &str, out: &mut Vec<Observation>) {
        self.inner.progressed(version, out);
    }
}

// === impl PrimarySink ===

impl PrimarySink {
    pub(crate) fn new(inner: ObjectSink, new: NewPrimaries, clock: ServerClock) -> Self {
        Self { inner, new, clock }
    }
}

impl Sink for PrimarySink {
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

// === impl NewPrimaries ===

impl NewPrimaries {
    fn announce(&self, namespace: &str) {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if namespaces.len() < MOST_ANNOUNCED && !namespaces.contains(namespace) {
            namespaces.insert(namespace.to_owned());
        }
        self.announced.notify_one();
    }

    /// Takes all announced namespaces.
    pub(crate) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.namespaces.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::observation::WatchId;

    use super::*;
    use crate::sources::decode::HashKey;
    use crate::sources::fake::say;

    fn pod(name: &str, owner: Option<&str>) -> Vec<u8> {
        let owners = owner.map_or(
            serde_json::json!([]),
            |kind| serde_json::json!([{ "apiVersion": "example.io/v1", "kind": kind, "name": "o", "uid": "u" }]),
        );
        serde_json::json!({ "metadata": { "name": name, "resourceVersion": "3", "ownerReferences": owners } })
            .to_string()
            .into_bytes()
    }

    fn sink() -> ChildSink {
        let inner = ObjectSink { watch: WatchId("pods".into()), hash_key: HashKey([0; 16]) };
        ChildSink::new(inner, Arc::new([("example.io", "Widget")].into_iter().collect()))
    }

    #[test]
    fn only_children_of_watched_kinds_reach_the_model() {
        let (mut sink, mut out) = (sink(), Vec::new());
        for (name, owner) in [("own", Some("Widget")), ("foreign", Some("ReplicaSet")), ("alone", None)] {
            sink.listed(&pod(name, owner), &mut out).expect("a Pod");
        }
        // A foreign change and a foreign deletion change nothing, but the version advances.
        assert_eq!(sink.applied(&pod("foreign", Some("ReplicaSet")), &mut out).expect("a Pod"), "3");
        assert_eq!(sink.deleted(&pod("foreign", Some("ReplicaSet")), &mut out).expect("a Pod"), "3");
        sink.applied(&pod("own", Some("Widget")), &mut out).expect("a Pod");
        // An object that loses its owner is no longer a child, and becomes one again with an owner.
        sink.applied(&pod("own", None), &mut out).expect("a Pod");
        sink.applied(&pod("own", None), &mut out).expect("a Pod");
        sink.applied(&pod("own", Some("Widget")), &mut out).expect("a Pod");
        sink.deleted(&pod("own", None), &mut out).expect("a Pod");
        let said: Vec<String> = out.iter().map(say).collect();
        assert_eq!(said, ["listed own@3", "applied own@3", "deleted own@3", "applied own@3", "deleted own@3"]);
    }
}
