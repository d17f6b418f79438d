//! How long deletions usually take, and the list of those that wait.

use loopwatch_model::model::Model;
use loopwatch_model::observation::{Manager, ObjectView, Observation, Owned};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, Lab, Widget, kind, unlearned};

/// Returns a version that is being deleted and whose finalizers these field managers have added.
fn deleted(lab: &mut Lab, name: &str, finalizers: &[(&str, &str)]) -> ObjectView {
    let mut widget = lab.converged(name);
    widget.finalizers = finalizers.iter().map(|(finalizer, _)| (*finalizer).to_owned()).collect();
    widget.deleted = Some(lab.now);

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    for (finalizer, manager) in finalizers {
        view.managers.push(Manager {
            name: (*manager).into(),
            time: Some(lab.now),
            owns: Owned { finalizers: true, ..Owned::default() },
            finalizers: vec![(*finalizer).to_owned()],
            ..Manager::default()
        });
    }

    view
}

/// Returns a lab that learns, after `count` deletions that took `took` each.
fn experienced(count: usize, took: Span, settings: Settings) -> Lab {
    let mut lab = Lab::with(settings);
    for number in 0..count {
        let widget = terminating(&mut lab, &format!("old-{number}"));
        lab.advance(took);
        lab.delete(&widget);
        lab.advance(Span::mins(1));
    }

    lab
}

fn terminating(lab: &mut Lab, name: &str) -> Widget {
    let mut widget = lab.converged(name);
    widget.finalizers = vec![FINALIZER.into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);

    widget
}

#[test]
fn a_deletion_counts_from_the_end_of_the_grace_period() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec![FINALIZER.into()];
    widget.deleted = Some(lab.now.after(Span::hours(1))); // `deletionGracePeriodSeconds: 3600`
    lab.apply(&widget);
    lab.advance(Span::mins(74));

    assert!(!lab.has("FinalizerStuck"));

    lab.advance(Span::mins(1));
    assert!(lab.has("FinalizerStuck"));
}

