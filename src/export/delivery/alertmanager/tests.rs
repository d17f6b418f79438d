use std::path::Path;
use std::sync::atomic::Ordering;

use super::*;
use crate::export::delivery::fake_receiver::{FakeReceiver, Reply, Requests, eventually};
use crate::export::sample::NoObjects;
use crate::export::view::Links;
use crate::telemetry::captured::Captured;
use crate::telemetry::{AlertmanagerLabels, SendResult};

/// A receiver of the alerts, with the channel to it.
struct Sender {
    postings: watch::Sender<Arc<Posting>>,
    running: JoinHandle<()>,
    metrics: AlertingMetrics,
    url: String,
}

impl Sender {
    fn start(url: &str) -> Self {
        Self::with(url, None)
    }

    fn with(url: &str, token_file: Option<&Path>) -> Self {
        let url = alertmanager_url(url).expect("a URL");
        let token_file = token_file.map(Path::to_owned);
        let options = AlertmanagerOptions {
            urls: vec![url.clone()],
            token_file,
            ca_file: None,
            labels: vec![],
            operator: None,
            links: Links::default(),
        };

        let metrics = AlertingMetrics::default();
        let (postings, receiver) = watch::channel(Arc::default());
        let running = tokio::spawn(
            Receiver::new(&url, &options, metrics.clone(), NameLookups::of_system()).run(receiver),
        );

        Self { postings, running, metrics, url: url.to_string() }
    }

    fn post(&self, text: &str) {
        self.postings.send_replace(Arc::new(Posting { bodies: vec![text.as_bytes().to_vec()] }));
    }

    fn counts(&self) -> [u64; 3] {
        SendResult::OF_REQUESTS.map(|result| {
            let labels = AlertmanagerLabels { alertmanager: self.url.clone(), result };
            self.metrics.requests.get_or_create_owned(&labels).get()
        })
    }

    async fn wait_for(&self, counts: [u64; 3]) {
        eventually(|| self.counts() == counts).await;
    }

    /// Ends the task, as at the end of the process.
    async fn close(self) {
        drop(self.postings);
        self.running.await.expect("no panic");
    }
}

fn bodies(requests: &Requests) -> Vec<String> {
    requests.all().into_iter().map(|(_, body)| body).collect()
}

#[tokio::test]
async fn a_posting_goes_to_the_api_below_the_prefix_with_the_token() {
    let file = std::env::temp_dir().join(format!("loopwatch-alertmanager-{}", std::process::id()));
    std::fs::write(&file, "s3cret\n").expect("a file");

    let script = FakeReceiver::start([]).await;
    let sender = Sender::with(&format!("{}/monitoring/", script.url), Some(&file));
    sender.post("[1]");
    sender.wait_for([1, 0, 0]).await;

    let (head, body) = script.requests.all().remove(0);
    assert!(head.starts_with("post /monitoring/api/v2/alerts http/1.1"), "{head}");
    assert!(
        head.contains("authorization: bearer s3cret")
            && head.contains("content-type: application/json"),
        "{head}"
    );
    assert_eq!(body, "[1]");

    sender.close().await;
    let _ = std::fs::remove_file(file);
}

#[tokio::test]
async fn a_posting_is_repeated_until_it_is_accepted_and_then_no_more() {
    let html = Reply::Response(
        502,
        "Content-Type: text/html\r\n".to_owned(),
        "<html>bad gateway</html>".to_owned(),
    );
    let script = FakeReceiver::start([html, Reply::Close, Reply::status(503)]).await;
    let sender = Sender::start(&script.url);

    sender.post("[1]");
    sender.wait_for([1, 0, 3]).await;
    sender.close().await;

    assert_eq!(bodies(&script.requests), ["[1]", "[1]", "[1]", "[1]"]);
}

#[tokio::test]
async fn a_newer_posting_replaces_one_that_waits() {
    let script = FakeReceiver::start([Reply::Response(
        503,
        "Retry-After: 60\r\n".to_owned(),
        String::new(),
    )])
    .await;
    let sender = Sender::start(&script.url);

    sender.post("[1]");
    sender.wait_for([0, 0, 1]).await;
    sender.post("[2]");
    sender.wait_for([1, 0, 1]).await;
    sender.close().await;

    assert_eq!(bodies(&script.requests), ["[1]", "[2]"]);
}

#[tokio::test]
async fn a_posting_that_is_refused_is_not_repeated() {
    let script = FakeReceiver::start([Reply::status(400), Reply::status(301)]).await;
    let sender = Sender::start(&script.url);
    sender.post("[1]");
    sender.wait_for([0, 1, 0]).await;
    sender.post("[2]");
    sender.wait_for([0, 2, 0]).await;
    sender.close().await;

    assert_eq!(bodies(&script.requests), ["[1]", "[2]"]);
}

