//! Objects in streams: lines of a watch, pages of a list.

use std::cell::RefCell;

use loopwatch_model::observation::ObjectView;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::shape::{Field, Key, Scalar, Shape, Take, Text, Whole};
use super::words::cut;
use super::{DecodeError, HashKey, MAX_MESSAGE, MAX_NAME, decoded, named, object};

/// One line of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// An object is new, or new to this watch.
    Added(Box<ObjectView>),
    /// An object changed.
    Modified(Box<ObjectView>),
    /// An object is gone; this is how it last was.
    Deleted(Box<ObjectView>),
    /// Nothing of this kind changed up to a version.
    Bookmark {
        /// The resource version reached.
        version: String,
        /// Whether the initial list of a streaming list is complete.
        initial_events_end: bool,
    },
    /// The server ends the watch.
    Error(Refusal),
}

/// What the server says when it refuses: the useful part of a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// A word such as `Expired`.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What a page of a list says besides its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The resource version of the list.
    pub version: String,
    /// The token by which the next page is asked for; empty on the last one.
    pub r#continue: String,
    /// How many items the server estimates to follow.
    pub remaining: Option<i64>,
}

/// Decodes one line of a watch.
///
/// # Errors
/// When the line is not JSON, is no event, or holds an object without a name.
pub fn watch_line(line: &[u8], key: &HashKey) -> Result<WatchEvent, DecodeError> {
    let line = line.trim_ascii();
    // As the API server writes it; then the object's text is known without looking for its end.
    if let Some((kind, json)) = usual(line) {
        return event(kind, json, key);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let (kind, json) = Take(Line).deserialize(&mut deserializer)?;
    deserializer.end()?;
    let json = json.ok_or(DecodeError::Shape("a line of a watch without an object"))?;
    event(&kind, json.get().as_bytes(), key)
}

fn usual(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(b"{\"type\":\"")?.strip_suffix(b"}")?;
    let end = rest.iter().take(16).position(|byte| *byte == b'"')?;
    let json = rest[end..].strip_prefix(b"\",\"object\":")?;
    Some((std::str::from_utf8(&rest[..end]).ok()?, json))
}

fn event(kind: &str, json: &[u8], key: &HashKey) -> Result<WatchEvent, DecodeError> {
    let boxed = || object(json, key).map(Box::new);
    Ok(match kind {
        "ADDED" => WatchEvent::Added(boxed()?),
        "MODIFIED" => WatchEvent::Modified(boxed()?),
        "DELETED" => WatchEvent::Deleted(boxed()?),
        "BOOKMARK" => {
            let bookmark = decoded(json, key)?;
            WatchEvent::Bookmark { version: bookmark.object.version, initial_events_end: bookmark.initial_events_end }
        }
        "ERROR" => WatchEvent::Error(refusal(json)?),
        _ => return Err(DecodeError::Shape("a line of a watch of an unknown type")),
    })
}

/// Decodes a `Status`, as the server answers when it refuses.
///
/// # Errors
/// When the text is not JSON.
pub fn refusal(json: &[u8]) -> Result<Refusal, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let refusal = Take(Status).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(refusal)
}

/// Decodes a page of a list, handing over each item as it comes; one that cannot be decoded does not harm the others.
///
/// # Errors
/// When the page itself is not JSON, or not a list.
pub fn page<F>(json: &[u8], key: &HashKey, each: F) -> Result<Page, DecodeError>
where
    F: FnMut(Result<ObjectView, DecodeError>),
{
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let found = Take(List { key, each: RefCell::new(each) }).deserialize(&mut deserializer)?;
    deserializer.end()?;
    found.ok_or(DecodeError::Shape("a page of a list without items"))
}

/// A line of a watch in an unusual form.
struct Line;

