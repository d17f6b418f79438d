//! loopwatch as a process with an operator's account, and a client of its API.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::controlplane::ControlPlane;
use super::guard::{Process, Program};
use super::operator::ACCOUNT;
use super::wait::{eventually, until};
use super::{http, ports};

/// A running `loopwatch run`.
pub struct Sidecar {
    /// The process.
    pub process: Process,
    /// Its port.
    pub port: u16,
}

/// A finding of the API.
#[derive(Clone, Debug)]
pub struct ShownFinding(pub Value);

/// How to run a command with mounts of its own.
const UNSHARE: [&str; 2] = ["--map-root-user", "--mount"];

/// Mounts the files of a Pod's account, hides `/proc/net` from this process, and becomes the
/// command in its arguments.
const ENTER: &str = "set -e
    mount -t tmpfs tmpfs /run
    mkdir -p /run/secrets/kubernetes.io/serviceaccount
    cp \"$TOKEN\" /run/secrets/kubernetes.io/serviceaccount/token
    mount -t tmpfs tmpfs /proc/$$/net
    exec \"$@\"";

/// Reports whether [`Sidecar::start_in_pod`] works on this machine, which may forbid mounts.
pub fn can_be_in_pod() -> bool {
    let test =
        "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /proc/$$/net && test /var/run -ef /run";
    Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", test])
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns settings with thresholds of seconds instead of minutes; all others keep their defaults.
/// Learning is off, because every kind is fast on a test cluster.
pub fn quick() -> Value {
    json!({
        "deadline": "4s",
        "settle": "1s",
        "reject_after": "1s",
        "unsaid_after": "3s",
        "regressed_after": "3s",
        "flap_window": "20s",
        "cycle_window": "20s",
        "hot_loop_window": "20s",
        "fight_window": "20s",
        "revert_window": "20s",
        "recreate_window": "20s",
        "phase_stuck_after": "4s",
        "finalizer_stuck_after": "4s",
        "recover_at_least": "3s",
        "recover_factor": 3,
        "source_failing_after": "5s",
        "audit_every": "3s",
        "learn_after": 0,
        "page_objects": 1, // most tests are about one object
    })
}

/// Returns the quick thresholds with some changes.
pub fn quick_but(changes: Value) -> Value {
    let mut settings = quick();
    for (name, value) in changes.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }

    settings
}

impl Sidecar {
    /// Starts loopwatch with an account's kubeconfig, thresholds, and additional flags.
    pub fn start(
        plane: &ControlPlane,
        name: &str,
        kubeconfig: &Path,
        settings: &Value,
        flags: &[&str],
    ) -> Self {
        Self::start_with(plane, name, kubeconfig, settings, flags, &[])
    }

    /// Like [`Sidecar::start`], with environment variables.
    pub fn start_with(
        plane: &ControlPlane,
        name: &str,
        kubeconfig: &Path,
        settings: &Value,
        flags: &[&str],
        environment: &[(&str, &Path)],
    ) -> Self {
        let config = Self::write_config(plane, name, settings);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let program = environment
            .iter()
            .fold(program(name, plane), |program, (name, value)| program.env(name, *value));

        Self::run(program, &[&[kubeconfig.as_str(), config.as_str()], flags].concat())
    }

    /// Starts loopwatch with only these flags.
    pub fn bare(plane: &ControlPlane, name: &str, flags: &[&str]) -> Self {
        Self::run(program(name, plane), flags)
    }

