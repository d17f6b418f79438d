//! Service accounts with the rights that operators have.

use serde_json::json;

use super::kube::Kube;
use super::operator::ACCOUNT;

/// Where roles and their bindings are.
pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// An account that owns these resources of a group, and may read definitions.
pub fn own_account(kube: &Kube, namespace: &str, group: &str, resources: &[&str]) {
    service_account(kube, namespace);
    let name = format!("{namespace}-owner");
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch", "update"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"]}]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]}));
}

/// An account without any rights, named as the zoo operator's.
pub fn service_account(kube: &Kube, namespace: &str) {
    kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace}}));
}
