//! What an engineer on call expects where several mechanisms meet: blindness, grace, tuning, room,
//! steps of the clock.

mod lab;

use lab::{Lab, START, Widget, kind, watch};
use loopwatch_model::finding::{FindingCode, Severity};
use loopwatch_model::observation::*;
use loopwatch_model::settings::{FindingRule, Limits, Selector, Settings};
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

fn source() -> SourceId {
    SourceId::Watch(watch())
}

fn fail(lab: &mut Lab) {
    lab.observe(Observation::SourceFailed {
        source: source(),
        cause: Cause::Connection,
        detail: String::new(),
    });
}

fn recover(lab: &mut Lab) {
    lab.observe(Observation::SourceRecovered { source: source() });
}

fn begin(lab: &mut Lab, epoch: u64) {
    lab.observe(Observation::ListBegan { watch: watch(), epoch });
}

fn end(lab: &mut Lab, epoch: u64) {
    lab.observe(Observation::ListEnded { watch: watch(), epoch, version: "9000000".into() });
}

fn listed(lab: &mut Lab, object: ObjectView) {
    lab.observe(Observation::Listed { watch: watch(), object: Box::new(object) });
}

fn applied(lab: &mut Lab, watch: &WatchId, object: ObjectView) {
    lab.observe(Observation::Applied { watch: watch.clone(), object: Box::new(object) });
}

/// The start of the only open finding with this code.
fn since(lab: &Lab, code: FindingCode) -> Option<Timestamp> {
    lab.snapshot().findings.iter().find(|f| f.code == code).map(|f| f.since)
}

fn has(lab: &Lab, code: FindingCode) -> bool {
    since(lab, code).is_some()
}

fn annotations(ignore: &str) -> std::collections::BTreeMap<String, String> {
    [("loopwatch.dev/ignore".to_owned(), ignore.to_owned())].into()
}

fn namespace(lab: &mut Lab, ignore: &str) {
    let namespace = NamespaceView {
        name: "team-a".into(),
        annotations: annotations(ignore),
        ..NamespaceView::default()
    };

    lab.observe(Observation::NamespaceSeen(namespace));
}

#[test]
fn an_overdue_object_stays_overdue_through_a_grace() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.apply(w.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(w.waiting());
    lab.advance(Span::mins(20));

    assert_eq!(lab.state("web"), ObjectState::Overdue);

    fail(&mut lab);
    lab.advance(Span::secs(50));
    lab.apply(w.touch_status());
    recover(&mut lab);

    assert!(has(&lab, FindingCode::Overdue));
    assert_eq!(lab.state("web"), ObjectState::Overdue, "during the grace");

    lab.advance(Span::hours(3));
    assert_eq!(lab.state("web"), ObjectState::Overdue, "after it");
}

#[test]
fn failing_waits_for_the_grace() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    fail(&mut lab);
    lab.advance(Span::mins(5));

    let changed = lab.now;
    for w in &mut widgets {
        w.failed("ApiServerUnreachable");
        w.changed = Some(changed.after(Span::mins(-4)));
    }

    lab.list(&widgets);
    recover(&mut lab);

    assert!(!has(&lab, FindingCode::Failing), "at once");

    lab.advance(Span::secs(30));
    assert!(!has(&lab, FindingCode::Failing), "within the grace");

    lab.advance(Span::mins(2));
    assert!(has(&lab, FindingCode::Failing), "after it");
}

#[test]
fn failing_closes_if_the_kind_is_no_longer_allowed() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    assert!(has(&lab, FindingCode::Failing));

    let mut forbidden = kind();
    forbidden.missing = vec!["list".into()];
    lab.observe(Observation::KindsDiscovered(vec![forbidden]));
    lab.advance(Span::hours(24));

    assert!(!has(&lab, FindingCode::Failing), "{:?}", lab.findings());
}

fn other_kind() -> WatchedKind {
    let mut other = kind();
    other.watch = WatchId("things.other.io".into());
    (other.group, other.kind, other.resource) =
        ("other.io".into(), "Thing".into(), "things".into());

    other
}

