//! How long the operator takes to recover from a fault of the API server. It has recovered when its
//! queues are as short as before, and no object is left that became unconverged during the fault
//! and still is.

use crate::finding::FindingCode;
use crate::model::operator::Operator;
use crate::model::operator::history::queued;
use crate::model::world::World;
use crate::model::world::kinds::{Kind, Watch};
use crate::model::world::store::Slot;
use crate::model::world::visibility::Visibility;
use crate::observation::Role;
use crate::snapshot::OperatorHealth;
use crate::time::{Span, Timestamp};

/// A shorter fault is only a broken connection.
const SHORTEST_FAULT: Span = Span::secs(30);

/// A fault counts as over after this time without a failed request. An operator repeats failed
/// requests more and more rarely.
const QUIET: Span = Span::secs(45);

/// How often a recovery is checked.
const CHECK_EVERY: Span = Span::secs(10);

/// The longest recovery. Objects that have not converged by then have another problem.
const LONGEST: Span = Span::hours(24);

/// Times in managed fields are whole seconds, so an object may have changed later than they say.
const WRITTEN_GRAIN: Span = Span::secs(1);

/// The recovery from faults of the API server.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    fault: Option<Fault>,
    /// How long the last recovery took.
    took: Option<Span>,
    /// The last sign of the fault before that recovery. `ApiErrors` may stay open for longer.
    ended: Option<Timestamp>,
}

/// A fault of the API server.
#[derive(Clone, Copy, Debug)]
struct Fault {
    since: Timestamp,
    /// The last sign of the fault.
    last: Timestamp,
    /// loopwatch itself cannot reach the API server. The fault lasts until it can.
    lasts: bool,
    /// The fault is over, and the operator recovers.
    over: bool,
    /// Since when nothing waits because of the fault any more.
    done_since: Option<Timestamp>,
    /// The state of the operator before the first sign of the fault.
    before: Calm,
}

/// The operator before a fault.
#[derive(Clone, Copy, Debug)]
struct Calm {
    at: Timestamp,
    /// The number of objects in the queues.
    queued: u64,
}

impl Recovery {
    pub(super) fn clock_stepped(&mut self, by_ms: i64) {
        if let Some(fault) = &mut self.fault {
            let instants = [&mut fault.since, &mut fault.last, &mut fault.before.at];
            instants.into_iter().for_each(|at| *at = at.shifted(by_ms));
            fault.done_since = fault.done_since.map(|at| at.shifted(by_ms));
        }

        self.ended = self.ended.map(|at| at.shifted(by_ms));
    }
}

impl Operator {
    /// Notes whether the API server fails, and measures the recovery afterwards. Returns when to
    /// look again.
    pub(super) fn update_recovery(&mut self, world: &World) -> Option<Timestamp> {
        let now = world.now;
        let known = self.recovery.fault;

        if let Some((sign, lasts)) = self.api_fault(world) {
            let new = || Fault {
                since: sign,
                last: sign,
                lasts,
                over: false,
                done_since: None,
                before: self.calm_before(world, sign),
            };

            let fault = known.unwrap_or_else(new);
            let is_over = fault.over && sign <= fault.last;
            if lasts || (!is_over && now.since(sign) < QUIET) {
                // A second fault during a recovery continues the first one. Without a new sign of
                // the fault, the operator may be recovering already.
                let quiet = known.is_some() && !lasts && sign <= fault.last;
                let done_since = if quiet { self.recovered_since(world, &fault) } else { None };
                let last = fault.last.max(sign);
                self.recovery.fault = Some(Fault { last, lasts, over: false, done_since, ..fault });
                return (!lasts).then(|| last.after(QUIET));
            }
        }

        let known = self.recovery.fault?;
        let last = if known.lasts && !known.over { now } else { known.last };
        let is_short = !known.over && last.since(known.since) < SHORTEST_FAULT;

        if is_short || now.since(last) > LONGEST {
            self.recovery.fault = None;
            return None;
        }

        let fault = Fault { last, over: true, ..known };
        let done_since = self.recovered_since(world, &fault);
        if let Some(done) = done_since.filter(|done| now.since(*done) >= world.settings.settle) {
            self.recovery =
                Recovery { fault: None, took: Some(done.since(last)), ended: Some(last) };
            return None;
        }

        self.recovery.fault = Some(Fault { done_since, ..fault });
        Some(now.after(CHECK_EVERY))
    }

