use std::time::Duration;

use loopwatch_testbed::standin::{DEPLOYMENT, POD, World};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::sources::feed::Observations;
use crate::sources::testing::{InProcess as _, VirtualClock};

/// A running reader.
struct Run {
    task: JoinHandle<()>,
    observations: Observations,
    handle: PodsHandle,
}

impl Run {
    fn start(world: &World, identity: OperatorIdentity) -> Self {
        let (feed, observations) = Feed::new(1_000, VirtualClock::server());
        let (cluster, handle) = (world.cluster(), PodsHandle::default());
        let reader =
            PodsReader::new(cluster, identity, feed, Arc::default(), handle.clone(), false);

        Self { task: tokio::spawn(reader.run()), observations, handle }
    }

    async fn within(&mut self, seconds: u64) -> Vec<Observation> {
        sleep(Duration::from_secs(seconds)).await;
        assert!(!self.task.is_finished());

        std::iter::from_fn(|| self.observations.try_recv().map(|(_, observation)| observation))
            .collect()
    }

    /// Waits, and returns the last view.
    async fn view_within(&mut self, seconds: u64) -> OperatorView {
        view(&self.within(seconds).await)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn view(seen: &[Observation]) -> OperatorView {
    let view = |observation: &Observation| match observation {
        Observation::OperatorSeen(view) => Some((**view).clone()),
        _ => None,
    };

    seen.iter().rev().find_map(view).unwrap_or_else(|| panic!("no view: {seen:?}"))
}

fn off(seen: &[Observation]) -> String {
    let reason = |observation: &Observation| match observation {
        Observation::SourceOff { source: SourceId::Pods, reason } => Some(reason.clone()),
        _ => None,
    };

    seen.iter().rev().find_map(reason).unwrap_or_else(|| panic!("not off: {seen:?}"))
}

const OWN: &str = "op-5f6d8c7b9d-2xk4p";

/// A namespace with the operator of [`REAL`], another Pod of it, and a Pod of another program.
fn world() -> World {
    let world = World::new(&[POD, DEPLOYMENT]);
    let named = |name: &str, owner: &str| {
        let mut pod = real();
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["ownerReferences"][0]["name"] = json!(owner);
        pod
    };

    let pods = vec![
        real(),
        named("op-5f6d8c7b9d-other", "op-5f6d8c7b9d"),
        named("foreign", "web-5f6d8c7b9d"),
    ];
    let deployment = json!({ "metadata": { "namespace": "op", "name": "op", "generation": 1 },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "op" } } },
        "status": { "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 } });

    world.change(|state| {
        state.objects.insert("pods", pods);
        state.objects.insert("deployments", vec![deployment]);
    });

    world
}

fn names(view: &OperatorView) -> Vec<&str> {
    view.pods.iter().map(|pod| pod.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_account_that_may_watch_pods_sees_all_of_the_operator() {
    let world = world().allow("op", &["list", "watch"], "", &["pods"]).allow(
        "op",
        &["get"],
        "apps",
        &["deployments"],
    );

    let mut run = Run::start(&world, OperatorIdentity::Beside(own(OWN)));
    let seen = run.within(3).await;
    let view = view(&seen);

    assert_eq!((view.namespace.as_str(), view.name.as_str(), view.complete), ("op", "op", true));
    assert_eq!(names(&view), [OWN, "op-5f6d8c7b9d-other"]);
    assert_eq!(view.pods.iter().map(|pod| pod.own).collect::<Vec<_>>(), [true, false]);

    let workload = view.workload.expect("the Deployment");
    assert_eq!(
        (workload.kind.as_str(), workload.replicas, workload.rolling),
        ("Deployment", 2, false)
    );
    assert!(seen.contains(&Observation::SourceRecovered { source: SourceId::Pods }), "{seen:?}");

    let requests = world.change(|state| state.requests.clone());
    let watches: Vec<_> =
        requests.iter().filter(|request| request.starts_with("watch pods ")).collect();

    assert!(
        !watches.is_empty() && watches.iter().all(|watch| watch.contains("labelSelector=app%3Dop")),
        "{requests:?}"
    );
    assert!(world.change(|state| state.refused.is_empty()), "no request lacks a permission");

    let targets = run.handle.targets();
    assert_eq!(
        targets.borrow().iter().map(|target| target.instance.clone()).collect::<Vec<_>>().len(),
        2
    );

    // While nothing changes, the source reports nothing. It finds a change of the Deployment within
    // a minute.
    let views = |seen: Vec<Observation>| {
        seen.iter().filter(|o| matches!(o, Observation::OperatorSeen(_))).count()
    };

    assert_eq!(views(run.within(100).await), 0);

    world.change(|state| {
        state.objects.entry("deployments").and_modify(|all| all[0]["spec"]["replicas"] = json!(0));
    });

    assert_eq!(run.view_within(61).await.workload.map(|workload| workload.replicas), Some(0));

    world.change(|state| state.objects.insert("deployments", Vec::new()));
    let workload = run.view_within(61).await.workload.expect("the Deployment");

    assert_eq!(
        (workload.replicas, workload.rolling),
        (0, false),
        "a Deployment that is gone should have no Pods"
    );
    assert_eq!(views(run.within(61).await), 0);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_may_get_pods_sees_its_own() {
    let world = world().allow("op", &["get"], "", &["pods"]);
    let mut run = Run::start(&world, OperatorIdentity::Beside(own(OWN)));
    let seen = run.within(3).await;
    let first = view(&seen);

    assert_eq!((names(&first), first.name.as_str(), first.complete), (vec![OWN], "op", false));
    assert_eq!((first.workload, first.pods[0].containers[0].restarts), (None, 1));
    assert!(seen.contains(&Observation::SourceRecovered { source: SourceId::Pods }), "{seen:?}");
    assert_eq!(run.within(600).await, []);

    let refused = world.change(|state| state.refused.len());
    assert!(refused <= 3, "{refused} refused reads of the Deployment in ten minutes");

    let restarts = |number: u32| {
        let path = "/status/containerStatuses/1/restartCount";
        world.change(|state| {
            let pod = state.objects.get_mut("pods").and_then(|pods| pods[0].pointer_mut(path));
            *pod.expect("a status") = json!(number);
        });
    };

    restarts(2);
    assert_eq!(run.view_within(11).await.pods[0].containers[0].restarts, 2);

    // The source notices new and lost permissions when the supervisor reviews them.
    let _ = world.clone().allow("op", &["list", "watch"], "", &["pods"]);
    run.handle.review.notify_one();

    let all = run.view_within(3).await;
    assert_eq!((names(&all).len(), all.complete), (2, true));

    world.change(|state| state.rules.clear());
    run.handle.review.notify_one();

    let seen = run.within(3).await;
    assert!(off(&seen).contains("reader-rights"), "{seen:?}");
    assert!(view(&seen).pods[0].containers.is_empty(), "nothing is known any more");
}

#[tokio::test(start_paused = true)]
async fn without_permissions_the_environment_says_who_the_operator_is() {
    let mut run = Run::start(&world(), OperatorIdentity::Beside(own(OWN)));
    let seen = run.within(3).await;

    assert!(off(&seen).contains("may not get Pods in the namespace op"), "{seen:?}");

    let view = view(&seen);
    assert_eq!((view.namespace.as_str(), view.name.as_str(), view.complete), ("op", "op", false));
    assert_eq!((view.pods[0].own, view.pods[0].revision.hash.as_str()), (true, "5f6d8c7b9d"));
    assert_eq!(run.handle.targets().borrow()[0].instance, format!("op/{OWN}"));
    assert_eq!(run.within(500).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_readable_helps_even_without_pods() {
    let world = world().allow("op", &["get"], "apps", &["deployments"]);
    let mut run = Run::start(&world, OperatorIdentity::Beside(own(OWN)));
    let view = run.view_within(3).await;

    assert_eq!(view.workload.map(|workload| workload.replicas), Some(2));
    assert!(view.pods[0].containers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_operator_names_none() {
    let unnamed = OwnPod { is_told: false, ..own(OWN) };
    let mut run = Run::start(&world(), OperatorIdentity::Beside(unnamed.clone()));
    let seen = run.within(3).await;

    assert!(off(&seen).contains("does not know the operator"), "{seen:?}");
    assert!(!seen.iter().any(|o| matches!(o, Observation::OperatorSeen(_))), "{seen:?}");

    for verbs in [&["get"][..], &["list", "watch"]] {
        let world = world().allow("op", verbs, "", &["pods"]);
        world.change(|state| {
            let pods = state.objects.get_mut("pods").expect("Pods");
            pods[0]["spec"]["containers"] = json!([{ "name": "loopwatch" }]);
            pods[0]["spec"]["initContainers"] = json!([]);
        });

        let mut run = Run::start(&world, OperatorIdentity::Beside(unnamed.clone()));
        let seen = run.within(3).await;

        assert_eq!(off(&seen), NO_OPERATOR);
        assert!(!seen.iter().any(|o| matches!(o, Observation::OperatorSeen(_))), "{seen:?}");

        let mut run = Run::start(&world, OperatorIdentity::Beside(own("elsewhere-0")));
        assert!(off(&run.within(3).await).contains("no Pod elsewhere-0"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_operator_is_watched_from_outside() {
    let named = || {
        OperatorIdentity::Named(OperatorName { namespace: "op".to_owned(), name: "op".to_owned() })
    };
    let world = world().allow("op", &["list", "watch"], "", &["pods"]);
    let mut run = Run::start(&world, named());
    let view = run.view_within(3).await;

    assert_eq!(
        (names(&view).len(), view.complete),
        (2, true),
        "the owners tell, without the Deployment"
    );
    assert!(view.pods.iter().all(|pod| !pod.own));

    let world = self::world().allow("op", &["get"], "", &["pods"]).allow(
        "op",
        &["get"],
        "apps",
        &["deployments"],
    );

    let mut run = Run::start(&world, named());
    let seen = run.within(3).await;

    assert!(off(&seen).contains("may not list and watch Pods"), "{seen:?}");

    let view = self::view(&seen);
    assert_eq!((view.pods.len(), view.workload.is_some(), view.complete), (0, true, false));
}

/// A user may mistype the name of a workload. One that the census has found existed.
#[tokio::test(start_paused = true)]
async fn a_workload_that_was_there_before_the_start_counts_as_deleted() {
    let name = || OperatorName { namespace: "op".to_owned(), name: "op".to_owned() };
    let others = [("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")]
        .map(|(kind, resource)| ("apps", "v1", kind, resource, true, true));
    let world = World::new(&[POD, DEPLOYMENT, others[0], others[1]])
        .allow("op", &["list", "watch"], "", &["pods"])
        .allow("op", &["get"], "apps", &["deployments", "statefulsets", "daemonsets"]);

    for (identity, expected) in [
        (OperatorIdentity::Named(name()), None),
        (OperatorIdentity::Found(name()), Some((0, true))),
    ] {
        let mut run = Run::start(&world, identity);
        let workload = run.view_within(3).await.workload;
        assert_eq!(workload.map(|it| (it.replicas, it.deleted)), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_api_server_is_a_failure_and_no_accusation() {
    let world = world().allow("op", &["get"], "", &["pods"]);
    // The access reviews in this file name no namespace.
    world.change(|state| state.unreviewable = vec![""]);

    let mut run = Run::start(&world, OperatorIdentity::Beside(own(OWN)));
    let seen = run.within(3).await;
    let failed = |o: &Observation| {
        matches!(
            o,
            Observation::SourceFailed { source: SourceId::Pods, cause: Cause::ServerError, .. }
        )
    };

    assert!(seen.iter().any(failed), "{seen:?}");
    assert_eq!(view(&seen).name, "op", "the environment needs no API server");

    world.change(|state| state.unreviewable.clear());
    let seen = run.within(60).await;

    assert!(seen.contains(&Observation::SourceRecovered { source: SourceId::Pods }), "{seen:?}");
    assert_eq!(view(&seen).pods[0].containers.len(), 3);
}
