//! Which finalizers a deletion waits for, for how long, and how each wait ends.

use std::sync::Arc;

use crate::finding::FindingCode;
use crate::model::convergence::object_context::{ObjectContext, Update};
use crate::model::world::kinds::completed::Work;
use crate::model::world::kinds::{FinalizerWaits, Kind};
use crate::model::world::store::{Deletion, HotRecord, News, Record, Told};
use crate::model::world::visibility::Visibility;
use crate::settings::Settings;
use crate::snapshot::{FinalizerOutcome, Outcome};
use crate::time::{Span, Timestamp};

/// How long new texts in a status count as progress, as a multiple of `finalizer_stuck_after`, and
/// changes of a status of which loopwatch reads nothing. After that, they are probably error
/// messages that differ with every attempt.
const BELIEVE_STATUS: i64 = 4;

/// How long other changes count as progress if the part that loopwatch reads stays the same, as a
/// multiple of `finalizer_stuck_after`.
const BELIEVE_UNREAD: i64 = 1;

/// How long new phases and conditions count as progress, and numbers that count towards an end, as
/// a multiple of `finalizer_stuck_after`.
const BELIEVE_PHASES: i64 = 24;

/// The number of other objects that must lose a finalizer during a deletion, in turn, before its
/// duration is that of a queue.
const QUEUED_FROM: usize = 3;

/// The maximum number of fingerprints that are remembered per deletion. Beyond it, the oldest are
/// forgotten.
const MAX_SHOWN: usize = 32;

impl ObjectContext<'_> {
    /// Updates the deletion, if the object is being deleted. `shown` is the fingerprint of its
    /// phase and conditions, unless they mean a failure; `removed` are the finalizers that the
    /// previous version had and this one lacks. `waited_since` is when the object had begun to wait
    /// for the operator before the deletion. Returns `false` if the kind has too many distinct
    /// finalizers to count all of these.
    pub(crate) fn update_deletion(
        &mut self,
        update: &Update<'_>,
        shown: Option<u64>,
        removed: &[Arc<str>],
        finalizers: &[Arc<str>],
        waited_since: Option<Timestamp>,
    ) -> bool {
        let Some(since) = update.view.deleted else { return true };
        let (now, threshold) = (self.now, self.settings.finalizer_stuck_after);
        let first = self.record.deletion().is_none();
        let hot = self.record.hot_mut();
        let deletion = hot.deletion.get_or_insert_with(|| {
            Box::new(Deletion {
                since,
                seen: (update.live && !update.new).then_some(now),
                waited_since,
                last_progress: None,
                last_step: None,
                shown: Vec::new(),
                told: Told::default(),
                actors: Vec::new(),
                newest_write: None,
                was_abandoned: update.restored.owner_absent,
                found_absent: update.restored.owner_absent.then_some(now),
                attended: None,
                unusually_late: false,
                // If it is already that old, it may have been counted before a restart.
                timed_out: now >= since.after(threshold),
            })
        });

        // A later request with a shorter grace period does not begin a new deletion.
        let since = deletion.since;

        // A phase is not progress if the object has shown it before in this deletion, or if it
        // means a failure: it may be an error message that differs with every attempt.
        let new = shown.filter(|shown| !deletion.shown.contains(shown));
        if new.is_some() && deletion.shown.len() >= MAX_SHOWN {
            deletion.shown.remove(0);
        }

        deletion.shown.extend(new);
        let (believed, is_step) = match deletion.told.hear(update.view) {
            _ if new.is_some() => (BELIEVE_PHASES, true),
            News::Counts => (BELIEVE_PHASES, true),
            News::New | News::Unread => (BELIEVE_STATUS, false),
            News::Same => (BELIEVE_UNREAD, false),
            News::Nothing => (0, false),
        };
        let believed = Span(threshold.0.saturating_mul(believed));
        let status_moves = update.status_changed && !update.new && now < since.after(believed);

        if !removed.is_empty() || status_moves {
            deletion.last_progress = Some(now);
            if is_step || !removed.is_empty() {
                deletion.last_step = Some(now);
            }
        }

        let newest = update.view.managers.iter().filter_map(|m| m.time).max();
        let known = std::mem::replace(&mut deletion.newest_write, newest);
        if update.live && !removed.is_empty() && !update.new {
            self.note_removals(update.view, removed, known);
        }

        let actors = self.actors(update.view, finalizers);
        if let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) {
            deletion.actors = actors;
        }

        if first {
            self.trace_deletion(since, now >= since.after(threshold));
        }

        for finalizer in removed {
            self.finalizer_removed(finalizer, since);
            self.traces.finalizer_removed(self.slot, now, finalizer);
        }

        let mut all_fit = true;
        for finalizer in finalizers.iter().filter(|_| first) {
            match self.kind.waits_for(self.settings.limits.finalizers, finalizer) {
                Some(waits) => _ = waits.waiting.insert((since, self.slot)),
                None => all_fit = false,
            }
        }

        all_fit
    }

    /// Ends the deletion of an object. If it is gone, all of its finalizers count as removed;
    /// otherwise, it is only no longer visible.
    pub(crate) fn finish_deletion(&mut self, gone: bool) {
        let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.take()) else {
            return;
        };
        if gone {
            if !deletion.actors.is_empty() {
                self.kind.completed.note(Work::Deletion, deletion.since, self.now);
            }

            self.end_deletion_trace(Outcome::Deleted);
        } else {
            self.traces.forget(self.slot);
        }

        for (finalizer, _) in &deletion.actors {
            if gone {
                self.removal_ended(finalizer, deletion.since, deletion.shows_nothing());
            } else if let Some(waits) = self.kind.deletions.finalizers.get_mut(finalizer)
                && waits.waiting.remove(&(deletion.since, self.slot))
            {
                // The removal would have taken longer than that.
                waits.removals.add_censored(self.now.since(deletion.since));
            }
        }
    }

    /// Counts a deletion that has become stuck, once.
    pub(crate) fn count_timeout(&mut self) {
        let learn_after = u64::from(self.settings.learn_after);
        let Some(deletion) = self.record.hot.as_mut().and_then(|hot| hot.deletion.as_mut()) else {
            return;
        };
        if std::mem::replace(&mut deletion.timed_out, true) {
            return;
        }

        deletion.unusually_late = deletion.actors.iter().any(|(finalizer, _)| {
            let waits = self.kind.deletions.finalizers.get(finalizer);
            waits.is_some_and(|waits| waits.removals.samples() >= learn_after)
        });

        for (finalizer, _) in &deletion.actors {
            if let Some(waits) = self.kind.deletions.finalizers.get_mut(finalizer) {
                waits.totals.outcomes[FinalizerOutcome::TimedOut as usize] += 1;
            }
        }

        self.end_deletion_trace(Outcome::Late);
    }

    fn finalizer_removed(&mut self, finalizer: &Arc<str>, since: Timestamp) {
        let shows_nothing = self.record.deletion().is_some_and(Deletion::shows_nothing);
        self.removal_ended(finalizer, since, shows_nothing);
    }

    /// Counts the removal of a finalizer. If the watch was blind, the removal may have happened as
    /// early as the start of the blindness. In the grace period after it, this matters only if the
    /// removal would otherwise count as late. `shows_nothing` says that its duration is not that of
    /// the usual work.
    fn removal_ended(&mut self, finalizer: &Arc<str>, since: Timestamp, shows_nothing: bool) {
        let in_time = self.now.since(since) < self.settings.finalizer_stuck_after;
        let watched = self.visibility != Visibility::Lost && (in_time || since >= self.regained);
        let at = if watched { self.now } else { self.unseen_since };
        let Some(FinalizerWaits { waiting, totals, removals, removed }) =
            self.kind.deletions.finalizers.get_mut(finalizer)
        else {
            return;
        };

        if !waiting.remove(&(since, self.slot)) {
            return;
        }

        let took = at.since(since);
        totals.removal.observe(took);
        let standstill = self.settings.finalizer_stuck_after;
        let queued = removed.moved(since, standstill, QUEUED_FROM).is_some();
        if watched {
            removed.note(self.now, (since, true), self.slot, standstill);
        }

        // A removal after an outage or blindness only shows how long that lasted, and one from a
        // queue how long the queue was. Until loopwatch knows how long removals take, a late one
        // may be normal.
        if shows_nothing || !watched {
            removals.add_censored(took);
        } else if !queued {
            removals.add(took);
        }

        let outcome = match took >= self.settings.finalizer_stuck_after {
            true => FinalizerOutcome::RemovedLate,
            false => FinalizerOutcome::Removed,
        };

        totals.outcomes[outcome as usize] += 1;
    }
}

