//! Deletions: loopwatch finds a finalizer that nobody removes, whatever the status says in the
//! meantime.

use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, forbidden, kind, namespaced};

#[test]
fn a_finalizer_that_stays_is_stuck_and_the_evidence_names_the_actor() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    assert_eq!(lab.state("web"), ObjectState::Terminating);

    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::mins(10));

    assert_eq!(lab.findings(), ["CleanupSlow Widget team-a/web"], "information only");

    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
    assert!(lab.evidence().contains("field manager widget-operator"), "{}", lab.evidence());

    let kind = &lab.snapshot().kinds[0];
    assert_eq!(kind.finalizers["example.io/cleanup"].waiting, [0, 1, 0, 0, 0]);

    lab.delete(&widget);
    lab.assert_no_findings();

    let kind = &lab.snapshot().kinds[0];
    assert_eq!(
        kind.finalizers["example.io/cleanup"].totals.outcomes,
        [0, 1, 1, 0, 0],
        "timed out, and removed late"
    );
}

#[test]
fn a_deletion_whose_finalizers_disappear_one_by_one_is_not_stuck() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = (0..10).map(|i| format!("example.io/part-{i}")).collect();
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    while widget.finalizers.pop().is_some() {
        lab.advance(Span::mins(6));
        lab.apply(&widget);

        assert!(!lab.has("FinalizerStuck"), "{:?}", lab.findings());
    }

    lab.assert_no_findings();
}

#[test]
fn an_error_text_that_differs_with_every_attempt_does_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("bucket");
    widget.finalizers = vec!["finalizer.managedresource.crossplane.io".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    for _ in 0..24 * 60 / 5 {
        lab.advance(Span::mins(5));
        lab.apply(widget.touch_status()); // "AccessDenied ... RequestID: 8f1c…" differs every time
    }

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/bucket"], "terminating for a day");
}

#[test]
fn conditions_and_phases_that_flip_for_a_day_do_not_hide_a_stuck_finalizer() {
    for every in [Span::secs(90), Span::mins(7)] {
        let mut lab = Lab::new();
        let mut widget = lab.terminating("volume", &["storage.example.com/detach"]);
        let begun = lab.now;
        let mut round = 0;

        while lab.now.since(begun) < Span::hours(24) {
            round += 1;
            let (status, phase) =
                if round % 2 == 0 { (True, "Detaching") } else { (False, "DetachFailed") };
            lab.apply(widget.condition("Detached", status, "Retrying").phase(phase));
            lab.advance(every);
        }

        assert_eq!(
            lab.findings(),
            ["FinalizerStuck Widget team-a/volume"],
            "a change every {every}"
        );
        assert_eq!(lab.since("FinalizerStuck"), begun);
    }
}

#[test]
fn a_stuck_finalizer_stays_found_while_the_status_keeps_changing() {
    let mut lab = Lab::new();
    let mut widget = lab.terminating("dns", &["dns.example.com/records"]);
    lab.advance(Span::mins(61));

    assert!(lab.has("FinalizerStuck"));

    lab.changes();
    for _ in 0..200 {
        lab.apply(widget.touch_status());
        lab.advance(Span::secs(30));
    }

    assert!(lab.changes().is_empty(), "neither closed nor opened again");
}

#[test]
fn a_cleanup_that_reports_new_steps_for_an_hour_is_not_stuck() {
    let mut lab = Lab::new();
    let mut widget = lab.terminating("cluster", &["cluster.example.com/nodes"]);
    for step in 0..12 {
        lab.advance(Span::mins(5));
        lab.apply(widget.phase(&format!("Draining node {step}")));

        assert!(!lab.has("FinalizerStuck"), "step {step}");
    }

    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn the_last_of_many_finalizers_is_found_stuck_when_the_others_are_gone() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("app");
    widget.finalizers = (0..4).map(|part| format!("example.io/part-{part}")).collect();
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    while widget.finalizers.len() > 1 {
        lab.advance(Span::mins(6));
        widget.finalizers.pop();
        lab.apply(&widget);
    }

    lab.advance(Span::mins(14));
    assert!(!lab.has("FinalizerStuck"), "each one that goes begins the time anew");

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/app"]);
    assert!(
        lab.evidence().contains("example.io/part-0") && !lab.evidence().contains("part-1"),
        "{}",
        lab.evidence()
    );
}

