//! One finding, with the state that it keeps between the reports of its detector.

use crate::finding::{Alert, Area, Confidence, Finding, FindingCode, HOLD, Severity, Subject};
use crate::model::findings::detection::{Detection, Reach};
use crate::model::findings::open_findings::earlier_starts::EarlierStart;
use crate::model::findings::open_findings::places::{Claim, Group};
use crate::model::findings::open_findings::report::{Causes, PageRule, PagesIf, Report};
use crate::model::world::kinds::failures::FailureSort;
use crate::time::{Span, Timestamp};

/// A finding that is open or waits for room.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) finding: Finding,
    /// The number of the finding, in the order in which they were raised.
    number: u64,
    pub(super) group: Group,
    /// When the problem became a finding, which may be before loopwatch found it.
    pub(super) due: Timestamp,
    /// When the finding opened or began to wait for room, over restarts and steps of the clock.
    pub(super) opened: Timestamp,
    /// Since when nothing that depends on the subject works; `None` if other work goes on.
    pub(super) blocking_since: Option<Timestamp>,
    /// When the problem last became much worse.
    worse_since: Option<Timestamp>,
    /// Whether the evidence is weak. The finding is then at most a warning.
    pub(super) weak: bool,
    /// Whether the problem harms nothing yet. The finding is then information only.
    harmless: bool,
    /// Whether the operator works nevertheless, so that the finding explains no other one.
    aside: bool,
    /// The objects of a kind that have the problem of the kind.
    pub(super) reach: Option<Reach>,
    /// The kinds and sources that depend on the subject.
    pub(super) affects: Vec<Subject>,
    /// The severity of the last report, and whether a rule of the settings sets it.
    reported: Severity,
    is_fixed: bool,
    /// When the finding pages; `None` if it never does.
    pages_if: Option<PagesIf>,
    /// Whether that has happened.
    pub(super) pages: bool,
    pub(super) causes: Causes,
    /// The severity that this finding has taken over from a finding that it explains.
    raised_to: Option<Severity>,
    deferred: Option<Deferred>,
    /// From when an explained finding would alert if nothing explained it.
    pub(super) alone_from: Option<Timestamp>,
    /// When its cause takes over its severity, if that is later.
    pub(super) raises_at: Option<Timestamp>,
    /// Whether the clock has been set since the last report. The start of this open finding may
    /// then have moved wrongly.
    is_rebased: bool,
}

/// The alert of a finding that another finding explained before it had alerted.
#[derive(Debug)]
struct Deferred {
    /// When the other finding began to explain it.
    at: Timestamp,
    /// When it would have begun to alert.
    alerts_from: Timestamp,
}

/// The areas of findings that are causes. They may get the severity of the findings they explain.
const CAUSES: [Area; 2] = [Area::Operator, Area::ApiMachinery];

/// The longest time from the opening of a finding until its alert fires: the longest `for` of the
/// rules, a scrape and an evaluation.
const FIRES_WITHIN: Span = Span::mins(3);

impl Record {
    /// Returns the record of a new finding, which continues the `earlier` one.
    pub(super) fn new(
        now: Timestamp,
        number: u64,
        mut report: Report,
        earlier: Option<EarlierStart>,
    ) -> Self {
        let (id, causes) = (report.id(), report.take_causes());
        let Report { subject, detection, severity, is_fixed, pages_if, .. } = report;
        let Detection {
            code,
            since,
            due,
            evidence,
            weak,
            harmless,
            confidence,
            aside,
            blocks,
            worse_since,
            reach,
            affects,
            ..
        } = detection;

        let opened = earlier.as_ref().map_or(now, |earlier| earlier.opened.unwrap_or(due).min(now));
        let finding = Finding {
            id,
            code,
            subject,
            since: earlier.as_ref().map_or(since, |earlier| earlier.since.min(since)),
            found: now,
            severity,
            confidence,
            evidence,
            explained_by: None,
            alerts_from: earlier
                .and_then(|earlier| earlier.silent_until)
                .map(|until| until.max(now)),
        };

        let mut record = Self {
            due: due.min(now),
            opened,
            blocking_since: blocks.then_some(finding.since),
            worse_since,
            number,
            group: group_of(&finding.subject),
            finding,
            weak,
            harmless,
            aside,
            reach,
            affects,
            reported: severity,
            is_fixed,
            pages_if,
            pages: false,
            causes,
            raised_to: None,
            deferred: None,
            alone_from: None,
            raises_at: None,
            is_rebased: false,
        };

        record.update_severity();
        record
    }

    /// Returns what decides the place of the finding, if it counts towards the limit.
    pub(super) fn claim(&self) -> Option<Claim> {
        let Finding { id, severity, .. } = self.finding;
        let claim = Claim { severity, group: self.group.clone(), number: self.number, id };
        self.is_limited().then_some(claim)
    }

    /// Returns whether the finding counts towards the limit of open findings.
    fn is_limited(&self) -> bool {
        !matches!(self.finding.subject, Subject::Limit { .. })
    }

