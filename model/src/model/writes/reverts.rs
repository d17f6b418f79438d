//! Older statuses that are written back: a controller has read the object from a stale cache, or two
//! replicas work at the same time.
//!
//! A real change back, such as a flapping probe, brings new times with it. A stale write brings the old
//! ones.

use std::collections::VecDeque;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::{Detection, events_needed};
use crate::model::part::StepContext;
use crate::model::world::store::Slot;
use crate::model::writes::author::{Author, AuthorRole};
use crate::model::writes::fields::Fields;
use crate::model::writes::seen::{Seen, push};
use crate::settings::bounds::KEPT_REVERTS;
use crate::time::{Span, Timestamp};

/// The last reverts of an object.
#[derive(Debug, Default)]
pub(super) struct Reverts {
    /// The earliest first.
    reverts: VecDeque<Revert>,
}

/// An older status was written back.
#[derive(Debug)]
struct Revert {
    at: Timestamp,
    by: Option<Author>,
}

impl Reverts {
    /// Notes a version if it writes an older status back: one of `earlier`, with all its times, although
    /// a later status had a later time; or if the observed generation falls.
    pub(super) fn note(&mut self, earlier: &VecDeque<Seen>, seen: &Seen, generation_falls: bool) {
        if !generation_falls && !restores(earlier, seen) {
            return;
        }

        push(&mut self.reverts, Revert { at: seen.at, by: seen.author.clone() }, KEPT_REVERTS);
    }

    /// Returns whether a revert lies within a span before now.
    pub(super) fn are_needed(&self, now: Timestamp, span: Span) -> bool {
        self.reverts.back().is_some_and(|last| last.at > now.before(span))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reverts.is_empty()
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.reverts.iter_mut().for_each(|revert| revert.at = revert.at.shifted(by_ms));
    }
}

/// Whether a version restores the status of an earlier one, and thereby sets the time of a condition back.
/// A condition that disappears sets nothing back.
fn restores(earlier: &VecDeque<Seen>, seen: &Seen) -> bool {
    let Some(same) = earlier.iter().rposition(|old| old.status == seen.status) else {
        return false;
    };

    earlier.range(same + 1..).any(|it| it.settled != seen.settled && it.is_set_back_by(seen))
}

/// Detects a status that is reverted again and again.
pub(super) fn detect(
    step: &StepContext<'_>,
    slot: Slot,
    known: &Reverts,
    fields: &Fields,
) -> Option<Detection> {
    let (world, settings) = (&*step.world, &step.world.settings);
    let record = world.store.get(slot)?;
    let from = world.now.before(settings.revert_window);
    let is_of_client = |revert: &&Revert| {
        revert.by.as_ref().is_some_and(|author| author.role == AuthorRole::Client)
    };
    let within: Vec<&Revert> =
        known.reverts.iter().filter(|it| it.at > from && !is_of_client(it)).collect();

    let is_open = world.has_open(FindingCode::StatusReverted, slot);
    let (first, last) = (within.first()?, within.last()?);
    if within.len() < events_needed(is_open, settings.status_reverts) as usize {
        return None;
    }

    let author = last.by.as_ref().filter(|author| author.role == AuthorRole::Controller);
    let evidence = || {
        Evidence::new()
            .text("manager", author.map_or("unknown", |author| &*author.name))
            .names("fields", fields.of("status"))
            .with("times", Value::count(within.len() as u64))
            .with("last_at", Value::Time(last.at))
    };
    let detection =
        Detection::new(world.now, FindingCode::StatusReverted, first.at, world.now, evidence);
    Some(detection.not_before(record.created()).suspected_if(author.is_none()))
}
