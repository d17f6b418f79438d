//! Many faults of deletion, ownership and references at once, as the dashboard `loopwatch-objects`
//! and the page show them.

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::test_with;
use crate::case::{Case, TWIN};
use crate::prometheus::Prometheus;
use crate::proof::{MANAGER, SOON, owned_by};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::quick_but;
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("objects::dashboard", &["prometheus"], dashboard)]
}

/// What loopwatch must report about the objects of [`provoke`].
const FOUND: [(&str, &str, &str); 5] = [
    ("FinalizerStuck", "Widget", "stuck"),
    ("OwnerMissing", "ConfigMap", "lost"),
    ("Orphan", "ConfigMap", "orphan"),
    ("DanglingReference", "Widget", "waits"),
    ("SoftDeleteLingering", "Widget", "retired"),
];

/// Every panel of the dashboard has data on a Prometheus that scrapes loopwatch.
fn dashboard() {
    // The test `references::stale-configuration` proves the finding that it shows.
    const ELSEWHERE: &str = "Workloads with stale configuration";

    let settings =
        json!({"orphan_after": "3s", "dangling_after": "3s", "owner_missing_after": "3s"});
    let case = Case::new("objects", &quick_but(settings));
    let prometheus = Prometheus::start("objects.prometheus", case.sidecar.port, None);

    provoke(&case);
    for (code, kind, name) in FOUND {
        case.sidecar.expect_finding(SOON, code, kind, name);
    }

    let queries = eventually(SOON, "every panel has data", || {
        match prometheus.ask_panels("loopwatch-objects") {
            (queries, empty) if empty == [ELSEWHERE] => Ok(queries),
            (_, empty) => Err(format!("no data: {empty:?}")),
        }
    });

    eprintln!("objects: {queries} queries of the dashboard answer, all with data");
}

/// Provokes one fault of each kind, next to a deletion and a reference to another namespace that
/// are correct.
fn provoke(case: &Case) {
    let Case { kube, namespace, .. } = case;
    for name in ["stuck", "retired"] {
        case.make("Widget", name);
    }

    case.operator.fault(&format!("FinalizerStuck?kind=Widget&namespace={namespace}&name=stuck"));
    kube.delete(ZOO, "Widget", namespace, "stuck");
    kube.delete(ZOO, "MapConditions", namespace, TWIN);

    let owner = owned_by(&kube.find(ZOO, "Widget", namespace, TWIN).unwrap_or_default());
    let mut ghost = owner.clone();
    (ghost["name"], ghost["uid"]) = (json!("ghost"), json!("00000000-0000-4000-8000-000000000001"));

    // loopwatch watches ConfigMaps once it has found those of the operator.
    let config = format!("widget-{TWIN}-config");
    case.sidecar.expect(SOON, "it watches children", || {
        case.sidecar.object("ConfigMap", namespace, &config)
    });
    for (name, owners) in [("lost", json!([ghost])), ("orphan", json!([owner]))] {
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": owners,
            "labels": {"app.kubernetes.io/managed-by": MANAGER}});
        kube.create_as(
            MANAGER,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
        );
    }

    case.sidecar.expect(SOON, "it sees the owner", || {
        case.sidecar.object("ConfigMap", namespace, "orphan")
    });
    let ownerless = json!({"metadata": {"ownerReferences": null}});

    kube.patch_as(MANAGER, "v1", "ConfigMap", namespace, "orphan", &ownerless);

    kube.zoo("Widget", namespace, "waits", json!({"secretRef": {"name": "absent"}}));
    kube.zoo(
        "Widget",
        namespace,
        "crosses",
        json!({"secretRef": {"name": "ca", "namespace": "kube-system"}}),
    );

    let deleted_at = jiff::Timestamp::now().as_second() - 25 * 3600;
    let annotations = json!({"soft-delete/enable": "true", "soft-delete/phase": "canary",
        "deleted_at": deleted_at.to_string()});
    kube.patch(
        ZOO,
        "Widget",
        namespace,
        "retired",
        &json!({"metadata": {"annotations": annotations}}),
    );
}
