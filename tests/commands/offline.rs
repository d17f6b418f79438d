//! Deletion, ownership and references in dumps and recordings, without a cluster.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{loopwatch, text};

/// A dump with each fault and its healthy twins, as `kubectl get -o json` writes several kinds: one
/// list of them all.
const FAULTS: &str = include_str!("../dumps/faults.json");

/// All findings in this dump, including those that another one explains.
const EXPECTED: [&str; 22] = [
    "CleanupSlow Widget team-b/going",
    "CrossNamespaceOwner ConfigMap team-a/cross",
    "DanglingReference Widget team-b/dangling",
    "DefinitionSchemaIncomplete CustomResourceDefinition /widgets.example.io",
    "DefinitionStuck CustomResourceDefinition /gizmos.example.io",
    "DeletionBlockedByDependent Widget team-b/top",
    "FinalizerStuck Gizmo team-b/last",
    "FinalizerStuck PersistentVolumeClaim team-b/leaf",
    "FinalizerStuck Widget dying/stuck",
    "LogicalOwnerMissing ConfigMap team-b/spoke",
    "LogicalOwnerMissing ConfigMap team-b/spoke-of-unknown",
    "NamespaceStuck Namespace /dying",
    "Orphan Service team-d/left",
    "Overdue Widget team-a/served",
    "Overdue Widget team-b/dangling",
    "Overdue Widget team-b/secretive",
    "OwnerCycle Widget team-b/egg",
    "OwnerMissing ConfigMap team-a/missing",
    "OwnerMissing ConfigMap team-b/mismatch",
    "OwnerMissing ConfigMap team-c/elsewhere",
    "OwnerReplaced ConfigMap team-a/replaced",
    "SoftDeleteLingering Widget team-b/trash",
];

fn items() -> Vec<Value> {
    let list: Value = serde_json::from_str(FAULTS).expect("JSON");
    list["items"].as_array().cloned().expect("a list")
}

/// The findings of a report as JSON, each as its name and its subject.
fn findings(arguments: &[&str]) -> Vec<String> {
    let output = loopwatch(&[&["check", "-o", "json"], arguments].concat());
    let said = text(&output.stderr);

    assert!(output.stdout.starts_with(b"{"), "{arguments:?} printed no report: {said}");

    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |finding: &Value| {
        let [kind, namespace, name] =
            ["kind", "namespace", "name"].map(|part| word(&finding["subject"][part]));
        format!("{} {kind} {namespace}/{name}", word(&finding["code"]))
    };
    let mut found: Vec<String> =
        report["findings"].as_array().expect("findings").iter().map(named).collect();

    found.sort();
    found
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(&file, text).expect("written");
    file
}

/// The findings in a dump of these objects.
fn findings_in(items: &[Value]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = write(folder.path(), "dump.json", &list.to_string());
    findings(&["--from", file.to_str().expect("a path")])
}

#[test]
fn a_dump_shows_every_fault_of_deletion_ownership_and_references() {
    assert_eq!(findings_in(&items()), EXPECTED);
}

