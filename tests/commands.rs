//! Tests of the built program: its exit codes and output.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use loopwatch_model::time::Timestamp;

#[path = "commands/offline.rs"]
mod offline;
#[path = "commands/port.rs"]
mod port;

/// The kubelet sets this variable in every container. In a Pod, a file may set fewer keys.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

fn loopwatch(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command
        .args(arguments)
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .env_remove(IN_CLUSTER)
        .env("HOME", "/nonexistent");

    command.output().expect("loopwatch runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the report without line breaks.
fn unwrapped(output: &Output) -> String {
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn commands_have_help_and_usage_errors_fit_on_one_line() {
    for command in
        ["run", "check", "explain", "what-if", "rights", "record", "replay", "demo", "completions"]
    {
        let help = loopwatch(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        assert!(text(&help.stdout).contains("Usage:"), "{command}");
    }

    for (arguments, expected) in [
        (vec!["check", "--snapsot", "x"], "--snapshot"),
        (vec!["chekc"], "check"),
        (vec!["check", "--output", "xml"], "table, json, yaml or markdown"),
        (vec!["check", "--fail-on", "always"], "critical, warning, info or none"),
        (vec!["replay"], "FILE"),
        (
            vec!["what-if", "delete", "widget", "web", "--cascade", "now"],
            "background, foreground or orphan",
        ),
        (vec!["what-if", "uninstall", "operator"], "loopwatch: invalid value 'operator'"),
        (vec!["what-if", "delete"], "see `loopwatch what-if delete --help`"),
        (vec!["what-if", "delete", "widget"], "KIND NAME"),
        (vec!["explain"], "see `loopwatch explain --help`"),
        (vec!["explain", "widget"], "KIND NAME"),
        (vec!["explain", "widget", "web", "--server", "http://10.0.0.1:9917"], "port-forward"),
        (vec!["explain", "widget", "web", "--server", "--from", "x"], "--from"),
        (vec!["explain", "widget", "web", "--at", "2026-01-31T12:00:00Z"], "--from"),
    ] {
        let refused = loopwatch(&arguments);
        let stderr = text(&refused.stderr);

        assert_eq!(refused.status.code(), Some(64), "{arguments:?}");
        assert!(
            stderr.contains(expected) && stderr.trim().lines().count() == 1,
            "{arguments:?} gave {stderr:?}"
        );
    }
}

#[test]
fn unusable_input_exits_with_two_and_names_the_problem() {
    for (arguments, expected) in [
        (vec!["check"], "cannot find a cluster"),
        (vec!["check", "--kubeconfig", "/no/such/file"], "/no/such/file"),
        (vec!["what-if", "delete", "widget", "web"], "cannot find a cluster"),
        (
            vec!["what-if", "delete", "widget", "web", "--kubeconfig", "/no/such/file"],
            "/no/such/file",
        ),
        (vec!["explain", "widget", "web"], "cannot find a cluster"),
        (
            vec!["explain", "widget", "web", "--server", "http://127.0.0.1:1"],
            "cannot ask loopwatch at http://127.0.0.1:1: client error",
        ),
        (
            vec!["explain", "widget", "web", "--server", "http://127.0.0.1:1"],
            "does `kubectl port-forward` run?",
        ),
        (vec!["explain", "widget", "web", "--from", "/no/such/dump"], "/no/such/dump"),
        (vec!["check", "--from", "/no/such/dump"], "/no/such/dump"),
        (vec!["replay", "/no/such/recording"], "/no/such/recording"),
        (vec!["replay", "Cargo.toml"], "not a loopwatch recording"),
        (vec!["check", "--from", "Cargo.toml"], "no Kubernetes object"),
        (vec!["check", "--config", "/no/such/config"], "/no/such/config"),
    ] {
        let failed = loopwatch(&arguments);
        let said = text(&failed.stderr);

        assert_eq!(failed.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected) && !said.contains("ERROR"), "{arguments:?} gave {said:?}");
        assert!(said.matches("No such file").count() <= 1, "each reason appears once: {said:?}");
    }
}

#[test]
fn an_invalid_value_is_one_line_that_names_its_origin() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "deadline: soon\nmax_watchs: 3\nlisten: nowhere\n").expect("written");

    let config = config.to_str().expect("a path");
    for arguments in
        [["check", "--config", config].as_slice(), &["run", "--strict", "--config", config]]
    {
        let failed = loopwatch(arguments);
        let said = text(&failed.stderr);

        assert_eq!(failed.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 3, "{said}");

        for expected in [
            "deadline: \"soon\" is not a duration",
            "did you mean \"max_watches\"?",
            "listen: expected",
        ] {
            let line = said
                .lines()
                .find(|line| line.contains(expected))
                .unwrap_or_else(|| panic!("{expected}: {said}"));

            assert!(line.starts_with(&format!("loopwatch: {config}: ")), "{line}");
        }
    }

    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    let failed =
        command.args(["check"]).env("LOOPWATCH_DEADLINE", "soon").output().expect("loopwatch runs");

    assert_eq!(failed.status.code(), Some(64));
    assert!(
        text(&failed.stderr).starts_with("loopwatch: LOOPWATCH_DEADLINE: "),
        "{}",
        text(&failed.stderr)
    );
}

#[test]
fn flags_override_variables_and_variables_override_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, dump) = (folder.path().join("config.yaml"), folder.path().join("dump.yaml"));
    std::fs::write(&config, "deadline: [7m, example.io/Gadget=9m]\nlisten: 127.0.0.1:1\n")
        .expect("written");

    let yaml = |kind| {
        format!("apiVersion: example.io/v1\nkind: {kind}\nmetadata: {{name: web, uid: {kind}}}\n")
    };
    std::fs::write(&dump, format!("{}---\n{}", yaml("Widget"), yaml("Gadget"))).expect("written");

    let deadlines = |arguments: &[&str], variable: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command
            .args(["check", "-o", "json", "--config"])
            .arg(&config)
            .arg("--from")
            .arg(&dump)
            .args(arguments);
        command.env_remove(IN_CLUSTER);
        command.envs(variable.map(|value| ("LOOPWATCH_DEADLINE", value)));

        let output = command.output().expect("loopwatch runs");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let kinds = json["status"]["kinds"].as_array().cloned().unwrap_or_default();
        kinds
            .iter()
            .map(|kind| kind["deadline_seconds"].as_f64().unwrap_or_default() / 60.0)
            .collect::<Vec<_>>()
    };

    assert_eq!(deadlines(&[], None), [9.0, 7.0], "Gadget and Widget, by the file");
    assert_eq!(
        deadlines(&[], Some("8m")),
        [9.0, 8.0],
        "the variable wins over the file and adds to it"
    );
    assert_eq!(
        deadlines(&["--deadline", "1m"], Some("8m")),
        [9.0, 1.0],
        "the flag wins over the variable"
    );
}

