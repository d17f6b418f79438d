//! Kubernetes Events of a real API server: which selectors it knows, what loopwatch counts, and
//! what permissions decide.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::Case;
use crate::discovery::definition;
use loopwatch_testbed::accounts::RBAC;
use loopwatch_testbed::kube::{Kube, ZOO, path};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{program, quick};
use loopwatch_testbed::wait::pause;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("events::selectors", selectors), test("events::counts", counts)]
}

/// The namespace of the test of counts, and the name of its role and of its group of kinds.
const NAME: &str = "events-live";
const SOON: Duration = Duration::from_secs(30);
const NEW: &str = "events.k8s.io/v1";
const OLD: &str = "v1";

/// Both forms of Events have a field selector for the kind, each under its own name.
fn selectors() {
    let kube = &bed().kube;
    let name = "events-selectors";
    kube.namespace(name);
    post_old(kube, name, "about-widget", "one", "Selected", 1);

    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": name, "name": "one"});
    post(
        kube,
        OLD,
        name,
        "about-config-map",
        "involvedObject",
        &config_map,
        json!({"reason": "Other", "count": 1}),
    );
    for (api, field, is_known) in [
        (NEW, "regarding.kind", true),
        (OLD, "involvedObject.kind", true),
        (NEW, "involvedObject.kind", false),
        (OLD, "regarding.kind", false),
    ] {
        let selector =
            format!("fieldSelector=metadata.namespace%21%3Dkube-system,{field}%3DWidget");
        let answer = kube.get(&format!("{}?{selector}", path(api, "Event", name, "")));
        match (answer, is_known) {
            (Ok(list), true) => {
                let items = list["items"].as_array().cloned().unwrap_or_default();
                assert_eq!(items.len(), 1, "{api} {field}: {list}");
                assert_eq!(items[0]["metadata"]["name"], "about-widget", "{list}");
            }
            (Err(error), false) => assert!(error.contains("field label"), "{api} {field}: {error}"),
            (answer, _) => panic!("{api} {field}: {answer:?}"),
        }
    }
}

fn counts() {
    let case = Case::empty(NAME, &quick());
    let kube = &case.kube;

    // The account may only create Events.
    expect_off(&case);
    case.make("Widget", "old");
    post_old(kube, NAME, "old-event", "old", "TestOld", 40);
    pause(Duration::from_millis(1_100)); // the API server notes the creation in whole seconds
    grant(&case, &["events.k8s.io"], 1);
    expect_on(&case);

    // The operator's own Events.
    case.make("Widget", "new");
    let ready = case.sidecar.expect(SOON, "an Event of the operator", || {
        let metrics = case.sidecar.metrics()?;
        let normal = r#"loopwatch_events_total{group="zoo.loopwatch.dev",kind="Widget",type="Normal",reason=""#;
        metrics.lines().find_map(|line| line.strip_prefix(normal).map(str::to_owned)).ok_or(metrics)
    });

    eprintln!("events: the operator's Event is {ready}");
    assert!(
        ready.ends_with(" 1"),
        "the Event about the old object is older than the watch: {ready}"
    );

    // Both forms, by their counts; a patch of the count; a series.
    expect_no_count(&case, "TestOld");
    kube.patch(OLD, "Event", NAME, "old-event", &json!({"count": 43}));
    expect_count(&case, "TestOld", 3);
    post_old(kube, NAME, "young-event", "new", "TestYoung", 5);
    expect_count(&case, "TestYoung", 5);
    kube.patch(OLD, "Event", NAME, "young-event", &json!({"count": 2, "message": "smaller"}));
    kube.patch(OLD, "Event", NAME, "young-event", &json!({"count": 4}));
    expect_count(&case, "TestYoung", 7);

    post_new(kube, NAME, "series-event", "new", "TestSeries");
    expect_count(&case, "TestSeries", 1);

    let series = json!({"series": {"count": 6, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    kube.patch(NEW, "Event", NAME, "series-event", &series);
    expect_count(&case, "TestSeries", 6);

    // Events about other things, and hostile ones.
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAME, "name": "new"});
    post(
        kube,
        OLD,
        NAME,
        "foreign",
        "involvedObject",
        &config_map,
        json!({"reason": "TestForeign", "count": 1}),
    );

    let twin = json!({"apiVersion": "other.example.com/v1", "kind": "Widget", "namespace": NAME, "name": "new"});
    post(
        kube,
        OLD,
        NAME,
        "same-kind",
        "involvedObject",
        &twin,
        json!({"reason": "TestForeign", "count": 1}),
    );

    let message = "\u{1b}[31m\n\u{202e}".repeat(100_000);
    let hostile = json!({"reason": "free text\n", "message": message, "type": "Oops", "count": -7});
    post(kube, OLD, NAME, "hostile", "involvedObject", &widget(NAME, "new"), hostile);
    case.sidecar.expect(SOON, "the hostile Event", || {
        case.sidecar
            .metric(&series_of("_other", "_other"))
            .map(|count| assert!((count - 1.0).abs() < 0.1))
    });

    expect_no_count(&case, "TestForeign");

    // The Events are part of the timeline.
    let server = format!("--server=http://127.0.0.1:{}", case.sidecar.port);
    let output = program("explain", bed())
        .args(["explain", "widget", "new", "-n", NAME, "-o", "json", &server])
        .run();
    let explained: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let timeline = explained["timeline"].as_array().cloned().unwrap_or_default();
    let of = |reason: &str| {
        timeline.iter().find(|event| event["code"] == reason).cloned().unwrap_or_default()
    };

    let (young, series) = (of("TestYoung"), of("TestSeries"));
    assert_eq!(
        (&young["change"], &young["severity"], &young["count"]),
        (&json!("event"), &json!("warning"), &json!(4))
    );
    assert_eq!(
        (&young["message"], &series["count"]),
        (&json!("smaller"), &json!(6)),
        "{explained}"
    );

    let longest = timeline.iter().filter_map(|event| event["message"].as_str()).map(str::len).max();
    assert!(longest.is_some_and(|longest| longest <= 160), "{longest:?}");

    permissions_come_and_go(case);
}

/// Without the permission, the source is off. With the permission for the older form, it works,
/// too. A restart counts nothing twice.
fn permissions_come_and_go(mut case: Case) {
    revoke(&case, 2);
    expect_off(&case);

    assert!(
        case.sidecar.opened().iter().all(|(_, subject)| !subject.contains("events")),
        "{}",
        case.sidecar.account()
    );

    grant(&case, &[""], 3);
    expect_on(&case);
    case.kube.patch(OLD, "Event", NAME, "old-event", &json!({"count": 44}));
    expect_count(&case, "TestOld", 4);
    expect_count(&case, "TestYoung", 7);
    case.sidecar.start_again();
    expect_on(&case);
    case.kube.patch(OLD, "Event", NAME, "old-event", &json!({"count": 46}));

    expect_count(&case, "TestOld", 2);
    expect_no_count(&case, "TestYoung");
    expect_no_count(&case, "TestSeries");

    for round in 1..=3 {
        let name = format!("things.{NAME}-{round}.example.com");
        case.kube.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name);
    }
}

