//! The code, the start and the actor of a finding.

mod lab;

use lab::steps::{forbidden, other_kind, unlearned};
use lab::{Lab, Widget, kind};
use loopwatch_model::observation::ConditionStatus::{False, True, Unknown};
use loopwatch_model::observation::{Manager, Owned};
use loopwatch_model::snapshot::ObjectState;
use loopwatch_model::time::Span;

#[test]
fn a_run_that_runs_again_was_not_reverted() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("backup", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "BackupCompleted"));
    lab.advance(Span::hours(20));
    lab.apply(widget.observe().condition("Complete", False, "BackupRunning"));
    lab.advance(Span::mins(11));

    assert_eq!(lab.findings(), ["Overdue Widget team-a/backup"]);
}

#[test]
fn a_run_that_runs_again_and_fails_was_not_reverted() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("backup", lab.now);
    lab.apply(&widget);
    lab.apply(widget.observe().condition("Complete", True, "BackupCompleted"));
    lab.advance(Span::hours(20));
    lab.apply(widget.observe().condition("Complete", False, "BackupRunning"));
    lab.advance(Span::mins(1));
    lab.apply(widget.condition("Failed", True, "BucketFull"));

    lab.advance(Span::mins(11));
    assert!(!lab.has("NeverRecovered"), "{:?}", lab.findings());
}

#[test]
fn a_problem_that_was_mended_before_it_was_due_again_begins_anew() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(30));
    widget.ready();
    widget.spec(3, again.ago(Span::mins(3))); // mended, and changed again, while loopwatch was down
    again.list(&[widget.clone()]);
    again.advance(Span::mins(2));
    again.apply(widget.ready());
    again.advance(Span::mins(20));

    let changed = again.now;
    again.apply(widget.spec(4, changed));
    again.advance(Span::mins(10));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_problem_that_was_mended_and_came_back_while_loopwatch_was_down_begins_anew() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(30));
    widget.ready();
    widget.status_written = Some(again.ago(Span::mins(20))); // mended ...
    widget.changed = Some(again.ago(Span::mins(20)));

    let changed = again.ago(Span::mins(15));
    widget.spec(3, changed); // ... and broken again while loopwatch was down
    again.list(&[widget.clone()]);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_problem_is_not_older_than_its_object() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.waiting());
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.advance(Span::mins(50));

    let created = again.ago(Span::mins(20));
    let mut anew = Widget::new("web", created);
    anew.uid += 1;
    again.list(&[anew.waiting().clone()]);
    again.advance(Span::mins(1));

    assert_eq!(again.since("Overdue"), created);
}

#[test]
fn an_overdue_object_is_the_same_finding_after_a_restart() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.apply(widget.observe().condition("Ready", Unknown, "Reconciling"));
    lab.advance(Span::mins(20));
    widget.changed = Some(lab.now);
    lab.apply(widget.observe().condition("Ready", False, "StillWaiting"));
    lab.advance(Span::mins(20));

    let before = lab.snapshot().findings.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>();
    let mut again = lab.restart();
    again.list(&[widget]);
    again.advance(Span::mins(6));

    assert_eq!(
        again.snapshot().findings.iter().map(|f| (f.code, f.since)).collect::<Vec<_>>(),
        before
    );
}

#[test]
fn a_spec_that_was_changed_and_reverted_unseen_is_unacknowledged() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.fail();
    lab.advance(Span::mins(1));
    widget.spec(2, lab.ago(Span::secs(40)));
    widget.spec(1, lab.ago(Span::secs(20)));
    lab.list(&[widget.clone()]);
    lab.recover();

    lab.advance(Span::mins(20));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/web"]);
}

