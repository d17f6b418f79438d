//! loopwatch loses nothing while hundreds of objects are created, changed and deleted over a
//! connection that breaks repeatedly, and says so if something else loses an event.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{alone, bed, test};
use crate::compare::{expect_audited, expect_equal};
use loopwatch_testbed::gate::Gate;
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;
use loopwatch_testbed::wire::Wire;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("lossless::churn_with_cuts", churn_with_cuts),
        test("lossless::event_withheld", event_withheld),
    ]
}

/// A proxy withholds the event about a new object, so loopwatch has fewer objects than the API
/// server, until the next event about it. Near miss: a burst of objects, of which no event is lost.
fn event_withheld() {
    const CODE: &str = "StateInconsistent";

    let (plane, namespace) = (bed(), "withheld");
    plane.kube.namespace(namespace);

    let gate = Gate::before(plane);
    let kubeconfig = plane.kubeconfig_of("withheld.kubeconfig", &gate.url(), NAMESPACE, ACCOUNT);
    let settings = quick_but(json!({"deadline": "1h", "phase_stuck_after": "1h"}));
    let flags = ["--namespace=withheld", "--watch=zoo.loopwatch.dev/Widget"];
    let sidecar = Sidecar::start(plane, namespace, &kubeconfig, &settings, &flags);
    sidecar.wait_synced(1);

    let create = |name: &str| drop(plane.kube.zoo("Widget", namespace, name, json!({})));
    (0..50).for_each(|number| create(&format!("burst-{number}")));
    expect_equal(Duration::from_secs(20), &sidecar, &plane.kube, namespace, &["Widget"]);
    pause(Duration::from_secs(8)); // at least two audits

    gate.withhold(Some("\"name\":\"lost\""));
    create("lost");
    pause(Duration::from_secs(1));
    create("seen");

    // loopwatch compares a count as soon as a later event arrives. Without one, it waits for a
    // bookmark, which the API server sends once a minute.
    let watch = "watch/widgets.zoo.loopwatch.dev/withheld";
    let mut size = 0;
    let mut expect_open = |expected: bool| {
        sidecar.expect(Duration::from_secs(30), &format!("{CODE} is open: {expected}"), || {
            size += 1;
            pause(Duration::from_millis(500));
            plane.kube.change("Widget", namespace, "seen", json!({"size": size}));

            let findings = sidecar.findings()?;
            let found = findings.into_iter().find(|finding| finding.is(CODE, "Source", watch));
            if found.is_some() == expected { Ok(found) } else { Err(format!("{found:?}")) }
        })
    };

    let found = expect_open(true).expect("an open finding");
    assert_eq!(
        (found.evidence("here"), found.evidence("server")),
        (&json!(51), &json!(52)),
        "{found}"
    );

    gate.withhold(None);
    plane.kube.change("Widget", namespace, "lost", json!({"size": 2}));
    expect_open(false);
    assert_eq!(sidecar.opened().len(), 1, "{}", sidecar.account());
}

/// Tests that need the machine for themselves.
pub(crate) fn serial_trials() -> Vec<Trial> {
    vec![alone("lossless::delivery_lag", delivery_lag)]
}

const NAME: &str = "churn";
const KINDS: [&str; 2] = ["Widget", "Statusless"];
/// Number of objects of each kind.
const OBJECTS: usize = 400;
const CUT_EVERY: Duration = Duration::from_millis(800);

/// The maximum number of cuts. On a slow machine the changes take long, and connections that are
/// cut for a minute would rightly become a finding.
const MAX_CUTS: usize = 12;
/// The churn goes on until the connection has been cut this often, however fast the machine is.
const CUTS: usize = 5;

