//! One finding, with the state that it keeps between the reports of its detector.

use crate::finding::{Area, Confidence, Finding, FindingCode, FindingId, HOLD, Severity, Subject};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::earlier_starts::EarlierStart;
use crate::model::findings::open_findings::report::{Causes, Report};
use crate::time::{Span, Timestamp};

/// A finding that is open or waits for room.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) finding: Finding,
    /// The evidence is weak, so the finding is at most a warning.
    pub(super) weak: bool,
    /// A rule of the settings sets the severity.
    is_fixed: bool,
    pub(super) causes: Causes,
    /// The severity of a finding that this open one explains, because it alerts in its place.
    raised_to: Option<Severity>,
    deferred: Option<Deferred>,
    /// The last step of the clock has moved the start of this open finding, perhaps wrongly.
    is_rebased: bool,
}

/// The alert of a finding that another one explained while it waited for the operator to catch up.
#[derive(Debug)]
struct Deferred {
    /// When the other one explained it.
    at: Timestamp,
    /// When it would have alerted.
    alerts_from: Timestamp,
}

/// The area of findings that are causes, and may get the severity of what they explain.
const CAUSES: Area = Area::Operator;

/// How long a finding must be open until its alert has fired, at the latest: the longest `for` of
/// the rules, a scrape and an evaluation.
const FIRES_WITHIN: Span = Span::mins(3);

impl Record {
    /// Returns the record of a new finding, which continues one of an earlier run if there was one.
    pub(super) fn new(now: Timestamp, mut report: Report, earlier: Option<EarlierStart>) -> Self {
        let (id, causes) = (report.id(), report.take_causes());
        let Report { subject, detection, severity, is_fixed, .. } = report;
        let Detection { code, since, evidence, weak, confidence, .. } = detection;

        let finding = Finding {
            id,
            code,
            subject,
            since: earlier.as_ref().map_or(since, |earlier| earlier.since.min(since)),
            found: now,
            severity: if weak { severity.max(Severity::Warning) } else { severity },
            confidence,
            evidence,
            explained_by: None,
            alerts_from: earlier
                .and_then(|earlier| earlier.silent_until)
                .map(|until| until.max(now)),
        };

        Self { finding, weak, is_fixed, causes, raised_to: None, deferred: None, is_rebased: false }
    }

    /// Returns the key that sorts findings by severity, the most severe first.
    pub(super) fn rank(&self) -> (Severity, FindingId) {
        (self.finding.severity, self.finding.id)
    }

    /// Returns whether the finding counts towards the limit of open findings.
    pub(super) fn is_limited(&self) -> bool {
        !matches!(self.finding.subject, Subject::Limit { .. })
    }

    /// Takes over a new report, except for its causes. Keeps the earlier start time.
    pub(super) fn update(&mut self, report: Report) {
        let Detection { since, evidence, weak, confidence, .. } = report.detection;
        self.weak = weak;
        self.set_severity(report.severity, report.is_fixed);

        let finding = &mut self.finding;
        finding.since = finding.since.min(since);
        finding.confidence = confidence;
        finding.evidence = evidence;
    }

    /// Does the same for an open finding. Returns whether its severity or its confidence has
    /// changed.
    pub(super) fn update_open(&mut self, now: Timestamp, report: Report) -> bool {
        if std::mem::take(&mut self.is_rebased) {
            // The detector knows which instants have moved with the clock.
            self.finding.since = report.detection.since;
        }

        let before = (self.finding.confidence, self.finding.severity);
        self.update(report);

        let after = (self.finding.confidence, self.finding.severity);
        if before == after {
            return false;
        }

        // Nobody has been notified of the finding as it is now.
        if self.finding.explained_by.is_some() {
            self.finding.alerts_from = None;
        } else if can_alert(after) && !can_alert(before) {
            self.finding.alerts_from = self.finding.alerts_from.max(Some(now));
        }

        true
    }