#[test]
fn check_reads_a_dump_without_a_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let stuck = folder.path().join("stuck.yaml");
    let yaml = "apiVersion: example.io/v1\nkind: Widget\nmetadata:\n  name: web\n  namespace: team-a\n  uid: 1f0b1b5e-0000-4000-8000-000000000001\n  generation: 2\n  creationTimestamp: 2026-01-01T00:00:00Z\n  deletionTimestamp: 2026-01-01T01:00:00Z\n  finalizers: [example.io/cleanup]\nstatus: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', lastTransitionTime: 2026-01-01T02:00:00Z}]}\n---\nkind: [broken\n";
    std::fs::write(&stuck, yaml).expect("written");

    let file = stuck.to_str().expect("a path");
    let table = loopwatch(&["check", "--from", file]);

    assert_eq!(table.status.code(), Some(1), "{}", text(&table.stderr));
    assert!(
        text(&table.stdout).contains("FinalizerStuck")
            && text(&table.stdout).contains("team-a/web"),
        "{}",
        text(&table.stdout)
    );
    assert!(
        text(&table.stderr).contains("document at line"),
        "the warning names the broken document: {}",
        text(&table.stderr)
    );

    let json = loopwatch(&["check", "--from", file, "--all", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");

    assert_eq!(json["objects"]["example.io/Widget"]["terminating"], 1);
    assert_eq!(json["items"][0]["state"], "terminating");
    assert_eq!(json["status"]["dump"]["without_managed_fields"], 1);

    let flat =
        |output: &Output| text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");

    assert!(
        flat(&table)
            .contains("The age of the specs of 1 of 1 object: these objects have no managedFields"),
        "{}",
        text(&table.stdout)
    );

    let markdown = loopwatch(&["check", "--from", file, "-o", "markdown"]);
    assert!(flat(&markdown).contains("--show-managed-fields"), "{}", text(&markdown.stdout));
    assert_eq!(markdown.status.code(), Some(1));
}

#[test]
fn the_old_name_of_from_still_works_and_is_hidden() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    for arguments in [&["check"][..], &["explain", "widgets", "ledger"]] {
        let with = |flag| loopwatch(&[arguments, &[flag, file]].concat());
        let (new, old) = (with("--from"), with("--snapshot"));

        assert!(!new.stdout.is_empty(), "{}", text(&new.stderr));
        assert_eq!((old.status.code(), &old.stdout), (new.status.code(), &new.stdout));
        assert!(!text(&loopwatch(&[arguments[0], "--help"]).stdout).contains("--snapshot"));
    }
}

#[test]
fn texts_of_a_dump_do_not_control_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = folder.path().join("dump\u{1b}[2J.json");
    let objects = r#"{"apiVersion":"example.io/v1","kind":"Widget","metadata":{"name":"web\u001b[31m\u009b2J\u202e\u2028x","namespace":"a"}}
        {"apiVersion":"example.io/v1","kind":"Widget","metadata":{"namespace":"a"}}"#;

    std::fs::write(&dump, objects).expect("written");
    let dump = dump.to_str().expect("UTF-8");

    // The second one names a similar object.
    for arguments in [
        &["check", "--all", "--from", dump][..],
        &["check", "--all", "--from", dump, "-o", "json"],
        &["check", "--all", "--from", dump, "-o", "yaml"],
        &["explain", "--from", dump, "widget", "wed"],
    ] {
        let output = loopwatch(arguments);
        let said = text(&output.stdout) + &text(&output.stderr);

        assert!(said.contains("no name"), "{said}");
        let controls = ['\u{1b}', '\u{9b}', '\u{202e}', '\u{2028}'];
        assert!(!said.contains(controls), "{arguments:?}: {said:?}");
    }
}

#[test]
fn variables_of_a_cluster_do_not_conflict_with_a_dump() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command
        .args(["check", "--from", file])
        .env("LOOPWATCH_KUBECONFIG", "/k")
        .env("LOOPWATCH_OPERATOR", "a/b");

    let judged = command.output().expect("loopwatch runs");
    assert_eq!(judged.status.code(), Some(1), "{}", text(&judged.stderr));

    let said = text(&judged.stderr);
    assert!(said.contains("LOOPWATCH_KUBECONFIG, LOOPWATCH_OPERATOR"), "{said}");

    let refused = loopwatch(&["check", "--from", "-"]);
    assert!(text(&refused.stderr).contains("standard input"), "{}", text(&refused.stderr));

    let refused = loopwatch(&["check", "--from", file, "--kubeconfig", "/k"]);
    assert_eq!(refused.status.code(), Some(64), "{}", text(&refused.stderr));
}

