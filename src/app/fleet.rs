//! All operators of a cluster in one process: a census finds them, and each gets a model of its own, with
//! its own sources over one connection.
//!
//! ```text
//!  census ─▶ Follower ─┬─▶ Core of operator A: feed, model, sources ─┐
//!     │                └─▶ Core of operator B …                     ─┼─▶ one port
//!     └─ failures ─────────▶ Core of loopwatch itself ───────────────┘
//! ```

mod member; // one operator

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::observation::Cause;
use loopwatch_model::settings::Settings;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::member::Member;
use super::memory;
use super::rebuild::{Connection, connected};
use crate::config::Flags;
use crate::export::server::{Exporter, Fleet};
use crate::export::view::SkippedOperator;
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::{
    ApiKind, ApiResources, Claims, Cluster, Discovery, Grants, Observed, OperatorName, Scout,
    SecretAccess,
};
use crate::sources::census::{Census, Found, FoundOperator, NotJudged, Skipped};
use crate::sources::feed::{Closed, Feed};
use crate::sources::supervisor::panic_message;

/// Follows the operators of a cluster.
#[derive(Clone)]
pub(super) struct Follower {
    /// How to connect, and the options of the sources.
    pub(super) connection: Connection,
    pub(super) flags: Arc<Flags>,
    /// The thresholds in effect.
    pub(super) settings: watch::Receiver<Settings>,
    /// The exporter of loopwatch itself.
    pub(super) exporter: Arc<Exporter>,
    pub(super) fleet: Arc<Fleet>,
    /// What the models of operators knew when they stopped.
    pub(super) checkpoints: Arc<Mutex<BTreeMap<OperatorName, Checkpoint>>>,
}

/// The state of the task.
struct Running {
    follower: Follower,
    cluster: Cluster,
    census: Census,
    claims: Claims,
    grants: watch::Sender<Arc<Grants>>,
    /// The operators that loopwatch judges now.
    members: BTreeMap<OperatorName, Member>,
    /// Their tasks.
    tasks: JoinSet<()>,
    /// For each workload that may write every kind, what has been seen of it.
    scouts: BTreeMap<OperatorName, Scouted>,
    /// Since when an operator that loopwatch judges is no longer among those of the census.
    gone: BTreeMap<OperatorName, Instant>,
    /// What the last census has found.
    found: Found,
    /// The objects without room in the census, as last reported.
    left_out: u64,
    /// Whether the last look has failed.
    has_failed: bool,
    stop: CancellationToken,
}

/// What has been seen of a workload that may write every kind.
struct Scouted {
    scout: Scout,
    /// When to look again.
    due: Instant,
    /// The kinds that show its signs.
    kinds: Vec<(String, String)>,
}

/// Limit on operators. Each has a model of about half a MiB.
const MAX_OPERATORS: usize = 200;

/// How long changes gather before the next look at the census: an installation makes dozens.
const GATHER: Duration = Duration::from_secs(1);

/// How long loopwatch goes on to judge an operator that the census no longer shows. Somebody may have
/// deleted it by mistake, or may replace it.
const KEEP_FOR: Duration = Duration::from_secs(600);

/// The time between two searches for signs of a workload that may write every kind.
const SCOUT_EVERY: Duration = Duration::from_secs(300);

/// The longest time between two looks at the census.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Time for all models to stop: they save what they know, and send what is left.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(15);

impl Follower {
    /// Follows the operators until `stop` is cancelled, or until the census ends, which is a bug. Returns
    /// why it ended.
    pub(super) async fn follow(self, feed: Feed, stop: CancellationToken) -> String {
        let stopped = "it was stopped".to_owned();
        let connecting = connected(&self.connection, &feed);
        let Some(Some(cluster)) = stop.run_until_cancelled(connecting).await else {
            return stopped;
        };

        let mut running = Running {
            follower: self,
            census: Census::default(),
            claims: Claims::default(),
            grants: watch::Sender::new(Arc::default()),
            members: BTreeMap::new(),
            tasks: JoinSet::new(),
            scouts: BTreeMap::new(),
            gone: BTreeMap::new(),
            found: Found::default(),
            left_out: 0,
            has_failed: false,
            stop: stop.child_token(),
            cluster: cluster.clone(),
        };
        let census = running.census.clone();
        let reason = tokio::select! {
            () = stop.cancelled() => stopped,
            () = census.follow(&cluster, &feed) => "the census ended".to_owned(),
            () = running.run(&feed) => stopped,
        };

        running.stop_all().await;
        reason
    }
}