#[test]
fn the_form_of_a_dump_does_not_matter() {
    let folder = tempfile::tempdir().expect("a folder");
    let items = items();
    let documents: Vec<String> = items.iter().map(Value::to_string).collect();
    let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let (first, second) = items.split_at(items.len() / 2);
    let several =
        write(folder.path(), "several.json", &format!("{}\n{:#}\n", list(first), list(second)));
    let nested =
        write(folder.path(), "nested.json", &list(&[list(first), list(second)]).to_string());

    let yaml = write(folder.path(), "many.yaml", &format!("---\n{}\n", documents.join("\n---\n")));
    let lists = format!(
        "# mixed\n{}\n---\n{}\n---\n{}\n",
        list(&[list(first)]),
        second[0],
        list(&second[1..])
    );

    let stream =
        write(folder.path(), "stream.json", &format!("{}\n---\n{}\n", list(first), list(second)));
    let utf16 = folder.path().join("powershell.json");
    let units = format!("\u{feff}{}", list(&items));
    std::fs::write(&utf16, units.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
        .expect("written");

    let packed = folder.path().join("dump.json.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, list(&items).to_string().as_bytes()).expect("packed");
    std::fs::write(&packed, encoder.finish().expect("packed")).expect("written");

    let mixed = write(folder.path(), "mixed.yml", &lists);
    let bundle = folder.path().join("bundle");
    for (number, document) in documents.iter().enumerate() {
        write(&bundle, &format!("kind-{}/{number}.yaml", number % 3), document);
    }

    write(&bundle, "kind-1/events.log", "not a dump: [");
    for dump in [several, nested, yaml, stream, utf16, packed, mixed, bundle] {
        assert_eq!(
            findings(&["--from", dump.to_str().expect("a path")]),
            EXPECTED,
            "{}",
            dump.display()
        );
    }
}

#[test]
fn a_dump_that_lacks_a_kind_accuses_nobody_of_what_it_cannot_show() {
    let without = |kinds: &[&str]| {
        let is_kept = |item: &Value| !kinds.contains(&item["kind"].as_str().unwrap_or_default());
        findings_in(&items().into_iter().filter(is_kept).collect::<Vec<_>>())
    };
    let except = |gone: &[&str]| -> Vec<&str> {
        EXPECTED
            .into_iter()
            .filter(|finding| !gone.iter().any(|part| finding.contains(part)))
            .collect()
    };

    // The group of the owners is known, but not the owners.
    let remaining = [
        "DefinitionSchemaIncomplete CustomResourceDefinition /widgets.example.io",
        "DefinitionStuck CustomResourceDefinition /gizmos.example.io",
        "FinalizerStuck Gizmo team-b/last",
        "FinalizerStuck PersistentVolumeClaim team-b/leaf",
    ];

    assert_eq!(without(&["Widget"]), remaining);
    assert_eq!(without(&["ConfigMap"]), except(&["ConfigMap", "Dangling"]));
    assert_eq!(without(&["Namespace"]), except(&["NamespaceStuck", "spoke-of-unknown"]));
    assert_eq!(without(&["CustomResourceDefinition"]), except(&["CustomResourceDefinition"]));

    let found = without(&["PersistentVolumeClaim"]);
    assert!(!found.iter().any(|finding| finding.starts_with("DeletionBlocked")), "{found:?}");

    let kinds = [
        "Widget",
        "Gizmo",
        "ConfigMap",
        "CustomResourceDefinition",
        "Namespace",
        "PersistentVolumeClaim",
    ];

    assert_eq!(
        without(&kinds),
        [""; 0],
        "a Pod without its ReplicaSet, Services without their owners"
    );
}

#[test]
fn a_dump_of_one_namespace_says_nothing_about_others() {
    let is_in = |item: &Value| item["metadata"]["namespace"] == "team-b";
    let found = findings_in(&items().into_iter().filter(is_in).collect::<Vec<_>>());

    // The lease that shows the time of the dump is in another namespace, too, so no cleanup counts
    // as slow.
    let unknown = ["LogicalOwnerMissing", "CleanupSlow"];
    let is_expected = |finding: &&str| {
        finding.contains(" team-b/") && !unknown.iter().any(|code| finding.starts_with(code))
    };

    assert_eq!(found, EXPECTED.into_iter().filter(is_expected).collect::<Vec<_>>());
}

#[test]
fn ages_count_until_the_time_of_the_dump() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), "dump.json", FAULTS);
    let file = file.to_str().expect("a path");
    let at = |time: &str| findings(&["--from", file, "--at", time]);
    let about = |found: &[String], codes: &[&str]| {
        found.iter().filter(|finding| codes.iter().any(|code| finding.starts_with(code))).count()
    };
    let deletion = ["FinalizerStuck", "DeletionBlocked", "NamespaceStuck", "DefinitionStuck"];

    assert_eq!(about(&at("2026-01-01T01:14:00Z"), &deletion), 0);
    assert_eq!(about(&at("2026-01-01T01:16:00Z"), &deletion), 6);
    assert!(
        at("2026-01-02T01:00:00Z")
            .contains(&"SoftDeleteLingering Widget team-b/fresh-trash".to_owned())
    );

    // Without the lease, the newest time is that of a deletion, for which nothing can be slow yet.
    let is_kept = |item: &Value| item["kind"] != "Lease";
    let found = findings_in(&items().into_iter().filter(is_kept).collect::<Vec<_>>());

    assert_eq!(found, EXPECTED[1..].to_vec());
}

