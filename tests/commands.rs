//! The command line as people and containers meet it: the built program, its exit codes, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn loopwatch(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command.args(arguments).env("NO_COLOR", "1").env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.output().expect("loopwatch runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_teaches_and_mistakes_are_one_line() {
    for command in ["run", "check", "record", "replay", "demo", "completions"] {
        let help = loopwatch(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        assert!(text(&help.stdout).contains("Usage:"), "{command}");
    }
    for (arguments, expected) in [
        (vec!["check", "--snapsot", "x"], "--snapshot"),
        (vec!["chekc"], "check"),
        (vec!["check", "--output", "xml"], "table, json, markdown"),
        (vec!["check", "--fail-on", "always"], "critical, warning, info"),
        (vec!["replay"], "FILE"),
    ] {
        let refused = loopwatch(&arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{arguments:?}");
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{arguments:?} gave {said:?}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_said_and_exits_with_two() {
    for (arguments, expected) in [
        (vec!["check"], "no cluster to look at"),
        (vec!["check", "--kubeconfig", "/no/such/file"], "/no/such/file"),
        (vec!["check", "--snapshot", "/no/such/dump"], "/no/such/dump"),
        (vec!["replay", "/no/such/recording"], "/no/such/recording"),
        (vec!["replay", "Cargo.toml"], "not a loopwatch recording"),
        (vec!["check", "--snapshot", "Cargo.toml"], "no Kubernetes object"),
        (vec!["check", "--config", "/no/such/config"], "/no/such/config"),
    ] {
        let failed = loopwatch(&arguments);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?} gave {said:?}");
    }
}

#[test]
fn a_dump_is_judged_without_a_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let stuck = folder.path().join("stuck.yaml");
    let yaml = "apiVersion: example.io/v1\nkind: Widget\nmetadata:\n  name: web\n  namespace: team-a\n  uid: 1f0b1b5e-0000-4000-8000-000000000001\n  generation: 2\n  creationTimestamp: 2026-01-01T00:00:00Z\n  deletionTimestamp: 2026-01-01T01:00:00Z\n  finalizers: [example.io/cleanup]\nstatus: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', lastTransitionTime: 2026-01-01T02:00:00Z}]}\n---\nkind: [broken\n";
    std::fs::write(&stuck, yaml).expect("written");
    let file = stuck.to_str().expect("a path");
    let table = loopwatch(&["check", "--snapshot", file]);
    assert_eq!(table.status.code(), Some(1), "{}", text(&table.stderr));
    assert!(
        text(&table.stdout).contains("FinalizerStuck") && text(&table.stdout).contains("team-a/web"),
        "{}",
        text(&table.stdout)
    );
    assert!(text(&table.stderr).contains("document at line"), "the broken part is named: {}", text(&table.stderr));
    let json = loopwatch(&["check", "--snapshot", file, "--all", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["objects"]["example.io/Widget"]["terminating"], 1);
    assert_eq!(json["items"][0]["state"], "terminating");
    assert!(loopwatch(&["check", "--snapshot", file, "-o", "markdown"]).status.code() == Some(1));
}

#[test]
fn the_demo_needs_nothing() {
    let demo = loopwatch(&["demo", "--once"]);
    assert_eq!(demo.status.code(), Some(0), "{}", text(&demo.stderr));
    for finding in ["FinalizerStuck", "NeverRecovered", "Regressed"] {
        assert!(text(&demo.stdout).contains(finding), "{}", text(&demo.stdout));
    }
}

#[test]
fn what_is_bundled_can_be_printed() {
    assert!(text(&loopwatch(&["rules"]).stdout).contains("LoopwatchFinding"));
    let dashboards: serde_json::Value = serde_json::from_slice(&loopwatch(&["dashboards"]).stdout).expect("JSON");
    assert_eq!(dashboards[0]["uid"], "loopwatch-overview");
    assert!(text(&loopwatch(&["completions", "bash"]).stdout).contains("loopwatch"));
}

/// A container whose configuration is wrong in every way still runs, serves, says what is wrong, and ends in peace.
#[test]
fn run_runs_whatever_its_configuration_is() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loopwatch"))
        .args(["run", "--no-such-flag", "--listen", "127.0.0.1:0", "--config", "/no/such/file"])
        .env("LOOPWATCH_MAX_WATCHES", "many")
        .env("LOOPWATCH_DEADLINE", "soon")
        .env("HOME", "/nonexistent")
        .env_remove("KUBECONFIG")
        .stderr(Stdio::piped())
        .spawn()
        .expect("loopwatch runs");
    let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines().map_while(Result::ok);
    let mut said = String::new();
    let address = lines
        .by_ref()
        .inspect(|line| said.push_str(line))
        .find_map(|line| Some(line.split_once("listening")?.1.split("127.0.0.1:").nth(1)?.trim().to_owned()))
        .expect("it listens");
    let port: u16 = address.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a port");
    let findings = eventually(|| {
        let answer = get(port, "/api/v1/findings");
        answer.contains("ConfigInvalid").then_some(answer)
    });
    for part in ["no-such-flag", "/no/such/file", "MAX_WATCHES", "soon"] {
        let known = findings.contains(part) || findings.contains(&part.to_lowercase().replace('_', "-"));
        assert!(known, "{part} is not told: {findings}");
    }
    assert!(get(port, "/metrics").contains("loopwatch_source_up{source=\"config\"} 0"));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..200 {
        if let Some(found) = look() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "a test without a runtime")]
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("waited for ten seconds in vain")
}

fn get(port: u16, path: &str) -> String {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}
