//! Which open findings explain which, and from when on each one alerts.
//!
//! One cause should raise one alert. A finding that another one explains raises none, so the other
//! one alerts in its place: a finding about the operator or a controller gets the severity of the
//! most severe finding that it explains.

use std::collections::BTreeMap;

use crate::finding::{
    Change, Confidence, Explainer, FINDINGS, Finding, FindingCode, FindingId, HOLD, Severity,
    Subject,
};
use crate::model::findings::open_findings::OpenFindings;
use crate::time::{Span, Timestamp};

/// How much later than its effect the problem of a controller may seem to begin. A change of an
/// object makes its reconciles fail, and a scrape shows that afterwards.
const SHOWN_WITHIN: Span = Span::mins(2);

/// How long a finding must be open until its alert has fired, at the latest: the longest `for` of
/// the rules, a scrape and an evaluation.
const FIRES_WITHIN: Span = Span::mins(3);

/// The area of findings that are causes, and may get the severity of what they explain.
const CAUSES: &str = "operator";

// === impl OpenFindings ===

impl OpenFindings {
    /// Explains the findings whose explanation may have changed.
    pub(super) fn update_explanations(&mut self, now: Timestamp, recovers_within: Span) {
        while let Some(id) = self.unexplained.pop_first() {
            let Some(finding) = self.open.get(&id) else { continue };
            let explanation = self.explanation(finding);
            let has_ended = finding.explained_by.is_some_and(|cause| {
                self.has_ended(cause) || self.is_only_of_worker(cause, finding)
            });
            let may_catch_up = self.may_catch_up(finding, now);
            let Some(finding) = self.open.get_mut(&id) else { continue };
            let changed = std::mem::replace(&mut finding.explained_by, explanation) != explanation;

            finding.alerts_from = match (explanation, finding.alerts_from) {
                (Some(_), Some(from)) if !has_notified(finding, from, now) => {
                    self.deferred.insert(id, (now, from));
                    None
                }
                (None, None) if has_ended => {
                    // A cause that comes and goes too quickly for an alert must not silence this
                    // one again and again.
                    let deferred =
                        self.deferred.remove(&id).filter(|(at, _)| now.since(*at) < FIRES_WITHIN);
                    Some(deferred.map_or(now.after(recovers_within), |(_, from)| from))
                }
                (None, None) => Some(may_catch_up.unwrap_or(now)),
                (_, from) => from,
            };

            let stands_for = (finding.alerts_from.is_none()
                && finding.confidence == Confidence::Confirmed)
                .then_some(finding.severity);
            let announced = (changed && !self.opened.contains_key(&id)).then(|| finding.clone());
            if let Some((cause, severity)) = explanation.zip(stands_for) {
                self.raise_severity(cause, severity);
            }

            if let Some(finding) = announced {
                self.push_event(now, Change::Explained, finding);
            }
        }
    }

    /// Notes when the operator began, which was shortly before loopwatch did. It has until an
    /// instant to work off what waited before: nobody could see whether `OperatorDown` explained
    /// that.
    pub(crate) fn operator_began(&mut self, now: Timestamp, began: Timestamp, until: Timestamp) {
        self.began = Some((began, until));
        let silenced = self.open.values().filter(|finding| {
            finding.alerts_from.is_some_and(|from| !has_notified(finding, from, now))
        });
        let silenced =
            silenced.filter_map(|finding| Some((finding.id, self.may_catch_up(finding, now)?)));

        for (id, until) in silenced.collect::<Vec<_>>() {
            if let Some(finding) = self.open.get_mut(&id) {
                finding.alerts_from = Some(until);
            }
        }
    }

