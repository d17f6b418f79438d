//! The latest finding events, for explanations of single objects.

use std::collections::VecDeque;

use crate::finding::{Change, FindingEvent, Subject};
use crate::snapshot::ExplainedEvent;
use crate::time::Timestamp;

/// The latest finding events, without their evidence.
#[derive(Debug, Default)]
pub(crate) struct PastEvents(VecDeque<PastEvent>);

#[derive(Debug)]
struct PastEvent {
    at: Timestamp,
    change: Change,
    code: &'static str,
    severity: &'static str,
    subject: Subject,
    explained: bool,
}

/// The maximum number of events. Beyond it, the oldest are forgotten.
const MAX_PAST: usize = 1_000;

// === impl PastEvents ===

impl PastEvents {
    pub(crate) fn add(&mut self, event: &FindingEvent) {
        let FindingEvent { at, change, finding } = event;
        if self.0.len() >= MAX_PAST {
            self.0.pop_front();
        }
        self.0.push_back(PastEvent {
            at: *at,
            change: *change,
            code: finding.code.name(),
            severity: finding.severity.as_str(),
            subject: finding.subject.clone(),
            explained: finding.explained_by.is_some(),
        });
    }

    /// Returns the events about an object or its kind, in order.
    pub(crate) fn about(&self, subjects: &[Subject]) -> Vec<ExplainedEvent> {
        let about = self.0.iter().filter(|event| subjects.contains(&event.subject));
        about
            .map(|event| ExplainedEvent {
                at: event.at,
                change: match event.change {
                    Change::Opened => "opened",
                    Change::Closed => "closed",
                    Change::Explained if event.explained => "explained",
                    Change::Explained => "no_longer_explained",
                }
                .to_owned(),
                code: event.code.to_owned(),
                severity: event.severity.to_owned(),
                ..ExplainedEvent::default()
            })
            .collect()
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.0.iter_mut().for_each(|event| event.at = event.at.shifted(by_ms));
    }
}
