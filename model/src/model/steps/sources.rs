//! Sources that fail, recover or are off, and the effects on the rest of the model.

use crate::model::Model;
use crate::model::convergence::silent_status;
use crate::model::visibility::sources;
use crate::model::world::subjects;
use crate::model::world::timers::Timer;
use crate::observation::{Cause, SourceId};

impl Model {
    pub(super) fn source_failed(&mut self, id: &SourceId, cause: Cause, detail: &str) {
        let number = self.world.sources.note_failure(id, self.world.now, cause, detail);
        self.set_failing(id, true);
        if *id == SourceId::Lease {
            self.operator.set_leases_visible(&mut self.world, false);
        }

        self.tell_of_watch(id, detail);
        self.world.agenda.operator = true;
        sources::source_due(&mut self.world, &mut self.findings, number);
    }

    pub(super) fn source_recovered(&mut self, id: &SourceId) {
        let now = self.world.now;
        let (number, due) = self.world.sources.note_recovery(id, now);
        self.world.agenda.timers.set(Timer::Source(number), due, None);
        self.findings.clear(now, sources::failing_code(id), &subjects::source(id));
        self.world.clear_blind(id);
        self.set_failing(id, false);
        self.tell_of_watch(id, "");

        if *id == SourceId::Lease {
            self.operator.set_leases_visible(&mut self.world, true);
        }

        self.world.agenda.operator = true;
    }

    /// Handles a source that is off.
    pub(super) fn source_off(&mut self, id: &SourceId, reason: String) {
        self.source_recovered(id);
        self.world.sources.note_off(id, self.world.now, reason);
        if *id == SourceId::Lease {
            self.operator.set_leases_visible(&mut self.world, false);
        }
    }

    /// Handles a source that works but cannot read everything.
    pub(super) fn source_restricted(&mut self, id: &SourceId, reason: String) {
        self.source_recovered(id);
        self.world.sources.note_restriction(id, self.world.now, reason);
    }

    /// Tells the part that follows webhooks why a watch fails, or that it does not.
    fn tell_of_watch(&mut self, id: &SourceId, detail: &str) {
        if let SourceId::Watch(watch) = id {
            let (parts, mut step) = self.parts();
            parts.webhooks.watch_told(&mut step, watch, detail);
        }
    }

    /// Records whether the source of a watch fails.
    fn set_failing(&mut self, id: &SourceId, failing: bool) {
        let SourceId::Watch(watch) = id else { return };
        let Some(number) = self.world.find_watch(watch) else { return };
        let watch = &mut self.world.watches[number as usize];
        watch.blindness.failing = failing;
        watch.blindness.failed_before |= failing;

        if failing {
            silent_status::stop_waiting(&mut self.world, &mut self.traces, number);
        }

        self.world.update_visibility(number);
    }
}
