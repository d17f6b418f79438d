//! Turns arguments, environment variables and the configuration file into a command and its
//! settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches};
use loopwatch_model::settings::Settings;

use super::{Cli, Command, LogFlags, exit_codes};
use crate::config::{self, Author, ClusterFlags, File};

/// The command with its settings, and the problems of the configuration.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) cli: Cli,
    /// The thresholds from the configuration file, or the defaults.
    pub(super) settings: Settings,
    /// The parts of the configuration that are invalid, and thus left out.
    pub(super) problems: Vec<String>,
    /// The variables and the keys of the file that have no effect.
    pub(super) note: Option<String>,
    /// The configuration file of `run`, which may not exist.
    pub(super) file: Option<PathBuf>,
    /// Whether the whole file is valid.
    pub(super) file_is_valid: bool,
}

/// Parses the arguments. `run` must start with any configuration, because an exit would take the
/// operator's Pod down. For `run`, this function therefore leaves out invalid arguments and
/// variables one by one. For every command, it leaves out invalid parts of the file, and the caller
/// decides whether to continue without them.
pub(super) fn parse(arguments: &[OsString]) -> Result<Parsed, clap::Error> {
    parse_with(arguments, Path::new(config::DEFAULT_FILE), Author::of_environment())
}

/// Like [`parse`]; `run` reads the `default` file if the user names none. `author` can write the
/// file.
fn parse_with(
    arguments: &[OsString],
    default: &Path,
    author: Author,
) -> Result<Parsed, clap::Error> {
    let runs = runs(arguments);
    let mut arguments = arguments.to_vec();
    let without_effect = without_effect(&arguments);
    let (mut ignored, mut problems) = (without_effect.clone(), Vec::new());
    let mut note = None;
    let (mut file, mut path, mut file_is_valid) = (None, None, true);
    let (mut unknown, mut is_unclear) = (None, false);

    while let Some((position, flag)) = joined_short_flag(&arguments) {
        let problem = format!(
            "unexpected argument '{flag} …': a long flag begins with two dashes, and the value of a short one is the next argument"
        );
        if !runs {
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, problem));
        }

        arguments.remove(position);
        is_unclear = true;
        problems.push(config::closing(&problem));
        unknown = Some((position, flag));
    }

    loop {
        let command =
            config::with_file(command(&ignored), file.as_ref().unwrap_or(&File::default()));
        let error = match command.try_get_matches_from(&arguments) {
            Ok(matches) if file.is_none() => {
                let named = named_file(&matches);
                let missing = named.is_none() && !default.exists();
                path = named.or_else(|| named_command(&matches, "run").then(|| default.to_owned()));

                let (mut valid, more) = match &path {
                    Some(path) if !missing => File::read(path, author),
                    _ => Default::default(),
                };

                note = note_without_effect(&without_effect, &valid.without(&without_effect));
                file_is_valid = more.is_empty();
                is_unclear |= valid.hides_access;
                problems.extend(more);
                file = Some(valid);
                continue; // parse again, with the values of the file as defaults
            }
            Ok(matches) => {
                let mut cli = Cli::from_arg_matches(&matches)?;
                if let Command::Run(args) = &mut cli.command {
                    args.flags.web.is_unclear = is_unclear;
                    let file = file.as_ref().filter(|_| runs);
                    problems.extend(file.and_then(|file| closing(file, path.as_deref())));
                    problems.extend(args.flags.traces.collector().1);
                }

                problems.extend(cli.command.cluster().and_then(ClusterFlags::problem));
                let settings = file.unwrap_or_default().settings;
                return Ok(Parsed { cli, settings, problems, note, file: path, file_is_valid });
            }
            Err(error) => error,
        };

        let problem = value_of(unknown.as_ref(), &arguments, &error)
            .unwrap_or_else(|| one_line(&error, &arguments));
        let informs = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        let closes = may_be_access(&error, &arguments, unknown.as_ref());
        unknown = unknown_flag(&arguments, &error).or(unknown);

        if !runs || informs || !leave_out(&mut arguments, &mut ignored, &error) {
            return Err(error);
        }

        is_unclear |= closes;
        problems.push(if closes { config::closing(&problem) } else { problem });
    }
}

/// The position of the first argument of `run` with one dash and more than one letter, and its first
/// letter: the rest may be secret. Users of programs in Go write long flags like this, and clap would
/// read `-web-auth` as `-w eb-auth`.
fn joined_short_flag(arguments: &[OsString]) -> Option<(usize, String)> {
    let run = command_position(arguments).filter(|position| arguments[*position] == "run")?;
    let is_joined = |argument: &OsString| {
        let letters = argument.to_str().and_then(|text| text.strip_prefix('-')).unwrap_or_default();
        let second = letters.chars().nth(1);
        !letters.starts_with('-') && second.is_some_and(|second| second != '=')
    };

    let position = find(arguments, run + 1, is_joined)?;
    Some((position, arguments[position].to_string_lossy().chars().take(2).collect()))
}

