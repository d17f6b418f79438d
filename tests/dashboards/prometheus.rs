//! Prometheus, which scrapes replayed incidents.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loopwatch_testbed::bundled::{self, Pace};
use loopwatch_testbed::standin::Standin;
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{http, ports, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A process that ends with the test.
pub(crate) struct Running(Child);

/// A loopwatch that Prometheus scrapes.
pub(crate) struct Loopwatch {
    name: String,
    port: u16,
    _process: Running,
    _folder: TempDir,
}

/// A running Prometheus with the bundled rules.
pub(crate) struct Prometheus {
    port: u16,
    _process: Running,
    _folder: TempDir,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Loopwatch {
    /// Plays a scenario at N times its original speed.
    pub(crate) fn replay(name: &str, speed: f64) -> Self {
        let plain = repository(format!("tests/scenarios/{name}.jsonl"));
        let file = if plain.exists() {
            plain
        } else {
            repository(format!("tests/scenarios/{name}.jsonl.gz"))
        };
        let speed = format!("--speed={speed}");

        Self::start(name, |command, _| {
            _ = command.arg("replay").arg(file).args(["--serve", &speed])
        })
    }

    /// Plays a recording with this text.
    pub(crate) fn play(name: &str, recording: &str, speed: f64) -> Self {
        let speed = format!("--speed={speed}");
        Self::start(name, |command, folder| {
            let file = folder.join("recording.jsonl");
            std::fs::write(&file, recording).expect("our own folder");
            command.arg("replay").arg(file).args(["--serve", &speed]);
        })
    }

    /// Runs loopwatch next to an API server, with a receiver configured for everything that it
    /// sends. Nothing listens at these addresses.
    pub(crate) fn run(name: &str, server: &Standin) -> Self {
        Self::start(name, |command, folder| {
            let nobody = format!("http://127.0.0.1:{}/", ports::free());
            let configuration = json!({"alertmanager": [nobody], "notify": nobody, "otlp": nobody});
            let file = folder.join("config.yaml");
            std::fs::write(&file, configuration.to_string()).expect("our own folder");
            server.run_beside(command, folder).arg(format!("--config={}", file.display()));
            command.args([
                "--external-url=https://loopwatch.example/a",
                "--runbook-url=https://git.example/NAME.md",
            ]);
        })
    }

    fn start(name: &str, arguments: impl FnOnce(&mut Command, &Path)) -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), ports::free());
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command.env_remove("KUBECONFIG");
        arguments(&mut command, folder.path());

        let process = Running::start(command.arg(format!("--listen=127.0.0.1:{port}")));
        Self { name: name.to_owned(), port, _process: process, _folder: folder }
    }
}

impl Prometheus {
    /// Starts Prometheus, and waits until it scrapes all of these.
    pub(crate) fn start(targets: &[Loopwatch]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let targets: Vec<(&str, u16)> =
            targets.iter().map(|loopwatch| (loopwatch.name.as_str(), loopwatch.port)).collect();
        let file = folder.path().join("prometheus.yaml");

        std::fs::write(&file, configuration(folder.path(), &targets).to_string())
            .expect("our own folder");
        let port = ports::free();
        let process = Running::start(
            Command::new("prometheus")
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}")),
        );

        eventually(Duration::from_secs(60), "Prometheus is ready", || http::get(port, "/-/ready"));
        let prometheus = Self { port, _process: process, _folder: folder };
        eventually(Duration::from_secs(60), "Prometheus scrapes every loopwatch", || {
            let up = prometheus.ask("/api/v1/query?query=sum(up)")?;
            let value = &up["result"][0]["value"][1];
            if value.as_str() == Some(targets.len().to_string().as_str()) {
                Ok(())
            } else {
                Err(up.to_string())
            }
        });

        prometheus
    }

    /// Returns whether a query has had a value within the last two minutes. A query that is not
    /// PromQL is an error.
    pub(crate) fn has_data(&self, promql: &str) -> Result<bool, String> {
        let now = jiff::Timestamp::now().as_second();
        let range = format!("start={}&end={now}&step=1", now - 120);
        let answer =
            self.ask(&format!("/api/v1/query_range?query={}&{range}", http::encode(promql)))?;
        let series = answer["result"].as_array().into_iter().flatten();
        let mut values = series.filter_map(|series| series["values"].as_array()).flatten();

        // 0/0 is not a value: the panel shows nothing.
        Ok(values.any(|value| value[1].as_str().is_some_and(|value| value != "NaN")))
    }

    /// Returns the labels of the series that a query returns now.
    pub(crate) fn labels(&self, promql: &str) -> Result<Vec<Value>, String> {
        let answer = self.ask(&format!("/api/v1/query?query={}", http::encode(promql)))?;
        let series = answer["result"].as_array().cloned().unwrap_or_default();
        Ok(series.into_iter().map(|mut one| one["metric"].take()).collect())
    }

    /// Returns the values of a label of these series.
    pub(crate) fn label_values(&self, label: &str, selector: &str) -> Result<Vec<Value>, String> {
        let answer =
            self.ask(&format!("/api/v1/label/{label}/values?match[]={}", http::encode(selector)))?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    fn ask(&self, path: &str) -> Result<Value, String> {
        let text = http::get(self.port, path)?;
        let mut answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))?;
        Ok(answer["data"].take())
    }
}

/// The recordings have fewer spec changes than clusters need to be compared.
const FEW_CHANGES: (&str, u32) = ("loopwatch:cluster_differs_changes:min", 3);

fn configuration(folder: &Path, targets: &[(&str, u16)]) -> Value {
    let targets = targets.iter().map(|(name, port)| {
        json!({"targets": [format!("127.0.0.1:{port}")],
            "labels": {"cluster": "test", "namespace": name, "pod": format!("{name}-0")}})
    });

    json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": bundled::central_rules_at(Pace::Quick, &folder.join("rules"), FEW_CHANGES),
        "scrape_configs": [{"job_name": "loopwatch", "static_configs": targets.collect::<Vec<_>>()}],
    })
}
