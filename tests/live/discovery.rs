//! Discovery of kinds, scopes and permissions, and of their changes.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, own_account, service_account};
use loopwatch_testbed::kube::{Kube, ZOO, ZOO_KINDS, path};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{Sidecar, quick, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::webhook::Webhook;
use loopwatch_testbed::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("discovery::zero_configuration", zero_configuration),
        test("discovery::tenant", tenant),
        test("discovery::permissions_withdrawn_and_returned", permissions_withdrawn_and_returned),
        test("discovery::definitions_come_and_go", definitions_come_and_go),
        test("discovery::status_without_subresource", status_without_subresource),
        test("discovery::account_with_all_permissions", account_with_all_permissions),
        test("discovery::permissions_elsewhere", permissions_elsewhere),
        test("discovery::permissions_of_a_webhook", permissions_of_a_webhook),
        test("discovery::token_rotated", token_rotated),
    ]
}

/// Findings that are correct here: one definition of the zoo has no status subresource, and most
/// accounts lack a permission.
const TRUE_ANYWAY: [&str; 2] = ["PermissionMissing", "StatusSubresourceMissing"];

/// With the operator's account and no flags, loopwatch finds every kind that the operator owns and
/// the child kinds that it creates, and nothing else.
fn zero_configuration() {
    let plane = bed();
    plane.kube.namespace("zero");

    let lonely = plane.kube.zoo("PhaseOnly", "zero", "lonely", json!({"suspend": true}));
    plane.kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "zero", "name": "child",
        "ownerReferences": [{"apiVersion": ZOO, "kind": "PhaseOnly", "name": "lonely", "uid": lonely["metadata"]["uid"]}]}}));
    plane
        .kube
        .apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "zero", "name": "foreign"}}));

    let kubeconfig = plane.kubeconfig_of("zero.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let sidecar = Sidecar::start(plane, "zero", &kubeconfig, &json!({}), &[]);
    sidecar.wait_synced(ZOO_KINDS.len() + 1);

    let status = sidecar.status().unwrap_or_default();
    let kinds = |role: &str| {
        let all = status["kinds"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> = all
            .iter()
            .filter(|kind| kind["role"] == role)
            .map(|kind| kind["kind"].as_str().unwrap_or_default().to_owned())
            .collect();

        names.sort();
        names
    };

    let mut zoo = ZOO_KINDS.to_vec();
    zoo.sort_unstable();

    assert_eq!(kinds("primary"), zoo, "{status}");

    // Other tests have Deployments and Secrets.
    assert!(kinds("child").contains(&"ConfigMap".to_owned()), "{status}");
    assert!(
        kinds("child")
            .iter()
            .all(|kind| ["ConfigMap", "Deployment", "Secret"].contains(&kind.as_str())),
        "{status}"
    );

    sidecar.object("ConfigMap", "zero", "child").unwrap_or_else(|error| panic!("{error}"));
    sidecar.object("ConfigMap", "zero", "foreign").expect_err("no primary object owns it");

    let object =
        sidecar.object("PhaseOnly", "zero", "lonely").unwrap_or_else(|error| panic!("{error}"));

    assert_eq!(object["state"], "suspended", "{object}");

    for kind in status["kinds"].as_array().into_iter().flatten() {
        assert_eq!(kind["watches"][0]["scope"], "all namespaces", "{kind}");
    }
}

/// With permissions in one namespace, loopwatch watches only that namespace. If flags name another
/// one, it reports the missing permission.
fn tenant() {
    let plane = bed();
    for namespace in ["tenant-a", "tenant-b"] {
        plane.kube.namespace(namespace);
        plane.kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    }

    account_within(&plane.kube, "tenant-a");
    let kubeconfig = plane.kubeconfig_of("tenant.kubeconfig", &plane.url, "tenant-a", ACCOUNT);

    let sidecar = Sidecar::start(plane, "tenant", &kubeconfig, &quick(), &[]);
    sidecar.wait_synced(ZOO_KINDS.len());

    let seen = sidecar.objects("kind=Widget").unwrap_or_default();
    assert_eq!(seen.len(), 1, "{}", json!(seen));
    assert_eq!(seen[0]["namespace"], "tenant-a");

    // The flags name a namespace that the account may not read.
    let flags = ["--namespace=tenant-a,tenant-b"];
    let curious = Sidecar::start(plane, "tenant-curious", &kubeconfig, &quick(), &flags);
    let (finding, _) = curious.expect_finding(
        Duration::from_secs(20),
        "PermissionMissing",
        "Permission",
        "list widgets.zoo.loopwatch.dev",
    );

    assert_eq!(finding.0["subject"]["namespace"], "tenant-b", "{finding}");
    assert_eq!(finding.severity(), "info");

    curious.expect(Duration::from_secs(10), "its own namespace is watched all the same", || {
        let object = curious.object("Widget", "tenant-a", "one")?;
        if object["state"] == "suspended" { Ok(()) } else { Err(object.to_string()) }
    });
    let text = curious.metrics().unwrap_or_else(|error| panic!("{error}"));
    let gap = text.lines().find(|line| {
        line.starts_with("loopwatch_permission_missing{")
            && line.contains("widgets")
            && line.contains("tenant-b")
    });

    assert!(
        gap.is_some(),
        "no series for the missing permission:\n{}",
        family(&text, "loopwatch_permission_missing")
    );

    let status = curious.status().unwrap_or_default();
    let blind = status["not_visible"].as_array().cloned().unwrap_or_default();

    assert!(
        blind
            .iter()
            .any(|spot| spot["what"].as_str().is_some_and(|what| what.contains("tenant-b"))),
        "{status}"
    );
}

/// Objects become unknown, not healthy, while the account lacks the permission to read them, and
/// return with the permission.
fn permissions_withdrawn_and_returned() {
    let plane = bed();
    let namespace = "withdrawn";
    plane.kube.namespace(namespace);
    account_within(&plane.kube, namespace);

    for kind in ["Widget", "PhaseOnly"] {
        plane.kube.zoo(kind, namespace, "one", json!({"suspend": true}));
    }

    let wire = Wire::to(plane.port);
    let kubeconfig = plane.kubeconfig_of("withdrawn.kubeconfig", &wire.url(), namespace, ACCOUNT);
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &quick(), &[]);
    sidecar.wait_synced(ZOO_KINDS.len());

    // Withdraw the permission to read one kind. The API server does not end open streams, but
    // refuses the next one.
    let role = plane.kube.find(RBAC, "Role", namespace, "widget-operator").expect("made above");
    let mut less = role["rules"].clone();
    for rule in less.as_array_mut().into_iter().flatten() {
        if let Some(resources) = rule["resources"].as_array_mut() {
            resources.retain(|resource| resource != "widgets");
        }
    }

    set_rules(&plane.kube, namespace, &less);
    pause(Duration::from_secs(2));
    wire.cut();

    let (soon, minute) = (Duration::from_secs(30), Duration::from_secs(100));
    let right = "list widgets.zoo.loopwatch.dev";
    let (finding, _) = sidecar.expect_finding(soon, "PermissionMissing", "Permission", right);

    assert_eq!(finding.0["subject"]["namespace"], namespace, "{finding}");

    sidecar.expect(soon, "objects without permission are unknown", || {
        match sidecar.objects("kind=Widget&namespace=withdrawn")?.first() {
            Some(object) if object["state"] != "unknown" => Err(object.to_string()),
            _ => Ok(()),
        }
    });
    sidecar.expect(soon, "the others are still watched", || {
        sidecar.object("PhaseOnly", namespace, "one")
    });

    set_rules(&plane.kube, namespace, &role["rules"]);
    let seen = || sidecar.object("Widget", namespace, "one");
    sidecar.expect(
        minute,
        "a kind is watched again within a minute after its permission returned",
        seen,
    );
    sidecar.expect_cleared(soon, "PermissionMissing", "Permission", right);

    // Withdraw all permissions: discovery no longer finds what the operator owns, and reports that.
    set_rules(&plane.kube, namespace, &json!([]));
    pause(Duration::from_secs(2));
    wire.cut();

    let (finding, _) = sidecar.expect_finding(soon, "SourceFailing", "Source", "discovery");
    assert!(
        finding.evidence("detail").as_str().is_some_and(|detail| detail.contains("account")),
        "{finding}"
    );
    assert_eq!(sidecar.metric("loopwatch_source_up{source=\"discovery\"}"), Ok(0.0));

    set_rules(&plane.kube, namespace, &role["rules"]);
    sidecar.expect(minute, "all is seen again", seen);
    sidecar.expect_cleared(soon, "SourceFailing", "Source", "discovery");
}

