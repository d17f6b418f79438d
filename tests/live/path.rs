//! Faults of the connection to the API server, and of the API server itself. loopwatch reports
//! them, recovers, and misses no change.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{alone, bed, test};
use crate::compare::expect_equal;
use loopwatch_testbed::gate::{Gate, Refusal};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::wire::Wire;

/// Tests that disturb only their own connection.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("path::half_open", half_open),
        test("path::broken", broken),
        test("path::silent", silent),
        test("path::throttled", throttled),
        test("path::unavailable", unavailable),
    ]
}

/// Tests that disturb the API server.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![
        alone("apiserver::restarted", restarted),
        alone("apiserver::paused", paused),
        alone("apiserver::compacted", compacted),
    ]
}

const WIDGETS: &str = "watch/widgets.zoo.loopwatch.dev";

/// A namespace with objects but without an operator, and a loopwatch with its own connection.
struct Line {
    namespace: &'static str,
    sidecar: Sidecar,
    objects: usize,
}

impl Line {
    fn new(namespace: &'static str, server: &str) -> Self {
        let plane = bed();
        plane.kube.namespace(namespace);

        let kubeconfig =
            plane.kubeconfig_of(&format!("{namespace}.kubeconfig"), server, NAMESPACE, ACCOUNT);
        let settings = quick_but(
            json!({"deadline": "1h", "phase_stuck_after": "1h", "finalizer_stuck_after": "1h"}),
        );
        let scope = format!("--namespace={namespace}");
        let watch = "--watch=zoo.loopwatch.dev/Widget,zoo.loopwatch.dev/Statusless";
        let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &settings, &[&scope, watch]);

        sidecar.wait_synced(2);
        let mut line = Self { namespace, sidecar, objects: 0 };
        line.change_things();
        line.expect_equal(Duration::from_secs(10));

        line
    }

    /// Creates, changes and deletes some objects.
    fn change_things(&mut self) {
        let kube = &bed().kube;
        for kind in ["Widget", "Statusless"] {
            for index in self.objects..self.objects + 10 {
                kube.zoo(kind, self.namespace, &format!("object-{index}"), json!({}));
            }
            if let Some(earlier) = self.objects.checked_sub(10) {
                kube.delete(
                    loopwatch_testbed::kube::ZOO,
                    kind,
                    self.namespace,
                    &format!("object-{earlier}"),
                );
                kube.change(
                    kind,
                    self.namespace,
                    &format!("object-{}", earlier + 1),
                    json!({"size": self.objects}),
                );
            }
        }

        self.objects += 10;
    }

    fn expect_equal(&self, within: Duration) {
        expect_equal(within, &self.sidecar, &bed().kube, self.namespace, &["Widget", "Statusless"]);
    }

    fn source(&self) -> String {
        format!("{WIDGETS}/{}", self.namespace)
    }

    /// Expects a finding with one of these causes.
    fn expect_failing(&self, causes: &[&str]) -> Duration {
        let (finding, took) = self.sidecar.expect_finding(
            Duration::from_secs(40),
            "SourceFailing",
            "Source",
            &self.source(),
        );

        let cause = finding.evidence("cause").as_str().unwrap_or_default();
        assert!(causes.contains(&cause), "{finding}");

        let up = format!("loopwatch_source_up{{source=\"{}\"}}", self.source());
        assert_eq!(self.sidecar.metric(&up), Ok(0.0));

        took
    }

    /// Expects that the finding closes and the state is complete.
    fn expect_recovered(&self, within: Duration) -> Duration {
        let began = Instant::now();
        self.sidecar.expect_cleared(within, "SourceFailing", "Source", &self.source());
        self.expect_equal(within);

        let up = format!("loopwatch_source_up{{source=\"{}\"}}", self.source());
        assert_eq!(self.sidecar.metric(&up), Ok(1.0));

        // The other sources have recovered, too, and there was no other finding.
        self.sidecar.expect(within, "every source works", || {
            let findings = self.sidecar.findings()?;
            if findings.is_empty() {
                Ok(())
            } else {
                Err(loopwatch_testbed::sidecar::summary(&findings))
            }
        });

        let others: Vec<_> =
            self.sidecar.opened().into_iter().filter(|(code, _)| code != "SourceFailing").collect();

        assert!(others.is_empty(), "{others:?}");

        began.elapsed()
    }
}

