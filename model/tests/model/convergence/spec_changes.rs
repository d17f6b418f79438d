//! Spec changes: who made them, when, and what they oblige the operator to do.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::observation::{Manager, ObjectView};
use loopwatch_model::settings::FindingRule;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, ruled, scaled_by, spec_by, unlearned};

#[test]
fn a_dead_operator_is_found_although_an_autoscaler_changes_the_spec_every_eight_minutes() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..100 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::mins(8));
    }

    assert!(lab.has("Unacknowledged"), "13 hours without an acknowledgement: {:?}", lab.findings());
}

#[test]
fn a_dead_operator_is_found_ten_minutes_after_the_first_of_many_scalings() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let first = lab.now;

    for round in 1..=21 {
        let mut view = lab.view(&widget);
        view.generation = 1 + round;
        view.hashes.spec = 10 + round as u64;
        view.managers.push(scaled_by("keda-operator", lab.now));
        lab.apply_view(view);

        assert!(!lab.has("Unacknowledged"), "round {round}");

        lab.advance(Span::secs(29));
    }

    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(lab.since("Unacknowledged"), first);
    assert_eq!(lab.outcomes(Outcome::Late), 1, "the others have not had time to become late");

    let done = lab.view(widget.clone().ready());
    lab.apply_view(ObjectView { generation: 22, observed_generation: Some(22), ..done });
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (1, 19));
}

#[test]
fn an_operator_that_acknowledges_every_scaling_is_not_dead() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..60 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(Span::secs(100));
        lab.apply(widget.ready()); // converged for less than the settling time, then scaled again
        lab.advance(Span::secs(5));
    }

    lab.assert_no_findings();
}

#[test]
fn an_operator_that_is_always_one_generation_behind_is_alive() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in 2..40 {
        widget.ready();
        lab.apply(widget.spec(spec, lab.now)); // the status is about the spec before
        lab.advance(Span::mins(4));
        lab.apply(widget.touch_status());
        lab.advance(Span::mins(4));
    }

    assert!(!lab.has("Unacknowledged"), "{:?}", lab.findings());
}

#[test]
fn an_operator_that_writes_the_spec_cannot_extend_its_own_deadline() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    widget.status_written = Some(lab.now);
    lab.apply(widget.waiting());

    let mut open_minutes = 0;
    for spec in 3..183 {
        lab.advance(Span::mins(1));
        widget.spec(spec, lab.now);
        widget.status_written = Some(lab.now);

        let mut view = lab.view(widget.waiting());
        view.managers[0].name = "widget-operator".into();
        view.managers[0].time = Some(lab.now);
        lab.apply_view(view);
        open_minutes += usize::from(!lab.findings().is_empty());
    }

    assert!(open_minutes > 160, "a finding was open in {open_minutes} of 180 minutes");
    assert_eq!(lab.outcomes(Outcome::Late), 1);
}

#[test]
fn an_operator_that_counts_revisions_in_the_spec_is_overdue_once_and_stays_so() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let changed = lab.now;
    lab.apply(widget.spec(2, changed));
    lab.changes();
    lab.advance(Span::secs(1));

    for revision in 3..63 {
        lab.write_spec_as_operator(&mut widget, revision);
        lab.apply(widget.waiting());
        lab.advance(Span::secs(30));
    }

    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.since("Overdue"), changed);
    assert_eq!(lab.changes(), ["Opened Overdue Widget team-a/web"], "open without a gap");
    assert_eq!((lab.outcomes(Outcome::Late), lab.outcomes(Outcome::Superseded)), (1, 0));
}

