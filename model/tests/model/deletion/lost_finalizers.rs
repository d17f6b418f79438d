//! Finalizers that disappear from objects that are not being deleted.

use loopwatch_model::finding::Confidence;
use loopwatch_model::observation::{Manager, ObjectView, Owned};
use loopwatch_model::snapshot::FinalizerOutcome;
use loopwatch_model::time::Span;

use crate::lab::{FINALIZER, Lab, Widget};

const FOREIGN: &str = "backup.other.com/snapshot";

const LOST: &str = "FinalizerLost Widget team-a/web";

const FLAPPING: &str = "FinalizerFlapping Widget team-a/web";

/// Returns a version of the object with these finalizers. The backup agent owns the foreign one.
fn version(lab: &mut Lab, widget: &Widget, finalizers: &[&str]) -> ObjectView {
    let mut view = lab.view(widget);
    view.finalizers = finalizers.iter().map(|f| (*f).to_owned()).collect();
    view.managers[1].finalizers =
        finalizers.iter().filter(|f| **f == FINALIZER).map(|f| (*f).to_owned()).collect();

    let foreign: Vec<String> =
        finalizers.iter().filter(|f| **f != FINALIZER).map(|f| (*f).to_owned()).collect();
    if !foreign.is_empty() {
        view.managers.push(Manager {
            name: "backup-agent".into(),
            time: Some(lab.now),
            owns: Owned { finalizers: true, ..Owned::default() },
            finalizers: foreign,
            ..Manager::default()
        });
    }

    view
}

fn write(lab: &mut Lab, widget: &Widget, finalizers: &[&str]) {
    let view = version(lab, widget, finalizers);
    lab.apply_view(view);
}

fn outcome(lab: &Lab, finalizer: &str, outcome: FinalizerOutcome) -> u64 {
    lab.kind()
        .finalizers
        .get(finalizer)
        .map_or(0, |summary| summary.totals.outcomes[outcome as usize])
}

#[test]
fn a_finalizer_that_another_controller_overwrites_is_lost() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);
    lab.advance(Span::mins(1));
    write(&mut lab, &widget, &[FOREIGN]); // from an old copy

    assert_eq!(lab.findings(), [LOST]);

    let evidence = lab.evidence();
    assert!(
        evidence.contains("removed by backup-agent") && evidence.contains("actor widget-operator"),
        "{evidence}"
    );
    assert_eq!(lab.finding("FinalizerLost").confidence, Confidence::Confirmed);
    assert_eq!(outcome(&lab, FINALIZER, FinalizerOutcome::Lost), 1);

    lab.advance(Span::hours(2));
    assert_eq!(lab.findings(), [LOST], "still missing");

    write(&mut lab, &widget, &[FOREIGN, FINALIZER]);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_removes_its_own_finalizer_loses_nothing() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);
    lab.advance(Span::mins(1));
    write(&mut lab, &widget, &[]);
    lab.advance(Span::mins(10));
    lab.assert_no_findings();
    write(&mut lab, &widget, &[FINALIZER]); // the feature is switched on again

    lab.advance(Span::mins(10));
    lab.assert_no_findings();

    assert_eq!(outcome(&lab, FINALIZER, FinalizerOutcome::Lost), 0);
}

#[test]
fn a_new_version_of_the_operator_may_rename_its_finalizer() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let mut old = version(&mut lab, &widget, &[FINALIZER]);
    old.managers[1].name = "manager".into();
    lab.apply_view(old);
    lab.advance(Span::mins(1));

    let mut new = version(&mut lab, &widget, &[FINALIZER]);
    new.finalizers = vec!["widgets.example.io/cleanup".into()];
    new.managers[1].finalizers.clone_from(&new.finalizers);
    lab.apply_view(new);
    lab.assert_no_findings();
}

#[test]
fn a_person_who_replaces_the_object_by_an_old_manifest_removes_the_finalizer() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);
    lab.advance(Span::mins(1));
    widget.spec(2, lab.now);
    write(&mut lab, &widget, &[]);

    assert_eq!(lab.findings(), [LOST]);
    assert!(lab.evidence().contains("removed by kubectl"), "{}", lab.evidence());
}