    /// Returns since when nothing waits because of a fault any more.
    fn recovered_since(&self, world: &World, fault: &Fault) -> Option<Timestamp> {
        let sees =
            primary_watches(world).all(|watch| watch.visibility(world.now) != Visibility::Lost);

        // Scrapes from before the end of the fault do not show the recovery.
        let is_scraped = self.fresh_instances(world).all(|(_, at, _)| at > fault.last);
        let is_done = sees
            && is_scraped
            && unconverged_between(world, fault.before.at, fault.last) == 0
            && self.queued(world) <= fault.before.queued.max(1);

        is_done.then(|| fault.done_since.unwrap_or(world.now))
    }

    /// If the API server fails, returns the last sign of that, and whether loopwatch cannot reach
    /// the API server either.
    fn api_fault(&self, world: &World) -> Option<(Timestamp, bool)> {
        let fails = self.is_found(FindingCode::ApiErrors);
        let last = self
            .fresh_instances(world)
            .filter_map(|(_, _, instance)| instance.history.failed.last())
            .max();

        let blind = primary_watches(world).any(|watch| watch.blindness.failing);
        let last =
            last.filter(|last| fails && self.recovery.ended.is_none_or(|ended| *last > ended));
        if blind { Some((world.now, true)) } else { last.map(|last| (last, false)) }
    }
}

fn primary_watches(world: &World) -> impl Iterator<Item = &Watch> {
    let active = world.watches.iter().filter(|watch| watch.active && watch.missing.is_empty());
    active.filter(|watch| world.kinds[watch.kind as usize].role == Role::Primary)
}

impl Operator {
    /// Returns the state of the operator before its requests began to fail, or at `sign` if none
    /// has failed yet. `ApiErrors` opens later than the first failure, when objects wait already.
    fn calm_before(&self, world: &World, sign: Timestamp) -> Calm {
        let calm =
            || self.fresh_instances(world).filter_map(|(_, _, instance)| instance.history.calm());
        match calm().map(|(at, _)| at).min() {
            Some(at) => Calm {
                at: at.before(WRITTEN_GRAIN).min(sign),
                queued: calm().map(|(_, queued)| queued).fold(0, u64::saturating_add),
            },
            None => Calm { at: sign, queued: self.queued(world) },
        }
    }
}

/// Returns the number of objects that became unconverged after `after` and no later than `until`,
/// and still are.
fn unconverged_between(world: &World, after: Timestamp, until: Timestamp) -> usize {
    let primary = world.kinds.iter().filter(|kind| kind.role == Role::Primary);
    let counted = |kind: &Kind, at| kind.unconverged.range(..=(at, Slot::MAX)).count();
    primary.map(|kind| counted(kind, until).saturating_sub(counted(kind, after))).sum()
}

impl Operator {
    /// Returns the number of objects in the queues of the operator; zero if it is not known.
    fn queued(&self, world: &World) -> u64 {
        let scraped =
            self.fresh_instances(world).filter_map(|(_, _, instance)| instance.metrics.as_ref());
        scraped.map(|(_, metrics)| queued(metrics)).fold(0, u64::saturating_add)
    }

    /// Returns the health of the operator as snapshots show it.
    pub(crate) fn operator_health(&self, world: &World) -> OperatorHealth {
        let fault = self.recovery.fault.filter(|fault| fault.over);
        OperatorHealth {
            up: self.operator_up(world),
            recovery: self.recovery.took,
            recovering_since: fault.map(|fault| fault.last),
            led_elsewhere: self.leaders.elsewhere(),
        }
    }
}
