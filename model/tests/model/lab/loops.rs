//! The control loops of the operator, as its metrics show them.

use loopwatch_model::observation::{ControllerView, Durations, MetricsView};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::pods::INSTANCE;
use super::{Lab, unlearned};

/// A controller that is scraped every ten seconds, and changes between the scrapes.
pub struct Loop {
    pub lab: Lab,
    pub view: ControllerView,
}

/// The faults of a controller, each with the finding that it causes.
pub const FAULTS: [(&str, Fault); 5] = [
    ("ReconcileFailing", fails),
    ("ReconcileStuck", hangs),
    ("WorkersSaturated", is_busy),
    ("QueueBacklog", is_flooded),
    ("InformerNotSynced", never_begins),
];

impl Loop {
    /// Returns a healthy controller that has been scraped twice.
    pub fn new() -> Self {
        Self::with(unlearned())
    }

    pub fn with(settings: Settings) -> Self {
        let view = ControllerView {
            name: "widget".into(),
            succeeded: Some(1_000),
            failed: Some(5),
            requeued: Some(0),
            panicked: Some(0),
            reconcile_seconds: Some(Durations { count: 1_005, sum: 100.0 }),
            workers_busy: Some(0),
            workers_max: Some(1),
            queue_depth: Some(0),
            longest_running_seconds: Some(0.0),
            ..ControllerView::default()
        };

        let mut new = Self { lab: Lab::with(settings), view };
        new.run(20, |_| {});
        new.lab.assert_no_findings();
        new
    }

    /// Advances by seconds, with a change before each scrape.
    pub fn run(&mut self, seconds: i64, mut change: impl FnMut(&mut ControllerView)) {
        for _ in 0..seconds / 10 {
            self.lab.advance(Span::secs(10));
            change(&mut self.view);
            self.lab.scrape(INSTANCE, self.view.clone());
        }
    }

    pub fn assert_found(&self, code: &str) {
        assert_eq!(self.lab.findings(), [format!("{code} controller widget")]);
    }
}

/// Adds to a counter.
pub fn add(counter: &mut Option<u64>, by: u64) {
    *counter = Some(counter.unwrap_or(0) + by);
}

/// Scrapes requests to the API server, by status code, every ten seconds.
pub fn requests(
    lab: &mut Lab,
    seconds: i64,
    counts: &mut Vec<(String, u64)>,
    per_scrape: &[(&str, u64)],
) {
    for _ in 0..seconds / 10 {
        lab.advance(Span::secs(10));
        for (code, by) in per_scrape {
            match counts.iter_mut().find(|(known, _)| known == code) {
                Some((_, count)) => *count += by,
                None => counts.push(((*code).to_owned(), *by)),
            }
        }

        let requests = counts.clone();
        lab.scraped(MetricsView { instance: INSTANCE.into(), requests, ..MetricsView::default() });
    }
}

/// A change of a controller between two scrapes.
pub type Fault = fn(&mut ControllerView);

pub fn fails(view: &mut ControllerView) {
    add(&mut view.failed, 1);
}

pub fn hangs(view: &mut ControllerView) {
    view.longest_running_seconds = view.longest_running_seconds.map(|running| running + 10.0);
    (view.workers_busy, view.queue_depth) = (Some(1), Some(3));
}

pub fn is_busy(view: &mut ControllerView) {
    add(&mut view.succeeded, 1);
    (view.workers_busy, view.queue_depth) = (Some(1), Some(3));
}

pub fn is_flooded(view: &mut ControllerView) {
    add(&mut view.succeeded, 1);
    view.queue_depth = Some(view.queue_depth.unwrap_or(0) + 600);
}

pub fn never_begins(view: &mut ControllerView) {
    (view.succeeded, view.failed, view.workers_busy, view.queue_depth) =
        (Some(0), Some(0), Some(0), Some(2));
}
