//! One cause, one alert: problems of a controller or of the leader explain the objects that wait
//! because of them.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::ControllerView;
use loopwatch_model::settings::{FindingRule, Settings};
use loopwatch_model::time::Span;

use crate::lab::loops::{FAULTS, Fault, Loop, add, fails, hangs};
use crate::lab::pods::{Op, POD};
use crate::lab::{Lab, Widget, kind, other_kind, unlearned, widget_at};

/// Returns a healthy controller, and a converged object of its kind.
fn healthy() -> (Loop, Widget) {
    let mut own = Loop::new();
    let web = own.lab.converged("web");
    own.run(60, |view| add(&mut view.succeeded, 1));
    (own, web)
}

fn change(own: &mut Loop, widget: &mut Widget) {
    let now = own.lab.now;
    own.lab.apply(widget.spec(2, now));
}

fn cause_of(lab: &Lab, code: &str) -> Option<&'static str> {
    let explained_by = lab.finding(code).explained_by?;
    lab.snapshot()
        .findings
        .iter()
        .find(|finding| finding.id == explained_by)
        .map(|finding| finding.code.name())
}

#[test]
fn the_controller_of_its_kind_explains_an_object_that_waits_and_pages_in_its_place() {
    for (code, fault) in FAULTS {
        let (mut own, mut web) = healthy();
        own.run(360, fault);
        change(&mut own, &mut web);
        own.run(1_000, fault);

        assert_eq!(cause_of(&own.lab, "Unacknowledged"), Some(code), "{:?}", own.lab.findings());
        assert_eq!(own.lab.alerting(), [(code.to_owned(), Severity::Critical)]);
    }
}

#[test]
fn a_change_that_makes_the_reconciles_fail_is_explained_although_a_scrape_shows_that_later() {
    for (code, fault) in [FAULTS[0], FAULTS[1]] {
        let (mut own, mut web) = healthy();
        change(&mut own, &mut web);
        own.run(620, fault);

        assert_eq!(cause_of(&own.lab, "Unacknowledged"), Some(code), "{:?}", own.lab.findings());

        // The object was late before a scrape showed why.
        let explanation =
            own.lab.model.explain(&widget_at("team-a", "web")).expect("it is visible");
        let explained = explanation.findings.iter().map(|finding| finding.code.name());
        assert_eq!(explained.collect::<Vec<_>>(), [code, "Unacknowledged"]);
    }
}

#[test]
fn a_controller_with_a_problem_but_no_object_that_waits_is_a_ticket() {
    for (code, fault) in FAULTS {
        let (mut own, _) = healthy();
        own.run(1_000, fault);

        assert_eq!(own.lab.finding(code).severity, Severity::Warning);
    }
}

#[test]
fn an_object_that_waited_long_before_the_controller_had_a_problem_pages_itself() {
    for (code, fault) in FAULTS {
        let (mut own, mut web) = healthy();
        change(&mut own, &mut web);
        own.run(150, |view| add(&mut view.succeeded, 1));
        own.run(1_000, fault);

        assert_eq!(cause_of(&own.lab, "Unacknowledged"), None);
        assert_eq!(own.lab.finding(code).severity, Severity::Warning);
        assert!(own.lab.alerts("Unacknowledged"));
    }
}

#[test]
fn an_object_of_another_kind_pages_itself() {
    let (mut own, mut web) = healthy();
    own.lab.discover(&[kind(), other_kind("Gadget")]);
    own.lab.list_in(&other_kind("Gadget").watch, vec![]);
    own.view.name = "gadget".into();
    own.run(60, |view| add(&mut view.succeeded, 1));
    own.run(360, fails);
    change(&mut own, &mut web);
    own.run(700, fails);

    assert_eq!(cause_of(&own.lab, "Unacknowledged"), None);
    assert_eq!(own.lab.finding("ReconcileFailing").severity, Severity::Warning);
}

