//! Runs: objects that do one piece of work and end, such as a pipeline run or a backup.
//!
//! A run takes as long as its work takes. While it is under way, no deadline for convergence applies
//! to it, and it is not late. It is overdue only once it has taken far longer than the other runs of
//! its kind. A run that has not begun yet waits for its operator, as any other object does, or for its
//! turn: many operators run only some objects at the same time.

use crate::finding::FindingCode;
use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::status::reading::{self, Verdict};
use crate::model::world::kinds::pace::Wait;
use crate::model::world::kinds::runs::UnderWay;
use crate::model::world::store::{Flag, Obligation};
use crate::snapshot::{DeadlineSource, Outcome};
use crate::time::{Span, Timestamp};

/// How often a run may take as long as nearly all other runs of its kind.
const USUAL_FACTOR: i64 = 3;

/// How often a run may take as long as the longest of a few other ones.
const LONGEST_FACTOR: i64 = 10;

/// The number of other runs from which on they show how long a run usually takes, if they took about
/// as long as each other.
const ALIKE_FROM: u64 = 7;

/// How many times as long as the shortest of such runs the longest one took at most.
const ALIKE_WITHIN: i64 = 2;

/// The number of other runs from which on the longest one shows something.
const FEW_RUNS: u64 = 3;

/// How long a run may wait for its turn at most. After a day, people want to know, whatever runs.
const LONGEST_TURN: Span = Span::hours(24);

/// The shortest time after which a run is overdue: its work may differ from that of other runs.
const AT_LEAST: Span = Span::hours(1);

