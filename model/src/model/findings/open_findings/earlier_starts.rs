//! Start times of findings of an earlier run. A finding that opens again takes its earlier start.
//! So does a finding whose subject is no longer visible for a while.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Area, FINDINGS, FindingCode, FindingId, Subject};
use crate::time::Timestamp;

/// Start times of findings that may open again.
#[derive(Debug, Default)]
pub(super) struct EarlierStarts {
    /// The earlier start times. A finding that opens again removes its entry.
    since: BTreeMap<FindingId, Timestamp>,
    /// Findings that did not alert in the earlier run, with the end of their silence.
    silent: BTreeMap<FindingId, Timestamp>,
    /// When findings opened in the earlier run that page once they have lasted.
    opened: BTreeMap<FindingId, Timestamp>,
    /// Findings whose start times stay until an instant even if no detector reports them before. At
    /// most [`MAX_ASIDE`].
    aside: BTreeMap<FindingId, Timestamp>,
    /// The findings that have taken their earlier start and have not closed since.
    reopened: BTreeSet<FindingId>,
}

/// The state that a finding takes over from an earlier one.
pub(super) struct EarlierStart {
    pub(super) since: Timestamp,
    /// Until when the finding does not alert.
    pub(super) silent_until: Option<Timestamp>,
    /// When the finding opened, if it pages once it has lasted.
    pub(super) opened: Option<Timestamp>,
}

/// The maximum number of start times that are set aside.
const MAX_ASIDE: usize = 10_000;

impl EarlierStarts {
    /// Takes over the start times of an earlier run.
    pub(super) fn restore(
        &mut self,
        since: BTreeMap<FindingId, Timestamp>,
        silent: BTreeMap<FindingId, Timestamp>,
        opened: BTreeMap<FindingId, Timestamp>,
    ) {
        (self.since, self.silent, self.opened) = (since, silent, opened);
    }

    /// Removes the earlier start of a finding. Returns it unless it was before `not_before`.
    pub(super) fn take(
        &mut self,
        id: FindingId,
        not_before: Option<Timestamp>,
    ) -> Option<EarlierStart> {
        self.aside.remove(&id);
        let (silent_until, opened) = (self.silent.remove(&id), self.opened.remove(&id));
        let since =
            self.since.remove(&id).filter(|since| not_before.is_none_or(|at| *since >= at))?;

        self.reopened.insert(id);
        Some(EarlierStart { since, silent_until, opened })
    }

    pub(super) fn has_reopened(&self, id: FindingId) -> bool {
        self.reopened.contains(&id)
    }

    pub(super) fn closed(&mut self, id: FindingId) {
        self.reopened.remove(&id);
    }

    pub(super) fn get(&self, id: FindingId) -> Option<Timestamp> {
        self.since.get(&id).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FindingId, Timestamp)> {
        self.since.iter().map(|(id, since)| (*id, *since))
    }

    pub(super) fn silent(&self) -> impl Iterator<Item = (FindingId, Timestamp)> {
        self.silent.iter().map(|(id, until)| (*id, *until))
    }

    pub(super) fn opened(&self) -> impl Iterator<Item = (FindingId, Timestamp)> {
        self.opened.iter().map(|(id, at)| (*id, *at))
    }

    pub(super) fn aside(&self) -> impl Iterator<Item = FindingId> {
        self.aside.keys().copied()
    }

    /// Keeps the start time of a finding until `until`.
    pub(super) fn set_aside(&mut self, id: FindingId, since: Timestamp, until: Timestamp) {
        if self.aside.len() < MAX_ASIDE || self.aside.contains_key(&id) {
            self.since.insert(id, since);
            self.aside.insert(id, until);
        }
    }

    /// Keeps an existing start time until `until`, even if no detector reports the finding before.
    pub(super) fn keep_until(&mut self, id: FindingId, until: Timestamp) {
        if self.since.contains_key(&id) && self.aside.len() < MAX_ASIDE {
            self.aside.insert(id, until);
        }
    }

    /// Forgets the start times that were set aside until now or earlier.
    pub(super) fn forget_aside(&mut self, now: Timestamp) {
        self.aside.retain(|id, until| {
            let keep = *until > now;
            if !keep {
                self.since.remove(id);
            }

            keep
        });
    }

    /// Forgets all entries except those of `ids` and those that are set aside.
    pub(super) fn retain(&mut self, ids: &BTreeSet<FindingId>) {
        self.since.retain(|id, _| ids.contains(id) || self.aside.contains_key(id));
        self.silent.retain(|id, _| self.since.contains_key(id));
        self.opened.retain(|id, _| self.since.contains_key(id));
    }

    /// Forgets the entries of `subject`, except those of `codes`, and those about writes that are set
    /// aside: their evidence takes a while to collect.
    pub(super) fn retain_of(&mut self, subject: &Subject, codes: &[FindingCode]) {
        for info in FINDINGS.iter().filter(|info| !codes.contains(&info.code)) {
            let id = FindingId::of(info.code, subject);
            if info.area == Area::Writes && self.aside.contains_key(&id) {
                continue;
            }

            self.since.remove(&id);
            self.silent.remove(&id);
            self.opened.remove(&id);
            self.aside.remove(&id);
        }
    }

    /// Moves the ends of silences and of the time aside, and the times of openings, by `by_ms` milliseconds. Start times stay.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let ends = self.silent.values_mut().chain(self.aside.values_mut());
        ends.chain(self.opened.values_mut()).for_each(|until| *until = until.shifted(by_ms));
    }
}
