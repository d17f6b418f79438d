//! `loopwatch run`: the sidecar. It starts with any configuration, and ends only on a signal.

use clap::Args;
use loopwatch_model::settings::Settings;

use super::SUCCESS;
use crate::app;
use crate::config::Flags;

/// Flags of `run`.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    /// Exit if a part of the configuration is invalid, instead of running without it
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) flags: Flags,
}

pub(super) fn run(args: RunArgs, mut settings: Settings, problems: Vec<String>) -> anyhow::Result<u8> {
    args.flags.apply(&mut settings);
    app::runtime()?.block_on(app::run(args.flags, settings, problems));
    Ok(SUCCESS)
}
