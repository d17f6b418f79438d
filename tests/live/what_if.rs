//! `loopwatch what-if` against the garbage collector of Kubernetes: over random graphs, the objects that it predicts are
//! exactly those that go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use loopwatch_model::cascade::{Graph, KindFacts, Node, Request};
use loopwatch_model::observation::OwnerReference;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::kube::{Kube, ZOO, path, plural};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::program;
use loopwatch_testbed::wait::{eventually, pause};

/// The tests of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("what_if::random_graphs", random_graphs),
        test("what_if::errors_and_permissions", errors_and_permissions),
        test("what_if::uninstall", uninstall),
    ]
}

/// Random graphs of the test.
const GRAPHS: usize = 50;
/// Threads that create and predict.
const THREADS: usize = 8;
/// The finalizer that nobody removes.
const HOLD: &str = "graph.loopwatch.dev/hold";
/// The group of the custom resources of the test, which no operator serves.
const GROUP: &str = "graph.loopwatch.dev";
/// API version and kind of the objects. The last one is cluster-scoped.
const KINDS: [(&str, &str); 5] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("graph.loopwatch.dev/v1", "Knot"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
];
const CLUSTER_ROLE: usize = 4;
const CASCADES: [&str; 3] = ["background", "foreground", "orphan"];
/// Time for the garbage collector. It looks for new kinds every 30 s.
const COLLECTED_WITHIN: Duration = Duration::from_secs(90);
/// Time in which the garbage collector would delete an object that it should not.
const QUIET: Duration = Duration::from_secs(3);

/// One random graph. The first object is the one to delete.
struct Web {
    seed: usize,
    cascade: &'static str,
    nodes: Vec<Node>,
}

/// Whether each object is being deleted, by UID.
type Objects = BTreeMap<String, bool>;

/// What should be left of a graph.
#[derive(Clone)]
struct Expected {
    seed: usize,
    gone: BTreeSet<String>,
    terminating: BTreeSet<String>,
    /// Deleted, but it depends on timing whether a dependent keeps them.
    either: BTreeSet<String>,
    alive: BTreeSet<String>,
}

fn random_graphs() {
    let plane = bed();
    define(&plane.kube);
    let webs: Vec<Web> = in_parallel(|seed| Web::create(&plane.kube, seed));

    // The garbage collector deletes what has no valid owner.
    let settled: Vec<Expected> = webs.iter().map(Web::settled).collect();
    let canary = canary(&plane.kube);
    expect(&plane.kube, &settled, &|objects| !objects.contains_key(&canary));
    let anyway: usize = settled.iter().map(|expected| expected.gone.len()).sum();

    let predictions = in_parallel(|seed| webs[seed].predict());
    let expected: Vec<Expected> = webs
        .iter()
        .zip(&settled)
        .zip(&predictions)
        .map(|((web, settled), prediction)| web.after(settled, prediction))
        .collect();
    in_parallel(|seed| webs[seed].delete(&plane.kube));
    expect(&plane.kube, &expected, &|_| true);

    let fates = |fate: &str| {
        let deleted = predictions.iter().filter_map(|prediction| prediction["deleted"].as_array()).flatten();
        deleted.filter(|object| object["fate"] == fate).count()
    };
    let kept = |reason: &str| {
        let kept = predictions.iter().filter_map(|prediction| prediction["kept"].as_array()).flatten();
        kept.filter(|object| object["reason"] == reason).count()
    };
    let seen = [fates("removed"), fates("terminating"), fates("later"), kept("other_owner"), kept("orphaned"), anyway];
    let unsure: usize = expected.iter().map(|expected| expected.either.len()).sum();
    assert!(unsure <= 10, "{unsure} fates depend on timing");
    eprintln!("what-if: removed, terminating, later, kept by another owner, orphaned, deleted in any case: {seen:?}");
    for (count, least) in seen.into_iter().zip([150, 20, 10, 10, 10, 20]) {
        assert!(count >= least, "the graphs do not cover everything: {seen:?}");
    }
    let cleaned = in_parallel(|seed| webs[seed].clean(&plane.kube));
    assert_eq!(cleaned.len(), GRAPHS);
}

