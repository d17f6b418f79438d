//! Installation from `deploy/`: kustomize builds it, the API server accepts it and admits its Pods,
//! and the account can read the operator's kinds.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, bed, test};
use loopwatch::needs::{NEEDS, Request, Target, Verb};
use loopwatch::published::PUBLISHED;
use loopwatch_testbed::bundled::DASHBOARDS;
use loopwatch_testbed::definitions;
use loopwatch_testbed::kube::{ZOO_KINDS, documents, plural};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{kustomize, repository};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("install::sidecar", sidecar),
        test("install::standalone", standalone),
        test("install::kustomizations", kustomizations),
        test("install::workloads", workloads),
        test("install::process", process),
        test("install::access", access),
        test("install::audit_log", audit_log),
    ]
}

/// Tests that add definitions to the cluster, and therefore run alone.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![alone("install::monitoring_stack", monitoring_stack)]
}

/// The finding on a definition of the zoo, which has no status subresource on purpose.
const TRUE_ANYWAY: &str = "StatusSubresourceMissing";

/// Thresholds that no object exceeds, because no operator works on the objects of these tests.
fn patient() -> Value {
    quick_but(json!({"deadline": "1h", "phase_stuck_after": "1h"}))
}

/// `examples/zoo`: loopwatch as a sidecar, with the opt-in permissions to read more.
fn sidecar() {
    // Renamed, because all tests share the zoo's own namespace and account.
    let rendered = render("deploy/examples/zoo")
        .replace("zoo-system", "installed")
        .replace("widget-operator", "installed-operator");
    apply(&rendered);

    let pod = admitted("installed", "installed-operator");
    let containers = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
    let named = containers
        .iter()
        .filter_map(|list| list.as_array())
        .flatten()
        .any(|c| c["name"] == "loopwatch");

    assert!(named, "{pod}");
    assert!(
        pod["spec"]["containers"][0]["readinessProbe"].is_object(),
        "the operator's own probe is still there: {pod}"
    );

    let plane = bed();
    let kubeconfig =
        plane.kubeconfig_of("installed.kubeconfig", &plane.url, "installed", "installed-operator");

    // By default, loopwatch says that it does not see the Secrets of the widgets as children.
    let flags = ["--secrets=metadata"];
    let loopwatch = Sidecar::start(plane, "installed", &kubeconfig, &patient(), &flags);

    loopwatch.wait_synced(ZOO_KINDS.len());
    watches_the_zoo(&loopwatch, &ZOO_KINDS);
}

/// The audit log of the API server, which has its own way to read requests, names none that the table of
/// needs lacks.
fn audit_log() {
    let (plane, name) = (bed(), "audited");
    let rendered = render("deploy/examples/zoo")
        .replace("zoo-system", name)
        .replace("widget-operator", "audited-operator");
    apply(&rendered);

    let user = "system:serviceaccount:audited:audited-operator";
    let (_apiserver, url, log) = plane.apiserver_with_audit_log(user);
    let kubeconfig = plane.kubeconfig_of("audited.kubeconfig", &url, name, "audited-operator");

    // This API server has just started, and may need more than five seconds for an answer.
    let settings = quick_but(json!({"deadline": "1h", "source_failing_after": "30s"}));
    let loopwatch = Sidecar::start(plane, name, &kubeconfig, &settings, &["--secrets=off"]);
    loopwatch.wait_synced(ZOO_KINDS.len());

    let text = std::fs::read_to_string(&log).expect("the audit log");
    let events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(events.len() >= 10, "{text}");

    for event in events {
        let object = &event["objectRef"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, resource) = (word(&object["apiGroup"]), word(&object["resource"]));
        let path = word(&event["requestURI"]);
        let path = path.split('?').next().unwrap_or_default();
        let target = match object.is_null() {
            true => Target::Path(path),
            false => Target::Resource(&group, &resource),
        };

        let verb = match event["verb"].as_str() {
            Some("get") => Verb::Get,
            Some("list") => Verb::List,
            Some("watch") => Verb::Watch,
            Some("create") => Verb::Create,
            _ => panic!("a verb of no need: {event}"),
        };
        let request = Request { verb, target, metadata_only: false };

        assert!(object["subresource"].is_null(), "{event}");
        assert!(NEEDS.iter().any(|need| need.covers(&request)), "{event}");
    }
}

