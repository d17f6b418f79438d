//! The sources of observations: which of them are up, and since when.

use crate::observation::{Cause, SourceId};
use crate::snapshot::SourceSummary;
use crate::time::{Span, Timestamp};

/// From this number of sources on, new ones replace inactive ones.
const MAX_SOURCES: usize = 2_000;

/// The causes of failures that show that the API server answers.
const ANSWERS: [Cause; 8] = [
    Cause::Forbidden,
    Cause::NotFound,
    Cause::Gone,
    Cause::Throttled,
    Cause::ServerError,
    Cause::Undecodable,
    Cause::TooLarge,
    Cause::Invalid,
];

/// All sources since the start, by number.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
}

/// One source.
#[derive(Debug)]
struct Source {
    id: SourceId,
    /// Whether the source is still in use.
    active: bool,
    summary: SourceSummary,
    /// When the failure becomes a finding.
    due: Option<Timestamp>,
}

impl Sources {
    /// Returns the number of a source, which it adds if necessary.
    pub(crate) fn number_of(&mut self, id: &SourceId, now: Timestamp) -> u16 {
        let position = self.list.iter().position(|source| source.id == *id).unwrap_or_else(|| {
            let summary = SourceSummary {
                source: id.to_string(),
                up: true,
                since: now,
                ..SourceSummary::default()
            };

            let new = Source { id: id.clone(), active: true, summary, due: None };
            let full = self.list.len() >= MAX_SOURCES;
            match self.list.iter().position(|source| full && !source.active) {
                Some(inactive) => {
                    self.list[inactive] = new;
                    inactive
                }
                None => {
                    self.list.push(new);
                    self.list.len() - 1
                }
            }
        });

        self.list[position].active = true;
        self.list[position].summary.off = None;
        u16::try_from(position).unwrap_or(u16::MAX)
    }

    /// Records that an observation came from the source.
    pub(crate) fn note_success(&mut self, id: &SourceId, now: Timestamp) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.last_success = Some(now);
    }

    /// Records the time between two observations of a source.
    pub(crate) fn set_interval(&mut self, id: &SourceId, now: Timestamp, interval: Option<Span>) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.interval = interval;
    }

    /// Records that a source failed. Returns its number.
    pub(crate) fn note_failure(
        &mut self,
        id: &SourceId,
        now: Timestamp,
        cause: Cause,
        detail: &str,
    ) -> u16 {
        let number = self.number_of(id, now);
        let summary = &mut self.list[number as usize].summary;
        summary.restricted = None;
        *summary.failures.entry(cause.as_str()).or_default() += 1;
        summary.latest = Some((cause.as_str(), detail.to_owned()));

        if summary.up {
            (summary.up, summary.since) = (false, now);
        }

        number
    }

    /// Records that a source works. Returns its number, and when its failure would have become a
    /// finding.
    pub(crate) fn note_recovery(
        &mut self,
        id: &SourceId,
        now: Timestamp,
    ) -> (u16, Option<Timestamp>) {
        let number = self.number_of(id, now);
        let source = &mut self.list[number as usize];
        source.summary.last_success = Some(now);
        source.summary.restricted = None;
        if !source.summary.up {
            (source.summary.up, source.summary.since) = (true, now);
        }

        (number, source.due.take())
    }

    /// Records that a source is off.
    pub(crate) fn note_off(&mut self, id: &SourceId, now: Timestamp, reason: String) {
        let number = self.number_of(id, now);
        let summary = &mut self.list[number as usize].summary;
        summary.last_success = None;
        summary.off = Some(reason);
    }

    /// Records that a source works, but cannot read everything.
    pub(crate) fn note_restriction(&mut self, id: &SourceId, now: Timestamp, reason: String) {
        let number = self.number_of(id, now);
        self.list[number as usize].summary.restricted = Some(reason);
    }

    /// Removes a source from summaries. Returns its number, and when its failure would have become
    /// a finding; `None` if nothing is known about it.
    pub(crate) fn deactivate(&mut self, id: &SourceId) -> Option<(u16, Option<Timestamp>)> {
        let position = self.list.iter().position(|source| source.id == *id)?;
        let source = &mut self.list[position];
        source.active = false;
        source.summary.up = true;
        Some((u16::try_from(position).unwrap_or(u16::MAX), source.due.take()))
    }

    /// Returns a source that fails.
    pub(crate) fn failing(&self, number: u16) -> Option<(&SourceId, &SourceSummary)> {
        let source = self.list.get(number as usize).filter(|source| !source.summary.up)?;
        Some((&source.id, &source.summary))
    }

    /// Sets when the failure of a source becomes a finding. Returns the time before.
    pub(crate) fn set_due(&mut self, number: u16, due: Option<Timestamp>) -> Option<Timestamp> {
        self.list
            .get_mut(number as usize)
            .and_then(|source| std::mem::replace(&mut source.due, due))
    }

    /// Returns the numbers of all sources.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        0..u16::try_from(self.list.len()).unwrap_or(u16::MAX)
    }

    /// Moves all instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        for source in &mut self.list {
            source.summary.since = source.summary.since.shifted(by_ms);
            source.summary.last_success = source.summary.last_success.map(|at| at.shifted(by_ms));
            source.due = source.due.map(|at| at.shifted(by_ms));
        }
    }

    /// Returns whether anything is known about the source.
    pub(crate) fn is_known(&self, id: &SourceId) -> bool {
        self.list.iter().any(|source| source.active && source.id == *id)
    }

    /// Returns whether the source does not fail, as far as is known.
    pub(crate) fn is_up(&self, id: &SourceId) -> bool {
        !self.list.iter().any(|source| source.active && source.id == *id && !source.summary.up)
    }

    /// Returns whether the source fails although the API server answers.
    pub(crate) fn is_answered(&self, id: &SourceId) -> bool {
        let failing =
            self.list.iter().find(|source| source.active && source.id == *id && !source.summary.up);
        let latest = failing.and_then(|source| source.summary.latest.as_ref());
        latest.is_some_and(|(cause, _)| ANSWERS.iter().any(|answer| answer.as_str() == *cause))
    }

    /// Returns since when the source has not failed: since the beginning if it never has; `None`
    /// while it fails.
    pub(crate) fn up_since(&self, id: &SourceId) -> Option<Timestamp> {
        match self.list.iter().find(|source| source.active && source.id == *id) {
            Some(source) => source.summary.up.then_some(source.summary.since),
            None => Some(Timestamp(0)),
        }
    }

    pub(crate) fn summaries(&self) -> Vec<SourceSummary> {
        let active = self.list.iter().filter(|source| source.active);
        let mut summaries: Vec<_> = active.map(|source| source.summary.clone()).collect();
        summaries.sort_by(|a, b| a.source.cmp(&b.source));
        summaries
    }
}