#[test]
fn an_object_of_a_recording_is_explained_at_any_instant() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let explain = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command.args(["explain", "widgets", "ledger", "--from", file]).args(more);
        command.env("LOOPWATCH_KUBECONFIG", "/k").output().expect("loopwatch runs")
    };
    let table = explain(&[]);

    assert_eq!(table.status.code(), Some(0), "{}", text(&table.stderr));

    for expected in [
        "Widget.zoo.loopwatch.dev webshop/ledger",
        "Regressed",
        "BackendLost",
        "Timeline",
        "Written by",
    ] {
        assert!(unwrapped(&table).contains(expected), "{expected}: {}", text(&table.stdout));
    }

    assert!(!text(&table.stdout).contains('\u{1b}'), "no colours in a pipe");

    let json: serde_json::Value =
        serde_json::from_slice(&explain(&["-o", "json"]).stdout).expect("JSON");

    assert_eq!(
        (&json["version"], &json["object"]["name"]),
        (&1.into(), &"ledger".into()),
        "{json}"
    );

    let reasons = json["conditions"].to_string();
    assert!(reasons.contains("BackendLost"), "the recording has the reasons: {reasons}");

    let opened = json["timeline"][0]["at"].as_str().expect("an event");
    let before = explain(&["-o", "json", "--at", opened]);
    let before: serde_json::Value = serde_json::from_slice(&before.stdout).expect("JSON");

    assert_eq!(before["at"].as_str(), Some(opened), "{before}");

    let unknown = explain(&["-n", "elsewhere"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("did you mean webshop/ledger?"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
fn objects_of_a_dump_are_explained_whatever_their_owners_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = |name: &str, owner: &str| {
        let reference = format!("{{apiVersion: a.io/v1, kind: W, name: {owner}, uid: u-{owner}}}");
        format!(
            "---\napiVersion: a.io/v1\nkind: W\nmetadata:\n  name: {name}\n  namespace: ns\n  uid: u-{name}\n  \
             finalizers: [a.io/hold]\n  ownerReferences: [{reference}]\n"
        )
    };

    let dump = folder.path().join("dump.yaml");
    let all =
        [object("a", "b"), object("b", "a"), object("lost", "nobody"), object("itself", "itself")]
            .concat();

    std::fs::write(&dump, all + "---\nkind: [\n").expect("written");
    let file = dump.to_str().expect("a path");
    let explain = |name: &str| loopwatch(&["explain", "w", name, "--from", file]);

    for (name, expected) in
        [("a", "W.a.io ns/b"), ("itself", "(repeated)"), ("lost", "W.a.io nobody, not visible")]
    {
        let output = explain(name);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        assert!(unwrapped(&output).contains(expected), "{expected}: {}", text(&output.stdout));
        assert!(
            unwrapped(&output).contains("document at line"),
            "the broken part is named: {}",
            text(&output.stdout)
        );
    }

    let several = loopwatch(&["explain", "x/a", "--from", file]);
    assert!(text(&several.stderr).contains("no objects of a kind"), "{}", text(&several.stderr));
}

#[test]
fn a_recording_is_judged_at_its_end_or_at_an_instant() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let end = loopwatch(&["check", "--from", file]);

    assert_eq!(end.status.code(), Some(1), "{}", text(&end.stderr));

    let note = text(&end.stderr);
    assert!(
        note.contains("is a recording") && note.contains(&format!("`loopwatch replay {file}`")),
        "{note}"
    );

    let replayed = text(&loopwatch(&["replay", file]).stdout);
    assert!(replayed.ends_with(&text(&end.stdout)), "the same report: {replayed}");

    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/busy.jsonl.gz");
    assert!(text(&loopwatch(&["check", "--from", packed]).stderr).contains("is a recording"));

    let lines = std::fs::read_to_string(file).expect("the scenario");
    let instant = |line: &str| {
        Some(serde_json::from_str::<serde_json::Value>(line).ok()?["at"].as_str()?.to_owned())
    };
    let middle = lines.lines().filter_map(instant).nth(40).expect("a line");
    let early = loopwatch(&["check", "--from", file, "--at", &middle]);

    assert!(text(&early.stderr).contains(&format!("shows {middle}")), "{}", text(&early.stderr));

    for (at, expected) in
        [("2000-01-01T00:00:00Z", "begins at"), ("2100-01-01T00:00:00Z", "ends at")]
    {
        let refused = loopwatch(&["check", "--from", file, "--at", at]);
        assert_eq!(refused.status.code(), Some(2), "{at}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
}

/// The incident with a skipped line, a line about an unknown watch, and unknown fields, as a newer
/// version might write.
fn newer_incident(folder: &std::path::Path) -> String {
    let file = folder.join("newer.jsonl");
    let lines = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/scenarios/incident.jsonl"
    ));
    let lines = lines.expect("the scenario").replacen(
        "\"settings\":{",
        "\"settings\":{\"moon\":\"full\",",
        1,
    );

    let last = lines
        .lines()
        .last()
        .and_then(|line| line.split("\"saw\"").next())
        .expect("a line")
        .to_owned();

    let more = [
        format!("{last}\"saw\":{{\"the_moon\":{{}}}}}}"),
        format!(
            "{last}\"saw\":{{\"progressed\":{{\"watch\":\"moons.example.io\",\"version\":\"1\"}}}}}}"
        ),
        format!("{last}\"colour\":1,\"saw\":\"tick\"}}"),
    ];

    std::fs::write(&file, format!("{lines}{}\n", more.join("\n"))).expect("written");
    file.to_str().expect("a path").to_owned()
}

/// YAML is for people who pipe a report into other tools that read it.
#[test]
fn yaml_has_the_content_of_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = newer_incident(folder.path());
    for command in [
        vec!["check", "--all", "--from", &file],
        vec!["replay", &file],
        vec!["rights", "--from", &file],
    ] {
        let [json, yaml] = ["json", "yaml"].map(|format| {
            let output = loopwatch(&[&command[..], &["-o", format]].concat());
            text(&output.stdout)
        });

        let from_yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect("YAML");
        let from_json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(from_yaml, from_json, "{command:?}");
        assert!(!yaml.starts_with('{'), "{command:?}: {yaml}");
    }
}

