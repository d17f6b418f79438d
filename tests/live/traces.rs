//! Traces in a real Jaeger, and the exemplars that lead to them from a real Prometheus.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test_with};
use crate::case::Case;
use crate::events::may_read_events;
use crate::prometheus::Prometheus;
use loopwatch_testbed::jaeger::{Jaeger, Span};
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::quick;
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{binaries, http};

pub(crate) fn trials() -> Vec<Trial> {
    vec![test_with("traces::jaeger", &["prometheus"], jaeger)]
}

const NAME: &str = "traced";
const SERVICE: &str = "widget-operator";
const CLUSTER: &str = "test-bed";

/// How long a trace may take to arrive, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A spec change produces a trace with the children that the operator creates, a late change one
/// with an error, and a deletion one with its finalizer. Traces survive an outage of Jaeger.
/// Exemplars in Prometheus name traces that Jaeger has.
fn jaeger() {
    let binary = binaries::jaeger().unwrap_or_else(|missing| panic!("{missing}"));
    let mut jaeger = Jaeger::new(&binary, bed().directory());
    jaeger.start();

    let endpoint = format!("http://127.0.0.1:{}", jaeger.otlp);
    let resource = format!("k8s.cluster.uid={CLUSTER}");
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", SERVICE),
        ("OTEL_RESOURCE_ATTRIBUTES", &resource),
    ]
    .map(|(name, value)| (name, Path::new(value)));

    let kube = &bed().kube;
    kube.namespace(NAME);
    may_read_events(kube, NAME);

    let case = Case::with_environment(NAME, &quick(), &environment);
    let prometheus = Prometheus::start("traced.prometheus", case.sidecar.port, None);

    // loopwatch watches a child kind once the operator has made an object of it.
    case.make("Widget", "first");
    ["ConfigMap", "Deployment"].into_iter().for_each(|kind| case.sidecar.wait_watched(kind, 1));
    case.make("Widget", "target");

    let created = wait_trace(&jaeger, "target", "created", "converged");
    expect_steps(
        &created,
        &["acknowledge", "condition Ready", "child ConfigMap", "child Deployment"],
    );

    let event = created
        .iter()
        .find(|span| span.name().starts_with("event "))
        .unwrap_or_else(|| panic!("{created:?}"));

    assert_eq!(
        (event.tag("loopwatch.event.type"), event.tag("k8s.event.count")),
        (&json!("Normal"), &json!(1))
    );
    assert_eq!(
        event.name(),
        format!("event {}", event.tag("k8s.event.reason").as_str().unwrap_or_default())
    );

    assert!(
        event.tag("loopwatch.event.reporter").to_string().contains("widget-operator"),
        "{event:?}"
    );

    let root = root(&created);
    assert_eq!(root.name(), "converge Widget");
    assert_eq!(root.tag("k8s.namespace.name"), NAME);
    assert_eq!(
        root.trace_id(),
        computed_id(root.tag("k8s.object.uid").as_str().unwrap_or_default(), 1)
    );

    let path = format!("/api/v1/explain?kind=Widget&namespace={NAME}&name=target");
    let explained: Value = http::get(case.sidecar.port, &path)
        .map(|text| text.parse().expect("JSON"))
        .expect("an answer");

    assert_eq!(explained["trace_id"], root.trace_id(), "{explained}");
    assert!(
        root.took() > Duration::from_millis(50) && root.took() < Duration::from_secs(4),
        "{:?}",
        root.took()
    );

    case.operator.fault("Overdue?kind=Widget&namespace=traced&name=target");
    case.resize("Widget", "target", 7);

    let late = wait_trace(&jaeger, "target", "spec_changed", "late");
    let failed = self::root(&late);

    assert_eq!((failed.tag("error"), failed.took()), (&Value::Bool(true), Duration::from_secs(4)));
    assert!(
        failed.tag("otel.status_description").to_string().contains("deadline exceeded"),
        "{failed:?}"
    );
    assert_eq!(failed.links(), [root.trace_id()], "the generation before");

    // Traces of what happens while Jaeger is down arrive later. Jaeger forgets the traces that it
    // had before.
    jaeger.stop();
    case.operator.cure("Overdue");
    case.wait_settled("Widget", "target");
    pause(Duration::from_secs(5));

    assert!(
        case.sidecar
            .metric("loopwatch_trace_requests_total{result=\"failed\"}")
            .is_ok_and(|count| count > 0.0)
    );

    jaeger.start();
    let rest = wait_trace(&jaeger, "target", "spec_changed", "converged");

    assert_eq!(self::root(&rest).links(), [failed.trace_id()], "it continues the late one");

    case.kube.delete(ZOO, "Widget", NAME, "target");
    let deleted = wait_trace(&jaeger, "target", "deletion_requested", "deleted");

    assert_eq!(self::root(&deleted).name(), "delete Widget");

    expect_steps(&deleted, &["finalizer"]);

    // Jaeger has lost the first traces, so only new ones can be found there.
    case.make("Widget", "second");
    wait_trace(&jaeger, "second", "created", "converged");
    case.operator.fault("Overdue?kind=Widget&namespace=traced&name=second");
    case.resize("Widget", "second", 7);
    wait_trace(&jaeger, "second", "spec_changed", "late");

    for query in [
        "loopwatch_convergence_seconds_bucket{kind=\"Widget\"}",
        "loopwatch_acknowledge_seconds_bucket{kind=\"Widget\"}",
        "loopwatch_obligations_total{kind=\"Widget\",outcome=\"late\"}",
    ] {
        let spans =
            eventually(SOON, &format!("an exemplar of {query} is a trace in Jaeger"), || {
                let ids = prometheus.exemplars(query)?;
                ids.iter()
                    .rev()
                    .find_map(|id| jaeger.trace(id).ok())
                    .ok_or_else(|| format!("{ids:?}"))
            });
        assert_eq!(self::root(&spans).tag("k8s.object.name"), "second", "{query}");
    }

    let spans = case.sidecar.metric("loopwatch_spans_total{result=\"ok\"}").expect("counted");
    let dropped =
        case.sidecar.metric("loopwatch_spans_total{result=\"dropped\"}").expect("counted");

    assert!(spans > 20.0 && dropped == 0.0, "{spans} {dropped}");

    eprintln!("traces: {spans} spans in Jaeger, and an exemplar of each metric in Prometheus");
}