/// Creates the definition of the custom resources.
fn define(kube: &Kube) {
    kube.apply(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("knots.{GROUP}")}, "spec": {"group": GROUP, "scope": "Namespaced",
        "names": {"kind": "Knot", "listKind": "KnotList", "plural": "knots", "singular": "knot", "shortNames": ["kn"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}}));
    eventually(Duration::from_secs(20), "knots are served", || kube.get(&path(KINDS[3].0, "Knot", "", "")));
}

/// Creates a custom resource without a valid owner, and returns its UID: when it is gone, the garbage collector has
/// found the kind.
fn canary(kube: &Kube) -> String {
    kube.namespace("what-if");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
        "uid": "00000000-0000-4000-8000-000000000000"});
    let canary = kube.apply(&json!({"apiVersion": KINDS[3].0, "kind": "Knot", "metadata": {"namespace": "what-if",
        "name": "canary", "ownerReferences": [owner]}}));
    canary["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

/// Waits until exactly the expected objects are left, and checks that it stays like this.
fn expect(kube: &Kube, expected: &[Expected], also: &dyn Fn(&Objects) -> bool) {
    let check = || {
        let objects = objects(kube)?;
        let wrong: Vec<String> = expected.iter().filter_map(|expected| expected.difference(&objects)).collect();
        match wrong.is_empty() && also(&objects) {
            true => Ok(()),
            false => Err(wrong.join("\n")),
        }
    };
    eventually(COLLECTED_WITHIN, "the garbage collector does what what-if predicts", check);
    pause(QUIET);
    if let Err(wrong) = check() {
        panic!("the garbage collector deleted more than what-if predicts: {wrong}");
    }
}

fn objects(kube: &Kube) -> Result<Objects, String> {
    let mut objects = Objects::new();
    for (api, kind) in KINDS {
        for object in kube.try_list(api, kind, "")? {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            objects.insert(uid, object["metadata"]["deletionTimestamp"].is_string());
        }
    }
    Ok(objects)
}

/// Calls a function for each seed, on several threads.
fn in_parallel<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let (next, work) = (&next, &work);
    let worker = move || {
        let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < GRAPHS));
        seeds.map(|seed| (seed, work(seed))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| panic!("a worker failed"))).collect()
    });
    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Random numbers, the same for each seed: xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides as u64).unwrap_or(0)
    }

    fn once_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

// === impl Web ===

impl Web {
    /// Creates a graph: each object with up to three of the earlier ones as owners, some in the other namespace, some
    /// with finalizers, some with an owner that does not exist; then deletes some of them, and closes some cycles.
    fn create(kube: &Kube, seed: usize) -> Self {
        let mut dice = Dice((seed as u64 + 1) * 0x9e37_79b9);
        let cascade = CASCADES[seed % CASCADES.len()];
        let mut web = Self { seed, cascade, nodes: Vec::new() };
        for namespace in web.namespaces() {
            kube.namespace(&namespace);
        }
        for index in 0..8 + dice.roll(12) {
            let node = web.invent(index, &mut dice);
            web.add(kube, node);
        }
        web.begin_deletions(kube, &mut dice);
        web.close_cycles(kube, &mut dice);
        web
    }

    fn namespaces(&self) -> [String; 2] {
        ["here", "there"].map(|side| format!("what-if-{}-{side}", self.seed))
    }

