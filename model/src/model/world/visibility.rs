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

use crate::model::world::kinds::Watch;
use crate::time::{Span, Timestamp};

/// The longest grace after blindness.
pub(super) const MAX_GRACE: Span = Span::mins(1);

/// What a watch can see now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// All objects are up to date.
    Clear,
    /// All objects are up to date, but new findings open only at this instant.
    Grace(Timestamp),
    /// The objects may be out of date.
    Lost,
}

impl Watch {
    pub(crate) fn visibility(&self, now: Timestamp) -> Visibility {
        match (self.blindness.lost_since, self.blindness.grace_until) {
            (Some(_), _) => Visibility::Lost,
            (None, until) if until > now => Visibility::Grace(until),
            (None, _) => Visibility::Clear,
        }
    }

    /// Returns since when what the watch shows now may have happened: since the beginning of the
    /// blindness, even in the grace after it, because a watch that continues from its version shows
    /// the events of the blindness only then.
    pub(crate) fn unseen_since(&self, now: Timestamp) -> Timestamp {
        match self.visibility(now) {
            Visibility::Lost => self.blindness.lost_since.unwrap_or(now),
            Visibility::Grace(_) => self.blindness.lost,
            Visibility::Clear => now,
        }
    }

    pub(super) fn is_up_to_date(&self) -> bool {
        self.lists.synced && self.lists.listing.is_none() && !self.blindness.failing
    }
}