/// `examples/standalone`: a Deployment and an account of its own, with permission to read the kinds
/// that a patch names.
fn standalone() {
    let resources = ZOO_KINDS.map(plural);
    let mut rendered = documents(&render("deploy/examples/standalone"));
    let kinds = rendered.iter_mut().find(|object| {
        object["metadata"]["name"] == "loopwatch-kinds" && object["kind"] == "ClusterRole"
    });
    let kinds = kinds.expect("the ClusterRole for the kinds");

    kinds["rules"] = json!([{"apiGroups": ["zoo.loopwatch.dev"], "resources": resources, "verbs": ["get", "list", "watch"]}]);
    rendered.iter().for_each(apply_one);

    let pod = admitted("loopwatch", "loopwatch");
    assert_eq!(pod["spec"]["serviceAccountName"], "loopwatch", "{pod}");

    let plane = bed();
    let kubeconfig =
        plane.kubeconfig_of("standalone.kubeconfig", &plane.url, "loopwatch", "loopwatch");
    let loopwatch = Sidecar::start(plane, "standalone", &kubeconfig, &patient(), &[]);

    // This account owns no kind, so loopwatch watches only the kinds that have a status.
    let reporting: Vec<&str> = ZOO_KINDS.into_iter().filter(|kind| *kind != "Statusless").collect();
    loopwatch.wait_synced(reporting.len());
    watches_the_zoo(&loopwatch, &reporting);
}

/// The components work in every form of kustomization: however it sets the namespace, and whatever
/// it lists first.
fn kustomizations() {
    let plain = ("", "namespace: my-ns\nresources: [operator.yaml]\n");
    let [sidecar, reader, monitoring] = ["sidecar", "reader-rights", "monitoring"];
    let namespaced = "reader-rights-namespaced";
    for (form, (namespace, head), components) in [
        ("one-file", plain, vec![sidecar, reader]),
        ("reader-first", plain, vec![reader, sidecar]),
        ("all-three", plain, vec![monitoring, reader, sidecar]),
        ("reader-only", plain, vec![reader]),
        ("namespaced", plain, vec![namespaced, sidecar]),
        (
            "namespaced-in-the-objects",
            ("namespace: my-ns, ", "resources: [operator.yaml]\n"),
            vec![sidecar, namespaced],
        ),
        (
            "named-twice",
            ("namespace: system, ", "namespace: my-ns\nresources: [operator.yaml]\n"),
            vec![sidecar, reader],
        ),
        (
            "in-the-objects",
            ("namespace: my-ns, ", "resources: [operator.yaml]\n"),
            vec![reader, sidecar],
        ),
        ("one-file-above", ("", "resources: [inner]\n"), vec![sidecar, reader]),
        // As Kubebuilder lays it out.
        (
            "prefixed-below",
            ("namespace: system, ", "resources: [inner, extra.yaml]\n"),
            vec![sidecar, reader],
        ),
        ("prefixed-below-2", ("", "resources: [inner]\n"), vec![monitoring, namespaced, sidecar]),
        (
            "prefixed-twice",
            ("namespace: system, ", "namePrefix: q-\nresources: [inner]\n"),
            vec![monitoring, reader, sidecar],
        ),
    ] {
        let folder = bed().directory().join("kustomizations").join(form);
        let operator = operator_in(namespace);
        if head.contains("inner") {
            write(&folder.join("inner"), "operator.yaml", &operator);
            let prefix = if form.starts_with("prefixed") { "namePrefix: p-\n" } else { "" };
            write(&folder.join("inner"), "kustomization.yaml", &format!("{}{prefix}", plain.1));
        }

        write(&folder, "operator.yaml", &operator);
        let extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: my-ns}\n";
        write(&folder, "extra.yaml", extra);
        let listed: String = components
            .iter()
            .map(|name| format!("  - {}\n", kustomize::component(&folder, name)))
            .collect();
        let image = PUBLISHED.image;
        let images = format!(
            "images: [{{name: {image}, newName: registry.example.com/loopwatch, newTag: mine}}]\n"
        );

        write(&folder, "kustomization.yaml", &format!("{head}components:\n{listed}{images}"));
        let rendered = documents(&render(&folder));
        let bindings: &[&str] = match components.contains(&reader) {
            true => &["RoleBinding", "ClusterRoleBinding"],
            false => &["RoleBinding"],
        };
        expect_bound(form, &rendered, bindings, components.contains(&sidecar));

        if form == "one-file" {
            bed().kube.namespace("my-ns");
            rendered.iter().for_each(apply_one);
        }
    }
}