#[test]
fn a_user_edit_between_writes_of_the_operator_has_a_deadline_of_its_own() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for spec in [2, 3] {
        let changed = lab.now;
        lab.apply(widget.spec(spec * 100, changed));
        lab.advance(Span::secs(1));

        for revision in 1..25 {
            lab.write_spec_as_operator(&mut widget, spec * 100 + revision);
            lab.apply(widget.waiting());

            let due = lab.now >= changed.after(Span::mins(10));
            assert_eq!(lab.has("Overdue"), due, "{} after the edit", lab.now.since(changed));

            lab.advance(Span::secs(30));
        }

        assert_eq!(lab.since("Overdue"), changed);

        lab.apply(widget.ready());
        lab.advance(Span::mins(5));
    }

    assert_eq!(lab.outcomes(Outcome::Late), 2);
}

#[test]
fn spec_writes_of_the_operator_are_no_obligations() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let before = lab.outcomes(Outcome::Converged);

    for spec in 2..50 {
        widget.spec(spec, lab.now);
        widget.status_written = Some(lab.now);

        let mut view = lab.view(widget.ready());
        view.managers[0].name = "widget-operator".into();
        lab.apply_view(view);
        lab.advance(Span::mins(5));
    }

    assert_eq!(lab.outcomes(Outcome::Converged), before, "nobody asked for anything");
}

#[test]
fn late_initialization_of_the_spec_counts_neither_as_superseded_nor_as_converged() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("bucket", lab.now);
    lab.apply(&widget);
    lab.advance(Span::secs(2));
    lab.apply(widget.waiting());
    lab.write_spec_as_operator(&mut widget, 2); // fills in defaults of the cloud provider
    lab.advance(Span::secs(2));
    lab.apply(widget.ready());

    lab.write_spec_as_operator(&mut widget, 3);
    lab.apply(widget.ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!((lab.outcomes(Outcome::Converged), lab.outcomes(Outcome::Superseded)), (1, 0));
    assert_eq!(lab.kind().totals.convergence.count(), 1);
}

#[test]
fn an_operator_that_dies_after_its_own_spec_write_is_found() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.write_spec_as_operator(&mut widget, 2); // and never reports that generation
    lab.advance(Span::mins(11));

    assert_eq!(lab.findings().len(), 1, "{:?}", lab.findings());
    assert_eq!(lab.outcomes(Outcome::Late), 0, "nobody asked for it");
}

#[test]
fn objects_without_a_status_have_no_obligations_if_their_kind_has_none() {
    let mut lab = Lab::new();
    for number in 0..10 {
        let widget = Widget::new(&format!("config-{number}"), lab.now);
        lab.apply(&widget);
        lab.advance(Span::mins(1));
        lab.delete(&widget);
    }

    assert_eq!(lab.kind().namespaces["team-a"].obligations, [0; 7]);
}

#[test]
fn a_finished_run_does_not_have_to_acknowledge_a_spec_change() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("run", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", ConditionStatus::True, "Done"));
    lab.advance(Span::hours(1));

    assert_eq!(lab.state("run"), ObjectState::Finished);

    lab.apply(widget.spec(2, lab.now)); // a time to live, or a label that a controller adds
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn a_finished_run_that_runs_again_has_the_deadline_of_a_new_run() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("backup", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", ConditionStatus::True, "BackupCompleted"));
    lab.advance(Span::hours(20));

    let again = lab.now;
    lab.apply(widget.observe().condition("Complete", ConditionStatus::False, "BackupRunning"));
    lab.advance(Span::mins(9));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert!(lab.has("Overdue"), "{:?}", lab.findings());
    assert_eq!(lab.since("Overdue"), again);

    lab.apply(widget.condition("Complete", ConditionStatus::True, "BackupCompleted"));
    lab.advance(Span::mins(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("backup"), ObjectState::Finished);
    assert_eq!(lab.outcomes(Outcome::Late), 0, "no person asked for the second run");
}

#[test]
fn a_run_that_a_schedule_starts_every_hour_opens_no_findings() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("scan", lab.now);
    lab.apply(&widget);
    lab.changes();

    for _ in 0..48 {
        lab.apply(widget.observe().condition("Complete", ConditionStatus::False, "Scanning"));
        lab.advance(Span::mins(6));
        lab.apply(widget.condition("Complete", ConditionStatus::True, "ScanDone"));
        lab.advance(Span::mins(54));
    }

    assert!(lab.changes().is_empty());
}

#[test]
fn an_object_that_was_scaled_just_before_loopwatch_started_is_within_its_deadline() {
    for (name, subresource) in
        [("kube-controller-manager", "scale"), ("kubectl", "scale"), ("kubectl", "resize")]
    {
        let mut lab = Lab::unsynced(unlearned());
        let created = lab.ago(Span::hours(24 * 300));
        let mut widget = Widget::new("web", created);
        widget.ready();
        widget.status_written = Some(lab.ago(Span::hours(48)));
        widget.spec(2, created);

        let scaled = lab.ago(Span::secs(10));
        let mut view = lab.view(&widget);
        view.managers.push(Manager { subresource: subresource.into(), ..spec_by(name, scaled) });
        lab.list_views(vec![view]);
        lab.assert_no_findings();
        lab.advance(Span::mins(10));

        assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"], "{name} {subresource}");
        assert_eq!(lab.since("Unacknowledged"), scaled);
    }
}

#[test]
fn a_dump_without_managed_fields_does_not_show_when_the_spec_was_written() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("web", lab.ago(Span::hours(24 * 300)));
    widget.generation = 41;
    widget.ready();
    widget.spec(2, lab.now);

    let mut view = lab.view(&widget);
    view.managers.clear(); // `kubectl get -o yaml` leaves them out
    lab.list_views(vec![view]);
    lab.assert_no_findings();
}

