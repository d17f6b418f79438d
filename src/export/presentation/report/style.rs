//! How to write a document: with which writer, how wide, and whether in colours.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

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
            Self::Yaml => {
                let json = json.replace(is_unsafe, "\u{fffd}");
                serde_saphyr::to_string(&serde_json::from_str::<serde_json::Value>(&json)?)?
            }
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

/// Escapes such characters, which does not change the meaning of the document.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        if is_unsafe(character) {
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }

    text
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
