//! What a model makes of a recording, and of the checkpoint that it leaves to the next process.

use std::io::Cursor;

use loopwatch::recording::Recording;
use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use crate::recordings::is_same;
use crate::world::check_outputs;

/// The observations that a model takes: enough for any order of a few.
const MOST: usize = 500;

/// The input is a recording. A model takes its observations, in the order of the file, and another one its
/// checkpoint and the same observations again.
pub(crate) fn history(input: &[u8]) {
    let Ok(recording) = Recording::read(Cursor::new(input.to_vec()), "input".to_owned()) else {
        return;
    };

    let all: Vec<_> = recording.take(MOST).collect();
    let mut model = Model::new(Settings::default());
    for line in &all {
        model.apply(line.at, line.saw.clone());
    }
    let end = model.snapshot().at;
    model.apply(end.after(Span::hours(1)), Observation::Tick);

    let checkpoint = read_back(&model.checkpoint());
    let mut next = Model::new(Settings::default());
    next.apply(end, Observation::Restored(Box::new(checkpoint)));
    for line in all {
        next.apply(line.at, line.saw);
    }

    check_outputs(next);
}

/// A checkpoint reads back equal.
fn read_back(checkpoint: &Checkpoint) -> Checkpoint {
    let written = serde_json::to_value(checkpoint).expect("plain data");
    let read: Checkpoint = serde_json::from_str(&written.to_string()).expect("a checkpoint again");
    let again = serde_json::to_value(&read).expect("plain data");
    assert!(is_same(&again, &written), "{written}");

    read
}
