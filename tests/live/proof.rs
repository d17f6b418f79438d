//! The fixture of the faults of deletion and ownership: one row per fault, with its finding and its
//! near misses.
//!
//! Each row first proves that the cluster reaches the faulty state.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::{SLACK, TWIN};
use crate::recorder::Recorder;
use crate::table::{self, Row};
use loopwatch_testbed::accounts::{allow_leader_election, reader_account};
use loopwatch_testbed::kube::{Kube, ZOO, ZOO_KINDS, path};
use loopwatch_testbed::operator::{ACCOUNT, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick};
use loopwatch_testbed::wait::{eventually, pause};

/// The field manager of the zoo operator.
pub(crate) const MANAGER: &str = "widget-operator";

/// The finalizer of the zoo operator.
pub(crate) const CLEANUP: &str = "zoo.loopwatch.dev/cleanup";

/// The object with the fault.
pub(crate) const TARGET: &str = "target";

/// The time within which controllers of the cluster act, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Findings that are correct in every run: one definition of the zoo has no status subresource.
const TRUE_ANYWAY: [&str; 2] = ["StatusSubresourceMissing", "PermissionMissing"];

/// The metric of the outcomes of waits for finalizers.
const OUTCOMES: &str = "loopwatch_finalizer_outcomes_total{";

/// The outcomes that are no removal, and the findings that belong to each.
const FAILURES: &[(&str, &[&str])] = &[
    ("timed_out", &["FinalizerOwnerAbsent", "FinalizerStuck", "DeletionBlockedByDependent"]),
    ("lost", &["FinalizerLost"]),
    ("flapping", &["FinalizerFlapping"]),
];

/// One fault, its finding, and its near misses.
#[derive(Clone, Copy)]
pub(crate) struct Proof {
    /// The name of the test and of its namespace.
    pub(crate) name: &'static str,
    /// The finding.
    pub(crate) code: &'static str,
    /// Kind and name of its subject. In the name, `{}` stands for the name of the namespace.
    pub(crate) subject: (&'static str, &'static str),
    /// Keys of its evidence.
    pub(crate) evidence: &'static [&'static str],
    /// Text that its evidence contains.
    pub(crate) names: &'static [&'static str],
    /// Other findings that are correct, and a part of their subjects.
    pub(crate) also: &'static [(&'static str, &'static str)],
    /// The time that must pass before loopwatch may report it, in seconds.
    pub(crate) threshold: u64,
    /// How long the finding stays open after the cure, in seconds.
    pub(crate) lingers: u64,
    /// Prepares the cluster before the operator and loopwatch start.
    pub(crate) prepare: fn(&Kube, &str),
    /// Additional namespaces: the suffix of each name, after the name of the test.
    pub(crate) namespaces: &'static [&'static str],
    /// Settings of loopwatch that differ from those of the other rows.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// Additional flags of the operator.
    pub(crate) flags: &'static [&'static str],
    /// Does something that is similar to the fault, but correct.
    pub(crate) near_miss: fn(&mut Fixture),
    /// Provokes the fault, and panics unless the cluster reaches the faulty state.
    pub(crate) provoke: fn(&mut Fixture),
    /// Repairs it.
    pub(crate) cure: fn(&mut Fixture),
}

/// Namespaces with an operator.
pub(crate) struct Fixture {
    pub(crate) kube: Kube,
    pub(crate) namespace: String,
    /// The first further namespace. The operator works there, too.
    pub(crate) other: String,
    pub(crate) operator: Operator,
}

/// loopwatch and, to keep the test as a scenario, a recorder, which must stop first.
struct Watcher {
    _recorder: Option<Recorder>,
    sidecar: Sidecar,
}

/// Creates the tests of all rows of a file.
pub(crate) fn trials(file: &str, rows: &'static [Proof]) -> Vec<Trial> {
    let named = |proof: &Proof| format!("{file}::{}", proof.name.replace('-', "_"));
    rows.iter().map(|proof| test(&named(proof), || proof.run())).collect()
}

/// Thresholds of a few seconds. Those about ownership leave the garbage collector enough time.
fn thresholds(changes: &[(&str, &str)]) -> Value {
    let mut thresholds = quick();
    let usual = [
        ("owner_absent_after", "4s"),
        ("cleanup_slow_after", "3s"),
        ("owner_missing_after", "20s"),
        ("hazard_kept_for", "16s"),
        ("orphan_after", "4s"),
        ("dangling_after", "4s"),
        ("stale_after", "3s"),
    ];
    for (name, value) in usual.iter().chain(changes) {
        thresholds[*name] = json!(value);
    }

    thresholds
}