#[test]
fn broken_parts_are_named_with_file_and_line_and_prove_no_absence() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = write(folder.path(), "good.json", FAULTS);
    write(folder.path(), "sub/half.json", &FAULTS[..FAULTS.len() / 2]);
    write(
        folder.path(),
        "sub/two.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\na: 1\nkind: [\n",
    );

    write(
        folder.path(),
        "third.json",
        "{\"kind\":\"List\",\n\"items\":[\n{\"kind\":\"W\"},\n{\"kind\":\"VList\"}]}",
    );
    let arguments = ["check", "--from", folder.path().to_str().expect("a path")];
    let output = loopwatch(&arguments);
    let said = text(&output.stdout);
    assert_eq!(said.matches("of the dump:").count(), 1, "each part is named once: {said}");

    let said = text(&output.stderr);
    let lines = FAULTS[..FAULTS.len() / 2].lines().count();

    for expected in [
        format!(
            "sub/half.json, line {lines}: the JSON ends in the middle of a document, after {} bytes, so the file is incomplete",
            FAULTS.len() / 2
        ),
        "sub/two.yaml, document at line 5: ".to_owned(),
        "third.json, line 3: not a Kubernetes object".to_owned(),
        "third.json, line 4: not a list".to_owned(),
    ] {
        assert!(said.contains(&expected), "{expected:?} is missing: {said}");
    }

    assert!(!said.contains(good.to_str().expect("a path")) && !said.contains("panicked"), "{said}");

    let absences = ["OwnerMissing", "LogicalOwnerMissing", "Dangling", "Orphan"];

    // The dump has the object with the owner's UID, and it is of another kind. This proves the
    // fault without any absent object.
    let proven = |finding: &&str| {
        finding.ends_with("/mismatch") || !absences.iter().any(|code| finding.starts_with(code))
    };
    let found = findings(&arguments[1..]);

    assert_eq!(found, EXPECTED.into_iter().filter(proven).collect::<Vec<_>>());
}

#[test]
fn a_recording_also_shows_what_the_garbage_collector_has_collected() {
    let kind = |watch: &str, group: &str, kind: &str, role: &str| {
        json!({"watch": watch, "group": group, "version": "v1", "kind": kind, "resource": watch.split('.').next(),
            "scope": "all_namespaces", "role": role, "status": "subresource", "why": "status_right"})
    };
    let child = json!({"namespace": "team-a", "name": "child", "uid": "c", "version": "6", "created": "2026-01-01T01:00:00Z",
        "owners": [{"api_version": "example.io/v1", "kind": "Widget", "name": "gone", "uid": "g"}]});
    let owner =
        json!({"group": "example.io", "kind": "Widget", "namespace": "team-a", "name": "gone"});

    let mut lines =
        vec![json!({"loopwatch_recording": 1, "recorded_by": "a test", "settings": {}})];
    let mut saw =
        |at: &str, what: Value| lines.push(json!({"at": format!("2026-01-01T{at}Z"), "saw": what}));
    let kinds = [
        kind("widgets.example.io", "example.io", "Widget", "primary"),
        kind("configmaps", "", "ConfigMap", "child"),
    ];

    saw("00:00:00", json!({"kinds_discovered": kinds}));
    for (epoch, watch) in [(1, "widgets.example.io"), (2, "configmaps")] {
        saw("00:00:00", json!({"list_began": {"watch": watch, "epoch": epoch}}));
        saw("00:00:00", json!({"list_ended": {"watch": watch, "epoch": epoch, "version": "5"}}));
    }

    saw("01:00:00", json!({"applied": {"watch": "configmaps", "object": child}}));
    saw("01:00:03", json!({"answered": {"probe": {"read": owner}, "answer": "absent"}}));
    saw(
        "01:00:05",
        json!({"deleted": {"watch": "configmaps", "key": {"namespace": "team-a", "name": "child"}, "version": "7"}}),
    );
    saw("01:00:10", json!("tick"));

    let folder = tempfile::tempdir().expect("a folder");
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let file = write(folder.path(), "recording.jsonl", &text.join("\n"));
    let file = file.to_str().expect("a path");

    assert_eq!(findings(&["--from", file]), ["OwnerMissing ConfigMap team-a/child"]);
    assert_eq!(
        findings(&["--from", file, "--at", "2026-01-01T01:00:01Z"]),
        [""; 0],
        "before the answer"
    );
}

