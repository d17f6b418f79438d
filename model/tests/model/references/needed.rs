//! Targets that the object may not need, and those that its operator creates.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{ConditionStatus, ObjectView, OwnerReference, Reference};
use loopwatch_model::time::Span;

use super::{WEB, secret, secret_at};
use crate::lab::{Lab, Widget, World, owned_by, reference};

/// Returns a reference to a service account.
fn account() -> Reference {
    reference("", "ServiceAccount", "spec.serviceAccountName", "deployer")
}

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

#[test]
fn a_target_without_which_the_object_was_ready_is_not_the_cause_of_a_later_failure() {
    for (ready_for, is_cause) in [(Span::hours(24), false), (Span::mins(10), true)] {
        let mut world = World::answering(Lab::new());
        let mut web = world.ready("web", &[account()]);
        world.advance(ready_for);

        web.condition("Ready", ConditionStatus::False, "ReconciliationFailed");
        world.refer(&web, &[account()]);
        world.advance(Span::mins(20));

        let roots = world.lab.roots();
        assert_eq!(
            roots.contains(&"Regressed Widget team-a/web".to_owned()),
            !is_cause,
            "{roots:?}"
        );
        let confidence = world.lab.finding("DanglingReference").confidence;
        assert_eq!(confidence == Confidence::Confirmed, is_cause);
    }
}

#[test]
fn a_target_that_went_away_from_a_ready_object_is_the_cause_for_a_day() {
    let mut world = World::answering(Lab::new());
    world.create_secret("db");
    let mut web = world.ready("web", &[secret("db")]);
    world.advance(Span::mins(30));
    world.objects.clear();
    world.advance(Span::hours(3));

    web.condition("Ready", ConditionStatus::False, "SecretNotFound");
    world.refer(&web, &[secret("db")]);
    world.advance(Span::mins(10));

    assert_eq!(world.lab.roots(), [WEB]);
}

#[test]
fn credentials_may_come_from_the_operator_while_it_works_on_a_new_object() {
    let password = || reference("", "Secret", "spec.databaseSecretName", "db-password");
    let mut world = World::answering(Lab::new());
    let mut web = world.waiting("web", &[password()]);
    world.advance(Span::mins(15));

    assert_eq!(world.lab.roots(), [WEB, "Overdue Widget team-a/web"]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Suspected);

    // The operator creates it, and loopwatch learns that.
    world.create_unseen(&secret_at("db-password"), &[]);
    world.advance(Span::mins(2));
    world.refer(web.ready(), &[password()]);
    let other = reference("", "Secret", "spec.databaseSecretName", "other");
    world.waiting("other", std::slice::from_ref(&other));
    world.advance(Span::mins(9));
    world.lab.assert_no_findings();
}

#[test]
fn credentials_that_the_status_misses_are_not_there() {
    let password = || reference("", "Secret", "spec.passwordSecretRef", "web-password");
    let mut world = World::answering(Lab::new());
    let mut web = world.waiting("web", &[password()]);
    world.refer(web.failed("SecretNotFound"), &[password()]);
    world.advance(Span::mins(5));

    assert_eq!(world.dangling(), [WEB]);
    assert_eq!(world.lab.finding("DanglingReference").confidence, Confidence::Confirmed);
}
