//! Blindness: while a watch cannot see, no finding about its objects opens or closes, and nothing
//! is missed afterwards.

use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, namespaced, unlearned, watch};

#[test]
fn a_deadline_that_passes_while_the_watch_is_blind_is_found_when_sight_returns() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(7));
    // Afterwards the watch goes on from the known version: no list, and nothing changed.
    lab.blind_for(Span::mins(5));
    lab.advance(Span::hours(24));

    assert_eq!(
        lab.findings(),
        ["Unacknowledged Widget team-a/web"],
        "the operator has been dead for a day"
    );
}

#[test]
fn a_list_of_unchanged_versions_after_blindness_hides_no_missed_deadline() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let view = lab.view(widget.spec(2, lab.now));
    lab.apply_view(view.clone());
    lab.advance(Span::mins(7));
    lab.blind_for(Span::mins(5));
    lab.list_views(vec![view]);
    lab.advance(Span::hours(24));

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}

#[test]
fn a_finding_that_is_open_survives_blindness_in_which_a_timer_fires() {
    let deadlines = [("example.io/Widget".to_owned(), Span::mins(10))].into();
    let mut lab = Lab::with(Settings { deadlines, ..unlearned() });
    let mut widget = lab.converged("web");
    lab.apply(widget.waiting());
    lab.apply(widget.phase("Failing over").condition("Synced", ConditionStatus::True, "x"));
    // This transition leaves its window while the watch is blind.
    lab.apply(widget.condition("Synced", ConditionStatus::False, "x"));
    lab.advance(Span::mins(20));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());

    lab.changes();
    lab.fail();
    lab.advance(Span::mins(15));

    let changes: Vec<String> =
        lab.changes().into_iter().filter(|change| !change.contains("Source")).collect();

    assert!(changes.is_empty(), "{changes:?}");

    lab.recover();
    lab.advance(Span::hours(5));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());
}

#[test]
fn a_finalizer_is_not_found_stuck_while_the_watch_is_blind() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.advance(Span::mins(1));
    lab.fail();
    lab.advance(Span::mins(20));

    assert!(!lab.has("FinalizerStuck"), "{:?}", lab.findings());

    lab.recover();
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.findings(),
        ["FinalizerStuck Widget team-a/web"],
        "nobody has removed it meanwhile"
    );
    assert_eq!(Some(lab.since("FinalizerStuck")), widget.deleted);
}

#[test]
fn a_connection_that_breaks_every_half_minute_does_not_hide_a_dead_operator() {
    for list in [false, true] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        let changed = lab.now;
        let view = lab.view(widget.spec(2, changed));

        lab.apply_view(view.clone());
        for _ in 0..120 {
            lab.blind_for(Span::secs(20));
            if list {
                lab.list_views(vec![view.clone()]);
            }

            lab.advance(Span::secs(10));
        }

        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "with lists: {list}");
        assert_eq!(lab.since("Unacknowledged"), changed);
        assert_eq!(lab.outcomes(Outcome::Late) + lab.outcomes(Outcome::Unknown), 1, "counted once");
    }
}

#[test]
fn a_connection_that_breaks_again_and_again_hides_no_other_problem_either() {
    for (blind, clear) in [(20, 10), (50, 10), (5, 2), (110, 9)] {
        let mut lab = Lab::new();
        let mut widgets: Vec<Widget> =
            ["a", "b", "c", "d", "e"].map(|name| lab.converged(name)).into();
        for widget in &mut widgets[..3] {
            lab.apply(widget.failed("VolumeLost"));
        }

        lab.apply(widgets[3].waiting().phase("Repairing"));
        widgets[4].finalizers = vec!["example.io/cleanup".into()];
        widgets[4].deleted = Some(lab.now);
        lab.apply(&widgets[4]);

        for _ in 0..3600 / (blind + clear) {
            lab.blind_for(Span::secs(blind));
            lab.advance(Span::secs(clear));
        }

        for code in ["Failing", "Regressed", "FinalizerStuck", "PhaseStuck"] {
            assert!(
                lab.has(code),
                "{blind} s blind, {clear} s not: no {code} in {:?}",
                lab.findings()
            );
        }
    }
}

#[test]
fn an_open_finding_stays_open_through_many_gaps_without_events() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));

    let before = lab.snapshot().findings;
    assert_eq!(lab.changes(), ["Opened Overdue Widget team-a/web"]);

    for seconds in [1, 30, 90, 100, 3, 60] {
        lab.blind_for(Span::secs(seconds));
        lab.advance(Span::secs(seconds));

        assert_eq!(lab.snapshot().findings[0].id, before[0].id, "a gap of {seconds} s");
    }

    lab.fail();
    lab.advance(Span::hours(2));

    assert!(lab.has("Overdue"), "{:?}", lab.findings());

    lab.list(std::slice::from_ref(&widget));
    lab.recover();
    lab.advance(Span::hours(1));

    assert_eq!(
        (lab.snapshot().findings[0].id, lab.snapshot().findings[0].since),
        (before[0].id, before[0].since)
    );

    let changes = lab.changes();
    assert!(!changes.iter().any(|change| change.contains("Overdue")), "{changes:?}");
}

