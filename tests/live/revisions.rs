//! Rollouts of the operator: the recorded indicators of a real Prometheus tell its revisions apart.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{bed, test_with};
use crate::down::Watched;
use crate::prometheus::Prometheus;
use loopwatch_testbed::bundled::Pace;
use loopwatch_testbed::sidecar::quick_but;
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("revisions::a_worse_one", &["prometheus"], a_worse_one)]
}

const NAMESPACE: &str = "revisions";
/// The time that a change may take.
const DEADLINE: &str = "15s";
/// How long each reconcile of the last revision takes, more than the deadline.
const SLOW: &str = "QueueBacklog?kind=Widget&delay=16s";
/// The objects, as many as the operator has workers.
const OBJECTS: [&str; 2] = ["one", "two"];
/// Enough for two slow reconciles, and for Prometheus.
const SOON: Duration = Duration::from_secs(120);

/// The operator is rolled out twice. The second revision is as good as the first one; the third one
/// misses the deadline of each change.
fn a_worse_one() {
    let patient = json!({"deadline": DEADLINE, "phase_stuck_after": "5m",
        "operator_down_after": "5m", "source_failing_after": "5m", "reconcile_stuck_after": "5m"});
    let mut all = Watched::start(NAMESPACE, 1, quick_but(patient));
    OBJECTS.iter().for_each(|name| all.make("Widget", name));

    let target = [(NAMESPACE, "loopwatch-0", all.sidecar.port)];
    let prometheus = Prometheus::start_with("revisions.prometheus", Pace::Quick, &target, None);
    let revisions = Revisions { prometheus: &prometheus };

    let first = revision(&all);
    change(&all, 2);
    revisions.expect("converged", &first);

    let second = roll_out(&mut all, 1);
    change(&all, 3);
    revisions.expect("converged", &second);

    // Both revisions have their own series, and neither is worse.
    let [before, after] = [&first, &second].map(|revision| revisions.late(revision));
    assert_eq!((before, after), (0.0, 0.0), "{first} and {second}");

    let third = roll_out(&mut all, 2);
    all.replicas.all[0].operator.fault(SLOW);
    change(&all, 4);
    revisions.expect("late", &third);

    let [before, after] = [&second, &third].map(|revision| revisions.late(revision));
    assert!(before < after, "late: {before} of {second}, {after} of {third}");

    // Each change converges in the end.
    for of in ["median", "mean"] {
        let measure = |revision: &str| match of {
            "median" => revisions.median(revision),
            _ => revisions.mean(revision),
        };
        let after = eventually(SOON, &format!("the {of} of {third}"), || measure(&third));
        let before = eventually(SOON, &format!("the {of} of {second}"), || measure(&second));
        assert!(before < after, "{of}: {before} s of {second}, {after} s of {third}");
    }
}

/// The indicators of the Widgets, by revision.
struct Revisions<'a> {
    prometheus: &'a Prometheus,
}

impl Revisions<'_> {
    /// Waits until the rules have recorded changes with this outcome under a revision.
    fn expect(&self, outcome: &str, revision: &str) {
        let series = "kind_revision_outcome:loopwatch_obligations:increase5m";
        let query = format!(
            "{series}{{kind=\"Widget\",operator_revision=\"{revision}\",outcome=\"{outcome}\"}}"
        );
        eventually(SOON, &format!("{revision} has {outcome} changes"), || {
            match self.prometheus.value(&query)? {
                0.0 => Err("none".to_owned()),
                count => Ok(count),
            }
        });
    }

    /// The share of late changes.
    fn late(&self, revision: &str) -> f64 {
        let query = format!(
            "kind_revision:loopwatch_obligations_late:ratio_increase1h{{kind=\"Widget\",operator_revision=\"{revision}\"}}"
        );
        eventually(SOON, &format!("the share of late changes of {revision}"), || {
            self.prometheus.value(&query)
        })
    }

    /// The median time to converge.
    fn median(&self, revision: &str) -> Result<f64, String> {
        self.prometheus.value(&format!("kind_revision:loopwatch_convergence_seconds:quantile1h{{kind=\"Widget\",operator_revision=\"{revision}\",quantile=\"0.5\"}}"))
    }

    /// The mean time to converge in the namespace.
    fn mean(&self, revision: &str) -> Result<f64, String> {
        let increase = |part: &str| {
            let series = format!("loopwatch_namespace_convergence_{part}_total");
            format!(
                "increase({series}{{kind=\"Widget\",target_namespace=\"{NAMESPACE}\",operator_revision=\"{revision}\"}}[5m])"
            )
        };
        let samples = increase("samples");
        let query = format!("{} / ({samples} > 0)", increase("seconds"));
        self.prometheus.value(&query)
    }
}

/// The revision in charge.
fn revision(all: &Watched) -> String {
    let metrics = all.sidecar.metrics().unwrap_or_else(|error| panic!("{error}"));
    let infos = metrics.lines().filter(|line| line.starts_with("loopwatch_operator_info{"));
    let revisions: Vec<&str> = infos
        .filter_map(|line| line.split_once("revision=\"")?.1.split_once('"'))
        .map(|(revision, _)| revision)
        .collect();

    match revisions[..] {
        [only] if !only.is_empty() => only.to_owned(),
        _ => panic!("{revisions:?}"),
    }
}

/// Rolls the operator out, and waits until the new revision is in charge. Returns it.
fn roll_out(all: &mut Watched, number: u32) -> String {
    let before = revision(all);
    let annotations = json!({"rollout": number.to_string()});
    all.replicas.change(&json!({"template": {"metadata": {"annotations": annotations}}}));
    all.replicas.start_next(bed());
    all.wait_terminating(0);
    all.end(0);
    all.replicas.all.remove(0).pod.remove();
    all.replicas.wait_for_leader();

    eventually(SOON, "another revision is in charge", || match revision(all) {
        now if now == before => Err(now),
        now => Ok(now),
    })
}

/// Changes all Widgets.
fn change(all: &Watched, size: u32) {
    for name in OBJECTS {
        all.kube.change("Widget", NAMESPACE, name, json!({"size": size}));
    }
}
