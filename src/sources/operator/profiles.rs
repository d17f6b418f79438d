//! Profiles of the operator: when the model suspects growth, takes two or more of the same kind and
//! compares them.
//!
//! ```text
//!  Probe::Profile ─▶ GET /debug/pprof/heap ─▶ wait ─▶ GET … ─▶ compare by stack ─▶ Answer::Profiled
//!                              └──────── ProfileStore ◀──┘
//! ```
//!
//! loopwatch takes a profile only on request, and seldom: each costs the operator some milliseconds
//! of CPU time and some memory. It asks only programs of its own Pod. A failure concerns one
//! comparison, so it is an [`Answer::Failed`] and not a failure of the source.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use loopwatch_model::observation::{
    Answer, Cause, GrowingStack, Observation, Probe, ProfileKind, ProfileView, SourceId,
    WaitingStack,
};
use loopwatch_model::time::Timestamp;
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

mod endpoint;
mod fetch;
mod pprof;
mod store;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use self::endpoint::PprofUrl;
use self::endpoint::{Endpoint, beside, usual};
use self::fetch::{Fetched, fetch};
use self::pprof::{Profile, Summary};
pub(crate) use self::store::{KeptProfile, ProfileStore};
use self::wire::Malformed;
use super::hints::MetricsAddresses;
use crate::lock::read_lock;
use crate::net::Failure;
use crate::sources::feed::{Closed, Feed};
use crate::system::own_pod::{OwnPod, is_own_address};

/// Whether and where to take profiles. The default takes them where pprof usually is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfileOptions {
    /// Whether the user has turned profiles off.
    pub off: bool,
    /// Where the operator serves pprof. By default, loopwatch tries the usual ports.
    pub url: Option<PprofUrl>,
    /// Where to keep profiles. By default, the usual directory if it exists.
    pub dir: Option<PathBuf>,
    /// The time between the two profiles instead of the default. For tests.
    pub wait: Option<Duration>,
}

/// Takes and compares profiles. All clones share one lock.
#[derive(Clone)]
pub(crate) struct Profiler {
    options: ProfileOptions,
    store: ProfileStore,
    /// The Pod of this process; `None` outside a cluster.
    own: Option<OwnPod>,
    metrics: MetricsAddresses,
    /// Held while a profile is fetched and decoded: taking one profile at a time limits the memory
    /// in use.
    turn: Arc<Mutex<()>>,
}

/// Why there is no comparison.
#[derive(Debug)]
enum NoComparison {
    /// The operator serves no pprof, for this reason.
    NoPprof(String),
    Failed(Failure),
}

/// A later profile, compared with the first one.
enum Compared {
    /// The growth may be due to chance.
    Unclear,
    Clear {
        stacks: Vec<GrowingStack>,
        waiting: Vec<WaitingStack>,
        file: String,
    },
}

/// The comparisons in progress, and when the next one of each kind may begin.
#[derive(Default)]
struct ComparisonSchedule {
    running: BTreeMap<ProfileKind, String>,
    resting: HashMap<ProfileKind, Instant>,
}

/// When to take the later heap profiles, after the first one. The first interval exceeds the usual
/// time between two garbage collections. Go samples one allocation in 512 KiB, so the growth of a
/// slow leak may be chance after a minute and is clear after ten: the last comparison always
/// counts.
const HEAP_AFTER: &[Duration] =
    &[Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(600)];
/// When to take the second goroutine profile. Goroutine counts are exact, but bursts of work take
/// minutes to end.
const GOROUTINES_AFTER: &[Duration] = &[Duration::from_secs(300)];
/// Growth of a heap stack that is not due to chance, in bytes: four samples.
const CLEAR_GROWTH: u64 = 4 * 512 * 1024;
/// The shortest time from one comparison to the next of the same kind.
const REST: Duration = Duration::from_secs(30 * 60);
/// The same time after a failed comparison, for example because the operator restarted.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(5 * 60);
/// The reason why the source is off if the user has turned profiles off.
const OFF: &str = "profiles are off (--profiles=off)";

