//! The connection to the cluster, and the task that runs the sources over it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use loopwatch_model::observation::{Probe, SourceId};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::app::reload::Effective;
use crate::app::{RETRY, cause};
use crate::net::Failure;
use crate::sources::api_server::{Cluster, ConnectError};
use crate::sources::decoding::HashKey;
use crate::sources::feed::{Feed, ServerClock};
use crate::sources::supervisor::{Handle, SourceOptions, Supervisor};

/// Connects to the cluster, whose responses set the clock.
pub(in crate::app) type Connect =
    Arc<dyn Fn(ServerClock) -> BoxFuture<'static, Result<Cluster, ConnectError>> + Send + Sync>;

/// How to connect to the cluster, and what to watch there.
#[derive(Clone)]
pub(in crate::app) struct Connection {
    pub(in crate::app) connect: Connect,
    pub(in crate::app) options: SourceOptions,
}

impl Connection {
    pub(in crate::app) fn new(effective: &Effective, hash_key: HashKey) -> Self {
        let Effective { cluster, profiles, settings, .. } = effective;
        let access = cluster.access();
        let options = SourceOptions {
            profiles: profiles.options(),
            ..cluster.source_options(hash_key, settings)
        };
        let connect: Connect = Arc::new(move |clock| {
            let access = access.clone();
            Box::pin(async move {
                let cluster = Cluster::connect(&access, &clock).await?;
                info!(server = cluster.url(), "watching");
                Ok(cluster)
            })
        });

        Self { connect, options }
    }

    /// A connection that exists already.
    pub(in crate::app) fn existing(cluster: Cluster, options: SourceOptions) -> Self {
        let connect: Connect = Arc::new(move |_| {
            let cluster = cluster.clone();
            Box::pin(async move { Ok(cluster) })
        });

        Self { connect, options }
    }
}

/// Retries until it is connected, and then watches until `stop` is cancelled or the supervisor
/// ends. Returns why it ended.
pub(super) async fn watch_cluster(
    connection: Connection,
    feed: Feed,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    stop: CancellationToken,
    synced: CancellationToken,
) -> String {
    let mut probes = probes.lock_owned().await;
    let stopped = || "it was stopped".to_owned();
    let Some(Some(mut handle)) = stop.run_until_cancelled(start_sources(connection, feed)).await
    else {
        return stopped();
    };
    let sync = handle.initial_sync().clone();

    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            reason = handle.ended() => return reason,
            _ = sync.done(), if !synced.is_cancelled() => synced.cancel(),
            probe = probes.recv() => match probe {
                // If the queue is full, the model repeats the probe.
                Some(probe) => _ = handle.ask(probe),
                None => break,
            },
        }
    }

    handle.shutdown().await;
    stopped()
}

async fn start_sources(connection: Connection, feed: Feed) -> Option<Handle> {
    let cluster = connected(&connection, &feed).await?;
    Some(Supervisor::start(cluster, connection.options, feed))
}

/// Retries until it is connected; `None` if nobody receives observations any more.
pub(in crate::app) async fn connected(connection: &Connection, feed: &Feed) -> Option<Cluster> {
    let mut wait = RETRY.0;
    loop {
        match (connection.connect)(feed.clock().clone()).await {
            Ok(cluster) => return Some(cluster),
            Err(error) => {
                warn!(%error, retry_in = ?wait, "cannot connect");
                let failure = Failure::new(cause(&error), error.to_string());
                feed.failed(SourceId::Discovery, &failure).await.ok()?;
            }
        }

        sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// Stops the sources, which may already have ended, within a time.
pub(super) async fn end_sources(
    mut sources: JoinHandle<String>,
    stop: &CancellationToken,
    within: Duration,
) {
    stop.cancel();
    if !sources.is_finished() && timeout(within, &mut sources).await.is_err() {
        sources.abort();
    }
}
