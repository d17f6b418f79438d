//! Whether the operator worked on a kind while one of its objects waited, or whether the object only
//! waited for the end of an outage.
//!
//! An outage that loopwatch does not see looks like slow work: a spec change gets its answer late.
//! They differ in what happens meanwhile. During slow work, the operator answers other changes, and
//! changes that begin at different times end at different times. After an outage, everything that
//! waited ends at nearly the same time, so it teaches only once.

use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// A shorter time without a sign of the operator is not remembered.
const SHORTEST_PAUSE: Span = Span::mins(1);

/// The maximum number of pauses that are remembered. The shortest makes room.
const MAX_PAUSES: usize = 8;

/// A pause of at least this share of a wait may be an outage that caused the wait.
const SHARE_OF_WAIT: i64 = 2;

/// Two waits begin at different times if at least this share of the wait lies between them.
const SHARE_BETWEEN: i64 = 8;

/// The answers of the operator to changes of one kind.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the operator last answered a change.
    last: Option<Timestamp>,
    /// The times without an answer, the latest last.
    pauses: VecDeque<Wait>,
    /// The latest late wait that teaches, by [`Answer`].
    late: [Option<Wait>; 3],
}

/// What an object waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Update,
    Creation,
    Acknowledgement,
}

/// A time between two instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
}

impl Pace {
    /// Records that the operator answered a change.
    pub(crate) fn answered(&mut self, now: Timestamp) {
        let last = self.last.replace(now).unwrap_or(Timestamp(0));
        if now.since(last) < SHORTEST_PAUSE {
            return;
        }

        if self.pauses.len() >= MAX_PAUSES
            && let Some((shortest, _)) =
                self.pauses.iter().enumerate().min_by_key(|(_, pause)| pause.length())
        {
            self.pauses.remove(shortest);
        }
        self.pauses.push_back(Wait { from: last, to: now });
    }

    /// Returns whether a late wait that has just ended shows how long the work takes. If it does,
    /// another wait that depends on it no longer does.
    pub(crate) fn teaches(&mut self, answer: Answer, wait: Wait) -> bool {
        let last = &mut self.late[answer as usize];
        let attended = self
            .pauses
            .iter()
            .all(|pause| Span(pause.overlap(wait).0.saturating_mul(SHARE_OF_WAIT)) < wait.length());
        let teaches = attended || last.is_none_or(|last| wait.is_independent_of(last));
        if teaches {
            *last = Some(wait);
        }

        teaches
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let waits = self.pauses.iter_mut().chain(self.late.iter_mut().flatten());
        waits.for_each(|wait| wait.rebase(by_ms));
        self.last = self.last.map(|at| at.shifted(by_ms));
    }
}

impl Wait {
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        [&mut self.from, &mut self.to].into_iter().for_each(|at| *at = at.shifted(by_ms));
    }

    fn length(self) -> Span {
        self.to.since(self.from)
    }

    fn overlap(self, other: Self) -> Span {
        Span(self.to.min(other.to).since(self.from.max(other.from)).0.max(0))
    }

    /// Returns whether one cause cannot have ended both waits: this one began after the other had
    /// ended, or they ended as far apart as they began.
    pub(crate) fn is_independent_of(self, earlier: Self) -> bool {
        let began = self.from.since(earlier.from);
        let ended = self.to.since(earlier.to);
        let apart = Span(began.0.saturating_mul(SHARE_BETWEEN)) >= self.length();

        self.from >= earlier.to || (apart && ended.0.saturating_mul(2) >= began.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from: i64, to: i64) -> Wait {
        Wait { from: at(from), to: at(to) }
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp(0).after(Span::mins(minute))
    }

    /// Returns how many of the waits teach if the operator answers only them.
    fn taught(waits: &[Wait]) -> usize {
        let mut pace = Pace::default();
        let teaches = waits.iter().filter(|wait| {
            pace.answered(wait.to);
            pace.teaches(Answer::Creation, **wait)
        });
        teaches.count()
    }

    #[test]
    fn waits_one_after_the_other_all_teach() {
        let waits: Vec<Wait> = (0..10).map(|n| wait(n * 45, n * 45 + 25)).collect();
        assert_eq!(taught(&waits), 10);
    }

    #[test]
    fn waits_that_begin_and_end_one_after_the_other_all_teach() {
        let waits: Vec<Wait> = (0..10).map(|n| wait(n * 10, n * 10 + 40)).collect();
        assert_eq!(taught(&waits), 10);
    }

    #[test]
    fn waits_that_end_together_teach_once() {
        let waits: Vec<Wait> = (0..10).map(|n| wait(n * 10, 120)).collect();
        assert_eq!(taught(&waits), 1);
        assert_eq!(taught(&[wait(0, 40); 10]), 1);
    }

    #[test]
    fn waits_while_the_operator_answers_other_changes_all_teach() {
        let mut pace = Pace::default();
        (100..=115).for_each(|minute| pace.answered(at(minute)));
        assert!((0..30).all(|_| pace.teaches(Answer::Acknowledgement, wait(100, 115))));
    }
}