    /// Invents the next object. In foreground deletions, references block: when an object with a finalizer waits for
    /// nothing, it depends on the timing whether the garbage collector still deletes its other dependents.
    fn invent(&self, index: usize, dice: &mut Dice) -> Node {
        let foreground = self.cascade == "foreground";
        let [here, there] = self.namespaces();
        let elsewhere = index > 0 && dice.once_in(8);
        let kind = match index > 0 && dice.once_in(12) {
            true => CLUSTER_ROLE,
            false => dice.roll(CLUSTER_ROLE),
        };
        let cluster = kind == CLUSTER_ROLE;
        let namespace = match (cluster, elsewhere) {
            (true, _) => String::new(),
            (false, true) => there,
            (false, false) => here,
        };
        let (api, kind) = KINDS[kind];
        let mut node = Node {
            group: group(api),
            kind: kind.to_owned(),
            name: format!("what-if-{}-{index}", self.seed),
            namespace,
            ..Node::default()
        };
        let owners = if index == 0 { 0 } else { [0, 1, 1, 1, 1, 2, 2, 3][dice.roll(8)] };
        for _ in 0..owners {
            // Owners in the same namespace are the usual ones.
            let near: Vec<&Node> = self.nodes.iter().filter(|other| other.namespace == node.namespace).collect();
            let all: Vec<&Node> = self.nodes.iter().collect();
            let choice = if near.is_empty() || dice.once_in(8) { all } else { near };
            let owner = choice[dice.roll(choice.len())];
            if node.owners.iter().any(|reference| reference.uid == owner.uid) {
                continue;
            }
            let mut reference = refer(owner);
            reference.blocks_deletion = !cluster && (foreground || dice.once_in(2));
            node.owners.push(reference);
        }
        if index > 0 && dice.once_in(12) {
            let uid = format!("00000000-0000-4000-8000-{index:012}");
            node.owners.push(OwnerReference { uid, ..refer(&self.nodes[0]) });
        }
        if index > 0 && dice.once_in(15) {
            let api_version = "nowhere.loopwatch.dev/v1".to_owned();
            let uid = format!("00000000-0000-4000-9000-{index:012}");
            // The garbage collector leaves such an object alone, so it would block.
            node.owners.iter_mut().filter(|_| foreground).for_each(|owner| owner.blocks_deletion = false);
            node.owners.push(OwnerReference { api_version, uid, ..refer(&self.nodes[0]) });
        }
        // A dependent elsewhere that cannot go would block, and what-if does not read that namespace.
        let may_hold = !(cluster || foreground && elsewhere);
        if may_hold && dice.once_in(if index == 0 { 10 } else { 7 }) {
            node.finalizers.push(HOLD.to_owned());
        }
        node
    }

    /// Creates an object, and adds it with its UID.
    fn add(&mut self, kube: &Kube, mut node: Node) {
        let created = kube.apply(&self.document(&node));
        node.uid = created["metadata"]["uid"].as_str().expect("a UID").to_owned();
        self.nodes.push(node);
    }

    fn document(&self, node: &Node) -> Value {
        let mut metadata = json!({"name": node.name, "finalizers": node.finalizers,
            "ownerReferences": node.owners.iter().map(reference).collect::<Vec<_>>()});
        if !node.namespace.is_empty() {
            metadata["namespace"] = json!(node.namespace);
        }
        json!({"apiVersion": api(node), "kind": node.kind, "metadata": metadata})
    }

    /// Deletes a few objects that have finalizers.
    fn begin_deletions(&mut self, kube: &Kube, dice: &mut Dice) {
        let anyway = self.anyway();
        for (index, node) in self.nodes.iter_mut().enumerate().skip(1) {
            if !node.finalizers.is_empty() && !anyway.contains(&index) && dice.once_in(5) {
                kube.delete(api(node), &node.kind, &node.namespace, &node.name);
                node.deleting = true;
            }
        }
    }