    /// Like [`Sidecar::start`], as a container in a Pod sees it: the name of the Pod in its
    /// environment, and the token of the account in its file. `/proc/net` is hidden, because it
    /// shows the sockets of all tests.
    pub fn start_in_pod(
        plane: &ControlPlane,
        name: &str,
        kubeconfig: &Path,
        settings: &Value,
        flags: &[&str],
        pod: (&str, &str),
    ) -> Self {
        let token = plane.directory().join(format!("{name}.token"));
        std::fs::write(&token, plane.kube.token(pod.0, ACCOUNT)).expect("our own folder");

        let program = Program::new(name, "unshare", plane.directory())
            .env("HOME", plane.directory())
            .env("NO_COLOR", "1")
            .env("TOKEN", token)
            .env("POD_NAMESPACE", pod.0)
            .env("POD_NAME", pod.1)
            .env("HOSTNAME", pod.1)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .args([&UNSHARE[..], &["sh", "-c", ENTER, "sh"]].concat())
            .arg(installed(plane));

        let config = Self::write_config(plane, name, settings);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        Self::run(program, &[&[kubeconfig.as_str(), config.as_str()], flags].concat())
    }

    /// Writes a configuration file with settings. Returns the flag for it.
    fn write_config(plane: &ControlPlane, name: &str, settings: &Value) -> String {
        let mut settings = settings.clone();
        if settings["scrape_expected_within"].is_null() {
            // Tests read `/metrics` only now and then.
            settings["scrape_expected_within"] = "0s".into();
        }
        let config = plane.directory().join(format!("{name}.config.yaml"));

        // JSON is YAML.
        std::fs::write(&config, json!({"settings": settings}).to_string()).expect("our own folder");
        format!("--config={}", config.display())
    }

    fn run(program: Program, flags: &[&str]) -> Self {
        let port = ports::free();
        let process = program
            // One port, as outside a Pod: the tests share one network. A flag overrides it.
            .env("LOOPWATCH_UI_PORT", port.to_string())
            .arg("run")
            .arg(format!("--listen=127.0.0.1:{port}"))
            .args(["--log=info,loopwatch=debug,kube_client=off", "--log-format=json"])
            .args(flags)
            .start();

        let mut sidecar = Self { process, port };
        sidecar.wait_serving();
        sidecar
    }

    /// Starts it again with the same flags after it has ended.
    pub fn start_again(&mut self) {
        self.process = self.process.program.start();
        self.wait_serving();
    }

    fn wait_serving(&mut self) {
        eventually(Duration::from_secs(20), "loopwatch serves /livez", || {
            self.process.assert_running();
            http::get(self.port, "/livez")
        });
    }

    /// Waits until loopwatch watches at least `kinds` kinds and every watch has finished its first
    /// list.
    pub fn wait_synced(&self, kinds: usize) {
        self.expect(
            Duration::from_secs(30),
            &format!("{kinds} kinds are watched and listed"),
            || {
                let status = self.status()?;
                let watches = status["kinds"].as_array().into_iter().flatten();
                let (mut synced, mut waiting) = (0, Vec::new());

                for kind in watches {
                    match kind["watches"]
                        .as_array()
                        .is_some_and(|w| !w.is_empty() && w.iter().all(|w| w["synced"] == true))
                    {
                        true => synced += 1,
                        false => waiting.push(kind["kind"].to_string()),
                    }
                }

                match synced >= kinds && waiting.is_empty() {
                    true => Ok(()),
                    false => Err(format!("{synced} synced, waiting for {waiting:?}")),
                }
            },
        );
    }

    /// Waits until loopwatch watches a kind in this number of scopes, and has listed all of them.
    pub fn wait_watched(&self, kind: &str, scopes: usize) {
        self.expect(
            Duration::from_secs(60),
            &format!("{kind} is watched in {scopes} scopes"),
            || {
                let status = self.status()?;
                let kinds = status["kinds"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|known| known["kind"] == kind);
                let synced = |watch: &&Value| watch["synced"] == true;
                let watches = kinds
                    .filter_map(|known| known["watches"].as_array())
                    .flatten()
                    .filter(synced)
                    .count();
                if watches >= scopes { Ok(()) } else { Err(format!("{watches} scopes")) }
            },
        );
    }

    /// Returns `/api/v1/status`.
    pub fn status(&self) -> Result<Value, String> {
        self.json("/api/v1/status")
    }

