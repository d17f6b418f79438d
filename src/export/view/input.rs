//! The recording or dump behind a report, and the parts of it that loopwatch could not use. Every
//! output names them.

use std::collections::BTreeMap;

use loopwatch_model::observation::WatchId;
use loopwatch_model::snapshot::{KindSummary, Snapshot};
use loopwatch_model::time::Timestamp;
use serde::Serialize;

use super::blind_spots::{BlindSpot, blind_spots};
use super::object_name::kind_name;
use super::text::Number;
use crate::recording::Unread;
use crate::telemetry::UnreadPart;

/// The input of a report. `recording` and `dump` are `None` for a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Input {
    pub recording: Option<RecordingInput>,
    pub dump: Option<DumpInput>,
    /// Whether the time for the first lists of a cluster ended before the lists.
    pub lists_timed_out: bool,
    /// The operator, as `NAMESPACE/NAME`, if it is one of many.
    pub operator: Option<String>,
}

/// A recording, as far as the replay has read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RecordingInput {
    recorded_by: String,
    pub begins: Option<Timestamp>,
    /// The time that the report shows.
    pub shows: Option<Timestamp>,
    /// The speed of the replay, relative to real time; `None` once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    skipped_lines: u64,
    first_skipped_lines: Vec<SkippedLine>,
    undiscovered_lines: u64,
    undiscovered_watches: BTreeMap<WatchId, u64>,
    unknown_fields: BTreeMap<String, u64>,
    unknown_header_fields: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct SkippedLine {
    line: u64,
    reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DumpInput {
    pub objects: u64,
    /// The number of objects without `managedFields`. For these, nothing shows when their specs
    /// were written.
    pub without_managed_fields: u64,
    /// The number of copies of objects that are older than others in the dump.
    pub older_copies: u64,
    /// Parts that could not be read: place and reason.
    pub problems: Vec<String>,
    /// Whether one of these parts may hold objects.
    #[serde(skip)]
    pub may_hide_objects: bool,
}

/// Maximum number of names in a list, before the number of the others.
const SHOWN: usize = 5;
/// Maximum number of kinds in a sentence.
const KINDS: usize = 12;

impl Input {
    /// The parts that loopwatch could not use, as blind spots.
    pub(crate) fn blind_spots(&self) -> Vec<BlindSpot> {
        let of_dump = |dump: &DumpInput| [dump.without_ages(), dump.replaced()];
        let of_dump = self.dump.iter().flat_map(of_dump).flatten();
        self.unread().into_iter().chain(of_dump).collect()
    }

    /// The parts that loopwatch could not read.
    pub(crate) fn unread(&self) -> Vec<BlindSpot> {
        let recording = self.recording.iter().flat_map(RecordingInput::blind_spots);
        let dump = self.dump.iter().filter_map(DumpInput::unread);
        let timed_out = self.lists_timed_out.then(|| BlindSpot {
            what: "objects of kinds whose lists are incomplete".to_owned(),
            why: "the API server did not send the rest of these lists before the time for them ended; increase \
                  --timeout, or select kinds with --watch"
                .to_owned(),
        });

        recording.chain(dump).chain(timed_out).collect()
    }

    /// Whether loopwatch could read every part of the input. Parts that a newer loopwatch added, and
    /// kinds that the account may not list, do not count: nobody expects this loopwatch to read them.
    #[must_use]
    pub(crate) fn is_whole(&self) -> bool {
        let skipped = self.recording.as_ref().is_some_and(|recording| recording.skipped_lines > 0);
        let broken = self.dump.as_ref().is_some_and(|dump| !dump.problems.is_empty());
        !skipped && !broken && !self.lists_timed_out
    }

    /// Whether the input shows the objects of no kind at all. A cluster or a dump without any kind that
    /// loopwatch judges is no failure, but a recording always begins with its kinds.
    #[must_use]
    pub(crate) fn shows_nothing(&self, snapshot: &Snapshot) -> bool {
        let is_listed = |kind: &KindSummary| kind.watches.iter().any(|watch| watch.synced);
        let is_expected = !snapshot.kinds.is_empty() || self.recording.is_some();
        is_expected && !snapshot.kinds.iter().any(is_listed)
    }

    /// Everything that loopwatch cannot use from the input, or cannot see in the cluster.
    #[must_use]
    pub(crate) fn all_blind_spots(&self, snapshot: &Snapshot) -> Vec<BlindSpot> {
        self.blind_spots().into_iter().chain(blind_spots(snapshot)).collect()
    }

    /// The parts of the cluster that an explanation from watched kinds or a dump cannot show: the
    /// blind spots of this input, and owners and children of other kinds.
    pub(crate) fn blind_spots_of_one_object(&self, snapshot: &Snapshot) -> Vec<BlindSpot> {
        let kinds: Vec<String> =
            snapshot.kinds.iter().map(|kind| kind_name(&kind.group, &kind.kind)).collect();
        let more = kinds.len().saturating_sub(KINDS);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = kinds.iter().take(KINDS).cloned().collect::<Vec<_>>().join(", ");
        let why =
            if self.dump.is_some() { "the dump contains only" } else { "loopwatch watches only" };
        let others = BlindSpot {
            what: "owners and children of other kinds".to_owned(),
            why: format!("{why} {shown}{rest}"),
        };

        std::iter::once(others).chain(self.all_blind_spots(snapshot)).collect()
    }
}

impl RecordingInput {
    /// A recording by the program `recorded_by`, before its first observation.
    pub(crate) fn new(recorded_by: &str) -> Self {
        Self { recorded_by: recorded_by.to_owned(), ..Self::default() }
    }

    /// Updates the counts of the parts that the replay ignores.
    pub(crate) fn set_unread(&mut self, unread: &Unread) {
        let skipped =
            |(line, reason): &(u64, String)| SkippedLine { line: *line, reason: reason.clone() };
        self.skipped_lines = unread.lines;
        self.first_skipped_lines = unread.first_lines.iter().map(skipped).collect();
        self.undiscovered_lines = unread.undiscovered_lines();
        self.undiscovered_watches.clone_from(&unread.undiscovered);
        self.unknown_fields.clone_from(&unread.fields);
        self.unknown_header_fields.clone_from(&unread.header);
    }

    /// The number of parts that the replay ignores, by the `part` label of
    /// `loopwatch_recording_unread`.
    pub(crate) fn unread(&self) -> [(UnreadPart, u64); 4] {
        [
            (UnreadPart::SkippedLine, self.skipped_lines),
            (UnreadPart::UndiscoveredLine, self.undiscovered_lines),
            (UnreadPart::Field, self.unknown_fields.values().sum()),
            (UnreadPart::HeaderField, self.unknown_header_fields.len() as u64),
        ]
    }

    fn blind_spots(&self) -> Vec<BlindSpot> {
        let mut spots = Vec::new();
        let mut add = |what: String, why: String| spots.push(BlindSpot { what, why });
        let lines = |count: u64| plural(count, "line") + " of the recording";

        if self.skipped_lines > 0 {
            let reasons = self
                .first_skipped_lines
                .iter()
                .map(|skipped| format!("line {}: {}", skipped.line, skipped.reason));
            let why = format!(
                "not readable as an observation; loopwatch replays the other lines ({}); if the file is incomplete, copy \
                 it again",
                list(reasons, self.skipped_lines, "; ")
            );

            add(lines(self.skipped_lines), why);
        }

        if self.undiscovered_lines > 0 {
            let watches = self
                .undiscovered_watches
                .keys()
                .filter(|watch| !watch.0.is_empty())
                .map(|watch| watch.to_string());
            let names = list(watches, self.undiscovered_watches.len() as u64, ", ");
            let why = format!("about watches that are in no earlier list of kinds ({names})");

            add(lines(self.undiscovered_lines), why);
        }

        let fields: u64 = self.unknown_fields.values().sum();
        if fields > 0 {
            let counts = self
                .unknown_fields
                .iter()
                .map(|(path, count)| format!("{path}: {}", Number(*count)));
            let names = list(counts, self.unknown_fields.len() as u64, ", ");

            add(
                plural(fields, "unknown field") + " of the recording",
                format!("{} ({names})", self.by_other_version()),
            );
        }

        if !self.unknown_header_fields.is_empty() {
            let count = self.unknown_header_fields.len() as u64;
            let names = list(self.unknown_header_fields.iter().cloned(), count, ", ");
            add(
                plural(count, "setting") + " of the recording",
                format!("{} ({names})", self.by_other_version()),
            );
        }

        spots
    }

    fn by_other_version(&self) -> String {
        match self.recorded_by.as_str() {
            "" => "unknown to this loopwatch".to_owned(),
            program => format!("unknown to this loopwatch; {program} made the recording"),
        }
    }
}

impl DumpInput {
    /// The parts that loopwatch skipped, if there are any.
    fn unread(&self) -> Option<BlindSpot> {
        (!self.problems.is_empty()).then(|| BlindSpot {
            what: plural(self.problems.len() as u64, "part") + " of the dump",
            why: format!(
                "loopwatch skipped what it could not read{} ({}); correct the file, or create the dump again",
                if self.may_hide_objects { ", and reports no object as missing because of it" } else { "" },
                list(self.problems.iter().cloned(), self.problems.len() as u64, "; ")
            ),
        })
    }

    /// The older copies of objects, if there are any.
    fn replaced(&self) -> Option<BlindSpot> {
        (self.older_copies > 0).then(|| BlindSpot {
            what: plural(self.older_copies, "object") + " with an older copy",
            why: "the dump contains several copies; loopwatch judged the one with the highest resourceVersion, or else \
                  the last one"
                .to_owned(),
        })
    }

    /// The objects without ages, if there are any.
    fn without_ages(&self) -> Option<BlindSpot> {
        let (objects, without) = (self.objects, self.without_managed_fields);
        if without == 0 {
            return None;
        }

        let what =
            format!("The age of the specs of {} of {}", Number(without), plural(objects, "object"));
        let why = "these objects have no managedFields, so loopwatch does not know when their specs were written, and \
                   reports nothing critical about them; create the dump with `kubectl get --show-managed-fields`";

        Some(BlindSpot { what, why: why.to_owned() })
    }
}

fn plural(count: u64, word: &str) -> String {
    format!("{} {word}{}", Number(count), if count == 1 { "" } else { "s" })
}

/// The first of `count` texts, and the number of the others.
fn list(texts: impl Iterator<Item = String>, count: u64, separator: &str) -> String {
    let mut shown: Vec<String> = texts.take(SHOWN).collect();
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        shown.push(format!("and {} more", Number(more)));
    }

    shown.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_without_effect_is_named_with_its_number() {
        let unread = Unread {
            lines: 7,
            first_lines: vec![(3, "expected value".to_owned())],
            undiscovered: [(WatchId("widgets.example.io".into()), 2_000)].into(),
            fields: [("saw.applied.object.colour".to_owned(), 4)].into(),
            header: vec!["settings.moon".to_owned()],
        };

        let mut recording = RecordingInput::new("loopwatch 9.9.9");
        assert!(recording.blind_spots().is_empty());

        recording.set_unread(&unread);
        assert_eq!(recording.unread().map(|(_, count)| count), [7, 2_000, 4, 1]);

        let input = Input { recording: Some(recording), ..Input::default() };
        let said: Vec<_> = input
            .blind_spots()
            .into_iter()
            .map(|spot| format!("{}: {}", spot.what, spot.why))
            .collect();

        assert_eq!(
            said,
            [
                "7 lines of the recording: not readable as an observation; loopwatch replays the other lines (line 3: expected value; and 6 more); if the file is incomplete, copy it again",
                "2,000 lines of the recording: about watches that are in no earlier list of kinds (widgets.example.io)",
                "4 unknown fields of the recording: unknown to this loopwatch; loopwatch 9.9.9 made the recording (saw.applied.object.colour: 4)",
                "1 setting of the recording: unknown to this loopwatch; loopwatch 9.9.9 made the recording (settings.moon)",
            ]
        );
    }

    #[test]
    fn a_dump_without_managed_fields_has_no_ages_of_specs() {
        let of = |objects, without_managed_fields| {
            let dump = Some(DumpInput { objects, without_managed_fields, ..DumpInput::default() });
            Input { dump, ..Input::default() }
                .blind_spots()
                .into_iter()
                .map(|spot| spot.what)
                .collect::<Vec<_>>()
        };

        assert_eq!(of(3, 0), Vec::<String>::new());
        assert_eq!(of(3, 3), ["The age of the specs of 3 of 3 objects"]);
        assert_eq!(of(3, 1), ["The age of the specs of 1 of 3 objects"]);
    }
}
