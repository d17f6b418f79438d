//! Tests of the server as its clients see it; those about connections use real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use loopwatch_model::model::Model;
use loopwatch_model::observation::ObjectAddress;
use loopwatch_model::settings::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use super::guard::Peer;
use super::{ServerLimits, router, serve_with};
use crate::export::exporter::{ExportOptions, Exporter};
use crate::export::sample::{Sample, empty, sample};
use crate::export::view::{Filter, View};
use crate::telemetry::SelfMetrics;
use loopwatch_model::snapshot::{Cursor, Explanation, ObjectRef, ObjectRow, RecentPast, Snapshot};

fn exporter(view: Sample, options: ExportOptions) -> Arc<Exporter> {
    Arc::new(Exporter::with_view(Arc::new(view), Arc::new(SelfMetrics::new()), options))
}

/// Sends one request from `peer` and reads the response.
async fn request_from(exporter: &Arc<Exporter>, peer: &str, host: &str, path: &str) -> (StatusCode, String) {
    let mut request = Request::get(path).body(Body::empty()).expect("a request");
    if !host.is_empty() {
        for host in host.split(' ') {
            request.headers_mut().append("host", host.parse().expect("a header"));
        }
    }
    let address: SocketAddr = peer.parse().expect("an address");
    request.extensions_mut().insert(Peer(address));
    let response = router(exporter.clone()).oneshot(request).await.expect("routers do not fail");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn get(exporter: &Arc<Exporter>, path: &str) -> (StatusCode, String) {
    request_from(exporter, "127.0.0.1:5000", "localhost:9917", path).await
}

#[tokio::test]
async fn remote_clients_can_reach_only_metrics_and_probes() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (peer, host, path, expected) in [
        ("10.1.2.3:5000", "loopwatch:9917", "/metrics", 200),
        ("10.1.2.3:5000", "loopwatch:9917", "/livez", 200),
        ("10.1.2.3:5000", "loopwatch:9917", "/readyz", 503),
        ("10.1.2.3:5000", "localhost", "/", 403),
        ("10.1.2.3:5000", "localhost", "/api/v1/findings", 403),
        ("10.1.2.3:5000", "localhost", "/api/v1/objects", 403),
        ("10.1.2.3:5000", "localhost", "/api/v1/status", 403),
        ("10.1.2.3:5000", "localhost", "/api/v1/explain?kind=Database&name=checkout", 403),
        ("10.1.2.3:5000", "localhost", "/debug/model", 403),
        ("10.1.2.3:5000", "localhost", "/page.js", 403),
        ("10.1.2.3:5000", "localhost", "/object?kind=Database&name=orders-legacy", 403),
        ("10.1.2.3:5000", "localhost", "/objects", 403),
        ("127.0.0.1:5000", "localhost:9917", "/", 200),
        ("127.0.0.1:5000", "127.0.0.1:9917", "/api/v1/findings", 200),
        ("[::1]:5000", "[::1]:9917", "/api/v1/objects", 200),
        ("10.1.2.3:5000", "localhost", "/api/v1/explain?kind=Database&name=orders-legacy", 403),
        ("[::ffff:127.0.0.1]:5000", "localhost", "/api/v1/status", 200),
        ("127.0.0.1:5000", "rebound.evil.example", "/api/v1/findings", 403),
        ("127.0.0.1:5000", "", "/api/v1/findings", 403),
        ("127.0.0.1:5000", "rebound.evil.example", "/metrics", 200),
        ("127.0.0.1:5000", "localhost", "http://evil.example/api/v1/findings", 403),
        ("10.1.2.3:5000", "loopwatch:9917", "/nowhere", 404),
    ] {
        let (status, body) = request_from(&exporter, peer, host, path).await;
        assert_eq!(status.as_u16(), expected, "{peer} {host:?} {path}: {}", &body[..body.len().min(200)]);
    }
    let (_, body) = request_from(&exporter, "10.1.2.3:5000", "localhost", "/").await;
    assert!(body.contains("kubectl port-forward"), "{body}");
    let (_, body) = get(&exporter, "/nowhere").await;
    assert!(body.contains("/api/v1/objects"), "{body}");
}

