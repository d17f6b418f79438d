//! The requests of the operator to the API server, and its recovery after these have failed.

use loopwatch_model::finding::{Confidence, Finding, Severity};
use loopwatch_model::observation::{MetricsView, Observation, Permission, PermissionsView};
use loopwatch_model::time::Span;

use crate::lab::Lab;
use crate::lab::loops::{Loop, requests};
use crate::lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, POD, pod};

#[test]
fn requests_that_fail_are_found_and_explain_what_began_with_them() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    let mut old = lab.converged("old");
    let mut late = lab.converged("late");

    lab.apply(old.spec(2, lab.now));
    requests(&mut lab, 300, &mut counts, &[("200", 50), ("409", 20), ("404", 30)]);
    lab.assert_no_findings();
    requests(&mut lab, 10, &mut counts, &[("200", 10), ("<error>", 20), ("503", 20)]);
    lab.apply(late.spec(2, lab.now));
    requests(&mut lab, 600, &mut counts, &[("200", 10), ("<error>", 20), ("503", 20)]);

    assert_eq!(lab.finding("ApiErrors").severity, Severity::Critical);

    let unacknowledged = "Unacknowledged Widget team-a/old".to_owned();
    assert!(lab.findings().contains(&"Unacknowledged Widget team-a/late".to_owned()));
    assert_eq!(
        lab.roots(),
        [unacknowledged, "ApiErrors operator ops/widget-operator-7d9f8c6b5-x2x4v".to_owned()]
    );

    requests(&mut lab, 300, &mut counts, &[("200", 50)]);
    assert!(!lab.has("ApiErrors"));
}

/// Two replicas send requests for twenty minutes, of which the first or the second one reaches the
/// API server.
fn two_replicas(leader_fails: bool, standby_fails: bool) -> Lab {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.workload().replicas = 2;
    op.seen(&mut lab);
    for turn in 0..120_u64 {
        lab.advance(Span::secs(10));
        let errors = |fails: bool| if fails { turn * 10 } else { 0 };
        for (instance, leads, works, failed) in [
            (INSTANCE, true, turn * 2, errors(leader_fails)),
            (OTHER, false, turn, errors(standby_fails)),
        ] {
            lab.scraped(MetricsView {
                instance: instance.into(),
                leading: Some(leads),
                requests: vec![("200".into(), works), ("<error>".into(), failed)],
                ..MetricsView::default()
            });
        }

        lab.renew(POD);
    }

    lab
}

#[test]
fn one_isolated_standby_is_a_ticket_and_a_leader_or_all_replicas_are_a_page() {
    for (leader, standby, severity) in [
        (false, true, Severity::Warning),
        (true, false, Severity::Critical),
        (true, true, Severity::Critical),
    ] {
        let lab = two_replicas(leader, standby);
        assert_eq!(lab.finding("ApiErrors").severity, severity, "{leader} {standby}");
    }

    two_replicas(false, false).assert_no_findings();
}

#[test]
fn some_errors_are_a_warning_and_few_are_nothing() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 60), ("429", 20), ("500", 10)]);

    assert_eq!(lab.finding("ApiErrors").severity, Severity::Warning);

    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 60), ("500", 5)]);
    requests(&mut lab, 10, &mut counts, &[("200", 60), ("<error>", 9)]);
    lab.assert_no_findings();
}

#[test]
fn requests_that_fail_around_the_threshold_are_one_finding() {
    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    for _ in 0..6 {
        requests(&mut lab, 600, &mut counts, &[("200", 30), ("500", 10)]);
        requests(&mut lab, 600, &mut counts, &[("200", 34), ("500", 6)]);
    }

    assert_eq!(lab.changes().len(), 1, "{:?}", lab.findings());
    assert_eq!(lab.finding("ApiErrors").severity, Severity::Warning);

    // Near misses: far fewer requests fail, or as few from the beginning.
    requests(&mut lab, 400, &mut counts, &[("200", 38), ("500", 2)]);
    lab.assert_no_findings();
    requests(&mut lab, 1_200, &mut counts, &[("200", 34), ("500", 6)]);
    lab.assert_no_findings();
}