/// The sidecar goes to the workloads that labels name, and everything else to the namespace of the operator.
/// kustomize fails if no workload is the operator, or if several are.
fn workloads() {
    let [chosen, none] = ["loopwatch/sidecar: \"true\"", "app: any"];
    let of_chart = "app.kubernetes.io/component: operator";
    let kubebuilder = "control-plane: controller-manager";
    for (form, kind, labels, webhook, expected) in [
        ("label", "Deployment", chosen, none, Ok(1)),
        ("kubebuilder", "Deployment", kubebuilder, none, Ok(1)),
        ("chart", "StatefulSet", of_chart, "app.kubernetes.io/component: webhook", Ok(1)),
        ("stateful-set", "StatefulSet", chosen, none, Ok(1)),
        ("two", "StatefulSet", chosen, "loopwatch/sidecar: additional", Ok(2)),
        (
            "opted-out",
            "Deployment",
            kubebuilder,
            "loopwatch/sidecar: \"false\", control-plane: controller-manager",
            Ok(1),
        ),
        ("unlabelled", "Deployment", none, none, Err("nothing selected by OneWorkloadWithLabel")),
        ("ambiguous", "Deployment", chosen, kubebuilder, Err("multiple matches for selector")),
    ] {
        let folder = bed().directory().join("kustomizations").join(format!("workloads-{form}"));
        let operator = operator_in("namespace: my-ns, ");
        let webhook = format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{namespace: my-ns, name: my-webhook, \
             labels: {{{webhook}}}}}\nspec: {{template: {{spec: {{containers: [{{name: webhook}}]}}}}}}\n"
        );
        let text = operator
            .replace(&format!("labels: {{{kubebuilder}}}"), &format!("labels: {{{labels}}}"))
            .replace("kind: Deployment", &format!("kind: {kind}"));
        write(&folder, "operator.yaml", &(text + &webhook));
        let listed: String =
            ["monitoring", "reader-rights", "sidecar", "network-policy", "web-auth", "tls"]
                .iter()
                .map(|name| format!("  - {}\n", kustomize::component(&folder, name)))
                .collect();
        let head = "resources: [operator.yaml]\ncomponents:\n";
        write(&folder, "kustomization.yaml", &format!("{head}{listed}"));

        match (kustomize::try_build(bed(), &folder), expected) {
            (Ok(rendered), Ok(sidecars)) => {
                expect_chosen(form, kind, &documents(&rendered), sidecars)
            }
            (Err(error), Err(word)) => assert!(error.contains(word), "{form}: {error}"),
            (Ok(rendered), Err(_)) => panic!("{form}: kustomize must fail: {rendered}"),
            (Err(error), Ok(_)) => panic!("{form}: {error}"),
        }
    }
}

