//! Lookups of single objects that the model asks the sources for, and their answers.
//!
//! A detector that needs to know whether an object exists asks here. The first time, it gets no
//! answer; when the answer arrives, the model reviews the object that the detector looked at. A
//! source may drop a probe, so the model asks again when a detector still needs the answer after
//! [`ASK_AGAIN`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::cut::cut;
use crate::model::world::crowd::Crowd;
use crate::model::world::data_writes::DataWrite;
use crate::model::world::limits::MAX_LOOKUPS;
use crate::model::world::store::{self, Slot};
use crate::observation::{Dependent, ObjectView, Probe, WatchId};
use crate::time::{Span, Timestamp};

/// All lookups, with their answers.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// At most [`MAX_LOOKUPS`].
    known: BTreeMap<Arc<Probe>, Read>,
    by_namespace: Crowd<Arc<str>, Arc<Probe>>,
    /// Probes that the sources have not taken yet, in the order in which they should.
    queue: BTreeSet<(Place, Arc<Probe>)>,
    turns: Turns,
    /// When answers that nobody needs were last forgotten to make room.
    forgot: Timestamp,
    /// For each urgency, the time before which the sources may take no probe.
    next: [Timestamp; 2],
    /// When the timer that lets the sources take the next probe is due.
    pub(super) due: Option<Timestamp>,
    /// The lookups whose answers are forgotten after [`ASK_AGAIN`], in the order in which the answers
    /// arrived.
    brief: VecDeque<(Timestamp, Arc<Probe>)>,
}

/// A place in the queue. Namespaces take turns, so one with many questions does not delay the answers
/// for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    urgency: Urgency,
    turn: u64,
    /// Decides within a turn.
    number: u64,
}

/// Gives each question of a namespace the turn after that of its last one, as in start-time fair
/// queueing (Goyal, Vin and Cheng, 1996).
#[derive(Debug, Default)]
struct Turns {
    /// For each urgency, the turn of the last question that was taken.
    current: [u64; 2],
    /// The turn of the last question of each namespace that has one from the current turn on.
    last: BTreeMap<(Urgency, Arc<str>), u64>,
    /// The number of the last place.
    number: u64,
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
    /// It has been queued, and a question for the namespace with most of them has left for it.
    Instead,
    /// There is no room for it.
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
#[derive(Debug)]
struct Read {
    /// When a detector asked and has no answer yet, with the place in the queue unless a source has
    /// taken the probe.
    asked: Option<(Timestamp, Place)>,
    /// The namespace for which a detector asked first.
    namespace: Arc<str>,
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

/// The number of turns of past questions that are not worth forgetting.
const FEW_TURNS: usize = 64;

/// The maximum number of objects that wait for one answer.
const MAX_WAITING: usize = 1_000;

/// The shortest time between two searches for answers that nobody needs.
const FORGET_EVERY: Span = Span::secs(1);

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

    /// Queues a question for an object in this namespace; `slot` waits for the answer.
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        (slot, namespace): (Slot, &Arc<str>),
        probe: Probe,
        urgency: Urgency,
    ) -> Asked {
        let mut asked = Asked::Now;
        let known = self.known.get_key_value(&probe).map(|(probe, _)| Arc::clone(probe));
        let probe = known.unwrap_or_else(|| Arc::new(probe));
        if !self.known.contains_key(&probe) {
            match self.make_room(now, namespace) {
                None => return Asked::NoRoom,
                Some(true) => asked = Asked::Instead,
                Some(false) => {}
            }

            self.by_namespace.insert(namespace, Arc::clone(&probe), 1);
            self.known.insert(Arc::clone(&probe), Read::new(namespace));
        }

        let Some(read) = self.known.get_mut(&probe) else { return Asked::NoRoom };
        if read.waiting.len() < MAX_WAITING {
            read.waiting.insert(slot);
        }

        // A probe keeps its place in the queue, or gets an earlier one. Otherwise, one that detectors
        // ask for often would never be taken.
        let is_asked = read.asked.is_some_and(|(at, place)| {
            let turn = self.turns.next(urgency, namespace);
            match self.queue.contains(&(place, Arc::clone(&probe))) {
                true => (place.urgency, place.turn) <= (urgency, turn),
                false => place.urgency <= urgency && now < at.after(ASK_AGAIN),
            }
        });

        if is_asked {
            return Asked::Before;
        }

        if let Some((_, place)) = read.asked {
            self.queue.remove(&(place, Arc::clone(&probe)));
        }

        let place = self.turns.place(urgency, namespace);
        read.asked = Some((now, place));
        self.queue.insert((place, probe));
        asked
    }

    /// Makes room for another question of a namespace. Returns whether a question of the namespace
    /// with most of them leaves for it, or `None` if there is no room.
    fn make_room(&mut self, now: Timestamp, namespace: &Arc<str>) -> Option<bool> {
        if self.known.len() >= MAX_LOOKUPS && now >= self.forgot.after(FORGET_EVERY) {
            self.forgot = now;
            self.forget(now.shifted(-ASK_AGAIN.0));
        }

        if self.known.len() < MAX_LOOKUPS {
            return Some(false);
        }

        let other = self.by_namespace.leaves_for(namespace, 1).cloned()?;
        self.remove(&other);
        Some(true)
    }

