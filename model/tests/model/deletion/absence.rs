//! Controllers that are gone: only positive evidence counts, namely a lease that nobody renews any
//! more.

use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::finding::Severity;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Cause, LeaseView, ObjectView, Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use super::STUCK;
use crate::lab::pods::{OTHER_POD, Op, pod};
use crate::lab::{Lab, Widget, finalizers_by, kind, watch};

const ABSENT: &str = "FinalizerOwnerAbsent Widget team-a/web";

const SLOW: &str = "CleanupSlow Widget team-a/web";

fn lease(lab: &Lab, name: &str, holder: &str) -> LeaseView {
    LeaseView {
        namespace: "ops".into(),
        name: name.into(),
        holder: holder.into(),
        renewed: Some(lab.now.after(Span::hours(3))), // by the operator's clock
        written: Some(lab.now),
        duration: Some(Span::secs(15)),
        ..LeaseView::default()
    }
}

fn renew(lab: &mut Lab) {
    let lease = lease(lab, "6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-x2x4v_6f1c");
    lab.observe(Observation::LeaseSeen(lease));
}

fn leases_listed(lab: &mut Lab, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    lab.observe(Observation::LeasesListed { namespace: "ops".into(), names });
}

fn run(lab: &mut Lab, minutes: i64) {
    for _ in 0..minutes {
        lab.advance(Span::mins(1));
        renew(lab);
    }
}

/// Returns a lab whose operator holds a lease, and an object with a finalizer of the operator.
fn with_operator() -> (Lab, Widget) {
    let mut lab = Lab::new();
    renew(&mut lab);
    leases_listed(&mut lab, &["6ab5f5a3.example.io"]);
    run(&mut lab, 10);

    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    (lab, widget)
}

#[test]
fn an_operator_that_was_uninstalled_is_named_as_the_absent_owner_of_its_finalizer() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.observe(Observation::LeaseGone {
        namespace: "ops".into(),
        name: "6ab5f5a3.example.io".into(),
    });
    lab.advance(Span(299_000));
    lab.assert_no_findings();

    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), [ABSENT]);
    assert!(
        lab.evidence().contains("field manager widget-operator (operator of example.io)"),
        "{}",
        lab.evidence()
    );
    assert_eq!(lab.kind().finalizers["example.io/cleanup"].waiting, [0, 0, 0, 1, 0]);

    lab.advance(Span::hours(1));
    assert_eq!(lab.findings(), [ABSENT], "one finding, although the finalizer is stuck, too");

    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_comes_back_is_absent_no_longer() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.advance(Span::mins(7));

    assert_eq!(lab.findings(), [ABSENT]);

    renew(&mut lab);
    lab.assert_no_findings();
    run(&mut lab, 5);

    assert_eq!(lab.findings(), [SLOW], "it is back, but does nothing yet");

    run(&mut lab, 10);
    assert_eq!(lab.findings(), [STUCK], "it is back, but does nothing");
}

#[test]
fn an_operator_that_comes_back_late_has_time_for_the_deletions_that_waited() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.advance(Span::hours(1));

    assert_eq!(lab.findings(), [ABSENT]);

    renew(&mut lab);
    lab.assert_no_findings();
    run(&mut lab, 4);
    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_renews_its_lease_is_not_absent() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    run(&mut lab, 15);

    assert_eq!(lab.findings(), [STUCK]);
}

#[test]
fn an_operator_that_is_rolled_or_changes_its_leader_is_not_absent() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);

    let released = LeaseView { holder: String::new(), ..lease(&lab, "6ab5f5a3.example.io", "") };
    lab.observe(Observation::LeaseSeen(released));
    lab.advance(Span(270_000));

    let next = lease(&lab, "6ab5f5a3.example.io", "widget-operator-7d9f8c6b5-zzzzz_1");
    lab.observe(Observation::LeaseSeen(next));
    lab.advance(Span(290_000));

    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
}

#[test]
fn a_lease_of_another_operator_shows_nothing() {
    let (mut lab, mut widget) = with_operator();
    widget.finalizers = vec!["backup.other.com/snapshot".into()];

    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    view.deleted = Some(lab.now);
    lab.apply_view(view);
    lab.advance(Span::mins(15));

    assert_eq!(lab.findings(), [STUCK]);
}

