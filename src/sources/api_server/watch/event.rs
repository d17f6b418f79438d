//! One line of a watch stream, and the envelope of a list.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::net::{ApiStatus, Failure};
use crate::sources::decoding::ListMetadata;
use loopwatch_model::observation::Cause;

/// One line of a watch stream. The sink decodes the object.
#[derive(Debug)]
pub(crate) enum WatchEvent<'a> {
    /// `ADDED`.
    Added(&'a [u8]),
    /// `MODIFIED`.
    Modified(&'a [u8]),
    /// `DELETED`.
    Deleted(&'a [u8]),
    /// `BOOKMARK`: nothing else happened up to `version`.
    Bookmark {
        /// The resource version.
        version: String,
        /// Whether this ends a streamed list.
        ends_list: bool,
    },
    /// `ERROR`.
    Error(Failure),
}

/// A list without its items.
#[derive(Debug, Deserialize)]
pub(crate) struct ListEnvelope {
    #[serde(default)]
    metadata: ListMetadata,
    /// Required: a document without `items` is not a list, and must not be taken for an empty one.
    #[serde(rename = "items")]
    _items: IgnoredAny,
}

/// A line with its keys in any order.
#[derive(Deserialize)]
struct EventLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    annotations: std::collections::BTreeMap<String, String>,
}

/// The annotation of the bookmark that ends a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl<'a> WatchEvent<'a> {
    /// Parses one line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Failure> {
        let (kind, object) = split(line)?;
        Ok(match &*kind {
            "ADDED" => Self::Added(object),
            "MODIFIED" => Self::Modified(object),
            "DELETED" => Self::Deleted(object),
            "BOOKMARK" => {
                let BookmarkObject { metadata } =
                    serde_json::from_slice(object).map_err(|e| Failure::undecodable(&e))?;
                let ends_list = metadata
                    .annotations
                    .get(INITIAL_EVENTS_END)
                    .is_some_and(|value| value == "true");

                Self::Bookmark { version: metadata.resource_version, ends_list }
            }
            "ERROR" => Self::Error(Failure::from_status(
                serde_json::from_slice::<ApiStatus>(object).unwrap_or_default(),
            )),
            other => {
                let known = other.chars().take(32).collect::<String>();
                return Err(Failure::new(
                    Cause::Undecodable,
                    format!("unknown watch event type {known:?}"),
                ));
            }
        })
    }
}

impl ListEnvelope {
    /// Parses the envelope; fails if it is truncated.
    pub(crate) fn parse(json: &[u8]) -> Result<ListMetadata, Failure> {
        let Self { metadata, _items } =
            serde_json::from_slice(json).map_err(|e| Failure::undecodable(&e))?;
        Ok(metadata)
    }
}

/// Splits a line into type and object. The fast path relies on the format of the API server, which
/// writes the type first, the object last and no spaces, so that the object is parsed only once. With
/// another key after the object, the object is undecodable.
fn split(line: &[u8]) -> Result<(Cow<'_, str>, &[u8]), Failure> {
    let fast = || {
        let rest = line.strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
        let end = rest.iter().take(16).position(|byte| *byte == b'"')?;
        let object = rest[end..].strip_prefix(br#"","object":"#)?;
        let kind = std::str::from_utf8(&rest[..end]).ok()?;

        object.starts_with(b"{").then_some((Cow::Borrowed(kind), object))
    };

    if let Some(parts) = fast() {
        return Ok(parts);
    }

    let EventLine { r#type, object } =
        serde_json::from_slice(line).map_err(|e| Failure::undecodable(&e))?;
    Ok((r#type, object.get().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_keys_in_any_order() {
        for line in [
            r#"{"type":"ADDED","object":{"a":{"type":"x"}}}"#,
            r#"{ "object" : {"a":{"type":"x"}}, "type":"ADDED" }"#,
        ] {
            match WatchEvent::parse(line.as_bytes()) {
                Ok(WatchEvent::Added(object)) => assert_eq!(object, br#"{"a":{"type":"x"}}"#),
                other => panic!("{line} was read as {other:?}"),
            }
        }
    }

    #[test]
    fn bookmarks_say_whether_they_end_the_list() {
        let end = br#"{"type":"BOOKMARK","object":{"kind":"W","metadata":{"resourceVersion":"7","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(
            matches!(WatchEvent::parse(end), Ok(WatchEvent::Bookmark { version, ends_list: true }) if version == "7")
        );

        let idle = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}"#;
        assert!(
            matches!(WatchEvent::parse(idle), Ok(WatchEvent::Bookmark { version, ends_list: false }) if version == "8")
        );
    }

    #[test]
    fn errors_inside_the_stream_have_a_cause() {
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}}"#;
        assert!(
            matches!(WatchEvent::parse(gone), Ok(WatchEvent::Error(f)) if f.cause == Cause::Gone)
        );

        for broken in
            [&br#"{"type":"ADDED","obj"#[..], b"", b"null", br#"{"type":"NEW","object":{}}"#]
        {
            assert!(
                matches!(WatchEvent::parse(broken), Err(f) if f.cause == Cause::Undecodable),
                "{broken:?}"
            );
        }
    }
}
