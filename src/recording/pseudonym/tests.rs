use std::path::Path;

use loopwatch_model::checkpoint::{Checkpoint, SeenLease};
use loopwatch_model::model::Model;
use loopwatch_model::model::reading;
use loopwatch_model::observation::{
    NamespaceView, ObjectView, Reference, Role, StartupRead, WatchId, pod_of_holder,
};
use loopwatch_model::snapshot::Snapshot;
use serde_json::value::RawValue;

use super::*;
use crate::recording::Recording;
use crate::sources::decoding::{HashKey, object_with_type};

const KEY: [u8; 16] = [7; 16];

#[test]
fn equal_names_get_equal_pseudonyms() {
    let pseudonyms = Pseudonyms::new(KEY);
    let key = ObjectKey { namespace: "team-a".into(), name: "payroll".into() };
    let object = ObjectView { key: key.clone(), ..Default::default() };
    let watch = WatchId("widgets.example.io/team-a".into());
    let applied = pseudonyms
        .anonymize(Observation::Applied { watch: watch.clone(), object: Box::new(object) });
    let deleted = pseudonyms.anonymize(Observation::Deleted { watch, key, version: "5".into() });
    let (Observation::Applied { object, .. }, Observation::Deleted { key, .. }) =
        (applied, deleted)
    else {
        unreachable!("the variants stay")
    };

    assert_eq!(object.key, key);
    assert_ne!(Pseudonyms::new([8; 16]).object_key(key.clone()), key, "the key matters");
}

