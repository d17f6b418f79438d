//! Closed sets of words: each is an enum whose values are label values and JSON strings.

use serde::{Serialize, Serializer};

use crate::finding::Severity;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All values, in the order of the variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the label value.
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
        /// Work is in progress, within the deadline.
        Progressing = "progressing",
        /// Work is in progress, past the deadline.
        Overdue = "overdue",
        /// The operator reports that it cannot put this generation into effect.
        Failed = "failed",
        /// Being deleted.
        Terminating = "terminating",
        /// Paused on purpose, by its spec or according to its status.
        Suspended = "suspended",
        /// An annotation or a label makes the operator skip it.
        Skipped = "skipped",
        /// Ran to completion.
        Finished = "finished",
        /// Its status cannot be interpreted, or its watch is blind.
        #[default]
        Unknown = "unknown",
    }
}

impl ObjectState {
    /// Returns what the state means, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Converged => "its status says that its spec is in effect",
            Self::Progressing => "work is in progress, within the deadline",
            Self::Overdue => "work is in progress, past the deadline",
            Self::Failed => "the operator reports that it cannot put the spec into effect",
            Self::Terminating => "it is being deleted",
            Self::Suspended => "its spec or its status says that it is paused on purpose",
            Self::Skipped => {
                "an annotation or a label makes the operator skip it; lists of objects show it as \
                 suspended"
            }
            Self::Finished => "it ran to completion",
            Self::Unknown => {
                "loopwatch cannot interpret its status, or does not see it at the moment"
            }
        }
    }

    /// Returns the state under which documents list a single object. Counts keep skipped objects apart
    /// from suspended ones; for an object, the reason does.
    #[must_use]
    pub const fn of_listed_object(self) -> Self {
        match self {
            Self::Skipped => Self::Suspended,
            state => state,
        }
    }
}

words! {
    /// Whether the operator uses a permission, as far as loopwatch can see.
    RightUse {
        /// The operator has written with it.
        Used = "used",
        /// loopwatch sees the objects, and no such write of the operator.
        NotSeen = "not_seen",
        /// It stands for all verbs, groups or resources.
        Wildcard = "wildcard",
        /// Nothing in objects shows a use: a read, a deletion, an object that loopwatch does not watch.
        #[default]
        NotVisible = "not_visible",
    }
}

words! {
    /// A sign that the operator is gone. People read the words with spaces.
    DownSign {
        /// It has no Pod.
        #[default]
        NoPod = "no_pod",
        /// None of its Pods runs.
        NoPodRuns = "no_pod_runs",
        /// Its lease is not renewed.
        LeaseNotRenewed = "lease_not_renewed",
        /// Its metrics endpoint refuses connections.
        MetricsRefused = "metrics_endpoint_refuses_connections",
        /// Its process ended.
        ProcessEnded = "process_ended",
    }
}

words! {
    /// Why an owner reference is bad.
    OwnerHazard {
        /// The owner does not exist.
        #[default]
        Missing = "missing",
        /// Another object has the name of the owner now.
        Replaced = "replaced",
        /// The owner is in another namespace.
        CrossNamespace = "cross_namespace",
        /// The API server serves no such kind.
        KindUnknown = "kind_unknown",
        /// The object with this UID has another kind or name.
        Mismatch = "mismatch",
        /// The child has no namespace, but the owner has one.
        NamespacedOwner = "namespaced_owner",
        /// The owners form a cycle.
        Cycle = "cycle",
        /// The API server does not serve the kind in the version that the reference names.
        VersionUnserved = "version_unserved",
    }
}

words! {
    /// How an obligation ended.
    Outcome {
        /// The object converged within the SLO deadline.
        Converged = "converged",
        /// The operator reported that it cannot converge.
        Rejected = "rejected",
        /// The SLO deadline passed first.
        Late = "late",
        /// A newer spec came first.
        Superseded = "superseded",
        /// The object was deleted first.
        Deleted = "deleted",
        /// The object was paused first.
        Suspended = "suspended",
        /// loopwatch could not observe how it ended.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// The progress of a deletion.
    DeletionVerdict {
        /// Within the threshold, or making progress.
        #[default]
        Progressing = "progressing",
        /// Past the threshold and without progress: no controller removes the finalizer.
        Stuck = "stuck",
        /// It takes longer than usual.
        Slow = "slow",
        /// The controller that removes the finalizer is gone.
        OwnerAbsent = "owner_absent",
        /// Another object that must be deleted first is stuck.
        BlockedByDependent = "blocked_by_dependent",
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
        /// The deletion became stuck. A later removal is counted in addition.
        TimedOut = "timed_out",
        /// Another writer removed it although the object was not being deleted.
        Lost = "lost",
        /// Removed and added again and again.
        Flapping = "flapping",
    }
}

words! {
    /// Where a deadline comes from.
    DeadlineSource {
        /// Configured by flag, environment variable or file.
        Configured = "configured",
        /// The default for all kinds.
        #[default]
        Default = "default",
        /// Learned from this kind's own convergence times.
        Learned = "learned",
    }
}

words! {
    /// The health of a namespace, or of the operator.
    Health {
        /// No warning, no critical finding and no overdue object.
        #[default]
        Healthy = "healthy",
        /// A warning, or an overdue object.
        Degraded = "degraded",
        /// A critical finding, or failed objects of a failing kind.
        Failing = "failing",
    }
}

words! {
    /// How far soft deletion is rolled out to an object.
    SoftDeletePhase {
        /// `canary`.
        Canary = "canary",
        /// `stable`.
        Stable = "stable",
        /// `off`.
        Off = "off",
        /// No phase, or any other text.
        #[default]
        Other = "other",
    }
}

impl Health {
    /// Returns the health of something with an open finding of this severity.
    #[must_use]
    pub const fn of(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Failing,
            Severity::Warning => Self::Degraded,
            Severity::Info => Self::Healthy,
        }
    }
}
