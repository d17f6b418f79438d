//! Workloads whose Pods are older than the ConfigMaps and Secrets that they read only when they
//! start.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{Cause, ObjectKey, ObjectView, Owned};
use loopwatch_model::time::{Span, Timestamp};

use loopwatch_model::settings::{Limits, Settings};

use super::{FINDING, app, kubelet, pod_at, reads_all, settings};
use crate::lab::{World, at, config_maps, deployments, kind, unlearned, written_by};

/// Returns a world in which the names that workloads read may take 43 KiB.
fn with_little_memory() -> World {
    let limits = Limits { objects: 1_000, ..Limits::default() };
    let settings = Settings { limits, ..unlearned() };
    World::with_app_in(settings, &[kind(), deployments(), config_maps()])
}

#[test]
fn a_workload_that_reads_too_much_is_not_judged_by_what_it_read_before() {
    let mut world = with_little_memory();
    let much = |workload: usize| {
        let name = |number: usize| format!("{workload}-{number:a>240}");
        (0..13).map(|number| reads_all(&name(number))).collect()
    };
    for workload in 0..10 {
        let at = at("apps", "Deployment", "team-a", &format!("other-{workload}"));
        world.put(&at, |view, _| view.startup = much(workload));
    }
    assert_eq!(world.lab.dropped("configurations"), 0);

    world.put(&app(), |view, _| view.startup = much(10));
    assert_eq!(world.lab.dropped("configurations"), 1);

    world.write();
    world.advance(Span::hours(1));
    assert!(!world.lab.has("StaleConfiguration"), "{:?}", world.lab.findings());
}

#[test]
fn workloads_of_one_namespace_that_read_too_much_make_room_for_others() {
    let mut world = with_little_memory();
    world.put(&app(), |view, _| view.startup.clear());
    for number in 0..600 {
        let at = at("apps", "Deployment", "tenant-b", &format!("fat-{number}"));
        world.put(&at, |view, _| view.startup = vec![reads_all(&format!("{number:a>9}"))]);
    }
    let dropped = world.lab.dropped("configurations");
    assert!(dropped > 0);

    world.put(&app(), |view, _| view.startup = vec![reads_all("settings")]);
    assert_eq!(world.lab.dropped("configurations"), dropped + 1, "one makes room");
    world.write();
    world.advance(Span::hours(1));
    assert!(world.lab.findings().contains(&FINDING.to_owned()), "{:?}", world.lab.findings());
}

#[test]
fn pods_that_are_older_than_their_configuration_are_stale_until_they_are_replaced() {
    let mut world = World::with_app();
    let written = world.lab.now;
    world.write();
    world.advance(Span::secs(599));
    world.lab.assert_no_findings();

    assert_eq!(
        (world.searches, world.counted()),
        (0, 0),
        "the Pods are read only once they may be stale"
    );

    world.advance(Span::secs(6));
    assert_eq!((world.lab.findings(), world.counted()), (vec![FINDING.to_owned()], 1));
    assert_eq!(world.lab.since("StaleConfiguration"), written);
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);

    let evidence = world.lab.evidence();
    assert!(
        evidence.contains("configuration ConfigMap settings") && evidence.contains("pods 1"),
        "{evidence}"
    );

    world.advance(Span::hours(3));
    assert_eq!(world.lab.findings(), [FINDING], "the Pods are still the same");
    assert!(world.searches <= 2 * 20, "{} reads", world.searches);

    world.roll();
    world.advance(Span::secs(10));
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);

    let reads = world.searches;
    world.advance(Span::hours(3));

    assert_eq!(world.searches, reads, "nothing is left to check");
}

#[test]
fn a_workload_that_rolls_after_the_change_is_fine() {
    for wait in [Span::secs(2), Span::mins(9)] {
        let mut world = World::with_app();
        world.write();
        world.advance(wait);
        world.roll();
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();

        assert!(world.searches <= 2, "{} reads", world.searches);
    }
}

#[test]
fn pods_that_may_have_started_after_the_change_prove_nothing() {
    let mut world = World::with_app();
    world.write();
    world.advance(Span::mins(1));

    // The kubelet has started the container again.
    world.put_unseen(&pod_at("app-1"), |view, now| view.managers = vec![kubelet(now)]);
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    let unwritten = |view: &mut ObjectView, _| view.managers.clear();
    let deleted = |view: &mut ObjectView, now| view.deleted = Some(now);
    let undated = |view: &mut ObjectView, _| {
        view.managers.clear();
        view.created = None;
    };

    let odd: [fn(&mut ObjectView, Timestamp); 3] = [unwritten, deleted, undated];
    for change in odd {
        let mut world = World::with_app();
        world.replace_pods("app-1");
        world.put_unseen(&pod_at("app-1"), change);
        world.advance(Span::mins(1));
        world.write();
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();
    }
}

#[test]
fn other_configuration_and_a_write_at_the_creation_do_not_count() {
    // The Pods mount it as a volume, which the kubelet updates.
    let mut world = World::with_app();
    world.put(&app(), |view, _| view.startup = vec![reads_all("other")]);
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // The ConfigMap was created again: nothing shows whether its data is different.
    let mut world = World::with_app();
    world.create_settings_again();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.searches, 0);
}

