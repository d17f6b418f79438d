//! Kubernetes Events about the objects of the primary kinds, and how often each has happened.
//!
//! One watch per kind and scope, with a field selector, so that the API server sends no other
//! Events. When the same thing happens again, the writer of an Event raises its count. The model
//! learns by how much a count has grown, so that neither a list nor another watch counts anything
//! twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use loopwatch_model::observation::{
    EventView, MAX_EVENTS, Observation, SourceId, WatchId, WatchedKind,
};
use loopwatch_model::time::Timestamp;

mod document;
mod once; // the Events about one object
#[cfg(test)]
mod tests;

use self::document::EventDocument;
pub(crate) use self::once::events_about;
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::watch::{WatchSink, WatchTarget};
use crate::sources::feed::ServerClock;

/// The count of each Event, and the common state of the watches of Events. Outlives the watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventTally(Arc<Mutex<Tallied>>);

#[derive(Debug, Default)]
struct Tallied {
    hasher: RandomState,
    watches: BTreeMap<WatchId, TalliedWatch>,
    /// The number of Events in all of them, at most [`MAX_EVENTS`].
    events: usize,
    /// The watches that fail.
    failing: BTreeSet<WatchId>,
    /// Why some Events are not watched; empty if all are.
    restricted: String,
}

#[derive(Debug, Default)]
struct TalliedWatch {
    /// When the watch began, on the monotonic clock.
    began: Option<Duration>,
    /// The number of the current list.
    list: u32,
    /// By the hash of the UID: the last count of the Event, and the last list that contained it.
    events: HashMap<u64, (u32, u32)>,
}

/// The result of comparing an Event's count with the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    /// The count is unchanged.
    Known,
    /// The increase since the last count, or since the watch began.
    Added(u32),
    /// There is no room to remember the Event.
    NoRoom,
}

/// Turns the Events about one kind in one scope into observations.
pub(crate) struct EventSink {
    watch: WatchId,
    group: String,
    kind: String,
    tally: EventTally,
    clock: ServerClock,
    /// Whether the list in progress had to skip an Event.
    is_incomplete: bool,
}

impl EventTally {
    fn lock(&self) -> MutexGuard<'_, Tallied> {
        lock(&self.0)
    }

    /// Forgets the Events about kinds that are no longer watched.
    pub(crate) fn retain(&self, is_watched: impl Fn(&WatchId) -> bool) {
        let mut tallied = self.lock();
        tallied.watches.retain(|watch, _| is_watched(watch));
        tallied.failing.retain(is_watched);
        tallied.count();
    }

    /// Sets why some Events are not watched, and forgets the failures of watches that have ended.
    /// Returns the health of the source if it may have changed.
    pub(crate) fn restrict(
        &self,
        restricted: String,
        runs: impl Fn(&WatchId) -> bool,
    ) -> Option<Observation> {
        let mut tallied = self.lock();
        let changed =
            tallied.restricted != restricted || tallied.failing.iter().any(|watch| !runs(watch));
        tallied.failing.retain(runs);
        tallied.restricted = restricted;

        changed.then(|| tallied.health()).flatten()
    }
}

impl Tallied {
    /// The health of the source, unless it fails.
    fn health(&self) -> Option<Observation> {
        let source = SourceId::Events;
        match (self.failing.is_empty(), self.restricted.is_empty()) {
            (false, _) => None,
            (true, true) => Some(Observation::SourceRecovered { source }),
            (true, false) => {
                Some(Observation::SourceRestricted { source, reason: self.restricted.clone() })
            }
        }
    }

    fn count(&mut self) {
        self.events = self.watches.values().map(|watch| watch.events.len()).sum();
    }

    /// Notes the count of an Event.
    fn note(&mut self, watch: &WatchId, uid: &str, count: u32, is_new: bool) -> Noted {
        let uid = self.hasher.hash_one(uid);
        let room = self.events < MAX_EVENTS;
        let watch = self.watches.entry(watch.clone()).or_default();
        let now = (count, watch.list);

        match watch.events.get_mut(&uid) {
            // A count that has shrunk has started again.
            Some(last) => match std::mem::replace(last, now).0 {
                same if same == count => Noted::Known,
                before => Noted::Added(count.saturating_sub(before)),
            },
            None if room => {
                watch.events.insert(uid, now);
                self.events += 1;
                Noted::Added(if is_new { count } else { 0 })
            }
            None => Noted::NoRoom,
        }
    }

    fn forget(&mut self, watch: &WatchId, uid: &str) {
        let uid = self.hasher.hash_one(uid);
        let removed = self.watches.get_mut(watch).and_then(|watch| watch.events.remove(&uid));
        self.events -= usize::from(removed.is_some());
    }
}