impl ObjectContext<'_> {
    /// Returns whether a run of the object is under way.
    pub(super) fn runs(&self) -> bool {
        self.record.unconverged().is_some_and(|unconverged| unconverged.runs)
    }

    /// Returns whether the objects of the kind do their work once and end.
    pub(crate) fn is_of_runs(&self) -> bool {
        self.kind.runs.is_kind_of_runs()
            || reading::runs_to_completion(&self.kind.group, &self.kind.kind)
    }

    /// Returns whether a new version shows a run that is under way, or waits in a queue for a time that
    /// its operator does not decide.
    pub(super) fn is_under_way(&self, update: &Update<'_>) -> bool {
        let is_run = || {
            self.is_of_runs()
                || reading::will_end(update.view)
                || (reading::is_timed_work(update.view) && !reading::is_being_made(update.view))
        };
        update.verdict == Verdict::Progressing
            && self.record.unconverged().is_some()
            && (reading::waits_for_quota(update.view)
                || (reading::has_begun(update.view) && is_run()))
    }

    /// Counts how the first work on the object has ended.
    pub(super) fn count_run(&mut self) {
        self.kind.runs.count(self.record.verdict == Verdict::Finished);
    }

    /// Records whether a run of the object is under way; `waited` says since when it had waited, and
    /// whether the API server wrote that instant.
    pub(super) fn note_run(&mut self, update: &Update<'_>, waited: Option<(Timestamp, bool)>) {
        let Some(waited) = waited else { return self.end_run(Some(update)) };
        let seen = update.live && !update.new;
        let earlier = self.kind.runs.under_way(self.slot).copied();
        let mut run = earlier.unwrap_or_else(|| UnderWay {
            begun: if seen { self.now } else { self.begun_by(update) },
            seen,
            passes: Timestamp(i64::MAX),
        });

        self.kind.runs.note_under_way(self.slot, run);
        run.passes = self.run_under_way_passes().unwrap_or(Timestamp(i64::MAX));
        self.kind.runs.note_under_way(self.slot, run);

        if earlier.is_none() && seen {
            self.kind.runs.begins(self.now, waited, self.slot);
            self.learn_beginning();
        }
    }

    /// Learns how long the run that has just begun waited after its creation. If it waited for its
    /// turn, that shows nothing about runs whose turn it is.
    fn learn_beginning(&mut self) {
        let obligation = self.record.obligation().filter(|o| o.creation && o.is_measured());
        let Some(obligation) = obligation.filter(|o| self.regained <= o.opened).cloned() else {
            return;
        };

        let wait = Wait { from: obligation.opened, to: self.now };
        let beginnings = &mut self.kind.learned.beginning;
        if self.now < obligation.slo_deadline {
            beginnings.add(self.now.since(obligation.opened));
        } else if obligation.outcome == Some(Outcome::Late)
            && self.operator_failed <= obligation.opened
            && self.kind.runs.teaches(wait)
        {
            beginnings.add_censored(obligation.slo_deadline.since(obligation.opened));
            beginnings.add_late(self.now.since(obligation.opened));
        }
    }

    /// Returns the latest instant at which a run that loopwatch did not see begin may have begun:
    /// the status shows that it is under way. An earlier process may have found it overdue already.
    fn begun_by(&self, update: &Update<'_>) -> Timestamp {
        let unconverged = self.record.unconverged();
        let opened = self.record.obligation().map_or(self.now, |obligation| obligation.opened);
        let written = unconverged
            .and_then(|unconverged| unconverged.last_status_write)
            .filter(|_| update.restored.overdue.is_none());

        written.map_or(opened, |written| written.clamp(opened, self.now.max(opened)))
    }

    /// Records that no run of the object is under way any more, and learns how long it took if a
    /// new version shows that it succeeded.
    pub(super) fn end_run(&mut self, update: Option<&Update<'_>>) {
        let Some(run) = self.kind.runs.ends(self.now, self.slot) else { return };
        let succeeded = update.is_some_and(|update| {
            update.live && matches!(update.verdict, Verdict::Finished | Verdict::Converged)
        });

        if succeeded && run.seen && self.regained <= run.begun {
            self.kind.learned.run.add(self.now.since(run.begun));
        }
    }

    /// Returns until when a run that the operator has acknowledged may wait for its turn, while
    /// other runs of its kind are under way; `None` if it does not wait for others, or somebody has
    /// set its deadline. An open finding stays open until the run begins.
    pub(crate) fn turn_to_run(&self, obligation: &Obligation) -> Option<Timestamp> {
        let waits = obligation.creation && obligation.acknowledged.is_some() && !self.runs();
        if !waits || self.has_finding(FindingCode::Overdue) || !self.is_of_runs() {
            return None;
        }

        // What runs usually wait shows nothing about a run whose turn it is.
        let (deadline, source) = self.kind.unlearned_deadline(self.settings);
        if source == DeadlineSource::Configured || self.annotated_deadline.is_some() {
            return None;
        }

        let turn = self.kind.runs.turn(obligation.opened, self.now, deadline)?;
        Some(turn.min(obligation.opened.after(LONGEST_TURN)))
    }

    /// Returns whether a run may still wait for its turn.
    pub(super) fn waits_to_run(&self) -> bool {
        let obligation = self.record.obligation();
        obligation.and_then(|o| self.turn_to_run(o)).is_some_and(|turn| turn > self.now)
    }

    /// Returns when the time of the run that is under way passes, if one is.
    pub(crate) fn run_under_way_passes(&self) -> Option<Timestamp> {
        let obligation = self.record.obligation().filter(|_| self.runs())?;
        Some(self.run_passes(obligation))
    }

    /// Returns whether a run is under way and has time left.
    pub(super) fn has_time_to_run(&self) -> bool {
        self.run_under_way_passes().is_some_and(|passes| passes > self.now)
    }

    /// Returns when the time of a run passes; the last of all instants if nothing shows how long it
    /// may take. A deadline that somebody has set applies as it is.
    pub(crate) fn run_passes(&self, obligation: &Obligation) -> Timestamp {
        let (deadline, source) = self.kind.deadline(self.settings, obligation.creation);
        let configured = (source == DeadlineSource::Configured).then_some(deadline);
        let passes = match self.annotated_deadline.or(configured) {
            Some(set) => Some(obligation.opened.after(set)),
            None if obligation.creation => self.usual_run(obligation.opened),
            None => self.last_run().map(|allowed| obligation.opened.after(allowed)),
        };
        passes.unwrap_or(Timestamp(i64::MAX))
    }

    /// Returns where the deadline that applies to an obligation comes from. The time of a run that is
    /// under way is learned unless somebody has set it.
    pub(crate) fn source_of_deadline(&self, obligation: &Obligation) -> DeadlineSource {
        match obligation.deadline_source {
            DeadlineSource::Default if self.runs() => DeadlineSource::Learned,
            source => source,
        }
    }

    /// Returns when a run has taken too long in view of the other runs of its kind. Its time counts
    /// from its beginning, because a run may have waited for its turn for hours. As long as too few
    /// beginnings are known, it counts from its creation, and so does that of the others.
    fn usual_run(&self, created: Timestamp) -> Option<Timestamp> {
        let learned = &self.kind.learned;
        let begun = self.kind.runs.under_way(self.slot).map(|run| run.begun);
        let (durations, from) = match begun.filter(|_| learned.run.samples() >= FEW_RUNS) {
            Some(begun) => (&learned.run, begun),
            None => (&learned.creation, created),
        };

        let (samples, learn_after) = (durations.samples(), u64::from(self.settings.learn_after));
        if learn_after == 0 || samples < FEW_RUNS {
            return None;
        }

        let times = |span: Span, factor: i64| Span(span.0.saturating_mul(factor));
        let usual = durations.p99().filter(|_| samples >= learn_after);
        let alike = durations.extremes().filter(|(shortest, longest)| {
            samples >= ALIKE_FROM && *longest <= times(*shortest, ALIKE_WITHIN)
        });
        let allowed = match (usual, alike) {
            (Some(usual), _) => times(usual, USUAL_FACTOR),
            (None, Some((_, longest))) => times(longest, USUAL_FACTOR),
            (None, None) => times(durations.longest()?, LONGEST_FACTOR),
        };

        Some(from.after(allowed.max(AT_LEAST)))
    }

    /// Returns how long an object that runs again may take in view of its last run.
    fn last_run(&self) -> Option<Span> {
        let last = Span::secs(i64::from(self.record.last_convergence_secs));
        let allowed = Span(last.0.saturating_mul(LONGEST_FACTOR)).max(self.deadline(false).0);
        self.record.flags.has(Flag::ConvergenceTimed).then_some(allowed)
    }
}
