//! A cause explains only what began with it, or what it blocks. A problem that everybody knows
//! hides nothing that begins later.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::MetricsView;
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add, fails, is_busy, never_begins};
use crate::lab::pods::{INSTANCE, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget};

/// Returns the name of the finding that explains one of `code`.
fn cause_of(lab: &Lab, code: &str) -> Option<&'static str> {
    let explained_by = lab.finding(code).explained_by?;
    let findings = lab.snapshot().findings;
    findings.iter().find(|finding| finding.id == explained_by).map(|finding| finding.code.name())
}

/// A controller, scraped every minute, whose operator is denied requests.
struct Denied {
    own: Loop,
    allowed: u64,
    denied: u64,
}

impl Denied {
    fn new() -> Self {
        Self { own: Loop::new(), allowed: 10_000, denied: 0 }
    }

    fn run(&mut self, minutes: i64, denied: u64, is_failing: bool) {
        for _ in 0..minutes {
            self.own.lab.advance(Span::mins(1));
            self.allowed += 100;
            self.denied += denied;
            let counter =
                if is_failing { &mut self.own.view.failed } else { &mut self.own.view.succeeded };
            add(counter, 2);

            self.own.lab.scraped(MetricsView {
                instance: INSTANCE.into(),
                controllers: vec![self.own.view.clone()],
                requests: vec![("200".into(), self.allowed), ("403".into(), self.denied)],
                ..MetricsView::default()
            });
        }
    }
}

#[test]
fn a_permission_that_has_been_missing_for_hours_explains_no_controller_that_begins_to_fail() {
    let mut denied = Denied::new();
    denied.run(300, 2, false);
    denied.run(60, 2, true);

    assert!(denied.own.lab.has("ApiForbidden"));
    assert!(denied.own.lab.alerts("ReconcileFailing"), "{:?}", denied.own.lab.findings());
}

#[test]
fn denied_requests_explain_a_controller_that_begins_to_fail_with_them() {
    let mut denied = Denied::new();
    denied.run(10, 0, false);
    denied.run(600, 2, true);

    assert_eq!(cause_of(&denied.own.lab, "ReconcileFailing"), Some("ApiForbidden"));
}

#[test]
fn denied_requests_that_become_many_more_explain_a_controller_that_begins_to_fail() {
    let mut denied = Denied::new();
    denied.run(300, 2, false);
    denied.run(60, 20, true);

    assert_eq!(cause_of(&denied.own.lab, "ReconcileFailing"), Some("ApiForbidden"));
}

/// The operator is killed, restarts after `waits`, and runs for `runs`. `during` shows what it does
/// in the middle of that.
fn cycle(lab: &mut Lab, op: &mut Op, waits: Span, runs: Span, during: impl FnOnce(&mut Lab)) {
    op.crash(lab, "OOMKilled");
    lab.advance(waits);
    op.restart(lab);

    let steps = runs.0 / 30_000;
    (0..steps).for_each(|_| {
        lab.advance(Span::secs(15));
        lab.renew(POD);
    });
    during(lab);
    (0..steps).for_each(|_| {
        lab.advance(Span::secs(15));
        lab.renew(POD);
    });
}

