//! Leaks of memory and of tasks in every framework: recorded for minutes, stretched to hours, and replayed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use loopwatch_testbed::frameworks::{Framework, Member, On};
use loopwatch_testbed::stretch::stretched;
use loopwatch_testbed::verdicts::{self, Found, Trouble, Verdicts, View, unseen};
use loopwatch_testbed::wait::pause;
use serde_json::{Value, json};

use super::{NOTES, Views};
use crate::bed::bed;
use crate::memory::{pack, replay, unpack};
use crate::recorder::Recorder;

/// How long an operator leaks. loopwatch reads a process every ten seconds, which is a gap of 25 minutes after the stretch:
/// fine for the trend over six hours, but not for that over an hour. Ten hours are enough to confirm the former.
const LENGTH: Duration = Duration::from_secs(250);

/// The factor by which the times of the recordings are stretched.
const FACTOR: i64 = 150;

/// Records both leaks of a framework, and compares the verdicts with those that are known.
pub(super) fn check(framework: Framework) {
    let found: Verdicts = std::thread::scope(|scope| {
        let runs = Trouble::SLOW.map(|trouble| (trouble, scope.spawn(move || leak(framework, trouble))));
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
        assert_eq!(Some(views), known.get(trouble), "{trouble:?}");
        for (view, found) in views {
            assert_eq!(found.root.is_empty(), unseen(*trouble, framework, *view).is_some(), "{trouble:?} {view:?}");
        }
    }
}

/// Lets an operator leak, and records what loopwatch reads in each view.
fn leak(framework: Framework, trouble: Trouble) -> Vec<(View, PathBuf)> {
    let plane = bed();
    let namespace = format!("{}-{}", trouble.label(), framework.label());
    let member = Member::start(plane, framework, &namespace);
    plane.kube.zoo(framework.kind(), &namespace, "one", json!({}));
    let account = plane.directory().join(format!("{namespace}.operator.kubeconfig"));
    let recorders: Vec<_> = View::of(framework)
        .map(|view| {
            let name = format!("{namespace}.{}", view.label());
            std::fs::write(plane.directory().join(format!("{name}.config.yaml")), "{}").expect("our own folder");
            let mut flags =
                vec![format!("--watch=zoo.loopwatch.dev/{}", framework.kind()), "--profiles=off".to_owned()];
            match view {
                View::Metrics => {
                    flags.extend([format!("--scrape=http://{}", member.metrics), "--scrape-interval=1s".to_owned()])
                }
                View::Process => flags.extend(["--scrape=off".to_owned(), format!("--pid={}", member.process.id())]),
                View::Outside => flags.push("--scrape=off".to_owned()),
            }
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let file = plane.directory().join(format!("{name}.jsonl.gz"));
            (view, file.clone(), Recorder::start_with(&name, &namespace, &account, &file, &flags))
        })
        .collect();
    match trouble {
        Trouble::MemoryLeak => member.fault("HeapLeak?rate=524288", On::Process),
        _ => member.fault("TaskLeak?tasks=4", On::All),
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
        pause(Duration::from_millis(500));
    }
    recorders.into_iter().map(|(view, file, _recorder)| (view, file)).collect()
}

/// Replays the recordings as if they had taken hours.
fn verdict(recordings: Vec<(View, PathBuf)>) -> Views {
    let findings = |file: &PathBuf| {
        pack(file, &stretched(&unpack(file), FACTOR));
        let report: Value = serde_json::from_str(&replay(file, "json")).expect("a report");
        report["findings"].as_array().expect("findings").clone()
    };
    let found = recordings.into_iter().map(|(view, file)| {
        let findings = findings(&file);
        let codes = |is_root: bool| -> Vec<String> {
            let of = findings.iter().filter(|finding| finding["explained_by"].is_null() == is_root);
            let codes: BTreeSet<&str> = of.filter_map(|finding| finding["code"].as_str()).collect();
            codes.into_iter().filter(|code| !NOTES.contains(code)).map(str::to_owned).collect()
        };
        (view, Found { root: codes(true), explained: codes(false) })
    });
    found.collect()
}
