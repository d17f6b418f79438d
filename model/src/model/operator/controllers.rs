//! Which controllers are alive, as far as loopwatch can see: their leader election leases, their
//! writes and, for the operator's own controllers, its Pods.
//!
//! A write proves that a controller was alive, but missing writes prove nothing: an operator
//! without work is quiet. Only two signs show that a controller has stopped: a lease that nobody
//! renews any more, even if it has been deleted, and the operator's Pods, if loopwatch sees all of
//! them and none runs. The age of a lease is the time since loopwatch saw it renewed, so it keeps
//! growing after its holder is gone. A controller with neither sign never counts as absent.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::SeenLease;
use crate::model::operator::Operator;
use crate::model::operator::pods::PodsSay;
use crate::model::world::World;
use crate::model::world::controller_names::{
    ControllerName, Relation, is_generic, relation, workload,
};
use crate::observation::LeaseView;
use crate::time::{Span, Timestamp};

/// The leases that loopwatch has seen renewed.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    /// By `namespace/name`, at most [`MAX_LEASES`]. A new one replaces the one whose holder has
    /// been silent for longest.
    leases: BTreeMap<String, SeenLease>,
    /// Since when the leases are up to date; `None` while their source fails or is off.
    visible_since: Option<Timestamp>,
}

/// Whether a controller is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It was alive at `last`. It counts as absent from `absent_at` on if nothing changes.
    SeenAlive { last: Timestamp, absent_at: Timestamp },
    /// It was alive at `last` and has been absent for long enough since.
    Absent { last: Timestamp, absent_at: Timestamp },
    /// Nothing shows whether it is alive.
    Unknown,
}

/// The maximum number of leases that are remembered.
const MAX_LEASES: usize = 200;

/// How long a lease that is not renewed is remembered.
const REMEMBERED_FOR: Span = Span::hours(7 * 24);

/// The age up to which a lease that loopwatch sees for the first time shows that its holder is
/// alive.
const RECENT: Span = Span::mins(1);

/// How often the duration of a lease must pass without a renewal before its holder counts as gone:
/// the next one may need as long again to take over.
const DURATIONS: i64 = 2;

/// Returns how long a lease may stay without a renewal: at least so long, or as long as it allows
/// itself.
pub(super) fn patience(lease: &SeenLease, at_least: Span) -> Span {
    let duration = lease.duration.unwrap_or_default();
    at_least.max(Span(duration.0.saturating_mul(DURATIONS)))
}

impl Liveness {
    /// Merges two results: a controller is alive if either of them says so.
    fn or_later(self, now: Timestamp, other: Self) -> Self {
        let times = |liveness| match liveness {
            Self::SeenAlive { last, absent_at } | Self::Absent { last, absent_at } => {
                Some((last, absent_at))
            }
            Self::Unknown => None,
        };

        let (last, absent_at) = match (times(self), times(other)) {
            (Some(a), Some(b)) => (a.0.max(b.0), a.1.max(b.1)),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Self::Unknown,
        };
        if absent_at <= now {
            Self::Absent { last, absent_at }
        } else {
            Self::SeenAlive { last, absent_at }
        }
    }
}

impl Liveness {
    /// Lets a controller count as absent only after its excuse, which ends at `until`.
    fn excused(self, now: Timestamp, until: Timestamp) -> Self {
        match self {
            Self::SeenAlive { last, absent_at } | Self::Absent { last, absent_at } => {
                Self::SeenAlive { last, absent_at: absent_at.max(until) }
                    .or_later(now, Self::Unknown)
            }
            Self::Unknown => Self::Unknown,
        }
    }
}

impl Controllers {
    /// Restores the leases of a checkpoint.
    pub(crate) fn restore(&mut self, leases: BTreeMap<String, SeenLease>) {
        self.leases.extend(leases.into_iter().take(MAX_LEASES));
    }

    /// Returns the leases for a checkpoint.
    pub(crate) fn remembered(&self) -> BTreeMap<String, SeenLease> {
        self.leases.clone()
    }

    /// Notes that the leases are up to date, or that their source fails or is off.
    pub(crate) fn set_visible(&mut self, now: Timestamp, visible: bool) {
        self.visible_since = visible.then(|| self.visible_since.unwrap_or(now));
    }

    /// Returns whether the leases are up to date.
    pub(super) fn are_leases_visible(&self) -> bool {
        self.visible_since.is_some()
    }

