//! The actor of a finalizer: the controller that should remove it.

use loopwatch_model::model::Model;
use loopwatch_model::observation::{Manager, ObjectView, Observation, Owned};
use loopwatch_model::time::Span;

use super::deleted;
use crate::lab::{FINALIZER, Lab, kind, watch};

fn actor(lab: &mut Lab, finalizers: &[(&str, &str)]) -> String {
    let view = deleted(lab, "web", finalizers);
    lab.apply_view(view);
    lab.advance(Span::mins(16));
    lab.finding("FinalizerStuck").evidence.0["actor"].to_string()
}

#[test]
fn the_operator_is_the_actor_of_the_finalizers_of_its_domain() {
    for (finalizer, added_by, expected) in [
        (FINALIZER, "widget-operator", "field manager widget-operator (operator of example.io)"),
        (
            "db.example.io/cleanup",
            "kubectl",
            "field manager widget-operator (operator of example.io)",
        ),
        ("finalizer.example.io", "helm", "field manager widget-operator (operator of example.io)"),
        ("badexample.io/cleanup", "kubectl", "the controller of badexample.io"),
    ] {
        assert_eq!(actor(&mut Lab::new(), &[(finalizer, added_by)]), expected, "{finalizer}");
    }
}

#[test]
fn the_rows_of_objects_name_the_actors_before_anybody_deletes_them() {
    let mut lab = Lab::new();
    let mut view = deleted(
        &mut lab,
        "web",
        &[(FINALIZER, "widget-operator"), ("backup.other.com/snapshot", "backup-agent")],
    );

    view.deleted = None;
    lab.apply_view(view.clone());

    let before = lab.row("web").actors;
    let expected = [
        "field manager widget-operator (operator of example.io)",
        "field manager backup-agent (added it)",
    ];

    assert_eq!(before, expected);

    lab.version += 1;
    lab.apply_view(ObjectView { version: lab.version.to_string(), deleted: Some(lab.now), ..view });

    assert_eq!(lab.row("web").actors, before);
}

#[test]
fn the_controller_that_added_a_finalizer_is_its_actor_but_no_tool_of_a_person() {
    for (added_by, expected) in [
        ("backup-agent", "field manager backup-agent (added it)"),
        ("manager", "field manager manager of example.io (added it)"),
        ("kubectl-patch", "the controller of backup.other.com"),
        ("helm", "the controller of backup.other.com"),
        ("argocd-controller", "the controller of backup.other.com"),
        ("velero-server", "the controller of backup.other.com"),
        ("flux-system", "the controller of backup.other.com"),
    ] {
        let found = actor(&mut Lab::new(), &[("backup.other.com/snapshot", added_by)]);
        assert_eq!(found, expected, "{added_by}");
    }

    assert_eq!(actor(&mut Lab::new(), &[("keep", "kubectl")]), "unknown");
}

#[test]
fn the_controller_that_removed_a_finalizer_from_other_objects_is_its_actor() {
    let mut lab = Lab::new();
    for name in ["a", "b"] {
        let view = deleted(
            &mut lab,
            name,
            &[("backup.other.com/snapshot", "kubectl"), ("keep", "kubectl")],
        );

        lab.apply_view(view.clone());
        lab.advance(Span::secs(30));
        lab.version += 1;

        let mut removed = ObjectView { version: lab.version.to_string(), ..view };
        removed.finalizers.remove(0);
        removed.managers.remove(2);
        removed.managers.push(Manager {
            name: "backup-agent".into(),
            subresource: "status".into(),
            time: Some(lab.now),
            owns: Owned { status: true, ..Owned::default() },
            ..Manager::default()
        });

        lab.apply_view(removed.clone());
        lab.observe(Observation::Deleted {
            watch: watch(),
            key: removed.key,
            version: String::new(),
        });
    }

    let expected = "field manager backup-agent (removed it from other objects)";
    assert_eq!(actor(&mut lab, &[("backup.other.com/snapshot", "kubectl")]), expected);

    // A restart keeps this knowledge.
    let checkpoint = lab.model.checkpoint();
    let mut lab = Lab::unsynced(lab.model.settings().clone());
    lab.model = Model::new(lab.model.settings().clone());
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    lab.list(&[]);

    assert_eq!(actor(&mut lab, &[("backup.other.com/snapshot", "kubectl")]), expected);
}

#[test]
fn one_removal_may_be_chance() {
    let mut lab = Lab::new();
    let view =
        deleted(&mut lab, "a", &[("backup.other.com/snapshot", "kubectl"), ("keep", "kubectl")]);
    lab.apply_view(view.clone());
    lab.version += 1;

    let mut removed = ObjectView { version: lab.version.to_string(), ..view };
    removed.finalizers.remove(0);
    removed.managers[1].time = Some(lab.now);
    lab.apply_view(removed.clone());
    lab.observe(Observation::Deleted { watch: watch(), key: removed.key, version: String::new() });

    let found = actor(&mut lab, &[("backup.other.com/snapshot", "kubectl")]);
    assert_eq!(found, "the controller of backup.other.com");
}

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
        // The manifest contains the finalizer, as Argo CD's documentation recommends.
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

#[test]
fn the_foreign_finalizer_that_is_left_names_its_own_controller() {
    let mut lab = Lab::new();
    let mut app = lab.converged("app");
    app.finalizers =
        vec!["widgets.example.io/cleanup".into(), "snapshots.backup.example.com/keep".into()];
    app.deleted = Some(lab.now);

    let mut view = lab.view(&app);
    view.managers[1].finalizers = vec!["widgets.example.io/cleanup".into()];
    lab.apply_view(view);
    lab.advance(Span::mins(10));
    app.finalizers.remove(0);

    let mut view = lab.view(&app);
    view.managers[1].finalizers.clear();
    lab.apply_view(view);
    lab.advance(Span::mins(7));

    assert!(!lab.has("FinalizerStuck"));

    lab.advance(Span::mins(1));
    let evidence = lab.evidence();

    assert!(
        evidence.contains("actor the controller of snapshots.backup.example.com"),
        "{evidence}"
    );
    assert!(!evidence.contains("widget-operator"), "{evidence}");
}

#[test]
fn the_operator_is_the_actor_although_a_gitops_tool_owns_the_finalizer_too() {
    for tool in ["helm", "argocd-controller", "kustomize-controller", "Terraform", "kubectl-create"]
    {
        let mut lab = Lab::new();
        let mut app = lab.converged("app");
        app.finalizers = vec!["apps.example.io/cleanup".into()];
        app.deleted = Some(lab.now);

        let mut view = lab.view(&app);
        view.managers[0].name = tool.into();
        view.managers[0].finalizers.clone_from(&app.finalizers);
        lab.apply_view(view);
        lab.advance(Span::mins(15));

        assert!(
            lab.evidence().contains("actor field manager widget-operator"),
            "{tool}: {}",
            lab.evidence()
        );
    }
}

#[test]
fn a_person_who_once_edited_the_status_does_not_remove_finalizers() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("app");
    widget.finalizers = vec!["backup.example.com/snapshot".into()];
    widget.deleted = Some(lab.now);

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    view.managers[0].name = "kubectl-edit".into();
    view.managers[0].finalizers.clone_from(&widget.finalizers);
    view.managers.push(Manager {
        name: "kubectl-edit".into(),
        subresource: "status".into(),
        time: Some(lab.ago(Span::hours(50))),
        owns: Owned { status: true, ..Owned::default() },
        ..Manager::default()
    });

    lab.apply_view(view);
    lab.advance(Span::mins(16));

    assert!(!lab.evidence().contains("kubectl"), "{}", lab.evidence());
}
