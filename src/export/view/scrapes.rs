//! Whether anybody scrapes loopwatch.

use loopwatch_model::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use super::text::age;

/// The scrapes of `/metrics` since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scrapes {
    /// The start.
    pub since: Timestamp,
    /// The end of the last complete one.
    pub last: Option<Timestamp>,
    /// The longest time between two of them; `None` if loopwatch expects none.
    pub expected_within: Option<Span>,
}

impl Scrapes {
    /// Whether the last one is too long ago.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        let waiting = now.since(self.last.unwrap_or(self.since));
        self.expected_within.is_some_and(|within| waiting >= within)
    }

    pub(crate) fn in_words(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) => format!("The last scrape of /metrics was {} ago.", age(now, last)),
            None => {
                format!("Nobody has scraped /metrics since the start {} ago.", age(now, self.since))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_overdue_after_the_expected_time_and_never_if_none_is_expected() {
        let at = |seconds| Timestamp(1_767_225_600_000).after(Span::secs(seconds));
        let scrapes = |last, within| Scrapes { since: at(0), last, expected_within: within };
        let within = Some(Span::mins(10));

        assert!(
            !scrapes(None, within).is_overdue(at(599)) && scrapes(None, within).is_overdue(at(600))
        );
        assert!(!scrapes(Some(at(30)), within).is_overdue(at(629)));
        assert!(scrapes(Some(at(30)), within).is_overdue(at(630)));
        assert!(!scrapes(None, None).is_overdue(at(1_000_000)));

        assert!(scrapes(None, within).in_words(at(720)).contains("since the start 12m ago"));
        assert!(scrapes(Some(at(0)), None).in_words(at(20)).contains("20s ago"));
    }
}
