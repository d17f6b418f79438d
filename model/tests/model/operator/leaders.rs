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