impl Kind {
    /// Returns when the deletion of an object of the kind counts as stuck. While the controller of a
    /// finalizer works off the deletions in order, the object waits for its turn. A deletion that
    /// has been stuck stays so until its own turn.
    pub(crate) fn stuck_at(
        &self,
        settings: &Settings,
        record: &Record,
        deletion: &Deletion,
    ) -> Timestamp {
        let after = self.stuck_after(settings, deletion);
        let stuck = deletion.stuck_at(after);
        let is_open = |hot: &HotRecord| hot.findings.contains(&FindingCode::FinalizerStuck);
        if record.hot.as_deref().is_some_and(is_open) {
            return stuck;
        }

        let in_turn_until = |finalizer: &Arc<str>| {
            let removed = &self.deletions.finalizers.get(finalizer)?.removed;
            removed.moved(deletion.since, after, 1).map(|moved| moved.after(after))
        };

        let each = deletion.own_finalizers().map(in_turn_until);
        each.map(|until| until.map_or(stuck, |until| until.max(stuck))).min().unwrap_or(stuck)
    }
}

impl Deletion {
    /// Returns since when the controllers of the finalizers could work on the deletion.
    pub(crate) fn attended_since(&self) -> Timestamp {
        self.attended.unwrap_or(self.since)
    }

    /// Returns when the deletion counts as stuck, given how long it may take, and that no other
    /// deletion explains the wait. A step begins the time anew. New words in the status give half of
    /// it, because they may be error messages.
    pub(crate) fn stuck_at(&self, after: Span) -> Timestamp {
        let stuck = self.attended_since().after(after);
        let words = self.last_progress.map(|at| at.after(Span(after.0 / 2)));
        let step = self.last_step.map(|at| at.after(after));
        [words, step].into_iter().flatten().fold(stuck, Timestamp::max)
    }

    /// Returns whether the duration of the deletion does not show how long the work usually takes.
    fn shows_nothing(&self) -> bool {
        self.was_abandoned || self.unusually_late
    }

    /// Returns all instants of loopwatch's own clock. After a step of that clock, the time of the
    /// controllers counts from the instant at which loopwatch saw the deletion begin: the clock may
    /// have been wrong before, or the API server's clock may be now.
    pub(crate) fn instants(&mut self) -> impl Iterator<Item = &mut Timestamp> {
        self.attended = self.attended.or(self.seen);
        let Self { seen, waited_since, last_progress, last_step, attended, found_absent, .. } =
            self;
        [seen, waited_since, last_progress, last_step, attended, found_absent].into_iter().flatten()
    }
}
