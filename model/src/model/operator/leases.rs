//! Leader election leases.
//!
//! Operators write `renewTime` by their own clocks. The age of a lease is therefore the time since
//! loopwatch saw `renewTime` change.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::findings::open_findings::OpenFindings;
use crate::model::operator::Operator;
use crate::model::traces::Traces;
use crate::model::world::World;
use crate::model::world::limits::Limit;
use crate::observation::{LeaseView, PodView, SourceId};
use crate::snapshot::LeaseRow;
use crate::time::{Span, Timestamp};

pub(crate) use crate::model::world::limits::MAX_LEASES;

/// After this time without a renewal, a lease has no holder. Replicas take over much sooner.
const ABANDONED_AFTER: Span = Span::mins(5);

/// The facts that show which replica of the operator leads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaderElection {
    /// All leases, except those that nobody has renewed for a long time. After its holder has
    /// released it, a lease has an empty holder.
    pub leases: Vec<LeaseView>,
    /// The operator has a Pod other than the one in which this process runs.
    pub stands_by: bool,
}

/// The leases that exist, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    rows: BTreeMap<(String, String), LeaseRow>,
}

impl Operator {
    pub(crate) fn lease_seen(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        traces: &mut Traces,
        lease: LeaseView,
    ) {
        world.sources.note_success(&SourceId::Lease, world.now);
        let renewed = self.leases.is_renewed_by(&lease);
        self.note_leader(world, traces, &lease);

        if self.controllers.lease_seen(
            world.now,
            &lease,
            renewed,
            world.settings.owner_absent_after,
        ) {
            world.review_deletions();
        }

        if !self.leases.seen(world.now, lease) {
            world.count_dropped(Limit::Leases);
        }

        self.operator_shows_life(world);
        self.note_other_leader();
        self.review_beginning(world, findings);
        self.review_revision(world);
    }

    pub(crate) fn lease_gone(&mut self, world: &mut World, namespace: String, name: String) {
        self.leases.gone(namespace, name);
        self.review_revision(world);
        world.agenda.operator = true;
    }

    pub(crate) fn leases_listed(&mut self, world: &mut World, namespace: &str, names: &[String]) {
        world.sources.note_success(&SourceId::Lease, world.now);
        self.leases.listed(namespace, names);
        self.set_leases_visible(world, true);
        self.review_revision(world);
    }
}

impl Leases {
    /// Adds or updates a lease. Returns false if there is no room for it.
    #[must_use]
    pub(super) fn seen(&mut self, now: Timestamp, lease: LeaseView) -> bool {
        let key = (lease.namespace.clone(), lease.name.clone());
        let known = self.rows.get(&key);
        if known.is_none() && self.rows.len() >= MAX_LEASES {
            return false;
        }

        let seen_renewed_at = match known {
            Some(known) if known.lease.renewed == lease.renewed => known.seen_renewed_at,
            Some(_) => Some(now),
            // loopwatch did not see the last renewal, but the API server may have recorded it.
            None => Some(lease.written.map_or(now, |written| written.min(now))),
        };

        let seen_renewed_at = seen_renewed_at.filter(|_| lease.renewed.is_some());
        self.rows.insert(key, LeaseRow { lease, seen_renewed_at });
        true
    }

    /// Returns whether a version of a known lease shows a renewal.
    pub(super) fn is_renewed_by(&self, lease: &LeaseView) -> bool {
        let known = self.rows.get(&(lease.namespace.clone(), lease.name.clone()));
        known.is_some_and(|known| known.lease.renewed != lease.renewed && lease.renewed.is_some())
    }

    /// Returns whether a lease exists.
    pub(super) fn exists(&self, namespace: &str, name: &str) -> bool {
        self.rows.contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// Forgets a deleted lease.
    pub(super) fn gone(&mut self, namespace: String, name: String) {
        self.rows.remove(&(namespace, name));
    }

    /// Forgets the leases of a namespace that a full list does not contain.
    pub(super) fn listed(&mut self, namespace: &str, names: &[String]) {
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.rows.retain(|(within, name), _| within != namespace || names.contains(name.as_str()));
    }

    /// Moves all instants of loopwatch's own clock by `by_ms` milliseconds.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        for row in self.rows.values_mut() {
            row.seen_renewed_at = row.seen_renewed_at.map(|at| at.after(Span(by_ms)));
        }
    }

    /// Returns the holders of the leases of one namespace.
    pub(super) fn holders_in<'a>(
        &'a self,
        now: Timestamp,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        self.held(now)
            .filter(move |row| row.lease.namespace == namespace)
            .map(|row| row.lease.holder.as_str())
    }

    /// Returns the leases of one namespace.
    pub(super) fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a LeaseView> {
        self.rows.values().map(|row| &row.lease).filter(move |lease| lease.namespace == namespace)
    }

    /// Returns all leases, except those that nobody has renewed for a long time: a lease outlives
    /// its holder.
    pub(crate) fn held(&self, now: Timestamp) -> impl Iterator<Item = &LeaseRow> {
        let is_abandoned = move |row: &LeaseRow| {
            let longest = row.lease.duration.unwrap_or_default().max(ABANDONED_AFTER);
            row.seen_renewed_at.is_some_and(|at| now.since(at) > longest)
        };

        self.rows.values().filter(move |row| !is_abandoned(row))
    }

    /// Returns a copy of all leases, ordered by namespace and name.
    pub(crate) fn rows(&self) -> Vec<LeaseRow> {
        self.rows.values().cloned().collect()
    }
}

