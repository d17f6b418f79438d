//! Connections, over real sockets.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::*;
use crate::export::server::client::Client;
use crate::export::server::turns::{TurnLimits, Turns, take_turn};
use crate::export::server::{Port, ServerLimits, bind, serve_with};

/// Starts a server on a free port; it stops when the sender is dropped.
async fn server(
    view: Sample,
    limits: ServerLimits,
) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let exporter = exporter(view, ExportOptions::default());
    let task = tokio::spawn(serve_with(listener, Port::Both, exporter, limits, async {
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

    assert!(
        plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{plain}"
    );

    let openmetrics = exchange(
        address,
        &format!("{head}Accept: application/openmetrics-text;version=1.0.0\r\n\r\n"),
    )
    .await;
    let openmetrics = String::from_utf8(openmetrics).expect("text");

    assert!(
        openmetrics.contains(
            "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        )
    );
    assert!(openmetrics.contains("# EOF\n"));

    let compressed =
        exchange(address, &format!("{}Accept-Encoding: gzip\r\n\r\n", head.replace("1.1", "1.0")))
            .await;
    let at = compressed.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let mut text = String::new();

    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&compressed[at..]), &mut text)
        .expect("gzip");

    assert!(
        text.starts_with("# HELP loopwatch_objects ") && text.ends_with('\n'),
        "{}",
        text.len()
    );

    drop(stop);
    task.await.expect("the server ends");
}

/// Connects from an address of the loopback network, which is another peer to the server.
async fn connect_from(host: [u8; 4], address: SocketAddr) -> TcpStream {
    socket_at(host).connect(address).await.expect("a connection")
}

fn socket_at(host: [u8; 4]) -> tokio::net::TcpSocket {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind((host, 0).into()).expect("an address of the loopback network");
    socket
}

/// Whether a probe from this address succeeds, as the kubelet's do: a new connection, within a
/// second.
async fn probe_from(host: [u8; 4], address: SocketAddr) -> bool {
    let probe = async {
        let mut stream = connect_from(host, address).await;
        let sent =
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let mut answer = Vec::new();

        sent.is_ok()
            && stream.read_to_end(&mut answer).await.is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
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
        assert!(
            probe_from(attacker, address).await,
            "probe {number} from the same address, as behind a gateway"
        );
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

        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("content-length: 3\r\n"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn ipv4_clients_of_a_port_for_both_families_are_local() {
    let listener = bind("[::]:0".parse().expect("an address")).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let exporter = exporter(sample(), ExportOptions::default());
    let task = tokio::spawn(serve_with(
        listener,
        Port::Both,
        exporter,
        ServerLimits::default(),
        std::future::pending(),
    ));

    let status = async |host: [u8; 4], header: &str| {
        let mut stream = connect_from(host, ([127, 0, 0, 1], port).into()).await;
        let request = format!(
            "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n"
        );

        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };

    assert_eq!(status([127, 0, 0, 1], "").await, "200");
    assert_eq!(
        status([127, 0, 0, 6], "").await,
        "403",
        "a mesh delivers requests of other hosts from 127.0.0.6"
    );

    for header in [
        "X-Forwarded-For: 10.1.2.3",
        "Forwarded: for=10.1.2.3",
        "x-envoy-internal: true",
        "l5d-client-id: a",
    ] {
        assert_eq!(status([127, 0, 0, 1], &format!("{header}\r\n")).await, "403", "{header}");
    }

    task.abort();
}

#[tokio::test]
async fn slow_requests_time_out_and_free_their_connections() {
    let limits =
        ServerLimits { request_head: Duration::from_millis(200), ..ServerLimits::default() };
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

/// A view whose exposition has several megabytes, more than the buffers of two sockets hold.
fn large() -> Sample {
    let mut view = sample();
    let row = view.snapshot.unhealthy[0].clone();
    view.snapshot.unhealthy = (0..60_000)
        .map(|index| loopwatch_model::snapshot::ObjectRow {
            name: format!("{index:0>100}"),
            ..row.clone()
        })
        .collect();

    view
}

/// Starts a server with a large exposition, and with the default limits.
async fn large_server() -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let options = ExportOptions { max_object_series: 60_000, ..ExportOptions::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let exporter = exporter(large(), options);
    let task =
        tokio::spawn(serve_with(listener, Port::Both, exporter, ServerLimits::default(), async {
            let _ = stopped.await;
        }));

    (address, stop, task)
}

/// Requests the exposition from this address, and returns the open connection without reading.
async fn stall(host: [u8; 4], address: SocketAddr, header: &str) -> TcpStream {
    // With a small buffer, the client stalls after a small part.
    let socket = socket_at(host);
    socket.set_recv_buffer_size(8 * 1024).expect("a buffer");
    let mut stream = socket.connect(address).await.expect("a connection");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    stream
}

/// Scrapes from this address.
async fn scrape_from(host: [u8; 4], address: SocketAddr) -> Vec<u8> {
    let mut stream = connect_from(host, address).await;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").await.expect("a request");

    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

#[tokio::test]
async fn clients_that_do_not_read_keep_no_scrape_out() {
    let (address, stop, task) = large_server().await;
    let (attackers, prometheus) = ([2, 4, 5, 6], [127, 0, 0, 3]);
    let mut stalled = Vec::new();

    // Enough for all turns: from one address, and from several.
    for host in attackers {
        for _ in 0..20 {
            stalled.push(stall([127, 0, 0, host], address, "").await);
        }
    }

    for (scraper, whose) in [(prometheus, "another address"), ([127, 0, 0, 2], "the same address")]
    {
        let answer = scrape_from(scraper, address).await;
        let start = String::from_utf8_lossy(&answer[..answer.len().min(100)]);

        assert!(answer.starts_with(b"HTTP/1.0 200"), "{whose}: {start}");
        assert!(answer.ends_with(b"\n") && answer.len() > 5_000_000, "{whose}: {}", answer.len());
    }

    drop((stop, stalled));
    task.await.expect("the server ends");
}

#[tokio::test]
async fn a_scrape_ends_when_its_scraper_has_given_up() {
    let (address, _stop, _task) = large_server().await;
    let header = "X-Prometheus-Scrape-Timeout-Seconds: 0.3\r\n";
    let mut stream = stall([127, 0, 0, 1], address, header).await;

    // Reads only after the server has closed the connection; a whole answer would end with the end
    // of the chunked encoding.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;

    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(!answer.ends_with(b"0\r\n\r\n"), "{} bytes", answer.len());
}

/// A body gives way to other tasks after 256 KiB. The time that they then take is not the client's,
/// which has taken all that there was.
#[tokio::test(start_paused = true)]
async fn a_client_is_not_slow_while_the_server_itself_gives_way_to_other_tasks() {
    use http_body::Body as _;

    let slow = Duration::from_millis(250);
    let (queue, whole) = (Duration::from_secs(8), Duration::from_secs(15));
    let turns = Turns::new(TurnLimits { total: 1, per_peer: 1, queue, slow, whole });
    let router = axum::Router::new()
        .route("/", axum::routing::get(|| async { vec![b'x'; 1 << 20] }))
        .route_layer(axum::middleware::from_fn_with_state(turns, take_turn));
    let close = tokio_util::sync::CancellationToken::new();
    let request = |from: u8, close: &tokio_util::sync::CancellationToken| {
        let client = Client::new(([10, 0, 0, from], 1).into(), Port::Metrics, close.clone());
        let mut request = axum::http::Request::new(axum::body::Body::empty());
        request.extensions_mut().insert(client);
        router.clone().oneshot(request)
    };

    // Takes each part at once, until the server has another part and gives way.
    let mut body = std::pin::pin!(request(1, &close).await.expect("an answer").into_body());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut taken = 0;
    while let std::task::Poll::Ready(Some(Ok(part))) = body.as_mut().poll_frame(&mut context) {
        taken += part.data_ref().expect("data").len();
    }
    assert!((1..1 << 20).contains(&taken), "{taken}");

    // Other tasks run, and one of their clients waits for a turn.
    let other = tokio_util::sync::CancellationToken::new();
    let waiting = tokio::time::timeout(Duration::from_secs(1), request(2, &other)).await;

    assert!(waiting.is_err(), "the other client must wait: nobody is slow");
    assert!(!close.is_cancelled(), "the connection of a fast client has ended after {taken} bytes");
}

/// The same with tasks of the runtime. Three other scrapes begin in one round of the scheduler, and each
/// takes 90 ms before its first part, as with many objects or little CPU time.
#[tokio::test]
async fn a_client_is_not_slow_while_other_answers_begin() {
    let slow = Duration::from_millis(250);
    let (queue, whole) = (Duration::from_secs(8), Duration::from_secs(15));
    let turns = Turns::new(TurnLimits { total: 4, per_peer: 1, queue, slow, whole });
    let router = axum::Router::new()
        .route("/fast", axum::routing::get(|| async { vec![b'x'; 1 << 20] }))
        .route(
            "/heavy",
            axum::routing::get(|| async {
                loopwatch_testbed::wait::pause(Duration::from_millis(90));
                vec![b'x'; 1 << 20]
            }),
        )
        .route_layer(axum::middleware::from_fn_with_state(turns, take_turn));
    let request = |from: u8, path: &str, close: &tokio_util::sync::CancellationToken| {
        let client = Client::new(([10, 0, 0, from], 1).into(), Port::Metrics, close.clone());
        let mut request = axum::http::Request::get(path).body(axum::body::Body::empty());
        request.as_mut().expect("a request").extensions_mut().insert(client);
        router.clone().oneshot(request.expect("a request"))
    };

    let close = tokio_util::sync::CancellationToken::new();
    let fast = request(1, "/fast", &close);
    let fast = tokio::spawn(async move {
        let body = fast.await.expect("an answer").into_body();
        body.collect().await.expect("a whole body").to_bytes().len()
    });
    let stalled: Vec<_> =
        (2..6).map(|from| tokio::spawn(request(from, "/heavy", &Default::default()))).collect();

    assert_eq!(fast.await.expect("no panic"), 1 << 20);
    assert!(!close.is_cancelled(), "the server would have ended the connection of a fast client");
    drop(stalled);
}
