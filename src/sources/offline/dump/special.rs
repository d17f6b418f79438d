//! Objects of a dump that are evidence about others: namespaces, definitions, webhooks with their
//! endpoints, and the leases that show the time of the dump.

use std::collections::BTreeMap;

use loopwatch_model::model::annotated;
use loopwatch_model::observation::{
    Answer, DefinitionView, EndpointsView, NamespaceView, ObjectAddress, ObjectView, Observation,
    Probe, WebhookKind, WebhookView,
};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;

use super::index::DumpIndex;
use super::items::Item;
use super::siblings::Objects;
use crate::sources::decoding::{definition, endpoint_slice, webhook_configuration};

/// The namespaces, the definitions, the webhooks and the time.
#[derive(Debug, Default)]
pub(super) struct Special {
    namespaces: Vec<NamespaceView>,
    definitions: Vec<DefinitionView>,
    webhooks: BTreeMap<WebhookKind, Vec<WebhookView>>,
    /// The ready endpoints by Service.
    endpoints: BTreeMap<String, u32>,
    /// The newest renewal of a lease of Kubernetes.
    pub(super) renewed: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LeaseDocument {
    spec: LeaseDocumentSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseDocumentSpec {
    renew_time: Option<String>,
}

const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The namespaces of leases that Kubernetes itself renews every few seconds. Other leases may
/// follow any clock.
const CLOCKS: [&str; 2] = ["kube-node-lease", "kube-system"];

impl Special {
    /// Notes an object of one of these kinds.
    pub(super) fn add(
        &mut self,
        group: &str,
        kind: &str,
        object: &ObjectView,
        item: Item<'_>,
    ) -> Result<(), String> {
        match (group, kind) {
            ("", "Namespace") => {
                let mut annotations = object.annotations.clone();
                annotations.retain(|name, _| annotated::ALL.contains(&name.as_str()));

                let (name, conditions) = (object.key.name.clone(), object.conditions.clone());
                let deleted = object.deleted;
                self.namespaces.push(NamespaceView {
                    name,
                    annotations,
                    deleted,
                    conditions,
                    ..NamespaceView::default()
                });
            }
            DEFINITION => {
                let (view, _) =
                    definition(item.json().as_bytes()).map_err(|failure| failure.to_string())?;
                self.definitions.push(view);
            }
            ("admissionregistration.k8s.io", kind) => {
                let kind = match kind {
                    "ValidatingWebhookConfiguration" => WebhookKind::Validating,
                    "MutatingWebhookConfiguration" => WebhookKind::Mutating,
                    _ => return Ok(()),
                };
                let configuration = webhook_configuration(item.json().as_bytes())
                    .map_err(|failure| failure.to_string())?;
                self.webhooks.entry(kind).or_default().extend(configuration.webhooks);
            }
            ("discovery.k8s.io", "EndpointSlice") => {
                let slice = endpoint_slice(item.json().as_bytes())
                    .map_err(|failure| failure.to_string())?;
                let ready = self.endpoints.entry(slice.service).or_default();
                *ready = ready.saturating_add(slice.ready);
            }
            ("coordination.k8s.io", "Lease") if CLOCKS.contains(&object.key.namespace.as_str()) => {
                let lease: LeaseDocument = serde_json::from_str(&item.json()).unwrap_or_default();
                let renewed = lease.spec.renew_time.and_then(|time| Timestamp::parse(&time));

                // Truncates to seconds, the precision of all other times in objects.
                self.renewed =
                    self.renewed.max(renewed.map(|at| Timestamp(at.0 - at.0.rem_euclid(1000))));
            }
            _ => {}
        }

        Ok(())
    }

    /// The definition of a kind.
    pub(super) fn definition(&self, group: &str, kind: &str) -> Option<&DefinitionView> {
        self.definitions.iter().find(|view| view.group == group && view.kind == kind)
    }

    /// The observations about namespaces, definitions and webhooks, in the order in which they were noted.
    pub(super) fn observations(self, index: &DumpIndex) -> impl Iterator<Item = Observation> {
        let namespaces = self.namespaces.into_iter();
        let namespaces =
            namespaces.filter(|view| view.deleted.is_some() || !view.annotations.is_empty());
        let definitions = self.definitions.into_iter().map(Observation::DefinitionSeen);
        let mut endpoints = self.endpoints;
        endpoints.extend(missing_services(&self.webhooks, index).map(|service| (service, 0)));
        let webhooks = self.webhooks.into_iter();
        let webhooks =
            webhooks.map(|(kind, webhooks)| Observation::WebhooksListed { kind, webhooks });
        let endpoints = endpoints.into_iter();
        let endpoints = endpoints.map(|(service, ready)| EndpointsView { service, ready });
        let endpoints: Vec<EndpointsView> = endpoints.collect();
        let endpoints = (!endpoints.is_empty()).then_some(Observation::EndpointsListed(endpoints));

        let namespaces = namespaces.map(Observation::NamespaceSeen);
        namespaces.chain(definitions).chain(webhooks).chain(endpoints)
    }
}

/// The Services of webhooks of which the dump shows that they do not exist.
fn missing_services(
    webhooks: &BTreeMap<WebhookKind, Vec<WebhookView>>,
    index: &DumpIndex,
) -> impl Iterator<Item = String> {
    let services = webhooks.values().flatten().map(|view| &view.service);
    let missing = services.filter(|service| {
        service.split_once('/').is_some_and(|(namespace, name)| {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            let address =
                ObjectAddress { kind: "Service".to_owned(), namespace, name, ..<_>::default() };
            index.answer(&Probe::Read(address)) == Answer::Absent
        })
    });

    let missing: Vec<String> = missing.cloned().collect();
    missing.into_iter()
}

/// Whether objects of this kind have only observations of their own, as in a cluster.
pub(super) fn is_namespace(group: &str, kind: &str) -> bool {
    (group, kind) == ("", "Namespace")
}

/// Takes the finalizers off definitions that are being deleted. The observation of the definition
/// says what holds the deletion, so the finalizer would only repeat it.
pub(super) fn leave_deletions_to_scopes(objects: &mut Objects) {
    let key = (DEFINITION.0.to_owned(), DEFINITION.1.to_owned());
    let Some((_, definitions)) = objects.get_mut(&key) else { return };
    for definition in definitions.iter_mut().filter(|object| object.deleted.is_some()) {
        definition.finalizers.clear();
    }
}
