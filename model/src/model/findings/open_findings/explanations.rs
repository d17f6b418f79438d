//! Which open findings explain which.
//!
//! One cause should raise one alert. A finding that another one explains raises none, and its cause
//! alerts in its place. For this, a finding about the operator or a controller gets the severity of
//! the most severe finding that it explains, as soon as that one would alert alone. While the
//! operator catches up after another problem, nothing takes its severity.

use crate::finding::{
    Confidence, Explainer, FINDINGS, Finding, FindingCode, FindingId, Severity, Subject,
};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::record::Record;
use crate::model::findings::open_findings::time_limits::SHOWN_WITHIN;
use crate::time::{Span, Timestamp};

impl OpenFindings {
    /// Updates the explanations that may have changed.
    pub(super) fn update_explanations(&mut self, now: Timestamp, recovers_within: Span) {
        while let Some(id) = self.unexplained.pop_first() {
            let Some(record) = self.open.get(id) else { continue };
            let explanation = self.explanations(record).next();
            let has_ended = self.explanation_has_ended(record);
            let catches_up = self.may_catch_up(record, now);
            let changed = record.finding.explained_by != explanation;

            self.open.change(id, |record| {
                record.finding.explained_by = explanation;
                record.update_alert(now, has_ended, recovers_within, catches_up);
            });
            self.show_explanation(now, id, changed);
        }
    }

    /// Announces the explanation of a finding if it has changed. If the finding would alert by now
    /// without its cause, makes the cause alert in its place.
    fn show_explanation(&mut self, now: Timestamp, id: FindingId, changed: bool) {
        let Some(record) = self.open.get(id) else { return };
        let finding = &record.finding;
        if changed {
            self.announcements.explained(now, finding);
        }

        let needs_alert =
            finding.alerts_from.is_none() && finding.confidence == Confidence::Confirmed;
        let severity = finding.severity;
        let cause = finding.explained_by.filter(|_| needs_alert);
        let from = record.alone_from.max(self.may_catch_up(record, now));
        let later = from.filter(|from| cause.is_some() && *from > now);

        self.open.raise_at(id, later);
        if let Some(cause) = cause.filter(|_| later.is_none()) {
            self.raise_severity(cause, severity);
        }
    }

    /// Marks an open finding whose severity or confidence has changed, and the findings that it
    /// could explain.
    pub(super) fn mark_reassessed(&mut self, id: FindingId) {
        let Some(Record { finding, .. }) = self.open.get(id) else { return };
        let (code, subject) = (finding.code, finding.subject.clone());
        self.unexplained.insert(id);
        self.mark_explained(code, &subject);
    }

    /// Marks the open findings that a finding of `code` about `subject` could explain.
    pub(super) fn mark_explained(&mut self, code: FindingCode, subject: &Subject) {
        self.unexplained.extend(self.open.blocked_by(subject));

        for info in FINDINGS {
            let explained = |explainer| info.explained_by.contains(&explainer);
            if explained(Explainer::Subject(code)) {
                self.unexplained.insert(FindingId::of(info.code, subject));
            }

            let open = || self.open.findings().filter(|finding| finding.code == info.code);
            let of_kind = |kind: &Subject| {
                let of_kind =
                    open().filter(|finding| finding.subject.whole_kind().as_ref() == Some(kind));
                of_kind.map(|finding| finding.id).collect::<Vec<_>>()
            };

            if explained(Explainer::Kind(code)) {
                self.unexplained.extend(of_kind(subject));
            }

            if explained(Explainer::Reconciled(code)) {
                let controllers = self.operator.controllers_of(subject).cloned();
                let subjects = controllers.map(|name| Subject::Controller { name });
                self.unexplained.extend(subjects.map(|about| FindingId::of(info.code, &about)));
            }

            if explained(Explainer::Machinery(code)) {
                self.unexplained.extend(open().map(|finding| finding.id));
            }

            if let Subject::Controller { name } = subject
                && (explained(Explainer::Controller(code)) || explained(Explainer::Worker(code)))
                && let Some(kind) = self.operator.reconciled.get(name)
            {
                self.unexplained.extend(of_kind(kind));
            }

            let by_operator =
                explained(Explainer::Operator(code)) || explained(Explainer::Outage(code));
            if by_operator && self.operator.subject.as_ref() == Some(subject) {
                self.unexplained.extend(open().map(|finding| finding.id));
            }
        }
    }

    /// Marks the open findings that a stuck worker of one of `controllers` explains. These
    /// controllers have a new success, so their other workers may work.
    pub(super) fn mark_explained_by_workers(&mut self, controllers: &[Subject]) {
        for controller in controllers {
            let worker = FindingId::of(FindingCode::ReconcileStuck, controller);
            if self.open.contains(worker) {
                let of_worker = |finding: &&Finding| finding.explained_by == Some(worker);
                let explained = self.open.findings().filter(of_worker);
                self.unexplained.extend(explained.map(|finding| finding.id));
            }
        }
    }

    /// Marks the open findings about objects of `kinds` that another one explains. The operator has
    /// done work on these kinds, so its problems may no longer explain them.
    pub(super) fn mark_explained_of_kinds(&mut self, kinds: &[Subject]) {
        let explained = self.open.findings().filter(|finding| finding.explained_by.is_some());
        let of_kinds = explained.filter(|finding| {
            finding.subject.whole_kind().is_some_and(|kind| kinds.contains(&kind))
        });
        self.unexplained.extend(of_kinds.map(|finding| finding.id));
    }