    /// Returns when the problem began, or became much worse.
    pub(super) fn starts(&self) -> impl Iterator<Item = Timestamp> {
        [Some(self.finding.since), self.blocking_since, self.worse_since].into_iter().flatten()
    }

    /// Takes over a new report, except for its causes. Of the two start times, keeps the earlier.
    pub(super) fn update(&mut self, now: Timestamp, report: Report) {
        let Detection {
            since,
            evidence,
            weak,
            harmless,
            confidence,
            aside,
            blocks,
            worse_since,
            reach,
            affects,
            ..
        } = report.detection;
        (self.weak, self.harmless, self.aside, self.reach) = (weak, harmless, aside, reach);
        self.affects = affects;
        self.blocking_since = blocks.then(|| self.blocking_since.unwrap_or(now));
        self.worse_since = worse_since;
        self.pages_if = report.pages_if;
        self.set_severity(report.severity, report.is_fixed);

        let finding = &mut self.finding;
        finding.since = finding.since.min(since);
        finding.confidence = confidence;
        finding.evidence = evidence;
    }

    /// Does the same as [`Self::update`] for an open finding. Returns whether its severity, its
    /// confidence or what it may explain has changed.
    pub(super) fn update_open(&mut self, now: Timestamp, report: Report) -> bool {
        if std::mem::take(&mut self.is_rebased) {
            // The detector knows which instants have moved with the clock, so its start is right.
            self.finding.since = report.detection.since;
        }

        let before = (self.finding.confidence, self.finding.severity);
        let causes = (self.aside, self.blocking_since, self.worse_since);
        let detection = &report.detection;
        let reach_changed = self.reach != detection.reach || self.affects != detection.affects;
        self.update(now, report);

        let after = (self.finding.confidence, self.finding.severity);
        if before == after {
            return reach_changed || causes != (self.aside, self.blocking_since, self.worse_since);
        }

        // No alert has reported the finding with this severity and confidence yet.
        if self.finding.explained_by.is_some() {
            self.finding.alerts_from = None;
        } else if can_alert(after) && !can_alert(before) {
            self.finding.alerts_from = self.finding.alerts_from.max(Some(now));
        }

        true
    }

    /// Sets the severity, but not above a warning if the evidence is weak, or if the finding does not
    /// page yet, and to info if the problem harms nothing. A severity that was raised stays, unless a rule of the settings fixes the new one.
    pub(super) fn set_severity(&mut self, severity: Severity, is_fixed: bool) {
        (self.reported, self.is_fixed) = (severity, is_fixed);
        if is_fixed {
            self.raised_to = None;
        }

        self.update_severity();
    }

    fn update_severity(&mut self) {
        let severity = self.raised_to.map_or(self.reported, |raised| self.reported.min(raised));
        let waits = self.pages_if.is_some_and(|pages_if| pages_if.rule != PageRule::AtOnce);
        let is_ticket = self.weak || (waits && !self.pages && !self.is_fixed);
        self.finding.severity = match self.harmless {
            true => Severity::Info,
            false if is_ticket => severity.max(Severity::Warning),
            false => severity,
        };
    }

    /// Returns when the finding pages, if it may. Weak evidence, suspicions and what the settings have
    /// lowered to info page nobody, however many objects have the finding.
    pub(super) fn may_page(&self) -> Option<PagesIf> {
        let is_silent = self.reported == Severity::Info;
        let counts = !self.weak && !is_silent && self.finding.confidence == Confidence::Confirmed;
        self.pages_if.filter(|_| counts)
    }

    /// Lets the finding page until it closes, unless a rule of the settings fixes its severity.
    /// Returns whether its severity has changed.
    pub(super) fn page(&mut self) -> bool {
        let before = self.finding.severity;
        self.pages = true;
        let is_raised = self.finding.info().alert == Alert::TicketUnlessMost && !self.is_fixed;
        if is_raised {
            self.raised_to = Some(Severity::Critical);
        }

        self.update_severity();
        self.finding.severity != before
    }

    /// Gives an open finding at least the severity of a finding that it explains, because its alert
    /// also stands for that finding. It keeps this severity until it closes, so that its alert does
    /// not end before the problem. Returns whether it was less severe.
    pub(super) fn raise_to(&mut self, severity: Severity) -> bool {
        let is_raised = self.finding.severity > severity;
        if is_raised {
            self.finding.severity = severity;
            self.raised_to = Some(severity);
        }

        is_raised
    }

    /// Returns whether the alert for this finding makes one for `other` unnecessary. A suspected
    /// finding has no alert, and one aside is no cause. The alert of a less severe finding might
    /// reach nobody in time, unless its severity can be raised.
    pub(super) fn speaks_for(&self, other: &Finding) -> bool {
        // Severities sort in descending order: the most severe is the least.
        !self.aside
            && self.finding.confidence >= other.confidence
            && (self.finding.severity <= other.severity || self.can_be_raised())
    }

