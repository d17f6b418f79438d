//! Every fault of the zoo leads to its finding, with evidence, on the right object and no other.
//! The finding closes after the cure.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::test;
use crate::case::{Case, Expected, SLACK, TWIN};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::{ShownFinding, quick};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("fault::unacknowledged", unacknowledged),
        test("fault::overdue", overdue),
        test("fault::status_lag", status_lag),
        test("fault::condition_flapping", condition_flapping),
        test("fault::hot_loop", hot_loop),
        test("fault::redundant_writes", redundant_writes),
        test("fault::write_fight", write_fight),
        test("fault::status_reverted", status_reverted),
        test("fault::recreate_loop", recreate_loop),
        test("fault::phase_stuck", phase_stuck),
        test("fault::phase_cycling", phase_cycling),
        test("fault::condition_malformed", condition_malformed),
        test("fault::regressed", regressed),
        test("fault::failing", failing),
        test("fault::never_recovered", never_recovered),
        test("fault::finalizer_stuck", finalizer_stuck),
        test("fault::stopped", stopped),
        test("fault::killed", killed),
    ]
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn unacknowledged() {
    let case = Case::new("unacknowledged", &quick());

    // After the cure, the late change is still progressing for a moment.
    let expected = Expected {
        fault: "Unacknowledged",
        code: "Unacknowledged",
        threshold: secs(4),
        also: &["Overdue"],
        lingers: secs(0),
    };

    for kind in ["Widget", "NumericString", "Autoscaled"] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || case.resize(kind, "target", 7));

        assert_eq!(finding.evidence("generation"), 2, "{finding}");
        assert_eq!(finding.evidence("observed_generation"), 1, "{finding}");
        assert_eq!(finding.evidence("last_status_writer"), "widget-operator", "{finding}");
    }
}

fn overdue() {
    let case = Case::new("overdue", &quick());
    let expected = Expected {
        fault: "Overdue",
        code: "Overdue",
        threshold: secs(4),
        also: &["PhaseStuck"],
        lingers: secs(0),
    };

    for kind in [
        "Widget",
        "NoObserved",
        "ForeverProgressing",
        "MapConditions",
        "PhaseOnly",
        "NoSubresource",
    ] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || case.resize(kind, "target", 7));

        assert!(finding.evidence("generation").as_i64() >= Some(2), "{finding}");
        assert_eq!(finding.evidence("deadline"), 4.0, "{finding}");
    }
}

fn status_lag() {
    let case = Case::new("status-lag", &quick());
    let expected = Expected {
        fault: "StatusLag",
        code: "StatusLag",
        threshold: secs(4),
        also: &["Overdue"],
        lingers: secs(0),
    };

    case.make("Autoscaled", "target");

    // The change must show in the status, or the operator has nothing to write.
    let scale =
        || drop(case.kube.change("Autoscaled", &case.namespace, "target", json!({"replicas": 3})));
    let finding = case.prove(&expected, "Autoscaled", "target", scale);

    assert!(finding.evidence("last_status_write").is_string(), "{finding}");
    assert_eq!(finding.evidence("generation"), 2, "{finding}");
    assert_eq!(finding.evidence("observed_generation"), 1, "{finding}");
}

fn condition_flapping() {
    let case = Case::new("condition-flapping", &quick());
    let expected = Expected {
        fault: "ConditionFlapping?period=1s",
        code: "ConditionFlapping",
        threshold: secs(6),
        also: &[],
        lingers: secs(20),
    };

    for kind in ["Widget", "NumericString", "MapConditions"] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || ());

        assert_eq!(finding.evidence("condition"), "Ready", "{finding}");
        assert!(finding.evidence("transitions").as_i64() >= Some(6), "{finding}");
    }
}