impl Running {
    /// Starts and stops models as the census changes, until the feed is closed.
    async fn run(&mut self, feed: &Feed) {
        let mut look_at = Instant::now() + LOOK_EVERY;
        loop {
            tokio::select! {
                () = self.census.changed() => {
                    tokio::time::sleep(GATHER).await;
                    look_at = Instant::now();
                }
                () = sleep_until(look_at) => {}
                Ok(()) = self.follower.settings.changed() => self.share_limits().await,
                Some(_) = self.tasks.join_next() => self.forget_ended(),
            }

            if look_at > Instant::now() {
                continue;
            }
            if self.census.is_complete() && self.look_and_report(feed).await.is_err() {
                return;
            }
            look_at = Instant::now() + LOOK_EVERY;
        }
    }

    /// Looks at the census, and reports whether that works.
    async fn look_and_report(&mut self, feed: &Feed) -> Result<(), Closed> {
        match self.look().await {
            Ok(()) if std::mem::take(&mut self.has_failed) && !self.census.is_failing() => {
                feed.recovered(Discovery::SOURCE).await
            }
            Ok(()) => Ok(()),
            Err(failure) => {
                self.has_failed = true;
                feed.failed(Discovery::SOURCE, &failure).await
            }
        }
    }

    /// Finds the operators of the cluster, and starts and stops models accordingly.
    async fn look(&mut self) -> Result<(), Failure> {
        let served = self.census.shared().api_resources(&self.cluster).await?;
        let (grants, mut found) = self.count(&served).await?;
        self.scout(&mut found, &served).await;
        self.keep_those_that_are_gone(&mut found);

        self.claims.set(found.claims.clone());
        if **self.grants.borrow() != grants {
            self.census.shared().forget_own().await;
            self.grants.send_replace(Arc::new(grants));
        }

        let left_out = self.census.left_out();
        if left_out > self.left_out.saturating_mul(2) {
            warn!(
                left_out,
                "the cluster has too many workloads, roles or bindings; some operators may be missing"
            );
            self.left_out = left_out;
        }

        self.stop_others(&found).await;
        self.start_new(&mut found).await;
        self.publish(&found, &served);
        self.found = found;
        Ok(())
    }

    /// Finds the operators, on another thread: thousands of roles and bindings take milliseconds.
    async fn count(&self, served: &Arc<ApiResources>) -> Result<(Grants, Found), Failure> {
        let (census, served) = (self.census.clone(), Arc::clone(served));
        let counting = spawn_blocking(move || {
            let grants = census.grants();
            let found = census.find_operators(&grants, &served);
            (grants, found)
        });
        counting.await.map_err(|panic| Failure::new(Cause::Other, panic_message(panic)))
    }

    /// Looks which of the kinds that nobody claims show signs of workloads that may write all of them.
    async fn scout(&mut self, found: &mut Found, served: &ApiResources) {
        let candidates = std::mem::take(&mut found.unrestricted);
        let by_name = found.claims.clone();
        let unclaimed: Vec<&ApiKind> = unclaimed(&by_name, served).collect();
        self.scouts.retain(|name, _| candidates.iter().any(|it| it.name == *name));
        for operator in candidates {
            let seen = self.scouts.entry(operator.name.clone()).or_insert_with(|| Scouted {
                scout: Scout::default(),
                due: Instant::now(),
                kinds: Vec::new(),
            });
            if seen.due <= Instant::now() {
                let cluster = self.cluster.observing(&operator.name, Vec::new());
                let key = &self.follower.connection.options.discovery.hash_key;
                let account = operator.account.1.as_str();
                match seen.scout.look(&cluster, account, key, &unclaimed).await {
                    Ok(kinds) => seen.kinds = kinds,
                    Err(error) => debug!(operator = %operator.name, %error, "cannot look for signs"),
                }
                seen.due = Instant::now() + SCOUT_EVERY;
            }

            match seen.kinds.is_empty() {
                true => found.skip(operator.name, NotJudged::MayWriteAll),
                false => found.add(operator, seen.kinds.clone()),
            }
        }
    }

    /// Adds the operators that have just gone, with their claims.
    fn keep_those_that_are_gone(&mut self, found: &mut Found) {
        let now = Instant::now();
        self.gone.retain(|name, _| self.found.operators.iter().any(|it| it.name == *name));
        for operator in &self.found.operators {
            let is_there = found.operators.iter().any(|it| it.name == operator.name)
                || found.skipped.iter().any(|it| it.name == operator.name);
            if is_there || !self.members.contains_key(&operator.name) {
                self.gone.remove(&operator.name);
                continue;
            }

            let since = *self.gone.entry(operator.name.clone()).or_insert(now);
            if now.duration_since(since) < KEEP_FOR {
                found.keep(operator, &self.found);
            }
        }
    }