#[test]
fn allowed_orphans_are_no_findings_by_flag_variable_and_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = write(folder.path(), "dump.json", FAULTS);
    let config = write(
        folder.path(),
        "config.yaml",
        "orphan_allow: ['team-*:Service']\nfindings: {Orphan: {enabled: true}}\n",
    );
    let (dump, config) = (dump.to_str().expect("a path"), config.to_str().expect("a path"));

    let orphans = |arguments: &[&str]| {
        let found = findings(&[&["--from", dump], arguments].concat());
        assert_eq!(
            found.iter().filter(|finding| !finding.starts_with("Orphan ")).count(),
            EXPECTED.len() - 1
        );

        EXPECTED.len() - found.len()
    };

    assert_eq!(orphans(&["--config", config]), 1);
    assert_eq!(orphans(&["--orphan-allow", "team-d:Service"]), 1);
    assert_eq!(orphans(&["--orphan-allow", "team-d:Pod,team-a:*"]), 0);

    let refused = loopwatch(&["check", "--from", dump, "--orphan-allow", "Service"]);
    let said = text(&refused.stderr);

    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("expected NAMESPACE:KIND") && said.trim().lines().count() == 1, "{said}");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command.args(["check", "--from", dump]).env("LOOPWATCH_ORPHAN_ALLOW", "*:Service");

    let said = text(&command.output().expect("loopwatch runs").stdout);
    assert!(!said.contains("WARNING  Orphan") && said.contains("OwnerMissing"), "{said}");
}

#[test]
fn a_deletion_is_predicted_from_a_recording_and_from_a_dump() {
    let file = |path: &str| format!("{}/tests/{path}", env!("CARGO_MANIFEST_DIR"));
    let (demo, dump) = (file("scenarios/demo.jsonl.gz"), file("dumps/faults.json"));
    let predict = |kind: &str, name: &str, file: &str| {
        loopwatch(&["what-if", "delete", kind, name, "--from", file])
    };

    let of_demo = predict("widget", "checkout", &demo);
    let said = text(&of_demo.stdout);
    for expected in [
        "deletes at least 3",
        "ConfigMap webshop/widget-checkout-config (later)",
        "Deployment.apps webshop/widget-checkout (later)",
        "zoo.loopwatch.dev/cleanup",
        "all other kinds: not in the file",
    ] {
        assert!(said.contains(expected), "{expected} is missing: {said} {}", text(&of_demo.stderr));
    }
    assert_eq!(of_demo.status.code(), Some(1), "a finalizer stops it");

    let of_dump = predict("widget", "w0", &dump);
    let said = text(&of_dump.stdout);
    assert!(said.contains("Service team-d/w0") && !said.contains("w1"), "{said}");
    assert_eq!(of_dump.status.code(), Some(0), "{said}");

    let absent = predict("widget", "w0o", &dump);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("w0"), "it suggests a name: {}", text(&absent.stderr));
}