impl Proof {
    /// A row whose fields are all empty, for the fields that a row does not need.
    pub(crate) const EMPTY: Self = Self {
        name: "",
        code: "",
        subject: ("", ""),
        evidence: &[],
        names: &[],
        also: &[],
        threshold: 0,
        lingers: 0,
        prepare: |_, _| (),
        namespaces: &["other"],
        settings: &[],
        flags: &[],
        near_miss: |_| (),
        provoke: |_| (),
        cure: |_| (),
    };

    fn run(&self) {
        let (mut fixture, Watcher { sidecar, _recorder }) = Fixture::new(self);
        (self.near_miss)(&mut fixture);
        (self.provoke)(&mut fixture);

        let (kind, name) = (self.subject.0, self.subject.1.replace("{}", self.name));
        let threshold = Duration::from_secs(self.threshold);
        let (finding, detected) = sidecar.expect_finding(threshold + SLACK, self.code, kind, &name);

        for key in self.evidence {
            assert!(!finding.evidence(key).is_null(), "no {key}: {finding}");
        }

        for text in self.names {
            assert!(
                finding.0["evidence"].to_string().contains(text),
                "{text} is not named: {finding}"
            );
        }

        (self.cure)(&mut fixture);
        let cured = Instant::now();
        sidecar.expect_cleared(Duration::from_secs(self.lingers) + SLACK, self.code, kind, &name);

        let cleared = cured.elapsed();
        self.expect_outcomes(&sidecar);
        let false_positives: Vec<_> =
            sidecar.opened().into_iter().filter(|found| !self.allows(found, &name)).collect();
        table::add(Row {
            fault: self.name.to_owned(),
            on: kind.to_owned(),
            found: self.code.to_owned(),
            detected,
            threshold,
            cleared,
            false_positives: false_positives.len(),
        });

        assert!(
            false_positives.is_empty(),
            "besides {} on {kind} {name}, loopwatch reported {false_positives:?}\n{}",
            self.code,
            sidecar.account()
        );
    }

    /// Checks that the metric of waits for finalizers counts the outcome that belongs to the
    /// finding, and none that belongs to no expected finding.
    fn expect_outcomes(&self, sidecar: &Sidecar) {
        eventually(SLACK, "the outcomes of waits for finalizers", || {
            let text = sidecar.metrics()?;
            let counts = text.lines().filter(|line| line.starts_with(OUTCOMES));
            let counted = |outcome: &str| {
                let label = format!("outcome=\"{outcome}\"");
                counts.clone().any(|line| line.contains(&label) && !line.ends_with(" 0"))
            };

            let is_wrong = |(outcome, codes): &(&str, &[&str])| match counted(outcome) {
                false => codes.contains(&self.code),
                true => {
                    let mut also = self.also.iter().map(|(code, _)| code);
                    !codes.contains(&self.code) && !also.any(|code| codes.contains(code))
                }
            };
            match FAILURES.iter().find(|failure| is_wrong(failure)) {
                Some((outcome, _)) => {
                    Err(format!("{outcome}, in {}", counts.clone().collect::<Vec<_>>().join(", ")))
                }
                None => Ok(()),
            }
        });
    }

    /// Reports whether a finding is expected, by its code and subject.
    fn allows(&self, (code, on): &(String, String), name: &str) -> bool {
        let ends =
            |on: &str| on.ends_with(&format!("/{name}")) || on.ends_with(&format!(" {name}"));
        let is_expected = code == self.code && ends(on);
        let is_also = self.also.iter().any(|(also, part)| code == also && on.contains(part));

        // Tests that run beside this one make mistakes in their own namespaces.
        let is_elsewhere =
            on.strip_prefix("Namespace ").is_some_and(|on| !on.starts_with(self.name));

        is_expected || is_also || is_elsewhere || TRUE_ANYWAY.contains(&code.as_str())
    }
}

impl Fixture {
    fn new(proof: &Proof) -> (Self, Watcher) {
        let plane = bed();
        let kube = plane.kube.clone();
        let further = proof.namespaces.iter().map(|name| format!("{}-{name}", proof.name));
        let namespaces: Vec<String> =
            std::iter::once(proof.name.to_owned()).chain(further).collect();

        namespaces.iter().for_each(|name| kube.namespace(name));
        let (namespace, other, scope) =
            (namespaces[0].clone(), namespaces[1].clone(), namespaces.join(","));
        allow_leader_election(&kube, &namespace);
        (proof.prepare)(&kube, &namespace);

        let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
        let operator = Operator::start(
            plane,
            &format!("{namespace}.operator"),
            &scope,
            &[&flags, proof.flags].concat(),
        );

        reader_account(&kube, &namespace);
        let file = format!("{namespace}.loopwatch.kubeconfig");
        let kubeconfig = plane.kubeconfig_of(&file, &plane.url, &namespace, ACCOUNT);
        let (name, scopes) = (format!("{namespace}.loopwatch"), format!("--namespace={scope}"));
        let sidecar =
            Sidecar::start(plane, &name, &kubeconfig, &thresholds(proof.settings), &[&scopes]);

        sidecar.wait_synced(ZOO_KINDS.len());
        let _recorder = Recorder::for_scenario_in(&scope, proof.name, &name, &kubeconfig);
        let fixture = Self { kube, namespace, other, operator };

        // loopwatch watches a child kind in each namespace in which it has seen children.
        namespaces[..2].iter().for_each(|namespace| drop(fixture.make(namespace, TWIN, json!({}))));
        sidecar.wait_watched("ConfigMap", 2);
        (fixture, Watcher { _recorder, sidecar })
    }

