//! The recent past of an instance, for charts.

use std::collections::VecDeque;

use crate::observation::{ControllerView, MetricsView, ProcessView};
use crate::snapshot::{RECENT_POINTS, RecentPoint};
use crate::time::{Span, Timestamp};

/// One point for each half minute, so that the points cover an hour.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    points: VecDeque<RecentPoint>,
    /// The counts of the last scrape of the point before the newest one.
    earlier: Option<Counts>,
    /// The counts of the last scrape.
    latest: Option<Counts>,
}

/// The reconciles of all controllers of an instance since its start.
#[derive(Clone, Copy, Debug)]
struct Counts {
    at: Timestamp,
    reconciles: u64,
    failures: u64,
}

/// The time between two points.
const EVERY: Span = Span::secs(30);

impl Recent {
    /// Takes a scrape.
    pub(crate) fn scraped(&mut self, now: Timestamp, view: &MetricsView) {
        let latest = Counts::of(now, &view.controllers);
        if self.is_due(now) {
            self.earlier = self.latest;
        }

        let rates =
            latest.zip(self.earlier).and_then(|(latest, earlier)| latest.rates_since(&earlier));
        self.latest = latest;

        let depths = view.controllers.iter().filter_map(|controller| controller.queue_depth);
        let queue_depth = depths.reduce(u64::saturating_add).map(clamped);
        let point = self.point(now);
        (point.reconciles, point.failures) = rates.unzip();
        point.queue_depth = queue_depth;
    }

    /// Takes a reading of the process.
    pub(crate) fn process_seen(&mut self, now: Timestamp, process: &ProcessView) {
        let point = self.point(now);
        point.memory =
            process.live_heap.or(process.anonymous).or(process.resident).or(point.memory);
        point.tasks = process.goroutines.or(process.threads).map(clamped).or(point.tasks);
    }

    /// Returns the points, oldest first.
    pub(crate) fn points(&self) -> impl Iterator<Item = RecentPoint> {
        self.points.iter().copied()
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let counts = self.earlier.iter_mut().chain(&mut self.latest).map(|counts| &mut counts.at);
        self.points
            .iter_mut()
            .map(|point| &mut point.at)
            .chain(counts)
            .for_each(|at| *at = at.shifted(by_ms));
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.points.back().is_none_or(|last| now.since(last.at) >= EVERY)
    }

    /// Returns the current point. Adds one if it is due.
    fn point(&mut self, now: Timestamp) -> &mut RecentPoint {
        if self.is_due(now) {
            if self.points.len() >= RECENT_POINTS {
                self.points.pop_front();
            }
            self.points.push_back(RecentPoint { at: now, ..RecentPoint::default() });
        }

        let last = self.points.len() - 1; // there is at least one now
        &mut self.points[last]
    }
}

impl Counts {
    /// Returns the sums over all controllers; `None` if none of them counts its reconciles.
    fn of(at: Timestamp, controllers: &[ControllerView]) -> Option<Self> {
        let sum = |count: fn(&ControllerView) -> Option<u64>| {
            controllers.iter().filter_map(count).reduce(u64::saturating_add)
        };
        let (succeeded, failures) = (sum(|c| c.succeeded), sum(|c| c.failed));
        let reconciles = succeeded.into_iter().chain(failures).reduce(u64::saturating_add)?;

        Some(Self { at, reconciles, failures: failures.unwrap_or(0) })
    }

    /// Returns reconciles and failures per second; `None` if the counters began anew.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a chart needs few digits"
    )]
    fn rates_since(&self, earlier: &Self) -> Option<(f32, f32)> {
        let seconds = self.at.since(earlier.at).seconds();
        let reconciles = self.reconciles.checked_sub(earlier.reconciles)?;
        let failures = self.failures.checked_sub(earlier.failures)?;
        (seconds > 0.0)
            .then(|| ((reconciles as f64 / seconds) as f32, (failures as f64 / seconds) as f32))
    }
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_767_225_600_000).after(Span::secs(seconds))
    }

    fn scrape(succeeded: u64, failed: u64, depth: u64) -> MetricsView {
        let controller = ControllerView {
            name: "widget".to_owned(),
            succeeded: Some(succeeded),
            failed: Some(failed),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        MetricsView { controllers: vec![controller], ..MetricsView::default() }
    }

    #[test]
    fn a_point_holds_the_rates_since_the_point_before() {
        let mut recent = Recent::default();
        for (second, succeeded) in [(0, 100), (10, 120), (20, 140), (30, 160), (40, 460)] {
            recent.scraped(at(second), &scrape(succeeded, succeeded / 20, 3));
        }

        let points: Vec<RecentPoint> = recent.points().collect();
        assert_eq!(points.len(), 2, "{points:?}");
        assert_eq!(points[0].reconciles, None, "the counts of one scrape show no rate");
        assert_eq!(
            points[1].reconciles,
            Some(336.0 / 20.0),
            "320 successes and 16 failures in 20 s"
        );
        assert_eq!((points[1].failures, points[1].queue_depth), (Some(0.8), Some(3)));
    }

    #[test]
    fn a_restarted_process_has_no_rate() {
        let mut recent = Recent::default();
        recent.scraped(at(0), &scrape(1_000, 0, 0));
        recent.scraped(at(30), &scrape(5, 0, 0));

        assert_eq!(recent.points().last().and_then(|point| point.reconciles), None);
    }

    #[test]
    fn only_an_hour_is_kept() {
        let mut recent = Recent::default();
        for second in 0..100_000 {
            recent.scraped(at(second), &scrape(1, 0, 0));
        }

        assert_eq!(recent.points().count(), RECENT_POINTS);
    }
}
