//! The time that an operator has to catch up with the objects that waited before its start.
//!
//! If the operator began shortly before loopwatch, loopwatch did not see whether the operator was
//! down before, so that `OperatorDown` would have explained why the objects waited.

use crate::finding::{Explainer, FindingCode};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::findings::open_findings::record::Record;
use crate::time::Timestamp;

impl OpenFindings {
    /// Notes that the operator began shortly before loopwatch, at `began`. It has until `until` to
    /// catch up, and findings that nobody has been notified of do not alert before.
    pub(crate) fn operator_began(&mut self, now: Timestamp, began: Timestamp, until: Timestamp) {
        self.operator.set_beginning(began, until);

        let silenced = self.open.records().filter(|record| {
            record.finding.alerts_from.is_some()
                && !record.has_notified(now)
                && self.may_catch_up(record, now).is_some()
        });
        let silenced: Vec<_> = silenced.map(|record| record.finding.id).collect();

        for id in silenced {
            self.open.change(id, |record| record.finding.alerts_from = Some(until));
        }
    }

    /// Returns when the operator began, if it may still catch up.
    pub(crate) fn catches_up_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.operator.catches_up(now).map(|(began, _)| began)
    }

    /// Ends the time to catch up at `until`, if that is earlier than before. An operator that had
    /// run earlier has already had some of this time.
    pub(crate) fn operator_had_time(&mut self, now: Timestamp, until: Timestamp) {
        let Some(old) = self.operator.shorten_catching_up(until) else { return };
        self.unexplained.extend(self.open.raises().map(|(_, id)| id));
        self.open.change_all(|record| {
            if record.finding.alerts_from == Some(old) {
                record.finding.alerts_from = Some(until.max(now));
            }

            if record.alone_from == Some(old) {
                record.alone_from = Some(until.max(now));
            }
        });
    }

    /// Returns until when the operator may catch up with the problem of a finding, if the problem
    /// began before the operator. A finding that an earlier run of loopwatch had is excluded: the
    /// operator has had time for it.
    pub(super) fn may_catch_up(&self, record: &Record, now: Timestamp) -> Option<Timestamp> {
        let finding = &record.finding;
        let (_, until) =
            self.operator.catches_up(now).filter(|(began, _)| finding.since < *began)?;
        let by_outage =
            finding.info().explained_by.contains(&Explainer::Operator(FindingCode::OperatorDown));
        let is_new = record.causes.of_operator && !self.earlier.has_reopened(finding.id);

        (by_outage && is_new).then_some(until)
    }
}
