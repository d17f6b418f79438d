//! The path from a fault to a page: a real operator, loopwatch, a real Prometheus with the bundled rules, a real
//! Alertmanager, and a webhook that it calls.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_with};
use crate::case::{Case, TWIN};
use loopwatch_testbed::guard::{Process, Program};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::quick;
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::webhook::Webhook;
use loopwatch_testbed::{http, ports, repository};

/// The tests of this file.
pub(crate) fn trials() -> Vec<Trial> {
    let programs = &["prometheus", "prometheus-alertmanager"];
    vec![test_with("alerts::fire_and_clear", programs, fire_and_clear)]
}

/// The value of the label `cluster`, by which Prometheus distinguishes clusters.
const CLUSTER: &str = "testbed";

fn fire_and_clear() {
    let case = Case::new("alerted", &quick());
    let webhook = Webhook::listen();
    let alertmanager = Alertmanager::start(&webhook);
    let prometheus = Prometheus::start(case.sidecar.port, alertmanager.port);
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
    assert!(text("description").contains("target") && text("description").contains("kubectl"), "{alert}");
    let runbook = text("runbook_url");
    let file = runbook.split_once("/docs/").map(|(_, file)| repository("docs").join(file));
    assert!(file.is_some_and(|file| file.exists()), "no such runbook: {runbook}");
    let posted = wait_posted(&webhook, "firing", "Overdue");
    assert_eq!(posted["labels"], *labels, "what the webhook got is what Prometheus has");

    // A second cause gives a second alert. The orderly deletion of an object gives none.
    case.operator.fault("FinalizerStuck?kind=PhaseOnly&namespace=alerted");
    for kind in ["PhaseOnly", "MapConditions"] {
        case.kube.delete(ZOO, kind, "alerted", TWIN);
    }
    wait_posted(&webhook, "firing", "FinalizerStuck");
    let (queries, empty) = prometheus.ask_panels();
    // This test has no leader election, no failing source and no missing permission.
    let no_data = ["Leader election", "Source failures", "Missing permissions"];
    assert!(empty.iter().all(|title| no_data.contains(&title.as_str())), "panels without data: {empty:?}");
    eprintln!("alerts: {queries} queries of the dashboard answer, all but {} with data", empty.len());

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
    // Each cause gives one alert: Alertmanager sent neither explained findings nor alerts of other rules.
    let findings: Vec<_> = all_posted(&webhook).iter().map(|alert| alert["labels"]["finding"].clone()).collect();
    let two = ["Overdue", "FinalizerStuck"];
    assert!(findings.iter().all(|finding| two.iter().any(|known| finding == known)), "{findings:?}");
    prometheus.expect_rules_work();
    eprintln!(
        "alerts: Overdue fired in Prometheus {:.1} s after the change ({} s of it the deadline) and cleared {:.1} s after the cure",
        fired.as_secs_f64(),
        4,
        cleared.as_secs_f64()
    );
}

fn all_posted(webhook: &Webhook) -> Vec<Value> {
    let posts = webhook.received();
    posts.iter().flat_map(|post| post["alerts"].as_array().cloned().unwrap_or_default()).collect()
}

/// Waits until Alertmanager has notified the webhook of the alert on `finding`.
fn wait_posted(webhook: &Webhook, status: &str, finding: &str) -> Value {
    eventually(Duration::from_secs(40), &format!("the webhook is notified that {finding} is {status}"), || {
        let posted = all_posted(webhook);
        let found = posted.iter().find(|alert| alert["status"] == status && alert["labels"]["finding"] == finding);
        found.cloned().ok_or_else(|| json!(posted).to_string())
    })
}

/// Prometheus with the bundled rules and one target.
struct Prometheus {
    port: u16,
    _process: Process,
}

