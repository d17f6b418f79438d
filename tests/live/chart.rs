//! The Helm chart: what it refuses, that it renders what kustomize renders from `deploy/`, and that
//! Helm 3 and Helm 4 install, upgrade, roll back and uninstall it.

mod monitors;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{alone, bed, test_after};
use loopwatch_testbed::accounts::RBAC;
use loopwatch_testbed::bundled::DASHBOARDS;
use loopwatch_testbed::helm::Helm;
use loopwatch_testbed::kube::{ZOO_KINDS, documents, plural};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{binaries, definitions, kustomize, repository};

pub(crate) fn trials() -> Vec<Trial> {
    let with_helm_4 = |name: &str, run: fn(&Helm)| {
        test_after(name, binaries::helm_4, move |binary| run(&Helm::new(bed(), "helm4", &binary)))
    };

    vec![
        with_helm_4("chart::values", values),
        with_helm_4("chart::rendered", rendered),
        with_helm_4("chart::monitors", monitors::monitors),
        with_helm_4("chart::cluster_name", monitors::cluster_name),
        with_helm_4("chart::releases", |helm| release(helm, "charted-four")),
        test_after("chart::helm_3", binaries::helm_3, helm_3).with_ignored_flag(true),
    ]
}

/// Tests that add definitions to the cluster, and therefore run alone.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![alone("chart::everything", everything)]
}

/// The same with Helm 3.
fn helm_3(binary: PathBuf) {
    let helm = Helm::new(bed(), "helm3", &binary);
    values(&helm);
    rendered(&helm);
    monitors::monitors(&helm);
    monitors::cluster_name(&helm);
    release(&helm, "charted-three");
}

/// The image in tests. No registry has it.
const IMAGE: &str = "registry.example.com/loopwatch";

/// The values of `ci/`, as names of files.
const FILES: [&str; 4] = ["minimal", "all", "namespaced", "cluster"];

/// The flags with which Helm waits for the Pod.
const WAIT: [&str; 3] = ["--wait", "--timeout", "120s"];

/// The labels that only Helm sets. One of them is also part of the selector of the Pods.
const OF_HELM: [&str; 3] =
    ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"];

/// The labels that the chart sets on all objects, and kustomize only on those of `deploy/base`.
const OF_BASE: [&str; 4] = [
    "app.kubernetes.io/component",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
];

/// The largest release that the chart may have. Kubernetes stores Secrets with up to 1 MiB of data.
const RELEASE_BYTES: usize = 512 * 1024;

/// Objects by kind, namespace and name.
type Objects = BTreeMap<(String, String, String), Value>;

/// The chart passes Helm's checks with all files of `ci/`. A value that is misspelt, of a wrong type or
/// missing is an error that names it.
fn values(helm: &Helm) {
    helm.run(&["lint", "--strict", &chart()]);
    for file in FILES {
        helm.run(&["lint", "--strict", &chart(), "--values", &of_ci(file)]);
    }

    for (flag, value, words) in [
        ("--set", "podMonitor.enabled=yes", ["/podMonitor/enabled", "boolean"]),
        ("--set", "image.tag=5", ["/image/tag", "string"]),
        ("--set", "podMonitr.enabled=true", ["podMonitr", "not allowed"]),
        ("--set", "rights.scop=cluster", ["/rights", "scop"]),
        ("--set", "rights.scope=all", ["/rights/scope", "cluster"]),
        ("--set", "clusterName=a=b", ["/clusterName", "a=b"]),
        // The configuration file of a Pod may not decide where loopwatch connects.
        ("--set", "config.otlp=http://collector", ["/config", "otlp"]),
        (
            "--set-json",
            r#"kinds=[{"apiGroups":["example.io"],"resources":["*"]}]"#,
            ["/kinds/0/resources/0", "'*'"],
        ),
        (
            "--set-json",
            r#"kinds=[{"apiGroups":["*"],"resources":["widgets"]}]"#,
            ["/kinds/0/apiGroups/0", "'*'"],
        ),
        ("--set", "podLabels.loopwatch/scrape=no", ["podLabels", "loopwatch/scrape"]),
        ("--set", "serviceAccount.create=false", ["serviceAccount.name", "name the"]),
        (
            "--set",
            "podMonitor.enabled=true,serviceMonitor.enabled=true",
            ["serviceMonitor.enabled", "twice"],
        ),
        ("--set", "allOperators.groups={*}", ["/allOperators/groups/0", "'*'"]),
        ("--set", "allOperators.enabled=true,namespaces={team-a}", ["namespaces", "allOperators"]),
        ("--set", "allOperators.enabled=true,rights.scope=cluster", ["rights.scope", "grants"]),
        (
            "--set",
            "allOperators.enabled=true,extraArgs={--operator=system/operator}",
            ["extraArgs", "--operator"],
        ),
        (
            "--set-json",
            r#"allOperators.enabled=true,kinds=[{"apiGroups":["example.io"],"resources":["widgets"]}]"#,
            ["kinds", "allOperators.groups"],
        ),
        ("--set", "image.repository=", ["image.repository", "no image of loopwatch"]),
        ("--set", "tls=null", ["missing", "tls"]),
    ] {
        let error = template(helm, &["--set", &image(), flag, value]);
        let error = error.err().unwrap_or_else(|| panic!("{value} is accepted"));
        assert!(words.iter().all(|word| error.contains(word)), "{value}: {error}");
    }

    // Nobody needs to delete a value in this way, but it must not lead to an invalid manifest.
    for value in ["kinds", "config", "resources", "extraEnv", "podAnnotations", "podLabels"] {
        let rendered = template(helm, &["--set", &image(), "--set", &format!("{value}=null")]);
        let rendered = rendered.unwrap_or_else(|error| panic!("{value}: {error}"));
        assert!(documents(&rendered).len() >= 8, "{value}");
    }

    expect_one_variable_of_a_name(helm);
}

