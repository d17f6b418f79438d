//! The operator itself: its Pods, its lease and its metrics.

use loopwatch_model::observation::{
    Cause, ContainerEnd, ContainerView, ControllerView, Framework, LeaseView, MetricsView,
    Observation, OperatorView, OperatorWorkload, PodView, Revision,
};
use loopwatch_model::time::{Span, Timestamp};

use super::Lab;

pub const OPERATOR: &str = "widget-operator";
/// The finding that the operator is down.
pub const DOWN: &str = "OperatorDown operator ops/widget-operator";
/// The operator's first Pod. `INSTANCE` is the name of its instance.
pub const POD: &str = "widget-operator-7d9f8c6b5-x2x4v";
pub const INSTANCE: &str = "ops/widget-operator-7d9f8c6b5-x2x4v";
/// The operator's second Pod, if it has one.
pub const OTHER_POD: &str = "widget-operator-7d9f8c6b5-zzzzz";
pub const OTHER: &str = "ops/widget-operator-7d9f8c6b5-zzzzz";

/// The operator as its Pods, its lease and its metrics show it.
#[derive(Clone)]
pub struct Op {
    pub view: OperatorView,
    /// How the container ends.
    pub exit_code: i32,
    /// Its last words.
    pub says: String,
}

impl Op {
    /// Returns an operator with one Pod that has run for an hour. loopwatch sees all Pods.
    pub fn running(lab: &Lab) -> Self {
        let started = lab.ago(Span::hours(1));
        let pod = pod(POD, started);
        let workload = OperatorWorkload {
            kind: "Deployment".into(),
            replicas: 1,
            ..OperatorWorkload::default()
        };
        let view = OperatorView {
            namespace: "ops".into(),
            name: OPERATOR.into(),
            workload: Some(workload),
            pods: vec![pod],
            complete: true,
            ..OperatorView::default()
        };

        Self { view, exit_code: 2, says: String::new() }
    }

    /// Returns a lab with a healthy operator and a converged object.
    pub fn with_lab() -> (Lab, Self) {
        let mut lab = Lab::new();
        let op = Self::running(&lab);
        op.seen(&mut lab);
        lab.converged("web");
        lab.run_with_lease(POD, 10);
        lab.assert_no_findings();

        (lab, op)
    }

    /// Returns a lab in which loopwatch sees the operator's lease and metrics, but not its Pods.
    pub fn with_lab_without_pods() -> Lab {
        let mut lab = Lab::new();
        let mut op = Self::running(&lab);
        (op.view.workload, op.view.complete) = (None, false);
        op.view.pods.clear();
        op.seen(&mut lab);
        lab.converged("web");
        lab.run_with_lease(POD, 10);
        lab.scrape(INSTANCE, ControllerView::default());

        lab.assert_no_findings();
        lab
    }

    /// Somebody scales the operator to zero.
    pub fn stop(&mut self, lab: &mut Lab) {
        self.view.pods.clear();
        self.workload().replicas = 0;
        self.seen(lab);
    }

    /// loopwatch sees the Pods as they are.
    pub fn seen(&self, lab: &mut Lab) {
        lab.observe(Observation::OperatorSeen(Box::new(self.view.clone())));
    }

    pub fn container(&mut self) -> &mut ContainerView {
        &mut self.view.pods[0].containers[0]
    }

    pub fn workload(&mut self) -> &mut OperatorWorkload {
        self.view.workload.get_or_insert_with(Default::default)
    }

    /// The container ends, and waits for its restart.
    pub fn crash(&mut self, lab: &mut Lab, reason: &str) {
        let (now, exit_code) = (lab.now, self.exit_code);
        let started = self.container().running_since.take();
        let (reason, finished) = (reason.into(), Some(now));
        let message = self.says.clone();
        let end = ContainerEnd { reason, exit_code, started, finished, message };
        let container = self.container();

        (container.ended, container.ready) = (Some(end), false);
        container.waiting = "CrashLoopBackOff".into();
        self.seen(lab);
    }

    /// The kubelet restarts the container.
    pub fn restart(&mut self, lab: &mut Lab) {
        let now = lab.now;
        let container = self.container();
        container.restarts += 1;
        container.waiting.clear();
        (container.running_since, container.ready) = (Some(now), true);
        self.seen(lab);
    }

    /// The container runs for 20 s, ends, and waits.
    pub fn crash_loop(&mut self, lab: &mut Lab, times: u32, reason: &str) {
        for _ in 0..times {
            self.crash(lab, reason);
            lab.advance(Span::mins(4));
            self.restart(lab);
            lab.advance(Span::secs(20));
        }

        self.crash(lab, reason);
    }
}

/// Returns a Pod whose container has run since it was created.
pub fn pod(name: &str, started: Timestamp) -> PodView {
    let container = ContainerView {
        name: "manager".into(),
        ready: true,
        running_since: Some(started),
        memory_limit: Some(128 << 20),
        ..ContainerView::default()
    };

    let hash = name.rsplit('-').nth(1).unwrap_or_default().to_owned();
    PodView {
        name: name.into(),
        uid: format!("uid-{name}"),
        created: Some(started),
        phase: "Running".into(),
        revision: Revision { hash, ..Revision::default() },
        containers: vec![container],
        ..PodView::default()
    }
}

impl Lab {
    /// The operator renews its lease.
    pub fn renew(&mut self, holder: &str) {
        self.renewed_ago(holder, None, Span::ZERO);
    }

    /// loopwatch sees the operator's lease, which the holder renewed some time ago, and had
    /// acquired some time before that.
    pub fn renewed_ago(&mut self, holder: &str, led: Option<Span>, ago: Span) {
        let renewed = self.ago(ago);
        let lease = LeaseView {
            namespace: "ops".into(),
            name: "6ab5f5a3.example.io".into(),
            holder: format!("{holder}_6f1c"),
            acquired: led.map(|led| renewed.before(led)),
            renewed: Some(renewed),
            written: Some(renewed),
            duration: Some(Span::secs(15)),
            ..LeaseView::default()
        };

        self.observe(Observation::LeaseSeen(lease));
        let names = vec!["6ab5f5a3.example.io".to_owned()];
        self.observe(Observation::LeasesListed { namespace: "ops".into(), names });
    }

    /// Advances by minutes; the holder renews its lease four times in each.
    pub fn run_with_lease(&mut self, holder: &str, minutes: i64) {
        for _ in 0..minutes * 4 {
            self.advance(Span::secs(15));
            self.renew(holder);
        }
    }

    /// A scrape of one controller succeeds.
    pub fn scrape(&mut self, instance: &str, controller: ControllerView) {
        let view = MetricsView {
            instance: instance.into(),
            framework: Framework::ControllerRuntime,
            controllers: vec![controller],
            ..MetricsView::default()
        };
        self.scraped(view);
    }

    pub fn scraped(&mut self, view: MetricsView) {
        self.observe(Observation::MetricsScraped(Box::new(view)));
    }

    pub fn scrape_fails(&mut self, instance: &str, cause: Cause) {
        self.observe(Observation::ScrapeFailed {
            instance: instance.into(),
            cause,
            detail: String::new(),
        });
    }
}