/// A dump has no controller, so an object in deletion stays there until a finalizer is removed.
#[test]
fn a_deletion_that_meets_one_that_hangs_is_not_clear() {
    let deleting = |kind: &str, version: &str, name: &str, more: serde_json::Value| {
        let mut object = serde_json::json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": name},
        });
        object["metadata"]
            .as_object_mut()
            .expect("an object")
            .extend(more["metadata"].as_object().cloned().unwrap_or_default());
        object["status"] = more["status"].clone();
        object
    };
    let since = "2026-11-28T05:40:48Z";
    let items = [
        deleting(
            "Widget",
            "example.io/v1",
            "web",
            serde_json::json!({"metadata": {"namespace": "shop"}}),
        ),
        deleting(
            "Widget",
            "example.io/v1",
            "cache",
            serde_json::json!({"metadata": {
                "namespace": "shop", "deletionTimestamp": since, "finalizers": ["example.io/cleanup"],
                "ownerReferences": [{"apiVersion": "example.io/v1", "kind": "Widget", "name": "web", "uid": "web"}],
            }}),
        ),
        deleting(
            "Widget",
            "example.io/v1",
            "idle",
            serde_json::json!({"metadata": {"namespace": "stuck"}}),
        ),
        deleting(
            "Namespace",
            "v1",
            "stuck",
            serde_json::json!({
                "metadata": {"deletionTimestamp": since},
                "status": {"conditions": [{
                    "type": "NamespaceDeletionDiscoveryFailure", "status": "True", "reason": "DiscoveryFailed",
                    "message": "Discovery failed for some groups, 1 failing: metrics.k8s.io/v1beta1",
                }]},
            }),
        ),
    ];
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.json");
    std::fs::write(&file, list.to_string()).expect("the dump");
    let file = file.to_str().expect("a path");

    for (target, expected) in [
        (["widget", "web"], "waits until the controller of example.io removes the finalizer"),
        (["namespace", "stuck"], "Discovery failed for some groups"),
    ] {
        let output = loopwatch(&[&["what-if", "delete"], &target[..], &["--from", file]].concat());
        let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.starts_with("BLOCKED") && said.contains(expected),
            "{said} {}",
            text(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_rule_with_a_misspelt_kind_is_named() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let noted = |rule: &str| {
        let config = write(folder.path(), "config.yaml", rule);
        let config = config.to_str().expect("a path");
        text(&loopwatch(&["check", "--from", &dump, "--config", config]).stderr)
    };

    let said = noted(
        "orphan_allow: ['*:ConfigMpa']\nfindings: {Overdue: {kinds: [Service], enabled: false}}\n",
    );
    let expected = "findings.Orphan: a rule names the kind ConfigMpa, which is none of those here; did you mean ConfigMap?";
    assert!(said.contains(expected) && said.trim().lines().count() == 1, "{said}");

    let other =
        noted("findings: {Overdue: {kinds: [other.io/Database, '*/Confgmap'], enabled: false}}\n");
    assert_eq!(other, "", "kinds of other clusters");
}

/// Neither a dump nor a recording has namespaces among the objects, but both have the objects inside.
#[test]
fn the_deletion_of_a_namespace_is_predicted_from_a_file() {
    let file = |path: &str| format!("{}/tests/{path}", env!("CARGO_MANIFEST_DIR"));
    let (demo, dump) = (file("scenarios/demo.jsonl.gz"), file("dumps/faults.json"));
    let predict = |kind: &str, name: &str, file: &str| {
        loopwatch(&["what-if", "delete", kind, name, "--from", file])
    };

    let of_demo = predict("namespace", "webshop", &demo);
    let said = text(&of_demo.stdout);
    for expected in
        ["Namespace webshop", "Widget.zoo.loopwatch.dev webshop/", "zoo.loopwatch.dev/cleanup"]
    {
        assert!(said.contains(expected), "{expected} is missing: {said} {}", text(&of_demo.stderr));
    }
    assert_eq!(of_demo.status.code(), Some(1), "a finalizer stops it");

    let of_dump = predict("ns", "team-d", &dump);
    let said = text(&of_dump.stdout);
    let deleted = said.split("Deleted in any case").next().unwrap_or_default();
    assert!(deleted.contains("× Service team-d/") && !deleted.contains("team-a/"), "{said}");
    assert_eq!(of_dump.status.code(), Some(0), "{said}");

    let absent = predict("namespaces", "teem-d", &dump);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("team-d"), "{}", text(&absent.stderr));

    let explained = loopwatch(&["explain", "namespace", "team-d", "--from", &dump]);
    let said = text(&explained.stderr);
    assert!(said.contains("loopwatch what-if delete namespace team-d --from"), "{said}");
}