/// Expects the sidecar in the operator and in as many workloads as named, and every namespaced object in
/// `my-ns`.
fn expect_chosen(form: &str, kind: &str, rendered: &[Value], sidecars: usize) {
    let has_sidecar = |object: &Value| {
        object["spec"]["template"]["spec"]["initContainers"][0]["name"] == "loopwatch"
    };
    let operator = rendered.iter().find(|object| object["metadata"]["name"] == "my-operator");
    let operator = operator.unwrap_or_else(|| panic!("{form}: no operator"));

    assert_eq!(operator["kind"], kind, "{form}: the kind is the one that it had");
    assert!(has_sidecar(operator), "{form}: {operator}");
    assert_eq!(rendered.iter().filter(|object| has_sidecar(object)).count(), sidecars, "{form}");

    let namespaced: Vec<&Value> =
        rendered.iter().filter(|object| !object["kind"].to_string().contains("Cluster")).collect();
    assert!(namespaced.len() >= 10, "{form}: {namespaced:?}");
    for object in namespaced {
        assert_eq!(object["metadata"]["namespace"], "my-ns", "{form}: {object}");
    }
}

/// `components/tls` and `components/web-auth` change the sidecar and the PodMonitor alike, and only
/// the operator's account may review tokens.
fn access() {
    let folder = bed().directory().join("kustomizations").join("access");
    write(&folder, "operator.yaml", &operator_in("namespace: my-ns, "));
    let listed: String = ["reader-rights", "sidecar", "scrape", "web-auth", "tls"]
        .into_iter()
        .map(|name| format!("  - {}\n", kustomize::component(&folder, name)))
        .collect();
    write(
        &folder,
        "kustomization.yaml",
        &format!("resources: [operator.yaml]\ncomponents:\n{listed}"),
    );

    let rendered = documents(&render(&folder));
    let of = |kind: &str, name: &str| -> &Value {
        let found = rendered.iter().find(|object| {
            object["kind"] == kind
                && object["metadata"]["name"].as_str().is_some_and(|found| found.starts_with(name))
        });
        found.unwrap_or_else(|| panic!("no {kind} {name}: {rendered:?}"))
    };

    let endpoint = &of("PodMonitor", "loopwatch")["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["scheme"], "https", "{endpoint}");
    assert_eq!(endpoint["tlsConfig"]["ca"]["secret"]["name"], "loopwatch-tls", "{endpoint}");
    assert_eq!(endpoint["authorization"]["credentials"]["name"], "loopwatch-scraper", "{endpoint}");

    let sidecar = &of("Deployment", "")["spec"]["template"]["spec"]["initContainers"][0];
    let variables: Vec<&Value> =
        sidecar["env"].as_array().into_iter().flatten().map(|variable| &variable["name"]).collect();
    for name in ["LOOPWATCH_WEB_CONFIG_FILE", "LOOPWATCH_WEB_AUTH"] {
        assert!(variables.iter().any(|variable| *variable == name), "{variables:?}");
    }

    let binding = of("ClusterRoleBinding", "loopwatch-reviews:");
    let account = &of("Deployment", "")["spec"]["template"]["spec"]["serviceAccountName"];
    assert_eq!(binding["roleRef"]["name"], "loopwatch-reviews", "{binding}");
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": account, "namespace": "my-ns"}])
    );
}

