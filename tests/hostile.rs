//! Owner references and finalizers as only a broken client or an attacker writes them, through the
//! whole program.

use std::process::{Command, Output};

use serde_json::{Value, json};

/// Texts that break terminals, tables, JSON or labels if nobody escapes them.
const ODD: [&str; 9] = [
    "\u{1b}]0;title\u{7}",
    "a\nb\r\n\tc",
    "\"quoted\\\" {}=,",
    "<script>alert(1)</script>",
    "\u{202e}reversed\u{0}",
    "|pipe|`tick`",
    "\u{1f9ff}\u{301}",
    "",
    "/",
];

fn check(file: &str, format: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command
        .args(["check", "--from", file, "--all", "-o", format])
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG");

    command.output().expect("loopwatch runs")
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn object(kind: &str, number: usize, name: &str, more: Value) -> Value {
    let version = if kind == "Widget" { "example.io/v1" } else { "v1" };
    let mut metadata = json!({"name": name, "namespace": "team-a", "uid": uid(number), "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    for (key, value) in more.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }

    let ready =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}]);
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"size": 1},
        "status": {"observedGeneration": 1, "conditions": ready}})
}

fn owner(number: usize, name: &str) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "name": name, "uid": uid(number)})
}

/// All malformed shapes of an owner reference, each with the correct finding, if the reference says
/// enough for one.
fn malformed_owners() -> Vec<(Value, Option<&'static str>)> {
    let whole = owner(1, "web");
    let empty = [
        json!("web"),
        json!({}),
        json!([]),
        json!([null, 3, "web", {}, []]),
        json!([{"uid": uid(1)}]),
    ];

    let mut forms: Vec<_> = empty.into_iter().map(|owners| (owners, None)).collect();
    for field in ["apiVersion", "kind", "name", "uid"] {
        for value in [
            Value::Null,
            json!(""),
            json!(5),
            json!({"a": []}),
            json!("\u{1b}[31m"),
            json!("../../x"),
        ] {
            let mut owner = whole.clone();
            let names_another = value.as_str().is_some_and(|text| !text.is_empty());
            let is_wrong = names_another && ["kind", "name"].contains(&field);
            owner[field] = value;
            forms.push((json!([owner, whole.clone()]), is_wrong.then_some("OwnerMissing")));
        }
    }

    for value in [json!(""), json!("not a UID"), json!("x".repeat(10_000)), json!(7)] {
        let names_one = value.as_str().is_some_and(|text| !text.is_empty());
        let mut owner = owner(1, "gone");
        owner["uid"] = value;
        forms.push((json!([owner]), names_one.then_some("OwnerMissing")));
    }

    forms
}

/// A dump, and the findings that are right about it.
fn dump() -> (String, Vec<(&'static str, String)>) {
    let mut objects = vec![object("Widget", 1, "web", json!({}))];
    let mut right = vec![("OwnerCycle", "self".to_owned()), ("OwnerCycle", "ring-0000".to_owned())];
    right.push(("LimitReached", "finalizers".to_owned()));

    for (number, (owners, finding)) in malformed_owners().into_iter().enumerate() {
        let name = format!("malformed-{number:03}");
        right.extend(finding.map(|code| (code, name.clone())));
        objects.push(object(
            "ConfigMap",
            1_000 + number,
            &name,
            json!({"ownerReferences": owners}),
        ));
    }

    // Only the last one exists.
    let mut owners: Vec<Value> =
        (0..10_000).map(|number| owner(100_000 + number, "gone")).collect();
    owners.push(owner(1, "web"));
    objects.push(object("ConfigMap", 2, "many", json!({"ownerReferences": owners})));
    objects.push(object("Widget", 3, "self", json!({"ownerReferences": [owner(3, "self")]})));

    for number in 0..1_000 {
        let next = (number + 1) % 1_000;
        let owners = json!([owner(10_000 + next, &format!("ring-{next:04}"))]);
        let name = format!("ring-{number:04}");
        objects.push(object("Widget", 10_000 + number, &name, json!({"ownerReferences": owners})));
    }

    let mut lists: Vec<Value> = ODD.iter().map(|odd| json!([odd])).collect();
    lists.push(json!(["x".repeat(100_000)]));
    lists.push((0..5_000).map(|number| format!("example.io/f{number}")).collect());

    for (number, finalizers) in lists.into_iter().enumerate() {
        let name = format!("odd-{number:02}");
        let more = json!({"finalizers": finalizers, "deletionTimestamp": "2026-01-01T01:00:00Z"});
        objects.push(object("Widget", 20_000 + number, &name, more));
        right.push(("FinalizerStuck", name));
    }

    right.sort();
    (json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(), right)
}

#[test]
fn odd_owners_and_finalizers_are_survived_and_judged_by_what_they_say() {
    let (text, right) = dump();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dump.json");
    std::fs::write(&path, text).expect("written");

    // The newest time of the dump decides about ages.
    let late =
        object("Widget", 30_000, "late", json!({"creationTimestamp": "2026-01-02T00:00:00Z"}));
    std::fs::write(folder.path().join("late.json"), late.to_string()).expect("written");

    let folder = folder.path().to_str().expect("a path");
    for format in ["table", "markdown", "json"] {
        let output = check(folder, format);
        let (shown, said) = (
            String::from_utf8(output.stdout),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        let shown = shown.expect("UTF-8");

        assert_eq!(output.status.code(), Some(1), "{format}: {said}");

        let control =
            |text: &str| text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');

        // Programs read JSON, which escapes every character that needs it.
        assert!(format == "json" || control(&shown).is_none(), "{format}: {:?}", control(&shown));
        assert_eq!(control(&said), None, "{format}: {said}");
        assert!(
            !said.contains("panicked") && shown.len() < 2_000_000,
            "{format}: {} bytes, {said}",
            shown.len()
        );

        if format == "json" {
            let report: Value = serde_json::from_str(&shown).expect("JSON");
            let findings = report["findings"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut found: Vec<(String, String)> =
                findings.iter().map(|f| (text(&f["code"]), text(&f["subject"]["name"]))).collect();

            found.sort();
            let right: Vec<_> =
                right.iter().map(|(code, name)| ((*code).to_owned(), name.clone())).collect();

            assert_eq!(found, right);
        }
    }
}