    /// Returns when the operator began, if it still may work off what waited before.
    pub(crate) fn catches_up_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.began.filter(|(_, until)| now < *until).map(|(began, _)| began)
    }

    /// Ends the time of [`Self::operator_began`] at `until`, if that is earlier: the operator had
    /// time at an earlier beginning.
    pub(crate) fn operator_had_time(&mut self, now: Timestamp, until: Timestamp) {
        let Some((_, end)) = self.began.as_mut().filter(|(_, end)| until < *end) else { return };
        let old = std::mem::replace(end, until);
        for finding in self.open.values_mut().filter(|finding| finding.alerts_from == Some(old)) {
            finding.alerts_from = Some(until.max(now));
        }
    }

    /// Returns until when the operator may work off what has waited since before it began. A
    /// finding of an earlier run has had its time.
    fn may_catch_up(&self, finding: &Finding, now: Timestamp) -> Option<Timestamp> {
        let (_, until) =
            self.began.filter(|(began, until)| finding.since < *began && now < *until)?;
        let by_outage =
            finding.info().explained_by.contains(&Explainer::Operator(FindingCode::OperatorDown));
        let is_new = self.of_operator.contains(&finding.id) && !self.reopened.contains(&finding.id);

        (by_outage && is_new).then_some(until)
    }

    /// Marks the open findings that a finding of `code` on `subject` could explain.
    pub(super) fn touch_explained(&mut self, code: FindingCode, subject: &Subject) {
        let first = (subject.clone(), FindingId(0));
        let blocked = self.blocked.range(first..).take_while(|(blocker, _)| blocker == subject);
        self.unexplained.extend(blocked.map(|(_, id)| *id));

        for info in FINDINGS {
            if info.explained_by.contains(&Explainer::Subject(code)) {
                self.unexplained.insert(FindingId::of(info.code, subject));
            }

            let explained = |explainer| info.explained_by.contains(&explainer);
            let of_kind = |kind: &Subject| {
                let of_kind = |finding: &&Finding| {
                    finding.code == info.code && finding.subject.whole_kind().as_ref() == Some(kind)
                };
                self.open.values().filter(of_kind).map(|finding| finding.id).collect::<Vec<_>>()
            };

            let mut ids = Vec::new();
            if explained(Explainer::Kind(code)) {
                ids.extend(of_kind(subject));
            }

            if let Subject::Controller { name } = subject
                && (explained(Explainer::Controller(code)) || explained(Explainer::Worker(code)))
                && let Some(kind) = self.reconciled.get(name)
            {
                ids.extend(of_kind(kind));
            }

            let by_operator =
                explained(Explainer::Operator(code)) || explained(Explainer::Outage(code));
            if by_operator && self.operator.as_ref() == Some(subject) {
                ids.extend(
                    self.open
                        .values()
                        .filter(|finding| finding.code == info.code)
                        .map(|finding| finding.id),
                );
            }

            self.unexplained.extend(ids);
        }
    }

    /// Marks the open findings that a worker explains of a controller with a success since
    /// `before`: the others may work.
    pub(super) fn touch_explained_by_workers(&mut self, before: &BTreeMap<String, Timestamp>) {
        let Self { open, succeeded, unexplained, .. } = self;
        for (name, _) in succeeded.iter().filter(|(name, at)| before.get(*name) != Some(*at)) {
            let subject = Subject::Controller { name: name.clone() };
            let worker = FindingId::of(FindingCode::ReconcileStuck, &subject);
            if open.contains_key(&worker) {
                let explained =
                    open.values().filter(|finding| finding.explained_by == Some(worker));
                unexplained.extend(explained.map(|finding| finding.id));
            }
        }
    }

    /// Returns the first open finding that explains `finding`, in the order of `explained_by`.
    fn explanation(&self, finding: &Finding) -> Option<FindingId> {
        finding.info().explained_by.iter().find_map(|explainer| {
            let of_subject = |code, subject| self.open.get(&FindingId::of(code, subject));
            let operator =
                self.operator.as_ref().filter(|_| self.of_operator.contains(&finding.id));
            let deeper = match explainer {
                Explainer::Subject(code) => of_subject(*code, &finding.subject),
                Explainer::Kind(code) => of_subject(*code, &finding.subject.whole_kind()?),
                Explainer::Blocker(code) => of_subject(*code, self.blockers.get(&finding.id)?),
                Explainer::Operator(code) => of_subject(*code, operator?),
                Explainer::Outage(code) => {
                    of_subject(*code, operator?).filter(|deeper| deeper.since <= finding.since)
                }
                Explainer::Controller(code) => {
                    operator.and_then(|_| self.of_controller(*code, finding, false))
                }
                Explainer::Worker(code) => {
                    operator.and_then(|_| self.of_controller(*code, finding, true))
                }
            };

            deeper.filter(|deeper| self.speaks_for(deeper, finding)).map(|deeper| deeper.id)
        })
    }

    /// Returns the finding of `code` on a controller of the kind of the subject of `finding`, if it
    /// did not begin much later. One that is only about a worker does not explain what began later
    /// while others worked, but it explains the deletion of an object that has waited since it
    /// began.
    fn of_controller(
        &self,
        code: FindingCode,
        finding: &Finding,
        of_worker: bool,
    ) -> Option<&Finding> {
        let kind = finding.subject.whole_kind()?;
        let controllers = self.reconciled.iter().filter(|(_, reconciled)| **reconciled == kind);
        let waited = self.waited.get(&finding.id).filter(|_| of_worker);
        let found = controllers.filter_map(|(name, _)| {
            let deeper =
                self.open.get(&FindingId::of(code, &Subject::Controller { name: name.clone() }))?;
            let explains = |since: Timestamp| {
                let latest = since.after(SHOWN_WITHIN);
                let works = self.succeeded.get(name).is_some_and(|at| *at > latest);
                let is_later = since > deeper.since.after(SHOWN_WITHIN);
                deeper.since <= latest && !(of_worker && works && is_later)
            };

            (explains(finding.since) || waited.is_some_and(|since| explains(*since)))
                .then_some(deeper)
        });

        found.min_by_key(|deeper| deeper.since)
    }

    /// Returns whether the alert for a finding makes one for `other` unnecessary. A suspected
    /// finding has no alert, and a less severe one might reach nobody in time, unless its severity
    /// can be raised.
    fn speaks_for(&self, deeper: &Finding, other: &Finding) -> bool {
        // The most severe is the least.
        deeper.confidence >= other.confidence
            && (deeper.severity <= other.severity || self.can_be_raised(deeper))
    }

    fn can_be_raised(&self, finding: &Finding) -> bool {
        let is_limited = self.weak.contains(&finding.id) || self.fixed.contains(&finding.id);
        finding.info().area == CAUSES && finding.severity != Severity::Info && !is_limited
    }

    /// Gives a finding at least the severity of one for which it alerts. It keeps it until it
    /// closes, so that its alert does not end before the problem.
    fn raise_severity(&mut self, id: FindingId, severity: Severity) {
        let Some(finding) = self.open.get_mut(&id).filter(|finding| finding.severity > severity)
        else {
            return;
        };
        let old = std::mem::replace(&mut finding.severity, severity);
        let (code, subject) = (finding.code, finding.subject.clone());

        if self.ranked.remove(&(old, id)) {
            self.ranked.insert((severity, id));
        }

        self.raised.insert(id, severity);
        self.unexplained.insert(id);
        self.touch_explained(code, &subject);
    }

    /// Returns whether the problem of a finding that explained another one is over, or as good as
    /// over: its evidence has become weak.
    fn has_ended(&self, cause: FindingId) -> bool {
        match self.open.get(&cause) {
            Some(finding) => {
                finding.confidence == Confidence::Confirmed && self.weak.contains(&cause)
            }
            None => !self.waiting.contains_key(&cause),
        }
    }

    /// Returns whether a finding that explained `other` is about one worker, and could still alert
    /// in its place. If it does not explain it any more, other workers have begun to work.
    fn is_only_of_worker(&self, cause: FindingId, other: &Finding) -> bool {
        let cause = self.open.get(&cause).filter(|cause| self.speaks_for(cause, other));
        cause
            .is_some_and(|cause| other.info().explained_by.contains(&Explainer::Worker(cause.code)))
    }
}

/// Returns whether a finding with this confidence and severity alerts, unless another one explains
/// it.
pub(super) fn can_alert(confidence: Confidence, severity: Severity) -> bool {
    confidence == Confidence::Confirmed && severity != Severity::Info
}

/// Returns whether people may have been notified of a finding that alerts from an instant on.
fn has_notified(finding: &Finding, from: Timestamp, now: Timestamp) -> bool {
    can_alert(finding.confidence, finding.severity) && now >= from.after(HOLD)
}
