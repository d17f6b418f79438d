//! Admission webhooks whose Service is in the namespace of the operator, and the endpoints of these
//! Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use loopwatch_model::observation::{
    EndpointsView, Observation, SourceId, WebhookKind, WebhookView,
};
use tokio::sync::Notify;

use crate::lock::lock;
use crate::net::Failure;
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::watch::{WatchSink, WatchTarget};
use crate::sources::decoding::{
    EndpointSlice, SERVICE_NAME, WebhookConfiguration, endpoint_slice, webhook_configuration,
};

/// The Services of the known webhooks, shared between the watches of configurations and that of
/// endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhookServices {
    by_kind: Arc<Mutex<BTreeMap<WebhookKind, BTreeSet<String>>>>,
    /// Notified when they change.
    pub(crate) changed: Arc<Notify>,
}

/// Turns events about configurations of one kind into observations.
pub(crate) struct WebhookSink {
    kind: WebhookKind,
    /// The namespace of the operator.
    namespace: String,
    services: WebhookServices,
    /// By the name of the configuration; only those that have webhooks with a Service in the
    /// namespace.
    known: BTreeMap<String, Vec<WebhookView>>,
    /// The configurations of the list in progress.
    listed: BTreeSet<String>,
    /// Whether the list had to skip a configuration.
    is_incomplete: bool,
}

/// Turns events about the EndpointSlices of some Services into observations.
pub(crate) struct EndpointSink {
    /// The ready endpoints of each slice, by Service; `None` for one that has never had a slice.
    services: BTreeMap<String, Option<BTreeMap<String, u32>>>,
    /// The slices of the list in progress.
    listed: BTreeSet<String>,
    /// Whether the list had to skip a slice.
    is_incomplete: bool,
    /// What was last reported.
    reported: Option<Vec<EndpointsView>>,
}

/// The maximum number of Services in the selector of a watch.
const MAX_SERVICES: usize = 50;

impl WebhookServices {
    /// The names of the Services of admission webhooks, at most [`MAX_SERVICES`].
    pub(crate) fn names(&self) -> BTreeSet<String> {
        lock(&self.by_kind).values().flatten().take(MAX_SERVICES).cloned().collect()
    }

    /// Forgets the Services of one kind, because the account may no longer read the configurations.
    pub(crate) fn forget(&self, kind: WebhookKind) {
        self.set(kind, BTreeSet::new());
    }

    /// Whether all configurations of this kind have been listed.
    pub(crate) fn are_known(&self, kind: WebhookKind) -> bool {
        lock(&self.by_kind).contains_key(&kind)
    }

    fn set(&self, kind: WebhookKind, names: BTreeSet<String>) {
        let before = lock(&self.by_kind).insert(kind, names.clone());
        if before != Some(names) {
            self.changed.notify_one();
        }
    }
}

impl WebhookSink {
    pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

    /// The address of the watch.
    pub(crate) fn target(kind: WebhookKind) -> WatchTarget {
        WatchTarget::new(collection(Self::GROUP, "v1", kind.resource(), None), false)
    }

    pub(crate) fn new(kind: WebhookKind, namespace: String, services: WebhookServices) -> Self {
        let (known, listed) = (BTreeMap::new(), BTreeSet::new());
        Self { kind, namespace, services, known, listed, is_incomplete: false }
    }

    /// Keeps the webhooks of a configuration that concern the operator. Returns whether that changes
    /// anything.
    fn keep(&mut self, configuration: WebhookConfiguration) -> bool {
        let WebhookConfiguration { name, mut webhooks, .. } = configuration;
        webhooks.retain(|view| {
            view.service.split_once('/').is_some_and(|(namespace, _)| namespace == self.namespace)
        });

        match webhooks.is_empty() {
            true => self.known.remove(&name).is_some(),
            false => self.known.insert(name, webhooks.clone()) != Some(webhooks),
        }
    }

    fn report(&self, out: &mut Vec<Observation>) {
        let webhooks: Vec<WebhookView> = self.known.values().flatten().cloned().collect();
        let names = webhooks.iter().filter_map(|view| view.service.split_once('/'));
        self.services.set(self.kind, names.map(|(_, name)| name.to_owned()).collect());
        out.push(Observation::WebhooksListed { kind: self.kind, webhooks });
    }
}