#[tokio::test]
async fn expose_ui_opens_all_paths_to_remote_clients() {
    let exporter = exporter(sample(), ExportOptions { expose_ui: true, ..ExportOptions::default() });
    let (status, _) = request_from(&exporter, "10.1.2.3:5000", "loopwatch.example", "/api/v1/findings").await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn objects_can_be_filtered_and_paged() {
    let exporter = exporter(sample(), ExportOptions::default());
    let names = |body: &str| -> (Vec<String>, Option<String>) {
        let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let names = value["objects"].as_array().expect("a list").iter();
        let next = value["continue"].as_str().map(str::to_owned);
        (names.map(|object| object["name"].as_str().expect("a name").to_owned()).collect(), next)
    };
    let (_, body) = get(&exporter, "/api/v1/objects?kind=Database&namespace=team-a").await;
    assert_eq!(names(&body), (vec!["orders-legacy".to_owned(), "checkout".to_owned()], None));
    let (_, body) = get(&exporter, "/api/v1/objects?group=&kind=&state=overdue").await;
    assert_eq!(names(&body).0, ["checkout"]);
    let (_, body) = get(&exporter, "/api/v1/objects?group=core").await;
    assert!(names(&body).0.is_empty());
    let (_, body) = get(&exporter, "/api/v1/objects?search=team-a/+ORDERS&kind=db.example.io%2FDatabase").await;
    assert_eq!(names(&body).0, ["orders-legacy"]);
    let (_, body) = get(&exporter, "/api/v1/objects?kind=%2FDatabase").await;
    assert!(names(&body).0.is_empty(), "the core group has no such kind");

    let (mut all, mut next) = (Vec::new(), Some(String::new()));
    while let Some(from) = next {
        let (_, body) = get(&exporter, &format!("/api/v1/objects?limit=2&continue={from}")).await;
        let (page, after) = names(&body);
        assert!(page.len() <= 2);
        all.extend(page);
        next = after;
    }
    assert_eq!(all, ["orders-legacy", "checkout", "nightly-42", "ledger", "good"]);
}

#[tokio::test]
async fn invalid_queries_are_rejected_with_a_reason() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, reason) in [
        ("state=broken", "progressing"),
        ("continue=x", "not a valid continue token"),
        ("limit=many", "invalid digit"),
        ("colour=red", "colour"),
        (&format!("search={}", "a".repeat(300)), "longer than 256"),
    ] {
        let (status, body) = get(&exporter, &format!("/objects?{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(body.contains("<h1>Invalid request</h1>") && body.contains(reason), "{body}");
        let (status, body) = get(&exporter, &format!("/api/v1/objects?{query}")).await;
        assert_eq!(status, 400, "{query}");
        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert!(value["error"].as_str().is_some_and(|error| error.contains(reason)), "{body}");
    }
}

#[tokio::test]
async fn long_questions_are_rejected_before_the_search() {
    // The search for similar names would compare each of them with all objects.
    let exporter = Arc::new(Exporter::with_view(
        Arc::new(WithoutSnapshot),
        Arc::new(SelfMetrics::new()),
        ExportOptions::default(),
    ));
    let long = "a".repeat(1_000);
    for query in [format!("kind=Database&name={long}"), format!("kind={long}&name=a")] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn readyz_waits_for_watches_that_can_sync() {
    let mut view = sample();
    view.snapshot.kinds[2].watches[0].synced = true;
    assert_eq!(get(&exporter(view, ExportOptions::default()), "/readyz").await.0, 200);
    let (status, body) = get(&exporter(sample(), ExportOptions::default()), "/readyz").await;
    assert_eq!((status.as_u16(), body.as_str()), (503, "waiting for: pods\n"));
    assert_eq!(get(&exporter(empty(), ExportOptions::default()), "/readyz").await.0, 503);
}

#[tokio::test]
async fn one_object_is_explained() {
    let exporter = exporter(sample(), ExportOptions::default());
    for query in [
        "kind=Database&name=orders-legacy",
        "kind=databases&name=orders-legacy&namespace=team-a&group=db.example.io",
        "kind=databases.db.example.io&name=orders-legacy",
        "kind=db.example.io%2FDatabase&name=orders-legacy",
    ] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status.as_u16(), &value["object"]["name"]), (200, &"orders-legacy".into()), "{query}: {body}");
        assert_eq!(value["findings"][0]["code"], "FinalizerStuck", "{body}");
    }
    for (query, expected, reason) in [
        ("kind=Database", 400, "name"),
        ("name=orders-legacy", 400, "kind"),
        ("kind=Database&name=x&colour=red", 400, "colour"),
        ("kind=Databse&name=orders-legacy", 404, "did you mean Database.db.example.io?"),
        ("kind=Database&name=order-legacy", 404, "did you mean team-a/orders-legacy?"),
        ("kind=Database&name=orders-legacy&namespace=team-b", 404, "in the namespace team-b"),
        ("kind=Database&group=other.io&name=orders-legacy", 404, "watches no kind"),
    ] {
        let (status, body) = get(&exporter, &format!("/api/v1/explain?{query}")).await;
        assert_eq!(status, expected, "{query}: {body}");
        assert!(body.contains(reason), "{query}: {body}");
    }
}

