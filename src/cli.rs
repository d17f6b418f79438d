//! The command line: one file per command.

mod check;
mod completions;
mod demo;
mod record;
mod replay;
mod run;
mod shipped;
mod timeline;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::telemetry::LogFormat;

/// Everything was fine, and nothing was found.
const FINE: u8 = 0;
/// Something was found.
const FOUND: u8 = 1;
/// It was not possible to look.
const CANNOT_LOOK: u8 = 2;
/// The command line cannot be understood (`EX_USAGE` of sysexits.h).
const USAGE: u8 = 64;

/// Watches what a Kubernetes operator promises and measures whether it keeps it.
#[derive(Debug, Parser)]
#[command(name = "loopwatch", version, propagate_version = true, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogFlags,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch demo                                   a recorded incident, its findings, page and metrics; no cluster needed
  loopwatch check                                  what is wrong in the cluster of your kubeconfig, now
  loopwatch check --snapshot dump.yaml             the same from `kubectl get -A -o yaml`, without a cluster
  loopwatch run                                    the sidecar: what the operator beside it owns, on :9917/metrics
  loopwatch record -o incident.jsonl.gz            keep what happens, to look at it later
  loopwatch replay incident.jsonl.gz               what was found, and when";

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch, judge and export: the sidecar, or a standalone exporter
    Run(run::RunArgs),
    /// Look once: what is wrong now, with evidence and the next command to run
    Check(check::CheckArgs),
    /// Record what a cluster does, for `replay`
    Record(record::RecordArgs),
    /// Tell what a recording shows: what was found, and when
    Replay(replay::ReplayArgs),
    /// Replay the recorded incident that comes with loopwatch and show it
    Demo(demo::DemoArgs),
    /// Print the alert and recording rules for Prometheus
    Rules,
    /// Print the Grafana dashboards, as a JSON array
    Dashboards,
    /// Print a completion script for your shell
    Completions(completions::CompletionsArgs),
}

#[derive(clap::Args, Debug)]
struct LogFlags {
    /// What to log, as in RUST_LOG: `debug`, `info,loopwatch=debug` … [default: info]
    #[arg(long, value_name = "FILTER", env = "LOOPWATCH_LOG", global = true, help_heading = "Logging")]
    log: Option<String>,
    /// How to log: text or json [default: text]
    #[arg(long, value_name = "FORMAT", env = "LOOPWATCH_LOG_FORMAT", global = true, value_parser = log_format, help_heading = "Logging")]
    log_format: Option<LogFormat>,
}

/// Runs the command line and says with which code to exit.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let (cli, problems) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    let quiet = !matches!(cli.command, Command::Run(_) | Command::Record(_));
    let filter =
        cli.log.log.unwrap_or_else(|| if quiet { "error" } else { crate::telemetry::DEFAULT_FILTER }.to_owned());
    let mut problems = problems;
    if let Err(error) = crate::telemetry::init_logs(&filter, cli.log.log_format.unwrap_or_default()) {
        problems.push(error.to_string());
        let _ = crate::telemetry::init_logs(crate::telemetry::DEFAULT_FILTER, LogFormat::default());
    }
    let code = match cli.command {
        Command::Run(args) => run::run(args, problems),
        Command::Check(args) => check::check(args),
        Command::Record(args) => record::record(args),
        Command::Replay(args) => replay::replay(args),
        Command::Demo(args) => demo::demo(args),
        Command::Rules => shipped::rules(),
        Command::Dashboards => shipped::dashboards(),
        Command::Completions(args) => completions::completions(args, &mut Cli::command()),
    };
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(CANNOT_LOOK)
        }
    }
}

