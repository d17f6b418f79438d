//! Recordings.

use std::io::Cursor;

use loopwatch::recording::{RECORDING_VERSION, RecordedObservation, Recording, RecordingHeader};
use loopwatch_model::observation::Observation;
use serde_json::Value;

use crate::limits::bounded;
use crate::world::NOW;

/// The limits of `src/recording/reader.rs` and `fields.rs`, with the entry for all others.
const MAX_REASONS: usize = 5;
const MAX_REASON: usize = 256;
const MAX_WATCHES: usize = 101;
const MAX_FIELDS: usize = 101;

/// The input is a recording, plain or gzipped.
pub(crate) fn recording(input: &[u8]) {
    let is_plain = !input.starts_with(&[0x1f, 0x8b]);
    let read = || {
        let mut recording = open(input.to_vec())?;
        let all: Vec<RecordedObservation> = recording.by_ref().collect();
        Some((recording.header().clone(), all, recording.unread()))
    };
    // The search for unknown fields parses at most 64 MiB, which is much for a small recording. Gzip
    // can hide a large one in few bytes.
    let each = if is_plain { 1 << 16 } else { 1 << 23 };
    let Some((header, all, unread)) = bounded(input, 1 << 20, each, read) else { return };

    if is_plain {
        let lines = input.split(|byte| *byte == b'\n').count();
        assert!(all.len() as u64 + unread.lines < lines as u64);
        assert!(unread.undiscovered_lines() <= lines as u64);
    }
    assert!(unread.first_lines.len() <= MAX_REASONS);
    assert!(unread.first_lines.iter().all(|(_, reason)| reason.len() <= MAX_REASON));
    assert!(unread.fields.keys().all(|name| name.len() <= MAX_REASON));
    assert!(unread.undiscovered.len() <= MAX_WATCHES && unread.fields.len() <= MAX_FIELDS);
    check_again(&header, &all);
}

/// An observation in a recording reads back equal.
pub(crate) fn check_recorded(saw: Observation) {
    check_again(&header(), &[RecordedObservation { at: NOW, saw }]);
}

/// A recording of these observations reads back equal, and the reader knows all of it.
fn check_again(header: &RecordingHeader, all: &[RecordedObservation]) {
    let mut text = serde_json::to_vec(header).expect("plain data");
    for observation in all {
        text.push(b'\n');
        text.extend(serde_json::to_vec(observation).expect("plain data"));
    }

    let mut recording = open(text).expect("a recording again");
    assert_eq!(recording.header(), header);
    for expected in all {
        let read = recording.next().map(|read| serde_json::to_value(read).expect("plain data"));
        let expected = serde_json::to_value(expected).expect("plain data");
        assert!(read.is_some_and(|read| is_same(&read, &expected)), "{expected}");
    }

    let unread = recording.unread();
    assert_eq!(
        (recording.next(), unread.lines, unread.unknown_fields()),
        (None, 0, 0),
        "{unread:?}"
    );
}

/// Whether two values are the same. The JSON parser may read a number with a fraction as a neighbour of
/// the number that was written.
pub(crate) fn is_same(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return false };
            (a - b).abs() <= f64::EPSILON * 4.0 * a.abs().max(b.abs()).max(f64::MIN_POSITIVE)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn open(text: Vec<u8>) -> Option<Recording> {
    Recording::read(Cursor::new(text), "input".to_owned()).ok()
}

fn header() -> RecordingHeader {
    RecordingHeader { loopwatch_recording: RECORDING_VERSION, ..RecordingHeader::default() }
}
