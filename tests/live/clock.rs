//! The clock of the node is set while loopwatch runs, or was wrong at its start. libfaketime sets
//! it for one process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_with};
use loopwatch_testbed::accounts::RBAC;
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::http;
use loopwatch_testbed::kube::{Kube, ZOO, write_kubeconfig};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE, Operator};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test_with("clock::set_while_running", &["faketime"], set_while_running),
        test_with("clock::wrong_at_the_start", &["faketime"], wrong_at_the_start),
    ]
}

const SOON: Duration = Duration::from_secs(15);

/// The time between the last exposition before the clock is set and the first one after it.
const LATER: Duration = Duration::from_secs(5);

/// The clock of one process.
struct NodeClock {
    library: PathBuf,
    file: PathBuf,
}

/// The value of each series.
type Exposition = BTreeMap<String, f64>;

/// With an object in each state that time can change, the clock is set forward and back by an hour:
/// no age, finding or counter changes more than the time that has really passed.
fn set_while_running() {
    let plane = bed();
    let namespace = "clock-set";
    let clock = NodeClock::new(plane, namespace);
    let (operator, sidecar) = start(plane, namespace, &clock);
    let lease = |renewed: &str| {
        plane.kube.apply(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": "leader"},
            "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed}}));
    };

    lease("2020-01-01T00:00:00.000000Z"); // the operator's clock is wrong
    plane.kube.zoo("Widget", namespace, "healthy", json!({}));
    for name in ["late", "broken", "leaving"] {
        plane.kube.zoo("Widget", namespace, name, json!({}));
    }

    for name in ["healthy", "late", "broken", "leaving"] {
        expect_state(&sidecar, namespace, name, "converged");
    }

    pause(Duration::from_secs(2)); // longer than `settle`
    for (fault, name) in
        [("Overdue", "late"), ("Regressed", "broken"), ("FinalizerStuck", "leaving")]
    {
        operator.fault(&format!("{fault}?kind=Widget&namespace={namespace}&name={name}"));
    }

    plane.kube.change("Widget", namespace, "late", json!({"size": 2}));
    plane.kube.delete(ZOO, "Widget", namespace, "leaving");
    expect_state(&sidecar, namespace, "late", "progressing");
    expect_state(&sidecar, namespace, "leaving", "terminating");
    sidecar.expect_finding(SOON, "Regressed", "Widget", "broken");

    for offset in ["+3600", "-3600", "+0"] {
        let (before, began) = (exposition(&sidecar), Instant::now());
        clock.set(offset);
        eventually(SOON, "the process sees its clock change", || shows_offset(&sidecar, offset));
        pause(LATER);

        let after = exposition(&sidecar);
        expect_only_time_passed(offset, &before, &after, began.elapsed());

        // What happens now is measured correctly, too.
        let size = offset.len() + usize::from(offset.starts_with('+'));
        let converged = convergences(&after);
        plane.kube.change("Widget", namespace, "healthy", json!({"size": size}));
        lease(&format!("2020-01-01T00:00:0{size}.000000Z"));
        sidecar.expect(SOON, "the change has converged", || {
            let (count, seconds) = convergences(&exposition(&sidecar));
            match count > converged.0 {
                true if (0.0..10.0).contains(&(seconds - converged.1)) => Ok(()),
                _ => Err(format!("{converged:?}, then {count} in {seconds} s")),
            }
        });

        let age = sidecar.metric(&format!(
            "loopwatch_lease_renew_age_seconds{{target_namespace=\"{namespace}\",lease=\"leader\"}}"
        ));

        assert!(age.as_ref().is_ok_and(|age| *age < 15.0), "{age:?}");
    }

    let opened = sidecar.opened();
    let found: Vec<_> = opened.iter().filter(|(_, on)| on.contains(namespace)).collect();

    assert_eq!(found.len(), 1, "only the one that is true, once: {found:?}");
}

/// The first response of the API server sets the clock.
fn wrong_at_the_start() {
    expect_right_after_start("clock-slow", "-3600");
    expect_right_after_start("clock-fast", "+3600");
}

fn expect_right_after_start(namespace: &str, offset: &str) {
    let plane = bed();
    let clock = NodeClock::new(plane, namespace);
    clock.set(offset);

    let (_operator, sidecar) = start(plane, namespace, &clock);
    eventually(SOON, "the process sees the wrong clock", || shows_offset(&sidecar, offset));
    plane.kube.zoo("Widget", namespace, "one", json!({}));
    expect_state(&sidecar, namespace, "one", "converged");

    let now = jiff::Timestamp::now().as_second() as f64;
    for source in ["discovery".to_owned(), format!("watch/widgets.zoo.loopwatch.dev/{namespace}")] {
        let series =
            format!("loopwatch_source_last_success_timestamp_seconds{{source=\"{source}\"}}");
        let success = sidecar.metric(&series);

        assert!(
            success.as_ref().is_ok_and(|at| (now - at).abs() < 60.0),
            "{source}: {success:?}, now {now}"
        );
    }

    assert_eq!(sidecar.metric("loopwatch_observations_total{source=\"clock\"}"), Ok(1.0));
    assert_eq!(sidecar.opened().iter().filter(|(_, on)| on.contains(namespace)).count(), 0);
}

/// Starts an operator and loopwatch for a namespace. Only an object that has regressed can soon
/// become a finding.
fn start(plane: &ControlPlane, namespace: &str, clock: &NodeClock) -> (Operator, Sidecar) {
    plane.kube.namespace(namespace);
    allow_leases(&plane.kube, namespace);

    let flags = ["--ready-after=200ms", "--wait-for-pods=false", "--autoscale-every=0"];
    let operator = Operator::start(plane, &format!("{namespace}.operator"), namespace, &flags);
    let (folder, token) = (plane.directory(), plane.kube.token(NAMESPACE, ACCOUNT));
    let (file, authority) =
        (folder.join(format!("{namespace}.kubeconfig")), folder.join("certs/apiserver.crt"));
    let kubeconfig = write_kubeconfig(file, &plane.url, &authority, &token, namespace);
    let settings = quick_but(
        json!({"deadline": "10m", "phase_stuck_after": "10m", "finalizer_stuck_after": "15m"}),
    );

    let scope = format!("--namespace={namespace}");
    let flags = [scope.as_str(), "--watch=zoo.loopwatch.dev/Widget"];
    let sidecar =
        Sidecar::start_with(plane, namespace, &kubeconfig, &settings, &flags, &clock.environment());

    sidecar.wait_synced(1);
    (operator, sidecar)
}

/// Allows the operator's account to watch the leases of a namespace.
fn allow_leases(kube: &Kube, namespace: &str) {
    let name = "lease-reader";
    kube.apply(&json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": namespace},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch"]}]}));
    kube.apply(&json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]}));
}

