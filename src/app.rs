//! Wiring only: sources → channel → model → exporters, and the order in which they stop.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::finding::{Change, FindingEvent};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Cause, Observation, Probe, SourceId};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Config, DEFAULT_LISTEN};
pub use crate::export::view::lock;
use crate::export::{self, Exporter, ObjectSeries, http};
use crate::recording::Writer;
use crate::sources::clock::{Clock, SystemClock};
use crate::sources::decode::HashKey;
use crate::sources::{Cluster, ConnectError, Failure, Feed, Handle, Observations, SourceOptions, Supervisor};
use crate::telemetry::SelfMetrics;

mod memory;
mod state;

/// Observations between sources and model: a burst of a list; beyond it the sources wait, and so does the API server.
const CHANNEL: usize = 1024;

/// Observations taken under one lock: well below a millisecond.
const BATCH: usize = 128;

/// The model's time goes on at least this often, in milliseconds, so that ages at a scrape are true to a second.
const AGE: u64 = 1000;

/// … and at most this often, in milliseconds: of many changes many timers follow, and to be woken for each costs more than
/// what it does. Ten times a second is more than anybody looks.
const TOGETHER: u64 = 100;

/// Time given to open requests when we are told to stop: the end of a scrape.
const DRAIN: Duration = Duration::from_secs(3);

/// How long to wait before trying again to reach a cluster or to listen: doubled from the first to the last.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The model, shared between the one task that changes it and the exporters that look at it.
pub type SharedModel = Arc<Mutex<Model>>;

/// A runtime for the program: one thread. There is less than one core of work, even while 50,000 objects are listed; a
/// second worker would be woken for every object that arrives, which costs more than to read it.
///
/// # Errors
/// When the system refuses threads.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().max_blocking_threads(4).enable_all().build()?)
}

/// Watches, judges and exports until told to stop. Never returns for any other reason.
pub async fn run(config: Config, problems: Vec<String>) {
    let Config { access, namespaces, watch, max_watches, settings, listen, expose_ui, object_series, state_dir } =
        config;
    let settings = memory::bounded(settings);
    let stop = stop_signal();
    let mut model = Model::new(settings);
    let (feed, observations) = Feed::new(CHANNEL);
    if let Some(dir) = &state_dir {
        state::restore(dir, &mut model);
    }
    let model: SharedModel = Arc::new(Mutex::new(model));
    let exporter = exporter(model.clone(), object_series, expose_ui);
    let waiting = exporter.metrics().channel_depth.clone();
    let listen = listen.unwrap_or_else(default_listen);
    let serving = tokio::spawn(serve(listen, exporter, stop.clone()));
    tell_problems(&feed, problems).await;

    let (ask, questions) = tokio::sync::mpsc::channel(64);
    let ask = move |probe| ask.try_send(probe).is_ok();
    let pump = tokio::spawn(pump(observations, model.clone(), None, waiting, ask));
    let options = SourceOptions { watch, namespaces, max_watches, ..SourceOptions::new(hash_key()) };
    let sources = tokio::spawn(watch_cluster(access, options, feed, questions, stop.clone()));

    stop.cancelled().await;
    info!("stopping");
    // Sources first, so that nothing new comes; then what is in the channel; then the last scrape.
    log_panic(sources.await);
    log_panic(pump.await.map(drop));
    if let Some(dir) = &state_dir {
        state::keep(dir, &lock(&model));
    }
    let _ = tokio::time::timeout(DRAIN, serving).await;
    info!("stopped");
}

/// A recording that is made on the way, up to so many bytes.
pub struct Tap {
    /// Where to.
    pub writer: Writer,
    /// How long it may get.
    pub max_bytes: u64,
}

/// Why the pump stopped.
#[derive(Debug)]
pub enum Ended {
    /// Nobody sends observations any more.
    Dry,
    /// The recording is as long as it may get.
    Full,
    /// The recording cannot be written.
    Unwritable(std::io::Error),
}

/// Takes observations into the model until nobody sends any more, lets timers fire when they are due, and passes on
/// what the model wants to know. `waiting` says how many had to wait. Gives back the recording when there is one.
pub async fn pump(
    mut observations: Observations,
    model: SharedModel,
    mut tap: Option<Tap>,
    waiting: Gauge,
    ask: impl Fn(Probe) -> bool,
) -> (Option<Tap>, Ended) {
    let clock = SystemClock::new();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let due = lock(&model).next_due().map(|due| due.since(clock.wall()));
        let wait = due.map_or(AGE, |span| u64::try_from(span.0).unwrap_or(0).clamp(TOGETHER, AGE));
        let timer = tokio::time::sleep(Duration::from_millis(wait));
        tokio::select! {
            biased;
            taken = observations.recv_many(&mut batch, BATCH) => if taken == 0 {
                return (tap, Ended::Dry);
            },
            () = timer => batch.push((clock.wall(), Observation::Tick)),
        }
        waiting.set(i64::try_from(observations.len()).unwrap_or(i64::MAX));
        if let Some(tap) = tap.as_mut()
            && let Err(error) = batch.iter().try_for_each(|(at, observation)| tap.writer.write(*at, observation))
        {
            return (None, Ended::Unwritable(error));
        }
        let (probes, events) = {
            let mut model = lock(&model);
            for (at, observation) in batch.drain(..) {
                model.apply(at, observation);
            }
            (model.probes(), model.finding_events())
        };
        probes.into_iter().for_each(|probe| _ = ask(probe)); // one that finds no room is asked again in a minute
        events.iter().for_each(log_finding_event);
        if tap.as_ref().is_some_and(|tap| tap.writer.bytes() >= tap.max_bytes) {
            return (tap, Ended::Full);
        }
    }
}

