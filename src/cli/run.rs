//! `loopwatch run`: the sidecar. It starts whatever its configuration is, and ends only when it is told to.

use std::path::PathBuf;

use clap::Args;

use super::FINE;
use crate::app;
use crate::config::{ClusterFlags, Config, JudgeFlags, ServeFlags};

/// Flags of `run`.
#[derive(Args, Debug)]
pub(super) struct RunArgs {
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    judge: JudgeFlags,
    #[command(flatten)]
    serve: ServeFlags,
    /// Keep what was learnt across restarts in this folder
    #[arg(long, value_name = "DIR", env = "LOOPWATCH_STATE_DIR", help_heading = "Judging")]
    state_dir: Option<PathBuf>,
    /// Exit when the configuration is wrong, instead of running without it: for tests of a configuration
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: RunArgs, problems: Vec<String>) -> anyhow::Result<u8> {
    let RunArgs { cluster, judge, serve, state_dir, strict } = args;
    let mut problems = problems;
    let mut config = if strict {
        Config::new(cluster, judge, serve)?
    } else {
        let (config, more) = Config::at_any_price(cluster, judge, serve);
        problems.extend(more.into_iter().map(|problem| problem.0));
        config
    };
    config.state_dir = state_dir.or(config.state_dir);
    app::runtime()?.block_on(app::run(config, problems));
    Ok(FINE)
}
