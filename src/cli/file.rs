//! Reads the observations of a recording or a dump.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use loopwatch_model::model::Model;
use loopwatch_model::observation::{ObjectAddress, Observation};
use loopwatch_model::time::Timestamp;

use crate::app;
use crate::export::view::{LookupError, Nearest, ObjectQuestion, find_object};
use crate::recording::Recording;
use crate::sources::decoding::{DecodeOptions, Extra};
use crate::sources::offline::Dump;

/// Passes on the observations of a recording until `at`, or all of them, or those of a dump.
///
/// # Errors
/// If the file is neither.
pub(super) fn for_each_observation(
    path: &Path,
    at: Option<Timestamp>,
    see: impl FnMut(Observation),
) -> anyhow::Result<()> {
    if path.is_file()
        && let Ok(recording) = Recording::open(path)
    {
        let until = recording.take_while(|line| at.is_none_or(|at| line.at <= at));
        until.map(|line| line.saw).for_each(see);
        return Ok(());
    }

    let key = app::hash_key();
    let dump = Dump::read(path, DecodeOptions { key: &key, annotations: &[], extra: Extra::None })?;
    let index = dump.index();

    dump.observations(&index).into_iter().for_each(see);
    Ok(())
}

/// Finds an object of a file, which `model` has judged.
///
/// # Errors
/// If the file has no such object, or more than one.
pub(super) async fn find_in_file(
    path: &Path,
    model: &Mutex<Model>,
    question: &ObjectQuestion,
) -> Result<ObjectAddress, LookupError> {
    find_object(model, question).await.map_err(|error| error.in_file(path))
}

/// Says that a file has no objects in a namespace, with similar names of those that it has.
pub(super) fn no_namespace(path: &Path, known: &BTreeSet<&str>, name: &str) -> String {
    let mut nearest = Nearest::new(name);
    known.iter().for_each(|other| nearest.offer(other, || (*other).to_owned()));
    format!("{} has no objects in a namespace {name}{}", path.display(), nearest.hint())
}
