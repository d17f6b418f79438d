//! Profiles of the operator: taken when a threshold is exceeded, they name the function that leaks.

use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_with};
use loopwatch_testbed::guard::Program;
use loopwatch_testbed::http;
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("profiles::taken", &["go"], taken)]
}

/// How long a threshold and a comparison may take.
const SOON: Duration = Duration::from_secs(30);

/// A loopwatch with a directory for profiles.
struct Watcher {
    sidecar: Sidecar,
    directory: PathBuf,
}

/// One with pprof, one with profiles off, and one whose operator serves no pprof.
struct Watchers {
    on: Watcher,
    off: Watcher,
    absent: Watcher,
}

/// A leak of goroutines and one of memory exceed their thresholds. loopwatch takes profiles, which
/// name the function that leaks, and keeps them. Without pprof, or with profiles off, it reports
/// the same leaks, but takes no profiles.
fn taken() {
    let (plane, name) = (bed(), "profiles");
    plane.kube.namespace(name);

    let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let operator = Operator::start(plane, "profiles.operator", name, &flags);
    plane.kube.zoo("Statusless", name, "busy", json!({}));

    let watcher = |suffix: &str, flags: &[&str]| {
        Watcher::start(&operator, &format!("{name}-{suffix}"), flags)
    };
    let pprof = format!("--pprof=http://{}", operator.pprof);
    let without = format!("--pprof=http://127.0.0.1:{}", operator.fault_port());
    let on = watcher("on", &[&pprof, "--profile-wait=2s"]);
    let off = watcher("off", &[&pprof, "--profile-wait=2s", "--profiles=off"]);
    let absent = watcher("absent", &[&without, "--profile-wait=2s"]);

    let all = Watchers { on, off, absent };
    pause(Duration::from_secs(3));
    for watcher in all.each() {
        assert_eq!(watcher.kept(), 0, "no profile without a reason");
        assert_eq!(watcher.sidecar.opened(), [], "no finding without a reason");
    }

    leak_goroutines(&operator, &all);
    leak_memory(&operator, &all);
    check_kept(&all);
}

fn leak_goroutines(operator: &Operator, all: &Watchers) {
    let Watchers { on, off, absent } = all;

    // Each change starts some more goroutines.
    operator.fault("TaskLeak?tasks=40");
    let mut turn = 0;
    let mut change = || {
        turn += 1;
        pause(Duration::from_millis(200));
        bed().kube.change("Statusless", "profiles", "busy", json!({"size": 1 + turn % 5}));
    };
    let finding = on.sidecar.expect(SOON, "the function that leaks goroutines is known", || {
        change();
        on.names("TaskLimit", "leakedTask")
    });

    assert!(finding["evidence"]["tasks"].as_u64() > Some(800), "{finding}");
    assert_eq!(finding["confidence"], "suspected", "{finding}");

    let finding = on.sidecar.expect(SOON, "the next threshold is exceeded", || {
        change();
        let finding = on.finding("TaskLimit")?;
        if finding["evidence"]["threshold"].as_u64() >= Some(1500) {
            Ok(finding)
        } else {
            Err(finding.to_string())
        }
    });

    assert!(finding["evidence"]["top_growth"].to_string().contains("leakedTask"), "{finding}");

    for watcher in [off, absent] {
        let finding = watcher
            .sidecar
            .expect(SOON, "the finding needs no profile", || watcher.finding("TaskLimit"));

        assert!(finding["evidence"]["top_growth"].is_null(), "{finding}");
    }

    operator.cure("TaskLeak");
    for watcher in all.each() {
        watcher.sidecar.expect(SOON, "the goroutines have ended", || {
            match watcher.finding("TaskLimit") {
                Ok(finding) => Err(finding.to_string()),
                Err(_) => Ok(()),
            }
        });
    }
}

fn leak_memory(operator: &Operator, all: &Watchers) {
    let Watchers { on, off, absent } = all;
    operator.fault("HeapLeak?rate=8Mi");

    let finding = on.sidecar.expect(SOON * 2, "the function that leaks memory is known", || {
        operator.collect_garbage();
        on.names("MemoryLarge", "main.resident")
    });

    assert_eq!(finding["severity"], "info", "{finding}");

    let growth = on.top_growth();
    assert!(growth.first().is_some_and(|most| *most > 4.0 * 1024.0 * 1024.0), "{growth:?}");

    for watcher in [off, absent] {
        watcher
            .sidecar
            .expect(SOON, "the finding needs no profile", || watcher.finding("MemoryLarge"));
    }

    operator.cure("HeapLeak");
}

