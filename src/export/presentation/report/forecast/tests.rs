use loopwatch_model::cascade::{
    Cascade, Graph, KindFacts, Node, Operator, Prediction, Request, Taken,
};
use loopwatch_model::observation::{LeftOut, OwnerReference};

use super::*;
use crate::golden;

const PLAIN: Style = Style { markdown: false, colours: false, width: 100 };
const MARKDOWN: Style = Style { markdown: true, ..PLAIN };

fn kinds() -> Vec<KindFacts> {
    let kind = |group: &str, kind: &str, resource: &str, namespaced| KindFacts {
        group: group.to_owned(),
        kind: kind.to_owned(),
        resource: resource.to_owned(),
        versions: vec!["v1".to_owned()],
        namespaced,
        complete: true,
        collected: true,
    };
    vec![
        kind("example.io", "Widget", "widgets", true),
        kind("apps", "Deployment", "deployments", true),
        kind("apps", "ReplicaSet", "replicasets", true),
        kind("", "Pod", "pods", true),
        kind("", "ConfigMap", "configmaps", true),
        kind("", "Secret", "secrets", true),
        kind("", "ServiceAccount", "serviceaccounts", true),
        kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            false,
        ),
    ]
}

fn node((group, kind): (&str, &str), namespace: &str, name: &str, owners: &[&Node]) -> Node {
    let owner = |owner: &&Node| OwnerReference {
        api_version: if owner.group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{}/v1", owner.group)
        },
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: true,
        blocks_deletion: true,
    };
    Node {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("{kind}/{namespace}/{name}"),
        owners: owners.iter().map(owner).collect(),
        ..Node::default()
    }
}

const WIDGET: (&str, &str) = ("example.io", "Widget");
const DEPLOYMENT: (&str, &str) = ("apps", "Deployment");
const REPLICA_SET: (&str, &str) = ("apps", "ReplicaSet");
const POD: (&str, &str) = ("", "Pod");
const CONFIG_MAP: (&str, &str) = ("", "ConfigMap");
const SECRET: (&str, &str) = ("", "Secret");
const ACCOUNT: (&str, &str) = ("", "ServiceAccount");
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// A widget with a Deployment, six ConfigMaps, a shared Secret, and a widget of its own that has a
/// finalizer.
fn shop() -> Vec<Node> {
    let web = node(WIDGET, "shop", "web", &[]);
    let api = node(WIDGET, "shop", "api", &[]);
    let deployment = node(DEPLOYMENT, "shop", "web", &[&web]);
    let replicas = node(REPLICA_SET, "shop", "web-7d9c", &[&deployment]);
    let pods = ["web-7d9c-a", "web-7d9c-b"].map(|name| node(POD, "shop", name, &[&replicas]));
    let config = (0..6).map(|index| node(CONFIG_MAP, "shop", &format!("web-{index}"), &[&web]));
    let mut cache = node(WIDGET, "shop", "web-cache", &[&web]);

    cache.finalizers = vec!["example.io/cleanup".to_owned()];
    let below = node(CONFIG_MAP, "shop", "web-cache", &[&cache]);
    let shared = node(SECRET, "shop", "certificate", &[&web, &api]);
    let lost = node(CONFIG_MAP, "ops", "lost", &[&web]);
    let mut all: Vec<Node> = config.collect();

    all.extend(pods);
    all.extend([cache.clone(), below, shared, lost, replicas, deployment, web, api]);
    all
}

fn report(
    nodes: Vec<Node>,
    cascade: Cascade,
    left_out: &[LeftOut],
    style: Option<Style>,
) -> String {
    let graph = Graph::new(nodes, kinds(), Vec::new());
    let targets = vec![graph.find("example.io", "Widget", "shop", "web").expect("the widget")];
    let request = Request { targets, cascade, operator: None };
    let prediction = graph.predict(&request);
    let forecast = Forecast {
        graph: &graph,
        request: &request,
        prediction: &prediction,
        operator: None,
        shared: &[],
        left_out,
    };

    style.map_or_else(|| forecast.json(), |style| forecast.text(style))
}

fn part(what: &str, why: &str) -> LeftOut {
    LeftOut { what: what.to_owned(), why: why.to_owned() }
}

#[test]
fn the_forecasts_match_their_golden_files() {
    let hidden = [
        part("Lease.coordination.k8s.io", "no permission to list"),
        part("Secret", "no permission to list"),
    ];
    let background = report(shop(), Cascade::Background, &hidden, Some(PLAIN));

    golden::check("tests/golden/what-if.txt", &background);
    assert!(
        include_str!("../../../../../docs/commands.md").contains(&background),
        "the page shows this report"
    );

    golden::check(
        "tests/golden/what-if.md",
        &report(shop(), Cascade::Background, &hidden, Some(MARKDOWN)),
    );
    golden::check("tests/golden/what-if.json", &report(shop(), Cascade::Background, &hidden, None));
    golden::check(
        "tests/golden/what-if-foreground.txt",
        &report(shop(), Cascade::Foreground, &[], Some(PLAIN)),
    );
    golden::check(
        "tests/golden/what-if-orphan.txt",
        &report(shop(), Cascade::Orphan, &[], Some(PLAIN)),
    );
}