fn set_rules(kube: &Kube, namespace: &str, rules: &Value) {
    kube.patch(RBAC, "Role", namespace, "widget-operator", &json!({"rules": rules}));
}

/// Definitions that are deleted, created again, and get another version while loopwatch runs.
fn definitions_come_and_go() {
    let plane = bed();
    let (kube, group, namespace) = (&plane.kube, "live.loopwatch.dev", "definitions");
    kube.namespace(namespace);
    kube.apply(&definition(group, &["v1"]));
    own_account(kube, namespace, group, &["things", "things/status"]);
    wait_served(kube, group, "v1", true);
    thing(kube, group, "v1", namespace, "first");

    let kubeconfig = plane.kubeconfig_of("definitions.kubeconfig", &plane.url, namespace, ACCOUNT);
    let settings = quick_but(json!({"deadline": "10m", "source_failing_after": "30s"}));
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &settings, &[]);
    sidecar.wait_synced(1);

    let knows = |name: &str, within: u64| {
        sidecar.expect(Duration::from_secs(within), &format!("{name} is known"), || {
            sidecar.object("Thing", namespace, name).map(drop)
        });
    };

    knows("first", 20);

    kube.apply(&definition(group, &["v1", "v2"]));
    wait_served(kube, group, "v2", true);
    thing(kube, group, "v2", namespace, "second");
    knows("second", 20);
    knows("first", 20);

    kube.delete(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        &format!("things.{group}"),
    );
    sidecar.expect(Duration::from_secs(30), "the kind and its objects disappear", || {
        let status = sidecar.status()?;
        let kinds = status["kinds"].as_array().cloned().unwrap_or_default();
        let things = sidecar.objects("kind=Thing")?;
        let watched = kinds.iter().any(|k| {
            k["kind"] == "Thing" && k["watches"].as_array().is_some_and(|w| !w.is_empty())
        });

        if things.is_empty() && !watched {
            Ok(())
        } else {
            Err(format!("{} things, {}", things.len(), json!(kinds)))
        }
    });

    eventually(Duration::from_secs(20), "the definition is gone", || {
        match kube.find(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "",
            &format!("things.{group}"),
        ) {
            None => Ok(()),
            Some(definition) => Err(definition["status"].to_string()),
        }
    });

    kube.apply(&definition(group, &["v1"]));
    wait_served(kube, group, "v1", true);
    thing(kube, group, "v1", namespace, "third");
    knows("third", 30);

    assert!(
        sidecar.object("Thing", namespace, "first").is_err(),
        "objects disappear with their definition"
    );

    let others: Vec<_> = sidecar
        .opened()
        .into_iter()
        .filter(|(code, _)| !TRUE_ANYWAY.contains(&code.as_str()))
        .collect();

    assert!(others.is_empty(), "{others:?}");
}

