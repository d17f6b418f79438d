//! The recent history of a signal: the minimum of each time bucket, in a ring buffer.

use super::statistics::Point;
use crate::time::{Span, Timestamp};

/// A time scale at which to look for trends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The length of the window.
    pub(super) window: Span,
    /// The length of a bucket.
    pub(super) bucket: Span,
    /// A leak that would take longer than this to exhaust the capacity does not count at this
    /// scale.
    pub(super) horizon: Span,
    /// How much of the time before the window its end is compared with.
    pub(super) compared: Span,
    /// The number of buckets between two evaluations.
    pub(super) stride: i64,
    /// How much one evaluation adds to the balance, or takes from it.
    pub(super) weight: u8,
    /// The statistic above which a rise is not chance; zero where the points are too few for it, so
    /// that each of them must be higher than the one before.
    pub(super) significance: f64,
    /// The number of buckets that are kept: those of the window, and earlier ones.
    pub(super) kept: usize,
}

/// The minima of the buckets, oldest first. The newest is not complete.
#[derive(Clone, Debug)]
pub(super) struct History {
    scale: &'static Scale,
    buckets: Box<[Bucket]>,
    /// The position of the oldest bucket in `buckets`, and the number of buckets.
    first: u16,
    len: u16,
    /// The number of the newest bucket according to the history's own clock, which never steps.
    newest: i64,
    /// The samples' clock minus the history's own, in milliseconds.
    shift: i64,
}

/// A bucket. Its value is NaN if it has no sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) value: f32,
    /// NaN if it is not known.
    pub(super) covariate: f32,
}

const EMPTY: Bucket = Bucket { value: f32::NAN, covariate: f32::NAN };

impl Scale {
    /// Returns the number of buckets of the window.
    pub(super) const fn points(&self) -> usize {
        (self.window.0 / self.bucket.0).unsigned_abs() as usize
    }
}

impl History {
    pub(super) fn new(scale: &'static Scale) -> Self {
        Self {
            scale,
            buckets: vec![EMPTY; scale.kept].into(),
            first: 0,
            len: 0,
            newest: 0,
            shift: 0,
        }
    }

    pub(super) fn scale(&self) -> &'static Scale {
        self.scale
    }

    pub(super) fn clear(&mut self) {
        (self.first, self.len) = (0, 0);
    }

    /// Adjusts to a step of the samples' clock.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.shift = self.shift.saturating_add(by_ms);
    }

    /// Adds a sample. Returns whether the window should be evaluated, because buckets were
    /// completed. A gap of more than a twelfth of the window drops everything before it, because
    /// nobody knows what happened in the gap.
    pub(super) fn add(&mut self, at: Timestamp, value: f32, covariate: f32) -> bool {
        let number = at.0.saturating_sub(self.shift).div_euclid(self.scale.bucket.0);
        let step = if self.len == 0 { 0 } else { number.saturating_sub(self.newest) };
        if step < 0 {
            return false;
        }

        let dropped = step * self.scale.bucket.0 > self.scale.window.0 / 12 + self.scale.bucket.0;
        if self.len == 0 || dropped {
            self.clear();
            self.newest = number;
            self.push(Bucket { value, covariate });
            return false;
        }

        if step == 0 {
            let newest = self.newest_mut();
            newest.value = newest.value.min(value);
            newest.covariate = covariate;
            return false;
        }

        for _ in 1..step {
            self.push(EMPTY);
        }

        self.push(Bucket { value, covariate });
        let stride = self.scale.stride;
        let due = number.div_euclid(stride) != self.newest.div_euclid(stride);
        self.newest = number;

        due
    }

    /// Returns the complete buckets, oldest first, each with its position.
    pub(super) fn complete(&self) -> impl Iterator<Item = (f32, Bucket)> + Clone {
        let complete = self.len.saturating_sub(1);
        (0..complete)
            .map(|index| (f32::from(index), self.at(index)))
            .filter(|(_, bucket)| !bucket.value.is_nan())
    }

    /// Returns the position of the first bucket of the window, or `None` if the window is not full
    /// yet. The buckets before it are the time before the window.
    pub(super) fn window_begin(&self) -> Option<f32> {
        let begin = usize::from(self.len).checked_sub(1 + self.scale.points())?;
        Some(f32::from(u16::try_from(begin).unwrap_or(u16::MAX)))
    }

    /// Writes the points of the window to `points`, each value reduced by the covariate's share,
    /// and returns their number.
    pub(super) fn window(&self, coefficient: f64, points: &mut [Point]) -> usize {
        let begin = self.window_begin().unwrap_or(f32::INFINITY);
        let buckets = self
            .complete()
            .filter(|(x, _)| *x >= begin)
            .map(|(x, bucket)| (x - begin, bucket.less(coefficient)));
        let mut count = 0;

        for (point, bucket) in points.iter_mut().zip(buckets) {
            *point = bucket;
            count += 1;
        }

        count
    }

    /// Returns the complete buckets, oldest first, each with the instant at which it begins.
    pub(super) fn complete_with_time(&self) -> impl Iterator<Item = (Timestamp, Bucket)> {
        self.complete().map(|(x, bucket)| (self.time_of(x), bucket))
    }

    /// Returns the instant at which the window begins.
    pub(super) fn window_start(&self) -> Timestamp {
        self.time_of(self.window_begin().unwrap_or(0.0))
    }

    /// Returns by how much the covariate has risen over the window; zero if it is not known.
    pub(super) fn covariate_rise(&self) -> f64 {
        let begin = self.window_begin().unwrap_or(f32::INFINITY);
        let mut window = self
            .complete()
            .filter(|(x, _)| *x >= begin)
            .map(|(_, bucket)| f64::from(bucket.covariate));
        let (first, last) = (window.next(), window.last());

        first
            .zip(last)
            .map(|(first, last)| last - first)
            .filter(|rise| rise.is_finite())
            .unwrap_or_default()
    }

    /// Returns whether the covariate of every complete bucket is known.
    pub(super) fn has_covariate(&self) -> bool {
        self.complete().all(|(_, bucket)| !bucket.covariate.is_nan())
    }

    /// Returns the time that the complete buckets cover.
    pub(super) fn covered(&self) -> Span {
        Span(self.scale.bucket.0 * i64::from(self.len.saturating_sub(1)))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most three digits")]
    fn time_of(&self, position: f32) -> Timestamp {
        let back = i64::from(self.len) - 1 - position as i64;
        Timestamp(
            (self.newest - back).saturating_mul(self.scale.bucket.0).saturating_add(self.shift),
        )
    }

    fn at(&self, index: u16) -> Bucket {
        let position = (usize::from(self.first) + usize::from(index)) % self.buckets.len();
        self.buckets[position]
    }

    fn newest_mut(&mut self) -> &mut Bucket {
        let position = (usize::from(self.first) + usize::from(self.len) - 1) % self.buckets.len();
        &mut self.buckets[position]
    }

    fn push(&mut self, bucket: Bucket) {
        if usize::from(self.len) < self.buckets.len() {
            self.len += 1;
        } else {
            self.first = (self.first + 1) % u16::try_from(self.buckets.len()).unwrap_or(u16::MAX);
        }

        *self.newest_mut() = bucket;
    }
}

impl Bucket {
    /// Returns the value without the share that the covariate accounts for.
    #[expect(clippy::cast_possible_truncation, reason = "values are stored with this precision")]
    pub(super) fn less(&self, coefficient: f64) -> f32 {
        if coefficient > 0.0 {
            (f64::from(self.value) - coefficient * f64::from(self.covariate)) as f32
        } else {
            self.value
        }
    }
}
