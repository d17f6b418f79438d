//! Owner references, logical owners and orphans.

mod bad_owners;
mod cascades;
mod unwatched_owners;
mod served_versions;
mod orphans;
mod lost_owners;
mod logical_owners;
mod annotated_owners;

use loopwatch_model::observation::{ObjectAddress, ObjectView};

use crate::lab::{World, map, widget_at};

const INSTANCE: &str = "app.kubernetes.io/instance";

/// Returns a world with widgets and a labelled child of each.
fn with_siblings(count: usize) -> World {
    let mut world = World::new();
    create_siblings(&mut world, count, map);
    world
}

/// Creates widgets and a labelled child of each.
fn create_siblings(world: &mut World, count: usize, child: impl Fn(&str) -> ObjectAddress) {
    for n in 0..count {
        let (owner, child) = (widget_at("team-a", &format!("w{n}")), child(&format!("c{n}")));
        world.create(&owner, &[]);

        let reference = world.owner(&owner);
        create_labelled(world, &child, &format!("w{n}"), |view| view.owners.push(reference));
    }
}

fn create_labelled(
    world: &mut World,
    at: &ObjectAddress,
    instance: &str,
    more: impl FnOnce(&mut ObjectView),
) {
    world.create_unseen(at, &[]);
    world.put(at, |view, _| {
        drop(view.labels.insert(INSTANCE.into(), instance.into()));
        more(view);
    });
}