    /// Returns `/api/v1/operator`.
    pub fn operator(&self) -> Result<Value, String> {
        self.json("/api/v1/operator")
    }

    /// Returns the page.
    pub fn page(&self) -> Result<String, String> {
        http::get(self.port, "/")
    }

    /// Returns the open findings.
    pub fn findings(&self) -> Result<Vec<ShownFinding>, String> {
        let answer = self.json("/api/v1/findings")?;
        let list = answer["findings"].as_array().ok_or("no list of findings")?;
        Ok(list.iter().cloned().map(ShownFinding).collect())
    }

    /// Returns all objects that it knows, from every page.
    pub fn objects(&self, query: &str) -> Result<Vec<Value>, String> {
        let (mut objects, mut next) = (Vec::new(), String::new());
        loop {
            let mut page =
                self.json(&format!("/api/v1/objects?limit=1000&continue={next}&{query}"))?;
            objects.extend(page["objects"].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["continue"].as_str() {
                Some(token) if !token.is_empty() => next = token.to_owned(),
                _ => return Ok(objects),
            }
        }
    }

    /// One object.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        self.object_at("", kind, namespace, name)
    }

    /// One object of one of several operators, whose paths begin with `path`.
    pub fn object_at(
        &self,
        path: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, String> {
        let query = format!("kind={kind}&namespace={namespace}&name={name}");
        let page = self.json(&format!("{path}/api/v1/objects?{query}"))?;
        let first = page["objects"].get(0).cloned();
        first.ok_or_else(|| format!("{kind} {namespace}/{name} is not known"))
    }

    /// A source of `/api/v1/status`.
    pub fn source(&self, name: &str) -> Result<Value, String> {
        let status = self.status()?;
        let sources = status["sources"].as_array().cloned().unwrap_or_default();
        let found = sources.iter().find(|source| source["source"] == name).cloned();
        found.ok_or_else(|| format!("no source {name} among {}", json!(sources)))
    }

    /// The exposition.
    pub fn metrics(&self) -> Result<String, String> {
        http::get(self.port, "/metrics")
    }

    /// The value of a series: `loopwatch_source_up{source="config"}`, with its labels as they are
    /// written.
    pub fn metric(&self, series: &str) -> Result<f64, String> {
        let text = self.metrics()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series).and_then(|rest| rest.strip_prefix(' ')));
        let value =
            line.and_then(|rest| rest.split(' ').next()).and_then(|value| value.parse().ok());