/// The problem with a file whose invalid part may be about access to the port.
fn closing(file: &File, path: Option<&Path>) -> Option<String> {
    let path = path.filter(|_| file.hides_access)?;
    Some(config::closing(&format!("{}: invalid", path.display())))
}

/// Whether an error may be about access to the port: it is about a flag for access, or an unknown
/// argument may be one, or the value of one.
fn may_be_access(
    error: &clap::Error,
    arguments: &[OsString],
    unknown: Option<&(usize, String)>,
) -> bool {
    if error.kind() == ErrorKind::InvalidUtf8
        && arguments.iter().all(|argument| argument.to_str().is_some())
    {
        return flags_not_utf8().any(|flag| config::decides_access(&flag)); // a variable
    }

    let unknown = unknown.filter(|_| is_value(unknown, arguments, error));
    let named = named(error).filter(|named| named.starts_with('-')).map(flag);
    match (named, unknown) {
        (Some(flag), _) if error.kind() != ErrorKind::UnknownArgument => {
            config::decides_access(flag.trim_start_matches('-'))
        }
        (Some(flag), _) => may_mean_access(flag),
        (None, Some((_, flag))) => may_mean_access(flag),
        (None, None) => true,
    }
}

/// Whether an unknown flag may be meant as one for access to the port.
fn may_mean_access(flag: &str) -> bool {
    let command = Cli::command();
    let run = command.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    let known = run.chain(command.get_arguments()).filter_map(clap::Arg::get_long);

    config::may_mean_access(flag.trim_start_matches('-'), known)
}

/// The position and the name of the unknown flag in an error.
fn unknown_flag(arguments: &[OsString], error: &clap::Error) -> Option<(usize, String)> {
    let named = named(error)
        .filter(|named| error.kind() == ErrorKind::UnknownArgument && named.starts_with('-'))?;
    Some((position(arguments, named)?, flag(named).to_owned()))
}

/// The problem of an argument after an unknown flag. It may be the value of that flag, and secret.
fn value_of(
    unknown: Option<&(usize, String)>,
    arguments: &[OsString],
    error: &clap::Error,
) -> Option<String> {
    let (_, flag) = unknown.filter(|_| is_value(unknown, arguments, error))?;
    Some(format!("unexpected argument after '{flag}', not shown as it may be secret"))
}

/// Whether an error is about the argument after an unknown flag.
fn is_value(
    unknown: Option<&(usize, String)>,
    arguments: &[OsString],
    error: &clap::Error,
) -> bool {
    let after = unknown.and_then(|(position, _)| arguments.get(*position));
    after.map(|argument| argument.to_string_lossy()).is_some_and(|argument| {
        let is_named = named(error) == Some(&*argument);
        error.kind() == ErrorKind::UnknownArgument && is_named && !argument.starts_with('-')
    })
}

/// The flags whose variables and keys of the file do not apply. A dump or a recording replaces the
/// cluster, so variables about a cluster, and about what to watch in it, must not conflict with it.
fn without_effect(arguments: &[OsString]) -> Vec<String> {
    let is_file = |argument: &OsString| {
        matches!(argument.to_string_lossy().split('=').next(), Some("--from" | "--snapshot"))
    };
    match arguments.iter().any(is_file) {
        true => config::not_for_files(),
        false => Vec::new(),
    }
}

/// Names the variables of these flags that are set, and the keys of the file, none of which has an
/// effect.
fn note_without_effect(flags: &[String], keys: &[&String]) -> Option<String> {
    let variables = flags.iter().map(|flag| config::variable(flag));
    let variables = variables.filter(|name| std::env::var_os(name).is_some());
    let keys = keys.iter().map(|flag| format!("the key {} of the file", flag.replace('-', "_")));
    let names: Vec<String> = variables.chain(keys).collect();

    (!names.is_empty())
        .then(|| format!("without effect on a dump or a recording: {}", names.join(", ")))
}

