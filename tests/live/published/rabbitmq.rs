//! RabbitMQ's cluster operator, unchanged: users create clusters, scale, upgrade and delete them,
//! and delete a namespace while the operator works. loopwatch must report nothing. Then the
//! operator is stopped and a cluster deleted.
//!
//! `cargo test --test live -- --ignored` runs it. It is not a default test, because it needs a
//! build of its own.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{expect_good_outcomes, expect_no_finding};
use crate::bed::bed;
use crate::case::SLACK;
use crate::compare::{compare, expect_audited};
use crate::recorder::Recorder;
use loopwatch_testbed::binaries;
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::kube::path;
use loopwatch_testbed::published::Replica;
use loopwatch_testbed::rabbitmq::{self, ACCOUNT, API, FINALIZER, KIND, NAMESPACE};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::eventually;

/// Namespaces with clusters.
const TEAMS: [&str; 2] = ["queues-a", "queues-b"];

/// The namespace that is deleted while the operator works.
const DOOMED: &str = "queues-c";

/// The image before and after the upgrade.
pub(super) const IMAGES: [&str; 2] = ["rabbitmq:3.12.14-management", "rabbitmq:3.13.2-management"];

/// The kinds of a cluster that is deleted in cascade: itself, its StatefulSet and claims, and the
/// Pods.
const LAYERS: [(&str, &str); 4] =
    [(API, KIND), ("apps/v1", "StatefulSet"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod")];

/// The kinds that the operator creates.
const CHILDREN: [&str; 8] = [
    "StatefulSet",
    "PersistentVolumeClaim",
    "Service",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Role",
    "RoleBinding",
];

/// The deadline of all objects. While Pods start, the operator sometimes looks only every 15 s.
const DEADLINE: Duration = Duration::from_secs(60);

/// The time that a deletion may take. A new instance of the operator waits for almost 20 s until
/// the lease has expired.
const STUCK_AFTER: Duration = Duration::from_secs(40);

/// Findings that are correct here: this account may read the definitions of all operators,
/// including that of the zoo's kind without a status subresource.
const TRUE_ANYWAY: [&str; 1] = ["StatusSubresourceMissing"];

/// The time that the operator may be absent, longer than a roll takes.
const ABSENT_AFTER: Duration = Duration::from_secs(35);

/// The finding on a deletion that waits for the operator while it is gone.
const GONE: &str = "FinalizerOwnerAbsent";

/// The actor that should remove the operator's finalizer.
const ACTOR: &str = "field manager manager (operator of rabbitmq.com)";

/// Thresholds long enough for a busy machine. Windows for counts keep their defaults.
fn thresholds() -> Value {
    quick_but(json!({
        "deadline": format!("{}s", DEADLINE.as_secs()),
        "reject_after": "3s",
        "regressed_after": "15s",
        "phase_stuck_after": "25s",
        "finalizer_stuck_after": format!("{}s", STUCK_AFTER.as_secs()),
        "recover_at_least": "25s",
        "owner_absent_after": format!("{}s", ABSENT_AFTER.as_secs()),
        "source_failing_after": "15s",
        "flap_window": "30m",
        "cycle_window": "30m",
    }))
}

/// Runs the test.
pub(super) fn run() {
    let plane = bed();
    let files =
        binaries::rabbitmq(&plane.binaries.kustomize).unwrap_or_else(|missing| panic!("{missing}"));
    rabbitmq::install(plane, &files);
    TEAMS.iter().chain([&DOOMED]).for_each(|team| plane.kube.namespace(team));
    plane.pretend_exec(&[TEAMS[0], TEAMS[1], DOOMED]);

    let operator = rabbitmq::start(plane, &files);
    let kubeconfig =
        plane.kubeconfig_of("rabbitmq.loopwatch.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let flags = ["--secrets=metadata"];
    let sidecar = Sidecar::start(plane, "rabbitmq.loopwatch", &kubeconfig, &thresholds(), &flags);
    let recorder = Recorder::for_wide_scenario("rabbitmq", "rabbitmq.loopwatch", &kubeconfig);
    let mut site = Site { plane, sidecar, operator };

    site.sidecar.wait_synced(1);
    site.create();
    site.expect_discovered();
    site.scale();
    site.upgrade();
    site.roll();
    site.delete();
    site.delete_namespace();

    expect_good_outcomes(&site.sidecar);
    site.expect_removed_in_time();

    let lag = expect_audited(&site.sidecar);
    expect_no_finding("rabbitmq", &site.sidecar, &TRUE_ANYWAY, &lag.to_string());

    let expected = site.stop();
    drop(recorder);

    let is_expected = |found: &(String, String)| {
        TRUE_ANYWAY.contains(&found.0.as_str()) || expected.contains(found)
    };
    let others: Vec<_> =
        site.sidecar.opened().into_iter().filter(|found| !is_expected(found)).collect();

    assert!(others.is_empty(), "{others:?}\n{}", site.sidecar.account());
}

/// The operator, and loopwatch with its account.
struct Site {
    plane: &'static ControlPlane,
    sidecar: Sidecar,
    operator: Replica,
}

impl Site {
    /// Creates clusters of one and of three Pods, with and without volume claims.
    fn create(&self) {
        for team in TEAMS {
            for pod in 0..3 {
                self.plane.kube.apply(&rabbitmq::volume(team, "durable", pod));
            }

            self.cluster(team, "small", 1, "0");
            self.cluster(team, "durable", 3, "1Gi");
            self.cluster(team, "passing", 1, "0");
        }

        self.expect_converged("the first clusters");
    }

    /// Expects that loopwatch finds the operator's kind and its child kinds, and lacks nothing.
    fn expect_discovered(&self) {
        let began = Instant::now();
        self.sidecar.expect(Duration::from_secs(90), "the kinds are discovered", || {
            let status = self.sidecar.status()?;
            let role = |kind: &str| {
                let mut kinds = status["kinds"].as_array().into_iter().flatten();
                kinds
                    .find(|found| found["kind"] == kind)
                    .map_or("", |found| found["role"].as_str().unwrap_or_default())
            };

            let known =
                role(KIND) == "primary" && CHILDREN.iter().all(|kind| role(kind) == "child");
            if known && status["not_visible"] == json!([]) {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
        eprintln!("rabbitmq: all kinds are discovered: {:.1?}", began.elapsed());
    }

    /// Scales a cluster up. The operator does not support scaling down.
    fn scale(&self) {
        TEAMS.iter().for_each(|team| self.respecify(team, "small", json!({"replicas": 3})));
        self.expect_converged("three Pods");
    }

    /// Upgrades clusters, and changes their configuration: a new image and a new setting restart
    /// the Pods one by one, a new plugin does not.
    fn upgrade(&self) {
        for team in TEAMS {
            self.respecify(team, "durable", json!({"image": IMAGES[1]}));
            self.respecify(team, "small", json!({"image": IMAGES[1]}));
        }

        self.expect_converged("another image");
        for team in TEAMS {
            let setting = json!({"rabbitmq": {"additionalConfig": "vm_memory_high_watermark.relative = 0.6\n"}});
            self.respecify(team, "durable", setting);

            let plugins = json!({"rabbitmq": {"additionalPlugins": ["rabbitmq_federation"]}});
            self.respecify(team, "small", plugins);
        }

        self.expect_converged("another configuration");
    }

    /// Rolls the operator as strategy `Recreate` does, while its users change specs and delete a
    /// cluster.
    fn roll(&mut self) {
        self.cluster(TEAMS[0], "brief", 1, "0");
        self.expect_converged("a cluster that lives briefly");
        self.stop_operator();
        TEAMS.iter().for_each(|team| self.respecify(team, "passing", json!({"replicas": 3})));
        self.delete_cluster(TEAMS[0], "brief", "Background");
        self.start_operator();
        self.expect_gone(TEAMS[0], &["brief"]);
        self.expect_converged("another operator");
    }

    /// Deletes clusters in cascade as users do, and creates one of them again.
    fn delete(&self) {
        self.delete_cluster(TEAMS[0], "passing", "Background");
        self.delete_cluster(TEAMS[0], "durable", "Foreground");
        self.delete_cluster(TEAMS[1], "small", "Foreground");
        self.expect_gone(TEAMS[0], &["passing", "durable"]);
        self.expect_gone(TEAMS[1], &["small"]);
        self.cluster(TEAMS[0], "passing", 1, "0");
        self.expect_converged("deleted clusters");
    }

    /// Deletes a namespace while the operator works on one cluster in it and has not begun with
    /// another one.
    fn delete_namespace(&self) {
        self.cluster(DOOMED, "settled", 3, "0");
        self.expect_converged("clusters in a namespace that will be deleted");
        self.respecify(DOOMED, "settled", json!({"image": IMAGES[1]}));
        self.cluster(DOOMED, "begun", 3, "0");
        eventually(Duration::from_secs(20), "the operator has begun", || {
            let found = self.plane.kube.find(API, KIND, DOOMED, "begun").unwrap_or_default();
            let begun = found["metadata"]["finalizers"] == json!([FINALIZER]);
            if begun { Ok(()) } else { Err(found["metadata"].to_string()) }
        });

        let began = Instant::now();
        self.plane.kube.delete("v1", "Namespace", "", DOOMED);
        eventually(Duration::from_secs(60), "the namespace is gone", || {
            self.plane
                .kube
                .find("v1", "Namespace", "", DOOMED)
                .map_or(Ok(()), |found| Err(found["status"].to_string()))
        });

        eprintln!("rabbitmq: a namespace was deleted in {:.1?}", began.elapsed());
        self.expect_converged("a namespace deleted");
    }

    /// Expects that loopwatch saw the finalizer removed from every deleted cluster, in time.
    fn expect_removed_in_time(&self) {
        let outcome = |outcome: &str| {
            let (finalizer, outcome) =
                (format!("finalizer=\"{FINALIZER}\""), format!("outcome=\"{outcome}\""));
            let text = self.sidecar.metrics().unwrap_or_default();
            let lines =
                text.lines().filter(|line| line.starts_with("loopwatch_finalizer_outcomes_total{"));
            let mine = lines.filter(|line| line.contains(&finalizer) && line.contains(&outcome));

            mine.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
        };
        assert_eq!(["removed", "removed_late"].map(outcome), [6.0, 0.0]);
    }

    /// Stops the operator and deletes clusters. Returns what loopwatch should report.
    fn stop(&mut self) -> Vec<(String, String)> {
        self.stop_operator();
        let stuck = [(TEAMS[0], "small", "Background"), (TEAMS[1], "durable", "Foreground")];
        for (team, cluster, policy) in stuck {
            self.delete_cluster(team, cluster, policy);
        }

        for (_, cluster, _) in stuck {
            let (finding, took) =
                self.sidecar.expect_finding(ABSENT_AFTER + SLACK, GONE, KIND, cluster);

            // The garbage collector has done its part of a deletion in the foreground.
            assert_eq!(finding.evidence("finalizers"), &json!([FINALIZER]), "{finding}");
            assert_eq!(finding.evidence("actor"), &json!([ACTOR]), "{finding}");

            eprintln!("rabbitmq: stopped: found after {took:.1?}: {finding}");
        }

        self.start_operator();
        for (team, cluster, _) in stuck {
            self.sidecar.expect_cleared(Duration::from_secs(60), GONE, KIND, cluster);
            self.expect_gone(team, &[cluster]);
        }

        self.expect_converged("the deletions that waited for the operator");
        stuck
            .map(|(team, cluster, _)| (GONE.to_owned(), format!("{KIND} {team}/{cluster}")))
            .to_vec()
    }

    /// Stops the process, and the Pod that stands for it.
    fn stop_operator(&mut self) {
        rabbitmq::scale(self.plane, 0);
        self.operator.stop();
    }

    fn start_operator(&mut self) {
        rabbitmq::scale(self.plane, 1);
        self.operator.start_again();
    }

    /// Waits until loopwatch holds exactly the objects of the cluster, with the same generations,
    /// and says that all have converged.
    fn expect_converged(&self, what: &str) {
        let began = Instant::now();
        self.sidecar.expect(DEADLINE + Duration::from_secs(60), what, || {
            for namespace in TEAMS.iter().chain([&DOOMED]) {
                self.rolled_out(namespace)?;
                compare(&self.sidecar, &self.plane.kube, (API, KIND), namespace)?;
            }

            let objects = self.sidecar.objects("")?;
            let settled = |object: &&Value| match object["kind"] == KIND {
                true => object["state"] == "converged",
                false => object["state"] == "converged" || object["state"] == "unknown",
            };
            let unconverged: Vec<_> = objects.iter().filter(|object| !settled(object)).collect();

            if unconverged.is_empty() {
                Ok(())
            } else {
                Err(format!("{} not: {}", unconverged.len(), unconverged[0]))
            }
        });
        eprintln!("rabbitmq: {what}: {:.1?}", began.elapsed());
    }

    /// Waits until clusters are gone with everything that they own, transitively.
    fn expect_gone(&self, namespace: &str, clusters: &[&str]) {
        let began = Instant::now();
        eventually(Duration::from_secs(60), &format!("{clusters:?} are gone"), || {
            for (api, kind) in LAYERS {
                let left = self.plane.kube.try_list(api, kind, namespace)?;
                let is_of = |object: &&Value| {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let cluster = name.trim_start_matches("persistence-").split("-server").next();
                    clusters.iter().any(|gone| cluster == Some(gone))
                };
                if let Some(left) = left.iter().find(is_of) {
                    return Err(format!("{kind} {}", left["metadata"]));
                }
            }

            Ok(())
        });
        eprintln!("rabbitmq: {clusters:?} are gone: {:.1?}", began.elapsed());
    }

    /// Fails unless every StatefulSet has rolled out: all of its Pods are ready and have the same
    /// image as its cluster.
    fn rolled_out(&self, namespace: &str) -> Result<(), String> {
        let clusters = self.plane.kube.try_list(API, KIND, namespace)?;
        let pods = self.plane.kube.try_list("v1", "Pod", namespace)?;
        for cluster in &clusters {
            let (name, spec) =
                (cluster["metadata"]["name"].as_str().unwrap_or_default(), &cluster["spec"]);
            let set = self.plane.kube.find(
                "apps/v1",
                "StatefulSet",
                namespace,
                &format!("{name}-server"),
            );

            let status = set.unwrap_or_default()["status"].take();
            let image = |pod: &&Value| {
                let named = pod["metadata"]["labels"]["app.kubernetes.io/name"] == name;
                named && pod["spec"]["containers"][0]["image"] == spec["image"]
            };
            let all = spec["replicas"].as_u64().unwrap_or_default();
            let counts = [status["readyReplicas"].as_u64(), status["updatedReplicas"].as_u64()];

            if counts != [Some(all); 2] || pods.iter().filter(image).count() as u64 != all {
                return Err(format!("{namespace}/{name}: {status}"));
            }
        }

        Ok(())
    }

    fn cluster(&self, namespace: &str, name: &str, replicas: u32, storage: &str) {
        self.plane.kube.apply(&json!({"apiVersion": API, "kind": KIND,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": replicas, "image": IMAGES[0],
                "persistence": {"storage": storage, "storageClassName": "by-hand"}}}));
    }

    fn respecify(&self, namespace: &str, name: &str, spec: Value) {
        self.plane.kube.patch(API, KIND, namespace, name, &json!({"spec": spec}));
    }

    fn delete_cluster(&self, namespace: &str, name: &str, policy: &str) {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
        let target = path(API, KIND, namespace, name);
        let answer = self.plane.kube.call("DELETE", &target, "application/json", Some(&options));

        answer.unwrap_or_else(|error| panic!("{error}"));
    }
}
