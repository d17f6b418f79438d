//! Applies a recording to a model, for `replay`, `demo` and `check`, and prints reports.

pub(super) mod paced; // at a limited speed

use anyhow::ensure;
use loopwatch_model::finding::FindingEvent;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{Cursor, ObjectRow, Snapshot};
use loopwatch_model::time::Timestamp;

use super::{FAILURE, FINDINGS, SUCCESS};
use crate::config::JudgeFlags;
use crate::export::presentation::report::{CheckReport, FailOn, OutputFormat, Style};
use crate::export::view::{Input, RecordingInput};
use crate::recording::Recording;

/// A recording after its replay, to the end or to a given time.
pub(super) struct Played {
    pub(super) model: Model,
    /// The recording, with the parts of it that had no effect.
    pub(super) input: Input,
    /// The finding events, in order.
    pub(super) timeline: Vec<FindingEvent>,
}

/// The content of a report.
pub(super) struct Shown<'a> {
    pub(super) model: &'a Model,
    pub(super) input: &'a Input,
    /// The finding events of a replay.
    pub(super) timeline: Option<&'a [FindingEvent]>,
    /// Whether to list all objects.
    pub(super) all: bool,
    /// Whether the command has a flag `--all`.
    pub(super) offers_all: bool,
}

/// The settings for a replay: those of the recorder, or those of the user's configuration file.
/// `--deadline` changes only deadlines, for example to test whether another deadline would have
/// raised an alert.
pub(super) fn settings(
    recording: &Recording,
    judge: &JudgeFlags,
    configured: Settings,
) -> Settings {
    let mut settings =
        if judge.config.is_some() { configured } else { recording.header().settings.clone() };
    judge.apply(&mut settings);
    settings
}

/// Keeps the user's settings when the recording changes the settings.
pub(super) fn override_settings(
    observation: &mut Observation,
    judge: &JudgeFlags,
    current: &Settings,
) {
    if let Observation::SettingsChanged(changed) = observation {
        if judge.config.is_some() {
            (**changed).clone_from(current);
        }
        judge.apply(changed);
    }
}

/// Applies the recording to a new model, up to `until` or to the end. `file` is for messages.
///
/// # Errors
/// If `until` is not within the recording.
pub(super) fn play(
    file: &str,
    mut recording: Recording,
    settings: Settings,
    judge: Option<&JudgeFlags>,
    until: Option<Timestamp>,
) -> anyhow::Result<Played> {
    let (mut model, mut timeline) = (Model::new(settings), Vec::new());
    let mut input = RecordingInput::new(&recording.header().recorded_by);
    let mut ended = true;

    for mut line in recording.by_ref() {
        if let Some(judge) = judge {
            override_settings(&mut line.saw, judge, model.settings());
        }

        if let Some(until) = until.filter(|until| *until < line.at) {
            ensure!(input.begins.is_some(), "{file} begins at {}, after {until}", line.at);
            ended = false;
            break;
        }

        input.begins.get_or_insert(line.at);
        input.shows = input.shows.max(Some(line.at));
        model.apply(line.at, line.saw);
        model.probes(); // the recording contains the answers
        timeline.extend(model.finding_events());
        model.reference_events(); // the webhook received them at the time
    }

    if let Some(until) = until {
        let Some(last) = input.shows else {
            anyhow::bail!("the recording {file} contains no observations")
        };
        ensure!(!ended || until <= last, "{file} ends at {last}, before {until}");
        model.apply(until, Observation::Tick);
        timeline.extend(model.finding_events());
        input.shows = Some(until);
    }

    input.set_unread(&recording.unread());
    Ok(Played { model, input: Input { recording: Some(input), ..Input::default() }, timeline })
}

/// The exit code, which says whether the user has to look. No problem in a part of the input is no
/// success.
pub(super) fn exit_code(snapshot: &Snapshot, input: &Input, fail_on: &FailOn) -> u8 {
    let is_whole = input.is_whole() && !input.shows_nothing(snapshot); // the report names the reason
    match (fail_on.fails(snapshot), is_whole) {
        (true, _) => FINDINGS,
        (false, true) => SUCCESS,
        (false, false) => FAILURE,
    }
}

impl Shown<'_> {
    /// Prints the report, and returns its snapshot.
    ///
    /// # Errors
    /// If the report cannot be converted to the format or printed.
    pub(super) fn print(&self, format: OutputFormat) -> anyhow::Result<Snapshot> {
        let snapshot = self.model.snapshot();
        let rows = self.all.then(|| all_rows(self.model));
        let report = CheckReport {
            snapshot: &snapshot,
            rows: rows.as_deref(),
            input: self.input,
            timeline: self.timeline,
            offers_all: self.offers_all,
        };

        super::print(&match format {
            OutputFormat::Json | OutputFormat::Yaml => format.convert(&report.json())?,
            OutputFormat::Table | OutputFormat::Markdown => report.text(Style::of_stdout(format)),
        })?;

        Ok(snapshot)
    }
}

fn all_rows(model: &Model) -> Vec<ObjectRow> {
    let (rows, _) = model.rows(Cursor::default(), usize::MAX);
    rows
}