/// Starts the sources of a cluster once, without trying again.
///
/// # Errors
/// When the cluster cannot be reached: what, where, and what to do.
pub async fn connect(access: &crate::sources::Access) -> Result<Cluster, ConnectError> {
    let cluster = Cluster::connect(access).await?;
    cluster.reach().await?;
    Ok(cluster)
}

/// The channel between sources and a model that is pumped.
#[must_use]
pub fn channel() -> (Feed, Observations) {
    Feed::new(CHANNEL)
}

/// Serves until told to stop. A port that is taken is tried again: exiting would not free it.
pub async fn serve(listen: std::net::SocketAddr, exporter: Arc<Exporter>, stop: CancellationToken) {
    let mut wait = RETRY.0;
    loop {
        match TcpListener::bind(listen).await {
            Ok(listener) => {
                info!(address = %listener.local_addr().unwrap_or(listen), "listening");
                return http::serve(listener, exporter, stop.cancelled_owned()).await;
            }
            Err(error) => warn!(address = %listen, %error, retry_in = ?wait, "cannot listen"),
        }
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        wait = (wait * 2).min(RETRY.1);
    }
}

/// What shows a model.
#[must_use]
pub fn exporter(model: SharedModel, object_series: ObjectSeries, expose_ui: bool) -> Arc<Exporter> {
    let max_object_series = lock(&model).settings().limits.object_series;
    let options = export::ExportOptions { object_series, max_object_series, expose_ui };
    Arc::new(Exporter::new(model, Arc::new(SelfMetrics::new()), options))
}

/// The address to listen on when nobody named one.
#[must_use]
pub fn default_listen() -> std::net::SocketAddr {
    DEFAULT_LISTEN.parse().unwrap_or_else(|_| std::net::SocketAddr::from(([0, 0, 0, 0], 9917)))
}

/// A key for fingerprints, new for each run: nobody can guess values from them.
#[must_use]
pub fn hash_key() -> HashKey {
    HashKey(random_key())
}

/// 128 bits that differ from run to run, from the randomness that the standard library seeds its maps with.
#[must_use]
pub fn random_key() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one(0_u8);
    (u128::from(half()) << 64 | u128::from(half())).to_le_bytes()
}

/// Cancelled by SIGTERM or SIGINT.
#[must_use]
pub fn stop_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return warn!("cannot listen for signals; only SIGKILL will stop this process");
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancelled.cancel();
    });
    stop
}

/// Connects, for as long as it takes, and then watches until told to stop.
async fn watch_cluster(
    access: crate::sources::Access,
    options: SourceOptions,
    feed: Feed,
    mut questions: tokio::sync::mpsc::Receiver<Probe>,
    stop: CancellationToken,
) {
    let Some(Some(handle)) = stop.run_until_cancelled(start_sources(&access, options, feed)).await else { return };
    while let Some(Some(probe)) = stop.run_until_cancelled(questions.recv()).await {
        let _ = handle.ask(probe); // when too many wait, the model asks again
    }
    handle.shutdown().await;
}

async fn start_sources(access: &crate::sources::Access, options: SourceOptions, feed: Feed) -> Option<Handle> {
    let mut wait = RETRY.0;
    loop {
        match Cluster::connect(access).await {
            Ok(cluster) => {
                info!(server = cluster.url(), "watching");
                feed.recovered(SourceId::Discovery).await.ok()?;
                return Some(Supervisor::start(cluster, options, feed));
            }
            Err(error) => {
                warn!(%error, retry_in = ?wait, "cannot connect");
                let failure = Failure::new(cause(&error), error.to_string());
                feed.failed(SourceId::Discovery, &failure).await.ok()?;
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// What could not even be tried is a matter of configuration; the rest is told by the API server.
fn cause(error: &ConnectError) -> Cause {
    match error {
        ConnectError::Unreachable { failure, .. } | ConnectError::Operator { failure, .. } => failure.cause,
        ConnectError::NothingFound { .. }
        | ConnectError::Kubeconfig { .. }
        | ConnectError::InCluster(_)
        | ConnectError::Client { .. } => Cause::Invalid,
    }
}

async fn tell_problems(feed: &Feed, problems: Vec<String>) {
    if problems.is_empty() {
        let _ = feed.recovered(SourceId::Config).await;
    } else {
        let said = problems.join("; ");
        warn!(problem = said, "the configuration cannot be used as it is; running without that part");
        let _ = feed.invalid(SourceId::Config, said).await;
    }
}

fn log_finding_event(events: &FindingEvent) {
    let finding = &events.finding;
    let (code, subject, summary) = (finding.code.name(), &finding.subject, finding.summary());
    match events.change {
        Change::Opened => warn!(finding = code, %subject, id = %finding.id, "{summary}"),
        Change::Closed => info!(finding = code, %subject, id = %finding.id, "no longer"),
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        warn!(%error, "a task ended by a bug in loopwatch");
    }
}
