//! Webhooks whose calls fail, according to statuses, the watches of loopwatch, and Events.

use loopwatch_model::finding::{Confidence, Severity, Value};
use loopwatch_model::observation::ConditionStatus::{False, True};
use loopwatch_model::observation::{
    CallFailure, Cause, Condition, Consulted, EventView, FailedCall, ObjectKey, ObjectView,
    Observation, SourceId, StatusSchema, WatchId, WatchedKind,
};
use loopwatch_model::time::Span;

use crate::lab::pods::Op;
use crate::lab::{GROUP, Lab, Widget, child_of, deployments, kind, status_by, watch};

const REFUSED: &str = r#"Internal error occurred: failed calling webhook "v.example.io": failed to call webhook: Post "https://hook.hooks.svc:443/v?timeout=10s": no endpoints available for service "hook""#;

const NOT_CONVERTED: &str = r#"conversion webhook for example.io/v1, Kind=Widget failed: Post "https://hook.hooks.svc:443/convert?timeout=30s": dial tcp 10.0.0.7:443: connect: connection refused"#;

const DOWN: &str = "WebhookUnavailable webhook v.example.io";

const NOT_EVALUATED: &str = "widgets.example.io \"a\" is forbidden: ValidatingAdmissionPolicy 'limits.example.io' with binding 'all' denied request: expression 'object.spec.max < 5' resulted in error: no such key: max";

const NOT_CONVERTING: &str = "ConversionFailing definition widgets.example.io";

/// The operator reports in the status of a widget that it cannot apply the spec.
fn report(lab: &mut Lab, widget: &mut Widget, message: &str) {
    widget.waiting();
    let view = reporting(lab, widget, message);
    lab.apply_view(view);
}

fn reporting(lab: &mut Lab, widget: &Widget, message: &str) -> ObjectView {
    let mut view = lab.view(widget);
    view.conditions[0].message = message.to_owned();
    view
}

/// Returns the evidence of the only open finding, as `key value`.
fn evidence(lab: &Lab) -> Vec<String> {
    let findings = lab.snapshot().findings;
    assert_eq!(findings.len(), 1, "{:?}", lab.findings());
    findings[0].evidence.0.iter().map(|(key, value)| format!("{key} {value}")).collect()
}

fn two_reports(lab: &mut Lab, message: &str) -> (Widget, Widget) {
    let (mut a, mut b) = (lab.converged("a"), lab.converged_in("team-b", "b"));
    report(lab, &mut a, message);
    report(lab, &mut b, message);
    (a, b)
}

#[test]
fn a_webhook_that_two_statuses_report_is_found_within_30_s() {
    let mut lab = Lab::new();
    let (mut a, mut b) = two_reports(&mut lab, REFUSED);
    lab.advance(Span::secs(19));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);
    let finding = lab.finding("WebhookUnavailable");
    assert_eq!(finding.confidence, Confidence::Confirmed);
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        evidence(&lab),
        [
            "cause no endpoints",
            "examples Widget team-a/a, Widget team-b/b",
            "objects 2",
            "seen_in status",
            "service hooks/hook",
        ]
    );

    lab.apply(a.ready());
    assert_eq!(lab.findings(), [DOWN], "the other one still reports it");

    lab.apply(b.ready());
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_says_that_it_tries_again_still_reports_the_webhook() {
    for pause in [15, 60, 300] {
        let mut lab = Lab::new();
        let (mut a, mut b) = two_reports(&mut lab, REFUSED);
        for _ in 0..10 {
            lab.advance(Span::secs(pause));
            for widget in [&mut a, &mut b] {
                lab.apply(widget.waiting());
            }
            lab.advance(Span::secs(2));
            for widget in [&mut a, &mut b] {
                report(&mut lab, widget, REFUSED);
            }
        }
        let mut opened = lab.changes();
        opened.retain(|change| change.contains("Webhook"));
        assert_eq!(opened, ["Opened WebhookUnavailable webhook v.example.io"], "{pause}");

        lab.apply(a.waiting());
        lab.apply(b.waiting());
        lab.advance(Span::secs(90));
        assert!(!lab.has("WebhookUnavailable"), "nobody reports it any more");
    }
}

#[test]
fn one_status_takes_three_times_as_long() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("a");
    report(&mut lab, &mut widget, REFUSED);
    lab.advance(Span::secs(59));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);

    lab.delete(&widget);
    lab.assert_no_findings();
}