    /// Returns the open findings that can explain this one, in the order of `explained_by`. The
    /// first one applies.
    fn explanations(&self, record: &Record) -> impl Iterator<Item = FindingId> {
        let Record { finding, causes, .. } = record;
        let operator = self.operator.subject.as_ref().filter(|_| causes.of_operator);

        finding.info().explained_by.iter().filter_map(move |explainer| {
            let deeper = match explainer {
                Explainer::Subject(code) => self.open.about(*code, &finding.subject),
                Explainer::Kind(code) => {
                    let of_kind = self.open.about(*code, &finding.subject.whole_kind()?);
                    of_kind.filter(|deeper| deeper.reaches(record))
                }
                Explainer::Reconciled(code) => self.of_reconciled_kind(*code, finding),
                Explainer::Blocker(code) => self.open.about(*code, causes.blocker.as_deref()?),
                Explainer::Operator(code) => self.open.about(*code, operator?),
                Explainer::Outage(code) => self.open.about(*code, operator?),
                Explainer::Machinery(code) => self.of_machinery(*code, record),
                Explainer::Controller(code) => {
                    operator.and_then(|_| self.of_controller(*code, record, false))
                }
                Explainer::Worker(code) => {
                    operator.and_then(|_| self.of_controller(*code, record, true))
                }
            };

            let explains = |deeper: &&Record| {
                deeper.speaks_for(finding) && self.times_fit(*explainer, deeper, record)
            };
            deeper.filter(explains).map(|deeper| deeper.finding.id)
        })
    }

    /// Returns the finding of `code` about the kind that a controller reconciles, if it did not begin
    /// much later than `other`, which is about the controller.
    fn of_reconciled_kind(&self, code: FindingCode, other: &Finding) -> Option<&Record> {
        let Subject::Controller { name } = &other.subject else { return None };
        let deeper = self.open.about(code, self.operator.reconciled.get(name)?)?;
        (deeper.finding.since <= other.since.after(SHOWN_WITHIN)).then_some(deeper)
    }

    /// Returns the finding of `code` on which the subject of another one depends. Of several, it is
    /// the one that began first and may be the cause.
    fn of_machinery(&self, code: FindingCode, other: &Record) -> Option<&Record> {
        let subject = &other.finding.subject;
        let reconciled = match subject {
            Subject::Controller { name } => self.operator.reconciled.get(name).cloned(),
            _ => subject.whole_kind(),
        };

        let depends = |it: &Subject| it == subject || Some(it) == reconciled.as_ref();
        let of_code = self.open.of_machinery().filter(|record| record.finding.code == code);
        let found = of_code.filter(|record| record.affects.iter().any(depends));
        let may_explain = |deeper: &&Record| {
            deeper.speaks_for(&other.finding)
                && self.times_fit(Explainer::Machinery(code), deeper, other)
        };
        found.filter(may_explain).min_by_key(|deeper| deeper.finding.since)
    }

    /// Returns the finding of `code` about a controller that reconciles the kind of `other`, if it
    /// did not begin much later than `other`.
    ///
    /// With `of_worker`, the finding is about one stuck worker. If other workers have succeeded
    /// since, it does not explain problems that began later. It does explain the deletion of an
    /// object that has waited since the worker got stuck.
    fn of_controller(&self, code: FindingCode, other: &Record, of_worker: bool) -> Option<&Record> {
        let kind = other.finding.subject.whole_kind()?;
        let waited = other.causes.waited_since.filter(|_| of_worker);

        let found = self.operator.controllers_of(&kind).filter_map(|name| {
            let deeper = self.open.about(code, &Subject::Controller { name: name.clone() })?;
            let began = deeper.finding.since;
            let explains = |since: Timestamp| {
                let latest = since.after(SHOWN_WITHIN);
                let works = self.operator.succeeded.get(name).is_some_and(|at| *at > latest);
                let is_later = since > began.after(SHOWN_WITHIN);
                began <= latest && !(of_worker && works && is_later)
            };

            (explains(other.finding.since) || waited.is_some_and(explains)).then_some(deeper)
        });

        found.min_by_key(|deeper| deeper.finding.since)
    }

    /// Gives a finding at least the severity of a finding that it explains.
    fn raise_severity(&mut self, id: FindingId, severity: Severity) {
        if self.change_open(id, |record| record.raise_to(severity)) == Some(true) {
            self.mark_reassessed(id);
        }
    }

    /// Returns whether the problem that explained a finding until now is over, at least for this
    /// finding: if it is still open and could alert in its place, other work goes on.
    fn explanation_has_ended(&self, record: &Record) -> bool {
        let Some(cause) = record.finding.explained_by else { return false };
        if self.explanations(record).any(|id| id == cause) {
            return false;
        }

        let speaks = self.open.get(cause).is_some_and(|cause| cause.speaks_for(&record.finding));
        self.has_ended(cause) || speaks
    }

    /// Returns whether the problem of a finding that explained another one is over. Weak evidence
    /// for it counts as its end.
    fn has_ended(&self, cause: FindingId) -> bool {
        match self.open.get(cause) {
            Some(Record { finding, weak, .. }) => {
                finding.confidence == Confidence::Confirmed && *weak
            }
            None => !self.waiting.contains(cause),
        }
    }
}
