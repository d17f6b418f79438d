//! Keeps the model and the sources running: rebuilds a part that panics or ends. A restart of the
//! container instead would make the operator's Pod unready.
//!
//! A rebuilt model restores the last checkpoint, and the sources list everything again. Until
//! discovery has finished, its source counts as failing.

mod attempts; // the wait before the next build
mod connection; // the task that runs the sources
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Cause, Observation, Probe, SourceId, WatchId};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::attempts::Attempts;
pub(super) use self::connection::{Connection, connected};
use self::connection::{end_sources, watch_cluster};
use super::reload::{self, Effective};
use super::{CHANNEL, DRAIN, Outlets, SharedModel, lock, pump, state};
use crate::export::server::Exporter;
use crate::net::Failure;
use crate::sources::feed::{Feed, Observations, ServerClock};
use crate::telemetry::{GaugeShare, RebuildLabels, RebuiltPart};

/// Everything that a rebuild needs.
pub(super) struct Core {
    model: SharedModel,
    exporter: Arc<Exporter>,
    outlets: Outlets,
    sources: Box<dyn Sources>,
    effective: watch::Receiver<Effective>,
    state_dir: Option<PathBuf>,
    feed: Feed,
    observations: Arc<Mutex<Observations>>,
    ask: mpsc::Sender<Probe>,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    /// The last checkpoint of a model whose lists were complete.
    checkpoint: Option<Checkpoint>,
}

/// What the sources of a core are.
pub(super) trait Sources: Send + Sync {
    /// Starts them. The task runs until `stop` is cancelled or they end, and returns why they ended.
    fn start(&self, channels: Channels, stop: CancellationToken) -> JoinHandle<String>;
    /// How they reach the cluster, and what they watch.
    fn connection(&mut self) -> &mut Connection;
    /// The time that they need to stop.
    fn stops_within(&self) -> Duration {
        DRAIN
    }
}

/// The channels between the sources and the rest of a core.
pub(super) struct Channels {
    pub(super) feed: Feed,
    /// The probes of the model.
    pub(super) probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    /// To cancel when the first lists are complete.
    pub(super) synced: CancellationToken,
}

/// The tasks of one build.
struct Build {
    pump: JoinHandle<()>,
    sources: JoinHandle<String>,
    /// Stops the sources.
    stop: CancellationToken,
    /// Cancelled when the first lists are complete.
    synced: CancellationToken,
}

/// Failed rebuilds after which `/livez` fails, so that the kubelet restarts the container.
const FATAL_AFTER: u32 = 3;
/// Interval between checkpoints for a rebuild, which loses the start times of findings that opened
/// after the last checkpoint.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);
/// Limit on waiting probes. The model repeats dropped ones.
const PROBES: usize = 64;

/// Runs the model and the sources until `stop` is cancelled, and then lets the pump empty the
/// channel.
pub(super) async fn keep_running(mut core: Core, stop: CancellationToken) {
    core.report_problems().await;
    let mut build = core.start(core.start_pump(), &stop);
    let mut attempts = Attempts::new();

    loop {
        let lasting = attempts.lasts_at();
        let (part, reason) = tokio::select! {
            biased; // `stop` also ends the sources, which is no failure
            () = stop.cancelled() => break,
            ended = &mut build.pump => (RebuiltPart::Model, reason(ended.map(|()| "it ended".to_owned()))),
            ended = &mut build.sources => (RebuiltPart::Sources, reason(ended)),
            () = tokio::time::sleep_until(lasting), if attempts.failed > 0 => {
                attempts.failed = 0;
                core.exporter.set_alive(true);
                continue;
            }
            Ok(()) = core.effective.changed() => {
                info!("what to watch has changed; starting the sources again");
                end_sources(build.sources, &build.stop, core.sources.stops_within()).await;
                core.blind_watches().await;
                core.reconnect();
                build = core.start(build.pump, &stop);
                continue;
            }
            () = sleep(CHECKPOINT_EVERY) => {
                core.remember(&build);
                continue;
            }
        };

        let wait = attempts.next();
        core.report(part, &reason, attempts.failed);

        let pump = core.rebuild(part, &reason, build, attempts.failed).await;

        // The model works again. Only the sources wait, because they may have caused its panic.
        let _ = stop.run_until_cancelled(sleep(wait)).await;
        build = core.start(pump, &stop);
    }

    info!(operator = core.outlets.operator, "stopping");
    core.stop(build).await;
}

