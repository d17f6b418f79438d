//! One page per incident: from faults of the operator through loopwatch, a real Prometheus with the
//! bundled rules and a real Alertmanager with the bundled example to a webhook, while loopwatch
//! restarts and the operator is rolled out.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::alertmanager::{Alertmanager, all_posted, posted_to, wait_posted};
use crate::bed::{bed, test_with};
use crate::prometheus::Prometheus;
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::bundled::Pace;
use loopwatch_testbed::kube::Kube;
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::webhook::Webhook;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with(
        "pages::one_per_incident",
        &["prometheus", "prometheus-alertmanager"],
        one_per_incident,
    )]
}

const NAMESPACE: &str = "paged";
const IGNORES: &str = "Unacknowledged?kind=Widget&name=target";

/// Replicas of the operator, each with loopwatch in its Pod, and a Prometheus and an
/// Alertmanager that notify a webhook.
struct Replicated {
    kube: Kube,
    replicas: Replicas,
    /// In the order of the replicas.
    sidecars: Vec<Sidecar>,
    /// The number of sidecars so far.
    started: usize,
    webhook: Webhook,
    prometheus: Prometheus,
    _alertmanager: Alertmanager,
}

impl Replicated {
    fn start() -> Self {
        let plane = bed();
        plane.kube.namespace(NAMESPACE);
        reader_account(&plane.kube, NAMESPACE);

        let flags =
            ["--ready-after=200ms", "--wait-for-pods=false", "--leader-elect-lease-duration=8s"];
        let replicas = Replicas::start(plane, NAMESPACE, 2, &flags);
        let webhook = Webhook::listen();
        let alertmanager =
            Alertmanager::start_example("paged.alertmanager", &webhook, Some(["1s", "1s"]));
        let mut sidecars = Vec::new();

        for replica in &replicas.all {
            sidecars.push(beside(&replica.pod.name, sidecars.len()));
        }

        let targets: Vec<_> = replicas
            .all
            .iter()
            .zip(&sidecars)
            .map(|(of, is)| (NAMESPACE, of.pod.name.as_str(), is.port))
            .collect();

        let prometheus = Prometheus::start_with(
            "paged.prometheus",
            Pace::Brisk,
            &targets,
            Some(alertmanager.port),
        );

        let started = sidecars.len();
        let kube = plane.kube.clone();
        Self { kube, replicas, sidecars, started, webhook, prometheus, _alertmanager: alertmanager }
    }

    /// A new Pod of the Deployment runs, with loopwatch in it, and Prometheus finds it.
    fn start_next(&mut self) {
        self.replicas.start_next(bed());
        let pod = &self.replicas.all.last().expect("the new one").pod.name;
        self.sidecars.push(beside(pod, self.started));
        self.started += 1;
        self.scrape_all();
    }

    /// Ends a Pod whose deletion has begun, and what runs in it.
    fn end(&mut self, index: usize) {
        let mut replica = self.replicas.all.remove(index);
        let mut sidecar = self.sidecars.remove(index);
        let _ = replica.operator.process.stop(Duration::from_secs(20));
        sidecar.process.stop(Duration::from_secs(20));
        self.scrape_all();
        replica.pod.remove();
    }

    fn scrape_all(&self) {
        let both = self.replicas.all.iter().zip(&self.sidecars);
        let targets: Vec<_> =
            both.map(|(of, is)| (NAMESPACE, of.pod.name.as_str(), is.port)).collect();
        self.prometheus.set_targets(&targets);
    }

    /// Replaces all Pods, one after the other; `begins` runs in each new one.
    fn roll_out(&mut self, begins: impl Fn(&Self, usize)) {
        let annotations = json!({"rollout": self.started.to_string()});
        self.replicas.change(&json!({"template": {"metadata": {"annotations": annotations}}}));
        for _ in 0..2 {
            self.replicas.wait_for_leader(); // else the new process may lead before `begins`
            self.start_next();
            begins(self, self.replicas.all.len() - 1);

            // With the times of this test, alerts about metrics that are absent wait only seconds.
            let new = self.replicas.all.last().expect("the new one");
            self.prometheus.wait_scraped(&new.pod.name);

            let old =
                eventually(Duration::from_secs(60), "the deletion of an old Pod begins", || {
                    let begun = self.replicas.all.iter().position(|replica| {
                        let pod = self
                            .kube
                            .find("v1", "Pod", NAMESPACE, &replica.pod.name)
                            .unwrap_or_default();

                        pod["metadata"]["deletionTimestamp"].is_string()
                    });
                    begun.ok_or_else(|| "none terminates".to_owned())
                });

            self.end(old);
        }
    }

    fn restart_sidecar(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        sidecar.process.stop(Duration::from_secs(20));
        sidecar.start_again();
        sidecar.wait_watched("Widget", 1);
    }