    fn remove(&mut self, probe: &Arc<Probe>) {
        let Some(read) = self.known.remove(probe) else { return };
        self.by_namespace.remove(&read.namespace, probe);
        if let Some((_, place)) = read.asked {
            self.queue.remove(&(place, Arc::clone(probe)));
        }
    }

    /// Takes the answer to a question, and returns the objects that wait for it. A recording may
    /// contain answers to questions that this model did not ask.
    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        probe: &Probe,
        existence: Existence,
    ) -> BTreeSet<Slot> {
        let known = self.known.get_key_value(probe).map(|(probe, _)| Arc::clone(probe));
        let Some(probe) = known else { return BTreeSet::new() };
        let Some(read) = self.known.get_mut(&probe) else { return BTreeSet::new() };
        if let Some((_, place)) = read.asked.take() {
            self.queue.remove(&(place, Arc::clone(&probe)));
        }

        read.answer = Some((now, existence));
        if !read.kept {
            self.brief.push_back((now, probe));
        }

        std::mem::take(&mut read.waiting)
    }

    /// Forgets answers from before `before` that nobody waits for, and questions that a source took
    /// before then and never answered.
    fn forget(&mut self, before: Timestamp) {
        let Self { known, queue, by_namespace, .. } = self;
        known.retain(|probe, read| {
            let is_asked = read.asked.is_some_and(|(at, place)| {
                at >= before || queue.contains(&(place, Arc::clone(probe)))
            });
            let stays = is_asked || read.answer.as_ref().is_some_and(|(at, _)| *at >= before);
            if !stays {
                by_namespace.remove(&read.namespace, probe);
            }

            stays
        });
    }

    /// Forgets the answers that arrived more than a minute ago, except those that a detector may need for
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
                self.remove(&probe);
            }
        }
    }

    /// Removes and returns the probes to send now.
    pub(crate) fn take(&mut self, now: Timestamp) -> Vec<Probe> {
        let mut taken = Vec::new();
        for urgency in [Urgency::Suspicion, Urgency::Check] {
            let Some(entry) = self.first(urgency).cloned() else { continue };
            if self.next[urgency as usize] <= now {
                self.next[urgency as usize] = now.after(EVERY[urgency as usize]);
                self.queue.remove(&entry);
                self.turns.taken(entry.0, self.queue.len());
                taken.push(Probe::clone(&entry.1));
            }
        }

        taken
    }

    /// Returns the first entry of the queue with this urgency.
    fn first(&self, urgency: Urgency) -> Option<&(Place, Arc<Probe>)> {
        let place = Place { urgency, turn: 0, number: 0 };
        let first = (place, Arc::new(Probe::Count(WatchId::default())));
        self.queue.range(first..).next().filter(|(place, _)| place.urgency == urgency)
    }

    /// Removes and returns all probes, whatever the time.
    pub(crate) fn take_all(&mut self) -> Vec<Probe> {
        self.turns = Turns { number: self.turns.number, ..Turns::default() };
        let queue = std::mem::take(&mut self.queue);
        queue.into_iter().map(|(_, probe)| Probe::clone(&probe)).collect()
    }

    /// Returns when the sources may take the next probe, if any waits.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let first = self.queue.first().map(|(place, _)| self.next[place.urgency as usize]);
        let last = self.queue.last().map(|(place, _)| self.next[place.urgency as usize]);
        first.into_iter().chain(last).min()
    }

    /// Returns the number of urgent reads that have no answer yet.
    pub(crate) fn urgent(&self) -> usize {
        let is_urgent =
            |read: &&Read| read.asked.is_some_and(|(_, place)| place.urgency == Urgency::Suspicion);
        self.known.values().filter(is_urgent).count()
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let asked =
            self.known.values_mut().filter_map(|read| read.asked.as_mut()).map(|(at, _)| at);
        asked
            .chain(&mut self.next)
            .chain([&mut self.forgot])
            .for_each(|at| *at = at.shifted(by_ms));

        let answered = self.known.values_mut().filter_map(|read| read.answer.as_mut());
        answered.for_each(|(at, _)| *at = at.shifted(by_ms));
        self.brief.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
    }
}

impl Turns {
    /// Returns the turn of the next question of a namespace.
    fn next(&self, urgency: Urgency, namespace: &Arc<str>) -> u64 {
        let last = self.last.get(&(urgency, Arc::clone(namespace)));
        self.current[urgency as usize].max(last.map_or(0, |last| last + 1))
    }

    /// Gives a namespace its next place.
    fn place(&mut self, urgency: Urgency, namespace: &Arc<str>) -> Place {
        let turn = self.next(urgency, namespace);
        self.last.insert((urgency, Arc::clone(namespace)), turn);

        self.number += 1;
        Place { urgency, turn, number: self.number }
    }

    /// Notes that a question was taken and that this many wait.
    fn taken(&mut self, place: Place, waiting: usize) {
        let current = &mut self.current[place.urgency as usize];
        *current = place.turn.max(*current);
        if self.last.len() > 2 * waiting + FEW_TURNS {
            let current = self.current;
            self.last.retain(|(urgency, _), last| *last >= current[*urgency as usize]);
        }
    }
}

impl Read {
    fn new(namespace: &Arc<str>) -> Self {
        let namespace = Arc::clone(namespace);
        Self { asked: None, namespace, answer: None, waiting: BTreeSet::new(), kept: false }
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