/// Answers probes until the channel closes. If an earlier task has failed, reports that the source
/// works again.
pub(crate) async fn answer_profiles(
    profiler: Profiler,
    feed: Feed,
    probes: Arc<Mutex<mpsc::Receiver<Probe>>>,
    failed: bool,
) {
    let mut probes = probes.lock().await;
    if failed && feed.recovered(SourceId::Profiles).await == Err(Closed) {
        return;
    }

    if profiler.options.off && report_off(&feed, OFF.to_owned()).await == Err(Closed) {
        return;
    }

    let (mut comparisons, mut schedule) = (FuturesUnordered::new(), ComparisonSchedule::default());
    let mut off = None;
    loop {
        let sent = tokio::select! {
            probe = probes.recv() => match probe {
                Some(Probe::Profile { instance, kind }) => match schedule.admit(&instance, kind) {
                    Ok(true) => {
                        comparisons.push(compare(profiler.clone(), feed.clone(), instance, kind));
                        Ok(())
                    }
                    Ok(false) => Ok(()),
                    Err(cause) => answer(&feed, instance, kind, Answer::Failed(cause)).await,
                },
                Some(_) => Ok(()), // other tasks answer these
                None => return,
            },
            Some((instance, kind, outcome)) = comparisons.next() => {
                schedule.ended(kind, outcome.is_ok());
                conclude(&feed, instance, kind, outcome, &mut off).await
            }
        };
        if sent == Err(Closed) {
            return;
        }
    }
}

async fn compare(
    profiler: Profiler,
    feed: Feed,
    instance: String,
    kind: ProfileKind,
) -> (String, ProfileKind, Result<ProfileView, NoComparison>) {
    let outcome = profiler.compare(&instance, kind, || feed.clock().now()).await;
    (instance, kind, outcome)
}

/// Answers a probe, and reports whether the operator serves pprof.
async fn conclude(
    feed: &Feed,
    instance: String,
    kind: ProfileKind,
    outcome: Result<ProfileView, NoComparison>,
    off: &mut Option<String>,
) -> Result<(), Closed> {
    match outcome {
        Ok(view) => {
            info!(
                instance,
                kind = kind.as_str(),
                stacks = view.stacks.len(),
                file = view.file,
                "compared two profiles"
            );
            answer(feed, instance, kind, Answer::Profiled(Box::new(view))).await?;
            if off.take().is_some() { feed.recovered(SourceId::Profiles).await } else { Ok(()) }
        }
        Err(NoComparison::NoPprof(reason)) => {
            answer(feed, instance, kind, Answer::Absent).await?;
            if off.as_ref() == Some(&reason) {
                return Ok(());
            }

            *off = Some(reason.clone());
            report_off(feed, reason).await
        }
        Err(NoComparison::Failed(failure)) => {
            warn!(
                instance,
                kind = kind.as_str(),
                error = failure.detail,
                "cannot compare two profiles"
            );

            answer(feed, instance, kind, Answer::Failed(failure.cause)).await
        }
    }
}

async fn answer(
    feed: &Feed,
    instance: String,
    kind: ProfileKind,
    answer: Answer,
) -> Result<(), Closed> {
    feed.send(Observation::Answered { probe: Probe::Profile { instance, kind }, answer }).await
}

async fn report_off(feed: &Feed, reason: String) -> Result<(), Closed> {
    feed.send(Observation::SourceOff { source: SourceId::Profiles, reason }).await
}

impl ComparisonSchedule {
    /// Whether to begin a comparison; false if the same one is in progress, and will answer.
    fn admit(&mut self, instance: &str, kind: ProfileKind) -> Result<bool, Cause> {
        match self.running.get(&kind) {
            Some(running) if running == instance => return Ok(false),
            Some(_) => return Err(Cause::Throttled),
            None => {}
        }

        if self.resting.get(&kind).is_some_and(|until| *until > Instant::now()) {
            return Err(Cause::Throttled);
        }

        self.running.insert(kind, instance.to_owned());
        self.resting.insert(kind, Instant::now() + REST);
        Ok(true)
    }

    fn ended(&mut self, kind: ProfileKind, well: bool) {
        self.running.remove(&kind);
        if !well {
            self.resting.insert(kind, Instant::now() + REST_AFTER_FAILURE);
        }
    }
}

impl Profiler {
    /// Compares profiles of instances in the Pod of this process.
    pub(crate) fn new(
        options: ProfileOptions,
        own: Option<OwnPod>,
        metrics: MetricsAddresses,
    ) -> Self {
        let store = ProfileStore::new(options.dir.as_deref());
        Self { options, store, own, metrics, turn: Arc::default() }
    }

