//! Facts about the operator, which decide whether its findings explain those about objects.

use std::collections::BTreeMap;

use crate::finding::Subject;
use crate::model::world::kinds::completed::Completed;
use crate::time::Timestamp;

/// The operator and its controllers.
#[derive(Debug, Default)]
pub(super) struct OperatorFacts {
    /// The operator as the subject of findings.
    pub(super) subject: Option<Subject>,
    /// The kinds that controllers of the operator reconcile, as subjects, by the name of the
    /// controller.
    pub(super) reconciled: BTreeMap<String, Subject>,
    /// When a reconcile of each controller last succeeded.
    pub(super) succeeded: BTreeMap<String, Timestamp>,
    /// The work that the operator has done on each kind.
    pub(super) completed: BTreeMap<Subject, Completed>,
    /// The start of the operator, if that was shortly before loopwatch began.
    began: Option<OperatorStart>,
}

/// The start of an operator.
#[derive(Debug)]
struct OperatorStart {
    at: Timestamp,
    /// Until when the operator may work off the objects that waited before its start.
    until: Timestamp,
}

impl OperatorFacts {
    /// Sets the operator and the kinds that its controllers reconcile. Returns whether they have
    /// changed.
    pub(super) fn set(&mut self, subject: Subject, reconciled: BTreeMap<String, Subject>) -> bool {
        let changed = self.subject.as_ref() != Some(&subject) || self.reconciled != reconciled;
        if changed {
            self.subject = Some(subject);
            self.reconciled = reconciled;
        }

        changed
    }

    /// Sets when reconciles last succeeded. Returns the controllers with a new success.
    pub(super) fn set_succeeded(&mut self, succeeded: BTreeMap<String, Timestamp>) -> Vec<Subject> {
        let before = std::mem::replace(&mut self.succeeded, succeeded);
        let new = self.succeeded.iter().filter(|(name, at)| before.get(*name) != Some(*at));
        new.map(|(name, _)| Subject::Controller { name: name.clone() }).collect()
    }

    /// Sets the work that the operator has done on each kind. Returns the kinds with new work.
    pub(super) fn set_completed(
        &mut self,
        completed: BTreeMap<Subject, Completed>,
    ) -> Vec<Subject> {
        let before = std::mem::replace(&mut self.completed, completed);
        let new =
            self.completed.iter().filter(|(kind, completed)| before.get(*kind) != Some(*completed));
        new.map(|(kind, _)| kind.clone()).collect()
    }

    /// Returns the names of the controllers that reconcile `kind`.
    pub(super) fn controllers_of(&self, kind: &Subject) -> impl Iterator<Item = &String> {
        let of_kind = self.reconciled.iter().filter(move |(_, reconciled)| *reconciled == kind);
        of_kind.map(|(name, _)| name)
    }

    pub(super) fn set_beginning(&mut self, at: Timestamp, until: Timestamp) {
        self.began = Some(OperatorStart { at, until });
    }

    /// Returns when the operator began, and until when it may catch up, if that time is not over.
    pub(super) fn catches_up(&self, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let began = self.began.as_ref().filter(|began| now < began.until)?;
        Some((began.at, began.until))
    }

    /// Ends the time to catch up at `until`, if that is earlier than the current end. Returns the
    /// former end.
    pub(super) fn shorten_catching_up(&mut self, until: Timestamp) -> Option<Timestamp> {
        let began = self.began.as_mut().filter(|began| until < began.until)?;
        Some(std::mem::replace(&mut began.until, until))
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let began = self.began.iter_mut().flat_map(|began| [&mut began.at, &mut began.until]);
        began.chain(self.succeeded.values_mut()).for_each(|at| *at = at.shifted(by_ms));
        self.completed.values_mut().for_each(|completed| completed.rebase(by_ms));
    }
}
