//! Puts pseudonyms into texts: reasons, phases, paths, messages.
//!
//! The model reads the words of a status, so no pseudonym can replace a whole text. The common
//! words of a status stay (`vocabulary.txt`), because they name nobody; pseudonyms replace
//! everything between them. The endings `-ing` and `-ed` stay as well, because the model reads them
//! even from words that it does not know.

use std::collections::BTreeSet;
use std::net::IpAddr;

use loopwatch_model::time::Timestamp;

use super::Pseudonyms;

/// The words that stay, in lower case.
const VOCABULARY: &str = include_str!("vocabulary.txt");

/// The length of the part of a message that the model reads, in bytes.
const MESSAGE: usize = 128;

/// Longest number that stays: numbers of up to this length are counts or status codes.
const DIGITS: usize = 4;

/// The length of the longest text of an IP address, and of the colon or period after it.
const LONGEST_ADDRESS: usize = 46;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    /// A word of the vocabulary, a version such as `v1beta1`.
    Known(&'a str),
    /// A short number. It stays unless it is next to an unknown word.
    Number(&'a str),
    /// Any other word.
    Unknown(&'a str),
    /// The characters between words; empty between the words of `CamelCase`.
    Between(&'a str),
}

/// Returns the vocabulary.
pub(super) fn vocabulary() -> BTreeSet<&'static str> {
    VOCABULARY.split_whitespace().collect()
}

impl Pseudonyms {
    /// Replaces the unknown words of a name in `CamelCase` or with separators: `PayrollReady` keeps
    /// `Ready`. Adjacent unknown words get one pseudonym.
    pub(super) fn words(&self, text: &str) -> String {
        let parts = self.parts(text);
        let (mut shown, mut at) = (String::with_capacity(text.len() + 16), 0);
        while at < parts.len() {
            let length = run(&parts[at..]);
            if length == 0 {
                shown.push_str(parts[at].text());
                at += 1;
                continue;
            }

            let unknown: String = parts[at..at + length].iter().map(|part| part.text()).collect();
            let upper = unknown.starts_with(|first: char| first.is_uppercase());
            shown.push(if upper { 'X' } else { 'x' });
            shown.push_str(&self.letters("word", &unknown));
            shown.push_str(ending(&unknown));
            at += length;
        }

        shown
    }

    /// Replaces the unknown words of a message with `x`, because nothing refers to them.
    pub(super) fn prose(&self, text: &str) -> String {
        let read = &text[..text.floor_char_boundary(MESSAGE)];
        let shown = |part: &Part<'_>| match part {
            Part::Unknown(word) => format!("x{}", ending(word)),
            part => part.text().to_owned(),
        };

        self.parts(read).iter().map(shown).collect()
    }

    /// Replaces the unknown words of a single value or a message.
    pub(super) fn value(&self, text: &str) -> String {
        match text {
            text if Timestamp::parse(text).is_some() => text.to_owned(),
            text if text.contains(char::is_whitespace) => self.prose(text),
            text => self.words(text),
        }
    }

    /// Replaces the unknown keys of a path: `status.instances[0].phase`. Keys of maps may be names.
    pub(super) fn path(&self, path: &str) -> String {
        let (mut shown, mut rest) = (String::new(), path);
        while !rest.is_empty() {
            // A key in brackets may contain dots: an address, or the name of an annotation.
            let ends: &[char] = if shown.ends_with('[') { &[']'] } else { &['.', '[', ']'] };
            let (key, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            match is_position(key) {
                true => shown.push_str(key),
                false => shown.push_str(&self.words(key)),
            }

            let mut after = after.chars();
            shown.extend(after.next());
            rest = after.as_str();
        }

        shown
    }

    /// The type of a condition. In the usual form, it is a constant of the operator; any other form
    /// may be the key of a map.
    pub(super) fn condition_type(&self, text: &str) -> String {
        let constant = text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if constant {
            text.to_owned()
        } else {
            text.split('/').map(|part| self.words(part)).collect::<Vec<_>>().join("/")
        }
    }

    fn parts<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let between = rest.find(is_part_of_word).unwrap_or(rest.len());
            let (separator, after) = rest.split_at(between);
            parts.push(Part::Between(separator));

            if let Some(end) = end_of_address(after) {
                parts.push(Part::Unknown(&after[..end]));
                rest = &after[end..];
                continue;
            }

            let (word, after) = after.split_at(end_of_word(after));
            if !word.is_empty() {
                parts.push(self.part(word));
            }

            rest = after;
        }

        parts
    }

    fn part<'a>(&self, word: &'a str) -> Part<'a> {
        let digits = |text: &str| {
            !text.is_empty() && text.len() <= DIGITS && text.bytes().all(|b| b.is_ascii_digit())
        };
        let lower = word.to_ascii_lowercase();
        let version = |text: &str| text.split(['a', 'b']).next().is_some_and(digits);

        if self.vocabulary.contains(lower.replace('\'', "").as_str()) {
            Part::Known(word)
        } else if digits(word) {
            Part::Number(word)
        } else if lower.strip_prefix('v').is_some_and(|rest| is_version(rest) && version(rest)) {
            Part::Known(word)
        } else {
            Part::Unknown(word)
        }
    }
}

