//! Follows the operator's workload and Pods.
//!
//! A sidecar knows its own Pod from the downward API, and the other Pods of the workload by the
//! owner of its Pod. Permissions decide how much it sees. It watches all Pods if the account may
//! list and watch Pods in its namespace. If the account may only get Pods, it reads its own Pod.
//! Otherwise it relies on its environment.

use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{
    Cause, MAX_OBJECT_BYTES, Observation, OperatorView, Permission, PodView, SourceId,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

mod containers;
mod document;
pub(crate) mod fuzzing;
mod ports;
mod quantity;
mod sink;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use self::document::PodSpec;
use self::document::{PodDocument, PodListDocument};
use self::sink::{ChosenPods, PodFilter, PodSink, SeenPods};
use self::workload::{REFUSED_FOR, WorkloadName, WorkloadReader};
use super::hints::{OperatorClue, TargetPod, TargetPods};
use crate::net::{Backoff, Failure, percent_encode};
use crate::sources::api_server::{
    Cluster, JSON, OperatorIdentity, OperatorName, SharedWatchState, SyncReporter, WatchTarget,
    Watcher, is_allowed,
};
use crate::sources::feed::{Closed, Feed};
use crate::system::own_pod::OwnPod;

/// What the source shares with the supervisor. Outlives a task that panics.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodsHandle {
    targets: watch::Sender<Vec<TargetPod>>,
    /// What other sources know about the operator's process.
    clues: watch::Sender<OperatorClue>,
    /// Notified when the account's permissions may have changed.
    pub(crate) review: Arc<Notify>,
    /// Notified when the reader has ended.
    pub(crate) done: Arc<Notify>,
}

/// Follows the operator's workload and Pods.
pub(crate) struct PodsReader {
    cluster: Cluster,
    identity: OperatorIdentity,
    feed: Feed,
    shared: Arc<SharedWatchState>,
    handle: PodsHandle,
    /// Whether to read once instead of watching.
    once: bool,
    /// Whether the source works, as last reported.
    is_up: Option<bool>,
    workload: WorkloadReader,
    /// The last view sent.
    sent: Option<OperatorView>,
    backoff: Backoff,
}

/// Interval between reads of loopwatch's own Pod.
const POLL_EVERY: Duration = Duration::from_secs(10);
/// The reason why the source is off if the Pod runs no operator.
const NO_OPERATOR: &str = "this Pod runs no operator: set --operator NAMESPACE/DEPLOYMENT";

/// The reason why the source is off if nothing names the operator, and loopwatch cannot read its
/// own Pod.
const UNNAMED: &str = "loopwatch does not know the operator: set POD_NAME and POD_NAMESPACE in its Pod as \
     deploy/components/sidecar does, or --operator NAMESPACE/DEPLOYMENT";

impl PodsHandle {
    /// The operator's current Pods.
    pub(crate) fn targets(&self) -> TargetPods {
        self.targets.subscribe()
    }

    /// What the sources know about the operator's process.
    pub(crate) fn clues(&self) -> watch::Sender<OperatorClue> {
        self.clues.clone()
    }

    fn set_targets(&self, targets: Vec<TargetPod>) {
        let containers = targets
            .iter()
            .find(|pod| pod.own)
            .map(|pod| pod.container_ids.clone())
            .unwrap_or_default();

        self.clues.send_if_modified(|clue| {
            let changed = clue.containers != containers;
            clue.containers = containers;
            changed
        });
        self.targets.send_if_modified(|old| {
            let changed = *old != targets;
            *old = targets;
            changed
        });
    }
}

impl PodsReader {
    pub(crate) fn new(
        cluster: Cluster,
        identity: OperatorIdentity,
        feed: Feed,
        shared: Arc<SharedWatchState>,
        handle: PodsHandle,
        once: bool,
    ) -> Self {
        let has_existed = matches!(identity, OperatorIdentity::Found(_));
        let workload = WorkloadReader::new(cluster.clone(), has_existed);
        let backoff = Backoff::new();
        Self {
            cluster,
            identity,
            feed,
            shared,
            handle,
            once,
            is_up: None,
            workload,
            sent: None,
            backoff,
        }
    }

    /// Follows the operator until the feed is closed.
    pub(crate) async fn run(mut self) {
        let _ = self.follow().await; // an error means that the program is ending
        self.handle.done.notify_one();
    }

