//! Published operators of different styles, unchanged, while users create, scale, upgrade and delete
//! objects. loopwatch runs with its defaults beside each, and must report nothing.
//!
//! `WORK_FOR=60m cargo test --test live -- --ignored published::` runs them for an hour. They are no
//! default tests, because each needs a build of its own.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::expect_no_finding;
use crate::bed::{bed, test};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::kube::Kube;
use loopwatch_testbed::published_operators::{
    ARGO_ROLLOUTS, CERT_MANAGER, KRO, PROMETHEUS_OPERATOR, Published,
};
use loopwatch_testbed::sidecar::Sidecar;
use loopwatch_testbed::wait::{eventually, pause};

/// An operator, and the objects that its users have.
struct Work {
    operator: Published,
    /// API version and kind of the objects.
    kind: (&'static str, &'static str),
    /// Creates the objects that all others need.
    prepare: fn(&Kube),
    /// Returns the spec of an object.
    spec: fn(&Wish<'_>) -> Value,
    /// Returns what an object needs beside it, in the same namespace.
    beside: fn(&Wish<'_>) -> Vec<Value>,
    /// Whether the status of an object says that its spec is in effect.
    is_done: fn(&Value) -> bool,
    /// Findings that are correct in a cluster of the test bed.
    true_anyway: &'static [&'static str],
}

/// The wish of a user for one object.
#[derive(Clone, Copy)]
struct Wish<'a> {
    name: &'a str,
    size: u32,
    /// Which of two versions.
    upgraded: bool,
    /// Which of two namespaces. Their objects differ in style.
    second: bool,
}

/// The tests.
pub(super) fn trials() -> Vec<Trial> {
    let of = |work: fn() -> Work| move || run(&work());
    vec![
        test("published::argo_rollouts", of(argo_rollouts)).with_ignored_flag(true),
        test("published::prometheus_operator", of(prometheus_operator)).with_ignored_flag(true),
        test("published::kro", of(kro)).with_ignored_flag(true),
        test("published::cert_manager_at_work", of(cert_manager)).with_ignored_flag(true),
    ]
}

/// The time for which users work, without `WORK_FOR`.
const SHORT: Duration = Duration::from_secs(240);

/// The pause between two rounds of work.
const PAUSE: Duration = Duration::from_secs(20);

/// The time that an operator may need for a change, here and in loopwatch's defaults.
const IN_TIME: Duration = Duration::from_secs(300);

/// The time between two changes of a user, longer than an object must stay converged.
const BETWEEN: Duration = Duration::from_secs(12);

/// The time within which loopwatch must agree with a status.
const AGREED_WITHIN: Duration = Duration::from_secs(30);

/// The names of the two namespaces of an operator.
fn teams(operator: &Published) -> [String; 2] {
    ["a", "b"].map(|team| format!("{}-team-{team}", operator.name))
}

/// Reads `WORK_FOR`, such as `60m`.
fn time_to_work() -> Duration {
    let Some(text) = std::env::var_os("WORK_FOR") else { return SHORT };
    let text = text.to_string_lossy();
    let minutes = text.strip_suffix('m').and_then(|minutes| minutes.parse::<u64>().ok());
    Duration::from_secs(60 * minutes.unwrap_or_else(|| panic!("WORK_FOR={text}: expected 60m")))
}

fn run(work: &Work) {
    let plane = bed();
    let mut operator = work.operator.start(plane);
    let name = work.operator.name;
    let teams = teams(&work.operator);
    teams.iter().for_each(|team| plane.kube.namespace(team));
    (work.prepare)(&plane.kube);

    let flags = [format!("--operator={name}/{name}"), "--secrets=metadata".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let sidecar = Sidecar::start(
        plane,
        &format!("{name}.loopwatch"),
        &plane.kube.kubeconfig,
        &json!({}),
        &flags,
    );
    let site = Site { work, plane, teams, sidecar };

    let (began, mut round) = (Instant::now(), 0);
    while began.elapsed() < time_to_work() {
        site.work_once(round);
        operator.replica.assert_running();
        site.expect_nothing(round);
        pause(PAUSE);
        round += 1;
    }

    site.expect_nothing(round);
    operator.replica.stop();
}

/// An operator, and loopwatch with its account.
struct Site<'a> {
    work: &'a Work,
    plane: &'static ControlPlane,
    teams: [String; 2],
    sidecar: Sidecar,
}