#[test]
fn a_slow_cleanup_is_found_before_it_is_stuck_and_even_if_it_makes_progress() {
    let mut lab = Lab::with(Settings { cleanup_slow_after: Span::secs(30), ..unlearned() });
    let widget = terminating(&mut lab, "web");

    lab.advance(Span(29_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["CleanupSlow Widget team-a/web"]);
    assert!(
        lab.evidence().contains("threshold 30s, threshold source configured"),
        "{}",
        lab.evidence()
    );
    assert_eq!(lab.kind().finalizers[FINALIZER].waiting, [0, 0, 1, 0, 0]);

    lab.advance(Span::mins(1));
    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn a_kind_whose_cleanups_always_take_long_has_a_learned_threshold() {
    let mut lab = experienced(20, Span::mins(14), Settings::default());
    terminating(&mut lab, "web");
    lab.advance(Span::mins(47));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);
    assert!(lab.evidence().contains("threshold 48m"), "{}", lab.evidence());
}

#[test]
fn a_kind_whose_cleanups_are_fast_is_stuck_sooner_but_not_before_five_minutes() {
    let mut lab = experienced(20, Span::secs(2), Settings::default());
    terminating(&mut lab, "web");
    lab.advance(Span(299_000));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/web"]);

    // Nineteen are not enough.
    let mut lab = experienced(19, Span::secs(2), Settings::default());
    terminating(&mut lab, "web");
    lab.advance(Span::mins(14));

    assert!(!lab.has("FinalizerStuck"), "{:?}", lab.findings());
}

#[test]
fn an_outage_of_the_operator_does_not_hide_the_next_one() {
    let mut lab = experienced(20, Span::secs(2), Settings::default());
    let widget = terminating(&mut lab, "web");
    lab.advance(Span::hours(6));
    lab.delete(&widget);
    terminating(&mut lab, "next");
    lab.advance(Span::mins(15));

    assert_eq!(lab.findings(), ["FinalizerStuck Widget team-a/next"]);
    assert!(lab.evidence().contains("threshold 15m"), "{}", lab.evidence());
}

#[test]
fn a_kind_that_is_slow_from_the_start_is_learned_although_its_deletions_count_as_stuck_at_first() {
    let mut lab = experienced(20, Span::mins(30), Settings::default());
    terminating(&mut lab, "web");
    lab.advance(Span::mins(90));
    lab.assert_no_findings();
}

#[test]
fn what_was_learned_survives_a_restart() {
    let lab = experienced(20, Span::mins(14), Settings::default());
    let checkpoint = lab.model.checkpoint();
    for known_kind in [true, false] {
        let mut lab = Lab::unsynced(Settings::default());
        if !known_kind {
            lab.model = Model::new(Settings::default());
        }

        lab.observe(Observation::Restored(Box::new(checkpoint.clone())));
        lab.discover(&[kind()]);
        lab.list(&[]);

        assert_eq!(lab.model.checkpoint().finalizers, checkpoint.finalizers);

        terminating(&mut lab, "web");
        lab.advance(Span::mins(40));
        lab.assert_no_findings();
    }
}

#[test]
fn objects_that_loopwatch_loses_from_sight_raise_the_estimate() {
    let mut lab = experienced(20, Span::secs(2), Settings::default());
    for number in 0..20 {
        terminating(&mut lab, &format!("lost-{number}"));
    }

    lab.advance(Span::mins(4));
    lab.discover(&[]);
    lab.discover(&[kind()]);
    lab.list(&[]);
    terminating(&mut lab, "web");
    lab.advance(Span::mins(14));

    assert!(!lab.has("FinalizerStuck"), "half of the removals took longer: {:?}", lab.findings());
}

#[test]
fn the_experience_of_a_checkpoint_is_limited() {
    let mut checkpoint = Lab::new().model.checkpoint();
    for number in 0..1_000 {
        let memory = loopwatch_model::checkpoint::FinalizerMemory {
            removals: vec![20; 64],
            ..Default::default()
        };

        checkpoint.finalizers.insert(format!("example.io/Widget example.io/f-{number}"), memory);
    }

    let mut lab = Lab::unsynced(Settings::default());
    lab.observe(Observation::Restored(Box::new(checkpoint)));

    assert!(lab.model.checkpoint().finalizers.len() <= 1_000);
}

#[test]
fn a_snapshot_lists_the_oldest_deletions_with_verdicts_and_actors() {
    use loopwatch_model::snapshot::{DeletionVerdict, MAX_DELETIONS};

    let mut lab = Lab::new();
    lab.converged("stays");

    assert!(lab.snapshot().deletions.is_empty(), "no object is being deleted");

    let finalizers = [
        (FINALIZER, "widget-operator"),
        ("kubernetes.io/pvc-protection", "kube-controller-manager"),
    ];
    let view = deleted(&mut lab, "old", &finalizers);
    lab.apply_view(view);
    lab.advance(Span::mins(16));

    let young = terminating(&mut lab, "young");

    let deletions = lab.snapshot().deletions;
    let shown: Vec<_> = deletions.iter().map(|row| (row.name.as_str(), row.verdict)).collect();

    assert_eq!(shown, [("old", DeletionVerdict::Stuck), ("young", DeletionVerdict::Progressing)]);

    let actors: Vec<_> =
        deletions[0].finalizers.iter().map(|(name, actor)| (&**name, actor.as_str())).collect();
    let expected = [
        (FINALIZER, "field manager widget-operator (operator of example.io)"),
        ("kubernetes.io/pvc-protection", "kube-controller-manager, once no Pod uses the claim"),
    ];

    assert_eq!(actors, expected);

    lab.delete(&young);
    assert_eq!(lab.snapshot().deletions.len(), 1);

    for number in 0..MAX_DELETIONS {
        terminating(&mut lab, &format!("more-{number}"));
    }

    let deletions = lab.snapshot().deletions;
    assert_eq!((deletions.len(), deletions[0].name.as_str()), (MAX_DELETIONS, "old"));
}
