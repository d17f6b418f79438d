//! The sinks of watches, for the fuzz targets.

use std::collections::BTreeSet;

use loopwatch_model::observation::{Observation, WatchedKind, WebhookKind};

use super::{
    DefinitionSink, Definitions, EndpointSink, EventSink, EventTally, LeaseSink, NamespaceSink,
    Terminating, WebhookServices, WebhookSink,
};
use crate::net::Failure;
use crate::sources::api_server::watch::WatchSink;
use crate::sources::feed::ServerClock;

/// What a watch follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed<'a> {
    Definitions,
    Leases,
    Namespaces,
    /// The configurations of webhooks.
    Webhooks(WebhookKind),
    /// The endpoints of their Services.
    Endpoints,
    /// The Events about a kind.
    Events(&'a WatchedKind),
}

/// The observations about one document; `None` for one that cannot be decoded.
#[derive(Debug, PartialEq)]
pub struct SinkView {
    /// In a list with no other document.
    pub listed: Option<Vec<Observation>>,
    /// In an event, with the resource version.
    pub applied: Option<(String, Vec<Observation>)>,
    /// In the event of its deletion, after the other one.
    pub deleted: Option<(String, Vec<Observation>)>,
}

/// Gives a document to the sink of a watch.
#[must_use]
pub fn follow(followed: Followed<'_>, document: &[u8]) -> SinkView {
    match followed {
        Followed::Definitions => view(document, || DefinitionSink::new(Definitions::default())),
        Followed::Leases => view(document, || LeaseSink::new("team-a".to_owned())),
        Followed::Namespaces => {
            let team = Some("team".to_owned());
            let sink = || NamespaceSink::new(<_>::default(), Terminating::default(), team.clone());
            view(document, sink)
        }
        Followed::Webhooks(kind) => {
            let sink = || WebhookSink::new(kind, "team-a".to_owned(), WebhookServices::default());
            view(document, sink)
        }
        Followed::Endpoints => {
            let services = BTreeSet::from(["hook".to_owned()]);
            view(document, || EndpointSink::new("team-a", &services))
        }
        Followed::Events(kind) => {
            view(document, || EventSink::new(kind, EventTally::default(), ServerClock::new()))
        }
    }
}

fn view<S: WatchSink>(document: &[u8], new: impl Fn() -> S) -> SinkView {
    let (mut sink, mut listed) = (new(), Vec::new());
    sink.began(1, &mut listed);
    let decoded = sink.listed(document, &mut listed);
    sink.ended(1, "1", &mut listed);

    let (mut sink, mut applied, mut deleted) = (new(), Vec::new(), Vec::new());
    sink.began(1, &mut Vec::new());
    let version = sink.applied(document, &mut applied);
    let last_version = sink.deleted(document, &mut deleted);

    let with = |version: Result<String, Failure>, out| version.ok().map(|version| (version, out));
    SinkView {
        listed: decoded.ok().map(|()| listed),
        applied: with(version, applied),
        deleted: with(last_version, deleted),
    }
}
