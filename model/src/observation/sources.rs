//! Where observations come from, how that fails, and what the model may ask.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kinds::WatchId;

/// A source of observations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceId {
    /// Flags, environment and file.
    Config,
    /// API discovery, access reviews, custom resource definitions.
    Discovery,
    /// The watch of one kind in one scope.
    Watch(WatchId),
    /// Reads that the model asked for.
    Audit,
    /// The operator's leader election lease.
    Lease,
    /// A recording that is replayed.
    Recording,
    /// A dump that is judged.
    #[serde(rename = "snapshot")]
    Dump,
}

/// Why a source failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// 403: the account may not.
    Forbidden,
    /// 401: the API server does not know us.
    Unauthorized,
    /// 404: the kind or object is not there.
    NotFound,
    /// 410: what we know is too old; a new list follows.
    Gone,
    /// 429: the API server asks for patience.
    Throttled,
    /// 5xx.
    ServerError,
    /// Nobody answered in time.
    Timeout,
    /// No connection, or it broke.
    Connection,
    /// The other side's certificate, or ours.
    Tls,
    /// What came could not be read.
    Undecodable,
    /// What came was larger than the limit.
    TooLarge,
    /// What the user gave cannot be used.
    Invalid,
    /// None of these.
    Other,
}

/// A question that the model wants answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// How many objects does the server have in the scope of this watch, and at which version?
    Count(WatchId),
}

/// The answer to a [`Probe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// So many objects at this version.
    Counted {
        /// Number of objects.
        objects: u64,
        /// The list's resource version.
        version: String,
    },
    /// No answer could be had.
    Failed(Cause),
    /// A replay has no answer to this question.
    NotRecorded,
}

// === impl SourceId ===

impl fmt::Display for SourceId {
    /// As the `source` label: `watch/widgets.example.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("config"),
            Self::Discovery => f.write_str("discovery"),
            Self::Watch(watch) => write!(f, "watch/{watch}"),
            Self::Audit => f.write_str("audit"),
            Self::Lease => f.write_str("lease"),
            Self::Recording => f.write_str("recording"),
            Self::Dump => f.write_str("snapshot"),
        }
    }
}

// === impl Cause ===

impl Cause {
    /// As the `cause` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Tls => "tls",
            Self::Undecodable => "undecodable",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
