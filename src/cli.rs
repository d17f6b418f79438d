//! The command line: one file per command.

mod check;
mod completions;
mod connection;
mod demo;
mod doctor;
mod exit_codes;
mod explain;
mod file;
mod object;
mod parse;
mod play;
mod record;
mod replay;
mod rights;
mod run;
mod server;
mod shipped;
mod timeline;
mod what_if;

use std::io::Write as _;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::parse::Parsed;
use crate::config::{ClusterFlags, one_of};
use crate::export::presentation::report::{Colours, choose_colours};
use crate::export::view::without_controls;
use crate::telemetry::{self, LogFormat};

/// Exit code: the command succeeded and there is no finding.
const SUCCESS: u8 = 0;
/// Exit code: there are findings.
const FINDINGS: u8 = 1;
/// Exit code: the command could not observe the cluster, the dump or the recording.
const FAILURE: u8 = 2;
/// Exit code: the command line is invalid (`EX_USAGE` of sysexits.h).
const USAGE: u8 = 64;

/// The log filter of commands that print a report. The report shows the error, so the client need
/// not log it as well.
const REPORT_FILTER: &str = "error,kube_client::client=off";

/// Times every custom resource of a Kubernetes operator from spec change to Ready and alerts when
/// one gets stuck.
#[derive(Debug, Parser)]
#[command(name = "loopwatch", version, propagate_version = true, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogFlags,
    /// Colours of reports: auto, always or never; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", value_parser = colours)]
    color: Colours,
}

const EXAMPLES: &str = "\
Examples:
  loopwatch demo                         Replay a recorded incident; no cluster needed
  loopwatch check                        Check the cluster of your kubeconfig once
  loopwatch check --from dump.yaml       Check a dump (`kubectl get KIND -A -o yaml`)
  loopwatch explain widget web           Show one object, its owners, children and findings
  loopwatch what-if delete widget web    Predict what a deletion would take with it
  loopwatch rights                       Compare the operator's permissions with their use
  loopwatch doctor                       Say why an installation of loopwatch shows nothing
  loopwatch run                          Export metrics as a sidecar, on :9917/metrics
  loopwatch record -o incident.jsonl.gz  Record what loopwatch observes in a cluster
  loopwatch replay incident.jsonl.gz     Show the findings of a recording over time";

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a cluster and export metrics, as a sidecar or standalone
    Run(Box<run::RunArgs>),
    /// Print a report on a cluster, a dump or a recording: findings, evidence and the next command
    /// to run
    Check(check::CheckArgs),
    /// Show one object with its owners, children, finalizers and findings
    Explain(explain::ExplainArgs),
    /// Record what loopwatch observes in a cluster, for `replay`
    Record(record::RecordArgs),
    /// Show when the findings in a recording opened and closed, and the state at its end
    Replay(replay::ReplayArgs),
    /// Replay the recorded incident that comes with loopwatch
    Demo(demo::DemoArgs),
    /// Predict what a deletion would take with it and what would stop it, without deleting anything
    WhatIf(what_if::WhatIfArgs),
    /// Compare the permissions of the operator's account with what the operator has been seen to do
    Rights(rights::RightsArgs),
    /// Say what does not work in an installation of loopwatch: containers, permissions, scraping
    Doctor(doctor::DoctorArgs),
    /// Print the alert and recording rules for Prometheus
    Rules(shipped::ShippedArgs),
    /// Print the Grafana dashboards as a JSON array
    Dashboards(shipped::ShippedArgs),
    /// Print the runbook of a finding: the first command, causes, actions and their risks
    Runbook(shipped::RunbookArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
}

#[derive(clap::Args, Debug)]
struct LogFlags {
    /// Log filter in the syntax of RUST_LOG, such as `debug` or `info,loopwatch=debug` [default:
    /// info; error for commands that print a report]
    #[arg(long, value_name = "FILTER", global = true, value_parser = NonEmptyStringValueParser::new(), help_heading = "Logging")]
    log: Option<String>,
    /// Log format: text or json
    #[arg(long, value_name = "FORMAT", global = true, default_value = "text", value_parser = log_format, help_heading = "Logging")]
    log_format: LogFormat,
}