    /// Returns whether the problem of a kind is also that of one of its objects: the object fails for
    /// the same reason, in a namespace in which others do. Otherwise, one user's objects would hide
    /// those of another.
    pub(super) fn reaches(&self, other: &Self) -> bool {
        let Some(reach) = &self.reach else { return false };
        let is_in_reach = match &other.finding.subject {
            Subject::Object { namespace, .. } => {
                reach.only_in.as_ref().is_none_or(|only| **only == **namespace)
            }
            _ => false,
        };

        is_in_reach && other.causes.reason.as_ref() == Some(&reach.reason)
    }

    /// Returns whether the start of the problem should survive a restart of loopwatch.
    pub(super) fn outlives_restart(&self) -> bool {
        self.reach.as_ref().is_none_or(|reach| reach.sort != FailureSort::Rejected)
    }

    fn can_be_raised(&self) -> bool {
        CAUSES.contains(&self.finding.info().area)
            && self.finding.severity != Severity::Info
            && !self.weak
            && !self.is_fixed
    }

    /// Decides when an open finding begins to alert. If another one explains it, decides from when
    /// it would alert alone.
    ///
    /// `has_ended` means that the problem that explained this one before is over. The operator then
    /// has `recovers_within` to solve this one. Otherwise, it has until `catches_up`, if it still
    /// works off the objects that waited before its start.
    pub(super) fn update_alert(
        &mut self,
        now: Timestamp,
        has_ended: bool,
        recovers_within: Span,
        catches_up: Option<Timestamp>,
    ) {
        let is_explained = self.finding.explained_by.is_some();
        match self.finding.alerts_from {
            Some(alerts_from) if is_explained && !self.has_notified(now) => {
                self.deferred = Some(Deferred { at: now, alerts_from });
                self.alone_from = Some(alerts_from);
                self.finding.alerts_from = None;
            }
            Some(_) => {}
            None => {
                let from = if has_ended {
                    self.after_a_cause(now, recovers_within)
                } else {
                    self.alone_from.max(catches_up).unwrap_or(now)
                };
                self.alone_from = is_explained.then_some(from);
                self.finding.alerts_from = (!is_explained).then_some(from);
            }
        }
    }

    /// Returns from when the finding alerts after the end of its cause.
    ///
    /// A cause that ended before its alert could fire must not postpone this alert. Otherwise, a
    /// cause that comes and goes would silence it forever.
    fn after_a_cause(&mut self, now: Timestamp, recovers_within: Span) -> Timestamp {
        let deferred = self.deferred.take();
        let short = deferred.filter(|deferred| now.since(deferred.at) < FIRES_WITHIN);
        short.map_or(now.after(recovers_within), |deferred| deferred.alerts_from)
    }

    /// Returns whether people may have been notified of the finding.
    pub(super) fn has_notified(&self, now: Timestamp) -> bool {
        let Finding { confidence, severity, alerts_from, .. } = self.finding;
        can_alert((confidence, severity)) && alerts_from.is_some_and(|from| now >= from.after(HOLD))
    }

    /// Returns the record without the state that only an open finding has.
    pub(super) fn without_room(mut self) -> Self {
        (self.finding.explained_by, self.finding.alerts_from) = (None, None);
        Self {
            raised_to: None,
            deferred: None,
            alone_from: None,
            raises_at: None,
            is_rebased: false,
            ..self
        }
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let finding = &mut self.finding;
        finding.found = finding.found.shifted(by_ms);
        self.opened = self.opened.shifted(by_ms);
        if !has_dated_start(finding.code) {
            finding.since = finding.since.shifted(by_ms);
            finding.evidence.rebase_ages(by_ms);
            self.due = self.due.shifted(by_ms);
        }

        let reach = self.reach.iter_mut().map(|reach| &mut reach.since);
        let starts = self.blocking_since.iter_mut().chain(&mut self.worse_since).chain(reach);
        starts.for_each(|at| *at = at.shifted(by_ms));

        let deferred = self.deferred.iter_mut();
        let deferred = deferred.flat_map(|deferred| [&mut deferred.at, &mut deferred.alerts_from]);
        let instants = finding.alerts_from.iter_mut().chain(&mut self.causes.waited_since);
        let instants = instants.chain(&mut self.alone_from).chain(&mut self.raises_at);
        instants.chain(deferred).for_each(|at| *at = at.shifted(by_ms));
    }

    /// Does the same as [`Self::rebase`] for an open finding, whose next report corrects its start.
    pub(super) fn rebase_open(&mut self, by_ms: i64) {
        self.rebase(by_ms);
        self.is_rebased = true;
    }
}

/// Returns the namespace of a finding about an object.
fn group_of(subject: &Subject) -> Group {
    match subject {
        Subject::Object { namespace, .. } if !namespace.is_empty() => {
            Some(namespace.as_str().into())
        }
        _ => None,
    }
}

/// Returns whether a finding with this confidence and severity alerts, unless another one explains
/// it.
fn can_alert((confidence, severity): (Confidence, Severity)) -> bool {
    confidence == Confidence::Confirmed && severity != Severity::Info
}

/// Returns whether the start of the problem is a time that the API server wrote, so that it never
/// moves with the clock.
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
