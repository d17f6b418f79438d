use std::path::Path;

use loopwatch_model::finding::{
    Change, Confidence, Evidence, Finding, FindingCode, FindingEvent, FindingId, Subject,
};
use loopwatch_model::observation::LeaseView;
use loopwatch_model::reference::{ObjectName, ReferenceChange, ReferenceEventId, ReferenceForm};
use loopwatch_model::time::{Span, Timestamp};
use tokio::time::advance;

use super::*;
use crate::export::delivery::fake_receiver::{FakeReceiver, Reply, eventually, standing_still};
use crate::telemetry::SelfMetrics;
use crate::telemetry::captured::Captured;

mod tls;

/// A notifier that sends to a receiver.
struct Sender {
    notifier: Notifier,
    delivering: JoinHandle<()>,
    requests: NotifyRequests,
}

const SHORT: Patience = Patience {
    request: Duration::from_secs(10),
    event: Duration::from_secs(60),
    stop: Duration::from_secs(2),
};

/// A little longer than the longest possible first wait of a backoff.
const FIRST_WAIT: Duration = Duration::from_millis(1_010);

impl Sender {
    fn start(url: &str) -> Self {
        Self::with(webhook(url), SHORT, None)
    }

    fn with(webhook: Webhook, patience: Patience, pod: Option<&str>) -> Self {
        let requests = SelfMetrics::new().notify_requests;
        let origin = Origin { pod: pod.map(str::to_owned), operator: None };
        let (notifier, delivering) =
            Notifier::with_patience(webhook, requests.clone(), origin, patience);
        Self { notifier, delivering, requests }
    }

    fn push(&self, numbers: std::ops::Range<u64>) {
        self.notifier.push(numbers.map(queued).collect(), &LeaderElection::default());
    }

    fn count(&self, result: SendResult) -> u64 {
        self.requests.get_or_create_owned(&ResultLabels { result }).get()
    }

    /// The counts of all results, in the order of [`RESULTS`].
    fn counts(&self) -> [u64; 5] {
        RESULTS.map(|result| self.count(result))
    }

    async fn wait_for(&self, counts: [u64; 5]) {
        eventually(|| self.counts() == counts).await;
    }

    async fn close(self) -> [u64; 5] {
        let requests = self.requests.clone();
        self.notifier.close(self.delivering).await;
        RESULTS.map(|result| requests.get_or_create_owned(&ResultLabels { result }).get())
    }
}

fn webhook(url: &str) -> Webhook {
    Webhook {
        url: webhook_url(url).expect("a URL"),
        token_file: None,
        ca_file: None,
        findings: Vec::new(),
    }
}

fn event(number: u64) -> ReferenceEvent {
    let name = |group: &str, kind: &str, namespace: &str, name: &str| ObjectName {
        group: group.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    ReferenceEvent {
        id: ReferenceEventId(number),
        at: Timestamp(1_767_225_600_000),
        change: ReferenceChange::Appeared,
        form: ReferenceForm::CrossNamespaceReference,
        source: name("example.io", "Widget", "team-a", "web"),
        path: "spec.tls[].secretRef".into(),
        target: name("", "Secret", "team-b", "ca"),
    }
}

fn queued(number: u64) -> Event {
    Event::Reference(Box::new(event(number)))
}

fn id(request: &(String, String)) -> String {
    let body: serde_json::Value = serde_json::from_str(&request.1).expect("JSON");
    body["id"].as_str().expect("an ID").to_owned()
}

#[tokio::test]
async fn an_event_is_a_documented_request() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(7..8);

    let (head, body) = receiver.received(1).await.remove(0);
    assert!(head.starts_with("post /health/crossns http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/json") && head.contains("user-agent: loopwatch/"),
        "{head}"
    );
    assert!(!head.contains("authorization"), "{head}");

    assert_eq!(parse(&body), parse(&example(0)), "docs/integrations.md shows this body");

    sender.wait_for([1, 0, 0, 0, 0]).await;
}

/// An opening of a finding, as `docs/integrations.md` shows it.
fn opening(code: FindingCode) -> FindingEvent {
    let subject = Subject::Object {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "team-a".to_owned(),
        name: "web".to_owned(),
    };
    let at = Timestamp(1_767_225_600_000);
    let finding = Finding {
        id: FindingId::of(code, &subject),
        code,
        subject,
        since: at.before(Span::mins(10)),
        found: at,
        severity: code.info().severity,
        confidence: Confidence::Confirmed,
        evidence: Evidence::new().text("reason", "owner_removed"),
        explained_by: None,
        alerts_from: None,
    };

    FindingEvent { at, change: Change::Opened, finding }
}