#[test]
fn an_operator_that_was_never_seen_alive_is_unknown() {
    let mut lab = Lab::new();
    let stale = LeaseView {
        written: Some(lab.ago(Span::hours(3))),
        ..lease(&lab, "6ab5f5a3.example.io", "old-1-2_x")
    };

    lab.observe(Observation::LeaseSeen(stale));
    leases_listed(&mut lab, &["6ab5f5a3.example.io"]);

    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.begin_deletion(&mut widget);
    lab.advance(Span::mins(15));

    assert_eq!(lab.findings(), [STUCK], "the lease may be left from an earlier installation");
}

#[test]
fn leases_that_cannot_be_read_show_nothing() {
    let off = Observation::SourceOff { source: SourceId::Lease, reason: String::new() };
    let failed = Observation::SourceFailed {
        source: SourceId::Lease,
        cause: Cause::Forbidden,
        detail: String::new(),
    };
    for blind in [off, failed] {
        let (mut lab, mut widget) = with_operator();
        lab.begin_deletion(&mut widget);
        leases_listed(&mut lab, &[]); // as the source does when it stops
        lab.observe(blind);
        lab.advance(Span::mins(14));

        assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());

        lab.recover_source(&SourceId::Lease);
        lab.advance(Span::mins(4));

        assert!(!lab.has("FinalizerOwnerAbsent"), "the source may not have listed the leases yet");

        lab.advance(Span::mins(1));
        assert!(lab.has("FinalizerOwnerAbsent"));
    }
}

#[test]
fn an_operator_without_work_or_lease_is_not_absent_but_its_writes_prove_that_it_lives() {
    let mut lab = Lab::new();
    leases_listed(&mut lab, &[]);

    let mut widget = lab.converged("web");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.begin_deletion(&mut widget);
    lab.advance(Span::mins(15));

    assert_eq!(lab.findings(), [STUCK]);

    // An operator may write although its lease is gone: it holds another one now.
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    for _ in 0..14 {
        lab.advance(Span::mins(1));
        let mut other = Widget::new("other", lab.now);
        other.status_written = Some(lab.now);
        lab.apply(other.ready());
    }

    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
}

#[test]
fn a_restart_keeps_what_is_known_about_the_operator() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.advance(Span::mins(2));

    let checkpoint = lab.model.checkpoint();
    let text = serde_json::to_string(&checkpoint).unwrap_or_default();

    assert_eq!(serde_json::from_str::<Checkpoint>(&text).ok(), Some(checkpoint.clone()));

    lab.model = Model::new(lab.model.settings().clone());
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    leases_listed(&mut lab, &[]);
    lab.list(&[widget]);
    lab.advance(Span(299_000));

    assert!(!lab.has("FinalizerOwnerAbsent"), "loopwatch has not looked for five minutes");

    lab.advance(Span::secs(1));
    assert!(lab.has("FinalizerOwnerAbsent"));
}

/// Returns a lab with an operator of which loopwatch sees the Pods, but no lease.
fn with_pods() -> (Lab, Op) {
    let mut lab = Lab::new();
    let op = Op::running(&lab);
    op.seen(&mut lab);
    lab.advance(Span::mins(10));
    (lab, op)
}

/// Restarts loopwatch, which then sees the leases and lists the objects.
fn restart(lab: &mut Lab, leases: &[&str], widget: &Widget) {
    let checkpoint = lab.model.checkpoint();
    lab.model = Model::new(lab.model.settings().clone());
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    lab.list(std::slice::from_ref(widget));
    leases_listed(lab, leases);
}