    async fn follow(&mut self) -> Result<(), Closed> {
        loop {
            let round = match self.may_watch().await {
                Ok(true) => self.watch().await?,
                Ok(false) => self.poll().await?,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = round {
                self.is_up = Some(false);
                self.feed.failed(SourceId::Pods, &failure).await?;
                if self.sent.is_none() {
                    self.send_unread().await?;
                }

                if !self.once {
                    tokio::time::sleep(self.backoff.wait(failure.retry_after)).await;
                }
            }

            if self.once {
                return Ok(());
            }
        }
    }

    /// Watches all Pods of the workload until the account loses the permission or the selector
    /// changes.
    async fn watch(&mut self) -> Result<Result<(), Failure>, Closed> {
        if let Some(own) = self.own().cloned() {
            match self.list_own(&own).await {
                Ok(Some(pod)) if runs_operator(&pod, &own) => {
                    self.workload.set(WorkloadName::of_pod(&pod.metadata))
                }
                Ok(pod) => {
                    self.off(pod.map_or_else(|| no_such_pod(&own), |_| NO_OPERATOR.to_owned()))
                        .await?;
                    return self.review().await;
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }

        self.identify_by_name();
        self.workload.read_if_due(self.identity.namespace()).await;

        let (seen, changed) = (SeenPods::default(), Arc::new(Notify::new()));
        let labels = self.workload.labels().to_owned();
        let target =
            WatchTarget { labels: labels.clone(), ..WatchTarget::new(self.pods_path(), false) };
        let sink = PodSink::new(self.filter(), seen.clone(), Arc::clone(&changed));
        let (cluster, feed, shared) =
            (self.cluster.clone(), self.feed.clone(), Arc::clone(&self.shared));
        let watcher =
            Watcher::new(cluster, target, sink, feed, shared, SyncReporter::silent(), self.once);

        self.backoff.reset();
        self.is_up = None; // the watch itself reports whether it works
        tokio::select! {
            () = watcher.run() => self.send_pods(&seen, true).await.map(Ok),
            ended = self.follow_pods(&seen, &changed, &labels) => ended,
        }
    }

    /// Reports the Pods that a watch sees, and reads the workload when they change.
    async fn follow_pods(
        &mut self,
        seen: &SeenPods,
        changed: &Notify,
        labels: &str,
    ) -> Result<Result<(), Failure>, Closed> {
        let review = Arc::clone(&self.handle.review);
        loop {
            self.workload.read_if_due(self.identity.namespace()).await;
            if self.workload.labels() != labels {
                return Ok(Ok(()));
            }

            self.send_pods(seen, true).await?;
            tokio::select! {
                () = changed.notified() => {}
                () = sleep_until(self.workload.due) => {}
                () = review.notified() => match self.may_watch().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ok(())),
                    Err(failure) => return Ok(Err(failure)),
                },
            }
        }
    }

    /// Reads loopwatch's own Pod at intervals, until the account may watch Pods.
    async fn poll(&mut self) -> Result<Result<(), Failure>, Closed> {
        let (mut due, mut pod) = (Instant::now(), None);
        let review = Arc::clone(&self.handle.review);
        loop {
            if due <= Instant::now() {
                pod = match self.read_own().await? {
                    Ok(pod) => pod,
                    Err(failure) => return Ok(Err(failure)),
                };
                due = Instant::now() + if pod.is_some() { POLL_EVERY } else { REFUSED_FOR };
            }

            self.identify_by_name();
            self.workload.read_if_due(self.identity.namespace()).await;
            match &pod {
                Some(pods) => self.send_pods(pods, false).await?,
                None => self.send_unread().await?,
            }

            if self.once {
                return Ok(Ok(()));
            }

            tokio::select! {
                () = sleep_until(due.min(self.workload.due)) => {}
                () = review.notified() => match self.may_watch().await {
                    Ok(true) => return Ok(Ok(())),
                    Ok(false) if pod.is_none() => due = Instant::now(),
                    Ok(false) => {}
                    Err(failure) => return Ok(Err(failure)),
                },
            }
        }
    }

    /// Reads loopwatch's own Pod; `None` if the account may not read it or it runs no operator.
    async fn read_own(&mut self) -> Result<Result<Option<SeenPods>, Failure>, Closed> {
        let Some(own) = self.own().cloned() else {
            self.off(self.missing_permission("list and watch")).await?;
            return Ok(Ok(None));
        };
        let path = format!("{}/{}", self.pods_path(), percent_encode(&own.name));
        match self.cluster.get_json_within::<PodDocument>(&path, JSON, MAX_OBJECT_BYTES).await {
            Ok(pod) if runs_operator(&pod, &own) => {
                self.workload.set(WorkloadName::of_pod(&pod.metadata));
                self.backoff.reset();
                if self.is_up != Some(true) {
                    self.is_up = Some(true);
                    self.feed.recovered(SourceId::Pods).await?;
                }

                let pods = SeenPods::of(self.filter().see(&pod));
                Ok(Ok(Some(pods)))
            }
            Ok(_) => self.off(NO_OPERATOR.to_owned()).await.map(|()| Ok(None)),
            Err(failure) if failure.cause == Cause::Forbidden => {
                self.off(self.missing_permission("get")).await.map(|()| Ok(None))
            }
            Err(failure) if failure.absent_object == own.name => {
                self.off(no_such_pod(&own)).await.map(|()| Ok(None))
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Lists only loopwatch's own Pod: an account that may list and watch Pods may still not get
    /// them.
    async fn list_own(&self, own: &OwnPod) -> Result<Option<PodDocument>, Failure> {
        let selector = percent_encode(&format!("metadata.name={}", own.name));
        let path = format!("{}?fieldSelector={selector}&limit=1", self.pods_path());
        let list: PodListDocument =
            self.cluster.get_json_within(&path, JSON, MAX_OBJECT_BYTES).await?;

        Ok(list.items.into_iter().find(|pod| pod.metadata.name == own.name))
    }

    /// Whether the account may list and watch Pods. If the cluster forbids the review, assumes that
    /// it may not.
    async fn may_watch(&self) -> Result<bool, Failure> {
        for verb in ["list", "watch"] {
            let (verb, resource) = (verb.to_owned(), "pods".to_owned());
            let permission = Permission { verb, resource, ..Permission::default() };
            if is_allowed(&self.cluster, &permission, self.identity.namespace()).await?
                != Some(true)
            {
                return Ok(false);
            }
        }

        Ok(true)
    }

    /// Waits until the permissions may have changed.
    async fn review(&self) -> Result<Result<(), Failure>, Closed> {
        if !self.once {
            self.handle.review.notified().await;
        }
        Ok(Ok(()))
    }

    /// Names the workload as precisely as possible without its Pods.
    fn identify_by_name(&mut self) {
        let (name, is_told) = match &self.identity {
            OperatorIdentity::Beside(own) => (own.workload(), own.is_told),
            OperatorIdentity::Named(OperatorName { name, .. })
            | OperatorIdentity::Found(OperatorName { name, .. }) => (Some(name.clone()), true),
        };
        if let Some(name) = name.filter(|_| is_told) {
            self.workload.set_if_unknown(WorkloadName { kind: String::new(), name });
        }
    }

    fn own(&self) -> Option<&OwnPod> {
        match &self.identity {
            OperatorIdentity::Beside(own) => Some(own),
            OperatorIdentity::Named(_) | OperatorIdentity::Found(_) => None,
        }
    }

    fn pods_path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", percent_encode(self.identity.namespace()))
    }

    fn filter(&self) -> PodFilter {
        PodFilter {
            namespace: self.identity.namespace().to_owned(),
            workload: self.workload.name().cloned().unwrap_or_default(),
            own: self.own().map(|own| own.name.clone()),
            container: self.own().and_then(|own| own.container.clone()),
        }
    }

    fn missing_permission(&self, verbs: &str) -> String {
        if self.own().is_some_and(|own| !own.is_told) {
            return UNNAMED.to_owned();
        }
        format!(
            "the account may not {verbs} Pods in the namespace {}, so loopwatch does not see restarts of the operator: \
             grant get, list and watch on pods, for example by the component reader-rights",
            self.identity.namespace()
        )
    }

    async fn off(&mut self, reason: String) -> Result<(), Closed> {
        self.is_up = Some(false);
        self.feed.send(Observation::SourceOff { source: SourceId::Pods, reason }).await
    }

    /// Reports the Pods, once they are listed. `complete` says whether these are all.
    async fn send_pods(&mut self, seen: &SeenPods, complete: bool) -> Result<(), Closed> {
        let Some(ChosenPods { views, targets, left_out }) = seen.chosen() else { return Ok(()) };
        self.handle.set_targets(targets);
        self.send(views, left_out, complete).await
    }

    /// Reports what is known without permission to read Pods.
    async fn send_unread(&mut self) -> Result<(), Closed> {
        self.identify_by_name();
        let own = self.own().filter(|own| own.is_told);
        if own.is_none() && self.own().is_some() {
            return Ok(()); // this Pod may run no operator
        }

        let target = own.map(|own| TargetPod {
            instance: own.instance(),
            own: true,
            ip: own.ip,
            host_network: own.host_network,
            ports: Vec::new(),
            container_ids: Vec::new(),
        });

        let view = own.map(|OwnPod { name, uid, revision, .. }| PodView {
            name: name.clone(),
            uid: uid.clone(),
            own: true,
            revision: revision.clone(),
            ..PodView::default()
        });

        self.handle.set_targets(target.into_iter().collect());
        self.send(view.into_iter().collect(), 0, false).await
    }

    /// Sends a view unless it equals the last one.
    async fn send(
        &mut self,
        pods: Vec<PodView>,
        pods_left_out: u32,
        complete: bool,
    ) -> Result<(), Closed> {
        let name = self.workload.name().map(|workload| workload.name.clone());
        let view = OperatorView {
            namespace: self.identity.namespace().to_owned(),
            name: name.or_else(|| self.own().map(|own| own.name.clone())).unwrap_or_default(),
            workload: self.workload.view().cloned(),
            pods,
            pods_left_out,
            complete,
        };

        if self.sent.as_ref().is_some_and(|sent| sent.pods != view.pods) {
            self.workload.pods_changed();
        }

        if self.sent.as_ref() != Some(&view) {
            self.feed.send(Observation::OperatorSeen(Box::new(view.clone()))).await?;
            self.sent = Some(view);
        }

        Ok(())
    }
}

/// Whether a Pod has a container that is not loopwatch's.
fn runs_operator(pod: &PodDocument, own: &OwnPod) -> bool {
    !containers::of_operator(pod, own.container.as_deref()).is_empty()
}

fn no_such_pod(own: &OwnPod) -> String {
    let OwnPod { namespace, name, .. } = own;
    format!("the namespace {namespace} has no Pod {name}: check POD_NAME and POD_NAMESPACE")
}
