use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use loopwatch_model::observation::Cause;

use super::server::{METRICS, Reply, Server};
use crate::net::{Failure, HttpUrl};
use crate::sources::operator::scrape::body::{BodySink, Flow};
use crate::sources::operator::scrape::fetch::{MetricsClient, PodToken, Reach, RequestLimits};

/// Keeps the whole body.
#[derive(Debug, Default)]
struct Kept(Vec<u8>);

impl BodySink for Kept {
    fn take(&mut self, piece: &[u8]) -> Result<Flow, Failure> {
        assert!(piece.len() <= 16 << 10, "small pieces");

        self.0.extend_from_slice(piece);
        Ok(Flow::More)
    }
}

const LIMITS: RequestLimits = RequestLimits {
    connect: Duration::from_secs(2),
    head: Duration::from_millis(500),
    whole: Duration::from_secs(2),
    bytes: 4 << 20,
};

/// Lets all servers have the token at their ports.
fn client_with(token: Option<&Path>, text: &str) -> MetricsClient {
    let url = url(text);
    let token = token.map(|file| PodToken { file: file.to_owned(), ports: vec![url.port()] });
    Reach { token, ..Reach::default() }.client(url)
}

fn url(text: &str) -> HttpUrl {
    HttpUrl::parse(text, "/").expect("a URL")
}

fn client(text: &str) -> MetricsClient {
    client_with(None, text)
}

