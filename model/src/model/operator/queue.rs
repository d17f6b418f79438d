//! Whether the queue of a controller is worked off. A queue that counts down, however long it is,
//! shows an operator that works: after its start, after a change of many objects, or at the rate
//! that its client allows.

use crate::observation::ControllerView;
use crate::time::Timestamp;

/// A queue that may be worked off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Since when it has not shrunk much.
    pub(super) since: Timestamp,
    /// The length from which shrinking is measured: the longest before it shrank for the first
    /// time, and then the shortest, so that a queue that goes up and down does not shrink again
    /// and again.
    reference: u64,
    has_shrunk: bool,
}

/// The number of objects by which a queue must grow to count as filled anew.
const FILLED_BY: u64 = 50;

impl Queue {
    /// Returns the queue with its length now. It shrinks if it loses one of `parts` equal parts.
    pub(super) fn update(known: Option<Self>, now: Timestamp, depth: u64, parts: u64) -> Self {
        let Some(known) = known else {
            return Self { since: now, reference: depth, has_shrunk: false };
        };

        if depth < known.reference - known.reference.div_ceil(parts) {
            return Self { since: now, reference: depth, has_shrunk: true };
        }

        // Growth is no progress, so the time goes on.
        let is_filled = depth
            >= known.reference.saturating_mul(2).max(known.reference.saturating_add(FILLED_BY));
        match known.has_shrunk && !is_filled {
            true => known,
            false => Self { reference: known.reference.max(depth), has_shrunk: false, ..known },
        }
    }
}

/// Returns how many objects wait because all workers of a controller are busy.
pub(super) fn waiting_for_workers(view: &ControllerView) -> Option<u64> {
    let is_busy =
        view.workers_max.is_some_and(|max| max > 0) && view.workers_busy >= view.workers_max;
    view.queue_depth.filter(|depth| is_busy && *depth > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    /// Returns the longest time in minutes without progress, with one length per minute.
    fn longest(depths: impl IntoIterator<Item = u64>) -> i64 {
        let (mut queue, mut now, mut longest) = (None, Timestamp(1), 0);
        for depth in depths {
            now = now.after(Span::mins(1));
            let known = Queue::update(queue, now, depth, 10);
            longest = longest.max(now.since(known.since).0 / 60_000);
            queue = Some(known);
        }

        longest
    }

    #[test]
    fn a_queue_that_is_filled_and_then_worked_off_makes_progress() {
        let filled = (1..5).map(|minute| minute * 7_000);
        let drained = (0..60).map(|minute| 28_000 * (60 - minute) / 60);

        assert!(longest(filled.chain(drained)) < 11);
    }

    #[test]
    fn a_short_queue_that_is_worked_off_makes_progress() {
        assert!(longest((1..20).map(|minute| 20 - minute)) < 4);
    }

    #[test]
    fn a_queue_that_is_filled_again_each_hour_makes_progress() {
        let wave = (0..600).map(|minute| 5_000 - 90 * (minute % 50));
        assert!(longest(wave) < 9);
    }

    #[test]
    fn a_queue_that_grows_stands_still_or_goes_up_and_down_makes_none() {
        assert_eq!(longest((0..60).map(|minute| 600 + minute * 100)), 59);
        assert_eq!(longest((0..60).map(|_| 600)), 59);
        assert!(longest((0..60).map(|minute| 4 + minute % 5 * 3)) > 50);
    }
}
