//! Pages with a partial view: metrics that loopwatch cannot scrape, Pods that replace each other,
//! and causes that last.

use loopwatch_model::observation::{Cause, ContainerEnd, LeaseView, Observation};
use loopwatch_model::time::{Span, Timestamp};

use super::page;
use crate::lab::loops::{FAULTS, Fault, Loop, add, fails, hangs};
use crate::lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, Widget, unlearned};

/// Returns a controller with a fault, and an object that waits because of it.
fn explained_by(fault: Fault) -> (Loop, Widget) {
    let mut own = Loop::new();
    let mut web = own.lab.converged("web");
    own.run(360, fault);

    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    own.run(1_000, fault);
    (own, web)
}

/// Lets scrapes fail for minutes.
fn scrapes_fail(lab: &mut Lab, minutes: i64) {
    for _ in 0..minutes * 6 {
        lab.advance(Span::secs(10));
        lab.scrape_fails(INSTANCE, Cause::Timeout);
    }
}

#[test]
fn a_controller_whose_metrics_cannot_be_scraped_keeps_its_finding() {
    let (mut own, _) = explained_by(fails);
    assert_eq!(own.lab.alerting(), page("ReconcileFailing"));

    for minute in 0..25 {
        scrapes_fail(&mut own.lab, 1);
        assert_eq!(
            own.lab.alerting(),
            page("ReconcileFailing"),
            "{minute}: {:?}",
            own.lab.findings()
        );
    }

    own.run(60, fails);
    assert_eq!(own.lab.alerting(), page("ReconcileFailing"));
}

#[test]
fn a_finding_of_a_controller_that_cannot_be_scraped_for_long_closes_and_its_effect_pages_after_its_deadline()
 {
    let (mut own, _) = explained_by(fails);
    scrapes_fail(&mut own.lab, 31);

    assert_eq!(own.lab.findings(), ["Unacknowledged Widget team-a/web"]);
    assert_eq!(own.lab.alerting(), []);

    scrapes_fail(&mut own.lab, 10);
    assert_eq!(own.lab.alerting(), page("Unacknowledged"));
}

#[test]
fn a_problem_that_the_next_scrape_still_shows_goes_on() {
    for (code, fault) in FAULTS {
        let (mut own, _) = explained_by(fault);
        let since = own.lab.since(code);
        scrapes_fail(&mut own.lab, 12);
        own.run(600, |view| {
            if code != "ReconcileStuck" {
                fault(view)
            }
        });

        assert_eq!(own.lab.alerting(), page(code), "{:?}", own.lab.findings());
        assert_eq!(own.lab.since(code), since);
    }
}

#[test]
fn a_problem_that_is_over_at_the_next_scrape_closes() {
    for (code, fault) in FAULTS {
        let (mut own, mut web) = explained_by(fault);
        scrapes_fail(&mut own.lab, 12);
        own.lab.apply(web.ready());
        own.run(20, |view| {
            (view.workers_busy, view.queue_depth, view.longest_running_seconds) =
                (Some(0), Some(0), Some(0.0));
            add(&mut view.succeeded, 100);
        });

        assert!(!own.lab.has(code), "{:?}", own.lab.findings());
    }
}

#[test]
fn a_finding_does_not_open_without_scrapes() {
    let mut own = Loop::new();
    own.run(200, fails);
    scrapes_fail(&mut own.lab, 60);
    own.lab.assert_no_findings();
}

#[test]
fn an_operator_that_is_down_keeps_no_finding_of_a_controller() {
    let mut own = Loop::new();
    let mut op = Op::running(&own.lab);
    op.seen(&mut own.lab);

    let mut web = own.lab.converged("web");
    own.run(360, fails);
    op.crash(&mut own.lab, "Error");

    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    scrapes_fail(&mut own.lab, 15);

    assert_eq!(own.lab.alerting(), page("OperatorDown"));
}

#[test]
fn a_replica_that_no_longer_leads_keeps_no_finding_of_a_controller() {
    let (mut own, _) = explained_by(fails);
    let op = Op::running(&own.lab);
    op.seen(&mut own.lab);
    own.lab.renew(POD);
    scrapes_fail(&mut own.lab, 7);
    own.lab.renew(POD);

    assert!(own.lab.has("ReconcileFailing"));

    own.lab.run_with_lease(OTHER_POD, 1);
    assert!(!own.lab.has("ReconcileFailing"), "{:?}", own.lab.findings());
}

