//! Questions about what the model says.

use loopwatch_model::finding::{Change, Finding, Severity};
use loopwatch_model::snapshot::{KindSummary, ObjectRow, ObjectState, Outcome, Snapshot};
use loopwatch_model::time::Timestamp;

use super::Lab;

impl Lab {
    /// Returns a snapshot, in which the table of findings lists all evidence.
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = self.model.snapshot();
        for finding in &snapshot.findings {
            let name = finding.code.name();
            let unlisted =
                finding.evidence.0.keys().find(|key| !finding.info().evidence.contains(key));

            assert_eq!(unlisted, None, "the table of findings lacks evidence of {name}");
        }

        snapshot
    }

    /// Returns all open findings, each as `Code subject`.
    pub fn findings(&self) -> Vec<String> {
        named(&self.snapshot().findings)
    }

    /// Returns the open root findings, each as `Code subject`.
    pub fn roots(&self) -> Vec<String> {
        named(self.snapshot().findings.iter().filter(|f| f.explained_by.is_none()))
    }

    /// Returns the findings that alert, with their severity.
    pub fn alerting(&self) -> Vec<(String, Severity)> {
        let findings = self.snapshot().findings.into_iter();
        findings
            .filter(|f| f.alerts_at(self.now) && f.severity != Severity::Info)
            .map(|f| (f.code.name().to_owned(), f.severity))
            .collect()
    }

    /// Returns whether an open finding with this code counts for alerts.
    pub fn alerts(&self, code: &str) -> bool {
        let findings = self.snapshot().findings;
        findings.iter().any(|f| f.code.name() == code && f.alerts_at(self.now))
    }

    /// Returns whether a finding with this code is open.
    pub fn has(&self, code: &str) -> bool {
        self.snapshot().findings.iter().any(|finding| finding.code.name() == code)
    }

    /// Returns an open finding with this code.
    pub fn finding(&self, code: &str) -> Finding {
        let found =
            self.snapshot().findings.into_iter().find(|finding| finding.code.name() == code);
        found.unwrap_or_else(|| panic!("no finding {code}: {:?}", self.findings()))
    }

    pub fn since(&self, code: &str) -> Timestamp {
        self.finding(code).since
    }

    /// Returns the summary of the only open finding.
    pub fn evidence(&self) -> String {
        let findings = self.snapshot().findings;
        assert_eq!(findings.len(), 1, "{:?}", self.findings());

        findings[0].summary()
    }

    pub fn assert_no_findings(&self) {
        assert!(self.findings().is_empty(), "false alarm: {:#?}", self.snapshot().findings);
    }

    /// Returns the findings that opened or closed since the last call, each as `Code subject`.
    pub fn changes(&mut self) -> Vec<String> {
        let events = self
            .model
            .finding_events()
            .into_iter()
            .filter(|event| event.change != Change::Explained);

        events
            .map(|e| format!("{:?} {} {}", e.change, e.finding.code.name(), e.finding.subject))
            .collect()
    }

    /// Returns those changes of findings that are about objects and kinds, but not about sources
    /// and limits.
    pub fn object_changes(&mut self) -> Vec<String> {
        let about_loopwatch = |change: &String| {
            ["Source", "Limit", "Permission"].iter().any(|word| change.contains(word))
        };
        self.changes().into_iter().filter(|change| !about_loopwatch(change)).collect()
    }

    pub fn kind(&self) -> KindSummary {
        self.snapshot().kinds.remove(0)
    }

    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.kind().namespaces.values().map(|n| n.obligations[outcome as usize]).sum()
    }

    pub fn outcomes_of(&self, kind: &str, outcome: Outcome) -> u64 {
        let kinds = self.snapshot().kinds;
        let of_kind = kinds.iter().filter(|summary| summary.kind == kind);
        let namespaces = of_kind.flat_map(|summary| summary.namespaces.values());
        namespaces.map(|n| n.obligations[outcome as usize]).sum()
    }

    pub fn row(&self, name: &str) -> ObjectRow {
        let (rows, _) = self.model.rows(Default::default(), usize::MAX);
        rows.into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no object {name}"))
    }

    pub fn state(&self, name: &str) -> ObjectState {
        self.row(name).state
    }

    /// Returns how much was dropped because of a limit.
    pub fn dropped(&self, limit: &str) -> u64 {
        self.snapshot().dropped.get(limit).copied().unwrap_or_default()
    }
}

fn named<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Vec<String> {
    findings.into_iter().map(|f| format!("{} {}", f.code.name(), f.subject)).collect()
}
