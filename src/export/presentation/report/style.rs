//! How to write a document: with which writer, how wide, and whether in colours.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;

use crate::export::view::controls_display;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text for a terminal.
    Table,
    /// Versioned JSON.
    Json,
    /// The same as YAML.
    Yaml,
    /// Markdown for tickets.
    Markdown,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    /// On a terminal that shows them, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether to write Markdown instead of text for a terminal.
    pub(super) markdown: bool,
    /// Whether to use colours.
    pub(super) colours: bool,
    /// Width of the terminal in columns.
    pub(super) width: usize,
}

impl OutputFormat {
    /// Whether programs read it, so that nothing else may be on standard output.
    #[must_use]
    pub(crate) fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Converts a JSON document to this format for programs.
    ///
    /// # Errors
    /// If the text is no JSON.
    pub(crate) fn convert(self, json: &str) -> anyhow::Result<String> {
        let json = json.trim_end();
        let mut text = match self {
            Self::Yaml => escaped(&serde_saphyr::to_string(&Quoted(&serde_json::from_str(json)?))?),
            _ => escaped(json),
        };

        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}

/// Whether a character of a JSON document, which somebody else may have written, controls a terminal.
/// JSON escapes those of ASCII, and a line feed may end the document.
fn is_unsafe(character: char) -> bool {
    !character.is_ascii() && controls_display(character)
}

/// Escapes such characters in strings with double quotes, which does not change the meaning of the
/// document.
fn escaped(document: &str) -> String {
    let mut text = String::with_capacity(document.len() + 1);
    for character in document.chars() {
        if is_unsafe(character) {
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }

    text
}

/// A value that quotes the strings with such characters, because YAML has escapes only in double
/// quotes.
struct Quoted<'a>(&'a Value);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if text.contains(is_unsafe) => {
                DoubleQuoted(text).serialize(serializer)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Quoted)),
            Value::Object(entries) => {
                serializer.collect_map(entries.iter().map(|(key, value)| (key, Quoted(value))))
            }
            value => value.serialize(serializer),
        }
    }
}

/// The choice of the user, which is the same for everything that the process prints.
static CHOICE: OnceLock<Colours> = OnceLock::new();

/// Sets when reports use colours. Only the first call has an effect.
pub(crate) fn choose_colours(choice: Colours) {
    let _ = CHOICE.set(choice);
}

/// Width in columns without a terminal: a readable line length.
const USUAL_WIDTH: usize = 110;

impl Style {
    /// The style for standard output.
    #[must_use]
    pub(crate) fn of_stdout(format: OutputFormat) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colours = match CHOICE.get().copied().unwrap_or_default() {
            Colours::Auto => terminal && !dumb && !is_set("NO_COLOR"),
            Colours::Always => true,
            Colours::Never => false,
        };
        let width = terminal_size::terminal_size()
            .filter(|_| terminal)
            .map(|(width, _)| usize::from(width.0));

        Self {
            markdown: format == OutputFormat::Markdown,
            colours,
            width: width.unwrap_or(USUAL_WIDTH).clamp(40, 160),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_have_the_same_texts_and_no_control_characters() {
        let value = serde_json::json!({
            "list": ["a\u{202e}b", "c\u{9b}d: \"e\"", "plain", "two\nlines", "yes", 1, null],
            "object": {"name": format!("{}\u{202e}", "long ".repeat(40))},
        });
        for format in [OutputFormat::Json, OutputFormat::Yaml] {
            let text = format.convert(&value.to_string()).expect("a document");
            assert!(!text.contains(is_unsafe), "{text}");

            let again: Value = serde_saphyr::from_str(&text).expect("YAML, or JSON");
            assert_eq!(again, value, "{text}");
        }
    }
}