#[test]
fn silence_of_a_list_does_not_concern_another_object_in_the_same_slot() {
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    let other = other_kind();
    lab.observe(Observation::KindsDiscovered(vec![kind(), other.clone()]));

    let mut ready = Widget::new("ready", START);
    ready.ready();

    let silent = Widget::new("silent", START);
    begin(&mut lab, 1);
    listed(&mut lab, ready.view(10));
    listed(&mut lab, silent.view(11));
    lab.delete(&silent);

    // The other kind never has a status. Its object takes the slot.
    lab.observe(Observation::ListBegan { watch: other.watch.clone(), epoch: 2 });
    lab.observe(Observation::Listed {
        watch: other.watch.clone(),
        object: Box::new(Widget::new("thing", START).view(12)),
    });
    end(&mut lab, 1);
    lab.observe(Observation::ListEnded { watch: other.watch, epoch: 2, version: "20".into() });
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn an_ignored_object_without_a_status_is_ignored_after_a_restart() {
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    let mut ready = Widget::new("ready", START);
    ready.ready();

    let mut view = Widget::new("silent", START.after(Span::hours(-2))).view(11);
    view.annotations = annotations("all");
    begin(&mut lab, 1);
    listed(&mut lab, ready.view(10));
    listed(&mut lab, view);
    end(&mut lab, 1);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_waiting_finding_that_becomes_more_severe_gets_room() {
    let limits = Limits { findings: 1, ..Limits::default() };
    let mut lab =
        Lab::with(Settings { learn_after: 0, limits: limits.clone(), ..Settings::default() });
    for name in ["a", "b"] {
        let mut w = lab.converged(name);
        lab.apply(w.spec(2, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(w.waiting());
    }

    lab.advance(Span::hours(1));
    let rule = |severity| FindingRule { severity: Some(severity), ..FindingRule::default() };
    let mut deleted = Widget::new("gone", lab.now);
    deleted.finalizers = vec!["example.io/x".into()];
    deleted.deleted = Some(lab.now);
    lab.apply(&deleted);
    lab.advance(Span::hours(1));

    let findings = [("FinalizerStuck".to_owned(), vec![rule(Severity::Critical)])].into();
    let settings = Settings { learn_after: 0, limits, findings, ..Settings::default() };
    lab.observe(Observation::SettingsChanged(Box::new(settings)));

    assert!(has(&lab, FindingCode::FinalizerStuck), "{:?}", lab.findings());
}

#[test]
fn weak_evidence_stays_weak_when_settings_change_in_blindness() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    w.spec(2, lab.now);

    let mut view = w.view(5000);
    view.managers.clear();
    applied(&mut lab, &watch(), view);
    lab.advance(Span::mins(20));

    let severity =
        |lab: &Lab| lab.snapshot().findings.iter().map(|f| f.severity).collect::<Vec<_>>();

    assert_eq!(severity(&lab), [Severity::Warning], "{:?}", lab.findings());

    fail(&mut lab);
    let settings = Settings { learn_after: 0, flap_transitions: 8, ..Settings::default() };
    lab.observe(Observation::SettingsChanged(Box::new(settings)));

    assert_eq!(severity(&lab), [Severity::Warning], "while blind");
}

#[test]
fn objects_in_an_ignored_namespace_do_not_make_their_kind_fail() {
    let mut lab = Lab::new();
    namespace(&mut lab, "all");

    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn objects_in_a_namespace_silenced_by_a_rule_do_not_make_their_kind_fail() {
    let namespaces = Selector { include: vec!["team-a".into()], ..Selector::default() };
    let rule = FindingRule { namespaces, enabled: Some(false), ..FindingRule::default() };
    let findings = [("all".to_owned(), vec![rule])].into();
    let mut lab = Lab::with(Settings { learn_after: 0, findings, ..Settings::default() });
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();

    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn work_that_begins_after_a_rejection_is_not_overdue_at_once() {
    let mut lab = Lab::new();
    let mut w = Widget::new("web", lab.now);
    lab.apply(&w);
    lab.advance(Span::secs(1));
    lab.apply(w.failed("SecretNotFound"));
    lab.advance(Span::hours(72));
    lab.assert_no_findings();
    lab.apply(w.waiting()); // somebody has created the Secret

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
    lab.apply(w.ready());
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn work_that_never_ends_after_a_rejection_is_overdue_in_the_end() {
    let mut lab = Lab::new();
    let mut w = Widget::new("web", lab.now);
    lab.apply(&w);
    lab.advance(Span::secs(1));
    lab.apply(w.failed("SecretNotFound"));
    lab.advance(Span::hours(72));
    lab.apply(w.waiting());

    let resumed = lab.now;
    lab.advance(Span::mins(20));

    assert_eq!(since(&lab, FindingCode::Overdue), Some(resumed), "{:?}", lab.findings());
}

#[test]
fn an_operator_that_writes_the_spec_does_not_end_a_regression() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(w.waiting());

    let lost = lab.now;
    lab.advance(Span::mins(6));

    assert_eq!(since(&lab, FindingCode::Regressed), Some(lost));

    w.spec(2, lab.now);
    w.status_written = Some(lab.now);
    w.waiting();

    let mut view = w.view(7000);
    for m in &mut view.managers {
        m.time = Some(lab.now);
        m.name = "widget-operator".into();
    }

    applied(&mut lab, &watch(), view);
    lab.advance(Span::mins(1));

    assert_eq!(since(&lab, FindingCode::Regressed), Some(lost), "{:?}", lab.findings());
}

#[test]
fn ticks_do_not_matter_before_a_step_of_the_clock() {
    let run = |ticks: bool| {
        let mut lab = Lab::new();
        let mut w = lab.converged("web");
        w.finalizers = vec!["example.io/f".into()];
        w.deleted = Some(lab.now);
        lab.apply(&w);

        if ticks {
            lab.advance(Span::mins(16));
        } else {
            lab.now = lab.now.after(Span::mins(16));
        }

        lab.now = lab.now.after(Span::hours(-1));
        lab.observe(Observation::ClockStepped { by_ms: -3_600_000 });
        lab.findings()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_stuck_finalizer_is_found_in_time_after_a_step_of_the_clock() {
    let mut lab = Lab::new(); // the clock is an hour slow
    let mut w = lab.converged("web");
    let deleted = lab.now.after(Span::hours(1));
    w.finalizers = vec!["example.io/f".into()];
    w.deleted = Some(deleted);
    lab.apply(&w);
    lab.now = lab.now.after(Span::hours(1));
    lab.observe(Observation::ClockStepped { by_ms: 3_600_000 });

    lab.advance(Span::mins(16));
    assert!(has(&lab, FindingCode::FinalizerStuck), "{:?}", lab.findings());
}

#[test]
fn an_outage_that_begins_in_a_short_grace_has_a_grace_of_its_own() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.apply(w.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(w.waiting());
    fail(&mut lab);
    lab.advance(Span::secs(20));
    recover(&mut lab);

    lab.advance(Span::secs(10));
    fail(&mut lab);
    lab.advance(Span::mins(15)); // the operator was blind, too
    recover(&mut lab);
    lab.assert_no_findings();
    lab.advance(Span::secs(20));
    lab.apply(w.ready());
    lab.advance(Span::mins(5));
    lab.assert_no_findings();
}

#[test]
fn a_connection_that_breaks_again_and_again_hides_nothing() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.apply(w.spec(2, lab.now));

    for _ in 0..60 {
        fail(&mut lab);
        lab.advance(Span::secs(20));
        recover(&mut lab);
        lab.advance(Span::secs(10));
    }

    assert!(has(&lab, FindingCode::Unacknowledged));
}

#[test]
fn a_spec_that_changed_in_an_outage_is_dated_by_its_managers_though_the_watch_resumes() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    fail(&mut lab);
    lab.advance(Span::mins(1));

    let written = lab.now;
    w.spec(2, written);
    lab.advance(Span::mins(8));
    recover(&mut lab);
    lab.apply(&w); // the event of the outage
    lab.advance(Span::mins(30));

    assert_eq!(since(&lab, FindingCode::Unacknowledged), Some(written));
}

#[test]
fn an_old_object_that_newly_fits_was_not_created_now() {
    let limits = Limits { objects: 1, ..Limits::default() };
    let mut lab = Lab::unsynced(Settings { learn_after: 0, limits, ..Settings::default() });
    let mut a = Widget::new("a", START.after(Span::hours(-5)));
    let mut b = Widget::new("b", START.after(Span::hours(-5)));

    a.ready();
    b.ready();
    lab.list(&[a.clone(), b.clone()]);
    lab.delete(&a);
    lab.advance(Span::hours(1));
    lab.apply(b.touch_status());
    lab.advance(Span::mins(5));

    assert_eq!(lab.outcomes(Outcome::Converged), 0, "nobody asked for anything");
}

#[test]
fn start_times_of_an_earlier_run_are_forgotten_although_a_kind_is_forbidden() {
    let mut first = Lab::new();
    let mut w = first.converged("web");
    first.apply(w.spec(2, first.now));
    first.advance(Span::mins(20));

    assert!(has(&first, FindingCode::Unacknowledged));

    let checkpoint = first.model.checkpoint();
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    lab.now = first.now;

    let mut forbidden = other_kind();
    forbidden.missing = vec!["list".into()];
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.observe(Observation::KindsDiscovered(vec![kind(), forbidden]));
    w.ready();
    lab.list(&[w.clone()]);
    lab.advance(Span::hours(24 * 30));

    let changed = lab.now;
    lab.apply(w.spec(3, changed));
    lab.advance(Span::mins(20));

    assert_eq!(since(&lab, FindingCode::Unacknowledged), Some(changed));
}

#[test]
fn a_deadline_that_passed_in_an_outage_counts_as_unknown_although_the_change_was_not_seen_either() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    fail(&mut lab);
    lab.advance(Span::mins(1));
    w.spec(2, lab.now);
    lab.advance(Span::mins(30));
    lab.list(&[w.clone()]);

    recover(&mut lab);
    assert_eq!(lab.outcomes(Outcome::Unknown), 1);
}

#[test]
fn the_failure_of_a_watch_that_ended_is_not_a_finding() {
    let mut lab = Lab::new();
    lab.observe(Observation::KindsDiscovered(vec![other_kind()]));
    fail(&mut lab); // sent before the watch was aborted
    lab.advance(Span::mins(10));

    assert!(!has(&lab, FindingCode::SourceFailing), "{:?}", lab.findings());
}

#[test]
fn a_watch_that_returns_after_it_failed_is_not_blind() {
    let mut lab = Lab::new();
    fail(&mut lab);
    lab.advance(Span::mins(10));
    lab.observe(Observation::KindsDiscovered(vec![other_kind()]));
    lab.observe(Observation::KindsDiscovered(vec![kind(), other_kind()]));

    let mut w = Widget::new("web", lab.now);
    w.ready();
    lab.list(&[w.clone()]);

    assert_eq!(lab.state("web"), ObjectState::Converged);
}

#[test]
fn a_full_set_of_watches_can_be_exchanged() {
    let limits = Limits { watches: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { learn_after: 0, limits, ..Settings::default() });
    lab.observe(Observation::KindsDiscovered(vec![other_kind()]));

    let snapshot = lab.snapshot();
    assert_eq!(
        snapshot.kinds.iter().map(|k| k.kind.as_str()).collect::<Vec<_>>(),
        ["Thing"],
        "{:?}",
        snapshot.dropped
    );
}

#[test]
fn audits_at_every_instant_do_not_hang() {
    let mut lab = Lab::with(Settings { audit_every: Span::ZERO, ..Settings::default() });
    let mut filtered = kind();
    filtered.filtered = true;
    lab.observe(Observation::KindsDiscovered(vec![filtered]));
    lab.list(&[]);
    lab.advance(Span::secs(1));
}

#[test]
fn a_huge_limit_is_no_limit() {
    let limits = Limits { condition_types: usize::MAX, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..Settings::default() });
    lab.converged("web");
}

#[test]
fn a_finding_about_a_definition_returns_when_it_is_enabled_again() {
    let mut lab = Lab::new();
    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        status: StatusSchema::InBody,
        ..DefinitionView::default()
    };

    lab.observe(Observation::DefinitionSeen(definition));
    assert!(has(&lab, FindingCode::StatusSubresourceMissing));

    let settings = |enabled| {
        let rule = FindingRule { enabled: Some(enabled), ..FindingRule::default() };
        let findings = [("StatusSubresourceMissing".to_owned(), vec![rule])].into();
        Observation::SettingsChanged(Box::new(Settings {
            learn_after: 0,
            findings,
            ..Settings::default()
        }))
    };

    lab.observe(settings(false));
    assert!(!has(&lab, FindingCode::StatusSubresourceMissing));

    lab.observe(settings(true));
    assert!(has(&lab, FindingCode::StatusSubresourceMissing));
}

#[test]
fn a_finding_about_a_namespace_returns_when_it_is_enabled_again() {
    let mut lab = Lab::new();
    namespace(&mut lab, "Bogus");

    assert!(has(&lab, FindingCode::ConfigInvalid));

    let settings = |enabled| {
        let rule = FindingRule { enabled: Some(enabled), ..FindingRule::default() };
        let findings = [("ConfigInvalid".to_owned(), vec![rule])].into();
        Observation::SettingsChanged(Box::new(Settings {
            learn_after: 0,
            findings,
            ..Settings::default()
        }))
    };

    lab.observe(settings(false));
    lab.observe(settings(true));

    assert!(has(&lab, FindingCode::ConfigInvalid));
}

#[test]
fn failing_does_not_close_and_open_with_every_retry() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..3).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(1));
    assert!(has(&lab, FindingCode::Failing));

    lab.model.finding_events();
    for _ in 0..4 {
        lab.apply(widgets[0].waiting()); // it tries again
        lab.advance(Span::secs(5));
        lab.apply(widgets[0].failed("Broken"));
        lab.advance(Span::secs(55));
    }

    let events: Vec<_> =
        lab.model.finding_events().iter().map(|e| (e.change, e.finding.code)).collect();
    let failing = events.iter().filter(|(_, code)| *code == FindingCode::Failing).count();

    assert_eq!(failing, 0, "{events:?}");
}

