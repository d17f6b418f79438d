//! The leases of the operator: whether anybody leads, and how often the leader changes.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{LeaseView, MetricsView, Observation, SourceId};
use loopwatch_model::time::Span;

use crate::lab::Lab;
use crate::lab::pods::{INSTANCE, OTHER_POD, Op, POD, pod};

/// Returns a lab with two Pods of the operator. The first one leads.
fn with_leader() -> (Lab, Op) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.workload().replicas = 2;
    op.seen(&mut lab);
    lab.run_with_lease(POD, 10);
    lab.assert_no_findings();

    (lab, op)
}

#[test]
fn nobody_leads_although_pods_run() {
    let (mut lab, op) = with_leader();
    let renewed = lab.now;
    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["LeaderAbsent operator ops/widget-operator"]);
    assert_eq!(lab.since("LeaderAbsent"), renewed);
    assert!(!lab.evidence().contains("renewed_leases"), "{}", lab.evidence());

    lab.renew(OTHER_POD);
    op.seen(&mut lab);
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_says_so_a_pod_that_just_started_or_an_unknown_lease_is_no_absence() {
    let (mut lab, _op) = with_leader();
    for _ in 0..60 {
        lab.advance(Span::secs(10));
        lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            leading: Some(true),
            ..MetricsView::default()
        });
    }

    lab.assert_no_findings();
    let (mut lab, mut op) = with_leader();
    lab.advance(Span::mins(4));
    op.view.pods = vec![pod("widget-operator-7d9f8c6b5-new", lab.now)];
    op.seen(&mut lab);
    lab.advance(Span::mins(4));
    lab.assert_no_findings();

    let mut lab = Lab::new();
    Op::running(&lab).seen(&mut lab);
    lab.advance(Span::hours(2));
    lab.assert_no_findings();

    let (mut lab, _op) = with_leader();
    lab.observe(Observation::SourceOff { source: SourceId::Lease, reason: String::new() });
    lab.advance(Span::hours(2));
    lab.assert_no_findings();
}

