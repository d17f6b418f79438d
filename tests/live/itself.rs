//! loopwatch itself: `run` does not exit, reports errors of its configuration and its cluster, and
//! does the rest of its work.

use std::time::Duration;

use libtest_mimic::Trial;
use loopwatch_model::time::Timestamp;
use serde_json::json;

use crate::bed::{bed, test};
use crate::case::Case;
use crate::prometheus::Prometheus;
use loopwatch_testbed::http;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{ShownFinding, Sidecar, program, quick, quick_but};
use loopwatch_testbed::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("itself::bad_file", bad_file),
        test("itself::unreadable_file", unreadable_file),
        test("itself::unknown_flag", unknown_flag),
        test("itself::no_server_at_first", no_server_at_first),
        test("itself::unusable_kubeconfig", unusable_kubeconfig),
        test("itself::usage_of_other_commands", usage_of_other_commands),
        test("itself::stops_on_sigterm", stops_on_sigterm),
        test("itself::restart_keeps_findings", restart_keeps_findings),
        test("itself::limits_hold", limits_hold),
        test("itself::not_scraped", not_scraped),
    ]
}

const SOON: Duration = Duration::from_secs(15);

fn account(name: &str) -> String {
    let plane = bed();
    plane.kube.namespace(name);

    let file = plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
    format!("--kubeconfig={}", file.display())
}

/// An invalid configuration file: the defaults apply, and a finding names the error.
fn bad_file() {
    let plane = bed();
    for (index, (content, named)) in [
        ("settings: {dedline: 4s}", "deadline"),
        ("max_watchs: 3", "max_watches"),
        ("deadline: soon", "duration"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("bad-file-{index}");
        let file = plane.directory().join(format!("{name}.yaml"));
        std::fs::write(&file, content).expect("our own folder");

        let config = format!("--config={}", file.display());
        let namespace = format!("--namespace={name}");
        let mut sidecar = Sidecar::bare(plane, &name, &[&account(&name), &config, &namespace]);
        let (finding, _) = sidecar.expect_finding(SOON, "ConfigInvalid", "Source", "config");
        let problem = finding.evidence("problem").as_str().unwrap_or_default();

        assert!(problem.contains(named), "{content:?}: {problem}");
        assert_eq!(sidecar.metric("loopwatch_source_up{source=\"config\"}"), Ok(0.0));

        sidecar.wait_synced(10);
        let status = sidecar.status().unwrap_or_default();

        assert_eq!(
            status["kinds"][0]["deadline_seconds"], 600.0,
            "the default is not in effect: {status}"
        );

        sidecar.process.assert_running();
    }
}

/// Outside a Pod, a file may protect the port. Nobody can tell whether this one does.
fn unreadable_file() {
    let plane = bed();
    for (index, content) in ["listen: [", "\u{0}\u{1}\u{2}"].into_iter().enumerate() {
        let name = format!("unreadable-file-{index}");
        let file = plane.directory().join(format!("{name}.yaml"));
        std::fs::write(&file, content).expect("our own folder");

        let config = format!("--config={}", file.display());
        let mut sidecar = Sidecar::bare(plane, &name, &[&account(&name), &config]);
        http::get(sidecar.port, "/livez").expect("alive");
        for path in ["/metrics", "/", "/api/v1/findings"] {
            let refused = http::get(sidecar.port, path).expect_err("closed");
            assert!(refused.contains("503"), "{content:?} {path}: {refused}");
        }

        sidecar.process.assert_running();
    }
}

/// A misspelt flag whose meaning is clear, and an invalid value.
fn unknown_flag() {
    let plane = bed();
    let name = "unknown-flag";
    let flags = [&account(name), "--namespace=unknown-flag", "--dedline=4s", "--max-watches=many"];
    let mut sidecar = Sidecar::bare(plane, name, &flags);
    let (finding, _) = sidecar.expect_finding(SOON, "ConfigInvalid", "Source", "config");
    let problem = finding.evidence("problem").as_str().unwrap_or_default();

    assert!(problem.contains("--dedline"), "{problem}");
    assert_eq!(sidecar.metric("loopwatch_source_up{source=\"config\"}"), Ok(0.0));

    sidecar.wait_synced(10); // the valid flags apply: the namespace and the account
    let status = sidecar.status().unwrap_or_default();

    assert_eq!(status["kinds"][0]["watches"][0]["scope"], "namespace unknown-flag", "{status}");

    sidecar.process.assert_running();
}

/// The API server is down when loopwatch starts, as after a power failure.
fn no_server_at_first() {
    let plane = bed();
    let name = "no-server";
    plane.kube.namespace(name);

    let wire = Wire::to(plane.port);
    wire.break_off();

    let kubeconfig = plane.kubeconfig_of("no-server.kubeconfig", &wire.url(), NAMESPACE, ACCOUNT);
    let settings = json!({"source_failing_after": "2s"});
    let mut sidecar =
        Sidecar::start(plane, name, &kubeconfig, &settings, &["--namespace=no-server"]);
    let (finding, _) = sidecar.expect_finding(SOON, "SourceFailing", "Source", "discovery");

    assert_eq!(finding.evidence("cause"), "connection", "{finding}");
    assert_eq!(sidecar.metric("loopwatch_source_up{source=\"discovery\"}"), Ok(0.0));

    wire.mend();
    sidecar.expect(Duration::from_secs(60), "it finds its kinds", || {
        let status = sidecar.status()?;
        match status["kinds"].as_array().map_or(0, Vec::len) {
            0 => Err(status.to_string()),
            _ => Ok(()),
        }
    });

    sidecar.wait_synced(10);
    sidecar.expect_cleared(SOON, "SourceFailing", "Source", "discovery");
    sidecar.process.assert_running();
}

/// Without a usable kubeconfig, the process keeps running and reports the error.
fn unusable_kubeconfig() {
    let plane = bed();
    let mut sidecar = Sidecar::bare(plane, "unusable", &["--kubeconfig=/does/not/exist"]);
    sidecar.expect(SOON, "the status names the kubeconfig", || {
        let status = sidecar.status()?.to_string();
        if status.contains("/does/not/exist") { Ok(()) } else { Err(status) }
    });

    assert!(http::get(sidecar.port, "/livez").is_ok());

    sidecar.process.assert_running();
}

/// Other commands exit immediately with a helpful line.
fn usage_of_other_commands() {
    for (arguments, code, says) in [
        (&["check", "--namspace=x"][..], 64, "--namespace"),
        (&["check", "--kubeconfig=/does/not/exist"], 2, "/does/not/exist"),
        (&["run", "--strict", "--dedline=4s"], 64, "--deadline"),
        (&["replay", "/does/not/exist"], 2, "/does/not/exist"),
    ] {
        let output = program("usage", bed()).args(arguments.iter().copied()).run();
        let error = String::from_utf8_lossy(&output.stderr);

        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(says) && error.lines().count() <= 2, "{arguments:?}: {error}");
    }
}

