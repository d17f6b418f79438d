//! The operator's memory, tasks and file descriptors: leaks and their healthy twins, recorded for
//! minutes and stretched to hours.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use libtest_mimic::Trial;
use loopwatch::recording::RecordedObservation;
use loopwatch_model::observation::{MetricsView, Observation};
use loopwatch_model::time::Timestamp;
use serde_json::{Value, json};

use crate::bed::{alone, bed, test};
use crate::recorder::Recorder;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::repository;
use loopwatch_testbed::sidecar::program;
use loopwatch_testbed::stretch::stretched;
use loopwatch_testbed::wait::pause;

mod collector;
mod jumps;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("memory::stretched", stretched_runs)]
}

/// Tests that need the processors for themselves.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![alone("memory::jump", jumps::jump), alone("memory::thrash", collector::thrash)]
}

/// Starts to record the metrics of an operator and one of its kinds. Returns the file, too.
fn record_operator(name: &str, operator: &Operator) -> (Recorder, PathBuf) {
    let plane = bed();
    let account =
        plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
    std::fs::write(plane.directory().join(format!("{name}.config.yaml")), "{}")
        .expect("our own folder");

    let file = plane.directory().join(format!("{name}.jsonl.gz"));
    let scrape = format!("--scrape=http://{}", operator.metrics);
    let flags =
        ["--watch=zoo.loopwatch.dev/Statusless", &scrape, "--scrape-interval=1s", "--profiles=off"];

    (Recorder::start_with(name, name, &account, &file, &flags), file)
}

/// A fault that changes the operator's process slowly, and the findings that hours of it must lead
/// to.
struct Slow {
    /// The name of the namespace and of the scenario.
    name: &'static str,
    fault: &'static str,
    /// When the fault begins, after the start of the operator.
    after: Duration,
    load: Load,
    /// The findings about the operator.
    found: &'static [&'static str],
    /// Those of them that stay suspected.
    suspected: &'static [&'static str],
    /// The signal of its process that shows the fault, and the verdict on it.
    signal: &'static str,
    verdict: &'static str,
    /// The factor by which the times of the scenario are stretched.
    kept: i64,
}

/// What happens to the objects meanwhile, twice a second.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    None,
    /// An object changes.
    Changes,
    /// There is one more object.
    Objects,
}

/// How long the operator runs.
const LENGTH: Duration = Duration::from_secs(228);

/// The factors. Two hours are enough for the shortest time scale of a trend, and a day and a half
/// for the longest one. On a busy machine, loopwatch scrapes every 1.7 seconds only. The buckets of
/// these scales have a sample each even then.
const HOURS: i64 = 34;
const DAYS: i64 = 640;

/// The runtime of Go collects garbage at least every two minutes, which is this long before the
/// first stretch.
const COLLECT_EVERY: Duration = Duration::from_secs(3);

/// Time between two steps of the load.
const EVERY: Duration = Duration::from_millis(500);

/// A longer time without a sample makes a trend begin anew: a tenth of its window, stretched.
const MAX_GAP: Duration = Duration::from_secs(9);

/// The limit of the runtime.
const LIMIT: &str = "200MiB";

const SLOW: [Slow; 6] = [
    Slow {
        name: "heap-leak",
        fault: "HeapLeak?rate=700Ki",
        found: &["HeapLeak", "MemoryExhaustionPredicted"],
        verdict: "confirmed",
        ..Slow::HEALTHY
    },
    Slow {
        name: "task-leak",
        fault: "TaskLeak?tasks=4",
        load: Load::Changes,
        found: &["TaskLeak", "TaskLimit"],
        suspected: &["TaskLimit"], // nothing shows how many tasks are normal
        signal: "tasks",
        verdict: "confirmed",
        ..Slow::HEALTHY
    },
    Slow {
        name: "descriptor-leak",
        fault: "FileDescriptorLeak?period=500ms",
        found: &["FileDescriptorLeak"],
        signal: "descriptors",
        verdict: "confirmed",
        ..Slow::HEALTHY
    },
    Slow {
        name: "cache-growth",
        fault: "CacheGrowth?size=350Ki",
        load: Load::Objects,
        found: &["HeapGrowthExplained"],
        verdict: "growth_explained",
        ..Slow::HEALTHY
    },
    Slow {
        name: "heap-step",
        fault: "HeapStep?size=64Mi",
        after: Duration::from_secs(112),
        ..Slow::HEALTHY
    },
    // A wave of a day, if stretched by the larger factor.
    Slow {
        name: "heap-wave",
        fault: "HeapWave?size=64Mi&period=135s",
        kept: DAYS,
        ..Slow::HEALTHY
    },
];

