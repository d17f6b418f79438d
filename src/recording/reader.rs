//! Reads a recording, plain or gzipped, and counts the parts that it ignores.

mod fields; // unknown fields
mod header; // the first line

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use loopwatch_model::observation::{Observation, WatchId};

use self::fields::UnknownFields;
use super::{RECORDING_VERSION, RecordedObservation, RecordingHeader};
use crate::system::files::GZIP;

/// Longest line, in bytes. The view of an object is far smaller.
const MAX_LINE: usize = 4 * 1024 * 1024;

/// Number of unreadable lines to keep with their reasons. Beyond it, lines are only counted.
const MAX_KEPT_REASONS: usize = 5;

/// The maximum length of a reason in bytes. It may quote a text of the line.
const MAX_REASON: usize = 256;

/// Number of undiscovered watches to keep by name. Beyond it, lines are counted under an empty
/// name.
const MAX_KEPT_WATCHES: usize = 100;

/// An open recording: an iterator over its observations.
pub struct Recording {
    lines: Box<dyn BufRead + Send>,
    header: RecordingHeader,
    number: u64,
    /// The watches of the latest list of kinds.
    discovered: BTreeSet<WatchId>,
    fields: UnknownFields,
    unread: Unread,
}

/// The parts of a recording that have had no effect on the replay so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// The number of unreadable lines, which the reader skips.
    pub lines: u64,
    /// The first of these lines: line number and reason.
    pub first_lines: Vec<(u64, String)>,
    /// The number of lines about watches that are not in the latest list of kinds, by watch. The
    /// model ignores them.
    pub undiscovered: BTreeMap<WatchId, u64>,
    /// The number of unknown fields, by path: `saw.applied.object.colour`.
    pub fields: BTreeMap<String, u64>,
    /// Fields and settings of the header that are unknown or unreadable.
    pub header: Vec<String>,
}

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {error}")]
    Io { path: String, error: io::Error },
    /// The first line is not a header.
    #[error(
        "{path} is not a loopwatch recording: line 1 is not a recording header ({reason}); create one with `loopwatch record -o FILE`"
    )]
    NotARecording { path: String, reason: String },
    /// A newer program wrote it.
    #[error(
        "{path} is a recording of format version {found}, but this loopwatch reads versions up to {RECORDING_VERSION}; use a newer loopwatch"
    )]
    TooNew { path: String, found: u32 },
}

