//! What a watch can see now. Findings depend on it: while a watch is blind, no finding about its
//! objects opens or closes.
//!
//! ```text
//!                 source fails, list begins                    grace is over
//!   Clear ──────────────────────────────────▶ Lost ──▶ Grace ───────────────▶ Clear
//!                                      source recovers,
//!                                      list ends
//! ```
//!
//! The outage that blinded loopwatch has probably blinded the operator, too. After it, a problem
//! that newly appears becomes a finding only after a grace as long as the blindness was, at most
//! [`MAX_GRACE`]. Blindness that begins during a grace extends it only if it is longer than the one
//! before, so a connection that breaks again and again hides nothing. The first list of a watch has
//! no grace, unless its source failed before, or its permission was gone: the account is often that
//! of the operator.

use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::store::Slot;
use crate::observation::SourceId;
use crate::time::{Span, Timestamp};

/// The longest grace after blindness.
const MAX_GRACE: Span = Span::mins(1);

/// What a watch can see now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All objects are up to date.
    Clear,
    /// All objects are up to date, but new findings open only at this instant.
    Grace(Timestamp),
    /// The objects may be out of date.
    Lost,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn sight(&self, now: Timestamp) -> Sight {
        match (self.lost_since, self.grace_until) {
            (Some(_), _) => Sight::Lost,
            (None, until) if until > now => Sight::Grace(until),
            (None, _) => Sight::Clear,
        }
    }

    /// Returns since when what the watch shows now may have happened: since the beginning of the
    /// blindness, also in the grace after it, because a watch that continues from its version shows
    /// the events of the blindness only then.
    pub(crate) fn unseen_since(&self, now: Timestamp) -> Timestamp {
        match self.sight(now) {
            Sight::Lost => self.lost_since.unwrap_or(now),
            Sight::Grace(_) => self.lost,
            Sight::Clear => now,
        }
    }

    fn is_up_to_date(&self) -> bool {
        self.synced && self.listing.is_none() && !self.failing
    }
}

impl World {
    /// Updates the sight of a watch after its source failed or recovered, or a list began or ended.
    /// If sight returns, everything that would have changed meanwhile is reviewed.
    pub(crate) fn update_sight(&mut self, number: u16) {
        let now = self.now;
        let watch = &mut self.watches[number as usize];
        match (watch.is_up_to_date(), watch.lost_since) {
            (false, None) => watch.lost_since = Some(now),
            (true, Some(since)) => {
                watch.lost_since = None;

                // The first list is no blindness, unless the source failed before.
                let grace = now.since(since).min(MAX_GRACE);
                let is_longer = since >= watch.grace_until || grace > watch.grace;
                if (watch.seen_before || watch.failed_before) && is_longer {
                    (watch.grace, watch.grace_until) = (grace, now.after(grace));
                }

                (watch.lost, watch.regained) = (since, now);
                (watch.seen_before, watch.failed_before) = (true, false);
                self.agenda.objects.append(&mut watch.postponed);
                self.agenda.kinds.insert(watch.kind);
                self.agenda.restored_findings = true;
            }
            _ => {}
        }
    }

    /// Remembers to review an object when the sight of its watch returns.
    pub(crate) fn postpone_review(&mut self, slot: Slot) {
        if let Some(record) = self.store.get(slot) {
            self.watches[record.watch as usize].postponed.insert(slot);
        }
    }
}

impl World {
    pub(crate) fn mark_blind(&mut self, id: &SourceId, since: Timestamp) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blind.is_none() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, false));
            watch.blind = Some(since);
        }
    }

    pub(crate) fn clear_blind(&mut self, id: &SourceId) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.find_watch(watch) else { return };
        let now = self.now;
        let watch = &mut self.watches[number as usize];

        if watch.blind.take().is_some() {
            watch.namespaces.iter_mut().for_each(|namespace| namespace.count_to(now, true));
        }
    }
}