#[test]
fn a_container_that_has_restarted_keeps_no_finding_of_its_controllers() {
    let mut own = Loop::new();
    let mut op = Op::running(&own.lab);
    op.seen(&mut own.lab);
    own.run(1_200, hangs);

    assert!(own.lab.has("ReconcileStuck"));

    op.crash(&mut own.lab, "Error");
    own.lab.advance(Span::secs(2));
    op.restart(&mut own.lab);
    scrapes_fail(&mut own.lab, 6);

    assert!(!own.lab.has("ReconcileStuck"), "{:?}", own.lab.findings());
}

/// Returns a sidecar that has started with its operator, and an object that the operator has not
/// acknowledged for 40 minutes. `before` shows loopwatch what happened earlier.
fn replaced(before: impl FnOnce(&mut Lab, &mut Op)) -> (Lab, Op) {
    let mut lab = Lab::unsynced(unlearned());
    let mut op = Op::running(&lab);
    op.view.pods[0].created = Some(lab.ago(Span::secs(20)));
    op.view.pods[0].own = true;
    op.container().running_since = Some(lab.ago(Span::secs(10)));
    before(&mut lab, &mut op);

    let mut web = Widget::new("web", lab.ago(Span::hours(3)));
    web.status_written = Some(lab.ago(Span::hours(3)));
    web.ready().spec(2, lab.ago(Span::mins(40)));
    op.seen(&mut lab);
    lab.list(std::slice::from_ref(&web));
    lab.advance(Span::secs(20));

    (lab, op)
}

/// Adds the Pod before, whose container ran for a span and ended 30 s ago.
fn evicted(lab: &Lab, op: &mut Op, ran: Span) {
    let finished = lab.ago(Span::secs(30));
    let mut old = pod(OTHER_POD, finished.before(ran));
    let end = ContainerEnd {
        started: old.containers[0].running_since.take(),
        finished: Some(finished),
        exit_code: 137,
        ..ContainerEnd::default()
    };

    (old.containers[0].ended, old.phase) = (Some(end), "Failed".into());
    op.view.pods.push(old);
}

#[test]
fn pods_that_replace_each_other_get_time_only_once() {
    let nine = Span::mins(9);
    let (mut by_lease, _) =
        replaced(|lab, _| lab.renewed_ago(OTHER_POD, Some(nine), Span::secs(30)));
    let (mut evicted, _) = replaced(|lab, op| evicted(lab, op, nine));
    let (mut terminating, _) = replaced(|lab, op| {
        let mut old = pod(OTHER_POD, lab.ago(nine));
        old.deleted = Some(lab.now.after(Span::secs(30)));
        op.view.pods.push(old);
    });

    for lab in [&mut by_lease, &mut evicted, &mut terminating] {
        assert_eq!(lab.alerting(), page("Unacknowledged"));
    }

    // The lease may be read later than the Pods and the objects.
    let (mut lab, _) = replaced(|_, _| {});
    assert_eq!(lab.alerting(), []);

    lab.renewed_ago(OTHER_POD, Some(nine), Span::secs(50));
    assert_eq!(lab.alerting(), page("Unacknowledged"));
}

/// The API server notes whole seconds of when it wrote a lease, so that the leadership seems to
/// begin up to a second earlier.
#[test]
fn an_operator_that_leads_at_once_is_not_its_own_predecessor() {
    let second = |at: Timestamp| Timestamp(at.0 / 1_000 * 1_000);
    let (mut lab, op) = replaced(|_, _| {});
    let acquired = op.view.pods[0].containers[0].running_since.expect("it runs").after(Span(400));

    for renewals in 15..80 {
        let renewed = acquired.after(Span(renewals * 2_100));
        lab.advance(renewed.since(lab.now));
        lab.observe(Observation::LeaseSeen(LeaseView {
            namespace: "ops".into(),
            name: "6ab5f5a3.example.io".into(),
            holder: format!("{POD}_6f1c"),
            acquired: Some(acquired),
            renewed: Some(renewed),
            written: Some(second(renewed)),
            ..LeaseView::default()
        }));

        assert_eq!(lab.alerting(), [], "{renewals}");
    }
}

#[test]
fn an_operator_that_takes_the_place_of_one_that_ran_for_long_may_catch_up() {
    let hour = Span::hours(1);
    let (by_lease, _) = replaced(|lab, _| lab.renewed_ago(OTHER_POD, Some(hour), Span::secs(30)));
    let (evicted, _) = replaced(|lab, op| evicted(lab, op, hour));

    for mut lab in [by_lease, evicted] {
        lab.run_with_lease(POD, 9);
        assert_eq!(lab.alerting(), []);

        lab.run_with_lease(POD, 1);
        assert_eq!(lab.alerting(), page("Unacknowledged"));
    }
}

