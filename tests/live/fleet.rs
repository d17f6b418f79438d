//! One loopwatch for all operators of a cluster, with the permissions of `deploy/cluster`.
//!
//! The cluster is one of its own: in that of the other tests, dozens of accounts may write the kinds of
//! the zoo.

mod published;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{another, test};
use crate::case::SLACK;
use crate::cost;
use loopwatch_testbed::accounts::{RBAC, reader_account};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::kube::{Kube, ZOO, documents};
use loopwatch_testbed::published_operators::CERT_MANAGER;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{cert_manager, http, kustomize, operator, repository};

/// The tests of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("fleet::two_operators", two_operators),
        test("fleet::thirty_operators", thirty_operators).with_ignored_flag(true),
        test("fleet::five_published_operators", published::run).with_ignored_flag(true),
    ]
}

/// The namespace of the zoo's operator, and of its objects.
pub(crate) const TEAM: &str = "widgets";

/// The operators, as in the label `operator`.
pub(crate) const WIDGETS: &str = "widgets/widget-operator";
const CERTIFICATES: &str = "cert-manager/cert-manager";
const CARGO: &str = "widgets/cargo";

/// The workload and the account of the last of these.
const OF_OLM: &str = "cargo";

/// The account of `deploy/cluster`.
const ACCOUNT: (&str, &str) = ("loopwatch", "loopwatch");

/// The same account as a user.
const USER: &str = "system:serviceaccount:loopwatch:loopwatch";

/// Operators of different styles, and workloads that are none.
fn two_operators() {
    let plane = cluster();
    let kube = &plane.kube;
    kube.namespace(TEAM);
    reader_account(kube, TEAM);
    let mut widgets = Replicas::start(&plane, TEAM, 1, &["--wait-for-pods=false"]);
    let mut certificates = CERT_MANAGER.start(&plane);
    others(kube);
    installed_by_olm(kube);
    kube.zoo("Widget", TEAM, "one", json!({}));

    let began = Instant::now();
    let (_apiserver, url, log) = plane.apiserver_with_audit_log(USER);
    let kubeconfig = install(&plane, &url);
    let settings = quick_but(json!({"deadline": "20s", "operator_down_after": "3s"}));
    let flags = ["--all-operators", "--scrape-interval=1s"];
    let fleet = Fleet(Sidecar::start(&plane, "fleet", &kubeconfig, &settings, &flags));

    let all = fleet.expect_operators(&[CERTIFICATES, CARGO, WIDGETS]);
    eprintln!("fleet: all operators known after {:?}", began.elapsed());
    expect_told(&all);
    fleet.0.expect(SLACK, "both are healthy", || fleet.expect_health(WIDGETS, "healthy"));

    widgets.all[0].operator.fault("Unacknowledged?kind=Widget&name=one");
    kube.change("Widget", TEAM, "one", json!({"size": 7}));
    fleet.expect_finding(WIDGETS, "Unacknowledged");
    fleet.expect_pages();
    expect_exposition(&fleet);

    widgets.all[0].operator.cure("Unacknowledged");
    kube.change("Widget", TEAM, "one", json!({"size": 8}));
    fleet.0.expect(SLACK * 2, "it is healthy again", || fleet.expect_health(WIDGETS, "healthy"));

    // One killed operator is one finding, which names it.
    let killed = &mut widgets.all[0];
    killed.operator.process.kill();
    killed.pod.ended("Error", 137);
    killed.pod.backs_off();
    fleet.expect_finding(WIDGETS, "OperatorDown");
    pause(Duration::from_secs(3));

    let mut opened = fleet.0.opened();
    // These are true: one kind of the zoo has no status subresource, `deploy/cluster` may not read
    // ClusterIssuers, which no role for viewers covers, and one operator may do everything.
    let true_anyway =
        ["SourceFailing", "StatusSubresourceMissing", "PermissionMissing", "PermissionExcess"];
    opened.retain(|(code, _)| !true_anyway.contains(&code.as_str()));
    let expected = ["Unacknowledged", "OperatorDown"];
    assert!(opened.iter().map(|(code, _)| code).eq(expected), "{opened:?}");
    fleet.expect_health(CERTIFICATES, "healthy").expect("the other operator is healthy");
    certificates.replica.assert_running();
    expect_only_reads(&log);
}

