//! How far the operator has got with the work on one kind: the latest spec changes that it
//! acknowledged or made converge, and the latest deletions that it let end. They show that a
//! problem does not keep the operator from its work.

use crate::time::Timestamp;

/// The latest work of each sort that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// The changes that began last, the latest first.
    latest: [[Done; ENOUGH]; SORTS],
}

/// A change that the operator is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    begun: Timestamp,
    /// When the operator was done.
    at: Timestamp,
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
    /// Notes that the operator is done at `at` with a change that began at `begun`.
    pub(crate) fn note(&mut self, work: Work, begun: Timestamp, at: Timestamp) {
        let latest = &mut self.latest[work as usize];
        if let Some(place) = latest.iter().position(|known| known.begun <= begun) {
            latest[place..].rotate_right(1);
            latest[place] = Done { begun, at };
        }
    }

    /// Returns whether the operator was done after `worked` with several changes that began after
    /// `begun`.
    pub(crate) fn several_since(&self, work: Work, begun: Timestamp, worked: Timestamp) -> bool {
        let mut latest = self.latest[work as usize].iter();
        latest.all(|done| done.begun > begun && done.at > worked)
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds. The API server wrote
    /// the times of deletions.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        for done in self.latest.iter_mut().flatten().filter(|done| done.at.0 != 0) {
            shift(&mut done.at);
        }

        for work in [Work::Acknowledgement, Work::Convergence] {
            let known = self.latest[work as usize].iter_mut().map(|done| &mut done.begun);
            known.filter(|begun| begun.0 != 0).for_each(shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_later_changes_show_that_the_operator_works() {
        let mut completed = Completed::default();
        let since = |completed: &Completed, begun, worked| {
            completed.several_since(Work::Convergence, Timestamp(begun), Timestamp(worked))
        };
        for begun in [5, 9, 7] {
            assert!(!since(&completed, 4, 4));

            completed.note(Work::Convergence, Timestamp(begun), Timestamp(begun + 10));
        }

        assert!(since(&completed, 4, 4) && since(&completed, 4, 14));
        assert!(!since(&completed, 5, 4), "two of them are later");
        assert!(!since(&completed, 4, 15), "one was done before");
        assert!(!completed.several_since(Work::Acknowledgement, Timestamp(0), Timestamp(0)));

        completed.note(Work::Convergence, Timestamp(6), Timestamp(20));
        assert!(since(&completed, 5, 15));
    }
}
