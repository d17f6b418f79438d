//! Which objects without an owner are orphans: they have had none for `orphan_after`, and a live
//! read confirms that.
//!
//! Many operators leave objects without an owner on purpose, so an object is only suspected if its
//! owner or the operator has released it, if it holds data, or if other objects of its kind are
//! like it. A restore brings children before their owners, so a child whose owner loopwatch has
//! never seen has until `orphan_unseen_after`.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::operator::Operator;
use crate::model::ownership::Ownership;
use crate::model::ownership::logical_owners::Presence;
use crate::model::ownership::orphans::{Former, OrphanCandidate, TRY_AGAIN, recently};
use crate::model::world::World;
use crate::model::world::kinds::Watch;
use crate::model::world::lookups::{ASK_AGAIN, Existence, Urgency};
use crate::model::world::store::{Record, Slot};
use crate::model::world::visibility::Visibility;
use crate::observation::{Role, is_built_in_group};
use crate::time::{Span, Timestamp};

/// The maximum length of a label value.
const LONGEST_LABEL: usize = 63;

/// Objects without an owner are exceptions up to this percentage of the owned objects of their
/// kind.
const EXCEPTIONS_PERCENT: u64 = 5;

/// From this number of objects on whose labels name owners that exist, although no owner reference
/// does, the operator creates such objects on purpose.
const ON_PURPOSE: usize = 3;

/// If the owner disappears this soon after its child lost the reference, both belong to one
/// deletion: the garbage collector removes the references first if it orphans the children.
const SAME_DELETION: Span = Span::mins(1);

/// If the operator removes a reference this soon after a change of the owner's spec, that change
/// has ordered it.
const ON_ORDER: Span = Span::mins(10);

/// The field manager of the garbage collector and of the controllers of Kubernetes.
const KUBERNETES: &str = "kube-controller-manager";

/// Kinds that hold data, as group and kind. Nearly every operator can keep them when it deletes
/// their owner.
const DATA: [(&str, &str); 2] =
    [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];

/// Why an object has no owner.
struct Cause {
    reason: &'static str,
    owner: String,
    since: Timestamp,
    not_before: Option<Timestamp>,
    confirmed: bool,
}

impl Cause {
    fn new(reason: &'static str, owner: &str, since: Timestamp, confirmed: bool) -> Self {
        Self { reason, owner: owner.to_owned(), since, not_before: None, confirmed }
    }
}

impl Ownership {
    /// Detects an object without an owner that should have one.
    pub(super) fn orphan(
        &mut self,
        world: &mut World,
        operator: &Operator,
        slot: Slot,
    ) -> Option<Detection> {
        let record = world.store.get(slot)?;
        if record.deletion().is_some() {
            return None;
        }

        let siblings = &world.kind_of(record.watch).siblings;
        let labels = &self.orphans.candidates.get(&slot)?.labels;
        let named = siblings.named_owner(labels).map(str::to_owned);
        if let Some(named) = &named {
            self.orphans.set_named(slot, named);
        }

        let candidate = self.orphans.candidates.get_mut(&slot)?;
        if named.as_ref().is_some_and(|name| name.len() >= LONGEST_LABEL) {
            return None; // the rest of the name may have been cut off
        }

        let (since, owned) = (candidate.since, siblings.owned);
        let cause = match (&candidate.former, named) {
            (Some(former), _) => {
                candidate.released |= was_released(world, slot, candidate, former);
                let reason = if candidate.released { "released" } else { "owner_removed" };
                Cause::new(reason, &former.name, since, !candidate.released)
            }
            (None, Some(owner)) => self.named_owner_gone(world, operator, slot, &owner)?,
            (None, None) if candidate.restored => Cause::new("owner_removed", "", since, true),
            (None, None) if is_exception(world, slot) => {
                Cause::new("never_owned", "", since, false)
            }
            (None, None) => return None,
        };

        let evidence = Evidence::new()
            .text("reason", cause.reason)
            .text("former_owner", cause.owner)
            .text("writer", self.orphans.candidates.get(&slot)?.writer.clone())
            .with("siblings", Value::count(owned))
            .with("orphan_for", Value::Age(cause.since));

        let due = cause.since.after(world.settings.orphan_after);
        let due = cause.not_before.map_or(due, |at| due.max(at));
        let asked_since = &mut self.orphans.candidates.get_mut(&slot)?.asked_since;
        let due = confirmed_at(world, slot, due, asked_since)?;
        let detection =
            Detection::new(world.now, FindingCode::Orphan, cause.since, due, || evidence);
        Some(detection.suspected_if(!cause.confirmed))
    }