        value.ok_or_else(|| {
            let family = series.split('{').next().unwrap_or(series);
            let similar: Vec<&str> =
                text.lines().filter(|line| line.starts_with(family)).take(10).collect();
            format!("no series {series}; there is:\n{}", similar.join("\n"))
        })
    }

    /// Returns all findings that its log reports, as code and subject (`Widget team-a/one`).
    pub fn opened(&self) -> Vec<(String, String)> {
        let log =
            std::fs::read_to_string(self.process.program.log()).expect("the log of loopwatch");
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let opened = lines.filter(|line| line["level"] == "WARN" && line["finding"].is_string());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

        opened.map(|line| (text(&line["finding"]), text(&line["subject"]))).collect()
    }

    /// Waits for a finding with this code on this object (`Kind`, name). Returns the finding and
    /// the time that it took.
    pub fn expect_finding(
        &self,
        within: Duration,
        code: &str,
        kind: &str,
        name: &str,
    ) -> (ShownFinding, Duration) {
        let began = Instant::now();
        let finding = self.expect(within, &format!("{code} is found on {kind} {name}"), || {
            let findings = self.findings()?;
            let found = findings.iter().find(|finding| finding.is(code, kind, name)).cloned();
            found.ok_or_else(|| summary(&findings))
        });

        (finding, began.elapsed())
    }

    /// Waits until this finding on this object is closed. Returns the time that it took.
    pub fn expect_cleared(&self, within: Duration, code: &str, kind: &str, name: &str) -> Duration {
        let began = Instant::now();
        self.expect(within, &format!("{code} on {kind} {name} is cleared"), || {
            let findings = self.findings()?;
            match findings.iter().any(|finding| finding.is(code, kind, name)) {
                true => Err(summary(&findings)),
                false => Ok(()),
            }
        });

        began.elapsed()
    }

    /// Calls `poll` until it succeeds. Panics with the state of loopwatch if that does not happen
    /// within `within`.
    pub fn expect<T>(
        &self,
        within: Duration,
        what: &str,
        poll: impl FnMut() -> Result<T, String>,
    ) -> T {
        match until(within, poll) {
            Ok((found, _)) => found,
            Err(seen) => {
                panic!("not within {within:?}: {what}\nlast seen: {seen}\n{}", self.account())
            }
        }
    }

    /// Describes the state of loopwatch, for the message of a failure.
    pub fn account(&self) -> String {
        let findings = self.findings().map_or_else(|error| error, |findings| summary(&findings));
        let unhealthy = self.objects("").map(|objects| {
            let told = objects
                .iter()
                .filter(|o| o["state"] != "converged" && o["state"] != "unknown")
                .take(20);

            told.map(|o| {
                format!(
                    "  {} {} {}: {} ({}, {})",
                    o["kind"], o["namespace"], o["name"], o["state"], o["reason"], o["signal"]
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
        });

        format!(
            "findings: {findings}\nobjects that are not converged:\n{}\nlog of loopwatch, its last lines:\n{}",
            unhealthy.unwrap_or_else(|error| error),
            self.process.program.log_tail(40)
        )
    }

    fn json(&self, path: &str) -> Result<Value, String> {
        let text = http::get(self.port, path)?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
    }
}

/// Copies the loopwatch binary under test into the cluster's folder, so that a build during a run
/// does not change it.
pub fn install(plane: &ControlPlane, binary: &Path) {
    std::fs::copy(binary, installed(plane)).expect("the loopwatch binary and our own folder");
}

/// Returns a command that runs `loopwatch`. The caller adds the arguments.
pub fn program(name: &str, plane: &ControlPlane) -> Program {
    let home = plane.directory().display().to_string();
    Program::new(name, installed(plane), plane.directory()).env("HOME", home).env("NO_COLOR", "1")
}

fn installed(plane: &ControlPlane) -> PathBuf {
    plane.directory().join("loopwatch")
}

/// Formats findings for a message.
pub fn summary(findings: &[ShownFinding]) -> String {
    match findings {
        [] => "none".to_owned(),
        _ => findings.iter().map(|finding| format!("\n  {finding}")).collect(),
    }
}

impl ShownFinding {
    /// Returns its code.
    pub fn code(&self) -> &str {
        self.0["code"].as_str().unwrap_or_default()
    }

    /// Returns the kind of its subject.
    pub fn kind(&self) -> &str {
        self.0["subject"]["kind"].as_str().unwrap_or_default()
    }

    /// Returns the name of its subject.
    pub fn name(&self) -> &str {
        self.0["subject"]["name"].as_str().unwrap_or_default()
    }

    /// Returns its severity.
    pub fn severity(&self) -> &str {
        self.0["severity"].as_str().unwrap_or_default()
    }

    /// Returns one piece of its evidence.
    pub fn evidence(&self, key: &str) -> &Value {
        &self.0["evidence"][key]
    }

    /// Reports whether it has this code and this subject.
    pub fn is(&self, code: &str, kind: &str, name: &str) -> bool {
        self.code() == code && self.kind() == kind && self.name() == name
    }
}

impl std::fmt::Display for ShownFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let namespace = self.0["subject"]["namespace"].as_str().unwrap_or_default();
        write!(
            f,
            "{} on {} {namespace}/{}: {}",
            self.code(),
            self.kind(),
            self.name(),
            self.0["evidence"]
        )
    }
}
