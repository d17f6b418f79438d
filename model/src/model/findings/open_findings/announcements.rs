//! The events that announce the changes of open findings.

use std::collections::{BTreeMap, VecDeque};

use crate::finding::{Change, Finding, FindingCode, FindingEvent, FindingId};
use crate::model::findings::past_events::PastEvents;
use crate::model::world::limits::MAX_FINDING_EVENTS;
use crate::snapshot::FindingTimes;
use crate::time::Timestamp;

/// The finding events that have not been taken yet, and the latest ones.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// Findings that opened in this step, with their order. They are announced at its end.
    opened: BTreeMap<FindingId, usize>,
    /// Events since the last call of `take_events`, at most [`MAX_FINDING_EVENTS`].
    events: VecDeque<FindingEvent>,
    /// The number of events that were dropped since the last call of `take_lost`.
    lost: u64,
    past: PastEvents,
    times: BTreeMap<FindingCode, FindingTimes>,
}

impl Announcements {
    /// Notes that a finding has opened.
    pub(super) fn opened(&mut self, id: FindingId) {
        self.opened.insert(id, self.opened.len());
    }

    /// Announces that a finding has closed, unless it opened in this step.
    pub(super) fn closed(&mut self, now: Timestamp, finding: &Finding) {
        if self.opened.remove(&finding.id).is_none() {
            self.times.entry(finding.code).or_default().lasted.observe(now.since(finding.since));
            self.push(now, Change::Closed, finding);
        }
    }

    /// Announces that the explanation of a finding has changed, unless it opened in this step.
    pub(super) fn explained(&mut self, now: Timestamp, finding: &Finding) {
        if !self.opened.contains_key(&finding.id) {
            self.push(now, Change::Explained, finding);
        }
    }

    /// Announces the findings that opened in this step, in their order.
    pub(super) fn end_step<'a>(
        &mut self,
        now: Timestamp,
        finding: impl Fn(FindingId) -> Option<&'a Finding>,
    ) {
        let opened = std::mem::take(&mut self.opened);
        let mut opened: Vec<(usize, FindingId)> =
            opened.into_iter().map(|(id, order)| (order, id)).collect();
        opened.sort_unstable();

        for finding in opened.into_iter().filter_map(|(_, id)| finding(id)) {
            self.times.entry(finding.code).or_default().found.observe(now.since(finding.since));
            self.push(now, Change::Opened, finding);
        }
    }

    /// Returns how soon findings of each code have opened, and how long they have lasted.
    pub(super) fn times(&self) -> &BTreeMap<FindingCode, FindingTimes> {
        &self.times
    }

    /// Removes and returns the events since the last call.
    pub(super) fn take_events(&mut self) -> Vec<FindingEvent> {
        std::mem::take(&mut self.events).into()
    }

    /// Returns how many events were dropped since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Returns the latest events, including those that were taken.
    pub(super) fn past(&self) -> &PastEvents {
        &self.past
    }

    /// Moves the instants of the latest events by `by_ms` milliseconds.
    pub(super) fn rebase(&mut self, by_ms: i64) {
        self.past.rebase(by_ms);
    }

    fn push(&mut self, at: Timestamp, change: Change, finding: &Finding) {
        if self.events.len() >= MAX_FINDING_EVENTS {
            self.events.pop_front();
            self.lost += 1;
        }

        let mut finding = finding.clone();
        finding.evidence = finding.evidence.at(at);
        let event = FindingEvent { at, change, finding };
        self.past.add(&event);
        self.events.push_back(event);
    }
}
