//! A healthy operator at full speed: thousands of objects in several layers that are created and
//! deleted in cascades, while namespaces are deleted, loopwatch starts again and the API server
//! refuses it. No finding may open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::proof::{MANAGER, owned_by};
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::gate::{Gate, Refusal};
use loopwatch_testbed::kube::{Kube, ZOO, ZOO_KINDS, path};
use loopwatch_testbed::operator::{ACCOUNT, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{pause, until};

/// The tests of this file. The one with 10,000 objects takes minutes: `cargo test --test live --
/// --ignored burst`.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("burst::healthy", || run("burst", 1_000)),
        test("burst::ten_thousand", || run("burst-full", 10_000)).with_ignored_flag(true),
    ]
}

/// Threads that create and delete objects, each in a namespace of its own.
const WRITERS: usize = 3;
/// Objects that one step of a writer creates: a primary object, two children and a grandchild.
const AT_ONCE: usize = 4;
/// Steps for which a writer keeps its objects.
const KEPT: usize = 12;
/// Steps after which a writer deletes its namespace, with all objects in it, if it is not the first
/// writer.
const LIFETIME: usize = 60;
/// The time within which the garbage collector ends its work after the last deletion.
const QUIET: Duration = Duration::from_secs(120);

/// Thresholds that are longer than a busy garbage collector takes. Those about convergence do not
/// matter here.
fn thresholds() -> Value {
    quick_but(json!({
        "deadline": "1h",
        "unsaid_after": "1h",
        "regressed_after": "1h",
        "phase_stuck_after": "1h",
        "recover_at_least": "1h",
        "flap_window": "30m",
        "cycle_window": "30m",
        "source_failing_after": "20s",
        "finalizer_stuck_after": "30s",
        "owner_missing_after": "20s",
        "orphan_after": "15s",
        "dangling_after": "15s",
        "owner_absent_after": "20s",
        "cleanup_slow_after": "20s",
        "hazard_kept_for": "15s",
    }))
}

/// Counts of what the writers did.
#[derive(Default)]
struct Done {
    created: AtomicUsize,
    deleted: AtomicUsize,
    refused: AtomicUsize,
    namespaces: AtomicUsize,
}

fn run(name: &'static str, creates: usize) {
    let plane = bed();
    let kube = &plane.kube;
    let namespaces: Vec<String> = (0..WRITERS).map(|writer| format!("{name}-{writer}")).collect();

    for namespace in &namespaces {
        prepare(kube, namespace);
    }

    reader_account(kube, &namespaces[0]);
    let scope = namespaces.join(",");
    let flags = ["--ready-after=100ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let operator = Operator::start(plane, &format!("{name}.operator"), &scope, &flags);
    let gate = Gate::before(plane);
    let kubeconfig =
        plane.kubeconfig_of(&format!("{name}.kubeconfig"), &gate.url(), &namespaces[0], ACCOUNT);
    let state = plane.directory().join(format!("{name}.state"));

    std::fs::create_dir_all(&state).expect("our own folder");
    let (scope, state) =
        (format!("--namespace={scope}"), format!("--state-dir={}", state.display()));
    let mut sidecar = Sidecar::start(plane, name, &kubeconfig, &thresholds(), &[&scope, &state]);

    sidecar.wait_synced(ZOO_KINDS.len());

    let done = Done::default();
    let mut writers: Vec<Writer<'_>> = namespaces
        .iter()
        .enumerate()
        .map(|(number, namespace)| Writer {
            kube,
            namespace,
            number,
            done: &done,
            kept: VecDeque::new(),
        })
        .collect();

    // On a fast machine, the burst may end before loopwatch looks for children on its own.
    writers[0].create(FIRST);
    sidecar.expect(Duration::from_secs(120), "children are watched", || {
        let children = sidecar.objects("kind=ConfigMap")?;
        if children.is_empty() { Err("no children".to_owned()) } else { Ok(()) }
    });

    let (began, steps) = (Instant::now(), creates.div_ceil(AT_ONCE * WRITERS));
    let (mut opened, mut most) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            writers.into_iter().map(|writer| scope.spawn(move || writer.work(steps))).collect();

        // Disturbs loopwatch while the writers work: refusals, streams that end, a crash, a normal
        // end.
        let mut disturbance = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            pause(Duration::from_secs(4));
            most = most.max(sidecar.objects("kind=ConfigMap").map_or(0, |children| children.len()));
            match disturbance % 4 {
                0 => {
                    gate.refuse(Refusal { status: 503, retry_after: None, path: "/" });
                    gate.end_streams();
                    pause(Duration::from_secs(2));
                    gate.open();
                }
                1 => gate.end_streams(),
                part => {
                    opened.extend(sidecar.opened());
                    match part {
                        2 => sidecar.process.kill(),
                        _ => drop(sidecar.process.stop(Duration::from_secs(10))),
                    }

                    sidecar.start_again();
                }
            }

            disturbance += 1;
        }

        writers.into_iter().for_each(|writer| writer.join().expect("it did its work"));
    });

    let busy = began.elapsed();
    let children = || {
        let list = |namespace: &String| kube.try_list("v1", "ConfigMap", namespace);
        let lists = namespaces.iter().map(list).collect::<Result<Vec<_>, _>>()?;
        let owned = |object: &&Value| object["metadata"]["ownerReferences"].is_array();

        match lists.iter().flatten().filter(owned).count() {
            0 => Ok(()),
            count => Err(format!("{count} children")),
        }
    };

    let collected =
        until(QUIET, children).unwrap_or_else(|left| panic!("the garbage collector left {left}")).1;
    sidecar.expect(Duration::from_secs(60), "loopwatch has seen all deletions", || {
        match sidecar.objects("kind=ConfigMap")?.len() + sidecar.objects("kind=Statusless")?.len() {
            0 => Ok(()),
            count => Err(format!("{count} objects")),
        }
    });

    // All thresholds pass.
    pause(Duration::from_secs(22));
    opened.extend(sidecar.opened());
    opened.retain(|(code, _)| !TRUE_ANYWAY.contains(&code.as_str()));

    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    eprintln!(
        "{name}: {} objects created in {busy:.0?}, {} deletions with cascades and {} of namespaces, {} requests refused by \
         namespaces, {} of loopwatch by the gate; up to {most} children watched; all collected {collected:.1?} later; found \
         {}",
        count(&done.created),
        count(&done.deleted),
        count(&done.namespaces),
        count(&done.refused),
        gate.refused(),
        opened.len()
    );

    drop(operator);
    assert!(most > KEPT, "loopwatch watched only {most} children");
    assert!(
        opened.is_empty(),
        "{} false findings: {opened:?}\n{}",
        opened.len(),
        sidecar.account()
    );
}

