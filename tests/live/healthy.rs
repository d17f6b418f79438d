//! The counterpart to the faults: a correct operator, careless users and an unreliable connection
//! to the API server. loopwatch must report nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::compare::{expect_audited, expect_equal};
use crate::recorder::Recorder;
use loopwatch_testbed::accounts::allow_leader_election;
use loopwatch_testbed::kube::{Kube, ZOO, ZOO_KINDS};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("healthy::busy_operator", busy_operator),
        test("healthy::early_tickets", early_tickets),
    ]
}

/// How long users make changes.
const BUSY_FOR: Duration = Duration::from_secs(90);

/// Thresholds long enough for Pods on a busy machine. Windows for counts keep their defaults.
fn thresholds() -> serde_json::Value {
    quick_but(json!({
        // A busy machine needs more than 25 s for a rollout: it must not fail the test.
        "deadline": "60s",
        "regressed_after": "15s",
        "phase_stuck_after": "25s",
        "finalizer_stuck_after": "20s",
        "recover_at_least": "25s",
        "source_failing_after": "15s",
        "flap_window": "30m",
        "cycle_window": "30m",
    }))
}

fn busy_operator() {
    let namespace = "busy";
    let plane = bed();
    plane.kube.namespace(namespace);
    allow_leader_election(&plane.kube, namespace);

    let flags = [
        "--leader-elect",
        "--leader-election-namespace=busy",
        "--leader-elect-lease-duration=5s",
        "--ready-after=500ms",
        "--autoscale-every=4s",
    ];

    let mut one = Operator::start(plane, "busy.operator-1", namespace, &flags);
    let mut two = Operator::start(plane, "busy.operator-2", namespace, &flags);
    let wire = Wire::to(plane.port);
    let kubeconfig =
        plane.kubeconfig_of("busy.loopwatch.kubeconfig", &wire.url(), NAMESPACE, ACCOUNT);
    let sidecar =
        Sidecar::start(plane, "busy.loopwatch", &kubeconfig, &thresholds(), &["--namespace=busy"]);

    sidecar.wait_synced(ZOO_KINDS.len());
    let recorder = Recorder::for_scenario("busy.loopwatch", namespace, &kubeconfig, &[]);

    let mut users = Users::new(&plane.kube, namespace);

    // Events for the operator and the wire, one after the other, while users make changes.
    let mut events: Vec<Box<dyn FnMut() + '_>> = vec![
        Box::new(|| wire.cut()),
        Box::new(|| one.roll()),
        Box::new(|| two.roll()),
        Box::new(|| {
            wire.break_off();
            pause(Duration::from_secs(3));
            wire.mend();
        }),
        Box::new(|| wire.cut()),
    ];

    let (began, count) = (Instant::now(), events.len());
    let mut done = 0;
    while began.elapsed() < BUSY_FOR {
        users.act();
        if let Some(event) = events.get_mut(done)
            && began.elapsed() > BUSY_FOR.mul_f64((done + 1) as f64 / (count + 1) as f64)
        {
            event();
            done += 1;
        }

        pause(Duration::from_millis(350));
    }

    drop(events);
    one.crash_and_restart();
    users.send_all_secrets();

    expect_equal(Duration::from_secs(40), &sidecar, &plane.kube, namespace, &ZOO_KINDS);
    let states = ["converged", "finished", "suspended", "failed"];
    sidecar.expect(Duration::from_secs(60), "every object comes to rest", || {
        let objects = sidecar.objects("namespace=busy&group=zoo.loopwatch.dev")?;
        let rests = |o: &Value| {
            states.iter().any(|s| o["state"] == *s)
                || (o["kind"] == "Statusless" && o["state"] == "unknown")
        };
        let restless: Vec<_> = objects.iter().filter(|o| !rests(o)).collect();

        if restless.is_empty() {
            Ok(())
        } else {
            Err(format!("{} do not: {}", restless.len(), restless[0]))
        }
    });

    let lag = expect_audited(&sidecar);
    drop(recorder);

    let found: Vec<_> = sidecar
        .opened()
        .into_iter()
        .filter(|(code, _)| !TRUE_ANYWAY.contains(&code.as_str()))
        .collect();

    eprintln!(
        "healthy: {} changes on {} objects, {} connections; found {}; {lag}",
        users.changes,
        users.made,
        wire.opened(),
        found.len(),
    );

    assert!(
        found.is_empty(),
        "loopwatch reported findings for a healthy operator: {found:?}\n{}",
        sidecar.account()
    );
}

/// One change in this many may cause an early ticket.
const BUDGET: usize = 1000;
/// The number of changes.
const CHANGES: usize = 3 * BUDGET;
/// Early tickets wait for this instead of 140 s, so only the factor protects most changes.
const EARLY: &str = "5s";

