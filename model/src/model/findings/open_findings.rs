//! Findings from their opening to their closing.
//!
//! A detector reports a problem with [`OpenFindings::raise`] again and again while it exists, and
//! [`OpenFindings::clear`]s it afterwards. After each step of the model, [`OpenFindings::settle`]
//! decides which findings explain which, and announces the changes.
//!
//! The number of open findings is limited. A more severe finding takes the place of a less severe
//! one, which then waits until there is room. Findings about limits do not count, because they
//! report that the limit is reached.

mod explanations; // which findings explain which, and from when on each alerts

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::explanations::can_alert;
use crate::finding::{
    Change, Confidence, Evidence, FINDINGS, Finding, FindingCode, FindingEvent, FindingId,
    Severity, Subject,
};
use crate::model::findings::past_events::PastEvents;
use crate::model::world::limits::MAX_FINDING_EVENTS;
use crate::time::{Span, Timestamp};

/// The findings that are open or wait for room.
#[derive(Debug, Default)]
pub(crate) struct OpenFindings {
    open: BTreeMap<FindingId, Finding>,
    /// The open findings that count towards the limit, the least severe last.
    ranked: BTreeSet<(Severity, FindingId)>,
    /// Findings without room, at most [`MAX_WAITING`].
    waiting: BTreeMap<FindingId, Finding>,
    /// The waiting findings, the most severe first.
    queue: BTreeSet<(Severity, FindingId)>,
    /// A finding was dropped because even the queue was full.
    overflowed: bool,
    /// The findings with weak evidence, which are at most warnings.
    weak: BTreeSet<FindingId>,
    /// The findings whose severity a rule of the settings sets.
    fixed: BTreeSet<FindingId>,
    /// The findings that have the severity of one that they explain, because they alert in its
    /// place.
    raised: BTreeMap<FindingId, Severity>,
    /// The findings that another one explained while they waited for the operator to catch up:
    /// since when, and when they would have alerted.
    deferred: BTreeMap<FindingId, (Timestamp, Timestamp)>,
    /// The objects of which findings may explain others, by the ID of the other one, and the
    /// reverse.
    blockers: BTreeMap<FindingId, Subject>,
    blocked: BTreeSet<(Subject, FindingId)>,
    /// Since when the objects of findings had waited for the operator when the problems began.
    waited: BTreeMap<FindingId, Timestamp>,
    /// The operator as the subject of findings.
    operator: Option<Subject>,
    /// The findings that a finding about the operator may explain.
    of_operator: BTreeSet<FindingId>,
    /// The kinds that controllers of the operator reconcile, as subjects, by the name of the
    /// controller.
    reconciled: BTreeMap<String, Subject>,
    /// When a reconcile of each controller last succeeded.
    succeeded: BTreeMap<String, Timestamp>,
    /// Findings that close at an instant unless a detector reports them again.
    held: BTreeMap<FindingId, Timestamp>,
    /// Start times of findings of an earlier run. An entry is used up when its finding opens again.
    restored: BTreeMap<FindingId, Timestamp>,
    /// Until when those of them that did not alert in the earlier run do not alert yet.
    silent: BTreeMap<FindingId, Timestamp>,
    /// The open findings with a start time of an earlier run.
    reopened: BTreeSet<FindingId>,
    /// When the operator began, if that was shortly before loopwatch, and until when it may work
    /// off what waited before.
    began: Option<(Timestamp, Timestamp)>,
    /// Entries of `restored` about objects that a watch no longer sees, with the time until which
    /// they are kept. At most [`MAX_WAITING`].
    aside: BTreeMap<FindingId, Timestamp>,
    /// Findings whose start the last step of the clock has moved, perhaps wrongly.
    rebased: BTreeSet<FindingId>,
    /// Findings that opened in this step, with their order.
    opened: BTreeMap<FindingId, usize>,
    /// Findings whose explanation may have changed in this step.
    unexplained: BTreeSet<FindingId>,
    /// Events since the last call of `take_events`.
    events: VecDeque<FindingEvent>,
    /// Events that were dropped since the last call of `take_lost_events`.
    lost_events: u64,
    past: PastEvents,
    /// When the timer is due that closes held findings.
    pub(crate) due: Option<Timestamp>,
}