impl Command {
    /// The flags about the cluster, for a command that observes one.
    fn cluster(&self) -> Option<&ClusterFlags> {
        match self {
            Self::Run(args) => Some(&args.flags.cluster),
            Self::Check(args) => Some(&args.cluster),
            Self::Rights(args) => Some(&args.cluster),
            Self::Record(args) => Some(&args.cluster),
            _ => None,
        }
    }
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let Parsed { cli, settings, mut problems, note, file, .. } = match parse::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, &arguments),
    };

    choose_colours(cli.color);
    problems.extend(start_logs(&cli));
    let lenient = matches!(&cli.command, Command::Run(args) if !args.strict);
    if !lenient && !problems.is_empty() {
        problems.iter().for_each(|problem| print_error(problem));
        return ExitCode::from(FAILURE);
    }

    note.iter().for_each(|note| print_error(note));
    let code = match cli.command {
        Command::Run(args) => run::run(*args, settings, problems, file, arguments),
        Command::Check(args) => check::check(args, settings),
        Command::Record(args) => record::record(args, settings),
        Command::Replay(args) => replay::replay(args, settings),
        Command::Demo(args) => demo::demo(args),
        Command::WhatIf(args) => what_if::what_if(args),
        Command::Explain(args) => explain::explain(args, settings),
        Command::Rights(args) => rights::rights(args, settings),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Rules(args) => shipped::rules(&args),
        Command::Dashboards(args) => shipped::dashboards(&args),
        Command::Runbook(args) => shipped::runbook_text(&args),
        Command::Completions(args) => completions::completions(args, &mut Cli::command()),
    };

    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::from(FAILURE)
        }
    }
}

/// Starts logging. If the filter is invalid, logs with the default filter and returns the problem.
fn start_logs(cli: &Cli) -> Option<String> {
    let reports = !matches!(cli.command, Command::Run(_) | Command::Record(_));
    let default = if reports { REPORT_FILTER } else { telemetry::DEFAULT_FILTER };
    let filter = cli.log.log.as_deref().unwrap_or(default);
    let problem = telemetry::init_logs(filter, cli.log.log_format).err()?;
    let _ = telemetry::init_logs(telemetry::DEFAULT_FILTER, LogFormat::default());

    Some(problem.to_string())
}

fn colours(text: &str) -> Result<Colours, String> {
    let all = [("auto", Colours::Auto), ("always", Colours::Always), ("never", Colours::Never)];
    one_of(text, &all)
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("expected text or json, not {text:?}")),
    }
}

fn refuse(error: &clap::Error, arguments: &[std::ffi::OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            if let Err(problem) = written(error.print()) {
                print_error(&format!("{problem:#}"));
                return ExitCode::from(FAILURE);
            }

            let asked = error.exit_code() == 0;
            ExitCode::from(if asked { SUCCESS } else { USAGE })
        }
        _ => {
            let command = parse::command_of(arguments);
            print_error(&format!("{}; see `{command} --help`", parse::one_line(error, arguments)));
            ExitCode::from(USAGE)
        }
    }
}

/// Prints an error or a note to standard error. It may quote a name or a file that somebody else
/// wrote.
/// A standard error that nobody reads any more, or on a full disk, changes nothing about the result.
fn print_error(message: &str) {
    let line = format!("loopwatch: {}\n", without_controls(message));
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Replaces the progress line on standard error.
fn progress_line(text: &str) {
    drop(std::io::stderr().write_all(format!("\r\x1b[K{text}").as_bytes()));
}

/// Prints results to standard output. No other function does.
///
/// # Errors
/// If not all of the text could be written, for example because the disk is full. A reader that closes the
/// pipe early (`| head`) is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    written(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

fn written(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