#[test]
fn the_forecast_of_an_uninstallation_matches_its_golden_file() {
    let mut nodes = shop();
    nodes.extend([
        node(DEPLOYMENT, "ops", "widget-operator", &[]),
        node(ACCOUNT, "ops", "widget-operator", &[]),
        node(DEFINITION, "", "widgets.example.io", &[]),
    ]);
    nodes[0].finalizers = vec!["example.io/cleanup".to_owned()];

    let graph = Graph::new(nodes, kinds(), Vec::new());
    let find =
        |(group, kind): (&str, &str), namespace, name| graph.find(group, kind, namespace, name);
    let targets = [
        find(DEPLOYMENT, "ops", "widget-operator"),
        find(ACCOUNT, "ops", "widget-operator"),
        find(DEFINITION, "", "widgets.example.io"),
    ];

    let operator = Operator {
        primaries: vec![("example.io".to_owned(), "Widget".to_owned())],
        definitions: true,
    };
    let targets = targets.into_iter().flatten().collect();
    let request = Request { targets, cascade: Cascade::Background, operator: Some(operator) };
    let prediction = graph.predict(&request);
    let shared = [part("ClusterRoleBinding view-all", "it also names other accounts")];

    let forecast = Forecast {
        graph: &graph,
        request: &request,
        prediction: &prediction,
        operator: Some("ops/widget-operator"),
        shared: &shared,
        left_out: &[],
    };

    golden::check("tests/golden/what-if-uninstall.txt", &forecast.text(PLAIN));
}

#[test]
fn a_deletion_that_timing_may_stop_is_not_clear() {
    let graph = Graph::new(shop(), kinds(), Vec::new());
    let web = graph.find("example.io", "Widget", "shop", "web").expect("the widget");
    let request =
        Request { targets: vec![web], cascade: Cascade::Foreground, ..Request::default() };
    let taken = Taken { node: web, because: None, fate: Fate::Removed, depends_on_timing: true };
    let prediction = Prediction { taken: vec![taken], ..Prediction::default() };
    let forecast = Forecast {
        graph: &graph,
        request: &request,
        prediction: &prediction,
        operator: None,
        shared: &[],
        left_out: &[],
    };

    let text = forecast.text(PLAIN);
    assert!(text.starts_with("UNCERTAIN  "), "{text}");
    assert!(text.contains("(may be left in deletion)"), "{text}");
    assert!(!forecast.is_clear() && forecast.json().contains("\"clear\":false"));
}

#[test]
fn a_dependent_that_hangs_already_is_not_clear() {
    let nodes = || {
        let web = node(WIDGET, "shop", "web", &[]);
        let mut cache = node(WIDGET, "shop", "cache", &[&web]);
        (cache.deleting, cache.finalizers) = (true, vec!["example.io/cleanup".to_owned()]);
        vec![web, cache]
    };
    let text = |cascade| report(nodes(), cascade, &[], Some(Style { width: 400, ..PLAIN }));

    let background = text(Cascade::Background);
    assert!(
        background.starts_with(
            "BLOCKED  deleting Widget.example.io shop/web with --cascade=background deletes 1 object\n         \
             1 other object is being deleted already and stays in deletion\n"
        ),
        "{background}"
    );
    assert!(
        background.contains(
            "Being deleted already\n  These objects stay in deletion. This deletion neither waits for them"
        ),
        "{background}"
    );
    assert!(background.contains("$ loopwatch explain widgets.example.io cache -n shop\n"));

    let foreground = text(Cascade::Foreground);
    assert!(
        foreground.contains(
            "Widget.example.io shop/cache is being deleted already and waits until the controller of \
             example.io removes the finalizer example.io/cleanup\n"
        ) && foreground.contains("Widget.example.io shop/web waits for Widget.example.io shop/cache\n"),
        "{foreground}"
    );
    assert!(!foreground.contains("neither waits"), "{foreground}");
    assert!(report(nodes(), Cascade::Background, &[], None).contains("\"lingering\":[{"));
}