async fn get(client: &mut MetricsClient) -> Result<String, Failure> {
    let attempt = client.get(LIMITS, |_| Kept::default()).await;
    attempt.result.map(|kept| String::from_utf8(kept.0).expect("text"))
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn metrics_arrive_over_one_connection_without_credentials() {
    for server in [Server::plain(Reply::text(METRICS)), Server::tls(Reply::text(METRICS))] {
        let mut client = client(&server.url());
        for _ in 0..2 {
            let mut seen = None;
            let attempt = client.get(LIMITS, |kind| {
                seen = kind.map(str::to_owned);
                Kept::default()
            });
            let attempt = attempt.await;
            let kept = attempt.result.unwrap_or_else(|failure| panic!("{failure}"));

            assert_eq!(
                (kept.0.as_slice(), attempt.bytes),
                (METRICS.as_bytes(), METRICS.len() as u64)
            );
            assert_eq!(seen.as_deref(), Some("text/plain; version=0.0.4"));
        }

        for head in server.requests() {
            assert!(head.starts_with("get /metrics http/1.1\r\n"), "{head}");

            for header in [
                "accept: application/openmetrics-text;version=1.0.0",
                "accept-encoding: identity",
                "user-agent: loopwatch/",
            ] {
                assert!(head.contains(header), "{head}");
            }

            assert!(!head.contains("authorization"), "{head}");
        }
    }
}

#[tokio::test]
async fn whatever_the_other_side_does_ends_soon_with_a_reason() {
    let bomb = gzip(&vec![b'a'; 64 << 20]);
    let cut = gzip(METRICS.repeat(100).as_bytes());
    let encoded = |body: Vec<u8>| Reply::Full(200, "content-encoding: gzip\r\n", body);

    for (answer, cause, detail) in [
        (Reply::Hang, Cause::Timeout, "no response within 0.5 s"),
        (Reply::Drip, Cause::Timeout, "the response was incomplete after 2 s and "),
        (Reply::Endless, Cause::TooLarge, "the response is larger than 4 MiB"),
        (Reply::Large, Cause::TooLarge, "the response is larger than 4 MiB"),
        (Reply::Cut, Cause::Connection, "the response was cut off after 4 bytes"),
        (encoded(bomb), Cause::TooLarge, "the response is larger than 4 MiB"),
        (
            encoded(cut[..cut.len() / 2].to_vec()),
            Cause::Undecodable,
            "the compressed response was cut off",
        ),
        (encoded(METRICS.into()), Cause::Undecodable, "the response is not valid gzip"),
        (
            Reply::Full(200, "content-encoding: br\r\n", Vec::new()),
            Cause::Undecodable,
            "an encoding that loopwatch did not ask for",
        ),
        (
            Reply::Full(200, "content-type: text/html\r\n", b"x".to_vec()),
            Cause::Undecodable,
            "the response is text/html, not metrics",
        ),
        (
            Reply::Full(200, "content-type: application/json\r\n", b"{}".to_vec()),
            Cause::Undecodable,
            "the response is application/json",
        ),
        (
            Reply::text("\n <!DOCTYPE html><p>reconcile"),
            Cause::Undecodable,
            "the response is a web page, not metrics",
        ),
        (Reply::status(404), Cause::NotFound, "HTTP 404: no metrics here"),
        (Reply::status(429), Cause::Throttled, "HTTP 429"),
        (Reply::status(500), Cause::ServerError, "HTTP 500: text of the operator"),
        (Reply::status(400), Cause::Invalid, "HTTP 400: text of the operator"),
    ] {
        let server = Server::plain(answer.clone());
        let (mut client, began) = (client(&server.url()), Instant::now());
        let failure = get(&mut client).await.expect_err(detail);

        assert_eq!(failure.cause, cause, "{failure}");
        assert!(failure.detail.starts_with(&format!("{}: ", server.url())), "{failure}");
        assert!(failure.detail.contains(detail), "{failure}");
        assert!(began.elapsed() < Duration::from_secs(15), "{answer:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_port_where_nothing_listens_refuses() {
    let server = Server::plain(Reply::Hang);
    server.stop();

    let failure = get(&mut client(&server.url())).await.expect_err("nothing listens");
    assert_eq!(failure.cause, Cause::Refused, "{failure}");
}

#[tokio::test]
async fn compressed_metrics_arrive_as_text() {
    let text = METRICS.repeat(10_000);
    let server =
        Server::plain(Reply::Full(200, "content-encoding: gzip\r\n", gzip(text.as_bytes())));
    let got = get(&mut client(&server.url())).await.unwrap_or_else(|failure| panic!("{failure}"));

    assert!(got == text, "{} of {} bytes", got.len(), text.len());
}

#[tokio::test]
async fn other_tasks_run_while_a_large_response_arrives() {
    let server = Server::plain(Reply::Large);
    let counting = tokio::spawn(async {
        let mut count = 0_u64;
        loop {
            tokio::task::yield_now().await;
            count += 1;
            // A busy machine delivers more of the response at once, so the client waits less often.
            if count == 10 {
                return;
            }
        }
    });

    get(&mut client(&server.url())).await.expect_err("too large");
    assert!(counting.is_finished(), "the response held the thread");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Server::plain(Reply::text(METRICS));
    let location: &'static str = format!("location: {}\r\n", elsewhere.url()).leak();
    for status in [301, 302, 307, 308] {
        let server = Server::plain(Reply::Full(status, location, Vec::new()));
        let failure = get(&mut client(&server.url())).await.expect_err("a redirect");

        assert!(failure.detail.contains("does not follow redirects"), "{failure}");
    }

    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn the_token_is_sent_only_after_a_refusal_and_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").expect("written");

    let server = Server::tls(Reply::Token("first"));
    let mut client = client_with(Some(&file), &server.url());

    assert_eq!(get(&mut client).await.as_deref(), Ok(METRICS));

    let with_token: Vec<bool> =
        server.requests().iter().map(|head| head.contains("authorization")).collect();

    assert_eq!(with_token, [false, true]);

    std::fs::write(&file, "second").expect("written");
    server.answer(Reply::Token("second"));

    assert_eq!(get(&mut client).await.as_deref(), Ok(METRICS), "the token has rotated");
    assert_eq!(server.requests().len(), 3, "it asked once");

    server.answer(Reply::Token("third"));
    let failure = get(&mut client).await.expect_err("refused");

    assert_eq!(failure.cause, Cause::Unauthorized);
    assert!(failure.detail.contains("does not accept the token"), "{failure}");

    server.answer(Reply::text(METRICS));
    assert_eq!(get(&mut client).await.as_deref(), Ok(METRICS));
    assert!(
        !server.requests().last().expect("a request").contains("authorization"),
        "after a failure, it asks again"
    );
}

#[tokio::test]
async fn an_open_endpoint_never_gets_the_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "S3CRET").expect("written");

    let server = Server::tls(Reply::text(METRICS));
    let mut client = client_with(Some(&file), &server.url());

    assert_eq!(get(&mut client).await.as_deref(), Ok(METRICS));
    assert!(server.requests().iter().all(|head| !head.contains("authorization")));
}

#[tokio::test]
async fn a_refusal_of_the_token_names_the_missing_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "S3CRET").expect("written");

    let server = Server::tls(Reply::status(403));
    let failure = get(&mut client_with(Some(&file), &server.url())).await.expect_err("refused");

    assert_eq!((failure.cause, failure.status), (Cause::Forbidden, Some(403)));

    for expected in
        [r#"`nonResourceURLs: ["/metrics"], verbs: ["get"]`"#, "deploy/components/reader-rights"]
    {
        assert!(failure.detail.contains(expected), "{failure}");
    }

    assert!(!failure.detail.contains("S3CRET") && failure.detail.len() < 500, "{failure}");
}

