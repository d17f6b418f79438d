//! The files of `/proc` and of cgroups, for the fuzz targets.

use std::path::Path;

use loopwatch_model::observation::ProcessView;
use loopwatch_model::time::Timestamp;
use tokio::sync::watch;

use super::files::Proc;
use super::{ProcessReader, ReaderStatus, Reading};
use crate::sources::operator::hints::OperatorClue;

/// How to find the operator's process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FindBy<'a> {
    Pid(u32),
    /// By the ID of its container.
    Container(&'a str),
    /// By its start, in seconds since 1970.
    Start(f64),
    /// It is the only one.
    Exclusion,
}

/// What a reading says.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessReading {
    /// Why something could not be read; empty if everything could.
    pub reason: String,
    pub seen: Option<Box<ProcessView>>,
    pub is_gone: bool,
}

/// Reads the `/proc` in a folder twice, as process 30.
#[must_use]
pub fn process(folder: &Path, now: Timestamp, by: FindBy<'_>) -> [ProcessReading; 2] {
    let mut clue = OperatorClue::default();
    let mut pid = None;
    match by {
        FindBy::Pid(number) => pid = Some(number),
        FindBy::Container(id) => clue.containers.push(id.to_owned()),
        FindBy::Start(seconds) => clue.started_seconds = Some(seconds),
        FindBy::Exclusion => {}
    }

    let clues = watch::Sender::new(clue);
    let proc = Proc::new(folder, 30);
    let mut reader = ProcessReader::of(proc, pid, "team-a/operator".to_owned(), clues.subscribe());
    [view(reader.read(now)), view(reader.read(now))]
}

fn view(Reading { status, gone, seen }: Reading) -> ProcessReading {
    let reason = match status {
        ReaderStatus::Works => String::new(),
        ReaderStatus::Restricted(reason)
        | ReaderStatus::Off(reason)
        | ReaderStatus::Failed(_, reason) => reason,
    };
    ProcessReading { reason, seen, is_gone: gone.is_some() }
}
