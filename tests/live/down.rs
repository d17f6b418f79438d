//! The verdicts about the operator as a whole. No kubelet runs here, so the Pods stand for
//! processes that the test starts and kills.

mod requests;
mod times;

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test, test_after, test_with};
use crate::case::SLACK;
use loopwatch_testbed::accounts::{RBAC, allow_leader_election, reader_account, reader_account_of};
use loopwatch_testbed::kopf::{self, KopfOperator};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::pods;
use loopwatch_testbed::replicas::Replicas;
use loopwatch_testbed::sidecar::{ShownFinding, Sidecar, quick_but, summary};
use loopwatch_testbed::wait::{eventually, pause};

/// The tests of this file. The one about outages takes minutes: `cargo test --test live --
/// --ignored down`.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("down::api_fails_and_recovers", requests::api_fails_and_recovers),
        test("down::rights_withdrawn", requests::rights_withdrawn),
        test("down::informer_not_synced", requests::informer_not_synced),
        test("down::leaders", leaders),
        test("down::killed", killed),
        test("down::near_misses", near_misses),
        test("down::restart_loop", restart_loop),
        test("down::out_of_memory_at_start", out_of_memory_at_start),
        test_with("down::time_until_down", BOTH, times::killed).with_ignored_flag(true),
        test_with("down::time_until_crash_loop", BOTH, times::crash_loop).with_ignored_flag(true),
        test_with("down::time_until_out_of_memory", BOTH, times::out_of_memory)
            .with_ignored_flag(true),
        test_with("down::time_until_panic", BOTH, times::panics).with_ignored_flag(true),
        test_after("down::kopf_without_metrics", kopf::interpreter, kopf_without_metrics),
    ]
}

/// The programs of the tests that wait for notifications.
const BOTH: &[&str] = &["prometheus", "prometheus-alertmanager"];
/// One kind of the zoo has no status subresource.
const OF_DEFINITIONS: &str = "StatusSubresourceMissing";
const UP: &str = "loopwatch_operator_up";
/// The time after which a standby takes over. If it is shorter, a leader on a busy machine loses
/// the Lease, and ends.
const LEASE: Duration = Duration::from_secs(8);
/// A time within which a wrong finding would open, several times the threshold.
const LONG: Duration = Duration::from_secs(6);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Replicas of the zoo's operator in a namespace, and loopwatch, which knows their Deployment.
pub(crate) struct Watched {
    pub(crate) kube: Kube,
    pub(crate) namespace: &'static str,
    pub(crate) replicas: Replicas,
    pub(crate) sidecar: Sidecar,
}

impl Watched {
    pub(crate) fn start(namespace: &'static str, count: u8, settings: Value) -> Self {
        Self::with_flags(namespace, count, settings, &["--scrape-interval=1s".to_owned()])
    }