#[test]
fn an_upgrade_that_gives_up_its_lease_is_only_suspected_of_having_no_leader() {
    let (mut lab, mut op) = with_leader();
    op.view.pods = vec![pod("widget-operator-6c6b5d9f8-new", lab.now)];
    op.seen(&mut lab);
    lab.advance(Span::hours(1));

    assert_eq!(lab.finding("LeaderAbsent").confidence, Confidence::Suspected);

    // A Pod of a StatefulSet has the same name as its predecessor.
    let (mut twin, mut named) = with_leader();
    named.view.pods = vec![pod(POD, twin.now)];
    named.view.pods[0].uid = "another".into();
    named.seen(&mut twin);
    twin.advance(Span::hours(1));

    assert_eq!(twin.finding("LeaderAbsent").confidence, Confidence::Suspected);

    lab.observe(Observation::LeaseGone {
        namespace: "ops".into(),
        name: "6ab5f5a3.example.io".into(),
    });
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_keeps_changing_is_found() {
    let (mut lab, _op) = with_leader();
    for (turn, holder) in [OTHER_POD, POD, OTHER_POD].into_iter().enumerate() {
        assert!(!lab.has("LeaderFlapping"), "{turn}");

        lab.run_with_lease(holder, 5);
    }

    assert_eq!(lab.findings(), ["LeaderFlapping operator ops/widget-operator"]);

    lab.run_with_lease(OTHER_POD, 55);
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_keeps_changing_around_the_threshold_is_one_finding() {
    let (mut lab, _op) = with_leader();
    for turn in 0..20 {
        lab.run_with_lease(if turn % 2 == 0 { OTHER_POD } else { POD }, 25);
    }

    assert_eq!(lab.changes(), ["Opened LeaderFlapping operator ops/widget-operator"]);

    // Near miss: it stays the same after a few changes.
    lab.run_with_lease(POD, 60);
    lab.assert_no_findings();
}

#[test]
fn a_leader_that_changes_by_rollouts_or_evictions_does_not_flap() {
    let (mut lab, mut op) = with_leader();
    for hash in ["a1", "b2", "c3", "d4", "e5"] {
        let name = format!("widget-operator-{hash}-xyz");
        op.view.pods.push(pod(&name, lab.now));
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }

    lab.assert_no_findings();
    let (mut lab, mut op) = with_leader();
    for name in ["a", "b", "c", "d"] {
        let name = format!("widget-operator-7d9f8c6b5-{name}");
        op.view.pods = vec![pod(&name, lab.now)];
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }

    lab.assert_no_findings();

    // A sidecar sees only its own Pod: it cannot tell, unless a Pod leads again.
    let (mut lab, mut op) = with_leader();
    op.view.complete = false;
    op.view.pods.truncate(1);
    op.seen(&mut lab);

    for name in ["a", "b", "c"] {
        lab.run_with_lease(&format!("widget-operator-7d9f8c6b5-{name}"), 5);
    }

    assert_eq!(lab.finding("LeaderFlapping").confidence, Confidence::Suspected);

    lab.run_with_lease("widget-operator-7d9f8c6b5-a", 5);
    assert_eq!(lab.finding("LeaderFlapping").confidence, Confidence::Confirmed);
}

#[test]
fn leases_of_other_operators_show_nothing() {
    let (mut lab, _op) = with_leader();
    for turn in 0..10 {
        let lease = LeaseView {
            namespace: "ops".into(),
            name: "other.io".into(),
            holder: format!("widget-operator-webhook-7d9f8c6b5-x{turn}_1"),
            renewed: Some(lab.now),
            written: Some(lab.now),
            ..LeaseView::default()
        };

        lab.observe(Observation::LeaseSeen(lease));
        lab.run_with_lease(POD, 2);
    }

    lab.assert_no_findings();
}

#[test]
fn a_leader_whose_pod_was_evicted_and_stays_as_failed_does_not_flap() {
    let (mut lab, mut op) = with_leader();
    for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let name = format!("widget-operator-7d9f8c6b5-{name}");
        let leader = if index == 0 { 0 } else { op.view.pods.len() - 1 };
        (op.view.pods[leader].phase, op.view.pods[leader].containers[0].running_since) =
            ("Failed".into(), None);
        op.view.pods.push(pod(&name, lab.now));
        op.seen(&mut lab);
        lab.run_with_lease(&name, 5);
    }

    lab.assert_no_findings();
}

/// One of the operator's leases is renewed now.
fn renew(lab: &mut Lab, name: &str, holder: &str, duration: Span) {
    lab.observe(Observation::LeaseSeen(LeaseView {
        namespace: "ops".into(),
        name: name.into(),
        holder: holder.into(),
        renewed: Some(lab.now),
        written: Some(lab.now),
        duration: Some(duration),
        ..LeaseView::default()
    }));
}

#[test]
fn a_holder_may_append_a_word_to_the_name_of_its_pod() {
    for end in ["", "_6f1c", "-external-cert-manager-controller", "_a-b_c"] {
        let (mut lab, _op) = Op::with_lab();
        let holder = format!("{POD}{end}");
        lab.observe(Observation::LeasesListed { namespace: "ops".into(), names: Vec::new() });
        for _ in 0..10 {
            lab.advance(Span::secs(30));
            renew(&mut lab, "controller", &holder, Span::secs(60));
        }

        lab.advance(Span::mins(5));
        let found = lab.finding("LeaderAbsent");
        assert_eq!(found.confidence, Confidence::Confirmed, "{holder}");
        assert!(found.summary().contains(&holder), "{}", found.summary());

        renew(&mut lab, "controller", &holder, Span::secs(60));
        lab.advance(Span::secs(1));
        lab.assert_no_findings();
    }
}

#[test]
fn each_of_several_leases_of_one_pod_counts() {
    let (mut lab, _op) = Op::with_lab();
    let holder = format!("{POD}_1");
    let renew_both = |lab: &mut Lab| {
        for name in ["a.example.io", "b.example.io"] {
            renew(lab, name, &holder, Span::secs(15));
        }
    };
    for _ in 0..40 {
        lab.advance(Span::secs(15));
        renew(&mut lab, "6ab5f5a3.example.io", &format!("{POD}_1"), Span::secs(15));
        renew_both(&mut lab);
    }

    // One controller of the process loses its lease, and the others go on.
    for _ in 0..24 {
        lab.advance(Span::secs(15));
        renew(&mut lab, "6ab5f5a3.example.io", &format!("{POD}_1"), Span::secs(15));
        renew(&mut lab, "a.example.io", &holder, Span::secs(15));
    }

    let found = lab.finding("LeaderAbsent");
    assert!(found.summary().contains("b.example.io"), "{}", found.summary());
    assert!(found.summary().contains("renewed leases 2 of 3"), "{}", found.summary());
    assert_eq!(found.confidence, Confidence::Confirmed);

    renew_both(&mut lab);
    renew(&mut lab, "6ab5f5a3.example.io", &format!("{POD}_1"), Span::secs(15));
    lab.assert_no_findings();
}

#[test]
fn a_lease_of_an_earlier_process_or_of_one_task_is_no_loss() {
    // An upgrade replaces the lease by another one.
    let (mut lab, mut op) = Op::with_lab();
    let next = "widget-operator-6c6b5d9f8-b2b4c";
    op.view.pods = vec![pod(next, lab.now)];
    op.seen(&mut lab);
    for _ in 0..60 {
        lab.advance(Span::secs(15));
        renew(&mut lab, "new.example.io", &format!("{next}_1"), Span::secs(15));
    }

    lab.assert_no_findings();

    // The process holds a lock during a backup of three minutes.
    let (mut lab, _op) = Op::with_lab();
    for turn in 0..60 {
        lab.advance(Span::secs(15));
        renew(&mut lab, "6ab5f5a3.example.io", &format!("{POD}_1"), Span::secs(15));
        if turn < 12 {
            renew(&mut lab, "backup", &format!("{POD}_1"), Span::secs(15));
        }
    }

    lab.assert_no_findings();
}

#[test]
fn a_lease_says_itself_how_patient_to_be() {
    let (mut lab, _op) = Op::with_lab();
    lab.observe(Observation::LeaseGone {
        namespace: "ops".into(),
        name: "6ab5f5a3.example.io".into(),
    });
    for _ in 0..4 {
        renew(&mut lab, "patient", &format!("{POD}_1"), Span::mins(15));
        lab.advance(Span::mins(7));
        lab.assert_no_findings();
    }

    renew(&mut lab, "patient", &format!("{POD}_1"), Span::mins(15));
    lab.advance(Span::mins(29));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(lab.findings(), ["LeaderAbsent operator ops/widget-operator"]);
}

const SHARDS: [&str; 5] = ["shard-0", "shard-1", "shard-2", "shard-3", "shard-4"];
const THIRD_POD: &str = "widget-operator-7d9f8c6b5-t4w6z";

/// Renews leases every quarter of a minute, for some minutes.
fn hold(lab: &mut Lab, minutes: i64, held: &[(&str, &str)]) {
    for _ in 0..minutes * 4 {
        lab.advance(Span::secs(15));
        for (lease, pod) in held {
            renew(lab, lease, &format!("{pod}_1"), Span::secs(15));
        }
    }
}

/// Two Pods share five leases. The second Pod, which holds two of them, is evicted, and another one
/// of the same revision takes its place.
fn evicted_from_its_shards() -> (Lab, Op) {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.workload().replicas = 2;
    op.seen(&mut lab);
    let names = SHARDS.map(str::to_owned).to_vec();
    lab.observe(Observation::LeasesListed { namespace: "ops".into(), names });

    let pods = [POD, POD, POD, OTHER_POD, OTHER_POD];
    hold(&mut lab, 20, &Vec::from_iter(SHARDS.into_iter().zip(pods)));
    op.view.pods[1] = pod(THIRD_POD, lab.now);
    op.seen(&mut lab);
    (lab, op)
}

#[test]
fn leases_that_nobody_takes_over_after_an_eviction_are_found() {
    let (mut lab, _op) = evicted_from_its_shards();
    let renewed = [(SHARDS[0], POD), (SHARDS[1], POD), (SHARDS[2], POD)];
    hold(&mut lab, 4, &renewed);
    lab.assert_no_findings();
    hold(&mut lab, 2, &renewed);

    let found = lab.finding("LeaderAbsent");
    assert_eq!(found.confidence, Confidence::Confirmed);
    assert!(found.summary().contains("renewed leases 3 of 5"), "{}", found.summary());
    assert!(found.summary().contains("shard-3"), "{}", found.summary());

    hold(&mut lab, 1, &[(SHARDS[3], POD), (SHARDS[4], THIRD_POD)]);
    hold(&mut lab, 1, &Vec::from_iter(SHARDS.map(|lease| (lease, POD))));
    lab.assert_no_findings();
}

#[test]
fn leases_that_another_pod_takes_over_after_an_eviction_are_no_loss() {
    let (mut lab, _op) = evicted_from_its_shards();
    let pods = [POD, POD, POD, THIRD_POD, POD];
    hold(&mut lab, 30, &Vec::from_iter(SHARDS.into_iter().zip(pods)));
    lab.assert_no_findings();
}

#[test]
fn leases_that_the_pods_of_now_do_not_need_are_no_loss() {
    let renewed = [(SHARDS[0], POD), (SHARDS[1], POD), (SHARDS[2], POD)];

    // Somebody takes away a replica.
    let (mut lab, mut op) = evicted_from_its_shards();
    op.view.pods.truncate(1);
    op.workload().replicas = 1;
    op.seen(&mut lab);
    hold(&mut lab, 30, &renewed);
    lab.assert_no_findings();

    // Another revision has fewer shards.
    let (mut lab, mut op) = evicted_from_its_shards();
    let next = "widget-operator-6c6b5d9f8-b2b4c";
    op.view.pods = vec![pod(next, lab.now), pod("widget-operator-6c6b5d9f8-d4d6f", lab.now)];
    op.seen(&mut lab);
    hold(&mut lab, 30, &renewed.map(|(lease, _)| (lease, next)));
    lab.assert_no_findings();

    // Each Pod has leases of its own.
    let (mut lab, _op) = evicted_from_its_shards();
    let own = [("shard-5", THIRD_POD), ("shard-6", THIRD_POD)];
    hold(&mut lab, 30, &[&renewed[..], &own].concat());
    lab.assert_no_findings();
}

/// The leader changes three times. Before each change, the container of the leader ends if
/// `restarts`. Returns the lab and its operator.
fn changes_its_leader(restarts: bool) -> (Lab, Op) {
    let (mut lab, mut op) = with_leader();
    for (index, holder) in [(0, OTHER_POD), (1, POD), (0, OTHER_POD)] {
        if restarts {
            op.view.pods.swap(0, index);
            op.crash(&mut lab, "Error");
            lab.advance(Span::secs(20));
            op.restart(&mut lab);
            op.view.pods.swap(0, index);
        }

        lab.run_with_lease(holder, 5);
    }

    (lab, op)
}

/// The container of a Pod ends and starts three times.
fn restarts_thrice(lab: &mut Lab, op: &mut Op) {
    for _ in 0..3 {
        op.crash(lab, "Error");
        lab.advance(Span::secs(1));
        op.restart(lab);
        lab.run_with_lease(OTHER_POD, 2);
    }
}

#[test]
fn a_leader_that_changes_because_its_container_restarts_is_one_ticket() {
    let (mut lab, mut op) = changes_its_leader(true);
    assert!(lab.has("LeaderFlapping"), "{:?}", lab.findings());

    restarts_thrice(&mut lab, &mut op);
    assert_eq!(lab.roots(), ["RestartLoop operator ops/widget-operator"], "{:?}", lab.findings());
}

#[test]
fn restarts_of_another_time_do_not_explain_a_leader_that_keeps_changing() {
    let (mut lab, mut op) = changes_its_leader(false);
    lab.run_with_lease(OTHER_POD, 5);
    restarts_thrice(&mut lab, &mut op);

    assert!(lab.has("RestartLoop"), "{:?}", lab.findings());
    assert!(
        lab.roots().contains(&"LeaderFlapping operator ops/widget-operator".to_owned()),
        "{:?}",
        lab.roots()
    );
}

#[test]
fn a_leader_that_keeps_changing_after_the_restarts_is_a_ticket_of_its_own() {
    let (mut lab, mut op) = changes_its_leader(true);
    restarts_thrice(&mut lab, &mut op);
    for holder in [POD, OTHER_POD, POD] {
        lab.run_with_lease(holder, 5);
    }

    assert!(
        lab.roots().contains(&"LeaderFlapping operator ops/widget-operator".to_owned()),
        "{:?}",
        lab.roots()
    );
}
