//! Reads the configuration file: YAML whose keys are the names of the flags, `settings` and
//! `findings`. In a Pod, only some flags are keys ([`Author`]).

mod author;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::Read as _;
use std::path::Path;

use clap::builder::ValueParser;
use clap::{Arg, Command, FromArgMatches};
use loopwatch_model::settings::Settings;
use loopwatch_model::settings::bounds::Bounds;
use loopwatch_model::time::Span;
use serde_json::{Map, Value};

pub(crate) use self::author::Author;
use self::author::refusal;
use super::findings::{self, FINDINGS_KEY, NAMES_NOTHING};
use super::spelling::unknown;
use super::web::{decides_access, may_mean_access};
use super::{Flags, keys};
use crate::net::first_line;
use crate::system::files::{is_irregular, open_regular};

/// Size of the largest file that loopwatch reads. Parsing a list needs a few hundred bytes per
/// item, and the sidecar has 128 MiB.
const MAX_BYTES: u64 = 64 * 1024;

/// Limit on nodes in the file, including aliases. Without aliases, a file of the largest size has
/// far fewer.
const MAX_NODES: usize = 64 * 1024;

/// Maximum number of problems to report. The rest is only counted.
const MAX_PROBLEMS: usize = 20;

/// The key of the thresholds. It is not a flag.
const SETTINGS: &str = "settings";

/// The flag that names the file. It is not a key.
const CONFIG: &str = "config";

/// The valid part of a configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// The values of flags, by the long name of the flag.
    pub(super) values: BTreeMap<String, Vec<String>>,
    /// The thresholds and the rules about findings, with the deadlines and limits from
    /// [`File::values`].
    pub settings: Settings,
    /// Whether an invalid part of the file may be about access to the port.
    pub hides_access: bool,
}

impl File {
    /// Reads the file at `path`, which `author` can write. Returns the valid parts, and a problem
    /// for each invalid part.
    #[must_use]
    pub(crate) fn read(path: &Path, author: Author) -> (Self, Vec<String>) {
        let (file, mut problems) = match contents(path) {
            Ok(text) => Self::parse(&text, author),
            Err(problem) => Self::invalid(problem, author),
        };
        let more = problems.len().saturating_sub(MAX_PROBLEMS);
        if more > 0 {
            problems.truncate(MAX_PROBLEMS);
            problems.push(format!("and {more} more problems"));
        }

        problems
            .iter_mut()
            .for_each(|problem| problem.insert_str(0, &format!("{}: ", path.display())));
        (file, problems)
    }

    /// Parses the text of a file; otherwise like [`File::read`].
    #[must_use]
    pub(crate) fn parse(text: &str, author: Author) -> (Self, Vec<String>) {
        let entries = match entries(text) {
            Ok(entries) => entries,
            Err(problem) => return Self::invalid(problem, author),
        };
        let (mut file, mut problems) = (Self::default(), Vec::new());
        let (command, mut refused) = (keys(), Vec::new());

        for (key, value) in entries {
            let name = key.replace('_', "-");
            if name == SETTINGS {
                problems.extend(file.take_settings(value));
            } else if name == FINDINGS_KEY {
                let (rules, more) = findings::read(value);
                file.settings.findings = rules;
                problems.extend(more);
            } else if flag(&command, &name).is_some() && !author.may_set(&name) {
                refused.push((key, name));
            } else if let Err(problem) = file.take(&command, &key, &name, value) {
                let names = || known(&command).filter_map(Arg::get_long);
                let may_be_access = match flag(&command, &name) {
                    Some(_) => decides_access(&name),
                    None => may_mean_access(&name, names().chain([SETTINGS, FINDINGS_KEY])),
                };
                file.hides_access |= author.decides_access() && may_be_access;
                problems.push(problem);
            }
        }
        problems.extend(refusal(&refused));

        let arguments =
            file.values.iter().flat_map(|(name, values)| arguments(&command, name, values));
        if let Ok(flags) = flags(&command, arguments.collect()) {
            flags.apply(&mut file.settings);
        }

        (file, problems)
    }

    /// An empty file, because the one of this author is invalid as a whole.
    fn invalid(problem: String, author: Author) -> (Self, Vec<String>) {
        (Self { hides_access: author.decides_access(), ..Self::default() }, vec![problem])
    }

