//! Formats numbers and words for people.

use std::fmt::{self, Write as _};

use loopwatch_model::time::{Age, Span, Timestamp};

/// A number with thousands separators.
pub(crate) struct Number(pub u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }

        Ok(())
    }
}

/// The word with its first letter in upper case.
pub(crate) fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Whether a character is invisible and controls the display, such as an escape or a text-direction
/// mark.
#[must_use]
pub(crate) fn controls_display(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of several lines, with a replacement for each character that controls the display.
#[must_use]
pub(crate) fn without_controls(text: &str) -> String {
    text.replace(|character| character != '\n' && controls_display(character), "\u{fffd}")
}

/// `3d4h`: the time since or until an instant.
pub(crate) fn age(at: Timestamp, since: Timestamp) -> Age {
    Span(at.since(since).0.abs()).as_age()
}

/// A text of loopwatch's own without the backticks around code, for readers that do not render them.
pub(crate) fn without_code_marks(text: &str) -> String {
    text.replace('`', "")
}

/// An instant for people, in whole seconds: `2026-01-31 12:00:00 UTC`.
#[must_use]
pub(crate) fn utc(at: Timestamp) -> String {
    let text = at.to_string();
    let whole = text.split(['.', 'Z']).next().unwrap_or_default();
    whole.replacen('T', " ", 1) + " UTC"
}

/// How long something has lasted, and since when: `for 47m, since 2026-01-31 12:00:00 UTC`.
#[must_use]
pub(crate) fn lasting(at: Timestamp, since: Timestamp) -> String {
    format!("for {}, since {}", age(at, since), utc(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(Number(number).to_string(), text);
        }
    }

    #[test]
    fn an_instant_is_in_whole_seconds_of_utc() {
        let at = Timestamp::parse("2026-01-31T12:00:00.987Z").expect("a time");
        assert_eq!(utc(at), "2026-01-31 12:00:00 UTC");
        assert_eq!(lasting(at.after(Span::mins(47)), at), "for 47m, since 2026-01-31 12:00:00 UTC");
    }
}
