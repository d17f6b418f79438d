//! Which revision of the operator is in charge, and what the totals counted under each.

use loopwatch_model::observation::{
    ContainerView, LeaseView, Observation, OperatorView, OperatorWorkload, PodView, Revision,
    SourceId,
};
use loopwatch_model::snapshot::{Outcome, RevisionTotals};
use loopwatch_model::time::Span;

use crate::lab::Lab;

fn pod(name: &str, revision: &str) -> PodView {
    let revision = Revision { hash: revision.into(), ..Revision::default() };
    let containers = vec![ContainerView { ready: true, ..ContainerView::default() }];
    PodView { name: name.into(), revision, containers, ..PodView::default() }
}

fn own(pod: PodView) -> PodView {
    PodView { own: true, ..pod }
}

fn pods(lab: &mut Lab, pods: Vec<PodView>) {
    let workload = Some(OperatorWorkload { replicas: 1, ..OperatorWorkload::default() });
    let view = OperatorView {
        namespace: "op".into(),
        name: "op".into(),
        workload,
        pods,
        ..OperatorView::default()
    };

    lab.observe(Observation::OperatorSeen(Box::new(view)));
}

fn lead(lab: &mut Lab, holder: &str) {
    let (renewed, duration) = (Some(lab.now), Some(Span::secs(15)));
    let (namespace, name, holder) = ("op".into(), "lock".into(), holder.into());
    let lease = LeaseView { namespace, name, holder, renewed, duration, ..LeaseView::default() };
    lab.observe(Observation::LeaseSeen(lease));
}

/// The revision in charge with the number of converged obligations under it, and the same for
/// the previous revision.
fn counted(lab: &Lab) -> String {
    let snapshot = lab.snapshot();
    let (operator, kind) = (snapshot.operator, &snapshot.kinds[0]);
    let converged = |totals: &RevisionTotals| -> (u64, u64) {
        let outcomes =
            totals.obligations.values().map(|counts| counts[Outcome::Converged as usize]).sum();
        let by_namespace: u64 = totals.convergences.values().map(|durations| durations.count).sum();
        let (count, sum) = (totals.convergence.count(), totals.convergence.sum());
        let seconds: f64 = totals.convergences.values().map(|durations| durations.seconds()).sum();

        assert!(by_namespace == count && (seconds - sum).abs() < 1e-6, "{totals:?}");
        (outcomes, count)
    };
    let all = RevisionTotals {
        acknowledge: kind.totals.acknowledge.clone(),
        convergence: kind.totals.convergence.clone(),
        obligations: kind
            .namespaces
            .iter()
            .map(|(name, totals)| (name.clone(), totals.obligations))
            .collect(),
        convergences: kind
            .namespaces
            .iter()
            .map(|(name, totals)| (name.clone(), totals.convergences))
            .collect(),
    };

    let earlier = kind.earlier.as_deref().cloned().unwrap_or_default();
    let (current, previous) = (converged(&all.less(&earlier.all)), converged(&earlier.previous));

    assert!(current.0 == current.1 && previous.0 == previous.1, "{current:?} {previous:?}");

    let previous =
        operator.previous_revision.map(|revision| format!(", {revision} {}", previous.0));
    format!("{} {}{}", operator.revision.label(), current.0, previous.unwrap_or_default())
}

#[test]
fn totals_are_divided_among_the_revisions() {
    let mut lab = Lab::new();
    lab.converged("before");
    pods(&mut lab, vec![own(pod("op-1", "a"))]);

    assert_eq!(counted(&lab), "a 1", "what was counted before the first revision is its own");

    lab.converged("w1");
    assert_eq!(counted(&lab), "a 2");

    pods(&mut lab, vec![own(pod("op-1", "b"))]);
    assert_eq!(counted(&lab), "b 0, a 2", "a new revision begins at zero");

    lab.converged("w2");
    assert_eq!(counted(&lab), "b 1, a 2");

    pods(&mut lab, vec![own(pod("op-1", "a"))]);
    lab.converged("w3");

    assert_eq!(counted(&lab), "a 3, b 1", "a revision that returns goes on counting");

    pods(&mut lab, vec![own(pod("op-1", "c"))]);
    lab.converged("w4");

    assert_eq!(counted(&lab), "c 1, a 3");
    assert_eq!(lab.outcomes(Outcome::Converged), 5, "the totals do not depend on revisions");
}