#[test]
fn a_short_failure_a_recovered_object_and_a_denial_are_no_findings() {
    let mut lab = Lab::new();
    let (mut a, mut b) = two_reports(&mut lab, REFUSED);
    lab.advance(Span::secs(15));
    lab.apply(a.ready());
    lab.apply(b.ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings(); // the Pods of the webhook were replaced

    for widget in [a.ready(), b.ready()] {
        let view = reporting(&mut lab, widget, REFUSED);
        lab.apply_view(view);
    }
    lab.advance(Span::mins(1));
    lab.assert_no_findings(); // they are ready, and keep an old message

    let denied = r#"admission webhook "v.example.io" denied the request: failed calling webhook "v.example.io": x"#;
    report(&mut lab, &mut a, denied);
    report(&mut lab, &mut b, denied);
    lab.advance(Span::mins(2));
    lab.assert_no_findings();
}

#[test]
fn a_list_with_old_reports_shows_the_failure_at_once() {
    let mut lab = Lab::unsynced(crate::lab::unlearned());
    let views = ["a", "b"].map(|name| {
        let mut widget = Widget::new(name, lab.ago(Span::mins(9)));
        widget.waiting();
        widget.changed = Some(lab.ago(Span::mins(5)));
        reporting(&mut lab, &widget, REFUSED)
    });
    lab.list_views(views.into());

    assert_eq!(lab.since("WebhookUnavailable"), lab.ago(Span::mins(5)));
}

#[test]
fn what_the_decoder_has_read_counts_although_the_message_is_cut_or_anonymous() {
    let mut lab = Lab::new();
    let (mut a, mut b) = (lab.converged("a"), lab.converged("b"));
    let call = FailedCall {
        consulted: Consulted::Admission("webhook-x".to_owned()),
        service: String::new(),
        cause: CallFailure::Certificate,
    };
    for widget in [&mut a, &mut b] {
        widget.waiting();
        let mut view = reporting(&mut lab, widget, "x");
        view.conditions[0].failed_call = Some(Box::new(call.clone()));
        lab.apply_view(view);
    }
    lab.advance(Span::secs(20));

    assert_eq!(lab.findings(), ["WebhookUnavailable webhook webhook-x"]);
    assert_eq!(evidence(&lab)[0], "cause certificate");
}

#[test]
fn statuses_that_others_may_write_only_raise_a_suspicion() {
    let in_body = WatchedKind { status: StatusSchema::InBody, ..kind() };
    let mut lab = Lab::new();
    lab.discover(&[in_body]);
    two_reports(&mut lab, REFUSED);
    lab.advance(Span::mins(2));
    assert_eq!(lab.finding("WebhookUnavailable").confidence, Confidence::Suspected);

    let mut lab = Lab::new();
    for name in ["a", "b"] {
        let mut widget = lab.converged(name);
        widget.waiting();
        let mut view = reporting(&mut lab, &widget, REFUSED);
        view.managers = vec![status_by("kubectl-edit", lab.now)];
        lab.apply_view(view);
    }
    lab.advance(Span::mins(2));
    assert_eq!(lab.finding("WebhookUnavailable").confidence, Confidence::Suspected);
}

fn event(uid: &str, message: &str, lab: &Lab) -> EventView {
    EventView {
        uid: uid.into(),
        about: ObjectKey { namespace: "team-a".into(), name: "a".into() },
        r#type: "Warning".into(),
        reason: "SyncFailed".into(),
        message: message.into(),
        count: 1,
        added: 1,
        at: Some(lab.now),
        ..EventView::default()
    }
}

#[test]
fn events_alone_raise_a_suspicion_that_explains_nothing() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("a");
    lab.apply(widget.spec(2, lab.now));
    for _ in 0..50 {
        lab.see_event(event("e", REFUSED, &lab));
        lab.advance(Span::secs(15));
    }

    let finding = lab.finding("WebhookUnavailable");
    assert_eq!(finding.confidence, Confidence::Suspected);
    assert_eq!(finding.evidence.0["seen_in"], Value::Names(vec!["Events".to_owned()]));
    assert_eq!(lab.finding("Unacknowledged").explained_by, None);

    lab.advance(Span::mins(5));
    assert!(!lab.has("WebhookUnavailable"), "there are no more Events");
}