#[test]
fn a_restart_keeps_the_finding_of_an_absent_operator() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.advance(Span::hours(1));
    let since = lab.since("FinalizerOwnerAbsent");

    for leases in [&[][..], &["6ab5f5a3.example.io"]] {
        restart(&mut lab, leases, &widget);
        for _ in 0..20 {
            assert_eq!(lab.findings(), [ABSENT]);
            lab.advance(Span::mins(1));
        }

        assert_eq!(lab.since("FinalizerOwnerAbsent"), since);
    }

    // It comes back later.
    renew(&mut lab);
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_came_back_during_a_restart_is_absent_no_longer() {
    let (mut lab, mut widget) = with_operator();
    lab.begin_deletion(&mut widget);
    lab.advance(Span::hours(1));
    assert_eq!(lab.findings(), [ABSENT]);

    let checkpoint = lab.model.checkpoint();
    lab.model = Model::new(lab.model.settings().clone());
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    lab.advance(Span::mins(10));
    renew(&mut lab);
    leases_listed(&mut lab, &["6ab5f5a3.example.io"]);
    lab.list(&[widget]);

    lab.assert_no_findings();
    run(&mut lab, 4);
    lab.assert_no_findings();
}

#[test]
fn a_restart_keeps_what_only_the_pods_had_shown() {
    let (mut lab, mut op) = with_pods();
    let mut widget = lab.converged("held");
    widget.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&widget);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.begin_deletion(&mut widget);
    lab.advance(Span::hours(1));

    let absent = "FinalizerOwnerAbsent Widget team-a/held".to_owned();
    assert!(lab.findings().contains(&absent), "{:?}", lab.findings());

    restart(&mut lab, &[], &widget);
    op.seen(&mut lab);
    lab.advance(Span::mins(30));
    assert!(lab.findings().contains(&absent), "{:?}", lab.findings());

    // A Pod runs again.
    op.view.pods = vec![pod(OTHER_POD, lab.now)];
    op.seen(&mut lab);
    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
}

#[test]
fn setting_the_clock_makes_no_controller_absent() {
    for by_ms in [3_600_000, -3_600_000] {
        let (mut lab, mut widget) = with_operator();
        lab.begin_deletion(&mut widget);
        run(&mut lab, 4);
        lab.now = Timestamp(lab.now.0 + by_ms);
        lab.observe(Observation::ClockStepped { by_ms });
        lab.advance(Span::mins(4));

        assert!(!lab.has("FinalizerOwnerAbsent"), "{by_ms}");
    }
}

#[test]
fn an_operator_with_a_generic_field_manager_is_known_by_the_name_of_its_lease() {
    // RabbitMQ's cluster operator: field manager `manager`, group `rabbitmq.com`, and a finalizer
    // without a slash.
    for holder in ["example-operator-6d4cf56db6-x2x4v_f5f4240f", "laptop_f5f4240f"] {
        let mut lab = Lab::new();
        for _ in 0..10 {
            lab.advance(Span::mins(1));
            let seen = lease(&lab, "example-operator-leader-election", holder);
            lab.observe(Observation::LeaseSeen(seen));
            leases_listed(&mut lab, &["example-operator-leader-election"]);
        }

        let mut widget = lab.converged("web");
        widget.finalizers = vec!["deletion.finalizers.widgets.example.io".into()];
        for deleted in [None, Some(lab.now)] {
            widget.deleted = deleted;
            lab.version += 1;

            let mut view = lab.view(&widget);
            view.managers[1].name = "manager".into();

            let applied = Observation::Applied { watch: watch(), object: Box::new(view) };
            lab.observe(applied);
        }

        lab.advance(Span::mins(6));
        assert_eq!(lab.findings(), [ABSENT], "{holder}");
        assert!(
            lab.evidence().contains("field manager manager (operator of example.io)"),
            "{}",
            lab.evidence()
        );
    }
}

/// Returns a widget with a finalizer of a load balancer controller that is not this operator.
fn with_load_balancer(lab: &mut Lab, adder_wrote: Timestamp) -> ObjectView {
    let mut widget = lab.converged("web");
    widget.finalizers = vec!["lb.other.com/cleanup".into()];
    let mut view = lab.view(&widget);
    view.managers[1].finalizers.clear();
    view.managers.push(finalizers_by("lb-controller", adder_wrote, &["lb.other.com/cleanup"]));
    lab.apply_view(view.clone());

    view
}