    async fn compare(
        &self,
        instance: &str,
        kind: ProfileKind,
        now: impl Fn() -> Timestamp,
    ) -> Result<ProfileView, NoComparison> {
        let began = Instant::now();
        let from = now();
        let (endpoint, first, first_file) = self.first(instance, kind, from).await?;
        let times = match (&self.options.wait, kind) {
            (Some(wait), _) => std::slice::from_ref(wait),
            (None, ProfileKind::Heap) => HEAP_AFTER,
            (None, ProfileKind::Goroutines) => GOROUTINES_AFTER,
        };

        for (number, after) in times.iter().enumerate() {
            sleep_until(began + *after).await;
            let to = now();
            let is_last = number + 1 == times.len();

            if let Compared::Clear { stacks, waiting, file } =
                self.later(&endpoint, instance, kind, to, &first, is_last).await?
            {
                return Ok(ProfileView {
                    instance: instance.to_owned(),
                    kind,
                    from,
                    to,
                    stacks,
                    waiting,
                    file,
                    first_file,
                });
            }
        }

        Err(failed(Cause::Other, "loopwatch has taken no later profile"))
    }

    /// Finds pprof, and takes the first profile. Also returns the name of its file.
    async fn first(
        &self,
        instance: &str,
        kind: ProfileKind,
        at: Timestamp,
    ) -> Result<(Endpoint, Arc<Summary>, String), NoComparison> {
        let endpoints = self.endpoints(instance)?;
        let _turn = self.turn.lock().await;
        let (endpoint, content) = self.find(endpoints, kind).await?;
        let (store, name) = (self.store.clone(), instance.to_owned());
        let decoding = spawn_blocking(move || {
            let summary = Profile::decode(&content, kind)?.summary();
            Ok((summary, keep(&store, kind, &name, at, &content)))
        });

        let decoded = decoding.await.map_err(|panic| failed(Cause::Other, &panic.to_string()))?;
        let (summary, file) = decoded.map_err(malformed)?;
        Ok((endpoint, Arc::new(summary), file))
    }

    /// Takes a later profile.
    async fn later(
        &self,
        endpoint: &Endpoint,
        instance: &str,
        kind: ProfileKind,
        at: Timestamp,
        first: &Arc<Summary>,
        is_last: bool,
    ) -> Result<Compared, NoComparison> {
        let _turn = self.turn.lock().await;
        let content = match fetch(endpoint, kind).await {
            Fetched::Profile(content) => content,
            Fetched::NoPprof(reason) => {
                return Err(failed(Cause::NotFound, &format!("{endpoint}: {reason}")));
            }
            Fetched::Silent(failure) | Fetched::Broken(failure) => {
                return Err(NoComparison::Failed(failure));
            }
        };

        let (store, name, first) = (self.store.clone(), instance.to_owned(), Arc::clone(first));
        let comparing = spawn_blocking(move || {
            let profile = Profile::decode(&content, kind).map_err(malformed)?;
            if profile.allocated < first.allocated {
                return Err(failed(
                    Cause::Other,
                    "the operator restarted between the two profiles",
                ));
            }

            let stacks = profile.growth_since(&first);

            // A heap profile shows the last garbage collection. Without one since the first
            // profile, both are equal.
            let is_clear = stacks
                .first()
                .is_some_and(|most| kind != ProfileKind::Heap || most.growth >= CLEAR_GROWTH);
            if !is_clear && !is_last {
                return Ok(Compared::Unclear);
            }

            let waiting = match kind {
                ProfileKind::Heap => Vec::new(),
                ProfileKind::Goroutines => profile.waiting_since(&first),
            };

            Ok(Compared::Clear { stacks, waiting, file: keep(&store, kind, &name, at, &content) })
        });

        comparing.await.map_err(|panic| failed(Cause::Other, &panic.to_string()))?
    }

