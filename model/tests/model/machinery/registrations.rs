//! Webhooks that are registered for the operator's kinds and Pods: Services without endpoints,
//! certificates, webhooks that their own Pods need, and slow answers.

use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::observation::{
    CaBundle, ConversionView, CoveredNamespaces, DefinitionView, Durations, EndpointsView,
    MetricsView, Observation, WebhookKind, WebhookRule, WebhookView,
};
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, POD, pod};
use crate::lab::{GROUP, Lab};

const SERVICE: &str = "ops/hook";

const DOWN: &str = "WebhookUnavailable webhook v.example.io";

const CERTIFICATE: &str = "WebhookCertificate webhook v.example.io";

const DEADLOCK: &str = "WebhookDeadlock webhook v.example.io";

const SLOW: &str = "WebhookSlow webhook v.example.io";

/// Returns a lab with a healthy operator and a converged object.
fn operator() -> (Lab, Op) {
    let mut lab = Lab::new();
    let op = Op::running(&lab);
    op.seen(&mut lab);
    lab.converged("web");
    (lab, op)
}

/// Returns a webhook of the operator for its widgets.
fn webhook(lab: &Lab) -> WebhookView {
    let rule = WebhookRule {
        groups: vec![GROUP.to_owned()],
        resources: vec!["widgets".to_owned()],
        creations: true,
        cluster_scoped: false,
    };
    WebhookView {
        configuration: "hooks".to_owned(),
        name: "v.example.io".to_owned(),
        service: SERVICE.to_owned(),
        path: "/validate".to_owned(),
        ca: valid(lab, Span::hours(24 * 365)),
        fails_closed: true,
        timeout: Span::secs(10),
        rules: vec![rule],
        ..WebhookView::default()
    }
}

/// Returns authorities that were created a hundred days ago and expire after a time.
fn valid(lab: &Lab, left: Span) -> CaBundle {
    CaBundle::Valid { from: lab.ago(Span::hours(24 * 100)), until: lab.now.after(left) }
}

fn list(lab: &mut Lab, webhooks: Vec<WebhookView>) {
    lab.observe(Observation::WebhooksListed { kind: WebhookKind::Validating, webhooks });
}

fn ready(lab: &mut Lab, ready: u32) {
    let service = SERVICE.to_owned();
    lab.observe(Observation::EndpointsListed(vec![EndpointsView {
        service,
        ready,
        absent: false,
    }]));
}

/// Returns the evidence of a finding, as `key value`.
fn evidence(lab: &Lab, code: &str) -> Vec<String> {
    let finding = lab.finding(code);
    finding.evidence.0.iter().map(|(key, value)| format!("{key} {value}")).collect()
}

#[test]
fn a_service_without_ready_endpoints_is_found_within_30_s_and_again_when_they_are_gone() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 1);
    lab.advance(Span::mins(5));
    lab.assert_no_findings();

    for _ in 0..2 {
        ready(&mut lab, 0);
        lab.advance(Span::secs(19));
        lab.assert_no_findings();
        lab.advance(Span::secs(1));
        assert_eq!(lab.findings(), [DOWN]);
        assert_eq!(
            evidence(&lab, "WebhookUnavailable"),
            ["cause no endpoints", "seen_in EndpointSlices", "service ops/hook"]
        );
        assert_eq!(lab.finding("WebhookUnavailable").confidence, Confidence::Confirmed);

        ready(&mut lab, 1);
        lab.assert_no_findings();
    }
}

#[test]
fn it_does_not_matter_in_which_order_webhooks_and_endpoints_and_the_operator_are_seen() {
    let (mut lab, _) = operator();
    ready(&mut lab, 0);
    lab.advance(Span::mins(1));
    lab.assert_no_findings(); // the Service answers no webhook

    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), [DOWN]);

    list(&mut lab, Vec::new());
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_is_replaced_may_take_longer() {
    let (mut lab, mut op) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 1);
    op.workload().rolling = true;
    op.seen(&mut lab);
    ready(&mut lab, 0);
    lab.advance(Span::secs(119));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);
}

#[test]
fn an_operator_that_starts_may_take_longer_unless_it_has_answered_already() {
    for answers in [false, true] {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        lab.converged("web");
        op.view.pods = vec![pod(POD, lab.now)];
        op.seen(&mut lab);
        let view = webhook(&lab);
        list(&mut lab, vec![view]);
        if answers {
            ready(&mut lab, 1);
            lab.advance(Span::secs(10));
        }

        ready(&mut lab, 0);
        lab.advance(Span::secs(19));
        lab.assert_no_findings();
        lab.advance(Span::secs(1));
        assert_eq!(lab.has("WebhookUnavailable"), answers);
        lab.advance(Span::secs(100));
        assert_eq!(lab.findings(), [DOWN]);
    }
}

