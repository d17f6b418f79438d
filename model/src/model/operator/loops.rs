//! The verdicts about the control loops of the operator, as its metrics show them. Each is judged
//! as of its last scrape, so no finding opens between two scrapes. With several replicas, only the
//! leader is judged: a standby without work is healthy.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::conflicts::conflict_storm;
use crate::model::operator::history::{STALE_AFTER, fresh_until, kept_until};
use crate::model::operator::review::Verdicts;
use crate::model::operator::scraped::{Scraped, leading, of_loop};
use crate::model::operator::silent_loop::silent_hot_loop;
use crate::model::operator::{Instance, Operator, reconciled};
use crate::model::world::World;
use crate::observation::{InstanceName, ProfileKind, Role, WaitingStack};
use crate::snapshot::ObjectState;
use crate::time::{Span, Timestamp};

/// The time without an error after which a controller no longer counts as failing. The longest
/// backoff of client-go is 1,000 s.
const FAILURE_OVER_AFTER: Span = Span::mins(20);

/// A reconcile may run this many times as long as the longest one that has succeeded. The mean of
/// all reconciles hides a few long ones.
const TIMES_LONGEST: f64 = 2.0;

/// The maximum time that such an earlier reconcile allows a later one.
const LONGEST_LEARNED: Span = Span::hours(4);

/// How long objects must have waited for the first reconcile, in addition to the time that the
/// caches may take to fill.
const UNSYNCED_FOR: Span = Span::mins(1);