#[test]
fn requests_that_are_denied_now_and_then_are_one_finding() {
    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    requests(&mut lab, 60, &mut counts, &[("200", 10), ("403", 1)]);
    for _ in 0..10 {
        requests(&mut lab, 230, &mut counts, &[("200", 10)]);
        requests(&mut lab, 40, &mut counts, &[("200", 10), ("403", 1)]);
    }

    assert_eq!(lab.changes().len(), 1, "{:?}", lab.findings());
    assert!(lab.has("ApiForbidden"));

    requests(&mut lab, 310, &mut counts, &[("200", 10)]);
    lab.assert_no_findings();
}

#[test]
fn denied_requests_are_found_with_the_permission_that_is_missing() {
    let mut lab = Lab::new();
    let missing =
        Permission { verb: "list".into(), group: String::new(), resource: "secrets".into() };
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        missing: vec![missing],
        ..PermissionsView::default()
    }));

    let mut counts = Vec::new();
    requests(&mut lab, 20, &mut counts, &[("200", 60)]);
    requests(&mut lab, 10, &mut counts, &[("200", 60), ("403", 30)]);

    assert!(!lab.has("ApiForbidden"), "a test of the permissions");

    requests(&mut lab, 40, &mut counts, &[("200", 60), ("403", 1)]);
    let summary = lab.finding("ApiForbidden").summary();

    assert!(summary.contains("missing list secrets"), "{summary}");

    requests(&mut lab, 310, &mut counts, &[("200", 60)]);
    assert!(!lab.has("ApiForbidden"));
}

#[test]
fn denied_requests_name_the_permission_that_was_withdrawn_before_those_that_are_merely_missing() {
    let permission = |verb: &str, group: &str, resource: &str| Permission {
        verb: verb.into(),
        group: group.into(),
        resource: resource.into(),
    };

    let mut lab = Lab::new();
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        missing: vec![permission("list", "", "secrets")],
        unwritable: vec![permission("update", "example.com", "widgets/status")],
        ..PermissionsView::default()
    }));
    lab.observe(Observation::PermissionsReviewed(PermissionsView {
        namespace: "team-a".into(),
        withdrawn: vec![
            permission("get", "apps", "deployments"),
            permission("create", "", "configmaps"),
        ],
        ..PermissionsView::default()
    }));

    let mut counts = Vec::new();
    requests(&mut lab, 310, &mut counts, &[("200", 60), ("403", 1)]);
    let evidence = lab.finding("ApiForbidden").evidence;

    assert_eq!(
        evidence.0.get("missing").map(ToString::to_string).as_deref(),
        Some(
            "create configmaps in team-a, get deployments.apps in team-a, \
             update widgets.example.com/status, list secrets"
        )
    );
}

#[test]
fn the_recovery_after_an_outage_lasts_until_the_queue_is_drained_and_objects_have_converged() {
    let mut own = Loop::new();
    let mut widget = own.lab.converged("web");
    own.run(20, |_| {});

    assert_eq!(own.lab.snapshot().operator.health.recovery, None);

    own.lab.fail();
    own.run(60, |_| {});
    own.lab.recover();
    own.lab.apply(widget.spec(2, own.lab.ago(Span::secs(30))));

    let ended = own.lab.now;
    own.run(30, |view| view.queue_depth = Some(40));

    let health = own.lab.snapshot().operator.health;
    assert_eq!((health.recovery, health.recovering_since), (None, Some(ended)));

    own.lab.apply(widget.ready());
    own.run(20, |view| view.queue_depth = Some(7));

    assert_eq!(own.lab.snapshot().operator.health.recovery, None);

    own.run(20, |view| view.queue_depth = Some(0));
    let health = own.lab.snapshot().operator.health;

    assert_eq!((health.recovery, health.recovering_since), (Some(Span::secs(60)), None));
    assert_eq!(health.up, Some(true));

    // A broken connection is not an outage.
    own.lab.fail();
    own.lab.advance(Span::secs(5));
    own.lab.recover();
    own.run(60, |view| view.queue_depth = Some(9));

    assert_eq!(own.lab.snapshot().operator.health.recovering_since, None);
}

