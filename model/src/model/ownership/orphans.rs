//! Orphans: objects of the operator that nobody will delete, because they have no owner or their
//! logical owner is gone.
//!
//! The sources pass on an object without an owner only if it had one among the watched kinds, or if
//! its writer and labels match those of owned objects of its kind. Most of these are fine: some
//! belong to the operator itself, and some outlive their owners on purpose. An object is an orphan
//! only if it has had no owner for `orphan_after` and a live read confirms that.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::findings::open_findings::OpenFindings;
use crate::model::ownership::Ownership;
use crate::model::ownership::logical_owners::{LogicalOwner, Presence};
use crate::model::world::kinds::Watch;
use crate::model::world::limits::Limit;
use crate::model::world::lookups::{ASK_AGAIN, Existence, Urgency};
use crate::model::world::owner_graph::Owner;
use crate::model::world::store::Slot;
use crate::model::world::visibility::Visibility;
use crate::model::world::{World, field_managers};
use crate::observation::{ObjectAddress, ObjectView, Role, is_built_in_group};
use crate::time::{Span, Timestamp};

pub(crate) use crate::model::world::limits::MAX_CANDIDATES;

/// The objects that may be orphans.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Objects without an owner. At most [`MAX_CANDIDATES`].
    candidates: BTreeMap<Slot, OrphanCandidate>,
    /// Objects whose annotations or labels name an owner. At most [`MAX_CANDIDATES`].
    pub(super) logical: BTreeMap<Slot, Logical>,
    /// The objects that name each logical owner.
    by_owner: BTreeMap<ObjectAddress, BTreeSet<Slot>>,
}

/// An object without an owner.
#[derive(Debug)]
struct OrphanCandidate {
    since: Timestamp,
    /// The owner that it had.
    former: Option<Former>,
    /// An earlier process found it to be an orphan.
    restored: bool,
    /// The labels that may name an owner.
    labels: BTreeMap<String, String>,
    /// The field manager that wrote it last.
    writer: String,
}

/// The owner that an object had.
#[derive(Debug)]
struct Former {
    uid: u128,
    name: String,
}

/// An object whose annotations or labels name an owner.
#[derive(Debug)]
pub(super) struct Logical {
    pub(super) owner: LogicalOwner,
    /// Since when the owner has been missing from the model.
    pub(super) missing_since: Option<Timestamp>,
}

/// The maximum length of a label value.
const LONGEST_LABEL: usize = 63;

/// Objects without an owner are exceptions up to this percentage of the owned objects of their
/// kind.
const EXCEPTIONS_PERCENT: u64 = 5;

/// If the owner disappears this soon after its child lost the reference, both belong to one
/// deletion: the garbage collector removes the references first if it orphans the children.
const SAME_DELETION: Span = Span::mins(1);

/// The time between two attempts to confirm an orphan that cannot be read.
pub(super) const TRY_AGAIN: Span = Span::mins(10);

impl Orphans {
    /// Forgets an object.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.candidates.remove(&slot);
        self.set_logical(slot, None);
    }

    pub(super) fn set_logical(&mut self, slot: Slot, owner: Option<LogicalOwner>) {
        if self.logical.get(&slot).map(|logical| &logical.owner) == owner.as_ref() {
            return;
        }

        if let Some(old) = self.logical.remove(&slot)
            && let Some(slots) = self.by_owner.get_mut(&old.owner.address)
        {
            slots.remove(&slot);
            if slots.is_empty() {
                self.by_owner.remove(&old.owner.address);
            }
        }

        if let Some(owner) = owner {
            self.by_owner.entry(owner.address.clone()).or_default().insert(slot);
            self.logical.insert(slot, Logical { owner, missing_since: None });
        }
    }

    /// Moves all instants to the new setting of the clock.
    pub(crate) fn clock_stepped(&mut self, by_ms: i64) {
        let since = self.candidates.values_mut().map(|candidate| &mut candidate.since);
        let missing =
            self.logical.values_mut().filter_map(|logical| logical.missing_since.as_mut());
        since.chain(missing).for_each(|at| *at = at.shifted(by_ms));
    }
}

impl Ownership {
    /// Updates what may make an object an orphan. `old` are the owners that the previous version
    /// named.
    pub(crate) fn update_orphan(
        &mut self,
        world: &mut World,
        findings: &OpenFindings,
        slot: Slot,
        view: &ObjectView,
        new: bool,
        old: &[(u128, String)],
    ) {
        let Some(record) = world.store.get(slot) else { return };
        let kind = world.watches[record.watch as usize].kind;
        self.update_logical_owner(world, slot, view);

        if let Some(owner) = view.owners.first() {
            if new {
                world.kinds[kind as usize].siblings.learn(&view.labels, &owner.name);
            }

            self.orphans.candidates.remove(&slot);
            return;
        }

        let former = old.first().map(|(uid, name)| Former { uid: *uid, name: name.clone() });
        if self.orphans.candidates.contains_key(&slot) {
            return;
        }

        let restored =
            new && findings.restored_start(FindingCode::Orphan, &world.subject(slot)).is_some();

        // Primary objects usually have no owner. In a dump, all kinds are primary.
        let is_primary = world.kinds[kind as usize].role == Role::Primary && !view.resembles_owned;
        if former.is_none() && !restored && (is_primary || view.labels.is_empty()) {
            return;
        }

        if self.orphans.candidates.len() >= MAX_CANDIDATES {
            return world.count_dropped(Limit::OrphanCandidates);
        }

        let writer = field_managers::last_writer(view).to_owned();
        let candidate = OrphanCandidate {
            since: world.now,
            former,
            restored,
            labels: view.labels.clone(),
            writer,
        };
        self.orphans.candidates.insert(slot, candidate);
    }