fn hot_loop() {
    let case = Case::new("hot-loop", &quick());
    let expected = Expected {
        fault: "HotLoop?period=100ms",
        code: "HotLoop",
        threshold: secs(12), // ten writes, of which the times allow one per second
        also: &[],
        lingers: secs(20),
    };

    for (kind, conditions) in
        [("Widget", &["Progressing", "Ready"][..]), ("NumericString", &["Ready"])]
    {
        case.make(kind, "target");
        let has_fields = |finding: &ShownFinding| finding.evidence("fields").is_array();
        let finding = case.prove_until(&expected, kind, "target", || (), has_fields);

        let field = |r#type: &&str| format!("status.conditions[{type}].lastTransitionTime");
        let fields: Vec<String> = conditions.iter().map(field).collect();
        assert_eq!(finding.evidence("fields"), &json!(fields), "{finding}");
        assert_eq!(finding.evidence("manager"), "widget-operator", "{finding}");
        assert!(finding.evidence("wasted").as_i64() >= Some(10), "{finding}");
    }
}

/// All versions of a kind together, of which most change only a time.
fn redundant_writes() {
    let mut settings = quick();
    settings["redundant_window"] = json!("30s");
    settings["redundant_writes"] = json!(10);
    let case = Case::new("redundant-writes", &settings);
    case.make("Widget", "target");

    let selected = format!("kind=Widget&name=target&namespace={}", case.namespace);
    case.operator.fault(&format!("HotLoop?{selected}&period=1s"));
    case.resize("Widget", "target", 7);
    let (finding, _) =
        case.sidecar.expect_finding(secs(90) + SLACK, "RedundantStatusWrites", "Widget", "");

    assert_eq!(finding.severity(), "info", "{finding}");
    assert_eq!(finding.evidence("manager"), "widget-operator", "{finding}");
    assert!(finding.evidence("wasted").as_u64() >= Some(10), "{finding}");

    case.operator.cure("HotLoop");
    case.sidecar.expect_cleared(secs(90) + SLACK, "RedundantStatusWrites", "Widget", "");
}

fn write_fight() {
    let case = Case::new("write-fight", &quick());

    // The object follows each size anew, so it never arrives.
    let expected = Expected {
        fault: "WriteFight?period=1s",
        code: "WriteFight",
        threshold: secs(8), // two undone writes per second, from the third one on
        also: &["Overdue", "ConditionFlapping", "PhaseCycling"],
        lingers: secs(20),
    };

    for kind in ["Widget", "NumericString"] {
        case.make(kind, "target");
        let has_fields = |finding: &ShownFinding| finding.evidence("fields").is_array();
        let finding = case.prove_until(&expected, kind, "target", || (), has_fields);

        assert_eq!(finding.evidence("fields"), &json!(["spec.size"]), "{finding}");
        assert_eq!(finding.evidence("writers"), "widget-operator and zoo-rival", "{finding}");
        assert_eq!(finding.evidence("part"), "spec", "{finding}");
    }
}

fn status_reverted() {
    let case = Case::new("status-reverted", &quick());
    let expected = Expected {
        fault: "StatusReverted?period=1s",
        code: "StatusReverted",
        threshold: secs(12), // a revert every two seconds, from the fourth version on
        also: &[],
        lingers: secs(20),
    };

    case.make("Widget", "target");
    let finding = case.prove(&expected, "Widget", "target", || ());
    assert_eq!(finding.evidence("manager"), "widget-operator", "{finding}");
    assert!(finding.evidence("times").as_i64() >= Some(3), "{finding}");
}

/// Another program deletes a child, and the operator creates it again.
fn recreate_loop() {
    let case = Case::new("recreate-loop", &quick());
    case.make("Widget", "target");

    let (kind, name) = ("ConfigMap", "widget-target-config");
    case.sidecar.expect(secs(30), "the child is known", || {
        case.sidecar.object(kind, &case.namespace, name).map(drop)
    });

    let at = format!("/api/v1/namespaces/{}/configmaps/{name}", case.namespace);
    let uid = || case.kube.get(&at).ok().map(|object| object["metadata"]["uid"].clone());
    for _ in 0..4 {
        let known = uid();
        case.kube.delete("v1", kind, &case.namespace, name);
        eventually(secs(20), "the operator creates the ConfigMap again", || {
            let now = uid();
            (now.is_some() && now != known).then_some(()).ok_or("no other one".to_owned())
        });
    }

    let began = Instant::now();
    let (finding, _) = case.sidecar.expect_finding(SLACK, "RecreateLoop", kind, name);
    assert_eq!(finding.evidence("manager"), "widget-operator", "{finding}");

    let (detected, ended) = (began.elapsed(), Instant::now());
    let (threshold, lingers) = (secs(0), secs(30));
    case.sidecar.expect_cleared(lingers + SLACK, "RecreateLoop", kind, name);
    let expected =
        Expected { fault: "RecreateLoop", code: "RecreateLoop", threshold, also: &[], lingers };
    case.conclude(&expected, kind, name, detected, ended.elapsed(), &|_| false);
}

