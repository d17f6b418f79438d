//! What a deletion takes with it. `tests/live/what_if.rs` compares the same rules with the real
//! garbage collector.

use loopwatch_model::cascade::{
    Cascade, Claim, Fate, Graph, KindFacts, Node, NodeId, Operator, Prediction, Reason, Request,
    Step,
};
use loopwatch_model::observation::OwnerReference;

use crate::lab::dice::Dice;

/// The kinds: `Widget` and `ConfigMap` in namespaces, `Namespace`, `Site` and definitions in the
/// cluster. loopwatch may not read `Hidden`.
fn kinds() -> Vec<KindFacts> {
    let kind = |group: &str, kind: &str, resource: &str, namespaced| KindFacts {
        group: group.to_owned(),
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        versions: vec!["v1".to_owned()],
        namespaced,
        complete: kind != "Hidden",
        collected: true,
    };
    vec![
        kind("example.io", "Widget", "widgets", true),
        kind("example.io", "Site", "sites", false),
        kind("", "ConfigMap", "configmaps", true),
        kind("", "Namespace", "namespaces", false),
        kind("example.io", "Hidden", "hiddens", true),
        kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        ),
    ]
}

/// Makes the node `Widget team-a/web`, or `Site web`. Its UID is the same text.
fn node(text: &str) -> Node {
    let (kind, place) = text.split_once(' ').expect("KIND [NAMESPACE/]NAME");
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let group = match kind {
        "ConfigMap" | "Namespace" => "",
        "CustomResourceDefinition" => "apiextensions.k8s.io",
        _ => "example.io",
    };
    let text = |text: &str| text.to_owned();

    Node {
        group: text(group),
        kind: text(kind),
        namespace: text(namespace),
        name: text(name),
        uid: format!("{kind} {place}"),
        ..Node::default()
    }
}

trait Build: Sized {
    fn of(self, owner: &str) -> Self;
    fn blocking(self, owner: &str) -> Self;
    fn held(self, finalizer: &str) -> Self;
}

impl Build for Node {
    fn of(mut self, owner: &str) -> Self {
        let node = node(owner);
        let api_version =
            if node.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", node.group) };
        let (kind, name, uid) = (node.kind, node.name, node.uid);

        self.owners.push(OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..OwnerReference::default()
        });

        self
    }

    fn blocking(self, owner: &str) -> Self {
        let mut node = self.of(owner);
        node.owners.last_mut().expect("an owner").blocks_deletion = true;
        node
    }

    fn held(mut self, finalizer: &str) -> Self {
        self.finalizers.push(finalizer.to_owned());
        self
    }
}

fn graph(nodes: &[Node]) -> Graph {
    Graph::new(nodes.iter().cloned(), kinds(), vec!["silent.io".to_owned()])
}

fn target(graph: &Graph, text: &str) -> NodeId {
    let Node { group, kind, namespace, name, .. } = node(text);
    graph.find(&group, &kind, &namespace, &name).expect(text)
}

fn delete(nodes: &[Node], text: &str, cascade: Cascade) -> (Graph, Prediction) {
    let graph = graph(nodes);
    let targets = vec![target(&graph, text)];
    let prediction = graph.predict(&Request { targets, cascade, operator: None });
    (graph, prediction)
}

fn names(graph: &Graph, ids: impl IntoIterator<Item = NodeId>) -> Vec<String> {
    ids.into_iter().map(|id| graph.node(id).name.clone()).collect()
}

fn taken(graph: &Graph, prediction: &Prediction, fate: Fate) -> Vec<String> {
    names(graph, prediction.taken.iter().filter(|taken| taken.fate == fate).map(|taken| taken.node))
}

fn lingering(graph: &Graph, prediction: &Prediction) -> Vec<String> {
    names(graph, prediction.lingering.iter().map(|blocker| blocker.node))
}

