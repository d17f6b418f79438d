//! The webhooks that are registered for the operator's kinds and for Pods, and the endpoints of their
//! Services.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Subject;
use crate::model::machinery::reports::{EndpointReport, Report};
use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::observation::{
    CallFailure, Consulted, ConversionView, DefinitionView, EndpointsView, FailedCall,
    MAX_WEBHOOKS, WebhookKind, WebhookRule, WebhookView,
};
use crate::time::{Span, Timestamp};

/// The registered webhooks.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    webhooks: BTreeMap<WebhookKind, Vec<Registration>>,
    /// By the name of the definition; at most [`MAX_WEBHOOKS`].
    conversions: BTreeMap<String, Conversion>,
    /// The Services whose endpoints are known; `None` if one is ready.
    endpoints: BTreeMap<String, Option<Unready>>,
}

/// A registered webhook.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) view: WebhookView,
    /// Since when the configuration has named the present authorities.
    pub(super) ca_since: Timestamp,
}

/// The conversion webhook of a definition with several versions.
#[derive(Debug)]
pub(super) struct Conversion {
    group: String,
    kind: String,
    pub(super) view: ConversionView,
    /// Since when the definition has named the present authorities.
    pub(super) ca_since: Timestamp,
}

/// A Service without an endpoint that is ready.
#[derive(Clone, Copy, Debug)]
struct Unready {
    since: Timestamp,
    /// Whether one was ready before.
    was_ready: bool,
    /// Whether the Service does not exist.
    is_absent: bool,
}

impl Registrations {
    pub(super) fn is_empty(&self) -> bool {
        self.webhooks.values().all(Vec::is_empty) && self.conversions.is_empty()
    }

    /// Takes a definition. With a single version, the API server converts nothing.
    pub(super) fn note_definition(&mut self, now: Timestamp, definition: &DefinitionView) {
        let DefinitionView { name, group, kind, served, stored, storage, .. } = definition;
        let versions: BTreeSet<&String> = served.iter().chain(stored).chain([storage]).collect();
        let view = definition.conversion.as_ref().filter(|_| versions.len() > 1);
        let known = self.conversions.remove(name);
        if let Some(view) = view.filter(|_| self.conversions.len() < MAX_WEBHOOKS) {
            let same = known.filter(|known| known.view.ca == view.ca);
            let ca_since = same.map_or(now, |known| known.ca_since);
            let (group, kind, view) = (group.clone(), kind.clone(), view.clone());
            self.conversions.insert(name.clone(), Conversion { group, kind, view, ca_since });
        }
    }

    /// Returns the names of the definitions with a conversion webhook.
    pub(super) fn definitions(&self) -> impl Iterator<Item = &String> {
        self.conversions.keys()
    }

    /// Returns the name of the definition of a kind with a conversion webhook.
    pub(super) fn definition_of(&self, group: &str, kind: &str) -> Option<&str> {
        let mut conversions = self.conversions.iter();
        let found = conversions.find(|(_, it)| it.group == group && it.kind == kind);
        found.map(|(name, _)| name.as_str())
    }

    /// Forgets a definition that is gone.
    pub(super) fn forget_definition(&mut self, name: &str) {
        self.conversions.remove(name);
    }

    /// Takes all webhooks of one kind.
    pub(super) fn note_webhooks(
        &mut self,
        world: &mut World,
        kind: WebhookKind,
        webhooks: Vec<WebhookView>,
    ) {
        let now = world.now;
        let known = self.webhooks.remove(&kind).unwrap_or_default();
        let ca_since = |view: &WebhookView| {
            let same = known.iter().find(|it| {
                let WebhookView { configuration, name, ca, .. } = &it.view;
                (configuration, name, ca) == (&view.configuration, &view.name, &view.ca)
            });
            same.map_or(now, |known| known.ca_since)
        };

        let over = webhooks.len().saturating_sub(MAX_WEBHOOKS);
        (0..over).for_each(|_| world.count_dropped(Limit::Webhooks));
        let webhooks = webhooks.into_iter().take(MAX_WEBHOOKS);
        let webhooks = webhooks.map(|view| Registration { ca_since: ca_since(&view), view });
        self.webhooks.insert(kind, webhooks.collect());
    }

    /// Takes the endpoints of all Services of webhooks.
    pub(super) fn note_endpoints(&mut self, now: Timestamp, endpoints: Vec<EndpointsView>) {
        let known = std::mem::take(&mut self.endpoints);
        let endpoints = endpoints.into_iter().take(MAX_WEBHOOKS);
        let endpoints = endpoints.map(|EndpointsView { service, ready, absent }| {
            let unready = match known.get(&service) {
                Some(Some(unready)) => Unready { is_absent: absent, ..*unready },
                known => Unready { since: now, was_ready: known.is_some(), is_absent: absent },
            };
            (service, (ready == 0).then_some(unready))
        });
        self.endpoints = endpoints.collect();
    }

