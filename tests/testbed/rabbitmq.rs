//! RabbitMQ's cluster operator as a process: a published operator, unchanged, with its own
//! manifests.

use std::time::Duration;

use serde_json::{Value, json};

use super::binaries::{self, RabbitmqFiles};
use super::controlplane::ControlPlane;
use super::guard::Program;
use super::kube::{documents, path};
use super::published::{Replica, renamed};
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
pub(crate) const MANAGER: &str = "manager";

/// Installs its manifests with the component that lets loopwatch read more. The Pod of its
/// Deployment stands for the process, and does nothing.
pub fn install(plane: &ControlPlane, files: &RabbitmqFiles) {
    let folder = plane.directory().join("rabbitmq");
    std::fs::create_dir_all(folder.join("operator")).expect("our own folder");
    std::fs::copy(&files.manifests, folder.join("operator/operator.yaml"))
        .expect("the manifests and our own folder");

    let kustomization = json!({"resources": ["operator.yaml"]});
    for object in kustomize::with_reader_rights(plane, &folder, kustomization) {
        plane.kube.apply(&object);
    }

    eventually(Duration::from_secs(20), "the kind is served", || {
        plane.kube.get(&path(API, KIND, "", ""))
    });
}

/// Its definitions, permissions, account and Deployment.
pub(crate) fn manifests(plane: &ControlPlane) -> Vec<Value> {
    let files =
        binaries::rabbitmq(&plane.binaries.kustomize).unwrap_or_else(|missing| panic!("{missing}"));
    let text = std::fs::read_to_string(&files.manifests)
        .unwrap_or_else(|error| panic!("{}: {error}", files.manifests.display()));
    documents(&text)
}

/// Starts it, and waits until it serves its metrics.
pub fn start(plane: &ControlPlane, files: &RabbitmqFiles) -> Replica {
    let kubeconfig = plane.kubeconfig_of("rabbitmq.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let metrics = ports::free();
    let folder = plane.directory().join("rabbitmq.image");
    let program =
        Program::new("rabbitmq", renamed(&files.operator, MANAGER, &folder), plane.directory())
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
