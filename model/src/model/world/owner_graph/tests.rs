//! Random histories of owners, deletions, references and reads. After every step, the indexes of
//! the graph must equal what the objects say; once everything is healthy, no finding may remain.

mod world;

use crate::model::world::store;
use crate::model::world::store::Record;
use std::collections::{BTreeMap, BTreeSet};

use self::world::World;
use crate::model::Model;
use crate::model::world::owner_graph::*;
use crate::observation::Observation;
use crate::snapshot::Cursor;

/// Recomputes everything that the graph and the objects that use it keep.
fn check(model: &Model, context: &dyn Fn() -> String) {
    let records: Vec<(Slot, &Record)> = model.world.store.iter().collect();
    let known = records.iter().filter(|(_, record)| record.uid != store::NO_UID);

    assert_eq!(
        model.world.graph.by_uid.len(),
        known.clone().count(),
        "{}: objects by UID",
        context()
    );

    for (slot, record) in known {
        let found: Vec<&Slot> =
            model.world.graph.by_uid.iter().filter(|other| *other == slot).collect();
        assert_eq!(found.len(), 1, "{}: entries of a slot", context());
        assert!(model.world.find_uid(record.uid).is_some(), "{}: an object by its UID", context());
    }

    let mut children: BTreeSet<(u64, Slot)> = BTreeSet::new();
    let mut siblings: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (slot, record) in &records {
        let kind = siblings.entry(model.world.watches[record.watch as usize].kind).or_default();
        kind.0 += u64::from(record.owners.is_some());
        for owner in record.owners() {
            children.insert((fingerprint(owner.uid()), *slot));
            kind.1 += 1;

            let found = owner.uid() == store::NO_UID
                || model.world.children_of(owner.uid()).any(|child| child == *slot);

            assert!(found, "{}: a child of its owner", context());
        }
    }

    assert_eq!(model.world.graph.children, children, "{}: children by owner", context());

    for (number, kind) in model.world.kinds.iter().enumerate() {
        let expected =
            siblings.get(&u16::try_from(number).unwrap_or(u16::MAX)).copied().unwrap_or_default();

        assert_eq!(
            (kind.siblings.owned, kind.siblings.references),
            expected,
            "{}: {}",
            context(),
            kind.kind
        );
    }

    for slot in model.parts.ownership.unverified.children() {
        assert!(!model.world.owners_of(slot).is_empty(), "{}: a doubt without an owner", context());
    }

    for (slot, _) in model.parts.ownership.current_bad_owners() {
        assert!(model.world.store.get(slot).is_some(), "{}: a hazard of no object", context());
    }

    let departed = &model.world.graph.departed;
    assert!(departed.at.len() <= departed.order.len(), "{}: UIDs of deleted objects", context());

    let exists = |slot: &Slot| model.world.store.get(*slot).is_some();
    assert!(
        model.world.unready_workloads.iter().all(exists),
        "{}: a workload that is gone",
        context()
    );
    assert!(
        model.parts.soft_deletions.slots().all(|slot| exists(&slot)),
        "{}: a marked object that is gone",
        context()
    );

    let objects: u64 =
        model.snapshot().kinds.iter().map(|kind| kind.states().iter().sum::<u64>()).sum();

    assert_eq!(objects, records.len() as u64, "{}: states add up", context());
}

fn output(model: &Model) -> String {
    let (rows, _) = model.rows(Cursor::default(), usize::MAX);
    format!("{:#?}\n{rows:#?}\n{:#?}", model.snapshot(), model.checkpoint())
}

#[test]
fn the_indexes_agree_with_the_objects_after_every_step() {
    for seed in 1..=15_u64 {
        let mut world = World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), seed % 2 == 0);
        for step in 0..400 {
            world.step();
            let last = || world.history.last().map(|(_, observation)| format!("{observation:?}"));
            check(&world.model, &|| format!("seed {seed}, step {step}, {:?}", last()));

            let due = world.model.next_due();
            assert!(
                due.is_none_or(|due| due > world.model.world.now),
                "seed {seed}, step {step}: a timer in the past"
            );
        }
    }
}

#[test]
fn names_of_owners_survive_their_owners() {
    for seed in 1..=10_u64 {
        let mut world = World::new(seed.wrapping_mul(0x51ed_270b_0000_0001), false);
        for step in 0..300 {
            world.step();
            for (slot, owners) in world.told_owners() {
                let held = world.model.world.owners_of(slot);
                let names: Vec<&str> =
                    held.iter().map(|owner| world.model.world.owner_name(owner)).collect();
                let told: Vec<&str> = owners.iter().map(|owner| owner.name.as_str()).collect();

                assert_eq!(names, told, "seed {seed}, step {step}");
            }
        }
    }
}

#[test]
fn nothing_is_reported_once_everything_is_healthy() {
    let mut opened: BTreeSet<&str> = BTreeSet::new();
    for seed in 1..=60_u64 {
        let mut world = World::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d), seed % 2 == 0);
        (0..300).for_each(|_| world.step());
        opened.extend(world.model.finding_events().iter().map(|event| event.finding.code.name()));
        world.heal();

        let findings = world.model.snapshot().findings;
        let kept: Vec<String> = findings
            .iter()
            .map(|f| format!("{:?} {} {}: {}", f.code, f.subject, f.since, f.summary()))
            .collect();

        assert!(kept.is_empty(), "seed {seed}: {kept:#?}");

        check(&world.model, &|| format!("seed {seed}, healed"));
        assert_eq!(
            world.model.parts.ownership.unverified.children().count(),
            0,
            "seed {seed}: doubts about healthy objects"
        );
    }

    let provoked = [
        "CrossNamespaceOwner",
        "DanglingReference",
        "DeletionBlockedByDependent",
        "FinalizerStuck",
        "LogicalOwnerMissing",
        "NamespaceStuck",
        "Orphan",
        "OwnerCycle",
        "OwnerMissing",
        "OwnerReplaced",
        "OwnerUnresolvable",
    ];

    let missing: Vec<&&str> = provoked.iter().filter(|name| !opened.contains(**name)).collect();
    assert!(missing.is_empty(), "the histories provoke no {missing:?}, only {opened:?}");
}

#[test]
fn a_replay_gives_the_same_however_often_it_ticks() {
    for seed in 1..=12_u64 {
        let mut world = World::new(seed.wrapping_mul(0x0dd0_5bd5_6ab9_57f1), seed % 2 == 0);
        (0..300).for_each(|_| world.step());
        for ticks in [0, 20] {
            let mut again = Model::new(world::settings());
            for (at, observation) in &world.history {
                // The instant of a clock step follows the new setting of the clock.
                let end = match observation {
                    Observation::ClockStepped { by_ms } => at.shifted(-by_ms),
                    _ => *at,
                };
                let (from, gap) = (again.world.now, end.since(again.world.now).0);
                for tick in (1..ticks).filter(|_| from.0 > 0 && gap > ticks) {
                    again.apply(from.after(Span(gap * tick / ticks)), Observation::Tick);
                    again.probes();
                }

                again.apply(*at, observation.clone());
                again.probes();
            }

            let (one, two) = (output(&world.model), output(&again));
            let differs = one.lines().zip(two.lines()).find(|(one, two)| one != two);

            assert!(one == two, "seed {seed}, {ticks} ticks: {differs:?}");
        }
    }
}
