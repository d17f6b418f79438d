//! `loopwatch run`: runs the sidecar. It starts with any configuration, and ends only on a signal.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use loopwatch_model::settings::Settings;

use super::parse::{self, Parsed};
use super::{Command, SUCCESS};
use crate::app::{self, Configuration, Reload};
use crate::config::Flags;
use crate::export::server::WebFile;

/// Flags of `run`.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// Exit if a part of the configuration is invalid, instead of running without it. A kind of --watch
    /// that the API server does not serve yet only opens a finding
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) flags: Flags,
}

/// Runs the command. `file` is the configuration file. `arguments` is the command line, with which loopwatch
/// reads the file again when it changes.
pub(super) fn run(
    args: RunArgs,
    settings: Settings,
    problems: Vec<String>,
    file: Option<PathBuf>,
    arguments: Vec<OsString>,
) -> anyhow::Result<u8> {
    if args.strict {
        check_web_file(&args)?;
    }

    let reload = file.map(|path| Reload { path, read: Box::new(move || read(&arguments)) });
    let configuration = configuration(args, settings, problems);
    app::block_on(app::run(configuration, reload))?;
    Ok(SUCCESS)
}

/// Reads the web configuration file, which `--strict` requires to be valid.
fn check_web_file(args: &RunArgs) -> anyhow::Result<()> {
    let Some(file) = &args.flags.web.web_config_file else { return Ok(()) };
    WebFile::read(file).web.map(drop).map_err(anyhow::Error::msg)
}

/// Reads the configuration once more.
///
/// # Errors
/// The problems of the file, if a part of it is invalid.
fn read(arguments: &[OsString]) -> Result<Configuration, Vec<String>> {
    let Parsed { cli, settings, problems, file_is_valid, .. } =
        parse::parse(arguments).map_err(|error| vec![parse::one_line(&error, arguments)])?;
    match cli.command {
        Command::Run(args) if file_is_valid => Ok(configuration(*args, settings, problems)),
        _ => Err(problems),
    }
}

fn configuration(args: RunArgs, mut settings: Settings, problems: Vec<String>) -> Configuration {
    args.flags.apply(&mut settings);
    Configuration { flags: args.flags, settings, problems }
}
