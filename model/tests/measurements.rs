//! States within a grace, and times that nobody has seen.

mod lab;

use lab::steps::spec_writer;
use lab::{Lab, Widget};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{DeadlineSource, ObjectState, Outcome};
use loopwatch_model::time::{Span, Timestamp};

#[test]
fn an_overdue_object_stays_overdue_within_the_grace_after_blindness() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));

    let since = lab.row("web").since;
    lab.blind_for(Span::secs(90));
    lab.apply(widget.touch_status());

    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
    assert_eq!(lab.state("web"), ObjectState::Overdue);

    lab.advance(Span::mins(5));
    assert_eq!((lab.state("web"), lab.row("web").since), (ObjectState::Overdue, since));
}

#[test]
fn a_finding_that_changes_its_code_within_the_grace_leaves_no_gap() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));
    lab.blind_for(Span::secs(90));
    lab.apply(widget.touch_status());

    assert_eq!(lab.findings().len(), 1, "{:?}", lab.findings());
}

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
    view.managers.push(spec_writer("widget-operator", "", seconds));
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