impl<'de> Shape<'de> for Line {
    type Out = (String, Option<&'de RawValue>);

    fn scalar(self, _: Scalar<'_>) -> Self::Out {
        (String::new(), None)
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        let (mut kind, mut json) = (String::new(), None);
        let seed = |key: &str| match key {
            "type" => 1,
            "object" => 2,
            _ => 0,
        };
        while let Some(name) = entries.next_key_seed(Key(seed))? {
            match name {
                1 => kind = text(&mut entries, MAX_NAME)?,
                2 => json = Some(entries.next_value()?),
                _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok((kind, json))
    }
}

/// A `Status`.
struct Status;

impl<'de> Shape<'de> for Status {
    type Out = Refusal;

    fn scalar(self, _: Scalar<'_>) -> Refusal {
        Refusal::default()
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Refusal, A::Error> {
        let mut refusal = Refusal::default();
        let seed = |key: &str| match key {
            "code" => 1,
            "reason" => 2,
            "message" => 3,
            _ => 0,
        };
        while let Some(name) = entries.next_key_seed(Key(seed))? {
            match name {
                1 => {
                    if let Field::Is(code) = entries.next_value_seed(Take(Whole))? {
                        refusal.code = u16::try_from(code).unwrap_or_default();
                    }
                }
                2 => refusal.reason = text(&mut entries, MAX_NAME)?,
                3 => refusal.message = text(&mut entries, MAX_MESSAGE)?,
                _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(refusal)
    }
}

fn text<'de, A: MapAccess<'de>>(entries: &mut A, max: usize) -> Result<String, A::Error> {
    Ok(match entries.next_value_seed(Text::new(|text: &str| cut(text, max).to_owned()))? {
        Field::Is(text) => text,
        Field::Absent | Field::Wrong => String::new(),
    })
}

/// A page of a list.
struct List<'k, F> {
    key: &'k HashKey,
    each: RefCell<F>,
}

impl<'de, F: FnMut(Result<ObjectView, DecodeError>)> Shape<'de> for List<'_, F> {
    type Out = Option<Page>;

    fn scalar(self, _: Scalar<'_>) -> Self::Out {
        None
    }

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        let (mut page, mut items) = (Page::default(), false);
        let seed = |key: &str| match key {
            "metadata" => 1,
            "items" => 2,
            _ => 0,
        };
        while let Some(name) = entries.next_key_seed(Key(seed))? {
            match name {
                1 => entries.next_value_seed(Take(ListMetadata(&mut page)))?,
                2 => items |= entries.next_value_seed(Take(Items(&self)))?,
                _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(items.then_some(page))
    }
}

struct ListMetadata<'p>(&'p mut Page);

impl<'de> Shape<'de> for ListMetadata<'_> {
    type Out = ();

    fn scalar(self, _: Scalar<'_>) {}

    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let seed = |key: &str| match key {
            "resourceVersion" => 1,
            "continue" => 2,
            "remainingItemCount" => 3,
            _ => 0,
        };
        while let Some(name) = entries.next_key_seed(Key(seed))? {
            match name {
                1 => self.0.version = text(&mut entries, MAX_NAME)?,
                // Opaque, and useless when cut.
                2 => self.0.r#continue = text(&mut entries, usize::MAX)?,
                3 => {
                    if let Field::Is(count) = entries.next_value_seed(Take(Whole))? {
                        self.0.remaining = Some(count.max(0));
                    }
                }
                _ => drop(entries.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Items<'l, 'k, F>(&'l List<'k, F>);

impl<'de, F: FnMut(Result<ObjectView, DecodeError>)> Shape<'de> for Items<'_, '_, F> {
    type Out = bool;

    /// Go writes an empty list as null.
    fn scalar(self, scalar: Scalar<'_>) -> bool {
        matches!(scalar, Scalar::Null)
    }

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        while let Some(json) = items.next_element_seed(Raw)? {
            let object = decoded(json.get().as_bytes(), self.0.key).and_then(named);
            (self.0.each.borrow_mut())(object);
        }
        Ok(true)
    }
}

/// The text of an item: its size is wanted, and an error in it must not end the page.
struct Raw;

impl<'de> DeserializeSeed<'de> for Raw {
    type Value = &'de RawValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'de RawValue, D::Error> {
        serde::Deserialize::deserialize(deserializer)
    }
}