#[test]
fn findings_need_not_fail_a_check() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    for (flags, code) in [
        (["--fail-on", "warning"].as_slice(), 1),
        (&["--fail-on", "none"], 0),
        (&["--fail-on", "none", "--fail-on-state", "converged"], 1),
        (&["--fail-on", "none", "--fail-on-state", "skipped"], 0),
    ] {
        let output = loopwatch(&[&["check", "--from", file], flags].concat());
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {}", text(&output.stderr));
    }

    let state = loopwatch(&["check", "--from", file, "--fail-on-state", "dead"]);
    assert_eq!(state.status.code(), Some(64));
    assert!(text(&state.stderr).contains("expected converged, progressing"));
}

/// A gate of one team must not depend on the objects of others.
#[test]
fn the_namespaces_of_a_dump_can_be_selected_but_not_those_of_a_recording() {
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps/faults.json");
    let namespaces = |flags: &[&str]| {
        let output = loopwatch(&[&["check", "--from", dump, "-o", "json"], flags].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings").clone();
        findings
            .iter()
            .map(|finding| finding["subject"]["namespace"].as_str().unwrap_or_default().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };

    let all = namespaces(&[]);
    assert!(all.contains("team-a") && all.contains("team-b"), "{all:?}");
    let one = namespaces(&["-n", "team-b"]);
    assert!(one.contains("team-b") && !one.contains("team-a"), "{one:?}");

    let absent = loopwatch(&["check", "--from", dump, "-n", "team-bb"]);
    assert_eq!(absent.status.code(), Some(2), "a report on nothing says that all is well");
    assert!(text(&absent.stderr).contains("similar ones are team-b"), "{}", text(&absent.stderr));

    for flags in [["-n", "team-a,nope"], ["--exclude-namespace", "nope"]] {
        let noted = loopwatch(&[&["check", "--from", dump], &flags[..]].concat());
        assert!(text(&noted.stderr).contains("namespace nope"), "{}", text(&noted.stderr));
        assert_eq!(noted.status.code(), Some(1), "the objects of the others have findings");
    }

    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let refused = loopwatch(&["check", "--from", recording, "-n", "team-b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("cannot divide"), "{}", text(&refused.stderr));

    let early = loopwatch(&["check", "--from", dump, "--at", "2020-01-01T00:00:00Z"]);
    assert!(text(&early.stderr).contains("what happened later"), "{}", text(&early.stderr));

    let served = loopwatch(&["replay", recording, "--serve", "-o", "json"]);
    assert_eq!(served.status.code(), Some(2));
    assert!(text(&served.stderr).contains("leave out -o"), "{}", text(&served.stderr));
}

/// Otherwise, a pipeline would be green although nobody has read the rest of the file.
#[test]
fn a_file_that_cannot_be_read_completely_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let newer = newer_incident(folder.path());
    let packed = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/scenarios/condition-malformed.jsonl.gz"
    ));
    let (packed, cut) = (packed.expect("a scenario"), folder.path().join("cut.jsonl.gz"));
    std::fs::write(&cut, &packed[..packed.len() - 20]).expect("written");
    let dump = folder.path().join("dump.yaml");
    std::fs::write(
        &dump,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n---\n{",
    )
    .expect("written");

    for file in [newer.as_str(), cut.to_str().expect("UTF-8"), dump.to_str().expect("UTF-8")] {
        let tests = folder.path().join("tests.xml");
        let tests = tests.to_str().expect("UTF-8");
        let output = loopwatch(&["check", "--from", file, "--fail-on", "none", "--junit", tests]);
        assert_eq!(output.status.code(), Some(2), "{file}: {}", text(&output.stderr));
        assert!(!text(&output.stdout).contains("HEALTHY"), "{file}: {}", text(&output.stdout));

        let tests = std::fs::read_to_string(tests).expect("the JUnit file");
        assert!(tests.contains("<error "), "{file}: {tests}");
    }
}

#[test]
fn parts_of_a_recording_without_effect_appear_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = newer_incident(folder.path());
    for format in ["table", "markdown", "json", "yaml"] {
        for arguments in [
            ["replay", file.as_str(), "-o", format].as_slice(),
            &["check", "--from", &file, "-o", format],
        ] {
            let output = loopwatch(arguments);
            let said = text(&output.stdout);

            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));

            let said =
                said.replace(['\n', '\\'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
            for expected in [
                "the_moon",
                "moons.example.io",
                "colour: 1",
                "settings.moon",
                "1 line of the recording",
                "1 unknown field",
            ] {
                assert!(said.contains(expected), "{arguments:?}: {expected} is missing: {said}");
            }
        }
    }

    let json = loopwatch(&["replay", &file, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let recording = &json["status"]["recording"];

    assert_eq!(
        (&recording["skipped_lines"], &recording["undiscovered_lines"]),
        (&1.into(), &1.into()),
        "{recording}"
    );
    assert_eq!(recording["unknown_fields"]["colour"], 1);

    let metrics = text(&loopwatch(&["replay", &file, "-o", "metrics"]).stdout);
    for part in ["skipped_line", "undiscovered_line", "field", "header_field"] {
        assert!(
            metrics.contains(&format!("loopwatch_recording_unread{{part=\"{part}\"}} 1\n")),
            "{part}: {metrics}"
        );
    }
}

#[test]
fn a_replay_shows_any_moment_every_object_and_the_whole_timeline() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = loopwatch(&[&["replay", file, "-o", "json"], arguments].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
    };
    let end = json(&["--all"]);
    let events = end["timeline"].as_array().expect("the timeline").clone();

    assert_eq!(events.len(), 7, "{events:?}");

    for event in &events {
        assert!(
            event["at"].as_str().is_some_and(|at| at.ends_with('Z')),
            "an absolute time: {event}"
        );
        assert!(
            ["opened", "closed"].contains(&event["change"].as_str().unwrap_or_default()),
            "{event}"
        );
        assert_eq!(event["subject"]["group"], "zoo.loopwatch.dev", "{event}");
    }

    let objects: u64 = end["objects"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, states)| {
            states.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64())
        })
        .sum();

    assert_eq!(end["items"].as_array().map(|items| items.len() as u64), Some(objects));

    let middle = events[3]["at"].as_str().expect("a time");
    let then = json(&["--until", middle]);

    assert_eq!(then["timeline"].as_array().map(Vec::as_slice), Some(&events[..4]));
    assert_eq!(then["status"]["at"], *middle);
    assert!(then.get("items").is_none());

    for (until, expected) in
        [("2000-01-01T00:00:00Z", "begins at"), ("2100-01-01T00:00:00Z", "ends at")]
    {
        let refused = loopwatch(&["replay", file, "--until", until]);
        assert_eq!(refused.status.code(), Some(2), "{until}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
}

/// The finalizer of the incident is stuck only with its recorded threshold of two minutes.
#[test]
fn a_deadline_of_a_replay_changes_only_deadlines() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let replay =
        |arguments: &[&str]| text(&loopwatch(&[&["replay", file], arguments].concat()).stdout);

    assert!(replay(&[]).contains("opened  Unacknowledged"));

    let patient = replay(&["--deadline", "2h"]);
    assert!(!patient.contains("opened  Unacknowledged"), "{patient}");
    assert!(
        patient.contains("opened  FinalizerStuck") && patient.contains("threshold 2m"),
        "{patient}"
    );

    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "settings: {finalizer_stuck_after: 1h}\n").expect("written");

    let configured = replay(&["--config", config.to_str().expect("a path")]);
    assert!(!configured.contains("FinalizerStuck"), "a file replaces all settings: {configured}");
}

