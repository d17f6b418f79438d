//! The exit codes of the commands: the end of their help, and the table in `docs/commands.md`.

use clap::Command;

/// What the exit codes of a command mean. [`USAGE`](super::USAGE) means the same for all commands.
struct Meanings {
    command: &'static str,
    /// The meaning of [`SUCCESS`](super::SUCCESS).
    success: &'static str,
    /// The meaning of [`FINDINGS`](super::FINDINGS); empty if the command never exits with it.
    findings: &'static str,
    /// The meaning of [`FAILURE`](super::FAILURE); empty if the command never exits with it.
    failure: &'static str,
}

/// The commands, in the order of the help.
const MEANINGS: &[Meanings] = &[
    Meanings {
        command: "run",
        success: "stopped by SIGTERM or SIGINT",
        findings: "",
        failure: "with --strict, the configuration is invalid; loopwatch waits for a port that is in use",
    },
    Meanings {
        command: "check",
        success: "no finding of severity warning or critical",
        findings: "such findings, or objects in a state of --fail-on-state; --fail-on changes the severity that counts, and --fail-on none counts none",
        failure: "loopwatch cannot read the cluster, the file or its configuration; or it found nothing, but could not read all of the lists or of the file",
    },
    Meanings {
        command: "explain",
        success: "loopwatch explains the object",
        findings: "",
        failure: "loopwatch cannot find or read the object",
    },
    Meanings {
        command: "record",
        success: "loopwatch wrote the recording",
        findings: "",
        failure: "loopwatch cannot read the cluster or write the file",
    },
    Meanings {
        command: "replay",
        success: "no finding of severity warning or critical is open at the end; with --serve, always",
        findings: "such findings are open at the end",
        failure: "loopwatch cannot read the recording, or it found nothing, but could not read all of it",
    },
    Meanings {
        command: "demo",
        success: "always, because the findings of the demo are intended",
        findings: "",
        failure: "loopwatch cannot listen on the address",
    },
    Meanings {
        command: "what-if",
        success: "nothing stops the deletion",
        findings: "something stops the deletion",
        failure: "loopwatch cannot read the cluster, the file or the object",
    },
    Meanings {
        command: "rights",
        success: "loopwatch printed the report",
        findings: "",
        failure: "loopwatch cannot read the cluster or the file",
    },
    Meanings {
        command: "doctor",
        success: "no problem",
        findings: "problems",
        failure: "doctor cannot ask the server, or nothing answers a single check",
    },
];

/// Adds the exit codes to the end of the help of each command.
pub(super) fn with_help(command: Command) -> Command {
    MEANINGS.iter().fold(command, |command, meanings| {
        command.mut_subcommand(meanings.command, |subcommand| {
            let before = subcommand.get_after_help().map(|help| format!("{help}\n\n"));
            subcommand.after_help(before.unwrap_or_default() + &help(meanings))
        })
    })
}

fn help(Meanings { success, findings, failure, .. }: &Meanings) -> String {
    let codes = [
        (super::SUCCESS, *success),
        (super::FINDINGS, *findings),
        (super::FAILURE, *failure),
        (super::USAGE, "the command line is invalid"),
    ];
    let used = codes.iter().filter(|(_, meaning)| !meaning.is_empty());
    let lines = used.map(|(code, meaning)| format!("\n  {code:<3} {meaning}"));

    format!("Exit codes:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    /// Commands that only print texts, and cannot fail.
    const PRINTERS: [&str; 4] = ["rules", "dashboards", "runbook", "completions"];

    fn table() -> String {
        let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { text.to_owned() };
        let rows = MEANINGS.iter().map(|Meanings { command, success, findings, failure }| {
            let (findings, failure) = (or_dash(findings), or_dash(failure));
            format!("| `{command}` | {success} | {findings} | {failure} |\n")
        });

        format!("| command | 0 | 1 | 2 |\n|---|---|---|---|\n{}", rows.collect::<String>())
    }

    #[test]
    fn the_documentation_has_the_exit_codes_of_every_command() {
        crate::golden::check_section("docs/commands.md", "exit codes", &table());

        let command = Cli::command();
        let told = MEANINGS.iter().map(|meanings| meanings.command).chain(PRINTERS);
        let mut told: Vec<&str> = told.collect();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        told.sort_unstable();
        all.sort_unstable();
        assert_eq!(told, all);
    }

    #[test]
    fn the_help_of_a_command_ends_with_its_exit_codes() {
        let command = with_help(Cli::command());
        let help = |name: &str| {
            let found = command.find_subcommand(name).expect("a command");
            found.get_after_help().expect("a help").to_string()
        };

        assert!(help("replay").ends_with(
            "\n  1   such findings are open at the end\n  2   loopwatch cannot read the recording, or it found nothing, but could not read all of it\n  64  the command line is invalid"
        ));
        assert!(!help("explain").contains("\n  1  "));
        assert!(help("what-if").starts_with("Examples:"));
    }
}