#[test]
fn more_knowledge_about_a_revision_is_no_new_one() {
    let mut lab = Lab::new();
    pods(&mut lab, vec![own(pod("op-1", "a"))]);
    lab.converged("w1");

    let mut known = own(pod("op-1", "a"));
    known.revision.image = "registry.example.com/op:v1".into();
    pods(&mut lab, vec![known]);

    assert_eq!(counted(&lab), "a 1");

    let operator = lab.snapshot().operator;
    assert_eq!(operator.revision.image, "registry.example.com/op:v1");

    // The only known Pod no longer says which revision it runs.
    pods(&mut lab, vec![own(pod("op-1", ""))]);
    assert_eq!(counted(&lab), "a 1");
}

#[test]
fn the_holder_of_the_lease_is_in_charge() {
    let mut lab = Lab::new();
    let both = || vec![pod("op-old", "a"), own(pod("op-new", "b")), pod("op-new-2", "b")];
    lead(&mut lab, "op-old_4a5f");
    pods(&mut lab, both());

    assert_eq!(counted(&lab), "a 0");

    lab.converged("w1");
    lead(&mut lab, "op-new_91cc");

    assert_eq!(counted(&lab), "b 0, a 1");

    lead(&mut lab, "op-old");
    lab.converged("w2");

    assert_eq!(counted(&lab), "a 2, b 0");

    lead(&mut lab, "op-ol");
    assert_eq!(counted(&lab), "b 0, a 2", "no Pod has this name, so the own one counts");

    lead(&mut lab, "op-old");
    lab.observe(Observation::LeaseGone { namespace: "op".into(), name: "lock".into() });

    assert_eq!(counted(&lab), "b 0, a 2");
}

#[test]
fn from_outside_the_newest_ready_pod_counts() {
    let mut lab = Lab::new();
    let created = |pod: PodView, ago: i64, lab: &Lab| PodView {
        created: Some(lab.ago(Span::mins(ago))),
        ..pod
    };
    let (old, new) = (created(pod("x", "a"), 60, &lab), created(pod("y", "b"), 1, &lab));
    let starting = PodView { containers: vec![ContainerView::default()], ..new.clone() };

    pods(&mut lab, vec![old.clone(), starting]);
    assert_eq!(counted(&lab), "a 0");

    pods(&mut lab, vec![old.clone(), new.clone()]);
    assert_eq!(counted(&lab), "b 0, a 0");

    let deleted = PodView { deleted: Some(lab.now), ..new };
    pods(&mut lab, vec![old, deleted]);

    assert_eq!(counted(&lab), "a 0, b 0");
}

#[test]
fn a_source_that_is_off_stays_off_while_only_the_environment_speaks() {
    let mut lab = Lab::new();
    let off = |lab: &Lab| {
        let sources = lab.snapshot().sources;
        sources.into_iter().find(|source| source.source == "pods").expect("the source").off
    };

    lab.observe(Observation::SourceOff { source: SourceId::Pods, reason: "forbidden".into() });
    pods(&mut lab, vec![own(pod("op-1", "a"))]);

    assert_eq!(off(&lab).as_deref(), Some("forbidden"));

    pods(&mut lab, vec![PodView { phase: "Running".into(), ..own(pod("op-1", "a")) }]);
    assert_eq!(off(&lab), None);
}

#[test]
fn pods_beyond_the_limit_are_counted() {
    let mut lab = Lab::new();
    let view = OperatorView { pods_left_out: 3, ..OperatorView::default() };
    lab.observe(Observation::OperatorSeen(Box::new(view)));

    assert_eq!(lab.dropped("operator_pods"), 1);
}