#[test]
fn a_second_name_after_kind_and_name_is_explained() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    for command in [&["what-if", "delete"][..], &["explain"]] {
        let refused = loopwatch(&[command, &["widget/w0", "w1", "--from", &dump]].concat());
        let said = text(&refused.stderr);
        assert!(said.contains("if widget/w0 names an object, leave out w1"), "{said}");
    }
}

#[test]
fn rights_say_that_a_file_contains_no_permissions() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    let rights = loopwatch(&["rights", "--from", &dump]);

    let said = text(&rights.stderr);
    assert!(said.contains("no review of permissions"), "{said}");
    assert_eq!(rights.status.code(), Some(0));
}

/// Widgets of which the operator rejected each, seconds after its creation. They were created a minute apart.
fn rejected(namespaces: [&str; 4]) -> Vec<Value> {
    let widget = |(number, namespace): (usize, &str)| {
        let at = |seconds: usize| format!("2026-01-01T00:{number:02}:{seconds:02}Z");
        json!({
            "apiVersion": "example.io/v1", "kind": "Widget",
            "metadata": {
                "name": format!("w{number}"), "namespace": namespace, "uid": format!("u{number}"),
                "generation": 1, "creationTimestamp": at(0),
                "managedFields": [{
                    "manager": "kubectl", "operation": "Update", "time": at(0),
                    "fieldsV1": {"f:spec": {}}
                }]
            },
            "spec": {"size": 1},
            "status": {"observedGeneration": 1, "conditions": [{
                "type": "Ready", "status": "False", "reason": "InvalidSpec",
                "lastTransitionTime": at(2)
            }]}
        })
    };
    namespaces.into_iter().enumerate().map(widget).collect()
}

fn dumped(folder: &Path, items: &[Value]) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    write(folder, "dump.json", &list.to_string()).display().to_string()
}

#[test]
fn a_dump_in_which_everything_has_failed_is_not_healthy() {
    let folder = tempfile::tempdir().expect("a folder");
    let several = dumped(folder.path(), &rejected(["a", "b", "c", "c"]));
    assert_eq!(findings(&["--from", &several]), ["Failing Widget /"]);
    assert_eq!(loopwatch(&["check", "--from", &several]).status.code(), Some(1));

    let one_user = dumped(folder.path(), &rejected(["a"; 4]));
    let report = text(&loopwatch(&["check", "--from", &one_user]).stdout);
    let expected =
        "UNKNOWN  because objects have failed, and none has converged; no findings; 4 objects: 0";
    assert!(report.starts_with(expected), "{report}");
}

#[test]
fn objects_that_have_been_overdue_for_hours_page_in_a_report_on_one_look() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut items = rejected(["a", "b", "c", "c"]);
    for item in &mut items {
        item["status"]["conditions"][0]["reason"] = json!("Waiting");
    }
    let file = dumped(folder.path(), &items);

    for (at, severity) in
        [("2026-01-01T00:40:00Z", "warning"), ("2026-01-01T06:00:00Z", "critical")]
    {
        let output = loopwatch(&["check", "-o", "json", "--from", &file, "--at", at]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        assert_eq!(findings.len(), 4, "{report}");
        assert!(
            findings.iter().all(|it| it["code"] == "Overdue" && it["severity"] == severity),
            "{report}"
        );
    }
}