/// The first login returns an expired token, so that the first request logs in again, which fails.
#[test]
fn the_output_of_a_login_plugin_is_never_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plugin, config) = (folder.path().join("login"), folder.path().join("config"));
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"S3CRET","expirationTimestamp":"2020-01-01T00:00:00Z"}}"#;
    let script = format!(
        "#!/bin/sh\nif mkdir {}; then echo '{credential}'; else echo S3CRET; echo S3CRET >&2; exit 7; fi\n",
        folder.path().join("used").display()
    );

    std::fs::write(&plugin, script).expect("written");
    let text_of_config = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:9'}}}}], users: [{{name: a, user: {{exec: \
         {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['{}']}}}}}}]}}",
        plugin.display()
    );

    std::fs::write(&config, text_of_config).expect("written");
    for filter in ["trace", "error"] {
        let _ = std::fs::remove_dir(folder.path().join("used"));
        let checked = loopwatch(&[
            "check",
            "--log",
            filter,
            "--kubeconfig",
            config.to_str().expect("a path"),
        ]);

        let said = text(&checked.stderr) + &text(&checked.stdout);
        assert!(
            said.contains("login plugin of the kubeconfig failed with exit status: 7"),
            "{said}"
        );
        assert!(!said.contains("S3CRET"), "{filter}: {said}");
    }
}

#[test]
fn demo_runs_without_a_cluster() {
    let demo = loopwatch(&["demo", "--once"]);
    assert_eq!(demo.status.code(), Some(0), "{}", text(&demo.stderr));

    for finding in ["FinalizerStuck", "NeverRecovered", "Regressed", "HeapLeak", "Orphan"] {
        assert!(text(&demo.stdout).contains(finding), "{}", text(&demo.stdout));
    }
}

#[test]
fn demo_once_listens_nowhere() {
    let demo = loopwatch(&["demo", "--once", "--listen", "127.0.0.1:0"]);
    assert_eq!(demo.status.code(), Some(64));
    let said = text(&demo.stderr);
    assert!(said.contains("'--once' cannot be used with '--listen"), "{said}");
    assert!(demo.stdout.is_empty(), "{}", text(&demo.stdout));
}

/// Both ways to play the incident show it as if it had just happened.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time of this machine is what the test is about")]
fn demo_once_ends_now() {
    let demo = loopwatch(&["demo", "--once"]);
    let said = text(&demo.stdout);
    let begin = said.lines().next().and_then(|line| line.strip_prefix("Findings since "));
    let begin = Timestamp::parse(begin.unwrap_or_default().trim_end_matches(':')).expect("a time");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let hours = (now.as_millis() as i64 - begin.0) / 3_600_000;

    assert!((0..=12).contains(&hours), "{begin} is {hours} h ago");
}

