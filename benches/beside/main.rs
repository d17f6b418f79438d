//! loopwatch beside kube-state-metrics: the same API server, the same 50,000 custom resources of 4.3 KB, one after the
//! other, each alone. `cargo bench --bench beside` prints the figures of `docs/benchmarks.md`; with `-- --hold` it only
//! keeps the cluster, for a profiler: it says where its kubeconfig is, changes objects for a minute with Enter, and ends
//! with Ctrl-D.
//!
//! Everything is a ratio of two processes measured in the same way in the same run, because seconds of one machine say
//! nothing about another. kube-state-metrics gets the configuration beside this file, which yields for each object the
//! nine series that `--object-series=all` yields.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark tells its result, or why there is none"
)]

mod measure;
mod shops;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::measure::{Figures, Subject};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::guard::{self, Program};
use loopwatch_testbed::sidecar::program as loopwatch;
use loopwatch_testbed::{binaries, ports, repository, sidecar};

fn main() -> ExitCode {
    guard::stand_guard_if_asked();
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS; // `cargo bench -- --list` asks every benchmark for its names
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
    let theirs = measure_one(&plane, run_kube_state_metrics(&plane, &kubeconfig, &kube_state_metrics));
    say("measuring loopwatch");
    let ours = measure_one(&plane, run_loopwatch(&plane, &kubeconfig, "unhealthy"));
    say("measuring loopwatch --object-series=all");
    let all = measure_one(&plane, run_loopwatch(&plane, &kubeconfig, "all"));
    print!("{}", table::render(&theirs, &ours, &all));
    ExitCode::SUCCESS
}

/// One run from the start of a process to its end.
fn measure_one(plane: &ControlPlane, mut subject: Subject) -> Figures {
    let mut figures = Figures::default();
    figures.synced(&mut subject);
    figures.scraped(&subject);
    figures.idle(&subject, Duration::from_secs(30));
    figures.changed(&subject, |span| shops::change(plane, span), Duration::from_secs(60));
    figures.settled(&subject);
    figures
}

fn run_loopwatch(plane: &ControlPlane, kubeconfig: &Path, series: &str) -> Subject {
    let port = ports::free();
    let program = loopwatch(&format!("loopwatch-{series}"), plane)
        .arg("run")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--object-series={series}"));
    Subject::start(&program, port)
}

fn run_kube_state_metrics(plane: &ControlPlane, kubeconfig: &Path, binary: &Path) -> Subject {
    let (port, own) = (ports::free(), ports::free());
    let config = repository("benches/beside/kube-state-metrics.yaml");
    let program = Program::new("kube-state-metrics", binary, plane.directory())
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(["--host=127.0.0.1", "--telemetry-host=127.0.0.1", "--custom-resource-state-only=true"])
        .args([format!("--port={port}"), format!("--telemetry-port={own}")])
        .arg(format!("--custom-resource-state-config-file={}", config.display()));
    Subject::start(&program, port)
}

fn say(what: &str) {
    eprintln!("beside: {what}");
}
