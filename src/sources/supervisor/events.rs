//! The watches of Kubernetes Events: those about the primary kinds and about the workloads that the
//! operator creates, as far as the account may read them.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Observation, Role, Scope, SourceId, WatchId, WatchedKind};

use super::jobs::Job;
use super::kinds::WatchedKinds;
use super::launcher::Launcher;
use crate::net::Failure;
use crate::sources::api_server::{Discovery, EventSink, EventTally, WatchTarget};
use crate::sources::feed::Closed;

/// The watches of Kubernetes Events.
#[derive(Debug, Default)]
pub(super) struct FollowedEvents {
    tally: EventTally,
    /// By the watch of the kind.
    watches: BTreeMap<WatchId, (WatchedKind, WatchTarget)>,
    /// Whether the source is off, as last reported.
    is_off: bool,
}

/// The kinds whose Events the source does not see.
struct Unseen {
    /// The number of kinds whose Events matter.
    kinds: usize,
    /// Of these, the number of kinds that the account may not watch.
    refused: usize,
    /// Of these, the number of kinds without a watch because of the limit.
    over: usize,
}

impl FollowedEvents {
    /// Starts and stops the watches of Events according to the kinds and the permissions, and
    /// reports changes.
    pub(super) async fn follow(
        &mut self,
        watched: &WatchedKinds,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<Result<(), Failure>, Closed> {
        let mut kinds: Vec<WatchedKind> =
            watched.watched().filter(|kind| is_followed(kind)).cloned().collect();
        kinds.sort_by_key(|kind| kind.role != Role::Primary); // if there is not room for all

        self.tally.retain(|watch| kinds.iter().any(|kind| kind.watch == *watch));

        let (found, unseen) = match find(&kinds, discovery, launcher).await {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };

        let outdated = self.watches.iter().filter(|(watch, was)| found.get(*watch) != Some(*was));
        let outdated: Vec<Job> = outdated.map(|(watch, _)| Job::Events(watch.clone())).collect();
        for job in outdated {
            launcher.tasks.stop(&job).await;
        }

        self.watches = found;
        self.report(unseen, launcher).await?;

        let watches: Vec<WatchId> = self.watches.keys().cloned().collect();
        for watch in watches {
            if !launcher.tasks.has(&Job::Events(watch.clone())) {
                self.start(&watch, launcher);
            }
        }

        Ok(Ok(()))
    }

    /// Starts a watch, unless there is no longer anything to watch.
    pub(super) fn start(&self, watch: &WatchId, launcher: &mut Launcher) {
        let Some((kind, target)) = self.watches.get(watch) else { return };
        let sink = EventSink::new(kind, self.tally.clone(), launcher.feed.clock().clone());
        let job = Job::Events(watch.clone());
        launcher.watch(&job, target.clone(), sink);
    }

    /// Reports what the source does not see. Before the first kind, there is nothing to report.
    async fn report(&mut self, unseen: Unseen, launcher: &Launcher) -> Result<(), Closed> {
        let Unseen { kinds, refused, over } = unseen;
        let is_off = kinds > 0 && refused == kinds;
        let mut restricted = Vec::new();
        if refused > 0 && !is_off {
            restricted.push(format!(
                "the account may list and watch the events about only {} of {kinds} watched kinds",
                kinds - refused
            ));
        }

        if over > 0 {
            restricted.push(format!(
                "there is no room to watch the events about {over} kinds: at most {}, within --max-watches",
                EventSink::MAX_WATCHES
            ));
        }

        let watches = &self.watches;
        let health =
            self.tally.restrict(restricted.join("; "), |watch| watches.contains_key(watch));
        if std::mem::replace(&mut self.is_off, is_off) && is_off {
            return Ok(());
        }

        if is_off {
            let (source, reason) = (SourceId::Events, EventSink::OFF.to_owned());
            return launcher.feed.send(Observation::SourceOff { source, reason }).await;
        }

        match health {
            Some(health) => launcher.feed.send(health).await,
            None => Ok(()),
        }
    }
}

/// Finds the watches of the Events about these kinds.
async fn find(
    kinds: &[WatchedKind],
    discovery: &mut Discovery,
    launcher: &Launcher,
) -> Result<(BTreeMap<WatchId, (WatchedKind, WatchTarget)>, Unseen), Failure> {
    let options = &launcher.options.discovery;
    let room = options.max_watches.saturating_sub(launcher.count_watches(|_| true));
    let room = room.min(EventSink::MAX_WATCHES);

    let mut found = BTreeMap::new();
    let mut unseen = Unseen { kinds: kinds.len(), refused: 0, over: 0 };
    for kind in kinds {
        match address(kind, discovery, &options.exclude_namespaces).await? {
            None => unseen.refused += 1,
            Some(_) if found.len() >= room => unseen.over += 1,
            Some(target) => _ = found.insert(kind.watch.clone(), (kind.clone(), target)),
        }
    }

    Ok((found, unseen))
}

/// Where to watch the Events about a kind; `None` if the account may not.
async fn address(
    kind: &WatchedKind,
    discovery: &mut Discovery,
    without: &[String],
) -> Result<Option<WatchTarget>, Failure> {
    let namespaces: &[Option<&str>] = match &kind.scope {
        Scope::AllNamespaces => &[None],
        Scope::Cluster => &[None, Some(EventSink::OF_CLUSTER_SCOPED)],
        Scope::Namespace(namespace) => &[Some(namespace)],
    };
    for namespace in namespaces {
        for group in EventSink::GROUPS {
            let resource = EventSink::RESOURCE;
            let may = discovery.may_watch(group, resource, namespace.unwrap_or_default());
            if may.await? && discovery.serves(group, resource) {
                let target = EventSink::target(group, *namespace, &kind.kind, without.to_vec());
                return Ok(Some(target));
            }
        }
    }

    Ok(None)
}

/// Whether loopwatch watches the Events about a kind: the operator surely serves it, or waits for
/// objects of it. Of children, loopwatch reads whole objects only if they are workloads.
fn is_followed(kind: &WatchedKind) -> bool {
    let matters = match kind.role {
        Role::Primary => !kind.suspected,
        Role::Child => !kind.metadata_only,
    };
    matters && kind.missing.is_empty()
}