fn kept(graph: &Graph, prediction: &Prediction) -> Vec<(String, Reason)> {
    prediction.kept.iter().map(|kept| (graph.node(kept.node).name.clone(), kept.reason)).collect()
}

#[test]
fn dependents_go_with_their_last_owner() {
    let nodes = [
        node("Widget a/root"),
        node("ConfigMap a/child").of("Widget a/root"),
        node("ConfigMap a/grandchild").of("ConfigMap a/child"),
        node("Widget a/other"),
        node("ConfigMap a/shared").of("Widget a/root").of("Widget a/other"),
        node("ConfigMap a/twice").of("Widget a/root").of("ConfigMap a/child"),
        node("ConfigMap a/foreign"),
    ];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root", "child", "grandchild", "twice"]);

    let other = target(&graph, "Widget a/other");
    assert_eq!(kept(&graph, &prediction), [("shared".to_owned(), Reason::OtherOwner(other))]);
    assert!(
        prediction.blockers.is_empty()
            && prediction.steps.is_empty()
            && prediction.anyway.is_empty()
    );

    let because: Vec<Option<String>> = prediction
        .taken
        .iter()
        .map(|taken| taken.because.map(|because| graph.node(because).name.clone()))
        .collect();

    assert_eq!(because[..3], [None, Some("root".to_owned()), Some("child".to_owned())]);
}

#[test]
fn orphans_stay_and_lose_their_reference() {
    let nodes = [
        node("Widget a/root"),
        node("ConfigMap a/child").of("Widget a/root"),
        node("ConfigMap a/grandchild").of("ConfigMap a/child"),
    ];
    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Orphan);

    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root"]);
    assert_eq!(kept(&graph, &prediction), [("child".to_owned(), Reason::Orphaned)]);
}

#[test]
fn a_finalizer_stops_the_cascade_below_it() {
    let nodes = [
        node("Widget a/root"),
        node("Widget a/held").of("Widget a/root").held("example.io/cleanup"),
        node("ConfigMap a/below").of("Widget a/held"),
    ];
    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);

    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root"]);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["held"]);
    assert_eq!(taken(&graph, &prediction, Fate::Waiting), ["below"]);

    let held = target(&graph, "Widget a/held");
    assert_eq!(prediction.blockers.len(), 1);
    assert_eq!(
        (prediction.blockers[0].node, &prediction.blockers[0].finalizers[..]),
        (held, &["example.io/cleanup".to_owned()][..])
    );
    assert_eq!(prediction.steps, [Step::Delete(vec![held]), Step::Targets]);

    // Kubernetes removes its own finalizers.
    let mut nodes = nodes;
    nodes[1].finalizers = vec!["kubernetes.io/pvc-protection".to_owned()];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root", "held", "below"]);
}

#[test]
fn a_foreground_deletion_waits_only_for_blocking_dependents() {
    let nodes = |blocking: bool| {
        let leaf = node("ConfigMap a/leaf").held("example.io/cleanup");
        let leaf = if blocking {
            leaf.blocking("ConfigMap a/child")
        } else {
            leaf.of("ConfigMap a/child")
        };

        [node("Widget a/root"), node("ConfigMap a/child").blocking("Widget a/root"), leaf]
    };

    let (graph, prediction) = delete(&nodes(true), "Widget a/root", Cascade::Foreground);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["root", "child", "leaf"]);

    let waits: Vec<_> = prediction
        .blockers
        .iter()
        .map(|blocker| names(&graph, blocker.waits_for.clone()))
        .collect();

    assert_eq!(waits, [vec!["child"], vec!["leaf"], vec![]]);

    let (graph, prediction) = delete(&nodes(false), "Widget a/root", Cascade::Foreground);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["leaf"]);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root", "child"]);
}