#[test]
fn a_list_that_takes_long_neither_hides_nor_closes_anything() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["late", "soon", "well"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[0].spec(2, lab.now));
    lab.advance(Span::mins(11));

    let changed = lab.now;
    lab.apply(widgets[1].spec(2, changed));
    lab.changes();
    lab.begin_list(&watch());

    for widget in &widgets {
        lab.advance(Span::mins(8)); // a page of 500 other objects
        let view = lab.view(widget);
        lab.listed(&watch(), view);
    }

    assert!(lab.changes().is_empty(), "no page of the list says more than the one before");

    lab.end_list(&watch());
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/late"], "the grace has begun");

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings().len(), 2, "{:?}", lab.findings());
    assert!(lab.snapshot().findings.iter().any(|finding| finding.since == changed));
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 1));
}

#[test]
fn the_grace_after_blindness_is_as_long_as_the_blindness_and_at_most_a_minute() {
    for (blind, grace) in [(Span::secs(20), Span::secs(20)), (Span::mins(3), Span::mins(1))] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("web");
        lab.apply(widget.spec(2, lab.now));
        lab.advance(Span(Span::mins(10).0 - blind.0 / 2));
        lab.blind_for(blind);
        lab.advance(Span(grace.0 - 1000));

        assert!(
            !lab.has("Unacknowledged"),
            "blind for {blind}: the operator has just got its connection back"
        );

        lab.advance(Span::secs(1));
        assert!(lab.has("Unacknowledged"), "blind for {blind}");
    }
}

#[test]
fn an_operator_that_catches_up_within_the_grace_opens_no_finding() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(8));
    lab.changes();
    lab.blind_for(Span::secs(100));
    lab.advance(Span::secs(40));
    lab.apply(widget.ready());

    lab.advance(Span::hours(1));
    assert!(lab.changes().is_empty());
}

#[test]
fn a_failing_watch_of_another_namespace_delays_nothing() {
    let (mine, theirs) = (namespaced("team-a"), namespaced("team-b"));
    let mut lab = Lab::unsynced(unlearned());
    lab.discover(&[mine.clone(), theirs.clone()]);

    let mut widget = Widget::new("web", lab.now);
    let view = lab.view(widget.ready());
    lab.list_in(&mine.watch, vec![view]);
    lab.list_in(&theirs.watch, Vec::new());
    lab.advance(Span::mins(1));
    lab.fail_watch(&theirs.watch);

    let view = lab.view(widget.spec(2, lab.now));
    lab.apply_to(&mine.watch, view);
    lab.advance(Span::mins(10));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert_eq!(lab.state("web"), ObjectState::Overdue);
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Unknown)), (1, 0));
}

#[test]
fn an_object_that_vanishes_while_the_watch_is_blind_takes_its_findings_along() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));
    lab.blind_for(Span::mins(5));
    lab.list(&[]);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(
        (lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Deleted)),
        (1, 0),
        "late already"
    );
}

#[test]
fn a_watch_that_is_listed_again_and_again_hides_no_dead_operator_behind_an_autoscaler() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let first = lab.now;

    for spec in 2..40 {
        widget.spec(spec, lab.now);
        lab.fail();
        lab.advance(Span::secs(10));
        lab.list(std::slice::from_ref(&widget));
        lab.recover();
        lab.advance(Span::mins(5));
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), first);
}

#[test]
fn events_between_short_gaps_do_not_delay_a_regression() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));

    let lost = lab.now;
    lab.apply(widget.waiting());
    for _ in 0..40 {
        lab.blind_for(Span::secs(25));
        lab.apply(widget.touch_status());
        lab.advance(Span::secs(5));
    }

    assert_eq!(lab.since("Regressed"), lost);
}

#[test]
fn a_change_that_came_and_converged_unseen_opens_nothing_and_is_not_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.changes();
    lab.fail();
    lab.advance(Span::mins(30));
    widget.spec(2, lab.ago(Span::mins(25)));
    widget.status_written = Some(lab.ago(Span::mins(24)));
    lab.list(std::slice::from_ref(widget.ready()));

    lab.recover();
    lab.advance(Span::mins(5));

    let changes = lab.changes();
    assert!(changes.iter().all(|change| change.contains("Source")), "{changes:?}");
    assert_eq!(lab.outcomes(Outcome::Late), 0);
}