    /// Removes the values of these flags, and returns the flags that had one.
    pub(crate) fn without<'a>(&mut self, flags: &'a [String]) -> Vec<&'a String> {
        flags.iter().filter(|flag| self.values.remove(*flag).is_some()).collect()
    }

    /// Adopts the value of a key, if the flag of that name accepts it.
    fn take(
        &mut self,
        command: &Command,
        key: &str,
        name: &str,
        value: Value,
    ) -> Result<(), String> {
        let Some(arg) = flag(command, name) else {
            let names = known(command).filter_map(Arg::get_long).chain([SETTINGS, FINDINGS_KEY]);
            return Err(unknown(key, names.map(|name| name.replace('-', "_"))));
        };
        if self.values.contains_key(name) {
            return Err(format!(
                "{key}: the file sets this key twice, with a hyphen and with an underscore"
            ));
        }

        let values = texts(arg, value).map_err(|problem| format!("{key}: {problem}"))?;
        flags(command, arguments(command, name, &values)).map_err(|error| {
            // Prefers the message of the value's own parser, because clap adds the name of the flag
            // and its usage.
            let reason = error.source().map_or_else(|| first_line(&error), ToString::to_string);
            format!("{key}: {}", reason.trim_start_matches("error: "))
        })?;
        if !values.is_empty() {
            self.values.insert(name.to_owned(), values);
        }

        Ok(())
    }

    /// Adopts the thresholds one by one, and returns the problems.
    fn take_settings(&mut self, value: Value) -> Vec<String> {
        let (entries, defaults) = match (value, serde_json::to_value(Settings::default())) {
            (Value::Object(entries), Ok(defaults)) => (entries, defaults),
            (Value::Null, _) => return Vec::new(),
            _ => {
                return vec![format!(
                    "{SETTINGS}: expected keys and values, for example `settle: 10s`"
                )];
            }
        };

        let (mut all, mut problems) = (defaults, Vec::new());
        overlay(&mut all, "", entries, &mut problems);
        if let Ok(settings) = serde_json::from_value(all) {
            let findings = std::mem::take(&mut self.settings.findings); // from another key
            self.settings = Settings { findings, ..settings };
        }

        problems
    }
}

/// The flags that are keys of a file.
fn known(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_long() != Some(CONFIG))
}

/// The flag of this name, if it is a key of a file.
fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    known(command).find(|arg| arg.get_long() == Some(name))
}

fn contents(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("cannot read the file: {error}");
    let file = open_regular(path).map_err(|error| match is_irregular(&error) {
        true => "not a regular file".to_owned(),
        false => unreadable(error),
    })?;
    let metadata = file.metadata().map_err(unreadable)?;

    if metadata.len() > MAX_BYTES {
        return Err(format!("the file has {} bytes; the maximum is {MAX_BYTES}", metadata.len()));
    }

    // The file may have grown since its size was checked.
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("the file has more than {MAX_BYTES} bytes"));
    }

    Ok(text)
}

fn entries(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }

    let options = serde_saphyr::options! { budget: serde_saphyr::budget! {
        max_nodes: MAX_NODES, max_total_scalar_bytes: 16 * MAX_NODES
    } };
    let parsed = serde_saphyr::from_str_with_options(text, options);
    match parsed.map_err(|error| format!("invalid YAML: {}", first_line(&error)))? {
        Value::Null => Ok(Map::new()),
        Value::Object(entries) => Ok(entries),
        _ => Err("expected keys and values, for example `deadline: 10m`".to_owned()),
    }
}

