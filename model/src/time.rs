//! Instants and durations as plain integers.
//!
//! The model has no clock: time reaches it only through the [`Timestamp`] of each observation.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant in UTC, in whole milliseconds since the Unix epoch. Serialized as RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A duration in whole milliseconds. Parsed from text such as `90s`, `10m` or `1h30m`; the text
/// form cannot be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Timestamp {
    /// Returns the instant `span` later.
    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the instant `span` earlier.
    #[must_use]
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns the instant `by_ms` milliseconds later, or earlier if negative.
    #[must_use]
    pub(crate) const fn shifted(self, by_ms: i64) -> Self {
        Self(self.0.saturating_add(by_ms))
    }

    /// Returns the time elapsed since `earlier`, or zero if this instant is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        let ms = self.0.saturating_sub(earlier.0);
        Span(if ms > 0 { ms } else { 0 })
    }

    /// Returns seconds since the Unix epoch, for `_timestamp_seconds` metrics.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Parses an RFC 3339 time with any offset; returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) if self.0 % 1000 == 0 => write!(f, "{t:.0}"),
            Ok(t) => write!(f, "{t:.3}"),
            // Outside the years -9999 to 9999, which jiff cannot format.
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        // As it is written if it is beyond the year 9999.
        let beyond = || Some(Self(text.strip_suffix("ms")?.parse().ok()?));
        Self::parse(&text)
            .or_else(beyond)
            .ok_or_else(|| de::Error::custom(format!("not an RFC 3339 time: {text:?}")))
    }
}

impl Span {
    /// The empty duration.
    pub const ZERO: Self = Self(0);

    /// Returns a duration of whole seconds.
    #[must_use]
    pub const fn secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Returns a duration of whole minutes.
    #[must_use]
    pub const fn mins(minutes: i64) -> Self {
        Self(minutes * 60_000)
    }

    /// Returns a duration of whole hours.
    #[must_use]
    pub const fn hours(hours: i64) -> Self {
        Self(hours * 3_600_000)
    }

    /// Returns a number of seconds as a duration. NaN and negative numbers become zero.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    pub fn of_seconds(seconds: f64) -> Self {
        Self((seconds * 1000.0).max(0.0) as i64)
    }

    /// Returns the duration in seconds, for metrics.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Parses `500ms`, `90s`, `10m`, `2h`, `7d` and sums of them such as `1h30m`.
    ///
    /// # Errors
    /// Returns a sentence that names the expected format if the text has any other form, for
    /// example a negative value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is not a duration; use, for example, 30s, 10m or 1h30m");
        let (mut rest, mut total) = (text.trim(), 0_i64);
        if rest.is_empty() {
            return Err(invalid());
        }

        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
            let number: i64 = rest[..digits].parse().map_err(|_| invalid())?;
            let unit_end = rest[digits..]
                .find(|c: char| c.is_ascii_digit())
                .map_or(rest.len(), |i| digits + i);
            let unit = match &rest[digits..unit_end] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(invalid()),
            };

            total = number
                .checked_mul(unit)
                .and_then(|ms| total.checked_add(ms))
                .ok_or_else(invalid)?;
            rest = &rest[unit_end..];
        }

        Ok(Self(total))
    }
}

impl From<Duration> for Span {
    /// Truncates to milliseconds. A duration that is too long becomes the longest span.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Span {
    /// Writes at most two units, largest first, and truncates the rest: `3d4h`, `12m30s`, `900ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(i64, &str); 5] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];

        if self.0 <= 0 {
            return f.write_str("0s");
        }

        let largest = UNITS.iter().position(|(unit, _)| self.0 >= *unit).unwrap_or(UNITS.len() - 1);
        let (unit, name) = UNITS[largest];
        write!(f, "{}{name}", self.0 / unit)?;

        match UNITS.get(largest + 1) {
            Some((next, next_name)) if largest < 3 && self.0 % unit / next > 0 => {
                write!(f, "{}{next_name}", self.0 % unit / next)
            }
            _ => Ok(()),
        }
    }
}

/// A duration as the age of something, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(Span);

impl Span {
    /// Returns the duration as an age, whose text has no fractions of a second.
    #[must_use]
    pub const fn as_age(self) -> Age {
        Age(self)
    }
}

impl fmt::Display for Age {
    /// Writes `<1s` for a part of a second, and everything else like [`Span`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            1..1000 => f.write_str("<1s"),
            _ => self.0.fmt(f),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Unlike `Display`, this does not truncate, because a recorded setting must read back
        // unchanged.
        let text = match self.0 {
            ms if ms % 1000 != 0 => format!("{ms}ms"),
            ms => format!("{}s", ms / 1000),
        };

        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_year_9999_reads_back_from_a_recording() {
        let far = Timestamp(1_957_341_223_666_000);
        let text = serde_json::to_string(&far).expect("plain data");

        assert_eq!(serde_json::from_str::<Timestamp>(&text).expect("a time"), far, "{text}");
        assert_eq!(Timestamp::parse(text.trim_matches('"')), None, "only in recordings");
    }

    #[test]
    fn span_parses_sums_of_units_and_displays_at_most_two() {
        assert_eq!(Span::parse("1h30m"), Ok(Span::mins(90)));
        assert_eq!(Span::parse("250ms"), Ok(Span(250)));
        assert_eq!(Span::mins(90).to_string(), "1h30m");
        assert_eq!(Span::secs(100_000).to_string(), "1d3h");
        assert_eq!(Span(2_500).to_string(), "2s");
        assert_eq!([0, 2, 1000].map(|ms| Span(ms).as_age().to_string()), ["0s", "<1s", "1s"]);
        assert_eq!(Span::secs(i64::MAX), Span(i64::MAX), "a lease may have any duration");

        for invalid in ["", "10", "m", "-5s", "10 parsecs", "99999999999999999999s", "ü5s"] {
            assert!(Span::parse(invalid).is_err(), "{invalid:?} was accepted");
        }
    }

    #[test]
    fn timestamp_parses_any_offset_and_displays_utc() {
        let t = Timestamp::parse("2026-11-21T02:03:04.5+01:00").expect("a valid time");
        assert_eq!(t.to_string(), "2026-11-21T01:03:04.500Z");
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::parse("yesterday"), None);
    }
}
