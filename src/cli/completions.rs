//! `loopwatch completions`: a shell script that completes commands and flags.

use clap::Args;
use clap_complete::Shell;

use super::SUCCESS;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Shell; to load the script in bash, for example, run: source <(loopwatch completions bash)
    shell: Shell,
}

pub(super) fn completions(
    args: CompletionsArgs,
    command: &mut clap::Command,
) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "loopwatch", &mut script);
    super::print(&String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}