#[test]
fn nothing_is_critical_in_a_dump_without_managed_fields() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, lost) = (lab.ago(Span::hours(24 * 30)), lab.ago(Span::hours(30)));
    let mut views = Vec::new();

    for number in 0..9 {
        let mut widget = Widget::new(&format!("db-{number}"), old);
        widget.ready();
        widget.changed = Some(lost);

        match number {
            0..6 => drop(widget.failed("KeyRevoked")),
            6 => widget.observed = None,
            7 => drop(widget.spec(2, old)),
            _ => drop(widget.waiting()),
        }

        let mut view = lab.view(&widget);
        if number == 8 {
            (view.status, view.conditions) = (Default::default(), Vec::new());
        }

        view.managers.clear();
        views.push(view);
    }

    lab.list_views(views);
    lab.advance(Span::hours(1));

    let findings = lab.snapshot().findings;
    assert!(lab.has("Failing") && lab.has("Unacknowledged"), "{:?}", lab.findings());
    assert!(findings.iter().all(|finding| finding.severity != Severity::Critical), "{findings:#?}");
}

#[test]
fn no_rule_makes_a_finding_critical_that_has_no_managed_fields() {
    let rule_of = FindingRule { severity: Some(Severity::Critical), ..FindingRule::default() };
    let mut lab = Lab::unsynced(ruled("all", rule_of));
    let (old, lost) = (lab.ago(Span::hours(700)), lab.ago(Span::hours(30)));
    let views = (0..6).map(|number| {
        let mut widget = Widget::new(&format!("w{number}"), old);
        widget.failed("BackendGone").changed = Some(lost);

        let mut view = lab.view(&widget);
        view.managers.clear();
        view
    });

    let views = views.collect();
    lab.list_views(views);
    lab.advance(Span::mins(1));

    let findings = lab.snapshot().findings;
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|finding| finding.severity != Severity::Critical), "{findings:#?}");
}

#[test]
fn an_object_scaled_by_keda_a_minute_before_the_start_is_not_unacknowledged() {
    let mut lab = Lab::unsynced(unlearned());
    let created = lab.ago(Span::hours(24 * 200));
    let mut web = Widget::new("web", created);
    web.ready();
    web.spec(9, lab.ago(Span::hours(24)));

    let mut view = lab.view(&web);
    view.managers.push(scaled_by("keda", lab.ago(Span::mins(1))));
    lab.list_views(vec![view]);
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
    lab.advance(Span::mins(2));

    assert!(lab.has("Unacknowledged"));
}
