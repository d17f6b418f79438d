//! Injection by `deploy/injection`: which Pods get the sidecar, and that it is the sidecar of
//! `deploy/components/sidecar`. These tests need an API server that serves the policy.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_where};
use loopwatch::published::PUBLISHED;
use loopwatch_testbed::kube::documents;
use loopwatch_testbed::kustomize;
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test_where("injection::chosen", NEEDS, served, chosen),
        test_where("injection::equal", NEEDS, served, equal),
    ]
}

/// The reason why these tests are skipped.
const NEEDS: &str = "Kubernetes 1.36 or later, which serves MutatingAdmissionPolicy v1";

/// The image in tests. No registry has it.
const IMAGE: &str = "registry.example.com/loopwatch:mine";

/// The time that the API server and the controllers may need.
const SOON: Duration = Duration::from_secs(60);

/// Labels that say nothing about the sidecar, and whose values differ between two workloads.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// The policy chooses Pods by their labels, their controllers and the annotation of their namespace,
/// and no Pod that could not start with the sidecar.
fn chosen() {
    let (on, named, off) = ("injection-on", "injection-named", "injection-off");
    install();
    namespace(on, &json!({"loopwatch/injection": "enabled"}), &json!({}));
    namespace(
        named,
        &json!({"loopwatch/injection": "enabled"}),
        &json!({"loopwatch.dev/inject": "other, my-operator"}),
    );
    namespace(off, &json!({}), &json!({}));

    let asked = || json!({"loopwatch/sidecar": "true"});
    let usual = || json!({"control-plane": "controller-manager"});
    let hash = || json!({"pod-template-hash": "5d9f"});
    let replica_set = Some(("ReplicaSet", "my-operator-5d9f"));
    let plain = || json!({});
    let init = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "image": "any"})).collect()
    };

    // The policy and the namespaces take effect a moment later.
    eventually(SOON, "a Pod with the label gets the sidecar", || {
        let pod = created(on, &asked(), None, &plain())?;
        if sidecars(&pod) == 1 { Ok(()) } else { Err(pod.to_string()) }
    });
    eventually(SOON, "a Pod of the named Deployment gets the sidecar", || {
        let pod = created(named, &hash(), replica_set, &plain())?;
        if sidecars(&pod) == 1 { Ok(()) } else { Err(pod.to_string()) }
    });

    // Its containers may have none of the settings of Linux.
    let on_windows = json!({"os": {"name": "windows"}, "containers": [{"name": "manager", "image": "manager:1"}]});
    for (form, namespace, labels, controller, spec, expected) in [
        ("additional", on, json!({"loopwatch/sidecar": "additional"}), None, plain(), 1),
        ("usual", on, usual(), replica_set, plain(), 1),
        ("stateful", on, usual(), Some(("StatefulSet", "any")), plain(), 1),
        (
            "of a chart",
            on,
            json!({"app.kubernetes.io/component": "operator"}),
            replica_set,
            plain(),
            1,
        ),
        ("own init containers", on, asked(), None, json!({"initContainers": init(&["a"])}), 1),
        ("as a user", on, asked(), None, json!({"securityContext": {"runAsUser": 1000}}), 1),
        ("asked for on the node", on, asked(), None, json!({"hostNetwork": true}), 1),
        ("asked for beside names", named, asked(), None, plain(), 1),
        // None of these gets the sidecar.
        ("namespace", off, asked(), None, plain(), 0),
        ("no label", on, plain(), replica_set, plain(), 0),
        (
            "another component",
            on,
            json!({"app.kubernetes.io/component": "webhook"}),
            replica_set,
            plain(),
            0,
        ),
        ("no controller", on, usual(), None, plain(), 0),
        ("daemon", on, usual(), Some(("DaemonSet", "any")), plain(), 0),
        (
            "opted out",
            on,
            json!({"loopwatch/sidecar": "false", "control-plane": "controller-manager"}),
            replica_set,
            plain(),
            0,
        ),
        (
            "job",
            on,
            json!({"loopwatch/sidecar": "true", "batch.kubernetes.io/job-name": "any"}),
            None,
            plain(),
            0,
        ),
        ("on the node", on, usual(), replica_set, json!({"hostNetwork": true}), 0),
        ("root", on, asked(), None, json!({"securityContext": {"runAsUser": 0}}), 0),
        ("Windows", on, asked(), None, on_windows, 0),
        ("not named", named, usual(), Some(("ReplicaSet", "my-webhook-5d9f")), plain(), 0),
        // This one has it already.
        ("twice", on, asked(), None, json!({"initContainers": init(&["a", "loopwatch"])}), 1),
    ] {
        let pod = created(namespace, &labels, controller, &spec);
        let pod = pod.unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(sidecars(&pod), expected, "{form}: {pod}");
    }

    // A second volume of the same name would make the Pod invalid.
    let volume = json!({"name": "loopwatch-config", "emptyDir": {}});
    let pod = created(on, &asked(), None, &json!({"volumes": [volume]}));
    let pod = pod.unwrap_or_else(|error| panic!("{error}"));
    let volumes = pod["spec"]["volumes"].as_array().expect("volumes");

    assert_eq!(sidecars(&pod), 1, "{pod}");
    assert!(volumes.len() == 1 && volumes[0]["emptyDir"].is_object(), "{pod}");
}