    /// Returns whether the owner that the labels of an object name is gone.
    fn named_owner_gone(
        &mut self,
        world: &mut World,
        operator: &Operator,
        slot: Slot,
        owner: &str,
    ) -> Option<Cause> {
        let (now, is_open) = (world.now, world.has_open(FindingCode::Orphan, slot));
        let record = world.store.get(slot)?;
        let presence = primary(world, &record.namespace, owner);
        let on_purpose = !matches!(presence, Presence::Exists | Presence::Unwatched)
            && (holds_data(world, slot) || self.orphans.kept_like(slot) >= ON_PURPOSE);
        let candidate = self.orphans.candidates.get_mut(&slot)?;

        // Before a restart, it may have been an orphan for another reason than its labels.
        let removed = Cause::new("owner_removed", "", candidate.since, true);
        let mut not_before = match presence {
            Presence::Missing(earliest) => earliest,
            Presence::Exists | Presence::Unwatched => {
                let was_gone = candidate.missing_since.take().is_some() || candidate.owner_seen;
                let is_removed = candidate.restored && !was_gone;
                candidate.owner_seen |= !is_removed;

                let is_there = candidate.owner_seen;
                self.orphans.set_owner_there(slot, is_there);
                return is_removed.then_some(removed);
            }
            Presence::Hidden(watch) => {
                world.watches[watch as usize].blindness.postponed.insert(slot);
                return match candidate.missing_since.filter(|_| is_open) {
                    Some(since) => Some(Cause::new("owner_gone", owner, since, !on_purpose)),
                    None => candidate.restored.then_some(removed),
                };
            }
        };

        let since = *candidate.missing_since.get_or_insert(now);
        self.orphans.set_owner_there(slot, false);
        let candidate = self.orphans.candidates.get(&slot)?;
        if is_operators_own(world, operator, record, owner, &candidate.writer) {
            return None;
        }

        if !candidate.owner_seen && !candidate.restored {
            let created = record.created().unwrap_or(candidate.since);
            not_before = not_before.max(Some(created.after(world.settings.orphan_unseen_after)));
        }

        // The owner may be in another namespace, to which no owner reference can point.
        let is_confirmed = !on_purpose
            && has_owners(world, &record.namespace)
            && !is_primary_anywhere(world, owner);
        Some(Cause { not_before, ..Cause::new("owner_gone", owner, since, is_confirmed) })
    }
}

/// Returns when a possible orphan becomes a finding: at `due`, once a live read has confirmed it, or
/// if no read is answered.
/// Returns `None` if the read shows that it is not an orphan.
fn confirmed_at(
    world: &mut World,
    slot: Slot,
    due: Timestamp,
    asked_since: &mut Option<Timestamp>,
) -> Option<Timestamp> {
    let now = world.now;
    if due > now || world.has_open(FindingCode::Orphan, slot) {
        return Some(due);
    }

    let (address, uid) = (world.object_address(slot), world.store.get(slot)?.uid);
    match world.existence(slot, &address, due.max(recently(world)), Urgency::Suspicion) {
        None => {
            // If nobody answers for long, what the watches show must do.
            let is_given_up = now.since(*asked_since.get_or_insert(now)) >= TRY_AGAIN;
            Some(if is_given_up { due } else { now.after(ASK_AGAIN) })
        }
        Some(Existence::Unreadable | Existence::Failed) => {
            *asked_since = None;
            Some(now.after(TRY_AGAIN))
        }
        Some(Existence::Exists(read))
            if read.uid == uid && read.owners.is_empty() && read.deleted.is_none() =>
        {
            Some(due)
        }
        Some(_) => None,
    }
}

/// Returns whether somebody let the object go on purpose: its owner was being deleted when the
/// reference disappeared, or shortly after, or the operator or Kubernetes removed the reference.
fn was_released(world: &World, slot: Slot, candidate: &OrphanCandidate, former: &Former) -> bool {
    let until = candidate.since.after(SAME_DELETION);
    let gone = world.graph.departed(former.uid).is_some_and(|at| at <= until);
    let owner = world.find_uid(former.uid);
    let terminating = owner.and_then(|slot| world.terminating(slot));

    gone || terminating.is_some_and(|(_, deletion)| deletion.since <= until)
        || candidate.writer == KUBERNETES
        || owner.is_some_and(|owner| is_deliberate(world, slot, candidate, owner))
}