#[test]
fn webhooks_that_let_writes_pass_or_that_concern_others_or_without_known_endpoints_are_no_findings()
{
    let open = |view: WebhookView| WebhookView { fails_closed: false, ..view };
    let foreign = |mut view: WebhookView| {
        view.rules[0].groups = vec!["other.io".to_owned()];
        view
    };
    let elsewhere = |view: WebhookView| WebhookView { service: "ops/other".to_owned(), ..view };
    let changes: [(&str, &dyn Fn(WebhookView) -> WebhookView); 3] =
        [("open", &open), ("foreign", &foreign), ("elsewhere", &elsewhere)];

    for (name, change) in changes {
        let (mut lab, _) = operator();
        let view = change(webhook(&lab));
        list(&mut lab, vec![view]);
        ready(&mut lab, 0);
        lab.advance(Span::mins(10));
        assert!(lab.findings().is_empty(), "{name}: {:?}", lab.findings());
    }
}

#[test]
fn a_service_without_endpoints_explains_what_waits_of_the_covered_kinds_since() {
    let (mut lab, _) = operator();
    let mut waits = lab.converged("waits");
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 0);
    lab.advance(Span::mins(1));
    lab.apply(waits.spec(2, lab.now));
    lab.advance(Span::mins(12));

    let cause = lab.finding("WebhookUnavailable");
    assert_eq!(lab.finding("Unacknowledged").explained_by, Some(cause.id));
    assert_eq!(lab.roots(), [DOWN]);
}

#[test]
fn the_step_of_the_clock_moves_the_beginning() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 0);
    lab.advance(Span::secs(10));
    lab.step_clock(Span::hours(1));
    lab.advance(Span::secs(9));
    lab.assert_no_findings();
    lab.advance(Span::secs(1));

    assert_eq!(lab.findings(), [DOWN]);
}

#[test]
fn an_expired_authority_is_found_at_once_and_one_that_nobody_replaces_half_a_day_before() {
    let (mut lab, _) = operator();
    let view = WebhookView { ca: valid(&lab, Span::hours(13)), ..webhook(&lab) };
    list(&mut lab, vec![view]);
    lab.advance(Span::mins(59));
    lab.assert_no_findings();
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), [CERTIFICATE]);
    assert_eq!(lab.finding("WebhookCertificate").severity, Severity::Warning);
    assert!(evidence(&lab, "WebhookCertificate").contains(&"problem expires soon".to_owned()));

    lab.advance(Span::hours(12));
    assert_eq!(lab.findings(), [CERTIFICATE]);
    assert!(evidence(&lab, "WebhookCertificate").contains(&"problem expired".to_owned()));

    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    lab.assert_no_findings();
}

#[test]
fn usual_renewals_are_no_findings() {
    // The life of the certificate, and how long before its end the program replaces it.
    let programs = [
        ("Operator Lifecycle Manager", 24 * 730, 24),
        ("Knative", 24 * 7, 24),
        ("cert-manager", 24 * 90, 24 * 30),
        ("cert-manager, an hour", 1, 0),
    ];

    for (name, life, left) in programs {
        let (mut lab, _) = operator();
        let (life, left) = (Span::hours(life), Span(Span::hours(left).0.max(Span::mins(20).0)));
        let from = Timestamp(lab.now.0 + left.0 - life.0);
        let ca = CaBundle::Valid { from, until: lab.now.after(left) };
        let view = WebhookView { ca, ..webhook(&lab) };
        list(&mut lab, vec![view]);
        assert!(lab.findings().is_empty(), "{name}: {:?}", lab.findings());
    }
}

#[test]
fn an_authority_that_is_missing_for_long_is_only_suspected_and_one_that_is_unreadable_is_not() {
    let (mut lab, _) = operator();
    let view = WebhookView { ca: CaBundle::Absent, ..webhook(&lab) };
    list(&mut lab, vec![view.clone()]);
    lab.advance(Span::secs(299));
    lab.assert_no_findings();
    list(&mut lab, vec![view]);
    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), [CERTIFICATE]);
    assert_eq!(lab.finding("WebhookCertificate").confidence, Confidence::Suspected);

    let view = WebhookView { ca: CaBundle::Unreadable, ..webhook(&lab) };
    list(&mut lab, vec![view]);
    lab.assert_no_findings();
    lab.advance(Span::secs(20));
    assert_eq!(lab.findings(), [CERTIFICATE]);
    assert_eq!(lab.finding("WebhookCertificate").confidence, Confidence::Confirmed);
}