/// A variable of the user replaces that of a value. Server-side apply, which Helm 4 uses, refuses both.
fn expect_one_variable_of_a_name(helm: &Helm) {
    let own = json!({"name": "OTEL_RESOURCE_ATTRIBUTES",
        "value": "k8s.cluster.name=eu-1,k8s.cluster.uid=1"});
    let extra = format!("clusterName=\"eu-1\",extraEnv=[{own}]");
    let rendered = template(helm, &["--set", &image(), "--set-json", &extra]);
    let objects = documents(&rendered.unwrap_or_else(|error| panic!("{error}")));

    let env = &only(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"];
    let label = json!({"name": "LOOPWATCH_ALERT_LABEL", "value": "cluster=eu-1"});
    assert_eq!(*env, json!([label, own]));
}

/// The chart renders what kustomize renders from `deploy/`, apart from Helm's labels and the
/// Namespace.
fn rendered(helm: &Helm) {
    let kinds = r#"kinds=[{"apiGroups":["example.io"],"resources":["widgets","gadgets"]}]"#;
    let monitoring = "podMonitor.enabled=true,rules.enabled=true,dashboards.enabled=true";
    let access = "tls.enabled=true,webAuth.enabled=true";
    let example = |name: &str| repository("deploy/examples").join(name);

    for (form, folder, flags) in [
        ("base", repository("deploy/base"), vec![]),
        ("standalone", example("standalone"), vec!["--set-json", kinds, "--set", monitoring]),
        (
            "standalone-tls",
            example("standalone-tls"),
            vec!["--set-json", kinds, "--set", monitoring, "--set", access],
        ),
        ("reader", base_with("reader-rights"), vec!["--set", "rights.scope=cluster"]),
        (
            "reader-namespaced",
            base_with("reader-rights-namespaced"),
            vec!["--set", "rights.scope=namespace"],
        ),
        (
            "network-policy",
            base_with("network-policy"),
            vec!["--set", "networkPolicy.enabled=true"],
        ),
        ("tenants", base_with("tenant-alerts"), vec!["--set", "tenantRules.enabled=true"]),
        ("cluster", repository("deploy/cluster"), vec!["--set", "allOperators.enabled=true"]),
        (
            "cluster-monitoring",
            folder_with("cluster", "monitoring"),
            vec!["--set", "allOperators.enabled=true", "--set", monitoring],
        ),
    ] {
        let mut expected = objects(&kustomize::build(bed(), &folder));
        expected.retain(|(kind, _, _), _| kind != "Namespace");
        expected.values_mut().for_each(normalize);

        // The image of the manifests.
        let image = "image.repository=registry.invalid/loopwatch";
        let flags = [&["--set", image][..], &flags[..]].concat();
        let rendered = template(helm, &flags).unwrap_or_else(|error| panic!("{error}"));
        let mut found = objects(&rendered);
        for (key, object) in &mut found {
            let theirs = expected.get(key).unwrap_or_else(|| panic!("{form}: only Helm: {key:?}"));
            strip(object, theirs);
            normalize(object);
            assert_eq!(*object, *theirs, "{form}: {key:?}");
        }

        assert!(found.keys().eq(expected.keys()), "{form}: {:?}", expected.keys());
    }

    // The roles for more kinds have the rules of those in the manifests. The account has them by a
    // binding, not by the label that the aggregated role selects: Helm deletes the roles of a release
    // at the same time, and the controller would create the aggregated role again.
    let more =
        "allOperators.enabled=true,allOperators.groups={example.io},allOperators.readAllKinds=true";
    let rendered = template(helm, &["--set", &image(), "--set", more]);
    let found = documents(&rendered.unwrap_or_else(|error| panic!("{error}")));
    let of = |kind: &str, name: &str| {
        let found = found.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    for file in ["examples/cluster/kinds.yaml", "components/read-all-kinds/kinds.yaml"] {
        let [theirs] = &documents(&read(&format!("deploy/{file}")))[..] else { panic!("{file}") };
        let name = theirs["metadata"]["name"].as_str().unwrap_or_default();
        let ours = of("ClusterRole", name);
        assert_eq!(ours["rules"], theirs["rules"], "{file}");
        assert!(ours["metadata"]["labels"]["loopwatch/kinds"].is_null(), "{ours}");
        assert_eq!(of("ClusterRoleBinding", name)["roleRef"]["name"], name);
    }

    // kustomize changes the layout of long expressions. Helm's are exactly those of the files.
    let all = "rules.enabled=true,tenantRules.enabled=true,dashboards.enabled=true";
    let rendered = template(helm, &["--set", &image(), "--set", all]);
    let found = objects(&rendered.unwrap_or_else(|error| panic!("{error}")));
    let of = |kind: &str, name: &str| {
        found
            .get(&(kind.to_owned(), "loopwatch".to_owned(), name.to_owned()))
            .unwrap_or_else(|| panic!("no {kind} {name}"))
    };

    for (name, component) in [("loopwatch", "monitoring"), ("loopwatch-tenants", "tenant-alerts")] {
        let file = format!("deploy/components/{component}/prometheusrule.yaml");
        let [rules] = &documents(&read(&file))[..] else { panic!("{file}") };
        assert_eq!(of("PrometheusRule", name)["spec"], rules["spec"], "{file}");
    }

    for name in DASHBOARDS {
        let file = format!("{name}.json");
        let text = read(&format!("dashboards/{file}"));
        assert_eq!(of("ConfigMap", name)["data"], json!({file: text}), "{name}");
    }
}

/// Helm installs, upgrades, rolls back and uninstalls the chart. With the account of the release,
/// loopwatch watches the kinds of the values.
fn release(helm: &Helm, namespace: &str) {
    let kube = &bed().kube;
    let name = format!("{namespace}-loopwatch");
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    kube.apply(&json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": labels}}));

    let install = |verb: &str, values: &Value| {
        let file = bed().directory().join(format!("{namespace}.values.yaml"));
        std::fs::write(&file, values.to_string()).expect("our own folder"); // JSON is YAML
        let (chart, file) = (chart(), file.display().to_string());
        let release = [verb, namespace, &chart, "--namespace", namespace, "--values", &file];
        helm.run(&[&release[..], &WAIT[..]].concat())
    };
    let account = |resources: &[String]| json!([{"apiGroups": ["zoo.loopwatch.dev"], "resources": resources}]);

    // Without kinds, loopwatch would watch nothing.
    let notes = install("install", &json!({"image": {"repository": IMAGE}}));
    assert!(notes.contains("WARNING: `kinds` is empty"), "{notes}");
    let first = running(namespace, &format!("{IMAGE}:{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(first["spec"]["serviceAccountName"], name, "{first}");

    let resources = ZOO_KINDS.map(plural);
    let mut values = json!({"image": {"repository": IMAGE, "tag": "two"}, "kinds": account(&resources),
        "config": {"settings": {"regressed_after": "15m", "memory_levels": [500_000_000]}}});
    let notes = install("upgrade", &values);
    assert!(!notes.contains("WARNING"), "{notes}");
    assert!(notes.contains(&format!("port-forward deploy/{name} 9917:9918")), "{notes}");
    let second = running(namespace, &format!("{IMAGE}:two"));

    // Every number is still the same in the file.
    let file = || -> Option<Value> {
        let map = kube.find("v1", "ConfigMap", namespace, &name)?;
        let text = map["data"]["config.yaml"].as_str().unwrap_or_default().to_owned();
        Some(serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    };
    assert_eq!(file().as_ref(), Some(&values["config"]));

    let kubeconfig =
        bed().kubeconfig_of(&format!("{namespace}.kubeconfig"), &bed().url, namespace, &name);
    let patient = quick_but(json!({"deadline": "1h", "phase_stuck_after": "1h"}));
    let loopwatch = Sidecar::start(bed(), namespace, &kubeconfig, &patient, &[]);

    // This account owns no kind, so loopwatch watches only the kinds that have a status.
    let reporting: Vec<&str> = ZOO_KINDS.into_iter().filter(|kind| *kind != "Statusless").collect();
    loopwatch.wait_synced(reporting.len());
    let status = loopwatch.status().unwrap_or_else(|error| panic!("{error}"));
    let watched = status["kinds"].as_array().cloned().unwrap_or_default();
    for kind in reporting {
        let is_primary = |known: &Value| known["kind"] == kind && known["role"] == "primary";
        assert!(watched.iter().any(is_primary), "{kind}: {status}");
    }

    // loopwatch reads a changed file by itself, so the Pod stays.
    values["config"]["settings"]["regressed_after"] = json!("20m");
    install("upgrade", &values);
    assert_eq!(file().as_ref(), Some(&values["config"]));
    assert_eq!(
        running(namespace, &format!("{IMAGE}:two"))["metadata"]["uid"],
        second["metadata"]["uid"]
    );

    let rollback = ["rollback", namespace, "1", "--namespace", namespace];
    helm.run(&[&rollback[..], &WAIT[..]].concat());
    running(namespace, first["spec"]["containers"][0]["image"].as_str().unwrap_or_default());
    assert_eq!(file(), None, "the first revision had no file");
    let role = kube.find(RBAC, "ClusterRole", "", &format!("{name}-kinds")).expect("the role");
    assert!(role["rules"].as_array().is_none_or(Vec::is_empty), "{role}");

    let uninstall = ["uninstall", namespace, "--namespace", namespace];
    helm.run(&[&uninstall[..], &WAIT[..]].concat());
    for (api, kind, place) in [
        ("apps/v1", "Deployment", namespace),
        ("v1", "ServiceAccount", namespace),
        (RBAC, "Role", namespace),
        (RBAC, "RoleBinding", namespace),
        (RBAC, "ClusterRole", ""),
        (RBAC, "ClusterRoleBinding", ""),
    ] {
        let left = kube.try_list(api, kind, place).unwrap_or_else(|error| panic!("{error}"));
        let is_ours = |object: &Value| object["metadata"]["labels"][OF_HELM[0]] == namespace;
        assert!(!left.iter().any(is_ours), "{kind}: {left:?}");
    }

    kube.delete("v1", "Namespace", "", namespace);
}

/// The API server accepts everything that the chart can render, without any field that it does not
/// know, in a cluster with the Prometheus Operator. The release with everything fits into its Secret.
fn everything() {
    let binary = binaries::helm_4().unwrap_or_else(|missing| panic!("{missing}"));
    let helm = Helm::new(bed(), "helm4", &binary);
    let definitions = definitions::find().unwrap_or_else(|missing| panic!("{missing}"));
    let kube = &bed().kube;
    let _installed = definitions.install(kube);
    let namespace = "charted-all";

    // The namespaces of ci/namespaced-values.yaml.
    for name in [namespace, "team-a", "team-b"] {
        kube.namespace(name);
    }

    for file in FILES {
        let (chart, values) = (chart(), of_ci(file));
        let release = ["template", namespace, &chart, "--namespace", namespace];
        let flags = ["--values", &values, "--kube-version", "1.37.2"];
        let rendered = documents(&helm.run(&[&release[..], &flags[..]].concat()));
        for object in &rendered {
            kube.try_apply_strictly(object).unwrap_or_else(|error| panic!("{file}: {error}"));
        }

        for object in &rendered {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let metadata = &object["metadata"];
            kube.delete(
                &text(&object["apiVersion"]),
                &text(&object["kind"]),
                &text(&metadata["namespace"]),
                &text(&metadata["name"]),
            );
        }
    }

    // The image does not exist, and neither do the Secrets and the volume: nothing waits for the Pod.
    let (chart, values) = (chart(), of_ci("all"));
    let verb = ["upgrade", "--install", namespace, &chart];
    let flags = ["--namespace", namespace, "--values", &values];
    eventually(Duration::from_secs(60), "nothing of the manifests is left", || {
        helm.try_run(&[&verb[..], &flags[..]].concat())
    });
    let secrets =
        kube.try_list("v1", "Secret", namespace).unwrap_or_else(|error| panic!("{error}"));
    let stored = secrets.iter().find(|secret| secret["type"] == "helm.sh/release.v1");
    let data = stored.and_then(|secret| secret["data"]["release"].as_str()).expect("the release");
    let bytes = data.len() / 4 * 3;
    assert!(bytes < RELEASE_BYTES, "a release has {bytes} bytes");
    eprintln!("a release of the chart with everything has {bytes} bytes");

    helm.run(&["uninstall", namespace, "--namespace", namespace]);

    kube.delete("v1", "Namespace", "", namespace);
}

fn chart() -> String {
    repository("deploy/chart/loopwatch").display().to_string()
}

/// The path of a file with values.
fn of_ci(name: &str) -> String {
    format!("{}/ci/{name}-values.yaml", chart())
}

/// The value that the chart requires.
fn image() -> String {
    format!("image.repository={IMAGE}")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Renders the chart with the names of `deploy/base`. Helm 3 does not know a version of Kubernetes
/// that the chart accepts, because only its releases are built with one.
fn template(helm: &Helm, flags: &[&str]) -> Result<String, String> {
    let chart = chart();
    let release = ["template", "loopwatch", &chart, "--namespace", "loopwatch"];
    helm.try_run(&[&release[..], &["--kube-version", "1.37.2"][..], flags].concat())
}

/// Writes a kustomization with `deploy/base` and a component, and returns its folder.
fn base_with(component: &str) -> PathBuf {
    folder_with("base", component)
}

/// Writes a kustomization with a form of `deploy/` and a component, and returns its folder.
fn folder_with(form: &str, component: &str) -> PathBuf {
    let folder = bed().directory().join("kustomizations").join(format!("chart-{component}"));
    std::fs::create_dir_all(&folder).expect("our own folder");
    let form = format!("../{form}");
    let [form, component] =
        [form.as_str(), component].map(|name| kustomize::component(&folder, name));
    let text = format!("resources: [{form}]\ncomponents: [{component}]\n");
    std::fs::write(folder.join("kustomization.yaml"), text).expect("our own folder");

    folder
}

fn objects(text: &str) -> Objects {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let keyed = documents(text).into_iter().map(|object| {
        let metadata = &object["metadata"];
        let key = (word(&object["kind"]), word(&metadata["namespace"]), word(&metadata["name"]));
        (key, object)
    });

    keyed.collect()
}

/// The only object of a kind.
fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let (Some(object), None) = (found.next(), found.next()) else { panic!("not one {kind}") };
    object
}

/// Removes the labels of an object of the chart that kustomize does not set.
fn strip(ours: &mut Value, theirs: &Value) {
    for labels in
        ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"]
    {
        let is_of_base = !theirs["metadata"]["labels"][OF_BASE[0]].is_null();
        let more: &[&str] = if is_of_base { &[] } else { &OF_BASE };
        let removed = OF_HELM.iter().chain(more);
        if let Some(labels) = ours.pointer_mut(labels).and_then(Value::as_object_mut) {
            removed.for_each(|label| {
                labels.remove(*label);
            });
        }
    }

    remove_if_empty(&mut ours["metadata"], "labels");
}

/// Removes what kustomize and Helm may write differently without an effect: the order of volumes, blank
/// lines in expressions, and an annotation that only kustomize needs.
fn normalize(object: &mut Value) {
    for list in ["/spec/template/spec/volumes", "/spec/template/spec/containers/0/volumeMounts"] {
        if let Some(list) = object.pointer_mut(list).and_then(Value::as_array_mut) {
            list.sort_by_key(|item| item["name"].to_string());
        }
    }

    let groups = object.pointer_mut("/spec/groups").and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten() {
        for rule in group["rules"].as_array_mut().into_iter().flatten() {
            let expression = rule["expr"].as_str().unwrap_or_default().replace("\n\n", "\n");
            rule["expr"] = expression.into();
        }
    }

    if let Some(annotations) =
        object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove("loopwatch/binding");
        remove_if_empty(&mut object["metadata"], "annotations");
    }
}

fn remove_if_empty(metadata: &mut Value, key: &str) {
    let is_empty = metadata[key].as_object().is_some_and(serde_json::Map::is_empty);
    if let (true, Some(metadata)) = (is_empty, metadata.as_object_mut()) {
        metadata.remove(key);
    }
}

/// Waits until the only Pod of a namespace that is not being deleted runs with this image.
fn running(namespace: &str, image: &str) -> Value {
    let kube = &bed().kube;
    eventually(Duration::from_secs(60), &format!("a Pod with {image} runs"), || {
        let mut pods = kube.try_list("v1", "Pod", namespace)?;
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        match &pods[..] {
            [pod]
                if pod["status"]["phase"] == "Running"
                    && pod["spec"]["containers"][0]["image"] == image =>
            {
                Ok(pod.clone())
            }
            _ => Err(json!(pods).to_string()),
        }
    })
}
