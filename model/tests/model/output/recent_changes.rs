//! The recent changes of single objects: what they tell after convergence, and their limits.

use loopwatch_model::observation::ConditionStatus;
use loopwatch_model::snapshot::ExplainedChange;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget, widget_at};

fn changes(lab: &Lab, name: &str) -> Vec<ExplainedChange> {
    lab.model.explain(&widget_at("team-a", name)).expect("it is visible").changes
}

fn told(lab: &Lab, name: &str) -> Vec<String> {
    let text = |change: ExplainedChange| {
        let ExplainedChange { part, name, was, value, reason, by, .. } = change;
        [part, name, was, value, reason, by].join(" ")
    };
    changes(lab, name).into_iter().map(text).collect()
}

#[test]
fn the_cause_of_the_last_work_is_known_after_convergence() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(widget.waiting().phase("Rolling"));
    lab.advance(Span::secs(9));
    lab.apply(widget.ready().phase("Ready"));
    lab.advance(Span::hours(24));

    assert_eq!(
        told(&lab, "web"),
        [
            "spec created  1  kubectl",
            "acknowledgement   1  ",
            "condition Ready  true AsExpected ",
            "spec changed  2  kubectl",
            "acknowledgement   2  ",
            "phase Rolling    ",
            "condition Ready true false Progressing ",
            "phase Ready Rolling   ",
            "condition Ready false true AsExpected ",
        ]
    );
}

#[test]
fn the_spec_change_outlasts_a_flapping_condition() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.ready());
    for round in 0..100 {
        let status = if round % 2 == 0 { ConditionStatus::True } else { ConditionStatus::False };
        lab.apply(widget.condition("Synced", status, "Checked"));
        lab.advance(Span::secs(1));
    }

    let changes = changes(&lab, "web");
    assert_eq!(changes.len(), 24);
    assert_eq!((&*changes[0].part, &*changes[0].value), ("spec", "2"));
}

#[test]
fn the_record_tells_the_last_spec_change_of_listed_objects() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.ago(Span::hours(5)));
    widget.spec(2, lab.ago(Span::hours(1))).ready();
    lab.list(&[widget]);

    assert_eq!(told(&lab, "web"), ["spec changed  2  "]);
    assert_eq!(lab.now.since(changes(&lab, "web")[0].at), Span::hours(1));
}

#[test]
fn objects_that_have_not_changed_for_longest_make_room() {
    let mut lab = Lab::new();
    // Each widget has three changes, and there is room for 2,048.
    for number in 0..1_000 {
        let mut widget = Widget::new(&format!("w-{number}"), lab.now);
        lab.apply(&widget);
        lab.apply(widget.ready());
        lab.advance(Span::secs(1));
    }

    let known = |number: usize| changes(&lab, &format!("w-{number}")).len();
    assert_eq!((known(0), known(999)), (0, 3));
    let all: usize = (0..1_000).map(known).sum();
    assert!((2_040..=2_048).contains(&all), "{all}");
}

#[test]
fn a_deleted_object_leaves_no_changes_to_its_successor() {
    let mut lab = Lab::new();
    let widget = lab.converged("web");
    lab.delete(&widget);
    let mut again = Widget::new("web", lab.now);
    again.uid += 1;
    lab.apply(&again);

    assert_eq!(told(&lab, "web"), ["spec created  1  kubectl"]);
}

#[test]
fn a_spec_change_that_only_a_list_shows_is_the_last_one() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.ready());
    lab.advance(Span::hours(24));

    lab.fail();
    lab.advance(Span::mins(1));
    widget.spec(3, lab.now);
    lab.list(&[widget.clone()]);
    lab.apply(widget.waiting());

    let changes = changes(&lab, "web");
    let last = changes.iter().rfind(|change| change.part == "spec").expect("a spec change");
    assert_eq!(last.value, "3", "not that of yesterday: {changes:#?}");
}

#[test]
fn conditions_beyond_those_that_loopwatch_keeps_do_not_change_again_and_again() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    for number in 0..40 {
        widget.condition(&format!("C{number}"), ConditionStatus::True, "Checked");
    }
    lab.apply(&widget);

    let before = changes(&lab, "web");
    (0..5).for_each(|_| lab.apply(widget.touch_status()));
    assert_eq!(changes(&lab, "web"), before, "nothing has changed");
}

#[test]
fn the_end_of_a_phase_is_a_change() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.phase("Failed"));
    lab.advance(Span::mins(5));
    lab.apply(widget.phase(""));

    let changes = changes(&lab, "web");
    let last = changes.iter().rfind(|change| change.part == "phase").expect("a phase");
    assert_eq!((&*last.was, &*last.name), ("Failed", ""), "as for a condition: {changes:#?}");
}

#[test]
fn somebody_who_wrote_the_spec_long_before_is_not_the_author_of_a_change() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(24));

    // Somebody removes a field of kubectl's. Who owns no field has no entry, and the time of
    // kubectl's entry stays.
    lab.apply(widget.spec(2, widget.spec_written));
    assert_eq!(told(&lab, "web").last().map(String::as_str), Some("spec changed  2  "));
}