#[test]
fn a_single_event_is_no_finding() {
    let mut lab = Lab::new();
    lab.converged("a");
    lab.see_event(event("e", REFUSED, &lab));
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn events_of_one_namespace_introduce_few_webhooks() {
    let mut lab = Lab::new();
    lab.converged("a");
    for round in 0..3 {
        for number in 0..40 {
            let message = format!(r#"failed calling webhook "w{number}.io": EOF"#);
            lab.see_event(event(&format!("e{number}"), &message, &lab));
        }
        lab.advance(Span::secs(30 + round));
    }

    assert_eq!(lab.findings().len(), 8);
}

fn watch_fails(lab: &mut Lab, watch: &WatchId, detail: &str) {
    let source = SourceId::Watch(watch.clone());
    let (cause, detail) = (Cause::ServerError, detail.to_owned());
    lab.observe(Observation::SourceFailed { source, cause, detail });
}

#[test]
fn a_conversion_that_makes_the_own_watch_fail_is_found_and_explains_it() {
    let mut lab = Lab::new();
    lab.converged("a");
    watch_fails(&mut lab, &watch(), NOT_CONVERTED);
    lab.advance(Span::secs(19));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [NOT_CONVERTING]);
    assert_eq!(
        evidence(&lab),
        ["cause connection", "seen_in watch of loopwatch", "service hooks/hook"]
    );

    lab.advance(Span::mins(3));
    assert_eq!(lab.roots(), [NOT_CONVERTING]);
    assert!(lab.finding("SourceFailing").explained_by.is_some());

    lab.recover();
    lab.assert_no_findings();
}

#[test]
fn a_watch_that_fails_for_another_reason_or_for_an_unknown_kind_is_no_failing_conversion() {
    let mut lab = Lab::new();
    lab.converged("a");
    watch_fails(&mut lab, &watch(), NOT_CONVERTED);
    lab.advance(Span::secs(10));
    watch_fails(&mut lab, &watch(), "connection refused");
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
    lab.recover();

    let foreign = NOT_CONVERTED.replace("Kind=Widget", "Kind=Foreign");
    watch_fails(&mut lab, &watch(), &foreign);
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn a_watch_that_ends_reports_nothing() {
    let mut lab = Lab::new();
    lab.converged("a");
    watch_fails(&mut lab, &watch(), NOT_CONVERTED);
    lab.advance(Span::secs(30));
    assert_eq!(lab.findings(), [NOT_CONVERTING]);

    lab.discover(&[]);
    lab.advance(Span::secs(15));
    assert!(!lab.has("ConversionFailing"));
}

#[test]
fn a_webhook_that_fails_explains_what_waits_of_its_kinds_since() {
    let mut lab = Lab::new();
    let (_, mut waits) = (two_reports(&mut lab, REFUSED), lab.converged("waits"));
    lab.advance(Span::mins(1));
    lab.apply(waits.spec(2, lab.now));
    lab.advance(Span::mins(11));

    let cause = lab.finding("WebhookUnavailable");
    assert_eq!(lab.finding("Unacknowledged").explained_by, Some(cause.id));
    assert_eq!(lab.roots(), [DOWN]);
}

#[test]
fn a_webhook_that_fails_does_not_explain_other_kinds_and_earlier_waits() {
    let mut lab = Lab::new();
    lab.discover(&[kind(), crate::lab::other_kind("Gadget")]);
    let gadgets = WatchId(format!("gadgets.{GROUP}").into());
    lab.list_in(&gadgets, Vec::new());
    let mut early = lab.converged("early");
    lab.apply(early.spec(2, lab.now));
    lab.advance(Span::mins(15));
    assert!(lab.has("Unacknowledged"));

    two_reports(&mut lab, REFUSED);
    let mut gadget = Widget::new("gadget", lab.now);
    for step in 0..2 {
        let view = lab.view(if step == 0 { gadget.ready() } else { gadget.spec(2, lab.now) });
        lab.apply_to(&gadgets, view);
        lab.advance(Span::mins(1));
    }
    lab.advance(Span::mins(15));

    let unexplained = lab.roots();
    assert!(unexplained.contains(&"Unacknowledged Widget team-a/early".to_owned()));
    assert!(unexplained.contains(&"Unacknowledged Gadget team-a/gadget".to_owned()));
}

#[test]
fn a_workload_that_cannot_create_its_pods_affects_the_kind_of_its_owner() {
    let mut lab = Lab::new();
    lab.discover(&[kind(), deployments()]);
    let children = deployments().watch;
    lab.list_in(&children, Vec::new());
    let mut owner = lab.converged("web");
    for name in ["web-a", "web-b"] {
        let mut view = child_of("web", name);
        view.conditions = vec![Condition {
            r#type: "ReplicaFailure".into(),
            status: True,
            reason: "FailedCreate".into(),
            message: REFUSED.into(),
            changed: Some(lab.now),
            ..Condition::default()
        }];
        view.facts = vec![crate::lab::count("spec.replicas", 1)];
        let view = lab.versioned(view);
        lab.apply_to(&children, view);
    }
    lab.advance(Span::secs(20));
    assert_eq!(lab.roots(), [DOWN]);

    lab.apply(owner.spec(2, lab.now));
    lab.advance(Span::mins(11));
    assert_eq!(lab.roots(), [DOWN]);
}

#[test]
fn the_operator_that_answers_the_calls_gets_time_to_start_and_explains_the_failure() {
    let own = REFUSED.replace("hook.hooks.svc", "hook.ops.svc");
    let (mut lab, mut op) = Op::with_lab();
    lab.advance(Span::mins(30));
    op.workload().rolling = true;
    op.seen(&mut lab);
    two_reports(&mut lab, &own);
    lab.advance(Span::secs(119));
    assert!(!lab.has("WebhookUnavailable"), "{:?}", lab.findings());
    lab.advance(Span::secs(1));
    assert!(lab.has("WebhookUnavailable"));

    let (mut lab, mut op) = Op::with_lab();
    lab.advance(Span::mins(30));
    op.crash(&mut lab, "Error");
    two_reports(&mut lab, &own);
    lab.advance(Span::mins(10));
    assert_eq!(lab.roots(), ["OperatorDown operator ops/widget-operator"]);

    let (mut lab, mut op) = Op::with_lab();
    lab.advance(Span::mins(30));
    op.crash(&mut lab, "Error");
    two_reports(&mut lab, REFUSED);
    lab.advance(Span::mins(10));
    assert!(lab.roots().contains(&DOWN.to_owned()), "another program answers: {:?}", lab.roots());
}

#[test]
fn a_step_of_the_clock_and_a_restart_keep_the_finding() {
    let mut lab = Lab::new();
    let (mut a, mut b) = two_reports(&mut lab, REFUSED);
    lab.advance(Span::secs(20));
    lab.step_clock(Span::hours(-2));
    lab.advance(Span::secs(20));
    assert_eq!(lab.findings(), [DOWN]);

    let since = lab.since("WebhookUnavailable");
    let mut again = lab.restart();
    let views = [&mut a, &mut b].map(|widget| reporting(&mut again, widget, REFUSED));
    again.list_views(views.into());
    again.advance(Span::secs(20));
    assert_eq!(again.since("WebhookUnavailable"), since);
}

#[test]
fn more_reports_than_the_limit_are_counted() {
    let mut lab = Lab::new();
    for number in 0..1_001 {
        let mut widget = Widget::new(&format!("w{number}"), lab.now);
        let message = format!(r#"failed calling webhook "w{number}.io": EOF"#);
        report(&mut lab, &mut widget, &message);
    }

    assert_eq!(lab.dropped("failed_calls"), 1);
}

#[test]
fn a_status_with_many_webhooks_counts_for_few() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("a");
    widget.waiting();
    let mut view = lab.view(&widget);
    view.conditions = (0..20)
        .map(|number| Condition {
            message: format!(r#"failed calling webhook "w{number}.io": EOF"#),
            ..crate::lab::condition(&format!("C{number}Ready"), False, "X")
        })
        .collect();
    lab.apply_view(view);
    lab.advance(Span::mins(1));

    let found = lab.findings().into_iter().filter(|it| it.starts_with("WebhookUnavailable"));
    assert_eq!(found.count(), 4);
}

#[test]
fn a_policy_that_cannot_be_evaluated_is_found_and_explains_what_waits() {
    let mut lab = Lab::new();
    let (_, mut waits) = (two_reports(&mut lab, NOT_EVALUATED), lab.converged("waits"));
    lab.advance(Span::secs(20));

    let failing = "AdmissionPolicyFailing admission policy limits.example.io";
    assert_eq!(lab.findings(), [failing]);
    assert_eq!(
        evidence(&lab),
        [
            "cause expression",
            "examples Widget team-a/a, Widget team-b/b",
            "objects 2",
            "seen_in status"
        ]
    );
    let finding = lab.finding("AdmissionPolicyFailing");
    assert_eq!(finding.confidence, Confidence::Confirmed);
    assert_eq!(
        finding.command(),
        "kubectl get validatingadmissionpolicy.admissionregistration.k8s.io limits.example.io -o yaml"
    );

    lab.apply(waits.spec(2, lab.now));
    lab.advance(Span::mins(11));
    assert_eq!(lab.finding("Unacknowledged").explained_by, Some(finding.id));
    assert_eq!(lab.roots(), [failing]);
}

#[test]
fn a_policy_that_denies_requests_works() {
    let mut lab = Lab::new();
    let denied = NOT_EVALUATED.replace("' resulted in error: no such key: max", "' is false");
    two_reports(&mut lab, &denied.replace("expression", "failed expression:"));
    lab.advance(Span::mins(5));

    assert!(!lab.has("AdmissionPolicyFailing"), "{:?}", lab.findings());
}
