use std::io::{Read as _, Write as _};

use loopwatch_model::observation::LeaseView;
use loopwatch_model::reference::ObjectName;
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::{
    Measured, StepKind, TraceCause, TraceKey, TraceLink, TracePart, TraceStep,
};
use loopwatch_testbed::tls;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use prost::Message as _;

use super::*;
use crate::export::delivery::fake_receiver::{FakeReceiver, Reply, eventually, standing_still};
use crate::telemetry::captured::Captured;

/// Times for a test.
const SHORT: Patience = Patience {
    gather: Duration::from_millis(20),
    batch: Duration::from_secs(3),
    stop: Duration::from_secs(2),
};

/// 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// An exporter and the metrics that it counts.
struct Sender {
    exporter: TraceExporter,
    sending: JoinHandle<()>,
    metrics: Arc<SelfMetrics>,
}

impl Sender {
    fn start(url: &str) -> Self {
        Self::with(&collector(url), SHORT, None)
    }

    fn with(collector: &Collector, patience: Patience, pod: Option<&str>) -> Self {
        let metrics = Arc::new(SelfMetrics::new());
        let started = TraceExporter::with_patience(
            collector,
            metrics.clone(),
            Origin { pod: pod.map(str::to_owned), operator: Some("ops/op".to_owned()) },
            patience,
        );
        let (exporter, sending) = started.expect("an exporter");

        Self { exporter, sending, metrics }
    }

    fn push(&self, numbers: std::ops::Range<i64>) {
        self.exporter.push(numbers.map(trace).collect(), &LeaderElection::default());
    }

    /// The numbers of spans: ok, rejected, dropped, sampled out, not leader.
    fn counts(&self) -> [u64; 5] {
        RESULTS.map(|result| self.metrics.spans.get_or_create_owned(&ResultLabels { result }).get())
    }

    /// The numbers of requests: ok, rejected, failed.
    fn requests(&self) -> [u64; 3] {
        SendResult::OF_REQUESTS.map(|result| {
            self.metrics.trace_requests.get_or_create_owned(&ResultLabels { result }).get()
        })
    }

    async fn wait_for(&self, expected: [u64; 5]) {
        eventually(|| self.counts() == expected).await;
    }

    async fn close(self) -> [u64; 5] {
        let metrics = self.metrics.clone();
        self.exporter.close(self.sending).await;
        RESULTS.map(|result| metrics.spans.get_or_create_owned(&ResultLabels { result }).get())
    }
}

fn collector(url: &str) -> Collector {
    Collector {
        url: collector_url(url).expect("a URL"),
        token_file: None,
        ca_file: None,
        within: Duration::from_millis(300),
        sampling: Sampling::ALL,
        warnings: Vec::new(),
    }
}

/// A trace of two spans, which converged after 3 s of a deadline of 10 s.
pub(super) fn trace(generation: i64) -> Trace {
    let step = |kind, from, to| TraceStep {
        kind,
        start: START.after(Span::secs(from)),
        end: START.after(Span::secs(to)),
        unfinished: false,
    };
    Trace {
        key: key(generation),
        object: ObjectName {
            group: "example.io".into(),
            kind: "Widget".into(),
            namespace: "team-a".into(),
            name: "web".into(),
        },
        cause: TraceCause::SpecChanged,
        generation,
        revision: "v1".into(),
        start: START,
        end: START.after(Span::secs(3)),
        outcome: Outcome::Converged,
        signal: String::new(),
        deadline: Span::secs(10),
        steps: vec![step(StepKind::Acknowledge, 0, 1)],
        events: Vec::new(),
        links: vec![TraceLink::Previous(key(generation - 1))],
        dropped: 0,
        measured: Measured {
            acknowledged: Some(Span::secs(1)),
            converged: Some(Span::secs(3)),
            counted: true,
        },
    }
}

fn key(generation: i64) -> TraceKey {
    TraceKey {
        uid: "6b1f2c34-0000-4000-8000-000000000001".into(),
        part: TracePart::Generation(generation),
        late: false,
    }
}

