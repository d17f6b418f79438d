//! Silent statuses: objects whose status does not, or does not yet, say anything about their
//! health.
//!
//! A silent status matters only if enough other objects of the kind have one that says more (see
//! `StatusCoverage::expected`). Then the operator has not done its work yet. Otherwise, the
//! operator may never write more, so a silent status opens no finding and is never late.

use crate::model::convergence::object_context::{self, ObjectContext, Restored};
use crate::model::status::coverage::{Expected, StatusContent, StatusSummary};
use crate::model::status::reading::{self, Reading, Reason, Verdict};
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::model::world::kinds::{Kind, Watch};
use crate::model::world::store::{Flag, Slot};
use crate::observation::{ObjectView, StatusSchema, StatusShape};

impl Kind {
    /// Returns whether an object without a status is expected to get one.
    pub(crate) fn expects_status(&self) -> bool {
        self.expected().status
    }

    fn expected(&self) -> Expected {
        let expected = self.silent_status.coverage.expected();
        Expected {
            status: expected.status && !matches!(self.status, StatusSchema::None),
            ..expected
        }
    }
}

impl ObjectContext<'_> {
    /// Counts what a new version of the object says.
    pub(crate) fn count_content(
        &mut self,
        view: &ObjectView,
        reading: &Reading,
        new: bool,
        live: bool,
    ) {
        let content = StatusContent::of(view, reading);
        let old = if new { StatusContent::Other } else { self.record.silence.content() };
        self.kind.silent_status.coverage.count(old, content);

        let matters =
            old == content && content.is_silent() && self.record.verdict == Verdict::Progressing;
        self.record.flags.set(Flag::SilentStatusMatters, matters);
        self.record.flags.set(Flag::HasStatus, view.status == StatusShape::Filled);
        self.record.silence = StatusSummary::new(content, reading.fallback);

        if !live && content.is_silent() {
            self.kind.silent_status.listed_silent.insert(self.slot);
        }
    }

    /// Expects more of a silent object if an earlier process had a finding about its silent status.
    /// By now, there may be too many silent objects to expect more of all of them.
    pub(crate) fn expect_restored(&mut self, restored: &Restored) {
        let expected = restored.unacknowledged.or(restored.overdue).is_some();
        if expected && self.record.silence.content().is_silent() {
            self.record.flags.set(Flag::SilentStatusMatters, true);
        }
    }

    /// Returns the verdict on a version that [`Self::count_content`] has counted.
    pub(crate) fn verdict_on(&self, reading: &Reading, live: bool) -> Verdict {
        if !self.is_child() && reading::is_running_job(&self.kind.group, &self.kind.kind, reading) {
            return Verdict::Unknown; // nothing shows how long it may take
        }

        let content = self.record.silence.content();
        let expected =
            if live { Some(self.kind.expected()) } else { self.kind.silent_status.coverage.listed };
        match expected {
            _ if !content.is_silent() => reading.verdict,
            _ if self.record.flags.has(Flag::SilentStatusMatters) => Verdict::Progressing,
            Some(expected) if expected.of(content) => Verdict::Progressing,
            Some(_) => reading.fallback,
            None => Verdict::Unknown, // the end of the list decides
        }
    }

    /// Returns whether the object is young and its operator, which has begun to write conditions,
    /// may still write more.
    pub(crate) fn may_say_more_soon(&self) -> bool {
        let young =
            self.record.obligation().is_some_and(|o| o.outcome.is_none() && self.now < o.deadline);
        young && self.record.reason == Reason::NoSummaryYet
    }

    /// Decides the verdict on an object whose status was silent in a list. Returns whether the
    /// verdict changed.
    fn review_silent_status(&mut self, expected: Expected) -> bool {
        let (content, fallback) = (self.record.silence.content(), self.record.silence.fallback());
        if self.record.verdict != Verdict::Unknown || !content.is_silent() {
            return false;
        }

        let open = self.record.unconverged().is_some();
        if expected.of(content) {
            self.record.verdict = Verdict::Progressing;
            if !open && !self.record.flags.has(Flag::SpecConverged) {
                self.open_silent_obligation();
            }
        } else {
            self.record.verdict = fallback;
            if matches!(fallback, Verdict::Converged | Verdict::Finished) && !open {
                self.record.flags.set(Flag::SpecConverged, true);
            }
        }

        self.record.verdict != Verdict::Unknown
    }
}

/// Once a kind shows that its objects get a status, reviews its silent objects. Before that,
/// nothing was expected of them.
pub(crate) fn expect_statuses(world: &mut World, traces: &mut Traces, watch: u16) {
    let number = world.watches[watch as usize].kind;
    let kind = &mut world.kinds[number as usize];
    if kind.silent_status.shows_status
        || kind.silent_status.coverage.listed.is_none()
        || !kind.expects_status()
    {
        return;
    }

    kind.silent_status.shows_status = true;
    let of_kind: Vec<Slot> = world
        .store
        .iter()
        .filter(|(_, record)| world.watches[record.watch as usize].kind == number)
        .filter(|(_, record)| {
            record.silence.content().is_silent() && record.unconverged().is_none()
        })
        .map(|(slot, _)| slot)
        .collect();

    world.kinds[number as usize].silent_status.listed_silent.extend(of_kind);
    review_silent_status(world, traces, watch);
}

/// Reviews the silent objects of completed lists, once every watch of the kind has completed its
/// first list: the order of the watches must not matter.
pub(crate) fn review_silent_status(world: &mut World, traces: &mut Traces, watch: u16) {
    let number = world.watches[watch as usize].kind;
    let awaited = |watch: &Watch| {
        watch.kind == number
            && watch.active
            && !watch.lists.synced
            && !watch.blindness.failing
            && watch.missing.is_empty()
    };

    let Some(kind) = world.kinds.get_mut(number as usize) else { return };
    if world.watches.iter().any(awaited) {
        return;
    }

    let expected = kind.expected();
    kind.silent_status.coverage.listed = Some(expected);
    for slot in std::mem::take(&mut kind.silent_status.listed_silent) {
        let Some(of) = world.store.get(slot).map(|record| record.watch) else { continue };
        if !world.watches[of as usize].lists.synced {
            // Its list failed and starts over.
            world.kinds[number as usize].silent_status.listed_silent.insert(slot);
        } else if object_context::context(world, traces, slot)
            .is_some_and(|mut context| context.review_silent_status(expected))
        {
            world.agenda.objects.insert(slot);
        }
    }
}

/// Reviews the silent objects of a kind when the first list of a watch has failed or the watch has
/// ended, because they need not wait for it any longer.
pub(crate) fn stop_waiting(world: &mut World, traces: &mut Traces, watch: u16) {
    let number = world.watches[watch as usize].kind;
    let decided = world
        .kinds
        .get(number as usize)
        .is_none_or(|kind| kind.silent_status.coverage.listed.is_some());
    if !decided
        && world
            .watches
            .iter()
            .any(|watch| watch.kind == number && watch.active && watch.lists.synced)
    {
        review_silent_status(world, traces, watch);
    }
}
