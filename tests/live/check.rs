//! `loopwatch check` on a real cluster: as administrator, as the operator, and without access.

use std::process::Output;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::Case;
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{program, quick};
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("check::faults_and_health", faults_and_health),
        test("check::cannot_look", cannot_look),
    ]
}

fn check(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        program("check", bed()).arg("check").args(arguments.iter().copied()).run();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn faults_and_health() {
    let plane = bed();
    let case = Case::new("check", &quick());
    let config = plane.directory().join("check.loopwatch.config.yaml");
    let config = format!("--config={}", config.display());
    let admin = format!("--kubeconfig={}", plane.kube.kubeconfig.display());
    let account = plane.kubeconfig_of("check.account.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let account = format!("--kubeconfig={}", account.display());

    // Without faults, the exit code is 0.
    let healthy = [&admin as &str, &config, "--namespace=check"];
    let (code, out, err) = check(&healthy);

    assert_eq!(code, Some(0), "{out}{err}");

    let (code, out, err) = check(&[&account, &config, "--namespace=check"]);
    assert_eq!(code, Some(0), "{out}{err}");

    let (code, out, err) = check(&[&admin, &config, "--namespace=check", "-o", "json", "--all"]);
    let json: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));

    assert_eq!((code, &json["version"]), (Some(0), &json!(1)), "{out}");

    let items = json["items"].as_array().cloned().unwrap_or_default();
    let twin = items.iter().find(|item| item["kind"] == "Widget" && item["name"] == "twin");

    assert_eq!(twin.map(|item| &item["state"]), Some(&json!("converged")), "{out}");

    // Three faults.
    let kinds = [
        ("Overdue", "Widget"),
        ("Unacknowledged", "NumericString"),
        ("FinalizerStuck", "PhaseOnly"),
    ];
    for (fault, kind) in kinds {
        case.make(kind, "target");
        case.operator.fault(&format!("{fault}?kind={kind}&namespace=check&name=target"));
        match fault {
            "FinalizerStuck" => case.kube.delete(ZOO, kind, "check", "target"),
            _ => case.resize(kind, "target", 7),
        }
    }

    for (fault, kind) in kinds {
        case.sidecar.expect_finding(Duration::from_secs(20), fault, kind, "target");
    }

    let operator = deployment_of_the_operator();
    let operator = format!("--operator={operator}");
    for who in [vec![admin.as_str()], vec![&account], vec![&admin, &operator]] {
        let arguments: Vec<&str> =
            who.into_iter().chain([config.as_str(), "--namespace=check"]).collect();
        eventually(
            Duration::from_secs(5),
            &format!("check {arguments:?} names the faults"),
            || {
                let (code, out, err) = check(&arguments);
                let named =
                    kinds.iter().all(|(fault, kind)| out.contains(fault) && out.contains(kind));

                // The operator's account may not list the kinds of other tests, and `check` names
                // each of them, and the namespaces whose deletion another test lets hang.
                let own = out.split("Not visible to loopwatch").next().unwrap_or_default();
                let one_screen = own.lines().count() <= 60 || arguments[0] == account;
                match code == Some(1) && named && out.contains("target") && one_screen {
                    true => Ok(()),
                    false => Err(format!("exit {code:?}:\n{out}{err}")),
                }
            },
        );
    }

    let (_, out, err) = check(&[&admin, &config, "--namespace=check", "-o", "json"]);
    let json: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let found = json["findings"].as_array().cloned().unwrap_or_default();
    let is = |finding: &Value, (fault, kind): (&str, &str)| {
        finding["code"] == fault && finding["subject"]["kind"] == kind
    };

    for fault in kinds {
        assert!(found.iter().any(|finding| is(finding, fault)), "{fault:?} is missing: {out}");
    }

    for finding in &found {
        // Other findings are consequences of the faults, or correct for a definition.
        let known = kinds.iter().any(|fault| is(finding, *fault));
        let also =
            ["PhaseStuck", "StatusSubresourceMissing"].iter().any(|code| finding["code"] == *code);

        assert!(known || also, "{finding}");
    }

    eprintln!(
        "check: {} findings in the namespace with three faults:\n{}",
        found.len(),
        check(&healthy).1
    );
}

/// Creates a Deployment with the operator's account, as in a real cluster. The operator itself runs
/// as a process. Nobody runs Pods here, so the Deployment is paused: it has none.
fn deployment_of_the_operator() -> String {
    let name = "widget-operator";
    let labels = json!({"app": name});
    bed().kube.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "paused": true, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"serviceAccountName": ACCOUNT, "containers": [{"name": "manager", "image": "none"}]}}}}));

    format!("{NAMESPACE}/{name}")
}

fn cannot_look() {
    let plane = bed();
    let wrong = plane.directory().join("wrong.kubeconfig");
    let text = std::fs::read_to_string(&*plane.kube.kubeconfig).expect("our own file");
    std::fs::write(&wrong, text.replace("\"token\":\"", "\"token\":\"not-"))
        .expect("our own folder");

    let nowhere = plane.directory().join("nowhere.kubeconfig");
    std::fs::write(&nowhere, text.replace(&plane.url, "https://127.0.0.1:1"))
        .expect("our own folder");
    for (file, says) in [(&wrong, "401"), (&nowhere, "127.0.0.1:1")] {
        let (code, out, err) = check(&[&format!("--kubeconfig={}", file.display())]);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(err.contains(says) && err.lines().count() <= 3, "{err}");
    }

    let admin = format!("--kubeconfig={}", plane.kube.kubeconfig.display());
    let (code, _, err) = check(&[&admin, "--operator=zoo-system/no-such-operator"]);

    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("no-such-operator"), "{err}");
}