    /// Returns the webhooks without which the API server refuses requests, and whose Services have no
    /// endpoint that is ready.
    pub(super) fn without_endpoints(&self, world: &World) -> BTreeMap<Consulted, EndpointReport> {
        let closed = self.covering(world).filter(|it| it.view.fails_closed);
        let admissions = closed.map(|Registration { view, .. }| {
            (Consulted::Admission(view.name.clone()), &view.service)
        });
        let conversions = self.converting(world).map(|(_, it)| {
            let (group, kind) = (it.group.clone(), it.kind.clone());
            (Consulted::Conversion { group, kind }, &it.view.service)
        });

        let unready = admissions.chain(conversions).filter_map(|(webhook, service)| {
            let Unready { since, was_ready, is_absent } = (*self.endpoints.get(service)?)?;
            let (service, cause) = (service.clone(), CallFailure::NoEndpoints);
            let call = FailedCall { consulted: webhook.clone(), service, cause };
            let report = Report { call, since };
            Some((webhook, EndpointReport { report, was_ready, is_absent }))
        });
        unready.collect()
    }

    /// Returns the kinds whose objects the API server shows to a webhook before it stores them.
    pub(super) fn covered_kinds(&self, world: &World, name: &str) -> Vec<Subject> {
        let rules: Vec<&WebhookRule> = self
            .all()
            .filter(|it| it.view.name == name && it.view.fails_closed)
            .flat_map(|it| &it.view.rules)
            .collect();
        let is_covered =
            |group: &str, resource: &str| rules.iter().any(|rule| rule.covers(group, resource));

        let kinds = world.kinds.iter().filter(|kind| world.served_groups.contains(&kind.group));
        let covered = kinds.filter(|kind| is_covered(&kind.group, &kind.resource));
        covered
            .map(|kind| Subject::Kind {
                group: kind.group.to_string(),
                kind: kind.kind.to_string(),
            })
            .collect()
    }

    /// Returns how long the API server waits at most for the answers of all webhooks of the operator that cover
    /// the same kind as this one, for the kind where that takes longest. It calls mutating webhooks one after
    /// another, and validating ones at the same time (Kubernetes: "Dynamic Admission Control").
    pub(super) fn longest_wait(&self, world: &World, view: &WebhookView) -> Option<Span> {
        let kinds = world.kinds.iter().map(|kind| (&*kind.group, &*kind.resource));
        let covered = kinds.filter(|(group, resource)| view.covers(group, resource));
        let wait = |(group, resource): (&str, &str)| {
            let timeouts = |kind: WebhookKind| {
                let all = self.webhooks.get(&kind).into_iter().flatten();
                let covering = all.filter(move |it| it.view.covers(group, resource));
                covering.map(|it| it.view.timeout_or_default().0)
            };
            let validating = timeouts(WebhookKind::Validating).max().unwrap_or_default();
            Span(timeouts(WebhookKind::Mutating).fold(validating, i64::saturating_add))
        };
        covered.map(wait).max()
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        let registrations = self.webhooks.values_mut().flatten().map(|it| &mut it.ca_since);
        let conversions = self.conversions.values_mut().map(|it| &mut it.ca_since);
        let endpoints = self.endpoints.values_mut().flatten().map(|it| &mut it.since);
        let all = registrations.chain(conversions).chain(endpoints);
        all.for_each(|at| *at = at.shifted(by_ms));
    }

    /// Returns whether another Service has a webhook with the same path. The metrics of an operator name
    /// only the path.
    pub(super) fn is_path_of_others(&self, view: &WebhookView) -> bool {
        self.all().any(|it| it.view.path == view.path && it.view.service != view.service)
    }

    fn all(&self) -> impl Iterator<Item = &Registration> {
        self.webhooks.values().flatten()
    }

    /// Returns the conversion webhooks of the operator's kinds, by the names of their definitions.
    pub(super) fn converting(&self, world: &World) -> impl Iterator<Item = (&String, &Conversion)> {
        let is_served = |group: &str| world.looks_once || world.served_groups.contains(group);
        self.conversions.iter().filter(move |(_, it)| is_served(&it.group))
    }

    /// Returns the webhooks that cover a kind of the operator, or Pods. Those who look once at a dump
    /// look at all of it. Nobody calls a webhook without rules.
    pub(super) fn covering(&self, world: &World) -> impl Iterator<Item = &Registration> {
        self.all().filter(|it| {
            let covers_kind = |rule: &WebhookRule| {
                let is_served =
                    |group: &String| group == "*" || world.served_groups.contains(group.as_str());
                rule.groups.iter().any(is_served)
            };
            let covers =
                |rule: &WebhookRule| world.looks_once || covers_kind(rule) || rule.covers_pods();
            it.view.rules.iter().any(covers)
        })
    }
}