fn expect_off(case: &Case) {
    case.sidecar.expect(SOON, "the source is off", || {
        let source = case.sidecar.source("events")?;
        let says_so = source["off"].as_str().is_some_and(|reason| reason.contains("reader-rights"));
        if says_so && source["up"] == true { Ok(()) } else { Err(source.to_string()) }
    });
}

fn expect_on(case: &Case) {
    case.sidecar.expect(SOON, "the source works", || {
        let source = case.sidecar.source("events")?;
        if source["off"].is_null() && source["up"] == true {
            Ok(())
        } else {
            Err(source.to_string())
        }
    });
    pause(Duration::from_secs(1)); // until all of its watches have listed
}

fn series_of(kind: &str, reason: &str) -> String {
    format!(
        r#"loopwatch_events_total{{group="zoo.loopwatch.dev",kind="Widget",type="{kind}",reason="{reason}"}}"#
    )
}

fn expect_count(case: &Case, reason: &str, count: u32) {
    case.sidecar.expect(SOON, &format!("{count} {reason}"), || {
        let counted = case.sidecar.metric(&series_of("Warning", reason))?;
        if (counted - f64::from(count)).abs() < 0.1 { Ok(()) } else { Err(counted.to_string()) }
    });
}

fn expect_no_count(case: &Case, reason: &str) {
    let metrics = case.sidecar.metrics().expect("metrics");
    assert!(!metrics.contains(&format!("reason=\"{reason}\"")), "{metrics}");
}

/// Lets the operator's account read the Events of the namespace through an API group, and loopwatch
/// notice it.
fn grant(case: &Case, groups: &[&str], round: u32) {
    let kube = &case.kube;
    may_read(kube, NAME, groups);
    let_review(kube, round);
}

/// Lets the operator's account read the Events of a namespace.
pub(crate) fn may_read_events(kube: &Kube, namespace: &str) {
    may_read(kube, namespace, &["events.k8s.io"]);
}

fn may_read(kube: &Kube, namespace: &str, groups: &[&str]) {
    let metadata = json!({"name": NAME, "namespace": namespace});
    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": groups, "resources": ["events"], "verbs": ["list", "watch"]}]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]}));
}

fn revoke(case: &Case, round: u32) {
    case.kube.delete(RBAC, "RoleBinding", NAME, NAME);
    let_review(&case.kube, round);
}

/// A new definition makes loopwatch review its permissions at once.
fn let_review(kube: &Kube, round: u32) {
    pause(Duration::from_secs(1)); // the authorizer learns of it by a watch
    kube.apply(&definition(&format!("{NAME}-{round}.example.com"), &["v1"]));
}

fn widget(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": ZOO, "kind": "Widget", "namespace": namespace, "name": name})
}

/// An Event in the older form, as the recorder of older operators writes it.
fn post_old(kube: &Kube, namespace: &str, name: &str, about: &str, reason: &str, count: u32) {
    let more = json!({"type": "Warning", "reason": reason, "message": "from a test", "count": count,
        "source": {"component": "test"}});
    post(kube, OLD, namespace, name, "involvedObject", &widget(namespace, about), more);
}

fn post_new(kube: &Kube, namespace: &str, name: &str, about: &str, reason: &str) {
    let more = json!({"type": "Warning", "reason": reason, "note": "from a test", "action": "Test",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "test", "reportingInstance": "test-1"});
    post(kube, NEW, namespace, name, "regarding", &widget(namespace, about), more);
}

fn post(
    kube: &Kube,
    api: &str,
    namespace: &str,
    name: &str,
    field: &str,
    about: &Value,
    mut event: Value,
) {
    event["apiVersion"] = json!(api);
    event["kind"] = json!("Event");
    event["metadata"] = json!({"name": name, "namespace": namespace});
    event[field] = about.clone();
    kube.create_as("test", &event);
}
