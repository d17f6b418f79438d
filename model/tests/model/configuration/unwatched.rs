//! Configuration that no watch shows.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{Cause, Probe};
use loopwatch_model::time::Span;

use super::{FINDING, settings};
use crate::lab::World;

#[test]
fn configuration_that_no_watch_shows_is_read_now_and_then() {
    let mut world = World::without_config_maps();
    let reads = world.reads.iter().filter(|at| **at == settings()).count();
    assert!((5..=7).contains(&reads), "{reads} reads in an hour");

    let written = world.lab.now;
    world.write();
    world.advance(Span::mins(21));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );
    assert_eq!(world.lab.finding("StaleConfiguration").confidence, Confidence::Confirmed);

    world.restart();
    world.advance(Span::secs(30));
    world.lab.assert_no_findings();
    world.advance(Span::mins(2));

    assert_eq!(
        (world.lab.findings(), world.lab.since("StaleConfiguration")),
        (vec![FINDING.to_owned()], written)
    );

    world.roll();
    world.advance(Span::mins(1));
    world.lab.assert_no_findings();
}

#[test]
fn configuration_that_was_created_again_or_cannot_be_read_is_unknown() {
    let mut world = World::without_config_maps();
    world.create_settings_again();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    let mut world = World::without_config_maps();
    world.reads_fail = Some(Cause::Forbidden);
    world.write();
    world.advance(Span::hours(1));
    world.lab.assert_no_findings();

    // Nobody answers.
    let mut world = World::without_config_maps();
    world.write();

    let mut asked = 0;
    for _ in 0..3600 {
        world.lab.advance(Span::secs(1));
        asked +=
            world.lab.model.probes().iter().filter(|probe| matches!(probe, Probe::Read(_))).count();
    }

    world.lab.assert_no_findings();
    assert!(asked <= 15, "{asked} probes");
}
