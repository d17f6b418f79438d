use loopwatch_testbed::standin::{
    CONFIG_MAP, POD, Reply, Script, ServedKind, THING, WIDGET, World,
};
use serde_json::{Value, json};

use super::closeup::CloseUp;
use loopwatch_model::cascade::Node;
use loopwatch_model::observation::{Cause, ObjectAddress, Scope};

use super::graph::*;
use super::installation::Installation;
use super::kind_names::{KindNameError, kind_name, kind_named};
use super::listing::{self, ObjectBudget};
use crate::sources::api_server::{ApiKind, ApiResources, OperatorName};
use crate::sources::decoding::HashKey;
use crate::sources::testing::InProcess as _;

fn kind(group: &str, kind: &str, resource: &str, short: &[&str]) -> ApiKind {
    ApiKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        versions: vec!["v1".to_owned()],
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        singular: kind.to_lowercase(),
        short_names: short.iter().map(|name| (*name).to_owned()).collect(),
        namespaced: true,
        watchable: true,
        deletable: true,
        has_status: true,
    }
}

#[test]
fn kinds_have_the_names_that_kubectl_accepts() {
    let review =
        ApiKind { deletable: false, ..kind("authorization.k8s.io", "Widget", "widgets", &[]) };
    let resources: ApiResources = [
        kind("", "Pod", "pods", &["po"]),
        kind("metrics.example.io", "Pod", "pods", &["po"]),
        kind("apps", "Deployment", "deployments", &["deploy"]),
        kind("example.io", "Widget", "widgets", &["wd", "deployment"]),
        kind("a.io", "Gadget", "gadgets", &[]),
        kind("b.io", "Gadget", "gadgets", &[]),
        review,
    ]
    .into_iter()
    .collect();

    for (text, expected) in [
        ("widgets", "Widget.example.io"),
        ("widget", "Widget.example.io"),
        ("WIDGET", "Widget.example.io"),
        ("wd", "Widget.example.io"),
        ("widgets.example.io", "Widget.example.io"),
        ("wd.example.io", "Widget.example.io"),
        ("widgets.v1.example.io", "Widget.example.io"),
        ("example.io/Widget", "Widget.example.io"),
        ("deployment", "Deployment.apps"),
        ("deploy", "Deployment.apps"),
        ("po", "Pod"),
        ("pods.v1", "Pod"),
        ("pods.metrics.example.io", "Pod.metrics.example.io"),
        ("gadgets.b.io", "Gadget.b.io"),
    ] {
        assert_eq!(kind_named(&resources, text).map(kind_name), Ok(expected.to_owned()), "{text}");
    }

    for (text, expected) in [
        ("widgts", "the API server serves no kind \"widgts\"; did you mean \"widgets\"?"),
        (
            "wodgets.example.io",
            "the API server serves no kind \"wodgets.example.io\"; did you mean \"widgets.example.io\"?",
        ),
        ("zzz", "the API server serves no kind \"zzz\""),
        ("", "the API server serves no kind \"\""),
        ("widgets.other.io", "the API server serves no kind \"widgets.other.io\"; did you mean"),
        ("gadget", "\"gadget\" names several kinds; use one of gadgets.a.io, gadgets.b.io"),
    ] {
        let error = kind_named(&resources, text).expect_err(text);
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
        assert_eq!(matches!(error, KindNameError::Ambiguous { .. }), text == "gadget");
    }
}

fn object(namespace: &str, name: &str, owner: Value) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"),
        "finalizers": null, "ownerReferences": owner } })
}

fn owned(kind: &str, api: &str) -> Value {
    json!([{ "apiVersion": api, "kind": kind, "name": "o", "uid": "u", "blockOwnerDeletion": true, "controller": null }])
}

async fn read(world: &World, scope: &Scope) -> OwnershipGraph {
    let cluster = world.cluster();
    let resources = ApiResources::read(&cluster).await.expect("discovery");
    OwnershipGraph::read(&cluster, &resources, scope, "home", |_| {}).await
}

fn names(graph: &OwnershipGraph) -> Vec<String> {
    graph
        .nodes
        .iter()
        .map(|node| format!("{} {}/{}", node.kind, node.namespace, node.name))
        .collect()
}

fn is_complete(graph: &OwnershipGraph, kind: &str) -> bool {
    graph.kinds.iter().any(|facts| facts.kind == kind && facts.complete)
}