#[test]
fn requests_that_fail_begin_a_recovery_when_they_end() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);
    requests(&mut lab, 120, &mut counts, &[("<error>", 20)]);
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);

    let health = lab.snapshot().operator.health;

    // The operator recovers at once. `ApiErrors` is still open, because it counts within a window.
    assert!(lab.has("ApiErrors"), "{:?}", lab.findings());
    assert!(health.recovery.is_some_and(|took| took <= Span::secs(20)), "{health:?}");

    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    assert_eq!(lab.snapshot().operator.health, health, "the same fault is measured once");
}

#[test]
fn an_object_that_changed_while_requests_failed_has_to_converge_for_a_recovery() {
    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    let mut old = lab.converged("old");
    lab.apply(old.spec(2, lab.now)); // it never converges, which is another problem

    let mut late = lab.converged("late");
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);
    requests(&mut lab, 10, &mut counts, &[("<error>", 1)]); // too few for the verdict
    lab.apply(late.spec(2, lab.now));
    requests(&mut lab, 120, &mut counts, &[("<error>", 20)]);
    requests(&mut lab, 90, &mut counts, &[("200", 50)]);

    let health = lab.snapshot().operator.health;
    assert!(health.recovery.is_none() && health.recovering_since.is_some(), "{health:?}");

    lab.apply(late.ready());
    requests(&mut lab, 60, &mut counts, &[("200", 50)]);

    let health = lab.snapshot().operator.health;
    assert!(health.recovery.is_some_and(|took| took >= Span::secs(90)), "{health:?}");
}

#[test]
fn the_restart_of_an_api_server_pages_nobody_although_an_idle_operator_requests_little_else() {
    let idle = |lab: &mut Lab, counts: &mut Vec<(String, u64)>, seconds: i64, refused: i64| {
        requests(lab, seconds, counts, &[("200", 1)]);
        requests(lab, refused, counts, &[("<error>", 10)]);
        requests(lab, 10, counts, &[("200", 1)]);
        lab.finding("ApiErrors").severity
    };

    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    assert_eq!(idle(&mut lab, &mut counts, 600, 60), Severity::Warning);

    for _ in 0..30 {
        requests(&mut lab, 10, &mut counts, &[("200", 1)]);
        assert!(!lab.has("ApiErrors") || lab.finding("ApiErrors").severity == Severity::Warning);
    }

    lab.assert_no_findings();
    assert_eq!(idle(&mut lab, &mut counts, 60, 180), Severity::Critical, "it does not come back");

    // The first scrape after a gap shows an outage that is already over.
    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    requests(&mut lab, 600, &mut counts, &[("200", 1)]);
    lab.advance(Span::mins(30));

    assert_eq!(idle(&mut lab, &mut counts, 10, 10), Severity::Warning);
}

#[test]
fn an_operator_that_exits_because_its_requests_fail_is_one_alert() {
    // The operator's node cannot reach the API server, but loopwatch can.
    for fails in [true, false] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.seen(&mut lab);

        let mut counts = Vec::new();
        requests(&mut lab, 300, &mut counts, &[("200", 10)]);
        for _ in 0..4 {
            let code = if fails { "<error>" } else { "200" };
            requests(&mut lab, 50, &mut counts, &[(code, 30)]);
            op.crash(&mut lab, "Error");
            lab.advance(Span::secs(30));
            op.restart(&mut lab);
        }

        op.crash(&mut lab, "Error");
        lab.advance(Span::mins(2));

        let root = if fails { "ApiErrors" } else { "RestartLoop" };
        assert_eq!(lab.roots(), [format!("{root} operator ops/widget-operator")]);
        assert_eq!(lab.finding(root).severity, Severity::Critical);
        assert!(
            !fails || lab.finding(root).summary().contains("percent 100"),
            "{}",
            lab.finding(root).summary()
        );

        assert!(lab.has("OperatorDown") && lab.has("RestartLoop"));

        lab.advance(Span::mins(6));
        assert_eq!(
            lab.roots(),
            ["RestartLoop operator ops/widget-operator"],
            "nothing shows its requests any more"
        );
    }
}

