//! Levels of a signal that are normal, because earlier processes of the operator reached them and
//! came back, or stayed there.
//!
//! A daily ramp, a nightly batch and a heap that fills up to its limit look like leaks while they
//! rise. What tells them apart is that the same operator has been there before: a leak does not
//! come back.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The normal levels of one signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Levels {
    /// The number of the latest week in `highest`, counted from 1970.
    week: i64,
    /// The highest normal level of each week, the latest first, at most [`WEEKS`].
    highest: Vec<f32>,
    /// The latest hour with samples, counted from 1970.
    hour: i64,
    /// The number of hours with samples.
    hours: u32,
}

/// The way of a signal between low and high within one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Swing {
    /// The number of the current bucket and its lowest value; absent before the first sample.
    current: Option<(i64, f64)>,
    /// The lowest bucket since the signal last came back, and the highest after it.
    low: f64,
    peak: f64,
    /// The level that the signal holds, and the bucket since when.
    held: (f64, i64),
    begun: bool,
}

/// Weeks that are remembered: a batch at the end of the month comes back within five.
const WEEKS: usize = 5;

const WEEK: Span = Span::hours(7 * 24);

/// After this number of hours, the samples have shown every hour of a week.
const WHOLE: u32 = 7 * 24;

/// Shorter peaks are bursts. Trends look at minima, too.
const BUCKET: Span = Span::mins(5);

/// A level that a process holds for a day belongs to it: every hour of the day has passed.
const HELD_FOR: Span = Span::hours(24);

/// A rise of less than this share leaves the level where it is.
const SAME: f64 = 0.02;

impl Levels {
    /// Returns the highest normal level, if there is one.
    #[must_use]
    pub fn highest(&self) -> Option<f64> {
        self.highest.iter().copied().map(f64::from).filter(|level| *level > 0.0).reduce(f64::max)
    }

    /// Returns whether the samples cover a week, so that they have shown a day of work and a
    /// weekend.
    #[must_use]
    pub fn cover_a_week(&self) -> bool {
        self.hours >= WHOLE
    }

    /// Returns the levels of a checkpoint, which may be damaged or from a clock that was ahead;
    /// `None` if they cannot be used at `now`.
    #[must_use]
    pub fn restored(mut self, now: Timestamp) -> Option<Self> {
        let is_valid = self.highest.iter().all(|level| level.is_finite() && *level >= 0.0);
        let is_ahead = self.week > now.0.div_euclid(WEEK.0);
        self.highest.truncate(WEEKS);
        self.hours = self.hours.min(WHOLE);
        (is_valid && !is_ahead).then_some(self)
    }

    fn note(&mut self, at: Timestamp, level: f64) {
        let week = at.0.div_euclid(WEEK.0);
        let newer = usize::try_from(week.saturating_sub(self.week)).unwrap_or_default();
        if newer > 0 || self.highest.is_empty() {
            let kept = std::mem::take(&mut self.highest);
            let gap = newer.clamp(1, WEEKS);
            self.highest = std::iter::repeat_n(0.0, gap).chain(kept).take(WEEKS).collect();
            self.week = week;
        }

        #[expect(clippy::cast_possible_truncation, reason = "24 bits are precise enough")]
        self.highest.iter_mut().take(1).for_each(|highest| *highest = highest.max(level as f32));
    }

    fn note_hour(&mut self, at: Timestamp) {
        let hour = at.0.div_euclid(Span::hours(1).0);
        if hour != self.hour {
            (self.hour, self.hours) = (hour, self.hours.saturating_add(1).min(WHOLE));
        }
    }
}

impl Swing {
    /// Adds a sample, and notes the levels that turn out to be normal. `grows` tells whether the
    /// signal is suspected to grow without bound; a pause does not make its level normal.
    pub fn sample(&mut self, at: Timestamp, value: f64, grows: bool, levels: &mut Levels) {
        let bucket = at.0.div_euclid(BUCKET.0);
        match &mut self.current {
            Some((number, least)) if *number == bucket => *least = least.min(value),
            Some((number, least)) => {
                let (number, least) =
                    (std::mem::replace(number, bucket), std::mem::replace(least, value));
                levels.note_hour(at);
                self.complete(at, number, least, grows, levels);
            }
            None => self.current = Some((bucket, value)),
        }
    }

