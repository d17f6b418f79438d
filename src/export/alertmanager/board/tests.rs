use loopwatch_model::finding::{Evidence, FindingId, Subject};
use serde_json::Value;

use super::*;

const NOW: Timestamp = Timestamp(1_767_225_600_000);

fn finding(code: FindingCode, name: &str, open_for: Span) -> Finding {
    let at = Timestamp(NOW.0 - open_for.0);
    let subject = Subject::Object {
        group: "example.io".to_owned(),
        kind: "Widget".to_owned(),
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };
    Finding {
        id: FindingId::of(code, &subject),
        code,
        subject,
        since: at,
        found: at,
        severity: code.info().severity,
        confidence: Confidence::Confirmed,
        evidence: Evidence::default(),
        explained_by: None,
        alerts_from: Some(at),
    }
}

/// A board, and what it posts, as JSON.
struct Watched(Board);

// === impl Watched ===

impl Watched {
    fn new() -> Self {
        Self(Board::new(vec![("cluster".to_owned(), "production".to_owned())]))
    }

    /// The alerts of the posting after a snapshot, without the heartbeat; `None` if there is none.
    fn after(&mut self, at: Span, findings: &[Finding]) -> Option<Vec<Value>> {
        let snapshot = Snapshot { at: NOW.after(at), findings: findings.to_vec(), ..Snapshot::default() };
        self.0.update(&snapshot);
        let bodies = self.0.posting()?.bodies;
        let alerts = bodies.iter().flat_map(|body| {
            let batch: Vec<Value> = serde_json::from_slice(body).expect("JSON");
            assert!(batch.len() <= 64);
            batch
        });
        let (heartbeat, alerts): (Vec<_>, Vec<_>) =
            alerts.partition(|alert| alert["labels"]["alertname"] == "LoopwatchWatchdog");
        assert_eq!(heartbeat.len(), 1);
        Some(alerts)
    }
}

fn time(at: Span) -> String {
    NOW.after(at).to_string()
}

#[test]
fn a_finding_fires_with_the_labels_of_the_rules_and_is_resolved_when_it_clears() {
    let mut board = Watched::new();
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let alerts = board.after(Span::ZERO, std::slice::from_ref(&late)).expect("a posting");
    let [alert] = &alerts[..] else { panic!("{alerts:?}") };
    let labels = serde_json::json!({
        "alertname": "LoopwatchFinding", "cluster": "production", "finding": "Overdue", "group": "example.io",
        "kind": "Widget", "severity": "warning", "target_namespace": "team-a",
    });
    assert_eq!(alert["labels"], labels);
    assert_eq!((&alert["startsAt"], &alert["endsAt"]), (&time(Span::mins(-1)).into(), &time(Span::mins(5)).into()));
    let text = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
    assert!(text("summary").starts_with("Overdue: ") && text("runbook_url").ends_with("/Overdue.md"), "{alert}");
    for part in ["Widget in team-a: 1 affected.", "Longest: late (1m).", "Next: kubectl", "late"] {
        assert!(text("description").contains(part), "{part}: {alert}");
    }

    assert_eq!(board.after(Span::secs(5), std::slice::from_ref(&late)), None, "nothing has changed");
    let again = board.after(Span::secs(60), std::slice::from_ref(&late)).expect("a repetition");
    assert_eq!((&again[0]["startsAt"], &again[0]["endsAt"]), (&alert["startsAt"], &time(Span::mins(6)).into()));

    let cleared = board.after(Span::secs(65), &[]).expect("a change");
    assert_eq!((&cleared[0]["labels"], &cleared[0]["endsAt"]), (&alert["labels"], &time(Span::secs(65)).into()));
    let repeated = board.after(Span::mins(10), &[]).expect("a repetition");
    assert_eq!(repeated[0]["endsAt"], time(Span::secs(65)), "an Alertmanager may have been away");
    assert_eq!(board.after(Span::mins(17), &[]), Some(vec![]), "forgotten");
}

