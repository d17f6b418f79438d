//! An outage of the API server is not a reason to list again: loopwatch continues from the last
//! version.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::compare::{expect_audited, expect_equal};
use loopwatch_testbed::gate::{Gate, Refusal};
use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::operator::{ACCOUNT, NAMESPACE};
use loopwatch_testbed::sidecar::{Sidecar, quick_but};
use loopwatch_testbed::wait::pause;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("outage::no_list_after_unavailability", no_list_after_unavailability)]
}

const NAME: &str = "outage";
const KINDS: [&str; 2] = ["Widget", "Statusless"];
/// Number of objects of each kind.
const OBJECTS: usize = 1_000;
/// Length of the outage.
const LASTS: Duration = Duration::from_secs(40);
/// Length of each part of the outage: refusals, and then a moment in which streams open and are cut
/// again.
const PART: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3));

/// For 40 s, every request fails with 503, 502 or 500, or its stream is cut, while objects change.
fn no_list_after_unavailability() {
    let plane = bed();
    plane.kube.namespace(NAME);
    std::thread::scope(|scope| {
        for kind in KINDS {
            scope.spawn(move || (0..OBJECTS).for_each(|index| create(&plane.kube, kind, index)));
        }
    });

    let gate = Gate::before(plane);
    let kubeconfig = plane.kubeconfig_of("outage.kubeconfig", &gate.url(), NAMESPACE, ACCOUNT);
    let settings = quick_but(
        json!({"deadline": "1h", "phase_stuck_after": "1h", "finalizer_stuck_after": "1h"}),
    );
    let watch = "--watch=zoo.loopwatch.dev/Widget,zoo.loopwatch.dev/Statusless";
    let sidecar =
        Sidecar::start(plane, NAME, &kubeconfig, &settings, &["--namespace=outage", watch]);

    sidecar.wait_synced(KINDS.len());
    expect_equal(Duration::from_secs(20), &sidecar, &plane.kube, NAME, &KINDS);

    let before = gate.requests().len();
    let over = AtomicBool::new(false);
    let (mut changes, mut parts) = (0, 0);
    std::thread::scope(|scope| {
        let writers = KINDS.map(|kind| {
            let over = &over;
            scope.spawn(move || churn(&plane.kube, kind, over))
        });
        let began = Instant::now();
        while began.elapsed() < LASTS {
            let status = [503, 502, 500][parts % 3];
            gate.refuse(Refusal { status, retry_after: None, path: "/" });
            gate.end_streams();
            pause(PART.0);
            gate.open();
            pause(PART.1);
            parts += 1;
        }

        gate.end_streams();
        over.store(true, Ordering::Relaxed);
        changes =
            writers.into_iter().map(|writer| writer.join().expect("it changed its objects")).sum();
    });

    let began = Instant::now();
    expect_equal(Duration::from_secs(60), &sidecar, &plane.kube, NAME, &KINDS);

    let recovered = began.elapsed();
    let requests = gate.requests().split_off(before);
    let lists: Vec<&String> = requests.iter().filter(|request| is_list(request)).collect();
    let losses = losses(&sidecar);

    eprintln!(
        "outage: {changes} changes, {} requests ({} refused), {} lists, equal {recovered:.1?} after the outage, {} losses logged",
        requests.len(),
        gate.refused(),
        lists.len(),
        losses.len()
    );

    assert!(lists.is_empty(), "{lists:?}\n{}", sidecar.account());

    expect_audited(&sidecar);

    // One line for each part of the outage, although several watches lose their connection several
    // times in each.
    assert!((1..=parts + 1).contains(&losses.len()), "{losses:#?}");

    for loss in &losses {
        assert_eq!(loss["server"], json!(gate.url()), "{loss}");
        assert!(loss["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{loss}");
    }
}

/// Whether a request lists objects: in pages, or at the beginning of a stream. Audits ask for one
/// object, samples for twenty.
fn is_list(request: &str) -> bool {
    let lists = request.contains("sendInitialEvents") || !request.contains("watch=true");
    request.contains("zoo.loopwatch.dev/v1/")
        && lists
        && !["?limit=1", "?limit=20"].iter().any(|few| request.ends_with(few))
        && !request.contains("?limit=20&")
}

/// The lost connections in the log of loopwatch.
fn losses(sidecar: &Sidecar) -> Vec<Value> {
    let log = std::fs::read_to_string(sidecar.process.program.log()).expect("the log of loopwatch");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| {
            line["level"] == "WARN" && line["message"] == "lost the connection to the API server"
        })
        .collect()
}

fn create(kube: &Kube, kind: &str, index: usize) {
    kube.zoo(kind, NAME, &format!("object-{index}"), json!({}));
}

/// Creates, changes and deletes objects until the outage is over, and returns the number of
/// changes.
fn churn(kube: &Kube, kind: &str, over: &AtomicBool) -> usize {
    let mut changes = 0;
    while !over.load(Ordering::Relaxed) {
        kube.change(
            kind,
            NAME,
            &format!("object-{}", (changes * 7) % OBJECTS),
            json!({"size": changes % 1_000}),
        );
        if changes % 5 == 0 {
            create(kube, kind, OBJECTS + changes);
        }

        if changes % 10 == 5 {
            kube.delete(ZOO, kind, NAME, &format!("object-{}", OBJECTS + changes - 5));
        }

        changes += 1;
        pause(Duration::from_millis(30));
    }

    changes
}