#[test]
fn a_forbidden_kind_does_not_keep_old_start_times_alive() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let mut again = lab.restart();
    again.discover(&[kind(), forbidden(other_kind("Gadget"))]);
    again.list(&[widget.ready().clone()]);
    again.advance(Span::hours(24 * 90));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(11));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_failing_watch_does_not_keep_old_start_times_of_others_alive() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.apply(widget.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let gadget = other_kind("Gadget");
    let mut again = lab.restart();
    again.discover(&[kind(), gadget.clone()]);
    again.fail_watch(&gadget.watch); // its conversion webhook is down for days
    again.list(&[widget.ready().clone()]);
    again.advance(Span::hours(20));

    let changed = again.now;
    again.apply(widget.spec(3, changed));
    again.advance(Span::mins(11));

    assert_eq!(again.since("Unacknowledged"), changed);
}

#[test]
fn a_condition_that_was_false_all_along_does_not_date_a_regression() {
    let mut lab = Lab::unsynced(unlearned());
    let (old, other, lost) =
        (lab.ago(Span::hours(500)), lab.ago(Span::hours(400)), lab.ago(Span::hours(2)));
    let mut widget = Widget::new("web", old);

    widget.observe().condition("Ready", False, "ConnectionRefused").condition(
        "AutoscalingReady",
        False,
        "NotConfigured",
    );
    let mut view = lab.view(&widget);

    view.conditions[0].changed = Some(lost);
    view.conditions[1].changed = Some(other);
    lab.list_views(vec![view]);
    lab.advance(Span::mins(1));

    assert_eq!(
        lab.snapshot().findings.iter().map(|f| f.since).collect::<Vec<_>>(),
        [lost],
        "{:?}",
        lab.findings()
    );
}

#[test]
fn the_order_of_a_list_does_not_decide_since_when_an_object_without_status_waits() {
    let judge = |bare_first: bool| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(50));
        let mut bare = Widget::new("bare", old);
        bare.spec(2, lab.ago(Span::hours(5)));

        let mut widgets = vec![bare];
        for name in ["x", "y", "z"] {
            widgets.push(Widget::new(name, old).ready().clone());
        }

        if !bare_first {
            widgets.reverse();
        }

        lab.list(&widgets);
        let shown = |lab: &Lab| {
            let findings = lab.snapshot().findings;
            findings
                .iter()
                .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                .collect::<Vec<_>>()
        };

        let at_once = shown(&lab);
        lab.advance(Span::hours(1));
        (at_once, shown(&lab))
    };
    assert_eq!(judge(true), judge(false));
}

#[test]
fn a_person_who_once_edited_the_status_does_not_remove_finalizers() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("app");
    widget.finalizers = vec!["backup.example.com/snapshot".into()];
    widget.deleted = Some(lab.now);

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    view.managers[0].name = "kubectl-edit".into();
    view.managers[0].finalizers.clone_from(&widget.finalizers);
    view.managers.push(Manager {
        name: "kubectl-edit".into(),
        subresource: "status".into(),
        time: Some(lab.ago(Span::hours(50))),
        owns: Owned { status: true, ..Owned::default() },
        ..Manager::default()
    });

    lab.apply_view(view);
    lab.advance(Span::mins(16));

    assert!(!lab.evidence().contains("kubectl"), "{}", lab.evidence());
}

#[test]
fn a_kind_of_which_nothing_is_seen_any_more_is_not_failing() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b", "c", "d"].map(|name| lab.converged(name)).into();
    widgets[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("DiskFull")));
    lab.advance(Span::mins(10));
    lab.discover(&[forbidden(kind())]);
    lab.advance(Span::hours(24 * 30));

    assert_eq!(lab.findings(), ["PermissionMissing permission to list widgets.example.io"]);
}

#[test]
fn the_state_of_an_object_whose_status_is_about_an_earlier_spec_began_with_the_new_spec() {
    let mut lab = Lab::unsynced(unlearned());
    let mut widget = Widget::new("web", lab.ago(Span::hours(24 * 40)));
    widget.changed = Some(lab.ago(Span::hours(24 * 30)));

    let changed = lab.ago(Span::mins(5));
    widget.ready().spec(2, changed);

    let view = lab.view(&widget);
    lab.list_views(vec![view]);

    assert_eq!((lab.state("web"), lab.row("web").since), (ObjectState::Progressing, changed));
}
