//! Findings from their opening to their closing.
//!
//! While a problem exists, its detector reports it again and again with [`OpenFindings::raise`].
//! When the problem is over, [`OpenFindings::clear`] closes the finding. For problems of objects,
//! `steps/review.rs` calls both. At the end of each step of the model, [`OpenFindings::settle`]
//! decides which findings explain which, and announces the changes.
//!
//! The number of open findings is limited. Namespaces share the room, and each keeps its most severe
//! findings ([`Places`]). A finding that makes room for another one waits until there is room again.
//! Findings about limits do not count towards the limit, because they are the ones that report it.

mod report; // what a detector reports
mod record; // one finding with its state
mod register; // the open findings, with indexes
mod queue; // the findings that wait for room
mod places; // which finding gets room
mod room; // how it gets it
mod paging; // which finding about an object pages
mod explanations; // which findings explain which
mod time_limits; // whether times show that one may explain another
mod operator_facts; // what is known about the operator, for explanations
mod catching_up; // the time that an operator has to catch up after its start
mod earlier_starts; // start times of findings of an earlier run
mod announcements; // finding events
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use self::announcements::Announcements;
use self::earlier_starts::EarlierStarts;
use self::operator_facts::OperatorFacts;
use self::paging::Paging;
use self::places::{Claim, Places};
use self::queue::Queue;
use self::record::Record;
use self::register::Register;
pub(crate) use self::report::{PageRule, PagesIf, Raised, Report};
use crate::finding::{Evidence, Finding, FindingCode, FindingEvent, FindingId, Severity, Subject};
use crate::model::findings::detection::Reach;
use crate::model::findings::past_events::PastEvents;
use crate::model::world::kinds::completed::Completed;
use crate::snapshot::FindingTimes;
use crate::time::{Span, Timestamp};

/// The findings that are open or wait for room.
#[derive(Debug, Default)]
pub(crate) struct OpenFindings {
    open: Register,
    waiting: Queue,
    places: Places,
    paging: Paging,
    /// How many findings have been raised.
    raised: u64,
    earlier: EarlierStarts,
    operator: OperatorFacts,
    /// Findings whose explanation may have changed in this step.
    unexplained: BTreeSet<FindingId>,
    announcements: Announcements,
    /// When the timer that closes held findings, and raises causes, is due.
    pub(crate) due: Option<Timestamp>,
}

impl OpenFindings {
    /// Opens a finding, or updates it if it is open or waits. Of two start times, the finding keeps
    /// the earlier. At most `limit` findings are open.
    pub(crate) fn raise(&mut self, now: Timestamp, mut report: Report, limit: usize) -> Raised {
        let id = report.id();
        if self.open.contains(id) {
            self.update_open(now, id, report);
            return Raised::Open;
        }

        if self.waiting.contains(id) {
            self.change_waiting(id, |record| {
                record.causes = report.take_causes();
                record.update(now, report);
            });
            self.note_paging(id);
            return Raised::Waiting;
        }

        let earlier = self.earlier.take(id, report.detection.not_before);
        self.raised += 1;
        let record = Record::new(now, self.raised, report, earlier);
        let claim = record.claim().filter(|_| !self.has_room(limit));
        let Some(Claim { severity, group, .. }) = claim else {
            self.open(record);
            return Raised::Open;
        };

        match self.places.open_for(severity, &group) {
            Some(evicted) => {
                self.evict(now, evicted);
                self.open(record);
            }
            None => self.wait(record),
        }

        Raised::Dropped
    }

    /// Closes a finding if it is open, or forgets it if it waits.
    pub(crate) fn clear(&mut self, now: Timestamp, code: FindingCode, subject: &Subject) {
        let id = FindingId::of(code, subject);
        self.close(now, id);
        self.take_waiting(id);
    }

    /// Changes the evidence of a finding, if it is open. `change` also gets the start of the problem.
    pub(crate) fn change_evidence(
        &mut self,
        code: FindingCode,
        subject: &Subject,
        change: impl FnOnce(Timestamp, Evidence) -> Evidence,
    ) {
        self.open.change(FindingId::of(code, subject), |record| {
            let evidence = std::mem::take(&mut record.finding.evidence);
            record.finding.evidence = change(record.finding.since, evidence);
        });
    }