/// Parses the arguments. `run` must start whatever they are, because an exit would take the operator's Pod down with
/// it: arguments and environment variables that cannot be used are left out one by one, and told.
fn parse(arguments: &[std::ffi::OsString]) -> Result<(Cli, Vec<String>), clap::Error> {
    let mut arguments = arguments.to_vec();
    let (mut problems, mut ignored) = (Vec::new(), Vec::new());
    let runs = arguments.iter().skip(1).any(|a| a == "run") && !arguments.iter().any(|a| a == "--strict");
    loop {
        let matches = without_variables(Cli::command(), &ignored).try_get_matches_from(&arguments);
        let error = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(cli) => return Ok((cli, problems)),
            Err(error) => error,
        };
        let informs = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if !runs || informs || !leave_out(&mut arguments, &mut ignored, &error) {
            return Err(error);
        }
        problems.push(one_line(&error));
    }
}

/// Takes out the argument that an error names, or ignores the variable that stands for it; false when neither is there.
fn leave_out(arguments: &mut Vec<std::ffi::OsString>, ignored: &mut Vec<String>, error: &clap::Error) -> bool {
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else { return false };
    // `--deadline <DURATION>` names the flag and its value.
    let flag = named.split([' ', '=']).next().unwrap_or_default().to_owned();
    let is_named = |argument: &std::ffi::OsString| {
        let text = argument.to_string_lossy();
        *text == flag || text.split_once('=').is_some_and(|(name, _)| name == flag)
    };
    let Some(position) = arguments.iter().skip(1).position(is_named).map(|p| p + 1) else {
        let new = !ignored.contains(&flag);
        ignored.push(flag);
        return new;
    };
    let takes_value =
        error.get(ContextKind::InvalidValue).is_some() && !arguments[position].to_string_lossy().contains('=');
    let end = (position + 1 + usize::from(takes_value)).min(arguments.len());
    arguments.drain(position..end);
    true
}

/// The command line without the environment variables of some flags.
fn without_variables(command: clap::Command, flags: &[String]) -> clap::Command {
    let forget = |argument: clap::Arg| {
        let named =
            argument.get_long().is_some_and(|long| flags.iter().any(|flag| flag.trim_start_matches('-') == long));
        if named { argument.env(None::<&'static str>) } else { argument }
    };
    command.mut_args(forget).mut_subcommand("run", |run| run.mut_args(forget))
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is neither text nor json")),
    }
}

fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            let asked = error.exit_code() == 0;
            ExitCode::from(if asked { FINE } else { USAGE })
        }
        _ => {
            complain(&format!("{}; see `loopwatch --help`", one_line(error)));
            ExitCode::from(USAGE)
        }
    }
}

/// What is wrong, and the nearest valid name, in one line.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let joined = lines.collect::<Vec<_>>().join("; ");
    joined.trim_start_matches("error: ").replace("; tip: ", "; ").replace(":; ", ": ")
}

#[expect(clippy::print_stderr, reason = "the one place that tells the user what went wrong")]
fn complain(message: &str) {
    eprintln!("loopwatch: {message}");
}

/// The one place that writes results.
fn say(text: &str) {
    use std::io::Write;
    // A reader that has gone away (`| head`) is not an error of ours.
    let _ = write!(std::io::stdout().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<std::ffi::OsString> {
        line.split(' ').map(Into::into).collect()
    }

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_the_nearest_name() {
        for (line, expected) in [
            ("loopwatch check --snapsot x", "--snapshot"),
            ("loopwatch chek", "check"),
            ("loopwatch check --watch apps/v1", "does not name a kind"),
            ("loopwatch check --operator nonsense", "NAMESPACE/DEPLOYMENT"),
        ] {
            let error = one_line(&parse(&arguments(line)).expect_err(line));
            assert!(error.contains(expected) && !error.contains('\n'), "{line:?} gave {error:?}");
        }
    }

    #[test]
    fn run_starts_whatever_its_flags_are() {
        let line = "loopwatch run --no-such-flag --watch apps/v1 --listen nowhere --expose-ui";
        let (cli, problems) = parse(&arguments(line)).expect("run always starts");
        assert!(matches!(cli.command, Command::Run(_)));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(parse(&arguments("loopwatch run --strict --no-such-flag")).is_err());
    }
}
