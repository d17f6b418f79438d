//! What users of published operators have: which objects, and how these change.

use serde_json::{Value, json};

use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::published_operators::{
    ARGO_ROLLOUTS, CERT_MANAGER, KRO, PROMETHEUS_OPERATOR, Published, RABBITMQ,
};
use loopwatch_testbed::rabbitmq;
use loopwatch_testbed::wait::eventually;

use super::rabbitmq::IMAGES;
use super::work::IN_TIME;

/// An operator, and the objects that its users have.
pub(crate) struct Work {
    pub(crate) operator: Published,
    /// API version and kind of the objects.
    pub(crate) kind: (&'static str, &'static str),
    /// The sizes of an object at first, after it is scaled, and in two changes shortly after each other.
    pub(crate) sizes: [u32; 4],
    /// Creates what all objects need, for objects in these namespaces.
    pub(crate) prepare: fn(&ControlPlane, &[String; 2]),
    /// Returns the spec of an object.
    pub(crate) spec: fn(&Wish<'_>) -> Value,
    /// Returns what an object needs beside it, in the same namespace.
    pub(crate) beside: fn(&Wish<'_>) -> Vec<Value>,
    /// Whether the status of an object says that its spec is in effect.
    pub(crate) is_done: fn(&Value) -> bool,
    /// Findings that are correct in a cluster of the test bed.
    pub(crate) true_anyway: &'static [&'static str],
}

/// The wish of a user for one object.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: u32,
    /// Which of two versions.
    pub(crate) upgraded: bool,
    /// Which of two namespaces. Their objects differ in style.
    pub(crate) second: bool,
}

/// The sizes of objects that can become smaller.
const SIZES: [u32; 4] = [2, 3, 1, 2];

const NOTHING: fn(&Wish<'_>) -> Vec<Value> = |_| Vec::new();

/// Whether a condition of an object is true, for its present generation.
fn holds(object: &Value, name: &str) -> bool {
    let generation = &object["metadata"]["generation"];
    condition(object, name).is_some_and(|it| it["observedGeneration"] == *generation)
}

/// A condition of an object that is true.
fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|it| it["type"] == name && it["status"] == "True")
}

/// Canaries with a pause in one namespace, and two colours behind a Service in the other.
pub(crate) fn argo_rollouts() -> Work {
    Work {
        operator: ARGO_ROLLOUTS,
        kind: ("argoproj.io/v1alpha1", "Rollout"),
        sizes: SIZES,
        prepare: |_, _| (),
        spec: |wish| {
            let labels = json!({"app": wish.name});
            let image = if wish.upgraded {
                "registry.example.com/app:2"
            } else {
                "registry.example.com/app:1"
            };
            let steps = json!([{"setWeight": 50}, {"pause": {"duration": "5s"}}]);
            let strategy = if wish.second {
                json!({"blueGreen": {"activeService": wish.name, "scaleDownDelaySeconds": 5}})
            } else {
                json!({"canary": {"steps": steps}})
            };
            json!({"replicas": wish.size, "selector": {"matchLabels": labels}, "strategy": strategy,
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "app", "image": image}]}}})
        },
        beside: |wish| match wish.second {
            false => Vec::new(),
            true => {
                vec![json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": wish.name},
                "spec": {"selector": {"app": wish.name}, "ports": [{"port": 80}]}})]
            }
        },
        is_done: |rollout| {
            let status = &rollout["status"];
            status["phase"] == "Healthy"
                && status["observedGeneration"]
                    == json!(rollout["metadata"]["generation"].to_string())
        },
        // Some of its definitions have no status subresource; loopwatch reads them with reader-rights.
        true_anyway: &["StatusSubresourceMissing"],
    }
}

/// Prometheus with rules and monitors, which the operator selects.
pub(crate) fn prometheus_operator() -> Work {
    Work {
        operator: PROMETHEUS_OPERATOR,
        kind: ("monitoring.coreos.com/v1", "Prometheus"),
        sizes: SIZES,
        prepare: |_, _| (),
        spec: |wish| {
            let selected = json!({"matchLabels": {"prometheus": wish.name}});
            json!({"replicas": wish.size, "version": if wish.upgraded { "v3.6.0" } else { "v3.5.0" },
                "serviceMonitorSelector": selected, "ruleSelector": selected})
        },
        beside: |wish| {
            let metadata = json!({"name": wish.name, "labels": {"prometheus": wish.name}});
            let api = "monitoring.coreos.com/v1";
            let rules = json!([{"alert": "Down", "expr": "up == 0"}]);
            vec![
                json!({"apiVersion": api, "kind": "ServiceMonitor", "metadata": metadata,
                    "spec": {"selector": {"matchLabels": {"app": wish.name}}, "endpoints": [{"port": "http"}]}}),
                json!({"apiVersion": api, "kind": "PrometheusRule", "metadata": metadata,
                    "spec": {"groups": [{"name": "all", "rules": rules}]}}),
            ]
        },
        is_done: |prometheus| holds(prometheus, "Available") && holds(prometheus, "Reconciled"),
        true_anyway: &["StatusSubresourceMissing"],
    }
}