impl Site<'_> {
    /// Creates an object in each namespace, scales it, upgrades it, changes it while it is being
    /// changed, and deletes the objects of the round before.
    fn work_once(&self, round: u32) {
        let began = Instant::now();
        let name = format!("round-{round}");
        let at_first = Wish { name: &name, size: 2, upgraded: false, second: false };

        self.wish(at_first);
        self.expect_done(&name, "created");
        self.wish(Wish { size: 3, ..at_first });
        self.expect_done(&name, "scaled up");
        self.wish(Wish { size: 3, upgraded: true, ..at_first });
        self.expect_done(&name, "upgraded");
        self.wish(Wish { size: 1, ..at_first });
        pause(Duration::from_secs(1));
        self.wish(Wish { upgraded: true, ..at_first });
        self.expect_done(&name, "changed in the middle of a change");

        if let Some(before) = round.checked_sub(1) {
            self.delete(&format!("round-{before}"));
        }

        eprintln!("{}: round {round} in {:.1?}", self.work.operator.name, began.elapsed());
    }

    fn wish(&self, wish: Wish<'_>) {
        let Work { kind: (api, kind), spec, beside, .. } = self.work;
        for (team, second) in self.teams.iter().zip([false, true]) {
            let wish = Wish { second, ..wish };
            let metadata = json!({"name": wish.name, "namespace": team});
            for mut other in beside(&wish) {
                other["metadata"]["namespace"] = json!(team);
                self.plane.kube.apply(&other);
            }

            let object =
                json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec(&wish)});
            self.plane.kube.apply(&object);
        }
    }

    /// Waits until the operator has done its work, and loopwatch says so.
    fn expect_done(&self, name: &str, what: &str) {
        let (api, kind) = self.work.kind;
        for team in &self.teams {
            eventually(IN_TIME, &format!("{kind} {team}/{name} is {what}"), || {
                let found = self.plane.kube.find(api, kind, team, name).unwrap_or_default();
                if (self.work.is_done)(&found) { Ok(()) } else { Err(found["status"].to_string()) }
            });
            self.sidecar.expect(AGREED_WITHIN, &format!("{team}/{name} is {what}"), || {
                let object = self.sidecar.object(kind, team, name)?;
                let found = self.plane.kube.find(api, kind, team, name).unwrap_or_default();
                let is_same = object["generation"] == found["metadata"]["generation"];
                if is_same && object["state"] == "converged" {
                    Ok(())
                } else {
                    Err(object.to_string())
                }
            });
        }

        pause(BETWEEN);
    }

    fn delete(&self, name: &str) {
        let (api, kind) = self.work.kind;
        for team in &self.teams {
            self.plane.kube.delete(api, kind, team, name);
            eventually(IN_TIME, &format!("{kind} {team}/{name} is gone"), || {
                self.plane.kube.find(api, kind, team, name).map_or(Ok(()), |it| Err(it.to_string()))
            });
        }
    }

    fn expect_nothing(&self, rounds: u32) {
        let name = self.work.operator.name;
        let text = format!("{rounds} rounds");
        expect_no_finding(name, &self.sidecar, self.work.true_anyway, &text);
    }
}

const NOTHING: fn(&Wish<'_>) -> Vec<Value> = |_| Vec::new();

/// Whether a condition of an object is true, for its present generation.
fn holds(object: &Value, name: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let generation = &object["metadata"]["generation"];
    conditions.any(|it| {
        it["type"] == name && it["status"] == "True" && it["observedGeneration"] == *generation
    })
}

/// Canaries with a pause in one namespace, and two colours behind a Service in the other.
fn argo_rollouts() -> Work {
    Work {
        operator: ARGO_ROLLOUTS,
        kind: ("argoproj.io/v1alpha1", "Rollout"),
        prepare: |_| (),
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
fn prometheus_operator() -> Work {
    Work {
        operator: PROMETHEUS_OPERATOR,
        kind: ("monitoring.coreos.com/v1", "Prometheus"),
        prepare: |_| (),
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
fn kro() -> Work {
    Work {
        operator: KRO,
        kind: ("kro.run/v1alpha1", "Site"),
        prepare: |kube| {
            let labels = json!({"site": "${schema.metadata.name}"});
            let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${schema.metadata.name}"},
                "spec": {"replicas": "${schema.spec.replicas}", "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                        {"name": "site", "image": "${schema.spec.image}"}]}}}});
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}"}, "data": {"image": "${schema.spec.image}"}});
            let ready = "${deployment.status.availableReplicas == deployment.spec.replicas}";

            kube.apply(
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
                kube.try_list("kro.run/v1alpha1", "Site", "kro-team-a")
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
fn cert_manager() -> Work {
    Work {
        operator: CERT_MANAGER,
        kind: ("cert-manager.io/v1", "Certificate"),
        prepare: |_| (),
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