    fn with_flags(namespace: &'static str, count: u8, settings: Value, more: &[String]) -> Self {
        let plane = bed();
        let kube = plane.kube.clone();
        kube.namespace(namespace);
        reader_account(&kube, namespace);

        // The last one counts.
        let lease = format!("--leader-elect-lease-duration={}s", LEASE.as_secs());
        let flags = ["--ready-after=200ms", "--wait-for-pods=false", lease.as_str()];
        let replicas = Replicas::start(plane, namespace, count, &flags);
        let sidecar = standalone(namespace, "widget-operator", &settings, more);

        sidecar.wait_watched("Widget", 1);
        let watched = Self { kube, namespace, replicas, sidecar };
        watched.sidecar.expect(secs(30), "the metrics of all Pods are known", || {
            let text = watched.sidecar.metrics()?;
            let is_known =
                text.contains(r#"loopwatch_operator_info{framework="controller-runtime""#);
            if is_known {
                watched.is(UP, 1.0)
            } else {
                Err("no loopwatch_operator_info".to_owned())
            }
        });

        watched
    }

    /// Creates an object and waits until it has converged.
    pub(crate) fn make(&self, kind: &str, name: &str) {
        self.kube.zoo(kind, self.namespace, name, json!({}));
        self.wait_converged(kind, name);
    }

    /// Changes a Widget, and waits until the operator has acknowledged it.
    fn resize(&self, name: &str, size: u32) {
        let meta =
            self.kube.change("Widget", self.namespace, name, json!({"size": size}))["metadata"]
                .take();
        eventually(secs(60), "the operator acknowledges a change", || {
            let status = self.kube.status("Widget", self.namespace, name);
            if status["observedGeneration"] == meta["generation"] {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
    }

    /// Waits until a new leader reconciles an object that loopwatch ignores. This takes longer than
    /// the deadlines of this test.
    fn wait_reconciling(&self) {
        let name = "ignored";
        let ignored = json!({"metadata": {"annotations": {"loopwatch.dev/ignore": "all"}}});
        self.kube.patch(ZOO, "Widget", self.namespace, name, &ignored);
        pause(secs(1));
        self.resize(name, 7);
    }

    fn wait_converged(&self, kind: &str, name: &str) {
        wait_converged(&self.sidecar, kind, self.namespace, name);
    }

    fn is(&self, series: &str, expected: f64) -> Result<(), String> {
        match self.sidecar.metric(series)? {
            value if (value - expected).abs() < f64::EPSILON => Ok(()),
            value => Err(format!("{series} is {value}")),
        }
    }

    /// Waits until a series has a value.
    fn expect_metric(&self, series: &str, expected: f64) {
        self.sidecar
            .expect(SLACK, &format!("{series} is {expected}"), || self.is(series, expected));
    }

    /// Waits for a finding about the operator.
    fn expect_finding(&self, within: Duration, code: &str) -> ShownFinding {
        let (finding, _) = self.sidecar.expect_finding(within, code, "Operator", "widget-operator");
        finding
    }

    fn expect_silence(&self, what: &str) {
        assert_eq!(opened(&self.sidecar), [], "{what}\n{}", self.sidecar.account());
    }

    fn pod(&self, index: usize) -> &str {
        &self.replicas.all[index].pod.name
    }

    /// Kills a replica, whose kubelet reports it.
    fn kill(&mut self, index: usize) {
        let replica = &mut self.replicas.all[index];
        replica.kill();
        replica.pod.ended("Error", 137);
    }

    fn wait_led_by(&self, index: usize) {
        eventually(LEASE * 5, "another replica leads", || match self.replicas.leader() {
            Some(leader) if leader == index => Ok(()),
            other => Err(format!("{other:?} leads")),
        });
    }

    /// Waits until the deletion of a Pod has begun.
    pub(crate) fn wait_terminating(&self, index: usize) {
        eventually(secs(30), "the Pod terminates", || {
            let pod =
                self.kube.find("v1", "Pod", self.namespace, self.pod(index)).unwrap_or_default();
            if pod["metadata"]["deletionTimestamp"].is_string() {
                Ok(())
            } else {
                Err(pod["metadata"].to_string())
            }
        });
    }

    /// Ends the process in a Pod that terminates, as the kubelet does.
    pub(crate) fn end(&mut self, index: usize) {
        let replica = &mut self.replicas.all[index];
        let _ = replica.operator.process.stop(secs(20));
        replica.pod.ended("Completed", 0);
    }
}

/// Starts loopwatch outside of the Pods of an operator.
fn standalone(namespace: &str, operator: &str, settings: &Value, more: &[String]) -> Sidecar {
    let flags = [format!("--namespace={namespace}"), format!("--operator={namespace}/{operator}")];
    let flags: Vec<&str> = flags.iter().chain(more).map(String::as_str).collect();
    let plane = bed();
    let name = format!("{namespace}.loopwatch");

    Sidecar::start(plane, &name, &plane.kube.kubeconfig, settings, &flags)
}

/// The findings so far, without those about the definitions of the zoo, which are right.
fn opened(sidecar: &Sidecar) -> Vec<(String, String)> {
    sidecar.opened().into_iter().filter(|(code, _)| code != OF_DEFINITIONS).collect()
}

fn wait_converged(sidecar: &Sidecar, kind: &str, namespace: &str, name: &str) {
    sidecar.expect(secs(30), &format!("{kind} {name} has converged"), || {
        let object = sidecar.object(kind, namespace, name)?;
        if object["state"] == "converged" { Ok(()) } else { Err(object.to_string()) }
    });
}

/// Waits until exactly one finding explains all others, directly or not.
fn expect_only_root(sidecar: &Sidecar, code: &str, explained: &[&str]) {
    sidecar.expect(SLACK, &format!("{code} is the only root"), || {
        let mut findings = sidecar.findings()?;
        findings.retain(|found| found.code() != OF_DEFINITIONS);

        let roots: Vec<&str> = findings
            .iter()
            .filter(|found| found.0["explained_by"].is_null())
            .map(ShownFinding::code)
            .collect();
        let is_open = |code: &&str| findings.iter().any(|found| found.code() == *code);
        match roots == [code] && explained.iter().all(is_open) {
            true => Ok(()),
            false => Err(format!("roots: {roots:?}, findings: {}", summary(&findings))),
        }
    });
}

/// One replica is killed, and the standby takes over: a near miss. Then that one is killed, too,
/// although every status says Ready. Its death is one root finding.
fn killed() {
    let mut all = Watched::start("down-killed", 2, quick_but(json!({"operator_down_after": "3s"})));
    for (kind, name) in [
        ("Widget", "steady"),
        ("Widget", "changed"),
        ("Widget", "ignored"),
        ("PhaseOnly", "deleted"),
    ] {
        all.make(kind, name);
    }

    let first = all.replicas.wait_for_leader();
    let second = 1 - first;
    all.kill(first);
    all.replicas.all[first].pod.backs_off();
    all.wait_led_by(second);
    all.wait_reconciling();
    all.resize("changed", 2);
    all.wait_converged("Widget", "changed");

    all.expect_silence("a standby took over");
    all.expect_metric(UP, 1.0);

    all.kill(second);
    let down = all.expect_finding(secs(3) + SLACK, "OperatorDown");

    assert_eq!(
        (down.severity(), &down.0["confidence"]),
        ("critical", &json!("confirmed")),
        "{down}"
    );

    let signs = down.evidence("signs").to_string();
    assert!(
        signs.contains(all.pod(second))
            && signs.contains("Error")
            && signs.contains("metrics endpoint"),
        "{down}"
    );

    all.expect_metric(UP, 0.0);
    let steady = all.sidecar.object("Widget", all.namespace, "steady").expect("a known object");

    assert_eq!(steady["state"], "converged", "{steady}");

    all.kube.change("Widget", all.namespace, "changed", json!({"size": 3}));
    all.kube.delete(ZOO, "PhaseOnly", all.namespace, "deleted");
    all.sidecar.expect_finding(secs(4) + SLACK, "Unacknowledged", "Widget", "changed");
    all.sidecar.expect_finding(secs(4) + SLACK, "FinalizerStuck", "PhaseOnly", "deleted");
    expect_only_root(&all.sidecar, "OperatorDown", &["Unacknowledged", "FinalizerStuck"]);

    for old in all.replicas.all.drain(..) {
        old.pod.terminate();
        old.pod.remove();
    }

    all.replicas.start_next(bed());
    all.sidecar.expect_cleared(SLACK * 2, "OperatorDown", "Operator", "widget-operator");
    all.wait_converged("Widget", "changed");
    all.sidecar.expect_cleared(SLACK, "FinalizerStuck", "PhaseOnly", "deleted");
    all.expect_metric(UP, 1.0);
}

/// The operator is absent on purpose: its Pod is deleted, it is rolled out in both ways, and it is
/// scaled to zero. At the end, it is killed, which loopwatch sees.
fn near_misses() {
    // While the process of a Pod ends, its metrics cannot be read.
    let absent = json!({"operator_down_after": "2s", "owner_absent_after": "4s", "source_failing_after": "1m"});
    let settings = quick_but(absent);
    let mut all = Watched::start("down-on-purpose", 1, settings.clone());
    all.make("Widget", "steady");
    all.make("Widget", "ignored");

    // A sidecar outlives the main container of its Pod.
    let account =
        bed().kubeconfig_of("down-on-purpose.kubeconfig", &bed().url, all.namespace, ACCOUNT);
    let own = all.pod(0).to_owned();
    let environment = [("POD_NAME", Path::new(&own)), ("POD_NAMESPACE", Path::new(all.namespace))];
    let scope = [format!("--namespace={}", all.namespace), "--scrape-interval=1s".to_owned()];
    let scope = scope.each_ref().map(String::as_str);
    let beside = Sidecar::start_with(
        bed(),
        "down-on-purpose.beside",
        &account,
        &settings,
        &scope,
        &environment,
    );

    beside.wait_watched("Widget", 1);
    beside.expect(SLACK, "its Pod is known", || beside.metric(UP));
    all.replicas.all[0].pod.terminate();
    all.wait_terminating(0);
    all.end(0);
    pause(LONG);

    assert_eq!(opened(&beside), [], "the own Pod terminates\n{}", beside.account());

    drop(beside);
    all.replicas.all.remove(0).pod.remove();
    all.replicas.start_next(bed());
    all.expect_silence("the Pod was deleted");

    // The new Pod starts before the old one ends.
    all.replicas.change(&json!({"template": {"metadata": {"annotations": {"rollout": "1"}}}}));
    all.replicas.start_next(bed());
    all.wait_terminating(0);
    all.end(0);
    pause(LEASE);
    all.replicas.all.remove(0).pod.remove();
    all.expect_silence("a rollout");

    // The old Pod ends before the new one starts.
    let recreate = json!({"type": "Recreate", "rollingUpdate": null});
    all.replicas.change(
        &json!({"strategy": recreate, "template": {"metadata": {"annotations": {"rollout": "2"}}}}),
    );
    all.wait_terminating(0);
    all.end(0);
    pause(LONG);
    all.replicas.all.remove(0).pod.remove();

    pause(LONG);
    all.replicas.start_next(bed());
    all.expect_silence("a rollout with the strategy Recreate");

    all.replicas.change(&json!({"replicas": 0}));
    all.wait_terminating(0);
    all.end(0);
    pause(LONG / 2);
    all.replicas.all.remove(0).pod.remove();
    pause(LONG);
    all.expect_silence("scaled to zero");
    all.replicas.change(&json!({"replicas": 1}));

    pause(LONG / 2);
    all.replicas.start_next(bed());
    all.wait_reconciling();
    all.resize("steady", 2);
    all.wait_converged("Widget", "steady");
    all.expect_silence("scaled to one");
    all.expect_metric(UP, 1.0);

    all.kill(0);
    all.expect_finding(secs(2) + SLACK, "OperatorDown");
}

/// Two restarts are not too many; three are. The finding about them explains why the operator is
/// down.
fn restart_loop() {
    let mut all =
        Watched::start("down-restarts", 1, quick_but(json!({"operator_down_after": "20s"})));
    let restart = |all: &mut Watched| {
        all.kill(0);
        all.replicas.all[0].pod.backs_off();
        pause(secs(1));
        all.replicas.all[0].restart();
    };

    let restarts = format!(
        r#"loopwatch_operator_restarts_total{{operator_pod="{}",container="manager"}}"#,
        all.pod(0)
    );

    restart(&mut all);
    restart(&mut all);
    all.expect_metric(&restarts, 2.0);
    all.expect_silence("two restarts");
    restart(&mut all);

    let found = all.expect_finding(SLACK, "RestartLoop");
    assert_eq!(
        (found.evidence("restarts"), found.evidence("pod")),
        (&json!(3), &json!(all.pod(0))),
        "{found}"
    );
    assert_eq!(
        (found.evidence("reason"), found.evidence("exit_code")),
        (&json!("Error"), &json!(137)),
        "{found}"
    );

    all.expect_metric(&restarts, 3.0);
    all.kill(0);
    all.expect_finding(secs(20) + SLACK, "OperatorDown");
    expect_only_root(&all.sidecar, "RestartLoop", &["OperatorDown"]);

    let found = all.expect_finding(SLACK, "RestartLoop");
    assert_eq!(found.severity(), "critical", "{found}");

    let is_memory = |(code, _): &(String, String)| code == "StartupOutOfMemory";
    assert!(!opened(&all.sidecar).iter().any(is_memory), "killed, but not for its memory");
}

/// One kill for its memory soon after its start causes no finding; two do.
fn out_of_memory_at_start() {
    let mut all =
        Watched::start("down-memory", 1, quick_but(json!({"operator_down_after": "20s"})));
    let kill = |all: &mut Watched| {
        all.replicas.all[0].operator.fault("OutOfMemory?size=8Mi&delay=100ms");
        assert_eq!(all.replicas.all[0].wait_end(secs(10), true), 137);

        all.replicas.all[0].pod.backs_off();
        pause(secs(1));
        all.replicas.all[0].restart();
    };

    kill(&mut all);
    pause(secs(2));
    all.expect_silence("killed once");
    kill(&mut all);

    let found = all.expect_finding(SLACK, "StartupOutOfMemory");
    let (kills, limit) = (found.evidence("kills"), found.evidence("memory_limit"));

    assert_eq!((kills, limit), (&json!(2), &json!(256 << 20)), "{found}");

    kill(&mut all);
    all.expect_finding(SLACK, "RestartLoop");
    expect_only_root(&all.sidecar, "StartupOutOfMemory", &["RestartLoop"]);
}

/// A rollout changes the leader once, and is healthy. A Lease that nobody may renew is not, and
/// neither is one that changes hands again and again.
fn leaders() {
    let mut all =
        Watched::start("down-leaders", 2, quick_but(json!({"leader_absent_after": "18s"})));
    let leader = all.replicas.wait_for_leader();
    let old = all.replicas.all.remove(leader);

    old.pod.terminate();
    drop(old.operator);
    all.wait_led_by(0);
    old.pod.remove();
    all.replicas.start_next(bed());
    pause(LEASE);
    all.expect_silence("one change of the leader");

    // The leader ends, because it cannot renew the Lease. Both Pods run, but neither may take it.
    let leader = all.replicas.wait_for_leader();
    all.kube.delete(RBAC, "RoleBinding", all.namespace, "widget-operator-leader-election");

    assert_ne!(all.replicas.all[leader].wait_end(LEASE * 4, false), 0);

    all.replicas.all[leader].restart();
    let found = all.expect_finding(secs(18) + SLACK, "LeaderAbsent");

    assert_eq!(found.evidence("running_pods"), 2, "{found}");
    assert_eq!(found.0["confidence"], "confirmed", "{found}");

    allow_leader_election(&all.kube, all.namespace);
    all.sidecar.expect_cleared(SLACK * 2, "LeaderAbsent", "Operator", "widget-operator");

    let (_, before) = all.replicas.lease();
    for replica in &all.replicas.all {
        replica.operator.fault("LeaderFlapping?period=1s");
    }

    eventually(secs(90), "the Lease flaps between the Pods", || {
        // A leader that loses the Lease ends, and its kubelet starts it again.
        for replica in &mut all.replicas.all {
            if replica.operator.process.ended().is_some() {
                replica.pod.ended("Error", 1);
                replica.restart();
                replica.operator.fault("LeaderFlapping?period=1s");
            }
        }

        let findings = all.sidecar.findings()?;
        match findings.iter().any(|found| found.code() == "LeaderFlapping") {
            true => Ok(()),
            false => Err(format!("{:?} after {before} transitions", all.replicas.lease())),
        }
    });

    let found = all.expect_finding(SLACK, "LeaderFlapping");
    assert!(found.evidence("transitions").as_u64() >= Some(3), "{found}");
    assert_eq!(found.0["confidence"], "confirmed", "{found}");
}

/// An operator without metrics: its Pod shows that it is down, and its objects show the effects.
fn kopf_without_metrics(python: PathBuf) {
    let (plane, namespace) = (bed(), "down-kopf");
    let kube = &plane.kube;
    kopf::install(plane);
    kube.namespace(namespace);

    let mut operator = KopfOperator::start(plane, &python, "down-kopf.operator", namespace);

    // Its Pod stands for the process. Its account may do what that of the process may do, and read
    // what loopwatch reads.
    reader_account_of(kube, namespace, kopf::ACCOUNT);
    let mut pod = pods::deploy_for(
        kube,
        namespace,
        kopf::ACCOUNT,
        std::net::Ipv4Addr::new(127, 0, 0, 2),
        None,
    );

    let settings = quick_but(json!({"operator_down_after": "3s"}));
    let sidecar =
        standalone(namespace, "gadget-operator", &settings, &["--scrape-interval=1s".to_owned()]);
    sidecar.wait_watched(kopf::KIND, 1);

    for name in ["changed", "deleted"] {
        kube.zoo(kopf::KIND, namespace, name, json!({}));
        wait_converged(&sidecar, kopf::KIND, namespace, name);
    }

    sidecar.expect(SLACK, "the operator is up", || sidecar.metric(UP));
    assert_eq!(opened(&sidecar), [], "{}", sidecar.account());

    operator.process.kill();
    pod.ended("Error", 137);

    let (down, _) =
        sidecar.expect_finding(secs(3) + SLACK, "OperatorDown", "Operator", "gadget-operator");

    assert_eq!(down.severity(), "critical", "{down}");

    kube.change(kopf::KIND, namespace, "changed", json!({"size": 2}));
    kube.delete(ZOO, kopf::KIND, namespace, "deleted");
    sidecar.expect_finding(secs(4) + SLACK, "Unacknowledged", kopf::KIND, "changed");
    sidecar.expect_finding(secs(4) + SLACK, "FinalizerStuck", kopf::KIND, "deleted");
    expect_only_root(&sidecar, "OperatorDown", &["Unacknowledged", "FinalizerStuck"]);
    operator.start_again();
    sidecar.expect_cleared(SLACK, "Unacknowledged", kopf::KIND, "changed");
}
