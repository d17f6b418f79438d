//! Random graphs of objects with owner references, and what should be left of them.

use std::collections::BTreeSet;

use loopwatch_model::cascade::{Graph, KindFacts, Node, Request};
use loopwatch_model::observation::OwnerReference;
use serde_json::{Value, json};

use super::{KINDS, Objects, group};
use crate::bed::bed;
use loopwatch_testbed::kube::{Kube, path, plural};
use loopwatch_testbed::sidecar::program;

/// One random graph. The first object is the one to delete.
pub(super) struct Web {
    seed: usize,
    cascade: &'static str,
    nodes: Vec<Node>,
}

/// What should be left of a graph.
#[derive(Clone)]
pub(super) struct Expected {
    seed: usize,
    pub(super) gone: BTreeSet<String>,
    terminating: BTreeSet<String>,
    /// Objects that the garbage collector may delete or keep, depending on timing.
    pub(super) either: BTreeSet<String>,
    alive: BTreeSet<String>,
}

/// Random numbers, the same for each seed: xorshift64*.
struct Dice(u64);

/// The finalizer that nobody removes.
const HOLD: &str = "graph.loopwatch.dev/hold";
/// The position of the cluster-scoped kind in the table of kinds.
const CLUSTER_ROLE: usize = 4;
/// The propagation policies, as words of kubectl.
const CASCADES: [&str; 3] = ["background", "foreground", "orphan"];

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides as u64)
            .unwrap_or(0)
    }

    fn once_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

impl Web {
    /// Creates a graph: each object with up to three of the earlier ones as owners, some in the
    /// other namespace, some with finalizers, some with an owner that does not exist; then deletes
    /// some of them, and closes some cycles.
    pub(super) fn create(kube: &Kube, seed: usize) -> Self {
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

    /// Invents the next object. In foreground deletions, references block: when an object with a
    /// finalizer waits for nothing, it depends on the timing whether the garbage collector still
    /// deletes its other dependents.
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
            let near: Vec<&Node> =
                self.nodes.iter().filter(|other| other.namespace == node.namespace).collect();
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
            node.owners
                .iter_mut()
                .filter(|_| foreground)
                .for_each(|owner| owner.blocks_deletion = false);
            node.owners.push(OwnerReference { api_version, uid, ..refer(&self.nodes[0]) });
        }

        // A dependent elsewhere that cannot go would block, and what-if does not read that
        // namespace.
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
            let unresolvable =
                first.owners.iter().any(|owner| owner.api_version.starts_with("nowhere"));

            if early >= late
                || !near
                || known
                || unresolvable
                || anyway.contains(&early)
                || anyway.contains(&late)
            {
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

    /// The objects that the garbage collector deletes even without the deletion.
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
    pub(super) fn settled(&self) -> Expected {
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
    pub(super) fn predict(&self) -> Value {
        let node = &self.nodes[0];
        let config = format!("--kubeconfig={}", bed().kube.kubeconfig.display());
        let arguments = [
            "what-if",
            "delete",
            &node.kind,
            &node.name,
            "-n",
            &node.namespace,
            "-o",
            "json",
            &config,
        ];

        let output = program(&format!("what-if.{}", self.seed), bed())
            .args(arguments.iter().copied())
            .arg(format!("--cascade={}", self.cascade))
            .run();
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        let prediction: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("graph {}: {error}: {text}{said}", self.seed));

        assert_eq!(
            prediction["at_least"], false,
            "graph {}: {}",
            self.seed, prediction["not_visible"]
        );

        // An object that was already in deletion, and stays there, is left like a blocked one.
        let has = |list: &str| prediction[list].as_array().is_some_and(|list| !list.is_empty());
        let blocked = has("blocked_by") || has("lingering");

        assert_eq!(output.status.code(), Some(i32::from(blocked)), "graph {}: {said}", self.seed);

        prediction
    }

    /// What should be left after the deletion, according to the prediction.
    pub(super) fn after(&self, settled: &Expected, prediction: &Value) -> Expected {
        let mut expected = settled.clone();
        for object in prediction["deleted"].as_array().into_iter().flatten() {
            let uid = object["uid"].as_str().unwrap_or_default().to_owned();
            assert!(
                settled.alive.contains(&uid),
                "graph {}: {object} is not of this graph",
                self.seed
            );

            match object["fate"].as_str() {
                _ if object["depends_on_timing"] == true => {
                    _ = (expected.alive.remove(&uid), expected.either.insert(uid))
                }
                Some("removed") => _ = (expected.alive.remove(&uid), expected.gone.insert(uid)),
                Some("terminating") => {
                    _ = (expected.alive.remove(&uid), expected.terminating.insert(uid))
                }
                _ => {}
            }
        }

        expected
    }

    pub(super) fn delete(&self, kube: &Kube) {
        let node = &self.nodes[0];
        let policy = match self.cascade {
            "background" => "Background",
            "foreground" => "Foreground",
            _ => "Orphan",
        };
        let path = path(api(node), &node.kind, &node.namespace, &node.name);
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});

        kube.call("DELETE", &path, "application/json", Some(&options))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Removes the finalizers and the namespaces.
    pub(super) fn clean(&self, kube: &Kube) {
        for node in &self.nodes {
            let path = path(api(node), &node.kind, &node.namespace, &node.name);
            if !node.finalizers.is_empty() {
                let none = json!({"metadata": {"finalizers": null}});
                // It may be gone.
                let _ = kube.call("PATCH", &path, "application/merge-patch+json", Some(&none));
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
    pub(super) fn difference(&self, objects: &Objects) -> Option<String> {
        let wrong = |set: &BTreeSet<String>, right: Option<bool>| {
            set.iter()
                .filter(|uid| objects.get(*uid).copied() != right)
                .cloned()
                .collect::<Vec<_>>()
        };

        let (gone, terminating, alive) = (
            wrong(&self.gone, None),
            wrong(&self.terminating, Some(true)),
            wrong(&self.alive, Some(false)),
        );
        let kept: Vec<&String> =
            self.either.iter().filter(|uid| objects.get(*uid) == Some(&false)).collect();
        let fine = gone.is_empty() && terminating.is_empty() && kept.is_empty() && alive.is_empty();

        (!fine).then(|| {
            format!("graph {}: not gone {gone:?}, not terminating {terminating:?}, not deleted {kept:?}, not alive {alive:?}", self.seed)
        })
    }
}
