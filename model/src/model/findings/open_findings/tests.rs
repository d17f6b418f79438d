//! Tests of findings from their opening to their closing.

use super::queue::MAX_WAITING;
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
        pages_if: None,
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

/// A warning about an object of a namespace.
fn in_namespace(namespace: &str, number: usize) -> Report {
    let (group, kind) = ("example.io".to_owned(), "Widget".to_owned());
    let (namespace, name) = (namespace.to_owned(), format!("web-{number}"));
    let subject = Subject::Object { group, kind, namespace, name };
    Report { subject, ..report(FindingCode::Regressed, "") }
}

fn raise(
    findings: &mut OpenFindings,
    limit: usize,
    namespace: &str,
    numbers: std::ops::Range<usize>,
) {
    for number in numbers {
        findings.raise(Timestamp(1), in_namespace(namespace, number), limit);
        findings.settle(Timestamp(1), limit, Span::mins(10));
    }
}

fn close(
    findings: &mut OpenFindings,
    limit: usize,
    namespace: &str,
    numbers: std::ops::Range<usize>,
) {
    for number in numbers {
        let Report { subject, detection, .. } = in_namespace(namespace, number);
        findings.clear(Timestamp(2), detection.code, &subject);
        findings.settle(Timestamp(2), limit, Span::mins(10));
    }
}

/// Returns the numbers of the open findings of a namespace.
fn open_in(findings: &OpenFindings, of: &str) -> Vec<usize> {
    let number = |finding: &Finding| match &finding.subject {
        Subject::Object { namespace, name, .. } if namespace == of => {
            name.strip_prefix("web-")?.parse().ok()
        }
        _ => None,
    };
    let mut open: Vec<usize> = findings.iter().filter_map(number).collect();
    open.sort_unstable();
    open
}

#[test]
fn a_namespace_that_fills_the_limit_makes_room_for_others() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 10, "hostile", 0..15);
    raise(&mut findings, 10, "honest", 0..3);
    assert_eq!(open_in(&findings, "honest"), [0, 1, 2]);
    assert_eq!(open_in(&findings, "hostile"), [0, 1, 2, 3, 4, 5, 6], "the newest ones wait");

    close(&mut findings, 10, "honest", 0..3);
    assert_eq!(open_in(&findings, "hostile"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn two_namespaces_of_equal_size_do_not_take_turns() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 11, "team-a", 0..6);
    raise(&mut findings, 11, "team-b", 0..5);
    events(&mut findings);

    raise(&mut findings, 11, "team-b", 5..9);
    raise(&mut findings, 11, "team-a", 6..9);
    assert_eq!(events(&mut findings), []);
    assert_eq!((open_in(&findings, "team-a").len(), open_in(&findings, "team-b").len()), (6, 5));
}

#[test]
fn a_place_that_becomes_free_goes_to_the_namespace_with_the_fewest_open_findings() {
    let mut findings = OpenFindings::default();
    for namespace in ["team-a", "team-b", "team-c"] {
        raise(&mut findings, 12, namespace, 0..8);
    }
    assert_eq!(open_in(&findings, "team-c"), [0, 1, 2, 3]);

    close(&mut findings, 12, "team-c", 0..3);
    assert_eq!(open_in(&findings, "team-c"), [3, 4, 5, 6]);

    close(&mut findings, 12, "team-a", 0..8);
    let (b, c) = (open_in(&findings, "team-b").len(), open_in(&findings, "team-c").len());
    assert_eq!((b, c), (7, 5), "all that wait open");
}

#[test]
fn findings_about_no_namespace_make_room_for_no_other() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 4, "hostile", 0..8);
    for name in ["a", "b"] {
        findings.raise(Timestamp(1), report(FindingCode::Regressed, name), 4);
    }
    assert_eq!(open_in(&findings, "hostile"), [0, 1]);

    for number in 8..20 {
        let critical = Report { severity: Severity::Critical, ..in_namespace("hostile", number) };
        findings.raise(Timestamp(1), critical, 4);
        findings.settle(Timestamp(1), 4, Span::mins(10));
    }

    let of_none =
        findings.iter().filter(|finding| matches!(finding.subject, Subject::Source { .. }));
    assert_eq!((of_none.count(), open_in(&findings, "hostile")), (2, vec![8, 9]));
}

#[test]
fn a_namespace_that_fills_the_queue_makes_room_for_others() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 2, "team-a", 0..2);
    raise(&mut findings, 2, "hostile", 0..MAX_WAITING + 10);
    raise(&mut findings, 2, "team-a", 2..5);
    assert_eq!((open_in(&findings, "team-a"), open_in(&findings, "hostile")), (vec![0], vec![0]));

    close(&mut findings, 2, "hostile", 0..MAX_WAITING + 10);
    assert_eq!(open_in(&findings, "team-a"), [0, 1]);
    close(&mut findings, 2, "team-a", 0..2);
    assert_eq!(open_in(&findings, "team-a"), [2, 3], "they waited");
}

#[test]
fn a_finding_that_becomes_less_severe_makes_room() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 2, "team-a", 0..4);
    let Report { subject, detection, .. } = in_namespace("team-a", 0);
    findings.set_severity(detection.code, &subject, Severity::Info, true);
    findings.settle(Timestamp(1), 2, Span::mins(10));
    assert_eq!(open_in(&findings, "team-a"), [1, 2]);

    let Report { subject, .. } = in_namespace("team-a", 3);
    findings.set_severity(detection.code, &subject, Severity::Critical, true);
    findings.settle(Timestamp(1), 2, Span::mins(10));
    assert_eq!(open_in(&findings, "team-a"), [1, 3]);
}

/// Raises critical findings about objects of a namespace.
fn raise_critical(
    findings: &mut OpenFindings,
    limit: usize,
    namespace: &str,
    numbers: std::ops::Range<usize>,
) {
    for number in numbers {
        let critical = Report { severity: Severity::Critical, ..in_namespace(namespace, number) };
        findings.raise(Timestamp(1), critical, limit);
        findings.settle(Timestamp(1), limit, Span::mins(10));
    }
}

#[test]
fn many_critical_findings_of_one_namespace_close_no_warnings_about_others() {
    let mut findings = OpenFindings::default();
    raise(&mut findings, 10, "honest", 0..3);
    raise_critical(&mut findings, 10, "hostile", 0..20);
    assert_eq!((open_in(&findings, "honest").len(), open_in(&findings, "hostile").len()), (3, 7));

    raise(&mut findings, 10, "honest", 3..5);
    assert_eq!((open_in(&findings, "honest").len(), open_in(&findings, "hostile").len()), (5, 5));
}

#[test]
fn a_critical_finding_takes_the_place_of_a_warning_about_a_namespace_with_more() {
    let mut findings = OpenFindings::default();
    for namespace in ["team-a", "team-b", "team-c", "team-d"] {
        raise(&mut findings, 4, namespace, 0..1);
    }

    raise_critical(&mut findings, 4, "team-e", 0..2);
    assert_eq!(open_in(&findings, "team-e"), [0], "the others have no more than one");
    assert_eq!(findings.iter().count(), 4);

    raise_critical(&mut findings, 4, "team-a", 1..2);
    assert_eq!(open_in(&findings, "team-a"), [1], "a namespace keeps its most severe ones");
}