/// The Pods of a Deployment and of a StatefulSet with other init containers and volumes are the same as
/// with the component. The sidecar goes with the label of the namespace.
fn equal() {
    let (injected, patched) = ("injection-injected", "injection-patched");
    install();

    // The API server admits the sidecar there.
    let labels = json!({"loopwatch/injection": "enabled", "pod-security.kubernetes.io/enforce": "restricted"});
    namespace(injected, &labels, &json!({}));
    namespace(patched, &json!({}), &json!({}));
    eventually(SOON, "a Pod with the label gets the sidecar", || {
        let pod = created(injected, &json!({"loopwatch/sidecar": "true"}), None, &json!({}))?;
        if sidecars(&pod) == 1 { Ok(()) } else { Err(pod.to_string()) }
    });

    for kind in ["Deployment", "StatefulSet"] {
        let name = format!("operator-{}", kind.to_lowercase());
        bed().kube.apply(&operator(kind, injected, &name));

        let folder = bed().directory().join("kustomizations").join(format!("injection-{kind}"));
        write(&folder, "operator.yaml", &operator(kind, patched, &name).to_string());
        let sidecar = kustomize::component(&folder, "sidecar");
        let (image, tag) = IMAGE.rsplit_once(':').expect("a tag");
        let text = format!(
            "resources: [operator.yaml]\ncomponents: [{sidecar}]\n\
             images: [{{name: {}, newName: {image}, newTag: {tag}}}]\n",
            PUBLISHED.image
        );
        write(&folder, "kustomization.yaml", &text);
        for object in documents(&kustomize::build(bed(), &folder)) {
            bed().kube.apply(&object);
        }

        let (by_policy, by_component) = (pod_of(injected, &name, 1), pod_of(patched, &name, 1));
        assert_eq!(
            comparable(&by_policy),
            comparable(&by_component),
            "{kind}: {by_policy}\n{by_component}"
        );
    }

    // A Pod that has no sidecar replaces the other one.
    let change = json!({"metadata": {"labels": {"loopwatch/injection": null}}});
    bed().kube.patch("v1", "Namespace", "", injected, &change);
    let name = "operator-deployment";
    eventually(SOON, "the label of the namespace has no effect any more", || {
        let pod = created(injected, &json!({"loopwatch/sidecar": "true"}), None, &json!({}))?;
        if sidecars(&pod) == 0 { Ok(()) } else { Err(pod.to_string()) }
    });

    // As `kubectl rollout restart` does.
    let restarted = json!({"spec": {"template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}});
    bed().kube.patch("apps/v1", "Deployment", injected, name, &restarted);
    pod_of(injected, name, 0);
}

/// Whether the API server serves the policy.
fn served() -> bool {
    let group = bed().kube.get("/apis/admissionregistration.k8s.io/v1").unwrap_or_default();
    let resources = group["resources"].as_array().cloned().unwrap_or_default();
    resources.iter().any(|resource| resource["name"] == "mutatingadmissionpolicies")
}

/// Installs the policy with an image, as the documentation does. Both tests share it.
fn install() {
    let folder = bed().directory().join("kustomizations").join("injection");
    std::fs::create_dir_all(&folder).expect("our own folder");
    let injection = kustomize::component(&folder, "../injection");
    let text = format!(
        "resources: [{injection}]\npatches:\n  \
         - target: {{kind: MutatingAdmissionPolicy, name: loopwatch-injection}}\n    patch: |-\n      \
         - {{op: replace, path: /spec/variables/0/expression, value: \"'{IMAGE}'\"}}\n"
    );

    write(&folder, "kustomization.yaml", &text);
    for object in documents(&kustomize::build(bed(), &folder)) {
        bed().kube.try_apply_strictly(&object).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn namespace(name: &str, labels: &Value, annotations: &Value) {
    bed().kube.apply(&json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": labels, "annotations": annotations}}));
}

/// The Pod that the API server would create. `controller` is the kind and the name of its controller, and
/// `spec` has fields for its spec.
fn created(
    namespace: &str,
    labels: &Value,
    controller: Option<(&str, &str)>,
    spec: &Value,
) -> Result<Value, String> {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "any", "namespace": namespace, "labels": labels},
        "spec": {"containers": [manager()]}});
    if let Some((kind, name)) = controller {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": name,
            "uid": "00000000-0000-0000-0000-000000000001", "controller": true}]);
    }

    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }

    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    bed().kube.call("POST", &path, "application/json", Some(&pod))
}