fn late(generation: i64) -> Trace {
    let signal = "Ready=False (Waiting)".to_owned();
    let measured = Measured { converged: None, ..trace(generation).measured };
    let end = START.after(Span::secs(10));
    Trace { outcome: Outcome::Late, end, signal, measured, ..trace(generation) }
}

/// The spans of all requests.
fn spans(receiver: &FakeReceiver) -> Vec<ProtoSpan> {
    let decoded = receiver.requests.bodies().into_iter().map(|body| {
        ExportTraceServiceRequest::decode(body.as_slice())
            .expect("a request of OTLP")
            .resource_spans
    });

    decoded.flatten().flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
}

#[tokio::test]
async fn the_resource_names_one_of_many_operators() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(1..2);
    standing_still(sender.close()).await;

    let body = receiver.requests.bodies().remove(0);
    let request = ExportTraceServiceRequest::decode(body.as_slice()).expect("a request of OTLP");
    let resource = request.resource_spans[0].resource.clone().expect("a resource");
    let named = resource.attributes.iter().find(|it| it.key == "loopwatch.operator");
    let value = named.and_then(|it| it.value.clone()?.value);
    assert_eq!(value, Some(Value::StringValue("ops/op".to_owned())));
}

fn attribute(span: &ProtoSpan, key: &str) -> String {
    let value = span
        .attributes
        .iter()
        .find(|attribute| attribute.key == key)
        .and_then(|a| a.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(yes)) => yes.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_trace_arrives_with_the_times_the_parent_and_the_links() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(3..4);

    let head = receiver.received(1).await.remove(0).0;
    assert!(
        head.starts_with("post /v1/traces ")
            && head.contains("content-type: application/x-protobuf"),
        "{head}"
    );

    let spans = spans(&receiver);
    let ids = |generation| sender.exporter.0.spans.ids(&trace(generation));
    let [root, acknowledge] = spans.as_slice() else { panic!("{spans:#?}") };

    assert_eq!((root.name.as_str(), acknowledge.name.as_str()), ("converge Widget", "acknowledge"));
    assert_eq!(hex(&root.trace_id), ids(3).trace.to_string());
    assert_eq!(hex(&root.span_id), ids(3).root.to_string());
    assert!(root.parent_span_id.is_empty());
    assert_eq!(
        (&acknowledge.parent_span_id, &acknowledge.trace_id),
        (&root.span_id, &root.trace_id)
    );

    assert_eq!(root.start_time_unix_nano, 1_767_225_600_000_000_000);
    assert_eq!(root.end_time_unix_nano - root.start_time_unix_nano, 3_000_000_000);
    assert_eq!(root.status.as_ref().map(|status| status.code), Some(0), "unset");
    assert_eq!(hex(&root.links[0].trace_id), ids(2).trace.to_string());

    for (key, value) in [
        ("k8s.object.kind", "Widget"),
        ("k8s.object.name", "web"),
        ("k8s.object.uid", "6b1f2c34-0000-4000-8000-000000000001"),
        ("k8s.namespace.name", "team-a"),
        ("loopwatch.object.group", "example.io"),
        ("loopwatch.outcome", "converged"),
        ("loopwatch.cause", "spec_changed"),
        ("loopwatch.generation", "3"),
        ("loopwatch.operator_revision", "v1"),
        ("loopwatch.deadline_seconds", "10"),
    ] {
        assert_eq!(attribute(root, key), value, "{key}");
    }

    sender.wait_for([2, 0, 0, 0, 0]).await;
    let labels = || ["example.io", "Widget", "v1"].map(str::to_owned);
    let exemplar = sender
        .metrics
        .exemplars
        .get(&Counted::convergence(labels(), Span::secs(3)))
        .expect("an exemplar");

    assert_eq!(
        (exemplar.trace_id, exemplar.span_id),
        (ids(3).trace.to_string(), ids(3).root.to_string())
    );
    assert_eq!((exemplar.value, exemplar.at), (3.0, START.after(Span::secs(3))));
    assert!(sender.metrics.exemplars.get(&Counted::acknowledge(labels(), Span::secs(1))).is_some());
}

