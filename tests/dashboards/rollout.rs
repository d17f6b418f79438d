//! The recorded incident, with what that run could not see: the operator's Pods during a rollout,
//! its process, the durations of its reconciles, Kubernetes Events and a permission that the
//! account lacks.

use std::fmt::Write as _;

use loopwatch_model::time::Timestamp;
use loopwatch_testbed::repository;
use serde_json::{Value, json};

/// The revision that made the incident, and the previous one.
pub(crate) const REVISIONS: [&str; 2] = ["5f6d8c7b9d", "7c9d5f6b8d"];

/// The number of observations of the incident before the rollout.
const BEFORE: usize = 250;

/// The number of observations between two looks at the operator.
const EVERY: usize = 10;

/// Returns the text of the recording.
pub(crate) fn recording() -> String {
    let file = repository("tests/scenarios/incident.jsonl");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut recording = String::new();

    for (number, line) in text.lines().enumerate() {
        let _ = writeln!(recording, "{line}");
        let parsed: Value = serde_json::from_str(line).expect("a recording");
        if number % EVERY != 1 {
            continue;
        }

        for saw in looks(number, &parsed["at"]) {
            let _ = writeln!(recording, "{}", json!({"at": parsed["at"], "saw": saw}));
        }
    }

    recording
}

fn looks(number: usize, at: &Value) -> [Value; 5] {
    let revision = REVISIONS[usize::from(number >= BEFORE)];
    let started: Timestamp = serde_json::from_value(at.clone()).expect("a time");
    let pod = format!("widget-operator-{revision}");
    let turn = number / EVERY;
    let container =
        json!({"name": "manager", "ready": true, "running_since": started, "restarts": turn / 8});
    let operator = json!({"namespace": "zoo-system", "name": "widget-operator",
        "workload": {"kind": "Deployment", "replicas": 1},
        "pods": [{"name": pod, "uid": pod, "own": true, "phase": "Running", "containers": [container],
            "revision": {"hash": revision}}]});

    let memory = 90_000_000 + turn * 100_000;
    let process = json!({"instance": format!("zoo-system/{pod}"), "pid": 7, "start_ticks": number / BEFORE + 1,
        "runtime": "go", "cpu_seconds": turn, "cpu_limit": 0.5,
        "cpu_periods": turn * 100, "cpu_throttled_periods": turn * 10, "cpu_throttled_seconds": turn, "resident": memory, "working_set": memory, "memory_limit": 134_217_728,
        "memory_pressure": 0.5, "oom_kills": 0, "threads": 12});
    let done = 100 + turn * 10;
    let controller = json!({"name": "widget", "succeeded": done, "failed": 0,
        "reconcile_seconds": {"count": done, "sum": turn}, "reconcile_buckets": [[0.1, done / 2], [1.0, done]]});
    let metrics = json!({"instance": format!("zoo-system/{pod}"), "framework": "controller_runtime",
        "controllers": [controller]});
    let event = json!({"uid": "an-event", "namespace": "webshop", "name": "cart", "type": "Warning",
        "reason": "FailedCreate", "count": turn + 1, "added": 1});
    let missing = json!([{"verb": "list", "group": "", "resource": "events"}]);

    [
        json!({"operator_seen": operator}),
        json!({"process_seen": process}),
        json!({"metrics_scraped": metrics}),
        json!({"event_seen": {"watch": "widgets.zoo.loopwatch.dev/webshop", "event": event}}),
        json!({"rights_reviewed": {"namespace": "", "incomplete": false, "missing": missing, "excess": []}}),
    ]
}