    /// Makes a few objects owners of objects that were created before them.
    fn close_cycles(&mut self, kube: &Kube, dice: &mut Dice) {
        let anyway = self.anyway();
        for _ in 0..2 {
            let (early, late) = (dice.roll(self.nodes.len()), dice.roll(self.nodes.len()));
            let [first, second] = [&self.nodes[early], &self.nodes[late]];
            let near = first.namespace == second.namespace && !first.namespace.is_empty();
            let known = first.owners.iter().any(|owner| owner.uid == second.uid);
            let unresolvable = first.owners.iter().any(|owner| owner.api_version.starts_with("nowhere"));
            if early >= late || !near || known || unresolvable || anyway.contains(&early) || anyway.contains(&late) {
                continue;
            }
            let mut owner = refer(second);
            owner.blocks_deletion = self.cascade == "foreground" || dice.once_in(2);
            let node = &mut self.nodes[early];
            node.owners.push(owner);
            let owners: Vec<Value> = node.owners.iter().map(reference).collect();
            kube.patch(
                api(node),
                &node.kind,
                &node.namespace,
                &node.name,
                &json!({"metadata": {"ownerReferences": owners}}),
            );
        }
    }

    /// The objects that the garbage collector deletes without any deletion.
    fn anyway(&self) -> BTreeSet<usize> {
        let prediction = self.graph().predict(&Request::default());
        prediction.anyway.into_iter().map(|id| id.index()).collect()
    }

    fn graph(&self) -> Graph {
        let facts = KINDS.map(|(api, kind)| KindFacts {
            group: group(api),
            kind: kind.to_owned(),
            resource: plural(kind),
            versions: vec!["v1".to_owned()],
            namespaced: kind != KINDS[CLUSTER_ROLE].1,
            complete: true,
            collected: true,
        });
        Graph::new(self.nodes.iter().cloned(), facts, Vec::new())
    }

    /// What should be left before the deletion.
    fn settled(&self) -> Expected {
        let anyway = self.anyway();
        let mut expected = Expected::new(self.seed);
        for (index, node) in self.nodes.iter().enumerate() {
            let set = match (anyway.contains(&index), node.finalizers.is_empty()) {
                (true, true) => &mut expected.gone,
                (true, false) => &mut expected.terminating,
                (false, _) if node.deleting => &mut expected.terminating,
                (false, _) => &mut expected.alive,
            };
            set.insert(node.uid.clone());
        }
        expected
    }

    /// The prediction of `loopwatch what-if` for the deletion of the first object.
    fn predict(&self) -> Value {
        let node = &self.nodes[0];
        let config = format!("--kubeconfig={}", bed().kube.kubeconfig.display());
        let arguments = ["what-if", "delete", &node.kind, &node.name, "-n", &node.namespace, "-o", "json", &config];
        let output = program(&format!("what-if.{}", self.seed), bed())
            .args(arguments.iter().copied())
            .arg(format!("--cascade={}", self.cascade))
            .run();
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        let prediction: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("graph {}: {error}: {text}{said}", self.seed));
        assert_eq!(prediction["at_least"], false, "graph {}: {}", self.seed, prediction["not_visible"]);
        let blocked = prediction["blocked_by"].as_array().is_some_and(|blockers| !blockers.is_empty());
        assert_eq!(output.status.code(), Some(i32::from(blocked)), "graph {}: {said}", self.seed);
        prediction
    }

    /// What should be left after the deletion, according to the prediction.
    fn after(&self, settled: &Expected, prediction: &Value) -> Expected {
        let mut expected = settled.clone();
        for object in prediction["deleted"].as_array().into_iter().flatten() {
            let uid = object["uid"].as_str().unwrap_or_default().to_owned();
            assert!(settled.alive.contains(&uid), "graph {}: {object} is not of this graph", self.seed);
            match object["fate"].as_str() {
                _ if object["depends_on_timing"] == true => {
                    _ = (expected.alive.remove(&uid), expected.either.insert(uid))
                }
                Some("removed") => _ = (expected.alive.remove(&uid), expected.gone.insert(uid)),
                Some("terminating") => _ = (expected.alive.remove(&uid), expected.terminating.insert(uid)),
                _ => {}
            }
        }
        expected
    }

    fn delete(&self, kube: &Kube) {
        let node = &self.nodes[0];
        let policy = match self.cascade {
            "background" => "Background",
            "foreground" => "Foreground",
            _ => "Orphan",
        };
        let path = path(api(node), &node.kind, &node.namespace, &node.name);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        kube.call("DELETE", &path, "application/json", Some(&options)).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Removes the finalizers and the namespaces.
    fn clean(&self, kube: &Kube) {
        for node in &self.nodes {
            let path = path(api(node), &node.kind, &node.namespace, &node.name);
            if !node.finalizers.is_empty() {
                let none = json!({"metadata": {"finalizers": null}});
                let _ = kube.call("PATCH", &path, "application/merge-patch+json", Some(&none)); // it may be gone
            }
            if node.namespace.is_empty() {
                kube.delete(api(node), &node.kind, "", &node.name);
            }
        }
        for namespace in self.namespaces() {
            kube.delete("v1", "Namespace", "", &namespace);
        }
    }
}

