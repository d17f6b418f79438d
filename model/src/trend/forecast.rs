//! The last-minute rule: memory that will exceed its limit within hours if it keeps growing as in
//! the last hour.

use super::gates::SIGNIFICANT;
use super::window::{History, Scale};
use crate::time::{Span, Timestamp};

/// One hour, as in the alert rules of the kubernetes-mixin, whose `predict_linear` this rule
/// follows.
const HOUR: Scale = Scale {
    window: Span::hours(1),
    bucket: Span::mins(1),
    horizon: Span::hours(4),
    compared: Span::ZERO,
    stride: 1,
    weight: 1,
    significance: SIGNIFICANT,
    kept: 61,
};

/// How many minutes in a row must forecast exhaustion. A quarter of an hour outlasts a burst of
/// work.
const MINUTES: u8 = 15;

/// The share of the limit that must be in use. Below it, bursts of a healthy operator would also
/// forecast exhaustion.
const USED: f64 = 0.75;

/// A straight line through the last hour of a signal.
#[derive(Clone, Debug)]
pub struct Forecast {
    history: History,
    /// Minutes in a row in which the forecast exceeded the capacity.
    minutes: u8,
    exhaustion: Option<Span>,
}

impl Default for Forecast {
    fn default() -> Self {
        Self { history: History::new(&HOUR), minutes: 0, exhaustion: None }
    }
}

impl Forecast {
    /// Adds a sample of memory. `capacity` is the value at which its limit is reached, if it is
    /// known.
    pub fn sample(&mut self, at: Timestamp, value: f64, capacity: Option<f64>) {
        #[expect(clippy::cast_possible_truncation, reason = "24 bits are precise enough")]
        let due = self.history.add(at, value as f32, f32::NAN);
        let near = capacity.filter(|capacity| value >= USED * capacity);
        let has_window = self.history.window_begin().is_some();

        // After a gap, a forecast stands until the next window is full, if the memory is still
        // close to its limit.
        let stands = self.exhaustion().is_some() && near.is_some();
        let Some(capacity) = capacity.filter(|_| has_window) else {
            if !stands {
                (self.minutes, self.exhaustion) = (0, None);
            }
            return;
        };
        if !due {
            return;
        }

        self.exhaustion =
            self.time_to(capacity).filter(|span| *span <= HOUR.horizon && near.is_some());
        self.minutes = if self.exhaustion.is_some() { self.minutes.saturating_add(1) } else { 0 };
    }

    /// Returns the time until the capacity is exhausted, if that has been the forecast for a
    /// quarter of an hour.
    #[must_use]
    pub fn exhaustion(&self) -> Option<Span> {
        self.exhaustion.filter(|_| self.minutes >= MINUTES)
    }

    /// Forgets everything, because another process runs.
    pub fn clear(&mut self) {
        self.history.clear();
        (self.minutes, self.exhaustion) = (0, None);
    }

    /// Adjusts to a step of the samples' clock.
    pub fn clock_stepped(&mut self, by_ms: i64) {
        self.history.clock_stepped(by_ms);
    }

    /// Returns when the least squares line through the last hour reaches the capacity; `None` if it
    /// falls.
    fn time_to(&self, capacity: f64) -> Option<Span> {
        let points =
            || self.history.complete().map(|(x, bucket)| (f64::from(x), f64::from(bucket.value)));
        let (n, x, y) = points()
            .fold((0.0, 0.0, 0.0), |sum, point| (sum.0 + 1.0, sum.1 + point.0, sum.2 + point.1));
        let (x, y) = (x / n, y / n);
        let (mut xx, mut xy, mut last) = (0.0, 0.0, 0.0);

        for point in points() {
            xx += (point.0 - x).powi(2);
            xy += (point.0 - x) * (point.1 - y);
            last = point.0;
        }

        let slope = xy / xx;
        let minutes = (capacity - (y + slope * (last - x))) / slope;
        #[expect(clippy::cast_possible_truncation, reason = "at most a year")]
        let span = || Span((minutes.clamp(0.0, 525_600.0) * 60_000.0) as i64);

        (slope > 0.0 && minutes.is_finite()).then(span)
    }
}