#[test]
fn a_name_that_fits_no_kind_shows_nothing_unless_there_is_only_one_kind() {
    for (only, name, explains) in [
        (true, "main", true),
        (false, "main", false),
        (false, "widget-controller", true),
        (false, "WidgetReconciler", true),
        (false, "widgetbackup", false),
    ] {
        let (mut own, mut web) = healthy();
        if !only {
            own.lab.discover(&[kind(), other_kind("Gadget")]);
        }

        own.view.name = name.into();
        own.run(60, |view| add(&mut view.succeeded, 1));
        own.run(360, fails);
        change(&mut own, &mut web);
        own.run(700, fails);

        assert_eq!(cause_of(&own.lab, "Unacknowledged").is_some(), explains, "{name}");
    }
}

#[test]
fn a_severity_that_the_settings_set_is_not_raised() {
    let rule = FindingRule { severity: Some(Severity::Warning), ..FindingRule::default() };
    let findings = std::collections::BTreeMap::from([("ReconcileFailing".to_owned(), vec![rule])]);
    let mut own = Loop::with(Settings { findings, ..unlearned() });
    let mut web = own.lab.converged("web");

    own.run(360, fails);
    change(&mut own, &mut web);
    own.run(700, fails);

    assert_eq!(own.lab.finding("ReconcileFailing").severity, Severity::Warning);
    assert_eq!(cause_of(&own.lab, "Unacknowledged"), None, "its page would be lost");
}

#[test]
fn an_object_that_has_paged_goes_on_until_it_closes_and_its_cause_does_not_page_too() {
    let (mut own, mut web) = healthy();
    change(&mut own, &mut web);

    let mut hung = 0.0;

    // The reconcile is found to hang a minute after the object has paged.
    own.run(60, |view| add(&mut view.succeeded, 1));
    own.run(610, |view| {
        hung += 10.0;
        view.longest_running_seconds = Some(hung);
    });

    assert_eq!(cause_of(&own.lab, "Unacknowledged"), Some("ReconcileStuck"));

    let both = [
        ("Unacknowledged".to_owned(), Severity::Critical),
        ("ReconcileStuck".to_owned(), Severity::Warning),
    ];

    assert_eq!(own.lab.alerting(), both);

    own.run(10, |view| view.longest_running_seconds = Some(0.0));
    assert_eq!(own.lab.alerting(), both[..1], "it still waits");

    own.lab.apply(web.ready());
    own.run(10, |_| {});

    assert_eq!(own.lab.alerting(), []);
}

#[test]
fn an_object_whose_cause_opens_within_seconds_does_not_page() {
    let (mut own, mut web) = healthy();
    own.run(10, |_| {});
    change(&mut own, &mut web);
    own.run(600, hangs);

    assert!(own.lab.alerts("Unacknowledged"));

    own.run(10, hangs);
    assert_eq!(own.lab.alerting(), [("ReconcileStuck".to_owned(), Severity::Critical)]);
}

#[test]
fn the_end_of_a_cause_gives_the_operator_a_deadline_to_catch_up() {
    let (mut own, mut web) = healthy();
    own.run(360, fails);
    change(&mut own, &mut web);
    own.run(700, fails);
    own.run(10, |view| add(&mut view.succeeded, 1));

    assert_eq!(cause_of(&own.lab, "Unacknowledged"), None);
    assert_eq!(own.lab.alerting(), []);

    own.run(580, |view| add(&mut view.succeeded, 1));
    assert_eq!(own.lab.alerting(), []);

    // The time in which the controller should recover is over, and the object still waits.
    own.run(30, |view| add(&mut view.succeeded, 1));
    assert_eq!(own.lab.alerting(), [("Unacknowledged".to_owned(), Severity::Critical)]);
}

#[test]
fn a_kind_whose_objects_fail_explains_its_failing_controller() {
    for (hours, explained) in [(0, true), (1, false)] {
        let (mut own, _) = healthy();
        let mut widgets: Vec<Widget> =
            (0..4).map(|number| own.lab.converged(&format!("w{number}"))).collect();
        own.run(120, |view| add(&mut view.succeeded, 1));
        own.run(hours * 3_600, fails);

        widgets.iter_mut().for_each(|widget| own.lab.apply(widget.failed("DependencyDown")));
        own.run(900, fails);

        let cause = explained.then_some("Failing");
        assert_eq!(cause_of(&own.lab, "ReconcileFailing"), cause, "after {hours} h");
    }
}

