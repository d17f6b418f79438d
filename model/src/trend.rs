//! Trends: whether a signal of a process, such as its live heap, grows without bound.
//!
//! A [`Trend`] looks at a signal at four time scales: an hour, six hours, a day and four days. At
//! each scale, it keeps the minimum of every time bucket, because the minimum of a heap is what the
//! garbage collector could not free. Twelve times per window, it evaluates whether the minima rise
//! ([`statistics`]) and whether the rise matters ([`gates`]). Each positive result adds one to a
//! balance, each negative one subtracts one; a balance of three makes a trend suspected, six
//! confirmed.
//!
//! The longest scale has one point for each day: its lowest value. A leak under the wave of a
//! working day stays below yesterday's peak for days, but each night it starts from a higher level.
//!
//! If the number of objects that the operator holds is known, the trend looks at the signal without
//! their share. If the rise then disappears, the objects explain it.
//!
//! Within less than a day, a leak and a daily ramp look alike. So the shorter two scales count only
//! rises above the levels that are normal for the operator ([`levels`]), and growth that may have
//! another reason ([`Doubt`]) is suspected, but not confirmed.
//!
//! A gap in the samples drops the windows. What the trend says is then unknown; what stood before
//! the gap still stands ([`Trend::standing`]) until a whole window shows no more growth, or the
//! signal has lost half of its rise.
//!
//! A trend takes less than 3.5 KiB per signal, and allocates nothing after its creation.
//! `cargo bench --bench fleet` measures its false alarms and its lead times on a synthetic fleet.

mod statistics;
mod window;
mod gates;
mod tracked;
mod doubt;
mod forecast;
mod levels;

use self::doubt::Growth;
pub use self::doubt::{Doubt, Known};
pub use self::forecast::Forecast;
use self::gates::{Bounds, SIGNIFICANT};
pub use self::levels::{Levels, Swing};
use self::tracked::{CONFIRMED, Evaluation, Streak, Tracked};
use self::window::{History, Scale};
use crate::time::{Span, Timestamp};

/// A signal over time, and whether it grows without bound.
#[derive(Clone, Debug)]
pub struct Trend {
    config: TrendConfig,
    /// Samples before this instant belong to the start of the process and are ignored.
    settled: Timestamp,
    /// The lowest value since the start.
    lowest: f64,
    known: Known,
    scales: [Tracked; 4],
}

/// Which rises of a signal matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrendConfig {
    /// A rise over the window must be at least this large.
    pub rise_at_least: f64,
    /// … and at least this share of the lowest value since the start.
    pub rise_of_baseline: f64,
    /// … and at least this share of the capacity, if that is known.
    pub rise_of_capacity: f64,
    /// The rise must exhaust the capacity within the horizon of the scale. Without a known
    /// capacity, it must double the value within that time.
    pub must_exhaust: bool,
}

/// The conclusion of a trend about its signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrendVerdict {
    /// The conclusion.
    pub state: TrendState,
    /// The change per hour, without the share of the objects; absent while unknown.
    pub slope: Option<f64>,
    /// The length of the window that shows the trend best.
    pub window: Span,
    /// The rise over this window, without the share of the objects.
    pub rise: f64,
    /// The part of the whole rise that the objects account for.
    pub explained: f64,
    /// The number of objects added in the window minus those removed.
    pub objects: f64,
    /// When the rise began, as far as the windows show; absent for a steady signal.
    pub since: Option<Timestamp>,
    /// The time until the capacity is exhausted; absent if unknown, or if no exhaustion is
    /// foreseeable.
    pub exhaustion: Option<Span>,
}

/// The conclusion about a trend. The order is that of urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrendState {
    /// There are not enough samples yet.
    #[default]
    Unknown,
    /// No unbounded growth.
    Steady,
    /// It grows, and the number of objects accounts for the growth.
    GrowthExplained,
    /// It grows, with a balance of at least three evaluations.
    Suspected,
    /// It grows, with a balance of at least six evaluations.
    Confirmed,
}