    /// Expects these numbers of notifications about a finding, each to the pager.
    fn expect_pages(&self, finding: &str, firing: usize, resolved: usize) {
        let pages = posted_to(&self.webhook, "pager");
        let count = |status: &str| {
            let is_counted =
                |alert: &&Value| alert["status"] == status && alert["labels"]["finding"] == finding;
            pages.iter().filter(is_counted).count()
        };

        assert_eq!(
            (count("firing"), count("resolved")),
            (firing, resolved),
            "{finding}: {}",
            json!(pages)
        );
    }
}

/// Starts loopwatch as a sidecar in a Pod.
fn beside(pod: &str, number: usize) -> Sidecar {
    let plane = bed();
    let name = format!("{NAMESPACE}.loopwatch-{number}");
    let account =
        plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
    let environment = [("POD_NAME", Path::new(pod)), ("POD_NAMESPACE", Path::new(NAMESPACE))];
    let settings = quick_but(json!({"operator_down_after": "10s", "source_failing_after": "1m"}));
    let flags = [&format!("--namespace={NAMESPACE}"), "--scrape-interval=1s"];
    let sidecar = Sidecar::start_with(plane, &name, &account, &settings, &flags, &environment);

    sidecar.wait_watched("Widget", 1);
    sidecar
}

/// Expects that an annotation of an alert contains all of these texts.
fn expect_text(alert: &Value, key: &str, parts: &[&str]) {
    let text = alert["annotations"][key].as_str().unwrap_or_default();
    for part in parts {
        assert!(text.contains(part), "{key} without {part:?}: {text}");
    }
}

/// The operator ignores a change of an object, and later all of its replicas die. Each of these
/// causes one page, which names the object, the cause, the evidence and the next step, and which
/// resolves once, not before the fault ends.
fn one_per_incident() {
    let mut all = Replicated::start();
    all.kube.zoo("Widget", NAMESPACE, "target", json!({}));
    for sidecar in &all.sidecars {
        sidecar.expect(Duration::from_secs(30), "the object has converged", || {
            let object = sidecar.object("Widget", NAMESPACE, "target")?;
            if object["state"] == "converged" { Ok(()) } else { Err(object.to_string()) }
        });
    }

    pause(Duration::from_secs(2)); // longer than `settle`
    assert_eq!(all_posted(&all.webhook), Vec::<Value>::new(), "all is well");

    all.replicas.all.iter().for_each(|replica| replica.operator.fault(IGNORES));
    all.kube.change("Widget", NAMESPACE, "target", json!({"size": 7}));

    let page = wait_posted(&all.webhook, "firing", "Unacknowledged");
    assert_eq!(
        (&page["labels"]["alertname"], &page["labels"]["severity"]),
        (&json!("LoopwatchUnacknowledged"), &json!("critical"))
    );
    assert_eq!(page["labels"]["target_namespace"], NAMESPACE, "{page}");

    expect_text(
        &page,
        "summary",
        &["Widget paged/target not acknowledged for ", " (cluster testbed)"],
    );
    let next = format!("Next: kubectl get widget.zoo.loopwatch.dev target -n {NAMESPACE}");
    expect_text(
        &page,
        "description",
        &["1 affected", "Check that the operator runs", "Longest: target (", &next],
    );
    all.restart_sidecar(0);

    all.roll_out(|all, new| all.replicas.all[new].operator.fault(IGNORES));
    pause(Duration::from_secs(25)); // longer than the alert keeps firing by itself
    all.expect_pages("Unacknowledged", 1, 0);
    all.replicas.all.iter().for_each(|replica| replica.operator.cure("Unacknowledged"));
    wait_posted(&all.webhook, "resolved", "Unacknowledged");

    for replica in &mut all.replicas.all {
        replica.kill();
        replica.pod.ended("Error", 137);
    }

    let page = wait_posted(&all.webhook, "firing", "OperatorDown");
    assert_eq!(
        (&page["labels"]["alertname"], &page["labels"]["severity"]),
        (&json!("LoopwatchOperatorDown"), &json!("critical"))
    );

    expect_text(
        &page,
        "summary",
        &["Operator paged/widget-operator down for ", " (cluster testbed)"],
    );
    let next = format!("Next: kubectl get deployments,statefulsets,pods -n {NAMESPACE}");
    expect_text(
        &page,
        "description",
        &["1 affected", "Start the operator again", "Longest: widget-operator (", &next],
    );
    all.restart_sidecar(1);

    pause(Duration::from_secs(25));
    all.expect_pages("OperatorDown", 1, 0);
    all.roll_out(|_, _| {});
    wait_posted(&all.webhook, "resolved", "OperatorDown");

    for finding in ["Unacknowledged", "OperatorDown"] {
        all.expect_pages(finding, 1, 1);
    }

    assert_eq!(
        all_posted(&all.webhook).len(),
        4,
        "no other notifications: {:?}",
        all_posted(&all.webhook)
    );
}