    /// Creates a Widget and waits until it is ready.
    pub(crate) fn widget(&self, name: &str) -> Value {
        self.make(&self.namespace, name, json!({}))
    }

    /// Creates a Widget in a namespace, with further fields of its spec, and waits until it is
    /// ready.
    pub(crate) fn make(&self, namespace: &str, name: &str, spec: Value) -> Value {
        self.kube.zoo("Widget", namespace, name, spec);
        eventually(SOON, &format!("Widget {name} is ready"), || {
            let object = self.kube.find(ZOO, "Widget", namespace, name).unwrap_or_default();
            let status = &object["status"];
            let ready = status["phase"] == "Ready"
                && status["observedGeneration"] == object["metadata"]["generation"];
            if ready { Ok(object) } else { Err(status.to_string()) }
        })
    }

    /// Switches a fault on for one Widget: `CleanupSlow?delay=9s`.
    pub(crate) fn fault(&self, fault: &str, name: &str) {
        let separator = if fault.contains('?') { '&' } else { '?' };
        self.operator.fault(&format!("{fault}{separator}namespace={}&name={name}", self.namespace));
    }

    /// Returns an object of the namespace.
    pub(crate) fn find(&self, api: &str, kind: &str, name: &str) -> Option<Value> {
        self.kube.find(api, kind, &self.namespace, name)
    }

    /// Waits until an object fulfils a condition.
    pub(crate) fn wait(
        &self,
        api: &str,
        kind: &str,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(SOON, &format!("{kind} {name} {what}"), || match self.find(api, kind, name) {
            Some(object) if is(&object) => Ok(object),
            Some(object) => Err(object.to_string()),
            None => Err("it does not exist".to_owned()),
        })
    }

    /// Waits until an object of the namespace is gone.
    pub(crate) fn wait_gone(&self, api: &str, kind: &str, name: &str) {
        gone(&self.kube, api, kind, &self.namespace, name);
    }

    /// Deletes a Widget and waits until it is gone.
    pub(crate) fn remove(&self, name: &str) {
        self.kube.delete(ZOO, "Widget", &self.namespace, name);
        self.wait_gone(ZOO, "Widget", name);
    }

    /// Creates a ConfigMap as the operator, with further metadata.
    pub(crate) fn config_map(&self, namespace: &str, name: &str, metadata: Value) -> Value {
        let mut metadata = metadata;
        metadata["namespace"] = json!(namespace);
        metadata["name"] = json!(name);
        metadata["labels"] = json!({"app.kubernetes.io/managed-by": MANAGER});

        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"made": "by hand"}});
        self.kube.create_as(MANAGER, &object)
    }

    /// Runs `act`, and returns everything that then happens to the objects of a kind in a namespace
    /// within `span`, as types of watch events and objects.
    pub(crate) fn watch(
        &self,
        kind: (&str, &str),
        namespace: &str,
        span: u64,
        act: impl FnOnce(),
    ) -> Vec<(String, Value)> {
        let collection = path(kind.0, kind.1, namespace, "");
        let list = self.kube.get(&collection).unwrap_or_else(|error| panic!("{error}"));
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        act();

        let query = format!("{collection}?watch=1&resourceVersion={version}&timeoutSeconds={span}");
        let text = self.kube.text(&query).unwrap_or_else(|error| panic!("{error}"));
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .map(|event| {
                (event["type"].as_str().unwrap_or_default().to_owned(), event["object"].clone())
            })
            .collect()
    }
}

/// Waits until an object is gone.
pub(crate) fn gone(kube: &Kube, api: &str, kind: &str, namespace: &str, name: &str) {
    eventually(SOON, &format!("{kind} {namespace}/{name} is gone"), || {
        match kube.find(api, kind, namespace, name) {
            None => Ok(()),
            Some(object) => Err(json!([object["metadata"], object["status"]]).to_string()),
        }
    });
}

/// Expects a condition to hold for a while.
pub(crate) fn stays(seconds: u64, what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        assert!(is(), "no longer: {what}");

        pause(Duration::from_millis(250));
    }
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// An owner reference to an object.
pub(crate) fn owned_by(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true})
}

/// Reports whether an object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The condition of a type in the status of an object.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}