#[test]
fn objects_that_still_fail_when_the_rollout_ends_make_their_kind_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));

    let changed = lab.now;
    for w in &mut widgets {
        lab.apply(w.spec(2, changed));
    }

    lab.advance(Span::secs(1));
    for w in &mut widgets {
        lab.apply(w.ready());
    }

    lab.advance(Span::mins(9));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(2)); // 11 minutes after the change
    assert!(has(&lab, FindingCode::Failing), "{:?}", lab.findings());
}

#[test]
fn a_suspected_finding_does_not_explain_one_that_is_confirmed_now() {
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    let mut suspected = kind();
    suspected.suspected = true;
    lab.observe(Observation::KindsDiscovered(vec![suspected]));
    lab.list(&[]);

    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    for w in &mut widgets {
        lab.apply(w.failed("Broken"));
    }

    lab.advance(Span::mins(10));
    lab.observe(Observation::KindsDiscovered(vec![kind()]));

    let snapshot = lab.snapshot();
    for f in &snapshot.findings {
        let root =
            f.explained_by.and_then(|id| snapshot.findings.iter().find(|other| other.id == id));

        assert!(root.is_none_or(|root| root.confidence >= f.confidence), "{f:?} by {root:?}");
        assert_eq!(f.confidence, loopwatch_model::finding::Confidence::Confirmed);
    }
}

