//! The last writes to one part of an object, its spec or its status, and how often an author has
//! undone the write of another one.

use std::collections::{BTreeSet, VecDeque};

use crate::model::writes::author::{Author, Writers};
use crate::model::writes::seen::push;
use crate::settings::bounds::KEPT_UNDONE_WRITES;
use crate::time::{Span, Timestamp};

/// The number of writes that a line keeps.
const KEPT: usize = 8;

/// The number of states of which a line keeps the authors.
const STATES: usize = 4;

/// The resolution of the times in managed fields.
const SECOND: Span = Span::secs(1);

/// The writes to one part of an object.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The earliest first.
    writes: VecDeque<Write>,
    /// The first writes of the last states, with their authors.
    states: VecDeque<Write>,
    undone: VecDeque<Undone>,
    writers: Writers,
}

/// A write that changed the part.
#[derive(Debug)]
struct Write {
    at: Timestamp,
    /// The fingerprint of the part.
    state: u64,
    author: Option<Author>,
}

/// An author restored the state that it had left, after another one had changed it.
#[derive(Clone, Debug)]
pub(super) struct Undone {
    pub(super) at: Timestamp,
    pub(super) by: Author,
    /// Who wrote the state that was undone; the same name if several programs share it.
    pub(super) of: Author,
}

impl Line {
    /// Adds a write at `at`, after which the part has the fingerprint `state`. Of several possible authors,
    /// the one that wrote this state in an earlier second wrote it again.
    pub(super) fn note(&mut self, at: Timestamp, state: u64, writers: Writers) {
        let is_earlier = |write: &Write| write.state == state && at.since(write.at) >= SECOND;
        let wrote_state =
            |author: &Author| self.states.iter().any(|it| is_earlier(it) && it.is_by(author));
        let author = writers.after(&self.writers, at, wrote_state).author();
        self.writers = writers;

        let is_known = |write: &Write| write.state == state && write.author.is_some();
        if author.is_some() && !self.states.iter().any(is_known) {
            push(&mut self.states, Write { at, state, author: author.clone() }, STATES);
        }

        let undone = author.as_ref().and_then(|author| self.undoes(state, author));
        if let (Some(by), Some(of)) = (&author, undone) {
            push(&mut self.undone, Undone { at, by: by.clone(), of }, KEPT_UNDONE_WRITES);
        }
        push(&mut self.writes, Write { at, state, author }, KEPT);
    }

    /// Returns whose write the state of `author` undoes: the author left this state, and since then
    /// others have written. Two programs of one name look like one author, so the
    /// return to the state before the last write counts, too.
    fn undoes(&self, state: u64, author: &Author) -> Option<Author> {
        let last = self.writes.back()?;
        let of = last.author.clone()?;

        if of.name == author.name {
            let before = self.writes.iter().rev().nth(1)?;
            let returns = before.state == state && last.state != state && before.is_by(author);
            return returns.then_some(of);
        }

        let own = self.writes.iter().rev().find(|write| write.is_by(author))?;
        (own.state == state).then_some(of)
    }

    /// Returns the undone writes within a span.
    pub(super) fn undone_within(
        &self,
        now: Timestamp,
        span: Span,
    ) -> impl Iterator<Item = &Undone> {
        let from = now.before(span);
        self.undone.iter().filter(move |undone| undone.at > from)
    }

    /// Returns how many of the last writes are by others than those in `names`.
    pub(super) fn by_others(&self, names: &BTreeSet<&str>) -> usize {
        let authors = self.writes.iter().filter_map(|write| write.author.as_ref());
        authors.filter(|author| !names.contains(&*author.name)).count()
    }

    /// Returns whether an author has undone the write of another one.
    pub(super) fn is_contested(&self) -> bool {
        !self.undone.is_empty()
    }

    /// Forgets the writes: some may have been missed.
    pub(super) fn interrupt(&mut self) {
        self.writes.clear();
        self.states.clear();
        self.writers = Writers::default();
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let writes = self.writes.iter_mut().chain(&mut self.states).map(|write| &mut write.at);
        let undone = self.undone.iter_mut().map(|undone| &mut undone.at);
        writes.chain(undone).for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Write {
    fn is_by(&self, author: &Author) -> bool {
        self.author.as_ref().is_some_and(|known| known.name == author.name)
    }
}