#[tokio::test(start_paused = true)]
async fn all_kinds_are_read_in_pages_and_denied_ones_are_named() {
    let world = World::new(&[WIDGET, CONFIG_MAP, POD, THING])
        .allow("", &["list"], "example.io", &["widgets"])
        .allow("", &["list"], "other.io", &["things"])
        .allow("home", &["list"], "", &["configmaps"]);
    let widgets = (0..250)
        .map(|index| object("a", &format!("w{index:03}"), owned("Thing", "other.io/v1")))
        .collect();

    world.change(|state| {
        state.objects.insert("widgets", widgets);
        state.objects.insert(
            "configmaps",
            vec![object("home", "c", json!(null)), object("a", "c", json!([]))],
        );
        state.objects.insert("things", vec![object("", "t", json!(null))]);
    });

    let graph = read(&world, &Scope::AllNamespaces).await;
    assert_eq!(graph.nodes.len(), 252, "{:?}", names(&graph));
    assert_eq!(names(&graph)[..2], ["ConfigMap home/c".to_owned(), "Widget a/w000".to_owned()]);
    assert!(graph.nodes[1].owners[0].blocks_deletion && !graph.nodes[1].owners[0].controller);

    let left_out: Vec<String> =
        graph.left_out.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    let expected =
        ["ConfigMap: permission to list only in the namespace home", "Pod: no permission to list"];

    assert_eq!(left_out, expected);

    let mut graph = graph;
    let named = |kind: &str, group: &str| ObjectAddress {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: "a".to_owned(),
        name: "new".to_owned(),
    };

    graph.ensure(&named("Pod", ""), None);
    graph.ensure(&named("Pod", ""), Some(Node::default()));

    assert_eq!(graph.nodes.len(), 253, "it may exist, because no list shows it");

    graph.ensure(&named("Widget", "example.io"), None);
    assert_eq!(graph.nodes.len(), 253, "it does not exist");
    assert_eq!(
        ["Widget", "Thing", "Pod", "ConfigMap"].map(|kind| is_complete(&graph, kind)),
        [true, true, false, false]
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_after_discovery_is_no_gap() {
    let moved: ServedKind = ("other.io", "v2", "Thing", "things", false, true);
    let widget = |graph: &OwnershipGraph| graph.kinds.iter().any(|facts| facts.kind == "Widget");

    for (later, names_of_nodes, left_out) in [
        (vec![WIDGET, THING], vec!["Widget a/w", "Thing /t"], vec![]),
        (vec![THING], vec!["Thing /t"], vec![]),
        (vec![WIDGET, moved], vec!["Widget a/w", "Thing /t"], vec![]),
    ] {
        let world = World::new(&[WIDGET, THING]).allow("", &["list"], "*", &["*"]);
        world.change(|state| {
            state.objects.insert("widgets", vec![object("a", "w", json!(null))]);
            state.objects.insert("things", vec![object("", "t", json!(null))]);
        });

        let cluster = world.cluster();
        let resources = ApiResources::read(&cluster).await.expect("discovery");
        world.change(|state| state.kinds = later.clone());
        let graph =
            OwnershipGraph::read(&cluster, &resources, &Scope::AllNamespaces, "home", |_| {}).await;

        assert_eq!(names(&graph), names_of_nodes, "{later:?}");
        assert_eq!(graph.left_out, left_out, "{later:?}");
        assert_eq!(widget(&graph), later.contains(&WIDGET), "{later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_namespace_needs_only_the_cluster_scoped_kinds_of_its_owners() {
    for (owner, things) in [("Thing", true), ("Widget", false)] {
        let world = World::new(&[WIDGET, THING])
            .allow("a", &["list"], "example.io", &["widgets"])
            .allow("", &["list"], "other.io", &["things"]);
        world.change(|state| {
            let owner = owned(owner, if things { "other.io/v1" } else { "example.io/v1" });
            state
                .objects
                .insert("widgets", vec![object("a", "w", owner), object("b", "w", json!(null))]);
            state.objects.insert("things", vec![object("", "t", json!(null))]);
        });

        let graph = read(&world, &Scope::Namespace("a".to_owned())).await;
        let expected = if things { &["Widget a/w", "Thing /t"][..] } else { &["Widget a/w"] };

        assert_eq!(names(&graph), expected);
        assert!(graph.left_out.is_empty(), "{:?}", graph.left_out);
        assert_eq!(is_complete(&graph, "Thing"), things);
        assert!(
            graph.kinds.iter().any(|facts| facts.kind == "Thing"),
            "its kind is known in any case"
        );
        assert!(world.change(|state| state.refused.clone()).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_is_read_again_and_an_unreadable_kind_is_named() {
    let list = |names: &[&str], token: &str| {
        let items: Vec<Value> = names.iter().map(|name| object("a", name, json!(null))).collect();
        let body =
            json!({ "metadata": { "resourceVersion": "7", "continue": token }, "items": items });
        Reply::Response(200, vec![], body.to_string())
    };

    let status = |code: u16| {
        Reply::Response(code, vec![], json!({ "kind": "Status", "code": code }).to_string())
    };
    let widget = kind("example.io", "Widget", "widgets", &[]);
    let scope = Scope::Namespace("a".to_owned());
    let script = Script::new([list(&["one"], "t"), status(500), status(429), list(&["two"], "")]);
    let listed =
        listing::list(&script.cluster(), &widget, &scope, "", &ObjectBudget::new(10)).await;

    assert_eq!((listed.nodes.len(), listed.left_out), (2, None));

    // The token expires, so the list begins again.
    let script = Script::new([list(&["one"], "t"), status(410), list(&["one", "two"], "")]);
    let listed =
        listing::list(&script.cluster(), &widget, &scope, "", &ObjectBudget::new(10)).await;

    assert_eq!((listed.nodes.len(), listed.left_out), (2, None));

    let script = Script::new([list(&["one"], "t"), status(500), status(500), status(500)]);
    let listed =
        listing::list(&script.cluster(), &widget, &scope, "", &ObjectBudget::new(10)).await;

    assert!(listed.nodes.len() == 1 && listed.left_out.is_some());

    let script = Script::new([list(&["one", "two", "three"], "t"), list(&["four"], "")]);
    let listed = listing::list(&script.cluster(), &widget, &scope, "", &ObjectBudget::new(2)).await;

    assert!(listed.left_out.is_some_and(|why| why.contains("too many")));
}

#[tokio::test]
async fn an_installation_is_the_workload_the_account_and_its_own_roles() {
    let reply = |body: Value| Reply::Response(200, vec![], body.to_string());
    let account = json!({ "kind": "ServiceAccount", "name": "manager", "namespace": "ops" });
    let other = json!({ "kind": "ServiceAccount", "name": "other", "namespace": "ops" });
    let binding = |name: &str, namespace: &str, kind: &str, role: &str, subjects: Value| {
        json!({ "metadata": { "name": name, "namespace": namespace }, "subjects": subjects,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role } })
    };
    let cluster_bindings = json!({ "metadata": {}, "items": [
        binding("manager", "", "ClusterRole", "manager", json!([account])),
        binding("viewer", "", "ClusterRole", "view", json!([account])),
        binding("both", "", "ClusterRole", "both", json!([account, other])),
        binding("unrelated", "", "ClusterRole", "unrelated", json!([other])),
        binding("empty", "", "ClusterRole", "unrelated", json!(null)),
    ] });

    let bindings =
        json!({ "items": [binding("leader", "ops", "Role", "leader", json!([account]))] });
    let rules = |rules: Value| json!({ "rules": rules });
    let status = json!([{ "apiGroups": ["example.io"], "resources": ["widgets/status"], "verbs": ["update"] },
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let script = Script::new([
        reply(json!({ "spec": { "template": { "spec": { "serviceAccountName": "manager" } } } })),
        reply(cluster_bindings),
        reply(bindings),
        reply(rules(status)),
        reply(rules(json!([]))),
        reply(rules(json!([]))),
        reply(rules(json!(null))),
    ]);

    let resources: ApiResources =
        [kind("example.io", "Widget", "widgets", &[]), kind("a.io", "Gadget", "gadgets", &[])]
            .into_iter()
            .collect();
    let operator = OperatorName { namespace: "ops".to_owned(), name: "operator".to_owned() };
    let read =
        Installation::read(&script.cluster(), &resources, &operator, true).await.expect("read");
    let place =
        |object: &ObjectAddress| format!("{} {}/{}", object.kind, object.namespace, object.name);

    assert_eq!(
        read.objects.iter().map(place).collect::<Vec<_>>(),
        [
            "Deployment ops/operator",
            "ServiceAccount ops/manager",
            "ClusterRoleBinding /manager",
            "ClusterRoleBinding /viewer",
            "RoleBinding ops/leader",
            "ClusterRole /manager",
            "Role ops/leader",
            "CustomResourceDefinition /widgets.example.io",
        ]
    );

    let shared: Vec<String> =
        read.shared.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();

    assert_eq!(
        shared,
        [
            "ClusterRoleBinding both: it also names other accounts",
            "ClusterRole view: it belongs to Kubernetes",
            "ClusterRole both: other accounts use it, too",
        ]
    );

    assert_eq!(read.primaries, [("example.io".to_owned(), "Widget".to_owned())]);
    assert!(read.left_out.is_empty(), "{:?}", read.left_out);
}

#[tokio::test(start_paused = true)]
async fn all_lists_share_the_room_for_objects() {
    let world = World::new(&[WIDGET, CONFIG_MAP, POD]).allow("", &["list"], "*", &["*"]);
    let objects: Vec<Value> =
        (0..2_000).map(|index| object("a", &format!("o{index:04}"), json!(null))).collect();
    world.change(|state| {
        for resource in ["widgets", "configmaps", "pods"] {
            state.objects.insert(resource, objects.clone());
        }
    });

    let cluster = world.cluster();
    let resources = ApiResources::read(&cluster).await.expect("discovery");
    let graph = OwnershipGraph::read_at_most(
        1_000,
        &cluster,
        &resources,
        &Scope::AllNamespaces,
        "home",
        |_| {},
    )
    .await;

    assert_eq!(graph.nodes.len(), 1_000);
    assert_eq!(graph.left_out.len(), 3, "{:?}", graph.left_out);

    // Each list ends with the page of 100 objects that exceeds the room of all.
    let lists = world.change(|state| state.lists.len());
    assert!(lists <= 13, "{lists} pages for 1,000 objects");
}

#[tokio::test]
async fn a_name_never_selects_a_subresource() {
    let script = Script::new([]);
    for (namespace, name) in
        [("a", "x/log"), ("a", ".."), ("a", "x%2Flog"), ("..", "x"), ("a/pods", "x")]
    {
        let [group, kind_name] = ["", "Pod"].map(str::to_owned);
        let object = ObjectAddress {
            group,
            kind: kind_name,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };

        let found = find_object(&script.cluster(), &kind("", "Pod", "pods", &[]), &object).await;
        assert_eq!(
            found.map_err(|failure| failure.cause),
            Err(Cause::Invalid),
            "{namespace} {name}"
        );
    }

    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_respond_is_named_once() {
    let reply = |body: Value| Reply::Response(200, vec![], body.to_string());
    let widgets = json!({ "resource": "widgets", "responseKind": { "kind": "Widget" }, "scope": "Namespaced" });
    let groups = |items: Value| reply(json!({ "kind": "APIGroupDiscoveryList", "items": items }));
    let script = Script::new([
        groups(json!([])),
        groups(json!([
            { "metadata": { "name": "example.io" }, "versions": [{ "version": "v1", "resources": [widgets] }] },
            { "metadata": { "name": "stale.io" }, "versions": [{ "version": "v1", "freshness": "Stale" }] },
        ])),
        reply(json!({ "metadata": { "name": "web", "namespace": "team-a" } })),
        Reply::Response(403, vec![], "{}".to_owned()),
        Reply::Response(403, vec![], "{}".to_owned()),
    ]);

    let cluster = script.cluster();
    let resources = ApiResources::read(&cluster).await.expect("discovery");
    let [group, kind, namespace, name] =
        ["example.io", "Widget", "team-a", "web"].map(str::to_owned);
    let object = ObjectAddress { group, kind, namespace, name };
    let kind = resources.find_kind("example.io", "Widget").expect("a kind");
    let taken = CloseUp::take(&cluster, &resources, kind, &object, &HashKey([0; 16]), |_| {})
        .await
        .expect("an object");

    let left_out: Vec<String> =
        taken.left_out.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    let expected = [
        "all kinds of stale.io: the API server of the group does not respond",
        "Kubernetes Events about it: no permission to list",
    ];

    assert_eq!(left_out, expected);
}
