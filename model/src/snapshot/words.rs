//! Closed sets of words: each is an enum whose values are label values and JSON strings.

use serde::{Serialize, Serializer};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The label value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The state of an object. Every object is in exactly one.
    ObjectState {
        /// The status says that the spec is in effect.
        Converged = "converged",
        /// Under way, within its deadline.
        Progressing = "progressing",
        /// Under way, past its deadline.
        Overdue = "overdue",
        /// The operator reports that it cannot put this generation into effect.
        Failed = "failed",
        /// Being deleted.
        Terminating = "terminating",
        /// Paused by a person.
        Suspended = "suspended",
        /// Ran to its end.
        Finished = "finished",
        /// Its status cannot be judged, or its watch is blind.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// How an obligation ended.
    Outcome {
        /// Converged within the deadline.
        Converged = "converged",
        /// The operator reported that it cannot converge.
        Rejected = "rejected",
        /// The deadline passed.
        Late = "late",
        /// A newer spec came first.
        Superseded = "superseded",
        /// The object was deleted first.
        Deleted = "deleted",
        /// A person paused the object first.
        Suspended = "suspended",
        /// loopwatch could not see the end.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// How a deletion stands.
    DeletionVerdict {
        /// Within its time, or still moving.
        #[default]
        Progressing = "progressing",
        /// Nobody removes the finalizer.
        Stuck = "stuck",
    }
}

words! {
    /// How the wait for a finalizer ended.
    FinalizerOutcome {
        /// Removed before the threshold.
        #[default]
        Removed = "removed",
        /// Removed after the threshold.
        RemovedLate = "removed_late",
    }
}

words! {
    /// Where a deadline comes from.
    DeadlineSource {
        /// Flag or file.
        Configured = "configured",
        /// The default for all kinds.
        #[default]
        Default = "default",
        /// Learned from this kind's own convergence times.
        Learned = "learned",
    }
}

words! {
    /// The health of a namespace.
    Health {
        /// No finding and no overdue object.
        #[default]
        Healthy = "healthy",
        /// A warning, or an overdue object.
        Degraded = "degraded",
        /// A critical finding.
        Failing = "failing",
    }
}