/// The API server accepts everything that the examples and the components contain, without any
/// field that it does not know, in a cluster with the Prometheus Operator. One line in addition to
/// the sidecar installs the rules, the dashboards and the PodMonitor.
fn monitoring_stack() {
    let definitions = definitions::find().unwrap_or_else(|missing| panic!("{missing}"));
    let kube = &bed().kube;
    let _installed = definitions.install(kube);
    let operator = "namespace: monitored\nresources: [operator.yaml]\n";

    // Renamed, because all tests share the zoo's own namespace and account.
    let zoo = render("deploy/examples/zoo")
        .replace("zoo-system", "monitored")
        .replace("widget-operator", "monitored-zoo");
    let mut rendered = vec![zoo, render("deploy/examples/standalone")];
    let entries = std::fs::read_dir(repository("deploy/components"))
        .expect("the components")
        .filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());

    for name in names.filter(|name| name != "sidecar") {
        let folder = bed().directory().join("kustomizations").join(format!("monitored-{name}"));
        write(&folder, "operator.yaml", &operator_in(""));

        // Some components change the PodMonitor.
        let monitor = (!["monitoring", "scrape"].contains(&name.as_str())).then_some("scrape");
        let listed: String = ["sidecar"]
            .into_iter()
            .chain(monitor)
            .chain([name.as_str()])
            .map(|name| format!("  - {}\n", kustomize::component(&folder, name)))
            .collect();
        write(&folder, "kustomization.yaml", &format!("{operator}components:\n{listed}"));

        let text = render(&folder);
        if name == "monitoring" {
            expect_monitoring(&documents(&text));
        }

        rendered.push(text);
    }

    for namespace in ["monitored", "loopwatch"] {
        kube.namespace(namespace);
    }

    let mut kinds = BTreeSet::new();
    for object in rendered.iter().flat_map(|text| documents(text)) {
        // The zoo's own definitions are there.
        if object["kind"] != "CustomResourceDefinition" {
            kube.try_apply_strictly(&object).unwrap_or_else(|error| panic!("{error}"));
            kinds.insert(object["kind"].as_str().unwrap_or_default().to_owned());
        }
    }

    assert!(
        ["PodMonitor", "PrometheusRule", "ConfigMap"].iter().all(|kind| kinds.contains(*kind)),
        "{kinds:?}"
    );

    // The API server would notice a mistake.
    let rule = kube.find("monitoring.coreos.com/v1", "PrometheusRule", "monitored", "loopwatch");
    let mut rule = rule.expect("the rules");
    rule["metadata"] = json!({"name": "wrong", "namespace": "monitored"});
    rule["spec"]["groups"][0]["rules"][0]["expression"] = json!("1");

    let answer = kube.try_apply_strictly(&rule);
    assert!(answer.as_ref().is_err_and(|error| error.contains("expression")), "{answer:?}");

    kube.delete("v1", "Namespace", "", "monitored");
}

/// Expects the rules, all dashboards, and a PodMonitor that selects the Pods of the operator.
fn expect_monitoring(rendered: &[Value]) {
    let of = |kind: &str| -> Vec<&Value> {
        rendered.iter().filter(|object| object["kind"] == kind).collect()
    };
    let ([monitor], [_rules]) = (&of("PodMonitor")[..], &of("PrometheusRule")[..]) else {
        panic!("{rendered:?}")
    };

    assert_eq!(monitor["metadata"]["namespace"], "monitored", "{monitor}");

    let template = &of("Deployment")[0]["spec"]["template"];
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels") {
        assert_eq!(template["metadata"]["labels"][label], *value, "{template}");
    }

    let ports = &template["spec"]["initContainers"][0]["ports"];
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], ports[0]["name"], "{monitor}");

    let dashboards: Vec<&Value> =
        of("ConfigMap").into_iter().map(|map| &map["metadata"]["name"]).collect();

    assert!(
        DASHBOARDS.iter().all(|name| dashboards.iter().any(|other| *other == name)),
        "{dashboards:?}"
    );

    for map in of("ConfigMap") {
        // `kubectl apply` keeps a copy in an annotation, which may have 256 KiB.
        assert!(map.to_string().len() < 250_000, "{} is too large", map["metadata"]["name"]);
    }
}

/// `components/process`: all containers of the Pod share their processes, the sidecar runs as the
/// operator's user, and the Pod complies with the restricted security standard, in either order of
/// the components.
fn process() {
    for (name, components) in
        [("process-last", ["sidecar", "process"]), ("process-first", ["process", "sidecar"])]
    {
        let folder = bed().directory().join("kustomizations").join(name);
        let compliant = "securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, \
                         capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}";
        let operator =
            operator_in("").replace("image: manager", &format!("image: manager, {compliant}"));

        write(&folder, "operator.yaml", &operator);
        let listed: String = components
            .iter()
            .map(|name| format!("  - {}\n", kustomize::component(&folder, name)))
            .collect();
        let head = format!("namespace: {name}\nresources: [operator.yaml]\ncomponents:\n{listed}");

        // The last one is for OpenShift.
        for (user, patched) in [("1000", json!(1000)), ("null", Value::Null)] {
            write(&folder, "kustomization.yaml", &format!("{head}{}", user_patch(user)));
            expect_shared(name, &deployment_in(&folder)["spec"]["template"]["spec"], &patched);
        }

        write(&folder, "kustomization.yaml", &head);
        bed()
            .kube
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}));
        documents(&render(&folder)).iter().for_each(apply_one);
        expect_shared(name, &admitted(name, "my-operator")["spec"], &json!(65532));
    }
}