/// An example is the page of a proxy that asks for a password. No alert would arrive, and nobody
/// would know.
#[tokio::test]
async fn a_web_page_is_no_acceptance() {
    let page = |kind: &str| {
        Reply::Response(200, format!("Content-Type: {kind}\r\n"), "<html>Sign in</html>".to_owned())
    };
    let script = FakeReceiver::start([
        page("text/html; charset=utf-8"),
        page("Text/HTML"),
        page("application/json"),
    ])
    .await;

    let sender = Sender::start(&script.url);
    for (text, counts) in [("[1]", [0, 1, 0]), ("[2]", [0, 2, 0]), ("[3]", [1, 2, 0])] {
        sender.post(text);
        sender.wait_for(counts).await;
    }

    sender.close().await;
}

#[tokio::test]
async fn the_last_posting_gets_one_attempt() {
    let script = FakeReceiver::start([Reply::status(503)]).await;
    let sender = Sender::start(&script.url);
    sender.post("[last]");
    sender.close().await;

    assert_eq!(bodies(&script.requests), ["[last]"]);
}

#[tokio::test]
async fn a_host_that_is_unknown_or_refuses_is_counted_and_ends_with_the_process() {
    for url in ["http://alertmanager.invalid:9093", "http://127.0.0.1:1"] {
        let sender = Sender::start(url);
        sender.post("[1]");
        sender.wait_for([0, 0, 1]).await;
        tokio::time::timeout(Duration::from_secs(20), sender.close()).await.expect("it ends");
    }
}

#[tokio::test]
async fn the_heartbeat_is_posted_once_the_first_lists_are_complete() {
    for (pending, expected) in [(vec!["discovery".to_owned()], 0), (vec![], 1)] {
        let script = FakeReceiver::start([]).await;
        let options = AlertmanagerOptions {
            urls: vec![alertmanager_url(&script.url).expect("a URL")],
            token_file: None,
            ca_file: None,
            labels: vec!["cluster=production".parse().expect("a label")],
            operator: None,
            links: Links::default(),
        };

        Alerting::start(
            &options,
            Arc::new(NoObjects { pending, snapshots: true.into() }),
            &SelfMetrics::new(),
        )
        .close(false)
        .await;
        let bodies = bodies(&script.requests);

        assert_eq!(bodies.len(), expected, "{bodies:?}");
        assert!(
            bodies
                .iter()
                .all(|body| body.contains("LoopwatchWatchdog") && body.contains("production"))
        );
    }
}

#[tokio::test]
async fn a_token_that_goes_to_another_host_in_the_clear_is_one_warning() {
    for (url, token_file, expected) in [
        ("http://198.51.100.1:9093/S3CRET", Some("/token"), 1),
        ("https://198.51.100.1", Some("/token"), 0),
        ("http://127.0.0.1:1", Some("/token"), 0),
        ("http://198.51.100.1:9093", None, 0),
    ] {
        let log = Captured::start();
        let options = AlertmanagerOptions {
            urls: vec![alertmanager_url(url).expect("a URL")],
            token_file: token_file.map(Into::into),
            ca_file: None,
            labels: vec![],
            operator: None,
            links: Links::default(),
        };

        let view = NoObjects { pending: vec!["discovery".to_owned()], snapshots: true.into() };
        Alerting::start(&options, Arc::new(view), &SelfMetrics::new()).close(false).await;

        let warnings = log.warnings();
        assert_eq!(warnings.len(), expected, "{url}: {warnings:?}");

        let advice =
            "--alertmanager-token-file: requests to http://198.51.100.1:9093 are not encrypted";
        let clear =
            warnings.iter().all(|line| line.contains(advice) && line.contains("use https://"));

        assert!(clear && !warnings.concat().contains("S3CRET"), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_model_that_panics_does_not_end_the_alerts() {
    let script = FakeReceiver::start([]).await;
    let urls = vec![alertmanager_url(&script.url).expect("a URL")];
    let options = AlertmanagerOptions {
        urls,
        token_file: None,
        ca_file: None,
        labels: vec![],
        operator: None,
        links: Links::default(),
    };

    let model = Arc::new(NoObjects { pending: vec![], snapshots: false.into() });
    let alerting = Alerting::start(&options, model.clone(), &SelfMetrics::new());
    eventually(|| model.snapshots.load(Ordering::Relaxed)).await;
    alerting.close(false).await; // looks once more

    assert_eq!(bodies(&script.requests).len(), 1, "it has been rebuilt meanwhile");
}