#[test]
fn a_replay_of_a_recording_that_breaks_off_says_so() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios/incident.jsonl");
    let whole = std::fs::read_to_string(file).expect("the scenario");
    let lines: Vec<&str> = whole.lines().take(4).collect();
    let cut = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..lines[2].len() / 2]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut.jsonl");
    std::fs::write(&path, cut).expect("written");

    let replay = loopwatch(&["replay", path.to_str().expect("UTF-8")]);
    let said = text(&replay.stdout);
    assert!(said.starts_with("No findings in the part that loopwatch could read"), "{said}");
}

#[test]
fn demo_says_when_the_recording_has_ended_and_how_to_stop() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command.args(["demo", "--speed", "1000000", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("loopwatch runs");
    let mut lines =
        BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);

    let ended = lines.find(|line| line.contains("The recording has ended")).expect("it ends");
    assert!(ended.contains("page") && ended.contains("Ctrl-C"), "{ended}");

    stop(child);
}

#[test]
fn doctor_asks_a_server_without_a_kubeconfig_and_names_the_skipped_checks() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    run.args(["run", "--listen", "127.0.0.1:0"]).env_remove(IN_CLUSTER);
    let (child, port) = start(&mut run);

    let doctor = loopwatch(&["doctor", "--server", &format!("http://127.0.0.1:{port}")]);
    let said = unwrapped(&doctor);
    for expected in [
        "loopwatch watches no kind.",
        "Skipped the checks sidecar, monitor, prometheus and rules: cannot find a cluster",
    ] {
        assert!(said.contains(expected), "{expected} is missing: {said} {}", text(&doctor.stderr));
    }
    assert_eq!(doctor.status.code(), Some(1), "{said}");

    stop(child);
    assert_eq!(loopwatch(&["doctor"]).status.code(), Some(2));
}

#[test]
fn bundled_rules_dashboards_and_completions_can_be_printed() {
    let [each, across] = [&["rules"][..], &["rules", "--clusters"]].map(|arguments| {
        let text = text(&loopwatch(arguments).stdout);
        let rules: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        assert!(rules["groups"].is_array(), "{text}");
        text
    });
    assert!(each.contains("LoopwatchFinding") && !each.contains("LoopwatchClusterDiffers"));
    assert!(across.contains("LoopwatchClusterDiffers") && !across.contains("LoopwatchFinding"));

    let dashboards: serde_json::Value =
        serde_json::from_slice(&loopwatch(&["dashboards"]).stdout).expect("JSON");
    let uids = [0, 1, 2].map(|index| dashboards[index]["uid"].as_str().map(str::to_owned));

    assert_eq!(
        uids,
        ["overview", "objects", "process"].map(|name| Some(format!("loopwatch-{name}")))
    );
    assert!(text(&loopwatch(&["completions", "bash"]).stdout).contains("loopwatch"));
    assert!(text(&loopwatch(&["runbook", "overdue"]).stdout).starts_with("# Overdue\n"));
    assert!(text(&loopwatch(&["runbook"]).stdout).contains("\nOverdue\n"));

    let unknown = loopwatch(&["runbook", "Overdu"]);
    assert_eq!(unknown.status.code(), Some(64));
    assert!(
        text(&unknown.stderr).contains("did you mean Overdue?")
            && text(&unknown.stderr).trim().lines().count() == 1,
        "{}",
        text(&unknown.stderr)
    );
    let of_alert = loopwatch(&["runbook", "LoopwatchOperatorDown"]);
    assert!(text(&of_alert.stdout).starts_with("# OperatorDown\n"), "{}", text(&of_alert.stderr));
}

/// With an invalid flag, file and environment, `run` still serves, reports all of them, and stops
/// on SIGTERM with 0.
#[test]
fn run_serves_despite_an_invalid_configuration() {
    let state = tempfile::tempdir().expect("a folder");
    let pipe = state.path().join("checkpoint.jsonl"); // to open it would wait for a writer

    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());

    let config = state.path().join("config.yaml");
    std::fs::write(&config, "object_series: few\n").expect("written");

    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command
        .args(["run", "--listen", "127.0.0.1:0", "--watch", "apps/v1", "--state-dir"])
        .arg(state.path())
        .arg(format!("--config={}", config.display()))
        .env("LOOPWATCH_CONTEXT", std::ffi::OsStr::from_bytes(b"\xff"))
        .env("LOOPWATCH_MAX_WATCHES", "many")
        .env("LOOPWATCH_DEADLINE", "soon");

    let (child, port) = start(&mut command);
    let findings = eventually(|| {
        let answer = get(port, "/api/v1/findings");
        answer.contains("ConfigInvalid").then_some(answer)
    });
    for part in ["apps/v1", "object_series", "MAX_WATCHES", "soon", "LOOPWATCH_CONTEXT: not UTF-8"]
    {
        let known =
            findings.contains(part) || findings.contains(&part.to_lowercase().replace('_', "-"));

        assert!(known, "{part} is not reported: {findings}");
    }

    assert!(get(port, "/metrics").contains("loopwatch_source_up{source=\"config\"} 0"));

    stop(child);
}

/// The disk of the log may be full, and the reader of a pipe may end.
#[test]
fn run_goes_on_without_its_log() {
    let port = free_port();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    let listen = format!("127.0.0.1:{port}");
    command.args(["run", "--listen", &listen, "--deadline", "soon"]).env_remove(IN_CLUSTER);
    let child = command.env("HOME", "/nonexistent").stderr(full).spawn().expect("loopwatch runs");

    eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let findings = get(port, "/api/v1/findings");
    assert!(findings.contains("ConfigInvalid"), "it has logged that, too: {findings}");

    stop(child);
}

