//! The objects of one kind, reduced to what matters, and the sink that keeps them up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use loopwatch_model::observation::{Observation, SourceId};
use tokio::sync::Notify;

use super::Census;
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::{Discovery, WatchSink};

/// The namespace and the name of an object; a cluster-scoped one has no namespace.
pub(super) type Name = (String, String);

/// An object, reduced to what matters.
pub(super) trait Record: Clone + PartialEq + Send + Sync + 'static {
    /// Reads an object.
    fn read(object: &[u8]) -> Result<Read<Self>, Failure>;
}

/// An object that has been read.
pub(super) struct Read<T> {
    pub(super) name: Name,
    pub(super) version: String,
    /// `None` if the object does not matter.
    pub(super) record: Option<T>,
}

/// The objects of one kind. Clones share them.
#[derive(Debug)]
pub(super) struct Table<T> {
    content: Arc<Mutex<Content<T>>>,
}

#[derive(Debug)]
struct Content<T> {
    records: BTreeMap<Name, T>,
    is_listed: bool,
    left_out: u64,
}

/// Turns the events of a watch into the content of a table.
pub(super) struct TableSink<T> {
    /// The resource.
    resource: &'static str,
    table: Table<T>,
    listed: BTreeSet<Name>,
    /// Whether the list had to skip an object.
    is_incomplete: bool,
    changed: Arc<Notify>,
    /// The watches of the census that fail now, and those that have not begun to work.
    failing: Arc<Mutex<BTreeSet<&'static str>>>,
    unlisted: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// Limit on the objects of one kind. Ten times as many as in the largest clusters of which we know.
const MAX_RECORDS: usize = 50_000;

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content) }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let content = Content { records: BTreeMap::new(), is_listed: false, left_out: 0 };
        Self { content: Arc::new(Mutex::new(content)) }
    }
}

impl<T: Clone> Table<T> {
    /// How many objects had no room.
    pub(super) fn left_out(&self) -> u64 {
        lock(&self.content).left_out
    }

    pub(super) fn get(&self, name: &Name) -> Option<T> {
        lock(&self.content).records.get(name).cloned()
    }

    /// Calls `see` for each object.
    pub(super) fn each(&self, mut see: impl FnMut(&Name, &T)) {
        lock(&self.content).records.iter().for_each(|(name, record)| see(name, record));
    }

    #[cfg(test)]
    pub(super) fn put(&self, name: Name, record: T) {
        lock(&self.content).records.insert(name, record);
    }
}

impl<T: Record> TableSink<T> {
    pub(super) fn new(resource: &'static str, table: Table<T>, census: &Census) -> Self {
        let Census { changed, failing, unlisted, .. } = census.clone();
        let listed = BTreeSet::new();
        Self { resource, table, listed, is_incomplete: false, changed, failing, unlisted }
    }

    /// Keeps an object, or forgets it if it does not matter.
    fn keep(&self, name: Name, record: Option<T>) {
        let mut content = lock(&self.table.content);
        let has_room = content.records.len() < MAX_RECORDS || content.records.contains_key(&name);
        let is_changed = match record {
            Some(record) if has_room => {
                content.records.insert(name, record.clone()).as_ref() != Some(&record)
            }
            Some(_) => {
                content.left_out += 1;
                false
            }
            None => content.records.remove(&name).is_some(),
        };

        if is_changed && content.is_listed {
            self.changed.notify_one();
        }
    }
}

impl<T: Record> WatchSink for TableSink<T> {
    fn source(&self) -> SourceId {
        Discovery::SOURCE
    }

    fn failed(&mut self) {
        lock(&self.failing).insert(self.resource);
        if lock(&self.unlisted).remove(self.resource) {
            self.changed.notify_one();
        }
    }

    fn recovered(&mut self) -> Option<Observation> {
        let mut failing = lock(&self.failing);
        failing.remove(self.resource);
        failing.is_empty().then_some(Observation::SourceRecovered { source: Discovery::SOURCE })
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let Read { name, record, .. } = T::read(object)?;
        self.listed.insert(name.clone());
        self.keep(name, record);
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, _: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        {
            // An object that the list skipped is not gone.
            let mut content = lock(&self.table.content);
            let is_incomplete = self.is_incomplete;
            content.records.retain(|name, _| is_incomplete || listed.contains(name));
            content.is_listed = true;
        }
        lock(&self.unlisted).remove(self.resource);
        self.changed.notify_one();
    }

    fn applied(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<String, Failure> {
        let Read { name, version, record } = T::read(object)?;
        self.keep(name, record);
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<String, Failure> {
        let Read { name, version, .. } = T::read(object)?;
        self.listed.remove(&name);
        self.keep(name, None);
        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}