/// Every text that may name somebody contains "payroll" or "acme".
#[test]
fn no_name_remains_anywhere() {
    let lines = [
        r#"{"applied":{"watch":"widgets.example.io/payroll","object":{"namespace":"payroll","name":"payroll-1","uid":"payroll",
            "version":"1","owners":[{"kind":"A","name":"payroll","uid":"1f0b1b5e-acme"}],"paused":{"by":"annotation acme.io/paused"},
            "conditions":[{"type":"payroll-Ready","at":"shards[0].acme","reason":"PayrollFailed","severity":"Acme",
                "message":"payroll (acme) is broken"},{"type":"Ready","reason":"acme","message":"Payroll"}],
            "facts":[{"path":"status.payroll.phase","value":"Payroll"},{"path":"status.ACME[3].state","value":"acme is ready"},
                {"path":"status.acme_phase","value":"payrollReady"}]}}}"#,
        r#"{"applied":{"watch":"widgets.example.io","object":{"name":"a","version":"2","conditions":[{"type":"Ready",
            "failed_call":{"admission":"v.acme.io","service":"payroll/acme","cause":"timeout"}}]}}}"#,
        r#"{"event_seen":{"watch":"widgets.example.io","event":{"name":"a","failed_call":{"admission":"acme","service":"payroll/acme"}}}}"#,
        r#"{"kinds_discovered":[{"watch":"widgets.example.io/payroll","version":"v1","kind":"Widget","resource":"widgets",
            "scope":{"namespace":"payroll"},"role":"primary","why":"configured"}]}"#,
        r#"{"definition_seen":{"name":"widgets.example.io","conditions":[{"type":"Established","reason":"Acme","message":"payroll"}]}}"#,
        r#"{"rights_reviewed":{"namespace":"payroll"}}"#,
        r#"{"lease_seen":{"namespace":"payroll","name":"acme-lock","holder":"acme-0_payroll"}}"#,
        r#"{"source_failed":{"source":{"watch":"widgets.example.io/payroll"},"cause":"timeout","detail":"payroll"}}"#,
        r#"{"source_restricted":{"source":"process","reason":"the operator runs as payroll"}}"#,
        r#"{"process_seen":{"instance":"payroll/acme-0","pid":7,"start_ticks":20000}}"#,
        r#"{"answered":{"probe":{"count":"widgets.example.io/payroll"},"answer":{"failed":"timeout"}}}"#,
        r#"{"deleted":{"watch":"widgets.example.io/payroll","key":{"namespace":"payroll","name":"acme"},"version":"1"}}"#,
        r#"{"restored":{"findings":{"b741de2a5f429051":"2026-01-01T00:00:00Z"},"outputs":["example.io/Widget spec.payroll.secretName"],
            "leases":{"payroll/acme":{"alive":"2026-01-01T00:00:00Z","holder":"payroll"}}}}"#,
        r#"{"applied":{"watch":"widgets.example.io","object":{"name":"a","version":"1",
            "references":[{"slot":"spec.acme.payrolls[].secretName","kind":"payroll","group":"","namespace":"acme","name":"payroll"}],
            "startup":[{"secret":true,"name":"payroll"}],
            "annotations":{"owner-name":"payroll","soft-delete/phase":"payroll","soft-delete/enable":"acme","meta.helm.sh/release-name":"payroll"},
            "labels":{"example.io/created-by":"jane.acme","app.kubernetes.io/part-of":"payroll",
                "app.kubernetes.io/component":"payroll","olm.owner":"payroll.v1","owner-kind":"payroll"}}}}"#,
        r#"{"answered":{"probe":{"read":{"group":"","kind":"payroll","namespace":"acme","name":"payroll"}},"answer":"kind_unknown"}}"#,
        r#"{"answered":{"probe":{"dependents":{"owner":{"group":"","kind":"Pod","namespace":"acme","name":"payroll"},"uid":"u"}},
            "answer":{"dependents":{"found":[{"group":"","kind":"Pod","namespace":"acme","name":"payroll","version":"1"}],"complete":true}}}}"#,
        r#"{"namespace_seen":{"name":"payroll","annotations":{"loopwatch.dev/ignore":"payroll"},"deleted":"2026-01-01T00:00:00Z",
            "conditions":[{"type":"NamespaceContentRemaining","reason":"SomeResourcesRemain","message":"payroll acme"}]}}"#,
    ];

    let pseudonyms = Pseudonyms::new(KEY);
    for line in lines {
        let observation =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = serde_json::to_string(&pseudonyms.anonymize(observation)).expect("serialisable");
        for secret in ["payroll", "acme", "1f0b1b5e", "b741de2a"] {
            assert!(!text.to_ascii_lowercase().contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn addresses_do_not_remain_in_messages() {
    let pseudonyms = Pseudonyms::new(KEY);
    for (text, kept) in [
        ("connection refused: 10.96.0.1:443", "connection refused: x:443"),
        ("no route to 192.168.17.4.", "no route to x."),
        ("timeout at [2001:db8::17]:6443", "timeout at [x]:6443"),
        ("retry 3 of 5 at 12:30", "retry 3 of 5 at 12:30"),
        ("version 1.2.3 is pending", "version 1.2.3 is pending"),
    ] {
        assert_eq!(pseudonyms.prose(text), kept);
    }

    assert_ne!(pseudonyms.words("10.0.0.1"), pseudonyms.words("10.0.0.2"));
}

#[test]
fn the_usual_words_of_a_status_remain() {
    let pseudonyms = Pseudonyms::new(KEY);
    for kept in [
        "Running",
        "status.instances[0].readyReplicas",
        "1/3",
        "HTTP_404",
        "v1beta1.conditions",
        "CrashLoopBackOff",
    ] {
        assert_eq!(pseudonyms.path(kept), kept);
    }

    assert_eq!(pseudonyms.prose("pod payroll-7 is pending"), "pod x-7 is pending");
    assert_eq!(pseudonyms.value("2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z");

    for (text, begin, end) in [
        ("PayrollReady", "X", "Ready"),
        ("acme-payroll-12-failed", "x", "-failed"),
        ("Acmeing", "X", "ing"),
        ("x7", "x", ""),
    ] {
        let replaced = pseudonyms.words(text);
        let letters =
            replaced.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).expect(&replaced);

        assert!(
            letters.len() == 16 && letters.bytes().all(|byte| LETTERS.contains(&byte)),
            "{text}: {replaced}"
        );
    }
}

#[test]
fn the_holder_of_a_lease_is_still_its_pod() {
    let pseudonyms = Pseudonyms::new(KEY);
    for pod in ["payroll-7d9f8c6b5-x2x4v", "payroll-0"] {
        for holder in [pod.to_owned(), format!("{pod}_6f1c-acme")] {
            let shown = pseudonyms.holder(&holder);
            assert!(!shown.contains("payroll") && !shown.contains("acme"), "{shown}");
            assert_eq!(pod_of_holder(&shown), pseudonyms.name("object", pod), "{holder}");
        }
    }

    assert_ne!(pseudonyms.holder("payroll-0_1"), pseudonyms.holder("payroll-0_2"));
}

#[test]
fn a_checkpoint_names_its_leases_as_the_observations_do() {
    let pseudonyms = Pseudonyms::new(KEY);
    let seen = SeenLease { holder: "payroll-1-2_x".into(), ..SeenLease::default() };
    let leases = [("acme/payroll".to_owned(), seen)].into();
    let restored = Observation::Restored(Box::new(Checkpoint { leases, ..Checkpoint::default() }));
    let Observation::Restored(checkpoint) = pseudonyms.anonymize(restored) else {
        unreachable!("the variant stays")
    };
    let text = format!("{checkpoint:?}");

    assert!(!text.contains("payroll") && !text.contains("acme"), "{text}");

    let key = format!("{}/{}", pseudonyms.namespace("acme"), pseudonyms.name("lease", "payroll"));
    assert!(checkpoint.leases.contains_key(&key), "{text}");
}

#[test]
fn pseudonyms_do_not_collide() {
    let pseudonyms = Pseudonyms::new(KEY);
    let names: BTreeSet<String> =
        (0..200_000).map(|number| pseudonyms.name("object", &number.to_string())).collect();

    assert_eq!(names.len(), 200_000);
}

/// If this fails for a new rule of the reading, its words are missing in `vocabulary.txt`.
#[test]
fn statuses_are_read_alike_with_pseudonyms() {
    #[derive(serde::Deserialize)]
    struct DialectCase<'a> {
        #[serde(borrow)]
        object: &'a RawValue,
    }

    let (pseudonyms, mut wrong) = (Pseudonyms::new(KEY), Vec::new());
    for line in include_str!("../../../tests/dialects.jsonl").lines() {
        let case: DialectCase<'_> = serde_json::from_str(line).expect("a case");
        let (of, object) =
            object_with_type(case.object.get().as_bytes(), &HashKey(KEY)).expect("an object");
        let group = of.api_version.split_once('/').map_or("", |(group, _)| group);
        let plain = reading::read(group, &of.kind, &object);
        let anonymous = reading::read(group, &of.kind, &pseudonyms.object(object));

        if (plain.verdict, plain.reason) != (anonymous.verdict, anonymous.reason) {
            wrong.push(format!("{}: {plain:?}, {anonymous:?}", case.object));
        }
    }

    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn replays_come_to_the_same_conclusions_with_pseudonyms() {
    let conclusions = |snapshot: &Snapshot| {
        let primary = snapshot.kinds.iter().filter(|kind| kind.role == Role::Primary);
        let kinds: Vec<_> =
            primary.map(|kind| format!("{} {:?}", kind.kind, kind.states())).collect();
        let mut findings: Vec<_> =
            snapshot.findings.iter().map(|f| format!("{} {}", f.code.name(), f.since)).collect();

        findings.sort();
        (kinds, findings)
    };

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let pseudonyms = Pseudonyms::new(KEY);
    let mut compared = 0;

    for file in std::fs::read_dir(folder)
        .expect("the scenarios")
        .map(|entry| entry.expect("an entry").path())
    {
        let Ok(recording) = Recording::open(&file) else { continue };
        let settings = recording.header().settings.clone();
        let (mut plain, mut anonymous) = (Model::new(settings.clone()), Model::new(settings));

        for line in recording {
            anonymous.apply(line.at, pseudonyms.anonymize(line.saw.clone()));
            plain.apply(line.at, line.saw);
        }

        assert_eq!(
            conclusions(&anonymous.snapshot()),
            conclusions(&plain.snapshot()),
            "{}",
            file.display()
        );

        compared += 1;
    }

    assert!(compared > 10, "{compared} recordings");
}

#[test]
fn settings_and_namespaces_reveal_no_names() {
    use loopwatch_model::settings::{FindingRule, Selector};

    let pseudonyms = Pseudonyms::new([7; 16]);
    let seen = |value: &str| {
        let annotations = [("loopwatch.dev/ignore".to_owned(), value.to_owned())].into();
        pseudonyms.anonymize(Observation::NamespaceSeen(NamespaceView {
            name: "team-a".into(),
            annotations,
            team: "team-red".into(),
            ..NamespaceView::default()
        }))
    };

    let include = vec!["team-a".to_owned(), "team-*".to_owned(), "*".to_owned()];
    let namespaces = Selector { include, exclude: vec!["team-b".to_owned()] };
    let rule = FindingRule { namespaces, enabled: Some(false), ..FindingRule::default() };
    let settings =
        Settings { findings: [("all".to_owned(), vec![rule])].into(), ..Settings::default() };
    let changed = pseudonyms.anonymize(Observation::SettingsChanged(Box::new(settings)));
    let gone = pseudonyms.anonymize(Observation::NamespaceGone("team-a".into()));
    let listed = pseudonyms.anonymize(Observation::NamespacesListed(vec![NamespaceView {
        name: "team-b".into(),
        ..NamespaceView::default()
    }]));

    let text =
        serde_json::to_string(&[seen("all"), seen("team-c"), changed, gone, listed]).expect("JSON");

    assert!(!text.contains("team-") && text.contains(r#""loopwatch.dev/ignore":"all""#), "{text}");
}

#[test]
fn marks_and_references_name_nobody() {
    let pseudonyms = Pseudonyms::new([7; 16]);
    let text = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let reference = Reference {
        slot: "spec.users.payroll.passwordSecretRef".into(),
        namespace: "team-a".into(),
        name: "payroll".into(),
        ..Reference::default()
    };

    let object = pseudonyms.object(ObjectView {
        key: ObjectKey { namespace: "team-a".into(), name: "payroll".into() },
        annotations: text(&[
            ("loopwatch.dev/ignore", "Overdue"),
            ("example.org/owner-name", "payroll"),
            ("example.org/owner_ns", "team-a"),
            ("example.org/owner-kind", "Shop"),
            ("operator-sdk/primary-resource", "team-a/payroll"),
            ("argocd.argoproj.io/tracking-id", "payroll:apps/Deployment:team-a/payroll"),
        ]),
        labels: text(&[
            ("app.kubernetes.io/instance", "payroll"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("example.org/managed-by", "payroll"),
        ]),
        references: vec![reference],
        startup: vec![StartupRead { name: "payroll".into(), ..StartupRead::default() }],
        ..ObjectView::default()
    });

    let json = serde_json::to_string(&object).expect("serialisable");
    assert!(!json.contains("payroll") && !json.contains("team-a"), "{json}");
    assert_eq!(object.annotations["loopwatch.dev/ignore"], "Overdue");
    assert_eq!(object.annotations["example.org/owner-name"], object.key.name);
    assert_eq!(object.annotations["example.org/owner_ns"], object.key.namespace);
    assert_eq!(object.annotations["example.org/owner-kind"], "Shop");
    assert_eq!(object.labels["app.kubernetes.io/instance"], object.key.name);
    assert_eq!(object.labels["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(object.labels["example.org/managed-by"], object.key.name, "no tool, but anything");

    assert_eq!(object.references[0].namespace, object.key.namespace);
    assert_eq!(object.references[0].name, object.key.name);
    assert_eq!(object.startup[0].name, object.key.name);
    assert!(
        object.references[0].slot.ends_with(".passwordSecretRef"),
        "{}",
        object.references[0].slot
    );
}

#[test]
fn outputs_in_a_checkpoint_name_nobody_and_still_match_references() {
    let pseudonyms = Pseudonyms::new([7; 16]);
    let path = "spec.users.payroll.passwordSecretRef";
    let checkpoint =
        Checkpoint { outputs: vec![format!("example.io/Shop {path}")], ..Checkpoint::default() };
    let Observation::Restored(checkpoint) =
        pseudonyms.anonymize(Observation::Restored(Box::new(checkpoint)))
    else {
        panic!("a checkpoint stays one");
    };

    let reference = Reference { slot: path.into(), ..Reference::default() };
    let object =
        pseudonyms.object(ObjectView { references: vec![reference], ..ObjectView::default() });

    assert_eq!(checkpoint.outputs, [format!("example.io/Shop {}", object.references[0].slot)]);
    assert!(!checkpoint.outputs[0].contains("payroll"));
}

#[test]
fn values_of_marks_stay_only_in_the_usual_form() {
    let pseudonyms = Pseudonyms::new([7; 16]);
    for (key, kept, replaced) in [
        ("example.org/restartedAt", "2026-01-01T00:00:00Z", "by payroll"),
        ("soft-delete/requested", "true", "payroll"),
        ("soft-delete/phase", "canary", "payroll"),
        ("soft-delete/enable", "False", "payroll"),
        ("deleted_at", "1767139200", "17671392"),
        ("example.org/trash", "off", "payroll"),
        ("example.org/owner-kind", "Shop", "payroll"),
        ("operator-sdk/primary-resource-type", "Shop.example.org", "payroll.acme"),
        (
            "tekton.dev/pipelinerunSpanContext",
            r#"{"traceparent":"00-0af7651916cd43dd-b7ad6b71-01"}"#,
            r#"{"x":"payroll"}"#,
        ),
        ("deployment.kubernetes.io/revision", "7", "payroll"),
        ("pod-template-hash", "7f9c6d5b8", "payroll"),
        ("controller-revision-hash", "6b8d4f7c9", "payroll-6b8d4f7c9"),
        ("loopwatch.dev/ignore", "all", ""),
        ("loopwatch.dev/comment", "", "payroll"),
        ("app.kubernetes.io/component", "controller", "payroll-db"),
    ] {
        assert!(kept.is_empty() || pseudonyms.mark(key, kept) == kept, "{key}: {kept}");

        let other = pseudonyms.mark(key, replaced);
        assert!(!other.contains("payroll") && !other.contains("acme"), "{key}: {other}");
    }

    assert_eq!(
        pseudonyms.mark("controller-uid", "1f0b"),
        pseudonyms.uid("1f0b"),
        "references to UIDs still match"
    );
}
