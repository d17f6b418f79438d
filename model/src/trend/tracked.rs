//! One time scale of a trend: its window, and the balance of its evaluations.

use super::TrendState;
use super::gates::Look;
use super::window::History;
use crate::time::Timestamp;

/// A time scale with its history and its last evaluations.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) history: History,
    pub(super) leaks: Streak,
    pub(super) explained: Streak,
    /// The last evaluation; absent before the window is full.
    pub(super) last: Option<Evaluation>,
    /// A gap has dropped the window since then.
    pub(super) dropped: bool,
}

/// The balance of evaluations that pass a rise and those that do not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    /// At most [`CONFIRMED`].
    pub(super) balance: u8,
    /// The highest level reached recently: [`SUSPECTED`], [`CONFIRMED`] or zero.
    pub(super) held: u8,
    /// Evaluations since `held` was last reached.
    pub(super) misses: u8,
    /// The start of the window in which the streak began, and the value there.
    pub(super) since: Option<Timestamp>,
    pub(super) begin: f64,
    /// The value at the last evaluation that passed the gates.
    pub(super) top: f64,
}

/// An evaluation of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evaluation {
    pub(super) look: Look,
    pub(super) explained: f64,
    pub(super) objects: f64,
}

/// The balance at which a trend is suspected: at least a quarter of a window.
pub(super) const SUSPECTED: u8 = 3;

/// The balance at which a trend is confirmed: at least half of a window.
pub(super) const CONFIRMED: u8 = 6;

/// The number of evaluations without evidence after which a verdict ends: half of a window, or a
/// whole one if it was confirmed.
const SUSPECTED_HELD: u8 = 6;
const CONFIRMED_HELD: u8 = 12;

impl Tracked {
    pub(super) fn clear(&mut self) {
        self.history.clear();
        (self.leaks, self.explained, self.last, self.dropped) = Default::default();
    }

    /// Notes that a gap has dropped the window. Growth that was found before stands until the next
    /// window is full.
    pub(super) fn drop_window(&mut self) {
        self.explained = Streak::default();
        if self.leaks.held == 0 {
            (self.leaks, self.last) = Default::default();
        } else {
            (self.leaks.balance, self.leaks.misses) = (0, self.leaks.patience() - 1);
            self.dropped = true;
        }
    }

    /// Ends growth that stands since before a gap if it has been undone.
    pub(super) fn end_if_undone(&mut self, level: f64) {
        if self.dropped && self.leaks.is_undone(level) {
            (self.leaks, self.last, self.dropped) = Default::default();
        }
    }

    /// Returns the conclusion that stands.
    pub(super) fn standing(&self) -> TrendState {
        match (self.leaks.held, self.explained.held) {
            _ if self.last.is_none() => TrendState::Unknown,
            (CONFIRMED, _) => TrendState::Confirmed,
            (SUSPECTED, _) => TrendState::Suspected,
            (_, 0) => TrendState::Steady,
            (_, _) => TrendState::GrowthExplained,
        }
    }
}

impl Streak {
    /// Adds one evaluation, which counts `weight` times. One without evidence only cancels another one, because noise in one
    /// quarter of the window can spoil its shape. A verdict outlasts such evaluations for a while
    /// so that it does not flap, but ends at once when the value has lost half of its rise.
    /// The window began at the instant and with the value of `begin`. The balance is at most `most`.
    pub(super) fn step(
        &mut self,
        passed: bool,
        weight: u8,
        begin: (Timestamp, f64),
        level: f64,
        most: u8,
    ) {
        if passed {
            if self.balance == 0 && self.held == 0 {
                (self.since, self.begin) = (Some(begin.0), begin.1);
            }

            (self.balance, self.top, self.misses) =
                (self.balance.saturating_add(weight).min(most), level, 0);
            let reached = match self.balance {
                CONFIRMED.. => CONFIRMED,
                SUSPECTED.. => SUSPECTED,
                _ => 0,
            };

            self.held = self.held.max(reached);
            return;
        }

        (self.balance, self.misses) =
            (self.balance.saturating_sub(weight), self.misses.saturating_add(weight));
        if (self.held == 0 && self.balance == 0)
            || self.misses >= self.patience()
            || self.is_undone(level)
        {
            *self = Self::default();
        }
    }

    fn patience(&self) -> u8 {
        if self.held == CONFIRMED { CONFIRMED_HELD } else { SUSPECTED_HELD }
    }

    /// Returns whether a level has lost half of the rise.
    fn is_undone(&self, level: f64) -> bool {
        level < self.begin.midpoint(self.top)
    }
}
