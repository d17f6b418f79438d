//! Five published operators in one cluster, unchanged and of different styles, while users work with all of
//! them. One loopwatch with its defaults finds all kinds, reports nothing, and then names the operator that
//! is killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Fleet, install, may_read};
use crate::bed::another;
use crate::case::SLACK;
use crate::published::work::{Users, time_to_work};
use crate::published::works::{self, Work};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::published_operators::Running;
use loopwatch_testbed::sidecar::Sidecar;
use loopwatch_testbed::wait::pause;

/// The operators, which are in namespaces of their names, and the kinds that each of them owns.
const OWNED: [(&str, &[&str]); 5] = [
    (
        "argo-rollouts",
        &["argoproj.io/AnalysisRun", "argoproj.io/Experiment", "argoproj.io/Rollout"],
    ),
    (
        "cert-manager",
        &[
            "acme.cert-manager.io/Challenge",
            "acme.cert-manager.io/Order",
            "cert-manager.io/Certificate",
            "cert-manager.io/CertificateRequest",
            "cert-manager.io/ClusterIssuer",
            "cert-manager.io/Issuer",
        ],
    ),
    // A user's definition creates the last one while loopwatch runs.
    ("kro", &["internal.kro.run/GraphRevision", "kro.run/ResourceGraphDefinition", "kro.run/Site"]),
    (
        "prometheus-operator",
        &[
            "monitoring.coreos.com/Alertmanager",
            "monitoring.coreos.com/Prometheus",
            "monitoring.coreos.com/PrometheusAgent",
            "monitoring.coreos.com/ServiceMonitor",
            "monitoring.coreos.com/ThanosRuler",
        ],
    ),
    ("rabbitmq-cluster-operator", &["rabbitmq.com/RabbitmqCluster"]),
];

/// The kinds that have no status: operators only read them.
const UNCLAIMED: [&str; 7] = [
    "argoproj.io/AnalysisTemplate",
    "argoproj.io/ClusterAnalysisTemplate",
    "monitoring.coreos.com/AlertmanagerConfig",
    "monitoring.coreos.com/PodMonitor",
    "monitoring.coreos.com/Probe",
    "monitoring.coreos.com/PrometheusRule",
    "monitoring.coreos.com/ScrapeConfig",
];

/// The groups that no ClusterRole of the operators for viewers covers entirely.
const NOT_FOR_VIEWERS: [&str; 4] =
    ["cert-manager.io", "internal.kro.run", "monitoring.coreos.com", "rabbitmq.com"];

/// Findings without a warning that are true: some definitions have no status subresource, kro may write
/// everything, and some reconciles fail because of conflicts.
const TRUE_ANYWAY: [&str; 3] = ["StatusSubresourceMissing", "PermissionExcess", "ReconcileErrors"];

/// The time within which all kinds have an owner. loopwatch looks for signs every five minutes.
const FOUND_WITHIN: Duration = Duration::from_secs(420);

/// The time within which the end of an operator is found.
const DOWN_WITHIN: Duration = Duration::from_secs(240);

/// The time for which users work, without `WORK_FOR`.
const HALF_AN_HOUR: Duration = Duration::from_secs(1_800);

/// Runs the test.
pub(super) fn run() {
    let plane = another();
    let works: [fn() -> Work; 5] = [
        works::argo_rollouts,
        works::cert_manager,
        works::kro,
        works::prometheus_operator,
        works::rabbitmq,
    ];
    let works = works.map(|work| work());
    let mut operators = works.each_ref().map(|work| work.operator.start(&plane));

    let fleet = watch(&plane);
    let kro = json!("kro/kro");
    fleet.0.expect(SLACK, "all operators are known but kro, which shows no kinds yet", || {
        let all = fleet.get("/api/v1/operators")?;
        let is_it = all["not_judged"][0]["workload"] == kro;
        let is_complete =
            all["operators"].as_array().is_some_and(|all| all.len() == OWNED.len() - 1);
        if is_it && is_complete { Ok(()) } else { Err(all.to_string()) }
    });

    let users = works.each_ref().map(|work| Users::new(&plane, work));
    users.iter().for_each(Users::begin);

    let began = Instant::now();
    fleet.0.expect(FOUND_WITHIN, "all kinds have their owners", || fleet.has_owners());
    eprintln!("fleet: the owners of all kinds are known after {:.1?}", began.elapsed());

    work(&fleet, &users);
    for operator in &mut operators {
        operator.replica.assert_running();
    }

    kill(&fleet, &mut operators[0], OWNED[0].0);
}

