//! Restarts of loopwatch: the same alerts as before, and what was learned is kept.

use loopwatch_model::model::Model;
use loopwatch_model::observation::ConditionStatus::{False, Unknown};
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, kind, other_kind, unlearned};

#[test]
fn a_restart_during_an_outage_of_the_api_server_keeps_the_start_of_open_findings() {
    let (lab, widget) = Lab::unacknowledged();
    let since = lab.since("Unacknowledged");
    let mut again = lab.restart();
    again.fail();
    again.advance(Span::mins(50));
    again.list(std::slice::from_ref(&widget));
    again.recover();
    again.advance(Span::mins(1));

    assert_eq!(again.since("Unacknowledged"), since);
    assert_eq!(again.outcomes(Outcome::Late), 0, "the earlier process has counted it");
}

#[test]
fn two_restarts_in_a_row_keep_what_was_learned() {
    let mut lab = Lab::with(Settings::default());
    let mut widget = lab.converged("a");
    for spec in 2..30 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(2));
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    lab.apply(widget.spec(99, lab.now));
    lab.advance(Span::mins(20));

    let checkpoint = lab.model.checkpoint();
    assert!(!checkpoint.learned.is_empty() && !checkpoint.findings.is_empty());

    let mut model = Model::new(Settings::default());
    model.apply(lab.now, Observation::Restored(Box::new(checkpoint.clone())));

    assert_eq!(model.checkpoint(), checkpoint, "stopped before the API server answered");
}

#[test]
fn a_restart_before_a_kind_is_discovered_keeps_what_was_learned_about_it() {
    let mut lab = Lab::unsynced(Settings::default());
    let gadget = other_kind("Gadget");
    lab.discover(&[kind(), gadget.clone()]);
    lab.list(&[]);
    lab.list_in(&gadget.watch, Vec::new());
    lab.converged("web");

    let mut other = Widget::new("spring", lab.now);
    let view = lab.view(other.ready());
    lab.apply_to(&gadget.watch, view);
    lab.advance(Span::mins(1));

    let view = lab.view(other.spec(2, lab.now));
    lab.apply_to(&gadget.watch, view);
    lab.advance(Span::mins(11));

    let checkpoint = lab.model.checkpoint();
    assert_eq!((checkpoint.learned.len(), checkpoint.findings.len()), (2, 1));

    // Discovers only the widgets; the definition of the gadgets is late.
    let mut again = lab.restart();
    again.advance(Span::mins(1));

    assert_eq!(again.model.checkpoint().learned, checkpoint.learned);
}

#[test]
fn a_restart_during_a_failure_of_the_kind_keeps_the_finding_and_its_start() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(3));

    for widget in &mut widgets[..3] {
        widget.changed = Some(lab.now);
        lab.apply(widget.failed("LicenseExpired"));
    }

    lab.advance(Span::mins(30));
    let since = lab.since("Failing");
    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Failing"), since);
    assert_eq!(again.roots(), ["Failing Widget (all)"]);
}

#[test]
fn a_spec_change_after_one_that_was_answered_meanwhile_has_its_full_deadline() {
    let (lab, mut web) = Lab::unacknowledged();
    let mut again = lab.restart();
    again.advance(Span::hours(1));
    web.ready();
    web.status_written = Some(again.ago(Span::mins(30)));
    web.spec(3, again.ago(Span::mins(1)));
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(2));
    again.assert_no_findings();
}

#[test]
fn an_object_that_was_created_anew_without_a_status_is_not_expected_to_get_one() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    lab.apply(&Widget::new("new-0", lab.now));
    lab.advance(Span::mins(20));

    assert!(lab.has("Unacknowledged"));

    let mut again = lab.restart();
    again.advance(Span::mins(5));

    let created = again.now;
    widgets.extend((0..5).map(|number| Widget::new(&format!("new-{number}"), created)));
    widgets.iter_mut().skip(2).for_each(|widget| widget.uid += 1);
    again.list(&widgets);
    again.advance(Span::hours(2));
    again.assert_no_findings();
}

#[test]
fn an_object_that_does_not_recover_keeps_its_finding_over_restarts_until_its_spec_changes() {
    let (mut lab, mut pg) = Lab::unrecovered();
    let back = pg.spec_written;
    for _ in 0..2 {
        lab = lab.restart();
        lab.list(std::slice::from_ref(&pg));
        lab.advance(Span::mins(1));

        assert_eq!(lab.findings(), ["NeverRecovered Widget team-a/pg"]);
        assert_eq!(lab.since("NeverRecovered"), back);
    }

    let mut again = lab.restart();
    again.advance(Span::hours(1));
    pg.spec(3, again.ago(Span::mins(30)));
    again.list(std::slice::from_ref(pg.failed("InvalidParameter")));
    again.advance(Span::hours(1));
    again.assert_no_findings();
}

#[test]
fn an_overdue_object_is_the_same_finding_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.observe().condition("Ready", Unknown, "Reconciling"));
    lab.advance(Span::mins(20));
    widget.changed = Some(lab.now);
    lab.apply(widget.observe().condition("Ready", False, "StillWaiting"));
    lab.advance(Span::mins(20));

    let before = lab.snapshot().findings.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>();
    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::mins(6));

    assert_eq!(
        again.snapshot().findings.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>(),
        before
    );
}

#[test]
fn a_failing_kind_without_transition_times_is_still_failing_after_a_restart() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(30));

    let since = lab.since("Failing");
    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert!(again.has("Failing"), "{:?} {:?}", again.findings(), again.kind().states());
    assert_eq!(again.since("Failing"), since);
}

