//! Writes a recording to one file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;

use super::pseudonym::Pseudonyms;
use super::{RECORDING_VERSION, RecordedObservation, RecordingHeader};

/// An open recording to write. Gzipped if the file name ends in `.gz`.
pub struct Writer {
    out: RecordingFile,
    bytes: u64,
    lines: u64,
    pseudonyms: Option<Pseudonyms>,
}

enum RecordingFile {
    Plain(BufWriter<File>),
    Packed(GzEncoder<BufWriter<File>>),
}

impl Writer {
    /// Creates `path`, which must not exist, and writes the header. Only the user can read the
    /// file, because it contains the names of all objects. With `anonymize`, replaces names and
    /// texts with pseudonyms under this key.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(
        path: &Path,
        settings: &Settings,
        anonymize: Option<[u8; 16]>,
    ) -> io::Result<Self> {
        let file =
            BufWriter::new(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?);
        let packed = path.extension().is_some_and(|extension| extension == "gz");
        let out = if packed {
            RecordingFile::Packed(GzEncoder::new(file, Compression::default()))
        } else {
            RecordingFile::Plain(file)
        };

        let mut writer =
            Self { out, bytes: 0, lines: 0, pseudonyms: anonymize.map(Pseudonyms::new) };
        let settings = match &writer.pseudonyms {
            Some(pseudonyms) => pseudonyms.settings(settings.clone()),
            None => settings.clone(),
        };

        writer.line(&RecordingHeader {
            loopwatch_recording: RECORDING_VERSION,
            recorded_by: format!("loopwatch {}", env!("CARGO_PKG_VERSION")),
            settings,
        })?;

        Ok(writer)
    }

    /// Writes one observation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, at: Timestamp, observation: &Observation) -> io::Result<()> {
        if *observation == Observation::Tick {
            return Ok(()); // a replay must not depend on ticks
        }

        let saw = match &self.pseudonyms {
            Some(pseudonyms) => pseudonyms.anonymize(observation.clone()),
            None => observation.clone(),
        };

        self.lines += 1;
        self.line(&RecordedObservation { at, saw })
    }

    /// Writes the checkpoint of the model, from which a replay continues.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_checkpoint(&mut self, at: Timestamp, model: &Model) -> io::Result<()> {
        let mut checkpoint = model.checkpoint();
        if let Some(pseudonyms) = &self.pseudonyms {
            checkpoint = pseudonyms.checkpoint_with(checkpoint, &model.snapshot().findings);
        }

        let saw = Observation::Restored(Box::new(checkpoint));
        self.lines += 1;
        self.line(&RecordedObservation { at, saw })
    }

    /// Writes a final tick at `at`, so that deadlines after the last observation also pass in the
    /// replay.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_end(&mut self, at: Timestamp) -> io::Result<()> {
        self.line(&RecordedObservation { at, saw: Observation::Tick })
    }

    /// Bytes written so far, before compression.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Observations written so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Flushes the file to disk.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let mut file = match self.out {
            RecordingFile::Plain(file) => file,
            RecordingFile::Packed(packer) => packer.finish()?,
        };

        file.flush()?;
        file.get_ref().sync_all()
    }

    fn line(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;

        match &mut self.out {
            RecordingFile::Plain(file) => file.write_all(&line),
            RecordingFile::Packed(packer) => packer.write_all(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_can_read_the_file() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir()?;
        for name in ["a.jsonl", "b.jsonl.gz"] {
            let path = directory.path().join(name);
            Writer::create(&path, &Settings::default(), None)?.finish()?;

            assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600, "{name}");
            assert!(Writer::create(&path, &Settings::default(), None).is_err(), "{name} exists");
        }

        Ok(())
    }

    #[test]
    fn only_the_final_tick_is_written() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("quiet.jsonl");
        let mut writer = Writer::create(&path, &Settings::default(), None)?;

        for second in 0..10 {
            writer.write(Timestamp(second * 1000), &Observation::Tick)?;
        }

        writer.write_end(Timestamp(10_000))?;
        assert_eq!(writer.lines(), 0, "ticks do not count");

        writer.finish()?;
        let text = std::fs::read_to_string(&path)?;
        let lines: Vec<&str> = text.lines().skip(1).collect();

        assert_eq!(lines, [r#"{"at":"1970-01-01T00:00:10Z","saw":"tick"}"#]);

        Ok(())
    }
}
