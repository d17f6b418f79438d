//! The census: which operators a cluster runs. It watches the workloads of the cluster, and the roles
//! and bindings of their accounts.
//!
//! ```text
//!  Deployments, StatefulSets, DaemonSets, CronJobs ─┐
//!  roles and bindings ── Grants ────────────────────┼─▶ operators ─▶ one model for each (app/fleet)
//!  kinds that the API server serves ────────────────┘
//! ```
//!
//! An account that may write the status of a custom resource, by a rule that names its group, is that
//! of an operator. Neither names nor images decide.

mod table; // the objects of one kind, kept by a watch
mod workloads; // the fields of workloads and Pods that matter
mod roles; // what the account of a workload may do
mod operators; // which workloads are operators
pub(crate) mod fuzzing; // what the fuzz targets call

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) use self::operators::{Claim, Found, FoundOperator, NotJudged, Skipped, Strength};
use self::roles::Roles;
use self::table::{Name, Record, Table, TableSink};
use self::workloads::{ScrapedPod, Workload};
use crate::lock::lock;
use crate::sources::api_server::{
    Cluster, DefinitionSink, Definitions, Grants, Shared, SharedWatchState, SyncReporter,
    WatchSink, WatchTarget, Watcher, collection,
};
use crate::sources::feed::Feed;

/// The objects that decide which operators a cluster runs. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    deployments: Table<Workload>,
    stateful_sets: Table<Workload>,
    daemon_sets: Table<Workload>,
    cron_jobs: Table<Workload>,
    /// The Pods that a loopwatch of their own serves.
    scraped_pods: Table<ScrapedPod>,
    roles: Roles,
    /// What the discoveries of all operators share.
    shared: Arc<Shared>,
    /// Notified when any of the objects changes.
    changed: Arc<Notify>,
    /// The watches that fail now.
    failing: Arc<Mutex<BTreeSet<&'static str>>>,
    /// Those that have neither listed everything nor failed yet.
    unlisted: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// The running watches of a census.
struct Watches<'a> {
    cluster: &'a Cluster,
    feed: &'a Feed,
    shared: Arc<SharedWatchState>,
    tasks: JoinSet<()>,
}

/// The label of Pods whose loopwatch container a monitor scrapes: `deploy/components/sidecar` and
/// `deploy/injection` set it.
const SCRAPED: &str = "loopwatch/scrape=true";

const APPS: &str = "apps";
const RBAC: &str = "rbac.authorization.k8s.io";

impl Census {
    /// Follows all objects until the feed is closed or a task panics. Failures go to `feed`.
    pub(crate) async fn follow(&self, cluster: &Cluster, feed: &Feed) {
        let shared = Arc::new(self.shared.watches.for_another_model());
        let tasks = JoinSet::new();
        let mut watches = Watches { cluster, feed, shared, tasks };

        let Shared { definitions, definition_news, .. } = &*self.shared;
        let sink = DefinitionSink::shared(definitions.clone(), definition_news.clone());
        watches.start(Definitions::target(), sink);

        self.watch(&mut watches, APPS, "deployments", &self.deployments);
        self.watch(&mut watches, APPS, "statefulsets", &self.stateful_sets);
        self.watch(&mut watches, APPS, "daemonsets", &self.daemon_sets);
        self.watch(&mut watches, "batch", "cronjobs", &self.cron_jobs);
        self.watch(&mut watches, RBAC, "clusterroles", &self.roles.cluster_roles);
        self.watch(&mut watches, RBAC, "roles", &self.roles.roles);
        self.watch(&mut watches, RBAC, "clusterrolebindings", &self.roles.cluster_bindings);
        self.watch(&mut watches, RBAC, "rolebindings", &self.roles.bindings);

        let pods = WatchTarget {
            labels: SCRAPED.to_owned(),
            ..WatchTarget::new(collection("", "v1", "pods", None), true)
        };
        watches.start(pods, self.sink("pods", &self.scraped_pods));

        let _ = watches.tasks.join_next().await;
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        tokio::select! {
            () = self.changed.notified() => {}
            () = self.shared.definitions.changed.notified() => {
                self.shared.forget_api_resources().await;
            }
        }
    }

    /// Whether everything has been listed once, or cannot be: an account without the permission to list one
    /// kind still finds the operators that the others show.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.unlisted).is_empty()
    }

    /// Whether a watch fails now.
    pub(crate) fn is_failing(&self) -> bool {
        !lock(&self.failing).is_empty()
    }

    /// What the discoveries of all operators share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The number of objects for which there was no room.
    pub(crate) fn left_out(&self) -> u64 {
        let of_workloads: u64 = self.workloads().into_iter().map(Table::left_out).sum();
        of_workloads + self.scraped_pods.left_out() + self.roles.left_out()
    }

    /// The permissions of the accounts of all workloads.
    pub(crate) fn grants(&self) -> Grants {
        let mut accounts = BTreeSet::new();
        let mut see = |(namespace, _): &Name, workload: &Workload| {
            accounts.insert((namespace.clone(), workload.account.clone()));
        };
        self.workloads().into_iter().for_each(|table| table.each(&mut see));
        self.roles.grants(accounts)
    }

    fn workloads(&self) -> [&Table<Workload>; 4] {
        [&self.deployments, &self.stateful_sets, &self.daemon_sets, &self.cron_jobs]
    }

    fn watch<T: Record>(
        &self,
        watches: &mut Watches<'_>,
        group: &str,
        resource: &'static str,
        table: &Table<T>,
    ) {
        let target = WatchTarget::new(collection(group, "v1", resource, None), false);
        watches.start(target, self.sink(resource, table));
    }

    fn sink<T: Record>(&self, resource: &'static str, table: &Table<T>) -> TableSink<T> {
        lock(&self.unlisted).insert(resource);
        TableSink::new(resource, table.clone(), self)
    }
}

impl Watches<'_> {
    fn start<S: WatchSink + 'static>(&mut self, target: WatchTarget, sink: S) {
        let (cluster, feed, shared) =
            (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
        let silent = SyncReporter::silent();
        self.tasks.spawn(Watcher::new(cluster, target, sink, feed, shared, silent, false).run());
    }
}
