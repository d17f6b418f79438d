//! RabbitMQ's cluster operator as a process: a published operator, unchanged, with its own
//! manifests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::binaries::RabbitmqFiles;
use super::controlplane::ControlPlane;
use super::guard::Program;
use super::kube::{documents, path};
use super::published::Replica;
use super::wait::eventually;
use super::{kustomize, ports};

/// The namespace of its Deployment, its account and its lease.
pub const NAMESPACE: &str = "rabbitmq-system";

/// The name of the operator's service account and of its Deployment.
pub const ACCOUNT: &str = "rabbitmq-cluster-operator";

/// The API version of the operator's kind.
pub const API: &str = "rabbitmq.com/v1beta1";

/// The operator's kind. Each object has a StatefulSet with Pods and volume claims, Services,
/// Secrets, ConfigMaps and a role.
pub const KIND: &str = "RabbitmqCluster";

/// The operator's finalizer.
pub const FINALIZER: &str = "deletion.finalizers.rabbitmqclusters.rabbitmq.com";

/// The name of the executable in the operator's image, which is also its field manager.
const MANAGER: &str = "manager";

/// Installs its manifests with the component that lets loopwatch read more. The Pod of its
/// Deployment stands for the process, and does nothing.
pub fn install(plane: &ControlPlane, files: &RabbitmqFiles) {
    let folder = plane.directory().join("rabbitmq");
    std::fs::create_dir_all(&folder).expect("our own folder");
    std::fs::copy(&files.manifests, folder.join("operator.yaml"))
        .expect("the manifests and our own folder");
    std::os::unix::fs::symlink(&files.operator, program(&folder)).expect("our own folder");

    let component = kustomize::component(&folder, "reader-rights");
    let kustomization = json!({"resources": ["operator.yaml"], "components": [component]});
    std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string())
        .expect("our own folder");

    for object in documents(&kustomize::build(plane, &folder)) {
        plane.kube.apply(&object);
    }

    eventually(Duration::from_secs(20), "the kind is served", || {
        plane.kube.get(&path(API, KIND, "", ""))
    });
}

/// Starts it, and waits until it serves its metrics.
pub fn start(plane: &ControlPlane) -> Replica {
    let kubeconfig = plane.kubeconfig_of("rabbitmq.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let metrics = ports::free();
    let program =
        Program::new("rabbitmq", program(&plane.directory().join("rabbitmq")), plane.directory())
            .env("OPERATOR_NAMESPACE", NAMESPACE)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"));

    Replica::start(&program, metrics)
}

/// Sets the number of Pods of its Deployment.
pub fn scale(plane: &ControlPlane, replicas: u32) {
    plane.kube.patch(
        "apps/v1",
        "Deployment",
        NAMESPACE,
        ACCOUNT,
        &json!({"spec": {"replicas": replicas}}),
    );
}

/// Returns a volume for the claim of one Pod of a cluster. No controller of this control plane
/// creates volumes.
pub fn volume(namespace: &str, cluster: &str, pod: u32) -> Value {
    let claim = format!("persistence-{cluster}-server-{pod}");
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("{namespace}-{cluster}-{pod}")},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "claimRef": {"namespace": namespace, "name": claim}, "hostPath": {"path": "/nonexistent"}}})
}

fn program(folder: &Path) -> PathBuf {
    folder.join(MANAGER)
}