#[tokio::test]
async fn the_token_never_travels_without_tls_or_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "S3CRET").expect("written");

    for status in [401, 403] {
        let server = Server::plain(Reply::status(status));
        let failure = get(&mut client_with(Some(&file), &server.url())).await.expect_err("refused");

        assert!(failure.detail.contains("only over TLS, only to its own Pod"), "{failure}");
        assert!(server.requests().len() == 1 && !server.requests()[0].contains("authorization"));
    }

    let address = |text: &str| text.parse().expect("an address");
    let reach = Reach {
        own: Some(address("10.0.0.7")),
        pods: vec![address("10.0.0.7"), address("10.0.0.8")],
        token: Some(PodToken { file, ports: vec![8443, 443, 8080] }),
    };
    for (url, may) in [
        ("https://127.0.0.1:8443/metrics", true),
        ("https://[::1]:8443/metrics", true),
        ("https://10.0.0.7:8443/metrics", true),
        ("https://127.0.0.1:8444/metrics", false),
        ("https://10.0.0.7:9443/metrics", false),
        ("http://127.0.0.1:8443/metrics", false),
        ("http://10.0.0.7:8080/metrics", false),
        ("https://10.0.0.8:8443/metrics", false),
        ("https://10.0.0.9:8443/metrics", false),
        ("https://localhost:8443/metrics", false),
        ("https://127.0.0.1.example.com/metrics", false),
        ("https://operator.ns.svc:8443/metrics", false),
    ] {
        let client = reach.client(self::url(url));
        assert_eq!(client.may_get_token(), may, "{url}");
    }

    let without = Reach { token: None, ..reach };
    assert!(!without.client(url("https://127.0.0.1:8443/metrics")).may_get_token());
}

#[tokio::test]
async fn a_port_that_the_spec_does_not_name_gets_no_token_but_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "S3CRET").expect("written");

    let server = Server::tls(Reply::Token("S3CRET"));
    let token = Some(PodToken { file, ports: vec![server.address.port().wrapping_add(1)] });
    let mut client = Reach { token, ..Reach::default() }.client(url(&server.url()));
    let failure = get(&mut client).await.expect_err("no token");

    assert_eq!(failure.cause, Cause::Unauthorized);
    assert!(server.requests().iter().all(|head| !head.contains("authorization")));

    let flag = format!("--scrape {}", server.url());
    for expected in ["name the port `metrics`", "reader-rights", &flag] {
        assert!(failure.detail.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn an_unusable_token_is_a_failure_that_does_not_quote_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let server = Server::tls(Reply::status(401));

    for content in [None, Some(""), Some("S3CRET\nS3CRET")] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }

        let failure =
            get(&mut client_with(Some(&file), &server.url())).await.expect_err("no token");

        assert!(
            failure.cause == Cause::Unauthorized && !failure.detail.contains("S3CRET"),
            "{failure}"
        );
    }

    assert!(server.requests().iter().all(|head| !head.contains("authorization")));
}

