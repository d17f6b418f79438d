//! The path from a fault to a page: a real operator, loopwatch, a real Prometheus with the bundled
//! rules, a real Alertmanager, and a webhook that it calls.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use crate::alertmanager::{Alertmanager, all_posted, wait_posted};
use crate::bed::test_with;
use crate::case::{Case, TWIN};
use crate::prometheus::{CLUSTER, Prometheus};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::quick;
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::webhook::Webhook;

pub(crate) fn trials() -> Vec<Trial> {
    let programs = &["prometheus", "prometheus-alertmanager"];
    vec![test_with("alerts::fire_and_clear", programs, fire_and_clear)]
}

fn fire_and_clear() {
    let case = Case::new("alerted", &quick());
    let webhook = Webhook::listen();
    let alertmanager = Alertmanager::start("alertmanager", &webhook);
    let prometheus = Prometheus::start("prometheus", case.sidecar.port, Some(alertmanager.port));

    prometheus.expect_rules_work();
    case.make("Widget", "target");

    assert_eq!(prometheus.firing(), Ok(vec![]), "all is well");

    case.operator.fault("Overdue?kind=Widget&namespace=alerted&name=target");
    case.resize("Widget", "target", 7);

    let changed = Instant::now();
    let alert = eventually(Duration::from_secs(40), "the alert fires", || {
        let firing = prometheus.firing()?;
        let found = firing.iter().find(|alert| alert["labels"]["finding"] == "Overdue").cloned();
        found.ok_or_else(|| json!(firing).to_string())
    });
    let fired = changed.elapsed();
    let labels = &alert["labels"];

    for (label, value) in [
        ("alertname", "LoopwatchFinding"),
        ("severity", "warning"),
        ("finding", "Overdue"),
        ("kind", "Widget"),
        ("group", "zoo.loopwatch.dev"),
        ("target_namespace", "alerted"),
        ("cluster", CLUSTER),
        ("job", "loopwatch"),
    ] {
        assert_eq!(labels[label], value, "{alert}");
    }

    assert!(labels["name"].is_null(), "an object is never a label: {alert}");

    let text = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
    assert!(!text("summary").is_empty(), "{alert}");
    assert!(
        text("description").contains("target") && text("description").contains("kubectl"),
        "{alert}"
    );

    assert_eq!(text("runbook_url"), "", "nobody has told loopwatch its URL");

    let posted = wait_posted(&webhook, "firing", "Overdue");
    assert_eq!(posted["labels"], *labels, "what the webhook got is what Prometheus has");

    // A second cause raises a second alert. The orderly deletion of an object raises none.
    case.operator.fault("FinalizerStuck?kind=PhaseOnly&namespace=alerted");
    for kind in ["PhaseOnly", "MapConditions"] {
        case.kube.delete(ZOO, kind, "alerted", TWIN);
    }

    wait_posted(&webhook, "firing", "FinalizerStuck");
    let (queries, empty) = prometheus.ask_panels("loopwatch-overview");
    let (more, mut still_empty) = prometheus.ask_panels("loopwatch-self");
    still_empty.retain(|title| !title.starts_with("Open findings")); // none is about loopwatch

    // This test has no Events, no failing source, no missing permission, no writes without a change, and
    // no receiver of what loopwatch sends.
    let no_data = [
        "Kubernetes Events",
        "Writes without a change",
        "Source failures",
        "Failing sources",
        "Missing permissions",
        "Requests to Alertmanager",
        "Events for the webhook",
        "Traces",
    ];

    let empty: Vec<String> = empty.into_iter().chain(still_empty).collect();
    assert!(
        empty.iter().all(|title| no_data.contains(&title.as_str())),
        "panels without data: {empty:?}"
    );

    eprintln!(
        "alerts: {} queries of the dashboards answer, all but {} with data",
        queries + more,
        empty.len()
    );

    case.operator.cure("FinalizerStuck");
    case.operator.cure("Overdue");

    let cured = Instant::now();
    eventually(Duration::from_secs(40), "nothing fires any more", || {
        let firing = prometheus.firing()?;
        if firing.is_empty() { Ok(()) } else { Err(json!(firing).to_string()) }
    });

    let cleared = cured.elapsed();
    wait_posted(&webhook, "resolved", "Overdue");
    wait_posted(&webhook, "resolved", "FinalizerStuck");

    // Each cause raises one alert: Alertmanager sent neither explained findings nor alerts of other
    // rules.
    let findings: Vec<_> =
        all_posted(&webhook).iter().map(|alert| alert["labels"]["finding"].clone()).collect();
    let two = ["Overdue", "FinalizerStuck"];

    assert!(
        findings.iter().all(|finding| two.iter().any(|known| finding == known)),
        "{findings:?}"
    );

    prometheus.expect_rules_work();
    eprintln!(
        "alerts: Overdue fired in Prometheus {:.1} s after the change ({} s of it the deadline) and cleared {:.1} s after the cure",
        fired.as_secs_f64(),
        4,
        cleared.as_secs_f64()
    );
}