#[test]
fn a_first_start_that_fails_at_once_takes_no_time_away() {
    let (lab, _) = replaced(|lab, op| evicted(lab, op, Span::secs(20)));
    assert_eq!(lab.alerting(), []);

    let (mut lab, _) =
        replaced(|lab, _| lab.renewed_ago(OTHER_POD, Some(Span::secs(20)), Span::secs(30)));

    assert_eq!(lab.alerting(), []);

    // Its own leadership does not count as an earlier start.
    for minutes in 1..9 {
        lab.advance(Span::mins(1));
        lab.renewed_ago(POD, Some(Span::mins(minutes)), Span::ZERO);

        assert_eq!(lab.alerting(), [], "{minutes}");
    }
}

/// A Pod that ran for a short time had only that time.
#[test]
fn a_second_rollout_a_minute_after_the_first_leaves_the_rest_of_the_time() {
    let short = Span::secs(70);
    let (by_lease, _) = replaced(|lab, _| lab.renewed_ago(OTHER_POD, Some(short), Span::secs(30)));
    let (by_pod, _) = replaced(|lab, op| evicted(lab, op, short));

    for mut lab in [by_lease, by_pod] {
        lab.run_with_lease(POD, 5);
        assert_eq!(lab.alerting(), []);

        lab.run_with_lease(POD, 5);
        assert_eq!(lab.alerting(), page("Unacknowledged"));
    }
}

/// Each loopwatch sees only its own Pod of the operator and the one before it.
#[test]
fn pods_that_replace_each_other_after_a_few_minutes_each_page_in_time() {
    for minutes in 4..15 {
        let (mut lab, _) = replaced(|lab, op| evicted(lab, op, Span::mins(minutes)));
        lab.advance(Span::mins(minutes - 1));

        assert_eq!(lab.alerting(), page("Unacknowledged"), "{minutes}");
    }
}

/// The Pods that a node has evicted remain.
#[test]
fn pods_that_replace_each_other_and_stay_page_in_time() {
    let (mut lab, _) = replaced(|lab, op| {
        for number in 1..4 {
            evicted(lab, op, Span::secs(100));
            let old = op.view.pods.last_mut().expect("it was evicted");
            old.name = format!("{OTHER_POD}{number}");

            if let Some(end) = &mut old.containers[0].ended {
                let earlier = |at: Timestamp| at.before(Span::secs(110 * (number - 1)));
                (end.started, end.finished) = (end.started.map(earlier), end.finished.map(earlier));
            }
        }
    });

    lab.advance(Span::secs(20));
    assert_eq!(lab.alerting(), page("Unacknowledged"));
}

#[test]
fn a_lease_of_another_operator_or_from_long_ago_takes_no_time_away() {
    for (holder, ago) in
        [("gadget-operator-7d9f8c6b5-zzzzz", Span::secs(30)), (OTHER_POD, Span::hours(20))]
    {
        let (lab, _) = replaced(|lab, _| lab.renewed_ago(holder, Some(Span::mins(9)), ago));
        assert_eq!(lab.alerting(), [], "{holder}");
    }
}

#[test]
fn a_controller_that_still_fails_after_days_explains_what_begins_to_wait() {
    let (mut own, _) = explained_by(fails);
    let mut api = own.lab.converged("api");
    own.run(2 * 86_400, fails);

    let now = own.lab.now;
    own.lab.apply(api.spec(2, now));
    own.run(1_200, fails);

    assert_eq!(own.lab.alerting(), page("ReconcileFailing"));
}

/// Two replicas without a lease, each of which does work. The other one cannot be scraped.
#[test]
fn a_finding_that_its_own_scrapes_show_to_be_over_closes_although_another_replica_is_not_scraped() {
    let mut own = Loop::new();
    let mut op = Op::running(&own.lab);
    let other = pod(OTHER_POD, own.lab.ago(Span::hours(1)));
    op.view.pods.push(other);
    op.seen(&mut own.lab);
    own.lab.scrape(OTHER, own.view.clone());
    own.run(400, fails);

    assert!(own.lab.has("ReconcileFailing"));

    own.run(60, |view| add(&mut view.succeeded, 5));
    assert!(!own.lab.has("ReconcileFailing"), "{:?}", own.lab.findings());
}

/// The address of an instance is its name until loopwatch knows its Pod.
#[test]
fn a_finding_that_its_own_scrapes_show_to_be_over_closes_although_the_instance_had_another_name() {
    let mut own = Loop::new();
    own.lab.scrape("10.0.0.1:8080", own.view.clone());

    let mut op = Op::running(&own.lab);
    op.view.workload = None;
    op.seen(&mut own.lab);
    own.run(400, fails);

    assert!(own.lab.has("ReconcileFailing"));

    own.run(60, |view| add(&mut view.succeeded, 5));
    assert!(!own.lab.has("ReconcileFailing"), "{:?}", own.lab.findings());
}
