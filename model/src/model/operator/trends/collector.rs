//! Garbage collection thrash: the heap has reached the limit of the runtime, which collects again
//! and again to stay below it.

use crate::model::operator::trends::signals::Signals;
use crate::time::{Span, Timestamp};

/// The garbage collections of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collector {
    /// The earlier count, and when it was taken.
    counted: Option<(Timestamp, u64)>,
    /// Collections per second, between the last two counts.
    pub(super) rate: Option<f64>,
    /// The number of the last collection whose CPU time the runtime limited.
    limited_cycle: Option<u64>,
    /// When the runtime last limited the CPU time of its collector.
    limited: Option<Timestamp>,
    /// Since when it thrashes.
    pub(super) since: Option<Timestamp>,
}

/// The interval between two counts: long enough for a rate.
const INTERVAL: Span = Span::secs(60);

/// Collections per second that leave little time for anything else. A busy operator collects every
/// few seconds, an idle one every two minutes.
const FAST: f64 = 1.0;

/// A heap is full if it may grow by at most this share until the next collection. Far from its
/// limit, the runtime of Go lets the heap double.
const ROOM: f64 = 0.15;

/// A heap without a goal is full at this share of its maximum size.
const FULL: f64 = 0.9;

/// How long the runtime counts as limiting the CPU time of its collector after it last did so.
const LIMITED_FOR: Span = Span::mins(10);

impl Collector {
    pub(super) fn sample(&mut self, now: Timestamp, signals: &Signals) {
        let Some(cycles) = signals.gc_cycles else { return };
        match self.counted {
            Some((at, earlier)) if now.since(at) >= INTERVAL => {
                self.rate =
                    cycles.checked_sub(earlier).map(|new| new as f64 / now.since(at).seconds());
                self.counted = Some((now, cycles));
            }
            Some(_) => {}
            None => self.counted = Some((now, cycles)),
        }

        if let Some(cycle) = signals.gc_limited_cycle {
            // The first value does not show when the runtime last did so.
            if self.limited_cycle.is_some_and(|earlier| cycle > earlier) {
                self.limited = Some(now);
            }
            self.limited_cycle = Some(cycle);
        }

        let thrashes = self.is_fast_or_limited(now) && is_full(signals);
        self.since = if thrashes { self.since.or(Some(now)) } else { None };
    }

    /// Returns whether the runtime has lately limited the CPU time of its collector.
    pub(super) fn is_limited(&self, now: Timestamp) -> bool {
        self.limited.is_some_and(|at| now.since(at) < LIMITED_FOR)
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let shift = |at: &mut Timestamp| *at = at.shifted(by_ms);
        self.counted.iter_mut().for_each(|(at, _)| shift(at));
        self.limited.iter_mut().chain(&mut self.since).for_each(shift);
    }

    fn is_fast_or_limited(&self, now: Timestamp) -> bool {
        self.rate.is_some_and(|rate| rate >= FAST) || self.is_limited(now)
    }
}

/// Returns whether the heap has reached the limit of the runtime.
fn is_full(signals: &Signals) -> bool {
    let Some((limit, live)) = signals.runtime_limit.zip(signals.memory.filter(|_| signals.heap))
    else {
        return false;
    };
    match signals.heap_goal {
        Some(goal) => goal <= live * (1.0 + ROOM) && live > limit / 2.0,
        None => live >= FULL * limit,
    }
}