#[test]
fn another_version_of_a_kind_without_status_subresource_is_no_spec_change() {
    let mut in_body = kind();
    in_body.status = StatusSchema::InBody;

    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    lab.observe(Observation::KindsDiscovered(vec![in_body.clone()]));
    lab.list(&[]);

    let mut w = Widget::new("web", lab.now);
    w.observed = None;
    applied(&mut lab, &watch(), w.view(5000));
    lab.advance(Span::secs(1));
    w.condition("Ready", ConditionStatus::True, "x");
    applied(&mut lab, &watch(), w.view(5001));
    lab.advance(Span::hours(1));

    let total = |lab: &Lab| Outcome::ALL.iter().map(|o| lab.outcomes(*o)).sum::<u64>();
    assert_eq!(total(&lab), 1);

    in_body.version = "v2".into();
    lab.observe(Observation::KindsDiscovered(vec![in_body]));

    let mut view = w.view(5001);
    view.hashes.spec = 77; // the same object by another schema
    begin(&mut lab, 50);
    listed(&mut lab, view);
    end(&mut lab, 50);
    lab.advance(Span::hours(1));

    assert_eq!(total(&lab), 1);

    lab.assert_no_findings();
}

#[test]
fn finalizers_that_do_not_fit_never_read_as_none() {
    let mut lab = Lab::new();
    for i in 0..50_000 {
        let mut w = Widget::new(&format!("w{i}"), lab.now);
        w.finalizers = vec![format!("example.io/f{i}")];
        lab.apply(w.ready());
    }

    for i in 0..3 {
        let mut over = Widget::new(&format!("over{i}"), lab.now);
        over.finalizers = vec![format!("example.io/over{i}")];
        lab.apply(over.ready());
        lab.delete(&over);
    }

    let (rows, _) = lab.model.rows(Default::default(), usize::MAX);
    let without: Vec<&str> =
        rows.iter().filter(|r| r.finalizers.is_empty()).map(|r| r.name.as_str()).collect();

    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn the_limit_of_findings_is_reported_as_long_as_a_finding_has_no_room() {
    let limits = Limits { findings: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { learn_after: 0, limits, ..Settings::default() });
    for name in ["a", "b"] {
        let mut w = lab.converged(name);
        lab.apply(w.waiting());
    }

    lab.advance(Span::hours(1));
    assert_eq!(lab.findings(), ["Regressed Widget team-a/a", "LimitReached limit findings"]);
}

#[test]
fn the_start_of_a_finding_without_room_survives_a_restart() {
    let limits = Limits { findings: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { learn_after: 0, limits, ..Settings::default() });
    for name in ["a", "b"] {
        let mut w = lab.converged(name);
        lab.apply(w.waiting());
    }

    lab.advance(Span::hours(1));
    assert_eq!(lab.findings().len(), 2, "one has no room: {:?}", lab.findings());
    assert_eq!(lab.model.checkpoint().findings.len(), 3);
}

#[test]
fn a_watch_that_has_ended_has_no_audits() {
    let mut lab = Lab::new();
    lab.advance(Span::mins(2));
    lab.observe(Observation::KindsDiscovered(vec![]));
    lab.model.probes();

    assert_eq!(lab.model.next_due(), None);
}

#[test]
fn a_rollout_that_began_in_an_outage_is_no_failure_of_the_kind() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    fail(&mut lab);
    lab.advance(Span::secs(30));

    for w in &mut widgets {
        w.spec(2, lab.now).ready();
    }

    lab.advance(Span::secs(30));
    lab.list(&widgets);
    recover(&mut lab);
    lab.advance(Span::secs(90));

    for w in &mut widgets {
        lab.apply(w.failed("ReplicaNotReady"));
    }

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
}

