//! What the model has to look at next: subjects to review although no event about them arrived,
//! timers, and questions to the sources.
//!
//! The parts add subjects when visibility returns, a list ends, loopwatch reads a kind differently,
//! settings change, or there is room for findings again. They add only subjects with something to
//! decide, so the cost follows the change.

use std::collections::BTreeSet;

use crate::model::world::store::Slot;
use crate::model::world::timers::Timers;
use crate::observation::Probe;

/// What to look at next. The order makes replays deterministic. The number of objects limits the
/// size.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    pub(crate) objects: BTreeSet<Slot>,
    /// Kinds as a whole. The detectors of kinds look at them after all objects.
    pub(crate) kinds: BTreeSet<u16>,
    /// The operator itself.
    pub(crate) operator: bool,
    /// The visibility of a watch has returned, so the problems of an earlier process may be over.
    pub(crate) restored_findings: bool,
    pub(crate) timers: Timers,
    /// Questions to the sources, except for reads of single objects.
    pub(crate) probes: BTreeSet<Probe>,
}