#[tokio::test]
async fn the_timeline_is_available_as_json() {
    let (_, body) = get(&exporter(sample(), ExportOptions::default()), "/api/v1/timeline").await;
    let value: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&value["version"], &value["severities"][0]), (&1.into(), &"critical".into()), "{body}");
    assert_eq!((&value["states"][2], &value["points"]), (&"overdue".into(), &serde_json::json!([])));
}

#[tokio::test]
async fn each_object_has_a_page_of_its_own() {
    let exporter = exporter(sample(), ExportOptions::default());
    for (query, expected, text) in [
        ("group=db.example.io&kind=Database&namespace=team-a&name=orders-legacy", 200, "<h3>FinalizerStuck</h3>"),
        ("kind=databases&name=orders-legacy", 200, "<h3>FinalizerStuck</h3>"),
        ("group=db.example.io&kind=Database&namespace=team-a&name=gone", 404, "<h1>Not found</h1>"),
        ("group=core&kind=%3Cb%3E&namespace=team-a&name=gone", 404, "&lt;b&gt;"),
        ("kind=Database", 400, "necessary"),
    ] {
        let (status, body) = get(&exporter, &format!("/object?{query}")).await;
        assert_eq!(status, expected, "{query}");
        assert!(body.contains(text) && body.ends_with("</html>\n"), "{query}: {body}");
    }
}

#[tokio::test]
async fn a_link_fills_in_the_filter_of_the_overview() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (_, body) = get(&exporter, "/?filter=Overdue+team-a%22%3E%3Cscript%3E&utm_source=mail").await;
    assert!(body.contains("id=\"filter\" type=\"search\" value=\"Overdue team-a&quot;&gt;&lt;script&gt;\""), "{body}");
    for query in ["", "filter=", "filter=a&filter=b", "filter=%ff"] {
        assert_eq!(get(&exporter, &format!("/?{query}")).await.0, 200, "{query}");
    }
}

/// A view that cannot make snapshots.
struct WithoutSnapshot;

impl View for WithoutSnapshot {
    fn snapshot(&self) -> Snapshot {
        unreachable!("a snapshot of a million objects takes time, and anybody may ask for readiness")
    }

    fn pending(&self) -> Vec<String> {
        Vec::new()
    }

