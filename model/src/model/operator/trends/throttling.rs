//! CPU throttling: the container of the operator uses up its CPU limit in many periods, and waits
//! for the next period each time. Many healthy containers do, so it matters only if work waits.

use crate::model::operator::history::STALE_AFTER;
use crate::model::operator::trends::signals::{CpuPeriods, Signals};
use crate::model::operator::window::{Window, percentage};
use crate::observation::Durations;
use crate::settings::Settings;
use crate::time::{Span, Timestamp};

/// The throttling of a process, and how long objects wait in its queues meanwhile.
#[derive(Debug, Default)]
pub(super) struct Throttling {
    /// The last reading of the kernel.
    counted: Option<CpuPeriods>,
    /// When the counts began. Before they cover a window, they show nothing.
    began: Option<Timestamp>,
    periods: Window,
    throttled: Window,
    /// The waits in all queues at the last scrape.
    queued: Option<Durations>,
    /// The objects that left a queue, and for how many milliseconds all of them had waited.
    taken: Window,
    waited: Window,
    /// Since when a large share of the periods has been throttled.
    pub(super) since: Option<Timestamp>,
    /// It has lasted for long enough. From then on, it ends only at half the share.
    stands: bool,
}

/// The window over which the share of throttled periods is measured, as in the alert
/// `CPUThrottlingHigh` of the kubernetes-mixin.
pub(super) const WINDOW: Span = Span::mins(5);

/// The smallest number of periods in the window that shows anything. Of the 3,000 periods of 100 ms
/// in the window, only those count in which the operator wanted to run.
const FEWEST: u64 = 100;

impl Throttling {
    pub(super) fn sample(&mut self, now: Timestamp, signals: &Signals, settings: &Settings) {
        self.note_waits(now, signals.queued);

        let Some(cpu) =
            signals.cpu.filter(|cpu| self.counted.is_none_or(|known| cpu.at > known.at))
        else {
            return;
        };

        self.count(now, cpu);
        self.judge(now, settings);
    }

    /// Returns the percentage of periods that were throttled.
    pub(super) fn percent(&self) -> u64 {
        percentage(self.throttled.sum(), self.periods.sum())
    }

    /// Returns for how long the objects waited that left the queues within the window, on average.
    pub(super) fn mean_wait(&self) -> Option<Span> {
        let waited = self.waited.sum().checked_div(self.taken.sum())?;
        Some(Span(i64::try_from(waited).unwrap_or(i64::MAX)))
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let read = self.counted.iter_mut().map(|counted| &mut counted.at);
        read.chain(&mut self.began).chain(&mut self.since).for_each(|at| *at = at.shifted(by_ms));

        let windows = [&mut self.periods, &mut self.throttled, &mut self.taken, &mut self.waited];
        windows.into_iter().for_each(|window| window.clock_stepped(by_ms));
    }

    /// Counts the periods since the last reading. After a gap, or if the counters began anew, it
    /// starts again.
    fn count(&mut self, now: Timestamp, cpu: CpuPeriods) {
        let earlier = self.counted.replace(cpu);
        let new =
            earlier.filter(|earlier| cpu.at.since(earlier.at) <= STALE_AFTER).and_then(|earlier| {
                let periods = cpu.periods.checked_sub(earlier.periods)?;
                Some((periods, cpu.throttled.checked_sub(earlier.throttled)?.min(periods)))
            });

        let Some((periods, throttled)) = new else {
            (self.periods, self.throttled) = Default::default();
            self.began = Some(now);
            return;
        };

        self.periods.add(now, periods, WINDOW);
        self.throttled.add(now, throttled, WINDOW);
    }

    fn judge(&mut self, now: Timestamp, settings: &Settings) {
        if self.began.is_none_or(|began| now.since(began) < WINDOW) {
            // A finding that is open stays open until the counts show something again.
            self.since = self.since.filter(|_| self.stands);
            return;
        }

        let percent = match self.stands {
            true => settings.throttled_percent / 2,
            false => settings.throttled_percent,
        };
        let is_high = self.periods.sum() >= FEWEST && self.percent() >= u64::from(percent);
        self.since = is_high.then(|| self.since.unwrap_or(now));
        self.stands = self.since.is_some_and(|since| now.since(since) >= settings.throttled_after);
    }

    /// Counts the objects that have left the queues since the last scrape.
    fn note_waits(&mut self, now: Timestamp, queued: Option<Durations>) {
        let earlier = std::mem::replace(&mut self.queued, queued);
        let new = earlier.zip(queued).and_then(|(earlier, queued)| {
            let taken = queued.count.checked_sub(earlier.count)?;
            Some((taken, milliseconds(queued.sum - earlier.sum)))
        });

        let (taken, waited) = new.unwrap_or_default();
        self.taken.add(now, taken, WINDOW);
        self.waited.add(now, waited, WINDOW);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).max(0.0) as u64
}
