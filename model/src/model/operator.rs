//! The operator itself: its Pods, and each instance with its controllers and its process.

use std::collections::BTreeMap;

use super::Model;
use crate::observation::{Answer, Cause, MetricsView, OperatorView, ProcessView, ProfileKind, ProfileView, SourceId};
use crate::time::Timestamp;

/// The maximum number of instances. Those that loopwatch has not seen for longest make room.
pub(super) const MAX_INSTANCES: usize = 50;

/// All that is known about the operator.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// Its workload and Pods; absent until they are read for the first time.
    pub(crate) view: Option<OperatorView>,
    /// By the name of the instance.
    pub(crate) instances: BTreeMap<String, Instance>,
}

/// One process of the operator, and those that ran before it under the same name.
#[derive(Debug, Default)]
pub(crate) struct Instance {
    /// When loopwatch last heard of it.
    pub(crate) seen: Timestamp,
    /// The last scrape.
    pub(crate) metrics: Option<(Timestamp, MetricsView)>,
    /// Why scrapes fail, and since when; absent if the last one succeeded.
    pub(crate) scrape_failure: Option<(Timestamp, Cause)>,
    /// The process as the kernel last described it.
    pub(crate) process: Option<(Timestamp, ProcessView)>,
    /// The last comparison of profiles of each kind.
    pub(crate) profiles: BTreeMap<ProfileKind, ProfileView>,
}

// === impl Operator ===

impl Operator {
    /// Returns an instance, which it adds if necessary.
    fn instance(&mut self, now: Timestamp, name: &str) -> &mut Instance {
        if !self.instances.contains_key(name) && self.instances.len() >= MAX_INSTANCES {
            let oldest = self.instances.iter().min_by_key(|(_, instance)| instance.seen).map(|(name, _)| name.clone());
            oldest.into_iter().for_each(|name| _ = self.instances.remove(&name));
        }
        let instance = self.instances.entry(name.to_owned()).or_default();
        instance.seen = now;
        instance
    }
}

// === impl Model ===

impl Model {
    pub(super) fn operator_seen(&mut self, view: OperatorView) {
        self.sources.note_success(&SourceId::Pods, self.now);
        self.operator.view = Some(view);
    }

    pub(super) fn metrics_scraped(&mut self, view: MetricsView) {
        self.sources.note_success(&SourceId::Metrics, self.now);
        let instance = self.operator.instance(self.now, &view.instance);
        instance.scrape_failure = None;
        instance.metrics = Some((self.now, view));
    }

    pub(super) fn scrape_failed(&mut self, instance: &str, cause: Cause, _detail: &str) {
        let now = self.now;
        let instance = self.operator.instance(now, instance);
        let since = instance.scrape_failure.map_or(now, |(since, _)| since);
        instance.scrape_failure = Some((since, cause));
    }

    pub(super) fn process_seen(&mut self, view: ProcessView) {
        self.sources.note_success(&SourceId::Process, self.now);
        let now = self.now;
        let instance = self.operator.instance(now, &view.instance);
        instance.process = Some((now, view));
    }

    pub(super) fn process_gone(&mut self, instance: &str) {
        if let Some(instance) = self.operator.instances.get_mut(instance) {
            instance.process = None;
        }
    }

    pub(super) fn profiled(&mut self, instance: &str, kind: ProfileKind, answer: Answer) {
        self.sources.note_success(&SourceId::Profiles, self.now);
        if let (Some(instance), Answer::Profiled(profile)) = (self.operator.instances.get_mut(instance), answer) {
            instance.profiles.insert(kind, *profile);
        }
    }
}
