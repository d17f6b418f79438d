//! A restart after which the operator needs much more memory, recorded for two minutes and stretched
//! to hours: loopwatch compares processes at the same age, which begins at one hour.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{confirmed, longest_gap, opened, pack, record_operator, replay, samples, unpack};
use crate::bed::bed;
use loopwatch_testbed::operator::Operator;
use loopwatch_testbed::stretch::stretched;
use loopwatch_testbed::wait::pause;

const CODE: &str = "MemoryJump";

/// The factor: half a minute becomes an hour.
const FACTOR: i64 = 120;

/// How long each of the two processes runs.
const LIFE: Duration = Duration::from_secs(48);

/// A mark of a process may be taken within this time after an hour. If the machine was too busy
/// for a sample meanwhile, the recording says nothing.
const MAX_GAP: Duration = Duration::from_secs(6);

/// An operator that is restarted.
struct Restart {
    name: &'static str,
    /// The second process allocates memory at once.
    allocates: bool,
    /// There are more objects than before.
    has_more: bool,
    is_found: bool,
}

const RESTARTS: [Restart; 3] = [
    Restart { name: "memory-jump", allocates: true, has_more: false, is_found: true },
    Restart { name: "memory-same", allocates: false, has_more: false, is_found: false },
    Restart { name: "memory-more-objects", allocates: true, has_more: true, is_found: false },
];

/// The twin needs as much memory as before. Near miss: an operator with more objects than before.
pub(super) fn jump() {
    let recordings = std::thread::scope(|scope| {
        let runs = RESTARTS.each_ref().map(|restart| scope.spawn(|| restart.recording()));
        runs.map(|run| run.join().expect("a recording"))
    });

    for (restart, recording) in RESTARTS.iter().zip(&recordings) {
        restart.check(recording);
    }
}

impl Restart {
    /// Records the restart. If the machine was too busy to take samples, records it again.
    fn recording(&self) -> String {
        let names = ["", "-again", "-once-more"].map(|turn| format!("{}{turn}", self.name));
        let mut last = String::new();
        for name in names {
            last = self.record(&name);
            if longest_gap(&last) < MAX_GAP {
                break;
            }
        }

        last
    }

    fn record(&self, name: &str) -> String {
        let plane = bed();
        plane.kube.namespace(name);
        let make = |number| {
            plane.kube.zoo("Statusless", name, &format!("object-{number}"), json!({}));
        };

        let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
        let mut operator = Operator::start(plane, &format!("{name}.operator"), name, &flags);
        (0..10).for_each(make);

        let (recorder, file) = record_operator(name, &operator);

        live(&operator);
        operator.roll();
        if self.allocates {
            operator.fault("HeapStep?size=160Mi");
        }
        if self.has_more {
            (10..20).for_each(make);
        }
        live(&operator);

        drop(recorder);
        unpack(&file)
    }

    fn check(&self, recording: &str) {
        let file = bed().directory().join(format!("{}.{FACTOR}.jsonl.gz", self.name));
        pack(&file, &stretched(recording, FACTOR));

        let timeline = replay(&file, "table");
        let report: Value = serde_json::from_str(&replay(&file, "json")).expect("a report");
        let (opened, confirmed) = (opened(&timeline), confirmed(&report));

        eprintln!("memory: {}: {opened:?}", self.name);
        let is_found = opened.contains(CODE);
        assert_eq!(is_found, self.is_found, "{}: {timeline}\n{}", self.name, shown(recording));
        assert_eq!(confirmed.contains(CODE), self.is_found, "{}: {report}", self.name);

        // In stretched time, the restart takes minutes.
        let others = opened.iter().filter(|code| *code != CODE);
        let of_restart = ["OperatorDown", "SourceFailing"];
        let others: Vec<_> = others.filter(|code| !of_restart.contains(&code.as_str())).collect();

        assert!(others.is_empty(), "{}: {others:?}", self.name);
    }
}

/// Returns the samples of a recording as text: the age of the process, its memory, and whether it
/// leads.
fn shown(recording: &str) -> String {
    let shown = samples(recording).map(|(at, view)| {
        let age = view.process.started.map(|started| at.since(started));
        format!("{age:?} {:?} {:?}\n", view.process.resident, view.leading)
    });

    shown.collect()
}

/// Lets the operator run, and collect its garbage.
fn live(operator: &Operator) {
    let began = Instant::now();
    while began.elapsed() < LIFE {
        operator.collect_garbage();
        pause(Duration::from_secs(2));
    }
}
