//! The objects of one kind, reduced to what matters, and the sink that keeps them up to date.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};

use loopwatch_model::observation::{Observation, SourceId};
use serde::Deserialize;
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
    /// Approximately the bytes that it takes.
    fn weight(&self) -> usize;
    /// Whether a part of the object had no room.
    fn is_cut(&self) -> bool {
        false
    }
}

/// An object that has been read.
pub(super) struct Read<T> {
    pub(super) name: Name,
    pub(super) version: String,
    /// `None` if the object does not matter.
    pub(super) record: Option<T>,
}

/// The metadata that every object has.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

/// The objects of one kind. Clones share them.
#[derive(Debug)]
pub(super) struct Table<T> {
    content: Arc<Mutex<Content<T>>>,
}

#[derive(Debug)]
struct Content<T> {
    records: BTreeMap<Name, T>,
    /// The weight of all records, and of those in each namespace.
    weight: usize,
    by_namespace: BTreeMap<String, usize>,
    is_listed: bool,
    without_room: WithoutRoom,
}

/// The objects without room.
#[derive(Debug, Default)]
struct WithoutRoom {
    /// Hashes of their names: anybody may choose long ones.
    names: HashSet<u64>,
    key: RandomState,
    /// Whether others have gone since the last list, so that some may have room now.
    may_have_room: bool,
}

/// Turns the events of a watch into the content of a table.
pub(super) struct TableSink<T> {
    /// The resource.
    resource: &'static str,
    table: Table<T>,
    /// Hashes of the names in the list: the objects of a list have no limit.
    listed: HashSet<u64>,
    key: RandomState,
    /// Whether the list had to skip an object.
    is_incomplete: bool,
    changed: Arc<Notify>,
    /// The watches of the census that fail now, and those that have not begun to work.
    failing: Arc<Mutex<BTreeSet<&'static str>>>,
    unlisted: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// Limit on the weight of the objects of one kind: enough for 50,000 small ones. Anybody may create them.
const MAX_WEIGHT: usize = 12 << 20;

/// The share of it that the objects of one namespace may have, so that nobody fills it alone.
const SHARE: usize = 8;

/// Limit on the names of objects without room. loopwatch counts no more of them.
const MAX_NAMES: usize = 20_000;

/// What a text takes besides its characters.
pub(super) const TEXT: usize = 24;

/// What a record takes besides its content.
const RECORD: usize = 120;

impl Metadata {
    pub(super) fn read<T>(self, record: Option<T>) -> Read<T> {
        let Self { namespace, name, resource_version: version } = self;
        Read { name: (namespace, name), version, record }
    }
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content) }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { content: Arc::new(Mutex::new(Content::default())) }
    }
}

impl<T: Record> Table<T> {
    /// How many objects had no room, or not for all of them.
    pub(super) fn left_out(&self) -> u64 {
        let content = lock(&self.content);
        let cut = content.records.values().filter(|record| record.is_cut()).count();
        (content.without_room.names.len() + cut) as u64
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

impl<T> Default for Content<T> {
    fn default() -> Self {
        let (records, by_namespace) = (BTreeMap::new(), BTreeMap::new());
        let without_room = WithoutRoom::default();
        Self { records, weight: 0, by_namespace, is_listed: false, without_room }
    }
}

impl<T: Record> Content<T> {
    fn remove(&mut self, name: &Name) {
        let Some(record) = self.records.remove(name) else { return };
        let weight = weight(name, &record);
        self.weight -= weight;
        if let Some(of_namespace) = self.by_namespace.get_mut(&name.0) {
            *of_namespace -= weight;
            if *of_namespace == 0 {
                self.by_namespace.remove(&name.0);
            }
        }
    }

    /// Replaces a record, or removes it.
    fn put(&mut self, name: Name, record: Option<T>) {
        let weight = self.weight;
        self.without_room.remove(&name);
        self.remove(&name);
        if let Some(record) = record {
            self.insert(name, record);
        }

        self.without_room.may_have_room |= self.weight < weight;
    }

    /// Inserts a record, if there is room for it.
    fn insert(&mut self, name: Name, record: T) {
        let weight = weight(&name, &record);
        let of_namespace = self.by_namespace.get(&name.0).copied().unwrap_or_default() + weight;
        let is_full = !name.0.is_empty() && of_namespace > MAX_WEIGHT / SHARE;
        if is_full || self.weight + weight > MAX_WEIGHT {
            self.without_room.add(&name);
            return;
        }

        self.weight += weight;
        self.by_namespace.insert(name.0.clone(), of_namespace);
        self.records.insert(name, record);
    }

    /// Ends a list. Without the names in it, an incomplete one does not show which objects are gone.
    fn end_list(&mut self, listed: Option<&HashSet<u64>>) {
        self.is_listed = true;
        let Some(listed) = listed else { return };

        let key = self.without_room.key.clone();
        let gone = self.records.keys().filter(|name| !listed.contains(&key.hash_one(*name)));
        let gone: Vec<Name> = gone.cloned().collect();
        gone.into_iter().for_each(|name| self.put(name, None));
        self.without_room.keep(listed);
    }
}

impl WithoutRoom {
    fn add(&mut self, name: &Name) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(self.key.hash_one(name));
        }
    }