#[test]
fn an_explanation_of_a_definition_has_its_findings() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    let output = loopwatch(&["explain", "crd/gizmos.example.io", "--from", &dump]);
    let alone =
        loopwatch(&["explain", "customresourcedefinition", "gizmos.example.io", "--from", &dump]);
    let said = text(&output.stdout) + &text(&alone.stdout);
    assert!(said.contains("DefinitionStuck") && said.contains("FinalizerStuck"), "{said}");
}

#[test]
fn a_deletion_that_others_may_delay_is_not_clear() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    for (kind, name) in [("widget", "top"), ("persistentvolumeclaim", "leaf")] {
        let output = loopwatch(&["what-if", "delete", kind, name, "--from", &dump]);
        let said = text(&output.stdout);
        assert!(said.starts_with("BLOCKED  "), "{said}");
        assert!(said.contains("it is being deleted already"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_recording_that_shows_nothing_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = folder.path().join("junit.xml");
    let header =
        "{\"loopwatch_recording\":1,\"recorded_by\":\"loopwatch 0.1.0\",\"settings\":{}}\n";
    let line = "{\"at\":\"2026-01-01T00:00:00Z\",\"saw\":\"tick\"}\n";
    let file = write(folder.path(), "empty.jsonl", &[header, line].concat()).display().to_string();

    assert_eq!(loopwatch(&["replay", &file]).status.code(), Some(2));
    let junit = tests.to_str().expect("a path");
    let checked = loopwatch(&["check", "--from", &file, "--junit", junit]);
    assert_eq!(checked.status.code(), Some(2), "{}", text(&checked.stderr));
    let written = std::fs::read_to_string(&tests).expect("written");
    assert!(written.contains("<error "), "{written}");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let dump = format!("{}/tests/dumps/faults.json", env!("CARGO_MANIFEST_DIR"));
    for arguments in [&["check", "--from", &dump][..], &["rules"], &["--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_loopwatch"))
            .args(arguments)
            .stdout(full)
            .output()
            .expect("loopwatch runs");

        let said = text(&output.stderr);
        assert!(said.contains("cannot write to standard output: No space left"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn many_objects_whose_phase_is_failed_show_that_the_kind_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut items = rejected(["a", "b", "c", "d"]);
    for item in &mut items {
        item["status"] = json!({"observedGeneration": 1, "phase": "Failed"});
        item["metadata"]["managedFields"] = Value::Null;
    }
    assert_eq!(findings(&["--from", &dumped(folder.path(), &items)]), ["Failing Widget /"]);
}

#[test]
fn the_newest_copy_of_an_object_counts_in_whatever_order_a_folder_has_them() {
    for (first, second) in [(7, 8), (8, 7)] {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, version) in [("1.json", first), ("2.json", second)] {
            let mut item = rejected(["a"; 4]).remove(0);
            item["metadata"]["resourceVersion"] = json!(version.to_string());
            if version == 7 {
                item["status"]["conditions"][0]["status"] = json!("True");
            }
            write(folder.path(), file, &item.to_string());
        }

        let output = loopwatch(&["check", "--from", folder.path().to_str().expect("a path")]);
        let said = text(&output.stdout);
        assert!(said.contains("1 object: 0 converged, 1 failed"), "{said}");
        assert!(said.contains("1 object with an older copy"), "{said}");
    }
}

#[test]
fn an_explanation_invents_no_time_of_an_acknowledgement() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = dumped(folder.path(), &rejected(["a"; 4]));
    let said = text(&loopwatch(&["explain", "widget", "w0", "--from", &file]).stdout);
    assert!(said.contains("the spec changed") && !said.contains("acknowledged the spec"), "{said}");
}

#[test]
fn a_refused_definition_is_a_warning_and_no_good_health() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = "2026-01-01T00:00:00Z";
    let condition = |name: &str| json!({"type": name, "status": "False", "reason": "KindConflict", "lastTransitionTime": at});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.org", "uid": "u", "creationTimestamp": at},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Gear", "plural": "gears"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]
        },
        "status": {"conditions": [condition("NamesAccepted"), condition("Established")]}
    });
    let mut later = rejected(["a"; 4]).remove(3);
    later["status"]["conditions"][0]["status"] = json!("True");

    let file = dumped(folder.path(), &[definition, later]);
    let output = loopwatch(&["check", "--from", &file]);
    let said = text(&output.stdout);
    assert!(
        said.starts_with("DEGRADED  ") && said.contains("WARNING  DefinitionNotEstablished"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_time_of_a_phase_says_since_when_an_object_is_like_this() {
    let folder = tempfile::tempdir().expect("a folder");
    let application = |name: &str, health: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {
                "name": name, "namespace": "argocd", "uid": name, "generation": 2000,
                "creationTimestamp": "2025-10-01T00:00:00Z",
            },
            "spec": {},
            "status": {
                "sync": {"status": "Synced"},
                "health": {"status": health, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            },
        })
    };
    let mut store = json!({
        "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
        "metadata": {
            "name": "default", "namespace": "velero", "uid": "store", "generation": 3,
            "creationTimestamp": "2025-10-01T00:00:00Z",
        },
        "spec": {},
        "status": {"phase": "Unavailable", "lastSyncedTime": "2025-12-31T05:00:00Z"},
    });
    store["status"]["message"] = json!("rpc error: AccessDenied");

    let items = [application("slow", "Progressing"), application("broken", "Degraded"), store];
    let file = dumped(folder.path(), &items);
    let output = loopwatch(&["check", "--from", &file, "--at=2026-01-01T06:00:00Z"]);
    let report = text(&output.stdout);

    let has = |parts: &[&str]| {
        report
            .lines()
            .any(|line| parts.iter().all(|part| line.split_whitespace().any(|w| w == *part)))
    };
    assert!(report.contains("Application argocd/slow  for 6h, since 2026-01-01"), "{report}");
    assert!(has(&["failed", "6h", "argocd/broken"]), "{report}");
    assert!(has(&["failed", "unknown", "velero/default"]), "{report}");
}