#[test]
fn a_regression_without_transition_times_is_the_same_finding_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(30));

    let before = lab.finding("Regressed");
    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::mins(1));

    let after = again.snapshot().findings;
    assert_eq!(
        after.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>(),
        [(before.code, before.since)]
    );
}

#[test]
fn a_restart_keeps_findings_and_counts_nothing_twice() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c"].map(|name| lab.converged(name)).into();
    lab.apply(widgets[0].spec(2, lab.now)); // late before the restart
    lab.advance(Span::mins(11));
    lab.apply(widgets[1].spec(2, lab.now)); // late after the restart
    lab.advance(Span::mins(2));

    assert_eq!((lab.findings().len(), lab.outcomes(Outcome::Late)), (1, 1));

    let (before, checkpoint) = (lab.snapshot().findings[0].clone(), lab.model.checkpoint());

    let mut again = Lab::unsynced(unlearned());
    again.now = lab.now;
    again.observe(Observation::Restored(Box::new(checkpoint)));
    again.list(&widgets);

    assert_eq!(again.findings(), ["Unacknowledged Widget team-a/a"]);

    let after = again.snapshot().findings[0].clone();
    assert_eq!((after.id, after.since), (before.id, before.since), "the same alert as before");
    assert_eq!(again.outcomes(Outcome::Late), 0, "already counted");

    again.advance(Span::mins(8));
    assert_eq!((again.findings().len(), again.outcomes(Outcome::Late)), (2, 1));

    widgets.iter_mut().for_each(|widget| again.apply(widget.ready()));
    again.advance(Span::mins(1));
    again.assert_no_findings();

    assert_eq!(
        again.snapshot().kinds[0].totals.convergence.count(),
        0,
        "backfilled obligations stay out of histograms"
    );
}

#[test]
fn a_stuck_phase_has_the_same_start_after_a_restart() {
    let mut lab = Lab::new();
    let mut vm = lab.converged("vm");
    lab.apply(vm.spec(2, lab.now));
    lab.apply(vm.waiting().phase("Provisioning"));
    lab.advance(Span::hours(2));

    let entered = lab.now;
    lab.apply(vm.phase("Migrating"));
    lab.advance(Span::mins(40));

    assert_eq!(lab.since("PhaseStuck"), entered);

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&vm));
    again.advance(Span::mins(1));

    assert_eq!(again.since("PhaseStuck"), entered);
}

#[test]
fn a_dead_operator_stays_found_after_a_restart_although_most_objects_have_no_status_yet() {
    let mut lab = Lab::new();
    let mut widgets = lab.fleet(&["a", "b", "c"]);
    for number in 0..8 {
        let widget = Widget::new(&format!("new-{number}"), lab.now);
        lab.apply(&widget);
        widgets.push(widget);
    }

    lab.advance(Span::mins(20));
    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());

    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(1));

    assert!(again.has("Unacknowledged"), "the operator is still dead: {:?}", again.findings());
}

#[test]
fn a_rollout_after_a_restart_is_not_the_regression_that_was_mended_meanwhile() {
    let (lab, mut web) = Lab::regressed();
    let mut again = lab.restart();
    again.advance(Span::hours(5));
    web.spec(2, again.ago(Span::mins(3))).waiting();
    web.changed = Some(again.ago(Span::mins(2))); // so it had been ready until then
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(2));
    again.assert_no_findings();
}

#[test]
fn a_restart_in_a_rolling_update_opens_nothing() {
    let mut lab = Lab::new();
    let mut kafka = lab.converged("kafka");
    lab.advance(Span::hours(1));
    lab.apply(kafka.spec(2, lab.now));
    lab.roll(&mut kafka, 2, "Ready");

    let mut again = lab.restart();
    again.advance(Span::secs(20));
    again.list(std::slice::from_ref(&kafka));
    again.roll(&mut kafka, 3, "Ready");
    again.advance(Span::hours(1));

    assert!(again.object_changes().is_empty());
}

#[test]
fn an_object_that_did_not_recover_stays_found_after_a_restart() {
    let (lab, pg) = Lab::unrecovered();
    let mut again = lab.restart();
    again.list(std::slice::from_ref(&pg));
    again.advance(Span::hours(1));

    assert!(!again.findings().is_empty(), "still down, state {:?}", again.state("pg"));
}

#[test]
fn a_dead_operator_of_a_crashed_object_stays_critical_after_a_restart() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(web.failed("OutOfMemory"));
    lab.advance(Span::mins(20));
    lab.apply(web.spec(2, lab.now)); // a person gives it more memory, but the operator is dead, too
    lab.advance(Span::mins(15));

    assert!(lab.has("Unacknowledged"), "{:?}", lab.findings());

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&web));
    again.advance(Span::mins(30));

    assert!(again.has("Unacknowledged"), "{:?}", again.findings());
}

#[test]
fn a_dead_operator_behind_an_autoscaler_stays_critical_through_a_restart() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let first = lab.now;

    for spec in 2..8 {
        lab.apply(web.spec(spec, lab.now));
        lab.advance(Span::mins(5));
    }

    assert_eq!(lab.since("Unacknowledged"), first);

    let mut again = lab.restart();
    again.list(std::slice::from_ref(&web)); // its managed fields show only the last of the changes
    again.advance(Span::mins(1));

    assert!(again.has("Unacknowledged"), "half an hour without an answer: {:?}", again.findings());
    assert_eq!(again.since("Unacknowledged"), first);
}