    /// Stops the models of operators that loopwatch no longer judges, or whose account has changed.
    async fn stop_others(&mut self, found: &Found) {
        let others = self.members.iter().filter(|(name, member)| {
            !found.operators.iter().any(|it| it.name == **name && member.is_of(it))
        });
        let others: Vec<OperatorName> = others.map(|(name, _)| name.clone()).collect();
        if others.is_empty() {
            return;
        }

        for name in others {
            let Some(member) = self.members.remove(&name) else { continue };
            info!(operator = %name, "no longer watching this operator");
            self.follower.fleet.remove(&name.to_string());

            // Its account may have changed: then the next model begins with what this one knows.
            let checkpoint = member.stop().await;
            if found.operators.iter().any(|it| it.name == name) {
                lock(&self.follower.checkpoints).extend(checkpoint.map(|it| (name, it)));
            }
        }

        self.share_limits().await;
    }

    /// Starts models for new operators, as far as there is room.
    async fn start_new(&mut self, found: &mut Found) {
        let is_new = |it: &FoundOperator| !self.members.contains_key(&it.name);
        let mut new: Vec<FoundOperator> =
            found.operators.iter().filter(|it| is_new(it)).cloned().collect();
        let room = MAX_OPERATORS.saturating_sub(self.members.len());
        for operator in new.drain(room.min(new.len())..) {
            found.skip(operator.name, NotJudged::TooMany);
        }
        if new.is_empty() {
            return;
        }

        for operator in new {
            info!(operator = %operator.name, account = operator.account.1, "watching this operator");
            self.start(&operator);
        }

        self.share_limits().await;
    }

    fn start(&mut self, operator: &FoundOperator) {
        let observed = Observed {
            operator: operator.name.to_string(),
            account: operator.account.clone(),
            grants: self.grants.subscribe(),
            claims: self.claims.clone(),
            shared: Arc::clone(self.census.shared()),
        };
        let mut options = self.follower.connection.options.clone();
        options.discovery.observed = Some(observed);

        // The account of loopwatch has no permission to read them, and should not.
        options.discovery.secrets = SecretAccess::Off;
        options.scrape.standalone = true;

        let cluster = self.cluster.observing(&operator.name, operator.watched_namespaces.clone());
        let settings = self.shared_settings(self.members.len() + 1);
        let (member, task) =
            Member::start(&self.follower, operator, cluster, options, settings, &self.stop);
        self.follower.fleet.add(&operator.name.to_string(), member.exporter());
        self.members.insert(operator.name.clone(), member);

        self.tasks.spawn(task);
    }

    /// Forgets the operators whose task has ended without being stopped, which is a bug. Their models start
    /// again at the next look.
    fn forget_ended(&mut self) {
        let ended = self.members.iter().filter(|(_, member)| member.has_ended());
        let ended: Vec<OperatorName> = ended.map(|(name, _)| name.clone()).collect();
        for name in ended {
            warn!(operator = %name, "a bug in loopwatch stopped the model of this operator; starting it again");
            self.follower.fleet.remove(&name.to_string());
            let checkpoint = self.members.remove(&name).and_then(|member| member.checkpoint());
            lock(&self.follower.checkpoints).extend(checkpoint.map(|it| (name, it)));
        }
    }

    /// The thresholds, with this operator's share of the limit on objects.
    fn shared_settings(&self, operators: usize) -> Settings {
        memory::shared(self.follower.settings.borrow().clone(), operators)
    }

    /// Tells all models the thresholds in effect.
    async fn share_limits(&mut self) {
        let settings = self.shared_settings(self.members.len());
        for member in self.members.values_mut() {
            member.change_settings(&settings).await;
        }
    }

    /// Shows what loopwatch does not judge.
    fn publish(&self, found: &Found, served: &ApiResources) {
        let skipped = found.skipped.iter().map(|Skipped { name, why }| SkippedOperator {
            name: name.to_string(),
            why: why.in_words(),
        });
        let unclaimed = unclaimed(&found.claims, served).map(|kind| kind.to_string()).collect();
        self.follower.fleet.set_rest(skipped.collect(), unclaimed);
    }

    /// Stops all models, and waits for their checkpoints and for what they still have to send.
    async fn stop_all(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP_WITHIN, ended).await.is_err() {
            warn!("some models have not stopped in time");
        }

        let mut checkpoints = lock(&self.follower.checkpoints);
        for (name, member) in &self.members {
            self.follower.fleet.remove(&name.to_string());
            checkpoints.extend(member.checkpoint().map(|checkpoint| (name.clone(), checkpoint)));
        }
    }
}

/// The custom resources that no operator claims.
fn unclaimed<'a>(
    claims: &'a BTreeMap<(String, String), BTreeSet<String>>,
    served: &'a ApiResources,
) -> impl Iterator<Item = &'a ApiKind> {
    served.kinds().filter(|kind| {
        let name = (kind.group.clone(), kind.resource.clone());
        kind.watchable && !kind.is_built_in() && !claims.contains_key(&name)
    })
}
