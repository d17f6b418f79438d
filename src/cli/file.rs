//! Reads the observations of a recording or a dump.

use std::path::Path;

use loopwatch_model::observation::Observation;
use loopwatch_model::time::Timestamp;

use crate::app;
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
