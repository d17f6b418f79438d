//! Compares loopwatch with kube-state-metrics. Each runs alone, against the same API server with
//! the same 50,000 custom resources of 4.3 KB. `cargo bench --bench beside` prints the figures of
//! `docs/benchmarks.md`. With `-- --hold`, it only starts the cluster, for use with a profiler: it
//! prints the path of a kubeconfig, changes objects for a minute whenever you press Enter, and
//! exits on Ctrl-D.
//!
//! Results are ratios of two processes measured in the same way in the same run, because absolute
//! times depend on the machine. The kube-state-metrics configuration next to this file produces the
//! same nine series per object as `--object-series=all`.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its result, or why there is none"
)]

mod kernel;
mod measure;
mod shops;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::measure::{Figures, MeasuredProcess};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::guard::{self, Program};
use loopwatch_testbed::operator::{self, Operator};
use loopwatch_testbed::sidecar::program as loopwatch;
use loopwatch_testbed::webhook::Webhook;
use loopwatch_testbed::{binaries, ports, repository, sidecar};

fn main() -> ExitCode {
    guard::stand_guard_if_asked();
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS; // `cargo bench -- --list` runs every benchmark with this flag
    }

    let found = binaries::find().and_then(|all| Ok((all, binaries::kube_state_metrics()?)));
    let (binaries, kube_state_metrics) = match found {
        Ok(found) => found,
        Err(missing) => {
            eprintln!("{missing}");
            return ExitCode::FAILURE;
        }
    };

    let plane = ControlPlane::start(binaries);
    sidecar::install(&plane, Path::new(env!("CARGO_BIN_EXE_loopwatch")));
    say(&format!("loading {} objects", shops::COUNT));

    let kubeconfig = shops::load(&plane);
    if std::env::args().any(|argument| argument == "--hold") {
        println!("{}", kubeconfig.display());
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            shops::change(&plane, Duration::from_secs(60));
        }

        return ExitCode::SUCCESS;
    }

    say("measuring kube-state-metrics");
    let theirs =
        measure_one(&plane, run_kube_state_metrics(&plane, &kubeconfig, &kube_state_metrics));
    say("measuring loopwatch");

    let ours = measure_one(&plane, run_loopwatch(&plane, &kubeconfig, "loopwatch", &[]));
    say("measuring loopwatch --object-series=all");

    let all = measure_one(
        &plane,
        run_loopwatch(&plane, &kubeconfig, "loopwatch-all", &["--object-series=all"]),
    );

    say("measuring loopwatch beside an operator, with every source on");
    let full = measure_beside_operator(&plane, &kubeconfig);
    print!("{}", table::render(&theirs, &ours, &all, &full));
    ExitCode::SUCCESS
}

/// Measures loopwatch while it also scrapes an operator, reads its process, keeps its state, sends
/// traces and posts alerts.
fn measure_beside_operator(plane: &ControlPlane, kubeconfig: &Path) -> Figures {
    operator::install(plane);
    plane.kube.namespace("beside");

    let operator = Operator::start(plane, "beside.operator", "beside", &[]);
    let (collector, alertmanager) = (Webhook::listen(), Webhook::listen());
    let flags = [
        format!("--otlp=http://127.0.0.1:{}", collector.port),
        format!("--alertmanager=http://127.0.0.1:{}", alertmanager.port),
        format!("--scrape=http://{}/metrics", operator.metrics),
        format!("--pprof=http://{}/debug/pprof", operator.pprof),
        format!("--pid={}", operator.process.id()),
        format!("--state-dir={}", plane.directory().join("beside.state").display()),
        format!("--profile-dir={}", plane.directory().join("beside.profiles").display()),
    ];

    let flags = flags.each_ref().map(String::as_str);
    measure_one(plane, run_loopwatch(plane, kubeconfig, "loopwatch-full", &flags))
}

/// Measures one process from its start to its end.
fn measure_one(plane: &ControlPlane, mut process: MeasuredProcess) -> Figures {
    let mut figures = Figures::default();
    figures.synced(&mut process);
    figures.scraped(&process);
    figures.idle(&process, Duration::from_secs(30));
    figures.changed(&process, |span| shops::change(plane, span), Duration::from_secs(60));
    figures.settled(&process);

    figures
}

fn run_loopwatch(
    plane: &ControlPlane,
    kubeconfig: &Path,
    name: &str,
    flags: &[&str],
) -> MeasuredProcess {
    let port = ports::free();
    let program = loopwatch(name, plane)
        .arg("run")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .args(flags);

    MeasuredProcess::start(&program, port)
}

fn run_kube_state_metrics(
    plane: &ControlPlane,
    kubeconfig: &Path,
    binary: &Path,
) -> MeasuredProcess {
    let (port, own) = (ports::free(), ports::free());
    let config = repository("benches/beside/kube-state-metrics.yaml");
    let program = Program::new("kube-state-metrics", binary, plane.directory())
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args([
            "--host=127.0.0.1",
            "--telemetry-host=127.0.0.1",
            "--custom-resource-state-only=true",
        ])
        .args([format!("--port={port}"), format!("--telemetry-port={own}")])
        .arg(format!("--custom-resource-state-config-file={}", config.display()));

    MeasuredProcess::start(&program, port)
}

fn say(message: &str) {
    eprintln!("beside: {message}");
}
