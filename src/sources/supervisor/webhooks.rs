//! The watches of webhook configurations and of the endpoints of their Services, as far as the account
//! may read them.

use std::collections::BTreeSet;
use std::time::Duration;

use loopwatch_model::observation::{Observation, WebhookKind};

use super::jobs::Job;
use super::launcher::Launcher;
use super::optional::off;
use crate::net::Failure;
use crate::sources::api_server::{
    Definitions, Discovery, EndpointSink, WebhookServices, WebhookSink,
};
use crate::sources::feed::Closed;

/// The watches of webhooks.
#[derive(Debug)]
pub(super) struct FollowedWebhooks {
    definitions: Definitions,
    /// The Services that the configurations name.
    pub(super) services: WebhookServices,
    /// Those whose endpoints loopwatch watches.
    followed: BTreeSet<String>,
}

/// Time to wait for the configurations if they are read only once: they tell which endpoints to read.
const LISTED_WITHIN: Duration = Duration::from_secs(5);

impl FollowedWebhooks {
    pub(super) fn new(definitions: Definitions) -> Self {
        Self { definitions, services: WebhookServices::default(), followed: BTreeSet::new() }
    }

    /// Starts and stops the watches according to the permissions, and reports those that stopped.
    pub(super) async fn follow(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<Result<(), Failure>, Closed> {
        for kind in WebhookKind::ALL {
            let (group, resource) = (WebhookSink::GROUP, kind.resource());
            let is_wanted =
                launcher.operator_namespace().is_some() && discovery.serves(group, resource);
            let may = match is_wanted && has_room(launcher, &Job::Webhooks(kind)) {
                true => discovery.may_watch(group, resource, "").await,
                false => Ok(false),
            };

            match may {
                Ok(may) => self.follow_kind(kind, may, launcher).await?,
                Err(failure) => return Ok(Err(failure)),
            }
        }

        self.follow_endpoints(discovery, launcher).await
    }

    /// Watches the endpoints of the present Services.
    pub(super) async fn follow_endpoints(
        &mut self,
        discovery: &mut Discovery,
        launcher: &mut Launcher,
    ) -> Result<Result<(), Failure>, Closed> {
        let Some(namespace) = launcher.operator_namespace() else { return Ok(Ok(())) };
        let converting = self.definitions.conversion_services(namespace);
        let mut services = self.services.names();
        services.extend(converting);
        if !has_room(launcher, &Job::Endpoints) {
            services.clear();
        } else if !services.is_empty() {
            let (group, resource) = (EndpointSink::GROUP, EndpointSink::RESOURCE);
            match discovery.may_watch(group, resource, namespace).await {
                Ok(true) => {}
                Ok(false) => services.clear(),
                Err(failure) => return Ok(Err(failure)),
            }
        }

        if services != self.followed {
            launcher.tasks.stop(&Job::Endpoints).await;
            self.followed = services;
            self.start_endpoints(launcher);
            if self.followed.is_empty() {
                launcher.feed.send(Observation::EndpointsListed(Vec::new())).await?;
            }
        }

        Ok(Ok(()))
    }

    pub(super) fn start(&self, kind: WebhookKind, launcher: &mut Launcher) {
        if let Some(namespace) = launcher.operator_namespace().map(str::to_owned) {
            let sink = WebhookSink::new(kind, namespace, self.services.clone());
            launcher.watch(&Job::Webhooks(kind), WebhookSink::target(kind), sink);
        }
    }

    pub(super) fn start_endpoints(&self, launcher: &mut Launcher) {
        let Some(namespace) = launcher.operator_namespace().map(str::to_owned) else { return };
        if !self.followed.is_empty() {
            let target = EndpointSink::target(&namespace, &self.followed);
            let sink = EndpointSink::new(&namespace, &self.followed);
            launcher.watch(&Job::Endpoints, target, sink);
        }
    }

    async fn follow_kind(
        &mut self,
        kind: WebhookKind,
        may: bool,
        launcher: &mut Launcher,
    ) -> Result<(), Closed> {
        let job = Job::Webhooks(kind);
        match (may, launcher.tasks.has(&job)) {
            (false, true) => {
                launcher.tasks.stop(&job).await;
                self.services.forget(kind);
                let gone = Observation::WebhooksListed { kind, webhooks: Vec::new() };
                launcher.feed.send(gone).await?;
                launcher.feed.send(off(&job, "the configurations of webhooks")).await?;
            }
            (true, false) => {
                self.start(kind, launcher);
                if launcher.options.discovery.once {
                    let _ = tokio::time::timeout(LISTED_WITHIN, self.listed(kind)).await;
                }
            }
            (true, true) | (false, false) => {}
        }

        Ok(())
    }

    async fn listed(&self, kind: WebhookKind) {
        while !self.services.are_known(kind) {
            self.services.changed.notified().await;
        }
    }
}

/// Whether `--max-watches` leaves room for a watch. With `once`, watches only list, and the limit does not
/// apply.
fn has_room(launcher: &Launcher, job: &Job) -> bool {
    let options = &launcher.options.discovery;
    options.once || launcher.count_watches(|other| other != job) < options.max_watches
}