#[test]
fn timing_decides_which_owners_a_dependent_blocks() {
    let nodes = [
        node("Widget a/root"),
        node("ConfigMap a/left").blocking("Widget a/root"),
        node("ConfigMap a/right").blocking("Widget a/root"),
        node("ConfigMap a/above").blocking("Widget a/root"),
        node("ConfigMap a/single").blocking("ConfigMap a/above"),
        node("ConfigMap a/shared").blocking("ConfigMap a/left").blocking("ConfigMap a/right"),
        node("ConfigMap a/held").blocking("ConfigMap a/shared").held("example.io/cleanup"),
        node("ConfigMap a/held-too").blocking("ConfigMap a/single").held("example.io/cleanup"),
    ];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Foreground);
    let unsure =
        prediction.taken.iter().filter(|taken| taken.depends_on_timing).map(|taken| taken.node);

    assert_eq!(names(&graph, unsure), ["left", "right"]);

    let (_, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert!(!prediction.taken.iter().any(|taken| taken.depends_on_timing));
}

#[test]
fn a_dependent_that_is_already_being_deleted_blocks_too() {
    let mut leaf = node("ConfigMap a/leaf").blocking("Widget a/root").held("example.io/cleanup");
    leaf.deleting = true;

    let (graph, prediction) =
        delete(&[node("Widget a/root"), leaf], "Widget a/root", Cascade::Foreground);

    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["root"]);

    let leaf = target(&graph, "ConfigMap a/leaf");
    assert_eq!(
        prediction.blockers.iter().map(|blocker| blocker.node).collect::<Vec<_>>(),
        [NodeId(0), leaf]
    );
    assert_eq!(prediction.steps, [Step::Wait(vec![leaf]), Step::Targets]);
}

#[test]
fn objects_below_one_that_is_being_deleted_go_without_this_deletion() {
    let mut held = node("Widget a/held").of("Widget a/root").held("example.io/cleanup");
    held.deleting = true;

    let nodes = [
        node("Widget a/root"),
        held,
        node("ConfigMap a/below").of("Widget a/held"),
        node("ConfigMap a/both").of("Widget a/held").of("Widget a/root"),
    ];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root"]);
    assert_eq!(taken(&graph, &prediction, Fate::Waiting), ["both"]);
    assert!(prediction.blockers.is_empty() && prediction.anyway.is_empty());
    assert_eq!(lingering(&graph, &prediction), ["held"]);
}

/// Both propagation policies leave something in deletion. Only with foreground, and only if the
/// reference blocks, the target is part of it.
#[test]
fn a_dependent_that_hangs_in_deletion_already_stays() {
    let hanging = |node: Node| Node { deleting: true, ..node.held("example.io/cleanup") };
    let nodes = [
        node("Widget a/root"),
        hanging(node("ConfigMap a/held").blocking("Widget a/root")),
        hanging(node("ConfigMap a/below").of("ConfigMap a/held")),
        hanging(node("ConfigMap a/elsewhere")),
        Node { deleting: true, ..node("ConfigMap a/ends").of("Widget a/root") },
    ];
    let steps = |graph: &Graph, names: &[&str]| {
        let nodes = names.iter().map(|name| target(graph, &format!("ConfigMap a/{name}")));
        [Step::Wait(nodes.collect()), Step::Targets]
    };

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root"]);
    assert!(prediction.blockers.is_empty());
    assert_eq!(lingering(&graph, &prediction), ["held", "below"]);
    assert_eq!(prediction.lingering[0].finalizers, ["example.io/cleanup"]);
    assert_eq!(prediction.steps, steps(&graph, &["held", "below"]));

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Foreground);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["root"]);
    let blockers = prediction.blockers.iter().map(|blocker| blocker.node);
    assert_eq!(names(&graph, blockers), ["root", "held"]);
}

