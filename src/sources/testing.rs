//! What the tests of the sources share: connections to stand-ins, a virtual clock, and observations
//! in a few words.

use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Observation, WatchedKind};
use loopwatch_model::time::Timestamp;
use loopwatch_testbed::standin::{Script, World};
use tokio::time::Instant;

use super::api_server::Cluster;
use super::feed::{Clock, ServerClock};

/// A stand-in for an API server in the same process.
pub(crate) trait InProcess {
    /// The connection to it.
    fn cluster(&self) -> Cluster;
}

/// A clock that runs with the test's virtual time.
pub(crate) struct VirtualClock(Instant);

impl InProcess for World {
    fn cluster(&self) -> Cluster {
        cluster(self.client())
    }
}

impl InProcess for Script {
    fn cluster(&self) -> Cluster {
        cluster(self.client())
    }
}

/// The connection of a client.
pub(crate) fn cluster(client: kube::Client) -> Cluster {
    Cluster::from_client(client, "https://fake")
}

impl VirtualClock {
    /// The clock of an API server that sends no dates.
    pub(crate) fn server() -> ServerClock {
        ServerClock::of(Arc::new(Self(Instant::now())))
    }
}

impl Clock for VirtualClock {
    fn wall(&self) -> Timestamp {
        Timestamp(i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Describes an observation in a few words.
pub(crate) fn say(observation: &Observation) -> String {
    match observation {
        Observation::KindsDiscovered(kinds) => {
            let say = |kind: &WatchedKind| {
                let missing = if kind.missing.is_empty() {
                    String::new()
                } else {
                    format!(" -{}", kind.missing.join("-"))
                };

                format!("{}@{}{missing}", kind.watch, kind.version)
            };
            format!("kinds [{}]", kinds.iter().map(say).collect::<Vec<_>>().join(", "))
        }
        Observation::ListBegan { epoch, .. } => format!("began {epoch}"),
        Observation::Listed { object, .. } => {
            format!("listed {}@{}", object.key.name, object.version)
        }
        Observation::ListEnded { epoch, version, .. } => format!("ended {epoch} at {version}"),
        Observation::Applied { object, .. } => {
            format!("applied {}@{}", object.key.name, object.version)
        }
        Observation::Deleted { key, version, .. } => format!("deleted {}@{version}", key.name),
        Observation::Progressed { version, .. } => format!("progressed to {version}"),
        Observation::SourceFailed { cause, .. } => format!("failed: {cause}"),
        Observation::SourceRecovered { .. } => "works".to_owned(),
        Observation::Skipped { cause, .. } => format!("skipped: {cause}"),
        Observation::DefinitionSeen(view) => format!("definition {} {:?}", view.name, view.status),
        Observation::DefinitionGone(name) => format!("no definition {name}"),
        Observation::DefinitionsListed(names) => format!("definitions {}", names.join(", ")),
        other => format!("{other:?}"),
    }
}
