//! The verdicts about the control loops of the operator, as its metrics show them. Each is judged at a scrape, so that
//! nothing opens between two scrapes. Of several replicas, only the leader is judged: a standby without work is healthy.

use std::collections::BTreeMap;

use super::super::Model;
use super::super::detection::Detection;
use super::super::leases::pod_of;
use super::Instance;
use super::history::{History, Loop, STALE_AFTER};
use super::review::Verdicts;
use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::observation::{ControllerView, Role};
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// The time without an error after which a controller no longer counts as failing. The longest backoff of client-go is
/// 1,000 s.
const FAILURE_OVER_AFTER: Span = Span::mins(20);

/// How long a controller must be without a first reconcile although objects wait, so that one scrape shows nothing.
const UNSYNCED_FOR: Span = Span::mins(1);

/// One controller of an instance at its last scrape.
struct Scraped<'a> {
    at: Timestamp,
    instance: &'a str,
    history: &'a History,
    own: &'a Loop,
    view: &'a ControllerView,
}

/// A detector of one controller.
type LoopDetector = fn(&Model, &Scraped<'_>) -> Option<Detection>;

const OF_CONTROLLERS: &[LoopDetector] = &[
    Model::reconcile_failing,
    Model::reconcile_errors,
    Model::reconcile_stuck,
    Model::reconcile_panicking,
    Model::workers_saturated,
    Model::queue_backlog,
    Model::informer_not_synced,
];

// === impl Model ===

impl Model {
    /// Detects problems of the controllers of all instances that are judged.
    pub(super) fn loop_verdicts(&self, verdicts: &mut Verdicts) {
        let mut found: BTreeMap<(FindingCode, String), Detection> = BTreeMap::new();
        for (name, at, instance) in self.judged_instances() {
            verdicts.look_again(Some(at.after(STALE_AFTER)));
            let Some((_, metrics)) = &instance.metrics else { continue };
            for view in &metrics.controllers {
                let Some(own) = instance.history.controllers.get(&view.name) else { continue };
                let scraped = Scraped { at, instance: name, history: &instance.history, own, view };
                for detection in OF_CONTROLLERS.iter().filter_map(|detect| detect(self, &scraped)) {
                    let known = found.get(&(detection.code, view.name.clone()));
                    if known.is_none_or(|known| detection.since < known.since) {
                        found.insert((detection.code, view.name.clone()), detection);
                    }
                }
            }
        }
        for ((_, name), detection) in found {
            verdicts.push(Subject::Controller { name }, detection);
        }
    }

    /// Returns the instances with recent metrics that do the work: those that lead, as far as this is known.
    fn judged_instances(&self) -> Vec<(&str, Timestamp, &Instance)> {
        let fresh: Vec<_> = self.fresh_instances().collect();
        let leading = |instance: &Instance| instance.metrics.as_ref().and_then(|(_, metrics)| metrics.leading);
        let is_leader = |(_, _, instance): &&(&str, Timestamp, &Instance)| leading(instance) == Some(true);
        if fresh.iter().any(|row| is_leader(&row)) {
            return fresh.iter().filter(is_leader).copied().collect();
        }
        let holder = self.operator_lease().map(|(_, lease)| pod_of(&lease.holder));
        let holds = |name: &str| holder.is_some_and(|pod| name.rsplit('/').next() == Some(pod));
        if fresh.iter().any(|(name, ..)| holds(name)) {
            return fresh.into_iter().filter(|(name, ..)| holds(name)).collect();
        }
        fresh.into_iter().filter(|(_, _, instance)| leading(instance) != Some(false)).collect()
    }

    /// Returns the instances with recent metrics, and when they were scraped.
    pub(super) fn fresh_instances(&self) -> impl Iterator<Item = (&str, Timestamp, &Instance)> {
        let scraped = self.operator.instances.iter().filter_map(|(name, instance)| {
            let (at, _) = instance.metrics.as_ref()?;
            Some((name.as_str(), *at, instance))
        });
        scraped.filter(|(name, at, _)| self.is_instance(name) && self.now.since(*at) < STALE_AFTER)
    }

    fn of_loop(
        &self,
        scraped: &Scraped<'_>,
        code: FindingCode,
        since: Timestamp,
        evidence: impl FnOnce(Evidence) -> Evidence,
    ) -> Detection {
        let instance = Evidence::new().text("instance", scraped.instance);
        Detection::new(self.now, code, since, self.now, || evidence(instance))
    }

    /// Detects a controller of which no reconcile has succeeded since the first of several errors.
    fn reconcile_failing(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let failing = scraped.own.failing?;
        let lasted = scraped.at.since(failing.since) >= self.settings.reconcile_failing_after;
        let recent = scraped.at.since(failing.last) < FAILURE_OVER_AFTER;
        if !lasted || !recent || failing.errors < u64::from(self.settings.reconcile_errors) {
            return None;
        }
        let conflicts = scraped.history.conflicts.since(failing.since);
        let skipped = self.skipped_objects(&scraped.view.name);
        let detection = self.of_loop(scraped, FindingCode::ReconcileFailing, failing.since, |evidence| {
            let evidence = evidence
                .with("errors", count(failing.errors))
                .with("conflicts", count(conflicts))
                .with("failing_for", Value::Age(failing.since));
            if skipped == 0 { evidence } else { evidence.with("skipped_objects", count(skipped)) }
        });
        // The operator tries again after a conflict, which is no failure.
        Some(detection.suspected_if(conflicts.saturating_mul(10) >= failing.errors.saturating_mul(9)))
    }

    /// Notes errors beside successes, which people may want to know.
    fn reconcile_errors(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let errors = scraped.own.errors.sum();
        let first = scraped.own.errors.first()?;
        (errors >= u64::from(self.settings.reconcile_errors)).then(|| {
            self.of_loop(scraped, FindingCode::ReconcileErrors, first, |evidence| {
                evidence
                    .with("errors", count(errors))
                    .with("conflicts", count(scraped.history.conflicts.since(first)))
                    .with("window", Value::Span(self.settings.reconcile_failing_after))
            })
        })
    }

    /// Detects a reconcile that runs for much longer than usual. If the operator does not say how long its reconciles have been
    /// running, at least one of them has run since the last one ended.
    fn reconcile_stuck(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let running = match scraped.view.longest_running_seconds {
            Some(longest) => seconds(longest),
            None => scraped.at.since(scraped.own.unended_since?),
        };
        let durations = scraped.view.reconcile_seconds.filter(|durations| durations.count > 0);
        #[expect(clippy::cast_precision_loss, reason = "a mean needs only a few digits")]
        let usual = durations.map(|durations| seconds(durations.sum / durations.count as f64));
        let factor = i64::from(self.settings.reconcile_stuck_factor);
        let usually = Span(usual.unwrap_or_default().0.saturating_mul(factor));
        let threshold = self.settings.reconcile_stuck_after.max(usually);
        (running > threshold).then(|| {
            let since = scraped.at.after(Span(running.0.saturating_neg()));
            self.of_loop(scraped, FindingCode::ReconcileStuck, since, |evidence| {
                let evidence =
                    evidence.with("running_for", Value::Age(since)).with("threshold", Value::Span(threshold));
                match usual {
                    Some(usual) => evidence.with("usual", Value::Span(usual)),
                    None => evidence,
                }
            })
        })
    }

    fn reconcile_panicking(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let panics = &scraped.own.panics;
        let (first, last) = (panics.first()?, panics.last()?);
        Some(self.of_loop(scraped, FindingCode::ReconcilePanicking, first, |evidence| {
            evidence
                .with("panics", count(panics.sum()))
                .with("last_panic", Value::Age(last))
                .with("window", Value::Span(self.settings.restart_window))
        }))
    }

    fn workers_saturated(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let since = scraped.own.saturated_since?;
        (scraped.at.since(since) >= self.settings.workers_saturated_after).then(|| {
            self.of_loop(scraped, FindingCode::WorkersSaturated, since, |evidence| {
                evidence
                    .with("workers", count(scraped.view.workers_max.unwrap_or(0)))
                    .with("queue_depth", count(scraped.view.queue_depth.unwrap_or(0)))
                    .with("saturated_for", Value::Age(since))
            })
        })
    }

    /// Detects a queue that is long and does not shrink, or that has grown for long.
    fn queue_backlog(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let depth = count(scraped.view.queue_depth?);
        if let Some(backlog) = scraped.own.backlog.filter(|backlog| backlog.stands) {
            return Some(self.of_loop(scraped, FindingCode::QueueBacklog, backlog.since, |evidence| {
                evidence
                    .with("queue_depth", depth)
                    .with("threshold", Value::Count(i64::from(self.settings.queue_backlog)))
                    .with("backlog_for", Value::Age(backlog.since))
            }));
        }
        let grown = scraped.own.growth()?;
        let window = self.settings.queue_growth_window;
        let since = scraped.at.after(Span(window.0.saturating_neg()));
        Some(self.of_loop(scraped, FindingCode::QueueBacklog, since, |evidence| {
            evidence.with("queue_depth", depth).with("growth", count(grown)).with("window", Value::Span(window))
        }))
    }

    /// Detects a controller that has not begun any reconcile although objects wait: the workers of controller-runtime start
    /// after all informers have synced. No framework has a metric for that itself.
    fn informer_not_synced(&self, scraped: &Scraped<'_>) -> Option<Detection> {
        let since = scraped.own.unsynced_since?;
        (scraped.at.since(since) >= UNSYNCED_FOR).then(|| {
            self.of_loop(scraped, FindingCode::InformerNotSynced, since, |evidence| {
                evidence
                    .with("queue_depth", count(scraped.view.queue_depth.unwrap_or(0)))
                    .with("waiting_for", Value::Age(since))
            })
        })
    }

    /// Returns the number of suspended objects of the kind that a controller reconciles; of all primary kinds if its name
    /// names none.
    fn skipped_objects(&self, controller: &str) -> u64 {
        let primary = || self.kinds.iter().enumerate().filter(|(_, kind)| kind.role == Role::Primary);
        let named = primary().find(|(_, kind)| kind.kind.eq_ignore_ascii_case(controller)).map(|(number, _)| number);
        let counted = self.watches.iter().filter(|watch| {
            let kind = usize::from(watch.kind);
            watch.active && self.kinds[kind].role == Role::Primary && named.is_none_or(|named| named == kind)
        });
        let namespaces = counted.flat_map(|watch| &watch.namespaces);
        namespaces.map(|namespace| namespace.totals.states[ObjectState::Suspended as usize]).sum()
    }
}

/// Returns a number of seconds as a span. A number that is none is zero.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn seconds(seconds: f64) -> Span {
    Span((seconds * 1000.0).max(0.0) as i64)
}

/// Returns a count as evidence.
pub(super) fn count(count: u64) -> Value {
    Value::Count(i64::try_from(count).unwrap_or(i64::MAX))
}