impl Sources for Connection {
    fn start(&self, channels: Channels, stop: CancellationToken) -> JoinHandle<String> {
        let Channels { feed, probes, synced } = channels;
        tokio::spawn(watch_cluster(self.clone(), feed, probes, stop, synced))
    }

    fn connection(&mut self) -> &mut Connection {
        self
    }
}

impl Core {
    pub(super) fn new(
        model: SharedModel,
        exporter: Arc<Exporter>,
        sources: Box<dyn Sources>,
        effective: watch::Receiver<Effective>,
        state_dir: Option<PathBuf>,
        clock: ServerClock,
    ) -> Self {
        let (feed, observations) = Feed::new(CHANNEL, clock);
        let (ask, probes) = mpsc::channel(PROBES);
        let observations = Arc::new(Mutex::new(observations));
        let probes = Arc::new(Mutex::new(probes));
        let (outlets, checkpoint) = (Outlets::default(), None);

        Self {
            model,
            exporter,
            outlets,
            sources,
            effective,
            state_dir,
            feed,
            observations,
            ask,
            probes,
            checkpoint,
        }
    }

    /// Sets where events and traces go.
    pub(super) fn with_outlets(self, outlets: Outlets) -> Self {
        Self { outlets, ..self }
    }

    /// The feed of all sources. It outlives every rebuild.
    pub(super) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Applies changed flags of the sources. The key of fingerprints stays, because a new key would
    /// make every spec look changed.
    fn reconnect(&mut self) {
        let connection = self.sources.connection();
        let hash_key = connection.options.discovery.hash_key;
        *connection = Connection::new(&self.effective.borrow_and_update(), hash_key);
    }

    async fn report_problems(&self) {
        let problems = self.effective.borrow().all_problems();
        let _ = reload::report(problems, &self.feed, &self.exporter).await;
    }

    /// Starts the sources of a build, next to the pump.
    fn start(&self, pump: JoinHandle<()>, stop: &CancellationToken) -> Build {
        let (stop, synced) = (stop.child_token(), CancellationToken::new());
        Build { pump, sources: self.start_sources(&stop, &synced), stop, synced }
    }

    fn start_pump(&self) -> JoinHandle<()> {
        let (model, waiting) =
            (self.model.clone(), GaugeShare::of(&self.exporter.metrics().channel_depth));
        let (observations, ask, outlets) =
            (self.observations.clone(), self.ask.clone(), self.outlets.clone());
        tokio::spawn(async move {
            // The channel outlives a panicking pump, so that all senders stay valid.
            let mut observations = observations.lock_owned().await;
            let ask = move |probe| ask.try_send(probe).is_ok();
            pump(&mut *observations, model, None, waiting, ask, outlets).await;
        })
    }

    fn start_sources(
        &self,
        stop: &CancellationToken,
        synced: &CancellationToken,
    ) -> JoinHandle<String> {
        let (feed, probes) = (self.feed.clone(), Arc::clone(&self.probes));
        let channels = Channels { feed, probes, synced: synced.clone() };
        self.sources.start(channels, stop.clone())
    }

    /// Takes a checkpoint, unless the lists are incomplete: it would lack what the lists restore.
    fn remember(&mut self, build: &Build) {
        if build.synced.is_cancelled() {
            // A panic here must not end this task, which rebuilds the others.
            let taken = catch_unwind(AssertUnwindSafe(|| lock(&self.model).checkpoint()));
            self.checkpoint = taken.ok().or(self.checkpoint.take());
        }
    }

    fn report(&self, part: RebuiltPart, reason: &str, failed: u32) {
        self.exporter.metrics().rebuilds.get_or_create_owned(&RebuildLabels { part }).inc();
        let part = part.as_str();
        error!(
            part,
            reason, failed, "a bug in loopwatch stopped a part of it; rebuilding this part"
        );

        if failed >= FATAL_AFTER {
            error!(part, failed, "rebuilding does not help; /livez fails now");
        }

        self.exporter.set_alive(failed < FATAL_AFTER);
    }

