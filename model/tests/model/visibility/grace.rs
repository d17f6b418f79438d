//! The grace after blindness.

use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, unlearned};

#[test]
fn an_overdue_object_stays_overdue_within_the_grace_after_blindness() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));

    let since = lab.row("web").since;
    lab.blind_for(Span::secs(90));
    lab.apply(widget.touch_status());

    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.state("web"), ObjectState::Overdue);

    lab.advance(Span::mins(5));
    assert_eq!((lab.state("web"), lab.row("web").since), (ObjectState::Overdue, since));
}

#[test]
fn a_finding_that_changes_its_code_within_the_grace_leaves_no_gap() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));
    lab.blind_for(Span::secs(90));
    lab.apply(widget.touch_status());

    assert_eq!(lab.findings().len(), 1, "{:?}", lab.findings());
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

    lab.fail();
    lab.advance(Span::secs(50));
    lab.apply(w.touch_status());
    lab.recover();

    assert!(lab.has("Overdue"));
    assert_eq!(lab.state("web"), ObjectState::Overdue, "during the grace");

    lab.advance(Span::hours(3));
    assert_eq!(lab.state("web"), ObjectState::Overdue, "after it");
}

#[test]
fn failing_waits_for_the_grace() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = (0..4).map(|i| lab.converged(&format!("w{i}"))).collect();
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::mins(5));

    let changed = lab.now;
    for w in &mut widgets {
        w.failed("ApiServerUnreachable");
        w.changed = Some(changed.after(Span::mins(-4)));
    }

    lab.list(&widgets);
    lab.recover();

    assert!(!lab.has("Failing"), "at once");

    lab.advance(Span::secs(30));
    assert!(!lab.has("Failing"), "within the grace");

    lab.advance(Span::mins(2));
    assert!(lab.has("Failing"), "after it");
}

#[test]
fn an_outage_that_begins_in_a_short_grace_has_a_grace_of_its_own() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.apply(w.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(w.waiting());
    lab.fail();
    lab.advance(Span::secs(20));
    lab.recover();

    lab.advance(Span::secs(10));
    lab.fail();
    lab.advance(Span::mins(15)); // the operator was blind, too
    lab.recover();
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
        lab.fail();
        lab.advance(Span::secs(20));
        lab.recover();
        lab.advance(Span::secs(10));
    }

    assert!(lab.has("Unacknowledged"));
}

#[test]
fn a_kind_that_recovers_within_the_grace_after_blindness_does_not_fail() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(5));

    for widget in &mut widgets {
        lab.changes();
        widget.failed("ApiServerUnreachable");
    }

    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::secs(40));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::hours(1));

    let changes = lab.changes();
    assert!(!changes.iter().any(|change| change.contains(" Failing")), "{changes:?}");
}

#[test]
fn a_start_during_an_outage_has_a_grace_too() {
    let mut lab = Lab::unsynced(unlearned());
    lab.fail();
    lab.advance(Span::mins(15));

    let mut widget = Widget::new("web", lab.ago(Span::hours(100)));
    widget.ready();
    widget.spec(2, lab.ago(Span::mins(16)));
    lab.list(&[widget.clone()]);
    lab.recover();
    lab.advance(Span::secs(40));
    lab.apply(widget.ready());
    lab.advance(Span::mins(5));

    assert!(!lab.changes().iter().any(|change| change.contains("Unack")));
}
