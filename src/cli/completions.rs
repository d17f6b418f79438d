//! `loopwatch completions`: a script that completes commands and flags.

use clap::Args;
use clap_complete::Shell;

use super::FINE;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// The shell; for example: source <(loopwatch completions bash)
    shell: Shell,
}

pub(super) fn completions(args: CompletionsArgs, command: &mut clap::Command) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "loopwatch", &mut script);
    super::say(&String::from_utf8_lossy(&script));
    Ok(FINE)
}
