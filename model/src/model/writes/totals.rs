//! Who writes how much: the versions of each kind, by field manager.

use std::sync::Arc;

use crate::model::world::World;
use crate::model::world::kinds::OTHER;
use crate::model::world::store::Slot;
use crate::model::writes::author;
use crate::observation::ObjectView;

/// The maximum number of field managers that are counted by name for a kind. A client chooses its name,
/// so any user could otherwise create series.
const MAX_MANAGERS: usize = 16;

/// The name for versions of which nothing shows the author.
const UNKNOWN: &str = "_unknown";

/// Counts a version of an object.
pub(super) fn count(world: &mut World, slot: Slot, view: &ObjectView, is_waste: bool) {
    let manager = author::only_name(world.now, view).unwrap_or(UNKNOWN);
    let Some(watch) = world.store.get(slot).map(|record| record.watch) else { return };
    let kind = usize::from(world.watches[usize::from(watch)].kind);
    let writes = &mut world.kinds[kind].totals.writes;

    let is_known = writes.contains_key(manager) || manager == UNKNOWN;
    let manager = if is_known || writes.len() < MAX_MANAGERS { manager } else { OTHER };
    let counts = match writes.get_mut(manager) {
        Some(counts) => counts,
        None => writes.entry(Arc::from(manager)).or_default(),
    };

    counts.versions += 1;
    counts.wasted += u64::from(is_waste);
}