/// Starts a cluster with the kinds of the zoo and of cert-manager.
pub(crate) fn cluster() -> ControlPlane {
    let plane = another();
    operator::install(&plane);
    cert_manager::install(&plane);
    plane
}

/// Creates workloads that are no operators, or have a loopwatch of their own.
fn others(kube: &Kube) {
    let deploy = |name: &str, account: &str, container: &str| {
        kube.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": TEAM}, "spec": {"replicas": 0,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {
                    "serviceAccountName": account,
                    "containers": [{"name": container, "image": container}]}}}}));
    };
    deploy("shop", "default", "shop");
    deploy("with-sidecar", "with-sidecar", "loopwatch");
    deploy("may-all", "may-all", "runner");
    deploy(OF_OLM, OF_OLM, "runner");
    kube.apply(&json!({"apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "sweep", "namespace": TEAM}, "spec": {"schedule": "0 0 1 1 *", "suspend": true,
            "jobTemplate": {"spec": {"template": {"spec": {"serviceAccountName": "sweep",
                "restartPolicy": "Never", "containers": [{"name": "sweep", "image": "sweep"}]}}}}}}));

    let zoo = ZOO.split('/').next().unwrap_or_default();
    for (name, group) in [("with-sidecar", zoo), ("sweep", zoo), ("may-all", "*"), (OF_OLM, "*")] {
        kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}]}));
        kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": TEAM}]}));
    }
}