/// A container that complies with the restricted Pod Security Standard.
fn manager() -> Value {
    json!({"name": "manager", "image": "manager:1", "securityContext": {"runAsNonRoot": true,
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}}})
}

/// An operator as Kubebuilder lays it out, with an init container and a volume of its own.
fn operator(kind: &str, namespace: &str, name: &str) -> Value {
    let mut first = manager();
    first["name"] = json!("migrate");
    first["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let labels = json!({"app": name, "control-plane": "controller-manager"});

    let mut object = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [manager()],
                "initContainers": [first], "volumes": [{"name": "data", "emptyDir": {}}]}}}});
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = json!(name);
    }

    object
}

/// Waits until a workload has one Pod, with as many sidecars as given.
fn pod_of(namespace: &str, name: &str, expected: usize) -> Value {
    eventually(SOON, &format!("{name} has one Pod with {expected} sidecars"), || {
        let pods = bed().kube.try_list("v1", "Pod", namespace)?;
        let mine: Vec<&Value> = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == name)
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .collect();

        match mine[..] {
            [pod] if sidecars(pod) == expected => Ok(pod.clone()),
            _ => Err(json!(mine).to_string()),
        }
    })
}

fn sidecars(pod: &Value) -> usize {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.filter(|container| container["name"] == "loopwatch").count()
}

/// What must be equal: everything but names, times, the node and hashes.
fn comparable(pod: &Value) -> Value {
    let (mut spec, mut labels) = (pod["spec"].clone(), pod["metadata"]["labels"].clone());
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeName");
    }

    if let Some(labels) = labels.as_object_mut() {
        for hash in HASHES {
            labels.remove(hash);
        }
    }

    json!({"spec": spec, "labels": labels, "annotations": pod["metadata"]["annotations"]})
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(folder).expect("our own folder");
    std::fs::write(folder.join(name), text).expect("our own folder");
}