/// Converts a value to the texts that the flag `arg` takes: none, one or several.
fn texts(arg: &Arg, value: Value) -> Result<Vec<String>, String> {
    let whole_number = ValueParser::from(clap::value_parser!(usize)).type_id();
    let number = arg.get_value_parser().type_id() == whole_number;
    let one = |value| match value {
        Value::String(text) => Ok(text),
        Value::Number(value) if number => Ok(value.to_string()),
        // YAML has already parsed `0123` as a number and `y` as a Boolean, so the original text is
        // lost.
        Value::Number(_) | Value::Bool(_) => {
            Err("expected a string; put the value in quotes".to_owned())
        }
        _ => Err("expected a string or a list of strings".to_owned()),
    };

    if !arg.get_action().takes_values() {
        return match value {
            Value::Bool(set) => Ok(if set { vec!["true".to_owned()] } else { Vec::new() }),
            Value::Null => Ok(Vec::new()),
            _ => Err("expected true or false".to_owned()),
        };
    }

    match (value, arg.get_value_delimiter()) {
        (Value::Null, _) => Ok(Vec::new()),
        (Value::Array(items), _) if items.is_empty() => Err(NAMES_NOTHING.to_owned()),
        (Value::Array(items), _) => items.into_iter().map(one).collect(),
        (value, Some(delimiter)) => {
            Ok(one(value)?.split(delimiter).map(|part| part.trim().to_owned()).collect())
        }
        (value, None) => Ok(vec![one(value)?]),
    }
}

/// The command line that sets the flag `name` to `values`.
fn arguments(command: &Command, name: &str, values: &[String]) -> Vec<String> {
    let takes_values = |arg: &Arg| arg.get_long() == Some(name) && arg.get_action().takes_values();
    match command.get_arguments().any(takes_values) {
        true => values.iter().map(|value| format!("--{name}={value}")).collect(),
        false => values.iter().map(|_| format!("--{name}")).collect(),
    }
}

fn flags(command: &Command, arguments: Vec<String>) -> Result<Flags, clap::Error> {
    Flags::from_arg_matches(&command.clone().try_get_matches_from(arguments)?)
}

/// Replaces the values at `pointer` in `settings` with `entries`, one by one. If [`Settings`]
/// refuses a value, reports a problem and keeps the old value.
fn overlay(
    settings: &mut Value,
    pointer: &str,
    entries: Map<String, Value>,
    problems: &mut Vec<String>,
) {
    let place = format!("{SETTINGS}{}", pointer.replace('/', "."));
    for (name, value) in entries {
        let known = settings.pointer(pointer).and_then(Value::as_object);
        if !known.is_some_and(|known| known.contains_key(&name)) {
            let names = known.into_iter().flat_map(Map::keys).cloned();
            problems.push(format!("{place}: {}", unknown(&name, names)));
            continue;
        }

        let value = match value {
            Value::Object(limits) if name == "limits" => {
                overlay(settings, "/limits", limits, problems);
                continue;
            }
            value => value,
        };

        let mut changed = settings.clone();
        if let Some(entry) = changed.pointer_mut(pointer).and_then(|all| all.get_mut(&name)) {
            *entry = value;
        }

        match serde_json::from_value::<Settings>(changed.clone()) {
            Ok(new) => match out_of_bounds(&new, pointer, &name) {
                Some(problem) => problems.push(format!("{place}.{name}: {problem}")),
                None => *settings = changed,
            },
            Err(error) => problems.push(format!("{place}.{name}: {}", first_line(&error))),
        }
    }
}

/// The problem with a setting whose value, or one of whose values, is outside its bounds. A recording
/// may contain such values.
fn out_of_bounds(settings: &Settings, pointer: &str, name: &str) -> Option<String> {
    let in_json = |settings: &Settings| {
        let all = serde_json::to_value(settings).unwrap_or_default(); // plain data cannot fail
        all.pointer(pointer).and_then(|all| all.get(name)).cloned()
    };
    let value = in_json(settings)?;
    let values = match &value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(values) => values.values().collect(), // deadlines by kind
        one => vec![one],
    };

    // Texts, such as names of annotations, have no bounds, even if they look like durations.
    let is_text = |value: &Value| value.as_str().is_some_and(|text| Span::parse(text).is_err());
    if in_json(&Settings::default()).is_none_or(|default| is_text(&default)) {
        return None;
    }

    values.into_iter().find_map(|value| {
        let (number, bounds) = match value.as_str() {
            Some(text) => {
                (u64::try_from(Span::parse(text).ok()?.0).ok()?, Bounds::of_duration(name))
            }
            None => (value.as_u64()?, Bounds::of_number(name)),
        };
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (!bounds.contains(number)).then(|| format!("expected {bounds}, not {shown}"))
    })
}

#[cfg(test)]
mod tests;
