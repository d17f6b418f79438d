//! Why growth may be something else than a leak, and what removes the doubt.

use crate::time::{Span, Timestamp};

/// What is known of a signal besides its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// The highest level that is normal for the operator.
    pub normal: Option<f64>,
    /// Why growth may be something else than a leak.
    pub doubt: Doubt,
}

/// Why growth may be something else than a leak. It is then only suspected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doubt {
    /// There is no reason for doubt.
    #[default]
    None,
    /// Nobody has seen a whole week of the operator yet, so this may be the ramp of a day of work
    /// or a batch. Growth that is too long or too large for that counts.
    Ramp,
    /// The runtime fills its memory with garbage up to a limit, by design.
    Garbage,
}

/// Growth that may be a leak.
pub(super) struct Growth {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// The level at the end of the window, which it had at `level_at`.
    pub(super) level: f64,
    pub(super) level_at: Timestamp,
    /// Per hour.
    pub(super) slope: f64,
}

/// No ramp of a day lasts longer than this.
const LONGEST_RAMP: Span = Span::hours(16);

/// … or multiplies a signal by more than this.
const LARGEST_RAMP: f64 = 10.0;

/// A line from zero at the start of the process to the level now may miss zero by this share of the
/// level.
const FROM_START: f64 = 0.25;

impl Doubt {
    /// Returns whether growth may be confirmed nevertheless. `lowest` is the lowest value since the
    /// process `started`.
    pub(super) fn is_removed_by(self, growth: &Growth, lowest: f64, started: Timestamp) -> bool {
        match self {
            Self::None => true,
            Self::Ramp => {
                growth.until.since(growth.since) > LONGEST_RAMP
                    || growth.level >= LARGEST_RAMP * lowest
                    || growth.began_near(started)
            }
            Self::Garbage => false,
        }
    }
}

impl Growth {
    /// Returns whether nearly all of the level has accumulated at this rate since the start of the
    /// process. A day of work begins at another time, and from another level.
    pub(super) fn began_near(&self, started: Timestamp) -> bool {
        let hours = self.level_at.since(started).seconds() / 3600.0;
        (self.level - self.slope * hours).abs() <= FROM_START * self.level
    }
}