/// Records each fault for minutes, stretches the recording to hours and to days, and replays it.
fn stretched_runs() {
    let recordings = std::thread::scope(|scope| {
        let runs = SLOW.each_ref().map(|slow| scope.spawn(|| slow.recording()));
        runs.map(|run| run.join().expect("a recording"))
    });

    // Replays need the processor, and would delay the samples.
    let wrong: Vec<String> =
        SLOW.iter().zip(&recordings).flat_map(|(slow, recording)| slow.check(recording)).collect();

    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Slow {
    const HEALTHY: Self = Self {
        name: "",
        fault: "",
        after: Duration::from_secs(5),
        load: Load::None,
        found: &[],
        suspected: &[],
        signal: "live_heap",
        verdict: "steady",
        kept: HOURS,
    };

    /// Replays a stretched recording. Returns what is wrong.
    fn check(&self, recording: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        for factor in [HOURS, DAYS] {
            let file = bed().directory().join(format!("{}.{factor}.jsonl.gz", self.name));
            pack(&file, &stretched(recording, factor));
            if factor == self.kept && std::env::var_os("SCENARIOS").is_some() {
                let kept = repository(format!("tests/scenarios/{}.jsonl.gz", self.name));
                std::fs::copy(&file, kept).expect("the repository");
            }

            let opened = opened(&replay(&file, "table"));
            let report: Value = serde_json::from_str(&replay(&file, "json")).expect("a report");
            let confirmed = confirmed(&report);
            let verdict = format!("signal=\"{}\",verdict=\"{}\"}} 1", self.signal, self.verdict);
            let metrics = replay(&file, "metrics");
            let mut verdicts =
                metrics.lines().filter(|line| line.starts_with("loopwatch_trend_verdict{"));
            let found: BTreeSet<String> = self.found.iter().map(ToString::to_string).collect();

            eprintln!("memory: {} x {factor}: {found:?}", self.name);
            let mut certain = found.clone();
            certain.retain(|code| !self.suspected.contains(&code.as_str()));
            if opened != found
                || confirmed != certain
                || !verdicts.any(|line| line.ends_with(&verdict))
            {
                let seen = format!("opened {opened:?}, at the end {}", report["findings"]);
                let verdicts: Vec<&str> =
                    metrics.lines().filter(|line| line.contains("trend_verdict{")).collect();
                wrong.push(format!(
                    "{} x {factor}: {seen}, {verdicts:?}; expected {found:?}, {verdict}",
                    self.name
                ));
            }
        }

        wrong
    }

    /// Records the fault. If the machine was too busy to take samples, records it once more.
    fn recording(&self) -> String {
        let first = self.record(self.name);
        if longest_gap(&first) < MAX_GAP {
            first
        } else {
            self.record(&format!("{}-again", self.name))
        }
    }

    /// Records the fault in a namespace, and returns the lines of the recording.
    fn record(&self, name: &str) -> String {
        let plane = bed();
        plane.kube.namespace(name);

        let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
        let operator =
            Operator::start_limited(plane, &format!("{name}.operator"), name, LIMIT, &flags);
        let began = Instant::now();

        plane.kube.zoo("Statusless", name, "object-0", json!({}));
        let (recorder, file) = record_operator(name, &operator);
        let (mut collected, mut is_on) = (Instant::now(), false);
        for turn in 1.. {
            if began.elapsed() > LENGTH {
                break;
            }

            if !is_on && began.elapsed() > self.after {
                operator.fault(self.fault);
                is_on = true;
            }

            match self.load {
                Load::None => {}
                Load::Changes => {
                    _ = plane.kube.change(
                        "Statusless",
                        name,
                        "object-0",
                        json!({"size": 1 + turn % 5}),
                    )
                }
                Load::Objects => {
                    _ = plane.kube.zoo("Statusless", name, &format!("object-{turn}"), json!({}))
                }
            }

            if collected.elapsed() > COLLECT_EVERY {
                operator.collect_garbage();
                collected = Instant::now();
            }

            // A leak with each change has the same pace on a busy machine. Objects must not catch up:
            // their number decides how much of the limit is in use at the end.
            pause(match self.load {
                Load::Changes => (EVERY * turn).saturating_sub(began.elapsed()),
                Load::None | Load::Objects => EVERY,
            });
        }

        drop(recorder);
        unpack(&file)
    }
}

/// Reads a recording.
pub(crate) fn unpack(file: &Path) -> String {
    let mut text = String::new();
    let packed = File::open(file).expect("a recording");
    MultiGzDecoder::new(packed).read_to_string(&mut text).expect("a complete recording");
    text
}

/// Writes a recording.
pub(crate) fn pack(file: &Path, text: &str) {
    let mut packer =
        GzEncoder::new(File::create(file).expect("our own folder"), Compression::best());
    packer.write_all(text.as_bytes()).expect("our own folder");
    packer.finish().expect("our own folder");
}

/// Returns the samples of the metrics.
fn samples(recording: &str) -> impl Iterator<Item = (Timestamp, Box<MetricsView>)> {
    let lines =
        recording.lines().filter_map(|line| serde_json::from_str::<RecordedObservation>(line).ok());

    lines.filter_map(|line| match line.saw {
        Observation::MetricsScraped(view) => Some((line.at, view)),
        _ => None,
    })
}

/// Returns the longest time between two samples of the metrics.
fn longest_gap(recording: &str) -> Duration {
    let times: Vec<_> = samples(recording).map(|(at, _)| at).collect();
    let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default();

    Duration::from_millis(longest.0.unsigned_abs())
}

/// Replays a recording.
pub(crate) fn replay(file: &Path, output: &str) -> String {
    let output = program("memory.replay", bed()).arg("replay").arg(file).args(["-o", output]).run();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", file.display());

    String::from_utf8(output.stdout).expect("text")
}

/// Returns the codes of all findings that opened, by the timeline of a replay.
fn opened(table: &str) -> BTreeSet<String> {
    let lines = table.lines().filter_map(|line| line.split_once("  opened  "));
    lines.filter_map(|(_, rest)| rest.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the codes of all findings that are open and confirmed.
fn confirmed(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let confirmed = findings.filter(|finding| finding["confidence"] == "confirmed");
    confirmed.filter_map(|finding| finding["code"].as_str()).map(str::to_owned).collect()
}