#[test]
fn a_deletion_that_hangs_for_an_unseen_reason_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = |name: &str, deleted: &str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": name, "deletionTimestamp": deleted},
            "status": {"phase": "Terminating", "conditions": [
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "True", "reason": "DiscoveryFailed"},
                {"type": "NamespaceDeletionContentFailure", "status": "False", "reason": "ContentDeleted"},
            ]},
        })
    };

    let items =
        [namespace("old", "2026-01-01T00:05:00Z"), namespace("recent", "2026-01-01T05:58:00Z")];
    let file = dumped(folder.path(), &items);
    let output = loopwatch(&["check", "--from", &file, "--at=2026-01-01T06:00:00Z"]);
    let report = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");

    assert!(
        report.starts_with("UNKNOWN because the dump has no objects that loopwatch judges"),
        "{report}"
    );
    assert!(report.contains("the deletion of Namespace old hangs"), "{report}");
    assert!(report.contains("has lasted 5h55m, and its conditions say NamespaceDeletionDiscoveryFailure (DiscoveryFailed)"), "{report}");
    assert!(!report.contains("recent"), "{report}");
}

#[test]
fn config_maps_in_lists_such_as_values_from_must_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let release = |name: &str, map: &str| {
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": "apps", "uid": name, "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"valuesFrom": [{"kind": "ConfigMap", "name": map}]},
            "status": {"observedGeneration": 1},
        })
    };
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here", "namespace": "apps", "uid": "map"},
    });

    let items = [release("fine", "here"), release("broken", "missing"), map];
    let file = dumped(folder.path(), &items);
    assert_eq!(
        findings(&["--from", &file, "--at=2026-01-01T06:00:00Z"]),
        ["DanglingReference HelmRelease apps/broken"]
    );
}