/// loopwatch reports a definition without a status subresource if the account may read definitions.
fn status_without_subresource() {
    let plane = bed();
    let (kube, namespace) = (&plane.kube, "subresource");
    kube.namespace(namespace);
    own_account(
        kube,
        namespace,
        "zoo.loopwatch.dev",
        &["nosubresources", "nosubresources/finalizers"],
    );

    let kubeconfig = plane.kubeconfig_of("subresource.kubeconfig", &plane.url, namespace, ACCOUNT);
    let sidecar =
        Sidecar::start(plane, namespace, &kubeconfig, &quick(), &["--namespace=subresource"]);
    let name = "nosubresources.zoo.loopwatch.dev";
    let (finding, _) = sidecar.expect_finding(
        Duration::from_secs(20),
        "StatusSubresourceMissing",
        "CustomResourceDefinition",
        name,
    );

    assert_eq!(finding.severity(), "info");
    assert_eq!(finding.evidence("kind"), "NoSubresource");

    let others: Vec<_> =
        sidecar.opened().into_iter().filter(|(_, on)| !on.contains(name)).collect();

    assert!(others.is_empty(), "{others:?}");
}

/// An account with all permissions does not show what the operator owns. loopwatch watches all
/// custom resources, and reports the excess.
fn account_with_all_permissions() {
    let plane = bed();
    let (kube, namespace) = (&plane.kube, "everything");
    kube.namespace(namespace);
    service_account(kube, namespace);
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
    kube.zoo("Widget", namespace, "one", json!({"suspend": true}));

    let kubeconfig = plane.kubeconfig_of("everything.kubeconfig", &plane.url, namespace, ACCOUNT);
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &quick(), &[]);
    let soon = Duration::from_secs(20);
    sidecar.wait_synced(ZOO_KINDS.len());
    sidecar.object("Widget", namespace, "one").unwrap_or_else(|error| panic!("{error}"));

    let (finding, _) = sidecar.expect_finding(soon, "PermissionExcess", "Permission", "*");
    assert_eq!(finding.severity(), "info");
    assert_eq!(sidecar.metric("loopwatch_source_up{source=\"discovery\"}"), Ok(1.0));

    // Of many kinds, it watches those with a status first, and says how many it leaves out.
    let few = Sidecar::start(plane, "everything-few", &kubeconfig, &quick(), &["--max-watches=6"]);
    few.wait_synced(3);

    let status = few.status().unwrap_or_default();
    let blind = status["not_visible"].as_array().cloned().unwrap_or_default();
    let said =
        |spot: &Value| spot["what"].as_str().is_some_and(|what| what.ends_with("custom resources"));

    assert!(blind.iter().any(said), "{status}");
    assert_eq!(status["kinds"].as_array().map(Vec::len), Some(3), "{status}");

    let flags = ["--watch=zoo.loopwatch.dev/Widget", "--namespace=everything"];
    let named = Sidecar::start(plane, "everything-named", &kubeconfig, &quick(), &flags);
    named.wait_synced(1);
    named.expect_finding(soon, "PermissionExcess", "Permission", "*");

    let others: Vec<_> = named
        .opened()
        .into_iter()
        .filter(|(code, _)| !TRUE_ANYWAY.contains(&code.as_str()))
        .collect();

    assert!(others.iter().all(|(code, _)| code == "PermissionExcess"), "{others:?}");
}