impl WatchSink for WebhookSink {
    fn source(&self) -> SourceId {
        SourceId::Webhooks
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let configuration = webhook_configuration(object)?;
        self.listed.insert(configuration.name.clone());
        self.keep(configuration);
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        // A configuration that the list skipped is not gone.
        let is_incomplete = self.is_incomplete;
        self.known.retain(|name, _| is_incomplete || listed.contains(name));
        self.report(out);
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let mut configuration = webhook_configuration(object)?;
        let version = std::mem::take(&mut configuration.version);
        if self.keep(configuration) {
            self.report(out);
        }

        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let WebhookConfiguration { name, version, .. } = webhook_configuration(object)?;
        self.listed.remove(&name);
        if self.known.remove(&name).is_some() {
            self.report(out);
        }

        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

impl EndpointSink {
    pub(crate) const GROUP: &str = "discovery.k8s.io";
    pub(crate) const RESOURCE: &str = "endpointslices";

    /// The address of the watch of some Services.
    pub(crate) fn target(namespace: &str, services: &BTreeSet<String>) -> WatchTarget {
        let path = collection(Self::GROUP, "v1", Self::RESOURCE, Some(namespace));
        let names: Vec<&str> = services.iter().map(String::as_str).collect();
        let labels = format!("{SERVICE_NAME} in ({})", names.join(","));
        WatchTarget { labels, ..WatchTarget::new(path, false) }
    }

    pub(crate) fn new(namespace: &str, services: &BTreeSet<String>) -> Self {
        let services = services.iter().map(|name| (format!("{namespace}/{name}"), None));
        Self {
            services: services.collect(),
            listed: BTreeSet::new(),
            is_incomplete: false,
            reported: None,
        }
    }

    /// Keeps the ready endpoints of a slice.
    fn keep(&mut self, slice: EndpointSlice) {
        if let Some(slices) = self.services.get_mut(&slice.service) {
            slices.get_or_insert_default().insert(slice.name, slice.ready);
        }
    }

    /// Reports all endpoints if they have changed. Kubernetes creates a slice for each Service that selects
    /// Pods, even if there are none, so nothing is known about a Service that never had one: its name may
    /// stand for another host. Somebody has deleted a Service that has lost its slices. Nothing is certain
    /// after a list that had to skip a slice.
    fn report(&mut self, out: &mut Vec<Observation>) {
        let view = |(service, slices): (&String, &Option<BTreeMap<String, u32>>)| {
            let slices = slices.as_ref()?;
            let ready = slices.values().fold(0_u32, |sum, ready| sum.saturating_add(*ready));
            Some(EndpointsView { service: service.clone(), ready, ..EndpointsView::default() })
        };
        let views: Vec<EndpointsView> = match self.is_incomplete {
            true => Vec::new(),
            false => self.services.iter().filter_map(view).collect(),
        };

        if self.reported.as_ref() != Some(&views) {
            self.reported = Some(views.clone());
            out.push(Observation::EndpointsListed(views));
        }
    }
}

impl WatchSink for EndpointSink {
    fn source(&self) -> SourceId {
        SourceId::Webhooks
    }

    fn began(&mut self, _: u64, _: &mut Vec<Observation>) {
        self.listed.clear();
        self.is_incomplete = false;
    }

    fn listed(&mut self, object: &[u8], _: &mut Vec<Observation>) -> Result<(), Failure> {
        let slice = endpoint_slice(object)?;
        self.listed.insert(slice.name.clone());
        self.keep(slice);
        Ok(())
    }

    fn skipped(&mut self) {
        self.is_incomplete = true;
    }

    fn ended(&mut self, _: u64, _: &str, out: &mut Vec<Observation>) {
        let listed = std::mem::take(&mut self.listed);
        let known = self.services.values_mut().flatten();
        known.for_each(|slices| slices.retain(|name, _| listed.contains(name)));
        self.report(out);
    }

    fn applied(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let mut slice = endpoint_slice(object)?;
        let version = std::mem::take(&mut slice.version);
        self.keep(slice);
        self.report(out);
        Ok(version)
    }

    fn deleted(&mut self, object: &[u8], out: &mut Vec<Observation>) -> Result<String, Failure> {
        let EndpointSlice { name, version, service, .. } = endpoint_slice(object)?;
        self.listed.remove(&name);
        if let Some(slices) = self.services.get_mut(&service) {
            slices.as_mut().map(|slices| slices.remove(&name));
        }

        self.report(out);
        Ok(version)
    }

    fn progressed(&mut self, _: &str, _: &mut Vec<Observation>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(name: &str, namespace: &str) -> Vec<u8> {
        format!(
            r#"{{"metadata":{{"name":"{name}","resourceVersion":"7"}},"webhooks":[{{"name":"{name}.a.io",
            "clientConfig":{{"service":{{"namespace":"{namespace}","name":"hook-{name}"}}}}}}]}}"#
        )
        .into_bytes()
    }

    fn slice(name: &str, service: &str, ready: bool) -> Vec<u8> {
        format!(
            r#"{{"metadata":{{"namespace":"op","name":"{name}","resourceVersion":"8","labels":{{"{SERVICE_NAME}":"{service}"}}}},
            "endpoints":[{{"conditions":{{"ready":{ready}}}}}]}}"#
        )
        .into_bytes()
    }

    fn webhooks(out: &[Observation]) -> Vec<String> {
        let names = |observation: &Observation| match observation {
            Observation::WebhooksListed { webhooks, .. } => {
                webhooks.iter().map(|view| view.name.as_str()).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        out.iter().map(names).collect()
    }

    fn endpoints(out: &mut Vec<Observation>) -> Vec<(String, u32)> {
        match out.pop() {
            Some(Observation::EndpointsListed(views)) => {
                views.into_iter().map(|view| (view.service, view.ready)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_webhooks_with_a_service_beside_the_operator_are_reported_and_only_changes() {
        let services = WebhookServices::default();
        let mut sink = WebhookSink::new(WebhookKind::Validating, "op".to_owned(), services.clone());
        let mut out = Vec::new();
        sink.began(1, &mut out);
        sink.listed(&configuration("a", "op"), &mut out).expect("a configuration");
        sink.listed(&configuration("b", "other"), &mut out).expect("a configuration");
        sink.ended(1, "7", &mut out);
        sink.applied(&configuration("a", "op"), &mut out).expect("a configuration");
        sink.applied(&configuration("c", "op"), &mut out).expect("a configuration");
        sink.deleted(&configuration("b", "other"), &mut out).expect("a configuration");
        sink.deleted(&configuration("a", "op"), &mut out).expect("a configuration");

        assert_eq!(webhooks(&out), ["a.a.io", "a.a.io c.a.io", "c.a.io"]);
        assert_eq!(services.names(), BTreeSet::from(["hook-c".to_owned()]));
    }

    #[test]
    fn a_configuration_that_a_list_skips_is_not_gone() {
        let services = WebhookServices::default();
        let mut sink = WebhookSink::new(WebhookKind::Mutating, "op".to_owned(), services);
        let mut out = Vec::new();
        sink.applied(&configuration("a", "op"), &mut out).expect("a configuration");
        sink.began(1, &mut out);
        sink.skipped();
        sink.ended(1, "9", &mut out);
        sink.began(2, &mut out);
        sink.ended(2, "10", &mut out);

        assert_eq!(webhooks(&out), ["a.a.io", "a.a.io", ""]);
    }

    #[test]
    fn the_endpoints_of_a_service_are_those_of_all_its_slices() {
        let names = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let (mut sink, mut out) = (EndpointSink::new("op", &names), Vec::new());
        sink.began(1, &mut out);
        sink.listed(&slice("a-1", "a", true), &mut out).expect("a slice");
        sink.listed(&slice("a-2", "a", true), &mut out).expect("a slice");
        sink.listed(&slice("x-1", "x", true), &mut out).expect("a slice");
        sink.ended(1, "8", &mut out);
        let service = |name: &str, ready| (format!("op/{name}"), ready);
        assert_eq!(endpoints(&mut out), [service("a", 2)], "b has no slice");

        sink.applied(&slice("a-1", "a", true), &mut out).expect("a slice");
        assert!(out.is_empty(), "nothing new");

        sink.applied(&slice("a-1", "a", false), &mut out).expect("a slice");
        sink.applied(&slice("b-1", "b", false), &mut out).expect("a slice");
        sink.deleted(&slice("a-2", "a", true), &mut out).expect("a slice");
        assert_eq!(endpoints(&mut out), [service("a", 0), service("b", 0)]);

        out.clear();
        sink.deleted(&slice("a-1", "a", true), &mut out).expect("a slice");
        assert!(out.is_empty(), "a has no endpoint either without its Service");

        sink.began(2, &mut out);
        sink.skipped();
        sink.ended(2, "9", &mut out);
        assert_eq!(endpoints(&mut out), [], "nothing is certain");
    }
}
