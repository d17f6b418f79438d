//! The findings that are open.

use std::collections::{BTreeMap, VecDeque};

use crate::finding::{Change, Confidence, Evidence, Finding, FindingCode, FindingEvent, FindingId, Subject};
use crate::time::Timestamp;

/// Open findings by id, bounded.
#[derive(Debug, Default)]
pub(crate) struct OpenFindings {
    open: BTreeMap<FindingId, Finding>,
    /// Since when findings of an earlier run held, until they are found again.
    restored: BTreeMap<FindingId, Timestamp>,
    /// What was opened and closed since somebody last asked; the oldest go first when nobody does.
    events: VecDeque<FindingEvent>,
}

/// FindingEvent kept until somebody asks.
const EVENTS: usize = 10_000;

// === impl OpenFindings ===

impl OpenFindings {
    /// Opens a finding or renews the evidence of an open one. `false` when there is no room for it.
    pub(crate) fn raise(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        code: FindingCode,
        subject: Subject,
        evidence: Evidence,
        bound: usize,
    ) -> bool {
        let id = FindingId::of(code, &subject);
        if let Some(finding) = self.open.get_mut(&id) {
            finding.since = finding.since.min(since);
            finding.evidence = evidence;
            return true;
        }
        if self.open.len() >= bound {
            return false;
        }
        let since = self.restored.remove(&id).map_or(since, |earlier| earlier.min(since));
        let confidence = Confidence::Confirmed;
        let finding = Finding { id, code, subject, since, found: now, confidence, evidence, explained_by: None };
        self.tell(now, Change::Opened, finding.clone());
        self.open.insert(id, finding);
        true
    }

    /// Closes a finding; nothing happens when it is not open.
    pub(crate) fn clear(&mut self, now: Timestamp, code: FindingCode, subject: &Subject) {
        if let Some(finding) = self.open.remove(&FindingId::of(code, subject)) {
            self.tell(now, Change::Closed, finding);
        }
    }

    /// Closes all findings of `code` that `stays` does not keep.
    pub(crate) fn retain(&mut self, now: Timestamp, code: FindingCode, mut stays: impl FnMut(&Subject) -> bool) {
        let gone = self.open.values().filter(|finding| finding.code == code && !stays(&finding.subject));
        let gone: Vec<Subject> = gone.map(|finding| finding.subject.clone()).collect();
        gone.iter().for_each(|subject| self.clear(now, code, subject));
    }

    /// What was opened and closed since the last call.
    pub(crate) fn finding_events(&mut self) -> Vec<FindingEvent> {
        std::mem::take(&mut self.events).into()
    }

    fn tell(&mut self, at: Timestamp, change: Change, mut finding: Finding) {
        if self.events.len() >= EVENTS {
            self.events.pop_front();
        }
        finding.evidence = finding.evidence.at(at);
        self.events.push_back(FindingEvent { at, change, finding });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.open.values()
    }

    pub(crate) fn is_open(&self, code: FindingCode, subject: &Subject) -> Option<FindingId> {
        let id = FindingId::of(code, subject);
        self.open.contains_key(&id).then_some(id)
    }

    pub(crate) fn restore(&mut self, restored: BTreeMap<FindingId, Timestamp>) {
        self.restored = restored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_and_what_closes_is_told_once_each() {
        let mut open_findings = OpenFindings::default();
        let subject = || Subject::Source { name: "config".to_owned() };
        let (code, evidence) = (FindingCode::ConfigInvalid, Evidence::new());
        for at in [Timestamp(1), Timestamp(2)] {
            assert!(open_findings.raise(at, at, code, subject(), evidence.clone(), 10));
        }
        open_findings.clear(Timestamp(3), code, &subject());
        open_findings.clear(Timestamp(4), code, &subject());
        let told: Vec<_> = open_findings.finding_events().into_iter().map(|event| (event.at, event.change)).collect();
        assert_eq!(told, [(Timestamp(1), Change::Opened), (Timestamp(3), Change::Closed)]);
    }
}
