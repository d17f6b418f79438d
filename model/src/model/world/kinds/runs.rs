//! The runs of a kind: how the first work on its objects ended, and which of them are under way.
//!
//! A controller may run only some objects at the same time. The others wait for their turn while
//! these are under way, and begin in the order in which they were created.

use std::collections::BTreeMap;

use crate::model::world::kinds::Kind;
use crate::model::world::kinds::pace::{Answer, Pace, Wait};
use crate::model::world::kinds::served::Served;
use crate::model::world::store::Slot;
use crate::settings::Settings;
use crate::snapshot::DeadlineSource;
use crate::time::{Span, Timestamp};

/// The number of objects that must have ended before the kind counts as a kind of runs.
const RUNS_FROM: u32 = 3;

/// The share of the objects of a kind of runs that may stay: one in this number.
const FEW_STAY: u32 = 10;

/// After this time without a beginning, the order of the runs counts anew.
const STANDSTILL: Span = Span::hours(24);

/// How long a run whose time has passed keeps others waiting. The run itself has a finding then,
/// and the others are not to blame.
const BLOCKS_FOR: Span = Span::hours(24);

/// The runs of one kind.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Objects that have ended.
    ended: u32,
    /// Objects that have converged, and stay.
    stayed: u32,
    /// The runs that are under way. At most one for each object.
    under_way: BTreeMap<Slot, UnderWay>,
    /// The latest runs that have begun.
    begun: Served,
    /// When runs began.
    pace: Pace,
    /// When the last run that was under way ended.
    idle_since: Option<Timestamp>,
}

/// A run that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    /// When it began, or the latest instant at which it may have begun.
    pub(crate) begun: Timestamp,
    /// loopwatch saw it begin.
    pub(crate) seen: bool,
    /// When its time passes.
    pub(crate) passes: Timestamp,
}

impl Runs {
    /// Returns whether the objects of the kind do their work once and end.
    pub(crate) fn is_kind_of_runs(&self) -> bool {
        self.ended >= RUNS_FROM && self.stayed.saturating_mul(FEW_STAY) <= self.ended
    }

    /// Counts how the first work on an object has ended.
    pub(crate) fn count(&mut self, ended: bool) {
        let count = if ended { &mut self.ended } else { &mut self.stayed };
        *count = count.saturating_add(1);
    }

    /// Returns the run of an object that is under way.
    pub(crate) fn under_way(&self, slot: Slot) -> Option<&UnderWay> {
        self.under_way.get(&slot)
    }

    /// Records that a run is under way.
    pub(crate) fn note_under_way(&mut self, slot: Slot, run: UnderWay) {
        self.under_way.insert(slot, run);
    }

    /// Records that a run has just begun, and since when it had waited; `dated` if the API server
    /// wrote that instant.
    pub(crate) fn begins(&mut self, now: Timestamp, waited: (Timestamp, bool), slot: Slot) {
        self.begun.note(now, waited, slot, STANDSTILL);
        self.pace.answered(now);
    }

    /// Returns whether the late beginning of a run that has just begun shows how long runs may wait:
    /// others began meanwhile, so it did not only wait for the end of an outage.
    pub(crate) fn teaches(&mut self, wait: Wait) -> bool {
        self.pace.teaches(Answer::Acknowledgement, wait)
    }

    /// Records that a run is no longer under way, and returns it.
    pub(crate) fn ends(&mut self, now: Timestamp, slot: Slot) -> Option<UnderWay> {
        let ended = self.under_way.remove(&slot)?;
        if self.under_way.is_empty() {
            self.idle_since = Some(now);
        }

        Some(ended)
    }

    /// Returns until when a run that was created at `since` may wait for its turn: as long as
    /// another run is under way, and then for `deadline`. Once later runs have
    /// passed it, it does not wait for its turn.
    pub(crate) fn turn(
        &self,
        since: Timestamp,
        now: Timestamp,
        deadline: Span,
    ) -> Option<Timestamp> {
        if self.begun.is_passed_over(since) {
            return None;
        }

        if self.under_way.values().any(|run| run.passes.after(BLOCKS_FOR) > now) {
            return Some(now.after(Span(deadline.0 / 2)));
        }

        self.idle_since.map(|idle| idle.after(deadline))
    }

    /// Moves all own instants by `by_ms` milliseconds.
    pub(crate) fn rebase(&mut self, by_ms: i64) {
        self.begun.rebase(by_ms);
        self.pace.rebase(by_ms);
        let runs = self.under_way.values_mut();
        let own = runs.flat_map(|run| [&mut run.begun, &mut run.passes]);
        own.filter(|at| at.0 < i64::MAX)
            .chain(&mut self.idle_since)
            .for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Kind {
    /// Returns how long a run may wait after its creation before it begins. Runs of a low priority
    /// may always wait for others.
    pub(crate) fn beginning_deadline(&self, settings: &Settings) -> (Span, DeadlineSource) {
        self.configured_or_learned(settings, &self.learned.beginning)
    }
}
