//! Connects sources, channel, model and exporters, and stops them in order.

use std::borrow::BorrowMut;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::finding::{Change, Finding, FindingCode, FindingEvent, Subject};
use loopwatch_model::model::{LeaderElection, Model};
use loopwatch_model::observation::{Cause, Observation, Probe};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;
use loopwatch_model::trace::Trace;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::config::{DEFAULT_PORT, Flags, ServeFlags, WebAuth};
use crate::export::delivery::notify::Event;
use crate::export::server::{ExportOptions, Exporter, Fleet};
use crate::recording::Segments;
use crate::sources::api_server::{Cluster, ConnectError};
use crate::sources::decoding::HashKey;
use crate::sources::feed::{Feed, Observations, ServerClock};
use crate::sources::operator::ProfileStore;
use crate::system::own_pod::OwnPod;
use crate::system::{coarse_timers, open_files};
use crate::telemetry::{GaugeShare, SelfMetrics};

mod fleet;
mod memory;
mod ports;
mod rebuild;
mod reload;
mod scrapes;
mod senders;
mod state;
mod web;
#[cfg(test)]
mod tests;

use self::rebuild::{Connection, Sources};
pub(crate) use self::reload::{Configuration, Reload};
use self::reload::{Effective, Reloader};
pub(crate) use self::senders::Outlets;
use self::senders::Senders;
use crate::lock::lock;

/// Capacity of the channel between sources and model, in observations: enough for a burst from a
/// list. If the channel is full, the sources wait, and so does the API server.
const CHANNEL: usize = 1024;

/// Observations that the pump applies under one lock, well within a millisecond.
const BATCH: usize = 128;

/// Observations for which a pump keeps memory while it waits. A full batch takes 40 KB, and there may be a
/// pump for each of many operators.
const KEPT_BATCH: usize = 8;

/// Longest time between two ticks of the model, in milliseconds. With the wait for the next coarse
/// timer, ages at a scrape are accurate to a second.
const MAX_TICK_INTERVAL: u64 = 1000 - 64;

/// Shortest time between two ticks, in milliseconds. Many changes set many timers, and a wake-up
/// for each would cost more than firing it. No client needs more than five updates a second. This
/// is longer than a watch gathers changes, because the changes themselves also fire timers.
const MIN_TICK_INTERVAL: u64 = 128;

/// Time for open requests to finish after a stop signal: enough for a scrape in progress.
const DRAIN: Duration = Duration::from_secs(3);

/// Backoff between attempts to connect or to listen: the first wait and the longest. The wait
/// doubles each time.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The model, shared between the one task that changes it and the exporters that read it.
pub(crate) type SharedModel = Arc<Mutex<Model>>;

/// Builds the single-threaded runtime. Even listing 50,000 objects keeps less than one core busy,
/// and waking a second worker for each object would cost more than decoding the object.
///
/// # Errors
/// If the system refuses to create threads.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    coarse_timers::start();
    Ok(tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(4)
        .enable_all()
        .build()?)
}

/// Runs a task to its end. A name lookup may still hang on its own thread for minutes, but nothing
/// waits for it any more.
///
/// # Errors
/// If the system refuses to create threads.
pub(crate) fn block_on(task: impl Future<Output = ()>) -> anyhow::Result<()> {
    let runtime = runtime()?;
    runtime.block_on(task);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// Watches, judges and exports until a stop signal arrives, and returns for no other reason. With
/// `reload`, follows changes of the configuration file.
pub(crate) async fn run(configuration: Configuration, reload: Option<Reload>) {
    open_files::raise_limit();
    let configuration = configuration.limited();
    let Flags { cluster, serve: serve_flags, web, state_dir, profiles, .. } =
        configuration.flags.clone();
    let stop = stop_signal();
    let mut model = Model::new(configuration.settings.clone());

    if let Some(dir) = &state_dir {
        state::restore(dir, &mut model);
    }

    let known_permissions = model.remembered_permissions();
    let model: SharedModel = Arc::new(Mutex::new(model));
    let exporter = exporter(model.clone(), &serve_flags);
    exporter.set_profiles(ProfileStore::new(profiles.profile_dir.as_deref()));
    if OwnPod::of_environment("").is_some_and(|pod| pod.in_cluster && pod.host_network) {
        exporter.share_loopback();
    }

    web::prepare(&web, &cluster, &exporter);
    let listen = serve_flags.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into());
    let serving = tokio::spawn(ports::serve(listen, web.clone(), exporter.clone(), stop.clone()));
    let senders = Senders::start(&configuration.flags, &model, &exporter);
    let saving = state_dir
        .clone()
        .map(|dir| tokio::spawn(state::save_regularly(dir, model.clone(), stop.clone())));

    let (sender, effective) = watch::channel(Effective {
        cluster,
        profiles,
        settings: configuration.settings.clone(),
        problems: configuration.problems.clone(),
        web_problems: Vec::new(),
    });

    let (settings, _) = watch::channel(configuration.settings.clone());
    let mut connection = Connection::new(&effective.borrow(), hash_key());
    connection.options.discovery.known_permissions = Arc::new(known_permissions);
    let sources: Box<dyn Sources> = match configuration.flags.cluster.all_operators {
        false => Box::new(connection),
        true => Box::new(fleet(connection, &configuration.flags, &settings, &exporter)),
    };
    let core = rebuild::Core::new(
        model.clone(),
        exporter.clone(),
        sources,
        effective,
        state_dir.clone(),
        ServerClock::new(),
    )
    .with_outlets(senders.outlets());

    if web.web_config_file.is_some() || web.web_auth != WebAuth::None {
        let follower =
            web::Follower::new(web.file_to_follow(), core.feed(), &exporter, sender.clone());
        tokio::spawn(follower.run(stop.clone()));
    }

    let scrapes = scrapes::ScrapeWatch {
        feed: core.feed().clone(),
        exporter: exporter.clone(),
        effective: sender.subscribe(),
        reports_otherwise: senders.report(),
    };
    tokio::spawn(scrapes.run(stop.clone()));

    if let Some(reload) = reload {
        let reloader = Reloader {
            current: configuration,
            feed: core.feed().clone(),
            exporter,
            effective: sender,
            settings,
        };
        tokio::spawn(reloader.run(reload, stop.clone()));
    }

    rebuild::keep_running(core, stop).await;
    if let (Some(dir), Some(saving)) = (&state_dir, saving) {
        state::save_last(dir, &model, saving).await;
    }

    // The senders end only after the state is saved, because a hanging receiver takes seconds, and
    // a second signal or the kubelet may end the process meanwhile.
    senders.close().await;
    let _ = tokio::time::timeout(DRAIN, serving).await;
    info!("stopped");
}

