//! Objects whose status says nothing about their health, or not yet: what the statuses of their
//! kind say decides whether that is a fault.

use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, START, Widget, kind, other_kind, unlearned, watch};

/// Returns a widget whose operator wrote an empty list of conditions.
fn begun(widget: &mut Widget, version: u64) -> ObjectView {
    let mut view = widget.touch_status().view(version);
    view.facts.push(Fact { path: "status.conditions".into(), value: FactValue::Number(0) });
    view
}

/// Returns a widget with a status that has neither conditions nor facts.
fn mute(widget: &mut Widget, version: u64) -> ObjectView {
    widget.touch_status().view(version)
}

#[test]
fn silence_that_may_be_all_the_kind_ever_says_opens_nothing_and_is_never_late() {
    for silent in [begun, mute] {
        let mut lab = Lab::new();
        for name in ["a", "b", "c"] {
            let mut widget = Widget::new(name, lab.now);
            lab.apply(&widget);
            lab.advance(Span::secs(1));
            lab.apply_view(silent(&mut widget, 5000));
        }

        lab.advance(Span::hours(48));
        lab.assert_no_findings();

        assert_eq!((lab.state("a"), lab.outcomes(Outcome::Late)), (ObjectState::Unknown, 0));
    }
}

#[test]
fn a_young_object_with_an_empty_list_of_conditions_is_progressing() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("new", lab.now);
    lab.apply(&widget);
    lab.apply_view(begun(&mut widget, 5000));

    assert_eq!(lab.state("new"), ObjectState::Progressing);

    lab.advance(Span::hours(1));
    assert_eq!(lab.state("new"), ObjectState::Unknown, "the deadline is over");
}

#[test]
fn an_acknowledged_generation_is_enough_if_the_kind_never_says_more() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    lab.apply(&widget);
    lab.apply_view(begun(widget.observe(), 5000));
    lab.advance(Span::hours(48));
    lab.assert_no_findings();

    assert_eq!((lab.state("web"), lab.outcomes(Outcome::Converged)), (ObjectState::Converged, 1));
}

#[test]
fn silence_in_a_kind_that_says_more_is_unfinished_work() {
    for silent in [begun, mute] {
        let mut lab = Lab::new();
        for i in 0..4 {
            lab.converged(&format!("old{i}"));
        }

        let mut widget = Widget::new("new", lab.now);
        lab.apply(&widget);
        lab.advance(Span::secs(1));
        lab.apply_view(silent(&mut widget, 50_000));
        lab.advance(Span::hours(1));

        assert_eq!(
            (lab.findings(), lab.outcomes(Outcome::Late)),
            (vec!["Overdue Widget team-a/new".to_owned()], 1)
        );
    }
}

#[test]
fn what_silence_means_does_not_depend_on_the_order_of_a_list() {
    let old = Timestamp(START.0 - Span::hours(5).0);
    let judge = |silent: fn(&mut Widget, u64) -> ObjectView, position: usize, others: usize| {
        let mut lab = Lab::unsynced(unlearned());
        let other = |i: usize| Widget::new(&format!("w{i}"), old).ready().view(100 + i as u64);
        let mut views: Vec<ObjectView> = (0..others).map(other).collect();
        views.insert(position.min(others), silent(&mut Widget::new("silent", old), 4000));
        lab.list_views(views);
        lab.advance(Span::hours(1));

        (lab.findings(), lab.state("silent"), lab.outcomes(Outcome::Late))
    };

    for silent in [begun, mute] {
        assert_eq!(judge(silent, 0, 4), judge(silent, 4, 4));
        assert_eq!(judge(silent, 0, 4).1, ObjectState::Overdue, "four others say more");
        assert_eq!(judge(silent, 0, 0), (vec![], ObjectState::Unknown, 0), "nobody says more");
    }
}

