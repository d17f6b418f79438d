//! The operator's Pods, lease and metrics.

use loopwatch_model::observation::{
    Cause, ContainerEnd, ContainerView, ControllerView, Durations, LeaseView, MetricsView,
    ObjectAddress, Observation, OperatorView, OperatorWorkload, PodView, ProcessView, SourceId,
};
use loopwatch_model::time::{Span, Timestamp};

use super::RandomWorld;

impl RandomWorld {
    /// Returns an instant within the last two hours, perhaps.
    fn earlier(&mut self) -> Option<Timestamp> {
        let ago = Span(self.dice.roll(7_200_000).cast_signed());
        (!self.dice.one_in(4)).then(|| self.world.lab.ago(ago))
    }

    fn some_operator(&mut self) -> OperatorView {
        let pods = (0..self.dice.roll(3)).map(|number| self.some_pod(number + 2)).collect();
        let workload = (!self.dice.one_in(3)).then(|| OperatorWorkload {
            replicas: self.dice.roll(3) as u32,
            recreates: self.dice.one_in(3),
            rolling: self.dice.one_in(3),
            ..OperatorWorkload::default()
        });

        OperatorView {
            namespace: "ops".into(),
            name: "widget-operator".into(),
            workload,
            pods,
            complete: self.dice.one_in(2),
            ..OperatorView::default()
        }
    }

    fn some_pod(&mut self, number: u64) -> PodView {
        let ended = self.dice.one_in(2).then(|| ContainerEnd {
            reason: self.dice.pick(&["Error", "OOMKilled", "Completed"]).into(),
            exit_code: self.dice.roll(3) as i32,
            started: self.earlier(),
            finished: self.earlier(),
        });

        let container = ContainerView {
            running_since: if self.dice.one_in(2) { None } else { self.earlier() },
            restarts: self.dice.roll(8) as u32,
            ended,
            ..ContainerView::default()
        };

        PodView {
            name: format!("widget-operator-1-{number}"),
            uid: self.dice.roll(4).to_string(),
            own: self.dice.one_in(6),
            created: self.earlier(),
            deleted: if self.dice.one_in(6) { self.earlier() } else { None },
            containers: if self.dice.one_in(9) { Vec::new() } else { vec![container] },
            ..PodView::default()
        }
    }

    fn some_metrics(&mut self, instance: String) -> MetricsView {
        let mut number = |most: u64| (!self.dice.one_in(5)).then(|| self.dice.roll(most));
        let longest = [f64::NAN, f64::INFINITY, -5.0, 3.0, 4_000.0];
        let controllers = ["widget", "gadget"].map(|name| ControllerView {
            name: name.into(),
            succeeded: number(3),
            failed: number(9),
            panicked: number(2),
            workers_busy: number(3),
            workers_max: number(3),
            queue_depth: number(2_000),
            longest_running_seconds: number(5).map(|index| longest[index as usize]),
            reconcile_seconds: number(2)
                .map(|count| Durations { count, sum: longest[count as usize] }),
            ..ControllerView::default()
        });

        let codes = ["200", "403", "500", "<error>", "409"]
            .map(|code| (code.to_owned(), number(60).unwrap_or(0)));
        let leading = number(2).map(|leads| leads == 1);
        let process = ProcessView { started: self.earlier(), ..ProcessView::default() };
        let (controllers, requests) = (controllers.into(), codes.into());

        MetricsView { instance, controllers, requests, leading, process, ..MetricsView::default() }
    }
}

/// Something happens to the lease of the operator, or to its source.
pub fn change_lease(random: &mut RandomWorld, _: &ObjectAddress) {
    let (namespace, name) = ("ops".to_owned(), "example.io".to_owned());
    let source = SourceId::Lease;
    let observation = match random.dice.roll(8) {
        0 => Observation::LeaseGone { namespace, name },
        1 => Observation::SourceFailed { source, cause: Cause::Forbidden, detail: String::new() },
        2 => Observation::SourceOff { source, reason: String::new() },
        3 => Observation::LeasesListed { namespace, names: Vec::new() },
        4 => Observation::LeasesListed { namespace, names: vec![name] },
        _ => {
            let holder = if random.dice.one_in(5) { "" } else { "widget-operator-1-2_3" };
            let (renewed, written) = (Some(random.now()), Some(random.now()));
            Observation::LeaseSeen(LeaseView {
                namespace,
                name,
                holder: holder.into(),
                renewed,
                written,
                ..LeaseView::default()
            })
        }
    };

    random.tell(observation);
}

/// Something happens to the operator, or to a source that shows it.
pub fn change_operator(random: &mut RandomWorld, _: &ObjectAddress) {
    let instances = ["ops/widget-operator-1-2", "ops/widget-operator-1-3", "127.0.0.1:8080"];
    let instance = random.dice.pick(&instances).to_owned();
    let source = random.dice.pick(&[SourceId::Pods, SourceId::Metrics, SourceId::Process]);
    let cause = random.dice.pick(&[Cause::Refused, Cause::Timeout, Cause::Forbidden]);
    let detail = String::new();

    let observation = match random.dice.roll(12) {
        0..=3 => Observation::OperatorSeen(Box::new(random.some_operator())),
        4..=6 => Observation::MetricsScraped(Box::new(random.some_metrics(instance))),
        7 => Observation::ScrapeFailed { instance, cause, detail },
        8 => Observation::ProcessSeen(Box::new(ProcessView {
            instance,
            pid: Some(random.dice.roll(9) as u32),
            started: random.earlier(),
            ..ProcessView::default()
        })),
        9 => Observation::ProcessGone { instance },
        10 => Observation::SourceFailed { source, cause, detail },
        _ => Observation::SourceRecovered { source },
    };

    random.tell(observation);
}