fn say(what: &str, shown: Option<Duration>, recovered: Duration) {
    let shown = shown
        .map_or_else(|| "no finding".to_owned(), |after| format!("reported after {after:.1?}"));
    eprintln!("path: {what}: {shown}, recovered after {recovered:.1?}");
}

/// Connections look open but are dead. loopwatch must open new ones, which work.
fn half_open() {
    let wire = Wire::to(bed().port);
    let mut line = Line::new("half-open", &wire.url());
    wire.freeze();
    line.change_things();

    let began = Instant::now();

    // loopwatch requests streams of 200 s, and gives up on them a little later.
    line.expect_equal(Duration::from_secs(230));
    say("connections half-open", None, began.elapsed());
}

/// All connections are refused for a while.
fn broken() {
    let wire = Wire::to(bed().port);
    let mut line = Line::new("broken", &wire.url());
    wire.break_off();
    line.change_things();

    let shown = line.expect_failing(&["connection"]);
    wire.mend();
    say("connections refused", Some(shown), line.expect_recovered(Duration::from_secs(60)));
}

/// All connections hang for a while and then continue.
fn silent() {
    let wire = Wire::to(bed().port);
    let mut line = Line::new("silent", &wire.url());
    wire.fall_silent();
    line.change_things();
    pause(Duration::from_secs(12));
    wire.mend();

    let began = Instant::now();
    line.expect_equal(Duration::from_secs(20));
    say("line silent for 12 s", None, began.elapsed());
}

/// The API server throttles: loopwatch obeys Retry-After and reports the failure.
fn throttled() {
    let gate = Gate::before(bed());
    let mut line = Line::new("throttled", &gate.url());
    gate.refuse(Refusal { status: 429, retry_after: Some(3), path: "/" });
    gate.end_streams();
    line.change_things();

    let began = Instant::now();
    let shown = line.expect_failing(&["throttled"]);
    pause(Duration::from_secs(20).saturating_sub(began.elapsed()));

    let refused = gate.refused();
    gate.open();

    // Watches, audits and discovery each retry after three seconds at the earliest.
    assert!(refused < 70, "{refused} requests in 20 s, although Retry-After is 3 s");

    say("429 with Retry-After", Some(shown), line.expect_recovered(Duration::from_secs(60)));
}

/// The API server, or a proxy in front of it, answers 503.
fn unavailable() {
    let gate = Gate::before(bed());
    let mut line = Line::new("unavailable", &gate.url());
    gate.refuse(Refusal { status: 503, retry_after: None, path: "/" });
    gate.end_streams();
    line.change_things();

    let shown = line.expect_failing(&["server_error"]);
    gate.open();
    say("503", Some(shown), line.expect_recovered(Duration::from_secs(60)));
}

/// The API server stops and starts again.
fn restarted() {
    let plane = bed();
    let mut line = Line::new("restarted", &plane.url);
    let mut shown = None;
    plane.restart_apiserver(|| shown = Some(line.expect_failing(&["connection"])));
    line.change_things();
    say("API server restarted", shown, line.expect_recovered(Duration::from_secs(90)));
}

/// The API server hangs and then continues.
fn paused() {
    let plane = bed();
    let mut line = Line::new("paused", &plane.url);
    plane.apiserver().pause();
    pause(Duration::from_secs(15));
    plane.apiserver().resume();
    plane.wait_ready(Duration::from_secs(60));
    line.change_things();
    say("API server paused for 15 s", None, line.expect_recovered(Duration::from_secs(60)));
}

/// The last version that loopwatch has seen is compacted (410): it lists again and drops objects
/// deleted in the meantime.
fn compacted() {
    let plane = bed();
    let wire = Wire::to(plane.port);
    let mut line = Line::new("compacted", &wire.url());
    wire.break_off();
    line.change_things();

    // The watch cache of a restarted API server has no earlier events, and etcd has compacted them.
    plane.compact();
    plane.restart_apiserver(|| ());
    line.change_things();
    wire.mend();

    let recovered = line.expect_recovered(Duration::from_secs(90));
    let text = line.sidecar.metrics().unwrap_or_default();
    let gone = text
        .lines()
        .any(|l| l.starts_with("loopwatch_source_failures_total") && l.contains("cause=\"gone\""));

    assert!(gone, "the API server never answered 410: {}", line.sidecar.account());

    say("history compacted (410)", None, recovered);
}
