//! Cycles of owner references.

use std::collections::{BTreeMap, VecDeque};

use crate::finding::{Evidence, FindingCode, Value};
use crate::model::findings::open_findings::OpenFindings;
use crate::model::ownership::Ownership;
use crate::model::ownership::bad_owners::BadOwner;
use crate::model::world::World;
use crate::model::world::store::{NO_UID, Slot};
use crate::snapshot::OwnerHazard;

/// The maximum number of objects that a search for a cycle visits.
const MAX_STEPS: usize = 10_000;

/// The maximum number of objects of a cycle that a finding names.
const MAX_NAMED: usize = 10;

impl Ownership {
    /// Opens a finding if an object is part of a cycle of owners. The subject is the first object
    /// of the cycle by kind, namespace and name, so that each cycle has one finding.
    pub(crate) fn find_cycle(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
        slot: Slot,
        writer: &str,
    ) {
        let Some(cycle) = cycle_of(world, slot) else { return };
        let Some(first) = cycle.iter().copied().min_by_key(|slot| world.subject(*slot)) else {
            return;
        };
        let name = |slot: &Slot| {
            let record = world.store.get(*slot)?;
            Some(format!("{}/{}", world.kind_of(record.watch).kind, record.name))
        };

        let evidence = Evidence::new()
            .with("cycle", Value::Names(cycle.iter().take(MAX_NAMED).filter_map(name).collect()))
            .with("length", Value::count(cycle.len()))
            .text("writer", writer.to_owned());
        let bad_owner =
            BadOwner::new(OwnerHazard::Cycle, world.subject(first), world.now, evidence);

        self.open_bad_owner(world, findings, first, bad_owner);
    }

    /// Ends the findings about cycles that are broken. Returns whether there were any.
    pub(crate) fn recheck_cycles(
        &mut self,
        world: &mut World,
        findings: &mut OpenFindings,
    ) -> bool {
        let mut any = false;
        for (slot, subject) in self.open_cycles() {
            if world.subject(slot) != subject || cycle_of(world, slot).is_none() {
                self.end_bad_owners(world, findings, &subject, false, |code| {
                    code == FindingCode::OwnerCycle
                });
                any = true;
            }
        }

        any
    }
}

/// Returns the shortest path from an object through its owners back to itself, if there is one.
fn cycle_of(world: &World, slot: Slot) -> Option<Vec<Slot>> {
    let mut came_from: BTreeMap<Slot, Slot> = BTreeMap::new();
    let mut front = VecDeque::from([slot]);
    while let Some(at) = front.pop_front() {
        for owner in world.owners_of(at).iter().filter(|owner| owner.uid() != NO_UID) {
            let Some(next) = world.find_uid(owner.uid()) else { continue };
            if next == slot {
                let mut cycle = vec![at];
                while let Some(before) =
                    cycle.last().filter(|last| **last != slot).and_then(|last| came_from.get(last))
                {
                    cycle.push(*before);
                }

                cycle.reverse();
                return Some(cycle);
            }

            if came_from.len() < MAX_STEPS && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                front.push_back(next);
            }
        }
    }

    None
}