/// Returns whether the operator itself removed the reference to the owner, to keep data or because
/// a change of the owner's spec had ordered it.
fn is_deliberate(world: &World, slot: Slot, candidate: &OrphanCandidate, owner: Slot) -> bool {
    let Some(record) = world.store.get(owner) else { return false };
    let writers = &world.kind_of(record.watch).writers;
    let by_operator = writers.iter().any(|(writer, _)| **writer == *candidate.writer);
    let is_recent = |at: Timestamp| at <= candidate.since && candidate.since.since(at) <= ON_ORDER;

    let is_ordered = record.generation.number() > 1 && record.spec_change().is_some_and(is_recent);
    by_operator && (is_ordered || holds_data(world, slot))
}

/// Returns whether an object without an owner is an exception among the objects of its kind.
fn is_exception(world: &World, slot: Slot) -> bool {
    let Some(record) = world.store.get(slot) else { return false };
    let kind = world.kind_of(record.watch);
    let (owned, others) = (kind.siblings.owned, kind.objects.saturating_sub(kind.siblings.owned));

    owned >= u64::from(world.settings.orphan_siblings) && others * 100 <= owned * EXCEPTIONS_PERCENT
}

fn holds_data(world: &World, slot: Slot) -> bool {
    let Some(record) = world.store.get(slot) else { return false };
    let kind = world.kind_of(record.watch);
    DATA.contains(&(&*kind.group, &*kind.kind))
}

/// Returns whether an object is part of the operator's installation, such as its state, and its
/// label names the operator. `writer` is the field manager that wrote the object.
fn is_operators_own(
    world: &World,
    operator: &Operator,
    record: &Record,
    name: &str,
    writer: &str,
) -> bool {
    let names_operator = operator.view.as_ref().is_some_and(|view| {
        let of_pod = |pod: &str| pod.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        let beside_it = *view.namespace == *record.namespace;
        let has_name = view.name == name || view.pods.iter().any(|pod| of_pod(&pod.name));

        beside_it && (has_name || !has_owners(world, &record.namespace))
    });

    writer == name || names_operator
}

/// Returns whether a namespace has a primary object with this name. An object that the account may
/// not read counts as existing.
fn primary(world: &World, namespace: &str, name: &str) -> Presence {
    let (mut hidden, mut not_before) = (None, None);
    for (number, watch) in world.watches.iter().enumerate().filter(|(_, watch)| watch.active) {
        if !shows_owners(world, watch) || !watch.covers(namespace) {
            continue;
        }

        let number = u16::try_from(number).unwrap_or(u16::MAX);
        let known =
            [namespace, ""].iter().any(|within| world.store.find(number, within, name).is_some());
        if known || !watch.missing.is_empty() {
            return Presence::Exists;
        }

        match watch.visibility(world.now) {
            Visibility::Clear => {}
            Visibility::Grace(until) => not_before = not_before.max(Some(until)),
            Visibility::Lost => hidden = Some(number),
        }
    }

    hidden.map_or(Presence::Missing(not_before), Presence::Hidden)
}

/// Returns whether a watch shows primary objects. In a dump, all kinds are primary.
fn shows_owners(world: &World, watch: &Watch) -> bool {
    let kind = &world.kinds[watch.kind as usize];
    kind.role != Role::Child && !(watch.dumped && is_built_in_group(&kind.group))
}

/// Returns whether a namespace has, or had, an object that may own objects in it.
fn has_owners(world: &World, namespace: &str) -> bool {
    let mut watches =
        world.watches.iter().filter(|watch| watch.active && shows_owners(world, watch));
    watches.any(|watch| {
        [namespace, ""].iter().any(|within| watch.namespace_index.contains_key(*within))
    })
}

/// Returns whether any namespace has a primary object with this name.
fn is_primary_anywhere(world: &World, name: &str) -> bool {
    let mut watches = world
        .watches
        .iter()
        .enumerate()
        .filter(|(_, watch)| watch.active && shows_owners(world, watch));

    watches.any(|(number, watch)| {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        watch
            .namespace_index
            .keys()
            .any(|namespace| world.store.find(number, namespace, name).is_some())
    })
}