/// A problem that a detector has found.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) code: FindingCode,
    pub(crate) subject: Subject,
    pub(crate) since: Timestamp,
    pub(crate) severity: Severity,
    /// A rule of the settings sets the severity.
    pub(crate) is_fixed: bool,
    /// The evidence does not justify waking anybody, so the finding is at most a warning.
    pub(crate) weak: bool,
    pub(crate) confidence: Confidence,
    pub(crate) evidence: Evidence,
    /// The earliest start that a finding of an earlier run may give this one.
    pub(crate) not_before: Option<Timestamp>,
    /// The object of which a finding may explain this one.
    pub(crate) blocker: Option<Subject>,
    /// Since when the object had waited for the operator when the problem began.
    pub(crate) waited_since: Option<Timestamp>,
    /// The operator should solve the problem, so a finding about the operator may explain it.
    pub(crate) of_operator: bool,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// The finding is open.
    Open,
    /// There is no room for the finding; it opens when there is.
    Waiting,
    /// The limit is reached: this finding now waits or, if it is open, a less severe one does.
    Dropped,
}

/// The maximum number of findings that wait for room.
const MAX_WAITING: usize = 10_000;

// === impl OpenFindings ===

impl OpenFindings {
    /// Opens a finding, or updates an open one and keeps the earlier start time. At most `limit`
    /// findings are open.
    pub(crate) fn raise(&mut self, now: Timestamp, mut report: Report, limit: usize) -> Raised {
        let id = FindingId::of(report.code, &report.subject);
        if report.weak {
            self.weak.insert(id);
        } else {
            self.weak.remove(&id);
        }

        self.set_fixed(id, report.is_fixed);
        report.severity = self.allowed(id, report.severity);
        self.set_blocker(id, report.blocker.take());
        self.set_waited(id, report.waited_since);
        self.set_of_operator(id, report.of_operator);
        self.held.remove(&id);

        if let Some(finding) = self.open.get_mut(&id) {
            let rank = (finding.severity, id);
            if self.rebased.remove(&id) {
                // The detector knows which instants have moved with the clock.
                finding.since = report.since;
            }

            let changed =
                finding.confidence != report.confidence || finding.severity != report.severity;
            let reassessed = changed.then(|| (report.code, report.subject.clone()));
            if changed {
                reassess(now, finding, report.confidence, report.severity);
            }

            update(finding, report);
            let severity = finding.severity;
            if self.ranked.remove(&rank) {
                self.ranked.insert((severity, id));
            }

            if let Some((code, subject)) = reassessed {
                self.unexplained.insert(id);
                self.touch_explained(code, &subject);
            }

            return Raised::Open;
        }

        if let Some(finding) = self.waiting.get_mut(&id) {
            self.queue.remove(&(finding.severity, id));
            update(finding, report);
            self.queue.insert((finding.severity, id));
            return Raised::Waiting;
        }

        self.aside.remove(&id);
        let restored = self
            .restored
            .remove(&id)
            .filter(|earlier| report.not_before.is_none_or(|at| *earlier >= at));
        let since = restored.map_or(report.since, |earlier| earlier.min(report.since));
        let silent_until = self.silent.remove(&id).filter(|_| restored.is_some());
        let Report { code, subject, severity, confidence, evidence, .. } = report;

        let finding = Finding {
            id,
            code,
            subject,
            since,
            found: now,
            severity,
            confidence,
            evidence,
            explained_by: None,
            alerts_from: silent_until.map(|until| until.max(now)),
        };

        if restored.is_some() {
            self.reopened.insert(id);
        }

        if !is_limited(&finding) || self.ranked.len() < limit {
            self.open(finding);
            return Raised::Open;
        }

        match self.ranked.last().copied().filter(|(least, _)| *least > severity) {
            Some((_, evicted)) => {
                if let Some(evicted) = self.close(now, evicted) {
                    self.wait(evicted);
                }
                self.open(finding);
            }
            None => self.wait(finding),
        }

        Raised::Dropped
    }

