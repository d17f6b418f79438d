//! Finds the fields of a recording that this program does not know.
//!
//! serde ignores unknown fields. Serializing a line again would not show them either, because serde
//! omits fields with their default value. So this module tests each path once per recording: a
//! field is unknown if the reader accepts a value of any type for it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Number of distinct paths to test. Maps of labels make new paths, and each test parses a line
/// several times.
const MAX_PATHS: usize = 10_000;

/// The maximum number of bytes to parse in all tests. An ordinary recording needs a few MB; without
/// a limit, a line with thousands of unknown fields would take hours.
const MAX_PARSED: usize = 64 << 20;

/// Values of all types, for tests.
const ANYTHING: [fn() -> Value; 5] = [
    || Value::Bool(true),
    || Value::from(-1.5),
    || "?".into(),
    || serde_json::json!([[]]),
    || serde_json::json!({"?": []}),
];

/// Number of unknown fields to keep by name. Those beyond it share [`OTHERS`].
const MAX_NAMES: usize = 100;

/// The maximum length of such a name in bytes. A key of a map may be megabytes long.
const MAX_NAME: usize = 256;

/// The name of all further unknown fields.
const OTHERS: &str = "(others)";

/// The unknown fields of a recording.
#[derive(Debug, Default)]
pub(super) struct UnknownFields {
    /// The place in `counts` of the field at a path, given by its hash; `None` if the field is known.
    tested: HashMap<u64, Option<usize>, BuildHasherDefault<AsItIs>>,
    /// Whether the object at a path, given by its hash, is a map. All keys of a map are known.
    maps: HashMap<u64, bool, BuildHasherDefault<AsItIs>>,
    /// The bytes that tests have parsed so far.
    parsed: usize,
    /// The paths, such as `saw.applied.object.colour`, with the number of occurrences.
    counts: Vec<(String, u64)>,
}

/// An object or a list around the current position of a scan.
struct Level<'a> {
    /// The hash of the path to this level.
    path: u64,
    /// The hash of the path to the current position: all items of a list have that of the list.
    here: u64,
    /// Whether the level is an object, so that a string may be a key.
    is_object: bool,
    /// The current key of an object.
    key: &'a [u8],
    /// The current position in a list.
    index: usize,
}

/// Uses hashes as they are.
#[derive(Debug, Default)]
struct AsItIs(u64);

/// A key that no struct has.
const NO_FIELD: &str = "? no field";

/// The hash of the empty path.
const START: u64 = 0xcbf2_9ce4_8422_2325;

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = below(self.0, bytes);
    }
}

