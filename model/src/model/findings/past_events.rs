//! The latest finding events, for explanations of single objects and for the timeline.

use std::collections::VecDeque;

use crate::finding::{Change, FindingCode, FindingEvent, Severity, Subject};
use crate::snapshot::{self, ExplainedEvent, Happening};
use crate::time::Timestamp;

/// The latest finding events, without their evidence.
#[derive(Debug, Default)]
pub(crate) struct PastEvents {
    events: VecDeque<PastEvent>,
    /// The number of events that were forgotten because of [`MAX_PAST`].
    forgotten: u64,
}

#[derive(Debug)]
struct PastEvent {
    at: Timestamp,
    change: Change,
    code: FindingCode,
    severity: Severity,
    subject: Subject,
    explained: bool,
}

/// The maximum number of events. Beyond it, the oldest are forgotten.
const MAX_PAST: usize = 1_000;

impl PastEvents {
    pub(crate) fn add(&mut self, event: &FindingEvent) {
        let FindingEvent { at, change, finding } = event;
        if self.events.len() >= MAX_PAST {
            self.events.pop_front();
            self.forgotten += 1;
        }

        self.events.push_back(PastEvent {
            at: *at,
            change: *change,
            code: finding.code,
            severity: finding.severity,
            subject: finding.subject.clone(),
            explained: finding.explained_by.is_some(),
        });
    }

    /// Returns the events about any of `subjects`, such as an object and its kind, in order.
    pub(crate) fn about(&self, subjects: &[Subject]) -> Vec<ExplainedEvent> {
        let about = self.events.iter().filter(|event| subjects.contains(&event.subject));
        about
            .map(|event| ExplainedEvent {
                at: event.at,
                change: event.change().to_owned(),
                code: event.code.name().to_owned(),
                severity: event.severity.as_str().to_owned(),
                ..ExplainedEvent::default()
            })
            .collect()
    }

    /// Returns all events, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = snapshot::PastEvent> {
        self.events.iter().map(|event| snapshot::PastEvent {
            at: event.at,
            what: Happening::Finding {
                change: event.change(),
                code: event.code.name(),
                severity: event.severity.as_str(),
                subject: event.subject.clone(),
            },
        })
    }

    /// Returns the number of events that were forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.events.iter_mut().for_each(|event| event.at = event.at.shifted(by_ms));
    }
}

impl PastEvent {
    /// Returns the name of the change in snapshots.
    fn change(&self) -> &'static str {
        match self.change {
            Change::Opened => "opened",
            Change::Closed => "closed",
            Change::Explained if self.explained => "explained",
            Change::Explained => "no_longer_explained",
        }
    }
}
