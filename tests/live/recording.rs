//! The replay of a recorded run reports the same findings.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::Case;
use crate::recorder::Recorder;
use loopwatch_testbed::gate::{Gate, Refusal};
use loopwatch_testbed::kube::{ZOO, path};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{program, quick};
use loopwatch_testbed::wait::pause;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("recording::replay_finds_the_same", replay_finds_the_same),
        test("recording::a_new_file_needs_no_list", a_new_file_needs_no_list),
        test("recording::an_anonymous_recording_names_nobody", an_anonymous_recording_names_nobody),
    ]
}

/// Fills more than one file through a gate that refuses all lists after the first ones. The last
/// file replays alone.
fn a_new_file_needs_no_list() {
    let (plane, namespace) = (bed(), "segments");
    let kube = &plane.kube;
    kube.namespace(namespace);

    for index in 0..5 {
        kube.zoo("Statusless", namespace, &format!("still-{index}"), json!({}));
    }

    let gate = Gate::before(plane);
    let account = plane.kubeconfig_of("segments.kubeconfig", &gate.url(), NAMESPACE, ACCOUNT);
    let config = plane.directory().join("segments.loopwatch.config.yaml");
    std::fs::write(config, json!({"settings": quick()}).to_string()).expect("our own folder");

    let file = plane.directory().join("segments.jsonl");
    let flags = ["--max-size=1", "--watch=zoo.loopwatch.dev/Statusless"];
    let recorder = Recorder::start_with("segments.loopwatch", namespace, &account, &file, &flags);

    // Every list begins as a stream; the audits count with another kind of request.
    gate.refuse(Refusal { status: 503, retry_after: None, path: "sendInitialEvents" });

    // Finalizers make the largest views.
    let finalizers: Vec<String> =
        (0..20).map(|n| format!("example.io/{n}{}", "x".repeat(50))).collect();
    for change in 0..450 {
        let metadata =
            json!({"finalizers": finalizers, "annotations": {"change": change.to_string()}});
        kube.patch(ZOO, "Statusless", namespace, "still-0", &json!({"metadata": metadata}));
    }

    assert_eq!(gate.refused(), 0, "lists");

    gate.open();
    pause(Duration::from_secs(1));
    drop(recorder);

    let previous = plane.directory().join("segments.1.jsonl");
    for file in [&previous, &file] {
        let mode = std::fs::metadata(file).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());

        let output = program("segments.replay", plane)
            .arg("replay")
            .arg(file)
            .args(["-o", "json", "--all"])
            .run();
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let items = report["items"].as_array().into_iter().flatten();
        let objects = items.filter(|item| item["kind"] == "Statusless").count();

        assert_eq!(objects, 5, "{}: {report}", file.display());
    }

    let release = json!({"metadata": {"finalizers": null}});
    kube.patch(ZOO, "Statusless", namespace, "still-0", &release);
}

