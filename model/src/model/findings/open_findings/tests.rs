//! Tests of findings from their opening to their closing.

use super::*;
use crate::finding::{Change, Evidence};
use crate::model::findings::detection::Detection;

fn report(code: FindingCode, name: &str) -> Report {
    Report {
        subject: Subject::Source { name: name.to_owned() },
        detection: Detection::new(Timestamp(1), code, Timestamp(1), Timestamp(1), Evidence::new),
        severity: code.info().severity,
        is_fixed: false,
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
        findings.clear(at, config.detection.code, &config.subject);
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
    assert_eq!(findings.raise(now, report(FindingCode::Unacknowledged, "b"), 1), Raised::Dropped);
    assert_eq!(findings.raise(now, report(FindingCode::PermissionExcess, "c"), 1), Raised::Dropped);

    findings.settle(now, 1, Span::mins(10));
    assert_eq!(findings.iter().map(|f| f.code).collect::<Vec<_>>(), [FindingCode::Unacknowledged]);

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

    let detection = overdue.detection.clone().suspected_if(true);
    findings.raise(now, Report { detection, ..overdue }, 10);
    findings.settle(now, 10, Span::mins(10));

    assert_eq!(roots(&findings), 2);
}

#[test]
fn a_held_finding_closes_when_its_time_is_over() {
    let mut findings = OpenFindings::default();
    let config = report(FindingCode::ConfigInvalid, "config");
    findings.raise(Timestamp(1), config.clone(), 10);
    findings.hold(config.detection.code, &config.subject, Timestamp(5));

    assert_eq!(findings.expire(Timestamp(4)), Some(Timestamp(5)));
    assert_eq!(findings.iter().count(), 1);
    assert_eq!(findings.expire(Timestamp(5)), None);
    assert_eq!(findings.iter().count(), 0);
}
