//! References to other objects.

use serde_json::json;

use super::*;

#[test]
fn references_are_found_in_the_spec() {
    let object = of(
        &json!({
            "issuerRef": {"name": "letsencrypt", "kind": "ClusterIssuer", "group": "cert-manager.io"},
            "secretName": "tls",
            "password": "hunter2",
            "tls": [{"secretName": "a"}, {"secretName": "b"}, {"secretName": "a"}],
            "resourceRefs": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "controlPlaneRef": {"kind": "ControlPlane", "name": "cp"},
            "lifecycle": {"hookRef": {"name": "hook"}},
            "template": {"spec": {
                "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "db", "key": "p", "optional": true}}}]}],
                "volumes": [{"configMap": {"name": "settings"}}, {"persistentVolumeClaim": {"claimName": "data"}}],
            }},
            "ref": {"name": "refs/heads/main"},
            "imageRef": {"name": "Not/A/Name"},
            "fieldRef": {"fieldPath": "metadata.name"},
            "storageClassName": "fast",
        }),
        &json!({}),
    );

    let show = |r: &loopwatch_model::observation::Reference| {
        let optional = if r.optional { "?" } else { "" };
        format!("{}={}/{}/{}{optional}", r.slot, r.group, r.kind, r.namespace)
    };
    let mut shown: Vec<_> = object.references.iter().map(show).collect();

    shown.sort_unstable();
    assert_eq!(
        shown,
        [
            "spec.controlPlaneRef=/ControlPlane/",
            "spec.issuerRef=cert-manager.io/ClusterIssuer/",
            "spec.lifecycle.hookRef=//",
            "spec.resourceRefs[]=apps/Deployment/shop",
            "spec.secretName=/Secret/",
            "spec.storageClassName=/StorageClass/",
            "spec.template.spec.containers[].env[].valueFrom.secretKeyRef=/Secret/?",
            "spec.template.spec.volumes[].configMap=/ConfigMap/",
            "spec.template.spec.volumes[].persistentVolumeClaim.claimName=/PersistentVolumeClaim/",
            "spec.tls[].secretName=/Secret/",
            "spec.tls[].secretName=/Secret/",
        ]
    );

    let target = view(&json!({"metadata": {"name": "letsencrypt"}}));
    let reference = |slot: &str| object.references.iter().find(|r| r.slot == slot).expect(slot);

    assert_eq!(reference("spec.issuerRef").name_hash, target.name_hash);
    assert_eq!(reference("spec.issuerRef").name, "letsencrypt");

    let kept = serde_json::to_string(&object).expect("a view is JSON");
    assert!(!kept.contains("hunter2"), "{kept}");
    assert_eq!(
        serde_json::from_str::<ObjectView>(&kept).expect("the recorded form").references,
        object.references
    );

    let many: Vec<_> = (0..40).map(|i| json!({"secretName": format!("s{i}")})).collect();
    let object = of(&json!({"tls": many}), &json!({}));

    assert_eq!(
        (object.references.len(), object.lints.join(" ")),
        (32, "many_references".to_owned())
    );
}

#[test]
fn a_reference_keeps_a_name_only_where_its_form_shows_that_it_is_one() {
    let object = of(
        &json!({
            "named": {"secretName": "a", "claimName": "b", "storageClassName": "c", "serviceAccountName": "d"},
            "maps": {"issuerRef": {"name": "e"}, "secretRefs": [{"name": "f"}], "imagePullSecrets": [{"name": "g"}]},
            "volumes": [{"configMap": {"name": "h", "items": [], "defaultMode": 420}}],
            "env": [{"valueFrom": {"configMapKeyRef": {"name": "i", "key": "k"}}}],
            // Texts that may be secrets, or objects that the operator creates.
            "texts": {"secretRef": "hunter2", "secrets": ["hunter3"], "passwordSecret": "hunter4"},
            "inline": {"secret": {"name": "created", "data": {"k": "v"}}, "serviceAccount": {"create": true, "name": "own"}},
        }),
        &json!({}),
    );

    let mut named: Vec<&str> =
        object.references.iter().map(|r| r.name.as_str()).filter(|n| !n.is_empty()).collect();
    named.sort_unstable();

    assert_eq!(named, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);

    let unnamed = object.references.iter().filter(|r| r.name.is_empty());
    let mut unnamed: Vec<&str> = unnamed.map(|r| r.slot.as_str()).collect();
    unnamed.sort_unstable();

    assert_eq!(
        unnamed,
        [
            "spec.inline.secret",
            "spec.inline.serviceAccount",
            "spec.texts.secretRef",
            "spec.texts.secrets[]"
        ]
    );

    let kept = serde_json::to_string(&object).expect("a view is JSON");
    assert!(!kept.contains("hunter"), "{kept}");
}

#[test]
fn the_search_for_references_leaves_the_fingerprint_of_the_spec() {
    let deep = json!({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": {"k": {"l": {"m": {"n": {"o": {"p": 1}}}}}}}}}}}}}}}});
    let reference = json!({"name": "x", "kind": ["K"], "namespace": {"a": 1}, "deep": deep});
    let spec =
        json!({"x": {"issuerRef": reference, "plain": deep}, "zRef": [reference, "text", 1, null]});

    // Another top-level field is not searched.
    let (searched, other) =
        (of(&spec, &json!({})), view(&json!({"metadata": {"name": "n"}, "data": spec})));

    assert_eq!((searched.references.len(), other.references.len()), (2, 0));

    let opaque = |key: &str| {
        let (hasher, mut sum, text) =
            (Hasher::new(&KEY), FingerprintSum::default(), spec.to_string());
        let value =
            Opaque::spec(&hasher, 1).deserialize(&mut serde_json::Deserializer::from_str(&text));

        sum.entry(&hasher, hasher.text(key), value.expect("JSON"));
        sum.map(&hasher).full
    };

    assert_eq!((searched.hashes.spec, other.hashes.spec), (opaque("spec"), opaque("data")));
}

#[test]
fn references_to_another_cluster_are_left_out() {
    let kept = |spec: serde_json::Value| {
        let references = of(&spec, &json!({})).references;
        let mut paths: Vec<String> = references.into_iter().map(|r| r.slot).collect();
        paths.sort_unstable();
        paths
    };

    // Flux applies a Kustomization to another cluster, as an account of that cluster.
    let spec = json!({"kubeConfig": {"secretRef": {"name": "prod"}}, "serviceAccountName": "deployer",
        "sourceRef": {"kind": "GitRepository", "name": "app"}});
    assert_eq!(kept(spec), ["spec.kubeConfig.secretRef", "spec.sourceRef"]);
    assert_eq!(kept(json!({"serviceAccountName": "deployer"})), ["spec.serviceAccountName"]);

    // A reference may say in which cluster its target is.
    let spec = json!({"objectRef": {"kind": "Secret", "name": "a", "cluster": "member-1"},
        "secretRef": {"name": "b"}, "clusterName": "here"});
    assert_eq!(kept(spec), ["spec.secretRef"]);
}