/// A detector of one controller.
type LoopDetector = fn(&World, &Scraped<'_>) -> Option<Detection>;

const OF_CONTROLLERS: &[LoopDetector] = &[
    reconcile_failing,
    reconcile_errors,
    reconcile_stuck,
    reconcile_panicking,
    workers_saturated,
    queue_backlog,
    informer_not_synced,
    conflict_storm,
    silent_hot_loop,
];

impl Operator {
    /// Detects problems of the controllers of all instances that are judged.
    pub(super) fn loop_verdicts(&self, world: &World, verdicts: &mut Verdicts) {
        let mut found: BTreeMap<(FindingCode, String), Detection> = BTreeMap::new();
        for (name, at, instance) in self.judged_instances(world) {
            verdicts
                .look_again(instance.metrics.as_ref().map(|(_, metrics)| fresh_until(at, metrics)));
            for (controller, detection) in self.of_instance(world, name, at, instance) {
                let known = found.get(&(detection.code, controller.clone()));
                if known.is_none_or(|known| detection.since < known.since) {
                    found.insert((detection.code, controller), detection);
                }
            }
        }

        for ((_, name), detection) in found {
            verdicts.push(Subject::Controller { name }, detection);
        }

        for (name, at, instance, until) in self.unseen_instances(world) {
            verdicts.look_again(Some(until));
            for (name, detection) in self.of_instance(world, name, at, instance) {
                verdicts.keep_about(Subject::Controller { name }, detection.code);
            }

            let requests = [
                (FindingCode::ApiErrors, &instance.history.failed),
                (FindingCode::ApiForbidden, &instance.history.forbidden),
            ];

            requests
                .iter()
                .filter(|(_, window)| window.sum() > 0)
                .for_each(|(code, _)| verdicts.keep(*code));
        }
    }

    /// Returns the problems that the last scrape of an instance has shown, each with the name of
    /// its controller.
    fn of_instance(
        &self,
        world: &World,
        name: &str,
        at: Timestamp,
        instance: &Instance,
    ) -> Vec<(String, Detection)> {
        let controllers = instance.metrics.iter().flat_map(|(_, metrics)| &metrics.controllers);
        let known = controllers
            .filter_map(|view| Some((view, instance.history.controllers.get(&view.name)?)));
        let shown = known.flat_map(|(view, own)| {
            let usual = self.usual.of(&view.name);
            let history = &instance.history;
            let goroutines = instance.profiles.get(&ProfileKind::Goroutines);
            let found = &self.found;
            let scraped =
                Scraped { at, instance: name, history, goroutines, own, view, usual, found };
            let found: Vec<_> =
                OF_CONTROLLERS.iter().filter_map(|detect| detect(world, &scraped)).collect();
            found.into_iter().map(|detection| (view.name.clone(), detection))
        });

        shown.collect()
    }

    /// Returns the instances that do the work but can no longer be scraped, and until when the
    /// findings from their last scrape stay open. Returns none if another instance leads, or if the
    /// operator is down and no controller can work.
    fn unseen_instances(&self, world: &World) -> Vec<(&str, Timestamp, &Instance, Timestamp)> {
        let is_led =
            self.fresh_instances(world).any(|(_, _, instance)| leading(instance) == Some(true));
        if is_led || self.down || self.operator_up(world) == Some(false) {
            return Vec::new();
        }

        let scraped = self.instances.iter().filter(|(name, _)| self.may_run(name));
        let unseen = scraped.filter_map(|(name, instance)| {
            let (at, metrics) = instance.metrics.as_ref()?;
            let until = kept_until(*at, metrics);
            let is_unseen = fresh_until(*at, metrics) <= world.now && world.now < until;
            let container = self.pod_of(name).and_then(|pod| pod.containers.first());

            // If the container has restarted since the scrape, the reconciles of that process have
            // ended.
            let is_same = container
                .and_then(|container| container.running_since)
                .is_none_or(|since| since <= *at);
            (is_unseen && is_same && self.may_lead(world, name, instance)).then_some((
                name.as_str(),
                *at,
                instance,
                until,
            ))
        });

        unseen.collect()
    }

    /// Returns whether an instance does the work, as far as the leases or else its own metrics show
    /// it.
    fn may_lead(&self, world: &World, name: &str, instance: &Instance) -> bool {
        // Each controller may have a lease of its own, with another holder.
        let holders: BTreeSet<&str> = self.operator_leaders(world, STALE_AFTER).collect();
        match InstanceName(name).pod() {
            Some((_, pod)) if !holders.is_empty() => holders.contains(pod),
            _ => leading(instance) != Some(false),
        }
    }

    /// Returns the instances with recent metrics that do the work: those that lead, as far as this
    /// is known.
    fn judged_instances(&self, world: &World) -> Vec<(&str, Timestamp, &Instance)> {
        let fresh: Vec<_> = self.fresh_instances(world).collect();
        let is_leader =
            |(_, _, instance): &&(&str, Timestamp, &Instance)| leading(instance) == Some(true);
        if fresh.iter().any(|row| is_leader(&row)) {
            return fresh.iter().filter(is_leader).copied().collect();
        }

        fresh
            .into_iter()
            .filter(|(name, _, instance)| self.may_lead(world, name, instance))
            .collect()
    }

    /// Returns the instances with recent metrics, and when they were scraped.
    pub(super) fn fresh_instances(
        &self,
        world: &World,
    ) -> impl Iterator<Item = (&str, Timestamp, &Instance)> {
        self.instances.iter().filter_map(|(name, instance)| {
            let (at, metrics) = instance.metrics.as_ref()?;
            let counts = self.may_run(name) && world.now < fresh_until(*at, metrics);
            counts.then_some((name.as_str(), *at, instance))
        })
    }

    /// Returns when a reconcile of each controller last succeeded, as far as scrapes have shown it.
    pub(super) fn controllers_succeeded(&self) -> BTreeMap<String, Timestamp> {
        let mut latest = BTreeMap::<String, Timestamp>::new();
        let histories = self.instances.values().flat_map(|instance| &instance.history.controllers);
        for (name, at) in histories.filter_map(|(name, own)| Some((name, own.succeeded?))) {
            latest.entry(name.clone()).and_modify(|known| *known = at.max(*known)).or_insert(at);
        }

        latest
    }
}

/// Detects a controller with several errors and no success since the first of them.
fn reconcile_failing(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let failing = scraped.own.failing?;
    let lasted = scraped.at.since(failing.since) >= world.settings.reconcile_failing_after;
    let recent = scraped.at.since(failing.last) < FAILURE_OVER_AFTER;

    if !lasted || !recent || failing.errors < u64::from(world.settings.reconcile_errors) {
        return None;
    }

    let conflicts = scraped.history.conflicts.since(failing.since);
    let skipped = skipped_objects(world, &scraped.view.name);
    let detection =
        of_loop(world, scraped, FindingCode::ReconcileFailing, failing.since, |evidence| {
            let evidence = evidence
                .with("errors", Value::count(failing.errors))
                .with("conflicts", Value::count(conflicts))
                .with("failing_for", Value::Age(failing.since));
            if skipped == 0 {
                evidence
            } else {
                evidence.with("skipped_objects", Value::count(skipped))
            }
        });

    Some(detection.suspected_if(may_be_conflicts(failing.errors, conflicts)))
}

/// Reports errors between successes. The controller works, but people may want to know.
fn reconcile_errors(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let errors = scraped.own.errors.sum();
    let first = scraped.own.errors.first()?;
    let conflicts = scraped.history.conflicts.since(first);
    if errors < u64::from(world.settings.reconcile_errors) || may_be_conflicts(errors, conflicts) {
        return None;
    }

    Some(of_loop(world, scraped, FindingCode::ReconcileErrors, first, |evidence| {
        evidence
            .with("errors", Value::count(errors))
            .with("conflicts", Value::count(conflicts))
            .with("window", Value::Span(world.settings.reconcile_failing_after))
    }))
}

/// Returns whether conflicts may account for nearly all errors of a controller. The conflicts of all
/// controllers are counted together. A conflict is no failure, because the operator tries again; a
/// [`conflict_storm`] is a finding of its own.
fn may_be_conflicts(errors: u64, conflicts: u64) -> bool {
    conflicts.saturating_mul(10) >= errors.saturating_mul(9)
}

/// Detects a reconcile that runs for much longer than usual. If the operator does not report how
/// long its reconciles have been running, the time without the end of any reconcile counts.
fn reconcile_stuck(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let running = match scraped.view.longest_running_seconds {
        Some(longest) => Span::of_seconds(longest),
        None => scraped.at.since(scraped.own.unended_since?),
    };
    let learned = Some(scraped.usual.mean).filter(|mean| *mean > 0.0);
    let usual = learned.map(Span::of_seconds);

    let factor = i64::from(world.settings.reconcile_stuck_factor);
    let usually = Span(usual.unwrap_or_default().0.saturating_mul(factor)).min(LONGEST_LEARNED);
    let before = as_long_as_before(scraped);
    let threshold = world.settings.reconcile_stuck_after.max(usually).max(before);

    (running > threshold).then(|| {
        let since = scraped.at.before(running);
        of_loop(world, scraped, FindingCode::ReconcileStuck, since, |evidence| {
            let evidence = evidence
                .with("running_for", Value::Age(since))
                .with("threshold", Value::Span(threshold));
            evidence
                .with_some("usual", usual.map(Value::Span))
                .names("waits_in", waits_in(scraped, since))
        })
    })
}

/// Returns the functions in which reconciles of a controller have waited since the problem began: of
/// the stack whose function is named after the controller, or else of the most frequent one.
fn waits_in(scraped: &Scraped<'_>, since: Timestamp) -> Vec<String> {
    let profile = scraped.goroutines.filter(|profile| profile.from >= since);
    let waiting = profile.map_or(&[][..], |profile| &profile.waiting);
    let letters = |text: &str| text.replace(|c: char| !c.is_alphanumeric(), "").to_lowercase();
    let controller = letters(&scraped.view.name);
    let named = waiting.iter().find(|stack| letters(&stack.reconcile).contains(&controller));
    named.or(waiting.first()).map(WaitingStack::place).unwrap_or_default()
}

fn reconcile_panicking(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let panics = &scraped.own.panics;
    let (first, last) = (panics.first()?, panics.last()?);
    Some(of_loop(world, scraped, FindingCode::ReconcilePanicking, first, |evidence| {
        evidence
            .with("panics", Value::count(panics.sum()))
            .with("last_panic", Value::Age(last))
            .with("window", Value::Span(world.settings.restart_window))
    }))
}

/// Returns how long a reconcile may take because an earlier one has succeeded after a similar time.
fn as_long_as_before(scraped: &Scraped<'_>) -> Span {
    Span::of_seconds(scraped.usual.longest() * TIMES_LONGEST).min(LONGEST_LEARNED)
}

/// Detects workers that are all busy while objects wait. A single worker is busy during each long
/// reconcile, so as long as one usually takes, that is nothing special.
fn workers_saturated(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let since = scraped.own.saturated?.since;
    let is_single = scraped.view.workers_max == Some(1);
    let usual = if is_single { as_long_as_before(scraped) } else { Span::ZERO };
    let threshold = world.settings.workers_saturated_after.max(usual);
    (scraped.at.since(since) >= threshold).then(|| {
        of_loop(world, scraped, FindingCode::WorkersSaturated, since, |evidence| {
            evidence
                .with("workers", Value::count(scraped.view.workers_max.unwrap_or(0)))
                .with("queue_depth", Value::count(scraped.view.queue_depth.unwrap_or(0)))
                .with("saturated_for", Value::Age(since))
        })
    })
}

/// Detects a queue that is long and does not shrink, or that has grown for a long time.
fn queue_backlog(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let depth = Value::count(scraped.view.queue_depth?);
    if let Some(backlog) = scraped.own.backlog.filter(|backlog| backlog.stands) {
        let since = backlog.queue.since;
        return Some(of_loop(world, scraped, FindingCode::QueueBacklog, since, |evidence| {
            evidence
                .with("queue_depth", depth)
                .with("threshold", Value::Count(i64::from(world.settings.queue_backlog)))
                .with("backlog_for", Value::Age(since))
                .names("waits_in", waits_in(scraped, since))
        }));
    }

    let grown = scraped.own.grown?;
    let window = world.settings.queue_growth_window;
    let since = scraped.at.before(window);
    Some(of_loop(world, scraped, FindingCode::QueueBacklog, since, |evidence| {
        evidence
            .with("queue_depth", depth)
            .with("growth", Value::count(grown))
            .with("window", Value::Span(window))
            .names("waits_in", waits_in(scraped, since))
    }))
}

/// Detects a controller that has not begun any reconcile although objects wait: the workers of
/// controller-runtime start after all informers have synced. No framework has a metric for the sync
/// itself.
fn informer_not_synced(world: &World, scraped: &Scraped<'_>) -> Option<Detection> {
    let since = scraped.own.unsynced_since?;

    // A standby that takes over fills its caches only then, however long its process has run.
    let due = since.after(world.settings.informer_sync_within).after(UNSYNCED_FOR);
    (scraped.at >= due).then(|| {
        of_loop(world, scraped, FindingCode::InformerNotSynced, since, |evidence| {
            evidence
                .with("queue_depth", Value::count(scraped.view.queue_depth.unwrap_or(0)))
                .with("waiting_for", Value::Age(since))
        })
    })
}

/// Returns the number of objects that are suspended, or that a mark makes the operator skip, of the
/// kind that a controller reconciles; of all primary kinds if its name fits none.
fn skipped_objects(world: &World, controller: &str) -> u64 {
    let named = reconciled::kind_of_controller(world, controller);
    let counted = world.watches.iter().filter(|watch| {
        let is_primary = world.kinds[usize::from(watch.kind)].role == Role::Primary;
        watch.active && is_primary && named.is_none_or(|named| named == watch.kind)
    });
    let states = counted.flat_map(|watch| &watch.namespaces).map(|known| &known.totals.states);
    let skipped = [ObjectState::Suspended as usize, ObjectState::Skipped as usize];

    states.map(|states| skipped.iter().map(|state| states[*state]).sum::<u64>()).sum()
}