/// The body number `number` in `docs/integrations.md`.
fn example(number: usize) -> String {
    let page = include_str!("../../../../docs/integrations.md");
    let example = page.split("```json\n").nth(1 + number);
    example.and_then(|rest| rest.split("```").next()).expect("an example").to_owned()
}

fn parse(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn only_chosen_findings_are_sent_and_as_documented() {
    let receiver = FakeReceiver::start([]).await;
    let findings = vec!["Orphan".parse().expect("a name")];
    let sender = Sender::with(Webhook { findings, ..webhook(&receiver.url) }, SHORT, None);
    let orphan = opening(FindingCode::Orphan);
    let events = [opening(FindingCode::Overdue), orphan.clone()];
    let chosen = sender.notifier.choose(Vec::new(), &events);
    sender.notifier.push(chosen, &LeaderElection::default());
    sender.wait_for([1, 0, 0, 0, 0]).await;

    let id = orphan.finding.id.to_string();
    let text = example(1)
        .replace("FINDING", &id)
        .replace("SUMMARY", &orphan.finding.summary())
        .replace("ADVICE", orphan.finding.info().advice);
    let mut body = parse(&receiver.received(1).await.remove(0).1);
    let steps = body["finding"].as_object_mut().and_then(|finding| finding.remove("steps"));
    let steps = steps.as_ref().and_then(|steps| steps.as_array()).map(Vec::len);

    assert_eq!(body, parse(&text), "docs/integrations.md shows this body");
    assert_eq!(steps, Some(orphan.finding.steps().len()));
}

#[tokio::test]
async fn a_standby_sends_no_finding() {
    let receiver = FakeReceiver::start([]).await;
    let findings = vec!["all".parse().expect("a choice")];
    let webhook = Webhook { findings, ..webhook(&receiver.url) };
    let sender = Sender::with(webhook, SHORT, Some("widget-operator-7d9f8c6b5-x2x4v"));
    let lease =
        LeaseView { holder: "widget-operator-7d9f8c6b5-zzzzz".into(), ..LeaseView::default() };
    let election = LeaderElection { leases: vec![lease], ..LeaderElection::default() };
    let chosen = sender.notifier.choose(Vec::new(), &[opening(FindingCode::Orphan)]);
    sender.notifier.push(chosen, &election);

    assert_eq!(sender.close().await, [0, 0, 0, 0, 1]);
}

#[tokio::test]
async fn a_target_without_a_name_has_none() {
    let unnamed = ReferenceEvent {
        target: ObjectName { name: String::new(), ..event(1).target },
        ..event(1)
    };
    let body = String::from_utf8(
        Notification::of(&Event::Reference(Box::new(unnamed)), Some("ops/op")).to_json(),
    )
    .expect("text");

    assert!(
        body.contains(r#""target":{"group":"","kind":"Secret","namespace":"team-b"}"#),
        "{body}"
    );
    assert!(body.contains(r#""operator":"ops/op","#), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_events_arrive_in_order_and_without_a_wait() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(0..100);

    let requests = receiver.received(100).await;
    let expected: Vec<String> = (0..100).map(|number| format!("{number:016x}")).collect();

    assert_eq!(requests.iter().map(id).collect::<Vec<_>>(), expected);

    sender.wait_for([100, 0, 0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_repeated_with_the_same_id_and_in_order() {
    for reply in [
        Reply::status(500),
        Reply::Response(503, "content-type: text/html\r\n".into(), "<html>down</html>".into()),
        Reply::Response(429, "retry-after: 0\r\n".into(), String::new()),
        Reply::Close,
        Reply::Hang,
        Reply::TrickleHead,
    ] {
        let receiver = FakeReceiver::start([reply.clone()]).await;
        let sender = Sender::start(&receiver.url);
        sender.push(1..3);
        receiver.received(1).await;

        if matches!(reply, Reply::Hang | Reply::TrickleHead) {
            advance(SHORT.request).await;
        }

        sender.wait_for([0, 0, 1, 0, 0]).await;
        advance(FIRST_WAIT).await;

        let ids: Vec<String> = receiver.received(3).await.iter().map(id).collect();
        let expected = [1, 1, 2].map(|number| format!("{number:016x}"));

        assert_eq!(ids, expected, "{reply:?}");

        sender.wait_for([2, 0, 1, 0, 0]).await;
    }
}

#[tokio::test]
async fn refusals_are_final() {
    let elsewhere = FakeReceiver::start([]).await;
    for reply in [
        Reply::status(404),
        Reply::status(401),
        Reply::Response(400, "content-type: text/html\r\n".into(), "<html>bad</html>".into()),
        Reply::Response(307, format!("location: {}/\r\n", elsewhere.url), String::new()),
        Reply::Response(302, format!("location: {}/\r\n", elsewhere.url), String::new()),
    ] {
        let receiver = FakeReceiver::start([reply]).await;
        let sender = Sender::start(&receiver.url);
        sender.push(1..3);

        let ids: Vec<String> = receiver.received(2).await.iter().map(id).collect();
        assert_eq!(ids, [1, 2].map(|number| format!("{number:016x}")));

        sender.wait_for([1, 1, 0, 0, 0]).await;
    }

    assert!(elsewhere.requests.all().is_empty(), "no redirect is followed");
}

#[tokio::test]
async fn the_body_of_a_response_is_ignored() {
    let page = "<html>".repeat(100_000);
    for reply in
        [Reply::Response(200, "content-type: text/html\r\n".into(), page), Reply::TrickleBody]
    {
        let receiver = FakeReceiver::start([reply]).await;
        let sender = Sender::start(&receiver.url);
        sender.push(1..3);
        receiver.received(2).await;
        sender.wait_for([2, 0, 0, 0, 0]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_starts_later_gets_the_events() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("its address");
    drop(port);

    let sender = Sender::start(&format!("http://{address}"));
    sender.push(1..2);
    sender.wait_for([0, 0, 1, 0, 0]).await;

    let listener = tokio::net::TcpListener::bind(address).await.expect("the same port");
    advance(FIRST_WAIT).await;
    standing_still(listener.accept()).await.expect("a connection");
}

#[tokio::test]
async fn an_event_that_is_never_accepted_gives_way_to_the_next_one() {
    let receiver = FakeReceiver::start([Reply::status(500)]).await;
    let patience = Patience { event: Duration::from_millis(100), ..SHORT };
    let sender = Sender::with(webhook(&receiver.url), patience, None);
    sender.push(1..3);

    assert_eq!(
        receiver.received(2).await.iter().map(id).collect::<Vec<_>>()[1],
        format!("{:016x}", 2)
    );

    sender.wait_for([1, 0, 1, 1, 0]).await;
}

#[tokio::test]
async fn a_full_queue_drops_the_oldest_events() {
    let receiver = FakeReceiver::start([Reply::Hang]).await;
    let sender = Sender::with(
        webhook(&receiver.url),
        Patience { request: Duration::from_secs(60), ..SHORT },
        None,
    );

    sender.push(0..1);
    receiver.received(1).await;
    sender.push(1..1_006);

    assert_eq!(sender.count(SendResult::Dropped), 5);

    let queue = lock(&sender.notifier.0.queue);
    let first = queue.waiting.front().map(|waiting| &waiting.event);
    assert!(matches!(first, Some(Event::Reference(event)) if event.id == ReferenceEventId(6)));
}

#[tokio::test]
async fn only_the_leader_sends() {
    let receiver = FakeReceiver::start([]).await;
    let pod = Some("operator-7c9d5b8f6-x2x4z");
    let sender = Sender::with(webhook(&receiver.url), SHORT, pod);
    let held_by = |holder: &str| {
        let lease = LeaseView { holder: holder.to_owned(), ..LeaseView::default() };
        LeaderElection { leases: vec![lease], stands_by: false }
    };
    sender.notifier.push(vec![queued(1)], &held_by("operator-7c9d5b8f6-aaaaa_1"));
    sender.notifier.push(vec![queued(2)], &held_by("operator-7c9d5b8f6-x2x4z_1"));

    assert_eq!(
        receiver.received(1).await.iter().map(id).collect::<Vec<_>>(),
        [format!("{:016x}", 2)]
    );

    sender.wait_for([1, 0, 0, 0, 1]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_delivers_the_queue_but_does_not_wait_for_a_broken_receiver() {
    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(0..50);

    assert_eq!(standing_still(sender.close()).await, [50, 0, 0, 0, 0]);

    let receiver = FakeReceiver::start(vec![Reply::status(500); 100]).await;
    let sender = Sender::start(&receiver.url);
    sender.push(0..3);
    receiver.received(1).await;

    let [ok, _, failed, dropped, _] = standing_still(sender.close()).await;
    assert_eq!((ok, dropped), (0, 3), "one last attempt for each");
    assert!((3..=4).contains(&failed), "{failed}");

    let receiver = FakeReceiver::start(vec![Reply::Hang; 100]).await;
    let patience =
        Patience { request: Duration::from_secs(60), stop: Duration::from_millis(200), ..SHORT };
    let sender = Sender::with(webhook(&receiver.url), patience, None);

    sender.push(0..3);
    let began = Instant::now();

    assert_eq!(sender.close().await[3], 3, "all are counted");
    assert_eq!(began.elapsed(), patience.stop);
}

fn token_webhook(url: &str, file: &Path) -> Webhook {
    Webhook { token_file: Some(file.to_owned()), ..webhook(url) }
}

#[tokio::test]
async fn the_token_is_read_for_each_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").expect("written");

    let receiver = FakeReceiver::start([]).await;
    let sender = Sender::with(token_webhook(&receiver.url, &file), SHORT, None);
    sender.push(1..2);

    assert!(receiver.received(1).await[0].0.contains("authorization: bearer first\r\n"));

    std::fs::write(&file, "second").expect("written");
    sender.push(2..3);

    assert!(receiver.received(2).await[1].0.contains("authorization: bearer second"));
}

#[tokio::test]
async fn an_unusable_token_is_a_failure_that_does_not_quote_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = FakeReceiver::start([]).await;
    let pipe = folder.path().join("pipe");

    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());

    let mut files =
        vec![(pipe, "not a regular file"), (folder.path().join("missing"), "No such file")];
    for (name, content) in [
        ("empty", "\n"),
        ("lines", "S3CRET\nS3CRET"),
        ("odd", "S3CRET\u{1}"),
        ("umlaut", "S3CRETä"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, content).expect("written");
        files.push((file, "contains no valid token"));
    }

    files.push(("S3CRET".into(), "may be the token): No such file"));
    for (file, expected) in files {
        let mut client = token_webhook(&receiver.url, &file).poster(SHORT.request);
        let Delivery::Failed { problem, .. } = client.post(b"{}").await else {
            panic!("{}", file.display())
        };

        assert!(problem.contains(expected) && !problem.contains("S3CRET"), "{problem}");
    }

    assert!(receiver.requests.all().is_empty());
}

#[tokio::test]
async fn problems_of_a_connection_are_named() {
    let plain = FakeReceiver::start([]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca");
    std::fs::write(&file, "S3CRET").expect("written");

    let https = plain.url.replace("http:", "https:");
    let no_ca = Webhook { ca_file: Some(file), ..webhook(&https) };
    for (webhook, expected) in [
        (webhook("http://127.0.0.1:1"), "Connection refused"),
        (webhook(&https), ""),
        (no_ca, "contains no valid certificate in PEM"),
    ] {
        let mut client = webhook.clone().poster(Duration::from_secs(20));
        let Delivery::Failed { problem, .. } = client.post(b"{}").await else {
            panic!("{webhook:?}")
        };

        assert!(
            problem.contains(expected) && !problem.is_empty() && !problem.contains("S3CRET"),
            "{problem}"
        );
        assert!(!problem.contains('\n'), "{problem}");
    }
}

#[tokio::test]
async fn a_token_that_goes_to_another_host_in_the_clear_is_one_warning() {
    let log = Captured::start();
    for url in ["https://198.51.100.1", "http://localhost:1", "http://[::1]:1"] {
        drop(Sender::with(token_webhook(url, Path::new("/token")), SHORT, None));
    }

    drop(Sender::start("http://198.51.100.1"));
    assert_eq!(log.warnings(), [""; 0]);

    drop(Sender::with(token_webhook("http://198.51.100.1", Path::new("/token")), SHORT, None));
    let warnings = log.warnings();

    assert!(
        warnings.len() == 1
            && warnings[0].contains("--notify-token-file: requests to http://198.51.100.1 are not")
    );
}