#[test]
fn the_certificate_of_a_webhook_that_may_fail_is_information() {
    let (mut lab, _) = operator();
    let ca = CaBundle::Valid { from: Timestamp(0), until: lab.ago(Span::hours(1)) };
    let view = WebhookView { ca, fails_closed: false, ..webhook(&lab) };
    list(&mut lab, vec![view]);

    assert_eq!(lab.finding("WebhookCertificate").severity, Severity::Info);
    assert_eq!(lab.since("WebhookCertificate"), lab.ago(Span::hours(1)));
}

/// Returns a webhook that covers the creation of Pods.
fn for_pods(lab: &Lab) -> WebhookView {
    let mut view = webhook(lab);
    view.rules[0].groups = vec![String::new()];
    view.rules[0].resources = vec!["pods".to_owned()];
    view
}

#[test]
fn a_webhook_that_decides_on_its_own_pods_is_a_deadlock() {
    let (mut lab, _) = operator();
    let view = for_pods(&lab);
    list(&mut lab, vec![view]);
    assert_eq!(lab.findings(), [DEADLOCK]);
    assert_eq!(evidence(&lab, "WebhookDeadlock"), ["configuration hooks", "service ops/hook"]);

    let view = WebhookView {
        namespaces: CoveredNamespaces::Except(vec!["ops".to_owned()]),
        ..for_pods(&lab)
    };
    list(&mut lab, vec![view]);
    lab.assert_no_findings();
}

#[test]
fn a_webhook_that_leaves_out_its_own_pods_or_may_do_so_is_no_deadlock() {
    type Change = fn(WebhookView) -> WebhookView;
    let changes: [(&str, Change); 6] = [
        ("open", |view| WebhookView { fails_closed: false, ..view }),
        ("labels", |view| WebhookView { namespaces: CoveredNamespaces::Unknown, ..view }),
        ("objects", |view| WebhookView { some_objects: true, ..view }),
        ("others", |view| {
            let only = CoveredNamespaces::Only(vec!["team-a".to_owned()]);
            WebhookView { namespaces: only, ..view }
        }),
        ("updates", |mut view| {
            view.rules[0].creations = false;
            view
        }),
        ("another operator", |view| WebhookView { service: "other/hook".to_owned(), ..view }),
    ];

    for (name, change) in changes {
        let (mut lab, _) = operator();
        let view = change(for_pods(&lab));
        list(&mut lab, vec![view]);
        lab.advance(Span::mins(10));
        assert!(lab.findings().is_empty(), "{name}: {:?}", lab.findings());
    }
}

/// A scrape shows the calls of the webhook since the start.
fn calls(lab: &mut Lab, instance: &str, count: u64, sum: f64) {
    let webhooks = vec![("/validate".to_owned(), Durations { count, sum })];
    let instance = instance.to_owned();
    lab.scraped(MetricsView { instance, webhooks, ..MetricsView::default() });
}

#[test]
fn answers_that_need_half_of_the_timeout_are_slow_until_they_are_fast_again() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    calls(&mut lab, INSTANCE, 100, 1.0);
    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 102, 17.0);
    lab.assert_no_findings(); // two calls

    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 103, 25.0);
    assert_eq!(lab.findings(), [SLOW]);
    assert_eq!(
        evidence(&lab, "WebhookSlow"),
        [
            "calls 3",
            "configuration hooks",
            "mean 8s",
            "service ops/hook",
            "timeout 10s",
            "window 5m"
        ]
    );

    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 109, 25.2);
    assert_eq!(lab.findings(), [SLOW], "the mean is still a quarter of the timeout");

    lab.advance(Span::mins(5));
    calls(&mut lab, INSTANCE, 115, 25.4);
    lab.assert_no_findings();
}

#[test]
fn slow_answers_end_when_nobody_calls_and_a_restart_begins_anew() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    calls(&mut lab, INSTANCE, 10, 1.0);
    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 20, 81.0);
    assert_eq!(lab.findings(), [SLOW]);

    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 2, 16.0);
    lab.assert_no_findings(); // nothing is known about the time since the last scrape

    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 6, 48.0);
    assert_eq!(lab.findings(), [SLOW]);
    lab.advance(Span::mins(6));
    lab.assert_no_findings();
}

#[test]
fn quick_answers_of_one_replica_do_not_hide_behind_another_one_and_unknown_paths_are_ignored() {
    let (mut lab, _) = operator();
    calls(&mut lab, INSTANCE, 10, 1.0);
    calls(&mut lab, OTHER, 10, 1.0);
    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 30, 161.0);
    lab.assert_no_findings(); // no configuration has the path

    calls(&mut lab, OTHER, 30, 1.2);
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    lab.assert_no_findings(); // the mean of both is 4 s
}