#[test]
fn a_finalizer_of_kubernetes_that_is_still_there_after_a_deletion_began_stops_it() {
    const PROTECTION: &str = "kubernetes.io/pvc-protection";
    let web = || node("Widget a/web");
    let mut claim = node("ConfigMap a/claim").blocking("Widget a/web").held(PROTECTION);

    let (graph, prediction) = delete(&[web(), claim.clone()], "Widget a/web", Cascade::Foreground);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["web", "claim"]);
    let [expected] = &prediction.expected[..] else { panic!("{:?}", prediction.expected) };
    assert_eq!(expected.finalizer, PROTECTION);
    assert_eq!(names(&graph, expected.nodes.clone()), ["claim"]);

    claim.deleting = true;
    let (graph, prediction) = delete(&[web(), claim.clone()], "Widget a/web", Cascade::Foreground);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["web"]);
    let blockers: Vec<_> = prediction.blockers.iter().map(|it| it.finalizers.len()).collect();
    assert_eq!(blockers, [0, 1], "the claim, and the widget that waits for it");
    assert_eq!(prediction.expected, []);

    let (graph, prediction) = delete(&[web(), claim.clone()], "Widget a/web", Cascade::Background);
    assert_eq!(lingering(&graph, &prediction), ["claim"]);

    let (graph, prediction) = delete(&[web(), claim], "ConfigMap a/claim", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["claim"]);
}

#[test]
fn a_namespace_that_something_else_keeps_is_a_blocker() {
    let why = "the API server of metrics.k8s.io does not respond".to_owned();
    let nodes = [Node { kept_by: vec![why], ..node("Namespace a") }, node("ConfigMap a/config")];
    let (graph, prediction) = delete(&nodes, "Namespace a", Cascade::Background);

    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["a"]);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["config"]);
    assert_eq!(prediction.blockers.len(), 1);
}

/// The API server then removes the finalizer of the foreground deletion.
#[test]
fn a_background_deletion_ends_a_foreground_deletion_at_once() {
    let dying = Node { deleting: true, ..node("Widget a/web").held("foregroundDeletion") };
    let held = node("ConfigMap a/held").blocking("Widget a/web").held("example.io/cleanup");
    let held = Node { deleting: true, ..held };
    let (graph, prediction) = delete(&[dying, held], "Widget a/web", Cascade::Background);

    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["web"]);
    assert!(!prediction.taken[0].depends_on_timing);
    assert!(prediction.blockers.is_empty());
}

/// Somebody who wants to remove the finalizer asks what goes with the object.
#[test]
fn the_dependents_of_a_target_that_is_being_deleted_already_go_later() {
    let dying = Node { deleting: true, ..node("Widget team-a/web").held("example.io/x") };
    let nodes = [dying, node("ConfigMap team-a/web-config").of("Widget team-a/web")];
    let (graph, prediction) = delete(&nodes, "Widget team-a/web", Cascade::Background);

    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["web"]);
    assert_eq!(taken(&graph, &prediction, Fate::Waiting), ["web-config"]);
    assert!(prediction.anyway.is_empty());
}

#[test]
fn objects_with_an_invalid_owner_go_anyway_and_unresolvable_ones_stay() {
    let unserved = {
        let mut node = node("ConfigMap a/unserved").of("Widget a/root");
        node.owners[0].api_version = "example.io/v1beta1".to_owned();
        node
    };
    let renamed = {
        let mut node = node("ConfigMap a/renamed").of("Widget a/root");
        node.owners[0].name = "other".to_owned();
        node
    };

    let nodes = [
        node("Widget a/root"),
        node("ConfigMap b/elsewhere").of("Widget a/root"),
        node("ConfigMap b/below").of("ConfigMap b/elsewhere"),
        node("ConfigMap a/absent").of("Widget a/never"),
        renamed,
        unserved,
        node("Site cluster").of("Widget a/root"),
        node("ConfigMap a/hidden").of("Hidden a/owner"),
        node("ConfigMap a/both").of("Widget a/root").of("Hidden a/owner"),
    ];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Background);
    assert_eq!(
        names(&graph, prediction.anyway.iter().copied()),
        ["elsewhere", "below", "absent", "renamed"]
    );
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root"]);

    let expected = [
        ("unserved", Reason::Unresolvable),
        ("cluster", Reason::Unresolvable),
        ("both", Reason::UnknownOwner),
    ];

    assert_eq!(kept(&graph, &prediction), expected.map(|(name, reason)| (name.to_owned(), reason)));

    // An owner of a group whose API server does not respond may exist.
    let mut silent = node("ConfigMap a/silent").of("Widget a/root");
    silent.owners[0].api_version = "silent.io/v1".to_owned();

    let (_, prediction) =
        delete(&[node("Widget a/root"), silent], "Widget a/root", Cascade::Background);

    assert_eq!((prediction.anyway.len(), prediction.taken.len()), (0, 1));
}

