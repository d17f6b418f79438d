//! Watches that need optional permissions: definitions, leases and namespaces. Each poll starts
//! those that the account may read now, and stops the others.

use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Observation, SourceId};
use tokio::sync::Notify;

use super::jobs::Job;
use super::launcher::Launcher;
use super::options::LeaseSelection;
use crate::net::Failure;
use crate::sources::api_server::{
    DefinitionSink, Definitions, Discovery, LeaseSink, NamespaceSink, Terminating,
};
use crate::sources::feed::Closed;

/// The state of the optional watches.
pub(super) struct OptionalWatches {
    definitions: Definitions,
    /// Notified when the list of namespaces is complete.
    namespaces_listed: Arc<Notify>,
    /// The namespaces that are being deleted.
    terminating: Terminating,
    /// Whether the account may watch namespaces, as last reported.
    may_watch_namespaces: Option<bool>,
    /// What to report about sources that have just stopped because the account lost their
    /// permissions.
    stopped: Vec<Observation>,
}

/// Time to wait for definitions, which show the kinds with a status.
const DEFINITIONS_WITHIN: Duration = Duration::from_secs(15);
/// Time to wait for the annotations of namespaces.
const NAMESPACES_WITHIN: Duration = Duration::from_secs(5);

impl OptionalWatches {
    pub(super) fn new(definitions: Definitions) -> Self {
        Self {
            definitions,
            namespaces_listed: Arc::default(),
            terminating: Terminating::default(),
            may_watch_namespaces: None,
            stopped: Vec::new(),
        }
    }

    /// Starts and stops watches according to the account's permissions, and reports those that
    /// stopped.
    pub(super) async fn review(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<Result<(), Failure>, Closed> {
        let reviewed = self.review_all(discovery, launcher).await;
        for observation in std::mem::take(&mut self.stopped) {
            launcher.feed.send(observation).await?;
        }

        match reviewed {
            Ok(may_watch_namespaces) => {
                self.follow_namespaces(may_watch_namespaces, launcher).await.map(Ok)
            }
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Reviews definitions and leases. Returns whether the account may watch namespaces.
    async fn review_all(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<bool, Failure> {
        discovery.review().await?;
        self.review_definitions(discovery, launcher).await?;
        self.review_leases(discovery, launcher).await?;
        discovery.may_watch(NamespaceSink::GROUP, NamespaceSink::RESOURCE, "").await
    }

    async fn review_definitions(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<(), Failure> {
        let (group, resource) = Definitions::resource();
        let may = discovery.may_watch(group, resource, "").await?;
        if !may && launcher.tasks.has(&Job::Definitions) {
            launcher.tasks.stop(&Job::Definitions).await;
            self.definitions.forget();
            self.stopped.push(Observation::DefinitionsListed(Vec::new()));
            self.stopped.push(off(&Job::Definitions, "custom resource definitions"));
        } else if may && !launcher.tasks.has(&Job::Definitions) {
            self.start_definitions(launcher);
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

    async fn review_leases(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<(), Failure> {
        let Some(namespace) = lease_namespace(launcher) else { return Ok(()) };
        let may = discovery.may_watch(LeaseSink::GROUP, LeaseSink::RESOURCE, &namespace).await?;
        if !may && launcher.tasks.has(&Job::Lease) {
            launcher.tasks.stop(&Job::Lease).await;

            // A lease that is no longer watched would seem to expire.
            self.stopped.push(Observation::LeasesListed { namespace, names: Vec::new() });
            self.stopped.push(off(&Job::Lease, "leases"));
        } else if may && !launcher.tasks.has(&Job::Lease) {
            self.start_leases(launcher);
        }

        Ok(())
    }

    /// Watches the annotations of namespaces if the account may, and reports the source as off if
    /// it may not.
    async fn follow_namespaces(
        &mut self,
        may: bool,
        launcher: &mut Launcher,
    ) -> Result<(), Closed> {
        if !may {
            launcher.tasks.stop(&Job::Namespaces).await;
            launcher.tasks.stop(&Job::Terminating).await;
            if self.may_watch_namespaces != Some(false) {
                let (source, reason) = (SourceId::Namespaces, NamespaceSink::OFF.to_owned());
                launcher.feed.send(Observation::NamespacesListed(Vec::new())).await?;
                launcher.feed.send(Observation::SourceOff { source, reason }).await?;
            }
        } else if !launcher.tasks.has(&Job::Namespaces) {
            self.start_namespaces(launcher);
            self.start_terminating(launcher);

            // Otherwise, findings that a namespace ignores would open at startup.
            let _ =
                tokio::time::timeout(NAMESPACES_WITHIN, self.namespaces_listed.notified()).await;
        }

        self.may_watch_namespaces = Some(may);
        Ok(())
    }

    pub(super) fn start_definitions(&self, launcher: &mut Launcher) {
        let definitions = self.definitions.clone();
        if let Some(observed) = &launcher.options.discovery.observed {
            let (news, feed) = (observed.shared.definition_news.clone(), launcher.feed.clone());
            let (observed, mut owners) = (observed.clone(), observed.owners.changes());
            let forwarding = news.forward(
                definitions,
                feed,
                move |group| observed.owns_in(group),
                async move || _ = owners.changed().await, // `observed` keeps the sender
            );
            return launcher.spawn(&Job::Definitions, forwarding);
        }

        launcher.watch(&Job::Definitions, Definitions::target(), DefinitionSink::new(definitions));
    }

    pub(super) fn start_leases(&self, launcher: &mut Launcher) {
        if let Some(namespace) = lease_namespace(launcher) {
            let target = LeaseSink::target(&namespace);
            launcher.watch(&Job::Lease, target, LeaseSink::new(namespace));
        }
    }

    pub(super) fn start_namespaces(&self, launcher: &mut Launcher) {
        let (listed, team_label) =
            (Arc::clone(&self.namespaces_listed), launcher.options.team_label.clone());
        let wanted = launcher.options.discovery.wanted_namespaces();
        let sink = NamespaceSink::new(listed, self.terminating.clone(), team_label);
        let sink = sink.with_deletions_of(wanted);
        launcher.watch(&Job::Namespaces, NamespaceSink::target(), sink);
    }

    pub(super) fn start_terminating(&self, launcher: &mut Launcher) {
        let (cluster, feed) = (launcher.cluster.clone(), launcher.feed.clone());
        let failed = launcher.tasks.has_panicked(&Job::Terminating);
        launcher.spawn(&Job::Terminating, self.terminating.clone().follow(cluster, feed, failed));
    }
}

/// The namespace of the leases to follow.
fn lease_namespace(launcher: &Launcher) -> Option<String> {
    match &launcher.options.lease {
        LeaseSelection::Off => None,
        LeaseSelection::OwnNamespace => launcher.operator_namespace().map(str::to_owned),
    }
}

/// Reports that the source of a job is off, because the account may no longer watch these objects.
/// Otherwise, the refusal would remain the source's last report.
pub(super) fn off(job: &Job, objects: &str) -> Observation {
    Observation::SourceOff {
        source: job.source(),
        reason: format!("the account may no longer list and watch {objects}"),
    }
}
