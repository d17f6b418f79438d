//! Which replica sends traces, and what a collector that misbehaves costs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::json;

use crate::bed::{bed, test, test_with};
use crate::case::Case;
use collector::{Collector, Mood, SLOW};
use loopwatch_testbed::accounts::reader_account;
use loopwatch_testbed::http;
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::replicas::{LEASE_DURATION, Replicas};
use loopwatch_testbed::sidecar::{Sidecar, quick, quick_but};
use loopwatch_testbed::wait::{eventually, pause};

mod collector;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("turns::leader", leader),
        test("turns::moods", moods),
        test_with("turns::away", &[], away).with_ignored_flag(true),
    ]
}

const SOON: Duration = Duration::from_secs(60);

/// The pause between two objects.
const APART: Duration = Duration::from_millis(100);

/// No pause before the leader dies. A trace stays open for a second after the status that ends it,
/// so the leader has not sent the traces of objects that the test has just made. A leader that dies
/// just after a renewal may lose a trace, or send it twice.
const AT_ONCE: Duration = Duration::ZERO;

/// Two replicas, each with its sidecar. Each obligation produces exactly one trace, although the
/// leader dies with its sidecar, and although the next one steps down.
fn leader() {
    const NAME: &str = "turns";

    let (plane, collector) = (bed(), Collector::start(Mood::Fine));
    let kube = &plane.kube;
    kube.namespace(NAME);
    reader_account(kube, NAME);

    let mut replicas =
        Replicas::start(plane, NAME, 2, &["--ready-after=200ms", "--wait-for-pods=false"]);
    let kubeconfig = plane.kubeconfig_of("turns.kubeconfig", &plane.url, NAME, ACCOUNT);
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let beside = |number: usize, pod: &str| {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_SERVICE_NAME", pod),
            ("POD_NAME", pod),
            ("POD_NAMESPACE", NAME),
            ("HOSTNAME", pod),
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ]
        .map(|(name, value)| (name, Path::new(value)));

        // Nothing is late while nobody leads.
        let settings = quick_but(json!({"deadline": "2m"}));
        let (name, scope) = (format!("turns.loopwatch-{number}"), format!("--namespace={NAME}"));
        let sidecar =
            Sidecar::start_with(plane, &name, &kubeconfig, &settings, &[&scope], &environment);

        sidecar.wait_watched("Widget", 1);
        sidecar
    };

    let mut sidecars: Vec<Sidecar> = replicas
        .all
        .iter()
        .enumerate()
        .map(|(number, replica)| beside(number, &replica.pod.name))
        .collect();

    let mut made = 0;
    let mut make = |kube: &loopwatch_testbed::kube::Kube, count: usize, apart: Duration| {
        for _ in 0..count {
            kube.zoo("Widget", NAME, &format!("w{made}"), json!({}));
            made += 1;
            pause(apart);
        }

        made
    };

    let expect = |count: usize| {
        eventually(SOON, &format!("{count} traces"), || {
            let roots = collector.roots();
            if roots.len() >= count {
                Ok(())
            } else {
                Err(format!("{} of {count}: {roots:?}", roots.len()))
            }
        });
    };

    expect(make(kube, 10, APART));

    // The leader dies with its sidecar, while objects converge. Until it renews the lease once more, the next
    // one may send the traces again that ended within a fraction of a second of the last renewal.
    let first = replicas.wait_for_leader();
    pause(LEASE_DURATION);
    make(kube, 10, AT_ONCE);
    replicas.all[first].kill();
    sidecars[first].process.kill();

    let all = make(kube, 10, APART);
    let second = 1 - first;
    eventually(LEASE_DURATION * 5, "the other replica leads", || match replicas.leader() {
        Some(leader) if leader == second => Ok(()),
        other => Err(format!("{other:?}")),
    });
    expect(all);

    // The first leader comes back, and the new leader dies alone: its sidecar lives on.
    let again = replicas.all[first].pod.name.clone();
    replicas.all[first].restart();
    sidecars[first] = beside(2, &again);
    pause(LEASE_DURATION);
    make(kube, 10, AT_ONCE);
    replicas.all[second].kill();

    let all = make(kube, 10, APART);
    expect(all);

    pause(LEASE_DURATION * 2);
    let roots = collector.roots();
    let mut by_object: BTreeMap<&str, usize> = BTreeMap::new();
    roots.iter().for_each(|root| *by_object.entry(&root.object).or_default() += 1);

    let twice: Vec<_> = by_object.iter().filter(|(_, count)| **count != 1).collect();
    assert!(
        twice.is_empty() && by_object.len() == all,
        "{twice:?} of {} objects: {roots:#?}",
        by_object.len()
    );

    let senders: std::collections::BTreeSet<&str> =
        roots.iter().map(|root| root.service.as_str()).collect();

    assert_eq!(senders.len(), 2, "{senders:?}");

    eprintln!(
        "turns: {all} obligations, {} traces from {} replicas, none twice and none lost",
        roots.len(),
        senders.len()
    );
}

