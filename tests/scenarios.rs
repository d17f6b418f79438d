//! Replays recordings of real runs on a real cluster and compares the results with golden files.
//!
//! Next to each `tests/scenarios/NAME.jsonl[.gz]` are the outputs of `loopwatch replay`: `.txt`
//! (the timeline and the report), `.json` and `.prom`. `UPDATE=1 cargo test --test scenarios`
//! rewrites them; review the diff.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use loopwatch::recording::{Recording, Unread};
use loopwatch_model::model::Model;
use loopwatch_model::observation::Observation;
use loopwatch_model::snapshot::Snapshot;
use loopwatch_model::time::Span;

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = std::fs::read_dir(folder).expect("the scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| {
        [".jsonl", ".jsonl.gz"].iter().any(|end| file.to_string_lossy().ends_with(end))
    });
    files.sort();

    assert!(!files.is_empty(), "no scenarios found");

    files
}

fn replay(file: &Path, output: &str) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_loopwatch"))
        .arg("replay")
        .arg(file)
        .args(["-o", output])
        .env("NO_COLOR", "1")
        .env("COLUMNS", "120")
        .output()
        .expect("loopwatch runs");

    assert!(run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));

    let text = String::from_utf8(run.stdout).expect("text");
    match output {
        "json" => assert_eq!(
            run.status.code(),
            Some(i32::from(has_urgent_finding(&text))),
            "{}",
            file.display()
        ),
        // An empty recording shows nothing.
        _ if file.ends_with("empty.jsonl") => assert_eq!(run.status.code(), Some(2)),
        _ => assert!(matches!(run.status.code(), Some(0 | 1)), "{}", file.display()),
    }

    text
}

/// Whether the report contains an open finding that is critical or a warning.
fn has_urgent_finding(json: &str) -> bool {
    let report: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().any(|finding| finding["severity"] != "info")
}

/// Removes the metrics about loopwatch itself, which differ from run to run.
fn without_own(exposition: &str, own: &BTreeSet<String>) -> String {
    let family = |line: &str| {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        name.split([' ', '{']).next().unwrap_or_default().to_owned()
    };

    exposition
        .lines()
        .filter(|line| !own.contains(&family(line)))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The metric families that even an empty recording has: those about loopwatch itself.
fn own_families() -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&empty, "{\"loopwatch_recording\":1}\n").expect("written");

    let text = replay(&empty, "metrics");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split([' ', '{']).next().unwrap_or_default().to_owned())
        .chain(
            text.lines()
                .filter_map(|line| line.strip_prefix("# TYPE "))
                .map(|line| line.split(' ').next().unwrap_or_default().to_owned()),
        )
        .collect()
}

fn compare(file: &Path, extension: &str, actual: &str) {
    // Also removes .jsonl from NAME.jsonl.gz.
    let golden = file.with_extension("").with_extension(extension);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&golden, actual).expect("written");
    }

    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    let differs = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));

    assert!(
        expected == actual,
        "{} differs from line {}:\n- {}\n+ {}\n(UPDATE=1 rewrites it)",
        golden.display(),
        line + 1,
        expected.lines().nth(line).unwrap_or("(end of file)"),
        actual.lines().nth(line).unwrap_or("(end of file)"),
    );
}

#[test]
fn replays_match_the_golden_files() {
    let own = own_families();
    for file in scenarios() {
        compare(&file, "txt", &replay(&file, "table"));
        compare(&file, "json", &replay(&file, "json"));
        compare(&file, "prom", &without_own(&replay(&file, "metrics"), &own));
    }
}

#[test]
fn additional_ticks_do_not_change_the_snapshot() {
    for file in scenarios() {
        let plain = play(&file, None);
        for seconds in [1, 7, 61] {
            let ticked = play(&file, Some(Span::secs(seconds)));
            assert_eq!(
                format!("{plain:?}"),
                format!("{ticked:?}"),
                "{} with a tick every {seconds} s",
                file.display()
            );
        }
    }
}

#[test]
fn recorded_lines_round_trip() {
    for file in scenarios() {
        let mut recording = Recording::open(&file).expect("a recording");
        for line in recording.by_ref() {
            let text = serde_json::to_string(&line).expect("writable");
            assert_eq!(line, serde_json::from_str(&text).expect("readable"), "{text}");
        }

        assert_eq!(recording.unread(), Unread::default(), "{}", file.display());
    }
}

/// Replays a recording, with additional ticks at an interval of `ticks`.
fn play(file: &Path, ticks: Option<Span>) -> Snapshot {
    let recording = Recording::open(file).expect("a recording");
    let mut model = Model::new(recording.header().settings.clone());
    let mut now = None;

    for line in recording {
        let mut at = now.unwrap_or(line.at);
        while let Some(step) = ticks
            && at.after(step) < line.at
        {
            at = at.after(step);
            model.apply(at, Observation::Tick);
        }

        model.apply(line.at, line.saw);
        now = Some(line.at);
    }

    model.snapshot()
}
