//! All operators of a cluster in one process: a census finds them, and each gets a model of its own, with
//! its own sources over one connection.
//!
//! ```text
//!  census ─▶ Follower ─┬─▶ Core of operator A: feed, model, sources ─┐
//!     │                └─▶ Core of operator B …                     ─┼─▶ one port
//!     └─ failures ─────────▶ Core of loopwatch itself ───────────────┘
//! ```

mod member; // one operator
mod places; // which operators have a place
mod remembered; // those of an earlier process
mod settlement; // who owns which kind
mod thresholds; // the share of one operator, and what may page

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::observation::{Cause, LeftOut, Observation, PermissionsView};
use loopwatch_model::settings::Settings;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::member::{Ending, Member};
use self::places::{Judged, choose};
use self::remembered::Remembered;
pub(super) use self::remembered::RememberedOperators;
use self::settlement::{OwnedKinds, Settlement};
use super::DRAIN;
use super::rebuild::{Channels, Connection, Sources, connected};
use crate::config::Flags;
use crate::export::server::{Exporter, Fleet};
use crate::export::view::SkippedOperator;
use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::{
    ApiKind, ApiResources, Cluster, Discovery, Grants, Observed, OperatorName, Owners, Reach,
    SecretAccess, WantedNamespaces,
};
use crate::sources::census::{Census, Found, NotJudged, Skipped};
use crate::sources::feed::{Closed, Feed};
use crate::sources::operator::ScrapeTurns;
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
    /// The operators that were judged when they stopped.
    pub(super) remembered: RememberedOperators,
}

/// The state of the task.
struct Running {
    follower: Follower,
    cluster: Cluster,
    census: Census,
    owners: Owners,
    /// The permissions of all accounts at the last look.
    grants: Arc<Grants>,
    settlement: Settlement,
    /// The operators that loopwatch judges now.
    members: BTreeMap<OperatorName, Member>,
    /// Their tasks.
    tasks: JoinSet<()>,
    /// The operators with a place, at the last look.
    judged: Vec<Judged>,
    /// Since when an operator that loopwatch judges is no longer among those of the census.
    gone: BTreeMap<OperatorName, Instant>,
    /// The objects without room in the census, and the operators without a place, as last reported.
    left_out: (u64, usize),
    /// Whether the last look has failed.
    has_failed: bool,
    turns: Turns,
    stop: CancellationToken,
}

/// The turns of scrapes. Operators that own kinds only in single namespaces may be tenants', and their slow
/// Pods must not hold up the scrapes of the others.
struct Turns {
    wide: ScrapeTurns,
    narrow: ScrapeTurns,
}

/// Scrapes at the same time: of operators that own a kind in the whole cluster, and of others. Each takes up to
/// 2.4 MiB.
const SCRAPES_AT_ONCE: (usize, usize) = (12, 4);

/// How long changes gather before the next look at the census: an installation makes dozens.
const GATHER: Duration = Duration::from_secs(1);

/// How long loopwatch goes on to judge an operator without objects that the census no longer shows.
/// Somebody may replace it.
const KEEP_FOR: Duration = Duration::from_secs(600);

/// The longest time between two looks at the census.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Time for all models to stop: they save what they know, and send what is left.
const STOP_WITHIN: Duration = Duration::from_secs(20);

