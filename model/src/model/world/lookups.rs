//! Lookups of single objects that the model asks the sources for, and their answers.
//!
//! A detector that needs to know whether an object exists asks here. The first time, it gets no
//! answer; when the answer arrives, the model reviews the object that the detector looked at. A
//! source may drop a probe, so the model asks again when a detector still needs the answer after
//! [`ASK_AGAIN`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::cut::cut;
use crate::model::world::data_writes::DataWrite;
use crate::model::world::limits::MAX_LOOKUPS;
use crate::model::world::store::{self, Slot};
use crate::observation::{Dependent, ObjectView, Probe, WatchId};
use crate::time::{Span, Timestamp};

/// All reads.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    known: BTreeMap<Probe, Read>,
    /// Probes that the sources have not taken yet, in the order in which they should.
    queue: BTreeSet<(Urgency, u64, Probe)>,
    /// The number of the last entry in the queue.
    last: u64,
    /// For each urgency, the time before which the sources may take no probe.
    next: [Timestamp; 2],
    /// When the timer that lets the sources take the next probe is due.
    pub(super) due: Option<Timestamp>,
    /// Answers that are needed only briefly, in the order in which they arrived. They are forgotten
    /// soon.
    brief: VecDeque<(Timestamp, Probe)>,
}

/// How soon a read should happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Something is probably wrong: at most ten reads per second.
    Suspicion,
    /// A regular check: at most one read per second.
    Check,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It has been queued.
    Now,
    /// It waits in the queue, or a source has just taken it.
    Before,
    /// The queue has no room for it.
    NoRoom,
}

/// What a read has shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Existence {
    Exists(Arc<ReadObject>),
    /// The kind exists, but not the object.
    Absent,
    /// The API server serves no such kind.
    KindUnknown,
    /// These objects name it as an owner.
    Dependents(Arc<Vec<Dependent>>),
    /// The account may not read it.
    Unreadable,
    /// The read failed, but another one may succeed.
    Failed,
}

/// The metadata of an object that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadObject {
    pub(crate) uid: u128,
    pub(crate) deleted: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    /// The UIDs of its owners.
    pub(crate) owners: Vec<u128>,
    /// The names of its field managers.
    pub(crate) writers: Vec<String>,
    /// When somebody last wrote its data, if it is a `ConfigMap` or a Secret.
    pub(crate) data: Option<DataWrite>,
}

/// The state of one read.
#[derive(Debug, Default)]
struct Read {
    /// When a detector asked and has no answer yet, with the place in the queue unless a source has
    /// taken the probe.
    asked: Option<(Timestamp, Urgency, u64)>,
    answer: Option<(Timestamp, Existence)>,
    /// The objects to review when the answer arrives. At most [`MAX_WAITING`]; others are reviewed
    /// by their timers.
    waiting: BTreeSet<Slot>,
    /// A detector may need the answer for a long time.
    kept: bool,
}

/// The time after which the model asks again if there is no answer.
pub(crate) const ASK_AGAIN: Span = Span::mins(1);

/// The maximum length of all finalizers of an object that was read, and of all its field managers, in
/// bytes.
const MAX_READ_NAMES: usize = 1024;

/// The maximum number of objects that wait for one answer.
const MAX_WAITING: usize = 1_000;

/// The shortest time between two reads of each urgency.
const EVERY: [Span; 2] = [Span(100), Span::secs(1)];

impl Lookups {
    /// Returns the last answer to a question, and when it arrived.
    pub(super) fn answer(&self, probe: &Probe) -> Option<&(Timestamp, Existence)> {
        self.known.get(probe)?.answer.as_ref()
    }

    /// Keeps the answer to a question until it is no longer needed.
    pub(super) fn keep(&mut self, probe: &Probe) {
        if let Some(read) = self.known.get_mut(probe) {
            read.kept = true;
        }
    }