    /// Closes a finding, if it is open, and forgets it if it waits.
    pub(crate) fn clear(&mut self, now: Timestamp, code: FindingCode, subject: &Subject) {
        let id = FindingId::of(code, subject);
        self.weak.remove(&id);
        self.fixed.remove(&id);
        self.set_blocker(id, None);
        self.set_waited(id, None);
        self.of_operator.remove(&id);
        self.close(now, id);

        if let Some(finding) = self.waiting.remove(&id) {
            self.queue.remove(&(finding.severity, id));
        }
    }

    /// Keeps a finding open until `until`, although its problem is over: for findings about events
    /// whose subject may be gone at once. A new report of the problem ends this.
    pub(crate) fn hold(&mut self, code: FindingCode, subject: &Subject, until: Timestamp) {
        let id = FindingId::of(code, subject);
        if self.open.contains_key(&id) {
            self.held.insert(id, until);
        }
    }

    /// Closes the findings whose time is over. Returns when the next one is due.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let over: Vec<FindingId> =
            self.held.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| drop(self.close(now, id)));
        self.held.values().min().copied()
    }

    /// Closes all findings of `code` except those about a subject for which `keep` returns true.
    pub(crate) fn retain(
        &mut self,
        now: Timestamp,
        code: FindingCode,
        mut keep: impl FnMut(&Subject) -> bool,
    ) {
        let all = self.open.values().chain(self.waiting.values());
        let closed = all.filter(|finding| finding.code == code && !keep(&finding.subject));
        let closed: Vec<Subject> = closed.map(|finding| finding.subject.clone()).collect();
        closed.iter().for_each(|subject| self.clear(now, code, subject));
    }

    /// Names the operator as the subject of findings, the kinds that its controllers reconcile, and
    /// when these last succeeded.
    pub(crate) fn set_operator(
        &mut self,
        subject: Subject,
        reconciled: BTreeMap<String, Subject>,
        succeeded: BTreeMap<String, Timestamp>,
    ) {
        let before = std::mem::replace(&mut self.succeeded, succeeded);
        self.touch_explained_by_workers(&before);
        if self.operator.as_ref() != Some(&subject) || self.reconciled != reconciled {
            self.operator = Some(subject);
            self.reconciled = reconciled;
            self.unexplained.extend(self.of_operator.iter().copied());
        }
    }

    /// Ends a step of the model: opens waiting findings if there is room or if they have become
    /// more severe, updates the explanations, and announces the findings that opened or whose
    /// explanation changed. When an explanation ends, the operator has `recovers_within` to solve
    /// the problem before it alerts.
    pub(crate) fn settle(&mut self, now: Timestamp, limit: usize, recovers_within: Span) {
        while self.ranked.len() < limit {
            let Some((_, id)) = self.queue.pop_first() else { break };
            if let Some(finding) = self.waiting.remove(&id) {
                self.open(Finding { found: now, ..finding });
            }
        }

        while let (Some((severity, id)), Some((least, evicted))) =
            (self.queue.first().copied(), self.ranked.last().copied())
            && severity < least
        {
            self.queue.pop_first();
            if let Some(evicted) = self.close(now, evicted) {
                self.wait(evicted);
            }

            if let Some(finding) = self.waiting.remove(&id) {
                self.open(Finding { found: now, ..finding });
            }
        }

        self.update_explanations(now, recovers_within);
        let mut opened: Vec<(usize, FindingId)> =
            std::mem::take(&mut self.opened).into_iter().map(|(id, order)| (order, id)).collect();
        opened.sort_unstable();

        for (_, id) in opened {
            if let Some(finding) = self.open.get(&id).cloned() {
                self.push_event(now, Change::Opened, finding);
            }
        }
    }

    /// Returns whether findings were dropped because the queue was full, and there is room for them
    /// now. The detectors must then report all problems again.
    pub(crate) fn take_overflow(&mut self, limit: usize) -> bool {
        let room = self.overflowed && self.waiting.is_empty() && self.ranked.len() < limit;
        self.overflowed &= !room;
        room
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<FindingEvent> {
        std::mem::take(&mut self.events).into()
    }

    /// Returns the latest events, also those that were taken.
    pub(crate) fn past(&self) -> &PastEvents {
        &self.past
    }

    /// Returns how many events were dropped since the last call.
    pub(crate) fn take_lost_events(&mut self) -> u64 {
        std::mem::take(&mut self.lost_events)
    }

    /// Changes the severity of a finding that is open or waits. `is_fixed` tells whether a rule of
    /// the settings sets it.
    pub(crate) fn set_severity(
        &mut self,
        code: FindingCode,
        subject: &Subject,
        severity: Severity,
        is_fixed: bool,
    ) {
        let id = FindingId::of(code, subject);
        self.set_fixed(id, is_fixed);

        let severity = self.allowed(id, severity);
        if let Some(finding) = self.open.get_mut(&id) {
            let old = std::mem::replace(&mut finding.severity, severity);
            if self.ranked.remove(&(old, id)) {
                self.ranked.insert((severity, id));
            }

            if old != severity {
                self.unexplained.insert(id);
                self.touch_explained(code, subject);
            }
        } else if let Some(finding) = self.waiting.get_mut(&id) {
            let old = std::mem::replace(&mut finding.severity, severity);
            self.queue.remove(&(old, id));
            self.queue.insert((severity, id));
        }
    }

    /// Returns the codes and subjects of the findings that are open or wait.
    pub(crate) fn subjects(&self) -> Vec<(FindingCode, Subject)> {
        let all = self.open.values().chain(self.waiting.values());
        all.map(|finding| (finding.code, finding.subject.clone())).collect()
    }

    /// Returns the open findings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.open.values()
    }

    /// Returns the start times that should survive a restart: of findings that are open or wait,
    /// and of findings of an earlier run that have not opened again yet.
    pub(crate) fn start_times(&self) -> BTreeMap<FindingId, Timestamp> {
        let found = self
            .open
            .values()
            .chain(self.waiting.values())
            .map(|finding| (finding.id, finding.since));

        self.restored.iter().map(|(id, since)| (*id, *since)).chain(found).collect()
    }

    /// Returns the open findings that do not alert, and until when if that is known, as it should
    /// survive a restart.
    pub(crate) fn silent(&self, now: Timestamp) -> BTreeMap<FindingId, Option<Timestamp>> {
        let waiting = self.silent.iter().map(|(id, until)| (*id, Some(*until)));
        let open = self.open.values().filter(|finding| !finding.alerts_at(now));
        waiting.chain(open.map(|finding| (finding.id, finding.alerts_from))).collect()
    }

    pub(crate) fn restore(
        &mut self,
        restored: BTreeMap<FindingId, Timestamp>,
        silent: BTreeMap<FindingId, Timestamp>,
    ) {
        (self.restored, self.silent) = (restored, silent);
    }

    /// Keeps the start of a finding until `until`, as over a restart: its subject goes out of
    /// sight, and may return.
    pub(crate) fn set_aside(&mut self, code: FindingCode, subject: &Subject, until: Timestamp) {
        let id = FindingId::of(code, subject);
        let Some(finding) = self.open.get(&id).or_else(|| self.waiting.get(&id)) else { return };
        if self.aside.len() < MAX_WAITING || self.aside.contains_key(&id) {
            self.restored.insert(id, finding.since);
            self.aside.insert(id, until);
        }
    }

    /// Keeps the restored start of a finding until an instant, although nothing shows its problem
    /// before.
    pub(crate) fn keep_until(&mut self, id: FindingId, until: Timestamp) {
        if self.restored.contains_key(&id) && self.aside.len() < MAX_WAITING {
            self.aside.insert(id, until);
        }
    }

    /// Returns the findings about controllers that are open or may open again, with others that are
    /// set aside.
    pub(crate) fn of_controllers(&self) -> impl Iterator<Item = FindingId> {
        let open = self
            .open
            .values()
            .filter(|finding| matches!(finding.subject, Subject::Controller { .. }));

        open.map(|finding| finding.id).chain(self.aside.keys().copied())
    }

    /// Forgets what was set aside for too long.
    pub(crate) fn forget_aside(&mut self, now: Timestamp) {
        let Self { aside, restored, .. } = self;
        aside.retain(|id, until| {
            let keep = *until > now;
            if !keep {
                restored.remove(id);
            }

            keep
        });
    }

    /// Returns the start time of a finding of an earlier run that has not opened again yet.
    pub(crate) fn restored_start(&self, code: FindingCode, subject: &Subject) -> Option<Timestamp> {
        self.restored.get(&FindingId::of(code, subject)).copied()
    }

    /// Returns whether a finding is open, or waits for room.
    pub(crate) fn is_open(&self, code: FindingCode, subject: &Subject) -> bool {
        let id = FindingId::of(code, subject);
        self.open.contains_key(&id) || self.waiting.contains_key(&id)
    }

    /// Returns whether findings wait for room.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.overflowed
    }

    /// Returns whether start times of an earlier run have not been used yet.
    pub(crate) fn has_restored(&self) -> bool {
        !self.restored.is_empty()
    }

    /// Forgets the start times of an earlier run, except those of `ids` and those that are set
    /// aside: the other problems are over.
    pub(crate) fn keep_restored(&mut self, now: Timestamp, ids: &BTreeSet<FindingId>) {
        self.forget_aside(now);
        self.restored.retain(|id, _| ids.contains(id) || self.aside.contains_key(id));
        self.silent.retain(|id, _| self.restored.contains_key(id));
    }

    /// Forgets the start times of an earlier run for problems of `subject` that it no longer has.
    pub(crate) fn keep_restored_of(&mut self, subject: &Subject, codes: &[FindingCode]) {
        for info in FINDINGS.iter().filter(|info| !codes.contains(&info.code)) {
            let id = FindingId::of(info.code, subject);
            self.restored.remove(&id);
            self.silent.remove(&id);
            self.aside.remove(&id);
        }
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        for finding in self.open.values_mut().chain(self.waiting.values_mut()) {
            finding.found = finding.found.shifted(by_ms);
            finding.alerts_from = finding.alerts_from.map(|from| from.shifted(by_ms));
            if !has_dated_start(finding.code) {
                finding.since = finding.since.shifted(by_ms);
                finding.evidence.rebase_ages(by_ms);
            }
        }

        self.began = self.began.map(|(began, until)| (began.shifted(by_ms), until.shifted(by_ms)));
        let Self { held, aside, silent, waited, succeeded, .. } = self;
        let instants = held
            .values_mut()
            .chain(aside.values_mut())
            .chain(silent.values_mut())
            .chain(waited.values_mut());

        instants.chain(succeeded.values_mut()).for_each(|at| *at = at.shifted(by_ms));
        self.deferred
            .values_mut()
            .for_each(|(at, from)| (*at, *from) = (at.shifted(by_ms), from.shifted(by_ms)));
        self.past.rebase(by_ms);
        self.rebased = self.open.keys().copied().collect();
    }

    /// Returns the severity of a finding with the one that it may have been raised to, as far as
    /// its evidence allows.
    fn allowed(&self, id: FindingId, severity: Severity) -> Severity {
        let severity = self.raised.get(&id).map_or(severity, |raised| severity.min(*raised));
        if self.weak.contains(&id) { severity.max(Severity::Warning) } else { severity }
    }

    fn set_fixed(&mut self, id: FindingId, is_fixed: bool) {
        if is_fixed {
            self.fixed.insert(id);
            self.raised.remove(&id);
        } else {
            self.fixed.remove(&id);
        }
    }

    fn open(&mut self, finding: Finding) {
        let id = finding.id;
        if is_limited(&finding) {
            self.ranked.insert((finding.severity, id));
        }

        self.opened.insert(id, self.opened.len());
        self.unexplained.insert(id);
        self.touch_explained(finding.code, &finding.subject);
        self.open.insert(id, finding);
    }

    fn close(&mut self, now: Timestamp, id: FindingId) -> Option<Finding> {
        let finding = self.open.remove(&id)?;
        self.held.remove(&id);
        self.rebased.remove(&id);
        self.raised.remove(&id);
        self.deferred.remove(&id);
        self.reopened.remove(&id);
        self.ranked.remove(&(finding.severity, id));
        self.touch_explained(finding.code, &finding.subject);

        if self.opened.remove(&id).is_none() {
            self.push_event(now, Change::Closed, finding.clone());
        }

        Some(finding)
    }

    fn wait(&mut self, finding: Finding) {
        if self.waiting.len() >= MAX_WAITING {
            self.overflowed = true;
            return;
        }

        self.queue.insert((finding.severity, finding.id));
        self.waiting
            .insert(finding.id, Finding { explained_by: None, alerts_from: None, ..finding });
    }

    fn set_blocker(&mut self, id: FindingId, blocker: Option<Subject>) {
        if self.blockers.get(&id) == blocker.as_ref() {
            return;
        }

        self.unexplained.insert(id);
        let old = match &blocker {
            Some(blocker) => self.blockers.insert(id, blocker.clone()),
            None => self.blockers.remove(&id),
        };
        if let Some(old) = old {
            self.blocked.remove(&(old, id));
        }

        self.blocked.extend(blocker.map(|blocker| (blocker, id)));
    }

    fn set_waited(&mut self, id: FindingId, since: Option<Timestamp>) {
        let old = match since {
            Some(since) => self.waited.insert(id, since),
            None => self.waited.remove(&id),
        };
        if old != since {
            self.unexplained.insert(id);
        }
    }

    fn set_of_operator(&mut self, id: FindingId, of_operator: bool) {
        let changed =
            if of_operator { self.of_operator.insert(id) } else { self.of_operator.remove(&id) };
        if changed {
            self.unexplained.insert(id);
        }
    }

    fn push_event(&mut self, at: Timestamp, change: Change, mut finding: Finding) {
        if self.events.len() >= MAX_FINDING_EVENTS {
            self.events.pop_front();
            self.lost_events += 1;
        }

        finding.evidence = finding.evidence.at(at);
        let event = FindingEvent { at, change, finding };
        self.past.add(&event);
        self.events.push_back(event);
    }
}

