//! Decodes one object into its slim view, in one pass, whatever its shape.
//!
//! ```text
//!  bytes ─▶ stream (watch lines, pages) ─▶ object ─┬─ metadata ─▶ who it is, who holds it, who wrote it
//!                                                  ├─ body ─┬─▶ conditions, facts, switches
//!                                                  │        └─▶ fingerprints
//!                                                  └─ everything else: fingerprint of the spec
//! ```
//!
//! No tree is built and nothing of the body is kept but what the judge can use. A field of a type that nobody expects
//! is absent and adds a lint; an error is only text that is not JSON, or an object without a name.

mod body;
mod conditions;
mod hash;
mod leaf;
mod lint;
mod managers;
mod metadata;
mod pause;
mod shape;
mod stream;
mod switches;
mod words;

use loopwatch_model::observation::ObjectView;
use serde::de::{DeserializeSeed, Deserializer, MapAccess};

use self::body::{Spec, Status, Walk};
use self::hash::{Hasher, Sum};
use self::leaf::Leaf;
use self::lint::Lints;
use self::metadata::Metadata;
use self::shape::{Field, Key, Scalar, Shape, Take, Text};
pub use self::stream::{Page, Refusal, WatchEvent, page, refusal, watch_line};
use self::switches::Switches;

/// Conditions, facts, managers, finalizers and owners of one object: at most so many of each.
const MAX_ITEMS: usize = 64;
/// Longest name, identifier or condition type, in bytes: the API server allows 253 for most.
const MAX_NAME: usize = 256;
/// Longest reason or severity of a condition, in bytes.
const MAX_REASON: usize = 128;
/// Longest message of a condition, in bytes.
const MAX_MESSAGE: usize = 256;
/// Longest text of a fact, in bytes.
const MAX_FACT: usize = 128;
/// Below this depth values are skipped: half of what the JSON parser would bear.
const MAX_DEPTH: u8 = 64;

/// The key of the fingerprints: secret, and the same for as long as fingerprints are to be compared.
#[derive(Clone, Copy)]
pub struct HashKey(pub [u8; 16]);

/// Why an object could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Json(serde_json::Error),
    /// It is not an object with `metadata.name`.
    #[error("an object without metadata.name")]
    Nameless,
    /// A line of a watch, or a page, that lacks what makes it one.
    #[error("{0}")]
    Shape(&'static str),
}

/// An object together with what it says that it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// `apiVersion`, as written.
    pub api_version: String,
    /// `kind`, as written.
    pub kind: String,
    /// The object; its name may be empty.
    pub object: ObjectView,
    /// Whether this is the bookmark that ends the initial list of a watch.
    pub initial_events_end: bool,
}

/// Decodes an object from any deserializer. The result has no size, since only the text knows that.
#[derive(Clone, Copy)]
pub struct ObjectSeed<'k>(pub &'k HashKey);

/// Decodes one object.
///
/// # Errors
/// When the text is not JSON, or has no `metadata.name`.
pub fn object(json: &[u8], key: &HashKey) -> Result<ObjectView, DecodeError> {
    named(decoded(json, key)?)
}

/// Decodes one object, and what it says that it is.
///
/// # Errors
/// When the text is not JSON.
pub fn decoded(json: &[u8], key: &HashKey) -> Result<Decoded, DecodeError> {
    // Checked as a whole, UTF-8 costs a tenth of what it costs text by text.
    let mut decoded = match std::str::from_utf8(json) {
        Ok(text) => whole(ObjectSeed(key), &mut serde_json::Deserializer::from_str(text))?,
        Err(_) => whole(ObjectSeed(key), &mut serde_json::Deserializer::from_slice(json))?,
    };
    decoded.object.bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
    Ok(decoded)
}

/// Decodes a whole text: nothing may follow.
fn whole<'de, S: DeserializeSeed<'de>, R: serde_json::de::Read<'de>>(
    seed: S,
    deserializer: &mut serde_json::Deserializer<R>,
) -> Result<S::Value, serde_json::Error> {
    let value = seed.deserialize(&mut *deserializer)?;
    deserializer.end()?;
    Ok(value)
}

fn named(decoded: Decoded) -> Result<ObjectView, DecodeError> {
    if decoded.object.key.name.is_empty() { Err(DecodeError::Nameless) } else { Ok(decoded.object) }
}

// === impl DecodeError ===

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

// === impl HashKey ===

impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

// === impl ObjectSeed ===

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        deserializer.deserialize_any(Take(self))
    }
}

/// The top-level fields.
#[derive(Clone, Copy, Default)]
enum Name {
    ApiVersion,
    Kind,
    Metadata,
    #[default]
    Other,
    Spec,
    Status,
}

impl<'de> Shape<'de> for ObjectSeed<'_> {
    type Out = Decoded;

    fn scalar(self, _: Scalar<'_>) -> Decoded {
        Decoded::default()
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Decoded, A::Error> {
        let hasher = Hasher::new(self.0);
        let mut decoded = Decoded::default();
        let (mut lints, mut switches, mut spec) = (Lints::default(), Switches::default(), Sum::default());
        let view = &mut decoded.object;
        let mut walk = Walk {
            hasher,
            view: &mut *view,
            lints: &mut lints,
            switches: &mut switches,
            path: String::with_capacity(64),
            nested: 0,
        };
        let mut spec_seen = false;
        while let Some((hash, name)) = entries.next_key_seed(Key(|key: &str| (hasher.text(key), Name::of(key))))? {
            match name {
                Name::ApiVersion => decoded.api_version = word(&mut entries)?,
                Name::Kind => decoded.kind = word(&mut entries)?,
                Name::Metadata => {
                    let (view, lints, switches) = (&mut *walk.view, &mut *walk.lints, &mut *walk.switches);
                    let bookmark = &mut decoded.initial_events_end;
                    entries.next_value_seed(Take(Metadata { view, lints, switches, bookmark }))?;
                }
                Name::Status => {
                    walk.path.push_str("status");
                    let pair = entries.next_value_seed(Take(Status(&mut walk)))?;
                    walk.path.clear();
                    walk.view.hashes.status = pair.full;
                    walk.view.hashes.settled = pair.settled.unwrap_or_default();
                }
                Name::Spec => {
                    walk.path.push_str("spec");
                    let pair = entries.next_value_seed(Take(Spec { walk: &mut walk, parent: None }))?;
                    walk.path.clear();
                    spec.entry(&hasher, hash, pair);
                    spec_seen = true;
                }
                Name::Other => {
                    let pair = entries.next_value_seed(Leaf::plain(&hasher, 1))?;
                    spec.entry(&hasher, hash, pair);
                    spec_seen = true;
                }
            }
        }
        drop(walk);
        view.hashes.spec = if spec_seen { spec.map(&hasher).full } else { 0 };
        view.paused = switches.into_pause();
        // Stable: those at the top level come first, else in document order.
        view.conditions.sort_by_key(|condition| !condition.at.is_empty());
        view.lints = lints.words();
        Ok(decoded)
    }
}

/// A short text, or nothing.
fn word<'de, A: MapAccess<'de>>(entries: &mut A) -> Result<String, A::Error> {
    Ok(match entries.next_value_seed(Text::new(|text: &str| words::cut(text, MAX_NAME).to_owned()))? {
        Field::Is(text) => text,
        Field::Absent | Field::Wrong => String::new(),
    })
}

// === impl Name ===

impl Name {
    fn of(key: &str) -> Self {
        match key {
            "apiVersion" => Self::ApiVersion,
            "kind" => Self::Kind,
            "metadata" => Self::Metadata,
            "spec" => Self::Spec,
            "status" => Self::Status,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests;