/// The number of the object that shows loopwatch the children.
const FIRST: usize = 1_000_000;

/// Findings that are correct here: they concern a definition and the account.
const TRUE_ANYWAY: [&str; 2] = ["StatusSubresourceMissing", "PermissionMissing"];

/// Creates a namespace with a Secret to which objects refer.
fn prepare(kube: &Kube, namespace: &str) {
    kube.namespace(namespace);
    kube.apply(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "shared", "namespace": namespace}, "stringData": {"key": "value"}}));
}

/// A writer with its own namespace.
struct Writer<'a> {
    kube: &'a Kube,
    namespace: &'a str,
    number: usize,
    done: &'a Done,
    /// The kinds and names of its primary objects, the oldest first.
    kept: VecDeque<(&'static str, String)>,
}

impl Writer<'_> {
    fn work(mut self, steps: usize) {
        for step in 0..steps {
            self.create(step);
            if self.kept.len() > KEPT
                && let Some((kind, name)) = self.kept.pop_front()
            {
                self.delete(step, kind, &name);
            }

            if self.number > 0 && step % LIFETIME == LIFETIME - 1 {
                self.renew_namespace(step);
            }
        }

        while let Some((kind, name)) = self.kept.pop_front() {
            self.delete(0, kind, &name);
        }
    }

    /// Creates a primary object, two children and a grandchild. A namespace that is being deleted
    /// refuses them.
    fn create(&mut self, step: usize) {
        let kind = ["Statusless", "JobLike", "Statusless", "Widget", "JobLike"][step % 5];
        let name = format!("object-{step}");
        let spec = json!({"size": 1, "image": "registry.k8s.io/pause:3.10", "secretRef": {"name": "shared"}});
        let object = json!({"apiVersion": ZOO, "kind": kind, "spec": spec,
            "metadata": {"namespace": self.namespace, "name": name}});
        let Some(primary) = self.post(&object) else { return };

        self.kept.push_back((kind, name.clone()));
        let Some(first) = self.post(&self.child(&format!("{kind}-{name}-a"), &primary)) else {
            return;
        };

        self.post(&self.child(&format!("{kind}-{name}-b"), &primary));
        self.post(&self.child(&format!("{kind}-{name}-c"), &first));
    }

    fn child(&self, name: &str, owner: &Value) -> Value {
        let labels = json!({"app.kubernetes.io/managed-by": MANAGER, "app.kubernetes.io/instance": owner["metadata"]["name"]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": self.namespace,
            "name": name.to_lowercase(), "labels": labels, "ownerReferences": [owned_by(owner)]}})
    }

    fn post(&self, object: &Value) -> Option<Value> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let collection = path(text("/apiVersion"), text("/kind"), self.namespace, "");
        let path = format!("{collection}?fieldManager={MANAGER}");

        match self.kube.call("POST", &path, "application/json", Some(object)) {
            Ok(created) => {
                self.done.created.fetch_add(1, Ordering::Relaxed);
                Some(created)
            }
            Err(error) if error.contains("being terminated") || error.contains("not found") => {
                self.done.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn delete(&self, step: usize, kind: &str, name: &str) {
        let policy = ["Background", "Foreground"][step % 2];
        self.kube.delete_with(policy, ZOO, kind, self.namespace, name);
        self.done.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// Deletes the namespace, creates some more objects meanwhile, and creates the namespace again.
    fn renew_namespace(&mut self, step: usize) {
        self.kube.delete("v1", "Namespace", "", self.namespace);
        self.done.namespaces.fetch_add(1, Ordering::Relaxed);
        (0..3).for_each(|more| self.create(100_000 + step * 10 + more));

        let gone = until(QUIET, || match self.kube.find("v1", "Namespace", "", self.namespace) {
            None => Ok(()),
            Some(namespace) => Err(namespace["status"].to_string()),
        });

        gone.unwrap_or_else(|state| panic!("{} is not gone: {state}", self.namespace));
        self.kept.clear();
        prepare(self.kube, self.namespace);
    }
}
