//! Valid and hostile lines and pages, read by the same parsers as in a watch.

use std::sync::Arc;

use loopwatch_model::observation::{Cause, Observation, WatchId};
use proptest::prelude::*;

use super::WatchSink;
use super::event::{ListEnvelope, WatchEvent};
use super::frames::{Frame, ItemSplitter, LineSplitter};
use crate::net::Failure;
use crate::sources::api_server::sinks::ObjectSink;
use crate::sources::decoding::{HashKey, ListMetadata};
use crate::sources::testing::say;

const LIMIT: usize = 1 << 20;

/// The outcome of one line: the resource version, or a bookmark in words.
type LineOutcome = Result<String, Failure>;

fn sink() -> ObjectSink {
    ObjectSink {
        watch: WatchId("widgets.example.io".into()),
        hash_key: HashKey([7; 16]),
        annotations: Arc::default(),
    }
}

/// Reads all lines of a stream.
fn read_stream(bytes: &[u8], out: &mut Vec<Observation>) -> Vec<LineOutcome> {
    let (mut lines, mut sink, mut outcomes) = (LineSplitter::new(LIMIT), sink(), Vec::new());
    lines.push(bytes);
    while let Some(Frame::Document(line)) = lines.next() {
        let outcome = WatchEvent::parse(&line).and_then(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => sink.applied(object, out),
            WatchEvent::Deleted(object) => sink.deleted(object, out),
            WatchEvent::Bookmark { version, ends_list: true } => {
                Ok(format!("end of list at {version}"))
            }
            WatchEvent::Bookmark { version, ends_list: false } => {
                Ok(format!("bookmark at {version}"))
            }
            WatchEvent::Error(failure) => Err(failure),
        });
        outcomes.push(outcome);
    }

    outcomes
}

/// Reads one line of a stream.
fn read_line(line: &str) -> (LineOutcome, Vec<Observation>) {
    let mut out = Vec::new();
    let mut outcomes = read_stream(format!("{line}\n").as_bytes(), &mut out);

    assert!(outcomes.len() <= 1, "{line} is one line");

    // A stream skips empty lines, so parse them directly.
    (outcomes.pop().unwrap_or_else(|| WatchEvent::parse(b"").map(|_| String::new())), out)
}

/// Reads a page: the outcome of each item, and of the page itself.
fn read_page(
    bytes: &[u8],
    out: &mut Vec<Observation>,
) -> (Vec<Result<(), Failure>>, Result<ListMetadata, Failure>) {
    let (mut items, mut sink, mut outcomes) = (ItemSplitter::new(LIMIT), sink(), Vec::new());
    items.push(bytes);
    while let Ok(Some(Frame::Document(item))) = items.next() {
        outcomes.push(sink.listed(&item, out));
    }

    (outcomes, ListEnvelope::parse(items.envelope()))
}

#[test]
fn a_watch_line_becomes_an_observation() {
    let object = r#"{"metadata":{"name":"n","resourceVersion":"5"},"spec":{"a":1}}"#;
    for (text, said) in [
        (format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"), "applied n@5"),
        (format!("{{ \"object\" : {object}, \"type\": \"MODIFIED\" }}"), "applied n@5"),
        (format!(r#"{{"type":"ADDED","object":{object}}}"#), "applied n@5"),
        (format!(r#"{{"type":"DELETED","object":{object}}}"#), "deleted n@5"),
    ] {
        let (version, out) = read_line(&text);
        assert_eq!(version.ok().as_deref(), Some("5"), "{text}");
        assert_eq!(out.iter().map(say).collect::<Vec<_>>(), [said], "{text}");

        if let [Observation::Applied { object: view, .. }] = &out[..] {
            assert_eq!(view.bytes as usize, object.len(), "{text}");
        }
    }

    for (end, said) in [("true", "end of list at 9"), ("false", "bookmark at 9")] {
        let annotations = format!(r#"{{"k8s.io/initial-events-end":"{end}"}}"#);
        let (bookmark, out) = read_line(&format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"9","annotations":{annotations}}}}}}}"#
        ));

        assert_eq!((bookmark.ok().as_deref(), out.len()), (Some(said), 0));
    }

    let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    let expected = Failure { status: Some(410), ..Failure::new(Cause::Gone, "HTTP 410: too old") };

    assert_eq!(read_line(gone).0, Err(expected));

    for text in [
        "",
        "{}",
        "[]",
        r#"{"type":"ADDED"}"#,
        r#"{"type":"NEW","object":{}}"#,
        r#"{"type":"ADDED","object":{}}"#,
    ] {
        let (outcome, out) = read_line(text);
        assert_eq!(outcome.map_err(|failure| failure.cause), Err(Cause::Undecodable), "{text}");
        assert!(out.is_empty(), "{text}: {out:?}");
    }
}

#[test]
fn a_page_yields_its_items_one_by_one() {
    let text = r#"{"kind":"ShopList","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":5},
        "items":[{"metadata":{"name":"a"}},{"metadata":{}},{"metadata":{"name":"b"}}]}"#;
    let mut out = Vec::new();
    let (items, end) = read_page(text.as_bytes(), &mut out);

    assert_eq!(items.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(out.iter().map(say).collect::<Vec<_>>(), ["listed a@", "listed b@"]);

    let expected = ListMetadata {
        resource_version: "7".to_owned(),
        token: "abc".to_owned(),
        remaining_item_count: Some(5),
    };

    assert_eq!(end, Ok(expected));

    let mut page = |text: &[u8]| read_page(text, &mut out).1;
    assert!(page(br#"{"items":null}"#).is_ok(), "Go writes an empty list as null");
    assert!(page(br#"{"kind":"Status","code":403}"#).is_err(), "no list");
    assert!(page(br#"{"items":[{"metadata":{"name":"a"}}"#).is_err(), "truncated");
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_crash_the_parsers(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        let _ = WatchEvent::parse(&bytes);
        let _ = read_stream(&bytes, &mut out);
        let _ = read_stream(&[&bytes, &b"\n"[..]].concat(), &mut out);
        let _ = read_page(&bytes, &mut out);
        // The same bytes inside an event and a page, so that they reach the object decoder.
        let _ = read_stream(&[b"{\"type\":\"ADDED\",\"object\":{", &bytes[..], b"}}\n"].concat(), &mut out);
        let _ = read_page(&[b"{\"items\":[", &bytes[..], b"]}"].concat(), &mut out);
    }
}
