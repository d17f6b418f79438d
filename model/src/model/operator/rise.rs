//! Whether a count within a sliding window has become much larger than it was before.

use crate::time::{Span, Timestamp};

/// How long the largest count is remembered, at least. A burst at the start of the operator must
/// not hide what comes later.
const REMEMBERED_FOR: Span = Span::hours(1);

/// A rise of a count.
#[derive(Debug, Default)]
pub(super) struct Rise {
    /// The largest count of the current hour, and of the hour before.
    largest: [u64; 2],
    hour_began: Option<Timestamp>,
    /// When the count last became much larger.
    since: Option<Timestamp>,
}

impl Rise {
    /// Notes the count now. Returns when it last became half as large again, and larger by at least
    /// `least`. A count of zero begins anew.
    pub(super) fn note(&mut self, now: Timestamp, count: u64, least: u64) -> Option<Timestamp> {
        if count == 0 {
            *self = Self::default();
            return None;
        }

        let began = *self.hour_began.get_or_insert(now);
        if now.since(began) >= REMEMBERED_FOR {
            self.largest = [0, self.largest[0]];
            self.hour_began = Some(now);
        }

        let known = self.largest[0].max(self.largest[1]);
        if known > 0 && count >= known.saturating_mul(3) / 2 && count - known >= least {
            self.since = Some(now);
        }

        self.largest[0] = self.largest[0].max(count);
        self.since
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let instants = [&mut self.hour_began, &mut self.since].into_iter().flatten();
        instants.for_each(|at| *at = at.shifted(by_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_that_grows_by_half_has_risen() {
        let mut rise = Rise::default();
        let minutes = |minutes: i64| Timestamp(0).after(Span::mins(minutes));
        for minute in 0..200 {
            assert_eq!(rise.note(minutes(minute), 10 + minute.unsigned_abs() % 5, 5), None);
        }

        assert_eq!(rise.note(minutes(200), 18, 5), None);
        assert_eq!(rise.note(minutes(201), 30, 5), Some(minutes(201)));
        assert_eq!(rise.note(minutes(202), 30, 5), Some(minutes(201)));
        assert_eq!(rise.note(minutes(203), 0, 5), None);
    }

    #[test]
    fn a_burst_long_ago_does_not_hide_a_rise() {
        let mut rise = Rise::default();
        let minutes = |minutes: i64| Timestamp(0).after(Span::mins(minutes));
        rise.note(minutes(0), 500, 5);
        (1..180).for_each(|minute| _ = rise.note(minutes(minute), 10, 5));

        assert_eq!(rise.note(minutes(180), 40, 5), Some(minutes(180)));
    }
}