impl Prometheus {
    fn start(target: u16, alertmanager: u16) -> Self {
        let directory = bed().directory();
        let port = ports::free();
        let rules: Vec<PathBuf> = quickened_rules(&directory.join("rules"));
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [format!("127.0.0.1:{alertmanager}")]}]}]},
            "scrape_configs": [{"job_name": "loopwatch", "static_configs": [{
                "targets": [format!("127.0.0.1:{target}")],
                "labels": {"cluster": CLUSTER, "namespace": "zoo-system", "pod": "widget-operator-0"}}]}],
        });
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, config.to_string()).expect("our own folder");
        let mut process = Program::new("prometheus", "prometheus", directory)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .start();
        eventually(Duration::from_secs(30), "Prometheus is ready", || {
            process.assert_running();
            http::get(port, "/-/ready")
        });
        eventually(Duration::from_secs(20), "Prometheus scrapes loopwatch", || {
            let up = ask(port, "/api/v1/query?query=up")?;
            let value = &up["data"]["result"][0]["value"][1];
            if value == "1" { Ok(()) } else { Err(up.to_string()) }
        });
        Self { port, _process: process }
    }

    /// Returns the alerts that are firing.
    fn firing(&self) -> Result<Vec<Value>, String> {
        let answer = ask(self.port, "/api/v1/alerts")?;
        let alerts = answer["data"]["alerts"].as_array().cloned().ok_or_else(|| answer.to_string())?;
        Ok(alerts.into_iter().filter(|alert| alert["state"] == "firing").collect())
    }

    /// Expects that Prometheus has evaluated every rule, without any error.
    fn expect_rules_work(&self) {
        eventually(Duration::from_secs(60), "every rule is evaluated without an error", || {
            let answer = ask(self.port, "/api/v1/rules")?;
            let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
            let rules: Vec<Value> =
                groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect();
            let bad: Vec<String> = rules
                .iter()
                .filter(|rule| rule["health"] != "ok")
                .map(|rule| format!("{}: {} {}", rule["name"], rule["health"], rule["lastError"]))
                .collect();
            if bad.is_empty() && !rules.is_empty() { Ok(()) } else { Err(format!("{} rules, {bad:?}", rules.len())) }
        });
    }

    /// Runs every query of the bundled dashboards. Returns the number of queries, and the panels of those without data.
    fn ask_panels(&self) -> (usize, Vec<String>) {
        let bundled = std::fs::read_dir(repository("dashboards")).expect("the bundled dashboards");
        let files = bundled.filter_map(Result::ok).map(|entry| entry.path());
        let (mut answered, mut empty) = (0, Vec::new());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
            let text = std::fs::read_to_string(&file).expect("a bundled file");
            let dashboard: Value = serde_json::from_str(&text).expect("JSON");
            let mut panels = Vec::new();
            collect_panels(&dashboard["panels"], &mut panels);
            for (title, query) in panels {
                let answer = ask(self.port, &format!("/api/v1/query?query={}", http::encode(&query)));
                let answer = answer.unwrap_or_else(|error| panic!("{title}: {query}: {error}"));
                let result = answer["data"]["result"].as_array().cloned().unwrap_or_default();
                answered += 1;
                if result.is_empty() {
                    empty.push(title);
                }
            }
        }
        assert!(answered > 0, "the bundled dashboards have no query");
        (answered, empty)
    }
}

/// Collects titles and queries, with the default values of the dashboard's variables.
fn collect_panels(panels: &Value, into: &mut Vec<(String, String)>) {
    for panel in panels.as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut query = target["expr"].as_str().unwrap_or_default().to_owned();
            for (variable, value) in [("$__rate_interval", "30s"), ("$target_namespace", ".*"), ("$namespace", ".*")] {
                query = query.replace(variable, value);
            }
            for (variable, value) in [("$cluster", ".*"), ("$job", ".+"), ("$kind", ".*")] {
                query = query.replace(variable, value);
            }
            assert!(!query.contains('$'), "an unknown variable: {query}");
            into.push((panel["title"].as_str().unwrap_or_default().to_owned(), query));
        }
        collect_panels(&panel["panels"], into);
    }
}

/// Writes copies of the bundled rules in which every `for`, `keep_firing_for` and `interval` is two seconds.
fn quickened_rules(directory: &Path) -> Vec<PathBuf> {
    std::fs::create_dir_all(directory).expect("our own folder");
    let bundled = std::fs::read_dir(repository("alerts")).expect("the bundled rules").filter_map(Result::ok);
    let mut files = Vec::new();
    for entry in bundled.filter(|entry| entry.path().to_string_lossy().ends_with(".rules.yaml")) {
        let text = std::fs::read_to_string(entry.path()).expect("a bundled file");
        let quick: Vec<String> = text.lines().map(quickened).collect();
        let to = directory.join(entry.file_name());
        std::fs::write(&to, quick.join("\n")).expect("our own folder");
        files.push(to);
    }
    assert!(!files.is_empty(), "there are no bundled rules");
    files
}

fn quickened(line: &str) -> String {
    let field = line.trim_start();
    for name in ["for: ", "keep_firing_for: ", "interval: "] {
        if field.starts_with(name) {
            return format!("{}{name}2s", &line[..line.len() - field.len()]);
        }
    }
    line.to_owned()
}

/// Alertmanager with one route to a webhook.
struct Alertmanager {
    port: u16,
    _process: Process,
}

impl Alertmanager {
    fn start(webhook: &Webhook) -> Self {
        let directory = bed().directory();
        let port = ports::free();
        let config = json!({
            "route": {"receiver": "webhook", "group_by": ["alertname", "finding", "target_namespace"],
                "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "webhook", "webhook_configs": [
                {"url": format!("http://127.0.0.1:{}/", webhook.port), "send_resolved": true}]}],
        });
        let file = directory.join("alertmanager.yaml");
        std::fs::write(&file, config.to_string()).expect("our own folder");
        let mut process = Program::new("alertmanager", "prometheus-alertmanager", directory)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", directory.join("alertmanager").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .start();
        eventually(Duration::from_secs(30), "Alertmanager is ready", || {
            process.assert_running();
            http::get(port, "/-/ready")
        });
        Self { port, _process: process }
    }
}

fn ask(port: u16, path: &str) -> Result<Value, String> {
    let text = http::get(port, path)?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
}