#[test]
fn a_kind_in_lower_case_names_the_owner_as_the_garbage_collector_resolves_it() {
    for (kind, is_taken) in [("widget", true), ("wIDGET", false)] {
        let mut child = node("ConfigMap a/child").of("Widget a/root");
        child.owners[0].kind = kind.to_owned();
        let (graph, prediction) =
            delete(&[node("Widget a/root"), child], "Widget a/root", Cascade::Background);

        let removed = taken(&graph, &prediction, Fate::Removed);
        assert_eq!(removed.contains(&"child".to_owned()), is_taken, "{removed:?}");
        assert_eq!(kept(&graph, &prediction).is_empty(), is_taken);
    }
}

#[test]
fn an_unresolvable_dependent_blocks_a_foreground_deletion_for_ever() {
    let nodes = [node("Widget a/root"), node("Site cluster").blocking("Widget a/root")];
    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Foreground);

    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["root"]);
    assert_eq!(names(&graph, prediction.blockers[0].waits_for.clone()), ["cluster"]);
}

#[test]
fn a_namespace_takes_its_objects_and_waits_for_their_finalizers() {
    let nodes = [
        node("Namespace a"),
        node("Widget a/free"),
        node("Widget a/held").held("example.io/cleanup"),
        node("Site cluster").of("Namespace a"),
        node("Widget b/other"),
    ];

    let (graph, prediction) = delete(&nodes, "Namespace a", Cascade::Background);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["free"]);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["a", "held"]);
    assert_eq!(taken(&graph, &prediction, Fate::Waiting), ["cluster"]);

    let held = target(&graph, "Widget a/held");
    assert_eq!(prediction.blockers[0].waits_for, [held]);
    assert_eq!(prediction.steps, [Step::Delete(vec![held]), Step::Targets]);
}

#[test]
fn a_definition_takes_all_instances_and_their_dependents() {
    let nodes = [
        node("CustomResourceDefinition widgets.example.io"),
        node("Widget a/one"),
        node("Widget b/two"),
        node("ConfigMap b/child").of("Widget b/two"),
        node("Site cluster"),
    ];

    let (graph, prediction) =
        delete(&nodes, "CustomResourceDefinition widgets.example.io", Cascade::Background);
    let all = ["widgets.example.io", "one", "two", "child"];

    assert_eq!(taken(&graph, &prediction, Fate::Removed), all);
    assert_eq!(prediction.steps.len(), 2, "the instances first: {:?}", prediction.steps);
}

