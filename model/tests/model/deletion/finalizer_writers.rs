//! How real operators and other tools add, share and remove finalizers.

use loopwatch_model::time::Span;

use crate::lab::{
    FINALIZER, GROUP, World, at, child, finalizers_by, primary, ready, spec_by, status_by, web,
};

#[test]
fn a_backup_operator_that_cleans_up_at_the_same_time_as_the_owner_writes_its_status_keeps_its_finalizer()
 {
    let mut world = World::new();
    let backup = "backup.other.com/snapshot";
    for name in ["old-1", "old-2", "old-3"] {
        let old = at(GROUP, "Widget", "team-a", name);
        world.healthy(&old, "widget-operator", &[FINALIZER]);
        world.put(&old, |view, now| {
            view.finalizers.push(backup.into());
            view.managers.push(finalizers_by("backup-agent", now, &[backup]));
        });
        world.advance(Span::mins(1));
        world.put(&old, |view, now| view.deleted = Some(now));

        // The operator says "Deleting"; within the same second the backup agent removes its
        // finalizer.
        world.put(&old, |view, now| {
            view.managers.retain(|m| m.subresource != "status");
            view.managers.push(status_by("widget-operator", now));
            view.hashes.settled += 1;
        });
        world.advance(Span(500));
        world.put(&old, |view, _| {
            view.finalizers.retain(|f| f != backup);
            view.managers.retain(|m| m.name != "backup-agent");
        });

        world.advance(Span::secs(5));
        world.remove(&old);
    }

    world.healthy(&web(), "widget-operator", &[]);
    world.put(&web(), |view, now| {
        view.finalizers = vec![backup.into()];
        view.managers.push(finalizers_by("backup-agent", now, &[backup]));
    });
    world.delete(&web());
    world.advance(Span::mins(16));

    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();
    assert!(!actor.contains("widget-operator"), "{actor}");
}

#[test]
fn an_operator_upgrade_that_renames_manager_and_finalizer_loses_nothing() {
    let mut world = World::new();
    for n in 0..5 {
        world.healthy(
            &at(GROUP, "Widget", "team-a", &format!("w{n}")),
            "manager",
            &["widget.example.io/finalizer"],
        );
    }

    world.advance(Span::mins(5));
    for n in 0..5 {
        // The new version migrates the finalizer before it writes any status.
        world.put(&at(GROUP, "Widget", "team-a", &format!("w{n}")), |view, now| {
            view.finalizers = vec!["example.io/widget-protection".into()];
            view.managers.retain(|m| m.finalizers.is_empty());
            view.managers.push(finalizers_by(
                "widget-operator",
                now,
                &["example.io/widget-protection"],
            ));
        });
        world.advance(Span::secs(1));
    }

    world.advance(Span::mins(5));
    world.lab.assert_no_findings();
}

#[test]
fn two_operators_that_are_both_called_manager_overwrite_each_others_finalizers() {
    let mut world = World::new();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.advance(Span::mins(5));

    // The second one updates an old copy, and the first one repairs that.
    world.put(&web(), |view, now| {
        view.finalizers = vec!["backup.other.com/snapshot".into()];
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by("manager", now, &["backup.other.com/snapshot"]));
    });
    world.advance(Span::secs(2));
    world.put(&web(), |view, now| {
        view.finalizers.push(FINALIZER.into());
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by(
            "manager",
            now,
            &["backup.other.com/snapshot", FINALIZER],
        ));
    });

    world.advance(Span::secs(2));
    assert_eq!(world.lab.findings(), ["FinalizerLost Widget team-a/web"]);
}

#[test]
fn an_operator_that_swaps_its_own_finalizers_by_feature_loses_nothing() {
    let mut world = World::new();
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.advance(Span::mins(5));

    for finalizer in ["example.io/backup", FINALIZER] {
        world.put(&web(), |view, now| {
            view.finalizers = vec![finalizer.into()];
            view.managers.retain(|m| m.finalizers.is_empty());
            view.managers.push(finalizers_by("manager", now, &[finalizer]));
        });
        world.advance(Span::mins(10));
    }

    world.lab.assert_no_findings();
}