/// An account has permissions in its own namespace, and more from a role binding in another one.
fn permissions_elsewhere() {
    let plane = bed();
    let (home, other) = ("home", "elsewhere");
    for namespace in [home, other] {
        plane.kube.namespace(namespace);
        plane.kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    }

    account_within(&plane.kube, home);
    let role = plane.kube.find(RBAC, "Role", home, "widget-operator").expect("made above");
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": home});
    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "Role",
        "metadata": {"name": "widget-operator", "namespace": other}, "rules": role["rules"]}));
    plane.kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": "widget-operator", "namespace": other}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "widget-operator"}}));

    plane.kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "home-namespaces"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}]}),
    );
    plane.kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "home-namespaces"},
        "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "home-namespaces"}}),
    );

    let kubeconfig = plane.kubeconfig_of("elsewhere.kubeconfig", &plane.url, home, ACCOUNT);
    let sidecar = Sidecar::start(plane, other, &kubeconfig, &quick(), &[]);
    sidecar.wait_synced(ZOO_KINDS.len());

    // loopwatch reviews many namespaces slowly, and those of all tests are many.
    sidecar.expect(Duration::from_secs(240), "the namespaces with permissions are watched", || {
        let seen = sidecar.objects("kind=Widget")?;
        let mut namespaces: Vec<&str> =
            seen.iter().filter_map(|object| object["namespace"].as_str()).collect();
        namespaces.sort_unstable();

        if namespaces == [other, home] { Ok(()) } else { Err(format!("{namespaces:?}")) }
    });
}

/// A webhook authorizer grants permissions to an account, and cannot list them: the review of rules
/// is incomplete, as on managed clusters. loopwatch asks for them, even if other permissions are
/// listed.
fn permissions_of_a_webhook() {
    let plane = bed();
    let namespaces = ["webhook", "webhook-and-role"];
    for namespace in namespaces {
        plane.kube.namespace(namespace);
        plane.kube.zoo("Widget", namespace, "one", json!({"suspend": true}));
    }

    service_account(&plane.kube, namespaces[0]);
    own_account(
        &plane.kube,
        namespaces[1],
        "zoo.loopwatch.dev",
        &["phaseonlies", "phaseonlies/status"],
    );

    let users = namespaces.map(|namespace| format!("system:serviceaccount:{namespace}:{ACCOUNT}"));
    let authorizer = Webhook::answering(move |review| {
        let asked = &review["spec"]["resourceAttributes"];
        let verbs: &[&str] = match (asked["resource"].as_str(), asked["subresource"].as_str()) {
            (Some("widgets"), None) => &["get", "list", "watch"],
            (Some("widgets"), Some("status")) => &["update", "patch"],
            _ => &[],
        };
        let allowed = users.iter().any(|user| review["spec"]["user"] == **user)
            && asked["group"] == "zoo.loopwatch.dev"
            && verbs.iter().any(|verb| asked["verb"] == *verb);

        Some(
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "status": {"allowed": allowed}}),
        )
    });

    let (_apiserver, url) = plane.apiserver_with_authorizer(authorizer.port);

    // This API server has just started, and may need more than five seconds for an answer.
    let settings = quick_but(json!({"source_failing_after": "30s"}));
    for (namespace, expected) in
        namespaces.into_iter().zip([vec!["Widget"], vec!["PhaseOnly", "Widget"]])
    {
        let kubeconfig =
            plane.kubeconfig_of(&format!("{namespace}.kubeconfig"), &url, namespace, ACCOUNT);
        let scope = format!("--namespace={namespace}");
        let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &settings, &[&scope]);

        sidecar.wait_synced(expected.len());
        sidecar.object("Widget", namespace, "one").unwrap_or_else(|error| panic!("{error}"));

        let status = sidecar.status().unwrap_or_default();
        let kinds: Vec<&Value> =
            status["kinds"].as_array().into_iter().flatten().map(|kind| &kind["kind"]).collect();

        assert_eq!(kinds, expected, "{status}");

        let others: Vec<_> = sidecar
            .opened()
            .into_iter()
            .filter(|(code, _)| !TRUE_ANYWAY.contains(&code.as_str()))
            .collect();

        assert!(others.is_empty(), "{others:?}");
    }
}

