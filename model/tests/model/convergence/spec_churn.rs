//! Faults that something hides: spec changes that keep coming, and other writers.

use loopwatch_model::observation::ConditionStatus::False;
use loopwatch_model::observation::{Manager, Owned};
use loopwatch_model::snapshot::Outcome;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, scaled_by, spec_by};

#[test]
fn objects_that_fail_after_their_operator_changed_their_specs_are_found() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(5));

    for widget in &mut widgets {
        widget.spec(2, widget.spec_written);
        let mut view = lab.view(widget);
        // The operator's new version migrates all objects.
        view.managers.push(spec_by("widget-operator", lab.now));
        lab.apply_view(view);
        lab.apply(widget.failed("MigrationFailed"));
    }

    lab.advance(Span::hours(5));
    assert!(!lab.findings().is_empty(), "{:?}", lab.kind().states());
}

#[test]
fn a_crashed_object_stays_found_although_somebody_edits_its_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("db");
    lab.advance(Span::hours(1));
    lab.apply(widget.failed("DataCorrupt"));
    lab.advance(Span::mins(6));

    assert!(lab.has("Regressed"), "{:?}", lab.findings());

    lab.apply(widget.spec(2, lab.now)); // a person tries to help
    lab.apply(widget.failed("DataCorrupt"));
    lab.advance(Span::hours(24));

    assert!(!lab.findings().is_empty(), "down for a day, state {:?}", lab.state("db"));
}

#[test]
fn a_failing_kind_stays_found_although_a_pipeline_edits_all_specs() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    lab.advance(Span::hours(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed("LicenseExpired")));
    lab.advance(Span::mins(6));

    assert!(lab.has("Failing"), "{:?}", lab.findings());

    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.failed("LicenseExpired"));
    }

    lab.advance(Span::hours(24));
    assert!(!lab.findings().is_empty(), "all down for a day, {:?}", lab.kind().states());
}

#[test]
fn a_crashed_object_is_found_although_an_autoscaler_changes_its_spec_every_four_minutes() {
    // Not ready after crash; autoscaler changes spec every 4 minutes; operator acks
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.condition("Ready", False, "CrashLoop"));

    for spec in 2..50 {
        lab.advance(Span::mins(4));
        lab.apply(widget.spec(spec, lab.now));
        lab.apply(widget.observe().condition("Ready", False, "CrashLoop"));
    }

    assert!(!lab.findings().is_empty(), "{:?}", lab.state("web"));
}

#[test]
fn an_object_that_is_never_ready_is_found_although_an_autoscaler_changes_its_spec() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..100 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(1));
        lab.apply(widget.waiting());
        lab.advance(Span::mins(8));
    }

    assert!(!lab.findings().is_empty(), "not ready for 13 hours");
}

#[test]
fn a_second_writer_of_the_status_does_not_make_the_operator_a_user() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::secs(1));

    let mut open_minutes = 0;
    for spec in 3..183 {
        widget.spec(spec, widget.spec_written);
        widget.status_written = Some(lab.ago(Span::secs(20)));

        let mut view = lab.view(widget.waiting());
        view.managers.push(spec_by("widget-operator", lab.now));
        view.managers.push(Manager {
            name: "backup-agent".into(),
            subresource: "status".into(),
            time: Some(lab.ago(Span::secs(5))),
            owns: Owned { status: true, ..Owned::default() },
            ..Manager::default()
        });

        lab.apply_view(view);
        lab.advance(Span::mins(1));
        open_minutes += usize::from(!lab.findings().is_empty());
    }

    assert!(open_minutes > 160, "{open_minutes} of 180");
    assert_eq!(lab.outcomes(Outcome::Late), 1);
}

#[test]
fn lists_do_not_let_an_operator_extend_its_own_deadline() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::secs(1));

    let mut open = 0;
    for spec in 3..40 {
        widget.spec(spec, widget.spec_written);
        let mut view = lab.view(widget.waiting());
        view.managers.push(spec_by("widget-operator", lab.now));
        lab.fail();
        lab.advance(Span::secs(10));
        lab.list_views(vec![view]);
        lab.recover();
        lab.advance(Span::mins(5));
        open += usize::from(!lab.findings().is_empty());
    }

    assert!(open > 30, "{open} of 37");
}

#[test]
fn an_object_that_is_never_ready_is_found_although_its_operator_is_one_generation_behind() {
    let mut lab = Lab::new();
    let mut knative = lab.converged("revision");
    for spec in 2..80 {
        lab.apply(knative.spec(spec, lab.now)); // the autoscaler
        lab.advance(Span::mins(2));
        knative.observed = Some(knative.generation - 1); // the operator answers the change before
        lab.apply(knative.condition("Ready", False, "Progressing"));
        lab.advance(Span::mins(2));
    }

    assert!(
        !lab.findings().is_empty(),
        "not ready for five hours, state {:?}",
        lab.state("revision")
    );
}

#[test]
fn a_dead_operator_is_found_behind_an_autoscaler_outages_and_lists() {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    let first = lab.now;

    for round in 1..30 {
        web.spec(round + 1, web.spec_written);
        let mut view = lab.view(&web);
        view.managers.push(scaled_by("kube-controller-manager", lab.now));
        lab.apply_view(view.clone());
        lab.advance(Span::mins(1));
        lab.fail();
        lab.advance(Span::secs(20));

        if round % 3 == 0 {
            lab.list_views(vec![view]);
        }

        lab.recover();
        lab.advance(Span::secs(40));
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), first);
}

#[test]
fn an_operator_that_migrates_every_spec_and_then_dies_is_found() {
    let mut lab = Lab::new();
    let mut fleet = lab.fleet(&["a", "b", "c"]);
    let migrated = lab.now;

    for widget in &mut fleet {
        lab.write_spec_as_operator(widget, 2);
        lab.apply(widget.waiting());
    }

    lab.advance(Span::mins(30));
    assert_eq!(lab.findings().len(), 3, "{:?}", lab.findings());
    assert!(lab.snapshot().findings.iter().all(|finding| finding.since == migrated));
    assert_eq!(lab.outcomes(Outcome::Late), 0, "nobody asked for it");
}