fn group(api: &str) -> String {
    api.split_once('/').map_or("", |(group, _)| group).to_owned()
}

fn api(node: &Node) -> &'static str {
    KINDS.iter().find(|(_, kind)| *kind == node.kind).map_or("", |(api, _)| api)
}

fn refer(owner: &Node) -> OwnerReference {
    OwnerReference {
        api_version: api(owner).to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        ..OwnerReference::default()
    }
}

fn reference(owner: &OwnerReference) -> Value {
    json!({"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
        "blockOwnerDeletion": owner.blocks_deletion})
}

// === impl Expected ===

impl Expected {
    fn new(seed: usize) -> Self {
        Self {
            seed,
            gone: BTreeSet::new(),
            terminating: BTreeSet::new(),
            either: BTreeSet::new(),
            alive: BTreeSet::new(),
        }
    }

    /// How the cluster differs from this.
    fn difference(&self, objects: &Objects) -> Option<String> {
        let wrong = |set: &BTreeSet<String>, right: Option<bool>| {
            set.iter().filter(|uid| objects.get(*uid).copied() != right).cloned().collect::<Vec<_>>()
        };
        let (gone, terminating, alive) =
            (wrong(&self.gone, None), wrong(&self.terminating, Some(true)), wrong(&self.alive, Some(false)));
        let kept: Vec<&String> = self.either.iter().filter(|uid| objects.get(*uid) == Some(&false)).collect();
        let fine = gone.is_empty() && terminating.is_empty() && kept.is_empty() && alive.is_empty();
        (!fine).then(|| {
            format!("graph {}: not gone {gone:?}, not terminating {terminating:?}, not deleted {kept:?}, not alive {alive:?}", self.seed)
        })
    }
}

/// A name that does not select one object is an error. A kind that the account may not list is named in the report.
fn errors_and_permissions() {
    let plane = bed();
    define(&plane.kube);
    let namespace = "what-if-tenant";
    plane.kube.namespace(namespace);
    service_account(&plane.kube, namespace);
    plane
        .kube
        .apply(&json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "tenant", "namespace": namespace},
        "rules": [{"apiGroups": ["", GROUP], "resources": ["configmaps", "knots"], "verbs": ["get", "list"]}]}));
    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": "tenant", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
    let knot = plane.kube.apply(&json!({"apiVersion": KINDS[3].0, "kind": "Knot",
        "metadata": {"namespace": namespace, "name": "web"}}));
    plane.kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace,
        "name": "child", "ownerReferences": [{"apiVersion": KINDS[3].0, "kind": "Knot", "name": "web",
        "uid": knot["metadata"]["uid"]}]}}));
    let kubeconfig = plane.kubeconfig_of("what-if.kubeconfig", &plane.url, namespace, ACCOUNT);
    let run = |arguments: &[&str]| {
        let output = program("what-if.tenant", plane)
            .arg("what-if")
            .args(arguments.iter().copied())
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .run();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for kind in ["knots", "knot", "kn", "Knot", "knots.graph.loopwatch.dev", "Knot.v1.graph.loopwatch.dev"] {
        let (code, out, err) = run(&["delete", kind, "web"]);
        assert_eq!(code, Some(0), "{kind}: {out}{err}");
        assert!(out.starts_with("CLEAR  deleting Knot.graph.loopwatch.dev what-if-tenant/web "), "{kind}: {out}");
        assert!(out.contains("deletes at least 2") && out.contains("└─ ConfigMap what-if-tenant/child"), "{out}");
        assert!(out.contains("- no permission to list: ") && out.contains(" Secret,"), "{out}");
    }
    for (arguments, expected) in [
        (&["delete", "kntos", "web"][..], "did you mean \"knots\"?"),
        (&["delete", "knot", "nobody"], "there is no Knot.graph.loopwatch.dev nobody in the namespace what-if-tenant"),
        (&["delete", "secret", "web"], "cannot read Secret web: HTTP 403"),
        (&["delete", "knot"], "KIND NAME"),
        (&["uninstall", "what-if-tenant/operator"], "cannot read the operator what-if-tenant/operator"),
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {err}");
        assert!(err.contains(expected) && err.trim().lines().count() == 1, "{arguments:?}: {err}");
    }
}