    fn complete(
        &mut self,
        at: Timestamp,
        bucket: i64,
        value: f64,
        grows: bool,
        levels: &mut Levels,
    ) {
        let has_risen = self.peak > self.low * (1.0 + SAME);
        if self.begun && has_risen && value <= self.low.midpoint(self.peak) {
            levels.note(at, self.peak);
            self.begun = false;
        }

        if !self.begun {
            (self.low, self.peak, self.held, self.begun) = (value, value, (value, bucket), true);
        }

        (self.low, self.peak) = (self.low.min(value), self.peak.max(value));
        if value > self.held.0 * (1.0 + SAME) {
            self.held = (value, bucket);
        }

        let held_for = bucket.saturating_sub(self.held.1).saturating_mul(BUCKET.0);
        if !grows && held_for >= HELD_FOR.0 {
            levels.note(at, self.peak);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the levels after a signal, a function of the hours, in two samples per bucket.
    fn after(hours: u32, grows: bool, value: impl Fn(f64) -> f64) -> Levels {
        let (mut levels, mut swing) = (Levels::default(), Swing::default());
        for step in 0..i64::from(hours) * 24 {
            let at = Timestamp(0).after(Span(step * BUCKET.0 / 2));
            swing.sample(at, value(step as f64 / 24.0), grows, &mut levels);
        }

        levels
    }

    #[test]
    fn a_level_is_normal_once_the_signal_has_come_back_from_it() {
        let day = |t: f64| 1000.0 - 400.0 * (std::f64::consts::TAU * t / 24.0).cos();
        assert_eq!(after(14, false, day).highest(), None, "still up");

        let known = after(20, false, day).highest().expect("it came back");
        assert!((known - 1400.0).abs() < 10.0, "{known}");
    }

    #[test]
    fn a_level_is_normal_once_a_process_has_held_it_for_a_day() {
        let fills = |t: f64| 200.0 + 60.0 * t.min(10.0);
        assert_eq!(after(30, false, fills).highest(), None);
        assert_eq!(after(36, false, fills).highest(), Some(800.0));
        assert_eq!(after(36, true, fills).highest(), None, "a pause of a leak");
    }

    #[test]
    fn a_leak_and_a_burst_are_never_normal() {
        assert_eq!(after(200, false, |t| 100.0 + 5.0 * t).highest(), None);

        let burst = |t: f64| if (t * 24.0).round() as i64 == 50 { 900.0 } else { 100.0 };
        assert_eq!(after(20, false, burst).highest(), None);
    }

    #[test]
    fn a_level_is_forgotten_after_five_weeks() {
        let mut levels = Levels::default();
        let week = |number: i64| Timestamp(0).after(Span(number * WEEK.0));
        levels.note(week(3), 900.0);
        levels.note(week(4), 500.0);

        assert_eq!(levels.highest(), Some(900.0));
        levels.note(week(7), 400.0);
        assert_eq!(levels.highest(), Some(900.0));
        levels.note(week(8), 400.0);
        assert_eq!(levels.highest(), Some(500.0));
        levels.note(week(90), 400.0);
        assert_eq!(levels.highest(), Some(400.0));
    }

    #[test]
    fn levels_that_are_damaged_or_of_the_future_are_not_restored() {
        let now = Timestamp(0).after(Span(10 * WEEK.0));
        let of =
            |week, highest: &[f32]| Levels { week, highest: highest.into(), hour: 0, hours: 0 };

        assert_eq!(of(10, &[1.0; 90]).restored(now), Some(of(10, &[1.0; WEEKS])));
        assert_eq!(of(11, &[1.0]).restored(now), None);
        assert_eq!(of(9, &[f32::INFINITY]).restored(now), None);
        assert_eq!(of(9, &[-1.0]).restored(now), None);
    }

    #[test]
    fn a_week_of_samples_is_enough() {
        assert!(!after(160, false, |_| 1.0).cover_a_week());
        assert!(after(170, false, |_| 1.0).cover_a_week());
    }
}
