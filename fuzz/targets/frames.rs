//! The frames of watches and of lists, and the lines of watches.

use loopwatch::fuzzing::{EventView, Split, event, is_list, items, lines};
use serde_json::Value;

use crate::limits::bounded;

/// The input is the limit of a document, the size of chunks, and a body.
pub(crate) fn frames(input: &[u8]) {
    let [limit, size, body @ ..] = input else { return };
    let (limit, size) = (usize::from(*limit) * 8 + 1, usize::from(*size) + 1);

    let whole = bounded(body, 4 << 10, 16, || lines([body], limit));
    assert_eq!(whole, lines(body.chunks(size), limit), "lines in chunks of {size}");
    assert_eq!(whole.documents, expected_lines(body, limit));
    check(&whole, body, limit);

    let whole = bounded(body, 4 << 10, 16, || items([body], limit));
    assert_eq!(whole, items(body.chunks(size), limit), "items in chunks of {size}");
    if let Some(split) = &whole {
        check(split, body, limit);
        check_items(split, body);
    }

    body.split(|byte| *byte == b'\n').for_each(check_event);
}

fn check(split: &Split, body: &[u8], limit: usize) {
    let kept: Vec<&Vec<u8>> = split.documents.iter().flatten().collect();
    let bytes: usize = kept.iter().map(|document| document.len()).sum();

    assert!(split.documents.len() <= body.len() && bytes + split.envelope.len() <= body.len());
    assert!(kept.iter().all(|document| document.len() <= limit && !document.is_empty()));
}

/// The documents of a stream, by the simplest rule.
fn expected_lines(body: &[u8], limit: usize) -> Vec<Option<Vec<u8>>> {
    let mut lines: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    // The last line has no end, so only its excess is certain.
    let rest = lines.pop().filter(|rest| rest.len() > limit);
    let whole = lines.into_iter().filter_map(|line| match line.trim_ascii_end() {
        _ if line.len() > limit => Some(None),
        [] => None,
        text => Some(Some(text.to_vec())),
    });

    whole.chain(rest.map(|_| None)).collect()
}

/// A list has the items that a JSON parser finds in it.
fn check_items(split: &Split, body: &[u8]) {
    let Ok(Value::Object(list)) = serde_json::from_slice(body) else { return };
    // Duplicate keys and escapes have no single meaning.
    let is_plain = body.windows(7).filter(|window| window == b"\"items\"").count() == 1;
    let Some(Value::Array(expected)) = list.get("items").filter(|_| is_plain) else { return };
    if body.contains(&b'\\') || !expected.iter().all(Value::is_object) {
        return;
    }

    // The metadata may have any form, so no answer is wrong.
    let _ = is_list(&split.envelope);
    assert_eq!(split.documents.len(), expected.len());
    for (document, expected) in split.documents.iter().zip(expected) {
        let Some(document) = document else { continue };
        assert_eq!(&serde_json::from_slice::<Value>(document).expect("an item"), expected);
    }
}

fn check_event(line: &[u8]) {
    let Some(event) = bounded(line, 4 << 10, 64, || event(line)) else { return };
    match event {
        EventView::Object(object) => {
            assert!(line.as_ptr_range().contains(&object.as_ptr()), "borrowed from the line");
            // An event has no other keys. With others after `object`, it is undecodable.
            let whole = serde_json::from_slice::<Value>(line).ok();
            if let Some(whole) =
                whole.filter(|whole| whole.as_object().is_some_and(|it| it.len() == 2))
            {
                let object: Value = serde_json::from_slice(object).expect("a part of valid JSON");
                assert_eq!(whole["object"], object);
            }
        }
        EventView::Bookmark { version, .. } => assert!(version.len() <= line.len()),
        EventView::Error { detail } => assert!(!detail.is_empty()),
    }
}
