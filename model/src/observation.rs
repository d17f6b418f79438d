//! Everything loopwatch can ever know, as a closed vocabulary.
//!
//! An [`Observation`] is one fact about the world; together with the instant at which it was learnt it is the only
//! way into the model. Sources make them from watches, reviews and reads; a recording holds them one per line, and
//! replaying those lines gives the same metrics, findings and spans again.
//!
//! Version 1 is permanent: variants and fields are only ever added, and a reader skips (and counts) what it does not
//! know. Everything that is absent, empty or false is left out of the recorded form.

mod kinds;
mod object;
mod sources;

use serde::{Deserialize, Serialize};

pub use self::kinds::{
    DefinitionView, LeaseView, Permission, PermissionsView, Role, Scope, StatusSchema, WatchId, WatchedKind, Why,
};
pub use self::object::{
    Condition, ConditionStatus, Fact, FactValue, Hashes, Manager, ManagerOperation, ObjectKey, ObjectView, Owned,
    OwnerReference, Pause, StatusShape,
};
pub use self::sources::{Answer, Cause, Probe, SourceId};

use crate::checkpoint::Checkpoint;

/// One fact about the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    /// What an earlier run had learnt: the first line of a recording segment or of a restart.
    Restored(Box<Checkpoint>),
    /// What is watched, why, and what may not be: replaces the earlier list.
    KindsDiscovered(Vec<WatchedKind>),
    /// A full list of one watch has begun; what is not listed before `ListEnded` of the same epoch is gone.
    ListBegan {
        /// The watch, hence the kind and the scope that the list covers.
        watch: WatchId,
        /// Grows with every list of this watch; an unfinished list is abandoned by the next `ListBegan`.
        epoch: u64,
    },
    /// One object of the list that is under way.
    Listed {
        /// The watch.
        watch: WatchId,
        /// The object as listed.
        object: Box<ObjectView>,
    },
    /// The list is complete.
    ListEnded {
        /// The watch.
        watch: WatchId,
        /// The epoch that `ListBegan` gave.
        epoch: u64,
        /// The resource version of the list.
        version: String,
    },
    /// An object was added or modified.
    Applied {
        /// The watch.
        watch: WatchId,
        /// The object as it is now.
        object: Box<ObjectView>,
    },
    /// An object was deleted.
    Deleted {
        /// The watch.
        watch: WatchId,
        /// Which object.
        key: ObjectKey,
        /// Its resource version at deletion.
        version: String,
    },
    /// A bookmark: nothing of this kind changed up to `version`.
    Progressed {
        /// The watch.
        watch: WatchId,
        /// The resource version reached.
        version: String,
    },
    /// A custom resource definition as it is now.
    DefinitionSeen(DefinitionView),
    /// A custom resource definition was deleted, by its name.
    DefinitionGone(String),
    /// What the account may and may not do.
    #[serde(rename = "rights_reviewed")]
    PermissionsReviewed(PermissionsView),
    /// A leader election lease as it is now.
    LeaseSeen(LeaseView),
    /// The answer to a question of the model.
    Answered {
        /// The question.
        probe: Probe,
        /// The answer.
        answer: Answer,
    },
    /// A source of observations failed and will try again.
    SourceFailed {
        /// Which source.
        source: SourceId,
        /// Why, from a closed list.
        cause: Cause,
        /// What the failing part said, for people; cut to [`MAX_DETAIL`] bytes.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A source that had failed, or starts, works.
    SourceRecovered {
        /// Which source.
        source: SourceId,
    },
    /// The wall clock jumped: spans measured across this instant are off by so much.
    ClockStepped {
        /// Milliseconds by which the clock went forward (negative: back).
        by_ms: i64,
    },
    /// Time passed and nothing else; need not be recorded.
    Tick,
}

/// Longest text a source may attach to a failure, in bytes.
pub const MAX_DETAIL: usize = 512;
