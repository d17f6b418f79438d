//! Numbers in the texts of a status, and the direction in which they move.

use std::hash::{DefaultHasher, Hash as _};

/// A number, in hundredths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    hundredths: i64,
    /// It is a percentage or a part of a total, so that a rise is progress, too.
    is_share: bool,
    /// It says nothing about progress: it counts attempts, or seconds.
    is_idle: bool,
}

/// One number over time.
#[derive(Debug)]
pub(super) struct Counter {
    last: i64,
    lowest: i64,
    highest: i64,
    falls: u32,
    rises: u32,
}

/// A number that moves mainly in one direction moves in the other one at most once in this many
/// times.
const ONE_WAY: u32 = 4;

/// The length of the suffix that Kubernetes generates for names, and its letters.
const SUFFIX: (usize, &str) = (5, "bcdfghjklmnpqrstvwxz");

/// A word of at least this length is an identifier.
const LONG: usize = 24;

/// Words before or after a number that counts attempts.
const ATTEMPTS: &[&str] = &[
    "attempt", "attempts", "error", "errors", "failure", "failures", "retries", "retry", "times",
    "tries", "try",
];

/// Words after a number that is a time.
const UNITS: &[&str] = &[
    "h",
    "hour",
    "hours",
    "m",
    "millisecond",
    "milliseconds",
    "min",
    "mins",
    "minute",
    "minutes",
    "ms",
    "s",
    "sec",
    "second",
    "seconds",
    "secs",
];

/// Adds the words of a text to a fingerprint, without numbers and identifiers, and its numbers to
/// `found`.
pub(super) fn read(text: &str, key: &mut DefaultHasher, found: &mut Vec<Number>) {
    let is_gap = |c: char| c.is_whitespace() || ",;()[]{}<>\"'`=".contains(c);
    let ends = |c: char| ".:!?".contains(c);
    let words = || text.split(is_gap).map(|word| word.trim_end_matches(ends));
    let words: Vec<&str> = words().filter(|word| !word.is_empty()).collect();

    for (index, word) in words.iter().enumerate() {
        if !is_identifier(word) {
            word.hash(key);
            continue;
        }

        0_u8.hash(key);
        let before = index.checked_sub(1).and_then(|before| words.get(before)).copied();
        found.extend(Number::of_word(word, before, words.get(index + 1).copied()));
    }
}

/// Returns whether a word is a number, or may be an identifier.
fn is_identifier(word: &str) -> bool {
    let (length, letters) = SUFFIX;
    let is_generated = |(_, suffix): (&str, &str)| {
        suffix.len() == length && suffix.chars().all(|c| letters.contains(c))
    };

    word.bytes().any(|byte| byte.is_ascii_digit())
        || word.rsplit_once('-').is_some_and(is_generated)
        || (word.len() >= LONG && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

impl Number {
    /// Returns the number in a word such as `40`, `12.5%` or `3/10`, given the words around it.
    fn of_word(word: &str, before: Option<&str>, after: Option<&str>) -> Option<Self> {
        let is_one_of = |near: Option<&str>, words: &[&str]| {
            near.is_some_and(|near| words.iter().any(|word| near.eq_ignore_ascii_case(word)))
        };
        let (number, percent) = word.strip_suffix('%').map_or((word, false), |word| (word, true));
        let (number, total) =
            number.split_once('/').map_or((number, None), |(part, total)| (part, Some(total)));
        if total.is_some_and(|total| hundredths(total).is_none()) {
            return None;
        }

        let named = is_one_of(after, &["of", "percent"]);
        Some(Self {
            hundredths: hundredths(number)?,
            is_share: percent || total.is_some() || named,
            is_idle: is_one_of(before, ATTEMPTS)
                || is_one_of(after, ATTEMPTS)
                || is_one_of(after, UNITS),
        })
    }

    /// Returns the number in a field of a status.
    pub(super) fn of_field(path: &str, number: i64) -> Option<Self> {
        let field = path.rsplit('.').next()?.to_ascii_lowercase();
        let is_named = |words: &[&str]| words.iter().any(|word| field.contains(word));
        Some(Self {
            hundredths: number.checked_mul(100)?,
            is_share: is_named(&["percent", "progress"]),
            is_idle: is_named(&["attempt", "retries", "retry", "failure", "error"]),
        })
    }
}

impl Counter {
    pub(super) const fn new(number: Number) -> Self {
        let Number { hundredths, .. } = number;
        Self { last: hundredths, lowest: hundredths, highest: hundredths, falls: 0, rises: 0 }
    }

    /// Takes the next value. Returns whether it shows progress: it has gone further in its
    /// direction than ever before.
    pub(super) fn count(&mut self, number: Number) -> bool {
        let Number { hundredths: value, is_share, is_idle } = number;
        let last = std::mem::replace(&mut self.last, value);
        self.falls = self.falls.saturating_add(u32::from(value < last));
        self.rises = self.rises.saturating_add(u32::from(value > last));

        let (falls, rises) = (self.falls, self.rises);
        let one_way = |with: u32, against: u32| against.saturating_mul(ONE_WAY) <= with;
        let further = (value < self.lowest && one_way(falls, rises))
            || (is_share && value > self.highest && one_way(rises, falls));

        self.lowest = self.lowest.min(value);
        self.highest = self.highest.max(value);
        further && !is_idle
    }
}

/// Reads a number with at most two digits after the point. Longer numbers are identifiers.
fn hundredths(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| {
        !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(part) {
        return None;
    }

    let part: i64 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    whole.parse::<i64>().ok().map(|whole| whole * 100 + part)
}
