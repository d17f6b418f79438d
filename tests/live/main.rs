//! loopwatch against a real API server and real operators: `cargo test --test live [FILTER]`.
//!
//! All tests share one process and one cluster. They run in parallel, each with its own namespace,
//! operator and loopwatch. Tests that disturb the API server run last, one at a time. At the end, a
//! table shows the result of each fault. `cargo test --test live -- --ignored` runs the tests that
//! take minutes or need a build of their own.

#![expect(
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print what they measured"
)]

mod alertmanager;
mod alerts;
mod bed;
mod burst;
mod case;
mod chart;
mod check;
mod clock;
mod clusters;
mod compare;
mod cost;
mod crossing;
mod deletion;
mod demo; // the recording of an incident
mod discovery;
mod doctor;
mod down;
mod events;
mod explain;
mod exposition;
mod faults;
mod fleet;
mod fleet_changes;
mod frameworks;
mod healthy;
mod image;
mod injection;
mod install;
mod itself;
mod kopf;
mod loops;
mod lossless;
mod memory;
mod node;
mod notify;
mod outage;
mod ownership;
mod objects;
mod pages;
mod path;
mod pods;
mod port;
mod process;
mod profiles;
mod prometheus;
mod proof;
mod published;
mod recorder;
mod recording;
mod references;
mod revisions;
mod scaling;
mod table;
mod traces;
mod tuning;
mod turns;
mod webhooks;
mod workloads;
mod owners;
mod what_if;
mod zoo;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use loopwatch_testbed::guard;

/// Parallel tests. Even on two cores, they spend most of their time waiting.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    guard::stand_guard_if_asked();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);

    let mut trials = trials();
    let wanted = !arguments.list && trials.iter().any(|trial| !arguments.is_filtered_out(trial));
    if let Err(missing) = if wanted { bed::start() } else { Ok(()) } {
        eprintln!("\nNONE OF THE LIVE TESTS RUN: {missing}\n");
        if !missing.is_harmless() {
            return ExitCode::FAILURE;
        }

        trials = trials.into_iter().map(|trial| trial.with_ignored_flag(true)).collect();
    }

    let conclusion = libtest_mimic::run(&arguments, trials);
    table::print();
    node::stop(conclusion.has_failed());
    bed::stop(conclusion.has_failed());
    conclusion.exit_code()
}

/// All tests; those that disturb the cluster are last.
fn trials() -> Vec<Trial> {
    // The longest tests come first.
    let parallel = [
        node::trials(),
        memory::trials(),
        revisions::trials(),
        clusters::trials(),
        path::trials(),
        healthy::trials(),
        down::trials(),
        published::trials(),
        lossless::trials(),
        burst::trials(),
        outage::trials(),
        owners::trials(),
        discovery::trials(),
        what_if::trials(),
        events::trials(),
        explain::trials(),
        doctor::trials(),
        alertmanager::trials(),
        alerts::trials(),
        pages::trials(),
        objects::trials(),
        faults::trials(),
        fleet::trials(),
        fleet_changes::trials(),
        deletion::trials(),
        ownership::trials(),
        references::trials(),
        check::trials(),
        clock::trials(),
        recording::trials(),
        itself::trials(),
        tuning::trials(),
        notify::trials(),
        traces::trials(),
        turns::trials(),
        crossing::trials(),
        webhooks::trials(),
        image::trials(),
        install::trials(),
        injection::trials(),
        chart::trials(),
        pods::trials(),
        port::trials(),
        process::trials(),
        profiles::trials(),
        kopf::trials(),
        frameworks::trials(),
        loops::trials(),
        zoo::trials(),
        workloads::trials(),
    ];

    let alone = [
        lossless::serial_trials(),
        path::serial_trials(),
        cost::serial_trials(),
        memory::serial_trials(),
        demo::trials(),
        scaling::serial_trials(),
        install::serial_trials(),
        chart::serial_trials(),
        doctor::serial_trials(),
    ];

    parallel.into_iter().chain(alone).flatten().collect()
}
