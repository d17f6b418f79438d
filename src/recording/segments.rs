//! Writes a recording in several files, each of which can be replayed alone.
//!
//! A file begins with a checkpoint and the state of all sources. loopwatch keeps this state in
//! memory, so that a new file needs no requests to the API server.

use std::io;
use std::path::{Path, PathBuf};

use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::time::Timestamp;

use super::held::Held;
use super::writer::Writer;

/// The current file of a recording, and the state for the next one.
pub struct Segments {
    output: PathBuf,
    /// The size, before compression, at which to begin a new file.
    max_bytes: u64,
    anonymize: Option<[u8; 16]>,
    writer: Writer,
    /// The size of the initial checkpoint and state in the current file.
    beginning: u64,
    held: Held,
}

impl Segments {
    /// Creates the first file. Neither it nor the previous file may exist (see [`Writer::create`]).
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(
        output: &Path,
        max_bytes: u64,
        anonymize: Option<[u8; 16]>,
        model: &Model,
        at: Timestamp,
    ) -> io::Result<Self> {
        // Otherwise, the first rotation would replace a file of another recording.
        let previous = previous(output);
        if previous.symlink_metadata().is_ok() {
            let problem = format!(
                "{} exists, and would be the name of the previous file",
                previous.display()
            );

            return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
        }

        let writer = Writer::create(output, model.settings(), anonymize)?;
        let (output, held) = (output.to_owned(), Held::default());
        let mut segments = Self { output, max_bytes, anonymize, writer, beginning: 0, held };
        segments.begin(model, at)?;

        Ok(segments)
    }

    /// Writes one observation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, at: Timestamp, observation: &Observation) -> io::Result<()> {
        self.held.note(at, observation)?;
        self.writer.write(at, observation)
    }

    /// Begins a new file if the current one is full, and keeps the current one as the previous
    /// file. A file is full at its maximum size, but not before its content is as large as its
    /// beginning: otherwise, a small maximum would lead to files with nothing but beginnings.
    /// `model` must have applied everything that was written.
    ///
    /// # Errors
    /// If a file cannot be written or renamed.
    pub fn rotate_if_full(&mut self, model: &Model) -> io::Result<()> {
        if self.writer.bytes() < self.max_bytes.max(self.beginning.saturating_mul(2)) {
            return Ok(());
        }

        std::fs::rename(&self.output, previous(&self.output))?;
        let next = Writer::create(&self.output, model.settings(), self.anonymize)?;
        let full = std::mem::replace(&mut self.writer, next);
        end(full, self.held.at())?;

        self.begin(model, self.held.at())
    }

    /// Ends the recording at `at`. Returns the number of observations in the last file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self, at: Timestamp) -> io::Result<u64> {
        let lines = self.writer.lines();
        end(self.writer, at)?;
        Ok(lines)
    }

    fn begin(&mut self, model: &Model, at: Timestamp) -> io::Result<()> {
        let Self { writer, held, .. } = self;
        writer.write_checkpoint(at, model)?;
        held.replay(|observation| writer.write(at, observation))?;
        self.beginning = self.writer.bytes();

        Ok(())
    }
}

/// Writes the end of a file.
fn end(mut writer: Writer, at: Timestamp) -> io::Result<()> {
    writer.write_end(at)?;
    writer.finish()
}