/// The time scales. An hour shows leaks that exhaust the memory within a shift, a day those that
/// take a week. Buckets of one, five and twenty minutes make 60 to 72 points: enough for the tests,
/// and few enough to compare all pairs. The third scale keeps two windows, because the high-water
/// gate compares with the day before the window. Each window is evaluated twelve times, so that six
/// evaluations see half a window of new data. The last scale has four points only, one for each
/// day, and its evaluations count as three: a leak is suspected after four days and confirmed after
/// five. It compares with the week before, whose working days may have risen in the same way.
static SCALES: [Scale; 4] = [
    Scale {
        window: Span::hours(1),
        bucket: Span::mins(1),
        horizon: Span::hours(6),
        compared: DAY,
        stride: 5,
        weight: 1,
        significance: SIGNIFICANT,
        kept: 61,
    },
    Scale {
        window: Span::hours(6),
        bucket: Span::mins(5),
        horizon: Span::hours(36),
        compared: DAY,
        stride: 6,
        weight: 1,
        significance: SIGNIFICANT,
        kept: 73,
    },
    Scale {
        window: Span::hours(24),
        bucket: Span::mins(20),
        horizon: Span::hours(7 * 24),
        compared: DAY,
        stride: 6,
        weight: 1,
        significance: SIGNIFICANT,
        kept: 145,
    },
    Scale {
        window: Span::hours(4 * 24),
        bucket: DAY,
        horizon: Span::hours(14 * 24),
        compared: Span::hours(7 * 24),
        stride: 1,
        weight: 3,
        significance: 0.0,
        kept: 12,
    },
];

/// The scale that covers a day, and the one that compares days.
const OF_A_DAY: usize = 2;
const OF_DAYS: usize = 3;

const DAY: Span = Span::hours(24);

/// How long after its start a process is not judged, while informer caches fill and the runtime
/// warms up.
const HOLD_OFF: Span = Span::mins(30);

/// A level must exceed the normal one by this share of its distance from the lowest value, because
/// no two days are equal.
const ABOVE_NORMAL: f64 = 0.1;

impl TrendConfig {
    /// Memory, in bytes. 1.5 % of the limit is less than the random variation of garbage
    /// collectors.
    pub const MEMORY: Self = Self {
        rise_at_least: 1024.0 * 1024.0,
        rise_of_baseline: 0.0,
        rise_of_capacity: 0.015,
        must_exhaust: true,
    };

    /// Goroutines or threads: hardly any noise, but no capacity either, so the rise itself must be
    /// large.
    pub const TASKS: Self = Self {
        rise_at_least: 200.0,
        rise_of_baseline: 0.5,
        rise_of_capacity: 0.0,
        must_exhaust: false,
    };

    /// File descriptors. Operators hold a few dozen; their limit is often above a million and means
    /// nothing.
    pub const DESCRIPTORS: Self = Self {
        rise_at_least: 50.0,
        rise_of_baseline: 0.5,
        rise_of_capacity: 0.0,
        must_exhaust: false,
    };
}

impl Trend {
    /// Returns a trend without samples. `started` is the start of the process, or the current time
    /// if that is not known.
    #[must_use]
    pub fn new(config: TrendConfig, started: Timestamp) -> Self {
        let track = |scale| Tracked {
            history: History::new(scale),
            leaks: Streak::default(),
            explained: Streak::default(),
            last: None,
            dropped: false,
        };
        Self {
            config,
            settled: started.after(HOLD_OFF),
            lowest: f64::INFINITY,
            known: Known::default(),
            scales: SCALES.each_ref().map(track),
        }
    }

    /// Forgets everything, because another process started at `started`.
    pub fn restart(&mut self, started: Timestamp) {
        self.settled = started.after(HOLD_OFF);
        self.lowest = f64::INFINITY;
        self.scales.iter_mut().for_each(Tracked::clear);
    }