#[test]
fn an_uninstalled_operator_strands_its_finalizers() {
    let nodes = [
        node("ConfigMap system/operator"),
        node("CustomResourceDefinition widgets.example.io")
            .held("customresourcecleanup.apiextensions.k8s.io"),
        node("Widget a/plain"),
        node("Widget a/held").held("example.io/cleanup").held("backup.other.dev/keep"),
        node("ConfigMap a/child").of("Widget a/held"),
        node("ConfigMap a/claimed").held("example.io/cleanup"),
        node("ConfigMap a/foreign").held("backup.other.dev/keep"),
    ];

    let graph = graph(&nodes);
    let operator = |definitions| Operator {
        primaries: vec![("example.io".to_owned(), "Widget".to_owned())],
        definitions,
    };
    let program = target(&graph, "ConfigMap system/operator");
    let definition = target(&graph, "CustomResourceDefinition widgets.example.io");
    let request = Request {
        targets: vec![program],
        cascade: Cascade::Background,
        operator: Some(operator(false)),
    };

    let prediction = graph.predict(&request);
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["operator"]);

    let stranded: Vec<_> = prediction
        .stranded
        .iter()
        .map(|stranded| {
            (stranded.finalizer.as_str(), stranded.claim, names(&graph, stranded.nodes.clone()))
        })
        .collect();

    assert_eq!(
        stranded,
        [
            ("example.io/cleanup", Claim::Domain, vec!["held".to_owned(), "claimed".to_owned()]),
            ("backup.other.dev/keep", Claim::Possible, vec!["held".to_owned()])
        ]
    );

    let (held, claimed) = (target(&graph, "Widget a/held"), target(&graph, "ConfigMap a/claimed"));
    assert_eq!(
        prediction.steps,
        [Step::Delete(vec![held]), Step::Delete(vec![claimed]), Step::Targets]
    );

    let targets = vec![program, definition];
    let request = Request { targets, cascade: Cascade::Background, operator: Some(operator(true)) };
    let prediction = graph.predict(&request);

    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["operator", "plain"]);
    assert_eq!(taken(&graph, &prediction, Fate::Terminating), ["widgets.example.io", "held"]);
    assert!(
        taken(&graph, &prediction, Fate::Waiting).is_empty(),
        "nobody removes the finalizer, so the child stays"
    );

    let plain = target(&graph, "Widget a/plain");
    let first = Step::Delete(vec![plain, held]);
    let steps =
        [first, Step::Delete(vec![claimed]), Step::Targets, Step::Definitions(vec![definition])];

    assert_eq!(prediction.steps, steps);
}

#[test]
fn cycles_of_any_length_end() {
    for length in [1, 2, 1000] {
        let name = |index: usize| format!("ConfigMap a/{}", index % length);
        for cascade in [Cascade::Background, Cascade::Foreground, Cascade::Orphan] {
            for blocking in [true, false] {
                let nodes: Vec<Node> = (0..length)
                    .map(|index| match blocking {
                        true => node(&name(index)).blocking(&name(index + 1)),
                        false => node(&name(index)).of(&name(index + 1)),
                    })
                    .collect();

                let (graph, prediction) = delete(&nodes, "ConfigMap a/0", cascade);
                let removed = taken(&graph, &prediction, Fate::Removed).len();
                let expected = match cascade {
                    Cascade::Orphan => 1,
                    // The garbage collector makes the references of a cycle non-blocking when it
                    // meets an object of it for the second time. An object that owns itself is met
                    // only once.
                    Cascade::Foreground if blocking && length == 1 => 0,
                    Cascade::Background | Cascade::Foreground => length,
                };

                assert_eq!(removed, expected, "{length} {cascade:?} {blocking}");
                assert!(prediction.anyway.is_empty());
            }
        }
    }
}

#[test]
fn thousands_of_owners_and_deep_chains_are_cheap() {
    let owner = |index: usize| format!("ConfigMap a/o{index}");
    let mut nodes = vec![node("Widget a/root")];
    let mut many = node("ConfigMap a/many");

    for index in 0..10_000 {
        // A chain, each of whose objects also owns the last one.
        let above = if index == 0 { "Widget a/root".to_owned() } else { owner(index - 1) };
        nodes.push(node(&owner(index)).blocking(&above));
        many = many.blocking(&owner(index));
    }

    nodes.push(many);
    for cascade in [Cascade::Background, Cascade::Foreground] {
        let (graph, prediction) = delete(&nodes, "Widget a/root", cascade);
        assert_eq!(taken(&graph, &prediction, Fate::Removed).len(), 10_002, "{cascade:?}");
    }
}

