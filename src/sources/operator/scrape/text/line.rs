//! Parses one line: a name, labels, a value, and perhaps a timestamp and an exemplar.

use std::borrow::Cow;

use memchr::memchr2;

use super::Problem;

/// A parsed line, which borrows its text.
pub(super) struct Parsed<'a> {
    /// The name before the braces; empty if a quoted name is inside them.
    bare: &'a [u8],
    pub(super) labels: Labels<'a>,
    pub(super) value: f64,
}

/// The labels of a series: the text between the braces, which the parser has checked.
#[derive(Clone, Copy)]
pub(in crate::sources::operator::scrape) struct Labels<'a>(&'a [u8]);

/// One part between the braces: a label, or the quoted name of the metric.
struct Part<'a> {
    /// The name of the label, or of the metric.
    name: &'a [u8],
    /// The raw value; `None` for the name of the metric.
    value: Option<&'a [u8]>,
    /// The rest of the text.
    rest: &'a [u8],
}

/// Maximum number of labels of a series. Prometheus' usual limit is 30.
const MAX_LABELS: usize = 64;

/// The length of the name without quotes at the beginning of a line.
pub(super) fn name_length(line: &[u8]) -> usize {
    line.iter().position(|byte| !is_name(*byte)).unwrap_or(line.len())
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
}

impl<'a> Parsed<'a> {
    pub(super) fn of(line: &'a [u8]) -> Result<Self, Problem> {
        let (bare, after_name) = line.split_at(name_length(line));
        if bare.first().map_or(!after_name.starts_with(b"{"), u8::is_ascii_digit) {
            return Err(Problem::Name);
        }

        let trimmed = after_name.trim_ascii_start();
        let (labels, rest) = match trimmed.strip_prefix(b"{") {
            Some(inside) => Labels::check(inside, bare.is_empty())?,
            // A character other than a blank ends the name.
            None if !trimmed.is_empty() && trimmed.len() == after_name.len() => {
                return Err(Problem::Name);
            }
            None => (Labels(b""), trimmed),
        };

        let (value, rest) = word(rest);
        if value.is_empty() {
            return Err(Problem::NoValue);
        }

        let value = number(value).ok_or(Problem::Value)?;
        let (timestamp, exemplar) =
            if rest.starts_with(b"#") { (&b""[..], rest) } else { word(rest) };
        if !timestamp.is_empty() && number(timestamp).is_none()
            || !exemplar.is_empty() && exemplar[0] != b'#'
        {
            return Err(Problem::Trailing);
        }

        Ok(Self { bare, labels, value })
    }

    /// The name of the metric; `None` if it is not UTF-8.
    pub(super) fn name(&self) -> Option<Cow<'a, str>> {
        if !self.bare.is_empty() {
            return std::str::from_utf8(self.bare).ok().map(Cow::Borrowed);
        }

        let mut rest = self.labels.0;
        while let Ok(Some(part)) = Part::next(rest) {
            if part.value.is_none() {
                return unescaped(part.name);
            }
            rest = part.rest;
        }

        None
    }
}

/// Splits off the text before the next blank, and the blanks around it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl<'a> Labels<'a> {
    /// Returns the value of a label. Bytes that are not UTF-8 become replacement characters.
    pub(in crate::sources::operator::scrape) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.0;
        while let Ok(Some(part)) = Part::next(rest) {
            match part.value {
                Some(value) if part.name == name.as_bytes() => return Some(lossy(value)),
                _ => rest = part.rest,
            }
        }

        None
    }

    /// Returns the labels in order.
    #[cfg(test)]
    pub(super) fn all(self) -> Vec<(String, String)> {
        let (mut rest, mut all) = (self.0, Vec::new());
        while let Ok(Some(part)) = Part::next(rest) {
            if let Some(value) = part.value {
                all.push((lossy(part.name).into_owned(), lossy(value).into_owned()));
            }
            rest = part.rest;
        }

        all
    }

    /// The raw text between the braces.
    pub(in crate::sources::operator::scrape) const fn raw(self) -> &'a [u8] {
        self.0
    }

    /// Checks the labels up to the closing brace; also returns the text after it.
    fn check(inside: &'a [u8], needs_name: bool) -> Result<(Self, &'a [u8]), Problem> {
        let (mut rest, mut labels, mut names) = (inside, 0, 0);
        while let Some(part) = Part::next(rest)? {
            if part.value.is_some() {
                labels += 1;
            } else {
                names += 1;
            }

            rest = part.rest;
        }

        if labels > MAX_LABELS {
            return Err(Problem::TooManyLabels);
        }

        let rest = rest.trim_ascii_start();
        let Some(after) = rest.strip_prefix(b"}") else { return Err(Problem::Labels) };
        if names != usize::from(needs_name) {
            return Err(Problem::Name);
        }

        Ok((Self(&inside[..inside.len() - rest.len()]), after))
    }
}

impl<'a> Part<'a> {
    /// Returns the next part; `None` at the end.
    fn next(text: &'a [u8]) -> Result<Option<Self>, Problem> {
        let text = text.trim_ascii_start();
        match text.first() {
            None | Some(b'}') => Ok(None),
            Some(b'"') => Self::quoted(&text[1..]).map(Some),
            Some(_) => Self::bare(text).map(Some),
        }
    }

    fn quoted(text: &'a [u8]) -> Result<Self, Problem> {
        let (name, rest) = quoted(text)?;
        match rest.trim_ascii_start().strip_prefix(b"=") {
            Some(rest) => Self::value(name, rest),
            None => Ok(Self { name, value: None, rest: separated(rest)? }),
        }
    }

    fn bare(text: &'a [u8]) -> Result<Self, Problem> {
        let (name, rest) = text.split_at(name_length(text));
        if name.first().is_none_or(u8::is_ascii_digit) {
            return Err(Problem::Labels);
        }

        let rest = rest.trim_ascii_start().strip_prefix(b"=").ok_or(Problem::Labels)?;
        Self::value(name, rest)
    }

    fn value(name: &'a [u8], rest: &'a [u8]) -> Result<Self, Problem> {
        let rest = rest.trim_ascii_start().strip_prefix(b"\"").ok_or(Problem::Labels)?;
        let (value, rest) = quoted(rest)?;
        Ok(Self { name, value: Some(value), rest: separated(rest)? })
    }
}

/// Splits after the closing quote.
fn quoted(text: &[u8]) -> Result<(&[u8], &[u8]), Problem> {
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', &text[from..]).ok_or(Problem::Labels)?;
        if text[at] == b'"' {
            return Ok((&text[..at], &text[at + 1..]));
        }

        // Skips the escaped character, if any.
        from = text.len().min(at + 2);
    }
}

/// Skips the comma between two labels or after the last one.
fn separated(text: &[u8]) -> Result<&[u8], Problem> {
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b',') => Ok(&text[1..]),
        // The brace, or the end of the text between the braces.
        Some(b'}') | None => Ok(text),
        Some(_) => Err(Problem::Labels),
    }
}

fn lossy(raw: &[u8]) -> Cow<'_, str> {
    unescaped(raw).unwrap_or_else(|| Cow::Owned(String::from_utf8_lossy(raw).into_owned()))
}

/// Resolves escapes; `None` if the text is not UTF-8.
fn unescaped(raw: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(raw).ok()?;
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }

    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(escaped @ ('\\' | '"')) => plain.push(escaped),
                // Prometheus keeps unknown escapes as they are.
                other => plain.extend(std::iter::once('\\').chain(other)),
            },
            other => plain.push(other),
        }
    }

    Some(Cow::Owned(plain))
}
