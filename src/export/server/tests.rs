//! Tests of the server as its clients see it: access, probes and counts here, the rest by subject.

mod access;
mod connections;
mod fleet;
mod objects;
mod policies;
mod profiles;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use loopwatch_model::model::Model;
use loopwatch_model::settings::Settings;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::client::Client;
use super::exporter::{ExportOptions, Exporter};
use super::policy::Port;
use super::routes::router;
use crate::export::sample::{NoObjects, Sample, empty, sample};
use crate::telemetry::SelfMetrics;

fn exporter(view: Sample, options: ExportOptions) -> Arc<Exporter> {
    Arc::new(Exporter::with_view(Arc::new(view), Arc::new(SelfMetrics::new()), options))
}

/// Sends one request from `peer` to a port for everything, and reads the response.
async fn request_from(
    exporter: &Arc<Exporter>,
    peer: &str,
    host: &str,
    path: &str,
) -> (StatusCode, String) {
    request_at(Port::Both, exporter, peer, host, path).await
}

/// Sends one request from `peer` to a port, and reads the response.
async fn request_at(
    port: Port,
    exporter: &Arc<Exporter>,
    peer: &str,
    host: &str,
    path: &str,
) -> (StatusCode, String) {
    let mut request = Request::get(path).body(Body::empty()).expect("a request");
    if !host.is_empty() {
        for host in host.split(' ') {
            request.headers_mut().append("host", host.parse().expect("a header"));
        }
    }

    let address: SocketAddr = peer.parse().expect("an address");
    request.extensions_mut().insert(Client::new(address, port, CancellationToken::new()));

    let response = router(exporter.clone()).oneshot(request).await.expect("routers do not fail");
    let status = response.status();
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn browsers_get_pages_about_problems_and_programs_get_texts() {
    let exporter = exporter(sample(), ExportOptions::default());
    let ask = async |path: &str, accept: &'static str| {
        let mut request = Request::get(path).header("host", "localhost").header("accept", accept);
        let address: SocketAddr = "127.0.0.1:7".parse().expect("an address");
        let client = Client::new(address, Port::Both, CancellationToken::new());
        request.extensions_mut().expect("a request").insert(client);

        let request = request.body(Body::empty()).expect("a request");
        let response = router(exporter.clone()).oneshot(request).await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.expect("a whole body").to_bytes();
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    };

    for path in ["/nothing", "/runbooks/nothing"] {
        let (status, headers, page) = ask(path, "text/html,*/*;q=0.8").await;
        assert_eq!(status, 404, "{path}");
        assert!(
            page.starts_with("<!doctype html>") && page.contains("<h1>Not found</h1>"),
            "{page}"
        );
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert!(headers.contains_key("content-security-policy"));
        let (_, _, text) = ask(path, "*/*").await;
        assert!(!text.contains("<html"), "{text}");
    }
}

#[tokio::test]
async fn on_the_network_of_the_node_loopback_gives_no_access() {
    let local = async |exporter: &Arc<Exporter>, path| get(exporter, path).await.0;
    let options = |expose_ui| ExportOptions { expose_ui, ..ExportOptions::default() };
    for (expose_ui, expected) in [(false, [200, 403, 403, 403]), (true, [200, 200, 200, 403])] {
        let exporter = exporter(sample(), options(expose_ui));
        exporter.share_loopback();

        let paths = ["/metrics", "/", "/api/v1/findings", "/api/v1/profiles"];
        for (path, status) in paths.into_iter().zip(expected) {
            assert_eq!(local(&exporter, path).await, status, "{path}, --expose-ui: {expose_ui}");
        }
    }
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
        assert_eq!(
            status.as_u16(),
            expected,
            "{peer} {host:?} {path}: {}",
            &body[..body.len().min(200)]
        );
    }

    let (_, body) = request_from(&exporter, "10.1.2.3:5000", "localhost", "/").await;
    assert!(body.contains("kubectl port-forward"), "{body}");

    let (_, body) = get(&exporter, "/nowhere").await;
    assert!(body.contains("/api/v1/objects"), "{body}");
}

#[tokio::test]
async fn expose_ui_opens_all_paths_to_remote_clients() {
    let exporter =
        exporter(sample(), ExportOptions { expose_ui: true, ..ExportOptions::default() });
    let (status, _) =
        request_from(&exporter, "10.1.2.3:5000", "loopwatch.example", "/api/v1/findings").await;

    assert_eq!(status, 200);
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
async fn probes_need_no_snapshot() {
    let options = ExportOptions::default();
    let exporter = Arc::new(Exporter::with_view(
        Arc::new(NoObjects { pending: vec![], snapshots: false.into() }),
        Arc::new(SelfMetrics::new()),
        options,
    ));
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

    let exporter =
        Arc::new(Exporter::new(model, Arc::new(SelfMetrics::new()), ExportOptions::default()));
    for path in [
        "/metrics",
        "/livez",
        "/",
        "/api/v1/status",
        "/api/v1/findings",
        "/api/v1/objects",
        "/debug/model",
    ] {
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
    let counts: Vec<_> =
        body.lines().filter(|line| line.starts_with("loopwatch_http_requests_total{")).collect();

    assert!(counts.len() <= 3, "{counts:?}"); // may include this scrape
    assert!(
        body.contains("loopwatch_http_requests_total{path=\"other\",code=\"404\"} 1000\n"),
        "{counts:?}"
    );
}