fn phase_stuck() {
    let case = Case::new("phase-stuck", &quick());

    // An object in a transient phase has not converged either.
    let expected = Expected {
        fault: "PhaseStuck",
        code: "PhaseStuck",
        threshold: secs(4),
        also: &["Overdue"],
        lingers: secs(0),
    };

    for kind in ["PhaseOnly", "Widget"] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || case.resize(kind, "target", 7));

        assert_eq!(finding.evidence("phase"), "Provisioning", "{finding}");
    }
}

fn phase_cycling() {
    let case = Case::new("phase-cycling", &quick());

    // An object whose phases cycle has also regressed.
    let expected = Expected {
        fault: "PhaseCycling?period=1s",
        code: "PhaseCycling",
        threshold: secs(9),
        also: &["Regressed", "Overdue"],
        lingers: secs(20),
    };

    for kind in ["PhaseOnly", "Widget"] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || ());
        let phases = finding.evidence("phases").as_array().cloned().unwrap_or_default();

        for phase in ["Pending", "Provisioning", "Validating"] {
            assert!(phases.contains(&json!(phase)), "{finding}");
        }
    }
}

fn condition_malformed() {
    let case = Case::new("condition-malformed", &quick());
    let expected = Expected {
        fault: "ConditionMalformed",
        code: "ConditionMalformed",
        threshold: secs(0),
        also: &[],
        lingers: secs(20), // flap_window
    };

    case.make("Widget", "target");

    // The finding is on the kind, because all its objects have the same format.
    case.operator
        .fault(&format!("ConditionMalformed?kind=Widget&name=target&namespace={}", case.namespace));
    let (finding, detected) =
        case.sidecar.expect_finding(SLACK, "ConditionMalformed", "Widget", "");

    assert_eq!(
        finding.evidence("examples"),
        &json!([format!("{}/target", case.namespace)]),
        "{finding}"
    );
    assert!(
        finding.evidence("lints").as_array().is_some_and(|lints| lints.len() >= 3),
        "{finding}"
    );

    case.operator.cure("ConditionMalformed");
    let within = expected.lingers + SLACK;
    let cleared = case.sidecar.expect_cleared(within, "ConditionMalformed", "Widget", "");
    case.conclude(&expected, "Widget", "", detected, cleared, &|_| false);
}

fn regressed() {
    let case = Case::new("regressed", &quick());
    let expected = Expected {
        fault: "Regressed",
        code: "Regressed",
        threshold: secs(3),
        also: &[],
        lingers: secs(0),
    };

    for kind in ["Widget", "NoObserved", "NumericString", "MapConditions"] {
        case.make(kind, "target");
        let finding = case.prove(&expected, kind, "target", || ());

        assert!(
            finding.evidence("signal").as_str().is_some_and(|signal| signal.contains("Ready")),
            "{finding}"
        );
    }
}

fn failing() {
    let case = Case::new("failing", &quick());
    let expected = Expected {
        fault: "Failing",
        code: "Failing",
        threshold: secs(1),
        also: &[],
        lingers: secs(0),
    };

    for name in ["one", "two", "three", "four"] {
        case.make("Widget", name);
    }

    case.operator.fault(&format!("Failing?kind=Widget&namespace={}", case.namespace));
    let (finding, detected) = case.sidecar.expect_finding(secs(1) + SLACK, "Failing", "Widget", "");

    assert!(finding.evidence("failed").as_i64() >= Some(3), "{finding}");

    // Each object has also regressed, which the finding on the kind explains.
    let (one, _) = case.sidecar.expect_finding(secs(4) + SLACK, "Regressed", "Widget", "one");
    assert_eq!(one.0["explained_by"], finding.0["id"], "{one}");

    case.operator.cure("Failing");
    let cleared = case.sidecar.expect_cleared(SLACK, "Failing", "Widget", "");
    let each = |(code, on): &(String, String)| code == "Regressed" && on.starts_with("Widget ");
    case.conclude(&expected, "Widget", "", detected, cleared, &each);
}