    /// Returns when the latest open problem of each of these sorts began that nothing explains.
    pub(crate) fn latest_starts(&self, codes: &[FindingCode]) -> BTreeMap<FindingCode, Timestamp> {
        let unexplained = self.open.findings().filter(|finding| finding.explained_by.is_none());
        let mut starts = BTreeMap::new();
        for finding in unexplained.filter(|finding| codes.contains(&finding.code)) {
            let latest = starts.entry(finding.code).or_insert(finding.since);
            *latest = finding.since.max(*latest);
        }

        starts
    }

    /// Keeps a finding open until `until`, although its problem is over. Findings about events need
    /// this, because their subject may be gone at once. The next report releases the finding.
    pub(crate) fn hold(&mut self, code: FindingCode, subject: &Subject, until: Timestamp) {
        self.open.hold(FindingId::of(code, subject), until);
    }

    /// Closes the held findings whose time is over, and marks those that now raise their causes.
    /// Returns when the next one is due.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.open.overdue(now).into_iter().for_each(|id| drop(self.close(now, id)));

        let raises = self.open.raises().take_while(|(at, _)| *at <= now);
        let raises: Vec<FindingId> = raises.map(|(_, id)| id).collect();
        raises.iter().for_each(|id| self.open.raise_at(*id, None));
        self.unexplained.extend(raises);