#[test]
fn a_write_that_may_be_of_metadata_is_only_suspected_and_so_is_a_part_of_the_keys() {
    let confidence = |change: &dyn Fn(&mut World)| {
        let mut world = World::with_app();
        change(&mut world);
        world.advance(Span::mins(11));
        world.lab.finding("StaleConfiguration").confidence
    };

    assert_eq!(confidence(&|world| world.relabel(8)), Confidence::Suspected);

    let by_kubectl = |world: &mut World| {
        let owns = Owned { spec: true, only_data: true, ..Owned::default() };
        world.put(&settings(), |view, now| {
            view.marks_hash = 8;
            view.managers.push(written_by("kubectl-edit", now, owns));
        });
    };

    assert_eq!(confidence(&by_kubectl), Confidence::Confirmed);

    let one_key = |world: &mut World| {
        world.put(&app(), |view, _| view.startup[0].whole = false);
        world.write();
    };

    assert_eq!(confidence(&one_key), Confidence::Suspected);
}

#[test]
fn new_labels_neither_renew_nor_end_a_finding() {
    let mut world = World::with_app();
    let written = world.lab.now;
    world.write();

    for marks in 10..40 {
        world.advance(Span::mins(1));
        world.relabel(marks);

        assert_eq!(world.lab.findings().len(), usize::from(marks >= 20), "{marks}");
    }

    assert_eq!(world.lab.since("StaleConfiguration"), written);
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);
}

#[test]
fn a_rollout_in_progress_waits_and_pods_that_cannot_be_read_accuse_nobody() {
    let mut world = World::with_app();
    world.write();
    world.put(&app(), |view, _| (view.generation, view.hashes.spec) = (2, 2));
    world.advance(Span::hours(1));

    assert!(!world.lab.has("StaleConfiguration"));
    assert_eq!(world.searches, 0);

    let mut world = World::with_app();
    world.reads_fail = Some(Cause::Forbidden);
    world.write();
    world.advance(Span::hours(2));
    world.lab.assert_no_findings();

    assert!(world.searches <= 12, "{} reads", world.searches);

    world.reads_fail = None;
    world.advance(Span::mins(11));

    assert_eq!(world.lab.findings(), [FINDING]);

    world.reads_fail = Some(Cause::Forbidden);
    world.advance(Span::hours(1));

    assert_eq!(world.lab.findings(), [FINDING], "nothing shows that it is over");
}

#[test]
fn a_blind_watch_changes_nothing() {
    let mut world = World::with_app();
    world.write();
    world.advance(Span::mins(5));
    world.lab.fail_watch(&deployments().watch);
    world.advance(Span::hours(1));

    assert!(!world.lab.has("StaleConfiguration"));

    world.lab.recover_watch(&deployments().watch);
    world.list();
    world.advance(Span::mins(5));

    assert!(world.lab.has("StaleConfiguration"));

    world.lab.fail_watch(&config_maps().watch);
    world.advance(Span::hours(1));

    assert!(world.lab.has("StaleConfiguration"));
}

#[test]
fn a_restart_keeps_the_finding_and_its_start() {
    let mut world = World::with_app();
    let written = world.lab.now;
    world.write();
    world.advance(Span::mins(20));
    world.restart();
    world.advance(Span::secs(5));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );

    // loopwatch has not seen the version before, so the write may have changed only the labels.
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Suspected);

    world.roll();
    world.advance(Span::secs(10));
    world.lab.assert_no_findings();
}

#[test]
fn a_workload_without_configuration_or_owner_of_it_costs_nothing() {
    let mut world = World::with_app();
    world.write();
    world.advance(Span::mins(11));
    world.remove(&settings());
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);

    let mut world = World::with_app();
    world.write();
    world.advance(Span::mins(11));
    world.remove(&app());
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    assert_eq!(world.counted(), 0);
}

#[test]
fn a_step_of_the_clock_keeps_the_ages() {
    let mut world = World::with_app();
    world.write();
    world.advance(Span::mins(11));
    world.lab.step_clock(Span::hours(-1));
    world.advance(Span::hours(2));

    assert_eq!(world.lab.findings(), [FINDING]);
}

#[test]
fn the_number_of_workloads_is_limited() {
    let mut world = World::with_app();
    let one = world.objects[&app()].clone();
    world.lab.begin_list(&deployments().watch);

    for n in 0..20_001 {
        let key = ObjectKey { namespace: "team-a".into(), name: format!("app-{n}") };
        let view = ObjectView { key, uid: format!("u-{n}"), ..one.clone() };
        world.lab.listed(&deployments().watch, view);
    }

    world.lab.end_list(&deployments().watch);
    assert_eq!(world.lab.findings(), ["LimitReached limit configurations"]);
}

#[test]
fn configuration_that_changes_again_and_again_is_stale_since_the_first_change() {
    let mut world = World::with_app();
    let first = world.lab.now;
    for n in 0..10 {
        world.write();
        world.advance(Span::mins(4));

        assert_eq!(world.lab.findings().len(), usize::from(n >= 2), "{n}");
    }

    assert_eq!(world.lab.since("StaleConfiguration"), first);
    assert!(
        world.lab.evidence().contains("configuration ConfigMap settings,"),
        "{}",
        world.lab.evidence()
    );

    world.roll();
    world.advance(Span::mins(20));
    world.lab.assert_no_findings();
}