/// Prepares to follow all operators of a cluster, whose exporters share the port of `exporter`.
fn fleet(
    connection: Connection,
    flags: &Flags,
    settings: &watch::Sender<Settings>,
    exporter: &Arc<Exporter>,
) -> fleet::Follower {
    let fleet = Arc::new(Fleet::default());
    exporter.set_fleet(Arc::clone(&fleet));
    fleet::Follower {
        connection,
        flags: Arc::new(flags.clone()),
        settings: settings.subscribe(),
        exporter: Arc::clone(exporter),
        fleet,
        checkpoints: Arc::default(),
        remembered: fleet::RememberedOperators::load(flags.state_dir.as_deref()),
    }
}

/// Why the pump stopped.
#[derive(Debug)]
pub(crate) enum Ended {
    /// All senders of observations are gone.
    SendersGone,
    /// The recording could not be written.
    Unwritable(std::io::Error),
}

/// Applies observations to the model until all senders are gone, and fires timers when they are
/// due. Passes the model's probes to `ask`, and its reference events and traces to `outlets`. Sets
/// `waiting` to the number of observations in the channel. Returns the recording, if there is one
/// and it could be written, and why the pump stopped.
pub(crate) async fn pump(
    mut observations: impl BorrowMut<Observations>,
    model: SharedModel,
    mut sink: Option<Segments>,
    mut waiting: GaugeShare,
    ask: impl Fn(Probe) -> bool,
    outlets: Outlets,
) -> (Option<Segments>, Ended) {
    let observations = observations.borrow_mut();
    let mut batch = Vec::new();
    loop {
        let due = lock(&model).next_due().map(|due| due.since(observations.now()));
        let wait = due.map_or(MAX_TICK_INTERVAL, |span| {
            u64::try_from(span.0).unwrap_or(0).clamp(MIN_TICK_INTERVAL, MAX_TICK_INTERVAL)
        });
        let timer = tokio::time::sleep_until(coarse_timers::after(Duration::from_millis(wait)));

        tokio::select! {
            biased;
            taken = observations.recv_many(&mut batch, BATCH) => if taken == 0 {
                return (sink, Ended::SendersGone);
            },
            () = timer => batch.extend(observations.ticks()),
        }
        waiting.set(observations.len());

        if let Some(sink) = sink.as_mut()
            && let Err(error) =
                batch.iter().try_for_each(|(at, observation)| sink.write(*at, observation))
        {
            return (None, Ended::Unwritable(error));
        }

        let reports = apply(&mut lock(&model), batch.drain(..), &outlets);
        batch.shrink_to(KEPT_BATCH);

        // The model repeats a probe that `ask` refuses.
        reports.probes.into_iter().for_each(|probe| _ = ask(probe));
        let operator = outlets.operator.as_deref();
        reports.events.iter().for_each(|event| log_finding_event(event, operator));
        if let Some(election) = &reports.election {
            outlets.push(reports.notified, reports.traces, election);
        }

        if let Some(sink) = sink.as_mut()
            && let Err(error) = sink.rotate_if_full(&lock(&model))
        {
            return (None, Ended::Unwritable(error));
        }
    }
}

/// What the model reports after a batch.
struct Reports {
    probes: Vec<Probe>,
    events: Vec<FindingEvent>,
    /// The events for the webhook.
    notified: Vec<Event>,
    traces: Vec<Trace>,
    /// `Some` only if it matters now which replica leads.
    election: Option<LeaderElection>,
}

