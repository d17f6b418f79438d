//! The gates that a rise must pass before it counts as a trend.
//!
//! A statistical test is not enough: the Mann-Kendall test alone finds a trend in every healthy
//! process within a week. The precision comes from the gates, above all from the time to exhaustion
//! and the comparison with the day before.

use super::TrendConfig;
use super::statistics::{Line, MAX_POINTS, Point, line, median, quantile};
use super::window::History;
use crate::time::Span;

/// The statistic above which a rise is not chance: approximately one in a thousand. Machida (2013)
/// shows that no such test suffices, because healthy processes have trends, too.
pub(super) const SIGNIFICANT: f64 = 3.0;

/// The share of the rise that one quarter of the window may contribute. A larger one is a step, not
/// a trend. A steady rise contributes a third in each. With 0.65 here and 0.35 below, the
/// benchmark's hard fleet has twice as many false alarms.
const STEP_SHARE: f64 = 0.6;

/// The minimum rise of each quarter as a share of the whole rise, where the points are too few for a
/// statistical test: half of the share of a steady rise.
const LEAST_SHARE: f64 = 1.0 / 6.0;

/// The minimum rise of the last quarter as a share of that of the first. Anything lower is a
/// warm-up that saturates.
const SATURATED_SHARE: f64 = 0.5;

/// The minimum rise as a multiple of the spread around the line, as in the three-sigma rule.
const SPREADS: f64 = 3.0;

/// The quantile of the time before the window that the end of the window must exceed.
const HIGH_WATER: f64 = 0.99;

/// With less history than this, the comparison means little, so the exhaustion must be nearer by
/// [`HASTE`].
const HISTORY: Span = Span::hours(4);
const HASTE: f64 = 3.0;

/// The result of one evaluation of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// The rise per hour.
    pub(super) slope: f64,
    /// The rise from the first quarter of the window to the last.
    pub(super) rise: f64,
    /// The median of the first quarter.
    pub(super) begin: f64,
    /// The time until the capacity is exhausted, in hours; absent without a capacity or a rise.
    pub(super) exhaustion: Option<f64>,
    /// The rise passed all gates.
    pub(super) passed: bool,
}

/// What a rise is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'a> {
    pub(super) config: &'a TrendConfig,
    /// The value at which something breaks, if it is known.
    pub(super) capacity: Option<f64>,
    /// The lowest value since the start.
    pub(super) lowest: f64,
}

/// Evaluates a full window without the covariate's share. Returns `None` if too many of its buckets
/// are empty. `long` holds the time before the window.
pub(super) fn look(
    history: &History,
    long: &History,
    coefficient: f64,
    bounds: &Bounds<'_>,
) -> Option<Look> {
    let mut points = [Point::default(); MAX_POINTS];
    let count = history.window(coefficient, &mut points);
    let points = &points[..count];

    if count < history.scale().points() * 9 / 10 {
        return None;
    }

    let line = line(points)?;
    let hours = history.scale().bucket.seconds() / 3600.0;
    let slope = line.slope / hours;
    let quarters = quarters(points);
    let (begin, rise) = (quarters[0], quarters[3] - quarters[0]);
    let level = if coefficient > 0.0 { last_quarter(history) } else { quarters[3] };
    let exhaustion =
        bounds.capacity.filter(|_| slope > 0.0).map(|capacity| (capacity - level).max(0.0) / slope);

    let passed = is_no_chance(&line, &quarters, history.scale().significance)
        && has_shape(&quarters)
        && is_material(rise, &line, bounds)
        && is_high_water(history, long, coefficient, points, &line)
        && exhausts_in_time(history, long, level, slope, bounds);

    Some(Look { slope, rise, begin, exhaustion, passed })
}

/// Returns the medians of the quarters of the window.
fn quarters(points: &[Point]) -> [f64; 4] {
    let quarter = points.len().div_ceil(4).max(1);
    let mut medians = [0.0; 4];
    for (median_of, part) in medians.iter_mut().zip(points.chunks(quarter)) {
        let mut values = [0_f32; MAX_POINTS];
        let values = &mut values[..part.len()];
        values.iter_mut().zip(part).for_each(|(value, (_, y))| *value = *y);
        *median_of = median(values);
    }

    medians
}

/// Returns the median of the last quarter of the window, with the covariate's share.
pub(super) fn last_quarter(history: &History) -> f64 {
    let mut points = [Point::default(); MAX_POINTS];
    let count = history.window(0.0, &mut points);
    quarters(&points[..count])[3]
}

/// Returns whether the rise is no chance: by the statistical test, or because each point is clearly
/// higher than the one before.
fn is_no_chance(line: &Line, quarters: &[f64; 4], significance: f64) -> bool {
    let least = LEAST_SHARE * (quarters[3] - quarters[0]);
    let rises = || quarters.windows(2).all(|pair| pair[1] - pair[0] >= least);
    if significance > 0.0 { line.significance > significance } else { least > 0.0 && rises() }
}

/// Returns whether the rise has the shape of a trend: in every quarter, neither in one step nor
/// saturating.
fn has_shape(quarters: &[f64; 4]) -> bool {
    let rise = quarters[3] - quarters[0];
    let steps = [quarters[1] - quarters[0], quarters[2] - quarters[1], quarters[3] - quarters[2]];
    steps.iter().all(|step| *step >= 0.0 && *step <= STEP_SHARE * rise)
        && steps[2] >= SATURATED_SHARE * steps[0]
}

/// Returns whether the rise is large compared with the noise, and large enough to matter.
fn is_material(rise: f64, line: &Line, bounds: &Bounds<'_>) -> bool {
    let config = bounds.config;
    let of_capacity = bounds.capacity.map_or(0.0, |capacity| config.rise_of_capacity * capacity);
    let least = config.rise_at_least.max(config.rise_of_baseline * bounds.lowest).max(of_capacity);
    rise >= least.max(SPREADS * line.spread)
}

/// Returns whether the end of the window is higher than the time before the window ever was, which
/// is always so with little history.
fn is_high_water(
    history: &History,
    long: &History,
    coefficient: f64,
    points: &[Point],
    line: &Line,
) -> bool {
    let recent = points[points.len() - points.len() / 4..]
        .iter()
        .map(|(_, y)| *y)
        .fold(f32::INFINITY, f32::min);
    let end = history.window_start();
    let mut earlier = [0_f32; 2 * MAX_POINTS];
    let mut count = 0;

    for (at, bucket) in long.complete_with_time() {
        let is_before =
            at.after(long.scale().bucket) <= end && end.since(at) <= history.scale().compared;
        if let Some(slot) = earlier.get_mut(count).filter(|_| is_before) {
            *slot = bucket.less(coefficient);
            count += 1;
        }
    }

    count == 0
        || f64::from(recent) > quantile(&mut earlier[..count], HIGH_WATER) + SPREADS * line.spread
}

/// Returns whether the capacity will be exhausted within the horizon of the scale.
fn exhausts_in_time(
    history: &History,
    long: &History,
    level: f64,
    slope: f64,
    bounds: &Bounds<'_>,
) -> bool {
    if !bounds.config.must_exhaust {
        return true;
    }

    // Without a known limit, doubling counts as exhaustion.
    let remaining = bounds.capacity.map_or(level, |capacity| capacity - level);
    let horizon = history.scale().horizon.seconds() / 3600.0;
    let before = long.covered().0 - history.scale().window.0;
    let horizon = if before < HISTORY.0 { horizon / HASTE } else { horizon };

    remaining <= slope * horizon
}