/// Thousands of changes of many objects, which an operator with few workers answers one after the
/// other. Their acknowledgements teach loopwatch when to raise a ticket before the deadline passes.
fn early_tickets() {
    let namespace = "early";
    let plane = bed();
    plane.kube.namespace(namespace);

    let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let _operator = Operator::start(plane, "early.operator", namespace, &flags);
    let kubeconfig = plane.kubeconfig_of("early.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let settings = quick_but(json!({"deadline": "30m", "phase_stuck_after": "30m",
        "regressed_after": "30m", "recover_at_least": "30m", "source_failing_after": "2m",
        "learn_after": 20, "unacknowledged_early_after": EARLY}));
    let sidecar =
        Sidecar::start(plane, "early.loopwatch", &kubeconfig, &settings, &["--namespace=early"]);
    sidecar.wait_synced(ZOO_KINDS.len());

    let names: Vec<String> = (0..40).map(|number| format!("widget-{number}")).collect();
    names.iter().for_each(|name| _ = plane.kube.zoo("Widget", namespace, name, json!({})));
    for change in 0..CHANGES {
        let name = &names[change % names.len()];
        plane.kube.change("Widget", namespace, name, json!({"size": 1 + change % 1000}));
    }

    expect_equal(Duration::from_secs(60), &sidecar, &plane.kube, namespace, &["Widget"]);
    let settled = r#"loopwatch_acknowledge_seconds_count{group="zoo.loopwatch.dev",kind="Widget",operator_revision=""}"#;
    let learned = sidecar.metric(settled).unwrap_or_else(|error| panic!("{error}"));
    let tickets = sidecar.opened().into_iter().filter(|(code, _)| code == "Unacknowledged").count();

    eprintln!("healthy: {tickets} early tickets in {CHANGES} changes, {learned} acknowledgements");
    assert!(learned > 20.0, "{learned}");
    assert!(tickets * BUDGET <= CHANGES, "{}", sidecar.account());
}

/// Findings that are correct here: they concern a definition and the account.
const TRUE_ANYWAY: [&str; 2] = ["StatusSubresourceMissing", "PermissionMissing"];

/// Users who create, change, break, repair, suspend and delete objects, with a fixed random seed.
struct Users {
    kube: Kube,
    namespace: &'static str,
    seed: u64,
    objects: Vec<(&'static str, String, Mood)>,
    /// Secrets that arrive later, with the number of the change at which they do.
    pending: VecDeque<(usize, String)>,
    made: usize,
    changes: usize,
}

/// The last change of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Fine,
    Invalid,
    Suspended,
    /// Waits for a Secret.
    Waiting,
}

impl Users {
    fn new(kube: &Kube, namespace: &'static str) -> Self {
        let (objects, pending) = (Vec::new(), VecDeque::new());
        let mut users = Self {
            kube: kube.clone(),
            namespace,
            seed: 0x5eed,
            objects,
            pending,
            made: 0,
            changes: 0,
        };

        for kind in ZOO_KINDS {
            users.create(kind);
        }

        users
    }

    /// Returns a random number below `choices` (splitmix64).
    fn pick(&mut self, choices: usize) -> usize {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);

        (z ^ (z >> 31)) as usize % choices
    }

    fn create(&mut self, kind: &'static str) {
        self.made += 1;
        let name = format!("{}-{}", kind.to_lowercase(), self.made);
        let (spec, mood) = match self.pick(8) {
            0 => (json!({"image": "invalid"}), Mood::Invalid),
            1 => {
                self.pending.push_back((self.changes + 20, name.clone()));
                (json!({"secretRef": {"name": format!("{name}-input")}}), Mood::Waiting)
            }
            _ => (json!({}), Mood::Fine),
        };

        self.kube.zoo(kind, self.namespace, &name, spec);
        self.objects.push((kind, name, mood));
    }

    /// Makes one change.
    fn act(&mut self) {
        self.changes += 1;
        if self.pending.front().is_some_and(|(due, _)| *due <= self.changes) {
            return self.send_secret();
        }

        let kind = ZOO_KINDS[self.pick(ZOO_KINDS.len())];
        if self.objects.len() < 20 || (self.objects.len() < 60 && self.pick(4) == 0) {
            return self.create(kind);
        }

        let index = self.pick(self.objects.len());
        let what = self.pick(8);
        let (kind, name, mood) = self.objects[index].clone();
        let (spec, mood) = match (mood, what) {
            (_, 0) => {
                self.kube.delete(ZOO, kind, self.namespace, &name);
                self.objects.swap_remove(index);
                return;
            }
            // Users do not change finished objects, or objects that wait for a Secret.
            _ if kind == "JobLike" || mood == Mood::Waiting => return,
            (Mood::Invalid, _) => (json!({"image": "registry.k8s.io/pause:3.10"}), Mood::Fine),
            (Mood::Suspended, _) => (json!({"suspend": false}), Mood::Fine),
            (Mood::Fine, 1) => (json!({"image": "invalid"}), Mood::Invalid),
            (Mood::Fine, 2) => (json!({"suspend": true}), Mood::Suspended),
            (Mood::Fine, 3) => (json!({"replicas": self.pick(3)}), Mood::Fine),
            (Mood::Fine | Mood::Waiting, _) => (json!({"size": self.pick(1000)}), Mood::Fine),
        };

        self.kube.change(kind, self.namespace, &name, spec);
        self.objects[index].2 = mood;
    }

    /// Creates all missing Secrets.
    fn send_all_secrets(&mut self) {
        while !self.pending.is_empty() {
            self.send_secret();
        }
    }

    /// Creates the next Secret.
    fn send_secret(&mut self) {
        let Some((_, name)) = self.pending.pop_front() else { return };
        self.kube.apply(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-input"), "namespace": self.namespace}, "stringData": {"key": "value"}}));
        for (_, other, mood) in &mut self.objects {
            if *other == name {
                *mood = Mood::Fine;
            }
        }
    }
}