impl Sources for Follower {
    fn start(&self, channels: Channels, stop: CancellationToken) -> JoinHandle<String> {
        tokio::spawn(self.clone().follow(channels.feed, stop))
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn stops_within(&self) -> Duration {
        STOP_WITHIN + DRAIN
    }
}

impl Follower {
    /// Follows the operators until `stop` is cancelled, or until the census ends, which is a bug. Returns
    /// why it ended.
    async fn follow(self, feed: Feed, stop: CancellationToken) -> String {
        let stopped = "it was stopped".to_owned();
        let connecting = connected(&self.connection, &feed);
        let Some(Some(cluster)) = stop.run_until_cancelled(connecting).await else {
            return stopped;
        };

        let remembered = self.remembered.of_cluster(cluster.url()).into_iter().map(|it| it.judged);
        let mut running = Running {
            judged: remembered.collect(),
            follower: self,
            census: Census::default(),
            owners: Owners::default(),
            grants: Arc::default(),
            settlement: Settlement::default(),
            members: BTreeMap::new(),
            tasks: JoinSet::new(),
            gone: BTreeMap::new(),
            left_out: (0, 0),
            has_failed: false,
            turns: Turns {
                wide: ScrapeTurns::of(SCRAPES_AT_ONCE.0),
                narrow: ScrapeTurns::of(SCRAPES_AT_ONCE.1),
            },
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

    /// Stops models at the same time, and keeps what they know.
    async fn stop_together(&self, models: Vec<(OperatorName, Member, Ending)>) {
        let stopping = models.into_iter().map(|(name, member, ending)| {
            self.fleet.remove(&name.to_string());
            async move { (name, member.stop(ending).await) }
        });

        let stopped = join_all(stopping).await.into_iter();
        let known = stopped.filter_map(|(name, checkpoint)| Some((name, checkpoint?)));
        lock(&self.checkpoints).extend(known);
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
        match self.look(feed).await {
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
    async fn look(&mut self, feed: &Feed) -> Result<(), Failure> {
        let served = self.census.shared().api_resources(&self.cluster).await?;
        let (grants, mut found) = self.count(&served).await?;
        let key = self.follower.connection.options.discovery.hash_key;
        let mut owned = self.settlement.settle(&found, &served, &self.cluster, &key).await;

        let kept = self.keep_those_that_are_gone(&found, &mut owned, &served);
        let most = thresholds::places(&self.follower.settings.borrow());
        let (judged, without_place) = choose(&mut found, kept, &owned, &self.known(), most);
        self.owners.set(owned.clone());
        if *self.grants != grants {
            self.census.shared().forget_own().await;
            self.grants = Arc::new(grants);
        }

        self.stop_others(&judged, &found).await;
        self.judged = judged;
        self.start_new();
        self.share_limits().await;
        self.send_grants();
        self.publish(&found, &owned, &served);
        self.remember().await;
        self.report_left_out(without_place + found.crowd, feed).await;
        Ok(())
    }

    /// Finds the operators, on another thread: thousands of roles and bindings take milliseconds.
    async fn count(&self, served: &Arc<ApiResources>) -> Result<(Grants, Found), Failure> {
        let (census, served, wanted) = (self.census.clone(), Arc::clone(served), self.wanted());
        let known = self.known();
        let counting = spawn_blocking(move || {
            let grants = census.grants();
            let found = census.find_operators(&grants, &served, &wanted, &known);
            (grants, found)
        });
        counting.await.map_err(|panic| Failure::new(Cause::Other, panic_message(panic)))
    }

    /// The operators that loopwatch judges already, or that an earlier process has judged.
    fn known(&self) -> BTreeSet<OperatorName> {
        self.judged.iter().map(|it| it.operator.name.clone()).collect()
    }

    fn wanted(&self) -> WantedNamespaces {
        self.follower.connection.options.discovery.wanted_namespaces()
    }

    /// Returns the operators that the census no longer shows, although nobody else owns their kinds: while
    /// these have objects, somebody may have deleted the operator by mistake. Adds what they own.
    fn keep_those_that_are_gone(
        &mut self,
        found: &Found,
        owned: &mut OwnedKinds,
        served: &ApiResources,
    ) -> Vec<Judged> {
        let (there, wanted) = (found.names(), self.wanted());
        let gone = self.judged.iter().filter(|it| !there.contains(&it.operator.name));
        let gone: Vec<Judged> = gone.cloned().collect();
        self.gone.retain(|name, _| gone.iter().any(|it| it.operator.name == *name));

        let mut kept = Vec::new();
        for operator in gone {
            let name = &operator.operator.name;
            let left = operator.owned.iter().filter(|(kind, owner)| {
                let others = owned.get(kind).map(Vec::as_slice).unwrap_or_default();
                served.get(&kind.0, &kind.1).is_some()
                    && is_wanted(&owner.reach, &wanted)
                    && !others.iter().any(|other| other.reach.covers(&owner.reach))
            });
            let left: Vec<_> = left.cloned().collect();

            let since = *self.gone.entry(name.clone()).or_insert_with(Instant::now);
            let has_objects = || self.members.get(name).is_some_and(Member::has_objects);
            if !left.is_empty() && (since.elapsed() < KEEP_FOR || has_objects()) {
                for (kind, owner) in &left {
                    owned.entry(kind.clone()).or_default().push(owner.clone());
                }
                kept.push(Judged { owned: left, is_gone: true, ..operator });
            }
        }

        kept
    }

    /// Stops the models of operators that loopwatch no longer judges, or whose account has changed.
    async fn stop_others(&mut self, judged: &[Judged], found: &Found) {
        let others = self.members.iter().filter(|(name, member)| {
            !judged.iter().any(|it| it.operator.name == **name && member.is_of(&it.operator))
        });
        let others: Vec<OperatorName> = others.map(|(name, _)| name.clone()).collect();
        if others.is_empty() {
            return;
        }

        let there = found.names();
        let mut stopping = Vec::new();
        for name in others {
            let Some(member) = self.members.remove(&name) else { continue };

            // Its account may have changed, or it may get its place back: then the next model begins with
            // what this one knows.
            let ending = match judged.iter().any(|it| it.operator.name == name) {
                true => Ending::Replaced,
                false if there.contains(&name) => Ending::NotJudged,
                false => Ending::Gone,
            };
            info!(operator = %name, ?ending, "no longer watching this operator");
            stopping.push((name, member, ending));
        }

        self.follower.stop_together(stopping).await;
    }

    fn start_new(&mut self) {
        let new = self.judged.iter().filter(|it| !self.members.contains_key(&it.operator.name));
        for judged in new.cloned().collect::<Vec<_>>() {
            let Judged { operator, is_gone, .. } = &judged;
            info!(operator = %operator.name, account = operator.account.1, is_gone, "watching this operator");
            let grants = match is_gone {
                true => self.follower.remembered.grants(operator),
                false => None,
            };
            self.start(&judged, grants.unwrap_or_else(|| Arc::clone(&self.grants)));
        }
    }

    /// Tells the models the permissions of all accounts. Those of operators that are gone stay as they
    /// were: their roles are gone, too.
    fn send_grants(&self) {
        for operator in self.judged.iter().filter(|it| !it.is_gone) {
            if let Some(member) = self.members.get(&operator.operator.name) {
                member.change_grants(&self.grants);
            }
        }
    }

    fn start(&mut self, judged: &Judged, grants: Arc<Grants>) {
        let operator = &judged.operator;
        let grants = watch::Sender::new(grants);
        let observed = Observed {
            operator: operator.name.to_string(),
            account: operator.account.clone(),
            grants: grants.subscribe(),
            owners: self.owners.clone(),
            shared: Arc::clone(self.census.shared()),
        };
        let mut options = self.follower.connection.options.clone();
        options.discovery.observed = Some(observed);

        // The account of loopwatch has no permission to read them, and should not.
        options.discovery.secrets = SecretAccess::Off;
        options.scrape.standalone = true;
        options.scrape.turns = self.turns.of(judged).of_operator();

        let cluster = self.cluster.observing(&operator.name, operator.watched_namespaces.clone());
        let settings = self.settings_of(judged);
        let (member, task) = Member::start(
            &self.follower,
            operator,
            (cluster, options),
            grants,
            settings,
            &self.stop,
        );
        self.follower.fleet.add(&operator.name.to_string(), member.exporter());
        self.members.insert(operator.name.clone(), member);

        self.tasks.spawn(task);
    }

    /// Has the next process know the operators that this one judges.
    async fn remember(&self) {
        let operators = self.judged.iter().filter_map(|judged| {
            let grants = self.members.get(&judged.operator.name)?.grants();
            let rules = grants.of_account(&judged.operator.account, &judged.namespaces());
            Some(Remembered { judged: judged.clone(), rules })
        });
        self.follower.remembered.set(operators.collect()).await;
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

    /// The thresholds of one operator.
    fn settings_of(&self, judged: &Judged) -> Settings {
        let wide = self.judged.iter().filter(|it| it.is_wide()).count();
        thresholds::of_one(self.follower.settings.borrow().clone(), wide, judged.is_wide())
    }

    /// Tells all models the thresholds in effect, and with whom they share the turns of scrapes.
    async fn share_limits(&self) {
        for judged in &self.judged {
            if let Some(member) = self.members.get(&judged.operator.name) {
                member.change_turns(self.turns.of(judged));
                member.change_settings(&self.settings_of(judged)).await;
            }
        }
    }

    /// Shows what loopwatch does not judge.
    fn publish(&self, found: &Found, owned: &OwnedKinds, served: &ApiResources) {
        let skipped = found.skipped.iter().map(|Skipped { name, why }| SkippedOperator {
            name: name.to_string(),
            why: why.in_words(),
        });
        let is_unclaimed = |kind: &&ApiKind| {
            kind.watchable && !kind.is_built_in() && !owned.contains_key(&kind.id())
        };
        let unclaimed = served.kinds().filter(is_unclaimed).map(|kind| kind.to_string()).collect();
        self.follower.fleet.set_rest(skipped.collect(), unclaimed);
    }

    /// Reports what had no room: in the census, and among the operators.
    async fn report_left_out(&mut self, without_place: usize, feed: &Feed) {
        let left_out = (self.census.left_out() + self.grants.left_out(), without_place);
        if left_out == self.left_out {
            return;
        }

        self.left_out = left_out;
        let (objects, operators) = left_out;
        let all = [
            (
                objects,
                "workloads, roles or bindings",
                "the search for operators has no room for them",
            ),
            (operators as u64, "operators", NotJudged::TooMany.in_words()),
        ];
        let parts = all.into_iter().filter(|(count, ..)| *count > 0);
        let parts = parts.map(|(count, what, why)| LeftOut {
            what: format!("{count} {what}"),
            why: why.to_owned(),
        });
        let left_out: Vec<LeftOut> = parts.collect();
        if !left_out.is_empty() {
            warn!(
                objects,
                operators, "some operators may be missing: there is no room for everything"
            );
        }

        let view = PermissionsView { left_out, ..PermissionsView::default() };
        let _ = feed.send(Observation::PermissionsReviewed(view)).await; // closed at the end
    }

    /// Stops all models, and keeps what they know.
    async fn stop_all(self) {
        self.stop.cancel();
        let all = self.members.into_iter().map(|(name, member)| (name, member, Ending::Replaced));
        self.follower.stop_together(all.collect()).await;
    }
}

impl Turns {
    fn of(&self, judged: &Judged) -> &ScrapeTurns {
        if judged.is_wide() { &self.wide } else { &self.narrow }
    }
}

/// Whether the user wants a part of the namespaces.
fn is_wanted(reach: &Reach, wanted: &WantedNamespaces) -> bool {
    match reach {
        Reach::Everywhere => true,
        Reach::In(namespaces) => namespaces.iter().any(|namespace| wanted.allows(namespace)),
    }
}