fn churn_with_cuts() {
    let plane = bed();
    plane.kube.namespace(NAME);

    let wire = Wire::to(plane.port);
    let kubeconfig = plane.kubeconfig_of("churn.kubeconfig", &wire.url(), NAMESPACE, ACCOUNT);

    // No operator works on these objects.
    let settings = quick_but(
        json!({"deadline": "1h", "phase_stuck_after": "1h", "finalizer_stuck_after": "1h",
        "source_failing_after": "1m"}),
    );
    let sidecar = Sidecar::start(plane, NAME, &kubeconfig, &settings, &["--namespace=churn"]);

    sidecar.wait_synced(KINDS.len());

    let began = Instant::now();
    let cuts = AtomicUsize::new(0);
    let mut changes = 0;
    std::thread::scope(|scope| {
        let churn_until_cut = |kind| {
            let mut changes = churn(&plane.kube, kind, NAME);
            while cuts.load(Ordering::Relaxed) < CUTS {
                changes += churn(&plane.kube, kind, NAME);
            }

            changes
        };

        let writers: Vec<_> =
            KINDS.iter().map(|kind| scope.spawn(move || churn_until_cut(kind))).collect();
        let mut next = Instant::now() + CUT_EVERY;
        while writers.iter().any(|writer| !writer.is_finished()) {
            if Instant::now() >= next && cuts.load(Ordering::Relaxed) < MAX_CUTS {
                wire.cut();
                cuts.fetch_add(1, Ordering::Relaxed);
                next += CUT_EVERY;
            }

            pause(Duration::from_millis(20));
        }

        changes = writers
            .into_iter()
            .map(|writer| writer.join().expect("the writer changed its objects"))
            .sum();
    });

    let took = began.elapsed();
    expect_equal(Duration::from_secs(40), &sidecar, &plane.kube, NAME, &KINDS);

    let lag = expect_audited(&sidecar);
    let cuts = cuts.into_inner();
    eprintln!(
        "lossless: {changes} changes, {cuts} cuts in {took:.0?}, {} connections; with cuts {lag}",
        wire.opened()
    );

    let found = sidecar.opened();
    assert!(
        found.iter().all(|(code, _)| code == "PermissionMissing"),
        "{found:?}\n{}",
        sidecar.account()
    );
}

/// The delivery lag on an otherwise idle machine: 99 % of all changes must arrive within half a
/// second.
fn delivery_lag() {
    let plane = bed();
    plane.kube.namespace("lag");

    let kubeconfig = plane.kubeconfig_of("lag.kubeconfig", &plane.url, NAMESPACE, ACCOUNT);
    let settings =
        quick_but(json!({"deadline": "1h", "phase_stuck_after": "1h", "audit_every": "250ms"}));
    let flags = ["--namespace=lag", "--watch=zoo.loopwatch.dev/Widget"];
    let sidecar = Sidecar::start(plane, "lag", &kubeconfig, &settings, &flags);

    sidecar.wait_synced(1);
    let (began, mut changes) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(20) {
        changes += churn(&plane.kube, "Widget", "lag");
    }

    expect_equal(Duration::from_secs(20), &sidecar, &plane.kube, "lag", &["Widget"]);
    let lag = expect_audited(&sidecar);
    eprintln!("lossless: {changes} changes in 20 s; {lag}");

    assert!(lag.share() >= 0.99, "{lag}");
}

/// Creates, changes and deletes objects of a kind, and returns the number of changes.
fn churn(kube: &Kube, kind: &str, namespace: &str) -> usize {
    let name = |index: usize| format!("object-{index}");
    let mut changes = 0;
    for index in 0..OBJECTS {
        kube.zoo(kind, namespace, &name(index), json!({}));
        changes += 1;
        if index >= 20 && index % 3 == 0 {
            kube.change(kind, namespace, &name(index - 10), json!({"size": index}));
            changes += 1;
        }

        if index >= 20 && index % 4 == 0 {
            kube.delete(ZOO, kind, namespace, &name(index - 20));
            changes += 1;
        }

        if index >= 40 && index % 8 == 0 {
            // A new object with the name of a deleted one.
            kube.zoo(kind, namespace, &name(index - 20), json!({"size": 2}));
            changes += 1;
        }
    }

    changes
}