#[test]
fn the_service_controller_lets_go_of_a_load_balancer_when_the_type_changes() {
    let mut world = World::of(&[primary(GROUP, "Widget"), child("", "Service")]);
    world.healthy(&web(), "widget-operator", &[]);

    let service = at("", "Service", "team-a", "web");
    world.owned(&service, &web());

    let finalizer = "service.kubernetes.io/load-balancer-cleanup";
    world.put(&service, |view, now| {
        view.finalizers = vec![finalizer.into()];
        view.managers.push(finalizers_by("cloud-controller-manager", now, &[finalizer]));
    });
    world.advance(Span::mins(5));
    world.put(&service, |view, now| {
        view.hashes.spec = 2;
        view.managers[0].time = Some(now);
    });

    world.put(&service, |view, _| {
        view.finalizers.clear();
        view.managers.truncate(1);
    });
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn a_job_controller_lets_go_of_finished_pods_without_deletion() {
    let mut world = World::of(&[primary(GROUP, "Widget"), child("", "Pod")]);
    world.healthy(&web(), "widget-operator", &[]);

    let pod = at("", "Pod", "team-a", "web-1");
    world.owned(&pod, &web());

    let finalizer = "batch.kubernetes.io/job-tracking";
    world.put(&pod, |view, _| view.finalizers = vec![finalizer.into()]);
    world.put(&pod, |view, now| {
        view.finalizers.clear();
        view.managers.push(status_by("kube-controller-manager", now));
    });
    world.advance(Span::mins(30));
    world.lab.assert_no_findings();
}

#[test]
fn argo_cd_prunes_an_application_whose_finalizer_a_person_removes_in_the_ui() {
    let app = at("argoproj.io", "Application", "argocd", "shop");
    let mut world = World::of(&[primary("argoproj.io", "Application")]);
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    world.put(&app, |view, _| {
        view.finalizers = vec![finalizer.into()];
        view.managers[0].finalizers = vec![finalizer.into()];
        view.managers[0].name = "kubectl-client-side-apply".into();
    });

    world.put(&app, |view, now| ready(view, "argocd-application-controller", now));
    world.advance(Span::mins(5));
    world.put(&app, |view, now| {
        view.finalizers.clear();
        view.generation += 1;
        view.hashes.spec = 2;
        view.managers[0].finalizers.clear();
        view.managers.push(spec_by("argocd-server", now));
    });

    world.advance(Span::mins(1));
    assert!(!world.lab.has("FinalizerLost"), "{:?}", world.lab.findings());
}

#[test]
fn argo_cd_names_itself_as_the_actor_of_its_finalizer_on_a_pruned_application() {
    let app = at("argoproj.io", "Application", "argocd", "shop");
    let mut world = World::of(&[primary("argoproj.io", "Application")]);
    world.put(&app, |view, _| {
        view.finalizers = vec!["resources-finalizer.argocd.argoproj.io".into()];
        view.managers[0].name = "helm".into();
    });
    world.put(&app, |view, now| ready(view, "argocd-application-controller", now));
    world.delete(&app);

    world.advance(Span::mins(16));
    let actor = world.lab.finding("FinalizerStuck").evidence.0["actor"].to_string();

    assert!(actor.contains("argocd-application-controller"), "{actor}");
}

#[test]
fn a_finalizer_that_is_removed_while_loopwatch_is_down_is_not_lost() {
    let mut world = World::new();
    world.healthy(&web(), "widget-operator", &[FINALIZER]);
    world.advance(Span::mins(5));
    world.put_unseen(&web(), |view, now| {
        view.finalizers.clear();
        view.managers.retain(|m| m.finalizers.is_empty());
        view.hashes.spec = 8;
        view.managers[0].time = Some(now);
    });

    world.restart();
    world.advance(Span::mins(5));

    assert!(!world.lab.has("FinalizerLost"), "{:?}", world.lab.findings());
}

#[test]
fn a_finalizer_that_only_differs_in_its_order_is_not_lost() {
    let mut world = World::new();
    world.healthy(&web(), "manager", &[FINALIZER, "backup.other.com/snapshot"]);
    world.advance(Span::mins(1));

    for _ in 0..6 {
        world.put(&web(), |view, _| view.finalizers.reverse());
        world.advance(Span::secs(10));
    }

    world.lab.assert_no_findings();
}

#[test]
fn two_operators_that_overwrite_each_other_for_minutes_flap() {
    let mut world = World::new();
    world.healthy(&web(), "manager", &[FINALIZER]);
    for _ in 0..5 {
        for finalizer in ["backup.other.com/snapshot", FINALIZER] {
            world.put(&web(), |view, now| {
                view.finalizers = vec![finalizer.into()];
                view.managers.retain(|m| m.finalizers.is_empty());
                view.managers.push(finalizers_by("manager", now, &[finalizer]));
            });
            world.advance(Span::secs(5));
        }
    }

    assert_eq!(world.lab.roots(), ["FinalizerFlapping Widget team-a/web"]);
}

#[test]
fn a_person_removes_the_finalizer_of_a_dead_operator_by_hand_and_the_object_goes() {
    let mut world = World::new();
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.healthy(&web(), "manager", &[FINALIZER]);
    world.lead("6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_1", 2);
    world.delete(&web());
    world.advance(Span::mins(8));

    assert_eq!(world.lab.findings(), ["FinalizerOwnerAbsent Widget team-a/web"]);

    world.remove(&web());
    world.lab.assert_no_findings();
}

#[test]
fn an_operator_upgrade_while_two_versions_fight_is_a_suspected_loss() {
    let mut world = World::new();
    world.healthy(&web(), "old-operator", &["example.io/old"]);
    world.advance(Span::mins(5));
    world.put(&web(), |view, now| {
        view.finalizers = vec!["example.io/new".into()];
        view.managers.retain(|m| m.finalizers.is_empty());
        view.managers.push(finalizers_by("new-operator", now, &["example.io/new"]));
    });

    world.advance(Span::secs(3));
    world.put(&web(), |view, now| {
        view.finalizers.push("example.io/old".into());
        view.managers.push(finalizers_by("old-operator", now, &["example.io/old"]));
    });

    assert_eq!(world.lab.findings(), ["FinalizerLost Widget team-a/web"]);
    assert_eq!(world.lab.finding("FinalizerLost").confidence.as_str(), "suspected");
}
