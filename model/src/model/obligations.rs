//! What the operator owes: each change of a spec opens an obligation, and each obligation ends in exactly one way.
//!
//! The bad event is counted when the deadline passes, not when convergence finally comes: what never finishes would
//! never be counted otherwise. Only a change of the spec starts the clock; losing the goal later is a regression.

use super::context::{ObjectContext, Seen};
use super::reading::{Acknowledged, Verdict};
use super::store::{Obligation, Unconverged};
use crate::observation::{Manager, ObjectView, StatusShape};
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Takes a new version of the object.
    pub(crate) fn update_obligation(&mut self, seen: &Seen<'_>) {
        if seen.view.deleted.is_some() {
            self.close_open(Outcome::Deleted);
            return self.clear_unconverged();
        }
        if seen.verdict == Verdict::Suspended {
            self.close_open(Outcome::Suspended);
            return self.clear_unconverged();
        }
        if seen.live && (seen.spec_changed || seen.new) {
            self.open(seen, self.now, false);
        } else if seen.spec_changed {
            // Changed while nobody told us; when, stands in its timestamps.
            let written = spec_written(seen.view).unwrap_or(self.now).min(self.now);
            self.open(seen, written, true);
        } else if !self.record.flags.settled && self.record.obligation().is_none() {
            // From a list, or a status that appears on an object that had none to be judged by.
            self.open_from_timestamps(seen);
        } else if self.record.obligation().is_none() {
            self.watch_for_regression(seen);
        }
        self.note_progress(seen);
    }

    /// Brings the obligation up to now: the part that time alone decides.
    pub(crate) fn advance_obligation(&mut self) {
        let Some(obligation) = self.record.obligation().cloned() else { return };
        let (now, settings) = (self.now, self.settings);
        if let Some(reached) = obligation.reached {
            if now >= reached.after(settings.settle) {
                self.converge(&obligation, reached);
            }
        } else if let Some(answered) = obligation.answered {
            if now >= answered.after(settings.reject_after) {
                self.count(Outcome::Rejected);
            }
        } else if obligation.stale {
            if now >= obligation.opened.after(settings.unsaid_after) {
                self.count(Outcome::Unknown);
                self.record.flags.settled = true;
                self.clear_unconverged();
            }
        } else if now >= obligation.late_at {
            self.deadline_passed();
        }
    }

    /// The deadline has passed. An object that never had a status is judged by its siblings: when most of them have
    /// one, it was owed; when not, there never was a promise.
    fn deadline_passed(&mut self) {
        if self.record.verdict == Verdict::Unknown && !self.record.flags.has_status && self.kind.expects_status() {
            self.record.verdict = Verdict::Progressing;
        }
        match (self.blind, self.record.verdict) {
            (true, _) => self.count(Outcome::Unknown),
            (false, Verdict::Unknown) => self.clear_unconverged(),
            (false, _) => self.count(Outcome::Late),
        }
    }

    /// Ends an obligation that is still open, for a reason that is not the operator's.
    pub(crate) fn close_open(&mut self, outcome: Outcome) {
        let Some(opened) = self.record.obligation().filter(|o| o.counted.is_none()).map(|o| o.opened) else { return };
        self.kind.learned.cut_off(self.now.since(opened));
        self.count(outcome);
    }

    /// Nothing is owed any more.
    pub(crate) fn clear_unconverged(&mut self) {
        if let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.take()) {
            self.kind.unconverged.remove(&(unconverged.since, self.slot));
        }
        self.kind.failing.remove(&self.slot);
    }

    fn open(&mut self, seen: &Seen<'_>, opened: Timestamp, backfilled: bool) {
        if seen.by_operator && self.record.obligation().is_some_and(|o| o.counted.is_none()) {
            return; // the operator completes the spec that it works on: still the same promise
        }
        let good = if self.record.flags.settled {
            Some((seen.old_spec, Span::secs(i64::from(self.record.took))))
        } else {
            self.record.unconverged().and_then(|unconverged| unconverged.good)
        };
        self.close_open(Outcome::Superseded);
        let since = self.record.unconverged().map_or(opened, |unconverged| unconverged.since.min(opened));
        let regressed = None;
        let (status_written, status_writer) = status_write(seen, opened);
        self.clear_unconverged();
        let obligation = self.obligation(opened, backfilled);
        self.record.flags.settled = false;
        self.record.hot_mut().unconverged =
            Some(Unconverged { since, obligation: Some(obligation), regressed, good, status_written, status_writer });
        self.kind.unconverged.insert((since, self.slot));
    }

    fn obligation(&self, opened: Timestamp, backfilled: bool) -> Obligation {
        let (deadline, deadline_source) = self.kind.deadline(self.settings);
        let late_at = opened.after(self.kind.slo_deadline(self.settings));
        // What was late before we came was counted by whoever watched then, or by nobody; never twice.
        let counted = (backfilled && late_at <= self.now).then_some(Outcome::Late);
        Obligation {
            opened,
            deadline: opened.after(deadline),
            deadline_source,
            late_at,
            backfilled,
            acknowledged: None,
            reached: None,
            answered: None,
            stale: false,
            counted,
        }
    }

    /// An object that we see for the first time, in a list: when its spec was written stands in its timestamps.
    fn open_from_timestamps(&mut self, seen: &Seen<'_>) {
        match seen.verdict {
            Verdict::Converged | Verdict::Finished => self.record.flags.settled = true,
            Verdict::Progressing | Verdict::Failed => {
                let written = spec_written(seen.view).unwrap_or(self.now).min(self.now);
                match seen.lost.filter(|lost| *lost > written.after(self.kind.deadline(self.settings).0)) {
                    Some(lost) => {
                        self.record.flags.settled = true; // it had time enough to converge before it was lost
                        self.regress(seen, lost);
                    }
                    None => self.open(seen, written, true),
                }
            }
            Verdict::Suspended | Verdict::Unknown => {}
        }
    }

    fn watch_for_regression(&mut self, seen: &Seen<'_>) {
        match seen.verdict {
            Verdict::Progressing | Verdict::Failed if self.record.unconverged().is_none() => {
                self.regress(seen, self.now)
            }
            Verdict::Converged | Verdict::Finished => self.clear_unconverged(),
            _ => {}
        }
    }

    fn regress(&mut self, seen: &Seen<'_>, since: Timestamp) {
        let (status_written, status_writer) = status_write(seen, since);
        self.record.hot_mut().unconverged = Some(Unconverged {
            since,
            obligation: None,
            regressed: Some(since),
            good: None,
            status_written,
            status_writer,
        });
        self.kind.unconverged.insert((since, self.slot));
    }

    fn note_progress(&mut self, seen: &Seen<'_>) {
        let now = self.now;
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        if seen.status_changed && !seen.spec_changed && !seen.new {
            unconverged.status_written = Some(now);
            unconverged.status_writer = status_writer(seen.view).map_or_else(String::new, |m| m.name.clone());
        }
        let written = unconverged.status_written.is_some();
        let Some(obligation) = unconverged.obligation.as_mut() else { return };
        let current = match seen.acknowledged {
            Acknowledged::Yes => true,
            Acknowledged::No => false,
            Acknowledged::Unsaid => written,
        };
        if current && obligation.acknowledged.is_none() {
            obligation.acknowledged = Some(now);
            if !obligation.backfilled {
                self.kind.totals.acknowledge.observe(now.since(obligation.opened));
            }
        }
        let says_done = matches!(seen.verdict, Verdict::Converged | Verdict::Finished);
        obligation.stale = says_done && !current && seen.acknowledged == Acknowledged::Unsaid;
        obligation.reached = (says_done && current).then(|| obligation.reached.unwrap_or(now));
        let answers = seen.verdict == Verdict::Failed && current;
        let again = seen.status_changed;
        obligation.answered = answers.then(|| obligation.answered.filter(|_| !again).unwrap_or(now));
    }

    fn converge(&mut self, obligation: &Obligation, reached: Timestamp) {
        let took = reached.since(obligation.opened);
        self.count(Outcome::Converged);
        if !obligation.backfilled {
            self.kind.totals.convergence.observe(took);
            self.kind.learned.ended(took);
        }
        self.record.took = u32::try_from(took.0 / 1000).unwrap_or(u32::MAX);
        self.record.flags.settled = true;
        self.clear_unconverged();
    }

    fn count(&mut self, outcome: Outcome) {
        let Some(unconverged) = self.record.hot.as_mut().and_then(|hot| hot.unconverged.as_mut()) else { return };
        let Some(obligation) = unconverged.obligation.as_mut().filter(|o| o.counted.is_none()) else { return };
        obligation.counted = Some(outcome);
        self.namespace.totals.obligations[outcome as usize] += 1;
    }
}