/// Formats an error as one line: the problem and the nearest valid name.
pub(super) fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return not_utf8(arguments); // clap names neither the argument nor the variable
    }

    let text = without_value(error);
    let lines = text.lines().map(str::trim).filter(|line| {
        // No name of an object begins with a hyphen.
        let is_noise = ["Usage:", "For more information", "tip: to pass '-"];
        !line.is_empty() && !is_noise.iter().any(|begin| line.starts_with(begin))
    });
    let joined = without_credentials(&lines.collect::<Vec<_>>().join("; "));
    let mut line =
        joined.trim_start_matches("error: ").replace("; tip: ", "; ").replace(":; ", ": ");
    if error.kind() == ErrorKind::UnknownArgument && named(error).is_some_and(is_negative) {
        line.push_str("; to give a flag a negative value, write --flag=-5");
    }

    if let Some(file) = file_without_flag(error, arguments) {
        line.push_str(&format!("; to read a dump or a recording, use --from {file}"));
    }

    match named(error)
        .filter(|named| named.starts_with('-') && position(arguments, named).is_none())
    {
        // The arguments do not contain it, so the value comes from the environment.
        Some(named) if error.get(ContextKind::InvalidValue).is_some() && has_variable(named) => {
            format!("{}: {line}", config::variable(flag(named).trim_start_matches('-')))
        }
        _ => line,
    }
}

/// The unexpected argument in an error, if it looks like a file for `--from`.
fn file_without_flag<'e>(error: &'e clap::Error, arguments: &[OsString]) -> Option<&'e str> {
    const EXTENSIONS: [&str; 5] = ["json", "yaml", "yml", "jsonl", "gz"];

    let file = named(error).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let command = Cli::command();
    let mut words = arguments.iter().skip(1).filter_map(|word| command.find_subcommand(word));
    let takes_file = words.next()?.get_arguments().any(|arg| arg.get_id() == config::FROM);
    let path = Path::new(file);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_file = EXTENSIONS.contains(&extension.unwrap_or_default()) || path.exists();

    Some(file).filter(|_| takes_file && !file.starts_with('-') && is_file)
}

/// Whether a flag has a variable. That of a report has none, so `-o` must be in the arguments.
fn has_variable(named: &str) -> bool {
    let long = flag(named).trim_start_matches('-');
    flags_with_variables().get_arguments().any(|argument| argument.get_long() == Some(long))
}

/// Whether an argument looks like a negative number.
fn is_negative(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The command that the arguments name, for example `loopwatch what-if delete`.
pub(super) fn command_of(arguments: &[OsString]) -> String {
    let (mut command, mut path) = (Cli::command(), "loopwatch".to_owned());
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        if let Some(next) = command.find_subcommand(argument).cloned() {
            path.extend([" ", argument]);
            command = next;
        }
    }

    path
}

/// The text of an error. It does not quote the value of an unknown flag, which may be a misspelt
/// flag for a token. Nor does it quote the value of a flag for a URL: any part of an invalid URL
/// may be secret.
fn without_value(error: &clap::Error) -> String {
    let text = error.to_string();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(named) =
            named(error).filter(|named| named.starts_with('-') && flag(named) != *named)
        && !is_known(flag(named))
    {
        return text.replace(named, &format!("{} …", flag(named)));
    }

    match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value))
            if named(error).is_some_and(|named| named.contains("URL")) =>
        {
            text.replace(&format!("'{value}'"), "'…'")
        }
        _ => text,
    }
}

/// Replaces the user, the password, the path and the query of each URL in a text, because they may
/// be secret.
fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"')).unwrap_or(part.len());
        let (url, rest) = part.split_at(end);
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let path = if path.len() > 1 { "/…" } else { path };

        shown.extend(["://", host, path, rest]);
    }

    shown
}

/// The problem with arguments or variables that are not UTF-8.
fn not_utf8(arguments: &[OsString]) -> String {
    match arguments.iter().find(|argument| argument.to_str().is_none()) {
        Some(argument) => format!("the argument '{}' is not UTF-8", argument.to_string_lossy()),
        None => {
            let variables: Vec<_> = flags_not_utf8().map(|flag| config::variable(&flag)).collect();
            format!("{}: not UTF-8", variables.join(", "))
        }
    }
}

/// The command line, with the environment variables of all flags except the `ignored` ones.
fn command(ignored: &[String]) -> clap::Command {
    let command = config::with_conflicts(config::with_help_of_run(Cli::command()));
    let command = exit_codes::with_help(command);
    config::with_variables(command, &flags_with_variables(), ignored)
}

/// An empty command with the flags that have a variable.
fn flags_with_variables() -> clap::Command {
    LogFlags::augment_args(config::keys())
}

/// The flags whose variables are not UTF-8. A variable with a path may be any text.
fn flags_not_utf8() -> impl Iterator<Item = String> {
    let path = clap::value_parser!(PathBuf).type_id();
    let command = flags_with_variables();
    let text = command.get_arguments().filter(|arg| arg.get_value_parser().type_id() != path);
    let names: Vec<String> = text.filter_map(clap::Arg::get_long).map(str::to_owned).collect();
    let value = |flag: &String| std::env::var_os(config::variable(flag));

    names.into_iter().filter(move |flag| value(flag).is_some_and(|value| value.to_str().is_none()))
}

