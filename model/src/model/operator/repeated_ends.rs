//! Ends of a container that repeat for the same reason, too rarely for a restart loop: for example a
//! leak of memory, which the kernel ends every few hours. Nothing else shows it if the operator
//! offers no metrics.

use std::collections::VecDeque;
use std::fmt;

use crate::observation::ContainerEnd;
use crate::time::{Span, Timestamp};

/// The window in which such ends are counted.
pub(super) const REPEATED_WITHIN: Span = Span::hours(24);

/// The number of ends of one kind within the window that counts. A container that ends twice a day
/// may have bad luck.
const ENOUGH: usize = 6;

/// The number that keeps a finding open, so that it does not flap around the threshold.
const STILL_ENOUGH: usize = ENOUGH / 2;

/// Shorter runs do not count: they are parts of a restart loop, which is over an hour after the
/// last of them.
const SHORTEST_RUN: Span = Span::mins(20);

/// The maximum number of ends that are remembered.
const MAX_ENDS: usize = 32;

/// Why a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    OutOfMemory,
    Exit(i32),
}

/// The ends of one container after runs that were too long for a restart loop.
#[derive(Debug, Default)]
pub(super) struct RepeatedEnds {
    /// At most [`MAX_ENDS`], the latest last.
    ends: VecDeque<(Timestamp, Failure)>,
    /// The kind that has repeated often enough. From then on, fewer ends are enough.
    found: Option<Failure>,
}

impl Failure {
    /// Returns why a container ended; `None` if nothing failed.
    fn of(end: &ContainerEnd) -> Option<Self> {
        match (end.reason.as_str(), end.exit_code) {
            ("OOMKilled", _) => Some(Self::OutOfMemory),
            (_, 0) => None,
            (_, code) => Some(Self::Exit(code)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str("OOMKilled"),
            Self::Exit(code) => write!(f, "exit code {code}"),
        }
    }
}

impl RepeatedEnds {
    /// Notes an end that loopwatch sees at `now`.
    pub(super) fn add(&mut self, now: Timestamp, end: &ContainerEnd) {
        let ran = end.started.zip(end.finished).map(|(started, ended)| ended.since(started));
        let Some(failure) = Failure::of(end).filter(|_| ran >= Some(SHORTEST_RUN)) else { return };

        // The number only falls between two ends, so this is the least since the end before.
        self.found = self.repeated(now).map(|(failure, _)| failure);
        if self.ends.len() >= MAX_ENDS {
            self.ends.pop_front();
        }

        self.ends.push_back((now, failure));
        self.found = self.repeated(now).map(|(failure, _)| failure);
    }

    /// Returns the most frequent kind of end within the window, and when it happened, if that was
    /// often enough.
    pub(super) fn repeated(&self, now: Timestamp) -> Option<(Failure, Vec<Timestamp>)> {
        let from = now.before(REPEATED_WITHIN);
        let recent = || self.ends.iter().filter(move |(at, _)| *at > from);
        let of = |kind: Failure| {
            recent().filter(move |(_, failure)| *failure == kind).map(|(at, _)| *at)
        };

        let (_, most) = recent().max_by_key(|(_, failure)| of(*failure).count())?;
        let needed = if self.found == Some(*most) { STILL_ENOUGH } else { ENOUGH };
        let times: Vec<Timestamp> = of(*most).collect();

        (times.len() >= needed).then_some((*most, times))
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.ends.iter_mut().for_each(|(at, _)| *at = at.shifted(by_ms));
    }
}