fn deployment_in(folder: &Path) -> Value {
    let rendered = documents(&render(folder));
    rendered.into_iter().find(|object| object["kind"] == "Deployment").expect("a Deployment")
}

/// The patch in docs/process.md, with another user.
fn user_patch(user: &str) -> String {
    let page = std::fs::read_to_string(repository("docs/process.md")).expect("readable");
    let patch = page
        .split("```")
        .find_map(|block| block.strip_prefix("yaml\npatches:\n"))
        .expect("a patch");

    format!("patches:\n{}", patch.replace("1000", user).replace("OPERATOR", "my-operator"))
}

/// Expects that the containers share their processes, and that the sidecar runs as this user and
/// group.
fn expect_shared(form: &str, pod: &Value, user: &Value) {
    assert_eq!(pod["shareProcessNamespace"], json!(true), "{form}: {pod}");

    let [sidecar] = &pod["initContainers"].as_array().expect("containers")[..] else {
        panic!("{form}: {pod}")
    };

    assert_eq!(sidecar["name"], "loopwatch", "{form}: {pod}");

    let context = &sidecar["securityContext"];
    assert_eq!((&context["runAsUser"], &context["runAsGroup"]), (user, user), "{form}: {context}");
    assert_eq!(
        context["allowPrivilegeEscalation"],
        json!(false),
        "{form}: the rest is still there: {context}"
    );

    let mounts: Vec<_> = sidecar["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mount| &mount["mountPath"])
        .collect();

    assert!(mounts.iter().any(|path| *path == "/profiles"), "{form}: {mounts:?}");
    assert!(mounts.iter().any(|path| *path == "/etc/loopwatch"), "{form}: {mounts:?}");
}

/// A minimal operator. `namespace` is empty, or a part of its metadata such as `namespace: my-ns,
/// `.
fn operator_in(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{{namespace}name: my-account}}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {{{namespace}name: my-operator, labels: {{control-plane: controller-manager}}}}\n\
         spec:\n  selector: {{matchLabels: {{app: my-operator}}}}\n  template:\n    \
         metadata: {{labels: {{app: my-operator}}}}\n    \
         spec: {{serviceAccountName: my-account, containers: [{{name: manager, image: manager}}]}}\n"
    )
}

/// Expects the operator in `my-ns`, with permissions for its account and, if asked for, with the
/// sidecar.
fn expect_bound(form: &str, rendered: &[Value], bindings: &[&str], sidecar: bool) {
    let of = |kind: &str| -> Vec<&Value> {
        rendered.iter().filter(|object| object["kind"] == kind).collect()
    };
    let operator = of("Deployment")[0];
    for kind in ["Deployment", "ServiceAccount", "Role", "RoleBinding"] {
        let [object] = of(kind)[..] else { panic!("{form}: not one {kind}") };
        assert_eq!(object["metadata"]["namespace"], "my-ns", "{form}: {object}");
    }

    assert_eq!(of("ClusterRoleBinding").len(), bindings.len() - 1, "{form}");
    for kind in bindings {
        let [binding] = of(kind)[..] else { panic!("{form}: not one {kind}") };
        let name = match form {
            "prefixed-twice" => "q-p-my-account",
            _ if form.starts_with("prefixed") => "p-my-account",
            _ => "my-account",
        };
        let account = json!([{"kind": "ServiceAccount", "name": name, "namespace": "my-ns"}]);
        assert_eq!(of("ServiceAccount")[0]["metadata"]["name"], name, "{form}");

        assert_eq!(binding["subjects"], account, "{form}: {binding}");
        assert!(!binding.to_string().contains("ACCOUNT"), "{form}: {binding}");
    }

    let image = &operator["spec"]["template"]["spec"]["initContainers"][0]["image"];
    match sidecar {
        true => assert_eq!(*image, "registry.example.com/loopwatch:mine", "{form}: {operator}"),
        false => assert!(image.is_null(), "{form}: {operator}"),
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).expect("our own folder");
    std::fs::write(folder.join(name), text).expect("our own folder");
}

