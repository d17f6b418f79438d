//! Objects of a dump that are evidence about others: namespaces, definitions, webhooks with their
//! endpoints, and the leases that show the time of the dump.

use loopwatch_model::model::annotated;
use loopwatch_model::observation::{DefinitionView, NamespaceView, ObjectView, Observation};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;

use super::index::DumpIndex;
use super::items::Item;
use super::siblings::Objects;
use super::webhooks::DumpedWebhooks;
use crate::sources::decoding::definition;

/// The namespaces, the definitions, the webhooks and the time.
#[derive(Debug, Default)]
pub(super) struct Special {
    namespaces: Vec<NamespaceView>,
    definitions: Vec<DefinitionView>,
    webhooks: DumpedWebhooks,
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
            _ if self.webhooks.add(group, kind, &item)? => {}
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
        let webhooks = self.webhooks.observations(&self.definitions, index);
        let definitions = self.definitions.into_iter().map(Observation::DefinitionSeen);

        namespaces.map(Observation::NamespaceSeen).chain(definitions).chain(webhooks)
    }
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
