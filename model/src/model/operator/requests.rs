//! The verdicts about the operator's requests to the API server. client-go counts them by status
//! code only. The reviews of the account show which permission a denied request probably lacked.

use std::collections::BTreeSet;

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::operator::history::{STALE_AFTER, fresh_until};
use crate::model::operator::review::Verdicts;
use crate::model::operator::scraped::leading;
use crate::model::operator::window::{Window, percentage};
use crate::model::world::World;
use crate::observation::InstanceName;
use crate::time::{Span, Timestamp};

/// Requests must have been denied in at least this many parts of the window, each of half a minute.
/// An operator may try once whether it is allowed to do something.
const FORBIDDEN_PARTS: u32 = 2;

/// From this percentage of failed requests on, hardly anything works, which justifies a page.
const BROKEN_PERCENT: u64 = 50;

/// The maximum number of missing permissions in the evidence.
const MAX_MISSING: usize = 5;

/// The requests of all instances within the window.
#[derive(Debug, Default)]
struct Sum {
    all: u64,
    /// The requests among them that failed, or those that the API server denied.
    counted: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The largest number of half minutes in which one instance had such requests.
    parts: u64,
}

impl Sum {
    fn add(&mut self, all: &Window, counted: &Window, at: Timestamp) {
        self.all = self.all.saturating_add(all.sum());
        self.counted = self.counted.saturating_add(counted.sum());
        self.first = self.first.into_iter().chain(counted.first().map(|first| first.min(at))).min();
        self.last = self.last.max(counted.last());
        self.parts = self.parts.max(counted.parts() as u64);
    }

    /// Returns the time between the first and the last of these requests.
    fn lasted(&self) -> Span {
        self.first.zip(self.last).map_or(Span::ZERO, |(first, last)| last.since(first))
    }

    /// Returns whether such requests have gone on for longer than a restart of the API server.
    fn is_long(&self, world: &World) -> bool {
        self.lasted() >= world.settings.source_failing_after
    }

    /// Returns whether hardly any request has worked for that long.
    fn is_broken(&self, world: &World) -> bool {
        self.percent() >= BROKEN_PERCENT && self.is_long(world)
    }

    fn percent(&self) -> u64 {
        // The two windows do not forget at the same instant, so the quotient may exceed 100.
        percentage(self.counted, self.all).min(100)
    }
}

/// Returns whether the account is known to lack a permission that the operator needs, or had.
fn lacks_permission(world: &World) -> bool {
    let withdrawn = world.permissions.values().any(|view| !view.withdrawn.is_empty());
    withdrawn || !world.permissions_missing().is_empty()
}

/// Returns the permissions that denied requests probably lacked, the most probable first: those that
/// the account has lost, the latest first, the usual writes that it may not do, and those that
/// loopwatch itself misses.
fn suspected_permissions(world: &World) -> Vec<String> {
    let views = world.permissions.values();
    let withdrawn =
        views.clone().flat_map(|view| view.withdrawn.iter().rev().map(move |p| (view, p)));
    let unwritable = views.flat_map(|view| view.unwritable.iter().map(move |p| (view, p)));
    let lacking = withdrawn
        .chain(unwritable)
        .map(|(view, permission)| (view.namespace.clone(), permission.clone()));

    let mut suspected: Vec<String> = Vec::new();
    for (namespace, permission) in lacking.chain(world.permissions_missing()) {
        let text = match namespace.is_empty() {
            true => permission.to_string(),
            false => format!("{permission} in {namespace}"),
        };
        if suspected.len() < MAX_MISSING && !suspected.contains(&text) {
            suspected.push(text);
        }
    }

    suspected
}

impl Operator {
    /// Returns whether the requests of a leader are broken, or those of all instances if nobody is
    /// known to lead. `broken` holds each instance with recent metrics, and whether its requests
    /// are.
    fn concerns_the_leader(&self, world: &World, broken: &[(&str, bool)]) -> bool {
        let holders: BTreeSet<&str> = self.operator_leaders(world, STALE_AFTER).collect();
        let leads = |name: &str| {
            let leads = self.instances.get(name).and_then(leading);
            let holds = InstanceName(name).pod().is_some_and(|(_, pod)| holders.contains(pod));
            leads.unwrap_or(holds)
        };

        let is_led = !holders.is_empty() || broken.iter().any(|(name, _)| leads(name));
        match is_led {
            true => broken.iter().any(|(name, is_broken)| *is_broken && leads(name)),
            false => broken.iter().all(|(_, is_broken)| *is_broken),
        }
    }