/// Whether the command is `run` without `--strict`, which leaves out invalid arguments.
fn runs(arguments: &[OsString]) -> bool {
    command_position(arguments).is_some_and(|position| arguments[position] == "run")
        && !arguments.iter().any(|argument| argument == "--strict")
}

/// The position of the command in the arguments.
fn command_position(arguments: &[OsString]) -> Option<usize> {
    let command = Cli::command();
    find(arguments, 1, |argument| command.find_subcommand(argument).is_some())
}

/// The path of the configuration file, for a command that takes one.
fn named_file(matches: &clap::ArgMatches) -> Option<PathBuf> {
    let (_, matches) = matches.subcommand()?;
    matches.try_get_one::<PathBuf>("config").ok().flatten().cloned()
}

/// Whether the arguments name this command.
fn named_command(matches: &clap::ArgMatches, command: &str) -> bool {
    matches.subcommand_name() == Some(command)
}

/// The argument in an error: as the user wrote it, or as `--deadline <DURATION>`.
fn named(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(named) => Some(named),
        _ => None,
    }
}

/// Whether a command has this flag.
fn is_known(flag: &str) -> bool {
    let (command, long) = (Cli::command(), flag.trim_start_matches('-'));
    std::iter::once(&command).chain(command.get_subcommands()).any(|command| {
        let mut flags = command.get_arguments().filter_map(clap::Arg::get_long);
        flags.any(|known| known == long)
    })
}

/// The flag in the name of an argument.
fn flag(named: &str) -> &str {
    named.split([' ', '=']).next().unwrap_or(named)
}

/// The position of the argument in an error, which may have the short name of the flag.
fn position(arguments: &[OsString], named: &str) -> Option<usize> {
    let (run, flag) = (config::keys(), flag(named));
    let short = match flag.strip_prefix("--") {
        Some(long) => run
            .get_arguments()
            .find(|arg| arg.get_long() == Some(long))
            .and_then(|arg| arg.get_short()),
        // An unknown short flag: clap names `-5` for the argument `-5m`.
        None => flag.strip_prefix('-').and_then(|short| short.chars().next()),
    };

    // An argument that is not a flag may have the name of the command, which stays.
    let first = if flag.starts_with('-') {
        1
    } else {
        command_position(arguments).map_or(1, |command| command + 1)
    };
    let is_named = |text: &str| {
        let by_short = short.is_some_and(|short| {
            text.strip_prefix('-').is_some_and(|rest| rest.starts_with(short))
        });
        by_short || text == flag || text.split_once('=').is_some_and(|(name, _)| name == flag)
    };

    // An argument may contain a space: `args: ["run", "--watch example.io/Widget"]`.
    find(arguments, first, |argument| argument.to_string_lossy() == named)
        .or_else(|| find(arguments, first, |argument| is_named(&argument.to_string_lossy())))
}

/// The position of the first `wanted` argument, starting at `first`.
fn find(arguments: &[OsString], first: usize, wanted: impl Fn(&OsString) -> bool) -> Option<usize> {
    arguments.iter().skip(first).position(wanted).map(|position| position + first)
}

/// Removes the argument in an error, or ignores its environment variable. Returns false if there is
/// neither.
fn leave_out(
    arguments: &mut Vec<OsString>,
    ignored: &mut Vec<String>,
    error: &clap::Error,
) -> bool {
    if error.kind() == ErrorKind::InvalidUtf8 {
        let before = (arguments.len(), ignored.len());
        match find(arguments, 1, |argument| argument.to_str().is_none()) {
            Some(position) => _ = arguments.remove(position),
            None => ignored.extend(
                flags_not_utf8().filter(|flag| !ignored.contains(flag)).collect::<Vec<_>>(),
            ),
        }

        return before != (arguments.len(), ignored.len());
    }

    let Some(named) = named(error) else { return false };
    let Some(position) = position(arguments, named) else {
        let name = flag(named).trim_start_matches('-').to_owned();
        let new = !ignored.contains(&name);
        ignored.push(name);
        return new;
    };

    arguments.remove(position);

    // The value may be the next argument.
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && let Some(next) = arguments.get(position).map(|next| next.to_string_lossy())
        && (*next == **value || (!value.is_empty() && next.split(',').any(|part| part == value)))
    {
        arguments.remove(position);
    }

    // If a flag before the command has a value, clap takes that for a command.
    let is_value = |arguments: &[OsString]| !arguments[position].to_string_lossy().starts_with('-');
    while command_position(arguments).is_some_and(|command| position < command)
        && is_value(arguments)
    {
        arguments.remove(position);
    }

    true
}

#[cfg(test)]
mod tests;