#[test]
fn a_rollout_that_began_before_a_restart_is_no_failure_of_the_kind() {
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    let mut widgets: Vec<Widget> =
        (0..4).map(|i| Widget::new(&format!("w{i}"), START.after(Span::hours(-5)))).collect();
    for w in &mut widgets {
        w.spec(2, START.after(Span::mins(-2))).ready();
    }

    lab.list(&widgets);
    lab.advance(Span::secs(30));
    for w in &mut widgets {
        lab.apply(w.failed("ReplicaNotReady"));
    }

    lab.advance(Span::secs(90));
    lab.assert_no_findings();
}

#[test]
fn the_start_of_a_problem_of_an_earlier_run_is_not_that_of_a_later_spec() {
    let mut first = Lab::new();
    let mut w = first.converged("web");
    first.apply(w.spec(2, first.now));
    first.advance(Span::secs(1));
    first.apply(w.waiting());
    first.advance(Span::mins(20));

    assert!(has(&first, FindingCode::Overdue));

    let checkpoint = first.model.checkpoint();
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    lab.now = first.now.after(Span::hours(5));

    // Somebody mended the spec while loopwatch was down.
    let written = lab.now.after(Span::mins(-3));
    w.spec(3, written).waiting();
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.observe(Observation::KindsDiscovered(vec![kind()]));
    lab.list(&[w.clone()]);
    lab.assert_no_findings();
    lab.advance(Span::mins(20));

    assert_eq!(since(&lab, FindingCode::Overdue), Some(written));
}