/// Instances of a kind that a definition creates: a Deployment and its configuration.
pub(crate) fn kro() -> Work {
    Work {
        operator: KRO,
        kind: ("kro.run/v1alpha1", "Site"),
        sizes: SIZES,
        prepare: |plane, [team, _]| {
            let labels = json!({"site": "${schema.metadata.name}"});
            let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${schema.metadata.name}"},
                "spec": {"replicas": "${schema.spec.replicas}", "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                        {"name": "site", "image": "${schema.spec.image}"}]}}}});
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}"}, "data": {"image": "${schema.spec.image}"}});
            let ready = "${deployment.status.availableReplicas == deployment.spec.replicas}";

            plane.kube.apply(
                &json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
                "metadata": {"name": "sites"}, "spec": {
                    "schema": {"apiVersion": "v1alpha1", "kind": "Site",
                        "spec": {"replicas": "integer | default=1", "image": "string"},
                        "status": {"available": "${deployment.status.availableReplicas}"}},
                    "resources": [
                        {"id": "deployment", "template": deployment, "readyWhen": [ready]},
                        {"id": "config", "template": config}]}}),
            );
            eventually(IN_TIME, "the kind of the definition is served", || {
                plane.kube.try_list("kro.run/v1alpha1", "Site", team)
            });
        },
        spec: |wish| {
            let image = if wish.upgraded {
                "registry.example.com/site:2"
            } else {
                "registry.example.com/site:1"
            };
            json!({"replicas": wish.size, "image": image})
        },
        beside: NOTHING,
        is_done: |site| {
            holds(site, "Ready") && site["status"]["available"] == site["spec"]["replicas"]
        },
        // Its account may do everything, so loopwatch reads all definitions, too.
        true_anyway: &["PermissionExcess", "StatusSubresourceMissing"],
    }
}

/// Certificates that an issuer in their namespace signs itself. A larger one has more names, and an
/// upgrade changes the algorithm of the key.
pub(crate) fn cert_manager() -> Work {
    Work {
        operator: CERT_MANAGER,
        kind: ("cert-manager.io/v1", "Certificate"),
        sizes: SIZES,
        prepare: |_, _| (),
        spec: |wish| {
            let names: Vec<String> = (0..wish.size)
                .map(|number| format!("{}-{number}.example.com", wish.name))
                .collect();
            let algorithm = if wish.upgraded { "ECDSA" } else { "RSA" };
            let policy = if wish.second { "Never" } else { "Always" };
            // A key that is never replaced keeps its algorithm.
            let algorithm = if wish.second { "RSA" } else { algorithm };
            json!({"secretName": wish.name, "dnsNames": names, "issuerRef": {"name": "self"},
                "privateKey": {"algorithm": algorithm, "rotationPolicy": policy}})
        },
        beside: |_| {
            vec![json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
                "metadata": {"name": "self"}, "spec": {"selfSigned": {}}})]
        },
        is_done: |certificate| holds(certificate, "Ready"),
        true_anyway: &["StatusSubresourceMissing"],
    }
}

/// Clusters of message brokers, which cannot become smaller. Some have a setting that needs a restart.
pub(crate) fn rabbitmq() -> Work {
    Work {
        operator: RABBITMQ,
        kind: (rabbitmq::API, rabbitmq::KIND),
        sizes: [1, 3, 3, 3],
        prepare: |plane, teams| plane.pretend_exec(&teams.each_ref().map(String::as_str)),
        spec: |wish| {
            let image = IMAGES[usize::from(wish.upgraded)];
            let settings =
                if wish.second { "vm_memory_high_watermark.relative = 0.6\n" } else { "" };
            json!({"replicas": wish.size, "image": image, "persistence": {"storage": "0"},
                "rabbitmq": {"additionalConfig": settings}})
        },
        beside: NOTHING,
        is_done: |cluster| {
            let is_true = |name| condition(cluster, name).is_some();
            ["AllReplicasReady", "ClusterAvailable", "ReconcileSuccess"].into_iter().all(is_true)
                && cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"]
        },
        // Its writes of a status conflict with each other now and then.
        true_anyway: &["StatusSubresourceMissing", "ReconcileErrors"],
    }
}