    fn remove(&mut self, name: &Name) {
        if !self.names.is_empty() {
            self.names.remove(&self.key.hash_one(name));
        }
    }

    /// Forgets all objects except those of a list.
    fn keep(&mut self, listed: &HashSet<u64>) {
        self.names.retain(|name| listed.contains(name));
    }
}

impl<T: Record> TableSink<T> {
    pub(super) fn new(resource: &'static str, table: Table<T>, census: &Census) -> Self {
        let Census { changed, failing, unlisted, .. } = census.clone();
        let (listed, key) = (HashSet::new(), lock(&table.content).without_room.key.clone());
        Self { resource, table, listed, key, is_incomplete: false, changed, failing, unlisted }
    }

    /// Keeps an object, or forgets it if it does not matter.
    fn keep(&self, name: Name, record: Option<T>) {
        let mut content = lock(&self.table.content);
        let is_same = content.records.get(&name) == record.as_ref();
        content.put(name, record);
        if !is_same && content.is_listed {
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
        lock(&self.table.content).without_room.may_have_room = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let Read { name, record, .. } = T::read(object)?;
        self.listed.insert(self.key.hash_one(&name));
        self.keep(name, record);
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, _: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        lock(&self.table.content).end_list((!self.is_incomplete).then_some(&listed));
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
        self.listed.remove(&self.key.hash_one(&name));
        self.keep(name, None);
        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}

    /// Objects that had no room may have some now.
    fn needs_list(&self) -> bool {
        let without_room = &lock(&self.table.content).without_room;
        without_room.may_have_room && !without_room.names.is_empty()
    }
}

/// Approximately the bytes that a record takes with its name.
fn weight<T: Record>((namespace, name): &Name, record: &T) -> usize {
    RECORD + namespace.len() + name.len() + record.weight()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object whose name says how large it is.
    #[derive(Clone, Debug, PartialEq)]
    struct Sized(usize);

    impl Record for Sized {
        fn read(object: &[u8]) -> Result<Read<Self>, Failure> {
            let text = String::from_utf8_lossy(object).into_owned();
            let size = text.split('-').next().and_then(|size| size.parse().ok()).unwrap_or(0);
            let name = (String::new(), text);
            Ok(Read { name, version: "1".to_owned(), record: Some(Self(size)) })
        }

        fn weight(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn objects_beyond_the_weight_are_left_out_until_others_go() {
        let table = Table::<Sized>::default();
        let mut sink = TableSink::new("sizes", table.clone(), &Census::default());
        let (large, out) = (format!("{}-a", MAX_WEIGHT - 1_000), &mut Vec::new());
        for name in [large.as_str(), "500-b", "500-c"] {
            sink.applied(name.as_bytes(), out).expect("an object");
        }
        let names = || {
            let mut names = Vec::new();
            table.each(|(_, name), _| names.push(name.clone()));
            names
        };
        assert_eq!((names(), table.left_out()), (vec![large.clone(), "500-b".to_owned()], 1));
        assert!(!sink.needs_list(), "nothing has gone");

        sink.deleted(large.as_bytes(), out).expect("an object");
        assert!(sink.needs_list(), "there is room for an object whose content is unknown");
        sink.began(1, out);
        for name in ["500-b", "500-c"] {
            sink.listed(name.as_bytes(), out).expect("an object");
        }
        sink.ended(1, "1", out);
        assert_eq!((names(), table.left_out()), (vec!["500-b".to_owned(), "500-c".to_owned()], 0));
        assert!(!sink.needs_list());
    }

    #[test]
    fn objects_without_room_that_are_gone_do_not_count() {
        let table = Table::<Sized>::default();
        let mut sink = TableSink::new("sizes", table.clone(), &Census::default());
        let (large, out) = (MAX_WEIGHT.to_string(), &mut Vec::new());
        for name in ["a", "b", "c"] {
            sink.applied(format!("{large}-{name}").as_bytes(), out).expect("an object");
        }
        assert_eq!(table.left_out(), 3);

        sink.deleted(format!("{large}-a").as_bytes(), out).expect("an object");
        assert_eq!(table.left_out(), 2);
        sink.began(1, out);
        sink.listed(format!("{large}-b").as_bytes(), out).expect("an object");
        sink.ended(1, "1", out);
        assert_eq!(table.left_out(), 1, "the list does not have the other one");
    }

    #[test]
    fn one_namespace_does_not_fill_the_table() {
        let mut content = Content::default();
        let name = |namespace: &str, number: usize| (namespace.to_owned(), number.to_string());
        let mut fits = |namespace: &str, number| {
            content.insert(name(namespace, number), Sized(1 << 20));
            content.records.contains_key(&name(namespace, number))
        };
        assert_eq!(
            [fits("aaa", 1), fits("aaa", 2), fits("b", 1), fits("", 1)],
            [true, false, true, true]
        );

        content.remove(&name("aaa", 1));
        content.remove(&name("b", 1));
        assert_eq!(content.by_namespace.len(), 1, "only that of objects without a namespace");
    }
}