#[test]
fn a_change_in_an_outage_that_leaves_no_time_is_not_late_at_once() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(24));
    fail(&mut lab);
    lab.advance(Span::mins(2));

    let written = w.spec_written;
    w.spec(2, written); // scaled, and the managed fields still have the time of the creation
    lab.list(&[w.clone()]);
    recover(&mut lab);
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
    lab.advance(Span::mins(10));

    assert!(has(&lab, FindingCode::Unacknowledged));
}

#[test]
fn a_step_of_the_clock_does_not_move_the_start_of_a_deletion() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    let deleted = lab.now;
    w.finalizers = vec!["example.io/f".into()];
    w.deleted = Some(deleted);
    lab.apply(&w);
    lab.advance(Span::mins(90));

    assert_eq!(since(&lab, FindingCode::FinalizerStuck), Some(deleted));

    lab.now = lab.now.after(Span::mins(-60));
    lab.observe(Observation::ClockStepped { by_ms: -3_600_000 });
    lab.advance(Span::mins(1));

    assert_eq!(since(&lab, FindingCode::FinalizerStuck), Some(deleted));
}

#[test]
fn the_order_of_the_watches_of_a_kind_does_not_decide() {
    let run = |first: usize| {
        let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
        let watched = |namespace: &str| WatchedKind {
            watch: WatchId(format!("widgets.example.io/{namespace}").into()),
            scope: Scope::Namespace(namespace.into()),
            ..kind()
        };

        lab.observe(Observation::KindsDiscovered(vec![watched("a"), watched("b")]));
        let mut ready = Widget::new("ready", START.after(Span::hours(-1)));
        ready.ready();

        let silent = Widget::new("silent", START.after(Span::hours(-1)));
        for (epoch, n) in (1..).zip([first, 1 - first]) {
            let (namespace, widget) = [("a", &ready), ("b", &silent)][n];
            let watch = watched(namespace).watch;
            lab.observe(Observation::ListBegan { watch: watch.clone(), epoch });

            let mut object = Box::new(widget.view(10 + epoch));
            object.key.namespace = namespace.into();
            lab.observe(Observation::Listed { watch: watch.clone(), object });
            lab.observe(Observation::ListEnded { watch, epoch, version: "50".into() });
            lab.advance(Span::secs(1));
        }

        lab.advance(Span::hours(1));
        lab.findings()
    };
    assert_eq!(run(0), run(1));
}

#[test]
fn a_list_that_fails_half_way_does_not_decide() {
    let mut lab = Lab::unsynced(Settings { learn_after: 0, ..Settings::default() });
    let mut ready = Widget::new("a", START.after(Span::hours(-1)));
    ready.ready();

    let silent: Vec<Widget> =
        (0..3).map(|i| Widget::new(&format!("s{i}"), START.after(Span::hours(-1)))).collect();
    begin(&mut lab, 1);
    listed(&mut lab, ready.view(10));
    listed(&mut lab, silent[0].view(11));
    fail(&mut lab);
    lab.advance(Span::mins(1));

    let all: Vec<Widget> = silent.into_iter().chain([ready]).collect();
    lab.list(&all);
    recover(&mut lab);
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}