#[test]
fn a_raised_severity_stays_until_the_cause_ends() {
    let (mut own, mut web) = healthy();
    own.run(360, fails);
    change(&mut own, &mut web);
    own.run(700, fails);
    own.lab.delete(&web);
    own.run(60, fails);

    assert_eq!(own.lab.alerting(), [("ReconcileFailing".to_owned(), Severity::Critical)]);

    own.run(10, |view| add(&mut view.succeeded, 1));
    own.run(360, fails);

    assert_eq!(
        own.lab.alerting(),
        [("ReconcileFailing".to_owned(), Severity::Warning)],
        "another time"
    );
}

#[test]
fn a_cause_of_the_cause_pages_for_both() {
    let (mut own, mut web) = healthy();
    own.run(10, |view| add(&mut view.panicked, 2));
    own.run(360, fails);
    change(&mut own, &mut web);
    own.run(700, fails);

    assert_eq!(cause_of(&own.lab, "Unacknowledged"), Some("ReconcileFailing"));
    assert_eq!(cause_of(&own.lab, "ReconcileFailing"), Some("ReconcilePanicking"));
    assert_eq!(own.lab.alerting(), [("ReconcilePanicking".to_owned(), Severity::Critical)]);
}

#[test]
fn failing_reconciles_explain_a_deletion_that_waits_for_the_operator() {
    for (explained, fault) in [(true, fails as Fault), (false, |view| add(&mut view.succeeded, 1))]
    {
        let (mut own, mut web) = healthy();
        web.finalizers = vec!["example.io/cleanup".into()];
        own.lab.apply(&web);
        web.deleted = Some(own.lab.now);
        own.lab.apply(&web);
        own.run(1_000, fault);

        assert_eq!(cause_of(&own.lab, "FinalizerStuck").is_some(), explained);
        assert_eq!(own.lab.alerting().len(), 1, "{:?}", own.lab.alerting());
    }

    // A deletion that began to wait earlier.
    let (mut own, mut web) = healthy();
    web.finalizers = vec!["example.io/cleanup".into()];
    own.lab.apply(&web);
    web.deleted = Some(own.lab.now);
    own.lab.apply(&web);
    own.run(300, |view| add(&mut view.succeeded, 1));
    own.run(800, fails);

    assert_eq!(cause_of(&own.lab, "FinalizerStuck"), None);
}

/// An object whose change makes its reconciles panic, while the controller serves another one.
fn panics_at_one_object() -> (Loop, Widget) {
    let (mut own, mut web) = healthy();
    change(&mut own, &mut web);
    own.run(590, panics_beside_successes);
    (own, web)
}

fn panics_beside_successes(view: &mut ControllerView) {
    add(&mut view.panicked, 1);
    add(&mut view.succeeded, 1);
}

#[test]
fn an_object_that_crashes_the_operator_pages_once() {
    let (mut own, mut web) = panics_at_one_object();
    assert_eq!(own.lab.finding("PoisonObject").severity, Severity::Warning, "before its deadline");

    own.run(60, panics_beside_successes);
    assert_eq!(cause_of(&own.lab, "Unacknowledged"), Some("PoisonObject"));
    assert!(!own.lab.alerts("Unacknowledged"));
    assert_eq!(own.lab.finding("PoisonObject").severity, Severity::Critical);

    own.lab.apply(web.ready());
    own.run(10, |view| add(&mut view.succeeded, 1));
    assert!(!own.lab.has("PoisonObject"));
}

#[test]
fn an_object_that_waits_without_a_crash_pages_itself() {
    let (mut own, mut web) = healthy();
    change(&mut own, &mut web);
    own.run(660, |view| add(&mut view.succeeded, 1));

    assert_eq!(own.lab.alerting(), [("Unacknowledged".to_owned(), Severity::Critical)]);
}

/// An object crashes the operator, which is then down for a quarter of an hour. It serves others
/// after its return.
fn poisoned_after_an_outage() -> (Lab, Op, Widget) {
    let (mut lab, mut op) = Op::with_lab();
    let (mut web, mut other) = (lab.converged("web"), lab.converged("other"));
    lab.run_with_lease(POD, 5);
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(2));
    op.crash(&mut lab, "Error");
    op.restart(&mut lab);
    lab.advance(Span::secs(30));
    op.crash(&mut lab, "Error");
    lab.advance_by_minutes(15);

    assert_eq!(cause_of(&lab, "Unacknowledged"), Some("OperatorDown"));

    op.restart(&mut lab);
    lab.apply(other.spec(2, lab.now));
    lab.apply(other.ready());
    lab.run_with_lease(POD, 1);
    (lab, op, web)
}