    /// Handles a lease. `renewed` tells whether loopwatch has just seen a renewal. Returns whether
    /// a controller has appeared, or is alive again after an absence.
    pub(crate) fn lease_seen(
        &mut self,
        now: Timestamp,
        lease: &LeaseView,
        renewed: bool,
        absent_after: Span,
    ) -> bool {
        let key = format!("{}/{}", lease.namespace, lease.name);
        let known = self.leases.get(&key).map(|seen| seen.alive);
        let written = lease.written.map(|written| written.min(now));

        // Without a renewal in view, only a recent write of the lease, or one after the last known
        // sign of life, shows that its holder is alive.
        let first = written.filter(|written| {
            now.since(*written) <= RECENT || known.is_some_and(|alive| *written > alive)
        });
        let alive = if renewed { Some(now) } else { first };
        let Some(alive) = alive.filter(|_| !lease.holder.is_empty()) else { return false };

        if known.is_none() && self.leases.len() >= MAX_LEASES {
            self.leases.retain(|_, seen| now.since(seen.alive) <= REMEMBERED_FOR);
            let oldest =
                self.leases.iter().min_by_key(|(_, seen)| seen.alive).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| self.leases.len() >= MAX_LEASES) {
                self.leases.remove(&oldest);
            }
        }

        let alive = known.map_or(alive, |known| known.max(alive));
        let (holder, duration) = (lease.holder.clone(), lease.duration);
        self.leases.insert(key, SeenLease { alive, holder, duration });
        known.is_none_or(|known| alive.since(known) >= absent_after)
    }

    /// Returns the leases of a namespace, with their names; none while loopwatch cannot see the
    /// leases.
    pub(crate) fn seen_in<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a SeenLease)> {
        let visible = self.leases.iter().filter(|_| self.visible_since.is_some());
        visible.filter_map(move |(key, seen)| {
            let (within, name) = key.split_once('/')?;
            (within == namespace).then_some((name, seen))
        })
    }

    /// Returns whether a controller is alive, according to leases and writes. `written` is when it
    /// last wrote anything, by the API server's clock. `is_continued` means that an earlier process
    /// has already waited for a sign of life.
    pub(crate) fn liveness(
        &self,
        now: Timestamp,
        controller: ControllerName<'_>,
        written: Option<Timestamp>,
        absent_after: Span,
        is_continued: bool,
    ) -> Liveness {
        let relations =
            self.leases.iter().map(|(key, seen)| (relation(key, &seen.holder, controller), seen));
        let relations: Vec<(Relation, &SeenLease)> = relations.collect();
        let workloads = |wanted: Relation| -> BTreeSet<&str> {
            let found = relations.iter().filter(|(relation, _)| *relation == wanted);
            found
                .map(|(_, seen)| workload(&seen.holder))
                .filter(|workload| !workload.is_empty())
                .collect()
        };

        let (own, shared) = (workloads(Relation::Own), workloads(Relation::SameDomain));

        // After an upgrade, the same Deployment may hold a lease under another name.
        let related = relations.iter().filter(|(relation, seen)| {
            *relation != Relation::None
                || own.contains(workload(&seen.holder))
                || shared.contains(workload(&seen.holder))
        });
        let recent = related
            .map(|(_, seen)| *seen)
            .filter(|seen| now.since(seen.alive) <= REMEMBERED_FOR)
            .max_by_key(|seen| seen.alive);
        let (Some(lease), Some(visible)) = (recent, self.visible_since) else {
            return Liveness::Unknown;
        };

        let (renewed, patience) = (lease.alive, patience(lease, absent_after));
        let last = written.map_or(renewed, |written| written.min(now).max(renewed));
        let looked_since = if is_continued { last } else { last.max(visible) };
        let absent_at = looked_since.after(absent_after).max(renewed.after(patience));

        // A controller that worked for long without renewing its lease elects no leader any more.
        if last >= renewed.after(patience) && absent_at <= now {
            return Liveness::Unknown;
        }

        // Several operators may use one domain, and this one may have no lease.
        let is_shared =
            !relations.iter().any(|(relation, _)| *relation == Relation::Own) && shared.len() > 1;
        match absent_at <= now {
            true if is_shared => Liveness::Unknown,
            true => Liveness::Absent { last, absent_at },
            false => Liveness::SeenAlive { last, absent_at },
        }
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        self.leases.values_mut().for_each(|seen| seen.alive = seen.alive.shifted(by_ms));
        self.visible_since = self.visible_since.map(|since| since.shifted(by_ms));
    }
}