    /// Queues a question; `slot` waits for the answer.
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        slot: Slot,
        probe: Probe,
        urgency: Urgency,
    ) -> Asked {
        if !self.known.contains_key(&probe) && self.known.len() >= MAX_LOOKUPS {
            self.forget(now.shifted(-ASK_AGAIN.0));
            if self.known.len() >= MAX_LOOKUPS {
                return Asked::NoRoom;
            }
        }

        let read = self.known.entry(probe.clone()).or_default();
        if read.waiting.len() < MAX_WAITING {
            read.waiting.insert(slot);
        }

        // A probe keeps its place in the queue. Otherwise, one that detectors ask for often would
        // never be taken.
        let is_asked = read.asked.is_some_and(|(at, asked, number)| {
            let is_recent = now < at.after(ASK_AGAIN);
            asked <= urgency && (is_recent || self.queue.contains(&(asked, number, probe.clone())))
        });

        if is_asked {
            return Asked::Before;
        }

        if let Some((_, asked, number)) = read.asked {
            self.queue.remove(&(asked, number, probe.clone()));
        }

        self.last += 1;
        read.asked = Some((now, urgency, self.last));
        self.queue.insert((urgency, self.last, probe));
        Asked::Now
    }

    /// Takes the answer to a question, and returns the objects that wait for it. A recording may
    /// contain answers to questions that this model did not ask.
    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        probe: &Probe,
        existence: Existence,
    ) -> BTreeSet<Slot> {
        let Some(read) = self.known.get_mut(probe) else { return BTreeSet::new() };
        if let Some((_, urgency, number)) = read.asked.take() {
            self.queue.remove(&(urgency, number, probe.clone()));
        }

        read.answer = Some((now, existence));
        if !read.kept {
            self.brief.push_back((now, probe.clone()));
        }

        std::mem::take(&mut read.waiting)
    }

    /// Forgets answers from before `before` that nobody waits for, and questions that a source took
    /// before then and never answered.
    fn forget(&mut self, before: Timestamp) {
        let Self { known, queue, .. } = self;
        known.retain(|probe, read| {
            let is_asked = read.asked.is_some_and(|(at, urgency, number)| {
                at >= before || queue.contains(&(urgency, number, probe.clone()))
            });
            is_asked || read.answer.as_ref().is_some_and(|(at, _)| *at >= before)
        });
    }

    /// Forgets the answers that arrived a minute ago, except those that a detector may need for
    /// longer.
    pub(super) fn forget_brief(&mut self, now: Timestamp) {
        let before = now.shifted(-ASK_AGAIN.0);
        while let Some((_, probe)) = self.brief.pop_front_if(|(at, _)| *at < before) {
            let is_old = |read: &Read| read.answer.as_ref().is_none_or(|(at, _)| *at < before);
            if self
                .known
                .get(&probe)
                .is_some_and(|read| !read.kept && read.asked.is_none() && is_old(read))
            {
                self.known.remove(&probe);
            }
        }
    }

    /// Removes and returns the probes to send now.
    pub(crate) fn take(&mut self, now: Timestamp) -> Vec<Probe> {
        let mut taken = Vec::new();
        for urgency in [Urgency::Suspicion, Urgency::Check] {
            let first = (urgency, 0, Probe::Count(WatchId::default()));
            let Some(entry) =
                self.queue.range(first..).next().filter(|entry| entry.0 == urgency).cloned()
            else {
                continue;
            };
            if self.next[urgency as usize] <= now {
                self.next[urgency as usize] = now.after(EVERY[urgency as usize]);
                self.queue.remove(&entry);
                taken.push(entry.2);
            }
        }

        taken
    }

    /// Removes and returns all addresses to read, whatever the time.
    pub(crate) fn take_all(&mut self) -> Vec<Probe> {
        std::mem::take(&mut self.queue).into_iter().map(|(.., probe)| probe).collect()
    }

    /// Returns when the sources may take the next probe, if any waits.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let first = self.queue.first().map(|(urgency, ..)| self.next[*urgency as usize]);
        let last = self.queue.last().map(|(urgency, ..)| self.next[*urgency as usize]);
        first.into_iter().chain(last).min()
    }

    /// Returns the number of urgent reads that have no answer yet.
    pub(crate) fn urgent(&self) -> usize {
        let is_urgent = |read: &&Read| matches!(read.asked, Some((_, Urgency::Suspicion, _)));
        self.known.values().filter(is_urgent).count()
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let asked =
            self.known.values_mut().filter_map(|read| read.asked.as_mut()).map(|(at, ..)| at);
        asked.chain(&mut self.next).for_each(|at| *at = at.shifted(by_ms));

        let answered = self.known.values_mut().filter_map(|read| read.answer.as_mut());
        answered.for_each(|(at, _)| *at = at.shifted(by_ms));
        self.brief.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
    }
}

impl ReadObject {
    /// Returns what is kept of an object. Anybody may write the names in it, so the last names of
    /// long lists are dropped.
    pub(crate) fn of(view: &ObjectView) -> Self {
        let mut finalizers = view.finalizers.clone();
        cut(&mut finalizers, MAX_READ_NAMES, String::len);
        let mut writers: Vec<String> =
            view.managers.iter().map(|manager| manager.name.clone()).collect();
        cut(&mut writers, MAX_READ_NAMES, String::len);

        Self {
            uid: store::uid_number(&view.uid),
            deleted: view.deleted,
            finalizers,
            owners: view.owners.iter().map(|owner| store::uid_number(&owner.uid)).collect(),
            writers,
            data: DataWrite::of(view),
        }
    }
}