    /// Adjusts to a step of the samples' clock, so that no window is lost.
    pub fn clock_stepped(&mut self, by_ms: i64) {
        self.settled = self.settled.shifted(by_ms);
        for tracked in &mut self.scales {
            tracked.history.clock_stepped(by_ms);
            for streak in [&mut tracked.leaks, &mut tracked.explained] {
                streak.since = streak.since.map(|since| since.shifted(by_ms));
            }
        }
    }

    /// Judges the following samples by what is known besides them.
    pub fn judge_by(&mut self, known: Known) {
        self.known = known;
    }

    /// Returns whether samples at an instant count: not at the start of the process.
    #[must_use]
    pub fn has_settled(&self, at: Timestamp) -> bool {
        at >= self.settled
    }

    /// Adds a sample. `objects` is the number of objects that the operator holds, if it is known,
    /// and `capacity` the value at which something breaks. Samples that are not finite are ignored.
    pub fn sample(
        &mut self,
        at: Timestamp,
        value: f64,
        objects: Option<f64>,
        capacity: Option<f64>,
    ) {
        if !self.has_settled(at) || !value.is_finite() {
            return;
        }

        self.lowest = self.lowest.min(value);
        let level = value;
        #[expect(clippy::cast_possible_truncation, reason = "24 bits are precise enough")]
        let (value, covariate) = (value as f32, objects.map_or(f32::NAN, |objects| objects as f32));
        let mut due = [false; SCALES.len()];
        let covered = self.scales[OF_A_DAY].history.covered();

        for (due, tracked) in due.iter_mut().zip(&mut self.scales) {
            let had_window = tracked.history.window_begin().is_some();
            *due = tracked.history.add(at, value, covariate);
            if had_window && tracked.history.window_begin().is_none() {
                tracked.drop_window();
            }
            tracked.end_if_undone(level);
        }

        if covered > Span::ZERO && self.scales[OF_A_DAY].history.covered() == Span::ZERO {
            // The lowest value of this day may have been in the gap.
            due[OF_DAYS] = false;
            self.scales[OF_DAYS].history.clear();
            self.scales[OF_DAYS].drop_window();
        }

        for index in (0..due.len()).filter(|index| due[*index]) {
            self.evaluate(index, capacity);
        }
    }

    /// Returns the lowest value since the start, if there was any.
    #[must_use]
    pub fn lowest(&self) -> Option<f64> {
        Some(self.lowest).filter(|lowest| lowest.is_finite())
    }

    /// Returns the current conclusion: unknown if a gap has dropped the window of a standing one.
    #[must_use]
    pub fn verdict(&self) -> TrendVerdict {
        self.verdict_or_stale()
            .filter(|(_, is_stale)| !is_stale)
            .map_or_else(TrendVerdict::default, |(verdict, _)| verdict)
    }

    /// Returns the conclusion that stands, also after a gap.
    #[must_use]
    pub fn standing(&self) -> TrendVerdict {
        self.verdict_or_stale().map_or_else(TrendVerdict::default, |(verdict, _)| verdict)
    }

    /// Returns the conclusion that stands, and whether its window has been dropped since.
    fn verdict_or_stale(&self) -> Option<(TrendVerdict, bool)> {
        let known = self
            .scales
            .iter()
            .filter_map(|tracked| Some((tracked.standing(), tracked, tracked.last?)));

        // The most urgent conclusion wins; among equals one that is up to date, and then the
        // longest window, because its slope is the most exact.
        let (state, tracked, last) = known.max_by_key(|(state, tracked, _)| {
            (*state, !tracked.dropped, tracked.history.scale().window)
        })?;
        let streak =
            if state == TrendState::GrowthExplained { tracked.explained } else { tracked.leaks };
        let exhaustion = self
            .scales
            .iter()
            .filter(|tracked| tracked.standing() == state && state > TrendState::Steady);

        let exhaustion =
            exhaustion.filter_map(|tracked| tracked.last?.look.exhaustion).min_by(f64::total_cmp);
        let verdict = TrendVerdict {
            state,
            slope: Some(last.look.slope),
            window: tracked.history.scale().window,
            rise: last.look.rise,
            explained: last.explained,
            objects: last.objects,
            since: streak.since.filter(|_| state > TrendState::Steady),
            exhaustion: exhaustion.map(hours),
        };

        Some((verdict, tracked.dropped))
    }

