//! What many sidecars that start together cost the API server: requests, CPU time, memory and
//! connections, at the start and later. Each has an operator's account of its own, with a Role in
//! its own namespace, and a few objects. Run with `cargo bench --profile dist --bench sidecars`;
//! `SIDECARS` sets their number (500 by default, which need about 6 GiB of memory).
//!
//! The figures of the API server without sidecars come first, because its own controllers also send
//! requests.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its result, or why there is none"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::guard::{self, Process};
use loopwatch_testbed::operator::{self, ACCOUNT};
use loopwatch_testbed::usage::{self, connections, cpu};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::{binaries, ports, sidecar};

/// The number of sidecars, unless `SIDECARS` sets it.
const SIDECARS: usize = 500;

/// The objects in each namespace.
const OBJECTS: usize = 5;

/// The periods of the measurement, with the time between their starts and the start of the
/// sidecars.
const PERIODS: [(&str, Duration, Duration); 4] = [
    ("first 10 s", Duration::ZERO, Duration::from_secs(10)),
    ("rest of the first minute", Duration::from_secs(10), Duration::from_secs(60)),
    ("minutes 2 and 3", Duration::from_secs(60), Duration::from_secs(180)),
    ("minutes 4 to 6", Duration::from_secs(180), Duration::from_secs(360)),
];

/// Totals of the API server at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requests: f64,
    cpu: Duration,
}

fn main() -> ExitCode {
    guard::stand_guard_if_asked();
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS; // `cargo bench -- --list` runs every benchmark with this flag
    }

    let binaries = match binaries::find() {
        Ok(found) => found,
        Err(missing) => {
            eprintln!("{missing}");
            return ExitCode::FAILURE;
        }
    };
    let number = std::env::var("SIDECARS").ok().and_then(|number| number.parse().ok());
    let number = number.unwrap_or(SIDECARS);

    let plane = ControlPlane::start(binaries);
    sidecar::install(&plane, Path::new(env!("CARGO_BIN_EXE_loopwatch")));
    say(&format!("creating {number} operators"));
    operator::install(&plane);
    let kubeconfigs: Vec<PathBuf> = (0..number).map(|each| account(&plane, each)).collect();
    say("measuring the API server alone");
    pause(Duration::from_secs(30));

    println!(
        "| period | requests, watches included | per sidecar and minute | CPU time of the API server | its memory | its connections |"
    );
    println!("|---|---|---|---|---|---|");
    let before = Totals::of(&plane);
    pause(Duration::from_secs(60));
    row(&plane, "no sidecar, one minute", before, 0, Duration::from_secs(60));

    say(&format!("starting {number} sidecars"));
    let began = Instant::now();
    let mut at_start = Totals::of(&plane);
    let mut running: Vec<Process> =
        kubeconfigs.iter().enumerate().map(|(each, file)| start(&plane, each, file)).collect();
    say(&format!("started after {:.1} s", began.elapsed().as_secs_f64()));

    for (name, from, until) in PERIODS {
        if !from.is_zero() {
            pause(from.saturating_sub(began.elapsed()));
            at_start = Totals::of(&plane);
        }
        pause(until.saturating_sub(began.elapsed()));
        row(&plane, name, at_start, number, until - from);
    }

    running.iter_mut().for_each(Process::assert_running);
    println!("{}", of_sidecars(&running));
    ExitCode::SUCCESS
}

impl Totals {
    fn of(plane: &ControlPlane) -> Self {
        let text = plane.kube.text("/metrics").unwrap_or_else(|error| panic!("{error}"));
        let of_family = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        let values = of_family.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Self { requests: values.sum(), cpu: cpu(plane.apiserver().id()) }
    }
}

/// Creates the account of an operator in a namespace of its own, with a few objects. Returns its
/// kubeconfig.
fn account(plane: &ControlPlane, number: usize) -> PathBuf {
    let (kube, namespace) = (&plane.kube, format!("tenant-{number}"));
    kube.namespace(&namespace);
    service_account(kube, &namespace);
    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
        "rules": [
            {"apiGroups": ["zoo.loopwatch.dev"], "resources": ["widgets", "widgets/status"],
                "verbs": ["get", "list", "watch", "update"]},
            {"apiGroups": [""], "resources": ["configmaps", "secrets"],
                "verbs": ["get", "list", "watch", "create", "update"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": ["get", "list", "watch", "create", "update"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": ACCOUNT, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));

    for object in 0..OBJECTS {
        kube.zoo("Widget", &namespace, &format!("widget-{object}"), json!({"suspend": true}));
    }

    plane.kubeconfig_of(&format!("{namespace}.kubeconfig"), &plane.url, &namespace, ACCOUNT)
}

fn start(plane: &ControlPlane, number: usize, kubeconfig: &Path) -> Process {
    let program = sidecar::program(&format!("sidecar-{number}"), plane);
    program
        .arg("run")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--listen=127.0.0.1:{}", ports::free()))
        .start()
}

fn row(plane: &ControlPlane, name: &str, before: Totals, sidecars: usize, span: Duration) {
    let now = Totals::of(plane);
    let requests = now.requests - before.requests;
    let each = requests / sidecars as f64 / (span.as_secs_f64() / 60.0);
    let each = if sidecars == 0 { "-".to_owned() } else { format!("{each:.1}") };
    let spent = now.cpu - before.cpu;
    let share = 100.0 * spent.as_secs_f64() / span.as_secs_f64();
    let memory = mebibytes(usage::memory(plane.apiserver().id(), "VmRSS"));

    println!(
        "| {name} | {requests:.0} | {each} | {:.1} s ({share:.0} % of a core) | {memory:.0} MiB | {} |",
        spent.as_secs_f64(),
        connections(plane.port),
    );
}

/// Returns a line about the processes themselves.
fn of_sidecars(running: &[Process]) -> String {
    let median = |mut figures: Vec<u64>| {
        figures.sort_unstable();
        mebibytes(figures[figures.len() / 2])
    };
    let field = |name| running.iter().map(|process| usage::memory(process.id(), name)).collect();
    let spent: Duration = running.iter().map(|process| cpu(process.id())).sum();
    format!(
        "each sidecar (median): {:.1} MiB at its peak, {:.1} MiB of its own at the end; CPU time {:.2} s",
        median(field("VmHWM")),
        median(field("RssAnon")),
        spent.as_secs_f64() / running.len() as f64,
    )
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn say(message: &str) {
    eprintln!("sidecars: {message}");
}