/// A new token replaces the old one in its file, as if by the kubelet, and the API server refuses
/// the old one.
fn token_rotated() {
    let plane = bed();
    let namespace = "rotated";
    plane.kube.namespace(namespace);
    account_within(&plane.kube, namespace);
    plane.kube.zoo("Widget", namespace, "one", json!({"suspend": true}));

    let token = plane.directory().join("rotated.token");
    std::fs::write(&token, plane.kube.token(namespace, ACCOUNT)).expect("our own folder");

    let wire = Wire::to(plane.port);
    let kubeconfig = plane.kubeconfig_of("rotated.kubeconfig", &wire.url(), namespace, ACCOUNT);
    let text = std::fs::read_to_string(&kubeconfig).expect("our own file");
    let mut config: Value = serde_json::from_str(&text).expect("our own file");

    config["users"][0]["user"] = json!({"tokenFile": token});
    std::fs::write(&kubeconfig, config.to_string()).expect("our own folder");

    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &quick(), &[]);
    sidecar.wait_synced(ZOO_KINDS.len());

    // A new account with the same name makes the tokens of the old one invalid.
    plane.kube.delete("v1", "ServiceAccount", namespace, ACCOUNT);
    service_account(&plane.kube, namespace);
    pause(Duration::from_secs(12)); // the API server caches valid tokens for 10 s
    wire.cut();

    let source = "watch/widgets.zoo.loopwatch.dev/rotated";
    let (finding, _) =
        sidecar.expect_finding(Duration::from_secs(40), "SourceFailing", "Source", source);

    assert_eq!(finding.evidence("cause"), "unauthorized", "{finding}");

    std::fs::write(&token, plane.kube.token(namespace, ACCOUNT)).expect("our own folder");

    // loopwatch reads the file about once a minute, and retries at least every half minute.
    sidecar.expect_cleared(Duration::from_secs(120), "SourceFailing", "Source", source);
    plane.kube.zoo("Widget", namespace, "two", json!({"suspend": true}));
    sidecar.expect(Duration::from_secs(10), "what happens is seen", || {
        sidecar.object("Widget", namespace, "two")
    });
}

/// Creates the zoo operator's account with permissions in only one namespace, as for a tenant.
fn account_within(kube: &Kube, namespace: &str) {
    let role =
        kube.find(RBAC, "ClusterRole", "", "widget-operator").expect("installed with the zoo");
    service_account(kube, namespace);
    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role",
        "metadata": {"name": "widget-operator", "namespace": namespace}, "rules": role["rules"]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": "widget-operator", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "widget-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
}

/// A definition of the kind `Thing` in a group.
pub(crate) fn definition(group: &str, versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}});
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({"name": version, "served": true, "storage": *version == "v1", "schema": schema,
                "subresources": {"status": {}}})
        })
        .collect();

    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"}}})
}

/// Waits until the kind `Thing` of a group is served, or no longer.
pub(crate) fn wait_served(kube: &Kube, group: &str, version: &str, served: bool) {
    eventually(Duration::from_secs(30), &format!("{group}/{version} is served: {served}"), || {
        let answer = kube.get(&path(&format!("{group}/{version}"), "Thing", "", ""));
        if answer.is_ok() == served { Ok(()) } else { Err(format!("{answer:?}")) }
    });
}

/// Creates an object of the kind `Thing`.
pub(crate) fn thing(kube: &Kube, group: &str, version: &str, namespace: &str, name: &str) {
    let object = json!({"apiVersion": format!("{group}/{version}"), "kind": "Thing",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 1}});
    eventually(Duration::from_secs(10), &format!("{name} is made"), || kube.try_apply(&object));
}

fn family(text: &str, name: &str) -> String {
    text.lines().filter(|line| line.contains(name)).collect::<Vec<_>>().join("\n")
}
