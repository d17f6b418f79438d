//! Two replicas of an operator, each with its own sidecar: the one that does not lead cannot see
//! why objects wait.

use loopwatch_model::finding::Finding;
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add, fails};
use crate::lab::pods::{OTHER_POD, Op, POD, pod};

/// Returns a sidecar in one of two Pods. The Pod `leader` leads for half an hour. All reconciles of
/// the leader fail, and an object waits because of that.
fn waiting(leader: &str) -> Loop {
    let mut own = Loop::new();
    let mut op = Op::running(&own.lab);
    op.view.pods[0].own = true;
    op.view.pods.push(pod(OTHER_POD, own.lab.ago(Span::hours(1))));
    op.seen(&mut own.lab);

    let mut web = own.lab.converged("web");
    own.lab.renew(leader);
    lead(&mut own, leader, 6);

    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    lead(&mut own, leader, 24);
    own
}

/// Lets a Pod lead for minutes.
fn lead(own: &mut Loop, leader: &str, minutes: i64) {
    for _ in 0..minutes {
        own.run(60, |view| {
            if leader == POD {
                fails(view)
            }
        });
        own.lab.renew(leader);
    }
}

fn unacknowledged(own: &Loop) -> Finding {
    own.lab.finding("Unacknowledged")
}

/// Returns how long ago another replica led.
fn led_elsewhere(own: &Loop) -> Option<Span> {
    own.lab.snapshot().operator.health.led_elsewhere.map(|at| own.lab.now.since(at))
}

#[test]
fn the_sidecar_of_the_leader_sees_the_cause() {
    let own = waiting(POD);
    assert!(!unacknowledged(&own).alerts_at(own.lab.now) && own.lab.has("ReconcileFailing"));
    assert_eq!(led_elsewhere(&own), None);
}

#[test]
fn another_sidecar_does_not_and_knows_that() {
    let own = waiting(OTHER_POD);
    assert!(unacknowledged(&own).alerts_at(own.lab.now) && !own.lab.has("ReconcileFailing"));
    assert_eq!(led_elsewhere(&own), Some(Span::ZERO));
}

#[test]
fn a_new_leader_sees_the_same_cause_within_ten_minutes() {
    let mut own = waiting(OTHER_POD);
    lead(&mut own, POD, 9);

    assert!(own.lab.has("ReconcileFailing"));
    assert_eq!(led_elsewhere(&own), Some(Span::mins(9)));
}

#[test]
fn a_pod_that_is_gone_does_not_lead() {
    let mut own = Loop::new();
    let mut op = Op::running(&own.lab);
    op.view.pods[0].own = true;
    op.seen(&mut own.lab);
    own.lab.renew(OTHER_POD);

    assert_eq!(led_elsewhere(&own), None, "a sidecar that starts with the next Pod");
}

#[test]
fn loopwatch_beside_the_operator_sees_all_replicas() {
    let mut own = Loop::new();
    Op::running(&own.lab).seen(&mut own.lab);
    own.lab.renew(OTHER_POD);
    own.run(60, |view| add(&mut view.succeeded, 1));

    assert_eq!(led_elsewhere(&own), None, "with --operator, no Pod is its own");
}