#[test]
fn empty_fields_and_repeated_uids_are_survived() {
    let nameless = Node { owners: vec![OwnerReference::default(); 3], ..Node::default() };
    let mut twin = node("ConfigMap a/twin");
    twin.uid = "Widget a/root".to_owned();

    let nodes = [
        node("Widget a/root"),
        nameless.clone(),
        nameless,
        twin,
        node("ConfigMap a/child").of("Widget a/root"),
    ];

    let (graph, prediction) = delete(&nodes, "Widget a/root", Cascade::Foreground);
    assert_eq!(graph.len(), 4, "the second object with a UID is the same object");
    assert_eq!(taken(&graph, &prediction, Fate::Removed), ["root", "child"]);
    assert!(Graph::new([], [], Vec::new()).predict(&Request::default()).taken.is_empty());
}

/// Arbitrary graphs, with every flag and mistake. The counts of the simulation never go below zero,
/// which would panic.
#[test]
fn arbitrary_graphs_end_and_the_sets_are_disjoint() {
    for seed in 1..=3_000 {
        let mut dice = Dice(seed * 7919);
        let size = 1 + dice.roll(9) as usize;
        let text = |index: usize, dice: &mut Dice| match dice.roll(8) {
            0 => format!("Site s{index}"),
            1 => format!("Widget b/w{index}"),
            2 => "Namespace a".to_owned(),
            3 => "CustomResourceDefinition widgets.example.io".to_owned(),
            4 | 5 => format!("Widget a/w{index}"),
            _ => format!("ConfigMap a/c{index}"),
        };

        let texts: Vec<String> = (0..size).map(|index| text(index, &mut dice)).collect();
        let nodes: Vec<Node> = texts
            .iter()
            .map(|text| {
                let mut node = node(text);
                for _ in 0..dice.roll(4) {
                    let owner = &texts[dice.roll(size as u64) as usize];
                    node = if dice.roll(2) == 0 { node.blocking(owner) } else { node.of(owner) };
                    if dice.roll(12) == 0 {
                        node.owners.last_mut().expect("an owner").uid = "no such".to_owned();
                    }

                    if dice.roll(12) == 0 {
                        node.owners.last_mut().expect("an owner").api_version =
                            "no/such".to_owned();
                    }
                }

                for (finalizer, sides) in
                    [("example.io/f", 5), ("foregroundDeletion", 9), ("orphan", 9)]
                {
                    node = if dice.roll(sides) == 0 { node.held(finalizer) } else { node };
                }

                node.deleting = dice.roll(6) == 0;
                node
            })
            .collect();

        let graph = graph(&nodes);
        let targets: Vec<NodeId> = graph.ids().filter(|_| dice.roll(3) == 0).collect();
        let cascade =
            [Cascade::Background, Cascade::Foreground, Cascade::Orphan][dice.roll(3) as usize];
        let primaries = vec![("example.io".to_owned(), "Widget".to_owned())];
        let operator = (dice.roll(2) == 0).then_some(Operator { primaries, definitions: true });
        let prediction = graph.predict(&Request { targets, cascade, operator });

        for kept in &prediction.kept {
            assert!(
                !prediction.taken.iter().any(|taken| taken.node == kept.node),
                "seed {seed}: {prediction:?}"
            );
        }

        for anyway in &prediction.anyway {
            assert!(
                !prediction.taken.iter().any(|taken| taken.node == *anyway),
                "seed {seed}: {prediction:?}"
            );
        }

        // Following the causes leads to a target.
        for taken in &prediction.taken {
            let mut because = taken.because;
            for _ in 0..=size {
                because = because.and_then(|node| {
                    prediction.taken.iter().find(|other| other.node == node)?.because
                });
            }

            assert_eq!(because, None, "seed {seed}: {prediction:?}");
        }
    }
}
