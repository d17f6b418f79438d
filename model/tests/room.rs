//! Room for findings: the more severe wins, nothing that does not fit is lost, and every event is
//! announced or counted.

mod lab;

use lab::{Lab, Widget};
use loopwatch_model::finding::Change;
use loopwatch_model::settings::Limits;
use loopwatch_model::time::Span;

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
fn events_that_are_lost_are_counted() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..5100).map(|number| Widget::new(&format!("w{number}"), lab.now)).collect();
    for widget in &mut widgets {
        lab.apply(widget);
        lab.apply(widget.ready());
    }

    lab.advance(Span::mins(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.waiting()));
    lab.advance(Span::mins(6));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));

    let kept = lab.model.finding_events().len() as u64;
    let lost = lab.snapshot().dropped.get("finding_events").copied().unwrap_or(0);

    assert!(
        kept + lost >= 10_200,
        "{kept} of 10200 events, {lost} lost, {:?}",
        lab.snapshot().dropped
    );
}

#[test]
fn an_event_shows_whether_another_finding_explains_it() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().phase("Provisioning"));
    lab.advance(Span::mins(31));

    let findings = lab.snapshot().findings;
    let explained: Vec<_> = findings
        .iter()
        .filter(|finding| finding.explained_by.is_some())
        .map(|finding| finding.code.name())
        .collect();

    assert_eq!(explained, ["PhaseStuck"]);

    let events = lab.model.finding_events();
    let announced =
        events.iter().find(|event| event.finding.code.name() == "PhaseStuck").expect("an event");

    assert!(
        announced.finding.explained_by.is_some() && announced.change == Change::Opened,
        "{announced:?}"
    );
}

#[test]
fn a_finding_that_is_no_longer_explained_is_announced_as_such() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("DiskFull")));
    lab.advance(Span::mins(6));

    assert_eq!(lab.roots(), ["Failing Widget (all)"]);

    lab.model.finding_events();
    // One of four is not the whole kind.
    widgets[..2].iter_mut().for_each(|widget| lab.apply(widget.ready()));

    assert_eq!(lab.roots(), ["Regressed Widget team-a/c"]);

    let events = lab.model.finding_events();
    let change =
        |event: &&loopwatch_model::finding::FindingEvent| event.finding.subject.name() == "c";
    let of_c: Vec<_> = events
        .iter()
        .filter(change)
        .map(|event| (event.change, event.finding.explained_by))
        .collect();

    assert_eq!(of_c, [(Change::Explained, None)], "{events:#?}");
}
