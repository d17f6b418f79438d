//! The evidence of findings.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::cut::fitting;
use crate::time::{Span, Timestamp};

/// Typed names and numbers by key, in alphabetical order. [`FINDINGS`] lists the keys of each code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence(pub BTreeMap<&'static str, Value>);

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name or a word.
    Text(String),
    /// Several names.
    Names(Vec<String>),
    /// A count.
    Count(i64),
    /// A number that may have a fraction.
    Number(f64),
    /// A number of bytes.
    Bytes(u64),
    /// A span of time.
    Span(Span),
    /// An instant.
    Time(Timestamp),
    /// How long something has taken or has been true. People need not know more than that it was less
    /// than a second.
    Elapsed(Span),
    /// The time elapsed since this instant. [`Value::at`] converts it to a [`Value::Elapsed`].
    Age(Timestamp),
}

/// The maximum length of all names of one value, in bytes: anybody who may write objects can make
/// thousands of findings with the longest names.
const MAX_NAMES: usize = 1024;

/// Replaces the last names by their number if all are too long together. At least one stays.
fn cut_names(names: &mut Vec<String>) {
    let fits = fitting(names, MAX_NAMES, String::len);
    if let Some(fits) = fits.map(|fits| fits.max(1)).filter(|fits| *fits < names.len()) {
        let left_out = names.len() - fits;
        names.truncate(fits);
        names.push(format!("… and {left_out} more"));
    }
}

impl Evidence {
    /// Returns evidence without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text unless it is empty.
    #[must_use]
    pub fn text(mut self, key: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.insert(key, Value::Text(text));
        }

        self
    }

    /// Adds names, unless there are none.
    #[must_use]
    pub fn names(self, key: &'static str, names: Vec<String>) -> Self {
        if names.is_empty() { self } else { self.with(key, Value::Names(names)) }
    }

    /// Returns the evidence as of `now`, with ages converted to the time elapsed.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self(self.0.into_iter().map(|(key, value)| (key, value.at(now))).collect())
    }

    /// Moves the instants from which ages are measured by `by_ms` milliseconds.
    pub(crate) fn rebase_ages(&mut self, by_ms: i64) {
        for value in self.0.values_mut() {
            if let Value::Age(since) = value {
                *since = since.shifted(by_ms);
            }
        }
    }

    /// Adds a value of any type. Names beyond [`MAX_NAMES`] bytes are only counted.
    #[must_use]
    pub fn with(mut self, key: &'static str, mut value: Value) -> Self {
        if let Value::Names(names) = &mut value {
            cut_names(names);
        }

        self.0.insert(key, value);
        self
    }

    /// Adds a value, if there is one.
    #[must_use]
    pub fn with_some(self, key: &'static str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
}

impl Value {
    /// Returns a count, which saturates at the maximum.
    #[must_use]
    pub fn count(count: impl TryInto<i64>) -> Self {
        Self::Count(count.try_into().unwrap_or(i64::MAX))
    }

    /// Returns the value as of `now`, with an age converted to the time elapsed.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        match self {
            Self::Age(since) => Self::Elapsed(now.since(since)),
            other => other,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number:.2}"),
            Self::Bytes(bytes) => write_bytes(f, *bytes),
            Self::Span(span) => write!(f, "{span}"),
            Self::Elapsed(span) => write!(f, "{}", span.as_age()),
            Self::Time(time) | Self::Age(time) => write!(f, "{time}"),
        }
    }
}

/// Writes a number of bytes with a binary prefix.
fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    #[expect(clippy::cast_precision_loss, reason = "only a few digits are shown")]
    let mut number = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }

    if unit == "B" { write!(f, "{bytes} B") } else { write!(f, "{number:.1} {unit}") }
}

impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Names(names) => names.serialize(serializer),
            Self::Count(count) => serializer.serialize_i64(*count),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Bytes(bytes) => serializer.serialize_u64(*bytes),
            Self::Span(span) | Self::Elapsed(span) => serializer.serialize_f64(span.seconds()),
            Self::Time(time) | Self::Age(time) => time.serialize(serializer),
        }
    }
}
