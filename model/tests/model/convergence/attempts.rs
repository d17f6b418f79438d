//! Handlers that fail again and again, as the framework notes in the object.

use loopwatch_model::observation::{HandlerAttempts, ObjectView, StatusShape};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

fn failed(view: &mut ObjectView, times: u32) {
    let (handler, error) = ("reconcile.spec".into(), "the backend refuses".into());
    view.attempts = vec![
        HandlerAttempts { handler: "other".into(), failed: 1, error: String::new() },
        HandlerAttempts { handler, failed: times, error },
    ];
}

/// An operator that writes no status: its objects say nothing.
fn without_status(lab: &mut Lab, widget: &Widget, times: u32) {
    let mut view = lab.view(widget);
    (view.status, view.observed_generation) = (StatusShape::Absent, None);
    view.conditions.clear();
    if times > 0 {
        failed(&mut view, times);
    }

    lab.apply_view(view);
}

#[test]
fn a_handler_that_keeps_failing_is_overdue_although_the_status_says_ready() {
    let mut lab = Lab::new();
    let mut web = Widget::new("web", lab.now);
    lab.apply(web.ready());
    lab.advance(Span::hours(1));

    // The operator writes no generation, so the old status looks like an answer.
    web.spec(2, lab.now).ready();
    for times in 1..=30 {
        lab.advance(Span::mins(1));
        let mut view = lab.view(&web);
        view.observed_generation = None;
        failed(&mut view, times);
        lab.apply_view(view);
    }

    assert_eq!(lab.state("web"), ObjectState::Overdue);
    let [finding] = &lab.findings()[..] else { panic!("{:?}", lab.findings()) };
    assert!(finding.ends_with("Widget team-a/web"), "{finding}");

    let code = finding.split(' ').next().expect("a code").to_owned();
    let summary = lab.finding(&code).summary();
    for part in ["attempts 30", "handler reconcile.spec", "last error the backend refuses"] {
        assert!(summary.contains(part), "{summary}");
    }

    let mut view = lab.view(&web);
    view.observed_generation = None;
    lab.apply_view(view);
    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_handler_that_succeeds_at_the_third_attempt_is_no_problem() {
    let mut lab = Lab::new();
    let mut web = Widget::new("web", lab.now);
    lab.apply(web.ready());
    lab.advance(Span::hours(1));

    for spec in 2..20 {
        web.spec(spec, lab.now).observe();
        for times in 1..=2 {
            let mut view = lab.view(&web);
            failed(&mut view, times);
            lab.apply_view(view);
            lab.advance(Span::secs(20));
        }

        lab.apply(web.ready());
        lab.advance(Span::mins(20));
        lab.assert_no_findings();
    }
}

#[test]
fn two_attempts_that_last_are_no_problem_of_a_ready_object() {
    let mut lab = Lab::new();
    let mut web = Widget::new("web", lab.now);
    lab.apply(web.ready());
    lab.advance(Span::hours(1));
    let mut view = lab.view(&web);
    failed(&mut view, 2);
    lab.apply_view(view);
    lab.advance(Span::hours(30));

    assert_eq!(lab.state("web"), ObjectState::Converged);
    lab.assert_no_findings();
}

#[test]
fn a_handler_that_recovers_leaves_nothing_behind_where_objects_have_no_status() {
    let mut lab = Lab::new();
    let names = ["one", "two", "three", "web"];
    let mut widgets: Vec<_> = names.iter().map(|name| Widget::new(name, lab.now)).collect();
    widgets.iter().for_each(|widget| without_status(&mut lab, widget, 0));
    lab.advance(Span::hours(2));

    for spec in 2..6 {
        for widget in &mut widgets {
            widget.spec(spec, lab.now);
            without_status(&mut lab, widget, 0);
        }

        // The API of a backend is away for two minutes.
        let [.., web] = &widgets[..] else { return };
        for times in 1..=6 {
            lab.advance(Span::secs(20));
            without_status(&mut lab, web, times);
        }

        without_status(&mut lab, web, 0);
        lab.advance(Span::hours(10));
        lab.assert_no_findings();
    }

    // The near miss lasts.
    let [.., web] = &widgets[..] else { return };
    for times in 1..=90 {
        without_status(&mut lab, web, times);
        lab.advance(Span::secs(20));
    }

    assert!(lab.findings().iter().any(|finding| finding.ends_with("team-a/web")));
}

#[test]
fn a_deletion_that_waits_for_a_handler_shows_its_attempts() {
    let mut lab = Lab::new();
    let mut web = Widget::new("web", lab.now);
    web.finalizers = vec!["kopf.zalando.org/KopfFinalizerMarker".into()];
    lab.apply(web.ready());
    lab.advance(Span::hours(1));

    web.deleted = Some(lab.now);
    for times in 1..=40 {
        let mut view = lab.view(&web);
        failed(&mut view, times);
        lab.apply_view(view);
        lab.advance(Span::mins(1));
    }

    let summary = lab.finding("FinalizerStuck").summary();
    assert!(summary.contains("attempts 40") && summary.contains("last error"), "{summary}");
}