fn definition(served: &[&str], service: &str) -> DefinitionView {
    DefinitionView {
        name: format!("widgets.{GROUP}"),
        group: GROUP.to_owned(),
        kind: "Widget".to_owned(),
        served: served.iter().map(|version| (*version).to_owned()).collect(),
        storage: "v1".to_owned(),
        conversion: Some(ConversionView {
            service: service.to_owned(),
            ca: CaBundle::Valid { from: Timestamp(0), until: Timestamp(i64::MAX) },
        }),
        ..DefinitionView::default()
    }
}

#[test]
fn the_certificate_of_a_conversion_is_found_before_it_expires_while_objects_are_converted() {
    let (mut lab, _) = operator();
    let renewed = definition(&["v1", "v1beta1"], SERVICE);
    let ca = valid(&lab, Span::hours(13));
    let old = |view: &DefinitionView| DefinitionView {
        conversion: Some(ConversionView { service: SERVICE.to_owned(), ca }),
        ..view.clone()
    };
    let foreign = DefinitionView {
        name: "things.other.io".to_owned(),
        group: "other.io".to_owned(),
        ..old(&renewed)
    };
    for view in [old(&renewed), old(&definition(&["v1"], SERVICE)), foreign] {
        lab.observe(Observation::DefinitionSeen(view));
    }
    lab.advance(Span::mins(59));
    lab.assert_no_findings(); // the last version of the kind is the only one

    lab.observe(Observation::DefinitionSeen(old(&renewed)));
    lab.advance(Span::mins(1));
    assert_eq!(lab.findings(), ["WebhookCertificate definition widgets.example.io"]);
    assert_eq!(lab.finding("WebhookCertificate").severity, Severity::Warning);
    let said = evidence(&lab, "WebhookCertificate");
    assert!(said.contains(&"problem expires soon".to_owned()), "{said:?}");

    lab.observe(Observation::DefinitionSeen(renewed.clone()));
    lab.advance(Span::secs(15));
    lab.assert_no_findings();

    lab.observe(Observation::DefinitionSeen(old(&renewed)));
    lab.advance(Span::secs(15));
    lab.observe(Observation::DefinitionGone(format!("widgets.{GROUP}")));
    lab.advance(Span::secs(15));
    lab.assert_no_findings();
}

#[test]
fn a_conversion_whose_service_has_no_ready_endpoints_is_found() {
    let (mut lab, _) = operator();
    lab.observe(Observation::DefinitionSeen(definition(&["v1", "v1beta1"], SERVICE)));
    ready(&mut lab, 1);
    lab.advance(Span::mins(1));
    ready(&mut lab, 0);
    lab.advance(Span::secs(20));
    assert_eq!(lab.findings(), ["ConversionFailing definition widgets.example.io"]);
    assert_eq!(
        evidence(&lab, "ConversionFailing"),
        ["cause no endpoints", "seen_in EndpointSlices", "service ops/hook"]
    );

    lab.observe(Observation::DefinitionGone(format!("widgets.{GROUP}")));
    lab.advance(Span::secs(15));
    lab.assert_no_findings();
}

#[test]
fn a_kind_with_one_version_or_of_others_needs_no_conversion() {
    let foreign = DefinitionView {
        name: "things.other.io".to_owned(),
        group: "other.io".to_owned(),
        kind: "Thing".to_owned(),
        ..definition(&["v1", "v2"], SERVICE)
    };
    for view in [definition(&["v1"], SERVICE), definition(&["v1", "v2"], "ops/other"), foreign] {
        let (mut lab, _) = operator();
        lab.observe(Observation::DefinitionSeen(view));
        ready(&mut lab, 0);
        lab.advance(Span::mins(5));
        lab.assert_no_findings();
    }
}

#[test]
fn a_pod_that_is_moved_to_another_node_may_take_longer() {
    let (mut lab, mut op) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 1);
    lab.advance(Span::mins(1));

    // The replacement waits for its image, and the old Pod ends.
    let created = Timestamp(lab.now.0 - lab.now.0.rem_euclid(1000));
    op.view.pods[0].deleted = Some(lab.now);
    let mut replacement = pod(OTHER_POD, created);
    replacement.containers[0].running_since = None;
    op.view.pods.push(replacement);
    lab.advance(Span(700));
    op.seen(&mut lab);
    ready(&mut lab, 0);
    lab.advance(Span::secs(45));
    lab.assert_no_findings();

    op.view.pods.remove(0);
    op.view.pods[0].containers[0].running_since = Some(lab.now);
    op.seen(&mut lab);
    lab.advance(Span::secs(30));
    ready(&mut lab, 1);
    lab.advance(Span::mins(1));
    assert!(!lab.has("WebhookUnavailable"), "{:?}", lab.findings());
}