/// The prediction for an operator finds its account, roles and kinds, and the finalizers that it would leave behind.
fn uninstall() {
    let plane = bed();
    let (namespace, name) = ("what-if-shop", "what-if-operator");
    plane.kube.namespace(namespace);
    let labels = json!({"app": name});
    plane.kube.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"serviceAccountName": ACCOUNT,
        "containers": [{"name": "manager", "image": "registry.k8s.io/pause:3.10"}]}}}}));
    let finalizer = format!("{}/cleanup", group(ZOO));
    // No operator serves this namespace.
    plane.kube.apply(&json!({"apiVersion": ZOO, "kind": "Statusless", "metadata": {"namespace": namespace,
        "name": "web", "finalizers": [finalizer]}, "spec": {"size": 1, "image": "registry.k8s.io/pause:3.10"}}));
    let config = format!("--kubeconfig={}", plane.kube.kubeconfig.display());
    let output = program("what-if.uninstall", plane)
        .args(["what-if", "uninstall", "-o", "json", "--definitions", &config].iter().copied())
        .arg(format!("{NAMESPACE}/{name}"))
        .run();
    let said = String::from_utf8_lossy(&output.stderr);
    let prediction: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let mut targets: Vec<String> = objects_of(&prediction["targets"]);
    targets.retain(|target| !target.starts_with("CustomResourceDefinition"));
    targets.sort();
    assert_eq!(
        targets,
        [
            "ClusterRole /widget-operator",
            "ClusterRoleBinding /widget-operator",
            "Deployment zoo-system/what-if-operator",
            "Role zoo-system/widget-operator-leader-election",
            "RoleBinding zoo-system/widget-operator-leader-election",
            "ServiceAccount zoo-system/widget-operator",
        ]
    );
    let stranded = prediction["stranded_finalizers"].as_array().into_iter().flatten();
    let cleanup = stranded.into_iter().find(|stranded| stranded["finalizer"] == finalizer.as_str());
    let cleanup = cleanup.unwrap_or_else(|| panic!("{}", prediction["stranded_finalizers"]));
    assert!(objects_of(&cleanup["objects"]).contains(&"Statusless what-if-shop/web".to_owned()), "{cleanup}");
    let steps = prediction["better_order"].as_array().cloned().unwrap_or_default();
    let steps: Vec<&str> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    assert_eq!((steps[0], &steps[steps.len() - 2..]), ("delete", &["delete_targets", "delete_definitions"][..]));
    assert_eq!(prediction["at_least"], false, "{}", prediction["not_visible"]);
    let none = json!({"metadata": {"finalizers": null}});
    plane.kube.patch(ZOO, "Statusless", namespace, "web", &none);
    plane.kube.delete("v1", "Namespace", "", namespace);
    plane.kube.delete("apps/v1", "Deployment", NAMESPACE, name);
}

fn objects_of(list: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object =
        |object: &Value| format!("{} {}/{}", text(&object["kind"]), text(&object["namespace"]), text(&object["name"]));
    list.as_array().into_iter().flatten().map(object).collect()
}