impl Operator {
    /// Returns the facts that show which replica leads.
    pub(crate) fn leader_election(&self, now: Timestamp) -> LeaderElection {
        let stands_by = |pod: &PodView| !pod.own && pod.deleted.is_none();
        let view = self.view.as_ref();
        LeaderElection {
            leases: self.leases.held(now).map(|row| row.lease.clone()).collect(),
            stands_by: view.is_some_and(|view| view.pods.iter().any(stands_by)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01T00:00:00Z.
    const START: Timestamp = Timestamp(1_767_225_600_000);

    fn lease(name: &str, renewed: i64) -> LeaseView {
        let renewed = Some(Timestamp(renewed));
        LeaseView {
            namespace: "op".to_owned(),
            name: name.to_owned(),
            renewed,
            ..LeaseView::default()
        }
    }

    fn at(seconds: i64) -> Timestamp {
        START.after(Span::secs(seconds))
    }

    /// The ages of all leases at an instant, in seconds.
    fn ages(leases: &Leases, seconds: i64) -> Vec<i64> {
        leases
            .rows()
            .iter()
            .filter_map(|row| Some(at(seconds).since(row.seen_renewed_at?).0 / 1000))
            .collect()
    }

    #[test]
    fn the_age_does_not_depend_on_the_clock_of_the_operator() {
        let mut leases = Leases::default();
        let hour = 3_600_000;
        for skew in [-hour, 0, hour] {
            assert!(leases.seen(at(0), lease("a", START.0 + skew)));
            assert!(leases.seen(at(10), lease("a", START.0 + skew + 10_000)));
            assert!(
                leases.seen(at(15), lease("a", START.0 + skew + 10_000)),
                "something else changed"
            );
            assert_eq!(ages(&leases, 18), [8], "{skew}");
        }
    }

    #[test]
    fn a_lease_that_nobody_renews_is_old_at_first_sight() {
        let mut leases = Leases::default();
        for (name, written) in [("a", Some(at(-600))), ("b", None), ("c", Some(at(5)))] {
            assert!(leases.seen(at(0), LeaseView { written, ..lease(name, START.0) }));
        }

        assert!(leases.seen(at(0), LeaseView { renewed: None, ..lease("d", 0) }));
        assert_eq!(ages(&leases, 10), [610, 10, 10], "never renewed: no age");
    }

    #[test]
    fn leases_that_vanish_are_forgotten_and_make_room() {
        let mut leases = Leases::default();
        for n in 0..MAX_LEASES {
            assert!(leases.seen(at(0), lease(&n.to_string(), 0)));
        }

        assert!(!leases.seen(at(0), lease("new", 0)), "the limit holds");
        assert!(leases.seen(at(0), lease("7", 1)), "a known lease needs no room");

        leases.gone("op".to_owned(), "7".to_owned());
        assert!(leases.seen(at(0), lease("new", 0)));

        leases.listed("elsewhere", &[]);
        assert_eq!(leases.rows().len(), MAX_LEASES);

        leases.listed("op", &["new".to_owned(), "not sent".to_owned()]);
        assert_eq!(
            leases.rows().iter().map(|row| row.lease.name.as_str()).collect::<Vec<_>>(),
            ["new"]
        );
    }

    #[test]
    fn setting_the_clock_changes_no_age() {
        let mut leases = Leases::default();
        assert!(leases.seen(at(0), lease("a", 0)));

        for by_ms in [3_600_000, -7_200_000] {
            let before = ages(&leases, 30);
            leases.clock_stepped(by_ms);

            assert_eq!(ages(&leases, 30 + by_ms / 1000), before);

            leases.clock_stepped(-by_ms);
        }
    }

    #[test]
    fn a_lease_that_nobody_renews_for_long_has_no_holder() {
        let mut leases = Leases::default();
        let held = |name: &str, duration| LeaseView {
            holder: name.to_owned(),
            duration,
            ..lease(name, START.0)
        };
        for view in [
            held("usual", Some(Span::secs(15))),
            held("slow", Some(Span::hours(1))),
            held("plain", None),
        ] {
            assert!(leases.seen(at(0), view));
        }

        // Without a time of renewal, nothing shows that nobody holds it.
        assert!(leases.seen(at(0), LeaseView { renewed: None, ..held("undated", None) }));

        let holders = |seconds| {
            leases.held(at(seconds)).map(|row| row.lease.holder.as_str()).collect::<Vec<_>>()
        };

        assert_eq!(holders(300), ["plain", "slow", "undated", "usual"]);
        assert_eq!(holders(301), ["slow", "undated"]);
        assert_eq!(holders(3_601), ["undated"]);
    }
}