#[test]
fn losing_the_permission_to_list_removes_no_finalizer() {
    let mut lab = Lab::new();
    let widget = lab.terminating("web", &["example.io/f"]);
    lab.advance(Span::mins(20));
    lab.discover(&[forbidden(kind())]);
    lab.discover(&[kind()]);
    lab.list(&[widget]);

    let totals = lab.kind().finalizers["example.io/f"].totals.clone();
    assert_eq!(
        (totals.outcomes, totals.removal.count()),
        ([0, 0, 1, 0, 0], 0),
        "timed out once, but nobody has removed it"
    );

    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
}

#[test]
fn a_change_of_scope_removes_no_finalizer_and_its_removal_counts_once() {
    let mut lab = Lab::new();
    let widget = lab.terminating("web", &["example.io/f"]);
    lab.advance(Span::mins(4));

    let narrow = namespaced("team-a");
    lab.discover(std::slice::from_ref(&narrow));

    let view = lab.view(&widget);
    lab.list_in(&narrow.watch, vec![view]);

    assert_eq!(lab.kind().finalizers["example.io/f"].totals.outcomes, [0; 5]);
    assert_eq!(lab.kind().finalizers["example.io/f"].waiting, [1, 0, 0, 0, 0]);

    lab.list_in(&narrow.watch, Vec::new());
    assert_eq!(lab.kind().finalizers["example.io/f"].totals.outcomes, [1, 0, 0, 0, 0]);

    lab.discover(&[kind()]);
    lab.list(&[]);

    assert_eq!(lab.kind().finalizers["example.io/f"].totals.outcomes, [1, 0, 0, 0, 0]);
}

#[test]
fn a_deletion_that_ends_while_the_permission_is_missing_waits_for_nothing() {
    let mut lab = Lab::new();
    lab.terminating("web", &["example.io/f"]);
    lab.advance(Span::mins(20));
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::mins(20));
    lab.discover(&[kind()]);
    lab.list(&[]);
    lab.recover();

    lab.assert_no_findings();
    assert_eq!(lab.kind().finalizers["example.io/f"].waiting, [0; 5]);
}

#[test]
fn an_error_text_in_the_phase_that_differs_with_every_attempt_does_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    let mut volume = lab.terminating("volume", &["ebs.services.k8s.aws/finalizer"]);
    for attempt in 0..24 {
        lab.apply(volume.phase(&format!("Failed to delete: VolumeInUse, attempt {attempt}")));
        lab.advance(Span::mins(5));
    }

    assert_eq!(
        lab.findings(),
        ["FinalizerStuck Widget team-a/volume"],
        "two hours of the same error"
    );
}

#[test]
fn a_cluster_api_cleanup_that_drains_forty_nodes_one_by_one_is_not_stuck() {
    let mut lab = Lab::new();
    let mut cluster = lab.terminating("prod", &["cluster.cluster.x-k8s.io"]);
    for node in 0..40 {
        lab.apply(cluster.phase(&format!("Draining node {node}")));
        lab.advance(Span::mins(5));

        assert!(!lab.has("FinalizerStuck"), "node {node}");
    }

    lab.delete(&cluster);
    lab.assert_no_findings();
}

#[test]
fn an_object_that_is_created_anew_and_stuck_again_is_stuck_since_its_own_deletion() {
    let mut lab = Lab::new();
    let first = lab.terminating("claim", &["claim.example.io/protect"]);
    lab.advance(Span::hours(20));

    assert!(lab.has("FinalizerStuck"));

    let mut again = lab.restart();
    again.advance(Span::mins(1));

    let mut anew = Widget::new("claim", again.ago(Span::secs(30)));
    anew.uid += 1;
    again.list(&[anew.ready().clone()]);
    again.advance(Span::hours(5));
    anew.finalizers.clone_from(&first.finalizers);
    anew.deleted = Some(again.now);
    again.apply(&anew);
    again.advance(Span::mins(16));

    assert_eq!(Some(again.since("FinalizerStuck")), anew.deleted);
}

#[test]
fn phases_that_only_repeat_do_not_hide_a_stuck_finalizer() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("v");
    widget.finalizers = vec!["example.io/f".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    for _ in 0..24 {
        lab.apply(widget.phase("Deleting"));
        lab.advance(Span::mins(5));
        lab.apply(widget.phase("DeleteFailed"));
        lab.advance(Span::mins(5));
    }

    assert!(lab.has("FinalizerStuck"), "four hours");
}