/// `/metrics` never waits for the collector, and spans that the collector does not take are
/// counted.
fn moods() {
    let collector = Collector::start(Mood::Fine);
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
    ];
    let case = Case::with_environment(
        "moods",
        &quick(),
        &environment.map(|(name, value)| (name, Path::new(value))),
    );

    let spans = |result: &str| {
        case.sidecar
            .metric(&format!("loopwatch_spans_total{{result=\"{result}\"}}"))
            .expect("counted")
    };
    let mut slowest = Duration::ZERO;
    for (number, mood) in Mood::ALL.into_iter().enumerate() {
        collector.be(mood);
        let (rejected, requests) = (spans("rejected"), collector.requests());
        case.kube.zoo("Widget", "moods", &format!("w{number}"), json!({}));
        eventually(SOON, &format!("{mood:?}"), || match collector.requests() > requests {
            true => Ok(()),
            false => Err("no request".to_owned()),
        });

        for _ in 0..20 {
            let began = Instant::now();
            http::get(case.sidecar.port, "/metrics").expect("metrics");
            slowest = slowest.max(began.elapsed());
            pause(Duration::from_millis(100));
        }

        if mood.refuses() {
            case.sidecar.expect(SOON, &format!("the loss is counted: {mood:?}"), || {
                if spans("rejected") > rejected { Ok(()) } else { Err(format!("{rejected}")) }
            });
        }

        collector.be(Mood::Fine);
        let name = format!("w{number}");
        if !mood.refuses() {
            eventually(SOON, &format!("the trace arrives after {mood:?}"), || {
                if collector.roots().iter().any(|root| root.object == name) {
                    Ok(())
                } else {
                    Err(name.clone())
                }
            });
        }
    }

    assert!(spans("dropped") == 0.0);
    assert!(slowest < SLOW, "{slowest:?}: it waited for the collector");

    eprintln!("moods: the slowest /metrics took {slowest:?}");
}

/// The collector is away for ten minutes in which many objects change again and again: memory is
/// bounded, lost spans are counted, what was kept arrives, and `/metrics` never waits.
fn away() {
    const OBJECTS: usize = 100;

    let collector = Collector::start(Mood::Fine);
    let endpoint = format!("http://127.0.0.1:{}", collector.port);
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let case = Case::with_environment(
        "away",
        &quick(),
        &environment.map(|(name, value)| (name, Path::new(value))),
    );

    let memory = || {
        case.sidecar.metric("process_resident_memory_bytes").expect("memory") / f64::from(1 << 20)
    };
    let spans = |result: &str| {
        case.sidecar
            .metric(&format!("loopwatch_spans_total{{result=\"{result}\"}}"))
            .expect("counted")
    };

    for number in 0..OBJECTS {
        case.kube.zoo("Widget", "away", &format!("w{number}"), json!({}));
    }

    pause(Duration::from_secs(10));

    // The same load with the collector there shows what the load alone costs.
    let mut size = 1;
    let mut change = |lasts: Duration| {
        let (began, mut highest, mut slowest) = (Instant::now(), 0.0_f64, Duration::ZERO);
        while began.elapsed() < lasts {
            size = 1 + size % 5;
            for number in 0..OBJECTS {
                case.resize("Widget", &format!("w{number}"), size);
            }

            let asked = Instant::now();
            case.sidecar.metrics().expect("metrics");
            slowest = slowest.max(asked.elapsed());
            highest = highest.max(memory());
            pause(Duration::from_secs(4));
        }

        (highest, slowest)
    };

    let (before, slowest_before) = change(Duration::from_secs(120));
    collector.be(Mood::Away);

    let (highest, slowest) = change(Duration::from_secs(600));
    let (dropped, had) = (spans("dropped"), collector.roots().len());
    collector.be(Mood::Fine);
    case.sidecar.expect(SOON, "what was kept arrives", || {
        let now = collector.roots().len();
        if now > had + 500 { Ok(()) } else { Err(format!("{now} after {had}")) }
    });
    pause(Duration::from_secs(5));

    eprintln!(
        "away: for 10 min; {before:.1} MiB before, at most {highest:.1} MiB; {dropped} spans dropped, {} sent; /metrics took \
         at most {slowest:?}, and {slowest_before:?} before",
        spans("ok")
    );

    assert!(dropped > 0.0 && highest < before + 12.0 && slowest < Duration::from_millis(500));
}