    /// Rebuilds everything except the sources, and returns the pump.
    async fn rebuild(
        &self,
        part: RebuiltPart,
        reason: &str,
        old: Build,
        failed: u32,
    ) -> JoinHandle<()> {
        let pump = match part {
            RebuiltPart::Model => {
                end_sources(old.sources, &old.stop, self.sources.stops_within()).await;

                // The checkpoint itself may cause the panic, so the last attempt omits it.
                self.renew_model(failed + 1 < FATAL_AFTER).await;
                let pump = self.start_pump();
                self.report_problems().await;
                pump
            }
            RebuiltPart::Sources => old.pump,
        };

        let detail = format!(
            "a bug in loopwatch stopped the {}, and loopwatch rebuilds it: {reason}",
            part.as_str()
        );

        self.fail_sources(detail).await;
        pump
    }

    /// Reports the watches as failing until they have listed again: the API server may be
    /// unreachable, and no other source shows that nothing follows their objects.
    async fn blind_watches(&self) {
        let detail = "loopwatch starts its sources again, because their configuration has changed";
        let snapshot = catch_unwind(AssertUnwindSafe(|| lock(&self.model).snapshot()));
        let watches =
            snapshot.iter().flat_map(|snapshot| &snapshot.kinds).flat_map(|kind| &kind.watches);
        let followed = watches.filter(|watch| watch.missing.is_empty());
        let sources: Vec<SourceId> =
            followed.map(|watch| SourceId::Watch(watch.watch.clone())).collect();

        self.report_failing(sources, detail).await;
    }

    /// Reports the sources as failing until they report that they have recovered.
    async fn fail_sources(&self, detail: String) {
        let snapshot = catch_unwind(AssertUnwindSafe(|| lock(&self.model).snapshot()));
        let mut sources = BTreeSet::from([SourceId::Discovery]);
        for source in
            snapshot.iter().flat_map(|snapshot| &snapshot.sources).filter(|source| source.up)
        {
            match source.source.split_once('/') {
                Some(("watch", watch)) => {
                    _ = sources.insert(SourceId::Watch(WatchId(watch.into())))
                }
                None if source.source == SourceId::Lease.to_string() => {
                    _ = sources.insert(SourceId::Lease)
                }
                _ => {}
            }
        }

        self.report_failing(sources, detail).await;
    }

    async fn report_failing(
        &self,
        sources: impl IntoIterator<Item = SourceId>,
        detail: impl Into<String>,
    ) {
        let failure = Failure::new(Cause::Other, detail);
        let reporting = async {
            for source in sources {
                let _ = self.feed.failed(source, &failure).await;
            }
        };

        // If the pump has ended as well, nothing empties the channel.
        if timeout(DRAIN, reporting).await.is_err() {
            warn!("cannot report that the sources have stopped");
        }
    }

    /// Replaces the model with an empty one that has the settings in effect, and drops the
    /// observations for the old model in the channel: the sources list everything again.
    async fn renew_model(&self, restore: bool) {
        let mut new = Model::new(self.effective.borrow().settings.clone());
        if self.outlets.traces.is_some() {
            new.gather_traces();
        }

        let mut observations = self.observations.lock().await;
        while observations.try_recv().is_some() {}
        match (&self.checkpoint, &self.state_dir) {
            _ if !restore => {}
            (Some(checkpoint), _) => {
                _ = self.feed.send(Observation::Restored(Box::new(checkpoint.clone()))).await
            }
            (None, Some(dir)) => state::restore(dir, &mut new),
            (None, None) => {}
        }

        let old = std::mem::replace(&mut *lock(&self.model), new);
        self.model.clear_poison();
        drop(old); // after releasing the lock
    }

    /// Stops the sources first, so that no observation follows. Then the pump empties the channel.
    async fn stop(self, build: Build) {
        end_sources(build.sources, &build.stop, self.sources.stops_within()).await;
        drop(self.feed);
        if build.pump.is_finished() {
            return;
        }

        match timeout(DRAIN, build.pump).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "a task panicked; this is a bug in loopwatch"),
            Err(_) => warn!("observations remain in the channel"),
        }
    }
}

/// Why a task ended.
fn reason(ended: Result<String, JoinError>) -> String {
    ended.unwrap_or_else(crate::sources::supervisor::panic_message)
}