impl World {
    /// Returns when a controller last wrote an object of a watched kind, by the API server's clock.
    pub(crate) fn last_write(
        &self,
        group: &str,
        controller: ControllerName<'_>,
    ) -> Option<Timestamp> {
        let manager = controller.manager?;

        // The same generic name in another group belongs to another program.
        let kinds = self.kinds.iter().filter(|kind| !is_generic(manager) || *kind.group == *group);
        let writers = kinds.flat_map(|kind| &kind.writers);
        writers.filter(|(name, _)| **name == *manager).map(|(_, at)| *at).max()
    }
}

impl Operator {
    /// Notes whether the leases can be seen. When they can be seen again, deletions are reviewed.
    pub(crate) fn set_leases_visible(&mut self, world: &mut World, visible: bool) {
        let was_visible = self.controllers.visible_since.is_some();
        self.controllers.set_visible(world.now, visible);
        if visible && !was_visible {
            world.review_deletions();
            world.agenda.operator = true;
        }
    }

    /// Returns whether a controller is alive, according to its leases and to its last write of an
    /// object of a watched kind. If it is a part of the operator, the Pods of the operator count,
    /// too. `is_continued` means that an earlier process has already found it absent.
    pub(crate) fn liveness(
        &self,
        world: &World,
        group: &str,
        controller: ControllerName<'_>,
        is_own: bool,
        is_continued: bool,
    ) -> Liveness {
        let written = world.last_write(group, controller);
        let after = world.settings.owner_absent_after;
        let by_signs =
            self.controllers.liveness(world.now, controller, written, after, is_continued);
        if !is_own {
            return by_signs;
        }

        let liveness = by_signs.or_later(world.now, self.operator_pods_liveness(world, written));
        match self.pods_say(world) {
            // The new Pod of a rollout or an eviction removes the finalizer soon after its start.
            PodsSay::Excused(Some(until)) => liveness.excused(world.now, until),
            _ => liveness,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::world::controller_names::is_within;

    #[test]
    fn a_lease_belongs_to_the_controller_that_its_name_or_its_holder_names() {
        use Relation::{None as Foreign, Own, SameDomain};

        for (lease, holder, manager, domain, expected) in [
            ("ops/6ab5f5a3.example.io", "x_1", "manager", "example.io", Own),
            ("ops/6ab5f5a3.example.io", "x_1", "manager", "db.example.io", SameDomain),
            ("ops/6ab5f5a3.example.io", "x_1", "manager", "other.io", Foreign),
            ("ops/example-operator-leader-election", "x_1", "manager", "db.example.io", SameDomain),
            ("ops/examples-operator", "x_1", "manager", "db.example.io", Foreign),
            ("ops/widget-operator-lock", "x_1", "widget-operator", "", Own),
            ("ops/lock", "widget-operator-7d9f8c6b5-x2x4v_6f1c", "widget-operator", "", Own),
            ("ops/manager", "manager-7d9f8c6b5-x2x4v_6f1c", "manager", "", Foreign),
            ("ops/lock.io", "x_1", "", "example.io", Foreign),
        ] {
            let domain = (!domain.is_empty()).then_some(domain);
            let controller = ControllerName { manager: Some(manager), domain };

            assert_eq!(
                relation(lease, holder, controller),
                expected,
                "{lease} {holder} {manager} {domain:?}"
            );
        }
    }

    #[test]
    fn a_lease_of_one_of_several_operators_of_a_domain_shows_no_absence() {
        let (start, hour) = (Timestamp(1_767_225_600_000), Span::hours(1));
        let controller = ControllerName { manager: Some("manager"), domain: Some("db.example.io") };
        let mut controllers = Controllers::default();
        controllers.set_visible(start, true);

        for (name, expected) in [("shop", true), ("queue", false)] {
            let holder = format!("{name}-operator-7d9f8c6b5-x2x4v_1");
            let name = format!("{name}.example.io");
            let lease =
                LeaseView { namespace: "ops".to_owned(), name, holder, ..LeaseView::default() };

            controllers.lease_seen(start, &lease, true, Span::mins(5));
            let liveness =
                controllers.liveness(start.after(hour), controller, None, Span::mins(5), false);

            assert_eq!(matches!(liveness, Liveness::Absent { .. }), expected, "{liveness:?}");
        }
    }

    #[test]
    fn a_domain_is_within_itself_and_its_parents() {
        assert!(is_within("example.io", "example.io") && is_within("db.example.io", "example.io"));
        assert!(
            !is_within("badexample.io", "example.io") && !is_within("example.io", "db.example.io")
        );
        assert!(!is_within("example.io", ""));
    }
}
