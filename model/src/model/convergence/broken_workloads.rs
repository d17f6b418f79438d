//! The workloads of primary objects that have no Pod that works, and since when.
//!
//! ```text
//!   a version of a workload ──▶ service ──▶ broken workloads ──▶ review of the owner ──▶ ReadyButBroken
//! ```
//!
//! The record of a workload has no room for this, and few workloads are broken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::part::Version;
use crate::model::status::reading::{self, Failure, Reason, Service, Verdict};
use crate::model::world::crowd::{self, Crowd};
use crate::model::world::limits::{Limit, MAX_BROKEN_WORKLOADS};
use crate::model::world::store::{self, Record, Slot};
use crate::model::world::{World, field_managers};
use crate::observation::ObjectView;
use crate::time::{Span, Timestamp};

/// The broken workloads; at most [`MAX_BROKEN_WORKLOADS`].
#[derive(Debug, Default)]
pub(crate) struct BrokenWorkloads {
    workloads: BTreeMap<Slot, Broken>,
    /// The UIDs of their owners, with the workloads of each.
    by_owner: BTreeSet<(u128, Slot)>,
    by_namespace: Crowd<Arc<str>, Slot>,
    /// When to forget those that serve again.
    ends: BTreeSet<(Timestamp, Slot)>,
}

/// A workload that has no Pod that works.
#[derive(Debug)]
pub(super) struct Broken {
    namespace: Arc<str>,
    /// The UID of the owner.
    pub(super) owner: u128,
    /// The owner is its managing controller, and not only its owner.
    pub(super) is_managed: bool,
    /// The part of its status that shows it.
    pub(super) signal: String,
    pub(super) since: Timestamp,
    /// The API server wrote `since`.
    is_dated: bool,
    /// loopwatch, or a condition, has shown that a Pod of it worked before.
    pub(super) had_served: bool,
    /// It had been broken for long when loopwatch first saw it.
    pub(super) is_known: bool,
    /// When the rollout of its last spec change should be over.
    pub(super) rolls_until: Option<Timestamp>,
    /// When to forget it, because it serves again.
    pub(super) ends: Option<Timestamp>,
}

/// How long a workload must serve before it is no longer broken, unless the threshold is shorter. A container
/// that crashes in a loop and has no probe is ready for some seconds each time.
const SERVES_FOR: Span = Span::mins(1);

/// A workload that has been broken for so long before loopwatch starts is one that its users tolerate.
const TOLERATED_AFTER: Span = Span::hours(24);

/// A condition that changes later than this after the creation was true before.
const FIRST_STATUS: Span = Span::mins(1);

/// The maximum length of a signal, in bytes.
const MAX_SIGNAL: usize = 160;

impl BrokenWorkloads {
    /// Takes a version of an object, which may be a workload.
    pub(super) fn note(&mut self, world: &mut World, version: &Version<'_>) {
        let slot = version.slot;
        let Some(record) = world.store.get(slot) else { return };
        let kind = world.kind_of(record.watch);
        if !reading::serves(&kind.group, &kind.kind) {
            return;
        }

        let owner = owner(version.view);
        match (owner, reading::service(&kind.kind, version.view)) {
            (Some(owner), Service::Fails(failure)) => self.breaks(world, version, owner, failure),
            (Some((owner, _)), service) if self.is_of(slot, owner) => match service {
                Service::Serves => self.serves(world, slot),
                Service::Nothing => self.forget(world, slot),
                Service::Starting | Service::Fails(_) => {}
            },
            _ => self.forget(world, slot),
        }
    }

    /// Returns when to forget the first workload that serves again.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Forgets the workloads that have served again for long enough.
    pub(super) fn forget_ended(&mut self, world: &mut World) {
        while let Some((_, slot)) = self.ends.first().copied().filter(|(at, _)| *at <= world.now) {
            self.forget(world, slot);
        }
    }

    /// Moves all instants of loopwatch's own clock.
    pub(super) fn shift(&mut self, by_ms: i64) {
        let ends = std::mem::take(&mut self.ends);
        self.ends = ends.into_iter().map(|(at, slot)| (at.shifted(by_ms), slot)).collect();
        for broken in self.workloads.values_mut() {
            broken.ends = broken.ends.map(|at| at.shifted(by_ms));
            if !broken.is_dated {
                broken.since = broken.since.shifted(by_ms);
            }
        }
    }

    /// Returns the UID of the owner of a broken workload.
    pub(super) fn owner_of(&self, slot: Slot) -> Option<u128> {
        self.workloads.get(&slot).map(|broken| broken.owner)
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.workloads.contains_key(&slot)
    }

    /// Returns the broken workloads of an owner.
    pub(super) fn of(&self, owner: u128) -> impl Iterator<Item = (Slot, &Broken)> {
        let of = self.by_owner.range((owner, 0)..=(owner, Slot::MAX)).map(|(_, slot)| *slot);
        of.filter_map(|slot| Some((slot, self.workloads.get(&slot)?)))
    }

    fn is_of(&self, slot: Slot, owner: u128) -> bool {
        self.by_owner.contains(&(owner, slot))
    }

