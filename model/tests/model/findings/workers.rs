//! A reconcile that hangs: it occupies one worker of its controller, and explains the objects that
//! wait because of it.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::ControllerView;

use crate::lab::loops::{Loop, add, hangs};
use crate::lab::{Lab, Widget};

/// Returns the names of the findings that alert.
fn alerting(lab: &Lab) -> Vec<String> {
    let mut names: Vec<_> = lab.alerting().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

fn one_hangs(view: &mut ControllerView) {
    hangs(view);
    add(&mut view.succeeded, 1);
}

/// Returns a controller with four workers, one of which hangs because of a change of `web`, and
/// another object.
fn hangs_for(seconds: i64) -> (Loop, Widget, Widget) {
    let mut own = Loop::new();
    own.view.workers_max = Some(4);

    let (mut web, api) = (own.lab.converged("web"), own.lab.converged("api"));
    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    own.run(seconds, one_hangs);

    (own, web, api)
}

/// Returns a controller one of whose reconciles hangs. After more than an hour, nothing else
/// succeeds any more, and `api` begins to wait.
fn all_wait() -> Loop {
    let (mut own, _, mut api) = hangs_for(4_800);
    let now = own.lab.now;
    own.lab.apply(api.spec(2, now));
    own.run(700, hangs);

    assert_eq!(alerting(&own.lab), ["ReconcileStuck"]);

    own
}

/// Somebody deletes an object.
fn delete(own: &mut Loop, object: &mut Widget) {
    object.deleted = Some(own.lab.now);
    object.finalizers = vec!["example.io/cleanup".into()];
    own.lab.apply(object);
}

fn page(code: &str) -> [(String, Severity); 1] {
    [(code.to_owned(), Severity::Critical)]
}

/// Returns a controller with four workers, and an object whose change makes one of them hang while
/// the others succeed.
fn hangs_alone() -> (Loop, Widget, Widget) {
    let mut own = Loop::new();
    own.view.workers_max = Some(4);

    let (mut web, api) = (own.lab.converged("web"), own.lab.converged("api"));
    let now = own.lab.now;
    own.lab.apply(web.spec(2, now));
    own.run(1_200, one_hangs);

    assert_eq!(own.lab.alerting(), page("ReconcileStuck"), "both began together");

    (own, web, api)
}

#[test]
fn a_reconcile_that_hangs_no_longer_explains_when_others_succeed_again() {
    let mut own = all_wait();
    own.run(3_600, one_hangs);

    assert_eq!(
        alerting(&own.lab),
        ["ReconcileStuck", "Unacknowledged"],
        "{:?}",
        own.lab.findings()
    );
}

#[test]
fn a_queue_that_begins_to_drain_has_its_deadline_before_what_still_waits_pages() {
    let mut own = all_wait();
    for _ in 0..10 {
        own.run(60, one_hangs);
        assert_eq!(alerting(&own.lab), ["ReconcileStuck"]);
    }

    own.run(60, one_hangs);
    assert_eq!(alerting(&own.lab), ["ReconcileStuck", "Unacknowledged"]);
}

#[test]
fn a_single_success_begins_the_deadline_of_what_still_waits() {
    let mut own = all_wait();
    own.run(10, one_hangs);
    own.run(590, hangs);

    assert_eq!(alerting(&own.lab), ["ReconcileStuck"]);

    own.run(60, hangs);
    assert_eq!(alerting(&own.lab), ["ReconcileStuck", "Unacknowledged"]);
}

#[test]
fn the_deletion_of_the_object_whose_reconcile_hangs_raises_no_second_alert() {
    for before in [300, 4_800] {
        let (mut own, mut web, _) = hangs_for(before);
        delete(&mut own, &mut web);
        own.run(3_600, one_hangs);

        assert_eq!(alerting(&own.lab), ["ReconcileStuck"], "{before}: {:?}", own.lab.findings());
    }
}

#[test]
fn the_deletion_of_another_object_alerts_if_nothing_removes_its_finalizers_while_others_succeed() {
    let (mut own, _, mut api) = hangs_for(4_800);
    delete(&mut own, &mut api);
    own.run(3_600, one_hangs);

    assert_eq!(
        alerting(&own.lab),
        ["FinalizerStuck", "ReconcileStuck"],
        "{:?}",
        own.lab.findings()
    );
}

#[test]
fn the_deletion_of_an_object_that_began_to_wait_later_alerts() {
    let (mut own, _, mut api) = hangs_for(4_800);
    let now = own.lab.now;
    own.lab.apply(api.spec(2, now));
    own.run(60, one_hangs);
    delete(&mut own, &mut api);
    own.run(3_600, one_hangs);

    assert_eq!(
        alerting(&own.lab),
        ["FinalizerStuck", "ReconcileStuck"],
        "{:?}",
        own.lab.findings()
    );
}

#[test]
fn a_deletion_that_made_progress_has_another_problem_than_the_reconcile_that_hung() {
    let (mut own, mut web, _) = hangs_for(4_800);
    delete(&mut own, &mut web);
    own.run(60, one_hangs);
    own.lab.apply(web.ready());
    own.run(3_600, one_hangs);

    assert_eq!(
        alerting(&own.lab),
        ["FinalizerStuck", "ReconcileStuck"],
        "{:?}",
        own.lab.findings()
    );
}

#[test]
fn a_reconcile_that_hangs_does_not_explain_what_begins_later_while_others_succeed() {
    let (mut own, _, mut api) = hangs_alone();
    own.run(3_600, one_hangs);

    let now = own.lab.now;
    own.lab.apply(api.spec(2, now));
    own.run(580, one_hangs);

    assert_eq!(own.lab.alerting(), page("ReconcileStuck"));

    own.run(60, one_hangs);
    let mut both = own.lab.alerting();
    both.sort();

    assert_eq!(both, [page("ReconcileStuck"), page("Unacknowledged")].concat());
}

#[test]
fn a_reconcile_that_hangs_explains_what_begins_later_if_no_other_one_succeeds() {
    let (mut own, _, mut api) = hangs_alone();
    own.run(3_600, one_hangs);

    let now = own.lab.now;
    own.lab.apply(api.spec(2, now));
    own.run(700, hangs);

    assert_eq!(own.lab.alerting(), page("ReconcileStuck"));
}

#[test]
fn another_change_of_the_object_whose_reconcile_hangs_does_not_page_again() {
    let (mut own, mut web, _) = hangs_alone();
    own.run(3_600, one_hangs);

    let now = own.lab.now;
    own.lab.apply(web.spec(3, now));
    own.run(1_200, one_hangs);

    assert_eq!(own.lab.alerting(), page("ReconcileStuck"));
}