/// When the spec was last written: by the newest entry that owns spec fields, else the creation.
pub(crate) fn spec_written(view: &ObjectView) -> Option<Timestamp> {
    let by_managers =
        view.managers.iter().filter(|m| m.owns.spec && m.subresource.is_empty()).filter_map(|m| m.time).max();
    match view.generation {
        0 | 1 => view.created.or(by_managers),
        _ => by_managers.or(view.created),
    }
}

/// Whether the newest write of the spec came from whoever writes the status.
pub(crate) fn spec_written_by_operator(view: &ObjectView) -> bool {
    let newest = view.managers.iter().filter(|m| m.owns.spec && m.subresource.is_empty()).max_by_key(|m| m.time);
    let (Some(spec), Some(status)) = (newest, status_writer(view)) else { return false };
    spec.name == status.name
}

fn status_writer(view: &ObjectView) -> Option<&Manager> {
    view.managers.iter().filter(|m| m.owns.status).max_by_key(|m| m.time)
}

/// The last write of the status since `opened`, as far as the object shows, and who writes it.
fn status_write(seen: &Seen<'_>, opened: Timestamp) -> (Option<Timestamp>, String) {
    let writer = status_writer(seen.view);
    let name = writer.map_or_else(String::new, |m| m.name.clone());
    let time = writer.and_then(|m| m.time);
    if seen.new && seen.acknowledged != Acknowledged::No {
        // Of an object that was never seen before, the status is about the current spec unless its times say otherwise
        // (dumps come without managers).
        let older = time.zip(spec_written(seen.view)).is_some_and(|(status, spec)| status < spec);
        let current = seen.view.status == StatusShape::Filled && !older;
        return (current.then(|| time.unwrap_or(opened).max(opened)), name);
    }
    // Server times have whole seconds: a write within the same second may have been before or after.
    let second_after = opened.after(Span::secs(1));
    (time.filter(|time| !seen.spec_changed && *time >= second_after), name)
}