fn expect_state(sidecar: &Sidecar, namespace: &str, name: &str, state: &str) {
    sidecar.expect(Duration::from_secs(30), &format!("{name} is {state}"), || {
        let object = sidecar.object("Widget", namespace, name)?;
        if object["state"] == state { Ok(()) } else { Err(object.to_string()) }
    });
}

fn exposition(sidecar: &Sidecar) -> Exposition {
    let text = sidecar.metrics().unwrap_or_else(|error| panic!("{error}"));
    let samples =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(series, value)| Some((series.to_owned(), value.parse().ok()?))).collect()
}

/// The number of convergences so far, and their total time.
fn convergences(shown: &Exposition) -> (f64, f64) {
    let total = |family: &str| {
        shown.iter().filter(|(series, _)| series.starts_with(family)).map(|(_, value)| value).sum()
    };
    (total("loopwatch_convergence_seconds_count"), total("loopwatch_convergence_seconds_sum"))
}

/// Expects the same series with the same values, except that times have advanced by `passed`.
fn expect_only_time_passed(
    offset: &str,
    before: &Exposition,
    after: &Exposition,
    passed: Duration,
) {
    // loopwatch's own work, not what it says about the operator.
    const OWN: [&str; 10] = [
        "process_",
        "loopwatch_allocator_",
        "loopwatch_channel_",
        "loopwatch_http_",
        "loopwatch_observations_",
        "loopwatch_render_",
        "loopwatch_runtime_",
        "loopwatch_watch_lag_",
        "loopwatch_state_audit_",
        "loopwatch_owner_", // of child kinds, which loopwatch may find at any time
    ];

    let clock = "loopwatch_observations_total{source=\"clock\"}";
    assert!(
        after.get(clock).is_none_or(|count| *count == 0.0),
        "{offset}: a step of the clock reached the model"
    );

    let judged = |shown: &Exposition| -> Exposition {
        let own = |series: &String| OWN.iter().any(|own| series.starts_with(own));
        shown
            .iter()
            .filter(|(series, _)| !own(series))
            .map(|(series, value)| (series.clone(), *value))
            .collect()
    };

    let (before, after) = (judged(before), judged(after));
    let names = |shown: &Exposition| shown.keys().cloned().collect::<Vec<_>>();

    assert_eq!(names(&before), names(&after), "{offset}");

    let mut ages = 0;
    for (series, was) in &before {
        let change = after[series] - was;
        let family = series.split('{').next().unwrap_or_default();
        let grows_by = match family {
            "loopwatch_object_seconds_total" => 4.0, // objects
            "loopwatch_source_last_success_timestamp_seconds" => 1.0,
            _ if family.ends_with("_oldest_seconds") || family.ends_with("_age_seconds") => 1.0,
            _ => 0.0,
        };

        ages += usize::from(grows_by > 0.0);
        let most = grows_by * (passed.as_secs_f64() + 3.0);

        assert!(
            (0.0..=most).contains(&change),
            "{offset}: {series} was {was} and changed by {change} in {passed:?}"
        );
    }

    assert!(ages >= 5, "few ages among {before:?}");
}