/// Expects that the kinds are primary, and that loopwatch lacks no permission and reports no
/// finding about itself.
fn watches_the_zoo(loopwatch: &Sidecar, expected: &[&str]) {
    let status = loopwatch.status().unwrap_or_default();
    let kinds = status["kinds"].as_array().cloned().unwrap_or_default();
    for kind in expected {
        let found = kinds.iter().find(|k| k["kind"] == *kind);
        assert!(found.is_some_and(|k| k["role"] == "primary"), "{kind}: {status}");
    }

    // Definitions of other tests come and go, and loopwatch may have listed one that has just gone. An
    // account that owns no kind may own some elsewhere, and loopwatch reviews many namespaces slowly.
    loopwatch.expect(Duration::from_secs(240), "loopwatch sees everything", || {
        let status = loopwatch.status()?;
        if status["not_visible"] == json!([]) { Ok(()) } else { Err(status.to_string()) }
    });

    let no_status = "nosubresources.zoo.loopwatch.dev";
    loopwatch.expect_finding(
        Duration::from_secs(20),
        TRUE_ANYWAY,
        "CustomResourceDefinition",
        no_status,
    );
    loopwatch.expect(Duration::from_secs(10), "every source works", || {
        let status = loopwatch.status()?;
        let sources = status["sources"].as_array().cloned().unwrap_or_default();
        let down: Vec<_> = sources.iter().filter(|source| source["up"] != true).collect();

        if down.is_empty() && sources.len() > expected.len() {
            Ok(())
        } else {
            Err(json!(down).to_string())
        }
    });

    // Other tests run objects with faults in the same cluster; only findings about loopwatch itself
    // count here.
    let about_itself = [
        "SourceFailing",
        "PermissionMissing",
        "PermissionExcess",
        "ConfigInvalid",
        "StateInconsistent",
    ];

    let own = |(code, subject): &(String, String)| {
        about_itself.contains(&code.as_str()) && !subject.contains("zorblatt")
    };
    let found: Vec<_> = loopwatch.opened().into_iter().filter(own).collect();

    assert!(found.is_empty(), "{found:?}");
}

fn render(folder: impl AsRef<Path>) -> String {
    kustomize::build(bed(), &repository(folder))
}

fn apply(rendered: &str) {
    documents(rendered).iter().for_each(apply_one);
}

/// Applies an object, except kinds of the Prometheus Operator, which this cluster usually lacks,
/// and definitions, which it has.
fn apply_one(object: &Value) {
    let api = object["apiVersion"].as_str().unwrap_or_default();
    if !api.starts_with("monitoring.coreos.com/") && object["kind"] != "CustomResourceDefinition" {
        bed().kube.try_apply_strictly(object).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Waits for a Pod of a Deployment. The namespace of `base` enforces the restricted Pod security
/// standard.
fn admitted(namespace: &str, deployment: &str) -> Value {
    let kube = &bed().kube;
    eventually(Duration::from_secs(40), &format!("a Pod of {deployment} is admitted"), || {
        let pods = kube.try_list("v1", "Pod", namespace)?;
        let mine = |pod: &&Value| {
            pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(deployment))
        };

        pods.iter().find(mine).cloned().ok_or_else(|| {
            let object =
                kube.find("apps/v1", "Deployment", namespace, deployment).unwrap_or_default();
            object["status"].to_string()
        })
    })
}
