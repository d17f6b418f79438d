//! Counts the objects of a kind by the content of their statuses, to decide whether a status that
//! says nothing about health is expected to say more.

use crate::model::status::reading::{Reading, Reason, Verdict};
use crate::observation::{ObjectView, StatusShape};

/// What the status of an object says about its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StatusContent {
    /// The status says that the object is converged, and has a condition that sums it up.
    ConvergedWithConditions,
    /// The status says that the object is converged, and has no such condition.
    Converged,
    /// The object has no status, or an empty one.
    Empty,
    /// The object has a status that says nothing about its health.
    NoHealth,
    /// The operator writes conditions, but the object has none about its health yet.
    NoConditionsYet,
    /// The status says that work is in progress.
    Progressing,
    /// The status says something else, or the object is being deleted.
    #[default]
    Other,
}

/// The counts of one kind.
#[derive(Debug, Default)]
pub(crate) struct StatusCoverage {
    with_conditions: u64,
    without_conditions: u64,
    empty: u64,
    no_health: u64,
    no_conditions_yet: u64,
    progressing: u64,
    /// The expectation at the end of the last list; `None` before the end of the first list. It
    /// applies during a list, so that the order of the listed objects does not matter.
    pub(crate) listed: Option<Expected>,
}

/// What objects of a kind are expected to say if their status says nothing about their health.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Whether objects without a status are expected to get one.
    pub(crate) status: bool,
    /// Whether statuses without health are expected to say something about it.
    pub(crate) more: bool,
    /// Whether objects without conditions about their health yet are expected to get some.
    pub(crate) conditions: bool,
}

/// The content of an object's status, and the verdict if the object is not expected to say more
/// ([`Reading::fallback`](crate::model::status::reading::Reading::fallback)). Both are packed into
/// one byte, because every object has a summary.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatusSummary(u8);

/// All contents, the default first. [`StatusSummary`] stores positions in this list.
const CONTENTS: [StatusContent; 7] = [
    StatusContent::Other,
    StatusContent::ConvergedWithConditions,
    StatusContent::Converged,
    StatusContent::Empty,
    StatusContent::NoHealth,
    StatusContent::NoConditionsYet,
    StatusContent::Progressing,
];

/// All verdicts, the default first. [`StatusSummary`] stores positions in this list.
const VERDICTS: [Verdict; 6] = [
    Verdict::Unknown,
    Verdict::Converged,
    Verdict::Progressing,
    Verdict::Failed,
    Verdict::Suspended,
    Verdict::Finished,
];

impl StatusSummary {
    pub(crate) fn new(content: StatusContent, fallback: Verdict) -> Self {
        let content = CONTENTS.iter().position(|other| *other == content).unwrap_or(0);
        let fallback = VERDICTS.iter().position(|other| *other == fallback).unwrap_or(0);
        Self((fallback << 4 | content) as u8)
    }

    pub(crate) fn content(self) -> StatusContent {
        CONTENTS.get(usize::from(self.0 & 0xf)).copied().unwrap_or_default()
    }

    pub(crate) fn fallback(self) -> Verdict {
        VERDICTS.get(usize::from(self.0 >> 4)).copied().unwrap_or_default()
    }
}

impl StatusContent {
    pub(crate) fn of(view: &ObjectView, reading: &Reading) -> Self {
        match (reading.verdict, reading.reason) {
            _ if view.deleted.is_some() => Self::Other,
            (_, Reason::NoSummaryYet) => Self::NoConditionsYet,
            (_, Reason::NothingToJudge) if view.status == StatusShape::Filled => Self::NoHealth,
            (_, Reason::NothingToJudge) => Self::Empty,
            // A condition of a part may be there for some objects only.
            (Verdict::Converged | Verdict::Finished, reason)
                if view.conditions.is_empty() || reason == Reason::ConditionsTrue =>
            {
                Self::Converged
            }
            (Verdict::Converged | Verdict::Finished, _) => Self::ConvergedWithConditions,
            (Verdict::Progressing, _) => Self::Progressing,
            _ => Self::Other,
        }
    }

    /// Returns whether the status says nothing about the health of the object.
    pub(crate) fn is_silent(self) -> bool {
        matches!(self, Self::Empty | Self::NoHealth | Self::NoConditionsYet)
    }
}

impl StatusCoverage {
    /// Moves an object from one count to another.
    pub(crate) fn count(&mut self, from: StatusContent, to: StatusContent) {
        if let Some(count) = self.count_of(from) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.count_of(to) {
            *count += 1;
        }
    }

    /// Returns what silent objects are expected to say, judging by the other objects of the kind.
    ///
    /// Most expectations need at least as many objects that say more as silent ones. `more` is
    /// stricter: it needs four converged objects for each silent one, because parts of a status
    /// other than conditions may be absent for good. If all converged objects have conditions, one
    /// for each silent object is enough, because an operator that writes conditions writes them for
    /// every object.
    pub(crate) fn expected(&self) -> Expected {
        let Self {
            with_conditions,
            without_conditions,
            empty,
            no_health,
            no_conditions_yet,
            progressing,
            ..
        } = *self;

        let converged = with_conditions + without_conditions;
        let most = |count: u64, silent: u64| count > 0 && count >= silent;
        Expected {
            status: most(converged + no_health + no_conditions_yet + progressing, empty),
            more: most(converged, 4 * no_health)
                || (without_conditions == 0 && most(with_conditions, no_health)),
            conditions: most(converged, no_conditions_yet),
        }
    }

    fn count_of(&mut self, content: StatusContent) -> Option<&mut u64> {
        match content {
            StatusContent::ConvergedWithConditions => Some(&mut self.with_conditions),
            StatusContent::Converged => Some(&mut self.without_conditions),
            StatusContent::Empty => Some(&mut self.empty),
            StatusContent::NoHealth => Some(&mut self.no_health),
            StatusContent::NoConditionsYet => Some(&mut self.no_conditions_yet),
            StatusContent::Progressing => Some(&mut self.progressing),
            StatusContent::Other => None,
        }
    }
}

impl Expected {
    /// Returns whether an object whose status has this content is expected to say more.
    pub(crate) fn of(self, content: StatusContent) -> bool {
        match content {
            StatusContent::Empty => self.status,
            StatusContent::NoHealth => self.more,
            StatusContent::NoConditionsYet => self.conditions,
            StatusContent::ConvergedWithConditions
            | StatusContent::Converged
            | StatusContent::Progressing
            | StatusContent::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails to compile when somebody adds a variant, which then also belongs in the test's list.
    fn is_in_the_list(content: StatusContent) {
        match content {
            StatusContent::ConvergedWithConditions
            | StatusContent::Converged
            | StatusContent::Empty
            | StatusContent::NoHealth => {}
            StatusContent::NoConditionsYet | StatusContent::Progressing | StatusContent::Other => {}
        }
    }

    #[test]
    fn a_byte_holds_every_voice_and_verdict() {
        let coverage = [
            StatusContent::ConvergedWithConditions,
            StatusContent::Converged,
            StatusContent::Empty,
            StatusContent::NoHealth,
            StatusContent::NoConditionsYet,
            StatusContent::Progressing,
            StatusContent::Other,
        ];
        for content in coverage {
            is_in_the_list(content);
            for verdict in VERDICTS {
                let summary = StatusSummary::new(content, verdict);
                assert_eq!((summary.content(), summary.fallback()), (content, verdict));
            }
        }
    }
}
