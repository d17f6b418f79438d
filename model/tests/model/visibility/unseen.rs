//! Times that nobody has seen are neither measured nor learned, and what happened unseen is not late
//! at once.

use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{DeadlineSource, Outcome};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{Lab, Widget, spec_by};

#[test]
fn times_that_a_list_after_blindness_shows_are_neither_measured_nor_learned() {
    let mut lab = Lab::with(Settings::default());
    let mut widgets: Vec<Widget> =
        (0..30).map(|number| lab.converged(&format!("w{number}"))).collect();
    let measured = lab.kind().totals.convergence.sum();

    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.advance(Span::secs(1));
    lab.fail();
    lab.advance(Span::mins(9));

    for widget in &mut widgets {
        widget.ready(); // each of them took two seconds
    }

    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::mins(2));

    let kind = lab.kind();
    assert_eq!(kind.deadline_source, DeadlineSource::Default, "learned {}", kind.deadline);
    assert!(kind.totals.convergence.sum() - measured < 60.0, "{}", kind.totals.convergence.sum());
}

#[test]
fn a_change_whose_deadline_passed_unseen_counts_as_unknown() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.fail();
    lab.advance(Span::mins(30));
    widget.spec(2, lab.ago(Span::mins(25)));
    lab.list(&[widget.clone()]);
    lab.recover();
    lab.advance(Span::mins(5));

    lab.apply(widget.ready());
    lab.advance(Span::mins(5));

    assert_eq!(
        lab.kind().namespaces["team-a"].obligations.iter().sum::<u64>(),
        2,
        "{:?}",
        lab.kind().namespaces["team-a"].obligations
    );
}

#[test]
fn a_finalizer_that_was_removed_unseen_does_not_count_as_removed_late() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/f".into()];
    widget.deleted = Some(lab.now);
    lab.apply(&widget);
    lab.fail();
    lab.advance(Span::mins(30));
    lab.list(&[]);

    lab.recover();
    assert_eq!(lab.kind().finalizers["example.io/f"].totals.outcomes[1], 0);
}

#[test]
fn late_initialization_within_the_second_of_the_creation_supersedes_nothing() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("bucket", lab.now);
    lab.apply(&widget);
    lab.now = lab.now.after(Span(300));

    let seconds = Timestamp(lab.now.0 / 1000 * 1000);
    widget.spec(2, widget.spec_written);

    let mut view = lab.view(widget.touch_status());
    view.managers.push(spec_by("widget-operator", seconds));
    lab.apply_view(view);
    lab.advance(Span::secs(2));
    lab.apply(widget.ready());
    lab.advance(Span::mins(1));

    assert_eq!((lab.outcomes(Outcome::Converged), lab.outcomes(Outcome::Superseded)), (1, 0));
}

#[test]
fn work_that_began_before_blindness_and_ended_in_it_is_neither_measured_nor_learned() {
    let mut lab = Lab::with(Settings::default());
    let mut widgets: Vec<Widget> =
        (0..30).map(|number| lab.converged(&format!("w{number}"))).collect();
    let measured = lab.kind().totals.convergence.sum();

    for widget in &mut widgets {
        lab.apply(widget.spec(2, lab.now));
        lab.apply(widget.waiting());
    }

    lab.advance(Span::secs(1));
    lab.fail();
    lab.advance(Span::mins(9));

    for widget in &mut widgets {
        widget.ready();
    }

    lab.list(&widgets);
    lab.recover();
    lab.advance(Span::mins(2));

    let kind = lab.kind();
    assert_eq!(kind.deadline_source, DeadlineSource::Default, "learned {}", kind.deadline);
    assert!(kind.totals.convergence.sum() - measured < 60.0, "{}", kind.totals.convergence.sum());
}

#[test]
fn a_spec_that_changed_in_an_outage_is_dated_by_its_managers_though_the_watch_resumes() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::mins(1));

    let written = lab.now;
    w.spec(2, written);
    lab.advance(Span::mins(8));
    lab.recover();
    lab.apply(&w); // the event of the outage
    lab.advance(Span::mins(30));

    assert_eq!(lab.since("Unacknowledged"), written);
}

#[test]
fn a_deadline_that_passed_in_an_outage_counts_as_unknown_although_the_change_was_not_seen_either() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.fail();
    lab.advance(Span::mins(1));
    w.spec(2, lab.now);
    lab.advance(Span::mins(30));
    lab.list(&[w.clone()]);

    lab.recover();
    assert_eq!(lab.outcomes(Outcome::Unknown), 1);
}

#[test]
fn a_change_in_an_outage_that_leaves_no_time_is_not_late_at_once() {
    let mut lab = Lab::new();
    let mut w = lab.converged("web");
    lab.advance(Span::hours(24));
    lab.fail();
    lab.advance(Span::mins(2));

    let written = w.spec_written;
    w.spec(2, written); // scaled, and the managed fields still have the time of the creation
    lab.list(&[w.clone()]);
    lab.recover();
    lab.advance(Span::mins(3));
    lab.assert_no_findings();
    lab.advance(Span::mins(10));

    assert!(lab.has("Unacknowledged"));
}
