//! The interface of the parts: each owns some state and takes part in each step.
//!
//! A part sees each version of an object, and each removal, and says what is wrong with an object
//! when the model reviews it. It can ask for a timer. `parts.rs` lists all parts.

use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::model::world::store::Slot;
use crate::observation::ObjectView;
use crate::time::Timestamp;

/// What a part may use in a step, in addition to its own state.
pub(crate) struct StepContext<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) operator: &'a Operator,
    pub(crate) findings: &'a mut OpenFindings,
}

/// A version of an object whose record still shows the previous version.
pub(crate) struct Version<'a> {
    pub(crate) slot: Slot,
    pub(crate) view: &'a ObjectView,
    /// The version came from a watch event, so the change has just happened.
    pub(crate) is_live: bool,
    /// The spec may differ from that of the previous version: it changed, the object is new, or
    /// loopwatch now reads the kind differently.
    pub(crate) has_other_spec: bool,
    /// The object existed before, but loopwatch could not see it.
    pub(crate) becomes_visible: bool,
    /// loopwatch now reads the kind differently, so differences may not be changes.
    pub(crate) is_reread: bool,
}

/// A part of the model with a state of its own.
pub(crate) trait Part {
    /// Takes a version of an object.
    fn seen(&mut self, _step: &mut StepContext<'_>, _version: &Version<'_>) {}

    /// Forgets an object. `deleted` tells whether it was deleted or is only no longer visible.
    fn removed(&mut self, _step: &mut StepContext<'_>, _slot: Slot, _deleted: bool) {}

    /// Returns the problems of an object.
    fn detections(&mut self, _step: &mut StepContext<'_>, _slot: Slot) -> Vec<Detection> {
        Vec::new()
    }

    /// Returns when to call [`Part::due`]: later than now, except after a step of the clock.
    fn next_due(&self) -> Option<Timestamp> {
        None
    }

    /// The time of [`Part::next_due`] has come.
    fn due(&mut self, _step: &mut StepContext<'_>) {}

    /// Judges everything again, because settings or annotations changed.
    fn retune(&mut self, _step: &mut StepContext<'_>) {}

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    fn clock_stepped(&mut self, _by_ms: i64) {}
}