#[test]
fn a_helper_container_does_not_answer_for_the_operator() {
    let (mut lab, mut op) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view]);
    ready(&mut lab, 1);
    let helper = op.container().clone();
    op.view.pods[0].containers.push(helper);
    lab.advance(Span::mins(1));
    op.crash(&mut lab, "Error");
    ready(&mut lab, 0);
    lab.advance(Span::secs(60));

    assert!(!lab.has("WebhookUnavailable"), "{:?}", lab.findings());
}

#[test]
fn a_harmless_webhook_does_not_hide_one_of_the_same_name() {
    let (mut lab, _) = operator();
    let expired = |ago| CaBundle::Valid { from: Timestamp(0), until: ago };
    let harmless = WebhookView {
        configuration: "others".to_owned(),
        ca: expired(lab.ago(Span::hours(9))),
        fails_closed: false,
        ..webhook(&lab)
    };
    let severe = WebhookView { ca: expired(lab.ago(Span::hours(1))), ..webhook(&lab) };
    for webhooks in [vec![harmless.clone(), severe.clone()], vec![severe, harmless]] {
        list(&mut lab, webhooks);
        assert_eq!(lab.finding("WebhookCertificate").severity, Severity::Warning);
    }
}

#[test]
fn rules_that_cover_no_object_of_the_operator_are_no_hazard() {
    let (mut lab, _) = operator();
    let expired = CaBundle::Valid { from: Timestamp(0), until: lab.ago(Span::hours(1)) };
    let nothing = WebhookView { rules: Vec::new(), ca: expired, ..webhook(&lab) };
    let mut cluster = for_pods(&lab);
    cluster.rules[0].cluster_scoped = true;
    cluster.rules[0].groups = vec!["*".to_owned()];
    list(&mut lab, vec![nothing, cluster]);
    lab.advance(Span::mins(10));
    lab.assert_no_findings();
}

#[test]
fn a_path_that_two_services_have_tells_nothing_about_either() {
    let (mut lab, _) = operator();
    let other = WebhookView { service: "ops/other".to_owned(), ..webhook(&lab) };
    let own = webhook(&lab);
    list(&mut lab, vec![own, other]);
    calls(&mut lab, INSTANCE, 10, 1.0);
    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 20, 81.0);
    lab.assert_no_findings();
}

#[test]
fn a_full_list_of_definitions_ends_the_conversion_of_others() {
    let (mut lab, _) = operator();
    lab.observe(Observation::DefinitionSeen(definition(&["v1", "v1beta1"], SERVICE)));
    ready(&mut lab, 0);
    lab.advance(Span::mins(3));
    assert!(lab.has("ConversionFailing"));

    lab.observe(Observation::DefinitionsListed(Vec::new()));
    lab.advance(Span::secs(15));
    assert!(!lab.has("ConversionFailing"), "{:?}", lab.findings());
}

#[test]
fn webhooks_beyond_the_limit_are_counted() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    list(&mut lab, vec![view; 2_001]);
    assert!(lab.has("LimitReached"), "{:?}", lab.findings());
}

#[test]
fn timeouts_of_mutating_webhooks_add_up() {
    let (mut lab, _) = operator();
    let view = webhook(&lab);
    let another = |name: &str, timeout: Span| WebhookView {
        name: name.to_owned(),
        path: format!("/{name}"),
        timeout,
        ..view.clone()
    };
    let mut elsewhere = another("elsewhere", Span::secs(30));
    elsewhere.rules[0].resources = vec!["gadgets".to_owned()];
    list(&mut lab, vec![view.clone(), another("quick", Span::secs(2))]);
    let kind = WebhookKind::Mutating;
    let webhooks = vec![another("one", Span::secs(15)), another("two", Span::ZERO), elsewhere];
    lab.observe(Observation::WebhooksListed { kind, webhooks });

    calls(&mut lab, INSTANCE, 10, 1.0);
    lab.advance(Span::secs(15));
    calls(&mut lab, INSTANCE, 20, 81.0);
    assert_eq!(lab.findings(), [SLOW]);

    // The longest validating one, 15 s, and 10 s by default.
    let evidence = evidence(&lab, "WebhookSlow");
    assert!(evidence.contains(&"longest_wait 35s".to_owned()), "{evidence:?}");
}