impl UnknownFields {
    /// The number of occurrences by path.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.iter().cloned().collect()
    }

    /// Counts the unknown fields of `line`, which is valid JSON and was read as a `T`.
    pub(super) fn count<T: DeserializeOwned>(&mut self, line: &[u8]) {
        let mut levels: Vec<Level<'_>> = Vec::with_capacity(8);
        let (mut at, mut expects_key) = (0, false);
        while at < line.len() {
            match line[at] {
                opening @ (b'{' | b'[') => {
                    let is_object = opening == b'{';
                    let path = levels.last().map_or(START, |level| level.here);
                    levels.push(Level { path, here: path, is_object, key: &[], index: 0 });
                    expects_key = is_object;
                }
                b'}' | b']' => _ = levels.pop(),
                b',' => {
                    if let Some(level) = levels.last_mut() {
                        expects_key = level.is_object;
                        level.index += 1;
                    }
                }
                b'"' => {
                    let end = end_of_string(line, at);
                    if expects_key && let Some(level) = levels.last_mut() {
                        level.key = line.get(at + 1..end - 1).unwrap_or_default();
                        level.here = below(level.path, level.key);
                        expects_key = false;

                        if self.is_unknown::<T>(line, &levels) {
                            at = end_of_value(line, end);
                            continue;
                        }
                    }

                    at = end;
                    continue;
                }
                _ => {}
            }

            at += 1;
        }
    }

    /// Whether the field at the current position is unknown. Counts it if so.
    fn is_unknown<T: DeserializeOwned>(&mut self, line: &[u8], levels: &[Level<'_>]) -> bool {
        let path = levels.last().map_or(START, |level| level.here);
        let place = match self.tested.get(&path).copied() {
            Some(place) => place,
            None if self.tested.len() >= MAX_PATHS || self.is_in_map::<T>(line, levels) => None,
            None if !self.may_parse(line) => None,
            None => {
                let unknown = accepts_anything::<T>(line, levels, &key_of(levels));
                let place = unknown.then(|| self.place_of(name_of(levels)));
                self.tested.insert(path, place);
                place
            }
        };

        if let Some((_, count)) = place.and_then(|place| self.counts.get_mut(place)) {
            *count += 1;
        }

        place.is_some()
    }

    /// The place in `counts` of a name, which several paths may have.
    fn place_of(&mut self, name: String) -> usize {
        let known = |name: &str| self.counts.iter().position(|(counted, _)| counted == name);
        let name = match known(&name) {
            Some(place) => return place,
            None if self.counts.len() < MAX_NAMES => name,
            None => OTHERS.to_owned(),
        };

        known(&name).unwrap_or_else(|| {
            self.counts.push((name, 0));
            self.counts.len() - 1
        })
    }

    /// Whether the current object is a map: then the reader checks the type of a value even under a
    /// key that no struct has. One test thus answers for all keys, of which there may be thousands.
    fn is_in_map<T: DeserializeOwned>(&mut self, line: &[u8], levels: &[Level<'_>]) -> bool {
        let path = levels.last().map_or(START, |level| level.path);
        if let Some(is_map) = self.maps.get(&path) {
            return *is_map;
        }

        let is_map = self.may_parse(line) && !accepts_anything::<T>(line, levels, NO_FIELD);
        self.maps.insert(path, is_map);
        is_map
    }

    /// Whether the limit allows a test of this line.
    fn may_parse(&mut self, line: &[u8]) -> bool {
        let parsed = self.parsed.saturating_add(line.len().saturating_mul(ANYTHING.len()));
        let may = parsed <= MAX_PARSED;
        if may {
            self.parsed = parsed;
        }

        may
    }
}

/// Whether the reader accepts a value of any type under this key of the current object.
fn accepts_anything<T: DeserializeOwned>(line: &[u8], levels: &[Level<'_>], key: &str) -> bool {
    let Ok(whole) = serde_json::from_slice::<Value>(line) else { return false };
    let Some((_, around)) = levels.split_last() else { return false };
    ANYTHING.iter().all(|value| {
        let mut changed = whole.clone();
        let object = around.iter().try_fold(&mut changed, |place, level| match place {
            Value::Object(fields) => fields.get_mut(key_text(level.key).as_str()),
            Value::Array(items) => items.get_mut(level.index),
            _ => None,
        });
        let Some(Value::Object(fields)) = object else { return false };

        fields.insert(key.to_owned(), value());
        serde_json::from_value::<T>(changed).is_ok()
    })
}

/// The current key.
fn key_of(levels: &[Level<'_>]) -> String {
    levels.last().map_or_else(String::new, |level| key_text(level.key))
}

/// The path of the current position without list indices: `saw.applied.object.owners.colour`.
fn name_of(levels: &[Level<'_>]) -> String {
    let keys: Vec<String> =
        levels.iter().filter(|level| level.is_object).map(|level| key_text(level.key)).collect();

    let mut name = keys.join(".");
    name.truncate(name.floor_char_boundary(MAX_NAME));
    name
}

/// A key, with its escapes resolved.
fn key_text(key: &[u8]) -> String {
    let quoted = [b"\"", key, b"\""].concat();
    serde_json::from_slice(&quoted).unwrap_or_else(|_| String::from_utf8_lossy(key).into_owned())
}

/// The hash of the path to a key below `path`: FNV-1a (draft-eastlake-fnv), because keys are short.
fn below(path: u64, key: &[u8]) -> u64 {
    let hash = (path ^ 0xff).wrapping_mul(0x0100_0000_01b3);
    key.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The position after the string that starts at `at`.
fn end_of_string(line: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', line.get(end..).unwrap_or_default()) {
        end += found + 1;
        if line[end - 1] == b'"' {
            return end;
        }

        end += 1; // the escaped character
    }

    line.len()
}

/// The position after the value of the field whose key ends at `at`.
fn end_of_value(line: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < line.len() {
        match line[at] {
            b'"' => {
                at = end_of_string(line, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }

        at += 1;
    }

    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::RecordedObservation;

    fn unknown(lines: &[&str]) -> Vec<(String, u64)> {
        let mut fields = UnknownFields::default();
        for line in lines {
            assert!(serde_json::from_str::<RecordedObservation>(line).is_ok(), "{line}");

            fields.count::<RecordedObservation>(line.as_bytes());
        }

        fields.counts().into_iter().collect()
    }

    #[test]
    fn each_unknown_field_is_counted_by_its_path() {
        let line = r#"{"at":"2026-01-01T00:00:00Z","saw":{"applied":{"watch":"w","object":{"name":"x","uid":"","version":"1",
            "colour":{"name":"\"}","deep":[1,{"uid":2}]},"owners":[{"kind":"A"},{"kind":"B","co\u006cour":1}],
            "conditions":[{"type":"Ready","mood":null}],"status":"filled","hashes":{"taste":"x"}}}},"by":"me"}"#;
        let path = |name: &str| (name.to_owned(), 2);

        assert_eq!(
            unknown(&[line, line]),
            [
                path("by"),
                path("saw.applied.object.colour"),
                path("saw.applied.object.conditions.mood"),
                path("saw.applied.object.hashes.taste"),
                path("saw.applied.object.owners.colour"),
            ]
        );
    }

    #[test]
    fn default_values_and_keys_of_maps_are_known() {
        let lines = [
            r#"{"at":"2026-01-01T00:00:00Z","saw":{"restored":{"learned":{"a/B":[1,2],"a/C":[]},"findings":{"0a":"2026-01-01T00:00:00Z"}}}}"#,
            r#"{"at":"2026-01-01T00:00:00Z","saw":{"listed":{"watch":"w","object":{"namespace":"","name":"x","generation":0,"grace":null,
               "created":null,"lints":[],"paused":null,"facts":[{"path":"p","value":1}],"managers":[{"owns":{"spec":false}}]}}}}"#,
            r#"{"at":"2026-01-01T00:00:00Z","saw":"tick"}"#,
            r#"{"at":"2026-01-01T00:00:00Z","saw":{"answered":{"probe":{"count":"w"},"answer":{"failed":"timeout"}}}}"#,
        ];
        assert_eq!(unknown(&lines), []);
    }

    #[test]
    fn the_names_are_limited() {
        let keys: Vec<String> =
            (0..2 * MAX_NAMES).map(|number| format!("\"key{number}\":0")).collect();
        let line = format!(r#"{{"at":"2026-01-01T00:00:00Z","saw":"tick",{}}}"#, keys.join(","));
        let counted = unknown(&[&line]);

        assert_eq!(counted.len(), MAX_NAMES + 1);
        assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), 2 * MAX_NAMES as u64);
    }

    /// A checkpoint has one key for each open finding, and `run` reads it before it serves
    /// anything.
    #[test]
    fn a_map_with_many_keys_is_read_quickly() {
        let findings: Vec<String> =
            (0..2_000).map(|id| format!(r#""{id:016x}":"2026-01-01T00:00:00Z""#)).collect();
        let line = format!(
            r#"{{"at":"2026-01-01T00:00:00Z","saw":{{"restored":{{"findings":{{{}}},"mood":1}}}}}}"#,
            findings.join(",")
        );
        let (mut fields, began) = (UnknownFields::default(), std::time::Instant::now());

        fields.count::<RecordedObservation>(line.as_bytes());
        assert_eq!(fields.counts, [("saw.restored.mood".to_owned(), 1)]);
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
    }

    /// The name of a field is built once for each path, however long a key is and however often the field
    /// occurs.
    #[test]
    fn a_long_key_around_a_field_that_occurs_often_is_read_quickly() {
        let line = |key: &str, fields: &str| {
            format!(
                r#"{{"at":"2026-01-01T00:00:00Z","saw":{{"restored":{{"leases":{{"{key}":{{{fields}}}}}}}}}}}"#
            )
        };
        let often = vec!["\"x\":1"; 100_000].join(",");
        let (mut fields, began) = (UnknownFields::default(), std::time::Instant::now());

        fields.count::<RecordedObservation>(line("k", "\"x\":1").as_bytes());
        fields.count::<RecordedObservation>(line(&"k".repeat(1 << 20), &often).as_bytes());
        let counts: Vec<u64> = fields.counts.iter().map(|(_, count)| *count).collect();

        assert_eq!(counts, [1, 100_000]);
        assert!(fields.counts.iter().all(|(name, _)| name.len() <= MAX_NAME));
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
