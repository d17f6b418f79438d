//! Alerts that loopwatch posts itself, to real Alertmanagers that notify a webhook.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_with};
use crate::case::Case;
use loopwatch_testbed::guard::{Process, Program};
use loopwatch_testbed::sidecar::quick;
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::webhook::Webhook;
use loopwatch_testbed::{http, ports, repository};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("alertmanager::posted", &["prometheus-alertmanager"], posted)]
}

/// Two Alertmanagers without a Prometheus: the first one restarts, and the second one starts late.
/// Each notifies of the fault once and of its end once, although loopwatch restarts in between.
fn posted() {
    let webhooks = [Webhook::listen(), Webhook::listen()];
    let mut first = Alertmanager::start("first", &webhooks[0]);
    let late = ports::free();
    let flags = [
        format!("--alertmanager=http://127.0.0.1:{},http://localhost:{late}/", first.port),
        "--alert-label=cluster=zoo".to_owned(),
    ];
    let mut case = Case::with_flags("posted", &quick(), &flags);

    case.make("Widget", "target");
    wait_posted_by(&webhooks[0], "firing", |labels| labels["alertname"] == "LoopwatchWatchdog");

    case.operator.fault("Overdue?kind=Widget&namespace=posted");
    case.resize("Widget", "target", 7);

    let changed = Instant::now();
    let alert = wait_posted(&webhooks[0], "firing", "Overdue");
    eprintln!(
        "alertmanager: Overdue was received {:.1} s after the change",
        changed.elapsed().as_secs_f64()
    );

    let expected = json!({"alertname": "LoopwatchFinding", "cluster": "zoo", "finding": "Overdue", "severity": "warning",
        "group": "zoo.loopwatch.dev", "kind": "Widget", "target_namespace": "posted"});

    assert_eq!(alert["labels"], expected);

    let text = alert["annotations"]["description"].as_str().unwrap_or_default();
    assert!(text.contains("target") && text.contains("kubectl"), "{alert}");

    let _second = Alertmanager::start_at("second", &webhooks[1], late);
    wait_posted(&webhooks[1], "firing", "Overdue");
    first.process.stop(Duration::from_secs(10));
    case.kube.zoo("Widget", "posted", "other", json!({})); // a second object changes the alert
    case.sidecar.expect(Duration::from_secs(30), "the failure is visible", || {
        let series = format!(
            "loopwatch_alertmanager_requests_total{{alertmanager=\"http://127.0.0.1:{}\",result=\"failed\"}}",
            first.port
        );
        let failed = case.sidecar.metric(&series)?;
        if failed > 0.0 { Ok(()) } else { Err(failed.to_string()) }
    });

    first.process = first.process.program.start();
    case.sidecar.process.stop(Duration::from_secs(20));
    pause(Duration::from_secs(4)); // an Alertmanager notifies within a second

    for webhook in &webhooks {
        assert_eq!(
            count(webhook, "resolved"),
            0,
            "the end of loopwatch is not the end of the fault"
        );
    }

    case.sidecar.start_again();
    case.sidecar.expect_finding(Duration::from_secs(40), "Overdue", "Widget", "target");
    pause(Duration::from_secs(6)); // loopwatch looks at its findings every five seconds

    case.operator.cure("Overdue");
    for webhook in &webhooks {
        let resolved = wait_posted(webhook, "resolved", "Overdue");
        assert_eq!(resolved["labels"], expected);
        assert_eq!(
            (count(webhook, "firing"), count(webhook, "resolved")),
            (1, 1),
            "{:?}",
            all_posted(webhook)
        );
    }
}

/// The number of notifications about the fault.
fn count(webhook: &Webhook, status: &str) -> usize {
    let is_counted =
        |alert: &&Value| alert["status"] == status && alert["labels"]["finding"] == "Overdue";
    all_posted(webhook).iter().filter(is_counted).count()
}

/// Returns all alerts of all notifications.
pub(crate) fn all_posted(webhook: &Webhook) -> Vec<Value> {
    let posts = webhook.received();
    posts.iter().flat_map(|post| post["alerts"].as_array().cloned().unwrap_or_default()).collect()
}

/// Waits until Alertmanager has notified the webhook of the alert on `finding`.
pub(crate) fn wait_posted(webhook: &Webhook, status: &str, finding: &str) -> Value {
    wait_posted_by(webhook, status, |labels| labels["finding"] == finding)
}

fn wait_posted_by(webhook: &Webhook, status: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually(
        Duration::from_secs(60),
        &format!("the webhook is notified of an alert that is {status}"),
        || {
            let posted = all_posted(webhook);
            let found =
                posted.iter().find(|alert| alert["status"] == status && is_it(&alert["labels"]));
            found.cloned().ok_or_else(|| json!(posted).to_string())
        },
    )
}

/// Returns the configuration of a receiver that is a webhook.
fn hooks(webhook: &Webhook) -> Value {
    json!([{"url": format!("http://127.0.0.1:{}/", webhook.port), "send_resolved": true}])
}

/// Returns the alerts of all notifications of one receiver.
pub(crate) fn posted_to(webhook: &Webhook, receiver: &str) -> Vec<Value> {
    let posts = webhook.received().into_iter().filter(|post| post["receiver"] == receiver);
    posts.flat_map(|post| post["alerts"].as_array().cloned().unwrap_or_default()).collect()
}

/// Alertmanager whose receivers are webhooks.
pub(crate) struct Alertmanager {
    pub(crate) port: u16,
    process: Process,
}

impl Alertmanager {
    pub(crate) fn start(name: &str, webhook: &Webhook) -> Self {
        Self::start_at(name, webhook, ports::free())
    }

    /// Starts one with the example in `deploy/`, in which the pager and the tickets are the
    /// webhook. It waits as long as the example says before it notifies anybody, or as long as
    /// `waits`: before the first notification of a group, and before each further one.
    pub(crate) fn start_example(name: &str, webhook: &Webhook, waits: Option<[&str; 2]>) -> Self {
        let text =
            std::fs::read_to_string(repository("deploy/examples/prometheus/alertmanager.yml"));
        let mut config: Value = serde_saphyr::from_str(&text.expect("the example")).expect("YAML");
        if let Some([group_wait, group_interval]) = waits {
            (config["route"]["group_wait"], config["route"]["group_interval"]) =
                (json!(group_wait), json!(group_interval));
        }

        for receiver in config["receivers"].as_array_mut().expect("receivers") {
            if ["pager", "tickets"].iter().any(|name| receiver["name"] == *name) {
                receiver["webhook_configs"] = hooks(webhook);
            }
        }

        Self::start_with(name, &config, ports::free())
    }

    fn start_at(name: &str, webhook: &Webhook, port: u16) -> Self {
        let config = json!({
            "route": {"receiver": "webhook", "group_by": ["alertname", "finding", "target_namespace"],
                "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "webhook", "webhook_configs": hooks(webhook)}],
        });

        Self::start_with(name, &config, port)
    }

    fn start_with(name: &str, config: &Value, port: u16) -> Self {
        let directory = bed().directory();
        let file = directory.join(format!("{name}.yaml"));
        std::fs::write(&file, config.to_string()).expect("our own folder");

        let mut process = Program::new(name, "prometheus-alertmanager", directory)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", directory.join(name).display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .start();

        eventually(Duration::from_secs(30), "Alertmanager is ready", || {
            process.assert_running();
            http::get(port, "/-/ready")
        });

        Self { port, process }
    }
}
