//! Deletions: a finalizer that nobody removes is found, whatever the status says meanwhile, and the
//! actor is the right one.

mod lab;

use lab::steps::{forbidden, namespaced};
use lab::{Lab, Widget, kind};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{Manager, Owned};
use loopwatch_model::time::Span;

/// Returns a widget that is being deleted since now and waits for a finalizer.
fn terminating(lab: &mut Lab, name: &str, finalizer: &str) -> Widget {
    let mut widget = lab.converged(name);
    widget.finalizers = vec![finalizer.into()];
    lab.apply(&widget);
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    widget
}

// What the status says meanwhile.

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
        let mut widget = terminating(&mut lab, "volume", "storage.example.com/detach");
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
    let mut widget = terminating(&mut lab, "dns", "dns.example.com/records");
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
    let mut widget = terminating(&mut lab, "cluster", "cluster.example.com/nodes");
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

    lab.advance(Span::mins(7));
    assert!(!lab.has("FinalizerStuck"));

    lab.advance(Span::secs(30));
    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/app"]);
    assert!(
        lab.evidence().contains("example.io/part-0") && !lab.evidence().contains("part-1"),
        "{}",
        lab.evidence()
    );
}

// Actors.

#[test]
fn the_client_of_a_person_is_never_the_actor_of_a_finalizer() {
    for client in [
        "kubectl-client-side-apply",
        "kubectl-edit",
        "helm",
        "kustomize-controller",
        "argocd-controller",
    ] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("app");
        widget.finalizers = vec!["resources-finalizer.argocd.argoproj.io".into()];
        widget.deleted = Some(lab.now);

        let mut view = lab.view(&widget);
        view.managers[1].finalizers.clear();
        // In the manifest, as Argo CD's documentation says.
        view.managers[0].finalizers.clone_from(&widget.finalizers);
        view.managers[0].name = client.into();
        lab.apply_view(view);
        lab.advance(Span::mins(16));

        assert!(lab.has("FinalizerStuck"));
        assert!(!lab.evidence().contains(client), "{}", lab.evidence());
    }
}

#[test]
fn the_actor_of_a_finalizer_is_the_controller_that_removes_it() {
    for (finalizer, actor) in [
        ("foregroundDeletion", "garbage collector"),
        ("kubernetes.io/pvc-protection", "kube-controller-manager"),
        ("batch.kubernetes.io/job-tracking", "Job controller"),
        ("velero.io/snapshots", "the controller of velero.io"),
    ] {
        let mut lab = Lab::new();
        let mut widget = lab.converged("app");
        widget.finalizers = vec![finalizer.into()];
        widget.deleted = Some(lab.now);

        let mut view = lab.view(&widget);
        view.managers[1].finalizers.clear(); // another controller has added it
        lab.apply_view(view);

        // The garbage collector waits for other objects, so it may take longer.
        lab.advance(Span::mins(if finalizer == "foregroundDeletion" { 61 } else { 16 }));
        assert!(lab.evidence().contains(actor), "{finalizer}: {}", lab.evidence());
        assert!(!lab.evidence().contains("widget-operator"), "{finalizer}: {}", lab.evidence());
    }
}

#[test]
fn two_finalizers_of_two_controllers_name_both_actors() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("app");
    widget.finalizers = vec!["example.io/cleanup".into(), "backup.example.com/snapshot".into()];
    widget.deleted = Some(lab.now);

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.pop();
    view.managers.push(Manager {
        name: "backup-agent".into(), // adds its finalizer and nothing else, as a controller does
        owns: Owned { finalizers: true, ..Owned::default() },
        finalizers: vec!["backup.example.com/snapshot".into()],
        ..Manager::default()
    });

    lab.apply_view(view);
    lab.advance(Span::mins(16));

    let evidence = lab.evidence();
    assert!(evidence.contains("field manager widget-operator"), "{evidence}");
    assert!(evidence.contains("field manager backup-agent"), "{evidence}");
}

// Counters.

#[test]
fn losing_the_permission_to_list_removes_no_finalizer() {
    let mut lab = Lab::new();
    let widget = terminating(&mut lab, "web", "example.io/f");
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
    let widget = terminating(&mut lab, "web", "example.io/f");
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
    terminating(&mut lab, "web", "example.io/f");
    lab.advance(Span::mins(20));
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::mins(20));
    lab.discover(&[kind()]);
    lab.list(&[]);
    lab.recover();

    lab.assert_no_findings();
    assert_eq!(lab.kind().finalizers["example.io/f"].waiting, [0; 5]);
}
