//! Tuning while loopwatch runs: the configuration file, annotations of namespaces, and excluded
//! namespaces.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::{Case, SLACK};
use crate::compare::{expect_audited, expect_equal};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::operator::Operator;
use loopwatch_testbed::sidecar::{Sidecar, quick};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("tuning::excluded_namespace", excluded_namespace),
        test("tuning::configuration_file", configuration_file),
        test("tuning::annotated_namespace", annotated_namespace),
    ]
}

/// The threshold of `Overdue`, and time for a busy machine.
const OVERDUE: Duration = Duration::from_secs(4).saturating_add(SLACK);

/// Time for loopwatch to notice a change of its file.
const NOTICED: Duration = Duration::from_secs(7).saturating_add(SLACK);

/// Changes of the file apply without a restart, and an invalid file changes nothing.
fn configuration_file() {
    let mut case = Case::new("tuned", &quick());
    case.make("Widget", "target");
    case.operator.fault("Overdue");
    case.resize("Widget", "target", 7);

    let (finding, _) = case.sidecar.expect_finding(OVERDUE, "Overdue", "Widget", "target");
    assert_eq!(finding.severity(), "warning");

    let since = finding.0["since"].clone();

    let file = bed().directory().join("tuned.loopwatch.config.yaml");
    let write = |settings: &Value, findings: Value| {
        let content = json!({ "settings": settings, "findings": findings });
        std::fs::write(&file, content.to_string()).expect("our own folder");
    };

    write(&quick(), json!({ "Overdue": { "severity": "critical", "namespaces": ["tuned"] } }));
    let series = "loopwatch_findings{group=\"zoo.loopwatch.dev\",kind=\"Widget\",target_namespace=\"tuned\",\
                  finding=\"Overdue\",severity=\"critical\",confidence=\"confirmed\",explained=\"false\"}";
    case.sidecar.expect(NOTICED, "Overdue is critical", || case.sidecar.metric(series));

    write(&quick(), json!({ "all": { "namespaces": ["tuned"], "enabled": false } }));
    case.sidecar.expect_cleared(NOTICED, "Overdue", "Widget", "target");

    write(&json!({ "settle": "soon" }), json!({}));
    case.sidecar.expect_finding(NOTICED, "ConfigInvalid", "Source", "config");

    assert_eq!(case.sidecar.metric("loopwatch_config_last_reload_successful"), Ok(0.0));

    let findings = case.sidecar.findings().expect("findings");
    assert!(
        !findings.iter().any(|finding| finding.code() == "Overdue"),
        "the old rule no longer applies"
    );

    write(&quick(), json!({}));
    let (finding, _) = case.sidecar.expect_finding(NOTICED, "Overdue", "Widget", "target");

    assert_eq!((finding.severity(), &finding.0["since"]), ("warning", &since));

    case.sidecar.expect_cleared(SLACK, "ConfigInvalid", "Source", "config");
    assert_eq!(case.sidecar.metric("loopwatch_config_last_reload_successful"), Ok(1.0));

    case.sidecar.process.assert_running();
}

/// An annotation of a namespace silences the objects in it.
fn annotated_namespace() {
    let (plane, name) = (bed(), "annotated");
    let kube = &plane.kube;
    kube.namespace(name);

    let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let operator = Operator::start(plane, "annotated.operator", name, &flags);
    let flags = ["--namespace=annotated", "--watch=zoo.loopwatch.dev/Widget"];
    let sidecar = Sidecar::start(plane, "annotated.loopwatch", &kube.kubeconfig, &quick(), &flags);

    sidecar.wait_synced(1);
    operator.fault("Overdue");
    kube.zoo("Widget", name, "target", json!({}));
    sidecar.expect_finding(OVERDUE, "Overdue", "Widget", "target");

    let annotate = |value: Value| {
        kube.patch(
            "v1",
            "Namespace",
            "",
            name,
            &json!({ "metadata": { "annotations": { "loopwatch.dev/ignore": value } } }),
        )
    };

    annotate(json!("Overdue,PhaseStuck"));
    sidecar.expect_cleared(SLACK, "Overdue", "Widget", "target");
    annotate(json!("Overdeu"));
    sidecar.expect_finding(SLACK, "Overdue", "Widget", "target");
    sidecar.expect_finding(SLACK, "ConfigInvalid", "Namespace", name);
    annotate(Value::Null);
    sidecar.expect_cleared(SLACK, "ConfigInvalid", "Namespace", name);

    assert_eq!(sidecar.source("namespaces").map(|source| source["up"].clone()), Ok(json!(true)));
}

/// The API server leaves out the objects of an excluded namespace, and audits take that into
/// account.
fn excluded_namespace() {
    let plane = bed();
    let kube = &plane.kube;
    let (inside, outside) = ("not-excluded", "excluded");

    for namespace in [inside, outside] {
        kube.namespace(namespace);
        for number in 0..5 {
            kube.zoo("Widget", namespace, &format!("w-{number}"), json!({}));
        }
    }

    let flags = ["--exclude-namespace=excluded,also-excluded", "--watch=zoo.loopwatch.dev/Widget"];
    let settings = json!({ "deadline": "1h", "audit_every": "3s" });
    let sidecar = Sidecar::start(plane, "excluded.loopwatch", &kube.kubeconfig, &settings, &flags);
    sidecar.wait_synced(1);

    for namespace in [inside, outside] {
        kube.zoo("Widget", namespace, "later", json!({}));
        kube.delete(ZOO, "Widget", namespace, "w-0");
    }

    expect_equal(SLACK, &sidecar, kube, inside, &["Widget"]);
    expect_audited(&sidecar);

    let objects = sidecar.objects("kind=Widget&namespace=excluded").expect("objects");
    assert!(objects.is_empty(), "{objects:?}");

    let findings = sidecar.findings().expect("findings");
    assert!(!findings.iter().any(|finding| finding.code() == "StateInconsistent"), "{findings:?}");
}
