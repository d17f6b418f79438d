//! Counts of events within a sliding window.

use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// Counts within a sliding window, in parts of about [`GRAIN`].
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The beginning of each part, and its count.
    counts: VecDeque<(Timestamp, u64)>,
    /// When anything was last counted.
    latest: Option<Timestamp>,
}

/// The length of the parts of a [`Window`] from five minutes to an hour long.
const GRAIN: Span = Span::secs(30);

/// The minimum number of parts of a [`Window`], so that it forgets only a little at a time.
const MIN_PARTS: i64 = 10;

/// Returns a part as a percentage of the whole; zero if nothing was counted. Counters come from the
/// operator, so that they may be as large as the type allows.
pub(super) fn percentage(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// The maximum number of parts of a [`Window`].
const MAX_PARTS: i64 = 120;

/// The maximum number of counts in a [`Window`].
const MAX_COUNTS: usize = 128;

impl Window {
    /// Adds a count, and forgets counts older than `keep`.
    pub(super) fn add(&mut self, now: Timestamp, count: u64, keep: Span) {
        let from = now.before(keep);
        while self.counts.front().is_some_and(|(at, _)| *at <= from)
            || self.counts.len() >= MAX_COUNTS
        {
            self.counts.pop_front();
        }

        if count == 0 {
            return;
        }

        self.latest = Some(now);
        let grain = Span(GRAIN.0.min(keep.0 / MIN_PARTS).max(keep.0 / MAX_PARTS));
        match self.counts.back_mut().filter(|(at, _)| now.since(*at) < grain) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.counts.push_back((now, count)),
        }
    }

    /// Returns the sum of the counts since `from`.
    pub(super) fn since(&self, from: Timestamp) -> u64 {
        self.counts
            .iter()
            .filter(|(at, _)| *at >= from)
            .fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns the sum of all counts.
    pub(super) fn sum(&self) -> u64 {
        self.since(Timestamp(i64::MIN))
    }

    /// Returns the number of parts with counts.
    pub(super) fn parts(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn first(&self) -> Option<Timestamp> {
        self.counts.front().map(|(at, _)| *at)
    }

    /// Returns when anything was last counted within the window.
    pub(super) fn last(&self) -> Option<Timestamp> {
        self.latest.filter(|_| !self.counts.is_empty())
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let began = self.counts.iter_mut().map(|(at, _)| at);
        began.chain(&mut self.latest).for_each(|at| *at = at.shifted(by_ms));
    }
}
