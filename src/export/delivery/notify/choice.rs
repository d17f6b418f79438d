//! Which findings cause events for the webhook.

use std::collections::BTreeSet;
use std::str::FromStr;

use loopwatch_model::finding::{
    Change, FINDINGS, Finding, FindingCode, FindingEvent, FindingId, Severity,
};
use loopwatch_model::settings::ALL_FINDINGS;

/// A choice of findings: all, those of a severity, or those of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindingChoice {
    All,
    Severity(Severity),
    Code(FindingCode),
}

/// Chooses events about findings.
#[derive(Debug, Default)]
pub(super) struct Chooser {
    choices: Vec<FindingChoice>,
    /// The open findings whose opening was chosen, at most [`MAX_OPEN`], so that their closings
    /// are chosen, too, even if their severity has changed.
    open: BTreeSet<FindingId>,
}

/// The default limit on open findings.
const MAX_OPEN: usize = 10_000;

impl FindingChoice {
    /// Whether the choice includes a finding. A severity also chooses the findings that may reach it
    /// later: an open finding that becomes more severe causes no event.
    fn includes(self, finding: &Finding) -> bool {
        match self {
            Self::All => true,
            Self::Severity(severity) => {
                finding.severity == severity || finding.info().severity == severity
            }
            Self::Code(code) => finding.code == code,
        }
    }
}

impl FromStr for FindingChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let severity = || Severity::ALL.into_iter().find(|severity| severity.as_str() == text);
        let code = || FINDINGS.iter().find(|info| info.name.eq_ignore_ascii_case(text));
        match text {
            ALL_FINDINGS => Ok(Self::All),
            _ => severity()
                .map(Self::Severity)
                .or_else(|| code().map(|info| Self::Code(info.code)))
                .ok_or_else(|| {
                    format!(
                        "expected {ALL_FINDINGS}, critical, warning, info or the name of a finding, not {text:?}"
                    )
                }),
        }
    }
}

impl Chooser {
    pub(super) fn new(choices: Vec<FindingChoice>) -> Self {
        Self { choices, open: BTreeSet::new() }
    }

    /// Whether an event is chosen.
    pub(super) fn chooses(&mut self, event: &FindingEvent) -> bool {
        let id = event.finding.id;
        let is_included = self.choices.iter().any(|choice| choice.includes(&event.finding));
        let was_chosen = match event.change {
            Change::Closed => self.open.remove(&id),
            Change::Opened | Change::Explained => self.open.contains(&id),
        };

        if is_included && event.change != Change::Closed && self.open.len() < MAX_OPEN {
            self.open.insert(id);
        }

        is_included || was_chosen
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::{Confidence, Evidence, Subject};
    use loopwatch_model::time::Timestamp;

    use super::*;

    fn event(change: Change, code: FindingCode, severity: Severity) -> FindingEvent {
        let subject = Subject::Source { name: "leases".to_owned() };
        let finding = Finding {
            id: FindingId::of(code, &subject),
            code,
            subject,
            since: Timestamp(0),
            found: Timestamp(0),
            severity,
            confidence: Confidence::Confirmed,
            evidence: Evidence::new(),
            explained_by: None,
            alerts_from: None,
        };
        FindingEvent { at: Timestamp(0), change, finding }
    }

    fn chooser(texts: &[&str]) -> Chooser {
        Chooser::new(texts.iter().map(|text| text.parse().expect(text)).collect())
    }

    #[test]
    fn names_severities_and_all_are_choices_and_anything_else_is_explained() {
        assert_eq!("all".parse(), Ok(FindingChoice::All));
        assert_eq!("critical".parse(), Ok(FindingChoice::Severity(Severity::Critical)));
        assert_eq!("orphan".parse(), Ok(FindingChoice::Code(FindingCode::Orphan)));

        for text in ["", "Critical!", "Orphans", "*"] {
            let problem = text.parse::<FindingChoice>().expect_err(text);
            assert!(problem.contains("critical, warning, info"), "{problem}");
        }
    }

    #[test]
    fn only_chosen_findings_cause_events() {
        use FindingCode::{Orphan, Overdue, RestartLoop};

        let opened = |code: FindingCode| event(Change::Opened, code, code.info().severity);
        assert!(!chooser(&[]).chooses(&opened(Orphan)), "nothing is chosen by default");

        let mut some = chooser(&["critical", "Orphan"]);
        assert!(some.chooses(&opened(Orphan)) && some.chooses(&opened(RestartLoop)));
        assert!(!some.chooses(&opened(Overdue)));
        assert!(some.chooses(&event(Change::Opened, Overdue, Severity::Critical)), "by a setting");
        assert!(chooser(&["all"]).chooses(&opened(Overdue)));
    }

    #[test]
    fn a_chosen_finding_also_closes_if_its_severity_has_changed() {
        let mut chooser = chooser(&["info"]);
        let code = FindingCode::CpuThrottled;
        assert!(chooser.chooses(&event(Change::Opened, code, Severity::Info)));
        assert!(chooser.chooses(&event(Change::Closed, code, Severity::Warning)));
        assert!(!chooser.chooses(&event(Change::Closed, code, Severity::Warning)), "only once");
        assert!(chooser.open.is_empty());
    }
}
