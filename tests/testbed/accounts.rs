//! Service accounts with the permissions of operators.

use serde_json::json;

use super::kube::Kube;
use super::operator::ACCOUNT;

/// The API version of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Creates an account that may write these resources of a group and read definitions.
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

/// Creates an account without permissions, with the name of the zoo operator's account.
pub fn service_account(kube: &Kube, namespace: &str) {
    kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace}}));
}