#[test]
fn a_target_that_others_may_use_is_uncertain_and_one_that_hangs_already_is_blocked() {
    let text = |is_dependent: bool, deleting| {
        let root = node(WIDGET, "shop", "web", &[]);
        let mut claim = node(CONFIG_MAP, "shop", "claim", &[&root]);
        claim.finalizers = vec!["kubernetes.io/pvc-protection".to_owned()];
        claim.deleting = deleting;
        let graph = Graph::new(vec![root, claim], kinds(), Vec::new());
        let position = usize::from(!is_dependent);
        let targets = graph.ids().skip(position).take(1).collect();
        let request = Request { targets, ..Request::default() };
        let forecast = Forecast {
            graph: &graph,
            request: &request,
            prediction: &graph.predict(&request),
            operator: None,
            shared: &[],
            left_out: &[],
        };
        (forecast.text(Style { width: 400, ..PLAIN }), forecast.json())
    };

    let (dependent, json) = text(true, false);
    assert!(dependent.starts_with("CLEAR  "), "{dependent}");
    assert!(
        dependent.contains(
            "kubernetes.io/pvc-protection of ConfigMap shop/claim: kube-controller-manager, once no Pod uses the claim"
        ),
        "{dependent}"
    );
    assert!(
        json.contains("\"expected_finalizers\":[{\"finalizer\":\"kubernetes.io/pvc-pro"),
        "{json}"
    );

    let (target, _) = text(false, false);
    assert!(target.starts_with("UNCERTAIN  "), "{target}");
    assert!(target.contains("it stays in deletion while other objects use it"), "{target}");

    let (again, _) = text(false, true);
    assert!(again.starts_with("BLOCKED  "), "{again}");
    assert!(again.contains("it is being deleted already"), "{again}");
    assert!(
        again.contains("which is removed by kube-controller-manager, once no Pod uses the claim"),
        "{again}"
    );
}

#[test]
fn a_large_tree_is_cut_and_counted() {
    let root = node(WIDGET, "shop", "web", &[]);
    let mut nodes = vec![root.clone()];

    // A long chain, many objects of one kind, and many kinds below each other.
    for index in 0..1_000 {
        let owner = if index == 0 { &root } else { &nodes[index] };
        nodes.push(node(CONFIG_MAP, "shop", &format!("chain-{index}"), &[owner]));
    }

    nodes.extend((0..5_000).map(|index| node(POD, "shop", &format!("pod-{index}"), &[&root])));
    let report = report(nodes, Cascade::Background, &[], Some(PLAIN));

    assert!(
        report.starts_with(
            "CLEAR  deleting Widget.example.io shop/web with --cascade=background deletes 6,001 objects\n"
        ),
        "{report}"
    );
    assert!(
        report.contains(
            "5,000 × Pod shop/pod-0, shop/pod-1, shop/pod-2, shop/pod-3 and 4,996 more\n"
        ),
        "{report}"
    );

    assert!(report.contains("ConfigMap shop/chain-5, and 994 below\n"), "{report}");
    assert!(report.lines().count() < 15, "{report}");
}

#[test]
fn a_wide_tree_has_a_limit_of_lines_too() {
    let root = node(WIDGET, "shop", "web", &[]);
    let mut nodes = vec![root.clone()];
    nodes.extend(
        (0..100).map(|index| node(("", &format!("Kind{index:03}")), "shop", "x", &[&root])),
    );

    let report = report(nodes, Cascade::Background, &[], Some(PLAIN));
    assert!(report.contains("… and 61 more; -o json lists them\n"), "{report}");
}

#[test]
fn hostile_names_are_escaped() {
    const EVIL: &str = "\x1b]0;x\x07|<script>@everyone[a](http://evil)`$(reboot)";

    let mut nodes = shop();
    for node in &mut nodes {
        if node.name == "web-cache" {
            (node.name, node.finalizers) = (EVIL.to_owned(), vec![EVIL.to_owned()]);
        }
    }

    let plain = report(nodes.clone(), Cascade::Background, &[], Some(PLAIN));
    assert!(!plain.contains(['\x1b', '\x07']), "{plain}");
    assert!(
        !plain.lines().any(|line| line.contains("$ kubectl") && line.contains("reboot")),
        "{plain}"
    );

    let markdown = report(nodes, Cascade::Background, &[], Some(MARKDOWN));
    assert!(
        !markdown.contains("<script")
            && !markdown.contains("@everyone")
            && !markdown.contains("[a]("),
        "{markdown}"
    );
}

#[test]
fn a_name_that_looks_like_a_flag_gets_no_command() {
    // RBAC accepts such names.
    let kinds = || vec![KindFacts { namespaced: false, ..kinds().swap_remove(0) }];
    for name in ["--all", "-A"] {
        let graph = Graph::new(vec![node(WIDGET, "", name, &[])], kinds(), Vec::new());
        let request =
            Request { targets: graph.ids().collect(), cascade: Cascade::Orphan, operator: None };
        let forecast = Forecast {
            graph: &graph,
            request: &request,
            prediction: &graph.predict(&request),
            operator: None,
            shared: &[],
            left_out: &[],
        };

        let commands = sections::commands(&forecast, &loopwatch_model::cascade::Step::Targets);
        assert_eq!(commands, Vec::<String>::new());
    }
}