/// Starts loopwatch with the permissions of `deploy/cluster`.
fn watch(plane: &ControlPlane) -> Fleet {
    let kubeconfig = install(plane, &plane.url);
    may_read(&plane.kube, "loopwatch-groups", &NOT_FOR_VIEWERS);
    Fleet(Sidecar::start(plane, "fleet", &kubeconfig, &json!({}), &["--all-operators"]))
}

/// Lets the users of all operators work at the same time.
fn work(fleet: &Fleet, users: &[Users<'_>]) {
    let time = time_to_work(HALF_AN_HOUR);
    std::thread::scope(|scope| {
        for (users, (name, _)) in users.iter().zip(OWNED) {
            scope.spawn(move || {
                let path = format!("/operators/{name}/{name}");
                users.work_for(time, &fleet.0, &path, |_| fleet.expect_nothing());
            });
        }
    });

    fleet.expect_nothing();
    let all = fleet.operators();
    let objects: BTreeMap<_, _> = all.iter().map(|(name, it)| (name, &it["states"])).collect();
    eprintln!("fleet: {time:?} of work without a warning: {}", json!(objects));
}

/// Kills an operator, and expects one page, which names it.
fn kill(fleet: &Fleet, operator: &mut Running, name: &str) {
    let (began, name) = (Instant::now(), format!("{name}/{name}"));
    operator.replica.kill();
    operator.pod.ended("Error", 137);
    operator.pod.backs_off();
    fleet.0.expect(DOWN_WITHIN, "OperatorDown", || {
        let all = fleet.operators();
        let worst = &all[&name]["worst"];
        if worst["code"] == "OperatorDown" { Ok(()) } else { Err(worst.to_string()) }
    });
    eprintln!("fleet: {name} was killed: found after {:.1?}", began.elapsed());

    pause(Duration::from_secs(60));
    let all = fleet.operators();
    let roots =
        |it: &Value| ["critical", "warning"].map(|severity| it["findings"][severity].as_u64());
    for (other, found) in &all {
        let expected = if *other == name { [Some(1), Some(0)] } else { [Some(0); 2] };
        assert_eq!(roots(found), expected, "{}\n{}", json!(all), fleet.0.account());
    }

    // Its metrics are gone, too.
    let mut found = fleet.unexpected();
    found.retain(|code| code != "SourceFailing");
    assert_eq!(found, ["OperatorDown"], "{}", fleet.0.account());
}

impl Fleet {
    /// What the overview says about each operator.
    fn operators(&self) -> BTreeMap<String, Value> {
        let all = self.get("/api/v1/operators").unwrap_or_else(|error| panic!("{error}"));
        let all = all["operators"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .map(|it| (it["operator"].as_str().unwrap_or_default().to_owned(), it))
            .collect()
    }

    /// Whether each kind has its owner, or is listed as one that nobody owns, and all of that is certain.
    fn has_owners(&self) -> Result<(), String> {
        let found = self.get("/api/v1/operators")?;
        let mut owned = BTreeMap::new();
        for operator in found["operators"].as_array().into_iter().flatten() {
            owned.insert(operator["operator"].to_string(), &operator["kinds"]);
            if operator["suspected_kinds"] != json!([]) {
                return Err(found.to_string());
            }
        }

        let expected: BTreeMap<_, _> = OWNED
            .iter()
            .map(|(name, kinds)| (json!(format!("{name}/{name}")).to_string(), json!(kinds)))
            .collect();
        let is_right = owned.iter().map(|(name, kinds)| (name, *kinds)).eq(&expected)
            && found["unclaimed_kinds"] == json!(UNCLAIMED)
            && found["not_judged"] == json!([]);
        if is_right { Ok(()) } else { Err(found.to_string()) }
    }

    /// Expects that all owners are right, and that there never was a finding.
    fn expect_nothing(&self) {
        self.has_owners().unwrap_or_else(|found| panic!("other owners: {found}"));
        let found = self.unexpected();
        assert!(found.is_empty(), "{found:?}\n{}", self.0.account());
    }

    /// The codes of all findings so far that are about a problem.
    fn unexpected(&self) -> Vec<String> {
        let opened = self.0.opened().into_iter().map(|(code, _)| code);
        opened.filter(|code| !TRUE_ANYWAY.contains(&code.as_str())).collect()
    }
}
