//! The process of the operator, as its metrics and the kernel show it.

use loopwatch_model::finding::{Finding, FindingCode};
use loopwatch_model::observation::{MetricsView, Observation, Probe, ProcessView, Runtime};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::pods::{INSTANCE, Op};
use super::{Lab, START, unlearned};

pub const MIB: f64 = 1024.0 * 1024.0;

/// An operator with one Pod, whose metrics are scraped every thirty seconds.
pub struct Process {
    pub lab: Lab,
    pub started: Timestamp,
    /// Whether it leads, by its metrics.
    pub leading: Option<bool>,
    noise: u64,
    pub probes: Vec<(Timestamp, Probe)>,
}

impl Process {
    pub fn new() -> Self {
        Self::with(unlearned())
    }

    pub fn with(settings: Settings) -> Self {
        let mut process = Self {
            lab: Lab::with(settings),
            started: START,
            leading: None,
            noise: 7,
            probes: Vec::new(),
        };
        process.see_pod(0);
        process
    }

    pub fn see_pod(&mut self, restarts: u32) {
        let mut op = Op::running(&self.lab);
        (op.container().restarts, op.container().memory_limit) = (restarts, Some(256 << 20));
        op.seen(&mut self.lab);
    }

    /// Another process takes the place of the last one.
    pub fn restart(&mut self) {
        self.started = self.lab.now;
    }

    /// The kernel shows the process, with memory of its own, but without a heap or goroutines.
    pub fn see_process(&mut self, started: Timestamp) {
        let process = ProcessView {
            instance: INSTANCE.to_owned(),
            started: Some(started),
            resident: Some(220 << 20),
            threads: Some(9),
            ..ProcessView::default()
        };
        self.lab.observe(Observation::ProcessSeen(Box::new(process)));
    }

    /// Scrapes for this number of hours; `change` sets the signals, given the hours since the call.
    pub fn run(&mut self, hours: f64, change: impl Fn(f64, &mut ProcessView)) -> &mut Self {
        self.run_every(Span::secs(30), hours, change)
    }

    /// Scrapes at another interval.
    pub fn run_every(
        &mut self,
        interval: Span,
        hours: f64,
        change: impl Fn(f64, &mut ProcessView),
    ) -> &mut Self {
        let begin = self.lab.now;
        while self.lab.now.since(begin).seconds() < hours * 3600.0 {
            self.lab.now = self.lab.now.after(interval);
            let mut process = self.process();
            change(self.lab.now.since(begin).seconds() / 3600.0, &mut process);

            let view = MetricsView {
                instance: INSTANCE.to_owned(),
                process,
                leading: self.leading,
                ..MetricsView::default()
            };
            self.lab.observe(Observation::MetricsScraped(Box::new(view)));

            let now = self.lab.now;
            self.probes.extend(
                self.lab.model.probes().into_iter().filter(is_profile).map(|probe| (now, probe)),
            );
        }

        self
    }

    /// Runs with a live heap, in MiB.
    pub fn heap(&mut self, hours: f64, live: impl Fn(f64) -> f64) -> &mut Self {
        self.run(hours, |t, process| set_heap(process, live(t)))
    }

    /// A healthy process.
    pub fn process(&mut self) -> ProcessView {
        self.noise = self
            .noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let noise = self.noise >> 44; // up to a mebibyte
        let mut process = ProcessView {
            instance: INSTANCE.to_owned(),
            started: Some(self.started),
            runtime: Runtime::Go,
            gc_percent: Some(100),
            goroutines: Some(120 + noise % 7),
            open_fds: Some(20 + noise % 3),
            max_fds: Some(1024),
            ..ProcessView::default()
        };

        set_heap(&mut process, 40.0 + noise as f64 / MIB);
        process
    }

    pub fn finding(&self, code: FindingCode) -> Option<Finding> {
        self.lab.snapshot().findings.into_iter().find(|finding| finding.code == code)
    }

    pub fn codes(&self) -> Vec<FindingCode> {
        self.lab.snapshot().findings.iter().map(|finding| finding.code).collect()
    }
}

fn is_profile(probe: &Probe) -> bool {
    matches!(probe, Probe::Profile { .. })
}

pub fn set_heap(process: &mut ProcessView, live: f64) {
    let bytes = |mib: f64| Some((mib * MIB) as u64);
    (process.live_heap, process.heap_goal, process.resident) =
        (bytes(live), bytes(2.0 * live), bytes(2.0 * live + 20.0));
}
