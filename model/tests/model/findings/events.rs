//! Events of findings: every one is announced or counted.

use loopwatch_model::finding::Change;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

#[test]
fn a_finding_makes_one_event_when_it_opens_and_one_when_it_closes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.model.finding_events();
    lab.apply(widget.waiting());
    lab.advance(Span::mins(6));
    lab.apply(widget.ready());
    lab.advance(Span::mins(6));

    let events = lab.model.finding_events();
    let changes: Vec<_> =
        events.iter().map(|event| (event.finding.code.name(), event.change)).collect();
    use loopwatch_model::finding::Change::{Closed, Opened};

    assert_eq!(changes, [("Regressed", Opened), ("Regressed", Closed)]);
    assert!(events[1].finding.summary().contains("lost for 6m"), "{}", events[1].finding.summary());
    assert!(lab.model.finding_events().is_empty());
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