/// Waits for the trace of an object, and returns its spans.
fn wait_trace(jaeger: &Jaeger, name: &str, cause: &str, outcome: &str) -> Vec<Span> {
    eventually(
        SOON,
        &format!("the trace of {name} that was {cause} and {outcome} is in Jaeger"),
        || {
            let traces = jaeger.find(SERVICE, "k8s.object.name", name)?;
            let is_it = |spans: &&Vec<Span>| {
                let root = spans.iter().find(|span| span.is_root());
                root.is_some_and(|root| {
                    root.tag("loopwatch.cause") == cause && root.tag("loopwatch.outcome") == outcome
                })
            };

            let found: Vec<&Vec<Span>> = traces.iter().filter(is_it).collect();
            assert!(found.len() <= 1, "one trace per obligation: {found:?}");

            found.first().map(|spans| (*spans).clone()).ok_or_else(|| format!("{traces:?}"))
        },
    )
}

/// The ID of a trace as `docs/traces.md` computes it.
fn computed_id(uid: &str, generation: u32) -> String {
    let script =
        format!("printf '%s|%s|%s' '{CLUSTER}' '{uid}' '{generation}' | sha256sum | cut -c 1-32");
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn root(spans: &[Span]) -> Span {
    let roots: Vec<&Span> = spans.iter().filter(|span| span.is_root()).collect();
    assert_eq!(roots.len(), 1, "{spans:?}");

    roots[0].clone()
}

/// Expects that a trace has steps of these names, and no span twice.
fn expect_steps(spans: &[Span], names: &[&str]) {
    let found: Vec<&str> = spans.iter().map(Span::name).collect();
    assert!(names.iter().all(|name| found.contains(name)), "{found:?}");

    let mut ids: Vec<&str> = spans.iter().map(Span::id).collect();
    ids.sort_unstable();
    ids.dedup();

    assert_eq!(ids.len(), spans.len());
}