/// Applies a batch of observations.
fn apply(
    model: &mut Model,
    batch: impl Iterator<Item = (Timestamp, Observation)>,
    outlets: &Outlets,
) -> Reports {
    #[cfg(test)]
    injected::panic_if_asked();
    for (at, observation) in batch {
        model.apply(at, observation);
    }

    let (events, traces) = (model.finding_events(), model.traces());
    let notified = outlets.events_for_webhook(model.reference_events(), &events);
    let is_needed = outlets.need_leader(&notified, &traces);
    let election = is_needed.then(|| model.leader_election());

    Reports { probes: model.probes(), events, notified, traces, election }
}

/// Connects to a cluster and checks that it responds, without retrying.
///
/// # Errors
/// If the cluster cannot be reached. The error contains advice.
pub(crate) async fn connect(
    access: &crate::sources::api_server::Access,
) -> Result<Cluster, ConnectError> {
    let cluster = Cluster::connect(access, &ServerClock::new()).await?;
    cluster.reach().await?;
    Ok(cluster)
}

/// Creates the channel between the sources of a cluster and the pump.
#[must_use]
pub(crate) fn channel(cluster: &Cluster) -> (Feed, Observations) {
    Feed::new(CHANNEL, cluster.clock().clone())
}

/// Builds the exporter of a model.
#[must_use]
pub(crate) fn exporter(model: SharedModel, flags: &ServeFlags) -> Arc<Exporter> {
    let &ServeFlags { object_series, expose_ui, .. } = flags;
    let max_object_series = lock(&model).settings().limits.object_series;
    let options = ExportOptions { object_series, max_object_series, expose_ui };
    let metrics = SelfMetrics {
        links: flags.links().labels(),
        exports_protected: flags.export_protected_metrics,
        ..SelfMetrics::new()
    };

    Arc::new(Exporter::new(model, Arc::new(metrics), options))
}

/// Creates a new key for fingerprints. Each run has another one, so that nobody can guess values
/// from fingerprints.
#[must_use]
pub(crate) fn hash_key() -> HashKey {
    HashKey(random_key())
}

/// Creates 128 bits that differ in each run, from the random seed of the standard library's hash
/// maps.
#[must_use]
pub(crate) fn random_key() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};

    let half = || RandomState::new().hash_one(0_u8);
    (u128::from(half()) << 64 | u128::from(half())).to_le_bytes()
}

/// Creates a token that SIGTERM or SIGINT cancels. A second signal ends the process at once, with
/// the exit code that shells use for a process that a signal has ended.
#[must_use]
pub(crate) fn stop_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};

        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return warn!("cannot receive signals; only SIGKILL will stop this process");
        };
        let mut next = async || {
            tokio::select! {
                biased;
                _ = terminate.recv() => SignalKind::terminate(),
                _ = interrupt.recv() => SignalKind::interrupt(),
            }
        };

        next().await;
        cancelled.cancel();

        let signal = next().await.as_raw_value();
        warn!("a second signal ends the process at once; what it has not sent or written is lost");
        std::process::exit(128 + signal);
    });

    stop
}

/// Returns the cause of a failed connection. If no request reached the API server, the
/// configuration is invalid.
fn cause(error: &ConnectError) -> Cause {
    match error {
        ConnectError::Unreachable { failure, .. } | ConnectError::Operator { failure, .. } => {
            failure.cause
        }
        ConnectError::NothingFound { .. }
        | ConnectError::Kubeconfig { .. }
        | ConnectError::InCluster(_)
        | ConnectError::Client { .. } => Cause::Invalid,
    }
}

/// Logs the opening or closing of a finding. `operator` is `Some` if it is one of many.
fn log_finding_event(event: &FindingEvent, operator: Option<&str>) {
    let finding = &event.finding;
    let (code, subject, summary) = (finding.code.name(), &finding.subject, finding.summary());
    match event.change {
        // The log has it already, at once and even if the user silences the finding.
        Change::Opened if is_about_configuration(finding) => {
            debug!(finding = code, operator, %subject, id = %finding.id, "{summary}");
        }
        Change::Opened => {
            warn!(finding = code, operator, %subject, id = %finding.id, "{summary}")
        }
        Change::Closed => {
            info!(finding = code, operator, %subject, id = %finding.id, "closed")
        }
        Change::Explained => {
            info!(finding = code, operator, %subject, id = %finding.id, "{}", event.explanation())
        }
    }
}

/// Whether a finding repeats the problems that [`reload`] logs. It may also be about an annotation, and
/// nothing else logs that.
fn is_about_configuration(finding: &Finding) -> bool {
    finding.code == FindingCode::ConfigInvalid && matches!(finding.subject, Subject::Source { .. })
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        warn!(%error, "a task panicked; this is a bug in loopwatch");
    }
}

/// Panics for tests.
#[cfg(test)]
mod injected {
    use std::cell::Cell;

    thread_local! {
        /// The panics that a test still requests. A test and its tasks share one thread.
        pub(super) static PANICS: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn panic_if_asked() {
        let left = PANICS.get();
        PANICS.set(left.saturating_sub(1));

        assert!(left == 0, "injected");
    }
}