#[test]
fn a_critical_finding_has_an_alert_of_its_own_name_if_the_rules_have_one() {
    let mut board = Watched::new();
    let stuck = finding(FindingCode::FinalizerOwnerAbsent, "stuck", Span::mins(1));
    let mut lowered = finding(FindingCode::FinalizerOwnerAbsent, "lowered", Span::mins(1));
    lowered.severity = Severity::Warning;
    let alerts = board.after(Span::ZERO, &[stuck, lowered]).expect("a posting");
    let names: Vec<_> = alerts.iter().map(|alert| alert["labels"]["alertname"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["LoopwatchFinalizerOwnerAbsent", "LoopwatchFinding"]);
}

#[test]
fn findings_that_are_new_suspected_informative_or_explained_do_not_fire() {
    let mut board = Watched::new();
    let new = finding(FindingCode::Overdue, "new", Span::secs(14));
    let mut suspected = finding(FindingCode::Overdue, "suspected", Span::mins(1));
    suspected.confidence = Confidence::Suspected;
    let mut informative = finding(FindingCode::Overdue, "informative", Span::mins(1));
    informative.severity = Severity::Info;
    let mut explained = finding(FindingCode::StatusLag, "explained", Span::mins(1));
    (explained.explained_by, explained.alerts_from) = (Some(new.id), None);
    let all = [new, suspected, informative, explained];
    assert_eq!(board.after(Span::ZERO, &all), Some(vec![]));
    assert_eq!(board.after(Span::secs(1), &all).map(|alerts| alerts.len()), Some(1), "the first is 15 s old");
}

#[test]
fn an_alert_that_fires_is_not_resolved_because_something_explains_it_now() {
    let mut board = Watched::new();
    let mut late = finding(FindingCode::Overdue, "late", Span::mins(1));
    assert_eq!(board.after(Span::ZERO, std::slice::from_ref(&late)).map(|alerts| alerts.len()), Some(1));
    let cause = finding(FindingCode::NeverRecovered, "late", Span::secs(1));
    late.explained_by = Some(cause.id);
    let alerts = board.after(Span::mins(1), &[cause.clone(), late]).expect("a posting");
    let ends: Vec<_> = alerts.iter().map(|alert| &alert["endsAt"]).collect();
    assert_eq!(ends, [&Value::from(time(Span::mins(6))), &time(Span::mins(6)).into()], "{alerts:?}");
    let alerts = board.after(Span::mins(2), &[cause]).expect("a posting");
    assert_eq!(alerts.iter().filter(|alert| alert["endsAt"] == time(Span::mins(2))).count(), 1, "{alerts:?}");
}

#[test]
fn a_finding_that_ends_soon_after_the_start_is_resolved_because_an_earlier_process_may_have_posted_it() {
    let mut board = Watched::new();
    let short = finding(FindingCode::Overdue, "short", Span::secs(1));
    assert_eq!(board.after(Span::ZERO, std::slice::from_ref(&short)), Some(vec![]));
    let alerts = board.after(Span::secs(5), &[]).expect("a change");
    assert_eq!(alerts.iter().map(|alert| &alert["endsAt"]).collect::<Vec<_>>(), [&time(Span::secs(5))]);

    // Later, no other process can have posted it: its alert would have expired.
    let mut board = Watched::new();
    board.after(Span::mins(-5), &[]);
    board.after(Span::ZERO, std::slice::from_ref(&short));
    assert_eq!(board.after(Span::secs(5), &[]), None);
}

#[test]
fn a_new_object_of_an_alert_that_fires_is_posted_at_once() {
    let mut board = Watched::new();
    let first = finding(FindingCode::Overdue, "first", Span::mins(1));
    board.after(Span::ZERO, std::slice::from_ref(&first));
    let second = finding(FindingCode::Overdue, "second", Span::ZERO);
    let alerts = board.after(Span::secs(5), &[first, second]).expect("a posting");
    assert!(alerts[0]["annotations"]["description"].as_str().is_some_and(|text| text.contains("2 affected")));
}

#[test]
fn ten_thousand_findings_stay_within_the_limit_and_critical_ones_find_room() {
    let of = |code, number: usize| {
        let mut finding = finding(code, "one", Span::mins(1));
        finding.subject = Subject::Object {
            group: "example.io".to_owned(),
            kind: "Widget".to_owned(),
            namespace: format!("team-{number}"),
            name: "one".to_owned(),
        };
        finding.id = FindingId::of(code, &finding.subject);
        finding
    };
    let mut findings: Vec<Finding> = (0..10_000).map(|number| of(FindingCode::Overdue, number)).collect();
    let mut board = Board::new(vec![]);
    let dropped = board.update(&Snapshot { at: NOW, findings: findings.clone(), ..Snapshot::default() });
    assert_eq!((board.firing(), dropped), (800, 9_200));
    findings.extend((0..100).map(|number| of(FindingCode::FinalizerOwnerAbsent, number)));
    board.update(&Snapshot { at: NOW, findings, ..Snapshot::default() });
    assert_eq!(board.firing(), 900);
}

#[test]
fn a_clock_that_is_set_back_makes_no_alert_that_ends_before_it_begins() {
    let mut board = Watched::new();
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let gone = finding(FindingCode::Unacknowledged, "gone", Span::mins(1));
    board.after(Span::ZERO, &[late.clone(), gone]);
    board.after(Span::mins(1), std::slice::from_ref(&late));
    let late = Finding { alerts_from: late.alerts_from.map(|from| from.before(Span::hours(1))), ..late }; // as the model does
    let alerts = board.after(Span::hours(-1), &[late]).expect("a repetition, by the new clock");
    let now = Value::from(time(Span::hours(-1)));
    let times: Vec<_> = alerts.iter().map(|alert| (&alert["startsAt"], &alert["endsAt"])).collect();
    assert_eq!(times, [(&now, &time(Span::mins(-55)).into()), (&now, &now)]);
}