    fn evaluate(&mut self, index: usize, capacity: Option<f64>) {
        let coefficient = self.coefficient(index);
        let (history, long) =
            (&self.scales[index].history, &self.scales[index.max(OF_A_DAY)].history);
        if history.window_begin().is_none() {
            return;
        }

        let look = |coefficient| {
            let bounds = Bounds { config: &self.config, capacity, lowest: self.lowest };
            gates::look(history, long, coefficient, &bounds)
        };
        let Some(raw) = look(0.0) else { return };
        let rest = if coefficient > 0.0 { look(coefficient) } else { Some(raw) };
        let Some(rest) = rest else { return };
        let level = gates::last_quarter(history);

        let since = history.window_start();
        let objects = history.covariate_rise();
        let is_new = self.is_above_normal(index, level);
        let window = history.scale().window;
        let growth = Growth {
            since: self.scales[index].leaks.since.unwrap_or(since),
            until: since.after(window),
            level,
            slope: rest.slope,
            level_at: since.after(Span(window.0 - window.0 / 8)),
        };
        let (started, doubt) = (self.settled.before(HOLD_OFF), self.known.doubt);
        // The days of a working week may rise one by one.
        let is_certain = doubt == Doubt::None
            || (index != OF_DAYS && doubt.is_removed_by(&growth, self.lowest, started));
        let most = if is_certain { CONFIRMED } else { CONFIRMED - 1 };

        let tracked = &mut self.scales[index];
        let (begin, weight) = (raw.begin, tracked.history.scale().weight);
        tracked.leaks.step(rest.passed && is_new, weight, (since, begin), level, most);
        let is_explained = raw.passed && !rest.passed && is_new;
        tracked.explained.step(is_explained, weight, (since, begin), level, CONFIRMED);
        tracked.dropped = false;
        tracked.last = Some(Evaluation { look: rest, explained: raw.rise - rest.rise, objects });
    }

    /// Returns whether a level is higher than what is normal for the operator. The scales of a day
    /// and more need no comparison, because they show a whole day.
    fn is_above_normal(&self, index: usize, level: f64) -> bool {
        let margin = |normal: f64| ABOVE_NORMAL * (normal - self.lowest).max(0.0);
        index >= OF_A_DAY || self.known.normal.is_none_or(|normal| level > normal + margin(normal))
    }

    /// Returns how much of the signal one object accounts for: learned from two days of history if
    /// available, otherwise from the window itself.
    fn coefficient(&self, index: usize) -> f64 {
        let (long, window) = (&self.scales[OF_A_DAY].history, &self.scales[index].history);
        let history = if long.covered() >= SCALES[1].window { long } else { window };
        if !window.has_covariate() || !long.has_covariate() {
            return 0.0;
        }

        let items = history.complete();
        statistics::coefficient(items.map(|(x, bucket)| {
            (f64::from(x), f64::from(bucket.value), f64::from(bucket.covariate))
        }))
    }
}

/// Returns a time span of that many hours, at most a hundred years.
#[expect(clippy::cast_possible_truncation, reason = "clamped")]
pub(crate) fn hours(hours: f64) -> Span {
    Span((hours.clamp(0.0, 876_600.0) * 3_600_000.0) as i64)
}

impl TrendState {
    /// All states, in order.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Steady, Self::GrowthExplained, Self::Suspected, Self::Confirmed];

    /// Returns the value of the `verdict` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Steady => "steady",
            Self::GrowthExplained => "growth_explained",
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
        }
    }
}

#[cfg(test)]
mod tests;