/// Every name and text of a user contains "zorblatt". The recording has more than one file.
fn an_anonymous_recording_names_nobody() {
    let plane = bed();
    let case = Case::new("zorblatt", &quick());
    let file = plane.directory().join("anonymous.jsonl");
    let account =
        plane.kubeconfig_of("anonymous.account.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let flags = ["--anonymize", "--max-size=1"];
    let recorder = Recorder::start_with("zorblatt.loopwatch", "zorblatt", &account, &file, &flags);

    for kind in ["Widget", "PhaseOnly"] {
        case.make(kind, "zorblatt-1");
    }

    case.operator.fault("FinalizerStuck?kind=PhaseOnly&namespace=zorblatt&name=zorblatt-1");
    case.operator.fault("Overdue?kind=Widget&namespace=zorblatt&name=zorblatt-1");
    case.resize("Widget", "zorblatt-1", 7);

    let marks = json!({"metadata": {
        "annotations": {"loopwatch.dev/ignore": "zorblatt", "example.org/restartedAt": "by zorblatt", "a.io/owner-name": "zorblatt"},
        "labels": {"app.kubernetes.io/instance": "zorblatt", "controller-revision-hash": "zorblatt-6b8d4f7c9"},
    }});

    case.kube.patch(ZOO, "Widget", "zorblatt", "zorblatt-1", &marks);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ZorblattFailed",
        "message": "cannot reach zorblatt.example.org", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "zorblatt": {"phase": "Zorblatt"}}});
    let path = format!("{}/status", path(ZOO, "Widget", "zorblatt", "zorblatt-1"));

    case.kube
        .call("PATCH", &path, "application/merge-patch+json", Some(&status))
        .expect("a new status");
    case.kube.delete(ZOO, "PhaseOnly", "zorblatt", "zorblatt-1");
    case.sidecar.expect_finding(
        Duration::from_secs(20),
        "FinalizerStuck",
        "PhaseOnly",
        "zorblatt-1",
    );

    let finalizers: Vec<String> =
        (0..20).map(|n| format!("example.io/{n}{}", "x".repeat(50))).collect();
    case.make("Statusless", "zorblatt-2");
    for change in 0..450 {
        let metadata =
            json!({"finalizers": finalizers, "annotations": {"change": change.to_string()}});
        case.kube.patch(
            ZOO,
            "Statusless",
            "zorblatt",
            "zorblatt-2",
            &json!({"metadata": metadata}),
        );
    }

    pause(Duration::from_secs(1));
    drop(recorder);
    case.kube.patch(
        ZOO,
        "Statusless",
        "zorblatt",
        "zorblatt-2",
        &json!({"metadata": {"finalizers": null}}),
    );

    for file in [plane.directory().join("anonymous.1.jsonl"), file] {
        let text = std::fs::read_to_string(&file).expect("a recording").to_lowercase();
        assert!(text.contains("widgets.zoo.loopwatch.dev"), "{}", file.display());

        let named: Vec<&str> = text.lines().filter(|line| line.contains("zorblatt")).collect();
        assert!(
            named.is_empty(),
            "{} lines of {}, such as {}",
            named.len(),
            file.display(),
            named[0]
        );
    }
}

fn replay_finds_the_same() {
    let plane = bed();
    let case = Case::new("recorded", &quick());
    let file = plane.directory().join("recorded.jsonl.gz");
    let account =
        plane.kubeconfig_of("recorded.account.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let recorder = Recorder::start("recorded.loopwatch", "recorded", &account, &file);

    for kind in ["Widget", "PhaseOnly"] {
        case.make(kind, "target");
    }

    case.operator.fault("Overdue?kind=Widget&namespace=recorded&name=target");
    case.operator.fault("FinalizerStuck?kind=PhaseOnly&namespace=recorded&name=target");
    case.resize("Widget", "target", 7);
    case.kube.delete(ZOO, "PhaseOnly", "recorded", "target");
    case.sidecar.expect_finding(Duration::from_secs(20), "Overdue", "Widget", "target");
    case.sidecar.expect_finding(Duration::from_secs(20), "FinalizerStuck", "PhaseOnly", "target");
    pause(Duration::from_secs(1));

    let live = of(case.sidecar.findings().unwrap_or_default().into_iter().map(|finding| finding.0));
    drop(recorder);

    let output = program("replay", plane).arg("replay").arg(&file).args(["-o", "json"]).run();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();

    assert_eq!(output.status.code(), Some(1), "{text}{errors}");
    assert_eq!(errors, "", "unreadable lines");

    let answer: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let replayed = of(answer["findings"].as_array().cloned().unwrap_or_default());

    assert_eq!(replayed, live, "the findings of the replay and of the live run");

    // A second replay gives the same metrics: they do not depend on when or where it runs.
    let metrics =
        || program("replay", plane).arg("replay").arg(&file).args(["-o", "metrics"]).run().stdout;
    let (once, again) = (metrics(), metrics());
    let about_the_cluster = |bytes: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let own = [
            "process_",
            "loopwatch_process_",
            "loopwatch_runtime_",
            "loopwatch_allocator_",
            "tokio_",
        ];

        text.lines()
            .filter(|line| !own.iter().any(|prefix| line.contains(prefix)))
            .map(str::to_owned)
            .collect()
    };

    assert_eq!(about_the_cluster(&once), about_the_cluster(&again));
    assert!(
        String::from_utf8_lossy(&once).contains("loopwatch_findings{"),
        "metrics of the replay"
    );
}

/// Returns code and subject of each finding.
fn of(findings: impl IntoIterator<Item = Value>) -> BTreeSet<String> {
    findings.into_iter().map(|f| format!("{} {}", f["code"], f["subject"])).collect()
}
