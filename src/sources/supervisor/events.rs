//! Which Kubernetes Events to watch: those about the primary kinds, as far as the account may.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Observation, Role, Scope, SourceId, WatchId, WatchedKind};

use super::{Job, Running};
use crate::net::Failure;
use crate::sources::api_server::{EventSink, Tally, WatchTarget};
use crate::sources::feed::{Closed, ServerClock};

/// The watches of Kubernetes Events.
#[derive(Debug, Default)]
pub(super) struct FollowedEvents {
    tally: Tally,
    /// By the watch of the kind.
    watches: BTreeMap<WatchId, (WatchedKind, WatchTarget)>,
    /// Whether the source is off, as last reported.
    is_off: bool,
}

impl FollowedEvents {
    /// What a watch needs.
    pub(super) fn watch_of(
        &self,
        watch: &WatchId,
        clock: &ServerClock,
    ) -> Option<(WatchTarget, EventSink)> {
        let (kind, target) = self.watches.get(watch)?;
        Some((target.clone(), EventSink::new(kind, self.tally.clone(), clock.clone())))
    }
}

impl Running {
    /// Starts and stops the watches of Events according to the kinds and the permissions, and
    /// reports changes.
    pub(super) async fn follow_events(&mut self) -> Result<Result<(), Failure>, Closed> {
        let mut kinds: Vec<WatchedKind> =
            self.kinds.iter().flatten().filter(|kind| is_followed(kind)).cloned().collect();
        kinds.retain(|kind| !self.over.contains(&kind.watch));
        self.events.tally.retain(|watch| kinds.iter().any(|kind| kind.watch == *watch));

        let (mut found, mut refused, mut over) = (BTreeMap::new(), 0, 0);
        let room = self.room_for_events();
        for kind in &kinds {
            match self.address_of_events(kind).await {
                Ok(None) => refused += 1,
                Ok(Some(_)) if found.len() >= room => over += 1,
                Ok(Some(target)) => _ = found.insert(kind.watch.clone(), (kind.clone(), target)),
                Err(failure) => return Ok(Err(failure)),
            }
        }

        let stale: Vec<Job> = self
            .events
            .watches
            .iter()
            .filter(|(watch, was)| found.get(*watch) != Some(*was))
            .map(|(watch, _)| Job::Events(watch.clone()))
            .collect();

        for job in stale {
            self.tasks.stop(&job).await;
        }

        self.events.watches = found;
        self.report_events(kinds.len(), refused, over).await?;

        let watches: Vec<Job> = self.events.watches.keys().cloned().map(Job::Events).collect();
        for job in watches.into_iter().filter(|job| !self.tasks.has(job)).collect::<Vec<_>>() {
            self.start(&job);
        }

        Ok(Ok(()))
    }

    /// Says what the source does not see of the Events about so many watched kinds. Before the
    /// first one, there is nothing to say.
    async fn report_events(
        &mut self,
        kinds: usize,
        refused: usize,
        over: usize,
    ) -> Result<(), Closed> {
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

        let watches = &self.events.watches;
        let health =
            self.events.tally.restrict(restricted.join("; "), |watch| watches.contains_key(watch));
        if std::mem::replace(&mut self.events.is_off, is_off) && is_off {
            return Ok(());
        }

        if is_off {
            let (source, reason) = (SourceId::Events, EventSink::OFF.to_owned());
            return self.feed.send(Observation::SourceOff { source, reason }).await;
        }

        match health {
            Some(health) => self.feed.send(health).await,
            None => Ok(()),
        }
    }

    /// The watches that the limit leaves for Events.
    fn room_for_events(&self) -> usize {
        let is_watch = |job: &&Job| {
            matches!(
                job,
                Job::Watch(_) | Job::Definitions | Job::Lease | Job::Namespaces | Job::Pods
            )
        };
        self.options
            .discovery
            .max_watches
            .saturating_sub(self.tasks.jobs().filter(is_watch).count())
            .min(EventSink::MAX_WATCHES)
    }

    /// Where to watch the Events about a kind; `None` if the account may not.
    async fn address_of_events(
        &mut self,
        kind: &WatchedKind,
    ) -> Result<Option<WatchTarget>, Failure> {
        let namespaces: &[Option<&str>] = match &kind.scope {
            Scope::AllNamespaces => &[None],
            Scope::Cluster => &[None, Some(EventSink::OF_CLUSTER_SCOPED)],
            Scope::Namespace(namespace) => &[Some(namespace)],
        };
        for namespace in namespaces {
            for group in EventSink::GROUPS {
                let may = self.discovery.may_watch(
                    group,
                    EventSink::RESOURCE,
                    namespace.unwrap_or_default(),
                );
                if may.await? && self.discovery.serves(group, EventSink::RESOURCE) {
                    let without = self.options.discovery.exclude_namespaces.clone();
                    return Ok(Some(EventSink::target(group, *namespace, &kind.kind, without)));
                }
            }
        }

        Ok(None)
    }
}

/// Whether loopwatch watches the Events about a kind: the operator surely serves it.
fn is_followed(kind: &WatchedKind) -> bool {
    kind.role == Role::Primary && kind.missing.is_empty() && !kind.suspected
}
