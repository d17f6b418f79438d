//! The source of a signal: within one series of samples, it never changes for a lesser one.
//!
//! Kernel threads are no goroutines, and resident memory is no live heap. While the better source
//! is silent, the signal has a gap.

use std::collections::BTreeMap;

use crate::time::{Span, Timestamp};
use crate::trend::Levels;

/// Where a signal comes from. Of two that show the same signal, the later one is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Resident,
    Anonymous,
    LiveHeap,
    WorkingSet,
    /// Threads that the runtime counts.
    OwnThreads,
    /// Threads that the kernel counts.
    Threads,
    Goroutines,
    Descriptors,
}

/// The series of one signal of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Series {
    /// The source, and when it last had a value.
    source: Option<(Source, Timestamp)>,
}

/// What a sample is for its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Next,
    /// The first one of a better source, or of a lesser one in place of one that stays away.
    First,
    /// From a lesser source: a gap.
    Gap,
}

/// The normal levels of all signals, by their sources.
#[derive(Clone, Debug, Default)]
pub(super) struct NormalLevels(BTreeMap<Source, Levels>);

/// A value above a normal level by this factor is more than variation.
const BEYOND_NORMAL: f64 = 1.05;

/// After this time without a value, a lesser source takes over. Nothing that a trend remembers is
/// older.
const STAYS_AWAY: Span = Span::hours(48);

impl Source {
    /// All sources, in order.
    const ALL: [Self; 8] = [
        Self::Resident,
        Self::Anonymous,
        Self::LiveHeap,
        Self::WorkingSet,
        Self::OwnThreads,
        Self::Threads,
        Self::Goroutines,
        Self::Descriptors,
    ];

    /// Returns its name in checkpoints.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Anonymous => "anonymous",
            Self::LiveHeap => "live_heap",
            Self::WorkingSet => "working_set",
            Self::OwnThreads => "own_threads",
            Self::Threads => "threads",
            Self::Goroutines => "goroutines",
            Self::Descriptors => "descriptors",
        }
    }
}

impl Series {
    /// Takes the source of a value. Returns what the value is for the series.
    pub(super) fn take(&mut self, now: Timestamp, source: Source) -> Sample {
        let sample = match self.source {
            Some((known, _)) if known == source => Sample::Next,
            Some(_) if !self.continues(now, source) => Sample::Gap,
            Some(_) => Sample::First,
            None => Sample::Next,
        };
        if sample != Sample::Gap {
            self.source = Some((source, now));
        }

        sample
    }

    /// Returns whether a value from a source belongs to the series, and is no gap.
    pub(super) fn continues(&self, now: Timestamp, source: Source) -> bool {
        self.source.is_none_or(|(known, seen)| source >= known || now.since(seen) >= STAYS_AWAY)
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.source.iter_mut().for_each(|(_, seen)| *seen = seen.shifted(by_ms));
    }
}

impl NormalLevels {
    pub(super) fn of(&self, source: Source) -> Option<&Levels> {
        self.0.get(&source)
    }

    /// Returns whether a value is clearly above the known normal level.
    pub(super) fn exceed(&self, source: Source, value: f64) -> bool {
        let normal = self.of(source).and_then(Levels::highest);
        normal.is_some_and(|normal| value > normal * BEYOND_NORMAL)
    }

    pub(super) fn of_mut(&mut self, source: Source) -> &mut Levels {
        self.0.entry(source).or_default()
    }

    /// Returns the levels as checkpoints hold them.
    pub(super) fn to_checkpoint(&self) -> BTreeMap<String, Levels> {
        self.0.iter().map(|(source, levels)| (source.as_str().to_owned(), levels.clone())).collect()
    }

    /// Takes the levels of a checkpoint. Sources that this version does not know are skipped.
    pub(super) fn restore(&mut self, now: Timestamp, mut levels: BTreeMap<String, Levels>) {
        let known = Source::ALL
            .into_iter()
            .filter_map(|source| Some((source, levels.remove(source.as_str())?.restored(now)?)));

        self.0.extend(known);
    }
}