/// The name of the previous file, `incident.1.jsonl.gz` for `incident.jsonl.gz`: the extension
/// marks gzip.
fn previous(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    output.with_file_name(match name.split_once('.') {
        Some((stem, extensions)) => format!("{stem}.1.{extensions}"),
        None => format!("{name}.1"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use loopwatch_model::finding::FindingCode;
    use loopwatch_model::observation::{
        Cause, ObjectKey, ObjectView, SourceId, WatchId, WatchedKind,
    };
    use loopwatch_model::settings::Settings;
    use loopwatch_model::snapshot::Snapshot;
    use loopwatch_model::time::Span;

    use super::*;
    use crate::recording::{Recording, Unread};

    /// The states of all objects and the open findings, except those that depend on earlier times:
    /// as after a restart, the model does not remember that a spec was once the same.
    fn conclusions(snapshot: &Snapshot) -> (Vec<String>, BTreeSet<String>) {
        let kinds = snapshot
            .kinds
            .iter()
            .map(|kind| format!("{} {:?}", kind.kind, kind.states()))
            .collect();
        let findings =
            snapshot.findings.iter().filter(|finding| finding.code != FindingCode::NeverRecovered);

        (
            kinds,
            findings
                .map(|finding| format!("{} {}", finding.code.name(), finding.subject))
                .collect(),
        )
    }

    /// Replays one file alone.
    fn replay(file: &Path) -> io::Result<(Model, usize)> {
        let mut recording = Recording::open(file).map_err(io::Error::other)?;
        let mut model = Model::new(recording.header().settings.clone());
        let mut lines = 0;

        for line in recording.by_ref() {
            model.apply(line.at, line.saw);
            lines += 1;
        }

        assert_eq!(recording.unread(), Unread::default(), "{}", file.display());

        Ok((model, lines))
    }

    #[test]
    fn each_file_replays_alone() -> io::Result<()> {
        for name in ["incident.jsonl", "busy.jsonl.gz", "finalizer-stuck.jsonl.gz"] {
            let folder = tempfile::tempdir()?;
            let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(name);
            let recording = Recording::open(&scenario).map_err(io::Error::other)?;
            let mut model = Model::new(recording.header().settings.clone());
            let (output, mut last) = (folder.path().join("part.jsonl"), Timestamp(0));
            let mut segments = Segments::create(&output, 20_000, None, &model, last)?;
            let mut files = BTreeSet::new();

            for line in recording {
                last = line.at;
                segments.write(line.at, &line.saw)?;
                model.apply(line.at, line.saw);
                segments.rotate_if_full(&model)?;

                if files.insert(segments.beginning) {
                    let mut begun = Model::new(model.settings().clone());
                    segments.held.replay(|observation| {
                        begun.apply(last, observation.clone());
                        Ok(())
                    })?;

                    assert_eq!(begun.objects(), model.objects(), "{name} at {last}");
                }
            }

            segments.finish(last)?;
            assert!(files.len() > 2, "{name}: {} files", files.len());

            let ((ended, lines), end) = (replay(&output)?, model.snapshot());
            assert_eq!(
                conclusions(&ended.snapshot()),
                conclusions(&end),
                "{name}: the last {lines} lines"
            );
            assert!(previous(&output).is_file());
        }

        Ok(())
    }

    /// The checkpoint refers to findings by IDs, which are hashes of names.
    #[test]
    fn with_pseudonyms_findings_keep_their_age() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/incident.jsonl");
        let recording = Recording::open(&scenario).map_err(io::Error::other)?;
        let (mut model, output) =
            (Model::new(recording.header().settings.clone()), folder.path().join("part.jsonl"));
        let mut segments = Segments::create(&output, 1, Some([7; 16]), &model, Timestamp(0))?;
        let mut last = Timestamp(0);

        for line in recording {
            last = line.at;
            segments.write(line.at, &line.saw)?;
            model.apply(line.at, line.saw);
        }

        segments.rotate_if_full(&model)?;
        segments.finish(last)?;

        let mut recording = Recording::open(&output).map_err(io::Error::other)?;
        let Some(Observation::Restored(checkpoint)) = recording.next().map(|line| line.saw) else {
            unreachable!("a file begins with a checkpoint")
        };
        let snapshot = replay(&output)?.0.snapshot();
        let open = |code| snapshot.findings.iter().find(|finding| finding.code == code);
        let stuck = open(FindingCode::FinalizerStuck).map(|finding| finding.id.to_string());

        assert!(stuck.is_some_and(|id| checkpoint.findings.contains_key(&id)), "{checkpoint:?}");
        assert!(!model.checkpoint().findings.keys().any(|id| checkpoint.findings.contains_key(id)));

        Ok(())
    }

    /// Every text that may name somebody contains "payroll" or "acme", also what a second file begins
    /// with: the checkpoint and the state of all sources.
    #[test]
    fn with_pseudonyms_no_name_remains_in_any_file() -> io::Result<()> {
        let lines = [
            (
                0,
                r#"{"kinds_discovered":[{"watch":"widgets.example.io/payroll","group":"example.io","version":"v1","kind":"Widget",
                "resource":"widgets","scope":{"namespace":"payroll"},"role":"primary","status":"subresource","why":"configured"}]}"#,
            ),
            (0, r#"{"source_recovered":{"source":"discovery"}}"#),
            (0, r#"{"list_began":{"watch":"widgets.example.io/payroll","epoch":1}}"#),
            (
                0,
                r#"{"listed":{"watch":"widgets.example.io/payroll","object":{"namespace":"payroll","name":"acme-1","uid":"acme-uid",
                "version":"7","generation":1,"created":"2026-01-01T00:00:00Z","status":"filled","observed_generation":1,
                "owners":[{"api_version":"example.io/v1","kind":"Widget","name":"payroll-0","uid":"payroll-uid"}],
                "labels":{"app.kubernetes.io/instance":"payroll"},"annotations":{"loopwatch.dev/ignore":"Acme"},
                "facts":[{"path":"status.phase","value":"Acme"}],"references":[{"slot":"spec.acme.secretName","kind":"Secret","name":"payroll"}],
                "conditions":[{"type":"Ready","status":"False","reason":"AcmeFailed","message":"payroll at 10.1.2.3 is broken"}]}}}"#,
            ),
            (0, r#"{"list_ended":{"watch":"widgets.example.io/payroll","epoch":1,"version":"8"}}"#),
            (0, r#"{"source_recovered":{"source":{"watch":"widgets.example.io/payroll"}}}"#),
            (
                1,
                r#"{"lease_seen":{"namespace":"payroll","name":"acme-lock","holder":"acme-0_payroll","renewed":"2026-01-01T00:00:01Z","duration":"15s"}}"#,
            ),
            (
                9,
                r#"{"lease_seen":{"namespace":"payroll","name":"acme-lock","holder":"acme-0_payroll","renewed":"2026-01-01T00:00:09Z","duration":"15s"}}"#,
            ),
            (
                9,
                r#"{"operator_seen":{"namespace":"payroll","name":"acme","complete":true,"pods":[{"name":"acme-0","uid":"payroll-pod",
                "phase":"Running","revision":{"hash":"h","version":"1","image":"registry.acme/payroll:1"},
                "containers":[{"name":"payroll","ready":true,"restarts":1,"ended":{"reason":"Error","exit_code":1,"message":"acme failed"}}]}]}}"#,
            ),
            (9, r#"{"metrics_scraped":{"instance":"payroll/acme-0"}}"#),
            (
                9,
                r#"{"namespace_seen":{"name":"payroll","annotations":{"loopwatch.dev/ignore":"payroll"}}}"#,
            ),
            (
                9,
                r#"{"event_seen":{"watch":"widgets.example.io/payroll","event":{"uid":"acme-event","namespace":"payroll","name":"acme-1",
                "type":"Warning","reason":"AcmeFailed","message":"payroll","reporter":"acme","count":3}}}"#,
            ),
            (
                9,
                r#"{"answered":{"probe":{"dependents":{"owner":{"group":"","kind":"Pod","namespace":"acme","name":"payroll"},"uid":"acme-uid"}},
                "answer":"absent"}}"#,
            ),
            (700, r#""tick""#),
        ];
        let folder = tempfile::tempdir()?;
        let (mut model, output) =
            (Model::new(Settings::default()), folder.path().join("part.jsonl"));
        let start = Timestamp(1_767_225_600_000);
        let mut segments = Segments::create(&output, 1, Some([7; 16]), &model, start)?;

        for (seconds, line) in lines {
            let saw: Observation = serde_json::from_str(line).map_err(io::Error::other)?;
            let at = start.after(Span::secs(seconds));
            segments.write(at, &saw)?;
            model.apply(at, saw);
        }

        assert!(!model.checkpoint().leases.is_empty() && !model.checkpoint().findings.is_empty());
        segments.rotate_if_full(&model)?;
        segments.finish(start.after(Span::secs(700)))?;

        for file in [previous(&output), output] {
            let text = std::fs::read_to_string(&file)?.to_ascii_lowercase();
            assert!(text.lines().count() > 5, "{text}");
            for secret in ["payroll", "acme", "10.1.2.3"] {
                let line = text.lines().find(|line| line.contains(secret));
                assert_eq!(line, None, "{secret} in {}", file.display());
            }
        }

        Ok(())
    }

    #[test]
    fn small_sizes_do_not_lead_to_files_without_content() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/busy.jsonl.gz");
        let recording = Recording::open(&scenario).map_err(io::Error::other)?;
        let (mut model, output) =
            (Model::new(recording.header().settings.clone()), folder.path().join("part.jsonl"));
        let mut segments = Segments::create(&output, 1, None, &model, Timestamp(0))?;
        let (mut read, mut written, mut before) = (0, 0, 0);

        for line in recording {
            segments.write(line.at, &line.saw)?;
            read += serde_json::to_vec(&line)?.len() as u64;
            model.apply(line.at, line.saw);
            before = segments.writer.bytes();
            segments.rotate_if_full(&model)?;

            if segments.writer.bytes() != before {
                written += before;
            }
        }

        written += before;
        assert!(written < 4 * read, "{written} bytes for {read}");

        Ok(())
    }

    #[test]
    fn the_previous_file_keeps_its_extensions() {
        for (output, expected) in
            [("a/incident.jsonl.gz", "a/incident.1.jsonl.gz"), ("incident", "incident.1")]
        {
            assert_eq!(previous(Path::new(output)), Path::new(expected));
        }
    }

    /// Audits tolerate a difference of as many objects as the latest list has skipped.
    fn watched(watch: &WatchId) -> serde_json::Result<WatchedKind> {
        serde_json::from_value(serde_json::json!({
            "watch": watch, "version": "v1", "kind": "Widget", "resource": "widgets", "scope": "cluster",
            "role": "primary", "why": "configured",
        }))
    }

    #[test]
    fn objects_that_a_list_under_way_has_skipped_count_in_the_next_file() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (model, output) = (Model::new(Settings::default()), folder.path().join("a.jsonl"));
        let mut segments = Segments::create(&output, 1, None, &model, Timestamp(0))?;
        let watch = WatchId("widgets.example.io".into());
        let kind = watched(&watch)?;
        let skipped =
            Observation::Skipped { source: SourceId::Watch(watch.clone()), cause: Cause::TooLarge };
        let ended =
            Observation::ListEnded { watch: watch.clone(), epoch: 1, version: "1".to_owned() };

        for observation in [
            Observation::KindsDiscovered(vec![kind]),
            Observation::ListBegan { watch: watch.clone(), epoch: 1 },
            ended,
            Observation::ListBegan { watch, epoch: 2 },
            skipped.clone(),
        ] {
            segments.write(Timestamp(0), &observation)?;
        }

        let mut seen = Vec::new();
        segments.held.replay(|observation| {
            seen.push(observation.clone());
            Ok(())
        })?;

        assert_eq!(seen.last(), Some(&skipped), "{seen:#?}");

        Ok(())
    }

    /// A skipped object has no name, so the model keeps as many missing objects as the list
    /// skipped.
    #[test]
    fn objects_that_a_list_had_to_skip_are_in_the_next_file() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (mut model, output) = (Model::new(Settings::default()), folder.path().join("a.jsonl"));
        let mut segments = Segments::create(&output, 1, None, &model, Timestamp(0))?;
        let watch = WatchId("widgets.example.io".into());
        let kind = watched(&watch)?;
        let listed = |name: &str| Observation::Listed {
            watch: watch.clone(),
            object: Box::new(ObjectView {
                key: ObjectKey { namespace: String::new(), name: name.to_owned() },
                version: "1".to_owned(),
                ..ObjectView::default()
            }),
        };

        let began = |epoch| Observation::ListBegan { watch: watch.clone(), epoch };
        let ended =
            |epoch| Observation::ListEnded { watch: watch.clone(), epoch, version: "1".to_owned() };
        let skipped =
            Observation::Skipped { source: SourceId::Watch(watch.clone()), cause: Cause::TooLarge };
        let lists = [
            (vec![began(1), listed("large"), listed("small"), ended(1)], 2),
            (vec![began(2), listed("small"), skipped, ended(2)], 2),
            (vec![began(3), listed("small"), ended(3)], 1),
        ];

        segments.write(Timestamp(0), &Observation::KindsDiscovered(vec![kind.clone()]))?;
        model.apply(Timestamp(0), Observation::KindsDiscovered(vec![kind]));
        for (list, expected) in lists {
            for observation in list {
                segments.write(Timestamp(0), &observation)?;
                model.apply(Timestamp(0), observation);
            }

            let mut next = Model::new(Settings::default());
            segments.held.replay(|observation| {
                next.apply(Timestamp(0), observation.clone());
                Ok(())
            })?;

            assert_eq!((model.objects(), next.objects()), (expected, expected));
        }

        Ok(())
    }

    #[test]
    fn an_earlier_recording_is_not_overwritten() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (model, output) = (Model::new(Settings::default()), folder.path().join("a.jsonl"));
        let other = previous(&output);
        std::fs::write(&other, "evidence")?;

        let created = Segments::create(&output, 1, None, &model, Timestamp(0));
        assert_eq!(created.err().map(|error| error.kind()), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read_to_string(&other)?, "evidence");
        assert!(!output.exists());

        Ok(())
    }
}