#[test]
fn a_second_signal_ends_a_process_that_waits_for_a_receiver() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("its address"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    let (mut child, _) =
        start(command.args(["run", "--listen", "127.0.0.1:0", "--alertmanager", &url]));
    let _connection = silent.accept().expect("a posting"); // it gets no answer

    signal(&child, "-TERM");
    signal(&child, "-INT");

    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn run_reads_its_configuration_file_again_when_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("settings: {settle: 5s}\n");

    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    let (child, port) =
        start(command.args(["run", "--listen", "127.0.0.1:0", "--config"]).arg(&file));
    let metric = |name: &str| {
        let text = get(port, "/metrics");
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("no {name} in {text}"));

        line.rsplit(' ').next().expect("a value").to_owned()
    };

    let (successful, time) = (
        "loopwatch_config_last_reload_successful ",
        "loopwatch_config_last_reload_success_timestamp_seconds ",
    );
    let started = metric(time);

    assert_eq!(metric(successful), "1");

    write("findings: {ConfigInvalid: {severity: critical}}\n");
    eventually(|| (metric(time) != started).then_some(()));

    let changed = metric(time);
    write("settings: {settle: soon}\n");

    // The old configuration still applies, with its rule.
    let finding = "loopwatch_findings{group=\"\",kind=\"Source\",target_namespace=\"\",finding=\"ConfigInvalid\",\
                   severity=\"critical\",confidence=\"confirmed\",explained=\"false\"} 1";
    eventually(|| get(port, "/metrics").contains(finding).then_some(()));

    assert_eq!((metric(successful), metric(time)), ("0".to_owned(), changed));
    assert!(get(port, "/api/v1/findings").contains("soon"));

    write("settings: {settle: 5s}\n");
    eventually(|| (metric(successful) == "1").then_some(()));

    let metrics = get(port, "/metrics");
    let open =
        |line: &str| line.starts_with("loopwatch_findings{") && line.contains("ConfigInvalid");
    assert!(!metrics.lines().any(open), "{metrics}");

    stop(child);
}

/// Somebody who may write the ConfigMap of a Pod must not get the token of its account: not at the
/// start, and not by a change of the file.
#[test]
fn a_file_in_a_pod_cannot_send_the_token_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let attacker = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    attacker.set_nonblocking(true).expect("set");

    let server = format!("http://{}", attacker.local_addr().expect("bound"));
    let kubeconfig = folder.path().join("kubeconfig");
    let named =
        |name: &str, field: &str, value: &str| format!("[{{name: {name}, {field}: {value}}}]");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: {}\nusers: {}\ncontexts: {}\n",
        named("x", "cluster", &format!("{{server: \"{server}\"}}")),
        named("x", "user", "{token: S3CRET}"),
        named("x", "context", "{cluster: x, user: x}"),
    );
    std::fs::write(&kubeconfig, text).expect("written");

    let file = folder.path().join("config.yaml");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    let hostile =
        format!("kubeconfig: {}\nnotify: {server}\nalertmanager: {server}\n", kubeconfig.display());
    let run = |text: &str| {
        write(text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command.args(["run", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        let ui = free_port();
        command.arg(format!("--ui-port={ui}"));
        command.env(IN_CLUSTER, "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "1");
        let (child, _) = start(command.env("HOME", "/nonexistent").env_remove("KUBECONFIG"));
        eventually(|| std::net::TcpStream::connect(("127.0.0.1", ui)).ok());
        (child, ui)
    };
    let refused = |port: u16| {
        let all = get(port, "/api/v1/findings");
        all.contains("alertmanager, kubeconfig, notify: not allowed in a file in a Pod")
            .then_some(())
    };

    let (child, port) = run(&hostile);
    eventually(|| refused(port));
    stop(child);

    let (child, port) = run("settings: {settle: 5s}\n");
    assert!(!get(port, "/metrics").contains("ConfigInvalid"));
    write(&hostile);
    eventually(|| refused(port));
    stop(child);

    let reached = attacker.accept().map(|(_, address)| address);
    assert!(reached.is_err(), "nothing reached the attacker: {reached:?}");
}

#[test]
fn a_webhook_can_be_set_by_flag_variable_and_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "notify: http://127.0.0.1:1\n").expect("written");

    let file = file.to_str().expect("a path");
    for (arguments, variable, is_set) in [
        (vec!["--notify", "http://127.0.0.1:1/events"], None, true),
        (vec![], Some("http://127.0.0.1:1"), true),
        (vec!["--config", file], None, true),
        (vec![], None, false),
        (vec![], Some("operator:1"), false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command.args(["run", "--listen", "127.0.0.1:0"]).args(&arguments).env_remove(IN_CLUSTER);

        let (child, port) = start(command.envs(variable.map(|value| ("LOOPWATCH_NOTIFY", value))));
        let metrics = get(port, "/metrics");
        for result in ["ok", "rejected", "failed", "dropped", "not_leader"] {
            let series = format!("loopwatch_notify_requests_total{{result=\"{result}\"}} 0\n");
            assert_eq!(metrics.contains(&series), is_set, "{arguments:?} {variable:?}: {series}");
        }

        stop(child);
    }
}

#[test]
fn an_invalid_webhook_is_one_line_without_its_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    for (url, expected) in [
        ("https://user:S3CRET@operator/S3CRET?token=S3CRET", "--notify-token-file"),
        ("ftp://operator/S3CRET", "expected http:// or https:// with a host"),
        ("http://operator:99999/S3CRET", "the port must be a number"),
    ] {
        std::fs::write(&file, format!("notify: {url}\n")).expect("written");
        let program = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
            command.env("HOME", "/nonexistent").env_remove("KUBECONFIG").env_remove(IN_CLUSTER);
            command.arg("run");
            command
        };
        let mut by_variable = program();

        by_variable.arg("--strict").env("LOOPWATCH_NOTIFY", url);
        let mut by_file = program();
        by_file.args(["--strict", "--config"]).arg(&file);

        let mut by_flag = program();
        by_flag.args(["--strict", "--notify", url]);
        for command in [&mut by_flag, &mut by_variable, &mut by_file] {
            let refused = command.output().expect("loopwatch runs");
            let said = text(&refused.stderr);

            assert!([Some(2), Some(64)].contains(&refused.status.code()), "{said}");
            assert!(said.contains(expected) && said.trim().lines().count() == 1, "{said}");
            assert!(!said.contains("S3CRET"), "{said}");
        }

        for lenient in [program().args(["--notify", url]), program().env("LOOPWATCH_NOTIFY", url)] {
            let (child, port) = start(lenient.args(["--listen", "127.0.0.1:0"]));
            let findings = eventually(|| {
                Some(get(port, "/api/v1/findings")).filter(|text| text.contains(expected))
            });

            assert!(!findings.contains("S3CRET"), "{findings}");

            stop(child);
        }
    }
}

