//! Missing logical owners: annotations or labels of an object name an owner that does not exist.
//!
//! The watches of the object and of its owner are independent. While the owner's watch is blind,
//! the review waits.

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::detection::Detection;
use crate::model::ownership::Ownership;
use crate::model::ownership::logical_owners::{LogicalOwner, Presence};
use crate::model::ownership::orphans::{self, TRY_AGAIN};
use crate::model::world::World;
use crate::model::world::lookups::{ASK_AGAIN, Existence, Urgency};
use crate::model::world::store::Slot;
use crate::model::world::visibility::Visibility;
use crate::observation::{ObjectAddress, ObjectView, Role, Scope};
use crate::time::Timestamp;

impl Ownership {
    pub(crate) fn update_logical_owner(
        &mut self,
        world: &mut World,
        slot: Slot,
        view: &ObjectView,
    ) {
        let known = |name: &str| {
            let mut kinds =
                world.kinds.iter().filter(|kind| kind.role == Role::Primary && kind.is_named(name));
            kinds
                .next()
                .filter(|_| kinds.next().is_none())
                .map(|kind| (kind.group.to_string(), kind.kind.to_string()))
        };

        let owner = LogicalOwner::read(view, &world.settings, known)
            .and_then(|owner| with_scope(world, owner));
        self.orphans.set_logical(world, slot, owner);
    }
}

/// Clears the namespace of an owner whose kind is cluster-scoped. Returns `None` if a namespaced
/// owner has no known namespace, as with Cluster API's annotations on a Node.
fn with_scope(world: &World, mut owner: LogicalOwner) -> Option<LogicalOwner> {
    let address = &mut owner.address;
    let mut watches = world.watches_of(&address.group, &address.kind);
    if watches.any(|(_, watch)| watch.scope == Scope::Cluster) {
        address.namespace.clear();
        return Some(owner);
    }

    let mut watches = world.watches_of(&address.group, &address.kind);
    let is_unknown = address.namespace.is_empty() && watches.any(|(_, watch)| !watch.dumped);
    (!is_unknown).then_some(owner)
}

impl Ownership {
    /// Detects an object whose annotations or labels name an owner that does not exist.
    pub(crate) fn logical_owner_missing(
        &mut self,
        world: &mut World,
        slot: Slot,
    ) -> Option<Detection> {
        let address = self.orphans.logical.get(&slot)?.owner.address.clone();
        let terminating = world.store.get(slot)?.deletion().is_some();
        let (now, is_open) = (world.now, world.has_open(FindingCode::LogicalOwnerMissing, slot));
        let presence = if terminating { Presence::Exists } else { presence(world, &address) };
        let not_before = match presence {
            Presence::Missing(not_before) => not_before,
            Presence::Hidden(watch) => {
                world.watches[watch as usize].blindness.postponed.insert(slot);
                return is_open.then(|| self.missing_logical_owner(world, slot, now)).flatten();
            }
            Presence::Exists | Presence::Unwatched => {
                self.orphans.logical.get_mut(&slot)?.missing_since = None;
                return None;
            }
        };

        let since = *self.orphans.logical.get_mut(&slot)?.missing_since.get_or_insert(now);
        let due = since.after(world.settings.orphan_after);
        let mut due = not_before.map_or(due, |at| due.max(at));

        if due <= now && !is_open {
            due = match world.existence(
                slot,
                &address,
                due.max(orphans::recently(world)),
                Urgency::Suspicion,
            ) {
                Some(Existence::Absent) => due,
                None => now.after(ASK_AGAIN),
                Some(_) => now.after(TRY_AGAIN),
            };
        }

        self.missing_logical_owner(world, slot, due)
    }

    fn missing_logical_owner(
        &self,
        world: &World,
        slot: Slot,
        due: Timestamp,
    ) -> Option<Detection> {
        let logical = self.orphans.logical.get(&slot)?;
        let (since, named_by, address) =
            (logical.missing_since?, logical.owner.key.clone(), &logical.owner.address);
        let owner = match address.namespace.as_str() {
            "" => format!("{}/{}", address.kind, address.name),
            namespace => format!("{}/{} in namespace {namespace}", address.kind, address.name),
        };

        Some(Detection::new(world.now, FindingCode::LogicalOwnerMissing, since, due, || {
            Evidence::new()
                .text("owner", owner)
                .text("named_by", named_by)
                .with("missing_for", Value::Age(since))
        }))
    }
}

/// Returns what the watches show about the owner at an address.
fn presence(world: &World, address: &ObjectAddress) -> Presence {
    let mut presence = Presence::Unwatched;
    let watches = world.watches_of(&address.group, &address.kind);
    for (number, watch) in watches.filter(|(_, watch)| watch.covers(&address.namespace)) {
        if !watch.missing.is_empty() {
            return Presence::Unwatched;
        }

        if world.store.find(number, &address.namespace, &address.name).is_some() {
            return Presence::Exists;
        }

        let earlier = if let Presence::Missing(earlier) = presence { earlier } else { None };
        presence = match watch.visibility(world.now) {
            Visibility::Lost => return Presence::Hidden(number),
            Visibility::Grace(until) => Presence::Missing(earlier.max(Some(until))),
            Visibility::Clear => Presence::Missing(earlier),
        };
    }

    presence
}