/// Reports whether the clock of the process is `offset` seconds ahead, according to the timestamps
/// in its log.
fn shows_offset(sidecar: &Sidecar, offset: &str) -> Result<(), String> {
    // Loopwatch logs that it cannot read the request.
    let _ = http::request("NO METHOD", sidecar.port, "/", &[], "");
    let line = sidecar.process.program.log_tail(1);
    let log: Value = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
    let logged: jiff::Timestamp =
        log["timestamp"].as_str().and_then(|time| time.parse().ok()).ok_or(line)?;
    let shown = logged.as_second() - jiff::Timestamp::now().as_second();
    let expected: i64 = offset.parse().map_err(|_| offset.to_owned())?;

    if (shown - expected).abs() < 2 {
        Ok(())
    } else {
        Err(format!("{shown} instead of {offset}: {log}"))
    }
}

impl NodeClock {
    fn new(plane: &ControlPlane, name: &str) -> Self {
        let folders =
            std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
        let mut libraries = folders.map(|folder| folder.join("faketime/libfaketime.so.1"));
        let library =
            libraries.find(|library| library.exists()).expect("the library that faketime preloads");
        let clock = Self { library, file: plane.directory().join(format!("{name}.faketime")) };

        clock.set("+0");
        clock
    }

    /// Sets the clock to `offset` seconds from now.
    fn set(&self, offset: &str) {
        std::fs::write(&self.file, offset).expect("our own folder");
    }

    fn environment(&self) -> [(&str, &Path); 4] {
        let yes = Path::new("1");
        [
            ("LD_PRELOAD", &self.library),
            ("FAKETIME_TIMESTAMP_FILE", &self.file),
            ("FAKETIME_NO_CACHE", yes),
            // As on a real machine, only the wall clock can be set.
            ("FAKETIME_DONT_FAKE_MONOTONIC", yes),
        ]
    }
}
