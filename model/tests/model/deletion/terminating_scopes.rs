//! Namespaces and definitions whose deletion objects block.

use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Cause, Condition, ConditionStatus, DefinitionView, NamespaceView, Observation, SourceId,
};
use loopwatch_model::time::{Span, Timestamp};

use super::STUCK;
use crate::lab::{FINALIZER, Lab, Widget, kind, watch};

const NAMESPACE: &str = "NamespaceStuck Namespace team-a";

const DEFINITION: &str = "DefinitionStuck definition widgets.example.io";

/// A namespace that finalizers block.
fn terminating(name: &str, deleted: Timestamp) -> NamespaceView {
    let condition = Condition {
        r#type: "NamespaceFinalizersRemaining".into(),
        status: ConditionStatus::True,
        reason: "SomeFinalizersRemain".into(),
        ..Condition::default()
    };
    NamespaceView {
        name: name.into(),
        deleted: Some(deleted),
        conditions: vec![condition],
        ..NamespaceView::default()
    }
}

fn delete_definition(lab: &mut Lab) {
    let definition = DefinitionView {
        name: "widgets.example.io".into(),
        deleted: Some(lab.now),
        ..DefinitionView::default()
    };

    lab.observe(Observation::DefinitionSeen(definition));
}

#[test]
fn the_finding_about_a_namespace_names_the_object_that_blocks_it_and_raises_no_second_alert() {
    let mut lab = Lab::new();
    let mut web = lab.finalized("web", &[FINALIZER]);
    lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    lab.advance(Span::secs(3));
    lab.begin_deletion(&mut web);
    lab.advance(Span::mins(15));

    assert_eq!(lab.roots(), [STUCK]);

    let summary = lab.finding("NamespaceStuck").summary();
    for part in [
        "blocker Widget team-a/web",
        "blocker finalizers example.io/cleanup",
        "field manager widget-operator",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }

    assert!(summary.contains("NamespaceFinalizersRemaining (SomeFinalizersRemain)"), "{summary}");

    lab.delete(&web);
    lab.advance(Span::secs(1));
    lab.assert_no_findings();
}

#[test]
fn an_object_that_is_not_being_deleted_itself_blocks_its_namespace() {
    let mut lab = Lab::new();
    lab.finalized("web", &[FINALIZER]);
    lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);
    lab.advance(Span(899_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.roots(), [NAMESPACE]);

    lab.observe(Observation::NamespaceGone("team-a".into()));
    lab.assert_no_findings();
}

#[test]
fn a_namespace_that_other_operators_block_is_their_affair() {
    let mut lab = Lab::new();
    lab.converged("web"); // without finalizers
    lab.finalized("db", &[FINALIZER]);
    lab.delete_namespace("team-b", &["NamespaceFinalizersRemaining"]);
    lab.advance(Span::hours(2));
    lab.assert_no_findings();

    // Objects without finalizers block nothing, so something else does.
    let mut lab = Lab::new();
    lab.converged("web");
    lab.delete_namespace("team-a", &["NamespaceDeletionDiscoveryFailure"]);
    lab.advance(Span::mins(5));
    assert_eq!(lab.snapshot().left_out, []);

    lab.advance(Span::hours(2));
    lab.assert_no_findings();
    let told = &lab.snapshot().left_out;
    let [unseen] = &told[..] else { panic!("{told:?}") };
    assert_eq!(unseen.what, "the cause for which the deletion of Namespace team-a hangs");
    assert!(unseen.why.contains("NamespaceDeletionDiscoveryFailure"), "{}", unseen.why);
}

#[test]
fn a_namespace_whose_objects_disappear_one_by_one_is_not_stuck() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> =
        (0..10).map(|n| lab.finalized(&format!("web-{n}"), &[FINALIZER])).collect();
    lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);

    while let Some(mut next) = widgets.pop() {
        lab.advance(Span::mins(6));
        lab.begin_deletion(&mut next);
        lab.delete(&next);
        lab.assert_no_findings();
    }
}

#[test]
fn a_definition_waits_for_the_objects_of_its_kind() {
    let mut lab = Lab::new();
    let mut web = lab.finalized("web", &[FINALIZER]);
    delete_definition(&mut lab);
    lab.begin_deletion(&mut web);
    lab.advance(Span::mins(15));

    assert_eq!(lab.roots(), [STUCK]);
    assert!(lab.findings().contains(&DEFINITION.to_owned()), "{:?}", lab.findings());

    lab.observe(Observation::DefinitionsListed(Vec::new()));
    assert_eq!(lab.findings(), [STUCK]);
}

#[test]
fn a_definition_that_is_deleted_within_minutes_is_not_stuck() {
    let mut lab = Lab::new();
    let mut web = lab.finalized("web", &[FINALIZER]);
    delete_definition(&mut lab);
    lab.begin_deletion(&mut web);
    lab.advance(Span::mins(4));
    lab.delete(&web);
    lab.advance(Span::mins(1));
    lab.observe(Observation::DefinitionGone("widgets.example.io".into()));

    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}

#[test]
fn nothing_is_concluded_while_the_namespaces_or_the_objects_cannot_be_seen() {
    for source in [SourceId::Namespaces, SourceId::Watch(watch())] {
        let mut lab = Lab::new();
        lab.finalized("web", &[FINALIZER]);
        lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);

        let _detail = String::new();
        lab.fail_source(&source, Cause::Connection);
        lab.advance(Span::hours(1));

        assert!(!lab.has("NamespaceStuck"), "{source}");
    }
}

#[test]
fn a_restart_and_a_step_of_the_clock_keep_the_finding() {
    let mut lab = Lab::new();
    let web = lab.finalized("web", &[FINALIZER]);
    lab.delete_namespace("team-a", &["NamespaceFinalizersRemaining"]);

    let deleted = lab.now;
    lab.advance(Span::mins(16));
    lab.now = lab.now.after(Span::hours(1));
    lab.observe(Observation::ClockStepped { by_ms: Span::hours(1).0 });

    assert_eq!(lab.since("NamespaceStuck"), deleted);

    let checkpoint = lab.model.checkpoint();
    lab.model = Model::new(lab.model.settings().clone());
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    lab.list(&[web]);
    lab.observe(Observation::NamespacesListed(vec![terminating("team-a", deleted)]));

    assert_eq!(lab.since("NamespaceStuck"), deleted);

    lab.observe(Observation::NamespacesListed(Vec::new()));
    lab.assert_no_findings();
}

#[test]
fn the_number_of_namespaces_is_limited() {
    let mut lab = Lab::new();
    for number in 0..1_001 {
        lab.delete_namespace(&format!("team-{number}"), &["NamespaceFinalizersRemaining"]);
    }

    assert_eq!(lab.dropped("containers"), 1);
}
