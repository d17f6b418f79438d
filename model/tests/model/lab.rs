//! The harness that the tests share: a model with one kind, objects that change, and a clock that
//! the test advances.

#![allow(unreachable_pub, clippy::panic, reason = "tests share it, and a broken test should stop")]

mod kinds;
mod settings;
mod views;
mod widget; // an object of a story
mod situations;
mod watches; // what sources tell
mod questions;
mod workloads;
mod world; // a cluster that answers reads
pub mod pods;
pub mod loops;
pub mod process;
#[allow(dead_code, reason = "the benchmark uses more of it")]
pub mod fleet; // the memory of operators over days
pub mod dice;

use std::cell::RefCell;

use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::{Span, Timestamp};

pub use self::kinds::{
    GROUP, child, config_maps, deployments, forbidden, kind, namespaced, other_kind, primary,
    watch, watched,
};
pub use self::settings::{ruled, unlearned};
pub use self::views::{
    FINALIZER, at, condition, count, finalizers_by, map, owner, reference, scaled_by, spec_by,
    status_by, text, texts, web, widget_at, written_by,
};
pub use self::widget::Widget;
pub use self::workloads::{child_of, deployment, owned_by};
pub use self::world::World;
pub use self::world::operators::ready;

/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000);

thread_local! {
    /// What the labs of this thread observe, if a test wants to play it again.
    static LOG: RefCell<Option<Vec<(Timestamp, Observation)>>> = const { RefCell::new(None) };
}

/// Returns everything that the lab observes in `play`.
pub fn logged(play: impl FnOnce()) -> Vec<(Timestamp, Observation)> {
    LOG.replace(Some(Vec::new()));
    play();
    LOG.take().unwrap_or_default()
}

/// A model that observes one story.
pub struct Lab {
    pub model: Model,
    pub now: Timestamp,
    pub version: u64,
    epoch: u64,
}

impl Lab {
    /// Returns a lab with default settings, but without learning, after an empty first list.
    pub fn new() -> Self {
        Self::with(unlearned())
    }

    /// Returns a lab with default settings and these limits.
    pub fn limited(limits: Limits) -> Self {
        Self::with(Settings { limits, ..unlearned() })
    }

    pub fn with(settings: Settings) -> Self {
        let mut lab = Self::unsynced(settings);
        lab.list(&[]);
        lab
    }

    pub fn unsynced(settings: Settings) -> Self {
        let mut lab = Self { model: Model::new(settings), now: START, version: 1000, epoch: 0 };
        lab.discover(&[kind()]);
        lab
    }

    pub fn observe(&mut self, observation: Observation) {
        LOG.with_borrow_mut(|log| {
            log.iter_mut().for_each(|log| log.push((self.now, observation.clone())))
        });
        self.model.apply(self.now, observation);
    }

    pub fn advance(&mut self, span: Span) {
        self.now = self.now.after(span);
        self.observe(Observation::Tick);
    }

    /// Advances in steps of one minute.
    pub fn advance_by_minutes(&mut self, minutes: i64) {
        (0..minutes).for_each(|_| self.advance(Span::mins(1)));
    }

    /// Returns the instant `span` ago.
    pub fn ago(&self, span: Span) -> Timestamp {
        self.now.before(span)
    }

    /// Sets the clock forward, or back if `by` is negative.
    pub fn step_clock(&mut self, by: Span) {
        self.now = self.now.after(by);
        self.observe(Observation::ClockStepped { by_ms: by.0 });
    }

    /// Returns the lab after a restart of loopwatch, before its first list.
    pub fn restart(&self) -> Self {
        let model = Model::new(self.model.settings().clone());
        let mut again = Self { model, now: self.now, version: self.version, epoch: 0 };
        again.observe(Observation::Restored(Box::new(self.model.checkpoint())));
        again.discover(&[kind()]);

        again
    }
}
