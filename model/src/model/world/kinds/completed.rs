//! How far the operator has got with the work on one kind: the latest spec changes that it
//! acknowledged or made converge, and the latest deletions that it let end. They show that a
//! problem does not keep the operator from its work.

use crate::time::Timestamp;

/// The latest work of each sort that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// When the latest of these changes began, the latest first.
    begun: [[Timestamp; ENOUGH]; SORTS],
}

/// A sort of work for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Acknowledgement,
    Convergence,
    Deletion,
}

/// The number of changes that show that the operator works. One or two may be chance.
const ENOUGH: usize = 3;

const SORTS: usize = 3;

impl Completed {
    /// Notes that the operator is done with a change that began at `begun`.
    pub(crate) fn note(&mut self, work: Work, begun: Timestamp) {
        let latest = &mut self.begun[work as usize];
        if let Some(place) = latest.iter().position(|known| *known <= begun) {
            latest[place..].rotate_right(1);
            latest[place] = begun;
        }
    }

    /// Returns whether the operator is done with several changes that began after `at`.
    pub(crate) fn several_since(&self, work: Work, at: Timestamp) -> bool {
        self.begun[work as usize].last().is_some_and(|begun| *begun > at)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds. The API server wrote
    /// the times of deletions.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        for work in [Work::Acknowledgement, Work::Convergence] {
            let known = self.begun[work as usize].iter_mut().filter(|at| at.0 != 0);
            known.for_each(|at| *at = at.shifted(by_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_later_changes_show_that_the_operator_works() {
        let mut completed = Completed::default();
        for begun in [5, 9, 7] {
            assert!(!completed.several_since(Work::Convergence, Timestamp(4)));

            completed.note(Work::Convergence, Timestamp(begun));
        }

        assert!(completed.several_since(Work::Convergence, Timestamp(4)));
        assert!(!completed.several_since(Work::Convergence, Timestamp(5)), "two of them are later");
        assert!(!completed.several_since(Work::Acknowledgement, Timestamp(0)));

        completed.note(Work::Convergence, Timestamp(6));
        assert!(completed.several_since(Work::Convergence, Timestamp(5)));
    }
}
