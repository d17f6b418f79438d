//! loopwatch against a real API server and real operators: `cargo test --test live [FILTER]`.
//!
//! One process, one cluster. Tests run side by side, each in a namespace of its own with an operator and a loopwatch of
//! its own; those that disturb the API server itself come last and one by one. What the faults showed is printed as a
//! table at the end.

#![expect(clippy::panic, clippy::print_stderr, reason = "tests fail by panicking, and tell people")]

#[allow(dead_code, unreachable_pub, reason = "shared with an example, which uses another part of it")]
#[path = "testbed/testbed.rs"]
mod testbed;

#[path = "live/alerts.rs"]
mod alerts;
#[path = "live/bed.rs"]
mod bed;
#[path = "live/case.rs"]
mod case;
#[path = "live/check.rs"]
mod check;
#[path = "live/compare.rs"]
mod compare;
#[path = "live/discovery.rs"]
mod discovery;
#[path = "live/faults.rs"]
mod faults;
#[path = "live/healthy.rs"]
mod healthy;
#[path = "live/install.rs"]
mod install;
#[path = "live/itself.rs"]
mod itself;
#[path = "live/lossless.rs"]
mod lossless;
#[path = "live/path.rs"]
mod path;
#[path = "live/recorder.rs"]
mod recorder;
#[path = "live/recording.rs"]
mod recording;
#[path = "live/table.rs"]
mod table;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use self::testbed::guard;

/// Tests at once: they wait for most of their time, on two cores as well.
const AT_ONCE: usize = 6;

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
    bed::stop(conclusion.has_failed());
    conclusion.exit_code()
}

/// All tests, those that need the cluster for themselves last.
fn trials() -> Vec<Trial> {
    // The longest come first.
    let parallel = [
        path::trials(),
        healthy::trials(),
        lossless::trials(),
        discovery::trials(),
        alerts::trials(),
        faults::trials(),
        check::trials(),
        recording::trials(),
        itself::trials(),
        install::trials(),
    ];
    let alone = [lossless::serial_trials(), path::serial_trials()];
    parallel.into_iter().chain(alone).flatten().collect()
}
