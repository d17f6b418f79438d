//! Tests of the operator's Pods: who the operator is, and when their task runs.

use loopwatch_model::observation::{Observation, SourceId};
use loopwatch_testbed::standin::{POD, World};
use serde_json::json;

use super::{Run, widget_operator};
use crate::sources::api_server::{OperatorIdentity, OperatorName, Selection};
use crate::sources::decoding::HashKey;
use crate::sources::feed::Feed;
use crate::sources::supervisor::Supervisor;
use crate::sources::supervisor::options::{LeaseSelection, SourceOptions};
use crate::sources::testing::{InProcess as _, VirtualClock};
use crate::system::own_pod::OwnPod;

fn own() -> OperatorIdentity {
    let (namespace, name) = ("op".to_owned(), "op-7c9d5b8f6-x2x4z".to_owned());
    OperatorIdentity::Beside(OwnPod { namespace, name, is_told: true, ..OwnPod::default() })
}

fn named() -> OperatorIdentity {
    OperatorIdentity::Named(OperatorName { namespace: "op".to_owned(), name: "op".to_owned() })
}

/// Starts the sources for this operator.
fn start(
    world: &World,
    operator: OperatorIdentity,
    change: impl FnOnce(&mut SourceOptions),
) -> Run {
    let (feed, observations) = Feed::new(10_000, VirtualClock::server());
    let mut options =
        SourceOptions { lease: LeaseSelection::Off, ..SourceOptions::new(HashKey([0; 16])) };
    change(&mut options);

    Run { handle: Supervisor::start(world.cluster().beside(operator), options, feed), observations }
}

/// The operator of the widgets, whose own Pod exists.
fn world() -> World {
    let world = widget_operator();
    let owner = json!([{ "kind": "ReplicaSet", "name": "op-7c9d5b8f6", "controller": true }]);
    let pod = json!({
        "metadata": { "namespace": "op", "name": "op-7c9d5b8f6-x2x4z", "resourceVersion": "4",
            "labels": { "pod-template-hash": "7c9d5b8f6" }, "ownerReferences": owner },
        "spec": { "containers": [{ "name": "manager" }, { "name": "loopwatch" }] } });

    world.change(|state| {
        state.kinds.push(POD);
        state.objects.insert("pods", vec![pod]);
    });

    world
}

/// The number of Pods in each view of the operator.
fn views(seen: &[Observation]) -> Vec<(usize, usize)> {
    let view = |observation: &Observation| match observation {
        Observation::OperatorSeen(view) => {
            assert_eq!((view.namespace.as_str(), view.name.as_str()), ("op", "op"));

            Some((view.pods.len(), view.pods.iter().map(|pod| pod.containers.len()).sum()))
        }
        _ => None,
    };
    seen.iter().filter_map(view).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_permission_on_pods_is_used_after_the_next_review() {
    let world = world();
    let mut run = start(&world, own(), |_| {});
    let seen = run.within(5).await;
    let is_off =
        |o: &Observation| matches!(o, Observation::SourceOff { source: SourceId::Pods, .. });

    assert!(seen.iter().any(is_off), "{seen:?}");
    assert_eq!(views(&seen), [(1, 0)], "the environment says no more");

    let _ = world.clone().allow("op", &["list", "watch"], "", &["pods"]);
    let seen = run.within(120).await;

    assert_eq!(views(&seen), [(1, 1)]);
    assert!(seen.contains(&Observation::SourceRecovered { source: SourceId::Pods }), "{seen:?}");

    // Without the permission, the watch is refused, which is not a lasting failure.
    world.change(|state| state.rules.remove("op"));
    world.cut();

    let seen = run.within(700).await;
    let of_pods = |o: &&Observation| {
        matches!(o, Observation::SourceFailed { source: SourceId::Pods, .. }) || is_off(o)
    };

    assert!(seen.iter().rfind(of_pods).is_some_and(is_off), "{seen:?}");
    assert_eq!(views(&seen), [(1, 0)]);

    run.handle.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_pods_that_panics_is_restarted() {
    let world = world().allow("op", &["get"], "", &["pods"]);
    let mut run = start(&world, own(), |_| {});

    assert_eq!(views(&run.within(5).await), [(1, 1)]);

    world.change(|state| state.poisoned = Some("op-7c9d5b8f6-x2x4z".to_owned()));
    let seen = run.within(10).await;
    let failed =
        |o: &Observation| matches!(o, Observation::SourceFailed { source: SourceId::Pods, .. });

    assert!(seen.iter().any(failed), "{seen:?}");

    world.change(|state| state.poisoned = None);
    let seen = run.within(60).await;

    assert!(seen.contains(&Observation::SourceRecovered { source: SourceId::Pods }), "{seen:?}");
    assert_eq!(views(&seen), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_administrator_has_no_operator_unless_he_names_one() {
    for (operator, expected) in [(own(), false), (named(), true)] {
        let world = world().allow("", &["list", "watch"], "", &["pods"]);
        let mut run = start(&world, operator, |options| {
            options.discovery.select = Selection::EveryKindWithStatus
        });

        assert_eq!(!views(&run.within(5).await).is_empty(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_reads_the_pods_once_before_the_kinds() {
    let world = world().allow("", &["list", "watch"], "", &["pods"]);
    let mut run = start(&world, named(), |options| options.discovery.once = true);
    let seen = run.within(600).await;

    assert_eq!(views(&seen), [(1, 1)]);

    let position =
        |wanted: fn(&Observation) -> bool| seen.iter().position(wanted).expect("an observation");
    let operator = position(|o| matches!(o, Observation::OperatorSeen(_)));

    assert!(operator < position(|o| matches!(o, Observation::KindsDiscovered(_))), "{seen:?}");
}
