//! Service accounts with the permissions of operators.

use serde_json::json;

use super::kube::Kube;
use super::operator::{ACCOUNT, NAMESPACE};

/// The API version of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Creates an account that may write these resources of a group and read definitions.
pub fn own_account(kube: &Kube, namespace: &str, group: &str, resources: &[&str]) {
    service_account(kube, namespace);
    let name = format!("{namespace}-owner");
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch", "update"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"]}]}),
    );
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}),
    );
}

/// Creates an account without permissions, with the name of the zoo operator's account.
pub fn service_account(kube: &Kube, namespace: &str) {
    kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace}}));
}

/// Lets the zoo operator's account elect a leader in a namespace.
pub fn allow_leader_election(kube: &Kube, namespace: &str) {
    let name = "widget-operator-leader-election";
    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]}));
}

/// Creates an account with the permissions of the zoo operator, the permission to create
/// StatefulSets, and permission to read what a cascade of deletions involves: workloads, Pods,
/// volume claims, leases, webhooks, namespaces and definitions.
pub fn reader_account(kube: &Kube, namespace: &str) {
    reader_account_of(kube, namespace, ACCOUNT);
}

/// Like [`reader_account`], for another operator of the zoo, whose role has the name of its
/// account.
pub fn reader_account_of(kube: &Kube, namespace: &str, account: &str) {
    kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": namespace}}));
    let reader = "zoo-reader";
    let read = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]});

    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": reader}, "rules": [
        read("apiextensions.k8s.io", &["customresourcedefinitions"]),
        read("coordination.k8s.io", &["leases"]),
        read("admissionregistration.k8s.io", &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]),
        read("discovery.k8s.io", &["endpointslices"]),
        read("apps", &["deployments", "statefulsets", "daemonsets", "replicasets"]),
        json!({"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["create"]}),
        read("batch", &["jobs", "cronjobs"]),
        read("", &["namespaces", "pods", "services", "persistentvolumeclaims"])]}),
    );
    for role in [account, reader] {
        kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{role}:{namespace}:{account}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}));
    }
}