#[test]
fn a_cause_does_not_page_while_the_operator_catches_up_after_another_one() {
    let (mut lab, _, _) = poisoned_after_an_outage();
    assert_eq!(cause_of(&lab, "Unacknowledged"), Some("PoisonObject"));

    lab.run_with_lease(POD, 8);
    assert_eq!(lab.finding("PoisonObject").severity, Severity::Warning);

    lab.run_with_lease(POD, 2);
    assert_eq!(lab.finding("PoisonObject").severity, Severity::Critical, "it has had its time");
    assert!(!lab.alerts("Unacknowledged"));
}

#[test]
fn an_object_that_the_operator_acknowledges_when_it_catches_up_pages_nobody() {
    let (mut lab, _, mut web) = poisoned_after_an_outage();
    lab.run_with_lease(POD, 8);
    lab.apply(web.ready());
    lab.run_with_lease(POD, 10);

    lab.assert_no_findings();
}

#[test]
fn the_time_to_catch_up_lasts_as_long_when_the_clock_steps() {
    let (mut lab, _, _) = poisoned_after_an_outage();
    lab.run_with_lease(POD, 4);
    lab.step_clock(Span::hours(1));
    lab.run_with_lease(POD, 4);

    assert_eq!(lab.finding("PoisonObject").severity, Severity::Warning);

    lab.run_with_lease(POD, 2);
    assert_eq!(lab.finding("PoisonObject").severity, Severity::Critical);
}

#[test]
fn an_absent_leader_explains_objects_that_wait() {
    for (leads, expected) in [(false, "LeaderAbsent"), (true, "Unacknowledged")] {
        let (mut lab, _) = Op::with_lab();
        let mut web = lab.converged("other");
        lab.run_with_lease(POD, 1);

        if leads {
            lab.apply(web.spec(2, lab.now));
            lab.run_with_lease(POD, 15);
        } else {
            lab.advance_by_minutes(1);
            lab.apply(web.spec(2, lab.now));
            lab.advance_by_minutes(15);
        }

        assert_eq!(
            lab.alerting(),
            [(expected.to_owned(), Severity::Critical)],
            "{:?}",
            lab.findings()
        );
    }

    // An object that began to wait before the operator lost its leader.
    let (mut lab, _) = Op::with_lab();
    let mut web = lab.converged("other");
    lab.apply(web.spec(2, lab.now));
    lab.run_with_lease(POD, 3);
    lab.advance_by_minutes(15);

    assert_eq!(cause_of(&lab, "Unacknowledged"), None);
}

#[test]
fn an_object_does_not_page_at_once_when_the_operator_runs_again_after_a_restart_loop() {
    let (mut lab, mut op) = Op::with_lab();
    let mut web = lab.converged("other");
    lab.apply(web.spec(2, lab.now));
    op.crash_loop(&mut lab, 4, "Error");
    lab.advance(Span::mins(3));

    assert_eq!(cause_of(&lab, "Unacknowledged"), Some("OperatorDown"));

    op.restart(&mut lab);
    lab.run_with_lease(POD, 5);

    assert_eq!(
        (lab.finding("RestartLoop").severity, lab.alerts("Unacknowledged")),
        (Severity::Warning, false)
    );

    lab.run_with_lease(POD, 10);
    assert!(lab.alerts("Unacknowledged"), "it has had its time");
}

#[test]
fn a_step_of_the_clock_neither_ends_nor_begins_an_alert() {
    for by in [Span::hours(1), Span::hours(-1)] {
        let (mut own, mut web) = healthy();
        change(&mut own, &mut web);
        own.run(700, |view| add(&mut view.succeeded, 1));

        assert!(own.lab.alerts("Unacknowledged"));

        own.lab.step_clock(by);
        assert!(own.lab.alerts("Unacknowledged"), "{by}");
    }
}