    /// Sets the severity, as far as the evidence allows it, unless it has been raised to a higher
    /// one. A rule of the settings overrides that.
    pub(super) fn set_severity(&mut self, severity: Severity, is_fixed: bool) {
        self.is_fixed = is_fixed;
        if is_fixed {
            self.raised_to = None;
        }

        let severity = self.raised_to.map_or(severity, |raised| severity.min(raised));
        self.finding.severity = if self.weak { severity.max(Severity::Warning) } else { severity };
    }

    /// Gives an open finding at least the severity of one for which it alerts. It keeps it until it
    /// closes, so that its alert does not end before the problem. Returns whether it was less
    /// severe.
    pub(super) fn raise_to(&mut self, severity: Severity) -> bool {
        let is_raised = self.finding.severity > severity;
        if is_raised {
            self.finding.severity = severity;
            self.raised_to = Some(severity);
        }

        is_raised
    }

    /// Returns whether the alert for this finding makes one for `other` unnecessary. A suspected
    /// finding has no alert, and a less severe one might reach nobody in time, unless its severity
    /// can be raised.
    pub(super) fn speaks_for(&self, other: &Finding) -> bool {
        // The most severe is the least.
        self.finding.confidence >= other.confidence
            && (self.finding.severity <= other.severity || self.can_be_raised())
    }

    fn can_be_raised(&self) -> bool {
        self.finding.info().area == CAUSES
            && self.finding.severity != Severity::Info
            && !self.weak
            && !self.is_fixed
    }

    /// Decides from when on an open finding alerts. `has_ended` tells that the problem that
    /// explained it is over. The operator then has `recovers_within` to solve this one, and until
    /// `catches_up` to work off what waited before it began.
    pub(super) fn update_alert(
        &mut self,
        now: Timestamp,
        has_ended: bool,
        recovers_within: Span,
        catches_up: Option<Timestamp>,
    ) {
        self.finding.alerts_from = match (self.finding.explained_by, self.finding.alerts_from) {
            (Some(_), Some(alerts_from)) if !self.has_notified(now) => {
                self.deferred = Some(Deferred { at: now, alerts_from });
                None
            }
            (None, None) if has_ended => {
                // A cause that comes and goes too quickly for an alert must not silence this one
                // again and again.
                let deferred =
                    self.deferred.take().filter(|deferred| now.since(deferred.at) < FIRES_WITHIN);
                Some(deferred.map_or(now.after(recovers_within), |deferred| deferred.alerts_from))
            }
            (None, None) => Some(catches_up.unwrap_or(now)),
            (_, from) => from,
        };
    }

    /// Returns whether people may have been notified of the finding.
    pub(super) fn has_notified(&self, now: Timestamp) -> bool {
        let Finding { confidence, severity, alerts_from, .. } = self.finding;
        can_alert((confidence, severity)) && alerts_from.is_some_and(|from| now >= from.after(HOLD))
    }

    /// Returns the record of a finding that was open and has to wait for room.
    pub(super) fn without_room(mut self) -> Self {
        (self.finding.explained_by, self.finding.alerts_from) = (None, None);
        Self { raised_to: None, deferred: None, is_rebased: false, ..self }
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        let finding = &mut self.finding;
        finding.found = finding.found.shifted(by_ms);
        if !has_dated_start(finding.code) {
            finding.since = finding.since.shifted(by_ms);
            finding.evidence.rebase_ages(by_ms);
        }

        let deferred = self.deferred.iter_mut();
        let deferred = deferred.flat_map(|deferred| [&mut deferred.at, &mut deferred.alerts_from]);
        let instants = finding.alerts_from.iter_mut().chain(&mut self.causes.waited_since);
        instants.chain(deferred).for_each(|at| *at = at.shifted(by_ms));
    }

    /// Does the same for an open finding, whose next report corrects its start.
    pub(super) fn rebase_open(&mut self, by_ms: i64) {
        self.rebase(by_ms);
        self.is_rebased = true;
    }
}

/// Returns whether a finding with this confidence and severity alerts, unless another one explains
/// it.
fn can_alert((confidence, severity): (Confidence, Severity)) -> bool {
    confidence == Confidence::Confirmed && severity != Severity::Info
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
