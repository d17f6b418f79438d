//! Leaks of memory and of tasks in every framework: recorded for minutes, stretched to hours, and
//! replayed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use loopwatch::recording::RecordedObservation;
use loopwatch_model::observation::Observation;
use loopwatch_testbed::frameworks::{Framework, Member, On};
use loopwatch_testbed::stretch::stretched;
use loopwatch_testbed::verdicts::{self, Found, Trouble, Verdicts, View};
use loopwatch_testbed::wait::pause;
use serde_json::{Value, json};

use super::{NOTES, Views, without_reason};
use crate::bed::bed;
use crate::memory::{pack, replay, unpack};
use crate::recorder::Recorder;

/// How long an operator leaks. A stretch of ten hours confirms a trend over six hours.
const LENGTH: Duration = Duration::from_secs(260);

/// The factor by which the times of the recordings are stretched. Each bucket of that trend is five
/// minutes long, so it needs a sample every two seconds.
const FACTOR: i64 = 150;

/// The number of recordings of a process to merge into one: loopwatch reads a process only every
/// ten seconds.
const RECORDERS: u32 = 5;

/// The time from the start of one to the start of the next one.
const APART: Duration = Duration::from_secs(2);

/// The interval between changes of an object.
const CHANGE_EVERY: Duration = Duration::from_millis(500);

/// Records both leaks of a framework, and compares the verdicts with those that are known.
pub(super) fn check(framework: Framework) {
    let found: Verdicts = std::thread::scope(|scope| {
        let runs =
            Trouble::SLOW.map(|trouble| (trouble, scope.spawn(move || leak(framework, trouble))));
        let recorded = runs.map(|(trouble, run)| (trouble, run.join().expect("recordings")));

        // Replays need the processor, and would delay the samples.
        recorded.into_iter().map(|(trouble, files)| (trouble, verdict(files))).collect()
    });

    eprintln!("frameworks: {} leaks: {found:?}", framework.label());
    if std::env::var_os("UPDATE").is_some() {
        return verdicts::update(framework, &found);
    }

    let known = verdicts::read(framework);
    for (trouble, views) in &found {
        for (view, found) in views {
            match verdicts::varying(*trouble, framework, *view) {
                None => assert_eq!(
                    Some(found),
                    known.get(trouble).and_then(|of| of.get(view)),
                    "{trouble:?} {view:?}"
                ),
                Some((codes, _)) => {
                    let mut all = found.root.iter().chain(&found.explained);
                    assert!(
                        !found.root.is_empty() && all.all(|code| codes.contains(&code.as_str())),
                        "{found:?}"
                    );
                }
            }
        }

        assert_eq!(without_reason(framework, *trouble, views), <[String; 0]>::default());
    }
}

/// Lets an operator leak, and records what loopwatch reads in each view.
fn leak(framework: Framework, trouble: Trouble) -> Vec<(View, PathBuf)> {
    let plane = bed();
    let namespace = format!("{}-{}", trouble.label(), framework.label());
    let member = Member::start(plane, framework, &namespace);
    plane.kube.zoo(framework.kind(), &namespace, "one", json!({}));

    let account = plane.directory().join(format!("{namespace}.operator.kubeconfig"));
    let record = &|view: View, number: u32| {
        pause(APART * number);
        let name = format!("{namespace}.{}-{number}", view.label());
        std::fs::write(plane.directory().join(format!("{name}.config.yaml")), "{}")
            .expect("our own folder");

        let mut flags = vec![
            format!("--watch=zoo.loopwatch.dev/{}", framework.kind()),
            "--profiles=off".to_owned(),
        ];
        match view {
            View::Metrics => {
                flags.extend([
                    format!("--scrape=http://{}", member.metrics),
                    "--scrape-interval=1s".to_owned(),
                ]);
            }
            View::Process => {
                flags.extend(["--scrape=off".to_owned(), format!("--pid={}", member.process.id())])
            }
            View::Outside => flags.push("--scrape=off".to_owned()),
        }

        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let file = plane.directory().join(format!("{name}.jsonl.gz"));
        (view, file.clone(), Recorder::start_with(&name, &namespace, &account, &file, &flags))
    };

    let recorders: Vec<_> = std::thread::scope(|scope| {
        let numbers = |view| 0..if view == View::Process { RECORDERS } else { 1 };
        let each =
            View::of(framework).flat_map(|view| numbers(view).map(move |number| (view, number)));
        let starts: Vec<_> =
            each.map(|(view, number)| scope.spawn(move || record(view, number))).collect();

        starts.into_iter().map(|start| start.join().expect("a recorder")).collect()
    });

    match trouble {
        Trouble::MemoryLeak => member.fault("HeapLeak?rate=2097152", On::Process),
        _ => member.fault("TaskLeak?tasks=2", On::All),
    }

    let began = Instant::now();
    for size in (1..=5).cycle() {
        if began.elapsed() > LENGTH {
            break;
        }

        if trouble == Trouble::TaskLeak {
            plane.kube.change(framework.kind(), &namespace, "one", json!({"size": size}));
        }

        member.collect_garbage();
        pause(CHANGE_EVERY);
    }

    recorders.into_iter().map(|(view, file, _recorder)| (view, file)).collect()
}

/// Replays the recordings as if they had taken hours.
fn verdict(recordings: Vec<(View, PathBuf)>) -> Views {
    let mut merged: BTreeMap<View, (PathBuf, String)> = BTreeMap::new();
    for (view, file) in recordings {
        let text = unpack(&file);
        match merged.get_mut(&view) {
            Some((_, first)) => *first = with_processes(first, &text),
            None => _ = merged.insert(view, (file, text)),
        }
    }

    let found = merged.into_iter().map(|(view, (file, text))| {
        pack(&file, &stretched(&text, FACTOR));
        let report: Value = serde_json::from_str(&replay(&file, "json")).expect("a report");
        let findings = report["findings"].as_array().expect("findings").clone();
        let codes = |is_root: bool| -> Vec<String> {
            let of = findings.iter().filter(|finding| finding["explained_by"].is_null() == is_root);
            let codes: BTreeSet<&str> = of.filter_map(|finding| finding["code"].as_str()).collect();
            codes.into_iter().filter(|code| !NOTES.contains(code)).map(str::to_owned).collect()
        };

        (view, Found { root: codes(true), explained: codes(false) })
    });

    found.collect()
}

/// Returns a recording together with the samples of the process in another one. Each recorder
/// computes the start of the process anew, and the stretch would turn the difference into a
/// restart.
fn with_processes(recording: &str, other: &str) -> String {
    let (header, rest) = recording.split_once('\n').expect("a header");
    let read = |line: &str| -> RecordedObservation {
        serde_json::from_str(line).expect("a line of a recording")
    };
    let started = |text: &str| {
        let views = text.lines().skip(1).map(read).filter_map(|line| match line.saw {
            Observation::ProcessSeen(view) => view.started,
            _ => None,
        });

        views.map(|at| serde_json::to_string(&at).expect("JSON")).next()
    };

    let (Some(first), Some(own)) = (started(recording), started(other)) else {
        return recording.to_owned();
    };
    let is_sample = |line: &&str| matches!(read(line).saw, Observation::ProcessSeen(_));
    let samples = other.lines().skip(1).filter(is_sample).map(|line| line.replace(&own, &first));
    let mut lines: Vec<String> = rest.lines().map(str::to_owned).chain(samples).collect();

    lines.sort_by_cached_key(|line| read(line).at);
    format!("{header}\n{}\n", lines.join("\n"))
}