impl Recording {
    /// Opens the recording in `path`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let name = path.display().to_string();
        let file =
            File::open(path).map_err(|error| RecordingError::Io { path: name.clone(), error })?;
        Self::read(BufReader::new(file), name)
    }

    /// Reads a recording from any reader; `name` is for messages.
    ///
    /// # Errors
    /// Like [`Recording::open`].
    pub fn read(
        mut input: impl BufRead + Send + 'static,
        name: String,
    ) -> Result<Self, RecordingError> {
        let io = |error| RecordingError::Io { path: name.clone(), error };
        let packed = input.fill_buf().map_err(io)?.starts_with(&GZIP);
        let lines: Box<dyn BufRead + Send> = if packed {
            Box::new(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Box::new(input)
        };
        let mut recording = Self {
            lines,
            header: RecordingHeader::default(),
            number: 0,
            discovered: BTreeSet::new(),
            fields: UnknownFields::default(),
            unread: Unread::default(),
        };

        let not_one = |reason: String| RecordingError::NotARecording { path: name.clone(), reason };
        let first = match recording.line() {
            Ok(Some(Ok(first))) => first,
            Ok(Some(Err(reason))) => return Err(not_one(reason)),
            Ok(None) => return Err(not_one("the file is empty".to_owned())),
            Err(error) => return Err(io(error)),
        };

        (recording.header, recording.unread.header) =
            header::read(&first).map_err(|error| not_one(error.to_string()))?;
        match recording.header.loopwatch_recording {
            found if found > RECORDING_VERSION => Err(RecordingError::TooNew { path: name, found }),
            _ => Ok(recording),
        }
    }

    #[must_use]
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// The parts that have had no effect so far.
    #[must_use]
    pub fn unread(&self) -> Unread {
        Unread { fields: self.fields.counts(), ..self.unread.clone() }
    }

    /// Reads one line without its line ending: `Ok(None)` at the end of the file, `Ok(Some(Err))`
    /// if the line is too long.
    fn line(&mut self) -> io::Result<Option<Result<Vec<u8>, String>>> {
        let mut line = Vec::new();
        self.number += 1;

        let taken = self.lines.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(None);
        }

        if line.last() == Some(&b'\n') {
            line.pop();
        } else if taken > MAX_LINE {
            self.lines.skip_until(b'\n')?;
            return Ok(Some(Err(format!("longer than {MAX_LINE} bytes"))));
        }

        Ok(Some(Ok(line)))
    }

    fn skip(&mut self, mut reason: String) {
        self.unread.lines += 1;
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        if self.unread.first_lines.len() < MAX_KEPT_REASONS {
            self.unread.first_lines.push((self.number, reason));
        }
    }

    /// Counts the observation if it is about an undiscovered watch, because the model ignores it.
    fn review_watch(&mut self, observation: &Observation) {
        match observation {
            Observation::KindsDiscovered(kinds) => {
                self.discovered = kinds.iter().map(|kind| kind.watch.clone()).collect();
            }
            Observation::ListBegan { watch, .. }
            | Observation::Listed { watch, .. }
            | Observation::ListEnded { watch, .. }
            | Observation::Applied { watch, .. }
            | Observation::Deleted { watch, .. }
            | Observation::Progressed { watch, .. }
                if !self.discovered.contains(watch) =>
            {
                let counts = &mut self.unread.undiscovered;
                let kept = counts.len() < MAX_KEPT_WATCHES || counts.contains_key(watch);
                *counts
                    .entry(if kept { watch.clone() } else { WatchId::default() })
                    .or_default() += 1;
            }
            _ => {}
        }
    }
}

impl Unread {
    /// The number of lines about undiscovered watches.
    #[must_use]
    pub fn undiscovered_lines(&self) -> u64 {
        self.undiscovered.values().sum()
    }

    /// The number of unknown fields, those of the header included.
    #[must_use]
    pub fn unknown_fields(&self) -> u64 {
        self.fields.values().sum::<u64>() + self.header.len() as u64
    }
}

impl Iterator for Recording {
    type Item = RecordedObservation;

