//! A real Prometheus that scrapes loopwatch, with the bundled rules, and the queries of the bundled
//! dashboards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::bed;
use loopwatch_testbed::bundled::{self, Pace, Query};
use loopwatch_testbed::guard::{Process, Program};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{http, ports, repository};

/// The value of the label `cluster`, by which Prometheus distinguishes clusters.
pub(crate) const CLUSTER: &str = "testbed";

/// Prometheus with the bundled rules.
pub(crate) struct Prometheus {
    /// Where it serves its API.
    pub(crate) port: u16,
    targets: PathBuf,
    _process: Process,
}

/// A Pod with loopwatch: the namespace and the name of the Pod, and the port of loopwatch.
pub(crate) type Target<'a> = (&'a str, &'a str, u16);

/// The same in a cluster.
pub(crate) type ClusterTarget<'a> = (&'a str, Target<'a>);

impl Prometheus {
    /// Starts Prometheus with one target, and waits until Prometheus scrapes it. Prometheus keeps
    /// its files in a folder of this name.
    pub(crate) fn start(name: &str, target: u16, alertmanager: Option<u16>) -> Self {
        Self::start_with(
            name,
            Pace::Quick,
            &[("zoo-system", "widget-operator-0", target)],
            alertmanager,
        )
    }

    /// Starts Prometheus with these targets, and waits until it scrapes one of them.
    pub(crate) fn start_with(
        name: &str,
        pace: Pace,
        targets: &[Target<'_>],
        alertmanager: Option<u16>,
    ) -> Self {
        let rules = bundled::rules_at(pace, &rules_of(name));
        Self::launch(name, (pace, &rules), &of_testbed(targets), alertmanager)
    }

    /// Starts Prometheus with targets in several clusters, and waits until it scrapes one of them. The
    /// rules are those of each cluster and those that compare the clusters.
    pub(crate) fn start_central(
        name: &str,
        rules: (Pace, &[PathBuf]),
        targets: &[ClusterTarget<'_>],
    ) -> Self {
        Self::launch(name, rules, targets, None)
    }

    fn launch(
        name: &str,
        (pace, rules): (Pace, &[PathBuf]),
        targets: &[ClusterTarget<'_>],
        alertmanager: Option<u16>,
    ) -> Self {
        let directory = &bed().directory().join(name);
        let port = ports::free();
        let alertmanagers =
            alertmanager.map(|port| json!({"targets": [format!("127.0.0.1:{port}")]}));
        let file = directory.join("targets.json");

        write_targets(&file, targets);
        let config = json!({
            "global": intervals(pace),
            "rule_files": rules,
            "alerting": {"alertmanagers": [{"static_configs": alertmanagers.as_slice()}]},
            "scrape_configs": [{"job_name": "loopwatch", "file_sd_configs": [
                {"files": [file], "refresh_interval": "1s"}]}],
        });

        let targets = file;
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, config.to_string()).expect("our own folder");

        let mut process = Program::new(name, "prometheus", bed().directory())
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--enable-feature=exemplar-storage")
            .start();

        eventually(Duration::from_secs(30), "Prometheus is ready", || {
            process.assert_running();
            http::get(port, "/-/ready")
        });
        eventually(Duration::from_secs(60), "Prometheus scrapes loopwatch", || {
            let up = ask(port, "/api/v1/query?query=up")?;
            let value = &up["data"]["result"][0]["value"][1];
            if value == "1" { Ok(()) } else { Err(up.to_string()) }
        });

        Self { port, targets, _process: process }
    }

    /// Changes the targets, as service discovery does.
    pub(crate) fn set_targets(&self, targets: &[Target<'_>]) {
        write_targets(&self.targets, &of_testbed(targets));
    }

    /// Waits until Prometheus has scraped loopwatch in this Pod.
    pub(crate) fn wait_scraped(&self, pod: &str) {
        let query = format!("loopwatch_build_info{{pod=\"{pod}\"}}");
        let path = format!("/api/v1/query?query={}", http::encode(&query));
        eventually(Duration::from_secs(60), "Prometheus has scraped a new Pod", || {
            let answer = ask(self.port, &path)?;
            let series = answer["data"]["result"].as_array().map_or(0, Vec::len);
            if series > 0 { Ok(()) } else { Err(answer.to_string()) }
        });
    }

    /// Returns the alerts that are firing.
    pub(crate) fn firing(&self) -> Result<Vec<Value>, String> {
        let answer = ask(self.port, "/api/v1/alerts")?;
        let alerts =
            answer["data"]["alerts"].as_array().cloned().ok_or_else(|| answer.to_string())?;
        Ok(alerts.into_iter().filter(|alert| alert["state"] == "firing").collect())
    }

    /// Returns the value of a query with exactly one series.
    pub(crate) fn value(&self, query: &str) -> Result<f64, String> {
        let path = format!("/api/v1/query?query={}", http::encode(query));
        let answer = ask(self.port, &path)?;
        let value = match answer["data"]["result"].as_array().map(Vec::as_slice) {
            Some([only]) => only["value"][1].as_str().and_then(|value| value.parse().ok()),
            _ => None,
        };
        value.ok_or_else(|| format!("{query}: {answer}"))
    }

    /// Returns the labels of the series of a query.
    pub(crate) fn labels(&self, query: &str) -> Result<Vec<Value>, String> {
        let path = format!("/api/v1/query?query={}", http::encode(query));
        let answer = ask(self.port, &path)?;
        let series = answer["data"]["result"].as_array().ok_or_else(|| answer.to_string())?;
        Ok(series.iter().map(|one| one["metric"].clone()).collect())
    }

    /// Expects that Prometheus has evaluated every rule, without any error.
    pub(crate) fn expect_rules_work(&self) {
        eventually(Duration::from_secs(60), "every rule is evaluated without an error", || {
            let answer = ask(self.port, "/api/v1/rules")?;
            let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
            let rules: Vec<Value> = groups
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                .collect();
            let bad: Vec<String> = rules
                .iter()
                .filter(|rule| rule["health"] != "ok")
                .map(|rule| format!("{}: {} {}", rule["name"], rule["health"], rule["lastError"]))
                .collect();

            if bad.is_empty() && !rules.is_empty() {
                Ok(())
            } else {
                Err(format!("{} rules, {bad:?}", rules.len()))
            }
        });
    }

    /// Returns the IDs of the traces that the exemplars of a query name, the oldest first.
    pub(crate) fn exemplars(&self, query: &str) -> Result<Vec<String>, String> {
        let path =
            format!("/api/v1/query_exemplars?query={}&start=0&end=9999999999", http::encode(query));
        let answer = ask(self.port, &path)?;
        let series = answer["data"].as_array().ok_or_else(|| answer.to_string())?;
        let mut exemplars: Vec<&Value> =
            series.iter().filter_map(|of| of["exemplars"].as_array()).flatten().collect();

        exemplars.sort_by(|a, b| {
            a["timestamp"]
                .as_f64()
                .unwrap_or(0.0)
                .total_cmp(&b["timestamp"].as_f64().unwrap_or(0.0))
        });

        Ok(exemplars
            .iter()
            .filter_map(|one| one["labels"]["trace_id"].as_str())
            .map(str::to_owned)
            .collect())
    }

    /// Runs every query of a bundled dashboard. Returns the number of queries, and the panels
    /// without data. A panel may have a query for each severity, of which one with data is enough.
    pub(crate) fn ask_panels(&self, dashboard: &str) -> (usize, Vec<String>) {
        let queries = bundled::queries(dashboard);
        let answered = queries.len();
        let mut panels = BTreeMap::<String, bool>::new();

        for Query { panel, promql } in queries {
            let answer = ask(self.port, &format!("/api/v1/query?query={}", http::encode(&promql)));
            let answer = answer.unwrap_or_else(|error| panic!("{panel}: {promql}: {error}"));
            let has_data = answer["data"]["result"].as_array().is_some_and(|data| !data.is_empty());
            *panels.entry(panel).or_default() |= has_data;
        }

        let empty = panels.into_iter().filter(|(_, has_data)| !has_data);
        (answered, empty.map(|(panel, _)| panel).collect())
    }
}

/// The folder for the rules of a Prometheus.
pub(crate) fn rules_of(name: &str) -> PathBuf {
    bed().directory().join(name).join("rules")
}

/// The targets in the cluster that all tests share.
fn of_testbed<'a>(targets: &[Target<'a>]) -> Vec<ClusterTarget<'a>> {
    targets.iter().map(|target| (CLUSTER, *target)).collect()
}

/// Writes targets for service discovery by files, at once and as a whole.
fn write_targets(file: &Path, targets: &[ClusterTarget<'_>]) {
    let group = |(cluster, (namespace, pod, port)): &ClusterTarget<'_>| {
        json!({"targets": [format!("127.0.0.1:{port}")],
            "labels": {"cluster": cluster, "namespace": namespace, "pod": pod}})
    };
    let groups: Vec<Value> = targets.iter().map(group).collect();
    let new = file.with_extension("new");

    std::fs::write(&new, json!(groups).to_string()).expect("our own folder");
    std::fs::rename(&new, file).expect("our own folder");
}

/// Returns the intervals of scrapes and evaluations.
fn intervals(pace: Pace) -> Value {
    if pace != Pace::Shipped {
        return json!({"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"});
    }

    let text = std::fs::read_to_string(repository("deploy/examples/prometheus/prometheus.yml"));
    let mut example: Value = serde_saphyr::from_str(&text.expect("the example")).expect("YAML");
    example["global"].take()
}

fn ask(port: u16, path: &str) -> Result<Value, String> {
    let text = http::get(port, path)?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
}
