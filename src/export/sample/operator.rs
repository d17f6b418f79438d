//! The operator of the sample: one Pod, whose memory grows.

use std::sync::Arc;

use loopwatch_model::observation::{
    ContainerView, ControllerView, Durations, Framework, MetricsView, OperatorView,
    OperatorWorkload, PodView, ProcessView, Revision, Runtime,
};
use loopwatch_model::snapshot::{
    InstanceSummary, OperatorHealth, OperatorSummary, RECENT_POINTS, RecentPoint,
};
use loopwatch_model::time::Span;

use super::ago;

const NAMESPACE: &str = "db-system";
const POD: &str = "db-operator-7c9d5f6b8d-x2x4v";

/// The operator, its Pod and its process.
pub(super) fn operator() -> OperatorSummary {
    let revision = Revision {
        hash: "7c9d5f6b8d".to_owned(),
        version: "1.4.2".to_owned(),
        image: "registry.example.io/db-operator:1.4.2".to_owned(),
    };
    let container = ContainerView {
        name: "manager".to_owned(),
        ready: true,
        running_since: Some(ago(Span::hours(30))),
        restarts: 1,
        memory_limit: Some(512 << 20),
        ..ContainerView::default()
    };

    let pod = PodView {
        name: POD.to_owned(),
        uid: "1b671a64-40d5-491e-99b0-da01ff1f3341".to_owned(),
        own: true,
        created: Some(ago(Span::hours(30))),
        phase: "Running".to_owned(),
        revision,
        containers: vec![container],
        ..PodView::default()
    };

    let view = OperatorView {
        namespace: NAMESPACE.to_owned(),
        name: "db-operator".to_owned(),
        workload: Some(OperatorWorkload {
            kind: "Deployment".to_owned(),
            replicas: 1,
            ..OperatorWorkload::default()
        }),
        pods: vec![pod],
        complete: true,
        ..OperatorView::default()
    };

    let name = format!("{NAMESPACE}/{POD}");
    let process = process(&name);
    let metrics = MetricsView {
        instance: name.clone(),
        framework: Framework::ControllerRuntime,
        controllers: vec![controller("backup", 41, 9), controller("database", 48_211, 17)],
        requests: vec![
            ("200".to_owned(), 120_411),
            ("409".to_owned(), 12),
            ("<error>".to_owned(), 3),
        ],
        leading: Some(true),
        process: process.clone(),
        series: 1_840,
        bytes: 210_000,
        took: Span(12),
        ..MetricsView::default()
    };

    let metrics = Some((ago(Span::secs(4)), Arc::new(metrics)));
    let instance =
        InstanceSummary { name, metrics, process, recent: recent(), ..InstanceSummary::default() };
    let health = OperatorHealth {
        up: Some(true),
        recovery: Some(Span::secs(95)),
        recovering_since: None,
        led_elsewhere: None,
    };

    OperatorSummary {
        revision: view.pods[0].revision.clone(),
        view: Some(Arc::new(view)),
        previous_revision: Some("5f6d8c7b9d".to_owned()),
        framework: Framework::ControllerRuntime,
        health,
        down_signs: Vec::new(),
        instances: vec![instance],
    }
}

fn controller(name: &str, succeeded: u64, failed: u64) -> ControllerView {
    ControllerView {
        name: name.to_owned(),
        succeeded: Some(succeeded),
        failed: Some(failed),
        requeued: Some(succeeded / 10),
        panicked: Some(0),
        reconcile_seconds: Some(Durations { count: succeeded + failed, sum: 1_234.5 }),
        reconcile_buckets: vec![(0.1, succeeded), (1.0, succeeded + failed)],
        workers_busy: Some(1),
        workers_max: Some(4),
        queue_depth: Some(failed),
        queue_adds: Some(succeeded + failed),
        queue_retries: Some(failed),
        queue_seconds: Some(Durations { count: succeeded + failed, sum: 61.25 }),
        unfinished_seconds: Some(0.5),
        longest_running_seconds: Some(0.25),
    }
}

fn process(instance: &str) -> ProcessView {
    ProcessView {
        instance: instance.to_owned(),
        pid: Some(7),
        started: Some(ago(Span::hours(30))),
        runtime: Runtime::Go,
        cpu_seconds: Some(841.2),
        cpu_limit: Some(0.5),
        cpu_periods: Some(90_400),
        cpu_throttled_periods: Some(1_210),
        cpu_throttled_seconds: Some(63.5),
        resident: Some(310 << 20),
        anonymous: Some(270 << 20),
        working_set: Some(288 << 20),
        memory_limit: Some(512 << 20),
        live_heap: Some(121 << 20),
        heap_goal: Some(243 << 20),
        runtime_limit: Some(460 << 20),
        gc_percent: Some(100),
        gc_cycles: Some(9_120),
        gc_limited_cycle: Some(0),
        goroutines: Some(412),
        threads: Some(14),
        open_fds: Some(38),
        max_fds: Some(1_048_576),
        memory_pressure: Some(0.25),
        oom_kills: Some(0),
        ..ProcessView::default()
    }
}

/// An hour in which the memory grows, the queue has one peak, and one scrape fails.
fn recent() -> Vec<RecentPoint> {
    let point = |number: usize| {
        let minutes = u32::try_from(number).unwrap_or(0);
        let busy = (50..70).contains(&number);
        let failed = number == 90;
        RecentPoint {
            at: ago(Span::secs(30 * (RECENT_POINTS - number) as i64)),
            reconciles: (!failed).then_some(if busy { 21.5 } else { 4.25 }),
            failures: (!failed).then_some(if busy { 0.5 } else { 0.0 }),
            queue_depth: (!failed).then_some(if busy { 40 + minutes } else { 2 }),
            memory: (!failed).then_some((100 << 20) + (u64::from(minutes) << 18)),
            tasks: (!failed).then_some(400 + minutes / 10),
        }
    };
    (0..RECENT_POINTS).map(point).collect()
}