#[test]
fn a_collector_can_be_set_by_flag_file_and_the_variables_of_opentelemetry() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "otlp: http://127.0.0.1:1\n").expect("written");

    let file = file.to_str().expect("a path");
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    for (arguments, variables, sends, problem) in [
        (vec!["--otlp", "http://127.0.0.1:1"], vec![], true, ""),
        (vec!["--config", file], vec![], true, ""),
        (vec![], vec![("LOOPWATCH_OTLP", "http://127.0.0.1:1")], true, ""),
        (vec![], vec![endpoint], true, ""),
        (vec![], vec![], false, ""),
        (vec![], vec![endpoint, ("OTEL_SDK_DISABLED", "true")], false, ""),
        (
            vec![],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            false,
            "can only use http/protobuf",
        ),
        (
            vec![],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317/S3CRET")],
            false,
            "expected http:// or https://",
        ),
        (vec!["--otlp", "https://user:S3CRET@collector"], vec![], false, "--otlp-token-file"),
        (vec![], vec![endpoint, ("OTEL_TRACES_EXPORTER", "none")], false, ""),
        (vec![], vec![endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")], false, "OTEL_TRACES_EXPORTER"),
        (
            vec![],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "S3CRET")],
            true,
            "OTEL_EXPORTER_OTLP_HEADERS: entry 1",
        ),
        (
            vec![],
            vec![endpoint, ("OTEL_EXPORTER_OTLP_TIMEOUT", "ten")],
            true,
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ),
        (vec![], vec![endpoint, ("OTEL_TRACES_SAMPLER", "sometimes")], true, "OTEL_TRACES_SAMPLER"),
    ] {
        let program = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
            command.env("HOME", "/nonexistent").env_remove("KUBECONFIG").envs(variables.clone());
            command.arg("run").args(&arguments);
            command
        };

        let (child, port) = start(program().args(["--listen", "127.0.0.1:0"]));
        let metrics = get(port, "/metrics");
        for result in ["ok", "rejected", "dropped", "sampled_out", "not_leader"] {
            let series = format!("loopwatch_spans_total{{result=\"{result}\"}} 0\n");
            assert_eq!(metrics.contains(&series), sends, "{arguments:?} {variables:?}: {series}");
        }

        if problem.is_empty() {
            assert!(
                !get(port, "/api/v1/findings").contains("ConfigInvalid"),
                "{arguments:?} {variables:?}"
            );
        } else {
            let findings = eventually(|| {
                Some(get(port, "/api/v1/findings")).filter(|text| text.contains(problem))
            });

            assert!(
                findings.contains("ConfigInvalid") && !findings.contains("S3CRET"),
                "{findings}"
            );

            let refused = program().arg("--strict").output().expect("loopwatch runs");
            let said = text(&refused.stderr);

            assert!([Some(2), Some(64)].contains(&refused.status.code()), "{said}");
            assert!(
                said.contains(problem)
                    && said.trim().lines().count() == 1
                    && !said.contains("S3CRET"),
                "{said}"
            );
        }

        stop(child);
    }
}

/// Starts a command that serves on a free port of 127.0.0.1; returns the port.
fn start(command: &mut Command) -> (Child, u16) {
    command.env("HOME", "/nonexistent").env_remove("KUBECONFIG").stderr(Stdio::piped());
    let mut child = command.spawn().expect("loopwatch runs");
    let mut lines =
        BufReader::new(child.stderr.take().expect("its log")).lines().map_while(Result::ok);
    let address = lines
        .by_ref()
        .find_map(|line| {
            Some(line.split_once("listening")?.1.split("127.0.0.1:").nth(1)?.trim().to_owned())
        })
        .expect("it listens");

    std::thread::spawn(move || lines.for_each(drop)); // a full pipe would block the process
    let port: String = address.chars().take_while(char::is_ascii_digit).collect();
    (child, port.parse().expect("a port"))
}

/// A port that nobody uses.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

/// Stops a process by SIGTERM, after which it must exit with 0.
fn stop(mut child: Child) {
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn signal(child: &Child, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .expect("kill")
            .success()
    );
}

fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..200 {
        if let Some(found) = attempt() {
            return found;
        }
        #[expect(clippy::disallowed_methods, reason = "a synchronous test")]
        std::thread::sleep(Duration::from_millis(50));
    }

    unreachable!("timed out after ten seconds")
}

fn get(port: u16, path: &str) -> String {
    use std::io::Write;

    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")
        .expect("sent");

    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}