    fn next(&mut self) -> Option<RecordedObservation> {
        loop {
            match self.line() {
                Ok(None) => return None,
                Ok(Some(Ok(line))) if line.is_empty() => {}
                Ok(Some(Ok(line))) => match serde_json::from_slice::<RecordedObservation>(&line) {
                    Ok(read) => {
                        self.fields.count::<RecordedObservation>(&line);
                        self.review_watch(&read.saw);
                        return Some(read);
                    }
                    Err(error) => self.skip(error.to_string()),
                },
                Ok(Some(Err(reason))) => self.skip(reason),
                Err(error) => {
                    // A truncated gzip stream, or a failing disk.
                    self.skip(format!("the file ends here: {error}"));
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recording, RecordingError> {
        Recording::read(io::Cursor::new(text.as_bytes().to_vec()), "test.jsonl".to_owned())
    }

    const HEADER: &str = "{\"loopwatch_recording\":1,\"recorded_by\":\"test\"}\n";

    #[test]
    fn an_unreadable_line_is_skipped_counted_and_reported() {
        let lines = "{\"at\":\"2026-01-01T00:00:00Z\",\"saw\":\"tick\"}\nnonsense\n\n{\"at\":\"2026-01-01T00:00:01Z\",\"saw\":\"tick\"}\n";
        let mut recording = read(&format!("{HEADER}{lines}")).expect("a recording");

        assert_eq!(recording.by_ref().count(), 2);
        assert_eq!(recording.unread().lines, 1);
        assert_eq!(recording.unread().first_lines[0].0, 3, "the number that an editor shows");
    }

    #[test]
    fn unknown_observations_of_a_newer_program_are_skipped() {
        let lines =
            "{\"at\":\"2026-01-01T00:00:00Z\",\"saw\":{\"the_moon\":{\"phase\":\"full\"}}}\n";
        let mut recording = read(&format!("{HEADER}{lines}")).expect("a recording");

        assert_eq!((recording.by_ref().count(), recording.unread().lines), (0, 1));
    }

    #[test]
    fn parts_without_effect_are_counted() {
        let at = "{\"at\":\"2026-01-01T00:00:00Z\",";
        let kind = r#"{"watch":"a","version":"v1","kind":"A","resource":"as","scope":"cluster","role":"primary","why":"configured"}"#;
        let lines = [
            "\"saw\":{\"list_began\":{\"watch\":\"a\",\"epoch\":1}}}".to_owned(),
            format!("\"saw\":{{\"kinds_discovered\":[{kind}]}}}}"),
            "\"saw\":{\"list_began\":{\"watch\":\"a\",\"epoch\":2,\"mood\":1}}}".to_owned(),
            "\"saw\":{\"progressed\":{\"watch\":\"b\",\"version\":\"2\"}}}".to_owned(),
        ];

        let lines: String = lines.iter().map(|line| format!("{at}{line}\n")).collect();
        let header = "{\"loopwatch_recording\":1,\"settings\":{\"moon\":1}}\n";
        let mut recording =
            read(&format!("{header}{lines}")).expect("a recording, despite the unknown setting");

        assert_eq!(recording.by_ref().count(), 4);

        let unread = recording.unread();
        assert_eq!(
            unread.undiscovered,
            [("a", 1), ("b", 1)].map(|(id, n)| (WatchId(id.into()), n)).into()
        );
        assert_eq!(unread.fields, [("saw.list_began.mood".to_owned(), 1)].into());
        assert_eq!(
            (unread.header.as_slice(), unread.lines),
            (["settings.moon".to_owned()].as_slice(), 0)
        );
    }

    #[test]
    fn the_error_for_other_files_says_what_to_do() {
        for text in ["", "kind: Pod\n", "{}\n"] {
            let error = read(text).err().expect("an error").to_string();
            assert!(
                error.contains("not a loopwatch recording") && error.contains("loopwatch record"),
                "{error}"
            );
        }

        let error = read("{\"loopwatch_recording\":99}\n").err().expect("an error").to_string();
        assert!(error.contains("version 99"), "{error}");
    }

    #[test]
    fn a_line_over_the_limit_is_skipped() {
        let long = "x".repeat(MAX_LINE + 10);
        let mut recording = read(&format!(
            "{HEADER}{long}\n{{\"at\":\"2026-01-01T00:00:00Z\",\"saw\":\"tick\"}}\n"
        ))
        .expect("a recording");

        assert_eq!(recording.by_ref().count(), 1);
        assert_eq!(recording.unread().lines, 1);
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        use std::io::Write as _;

        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(text).expect("packed");
        packer.finish().expect("packed")
    }

    #[test]
    fn a_packed_recording_that_breaks_off_or_is_huge_ends() {
        let line = "{\"at\":\"2026-01-01T00:00:00Z\",\"saw\":\"tick\"}\n";
        let whole = packed(format!("{HEADER}{}", line.repeat(1000)).as_bytes());
        for bytes in [&whole[..whole.len() - 9], &[&whole[..], &b"no gzip"[..]].concat()] {
            let mut recording = Recording::read(io::Cursor::new(bytes.to_vec()), "test".to_owned())
                .expect("a recording");
            let count = recording.by_ref().count();

            assert!(
                count <= 1000 && recording.unread().lines == 1,
                "{count} {:?}",
                recording.unread()
            );
            assert!(recording.unread().first_lines[0].1.contains("the file ends here"));
        }

        assert!(Recording::read(io::Cursor::new(whole[..12].to_vec()), "test".to_owned()).is_err());

        // Much smaller than its unpacked content.
        let huge = packed(
            &[HEADER.as_bytes(), &vec![b' '; 64 * MAX_LINE], b"\n", line.as_bytes()].concat(),
        );
        let mut recording =
            Recording::read(io::Cursor::new(huge), "test".to_owned()).expect("a recording");

        assert_eq!((recording.by_ref().count(), recording.unread().lines), (1, 1));
    }
}