#[test]
fn statuses_of_failed_objects_do_not_show_that_healthy_ones_say_anything() {
    let mut lab = Lab::new();
    for name in ["a", "b", "c"] {
        lab.apply(Widget::new(name, lab.now).failed("Invalid"));
    }

    lab.advance(Span::hours(1));
    let before = lab.findings();
    lab.apply(&Widget::new("silent", lab.now));
    lab.advance(Span::hours(48));

    assert_eq!((lab.findings(), lab.state("silent")), (before, ObjectState::Unknown));
}

#[test]
fn silence_of_a_list_does_not_concern_another_object_in_the_same_slot() {
    let mut lab = Lab::unsynced(unlearned());
    let other = other_kind("Thing");
    lab.discover(&[kind(), other.clone()]);

    let mut ready = Widget::new("ready", START);
    ready.ready();

    let silent = Widget::new("silent", START);
    lab.begin_list(&watch());
    lab.listed(&watch(), ready.view(10));
    lab.listed(&watch(), silent.view(11));
    lab.delete(&silent);

    // The other kind never has a status. Its object takes the slot.
    lab.observe(Observation::ListBegan { watch: other.watch.clone(), epoch: 2 });
    lab.listed(&other.watch, Widget::new("thing", START).view(12));
    lab.end_list(&watch());
    lab.observe(Observation::ListEnded { watch: other.watch, epoch: 2, version: "20".into() });
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn an_object_that_never_got_a_status_is_found_once_its_kind_shows_one() {
    let mut lab = Lab::new();
    let first = Widget::new("first", lab.now);
    lab.apply(&first);
    lab.advance(Span::mins(11));

    for name in ["x", "y", "z"] {
        lab.converged(name);
    }

    lab.advance(Span::hours(10));
    assert!(!lab.findings().is_empty(), "state {:?}", lab.state("first"));
}

#[test]
fn a_list_in_any_order_shows_which_object_has_no_status_yet() {
    for silent_first in [true, false] {
        let mut lab = Lab::unsynced(Settings::default());
        let mut widgets: Vec<Widget> = ["web", "api"]
            .map(|name| Widget::new(name, START).ready().clone())
            .into_iter()
            .collect();

        widgets.insert(if silent_first { 0 } else { 2 }, Widget::new("new", START));
        lab.list(&widgets);

        assert_eq!(lab.state("new"), ObjectState::Progressing, "most others have a status");
    }

    let mut lab = Lab::unsynced(Settings::default());
    lab.list(&[Widget::new("new", START), Widget::new("other", START)]);

    assert_eq!(lab.state("new"), ObjectState::Unknown, "no other has a status");
}

#[test]
fn the_order_of_a_list_does_not_decide_since_when_an_object_without_status_waits() {
    let judge = |bare_first: bool| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(50));
        let mut bare = Widget::new("bare", old);
        bare.spec(2, lab.ago(Span::hours(5)));

        let mut widgets = vec![bare];
        for name in ["x", "y", "z"] {
            widgets.push(Widget::new(name, old).ready().clone());
        }

        if !bare_first {
            widgets.reverse();
        }

        lab.list(&widgets);
        let shown = |lab: &Lab| {
            let findings = lab.snapshot().findings;
            findings
                .iter()
                .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                .collect::<Vec<_>>()
        };

        let at_once = shown(&lab);
        lab.advance(Span::hours(1));
        (at_once, shown(&lab))
    };
    assert_eq!(judge(true), judge(false));
}

#[test]
fn malformed_conditions_open_one_finding_per_kind() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut view = lab.view(&widget);
    view.lints = vec!["condition_status".into()];
    lab.apply_view(view);

    assert_eq!(lab.findings(), ["ConditionMalformed Widget (all)"]);
    assert!(lab.evidence().contains("team-a/web"), "{}", lab.evidence());

    // The operator writes them in each rollout only.
    lab.advance(Span::hours(2));
    lab.apply(&widget);
    lab.advance(Span::mins(29));
    assert_eq!(lab.findings(), ["ConditionMalformed Widget (all)"]);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}