/// An operator with all permissions, the definition of its kind, and the ClusterServiceVersion by which the
/// Operator Lifecycle Manager has installed it.
fn installed_by_olm(kube: &Kube) {
    define_kind(kube, "cargo.example.com", "v1alpha1", "crates", "Crate");
    let (group, version) = ("operators.coreos.com", "v1alpha1");
    define_kind(kube, group, version, "clusterserviceversions", "ClusterServiceVersion");
    let installed = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "cargo.v1.2.3", "namespace": TEAM},
        "spec": {"customresourcedefinitions": {"owned": [
                {"name": "crates.cargo.example.com", "kind": "Crate", "version": "v1alpha1"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": OF_OLM}]}}}});
    eventually(SLACK, "the new kind is served", || kube.try_apply(&installed));
}

/// Installs `deploy/cluster`, and lets it read the kinds of the zoo. Returns the kubeconfig of its account.
pub(crate) fn install(plane: &ControlPlane, url: &str) -> PathBuf {
    let manifests = kustomize::build(plane, &repository("deploy/cluster"));
    for object in documents(&manifests) {
        plane.kube.apply(&object);
    }

    let group = ZOO.split('/').next().unwrap_or_default();
    may_read(&plane.kube, "loopwatch-zoo", &[group]);

    let (namespace, account) = ACCOUNT;
    plane.kubeconfig_of("fleet.kubeconfig", url, namespace, account)
}

/// Lets loopwatch read these groups by a ClusterRole, as `deploy/cluster/kinds.yaml` says.
fn may_read(kube: &Kube, role: &str, groups: &[&str]) {
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole",
        "metadata": {"name": role, "labels": {"loopwatch/kinds": "true"}},
        "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}]}));
}

/// Expects that the overview says which workloads loopwatch does not judge, and why.
fn expect_told(all: &Value) {
    let why = |workload: &str| {
        let told = all["not_judged"].as_array().into_iter().flatten();
        let found = told.clone().find(|it| it["workload"] == workload);
        found.and_then(|it| it["why"].as_str()).unwrap_or_default().to_owned()
    };
    assert!(why("widgets/with-sidecar").contains("a loopwatch in its Pods"), "{all}");
    assert!(why("widgets/may-all").contains("may write every kind"), "{all}");
    assert!(why("widgets/sweep").contains("a CronJob"), "{all}");
    assert_eq!(why("widgets/shop"), "", "{all}");
}

/// Expects a valid exposition, in which each series about an operator names it.
fn expect_exposition(fleet: &Fleet) {
    let text = fleet.0.metrics().unwrap_or_else(|error| panic!("{error}"));
    let has = |part: &str| assert!(text.contains(part), "{part} is in:\n{text}");
    has(&format!(r#"loopwatch_findings{{operator="{WIDGETS}","#));
    has(&format!(r#"loopwatch_source_up{{operator="{CERTIFICATES}","#));
    has(&format!(r#"loopwatch_operator_up{{operator="{CERTIFICATES}"}} 1"#));
    has("\nloopwatch_build_info{version=");

    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut unique = types.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(types.len(), unique.len(), "each family comes once");
}

/// Expects that loopwatch has sent nothing but reads, none of them of a Secret, and reviews of its own
/// permissions.
fn expect_only_reads(log: &Path) {
    let all = audited(log);
    assert!(all.len() > 50, "{}", all.len());
    for request in all {
        let (verb, resource) = (&request["verb"], &request["objectRef"]["resource"]);
        let is_review =
            verb == "create" && resource.as_str().is_some_and(|it| it.starts_with("selfsubject"));
        let is_read = ["get", "list", "watch"].iter().any(|it| verb == it) && resource != "secrets";
        assert!(is_review || is_read, "{request}");
    }
}

/// The requests in an audit log.
fn audited(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("the audit log");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Reads a number from the environment.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Three hundred kinds of thirty operators: what loopwatch costs. `OBJECTS=50000 cargo test --test live --
/// --ignored fleet::thirty_operators` prints it; `OPERATORS` and `MINUTES` make it shorter.
fn thirty_operators() {
    const KINDS: usize = 10;

    let plane = cluster();
    let (operators, objects) = (number("OPERATORS", 30), number("OBJECTS", 3_000));
    let idle = Duration::from_secs(60 * number("MINUTES", 5) as u64);
    let group = |operator: usize| format!("operator-{operator:02}.example.io");
    let kube = &plane.kube;
    for operator in 0..operators {
        define(kube, operator, &group(operator), KINDS);
    }

    let all = operators * KINDS;
    cost::each(objects, |number| {
        let (kind, name) = (number % all, format!("object-{number:06}"));
        let (operator, kind) = (kind % operators, kind / operators);
        let api = format!("{}/v1", group(operator));
        let object = json!({"apiVersion": api, "kind": format!("Kind{kind}"),
            "metadata": {"name": name, "namespace": "default"}, "spec": {"text": "x".repeat(200)}});
        let path = format!("/apis/{api}/namespaces/default/kind{kind}s");
        let made = kube.call("POST", &path, "application/json", Some(&object));
        made.unwrap_or_else(|error| panic!("{error}"));
    });

    let (_apiserver, url, log) = plane.apiserver_with_audit_log(USER);
    let kubeconfig = install(&plane, &url);
    let groups: Vec<String> = (0..operators).map(group).collect();
    may_read(kube, "loopwatch-all", &groups.iter().map(String::as_str).collect::<Vec<_>>());

    let settings = json!({"limits": {"objects": 1_000_000}});
    let began = Instant::now();
    let fleet =
        Fleet(Sidecar::start(&plane, "fleet", &kubeconfig, &settings, &["--all-operators"]));
    let known = fleet.0.expect(Duration::from_secs(180), "all operators are known", || {
        http::get(fleet.0.port, "/readyz")?;
        let known = fleet.get("/api/v1/operators")?;
        let count = known["operators"].as_array().map_or(0, Vec::len);
        if count == operators { Ok(known) } else { Err(format!("{count} operators")) }
    });
    eprintln!("fleet: ready after {:?}, {} requests", began.elapsed(), audited(&log).len());
    let total: u64 = known["operators"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|it| it["states"].as_object().into_iter().flat_map(|all| all.values()))
        .filter_map(Value::as_u64)
        .sum();
    eprintln!("fleet: {total} objects");

    pause(idle);
    let before = audited(&log).len();
    pause(idle);
    let all = audited(&log);
    let counts: std::collections::BTreeMap<String, usize> =
        all[before..].iter().fold(Default::default(), |mut counts, request| {
            let name = format!("{} {}", request["verb"], request["objectRef"]["resource"]);
            *counts.entry(name).or_default() += 1;
            counts
        });
    eprintln!("fleet: {} requests in {idle:?}: {counts:?}", all.len() - before);

    let of_one = all.iter().filter(|request| {
        request["requestURI"].as_str().is_some_and(|uri| uri.contains(&group(0)))
    });
    for request in of_one.filter(|request| request["requestURI"].to_string().contains("ind0")) {
        let (at, uri) = (&request["requestReceivedTimestamp"], &request["requestURI"]);
        eprintln!("{at} {} {uri} {}", request["verb"], request["stage"]);
    }

    let sockets = fleet.0.process.sockets();
    let [allocated, resident] = ["allocated", "resident"].map(|it| {
        fleet.0.metric(&format!("loopwatch_allocator_{it}_bytes")).unwrap_or_default() / 1_048_576.0
    });
    eprintln!("fleet: {sockets} sockets; allocated {allocated:.1} MiB, resident {resident:.1} MiB");
}

/// Creates an operator that does not run, with its kinds.
fn define(kube: &Kube, operator: usize, group: &str, kinds: usize) {
    for kind in 0..kinds {
        define_kind(kube, group, "v1", &format!("kind{kind}s"), &format!("Kind{kind}"));
    }

    let name = format!("operator-{operator:02}");
    kube.namespace(&name);
    kube.apply(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": name}, "spec": {"replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"serviceAccountName": name,
                "containers": [{"name": "operator", "image": name}]}}}}));
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["*"]}]}),
    );
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]}),
    );
}