impl<'a> Part<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Known(text) | Self::Number(text) | Self::Unknown(text) | Self::Between(text) => {
                text
            }
        }
    }
}

/// The number of parts at the beginning that share a pseudonym: from an unknown word, or a number
/// before one, to the last unknown word or number before a known one.
fn run(parts: &[Part<'_>]) -> usize {
    let ends = |part: &Part<'_>| matches!(part, Part::Known(_));
    let before_known = parts.iter().position(ends).unwrap_or(parts.len());
    let parts = &parts[..before_known];
    let has_unknown = parts.iter().any(|part| matches!(part, Part::Unknown(_)));

    if !has_unknown || matches!(parts.first(), Some(Part::Between(_)) | None) {
        return 0;
    }

    parts.iter().rposition(|part| !matches!(part, Part::Between(_))).map_or(0, |last| last + 1)
}

/// `1`, `1beta1`, `2alpha3`.
fn is_version(text: &str) -> bool {
    let stripped = text.replacen("alpha", ".", 1).replacen("beta", ".", 1);
    !stripped.is_empty() && stripped.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The ending of a participle, which the model reads.
fn ending(word: &str) -> &'static str {
    let lower = word.to_ascii_lowercase();
    ["ing", "ed"]
        .into_iter()
        .find(|ending| lower.len() > 4 && lower.ends_with(ending))
        .unwrap_or_default()
}

fn is_part_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || !character.is_ascii() || character == '\''
}

/// Whether a key is a position in a list, or empty. A longer number may be a name.
fn is_position(key: &str) -> bool {
    key.len() <= 4 && key.bytes().all(|byte| byte.is_ascii_digit())
}

/// The end of an IP address at the beginning of a text. Its numbers alone would be kept.
fn end_of_address(text: &str) -> Option<usize> {
    let of_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
    let length = text.bytes().take(LONGEST_ADDRESS).take_while(of_address).count();
    let run = &text[..length]; // of ASCII only

    // A period or a port may follow.
    let without_port = run.split(':').next().unwrap_or_default();
    let mut candidates = [run, run.trim_end_matches(['.', ':']), without_port].into_iter();
    let address = candidates.find(|candidate| candidate.parse::<IpAddr>().is_ok())?;
    let rest = &text[address.len()..];

    (!rest.starts_with(is_part_of_word)).then_some(address.len())
}

/// The end of the first word of a text, where the model also splits words: `pod|Ready`,
/// `API|Server`.
fn end_of_word(text: &str) -> usize {
    let bytes = text.as_bytes();
    let within = text.find(|character| !is_part_of_word(character)).unwrap_or(text.len());
    let boundary = |at: &usize| {
        let (before, after) = (bytes[at - 1], bytes.get(at + 1).copied().unwrap_or(b' '));
        bytes[*at].is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && after.is_ascii_lowercase()))
    };

    (1..within).find(boundary).unwrap_or(within)
}
