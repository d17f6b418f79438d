//! How often a controller reconciles, compared with the changes of objects and with work in progress.

use crate::model::findings::detection::events_needed;
use crate::model::operator::reconciled;
use crate::model::operator::window::Window;
use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::visibility::Visibility;
use crate::observation::{ControllerView, MetricsView, Role};
use crate::settings::Settings;
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// What a controller has done within the window.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Reconciles that ended.
    pub(super) ended: Window,
    /// Of these, those that failed.
    pub(super) failed: Window,
    /// Of these, those that asked to be repeated.
    pub(super) requeued: Window,
    /// Changes of objects that loopwatch has seen.
    pub(super) changes: Window,
    /// The length of the window.
    pub(super) window: Span,
    /// Since when it has reconciled far more than changes and work in progress need.
    pub(super) since: Option<Timestamp>,
}

/// The objects that a controller reconciles.
pub(super) struct Objects {
    pub(super) at_rest: u64,
    pub(super) in_progress: u64,
}

/// An object at rest that is reconciled more rarely than this is polled on purpose.
const POLLED_FROM: Span = Span::secs(2);

/// The reconciles that a change may cause: of the object, of its owner, and again after the writes.
const PER_CHANGE: u64 = 3;

/// The reconciles per second that an object in progress may need.
const PER_OBJECT_IN_PROGRESS: u64 = 10;

/// The share of the reconciles that must have asked for another one, in percent.
const REQUEUED_PERCENT: u64 = 50;

/// The number of scrapes that the window needs.
pub(super) const SCRAPES: usize = 3;

impl Pace {
    /// Takes a scrape, and the number of changes since the one before. Without an earlier scrape of the same
    /// process, nothing is known.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        window: Span,
        earlier: Option<&ControllerView>,
        view: &ControllerView,
        changes: u64,
    ) {
        let Some(earlier) = earlier else {
            *self = Self::default();
            return;
        };

        let grown = |of: fn(&ControllerView) -> Option<u64>| {
            of(view).unwrap_or(0).saturating_sub(of(earlier).unwrap_or(0))
        };
        let (succeeded, failed) = (grown(|view| view.succeeded), grown(|view| view.failed));
        self.window = window;
        self.ended.add(now, succeeded.saturating_add(failed), window);
        self.failed.add(now, failed, window);
        self.requeued.add(now, grown(|view| view.requeued), window);
        self.changes.add(now, changes, window);
    }

    pub(super) fn seconds(&self) -> u64 {
        (self.window.0 / 1_000).max(1).unsigned_abs()
    }

    /// Returns whether the controller reconciles far more than changes and work in progress need, and most
    /// of the time because it asked for it. An `open` loop needs half as many reconciles.
    pub(super) fn is_hot(&self, world: &World, view: &ControllerView, open: bool) -> bool {
        let (ended, seconds) = (self.ended.sum(), self.seconds());
        let least = u64::from(events_needed(open, world.settings.silent_loop_rate));
        let is_fast = ended >= least.saturating_mul(seconds) && self.ended.parts() >= SCRAPES;
        let is_asked_for =
            self.requeued.sum().saturating_mul(100) >= ended.saturating_mul(REQUEUED_PERCENT);
        let works = self.failed.sum().saturating_mul(2) <= ended;
        if !is_fast || !is_asked_for || !works {
            return false;
        }

        let objects = Objects::of(world, &view.name);
        let of_changes = self.changes.sum().saturating_mul(PER_CHANGE);
        let of_progress = objects.in_progress.saturating_mul(PER_OBJECT_IN_PROGRESS * seconds);
        let needed = of_changes.saturating_add(of_progress);
        let idle = ended.saturating_sub(needed);
        let polled = objects.at_rest.saturating_mul(self.window.0.unsigned_abs())
            / POLLED_FROM.0.unsigned_abs();

        objects.at_rest > 0 && ended >= needed.saturating_mul(2) && idle > polled
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let windows = [&mut self.ended, &mut self.failed, &mut self.requeued, &mut self.changes];
        windows.into_iter().for_each(|window| window.clock_stepped(by_ms));
        self.since = self.since.map(|at| at.shifted(by_ms));
    }
}

impl Objects {
    /// Counts the objects of the kind that a controller reconciles; of all primary kinds if its name fits
    /// none.
    pub(super) fn of(world: &World, controller: &str) -> Self {
        const IN_PROGRESS: [ObjectState; 4] = [
            ObjectState::Progressing,
            ObjectState::Overdue,
            ObjectState::Failed,
            ObjectState::Terminating,
        ];
        let named = reconciled::kind_of_controller(world, controller);
        let mut counts = Self { at_rest: 0, in_progress: 0 };
        for watch in world.watches.iter().filter(|watch| watch.active) {
            let is_primary = world.kinds[usize::from(watch.kind)].role == Role::Primary;
            if !is_primary || named.is_some_and(|named| named != watch.kind) {
                continue;
            }

            for states in watch.namespaces.iter().map(|known| &known.totals.states) {
                let busy: u64 = IN_PROGRESS.iter().map(|state| states[*state as usize]).sum();
                counts.in_progress += busy;
                counts.at_rest += states.iter().sum::<u64>() - busy;
            }
        }

        counts
    }
}

/// Returns the window in which reconciles and changes are compared: long enough for some scrapes.
pub(super) fn window(settings: &Settings, view: &MetricsView) -> Span {
    settings.hot_loop_window.max(Span(view.interval.0.saturating_mul(SCRAPES as i64 + 1)))
}

/// Returns whether loopwatch does not see all changes of the objects that it watches.
pub(super) fn is_blind(world: &World) -> bool {
    let is_blind = |watch: &Watch| watch.active && watch.visibility(world.now) != Visibility::Clear;
    world.watches.iter().any(is_blind)
}
