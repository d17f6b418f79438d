//! Room for findings: the more severe wins, and nothing that does not fit is lost.

use loopwatch_model::finding::Severity;
use loopwatch_model::settings::{FindingRule, Limits, Settings};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, kind, other_kind, unlearned};

#[test]
fn findings_that_did_not_fit_open_when_there_is_room() {
    let mut lab = Lab::limited(Limits { findings: 1, ..Limits::default() });
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::mins(11));

    let first = lab.findings();
    let mended = usize::from(!first.iter().any(|found| found.contains("team-a/a")));
    lab.apply(widgets[mended].ready());
    lab.advance(Span::hours(5));

    assert!(lab.has("Unacknowledged"), "first {first:?}, now {:?}", lab.findings());
}

#[test]
fn a_finding_that_waited_for_room_opens_with_its_true_start_and_closes() {
    let mut lab = Lab::limited(Limits { findings: 2, ..Limits::default() });
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    let mut changed = Vec::new();

    for widget in &mut widgets {
        changed.push(lab.now);
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span::mins(1));
    }

    lab.advance(Span::mins(10));
    let mut all = Vec::new();
    while let Some(found) =
        lab.snapshot().findings.into_iter().find(|found| found.code.name() == "Unacknowledged")
    {
        let number =
            (0..4).find(|number| found.subject.name() == format!("w{number}")).expect("a widget");

        assert_eq!(found.since, changed[number], "{}", found.subject);

        all.push(number);
        lab.apply(widgets[number].ready());
        lab.advance(Span::secs(30));
    }

    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3], "each had its turn");

    lab.advance(Span::mins(11));
    lab.assert_no_findings();
}

#[test]
fn a_finding_that_waits_is_forgotten_with_its_problem() {
    let mut lab = Lab::limited(Limits { findings: 1, ..Limits::default() });
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::mins(11));

    let open = lab
        .findings()
        .into_iter()
        .find(|found| found.starts_with("Unacknowledged"))
        .expect("one is open");
    for widget in &mut widgets {
        if !open.ends_with(&widget.name) {
            lab.delete(widget);
        }
    }

    lab.changes();
    widgets
        .iter_mut()
        .filter(|widget| open.ends_with(&widget.name))
        .for_each(|widget| lab.apply(widget.ready()));

    assert_eq!(lab.changes(), [format!("Closed {open}")]);
}

#[test]
fn a_critical_finding_finds_room_among_warnings() {
    let mut lab = Lab::limited(Limits { findings: 3, ..Limits::default() });
    let mut widgets: Vec<Widget> =
        (0..4).map(|number| lab.converged(&format!("w{number}"))).collect();
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.waiting()));
    lab.advance(Span::mins(6));
    lab.apply(widgets[3].spec(2, lab.now));
    lab.advance(Span::hours(10));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());

    lab.apply(widgets[3].ready());
    assert_eq!(
        lab.findings().iter().filter(|found| found.starts_with("Regressed")).count(),
        3,
        "{:?}",
        lab.findings()
    );
}

#[test]
fn a_waiting_finding_that_becomes_more_severe_gets_room() {
    let limits = Limits { findings: 1, ..Limits::default() };
    let settings = Settings { limits, page_objects: 3, ..unlearned() };
    let mut lab = Lab::with(settings.clone());
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
    lab.configure(Settings { findings, ..settings });

    assert!(lab.has("FinalizerStuck"), "{:?}", lab.findings());
}

#[test]
fn the_limit_of_findings_is_reported_as_long_as_a_finding_has_no_room() {
    let limits = Limits { findings: 1, ..Limits::default() };
    let mut lab = Lab::with(Settings { limits, ..unlearned() });
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
    let mut lab = Lab::with(Settings { limits, ..unlearned() });
    for name in ["a", "b"] {
        let mut w = lab.converged(name);
        lab.apply(w.waiting());
    }

    lab.advance(Span::hours(1));
    assert_eq!(lab.findings().len(), 2, "one has no room: {:?}", lab.findings());
    assert_eq!(lab.model.checkpoint().findings.len(), 3);
}

#[test]
fn a_failing_kind_takes_the_place_of_a_warning_that_returns_with_its_true_start() {
    let mut lab = Lab::limited(Limits { findings: 2, ..Limits::default() });
    let mut gadget = other_kind("Gadget");
    gadget.group = "other.io".into();
    lab.discover(&[kind(), gadget.clone()]);
    lab.list_in(&gadget.watch, Vec::new());

    let mut widgets = lab.fleet(&["a", "b", "c"]);
    let mut gadgets: Vec<Widget> = ["x", "y"].map(|name| Widget::new(name, lab.now)).into();
    for widget in &mut gadgets {
        let view = lab.view(widget.ready());
        lab.apply_to(&gadget.watch, view);
    }

    lab.advance(Span::hours(1));
    let lost = lab.now;
    for widget in &mut gadgets {
        let view = lab.view(widget.waiting());
        lab.apply_to(&gadget.watch, view);
    }

    lab.advance(Span::mins(6));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("TokenRevoked")));
    lab.advance(Span::mins(1));

    assert!(lab.has("Failing"), "{:?}", lab.findings());
    assert_eq!(
        lab.snapshot().findings.iter().filter(|finding| finding.code.name() == "Regressed").count(),
        1
    );

    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    let regressed: Vec<Timestamp> = lab
        .snapshot()
        .findings
        .iter()
        .filter(|f| f.code.name() == "Regressed")
        .map(|f| f.since)
        .collect();

    assert_eq!(regressed, [lost, lost], "{:?}", lab.findings());
}

/// Changes the specs of widgets that the operator never acknowledges.
fn unacknowledged(lab: &mut Lab, namespace: &str, count: usize) -> Vec<Widget> {
    let names = (0..count).map(|number| format!("{namespace}-{number}"));
    let mut widgets: Vec<Widget> = names.map(|name| lab.converged_in(namespace, &name)).collect();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::mins(11));
    widgets
}

fn open_in(lab: &Lab, namespace: &str) -> usize {
    let needle = format!("Unacknowledged Widget {namespace}/");
    lab.findings().iter().filter(|found| found.starts_with(&needle)).count()
}

#[test]
fn a_namespace_full_of_findings_keeps_no_finding_of_another_from_opening() {
    let mut lab = Lab::limited(Limits { findings: 5, ..Limits::default() });
    unacknowledged(&mut lab, "junk", 30);
    assert_eq!(open_in(&lab, "junk"), 5);

    let mut widgets = unacknowledged(&mut lab, "team-a", 2);
    assert_eq!(open_in(&lab, "team-a"), 2, "{:?}", lab.findings());
    assert_eq!(open_in(&lab, "junk"), 3);

    lab.apply(widgets[0].ready());
    lab.advance(Span::mins(1));
    assert_eq!((open_in(&lab, "team-a"), open_in(&lab, "junk")), (1, 4), "the room is used");
}

#[test]
fn namespaces_with_as_many_findings_do_not_take_turns() {
    let mut lab = Lab::limited(Limits { findings: 4, ..Limits::default() });
    unacknowledged(&mut lab, "junk", 5);
    unacknowledged(&mut lab, "team-a", 5);
    assert_eq!((open_in(&lab, "junk"), open_in(&lab, "team-a")), (2, 2));

    let before = lab.findings();
    lab.changes();
    lab.advance(Span::hours(3));
    assert_eq!(lab.findings(), before);
    let changes = lab.changes();
    let turns = changes.iter().filter(|change| change.contains("Unacknowledged Widget"));
    assert_eq!(turns.count(), 0, "{changes:?}");
}
