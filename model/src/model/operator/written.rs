//! How much an instance writes, compared with the changes of objects.

use crate::model::findings::detection::events_needed;
use crate::model::operator::pace::SCRAPES;
use crate::model::operator::window::Window;
use crate::model::world::World;
use crate::observation::MetricsView;
use crate::time::{Span, Timestamp};

/// The writes of an instance within a window, and the changes of objects.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Accepted updates and patches.
    pub(super) sent: Window,
    /// Changes of objects that loopwatch has seen.
    pub(super) changes: Window,
    /// The length of the window.
    pub(super) window: Span,
    /// Since when the instance has sent far more writes than there were changes.
    pub(super) since: Option<Timestamp>,
}

/// The writes per second that need no change of a watched object: those of two leases, and of Events.
const PER_SECOND: u64 = 2;

/// The share of the writes that must change nothing, in percent.
const UNCHANGED_PERCENT: u64 = 50;

impl Written {
    /// Takes a scrape, and the number of changes since the one before. Without an earlier scrape of the same
    /// process, or without counts, nothing is known.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        window: Span,
        earlier: Option<&MetricsView>,
        view: &MetricsView,
        changes: u64,
    ) {
        let Some(earlier) = earlier.filter(|earlier| !earlier.writes.is_empty()) else {
            *self = Self::default();
            return;
        };

        self.window = window;
        self.sent.add(now, updates(view).saturating_sub(updates(earlier)), window);
        self.changes.add(now, changes, window);
    }

    pub(super) fn seconds(&self) -> u64 {
        (self.window.0 / 1_000).max(1).unsigned_abs()
    }

    /// Returns the number of writes that probably changed nothing.
    pub(super) fn unchanged(&self) -> u64 {
        let needed = self.changes.sum().saturating_add(PER_SECOND.saturating_mul(self.seconds()));
        self.sent.sum().saturating_sub(needed)
    }

    /// Returns whether most writes change nothing, and there are many. An `open` problem needs half as many.
    pub(super) fn is_hot(&self, world: &World, open: bool) -> bool {
        let least = u64::from(events_needed(open, world.settings.silent_loop_rate));
        let unchanged = self.unchanged();
        let is_most =
            unchanged.saturating_mul(100) >= self.sent.sum().saturating_mul(UNCHANGED_PERCENT);

        unchanged >= least.saturating_mul(self.seconds()) && is_most && self.sent.parts() >= SCRAPES
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let windows = [&mut self.sent, &mut self.changes];
        windows.into_iter().for_each(|window| window.clock_stepped(by_ms));
        self.since = self.since.map(|at| at.shifted(by_ms));
    }
}

/// Returns the number of accepted updates and patches. A creation or a deletion always changes something.
fn updates(view: &MetricsView) -> u64 {
    let updates = view.writes.iter().filter(|(method, _)| method == "PUT" || method == "PATCH");
    updates.fold(0, |sum, (_, count)| sum.saturating_add(*count))
}
