//! `loopwatch what-if` against the garbage collector of Kubernetes: over random graphs, the objects
//! that it predicts are exactly those that go.

mod web;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use self::web::{Expected, Web};
use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, service_account};
use loopwatch_testbed::kube::{Kube, ZOO, path};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::program;
use loopwatch_testbed::wait::{eventually, pause};

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
/// Time for the garbage collector. It looks for new kinds every 30 s.
const COLLECTED_WITHIN: Duration = Duration::from_secs(90);
/// Time in which the garbage collector would delete an object that it should not.
const QUIET: Duration = Duration::from_secs(3);

/// Whether each object is being deleted, by UID.
type Objects = BTreeMap<String, bool>;

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
        let deleted =
            predictions.iter().filter_map(|prediction| prediction["deleted"].as_array()).flatten();
        deleted.filter(|object| object["fate"] == fate).count()
    };
    let kept = |reason: &str| {
        let kept =
            predictions.iter().filter_map(|prediction| prediction["kept"].as_array()).flatten();
        kept.filter(|object| object["reason"] == reason).count()
    };

    let seen = [
        fates("removed"),
        fates("terminating"),
        fates("later"),
        kept("other_owner"),
        kept("orphaned"),
        anyway,
    ];

    let unsure: usize = expected.iter().map(|expected| expected.either.len()).sum();
    assert!(unsure <= 10, "{unsure} fates depend on timing");

    eprintln!(
        "what-if: removed, terminating, later, kept by another owner, orphaned, deleted in any case: {seen:?}"
    );
    for (count, least) in seen.into_iter().zip([130, 20, 10, 10, 10, 20]) {
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
    eventually(Duration::from_secs(20), "knots are served", || {
        kube.get(&path(KINDS[3].0, "Knot", "", ""))
    });
}

/// Creates a custom resource without a valid owner, and returns its UID: when it is gone, the
/// garbage collector has found the kind.
fn canary(kube: &Kube) -> String {
    kube.namespace("what-if");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
        "uid": "00000000-0000-4000-8000-000000000000"});
    let canary = kube.apply(
        &json!({"apiVersion": KINDS[3].0, "kind": "Knot", "metadata": {"namespace": "what-if",
        "name": "canary", "ownerReferences": [owner]}}),
    );

    canary["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

/// Waits until exactly the expected objects are left, and checks that it stays like this.
fn expect(kube: &Kube, expected: &[Expected], also: &dyn Fn(&Objects) -> bool) {
    let check = || {
        let objects = objects(kube)?;
        let wrong: Vec<String> =
            expected.iter().filter_map(|expected| expected.difference(&objects)).collect();
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
        let seeds = std::iter::from_fn(|| {
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < GRAPHS)
        });
        seeds.map(|seed| (seed, work(seed))).collect::<Vec<_>>()
    };

    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|_| panic!("a worker failed")))
            .collect()
    });

    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A name that does not select one object is an error. A kind that the account may not list is
/// named in the report.
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

    for kind in
        ["knots", "knot", "kn", "Knot", "knots.graph.loopwatch.dev", "Knot.v1.graph.loopwatch.dev"]
    {
        let (code, out, err) = run(&["delete", kind, "web"]);
        assert_eq!(code, Some(0), "{kind}: {out}{err}");
        assert!(
            out.starts_with("CLEAR  deleting Knot.graph.loopwatch.dev what-if-tenant/web "),
            "{kind}: {out}"
        );
        assert!(
            out.contains("deletes at least 2") && out.contains("└─ ConfigMap what-if-tenant/child"),
            "{out}"
        );
        assert!(out.contains("- no permission to list: ") && out.contains(" Secret,"), "{out}");
    }

    let nobody = "there is no Knot.graph.loopwatch.dev nobody in the namespace what-if-tenant";
    for (arguments, expected_code, expected) in [
        (&["delete", "kntos", "web"][..], 2, "did you mean \"knots\"?"),
        (&["delete", "knot", "nobody"], 2, nobody),
        (&["delete", "secret", "web"], 2, "cannot read Secret web: HTTP 403"),
        (&["delete", "knot"], 64, "KIND NAME"),
        (
            &["uninstall", "what-if-tenant/operator"],
            2,
            "cannot read the operator what-if-tenant/operator",
        ),
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(expected_code), ""), "{arguments:?}: {err}");
        assert!(err.contains(expected) && err.trim().lines().count() == 1, "{arguments:?}: {err}");
    }
}

/// The prediction for an operator finds its account, roles and kinds, and the finalizers that it
/// would leave behind.
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

    let prediction: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));

    assert_eq!(output.status.code(), Some(1), "{said}");

    let mut targets: Vec<String> = objects_of(&prediction["targets"]);

    // Other tests bind the same account and the same role.
    let is_ours =
        |target: &str| target.contains(" /") || target.contains(&format!(" {NAMESPACE}/"));
    let may_be_shared = |target: &str| {
        ["CustomResourceDefinition", "ClusterRole /"].iter().any(|k| target.starts_with(k))
    };

    targets.retain(|target| is_ours(target) && !may_be_shared(target));
    targets.sort();

    assert_eq!(
        targets,
        [
            "ClusterRoleBinding /widget-operator",
            "ClusterRoleBinding /widget-operator-metrics-auth",
            "Deployment zoo-system/what-if-operator",
            "Role zoo-system/widget-operator-leader-election",
            "RoleBinding zoo-system/widget-operator-leader-election",
            "ServiceAccount zoo-system/widget-operator",
        ]
    );

    let stranded = prediction["stranded_finalizers"].as_array().into_iter().flatten();
    let cleanup = stranded.into_iter().find(|stranded| stranded["finalizer"] == finalizer.as_str());
    let cleanup = cleanup.unwrap_or_else(|| panic!("{}", prediction["stranded_finalizers"]));

    assert!(
        objects_of(&cleanup["objects"]).contains(&"Statusless what-if-shop/web".to_owned()),
        "{cleanup}"
    );

    let steps = prediction["better_order"].as_array().cloned().unwrap_or_default();
    let steps: Vec<&str> = steps.iter().filter_map(|step| step["step"].as_str()).collect();

    assert_eq!(
        (steps[0], &steps[steps.len() - 2..]),
        ("delete", &["delete_targets", "delete_definitions"][..])
    );
    assert_eq!(prediction["at_least"], false, "{}", prediction["not_visible"]);

    let none = json!({"metadata": {"finalizers": null}});
    plane.kube.patch(ZOO, "Statusless", namespace, "web", &none);
    plane.kube.delete("v1", "Namespace", "", namespace);
    plane.kube.delete("apps/v1", "Deployment", NAMESPACE, name);
}

fn objects_of(list: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = |object: &Value| {
        format!(
            "{} {}/{}",
            text(&object["kind"]),
            text(&object["namespace"]),
            text(&object["name"])
        )
    };

    list.as_array().into_iter().flatten().map(object).collect()
}

/// The group of an API version.
fn group(api: &str) -> String {
    api.split_once('/').map_or("", |(group, _)| group).to_owned()
}