    /// Returns whether a problem of the requests is more than a restart of the API server or an
    /// upgrade of a role: it has gone on for longer, which the finding remembers while it is open, or
    /// another problem needs it as its explanation.
    fn alerts_about_requests(
        &mut self,
        world: &World,
        verdicts: &Verdicts,
        code: FindingCode,
        sum: &Sum,
    ) -> bool {
        let was_long = self.long_faults.contains(&code) && self.is_found(code);
        let alerts = was_long || sum.is_long(world) || verdicts.needs(world.now, code);
        match alerts {
            true => self.long_faults.insert(code),
            false => self.long_faults.remove(&code),
        };

        alerts
    }

    /// Detects requests of the operator that the API server denies, or that fail. All replicas
    /// count, because they use one account. A standby sends little besides requests for its lease.
    pub(super) fn request_verdicts(&mut self, world: &World, verdicts: &mut Verdicts) {
        let (mut failed, mut forbidden) = (Sum::default(), Sum::default());
        let mut broken: Vec<(&str, bool)> = Vec::new();
        for (name, at, instance) in self.fresh_instances(world) {
            verdicts
                .look_again(instance.metrics.as_ref().map(|(_, metrics)| fresh_until(at, metrics)));
            let history = &instance.history;
            failed.add(&history.requests, &history.failed, at);
            forbidden.add(&history.requests, &history.forbidden, at);

            let mut own = Sum::default();
            own.add(&history.requests, &history.failed, at);
            broken.push((name, own.is_broken(world)));
        }

        let (settings, window) = (&world.settings, world.settings.api_window);
        let evidence = |sum: &Sum| {
            let evidence = Evidence::new()
                .with("requests", Value::count(sum.counted))
                .with("window", Value::Span(window));

            evidence.with("percent", Value::count(sum.percent()))
        };

        let needed = |code, to_open| u64::from(self.threshold(code, to_open));
        let is_failing = failed.counted >= needed(FindingCode::ApiErrors, settings.api_errors)
            && failed.percent() >= needed(FindingCode::ApiErrors, settings.api_error_percent);
        let is_denied = forbidden.counted
            >= needed(FindingCode::ApiForbidden, settings.forbidden_requests)
            && forbidden.parts >= needed(FindingCode::ApiForbidden, FORBIDDEN_PARTS);

        if let Some(first) = failed.first.filter(|_| is_failing) {
            let detection =
                Detection::new(world.now, FindingCode::ApiErrors, first, world.now, || {
                    evidence(&failed)
                });

            // An idle operator sends hardly anything but retries, so the restart of an API server
            // fills its window with failures. Only failures that last justify a page.
            // While a leader works, a standby that cannot reach the API server harms nobody.
            let pages = failed.is_broken(world) && self.concerns_the_leader(world, &broken);
            let code = FindingCode::ApiErrors;
            let alerts = self.alerts_about_requests(world, verdicts, code, &failed);
            let detection = detection.weak_if(!pages).blocks_if(pages).suspected_if(!alerts);
            verdicts.push(self.operator_subject(), detection);
        }

        // A permission that is missing for long explains other problems only when it becomes worse.
        let least = u64::from(settings.forbidden_requests);
        let worse_since = self.forbidden_rise.note(world.now, forbidden.counted, least);
        if let Some((first, last)) = forbidden.first.zip(forbidden.last).filter(|_| is_denied) {
            let detection =
                Detection::new(world.now, FindingCode::ApiForbidden, first, world.now, || {
                    evidence(&forbidden).names("missing", suspected_permissions(world))
                });

            // The API server also denies the creation of objects in a namespace that is being
            // deleted, whatever the account's rights.
            let is_explained =
                !lacks_permission(world) && world.namespaces.were_terminating(first, last);
            let code = FindingCode::ApiForbidden;
            let alerts = self.alerts_about_requests(world, verdicts, code, &forbidden);
            let detection = detection.blocks_if(false).worse_since(worse_since);
            let detection = detection.suspected_if(is_explained || !alerts);
            verdicts.push(self.operator_subject(), detection);
        }
    }
}