    /// Notes that no Pod of a workload works.
    fn breaks(
        &mut self,
        world: &mut World,
        version: &Version<'_>,
        (owner, is_managed): (u128, bool),
        failure: Failure,
    ) {
        let slot = version.slot;
        if !self.is_of(slot, owner) {
            self.forget(world, slot);
            let Some(record) = world.store.get(slot) else { return };
            let broken = Broken::new(world.now, record, version, owner, &failure);
            if !self.make_room(world, &broken.namespace) {
                return;
            }

            self.by_owner.insert((owner, slot));
            self.by_namespace.insert(&broken.namespace, slot, 1);
            self.workloads.insert(slot, broken);
        }

        let rolls_until = rolls_until(world, version);
        let Some(broken) = self.workloads.get_mut(&slot) else { return };
        broken.signal = cut(failure.signal);
        broken.is_managed = is_managed;
        broken.rolls_until = broken.rolls_until.max(rolls_until);
        if let Some(at) = broken.ends.take() {
            self.ends.remove(&(at, slot));
        }
    }

    /// Notes that a broken workload serves again, perhaps only for a moment.
    fn serves(&mut self, world: &World, slot: Slot) {
        let Some(broken) = self.workloads.get_mut(&slot) else { return };
        broken.had_served = true;
        if broken.ends.is_none() {
            let ends = world.now.after(SERVES_FOR.min(world.settings.broken_after));
            broken.ends = Some(ends);
            self.ends.insert((ends, slot));
        }
    }

    /// Forgets a workload, and reviews its owner.
    pub(super) fn forget(&mut self, world: &mut World, slot: Slot) {
        let Some(broken) = self.workloads.remove(&slot) else { return };
        self.by_owner.remove(&(broken.owner, slot));
        self.by_namespace.remove(&broken.namespace, &slot);
        if let Some(at) = broken.ends {
            self.ends.remove(&(at, slot));
        }

        world.agenda.objects.extend(world.find_uid(broken.owner));
    }

    fn make_room(&mut self, world: &mut World, namespace: &Arc<str>) -> bool {
        let has_room = |known: &Self| known.workloads.len() < MAX_BROKEN_WORKLOADS;
        let leaves = |known: &Self| known.by_namespace.leaves_for(namespace, 1).copied();
        crowd::make_room(self, world, Limit::BrokenWorkloads, has_room, leaves, Self::forget)
    }
}

impl Broken {
    fn new(
        now: Timestamp,
        record: &Record,
        version: &Version<'_>,
        owner: u128,
        failure: &Failure,
    ) -> Self {
        let (created, shown) = (record.created(), failure.since.map(|at| at.min(now)));
        let has_changed = version.is_live && !version.becomes_visible;
        let dated = shown.or_else(|| last_status_write(version.view)).filter(|_| !has_changed);
        let since = dated.unwrap_or(now).min(now);
        let changed_later =
            shown.zip(created).is_some_and(|(at, created)| at > created.after(FIRST_STATUS));

        Self {
            namespace: record.namespace.clone(),
            owner,
            is_managed: false,
            signal: String::new(),
            since,
            is_dated: dated.is_some(),
            had_served: changed_later || (has_changed && may_have_served(record)),
            is_known: now.since(since) > TOLERATED_AFTER,
            rolls_until: None,
            ends: None,
        }
    }
}

/// Returns the UID of the owner that a workload belongs to, and whether it is the managing controller:
/// without one, the only owner.
fn owner(view: &ObjectView) -> Option<(u128, bool)> {
    let managing = view.owners.iter().find(|owner| owner.controller);
    let only = || view.owners.first().filter(|_| view.owners.len() == 1);
    let uid = managing.or_else(only).map(|owner| store::uid_number(&owner.uid))?;
    Some((uid, managing.is_some()))
}

/// Returns whether the previous version of a workload, which was not broken, had Pods that worked.
fn may_have_served(record: &Record) -> bool {
    let is_idle = matches!(
        record.reason,
        Reason::ScaledToZero | Reason::NotAcknowledged | Reason::NothingToJudge
    );
    !is_idle && matches!(record.verdict, Verdict::Converged | Verdict::Progressing)
}

/// Returns when the rollout of the last spec change of a workload should be over; `None` for its first
/// spec.
fn rolls_until(world: &World, version: &Version<'_>) -> Option<Timestamp> {
    let view = version.view;
    let seen = Some(world.now).filter(|_| version.is_live && version.has_other_spec);
    let written = field_managers::last_spec_write(view).filter(|at| *at <= world.now);
    let changed = seen.max(written).filter(|_| view.generation > 1)?;
    Some(changed.after(world.settings.deadline))
}

/// Returns when the status of an object was last written. It has said the same since then.
fn last_status_write(view: &ObjectView) -> Option<Timestamp> {
    field_managers::status_writer(view).and_then(|manager| manager.time)
}

/// Cuts a text from a status to a length that many of them may have.
fn cut(mut text: String) -> String {
    let end = (0..=MAX_SIGNAL.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text.shrink_to_fit();
    text
}