/// On SIGTERM, loopwatch exits in time with code 0.
fn stops_on_sigterm() {
    let plane = bed();
    let name = "stops";
    let mut sidecar = Sidecar::bare(plane, name, &[&account(name), "--namespace=stops"]);
    sidecar.wait_synced(10);

    let status = sidecar.process.stop(Duration::from_secs(8));
    assert_eq!(status.code(), Some(0), "{}", sidecar.process.program.log_tail(10));
}

/// After a restart, findings keep their start times, and counters do not count earlier events
/// again.
fn restart_keeps_findings() {
    let mut case = Case::new("restart", &quick());
    case.make("Widget", "target");
    case.operator.fault("Overdue?kind=Widget&namespace=restart&name=target");
    case.resize("Widget", "target", 7);

    let (before, _) = case.sidecar.expect_finding(SOON, "Overdue", "Widget", "target");
    let late = "loopwatch_obligations_total{group=\"zoo.loopwatch.dev\",kind=\"Widget\",\
        target_namespace=\"restart\",operator_revision=\"\",outcome=\"late\"}";

    assert_eq!(case.sidecar.metric(late), Ok(1.0));

    case.sidecar.process.kill();
    case.sidecar.start_again();

    let (after, found) =
        case.sidecar.expect_finding(Duration::from_secs(10), "Overdue", "Widget", "target");
    let since = |finding: &ShownFinding| {
        finding.0["since"].as_str().and_then(Timestamp::parse).expect("a time").0
    };
    let moved = since(&after) - since(&before);

    assert!(
        moved.abs() <= 2_000,
        "from {} to {}, although server times have whole seconds",
        before.0["since"],
        after.0["since"]
    );
    assert_eq!(
        case.sidecar.metric(late),
        Ok(0.0),
        "it was counted before the restart, and counters start at 0"
    );

    eprintln!(
        "itself: {:.1} s after a restart, the finding is open again with its old start time",
        found.as_secs_f64()
    );
    case.operator.cure("Overdue");
    case.sidecar.expect_cleared(SOON, "Overdue", "Widget", "target");
}

/// With more objects than the limit, loopwatch counts and reports the dropped ones, and keeps
/// running.
fn limits_hold() {
    let plane = bed();
    let name = "bounds";
    plane.kube.namespace(name);

    for index in 0..30 {
        plane.kube.zoo("Statusless", name, &format!("object-{index}"), json!({"suspend": true}));
    }

    let kubeconfig = plane.kubeconfig_of("bounds.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let settings = json!({"limits": {"objects": 10}});
    let flags = ["--namespace=bounds", "--watch=zoo.loopwatch.dev/Statusless"];
    let mut sidecar = Sidecar::start(plane, name, &kubeconfig, &settings, &flags);

    sidecar.expect_finding(SOON, "LimitReached", "Limit", "objects");
    assert!(
        sidecar
            .metric("loopwatch_dropped_total{limit=\"objects\"}")
            .is_ok_and(|dropped| dropped >= 20.0)
    );
    assert!(sidecar.objects("").is_ok_and(|objects| objects.len() <= 10));

    sidecar.process.assert_running();
}

/// A Prometheus loses its target, as after a change of a selector, and finds it again.
fn not_scraped() {
    let case = Case::empty("not-scraped", &quick_but(json!({"scrape_expected_within": "5s"})));
    let sidecar = &case.sidecar;
    let prometheus = Prometheus::start("not-scraped.prometheus", sidecar.port, None);
    let cleared = || sidecar.expect_cleared(SOON, "NotScraped", "Source", "scrapes");
    cleared();

    prometheus.set_targets(&[]);
    let (finding, _) = sidecar.expect_finding(SOON, "NotScraped", "Source", "scrapes");
    assert!(finding.evidence("waiting_for").as_f64().is_some_and(|seconds| seconds >= 5.0));

    prometheus.set_targets(&[("not-scraped", "widget-operator-0", sidecar.port)]);
    cleared();
}