/// Checks that tools can download the profiles, and that there are none if loopwatch may not take
/// any.
fn check_kept(all: &Watchers) {
    let Watchers { on, off, absent } = all;
    let on_disk = on.kept();
    let listed = on.listed();

    assert_eq!((listed.len(), on_disk), (4, 4), "two profiles of each kind: {listed:?}");

    for (kind, expected) in
        [("heap", "main.resident"), ("goroutines", "main.(*reconciler).leakedTask")]
    {
        let newest = listed
            .iter()
            .filter(|file| file["kind"] == kind)
            .max_by_key(|file| file["taken_at"].to_string());
        let path = newest
            .and_then(|file| file["path"].as_str())
            .unwrap_or_else(|| panic!("no {kind}: {listed:?}"));
        let top = on.pprof_top(path);

        assert!(top.contains(expected), "{path}: {top}");
    }

    for (watcher, reason) in [(off, "--profiles=off"), (absent, "serves no pprof")] {
        let failing = watcher.finding("SourceFailing");
        assert!(failing.is_err(), "{failing:?}");

        let source = watcher.sidecar.source("profiles").unwrap_or_else(|error| panic!("{error}"));
        let said = source["off"].as_str().unwrap_or_default();

        assert!(source["up"] == true && said.contains(reason), "{source}");
        assert_eq!(
            (watcher.kept(), watcher.listed().len(), watcher.top_growth()),
            (0, 0, Vec::new()),
            "{reason}"
        );
    }
}

impl Watchers {
    fn each(&self) -> [&Watcher; 3] {
        [&self.on, &self.off, &self.absent]
    }
}

impl Watcher {
    fn start(operator: &Operator, name: &str, flags: &[&str]) -> Self {
        let plane = bed();
        let directory = plane.directory().join(format!("{name}.profiles"));
        std::fs::create_dir_all(&directory).expect("our own folder");

        let account =
            plane.kubeconfig_of(&format!("{name}.kubeconfig"), &plane.url, NAMESPACE, ACCOUNT);
        let scrape = format!("--scrape=http://{}", operator.metrics);
        let folder = format!("--profile-dir={}", directory.display());
        let own = [
            "--namespace=profiles",
            "--watch=zoo.loopwatch.dev/Statusless",
            &scrape,
            "--scrape-interval=1s",
            &folder,
        ];

        let settings = quick_but(json!({"memory_levels": [120_000_000]}));
        let sidecar = Sidecar::start(plane, name, &account, &settings, &[&own, flags].concat());
        sidecar.wait_synced(1);
        Self { sidecar, directory }
    }

    fn finding(&self, code: &str) -> Result<Value, String> {
        let findings = self.sidecar.findings()?;
        let found = findings.iter().find(|finding| finding.code() == code);
        found.map(|finding| finding.0.clone()).ok_or_else(|| format!("{findings:?}"))
    }

    /// Returns a finding whose evidence names this function.
    fn names(&self, code: &str, function: &str) -> Result<Value, String> {
        let finding = self.finding(code)?;
        if finding["evidence"]["top_growth"].to_string().contains(function) {
            Ok(finding)
        } else {
            Err(finding.to_string())
        }
    }

    /// The number of files in the directory.
    fn kept(&self) -> usize {
        std::fs::read_dir(&self.directory).expect("our own folder").count()
    }

    /// The profiles that the API lists.
    fn listed(&self) -> Vec<Value> {
        let text = http::get(self.sidecar.port, "/api/v1/profiles")
            .unwrap_or_else(|error| panic!("{error}"));
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        answer["profiles"].as_array().cloned().expect("a list")
    }

    /// The growth of the stacks of the heap, by rank.
    fn top_growth(&self) -> Vec<f64> {
        let text = self.sidecar.metrics().unwrap_or_else(|error| panic!("{error}"));
        let series =
            text.lines().filter(|line| line.starts_with("loopwatch_profile_top_growth_bytes{"));
        series.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    }

    /// Reads a profile as a user does.
    fn pprof_top(&self, path: &str) -> String {
        let url = format!("http://localhost:{}{path}", self.sidecar.port);
        let folder = bed().directory();
        let go =
            Program::new("profiles.go", "go", folder).env("PPROF_TMPDIR", folder.join("pprof"));
        let output = go.args(["tool", "pprof", "-top", &url]).run();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();

        assert!(output.status.success(), "{errors}");

        String::from_utf8_lossy(&output.stdout).into_owned() + &errors
    }
}
