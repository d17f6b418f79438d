//! Sources that need optional permissions. Each poll starts those that the account may read now,
//! and stops the others.

use std::time::Duration;

use loopwatch_model::observation::{Observation, SourceId};

use super::options::LeaseSelection;
use super::{Job, Running};
use crate::net::Failure;
use crate::sources::api_server::{
    Definitions, Discovered, LeaseSink, NamespaceSink, OperatorIdentity, Selection,
};
use crate::sources::feed::Closed;

/// Time to wait for definitions, which show the kinds with a status.
const DEFINITIONS_WITHIN: Duration = Duration::from_secs(15);
/// Time to wait for the annotations of namespaces.
const NAMESPACES_WITHIN: Duration = Duration::from_secs(5);
/// Time to wait for the operator's Pods, if they are read only once.
const PODS_WITHIN: Duration = Duration::from_secs(5);

impl Running {
    /// Polls discovery, after the sources that it needs.
    pub(super) async fn find(&mut self) -> Result<Result<Discovered, Failure>, Closed> {
        let reviewed = self.review_optional().await;
        for observation in std::mem::take(&mut self.stopped) {
            self.feed.send(observation).await?;
        }

        match reviewed {
            Ok(may_watch_namespaces) => self.follow_namespaces(may_watch_namespaces).await?,
            Err(failure) => return Ok(Err(failure)),
        }

        self.follow_pods().await;
        Ok(self.discovery.poll().await)
    }

    /// Starts and stops the tasks that need optional permissions. Returns whether the account may
    /// watch namespaces.
    async fn review_optional(&mut self) -> Result<bool, Failure> {
        self.discovery.review().await?;
        self.review_definitions().await?;
        self.review_lease().await?;
        self.discovery.may_watch(NamespaceSink::GROUP, NamespaceSink::RESOURCE, "").await
    }

    /// Watches the annotations of namespaces if the account may, and reports the source as off if
    /// it may not.
    async fn follow_namespaces(&mut self, may: bool) -> Result<(), Closed> {
        if !may {
            self.tasks.stop(&Job::Namespaces).await;
            self.tasks.stop(&Job::Terminating).await;
            if self.namespaces != Some(false) {
                let (source, reason) = (SourceId::Namespaces, NamespaceSink::OFF.to_owned());
                self.feed.send(Observation::NamespacesListed(Vec::new())).await?;
                self.feed.send(Observation::SourceOff { source, reason }).await?;
            }
        } else if !self.tasks.has(&Job::Namespaces) {
            self.start(&Job::Namespaces);
            self.start(&Job::Terminating);

            // Findings that a namespace ignores must not open at the start.
            let _ =
                tokio::time::timeout(NAMESPACES_WITHIN, self.namespaces_listed.notified()).await;
        }

        self.namespaces = Some(may);
        Ok(())
    }

    /// Starts to follow the operator's Pods. The task itself finds out which of them the account
    /// may read, and does so again after each review of the permissions.
    async fn follow_pods(&mut self) {
        let is_known = match self.cluster.operator() {
            // An administrator who watches every kind has no operator, even in a Pod.
            Some(OperatorIdentity::Beside(_)) => {
                self.options.discovery.select == Selection::OperatorPermissions
            }
            Some(OperatorIdentity::Named(_)) => true,
            None => false,
        };
        if self.tasks.has(&Job::Pods) {
            self.pods.review.notify_one();
        } else if is_known {
            self.start(&Job::Pods);
            if self.options.discovery.once {
                let _ = tokio::time::timeout(PODS_WITHIN, self.pods.done.notified()).await;
            }
        }
    }

    /// Watches definitions if the account may, and stops if it no longer may.
    async fn review_definitions(&mut self) -> Result<(), Failure> {
        let (group, resource) = Definitions::resource();
        let may = self.discovery.may_watch(group, resource, "").await?;
        if !may && self.tasks.has(&Job::Definitions) {
            self.tasks.stop(&Job::Definitions).await;
            self.definitions.forget();
            self.stopped.push(Observation::DefinitionsListed(Vec::new()));
            self.stopped.push(off(&Job::Definitions, "custom resource definitions"));
        } else if may && !self.tasks.has(&Job::Definitions) {
            self.start(&Job::Definitions);
            let known = async {
                while !self.definitions.are_known() {
                    self.definitions.changed.notified().await;
                }
            };

            // If definitions do not arrive in time, discovery alone shows which kinds have a
            // status.
            let _ = tokio::time::timeout(DEFINITIONS_WITHIN, known).await;
        }

        Ok(())
    }

    /// Watches the operator's leases if the account may, and stops if it no longer may.
    async fn review_lease(&mut self) -> Result<(), Failure> {
        let Some(namespace) = self.lease_namespace() else { return Ok(()) };
        let may =
            self.discovery.may_watch(LeaseSink::GROUP, LeaseSink::RESOURCE, &namespace).await?;
        if !may && self.tasks.has(&Job::Lease) {
            self.tasks.stop(&Job::Lease).await;

            // A lease that nobody watches would grow old.
            self.stopped.push(Observation::LeasesListed { namespace, names: Vec::new() });
            self.stopped.push(off(&Job::Lease, "leases"));
        } else if may && !self.tasks.has(&Job::Lease) {
            self.start(&Job::Lease);
        }

        Ok(())
    }

    /// The namespace of the leases to follow.
    pub(super) fn lease_namespace(&self) -> Option<String> {
        match &self.options.lease {
            LeaseSelection::Off => None,
            // An administrator who watches every kind has no operator namespace.
            LeaseSelection::OwnNamespace
                if self.options.discovery.select == Selection::EveryKindWithStatus =>
            {
                None
            }
            LeaseSelection::OwnNamespace => Some(self.cluster.namespace().to_owned()),
        }
    }
}

/// Reports that the source of a job is off, because the account may no longer watch these objects.
/// Otherwise the refusal that the source has met would remain its last word.
fn off(job: &Job, objects: &str) -> Observation {
    Observation::SourceOff {
        source: job.source(),
        reason: format!("the account may no longer list and watch {objects}"),
    }
}