/// The load balancer controller renews its lease for ten minutes.
fn run_load_balancer(lab: &mut Lab, duration: Span) {
    for _ in 0..10 {
        lab.advance(Span::mins(1));
        let holder = "lb-controller-5d4f7b9c6-b2b4c_1";
        let seen = LeaseView { duration: Some(duration), ..lease(lab, "lb-controller", holder) };
        lab.observe(Observation::LeaseSeen(seen));
        leases_listed(lab, &["lb-controller"]);
    }
}

/// Somebody deletes the object, and nothing happens for minutes.
fn delete_and_wait(lab: &mut Lab, view: ObjectView, minutes: i64) {
    let deleted = ObjectView { deleted: Some(lab.now), ..view };
    let deleted = lab.versioned(deleted);
    lab.apply_view(deleted);
    lab.advance_by_minutes(minutes);
}

#[test]
fn a_controller_that_gave_up_leader_election_is_alive_if_it_has_worked_since() {
    let mut lab = Lab::new();
    run_load_balancer(&mut lab, Span::secs(15));
    lab.advance(Span::hours(72)); // after its upgrade, the old lease stays
    let now = lab.now;
    let view = with_load_balancer(&mut lab, now);
    lab.advance(Span::mins(30));
    delete_and_wait(&mut lab, view, 14);

    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), [STUCK], "nothing shows whether it still lives");

    // One that has not worked since its last renewal is gone.
    let mut lab = Lab::new();
    run_load_balancer(&mut lab, Span::secs(15));
    let now = lab.now;
    let view = with_load_balancer(&mut lab, now);
    lab.advance(Span::hours(1));
    delete_and_wait(&mut lab, view, 6);

    assert_eq!(lab.findings(), [ABSENT]);
}

#[test]
fn a_controller_with_a_long_lease_is_absent_when_the_lease_says_so() {
    let mut lab = Lab::new();
    run_load_balancer(&mut lab, Span::mins(15));
    let now = lab.now;
    let view = with_load_balancer(&mut lab, now);
    delete_and_wait(&mut lab, view, 14);
    assert!(!lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
    lab.advance_by_minutes(16);

    assert!(lab.has("FinalizerOwnerAbsent"), "{:?}", lab.findings());
}

/// Returns a lab with the usual thresholds for pages, and a widget whose deletion begins, one of six.
fn deleted_beside_others() -> (Lab, Widget) {
    let (mut lab, mut widget) = with_operator();
    lab.configure(Settings { learn_after: 0, ..Settings::default() });
    (0..5).for_each(|number| _ = lab.converged(&format!("other-{number}")));
    renew(&mut lab);
    lab.begin_deletion(&mut widget);
    (lab, widget)
}

#[test]
fn the_hour_until_an_absent_operator_pages_goes_on_over_a_restart_of_loopwatch() {
    let (mut lab, widget) = deleted_beside_others();
    let severity = |lab: &Lab| lab.finding("FinalizerOwnerAbsent").severity;

    lab.advance(Span::mins(45));
    assert_eq!(severity(&lab), Severity::Warning);

    restart(&mut lab, &[], &widget);
    lab.advance(Span::mins(19));
    assert_eq!(severity(&lab), Severity::Warning);

    lab.advance(Span::mins(2));
    assert_eq!(severity(&lab), Severity::Critical, "it has been open for an hour");
}

#[test]
fn a_step_of_the_clock_does_not_let_an_absent_operator_page() {
    let (mut lab, _) = deleted_beside_others();
    lab.advance(Span::mins(10));

    lab.step_clock(Span::hours(5));
    lab.advance(Span::mins(1));
    assert_eq!(
        lab.finding("FinalizerOwnerAbsent").severity,
        Severity::Warning,
        "open for 6 minutes"
    );
}

#[test]
fn the_page_about_an_absent_operator_outlasts_a_restart_of_loopwatch() {
    let (mut lab, widget) = deleted_beside_others();
    lab.advance(Span::mins(90));
    let paged = [("FinalizerOwnerAbsent".to_owned(), Severity::Critical)];
    assert_eq!(lab.alerting(), paged);

    restart(&mut lab, &[], &widget);
    lab.advance(Span::mins(1));
    assert_eq!(lab.alerting(), paged);
}