        self.open.next_due().into_iter().chain(self.paging.next_due()).min()
    }

    /// Returns the next time at which a finding pages, or raises its cause.
    pub(crate) fn next_rise(&self) -> Option<Timestamp> {
        self.open.next_raise().into_iter().chain(self.paging.next_due()).min()
    }

    /// Closes all findings of `code` except those about a subject for which `keep` returns true.
    pub(crate) fn retain(
        &mut self,
        now: Timestamp,
        code: FindingCode,
        mut keep: impl FnMut(&Subject) -> bool,
    ) {
        let closed = self.found().filter(|finding| finding.code == code && !keep(&finding.subject));
        let closed: Vec<Subject> = closed.map(|finding| finding.subject.clone()).collect();
        closed.iter().for_each(|subject| self.clear(now, code, subject));
    }

    /// Sets the operator as the subject of findings, the kind that each of its controllers
    /// reconciles, when each controller last succeeded, and the work that it has done on each kind.
    pub(crate) fn set_operator(
        &mut self,
        subject: Subject,
        reconciled: BTreeMap<String, Subject>,
        succeeded: BTreeMap<String, Timestamp>,
        completed: BTreeMap<Subject, Completed>,
    ) {
        let controllers = self.operator.set_succeeded(succeeded);
        self.mark_explained_by_workers(&controllers);

        let kinds = self.operator.set_completed(completed);
        self.mark_explained_of_kinds(&kinds);

        if self.operator.set(subject, reconciled) {
            let of_operator = self.open.records().filter(|record| record.causes.of_operator);
            self.unexplained.extend(of_operator.map(|record| record.finding.id));
        }
    }

    /// Ends a step of the model. Opens waiting findings if there is room, or in place of others that
    /// make room. Then updates the explanations, and announces the findings that opened or whose
    /// explanation changed.
    ///
    /// When an explanation ends, the operator has `recovers_within` to solve the problem before its
    /// finding alerts.
    pub(crate) fn settle(&mut self, now: Timestamp, limit: usize, recovers_within: Span) {
        while self.has_room(limit)
            && let Some(id) = self.places.next()
            && let Some(record) = self.take_waiting(id)
        {
            self.open_late(now, record);
        }

        // The other one can wait in the place of the first.
        while let Some((id, evicted)) = self.places.exchange()
            && let Some(record) = self.take_waiting(id)
        {
            self.evict(now, evicted);
            self.open_late(now, record);
        }

        self.update_explanations(now, recovers_within);
        let finding = |id| self.open.get(id).map(|record| &record.finding);
        self.announcements.end_step(now, finding);
    }

    /// Returns the open finding of a code about a subject.
    pub(crate) fn about(&self, code: FindingCode, subject: &Subject) -> Option<&Finding> {
        self.open.about(code, subject).map(|record| &record.finding)
    }

    /// Returns the open findings of a code about work of the operator.
    pub(crate) fn of_operator(&self, code: FindingCode) -> impl Iterator<Item = &Finding> {
        let of_operator = self.open.records().filter(|record| record.causes.of_operator);
        of_operator.map(|record| &record.finding).filter(move |finding| finding.code == code)
    }

    /// Returns whether a full queue dropped findings for which there is room now, and forgets that
    /// it did. The detectors must then report all problems again.
    pub(crate) fn take_overflow(&mut self, limit: usize) -> bool {
        let room = self.waiting.is_worked_off() && self.has_room(limit);
        if room {
            self.waiting.overflowed = false;
        }

        room
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<FindingEvent> {
        self.announcements.take_events()
    }

    /// Returns the latest events, including those that were taken.
    pub(crate) fn past(&self) -> &PastEvents {
        self.announcements.past()
    }

    /// Returns how soon findings of each code have opened, and how long they have lasted.
    pub(crate) fn times(&self) -> &BTreeMap<FindingCode, FindingTimes> {
        self.announcements.times()
    }

    /// Returns how many events were dropped since the last call.
    pub(crate) fn take_lost_events(&mut self) -> u64 {
        self.announcements.take_lost()
    }

    /// Changes the severity of a finding that is open or waits. `is_fixed` means that a rule of the
    /// settings sets it.
    pub(crate) fn set_severity(
        &mut self,
        code: FindingCode,
        subject: &Subject,
        severity: Severity,
        is_fixed: bool,
    ) {
        let id = FindingId::of(code, subject);
        let changed = self.change_open(id, |record| {
            let old = record.finding.severity;
            record.set_severity(severity, is_fixed);
            record.finding.severity != old
        });

        match changed {
            Some(true) => self.mark_reassessed(id),
            Some(false) => {}
            None => self.change_waiting(id, |record| record.set_severity(severity, is_fixed)),
        }
    }

    /// Returns the codes and subjects of the findings that are open or wait.
    pub(crate) fn subjects(&self) -> Vec<(FindingCode, Subject)> {
        self.found().map(|finding| (finding.code, finding.subject.clone())).collect()
    }

    /// Returns the open findings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.open.findings()
    }

    /// Returns the start times that should survive a restart. They belong to findings that are open
    /// or wait, and to findings of an earlier run that have not opened again yet.
    pub(crate) fn start_times(&self) -> BTreeMap<FindingId, Timestamp> {
        let records = self.open.records().chain(self.waiting.records());
        let found = records.filter(|record| record.outlives_restart());
        let found = found.map(|Record { finding, .. }| (finding.id, finding.since));
        self.earlier.iter().chain(found).collect()
    }

    /// Returns the findings that do not alert, each with the end of its silence if that is known.
    /// This should survive a restart.
    pub(crate) fn silent(&self, now: Timestamp) -> BTreeMap<FindingId, Option<Timestamp>> {
        let earlier = self.earlier.silent().map(|(id, until)| (id, Some(until)));
        let open = self.open.findings().filter(|finding| !finding.alerts_at(now));
        earlier.chain(open.map(|finding| (finding.id, finding.alerts_from))).collect()
    }

    /// Returns when the findings opened that page once they have lasted. This should survive a
    /// restart.
    pub(crate) fn opened(&self) -> BTreeMap<FindingId, Timestamp> {
        let records = self.open.records().chain(self.waiting.records());
        let tickets = records.filter(|record| record.may_page().is_some());
        let opened = tickets.map(|record| (record.finding.id, record.opened));
        self.earlier.opened().chain(opened).collect()
    }

    pub(crate) fn restore(
        &mut self,
        restored: BTreeMap<FindingId, Timestamp>,
        silent: BTreeMap<FindingId, Timestamp>,
        opened: BTreeMap<FindingId, Timestamp>,
    ) {
        self.earlier.restore(restored, silent, opened);
    }

    /// Keeps the start time of a finding until `until`, because its subject is no longer visible
    /// and may return.
    pub(crate) fn set_aside(&mut self, code: FindingCode, subject: &Subject, until: Timestamp) {
        let id = FindingId::of(code, subject);
        if let Some(record) = self.open.get(id).or_else(|| self.waiting.get(id)) {
            self.earlier.set_aside(id, record.finding.since, until);
        }
    }

    /// Keeps the restored start time of a finding until `until`, even if no detector reports the
    /// finding before.
    pub(crate) fn keep_until(&mut self, id: FindingId, until: Timestamp) {
        self.earlier.keep_until(id, until);
    }

    /// Returns the open findings whose evidence takes a while to collect after a restart, and all
    /// findings whose start time is set aside.
    pub(crate) fn collected_anew(&self) -> impl Iterator<Item = FindingId> {
        let open = self.open.findings().filter(|finding| finding.is_collected_anew());

        open.map(|finding| finding.id).chain(self.earlier.aside())
    }

    /// Forgets the start times that were set aside until now or earlier.
    pub(crate) fn forget_aside(&mut self, now: Timestamp) {
        self.earlier.forget_aside(now);
    }

    /// Returns the start time of a finding of an earlier run that has not opened again yet.
    pub(crate) fn restored_start(&self, code: FindingCode, subject: &Subject) -> Option<Timestamp> {
        self.earlier.get(FindingId::of(code, subject))
    }

    /// Returns whether a finding is open, or waits for room.
    pub(crate) fn is_open(&self, code: FindingCode, subject: &Subject) -> bool {
        let id = FindingId::of(code, subject);
        self.open.contains(id) || self.waiting.contains(id)
    }

    /// Returns an open finding about a kind, and which objects of the kind have its problem.
    pub(crate) fn of_kind(&self, code: FindingCode, kind: &Subject) -> Option<(&Finding, &Reach)> {
        let record = self.open.about(code, kind)?;
        Some((&record.finding, record.reach.as_ref()?))
    }

    /// Returns whether findings wait for room, or were dropped because the queue was full.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.has_any()
    }

    /// Returns whether start times of an earlier run have not been used yet.
    pub(crate) fn has_restored(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Forgets the start times of an earlier run whose problems are over: all except those of `ids`
    /// and those that are set aside.
    pub(crate) fn keep_restored(&mut self, now: Timestamp, ids: &BTreeSet<FindingId>) {
        self.earlier.forget_aside(now);
        self.earlier.retain(ids);
    }

    /// Forgets the earlier start times of findings about `subject`, except those of `codes`,
    /// because the subject no longer has the other problems.
    pub(crate) fn keep_restored_of(&mut self, subject: &Subject, codes: &[FindingCode]) {
        self.earlier.retain_of(subject, codes);
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.open.rebase(by_ms);
        self.paging.rebase(by_ms);
        self.waiting.rebase(by_ms);
        self.earlier.rebase(by_ms);
        self.operator.rebase(by_ms);
        self.announcements.rebase(by_ms);
    }

    /// Returns the findings that are open and those that wait.
    fn found(&self) -> impl Iterator<Item = &Finding> {
        self.open.findings().chain(self.waiting.findings())
    }

    fn update_open(&mut self, now: Timestamp, id: FindingId, mut report: Report) {
        self.open.release(id);
        if self.open.set_causes(id, report.take_causes()) {
            self.unexplained.insert(id);
        }

        if self.change_open(id, |record| record.update_open(now, report)) == Some(true) {
            self.mark_reassessed(id);
        }

        self.note_paging(id);
    }

    fn open(&mut self, record: Record) {
        let Finding { id, code, ref subject, .. } = record.finding;
        self.announcements.opened(id);
        self.unexplained.insert(id);
        self.mark_explained(code, subject);
        record.claim().iter().for_each(|claim| self.places.add_open(claim));
        self.open.insert(record);
        self.note_paging(id);
    }

    /// Opens a finding that had to wait for room.
    fn open_late(&mut self, now: Timestamp, mut record: Record) {
        record.finding.found = now;
        self.open(record);
    }

    fn close(&mut self, now: Timestamp, id: FindingId) -> Option<Record> {
        let record = self.open.remove(id)?;
        record.claim().iter().for_each(|claim| self.places.remove_open(claim));
        self.forget_paging(&record);
        self.earlier.closed(id);
        self.mark_explained(record.finding.code, &record.finding.subject);
        self.announcements.closed(now, &record.finding);
        Some(record)
    }
}
