//! All parts with a state of their own, and the order in which a step calls them.

use crate::model::configuration::consumers::Configuration;
use crate::model::convergence::broken_workloads::BrokenWorkloads;
use crate::model::deletion::soft_deletion::SoftDeletions;
use crate::model::deletion::terminating_scopes::TerminatingScopes;
use crate::model::findings::detection::Detection;
use crate::model::machinery::definitions::Definitions;
use crate::model::machinery::webhooks::Webhooks;
use crate::model::ownership::Ownership;
use crate::model::part::{Part, StepContext, Version};
use crate::model::recent_changes::RecentChanges;
use crate::model::references::cross_namespace::CrossNamespace;
use crate::model::references::lookups::References;
use crate::model::world::store::Slot;
use crate::model::world::timers::{Timer, Timers};
use crate::model::writes::Writes;
use crate::model::writes::recreations::Recreations;
use crate::time::Timestamp;

/// Lists the parts, in the order in which they see a version of an object. Timers of parts that are
/// due at the same instant fire in this order, too.
macro_rules! parts {
    ($($name:ident: $part:ty,)*) => {
        #[derive(Debug, Default)]
        pub(super) struct Parts {
            $(pub(super) $name: $part,)*
            /// When the timer of each part is due.
            due: [Option<Timestamp>; COUNT],
        }

        const COUNT: usize = [$(stringify!($name)),*].len();

        impl Parts {
            fn all(&mut self) -> [&mut dyn Part; COUNT] {
                [$(&mut self.$name),*]
            }
        }
    };
}

parts! {
    cross_namespace: CrossNamespace,
    recent_changes: RecentChanges,
    ownership: Ownership,
    references: References,
    soft_deletions: SoftDeletions,
    terminating_scopes: TerminatingScopes,
    configuration: Configuration,
    writes: Writes,
    recreations: Recreations,
    definitions: Definitions,
    webhooks: Webhooks,
    broken_workloads: BrokenWorkloads,
}

impl Parts {
    pub(super) fn seen(&mut self, step: &mut StepContext<'_>, version: &Version<'_>) {
        self.all().into_iter().for_each(|part| part.seen(step, version));
    }

    pub(super) fn removed(&mut self, step: &mut StepContext<'_>, slot: Slot, deleted: bool) {
        self.all().into_iter().for_each(|part| part.removed(step, slot, deleted));
    }

    pub(super) fn detections(&mut self, step: &mut StepContext<'_>, slot: Slot) -> Vec<Detection> {
        self.all().into_iter().flat_map(|part| part.detections(step, slot)).collect()
    }

    pub(super) fn retune(&mut self, step: &mut StepContext<'_>) {
        self.all().into_iter().for_each(|part| part.retune(step));
    }

    /// Tells a part that its timer has fired.
    pub(super) fn due(&mut self, step: &mut StepContext<'_>, part: u8) {
        self.due[usize::from(part)] = None;
        self.all()[usize::from(part)].due(step);
    }

    /// Sets the timers of all parts.
    pub(super) fn set_timers(&mut self, timers: &mut Timers) {
        let next = self.all().map(|part| part.next_due());
        for (part, (old, new)) in (0_u8..).zip(self.due.iter_mut().zip(next)) {
            timers.set(Timer::Part(part), *old, new);
            *old = new;
        }
    }

    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        self.due.iter_mut().flatten().for_each(|due| *due = due.shifted(by_ms));
        self.all().into_iter().for_each(|part| part.clock_stepped(by_ms));
    }
}
