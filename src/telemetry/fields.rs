//! The fields of log lines in text. A value with spaces is quoted, so that programs can split a line
//! into fields (logfmt), and people see where a value ends.

use std::fmt;

use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::export::view::controls_display;

/// The field with the text of an event.
const MESSAGE: &str = "message";

/// The beginning of the names of fields about the place in the code, which libraries add.
const OF_LIBRARIES: &str = "log.";

/// Returns the formatter.
pub(super) fn quoted() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        MESSAGE => writer.write_str(&text.replace(controls_display, "\u{fffd}")),
        name if name.starts_with(OF_LIBRARIES) => Ok(()),
        name if is_plain(&text) => write!(writer, "{name}={text}"),
        name => write!(writer, "{name}={text:?}"),
    }
}

/// Returns whether a value needs no quotes, or has them already.
fn is_plain(text: &str) -> bool {
    let needs_quotes = |c: char| c == ' ' || c == '"' || c == '=' || controls_display(c);
    is_quoted(text) || (!text.is_empty() && !text.contains(needs_quotes))
}

/// Returns whether a value is one quoted text, in which other quotes are escaped.
fn is_quoted(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };

    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        let is_escaped = character == '\\' && characters.next().is_some();
        if !is_escaped && (matches!(character, '"' | '\\') || controls_display(character)) {
            return false;
        }
    }

    true
}

#[cfg(test)]
mod tests {
    use crate::telemetry::captured::Captured;

    #[test]
    fn values_with_spaces_are_quoted_and_others_are_not() {
        let log = Captured::start();
        let (error, address) = ("no such \"host\"", "127.0.0.1:9917");
        tracing::warn!(%error, %address, ?error, count = 3, empty = %"", "cannot\u{1b}[31m connect");

        let line = log.warnings().pop().expect("a warning");
        let expected = "cannot\u{fffd}[31m connect error=\"no such \\\"host\\\"\" address=127.0.0.1:9917 \
                        error=\"no such \\\"host\\\"\" count=3 empty=\"\"";
        assert!(line.ends_with(expected), "{line}");
    }

    /// A text of somebody else that begins and ends with a quote stays one value on one line.
    #[test]
    fn a_foreign_text_between_quotes_is_quoted_too() {
        let log = Captured::start();
        let error = "\"x\" level=error\n\u{1b}[31mWARN forged=\"y\"";
        tracing::warn!(%error, "cannot connect");

        let line = log.warnings().pop().expect("a warning");
        let quoted = r#" error="\"x\" level=error\n\u{1b}[31mWARN forged=\"y\"""#;
        assert!(line.ends_with(quoted), "{line}");
    }
}