#[tokio::test]
async fn a_late_trace_is_an_error_and_the_exemplar_of_the_counter() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.exporter.push(vec![late(4)], &LeaderElection::default());
    sender.wait_for([2, 0, 0, 0, 0]).await;

    let root = spans(&receiver).remove(0);
    let status = root.status.expect("a status");

    assert_eq!(
        (status.code, status.message.as_str()),
        (2, "deadline exceeded: Ready=False (Waiting)")
    );
    assert_eq!(root.events[0].name, "deadline exceeded");

    let labels = ["example.io", "Widget", "team-a", "v1"].map(str::to_owned);
    assert!(sender.metrics.exemplars.get(&Counted::Late { labels }).is_some());
}

#[tokio::test]
async fn failed_and_slow_traces_are_kept_and_a_part_of_the_rest() {
    let receiver = FakeReceiver::start([]).await;
    let mut problems = Vec::new();
    let variables = [(SAMPLER, "traceidratio".to_owned()), (SAMPLER_ARG, "0.25".to_owned())].into();
    let sampling = Sampling::of(&variables, &mut problems).expect("wanted");
    let sender = Sender::with(&Collector { sampling, ..collector(&receiver.url) }, SHORT, None);

    sender.push(0..400);
    eventually(|| sender.counts().iter().sum::<u64>() == 800).await;

    let [ok, .., sampled_out, _] = sender.counts();
    assert_eq!(ok + sampled_out, 800);
    assert!((120..280).contains(&ok), "about a quarter: {ok}");

    let none = [(SAMPLER, "traceidratio".to_owned()), (SAMPLER_ARG, "0".to_owned())].into();
    let sampling = Sampling::of(&none, &mut problems).expect("wanted");
    let sender = Sender::with(&Collector { sampling, ..collector(&receiver.url) }, SHORT, None);
    let slow = Trace { end: START.after(Span::secs(5)), ..trace(1) };
    let rejected = Trace { outcome: Outcome::Rejected, ..trace(2) };
    let rest = Trace { key: TraceKey { late: true, ..key(3) }, ..trace(3) };

    sender.exporter.push(vec![slow, rejected, rest, late(4), trace(5)], &LeaderElection::default());
    sender.wait_for([8, 0, 0, 2, 0]).await;

    assert!(problems.is_empty());
}

#[tokio::test]
async fn a_collector_that_is_busy_gets_the_same_batch_again_when_it_asks_for_it() {
    for status in [429, 503] {
        let busy = Reply::Response(status, "retry-after: 1\r\n".into(), String::new());
        let receiver = FakeReceiver::start([busy, Reply::Close, Reply::Hang]).await;
        let patience = Patience { batch: Duration::from_secs(60), ..SHORT };
        let sender = Sender::with(&collector(&receiver.url), patience, None);
        let began = Instant::now();

        sender.push(1..3);
        receiver.received(2).await;

        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());

        sender.wait_for([4, 0, 0, 0, 0]).await;
        let bodies = receiver.requests.bodies();

        assert!(
            bodies.len() == 4 && bodies.windows(2).all(|pair| pair[0] == pair[1]),
            "{}",
            bodies.len()
        );
        assert_eq!(sender.requests(), [1, 0, 3]);
    }
}