    /// Reviews the objects that name this one as their logical owner after it has appeared or
    /// disappeared.
    pub(crate) fn review_logically_owned(&self, world: &mut World, slot: Slot) {
        if self.orphans.by_owner.is_empty() {
            return;
        }

        let address = world.object_address(slot);
        world.agenda.objects.extend(self.orphans.by_owner.get(&address).into_iter().flatten());
    }

    /// Detects an object without an owner that should have one.
    pub(crate) fn orphan(&self, world: &mut World, slot: Slot) -> Option<Detection> {
        let candidate = self.orphans.candidates.get(&slot)?;
        let record = world.store.get(slot)?;
        if record.deletion().is_some() {
            return None;
        }

        let released = was_released(world, candidate);
        let siblings = &world.kinds[world.watches[record.watch as usize].kind as usize].siblings;
        let named = siblings.named_owner(&candidate.labels);

        if named.is_some_and(|name| name.len() >= LONGEST_LABEL) {
            return None; // the rest of the name may have been cut off
        }

        let mut not_before = None;
        let confirmed = match (&candidate.former, named) {
            (Some(_), _) => !released,
            (None, _) if candidate.restored => true,
            (None, Some(owner)) => match primary(world, &record.namespace, owner) {
                Presence::Missing(earliest) => {
                    not_before = earliest;
                    // The owner may be in another namespace, to which no owner reference can point.
                    !is_primary_anywhere(world, owner)
                }
                Presence::Hidden(watch) => {
                    world.watches[watch as usize].blindness.postponed.insert(slot);
                    return None;
                }
                Presence::Exists | Presence::Unwatched => return None,
            },
            (None, None) if is_exception(world, slot) => false,
            (None, None) => return None,
        };

        let since = candidate.since;
        let (reason, owner) = match (&candidate.former, named) {
            (Some(former), _) if released => ("released", former.name.clone()),
            (Some(former), _) => ("owner_removed", former.name.clone()),
            (None, Some(owner)) => ("owner_gone", owner.to_owned()),
            (None, None) if candidate.restored => ("owner_removed", String::new()),
            (None, None) => ("never_owned", String::new()),
        };

        let evidence = Evidence::new()
            .text("reason", reason)
            .text("former_owner", owner)
            .text("writer", candidate.writer.clone())
            .with("siblings", Value::count(siblings.owned))
            .with("orphan_for", Value::Age(since));

        let due = since.after(world.settings.orphan_after);
        let due = confirmed_at(world, slot, not_before.map_or(due, |at| due.max(at)))?;
        let detection = Detection::new(world.now, FindingCode::Orphan, since, due, || evidence);
        Some(detection.suspected_if(!confirmed))
    }
}

/// Returns when a possible orphan becomes a finding: at `due`, once a live read has confirmed it.
/// Returns `None` if the read shows that it is not an orphan.
fn confirmed_at(world: &mut World, slot: Slot, due: Timestamp) -> Option<Timestamp> {
    let now = world.now;
    if due > now || world.has_open(FindingCode::Orphan, slot) {
        return Some(due);
    }

    let (address, uid) = (world.object_address(slot), world.store.get(slot)?.uid);
    match world.existence(slot, &address, due.max(recently(world)), Urgency::Suspicion) {
        None => Some(now.after(ASK_AGAIN)),
        Some(Existence::Unreadable | Existence::Failed) => Some(now.after(TRY_AGAIN)),
        Some(Existence::Exists(read))
            if read.uid == uid && read.owners.is_empty() && read.deleted.is_none() =>
        {
            Some(due)
        }
        Some(_) => None,
    }
}

/// Returns the time from which an answer counts as recent: just after the previous attempt.
pub(super) fn recently(world: &World) -> Timestamp {
    world.now.shifted(1000 - TRY_AGAIN.0)
}

/// Returns whether the owner released the object on purpose: it was being deleted when the
/// reference disappeared, or shortly after.
fn was_released(world: &World, candidate: &OrphanCandidate) -> bool {
    let Some(former) = &candidate.former else { return false };
    let until = candidate.since.after(SAME_DELETION);
    let gone = world.graph.departed(former.uid).is_some_and(|at| at <= until);
    let owner = world.find_uid(former.uid).and_then(|slot| world.terminating(slot));

    gone || owner.is_some_and(|(_, deletion)| deletion.since <= until)
}

/// Returns whether an object without an owner is an exception among the objects of its kind.
fn is_exception(world: &World, slot: Slot) -> bool {
    let Some(record) = world.store.get(slot) else { return false };
    let kind = &world.kinds[world.watches[record.watch as usize].kind as usize];
    let (owned, others) = (kind.siblings.owned, kind.objects.saturating_sub(kind.siblings.owned));

    owned >= u64::from(world.settings.orphan_siblings) && others * 100 <= owned * EXCEPTIONS_PERCENT
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

/// Returns the UID of each owner of an object, with its kind and name.
pub(crate) fn owner_names(world: &World, slot: Slot) -> Vec<(u128, String)> {
    let name = |owner: &Owner| {
        (owner.uid(), format!("{}/{}", world.owner_kind(owner).1, world.owner_name(owner)))
    };
    world.owners_of(slot).iter().map(name).collect()
}
