//! Targets that the object may not need, and those that its operator creates.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{ObjectView, OwnerReference};
use loopwatch_model::time::Span;

use super::{WEB, secret, secret_at};
use crate::lab::{Lab, Widget, World, owned_by, reference};

#[test]
fn a_missing_target_of_a_converged_object_is_only_suspected() {
    let mut world = World::answering(Lab::new());
    for name in ["a", "b", "c", "d", "e"] {
        world.create_secret(name);
        world.ready(name, &[secret(name)]);
    }

    let mut web = world.ready("web", &[secret("db")]);
    world.advance(Span::mins(5));

    assert_eq!(world.lab.findings(), [WEB]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Suspected);

    world.refer(web.waiting(), &[secret("db")]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Confirmed);

    world.refer(web.ready(), &[secret("db")]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Suspected);
}

#[test]
fn a_field_whose_targets_are_absent_for_several_converged_objects_is_not_needed() {
    let mut world = World::answering(Lab::new());
    for number in 0..10 {
        let name = format!("w{number}");
        if number > 2 {
            world.create_secret(&name);
        }

        world.ready(&name, &[secret(&name)]);
    }

    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();

    // Another field of the kind is judged.
    world.waiting("other", &[reference("", "ConfigMap", "spec.configRef", "settings")]);
    world.advance(Span::mins(5));

    assert_eq!(world.dangling(), ["DanglingReference Widget team-a/other"]);
}

#[test]
fn objects_that_the_operator_creates_are_outputs() {
    // loopwatch recognizes outputs by the name of the field.
    let mut world = World::answering(Lab::new());
    world.waiting("web", &[reference("", "Secret", "spec.writeConnectionSecretToRef", "out")]);
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();

    assert!(world.reads.is_empty());

    // loopwatch recognizes outputs by their owner, although it has not seen how they appeared, and
    // even after a restart.
    let mut world = World::answering(Lab::new());
    world.put_unseen(&secret_at("first"), |view, _| view.owners = vec![owned_by("first")]);
    world.ready("first", &[secret("first")]);
    world.advance(Span::secs(5));
    world.waiting("web", &[secret("out")]);
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();

    let mut again = World::answering(world.lab.restart());
    again.lab.list(&[]);
    again.waiting("web", &[secret("out")]);
    again.advance(Span::mins(9));
    again.lab.assert_no_findings();

    // loopwatch recognizes outputs by their writer, if it has seen them appear.
    let mut world = World::answering(Lab::new());
    world.waiting("first", &[secret("first")]);
    world.advance(Span::secs(65));
    world.create_unseen(&secret_at("first"), &[]);
    world.advance(Span::secs(65));
    world.waiting("web", &[secret("out")]);
    world.advance(Span::mins(9));

    assert!(world.dangling().is_empty());
}

#[test]
fn a_secret_that_a_person_creates_late_is_no_output() {
    let mut world = World::answering(Lab::new());
    world.waiting("first", &[secret("first")]);
    world.advance(Span::mins(3));
    world.create_secret("first");
    world.advance(Span::mins(2));
    world.waiting("web", &[secret("db")]);
    world.advance(Span::mins(4));

    assert_eq!(world.dangling(), [WEB]);
}

#[test]
fn a_missing_target_of_an_object_that_the_operator_has_made_is_only_suspected() {
    let mut world = World::answering(Lab::new());
    let owner = OwnerReference {
        api_version: "acme.io/v1".into(),
        kind: "Order".into(),
        name: "order".into(),
        uid: "0-1".into(),
        ..OwnerReference::default()
    };

    let start = world.lab.now;
    let mut challenge = Widget::new("web", start);
    let references = vec![secret("token")];
    let view =
        ObjectView { references, owners: vec![owner], ..world.lab.view(challenge.waiting()) };

    world.lab.apply_view(view);
    world.advance(Span::mins(5));

    assert_eq!(world.lab.findings(), [WEB]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Suspected);
}