#[test]
fn a_person_may_remove_the_finalizer_that_a_person_added() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    let mut view = version(&mut lab, &widget, &[FOREIGN]);
    view.managers[2].name = "helm".into();
    view.managers[2].owns.spec = true;
    lab.apply_view(view);
    lab.advance(Span::mins(1));
    widget.spec(2, lab.now);

    write(&mut lab, &widget, &[]);
    lab.advance(Span::secs(1));
    lab.assert_no_findings();
}

#[test]
fn a_removal_by_nobody_knows_whom_is_suspected_once_the_controller_repairs_it() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);
    lab.advance(Span::mins(1));
    write(&mut lab, &widget, &[]);
    lab.assert_no_findings();
    lab.advance(Span::secs(2));
    write(&mut lab, &widget, &[FINALIZER]);

    assert_eq!(lab.findings(), [LOST]);
    assert_eq!(lab.finding("FinalizerLost").confidence, Confidence::Suspected, "raises no alert");

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_finalizer_that_comes_and_goes_flaps_and_explains_the_losses() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);

    for round in 0..3 {
        lab.advance(Span::mins(2));
        write(&mut lab, &widget, &[FOREIGN]);
        lab.advance(Span::secs(1));

        assert!(!lab.has("FinalizerFlapping"), "round {round}");

        write(&mut lab, &widget, &[FINALIZER]);
    }

    assert_eq!(lab.roots(), [FLAPPING]);

    let summary = lab.finding("FinalizerFlapping").summary();
    assert!(
        summary.contains("returns 3") && summary.contains("backup-agent, widget-operator"),
        "{summary}"
    );

    let flapped = [FINALIZER, FOREIGN].map(|f| outcome(&lab, f, FinalizerOutcome::Flapping));
    assert_eq!(flapped.iter().sum::<u64>(), 1);

    lab.advance(Span::hours(25));
    lab.assert_no_findings();
}

#[test]
fn a_finalizer_that_returns_twice_or_over_hours_does_not_flap() {
    for (rounds, pause) in [(2, Span::mins(2)), (6, Span::mins(20))] {
        let mut lab = Lab::new();
        let widget = lab.converged("web");
        write(&mut lab, &widget, &[FINALIZER]);

        for _ in 0..rounds {
            lab.advance(pause);
            write(&mut lab, &widget, &[]);
            lab.advance(pause);
            write(&mut lab, &widget, &[FINALIZER]);
            lab.assert_no_findings();
        }
    }
}

#[test]
fn changes_that_a_list_shows_and_deletions_lose_nothing() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    write(&mut lab, &widget, &[FINALIZER]);
    lab.blind_for(Span::mins(1));

    let view = version(&mut lab, &widget, &[FOREIGN]);
    lab.list_views(vec![view]);
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
    widget.deleted = Some(lab.now);
    write(&mut lab, &widget, &[FINALIZER]);
    lab.assert_no_findings();
}

#[test]
fn setting_the_clock_keeps_the_window() {
    for by_ms in [7_200_000, -7_200_000] {
        let mut lab = Lab::new();
        let widget = lab.converged("web");
        write(&mut lab, &widget, &[FINALIZER]);
        lab.advance(Span::mins(1));
        write(&mut lab, &widget, &[FOREIGN]);
        write(&mut lab, &widget, &[FOREIGN, FINALIZER]);

        assert_eq!(lab.findings(), [LOST]);

        lab.now = lab.now.after(Span(by_ms));
        lab.observe(loopwatch_model::observation::Observation::ClockStepped { by_ms });
        lab.advance(Span::mins(29));

        assert_eq!(lab.findings(), [LOST], "{by_ms}");

        lab.advance(Span::mins(1));
        lab.assert_no_findings();
    }
}

#[test]
fn a_finalizer_that_others_push_out_of_the_view_is_not_lost() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    let others: Vec<String> = (0..63).map(|number| format!("other.com/{number}")).collect();
    let mut finalizers: Vec<&str> = others.iter().map(String::as_str).chain([FINALIZER]).collect();

    write(&mut lab, &widget, &finalizers);
    finalizers.insert(0, FOREIGN);
    finalizers.truncate(64);

    let mut view = version(&mut lab, &widget, &finalizers);
    view.lints = vec!["many_finalizers".into()];
    lab.apply_view(view);
    lab.assert_no_findings();

    assert_eq!(outcome(&lab, FINALIZER, FinalizerOutcome::Lost), 0);
}