impl Noted {
    fn count(self) -> u64 {
        match self {
            Self::Added(count) => count.into(),
            Self::Known | Self::NoRoom => 0,
        }
    }
}

impl EventSink {
    /// Both API groups serve the same Events. An account needs the permission in only one of them;
    /// the newer one comes first.
    pub(crate) const GROUPS: [&str; 2] = ["events.k8s.io", ""];
    pub(crate) const RESOURCE: &str = "events";
    /// The namespace of the Events about cluster-scoped objects.
    pub(crate) const OF_CLUSTER_SCOPED: &str = "default";
    /// Limit on these watches. The watches of objects come first.
    pub(crate) const MAX_WATCHES: usize = 20;

    /// The reason why the source is off without permission.
    pub(crate) const OFF: &str = "the account may not list and watch events, so Kubernetes Events about the operator's objects are \
         neither counted nor shown: grant these permissions, for example by the component reader-rights";

    /// The address of the watch of the Events about a kind.
    pub(crate) fn target(
        group: &str,
        namespace: Option<&str>,
        kind: &str,
        without: Vec<String>,
    ) -> WatchTarget {
        let field = if group.is_empty() { "involvedObject.kind" } else { "regarding.kind" };
        let without = if namespace.is_none() { without } else { Vec::new() };
        let path = collection(group, "v1", Self::RESOURCE, namespace);

        // The API server keeps no cache of Events: they change often, and few clients read them.
        WatchTarget {
            without,
            fields: format!("{field}={kind}"),
            cached: false,
            ..WatchTarget::new(path, false)
        }
    }

    pub(crate) fn new(kind: &WatchedKind, tally: EventTally, clock: ServerClock) -> Self {
        let WatchedKind { watch, group, kind, .. } = kind.clone();
        Self { watch, group, kind, tally, clock, is_incomplete: false }
    }

    /// Handles a new, changed or listed Event; returns its version. A quiet watch lists again every
    /// few minutes, so this skips a listed Event with an unchanged count.
    fn see(
        &self,
        object: &[u8],
        listed: bool,
        out: &mut Vec<Observation>,
    ) -> Result<String, Failure> {
        let document = EventDocument::parse(object)?;
        let version = document.version().to_owned();
        if document.is_about(&self.group, &self.kind) {
            let (uid, count) = (document.uid().to_owned(), document.count());
            let is_new =
                document.created().is_some_and(|created| self.is_since_the_beginning(created));
            let added = self.tally.lock().note(&self.watch, &uid, count, is_new);

            if listed && added == Noted::Known {
                return Ok(version);
            }

            let (added, uncounted) = (added.count(), added == Noted::NoRoom);
            let event = Box::new(EventView { added, uncounted, ..document.view() });
            out.push(Observation::EventSeen { watch: self.watch.clone(), event });
        }

        Ok(version)
    }

    /// Whether a time, truncated to seconds, is not before the start of the watch.
    fn is_since_the_beginning(&self, created: Timestamp) -> bool {
        let began = self.tally.lock().watches.get(&self.watch).and_then(|watch| watch.began);
        let lasted =
            began.map_or(Duration::ZERO, |began| self.clock.steady().saturating_sub(began));
        let began = self.clock.now().before(lasted.into());

        created.0.div_euclid(1_000) >= began.0.div_euclid(1_000)
    }
}

impl WatchSink for EventSink {
    fn source(&self) -> SourceId {
        SourceId::Events
    }

    fn failed(&mut self) {
        self.tally.lock().failing.insert(self.watch.clone());
    }

    fn recovered(&mut self) -> Option<Observation> {
        let mut tallied = self.tally.lock();
        tallied.failing.remove(&self.watch);
        tallied.health()
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.is_incomplete = false;
        let now = self.clock.steady();
        let mut tallied = self.tally.lock();
        let watch = tallied.watches.entry(self.watch.clone()).or_default();

        watch.began.get_or_insert(now);
        watch.list = watch.list.wrapping_add(1);
    }

    fn listed(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<(), Failure> {
        self.see(object, true, out).map(drop)
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, _: &mut Vec<Observation>) {
        if self.is_incomplete {
            return; // an Event that the list skipped may still exist
        }

        let mut tallied = self.tally.lock();
        if let Some(watch) = tallied.watches.get_mut(&self.watch) {
            let list = watch.list;
            watch.events.retain(|_, (_, seen)| *seen == list);
        }

        tallied.count();
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        self.see(object, false, out)
    }

    fn deleted(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<String, Failure> {
        let document = EventDocument::parse(object)?;
        self.tally.lock().forget(&self.watch, document.uid());
        Ok(document.version().to_owned())
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}
