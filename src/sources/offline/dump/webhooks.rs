//! Webhooks in a dump, and the endpoints of their Services.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::observation::{
    Answer, DefinitionView, EndpointsView, ObjectAddress, Observation, Probe, WebhookKind,
    WebhookView,
};

use super::index::DumpIndex;
use super::items::Item;
use crate::sources::decoding::{endpoint_slice, webhook_configuration};

/// The webhooks of a dump.
#[derive(Debug, Default)]
pub(super) struct DumpedWebhooks {
    by_kind: BTreeMap<WebhookKind, Vec<WebhookView>>,
    /// The ready endpoints by Service.
    endpoints: BTreeMap<String, u32>,
}

impl DumpedWebhooks {
    /// Notes a configuration or an EndpointSlice. Returns whether the object is one of these.
    pub(super) fn add(&mut self, group: &str, kind: &str, item: &Item<'_>) -> Result<bool, String> {
        let kind = match (group, kind) {
            ("discovery.k8s.io", "EndpointSlice") => {
                let slice = endpoint_slice(item.json().as_bytes())
                    .map_err(|failure| failure.to_string())?;
                let ready = self.endpoints.entry(slice.service).or_default();
                *ready = ready.saturating_add(slice.ready);
                return Ok(true);
            }
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
                WebhookKind::Validating
            }
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
                WebhookKind::Mutating
            }
            _ => return Ok(false),
        };

        let configuration =
            webhook_configuration(item.json().as_bytes()).map_err(|failure| failure.to_string())?;
        self.by_kind.entry(kind).or_default().extend(configuration.webhooks);
        Ok(true)
    }

    /// Returns the observations about the webhooks, and about those of their Services of which the dump
    /// shows the endpoints, or that they do not exist.
    pub(super) fn observations(
        self,
        definitions: &[DefinitionView],
        index: &DumpIndex,
    ) -> impl Iterator<Item = Observation> + use<> {
        let Self { by_kind, endpoints } = self;
        let of_webhooks = by_kind.values().flatten().map(|view| view.service.clone());
        let conversions = definitions.iter().filter_map(|view| view.conversion.as_ref());
        let of_conversions = conversions.map(|view| view.service.clone());
        let services: BTreeSet<String> = of_webhooks.chain(of_conversions).collect();

        let endpoints = services.into_iter().filter_map(|service| match endpoints.get(&service) {
            Some(ready) => Some(EndpointsView { service, ready: *ready, absent: false }),
            None if is_absent(&service, index) => {
                Some(EndpointsView { service, ready: 0, absent: true })
            }
            None => None,
        });
        let endpoints: Vec<EndpointsView> = endpoints.collect();
        let endpoints = (!endpoints.is_empty()).then_some(Observation::EndpointsListed(endpoints));

        let webhooks = by_kind.into_iter();
        let webhooks =
            webhooks.map(|(kind, webhooks)| Observation::WebhooksListed { kind, webhooks });
        webhooks.chain(endpoints)
    }
}

/// Returns whether the dump shows that a Service does not exist.
fn is_absent(service: &str, index: &DumpIndex) -> bool {
    let Some((namespace, name)) = service.split_once('/') else { return false };
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let address = ObjectAddress { kind: "Service".to_owned(), namespace, name, ..<_>::default() };
    index.answer(&Probe::Read(address)) == Answer::Absent
}