#[tokio::test]
async fn a_stranger_needs_a_certificate_that_the_system_trusts() {
    let server = Server::tls(Reply::text(METRICS));
    let url = server.url().replace("127.0.0.1", "localhost");
    let failure = get(&mut client(&url)).await.expect_err("a name that any resolver could answer");

    assert_eq!(failure.cause, Cause::Tls, "{failure}");
}

/// Serves one connection like this until the client closes it.
async fn closes(url: &str, begin: &'static [u8], again: &'static [u8]) -> Failure {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.read(&mut [0; 4096]).await;
        let (mut reader, mut writer) = stream.split();
        let _ = writer.write_all(begin).await;
        let writing = async {
            while !again.is_empty() && writer.write_all(again).await.is_ok() {
                tokio::task::yield_now().await;
            }
            std::future::pending::<()>().await;
        };

        let reading =
            async { while reader.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {} };
        tokio::select! { () = writing => {}, () = reading => {} }
    });

    let mut client = client(&url.replace("ADDRESS", &address.to_string()));
    let began = Instant::now();
    let failure = get(&mut client).await.expect_err("no metrics");

    assert!(began.elapsed() < Duration::from_secs(5), "{failure}");

    let closed = tokio::time::timeout(Duration::from_secs(5), serving).await;
    assert!(closed.is_ok(), "the connection stays open after: {failure}");

    failure
}

#[tokio::test]
async fn a_failed_request_leaves_no_connection() {
    // One write sends many headers, because the time limit is real and the machine may be busy.
    let headers: &'static [u8] = "a: b\r\n".repeat(1024).leak().as_bytes();
    for (url, begin, again, cause) in [
        ("http://ADDRESS/", &b""[..], &b""[..], Cause::Timeout),
        ("https://ADDRESS/", b"", b"", Cause::Timeout),
        ("https://ADDRESS/", b"\x16\x03\x03\x40\x00", &[2; 1024], Cause::Tls),
        ("http://ADDRESS/", b"HTTP/1.1 200 x\r\n", headers, Cause::Connection),
        ("http://ADDRESS/", b"HTTP/1.1 200 x\r\na: ", &[b'b'; 1024], Cause::Connection),
        ("http://ADDRESS/", b"", b"HTTP/1.1 100 Continue\r\n\r\n", Cause::Timeout),
        (
            "http://ADDRESS/",
            b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n1;",
            &[b'a'; 1024],
            Cause::Connection,
        ),
        (
            "http://ADDRESS/",
            b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n",
            b"1\r\na\r\n",
            Cause::Timeout,
        ),
        (
            "http://ADDRESS/",
            b"HTTP/1.1 401 x\r\ntransfer-encoding: chunked\r\n\r\n",
            b"1\r\na\r\n",
            Cause::Unauthorized,
        ),
        (
            "http://ADDRESS/",
            b"HTTP/1.1 500 x\r\ntransfer-encoding: chunked\r\n\r\n",
            b"1\r\na\r\n",
            Cause::ServerError,
        ),
        (
            "http://ADDRESS/",
            b"HTTP/1.1 301 x\r\nlocation: http://198.51.100.1/\r\n\r\n",
            b"",
            Cause::Invalid,
        ),
    ] {
        let failure = closes(url, begin, again).await;
        assert_eq!(failure.cause, cause, "{failure}");
    }
}

#[tokio::test]
async fn a_token_that_is_not_mounted_is_named_with_a_way_out() {
    let server = Server::tls(Reply::status(401));
    let mut client = client_with(Some(Path::new("/no/such/token")), &server.url());
    let failure = get(&mut client).await.expect_err("no token");

    assert_eq!(failure.cause, Cause::Unauthorized);

    for expected in ["it asks for credentials", "cannot read /no/such/token", "mount"] {
        assert!(failure.detail.contains(expected), "{failure}");
    }

    let mut client = client_with(None, &server.url());
    let failure = get(&mut client).await.expect_err("no token");

    assert!(failure.detail.contains("network of its node"), "{failure}");
}
