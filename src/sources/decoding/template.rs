//! Finds the ConfigMaps and Secrets that the Pods of a workload read only when they start, from its
//! Pod template.
//!
//! This is a separate pass, because it relates volumes to the mounts in the containers, and because
//! only workloads need it. The API server has checked the form of the template.

use std::collections::BTreeSet;

use loopwatch_model::observation::StartupRead;
use serde::Deserialize;

use super::limits::{MAX_ITEMS, MAX_NAME};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Workload {
    spec: Option<WorkloadSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadSpec {
    template: Option<Template>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Template {
    spec: Option<PodSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    volumes: Option<Vec<Volume>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    env: Option<Vec<Variable>>,
    env_from: Option<Vec<Variables>>,
    volume_mounts: Option<Vec<Mount>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variable {
    value_from: Option<ValueSource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueSource {
    config_map_key_ref: Option<Named>,
    secret_key_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variables {
    config_map_ref: Option<Named>,
    secret_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mount {
    name: Option<String>,
    sub_path: Option<String>,
    sub_path_expr: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    name: Option<String>,
    config_map: Option<Named>,
    secret: Option<SecretVolume>,
    projected: Option<Projected>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretVolume {
    secret_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Projected {
    sources: Option<Vec<Projection>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Projection {
    config_map: Option<Named>,
    secret: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    name: Option<String>,
}

/// The objects found so far.
#[derive(Default)]
struct Reads(Vec<StartupRead>);

/// Finds what the Pods of a workload read only when they start. Empty if the text is not a
/// workload.
pub(super) fn startup_reads(json: &[u8]) -> Vec<StartupRead> {
    let workload: Workload = serde_json::from_slice(json).unwrap_or_default();
    let pod = workload
        .spec
        .and_then(|spec| spec.template)
        .and_then(|template| template.spec)
        .unwrap_or_default();
    let containers = || pod.containers.iter().chain(&pod.init_containers).flatten();
    let mut reads = Reads::default();

    for source in containers().flat_map(|container| container.env_from.iter().flatten()) {
        reads.add(false, source.config_map_ref.as_ref(), true);
        reads.add(true, source.secret_ref.as_ref(), true);
    }

    let variables = containers().flat_map(|container| container.env.iter().flatten());
    for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
        reads.add(false, source.config_map_key_ref.as_ref(), false);
        reads.add(true, source.secret_key_ref.as_ref(), false);
    }

    let is_set = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
    let mounts = containers().flat_map(|container| container.volume_mounts.iter().flatten());
    let fixed = mounts.filter(|mount| is_set(&mount.sub_path) || is_set(&mount.sub_path_expr));
    let fixed: BTreeSet<&String> = fixed.filter_map(|mount| mount.name.as_ref()).collect();
    let volumes = pod.volumes.iter().flatten();

    for volume in
        volumes.filter(|volume| volume.name.as_ref().is_some_and(|name| fixed.contains(name)))
    {
        reads.add(false, volume.config_map.as_ref(), false);
        reads.add_name(
            true,
            volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref()),
            false,
        );
        for source in
            volume.projected.iter().filter_map(|projected| projected.sources.as_ref()).flatten()
        {
            reads.add(false, source.config_map.as_ref(), false);
            reads.add(true, source.secret.as_ref(), false);
        }
    }

    reads.0
}

impl Reads {
    fn add(&mut self, secret: bool, named: Option<&Named>, whole: bool) {
        self.add_name(secret, named.and_then(|named| named.name.as_ref()), whole);
    }

    fn add_name(&mut self, secret: bool, name: Option<&String>, whole: bool) {
        let Some(name) = name.filter(|name| (1..=MAX_NAME).contains(&name.len())) else { return };
        if let Some(known) =
            self.0.iter_mut().find(|read| read.secret == secret && read.name == *name)
        {
            known.whole |= whole;
        } else if self.0.len() < MAX_ITEMS {
            self.0.push(StartupRead { secret, name: name.clone(), whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What Pods of a template read when they start: `Secret name`, with `*` for all keys.
    fn reads(pod: &Value) -> Vec<String> {
        let json =
            json!({"metadata": {"name": "n"}, "spec": {"template": {"spec": pod}}}).to_string();
        let show = |read: StartupRead| {
            let kind = if read.secret { "Secret" } else { "ConfigMap" };
            format!("{kind} {}{}", read.name, if read.whole { " *" } else { "" })
        };

        startup_reads(json.as_bytes()).into_iter().map(show).collect()
    }

    #[test]
    fn environment_variables_and_mounts_with_a_sub_path_are_read_at_the_start() {
        let key = |name: &str| json!({"name": name, "key": "k"});
        let pod = json!({
            "initContainers": [{"name": "init", "env": [{"name": "I", "valueFrom": {"secretKeyRef": key("init")}}]}],
            "containers": [{
                "name": "app",
                "env": [
                    {"name": "A", "value": "plain"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "C", "valueFrom": {"configMapKeyRef": key("one-key")}},
                    {"name": "D", "valueFrom": {"configMapKeyRef": key("all-keys")}},
                ],
                "envFrom": [{"configMapRef": {"name": "all-keys"}}, {"secretRef": {"name": "token", "optional": true}}],
                "volumeMounts": [
                    {"name": "live", "mountPath": "/live"},
                    {"name": "empty", "mountPath": "/empty", "subPath": ""},
                    {"name": "fixed", "mountPath": "/fixed", "subPath": "file"},
                    {"name": "expression", "mountPath": "/expression", "subPathExpr": "$(POD)"},
                    {"name": "several", "mountPath": "/several", "subPath": "x"},
                ],
            }],
            "volumes": [
                {"name": "live", "configMap": {"name": "live"}},
                {"name": "empty", "configMap": {"name": "empty"}},
                {"name": "unused", "secret": {"secretName": "unused"}},
                {"name": "fixed", "configMap": {"name": "fixed"}},
                {"name": "expression", "secret": {"secretName": "expression"}},
                {"name": "several", "projected": {"sources": [
                    {"configMap": {"name": "projected"}}, {"secret": {"name": "projected"}}, {"downwardAPI": {}},
                ]}},
            ],
        });

        let expected = [
            "ConfigMap all-keys *",
            "Secret token *",
            "ConfigMap one-key",
            "Secret init",
            "ConfigMap fixed",
            "Secret expression",
            "ConfigMap projected",
            "Secret projected",
        ];

        assert_eq!(reads(&pod), expected);
    }

    #[test]
    fn odd_templates_show_nothing_and_long_ones_are_cut() {
        for odd in [
            json!(null),
            json!("text"),
            json!({"containers": null, "volumes": null}),
            json!({"containers": 7}),
        ] {
            assert_eq!(reads(&odd), [""; 0], "{odd}");
        }

        let nameless =
            json!({"containers": [{"envFrom": [{"secretRef": {}}, {"secretRef": {"name": ""}}]}]});

        assert_eq!(reads(&nameless), [""; 0]);

        let many: Vec<Value> =
            (0..200).map(|n| json!({"secretRef": {"name": format!("s-{n}")}})).collect();

        assert_eq!(reads(&json!({"containers": [{"envFrom": many}]})).len(), MAX_ITEMS);
    }
}