/// Creates a custom resource definition without a schema.
fn define_kind(kube: &Kube, group: &str, version: &str, plural: &str, kind: &str) {
    kube.apply(
        &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind,
                "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": version, "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}}),
    );
}

/// loopwatch with all operators.
pub(crate) struct Fleet(pub(crate) Sidecar);

impl Fleet {
    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        let text = http::get(self.0.port, path)?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
    }

    /// Waits until exactly these operators are known, and all lists are complete.
    pub(crate) fn expect_operators(&self, expected: &[&str]) -> Value {
        // loopwatch looks every minute. At the first look, an API server may not serve a new kind yet.
        self.0.expect(Duration::from_secs(90), "the operators are known", || {
            http::get(self.0.port, "/readyz")?;
            let all = self.get("/api/v1/operators")?;
            let mut names: Vec<&str> = all["operators"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|it| it["operator"].as_str())
                .collect();
            names.sort_unstable();
            if names == expected { Ok(all) } else { Err(all.to_string()) }
        })
    }

    pub(crate) fn expect_health(&self, operator: &str, health: &str) -> Result<(), String> {
        let all = self.get("/api/v1/operators")?;
        let mut found = all["operators"].as_array().into_iter().flatten();
        let is = found.any(|it| it["operator"] == operator && it["health"] == health);
        if is { Ok(()) } else { Err(all.to_string()) }
    }

    /// Waits for a finding of an operator.
    pub(crate) fn expect_finding(&self, operator: &str, code: &str) {
        let path = format!("/operators/{operator}/api/v1/findings");
        self.0.expect(SLACK * 2, &format!("{code} of {operator}"), || {
            let findings = self.get(&path)?;
            let mut all = findings["findings"].as_array().into_iter().flatten();
            let is_found = all.any(|it| it["code"] == code);
            if is_found { Ok(()) } else { Err(findings.to_string()) }
        });
    }

    /// Expects that the pages of all operators and of one lead to each other.
    fn expect_pages(&self) {
        let page =
            |path: &str| http::get(self.0.port, path).unwrap_or_else(|error| panic!("{error}"));
        let overview = page("/");
        assert!(overview.contains(&format!(r#"href="operators/{WIDGETS}/""#)), "{overview}");

        let one = page(&format!("/operators/{WIDGETS}/"));
        assert!(one.contains(r#"href="../../../""#) && one.contains("Unacknowledged"), "{one}");
        let object =
            page(&format!("/operators/{WIDGETS}/object?kind=Widget&namespace={TEAM}&name=one"));
        assert!(object.contains("Unacknowledged"), "{object}");
        let unknown = http::get(self.0.port, "/operators/nobody/none/");
        assert!(unknown.is_err_and(|error| error.contains("no operator of this name")));
    }
}