fn is_limited(finding: &Finding) -> bool {
    !matches!(finding.subject, Subject::Limit { .. })
}

/// Returns whether the API server wrote when the problem began.
fn has_dated_start(code: FindingCode) -> bool {
    use FindingCode::{
        CleanupSlow, DefinitionStuck, DeletionBlockedByDependent, FinalizerOwnerAbsent,
        FinalizerStuck, NamespaceStuck, StatusSubresourceMissing,
    };

    matches!(
        code,
        CleanupSlow
            | DefinitionStuck
            | DeletionBlockedByDependent
            | FinalizerOwnerAbsent
            | FinalizerStuck
            | NamespaceStuck
            | StatusSubresourceMissing
    )
}

/// Notes that the severity or the confidence of an open finding changes, and thus its alert: nobody
/// has been notified of that one yet.
fn reassess(now: Timestamp, finding: &mut Finding, confidence: Confidence, severity: Severity) {
    if finding.explained_by.is_some() {
        finding.alerts_from = None;
    } else if can_alert(confidence, severity) && !can_alert(finding.confidence, finding.severity) {
        finding.alerts_from = finding.alerts_from.max(Some(now));
    }
}

fn update(finding: &mut Finding, report: Report) {
    finding.since = finding.since.min(report.since);
    finding.severity = report.severity;
    finding.confidence = report.confidence;
    finding.evidence = report.evidence;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: FindingCode, name: &str) -> Report {
        let subject = Subject::Source { name: name.to_owned() };
        let (severity, confidence) = (code.info().severity, Confidence::Confirmed);
        Report {
            code,
            subject,
            since: Timestamp(1),
            severity,
            is_fixed: false,
            weak: false,
            confidence,
            evidence: Evidence::new(),
            not_before: None,
            blocker: None,
            waited_since: None,
            of_operator: false,
        }
    }

    fn events(findings: &mut OpenFindings) -> Vec<(Change, FindingCode)> {
        findings.take_events().into_iter().map(|event| (event.change, event.finding.code)).collect()
    }

    #[test]
    fn opening_and_closing_a_finding_makes_one_event_each() {
        let mut findings = OpenFindings::default();
        let config = report(FindingCode::ConfigInvalid, "config");
        for at in [Timestamp(1), Timestamp(2)] {
            assert_eq!(findings.raise(at, config.clone(), 10), Raised::Open);

            findings.settle(at, 10, Span::mins(10));
        }

        for at in [Timestamp(3), Timestamp(4)] {
            findings.clear(at, config.code, &config.subject);
            findings.settle(at, 10, Span::mins(10));
        }

        let code = FindingCode::ConfigInvalid;
        assert_eq!(events(&mut findings), [(Change::Opened, code), (Change::Closed, code)]);
    }

    #[test]
    fn a_more_severe_finding_takes_the_place_of_a_less_severe_one_which_returns() {
        let mut findings = OpenFindings::default();
        let now = Timestamp(1);

        assert_eq!(findings.raise(now, report(FindingCode::Overdue, "a"), 1), Raised::Open);
        assert_eq!(
            findings.raise(now, report(FindingCode::Unacknowledged, "b"), 1),
            Raised::Dropped
        );
        assert_eq!(
            findings.raise(now, report(FindingCode::PermissionExcess, "c"), 1),
            Raised::Dropped
        );

        findings.settle(now, 1, Span::mins(10));
        assert_eq!(
            findings.iter().map(|f| f.code).collect::<Vec<_>>(),
            [FindingCode::Unacknowledged]
        );

        findings.clear(now, FindingCode::Unacknowledged, &Subject::Source { name: "b".to_owned() });
        findings.settle(now, 1, Span::mins(10));

        assert_eq!(findings.iter().map(|f| f.code).collect::<Vec<_>>(), [FindingCode::Overdue]);
    }

    #[test]
    fn a_change_of_the_explanation_is_announced() {
        let mut findings = OpenFindings::default();
        let now = Timestamp(1);
        findings.raise(now, report(FindingCode::PhaseStuck, "a"), 10);
        findings.settle(now, 10, Span::mins(10));
        findings.raise(now, report(FindingCode::Overdue, "a"), 10);
        findings.settle(now, 10, Span::mins(10));

        assert_eq!(
            events(&mut findings),
            [
                (Change::Opened, FindingCode::PhaseStuck),
                (Change::Explained, FindingCode::PhaseStuck),
                (Change::Opened, FindingCode::Overdue)
            ]
        );
    }

    #[test]
    fn a_finding_that_becomes_suspected_no_longer_explains_a_confirmed_one() {
        let mut findings = OpenFindings::default();
        let now = Timestamp(1);
        let overdue = report(FindingCode::Overdue, "a");
        findings.raise(now, report(FindingCode::PhaseStuck, "a"), 10);
        findings.raise(now, overdue.clone(), 10);
        findings.settle(now, 10, Span::mins(10));

        let roots =
            |findings: &OpenFindings| findings.iter().filter(|f| f.explained_by.is_none()).count();

        assert_eq!(roots(&findings), 1);

        findings.raise(now, Report { confidence: Confidence::Suspected, ..overdue }, 10);
        findings.settle(now, 10, Span::mins(10));

        assert_eq!(roots(&findings), 2);
    }

    #[test]
    fn a_held_finding_closes_when_its_time_is_over() {
        let mut findings = OpenFindings::default();
        let config = report(FindingCode::ConfigInvalid, "config");
        findings.raise(Timestamp(1), config.clone(), 10);
        findings.hold(config.code, &config.subject, Timestamp(5));

        assert_eq!(findings.expire(Timestamp(4)), Some(Timestamp(5)));
        assert_eq!(findings.iter().count(), 1);
        assert_eq!(findings.expire(Timestamp(5)), None);
        assert_eq!(findings.iter().count(), 0);
    }
}