    fn visit(&self, _: Cursor, _: usize, _: &mut dyn FnMut(ObjectRef<'_>)) -> Option<Cursor> {
        None
    }

    fn select(&self, _: Cursor, _: usize, _: usize, _: &Filter) -> (Vec<ObjectRow>, Option<Cursor>) {
        (Vec::new(), None)
    }

    fn explain(&self, _: &ObjectAddress) -> Option<Explanation> {
        None
    }

    fn recent_past(&self) -> RecentPast {
        RecentPast::default()
    }
}

#[tokio::test]
async fn probes_need_no_snapshot() {
    let options = ExportOptions::default();
    let exporter = Arc::new(Exporter::with_view(Arc::new(WithoutSnapshot), Arc::new(SelfMetrics::new()), options));
    for path in ["/readyz", "/livez"] {
        assert_eq!(get(&exporter, path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn liveness_fails_only_if_loopwatch_cannot_recover() {
    let exporter = exporter(empty(), ExportOptions::default());
    assert_eq!(get(&exporter, "/livez").await.0, 200);
    exporter.set_alive(false);
    assert_eq!(get(&exporter, "/livez").await.0, 503);
    exporter.set_alive(true);
    assert_eq!(get(&exporter, "/livez").await.0, 200);
}

#[tokio::test]
async fn a_poisoned_mutex_does_not_stop_the_exporter() {
    let model = Arc::new(std::sync::Mutex::new(Model::new(Settings::default())));
    let poisoned = model.clone();
    let _ = std::thread::spawn(move || {
        let _guard = poisoned.lock();
        panic!("while the model is locked");
    })
    .join();
    assert!(model.is_poisoned());
    let exporter = Arc::new(Exporter::new(model, Arc::new(SelfMetrics::new()), ExportOptions::default()));
    for path in ["/metrics", "/livez", "/", "/api/v1/status", "/api/v1/findings", "/api/v1/objects", "/debug/model"] {
        assert_eq!(get(&exporter, path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_documented_path() {
    let exporter = exporter(sample(), ExportOptions::default());
    for index in 0..1000 {
        get(&exporter, &format!("/hostile-{index}")).await;
    }
    get(&exporter, "/livez").await;
    let (_, body) = get(&exporter, "/metrics").await;
    let counts: Vec<_> = body.lines().filter(|line| line.starts_with("loopwatch_http_requests_total{")).collect();
    assert!(counts.len() <= 3, "{counts:?}"); // may include this scrape
    assert!(body.contains("loopwatch_http_requests_total{path=\"other\",code=\"404\"} 1000\n"), "{counts:?}");
}

/// Starts a server on a free port; it stops when the sender is dropped.
async fn server(view: Sample, limits: ServerLimits) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let exporter = exporter(view, ExportOptions::default());
    let task = tokio::spawn(serve_with(listener, exporter, limits, async {
        let _ = stopped.await;
    }));
    (address, stop, task)
}

/// Sends a raw request and reads until the server closes the connection.
async fn exchange(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.expect("a response");
    response
}

#[tokio::test]
async fn scrapes_are_negotiated_and_compressed_over_the_wire() {
    let (address, stop, task) = server(sample(), ServerLimits::default()).await;
    let head = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let plain = String::from_utf8(exchange(address, &format!("{head}\r\n")).await).expect("text");
    assert!(plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{plain}");

    let openmetrics =
        exchange(address, &format!("{head}Accept: application/openmetrics-text;version=1.0.0\r\n\r\n")).await;
    let openmetrics = String::from_utf8(openmetrics).expect("text");
    assert!(openmetrics.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    assert!(openmetrics.contains("# EOF\n"));

    let compressed = exchange(address, &format!("{}Accept-Encoding: gzip\r\n\r\n", head.replace("1.1", "1.0"))).await;
    let at = compressed.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&compressed[at..]), &mut text).expect("gzip");
    assert!(text.starts_with("# HELP loopwatch_objects ") && text.ends_with('\n'), "{}", text.len());

    drop(stop);
    task.await.expect("the server ends");
}

/// Connects from an address of the loopback network, which is another peer to the server.
async fn connect_from(host: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind((host, 0).into()).expect("an address of the loopback network");
    socket.connect(address).await.expect("a connection")
}

/// Whether a probe from this address succeeds, as the kubelet's do: a new connection, within a second.
async fn probe_from(host: [u8; 4], address: SocketAddr) -> bool {
    let probe = async {
        let mut stream = connect_from(host, address).await;
        let sent = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let mut answer = Vec::new();
        sent.is_ok() && stream.read_to_end(&mut answer).await.is_ok() && answer.starts_with(b"HTTP/1.1 200")
    };
    tokio::time::timeout(Duration::from_secs(1), probe).await.unwrap_or(false)
}

#[tokio::test]
async fn idle_and_slow_clients_do_not_keep_probes_out() {
    let (address, stop, task) = server(sample(), ServerLimits::default()).await;
    let (attacker, kubelet) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let mut held = Vec::new();
    for number in 0..600 {
        let mut stream = connect_from(attacker, address).await;
        if number % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").await.expect("half a request");
        }
        held.push(stream);
    }
    for number in 0..20 {
        assert!(probe_from(kubelet, address).await, "probe {number} from another address");
        assert!(probe_from(attacker, address).await, "probe {number} from the same address, as behind a gateway");
    }
    // Clients from many addresses fill the server, and probes still pass.
    for number in 0..300_u16 {
        held.push(connect_from([127, 0, 1, (number / 20) as u8], address).await);
    }
    assert!(probe_from(kubelet, address).await, "a full server");
    drop((stop, held));
    task.await.expect("the server ends");
}

#[tokio::test]
async fn a_connection_stays_open_between_requests() {
    let (address, _stop, _task) = server(sample(), ServerLimits::default()).await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a request");
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("content-length: 3\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn ipv4_clients_of_a_port_for_both_families_are_local() {
    let listener = super::bind("[::]:0".parse().expect("an address")).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let exporter = exporter(sample(), ExportOptions::default());
    let task = tokio::spawn(serve_with(listener, exporter, ServerLimits::default(), std::future::pending()));
    let status = async |host: [u8; 4], header: &str| {
        let mut stream = connect_from(host, ([127, 0, 0, 1], port).into()).await;
        let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status([127, 0, 0, 1], "").await, "200");
    assert_eq!(status([127, 0, 0, 6], "").await, "403", "a mesh delivers requests of other hosts from 127.0.0.6");
    for header in ["X-Forwarded-For: 10.1.2.3", "Forwarded: for=10.1.2.3", "x-envoy-internal: true", "l5d-client-id: a"]
    {
        assert_eq!(status([127, 0, 0, 1], &format!("{header}\r\n")).await, "403", "{header}");
    }
    task.abort();
}

#[tokio::test]
async fn slow_requests_time_out_and_free_their_connections() {
    let limits = ServerLimits { request_head: Duration::from_millis(200), ..ServerLimits::default() };
    let (address, _stop, _task) = server(sample(), limits).await;
    let began = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").await.expect("half a request");
        slow.push(stream);
    }
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn clients_that_stop_reading_do_not_block_scrapes() {
    let mut view = sample();
    let row = view.snapshot.unhealthy[0].clone();
    // Several megabytes, more than the buffers of two sockets hold.
    view.snapshot.unhealthy = (0..60_000)
        .map(|index| loopwatch_model::snapshot::ObjectRow { name: format!("{index:0>100}"), ..row.clone() })
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let options = ExportOptions { max_object_series: 60_000, ..ExportOptions::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let limits = ServerLimits {
        lifetime: Duration::from_millis(300),
        grace: Duration::from_millis(300),
        ..ServerLimits::default()
    };
    let task = tokio::spawn(serve_with(listener, exporter(view, options), limits, async {
        let _ = stopped.await;
    }));
    let mut stalled = Vec::new();
    for _ in 0..crate::export::exporter::CONCURRENT_RENDERS {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a request");
        stalled.push(stream);
    }
    // The server needs a moment to close both connections and release their permits.
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let answer = exchange(address, "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&answer[..100]));
    assert!(answer.ends_with(b"\n") && answer.len() > 5_000_000, "{}", answer.len());
    drop((stop, stalled));
    task.await.expect("the server ends");
}

/// An exporter with one profile, and the name of its file.
fn with_profiles(options: ExportOptions) -> (Arc<Exporter>, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("profiles");
    let name = "2026-01-31T12-00-00.123Z-heap-operator-7f9c.pb.gz".to_owned();
    std::fs::create_dir(&dir).expect("created");
    std::fs::write(dir.join(&name), "the profile").expect("written");
    std::fs::write(dir.join("other"), "another file").expect("written");
    std::fs::write(folder.path().join(&name), "outside").expect("written");
    let exporter = exporter(sample(), options);
    exporter.set_profiles(crate::sources::profiles::ProfileStore::new(Some(&dir)));
    (exporter, name, folder)
}

#[tokio::test]
async fn profiles_are_listed_and_downloaded() {
    let (exporter, name, _folder) = with_profiles(ExportOptions::default());
    let (status, body) = get(&exporter, "/api/v1/profiles").await;
    let listed: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let path = format!("/api/v1/profiles/{name}");
    let expected = serde_json::json!([
        { "name": name, "kind": "heap", "taken_at": "2026-01-31T12:00:00.123Z", "bytes": 11, "path": path }
    ]);
    assert_eq!((status.as_u16(), &listed["profiles"]), (200, &expected));
    assert!(listed["directory"].as_str().is_some_and(|dir| dir.ends_with("/profiles")), "{body}");
    assert_eq!(get(&exporter, &path).await, (StatusCode::OK, "the profile".to_owned()));
    for outside in ["other", "..", "../other", "%2e%2e", ".%2E%2F", "..%2Fprofiles%2Fother", "", "%00"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("..%2F{name}"), format!("%2e%2e/{name}"), format!("x/../{name}"), name.replace("heap", "cpu")])
    {
        let (status, body) = get(&exporter, &format!("/api/v1/profiles/{outside}")).await;
        assert_eq!(status, 404, "{outside}: {body}");
    }
    let (_, body) = get(&exporter, "/metrics").await;
    assert!(body.contains("path=\"/api/v1/profiles/{name}\"") && !body.contains("operator-7f9c.pb.gz"), "{body}");
}

#[tokio::test]
async fn profiles_stay_on_loopback_even_if_the_page_is_exposed() {
    let (exporter, name, _folder) = with_profiles(ExportOptions { expose_ui: true, ..ExportOptions::default() });
    for path in ["/api/v1/profiles".to_owned(), format!("/api/v1/profiles/{name}")] {
        for (peer, host, expected) in [
            ("10.1.2.3:5000", "localhost", 403),
            ("127.0.0.1:5000", "evil.example", 403),
            ("127.0.0.1:5000", "localhost evil.example", 403),
            ("127.0.0.6:5000", "localhost", 403),
            ("127.0.0.1:5000", "localhost:9917", 200),
        ] {
            let (status, body) = request_from(&exporter, peer, host, &path).await;
            assert_eq!(status.as_u16(), expected, "{peer} {host} {path}: {body}");
        }
    }
    let (_, body) = request_from(&exporter, "10.1.2.3:5000", "localhost", "/api/v1/profiles").await;
    assert!(body.contains("kubectl port-forward") && !body.contains("--expose-ui"), "{body}");
}

#[tokio::test]
async fn an_unreadable_directory_is_named() {
    let (exporter, name, folder) = with_profiles(ExportOptions::default());
    let file = folder.path().join(&name);
    exporter.set_profiles(crate::sources::profiles::ProfileStore::new(Some(&file)));
    for path in ["/api/v1/profiles".to_owned(), format!("/api/v1/profiles/{name}")] {
        let (status, body) = get(&exporter, &path).await;
        assert_eq!(status, 500, "{body}");
        for expected in [&*file.to_string_lossy(), "Not a directory", "--profile-dir"] {
            assert!(body.contains(expected), "{body}");
        }
    }
}

#[tokio::test]
async fn without_a_cluster_there_are_no_profiles() {
    let exporter = exporter(sample(), ExportOptions::default());
    let (status, body) = get(&exporter, "/api/v1/profiles").await;
    assert_eq!((status.as_u16(), body.as_str()), (200, r#"{"directory":null,"profiles":[]}"#));
    assert_eq!(get(&exporter, "/api/v1/profiles/a.pb.gz").await.0, 404);
}