    /// The addresses in this Pod at which an instance may serve pprof.
    fn endpoints(&self, instance: &str) -> Result<Vec<Endpoint>, NoComparison> {
        if self.options.off {
            return Err(NoComparison::NoPprof(OFF.to_owned()));
        }

        if let Some(url) = &self.options.url {
            let endpoints = url.endpoints();
            return match endpoints.iter().all(|endpoint| is_own_address(endpoint.address.ip())) {
                true => Ok(endpoints),
                false => Err(NoComparison::NoPprof(format!(
                    "loopwatch takes profiles only from loopback and its own Pod, and {url} is elsewhere"
                ))),
            };
        }

        let found = read_lock(&self.metrics).get(instance).copied();

        // An instance without a known Pod is named by the address of its metrics.
        let metrics = found.or_else(|| instance.parse().ok());
        let on_node = self.own.as_ref().is_some_and(|own| own.host_network);
        let is_here = || self.own.as_ref().is_some_and(|own| own.instance() == instance);

        match metrics {
            // The other ports may belong to any program of the node.
            Some(metrics) if is_own_address(metrics.ip()) && on_node => Ok(vec![beside(metrics)]),
            Some(metrics) if is_own_address(metrics.ip()) => Ok(usual(Some(metrics))),
            None if !on_node && is_here() => Ok(usual(None)),
            None if is_here() => Err(NoComparison::NoPprof(
                "the operator's Pod uses the network of its node, where any program may listen on the usual ports of pprof; set --pprof"
                    .to_owned(),
            )),
            _ => Err(NoComparison::NoPprof(
                "loopwatch takes profiles only from its own Pod, and the operator runs in another one; forward the port of its \
                 pprof, and set --pprof"
                    .to_owned(),
            )),
        }
    }

    /// Takes a profile from the first endpoint that serves one.
    async fn find(
        &self,
        endpoints: Vec<Endpoint>,
        kind: ProfileKind,
    ) -> Result<(Endpoint, Vec<u8>), NoComparison> {
        let (mut without, mut silent) = (None, None);
        for endpoint in endpoints {
            match fetch(&endpoint, kind).await {
                Fetched::Profile(content) => return Ok((endpoint, content)),
                Fetched::Broken(failure) => return Err(NoComparison::Failed(failure)),
                Fetched::NoPprof(reason) => without = Some(reason),
                // Any program may refuse an unknown path, or use such a port for a protocol other
                // than HTTP. But a program that does not answer in time may be an operator without
                // CPU time.
                Fetched::Silent(failure)
                    if self.options.url.is_some() || failure.cause == Cause::Timeout =>
                {
                    silent = silent.or(Some(failure));
                }
                Fetched::Silent(_) => {}
            }
        }

        match (&self.options.url, without, silent) {
            (Some(url), Some(reason), _) => Err(NoComparison::NoPprof(format!(
                "the operator serves no pprof at {url}: {reason}"
            ))),
            (_, _, Some(failure)) => Err(NoComparison::Failed(failure)),
            _ => Err(NoComparison::NoPprof(format!(
                "the operator serves no pprof on the ports {:?} and that of its metrics; if it is elsewhere, set --pprof",
                endpoint::PORTS
            ))),
        }
    }
}

/// Compares two profiles, for the fuzz targets. Returns the stacks that have grown, and those that
/// still wait in a reconcile.
///
/// # Errors
/// If one of them cannot be read.
pub fn compare_profiles(
    earlier: &[u8],
    later: &[u8],
    kind: ProfileKind,
) -> Result<(Vec<GrowingStack>, Vec<WaitingStack>), String> {
    let decode = |content| Profile::decode(content, kind).map_err(|error| error.to_string());
    let (earlier, later) = (decode(earlier)?.summary(), decode(later)?);

    Ok((later.growth_since(&earlier), later.waiting_since(&earlier)))
}

/// Keeps a profile, and returns the name of its file; empty on failure.
fn keep(
    store: &ProfileStore,
    kind: ProfileKind,
    instance: &str,
    at: Timestamp,
    content: &[u8],
) -> String {
    store.keep(kind, instance, at, content).map(Option::unwrap_or_default).unwrap_or_else(|error| {
        warn!(dir = ?store.dir(), %error, "cannot keep a profile");
        String::new()
    })
}

fn failed(cause: Cause, detail: &str) -> NoComparison {
    NoComparison::Failed(Failure::new(cause, detail))
}

fn malformed(error: Malformed) -> NoComparison {
    failed(error.cause(), &format!("the profile is unreadable: {error}"))
}
