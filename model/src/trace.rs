//! Traces: what happened between a spec change and its outcome, or between a deletion and its end.
//!
//! The model reports each trace once, when it ends, with
//! [`Model::traces`](crate::model::Model::traces). A trace has a root and a flat list of steps. It
//! contains no IDs, only the [`TraceKey`] from which every replica derives the same ones.

use std::fmt;

use crate::observation::ConditionStatus;
use crate::reference::ObjectName;
use crate::snapshot::Outcome;
use crate::time::{Span, Timestamp};

/// What happened during one obligation or one deletion of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The key that identifies the trace.
    pub key: TraceKey,
    /// The object.
    pub object: ObjectName,
    /// Why the trace begins.
    pub cause: TraceCause,
    /// `metadata.generation` at the start; 0 if the kind has none.
    pub generation: i64,
    /// The revision of the operator that was in charge at the end; empty if unknown.
    pub revision: String,
    /// When the spec changed, or the deletion began.
    pub start: Timestamp,
    /// When the obligation or the deletion ended, or its deadline passed.
    pub end: Timestamp,
    /// How it ended. The trace of a deletion ends as deleted or late.
    pub outcome: Outcome,
    /// The part of the status that decided, if the object failed or is late.
    pub signal: String,
    /// The time after which the outcome is late.
    pub deadline: Span,
    /// What happened in that time, ordered by start.
    pub steps: Vec<TraceStep>,
    /// What happened to the operator in that time.
    pub events: Vec<TraceEvent>,
    /// Links to related traces.
    pub links: Vec<TraceLink>,
    /// The number of steps that did not fit.
    pub dropped: u32,
    /// What the totals counted.
    pub measured: Measured,
}

/// The key of a trace. Its text form is the same on every replica and after a restart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceKey {
    /// `metadata.uid` of the object.
    pub uid: String,
    /// The obligation or deletion that the trace is about.
    pub part: TracePart,
    /// The deadline had passed before the trace began, so it continues another trace.
    pub late: bool,
}

/// Which part of an object's life a trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TracePart {
    /// The obligation of this generation.
    Generation(i64),
    /// The obligation that this resource version opened. The object has no generation, or the spec
    /// is the same as before.
    Version(u64),
    /// The deletion.
    Deletion,
}

/// Why a trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceCause {
    /// The object was created.
    Created,
    /// Its spec changed.
    SpecChanged,
    /// The operator changed the spec itself.
    OperatorChangedSpec,
    /// The object was resumed, or runs again.
    Resumed,
    /// Its deletion was requested.
    DeletionRequested,
}

/// Something that took time during a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStep {
    /// What it was.
    pub kind: StepKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended, or the end of the trace if it did not.
    pub end: Timestamp,
    /// The step had not ended when the trace ended.
    pub unfinished: bool,
}

/// The kinds of [`TraceStep`].
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// The operator acknowledges the spec.
    Acknowledge,
    /// A condition has a status.
    Condition {
        /// Its type.
        r#type: String,
        /// The status.
        status: ConditionStatus,
        /// The last reason; empty if there is none.
        reason: String,
    },
    /// A child object becomes ready.
    Child(ObjectName),
    /// The deletion waits for a finalizer.
    Finalizer(String),
    /// Kubernetes Events about the object with the same type, reason and reporter, from the first
    /// to the last.
    Event {
        /// `Normal`, `Warning`, or `_other`.
        r#type: &'static str,
        /// The reason: one word, or `_other`.
        reason: String,
        /// The controller that wrote them; may be empty.
        reporter: String,
        /// The number of Events.
        count: u64,
    },
}

/// Something that happened to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub what: OperatorChange,
}

/// The kinds of [`TraceEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    /// Another replica leads.
    LeaderChanged,
    /// The operator's container in one Pod ended.
    Stopped,
}

/// A link to another trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceLink {
    /// The trace of the previous generation.
    Previous(TraceKey),
    /// The trace that this one continues, which ended at the deadline.
    Continues(TraceKey),
    /// The trace of the owner, which was still open.
    Owner(TraceKey),
    /// The trace that an annotation of the object names, in the format of the header `traceparent`.
    Context(String),
}

/// What the totals counted about an obligation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The time in `loopwatch_acknowledge_seconds`.
    pub acknowledged: Option<Span>,
    /// The time in `loopwatch_convergence_seconds`.
    pub converged: Option<Span>,
    /// `loopwatch_obligations_total` counts the outcome.
    pub counted: bool,
}

impl Trace {
    /// Returns the time between start and end.
    #[must_use]
    pub fn took(&self) -> Span {
        self.end.since(self.start)
    }

    /// Returns whether the operator failed: the obligation or the deletion was late, or the status
    /// says failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.key.late || matches!(self.outcome, Outcome::Late | Outcome::Rejected)
    }
}

impl fmt::Display for TraceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, part, late } = self;
        match part {
            TracePart::Generation(generation) => write!(f, "{uid}|{generation}")?,
            TracePart::Version(version) => write!(f, "{uid}|version-{version}")?,
            TracePart::Deletion => write!(f, "{uid}|deletion")?,
        }

        f.write_str(if *late { "|late" } else { "" })
    }
}

impl TraceCause {
    /// Returns the value of an attribute.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::SpecChanged => "spec_changed",
            Self::OperatorChangedSpec => "operator_changed_spec",
            Self::Resumed => "resumed",
            Self::DeletionRequested => "deletion_requested",
        }
    }
}