#[tokio::test]
async fn what_the_collector_refuses_is_not_repeated() {
    let page =
        Reply::Response(200, "content-type: text/html\r\n".into(), "<html>Sign in</html>".into());
    let redirect = Reply::Response(302, "location: http://127.0.0.1:1/\r\n".into(), String::new());
    let broken =
        Reply::Response(500, "content-type: text/html\r\n".into(), "<html>Oops</html>".into());

    for reply in
        [broken, Reply::status(500), Reply::status(400), Reply::status(401), page, redirect]
    {
        let receiver = FakeReceiver::start([reply.clone()]).await;
        let sender = Sender::start(&receiver.url);
        sender.push(1..2);
        sender.wait_for([0, 2, 0, 0, 0]).await;

        assert_eq!(sender.requests(), [0, 1, 0], "{reply:?}");
        assert!(sender.metrics.exemplars.is_empty(), "nobody would find the trace");

        sender.push(2..3);
        sender.wait_for([2, 2, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn spans_that_the_collector_refuses_alone_are_counted() {
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "too old".into() };
    let response = ExportTraceServiceResponse { partial_success: Some(partial) };
    let body = String::from_utf8(response.encode_to_vec()).expect("ASCII");
    let reply = Reply::Response(200, "content-type: application/x-protobuf\r\n".into(), body);
    let receiver = FakeReceiver::start([reply]).await;
    let sender = Sender::start(&receiver.url);

    sender.push(1..2);
    sender.wait_for([1, 1, 0, 0, 0]).await;
}

#[tokio::test]
async fn messages_of_a_collector_that_differ_each_time_are_one_line_in_the_log() {
    let log = Captured::start();
    let replies = (0..4).map(|number| {
        let partial = ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: format!("request {number}"),
        };
        let response = ExportTraceServiceResponse { partial_success: Some(partial) };
        let body = String::from_utf8(response.encode_to_vec()).expect("ASCII");

        Reply::Response(200, "content-type: application/x-protobuf\r\n".into(), body)
    });

    let receiver = FakeReceiver::start(replies).await;
    let collector = Collector { warnings: vec!["a secret".to_owned()], ..collector(&receiver.url) };
    let sender = Sender::with(&collector, SHORT, None);

    for number in 0..4 {
        sender.push(number..number + 1);
        let rejected = u64::try_from(number + 1).expect("positive");
        sender.wait_for([rejected, rejected, 0, 0, 0]).await;
    }

    let warnings = log.warnings();
    assert!(warnings.len() == 2 && warnings[0].ends_with("a secret"), "{warnings:#?}");
    assert!(warnings[1].contains("request 0"), "{warnings:#?}");
}

#[tokio::test]
async fn a_body_that_says_nothing_does_not_matter() {
    let json = Reply::Response(200, "content-type: application/json\r\n".into(), "{}".into());
    let large = Reply::Response(
        200,
        "content-type: application/x-protobuf\r\n".into(),
        "x".repeat(200 << 10),
    );
    for reply in [json, large, Reply::TrickleBody] {
        let receiver = FakeReceiver::start([reply.clone()]).await;
        let collector = Collector { within: Duration::from_secs(5), ..collector(&receiver.url) };
        let sender = Sender::with(&collector, SHORT, None);
        sender.push(1..2);
        sender.wait_for([2, 0, 0, 0, 0]).await;
        sender.push(2..3);
        sender.wait_for([4, 0, 0, 0, 0]).await;

        assert_eq!(receiver.requests.all().len(), 2, "nothing is sent twice: {reply:?}");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_costs_the_oldest_traces_and_no_memory() {
    let sender = Sender::with(&collector("http://127.0.0.1:1"), SHORT, None);
    sender.push(0..20_000);

    let queued = lock(&sender.exporter.0.queue).spans;
    assert_eq!(queued, QUEUE);
    assert_eq!(sender.counts()[2], 40_000 - QUEUE as u64);

    let newest = lock(&sender.exporter.0.queue).waiting.back().map(|trace| trace.generation);
    assert_eq!(newest, Some(19_999));

    let counts = sender.close().await;
    assert_eq!(counts, [0, 0, 40_000, 0, 0], "each span is counted once");
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_for_ten_minutes_gets_what_was_kept() {
    // Nothing listens on the port yet.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);

    let patience = Patience { gather: Duration::from_secs(1), ..Patience::default() };
    let sender = Sender::with(&collector(&format!("http://{address}")), patience, None);
    for minute in 0..10 {
        sender.push(minute * 1_000..(minute + 1) * 1_000);
        sleep(Duration::from_secs(60)).await;

        let queue = lock(&sender.exporter.0.queue);
        assert!(queue.spans + queue.delivering <= QUEUE + BATCH, "{}", queue.spans);
    }

    let [ok, _, dropped, ..] = sender.counts();
    let kept = {
        let queue = lock(&sender.exporter.0.queue);
        (queue.spans + queue.delivering) as u64
    };

    assert_eq!((ok, dropped + kept), (0, 20_000));
}

#[tokio::test]
async fn only_the_leader_sends() {
    // The traces have waited for a renewal: the exporter sends them at once.
    let receiver = FakeReceiver::start([]).await;
    let patience = Patience { gather: Duration::from_secs(600), ..SHORT };
    let sender =
        Sender::with(&collector(&receiver.url), patience, Some("operator-7c9d5b8f6-x2x4z"));
    for (number, holder) in ["aaaaa", "x2x4z"].into_iter().enumerate() {
        let renewed = Some(START.after(Span::secs(number as i64)));
        let holder = format!("operator-7c9d5b8f6-{holder}_1");
        let leases = vec![LeaseView { holder, renewed, ..LeaseView::default() }];
        let election = LeaderElection { leases, stands_by: true };

        sender.exporter.push(vec![trace(number as i64 + 1)], &election);
        assert!(sender.exporter.is_waiting());

        let renewed = Some(START.after(Span::secs(number as i64 + 10)));
        let leases =
            election.leases.into_iter().map(|lease| LeaseView { renewed, ..lease }).collect();
        sender.exporter.push(Vec::new(), &LeaderElection { leases, stands_by: true });
    }

    sender.wait_for([2, 0, 0, 0, 2]).await;
    assert_eq!(attribute(&spans(&receiver)[0], "loopwatch.generation"), "2");
}

#[tokio::test(start_paused = true)]
async fn a_stop_sends_the_queue_but_does_not_wait_for_a_broken_collector() {
    let receiver = FakeReceiver::start([]).await;
    let patience = Patience { gather: Duration::from_secs(60), ..SHORT };
    let sender = Sender::with(&collector(&receiver.url), patience, None);
    sender.push(0..500);

    assert_eq!(standing_still(sender.close()).await, [1_000, 0, 0, 0, 0]);

    let receiver = FakeReceiver::start(vec![Reply::Hang; 100]).await;
    let patience = Patience { stop: Duration::from_millis(500), ..SHORT };
    let sender = Sender::with(&collector(&receiver.url), patience, None);
    sender.push(0..3);

    while receiver.requests.all().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }

    let began = Instant::now();
    assert_eq!(sender.close().await[2], 6, "all are counted");
    assert!(began.elapsed() <= patience.stop, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_token_goes_with_each_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").expect("written");

    let receiver = FakeReceiver::start([]).await;
    let with_token = Collector { token_file: Some(file.clone()), ..collector(&receiver.url) };
    let sender = Sender::with(&with_token, SHORT, None);
    sender.push(1..2);

    assert!(receiver.received(1).await[0].0.contains("authorization: bearer first\r\n"));
}

#[tokio::test]
async fn a_collector_needs_a_certificate_of_the_given_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let pem = |name: &str, content: &str| {
        let file = folder.path().join(name);
        let text = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
        std::fs::write(&file, text).expect("written");
        Some(file)
    };

    let (authority, other) = (pem("authority", tls::AUTHORITY), pem("other", tls::CERTIFICATE));
    for (ca_file, expected) in
        [(authority, [2, 0, 0, 0, 0]), (other, [0, 0, 2, 0, 0]), (None, [0, 0, 2, 0, 0])]
    {
        let url = serve_tls().await;
        let collector = Collector {
            ca_file: ca_file.clone(),
            within: Duration::from_secs(20),
            ..collector(&url)
        };
        let sender = Sender::with(&collector, Patience { batch: Duration::ZERO, ..SHORT }, None);

        sender.push(1..2);
        sender.wait_for(expected).await;
    }
}

/// Starts a server with a certificate of the test authority, which accepts one request.
async fn serve_tls() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a connection");
        let connection = rustls::ServerConnection::new(tls::server_config()).expect("a connection");
        let mut stream = rustls::StreamOwned::new(connection, socket);

        if stream.read(&mut [0; 16 << 10]).is_ok() {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.flush();
        }
    });

    url
}

#[test]
fn a_url_shows_neither_path_nor_query() {
    for (text, uri) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector/S3CRET?key=S3CRET", "https://collector/S3CRET?key=S3CRET"),
    ] {
        let url = collector_url(text).expect("a URL");
        assert_eq!(url.uri().to_string(), uri);
        assert!(!format!("{url} {url:?}").contains("S3CRET"));
    }

    let error = collector_url("https://user:S3CRET@collector").expect_err("a password");
    assert!(error.contains("--otlp-token-file") && !error.contains("S3CRET"), "{error}");
}