#[test]
fn requests_that_are_denied_in_a_namespace_that_is_being_deleted_lack_no_right() {
    for terminates in [true, false] {
        let (mut lab, mut counts) = (Lab::new(), Vec::new());
        requests(&mut lab, 300, &mut counts, &[("200", 50)]);
        if terminates {
            lab.delete_namespace("team-b", &["NamespaceContentRemaining"]);
        }

        requests(&mut lab, 240, &mut counts, &[("200", 50), ("403", 10)]);
        let confidence = lab.finding("ApiForbidden").confidence;
        assert_eq!(confidence == Confidence::Suspected, terminates);
    }

    // A right was lost before, and the next denial comes long after.
    let (mut lab, mut counts) = (Lab::new(), Vec::new());
    requests(&mut lab, 300, &mut counts, &[("200", 50), ("403", 10)]);
    lab.delete_namespace("team-b", &["NamespaceContentRemaining"]);
    requests(&mut lab, 60, &mut counts, &[("200", 50), ("403", 10)]);
    assert_eq!(lab.finding("ApiForbidden").confidence, Confidence::Confirmed);
}

#[test]
fn failures_that_last_no_longer_than_a_restart_alert_nobody() {
    for (code, finding) in [("<error>", "ApiErrors"), ("403", "ApiForbidden")] {
        let (mut lab, mut counts) = (Lab::new(), Vec::new());
        requests(&mut lab, 300, &mut counts, &[("200", 10)]);
        for _ in 0..10 {
            requests(&mut lab, 10, &mut counts, &[("200", 1), (code, 10)]);
        }

        assert!(lab.has(finding), "{code}");
        for _ in 0..60 {
            let confirmed = |f: &Finding| f.confidence == Confidence::Confirmed;
            assert!(!lab.snapshot().findings.iter().any(confirmed), "{code}");
            requests(&mut lab, 10, &mut counts, &[("200", 10)]);
        }

        lab.assert_no_findings();

        // It lasts, and alerts until it is over.
        requests(&mut lab, 140, &mut counts, &[("200", 1), (code, 10)]);
        assert_eq!(lab.finding(finding).confidence, Confidence::Confirmed);
        requests(&mut lab, 240, &mut counts, &[("200", 1)]);
        assert_eq!(lab.finding(finding).confidence, Confidence::Confirmed, "the end of its window");
        requests(&mut lab, 120, &mut counts, &[("200", 10)]);
        lab.assert_no_findings();
    }
}

#[test]
fn short_failures_explain_the_restarts_that_they_cause() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.seen(&mut lab);
    let mut counts = Vec::new();
    requests(&mut lab, 300, &mut counts, &[("200", 10)]);
    for _ in 0..3 {
        requests(&mut lab, 20, &mut counts, &[("<error>", 30)]);
        op.crash(&mut lab, "Error");
        lab.advance(Span::secs(1));
        op.restart(&mut lab);
    }

    assert!(lab.has("RestartLoop"), "{:?}", lab.findings());
    assert_eq!(lab.roots(), ["ApiErrors operator ops/widget-operator"]);
    assert_eq!(lab.finding("ApiErrors").confidence, Confidence::Confirmed);
}

#[test]
fn requests_with_credentials_that_the_api_server_rejects_have_failed() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    requests(&mut lab, 600, &mut counts, &[("401", 20)]);
    assert_eq!(lab.finding("ApiErrors").severity, Severity::Critical);

    // The operator has a new token.
    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    lab.assert_no_findings();
}

#[test]
fn a_few_rejected_requests_around_the_rotation_of_a_token_are_nothing() {
    let mut lab = Lab::new();
    let mut counts = Vec::new();
    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    requests(&mut lab, 10, &mut counts, &[("200", 5), ("401", 8)]);
    requests(&mut lab, 600, &mut counts, &[("200", 50)]);
    lab.assert_no_findings();
}