/// Changes an object, which converges at once.
fn serve(lab: &mut Lab, widget: &mut Widget, spec: u64) {
    lab.apply(widget.spec(spec, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(widget.ready());
}

#[test]
fn an_operator_that_restarts_now_and_then_explains_no_object_that_waits_for_hours() {
    for others_change in [true, false] {
        let (mut lab, mut op) = Op::with_lab();
        let (mut stuck, mut fine) = (lab.converged("stuck"), lab.converged("fine"));
        let (waits, runs) = (Span::secs(15), Span::mins(18));
        for spec in 2..8 {
            cycle(&mut lab, &mut op, waits, runs, |lab| serve(lab, &mut fine, spec));
        }

        assert!(lab.has("RestartLoop"), "{:?}", lab.findings());

        lab.apply(stuck.spec(2, lab.now));
        lab.advance(Span::secs(2));
        lab.apply(stuck.waiting());
        for spec in 8..14 {
            cycle(&mut lab, &mut op, waits, runs, |lab| {
                if others_change {
                    serve(lab, &mut fine, spec);
                }
            });
        }

        assert_eq!(cause_of(&lab, "Overdue"), None, "{others_change}");
        assert!(lab.alerts("Overdue") && lab.has("RestartLoop"), "{:?}", lab.findings());
    }
}

#[test]
fn an_object_that_began_to_wait_with_the_restarts_is_explained_until_others_are_served() {
    let (mut lab, mut op) = Op::with_lab();
    let (mut stuck, mut fine) = (lab.converged("stuck"), lab.converged("fine"));
    let (waits, runs) = (Span::secs(15), Span::mins(8));
    lab.apply(stuck.spec(2, lab.now));
    lab.advance(Span::secs(2));
    lab.apply(stuck.waiting());
    (0..4).for_each(|_| cycle(&mut lab, &mut op, waits, runs, |_| {}));

    assert_eq!(cause_of(&lab, "Overdue"), Some("RestartLoop"));

    for spec in 2..7 {
        cycle(&mut lab, &mut op, waits, runs, |lab| serve(lab, &mut fine, spec));
    }

    assert_eq!(cause_of(&lab, "Overdue"), None);
    assert!(lab.alerts("Overdue"), "{:?}", lab.findings());
}

#[test]
fn an_operator_that_hardly_runs_explains_what_begins_to_wait_hours_later() {
    let (mut lab, mut op) = Op::with_lab();
    let mut web = lab.converged("other");
    let (waits, runs) = (Span::mins(4), Span::secs(30));
    (0..40).for_each(|_| cycle(&mut lab, &mut op, waits, runs, |_| {}));
    lab.apply(web.spec(2, lab.now));
    (0..5).for_each(|_| cycle(&mut lab, &mut op, waits, runs, |_| {}));

    assert!(lab.finding("Unacknowledged").explained_by.is_some(), "{:?}", lab.findings());
    assert!(!lab.alerts("Unacknowledged"));
}

#[test]
fn an_operator_in_a_chronic_loop_of_restarts_that_stays_down_pages_once() {
    let (mut lab, mut op) = Op::with_lab();
    (0..10).for_each(|_| cycle(&mut lab, &mut op, Span::secs(15), Span::mins(18), |_| {}));
    op.crash(&mut lab, "OOMKilled");
    lab.advance_by_minutes(8);

    // Without restarts, the window empties, but the operator is still down.
    for _ in 0..10 {
        assert_eq!(lab.alerting(), [("RestartLoop".to_owned(), Severity::Critical)]);
        lab.advance_by_minutes(15);
    }
}

#[test]
fn a_kind_that_has_failed_for_days_explains_no_object_that_fails_later() {
    let mut lab = Lab::new();
    let mut fleet = lab.fleet(&["a", "b", "c", "d"]);
    lab.advance(Span::hours(1));
    fleet[..3].iter_mut().for_each(|widget| lab.apply(widget.failed("DnsDown")));
    lab.advance(Span::hours(72));

    assert_eq!(lab.roots(), ["Failing Widget (all)"]);

    lab.apply(fleet[3].failed("QuotaExceeded"));
    lab.advance(Span::mins(10));

    assert_eq!(lab.roots(), ["Failing Widget (all)", "Regressed Widget team-a/d"]);
}

#[test]
fn an_outage_explains_no_object_that_was_late_before() {
    for (before, expected) in [(Span::hours(3), None), (Span::mins(5), Some("OperatorDown"))] {
        let (mut lab, mut op) = Op::with_lab();
        let mut web = lab.converged("other");
        lab.apply(web.spec(2, lab.now));
        lab.run_with_lease(POD, before.0 / 60_000);
        op.view.pods.clear();
        op.seen(&mut lab);
        lab.advance_by_minutes(20);

        assert_eq!(cause_of(&lab, "Unacknowledged"), expected, "{before}");

        op.view.pods.push(pod(OTHER_POD, lab.now));
        op.seen(&mut lab);
        lab.run_with_lease(OTHER_POD, 1);
        assert_eq!(lab.alerts("Unacknowledged"), expected.is_none(), "{before}");
    }
}

/// Runs a controller with a fault for an hour, and lets an object wait for another hour. Others
/// change later, and are `served` meanwhile.
fn survived(fault: crate::lab::loops::Fault, served: u64) -> Lab {
    let mut own = Loop::new();
    let (mut web, mut api) = (own.lab.converged("web"), own.lab.converged("api"));
    own.run(3_600, fault);

    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    for spec in 2..2 + served {
        own.run(60, fault);
        serve(&mut own.lab, &mut api, spec);
    }

    own.run(3_600, fault);
    own.lab
}

#[test]
fn a_problem_of_a_controller_that_others_survive_explains_nothing() {
    for fault in [fails, never_begins, is_busy] {
        let (waits, overtaken) = (survived(fault, 0), survived(fault, 5));

        assert!(waits.finding("Unacknowledged").explained_by.is_some());
        assert!(!waits.alerts("Unacknowledged"));
        assert_eq!(cause_of(&overtaken, "Unacknowledged"), None, "{:?}", overtaken.findings());
        assert!(overtaken.alerts("Unacknowledged"));
    }
}
