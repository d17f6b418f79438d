//! Records the incident that `loopwatch demo` plays:
//! `SCENARIOS=1 cargo test --test live -- --ignored demo::incident`.
//!
//! A real operator runs for some minutes. The recording stretches them to hours, so that the default
//! thresholds apply and a leak has the time that it needs.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, bed};
use crate::memory::{pack, replay, unpack};
use crate::recorder::Recorder;
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::repository;
use loopwatch_testbed::stretch::stretched;
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![alone("demo::incident", incident).with_ignored_flag(true)]
}

const NAMESPACE: &str = "webshop";
const WIDGETS: [&str; 9] = [
    "archive", "catalog", "checkout", "invoices", "ledger", "mailer", "search", "sessions",
    "shipping",
];

/// How much longer the incident is than the test: a deadline of ten minutes passes in half a minute.
const FACTOR: i64 = 20;

/// The end of the incident: two hours of leak are enough for the shortest time scale of a trend.
const LENGTH: Duration = Duration::from_secs(520);

/// The findings that the incident opens.
const FOUND: [&str; 8] = [
    "DanglingReference",
    "FinalizerStuck",
    "HeapLeak",
    "NeverRecovered",
    "Orphan",
    "PhaseCycling",
    "Regressed",
    "Unacknowledged",
];

/// Something that happens to the operator or its objects, some seconds after the beginning.
type Step = (u64, fn(&mut Incident));

const STEPS: [Step; 15] = [
    (2, |incident| incident.crash()),
    (8, |incident| incident.fault("HeapLeak?rate=256Ki")),
    (9, |incident| incident.change("mailer", json!({"secretRef": {"name": "smtp-password"}}))),
    (10, |incident| incident.kube.delete_with("Orphan", ZOO, "Widget", NAMESPACE, "archive")),
    (12, |incident| incident.fault("PhaseCycling?kind=Widget&name=catalog&period=5s")),
    (16, |incident| incident.fault("NeverRecovered?kind=Widget&name=invoices")),
    (17, |incident| incident.change("invoices", json!({"image": "invalid"}))),
    (20, |incident| incident.change("invoices", json!({"image": IMAGE}))),
    (22, |incident| incident.fault("FinalizerStuck?kind=Widget&name=sessions")),
    (23, |incident| incident.kube.delete(ZOO, "Widget", NAMESPACE, "sessions")),
    (28, |incident| incident.fault("Unacknowledged?kind=Widget&name=checkout")),
    (29, |incident| incident.change("checkout", json!({"size": 3}))),
    (90, |incident| incident.fault("Regressed?kind=Widget&name=ledger")),
    (120, |incident| incident.cure("PhaseCycling?kind=Widget&name=catalog")),
    (180, |incident| incident.change("search", json!({"size": 2}))),
];

/// The image of a Widget, unless a test changes it.
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// The field manager of somebody who edits objects.
const USER: &str = "kubectl-edit";

/// A kind of the zoo whose definition has a fault of its own.
const ODD: &str = "nosubresources";

struct Incident {
    kube: Kube,
    replicas: Replicas,
}

impl Incident {
    fn start() -> Self {
        let plane = bed();
        plane.kube.namespace(NAMESPACE);
        reader_account(&plane.kube, NAMESPACE);

        let flags = ["--ready-after=200ms", "--autoscale-every=0"];
        Self { kube: plane.kube.clone(), replicas: Replicas::start(plane, NAMESPACE, 1, &flags) }
    }

    fn make_widgets(&self) {
        for name in WIDGETS {
            self.kube.create_as(
                USER,
                &json!({"apiVersion": ZOO, "kind": "Widget",
                    "metadata": {"namespace": NAMESPACE, "name": name},
                    "spec": {"size": 1, "image": IMAGE}}),
            );
        }

        for name in WIDGETS {
            eventually(Duration::from_secs(60), &format!("{name} is ready"), || {
                let status = self.kube.status("Widget", NAMESPACE, name);
                (status["phase"] == "Ready").then_some(()).ok_or(status.to_string())
            });
        }
    }

    fn fault(&self, fault: &str) {
        self.replicas.all[0].operator.fault(fault);
    }

    fn cure(&self, fault: &str) {
        self.replicas.all[0].operator.cure(fault);
    }

    fn change(&self, name: &str, spec: Value) {
        self.kube.patch_as(USER, ZOO, "Widget", NAMESPACE, name, &json!({"spec": spec}));
    }

    /// The operator's container ends with an error, and the kubelet starts it again at once.
    fn crash(&mut self) {
        self.fault("Crash?delay=100ms");
        let replica = &mut self.replicas.all[0];
        replica.wait_end(Duration::from_secs(10), false);
        replica.restart();
        self.replicas.wait_for_leader();
    }
}

fn incident() {
    let plane = bed();
    let mut incident = Incident::start();
    let pod = incident.replicas.all[0].pod.name.clone();
    let account = plane.kubeconfig_of("demo.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    std::fs::write(plane.directory().join("demo.config.yaml"), "{}").expect("our own folder");

    let file = plane.directory().join("demo.jsonl.gz");
    let environment = [("POD_NAME", Path::new(&pod)), ("POD_NAMESPACE", Path::new(NAMESPACE))];
    let scrape = format!("--scrape=http://{}", incident.replicas.all[0].operator.metrics);
    let flags =
        ["--watch=zoo.loopwatch.dev/Widget", &scrape, "--scrape-interval=1s", "--profiles=off"];
    let recorder = Recorder::start_beside("demo", NAMESPACE, &account, &file, &flags, &environment);

    incident.make_widgets();
    let began = Instant::now();
    for (after, step) in STEPS {
        pause(Duration::from_secs(after).saturating_sub(began.elapsed()));
        step(&mut incident);
    }

    while began.elapsed() < LENGTH {
        incident.replicas.all[0].operator.collect_garbage();
        pause(Duration::from_secs(2));
    }

    drop(recorder);

    let recording = plane.directory().join("demo.stretched.jsonl.gz");
    let lines = unpack(&file);
    let address = incident.replicas.all[0].operator.metrics.to_string(); // before its Pod is known
    let belongs = |line: &&str| !line.contains(ODD) && !line.contains(&address);
    let of_incident: Vec<&str> = lines.lines().filter(belongs).collect();
    pack(&recording, &stretched(&of_incident.join("\n"), FACTOR));
    let timeline = replay(&recording, "table");
    for code in FOUND {
        assert!(timeline.contains(&format!("opened  {code} ")), "{code}: {timeline}");
    }

    if std::env::var_os("SCENARIOS").is_some() {
        std::fs::copy(&recording, repository("tests/scenarios/demo.jsonl.gz"))
            .expect("the repository");
    }
}