fn never_recovered() {
    let case = Case::new("never-recovered", &quick());
    let expected = Expected {
        fault: "NeverRecovered",
        code: "NeverRecovered",
        threshold: secs(3),
        also: &[],
        lingers: secs(0),
    };

    case.make("Widget", "target");
    let image = |image: &str| {
        drop(case.kube.change("Widget", &case.namespace, "target", json!({"image": image})))
    };
    let finding = case.prove(&expected, "Widget", "target", || {
        image("invalid");
        case.wait_status("Widget", "target", "that its spec is invalid", |status| {
            status["phase"] == "Failed"
        });
        pause(secs(3)); // until loopwatch counts it as rejected
        image("registry.k8s.io/pause:3.10");
    });

    assert!(
        finding.evidence("signal").as_str().is_some_and(|signal| !signal.is_empty()),
        "{finding}"
    );
}

fn finalizer_stuck() {
    let case = Case::new("finalizer-stuck", &quick());
    let expected = Expected {
        fault: "FinalizerStuck",
        code: "FinalizerStuck",
        threshold: secs(4),
        also: &[],
        lingers: secs(0),
    };

    for kind in ["Widget", "Statusless", "JobLike"] {
        case.make(kind, "target");
        let delete = || case.kube.delete(ZOO, kind, &case.namespace, "target");
        let finding = case.prove(&expected, kind, "target", delete);

        assert_eq!(
            finding.evidence("finalizers"),
            &json!(["zoo.loopwatch.dev/cleanup"]),
            "{finding}"
        );
        assert!(Case::names_operator(&finding), "{finding}");
    }
}

/// Every worker hangs while the process still answers its probes: the operator neither acknowledges
/// changes nor finishes deletions.
fn stopped() {
    let case = Case::new("stopped", &quick());
    let expected = Expected {
        fault: "Stopped",
        code: "Unacknowledged",
        threshold: secs(4),
        also: &["Overdue"],
        lingers: secs(0),
    };

    case.operator.fault("Stopped");
    let detected = operator_gone(&case);
    case.operator.cure("Stopped");
    operator_back(&case, &expected, detected);
}

/// The operator's process is killed, while every status still says Ready.
fn killed() {
    let mut case = Case::new("killed", &quick());
    let expected = Expected {
        fault: "(killed)",
        code: "Unacknowledged",
        threshold: secs(4),
        also: &["Overdue"],
        lingers: secs(0),
    };

    case.operator.process.kill();
    let detected = operator_gone(&case);
    case.operator.crash_and_restart();
    operator_back(&case, &expected, detected);
}

fn operator_gone(case: &Case) -> Duration {
    case.resize("Widget", TWIN, 7);
    case.kube.delete(ZOO, "PhaseOnly", &case.namespace, TWIN);

    let (_, detected) =
        case.sidecar.expect_finding(secs(4) + SLACK, "Unacknowledged", "Widget", TWIN);
    let (stuck, _) =
        case.sidecar.expect_finding(secs(4) + SLACK, "FinalizerStuck", "PhaseOnly", TWIN);

    assert!(Case::names_operator(&stuck), "{stuck}");

    detected
}

fn operator_back(case: &Case, expected: &Expected, detected: Duration) {
    let back = Instant::now();
    case.sidecar.expect_cleared(SLACK, "Unacknowledged", "Widget", TWIN);

    let cleared = back.elapsed();
    case.sidecar.expect_cleared(SLACK, "FinalizerStuck", "PhaseOnly", TWIN);

    let stuck = (String::from("FinalizerStuck"), format!("PhaseOnly {}/{TWIN}", case.namespace));
    case.conclude(expected, "Widget", TWIN, detected, cleared, &|found| *found == stuck);
}
