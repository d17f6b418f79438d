//! Tests of comparisons against servers that behave well and badly.

use std::convert::Infallible;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use loopwatch_model::observation::Observation;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::sources::feed::{Observations, ServerClock};

const HEAP: [&[u8]; 2] = [
    include_bytes!("../../../../tests/profiles/heap-1.pb.gz"),
    include_bytes!("../../../../tests/profiles/heap-2.pb.gz"),
];
const GOROUTINES: [&[u8]; 2] = [
    include_bytes!("../../../../tests/profiles/goroutines-1.pb.gz"),
    include_bytes!("../../../../tests/profiles/goroutines-2.pb.gz"),
];

const INSTANCE: &str = "team-a/operator-7f9c";

/// The Pod of that instance.
fn own() -> OwnPod {
    OwnPod { namespace: "team-a".to_owned(), name: "operator-7f9c".to_owned(), ..OwnPod::default() }
}

/// A response.
#[derive(Clone, Copy)]
enum Says {
    /// 200 with this body.
    Profile(&'static [u8]),
    /// A status with a body of text.
    Status(&'static str, &'static str),
    /// 200, and half of the body.
    Half(&'static [u8]),
    /// 200, the body, and then zeros without end.
    Endless(&'static [u8]),
    /// No response.
    Hangs,
    /// 200, the body, and then nothing on an open connection.
    Stalls(&'static [u8]),
}

/// A server of the test. It gives the replies in order, and the last one again.
struct Server {
    url: String,
    requests: Requests,
    /// The number of clients that have closed their connection.
    served: Arc<AtomicUsize>,
    _task: JoinHandle<Infallible>,
}

/// The first lines of all requests.
type Requests = Arc<StdMutex<Vec<String>>>;

/// A running source.
struct Run {
    probes: mpsc::Sender<Probe>,
    observations: Observations,
    _task: JoinHandle<()>,
}

impl Server {
    async fn start(replies: &'static [Says]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Requests::default();
        let (noted, served, next) =
            (requests.clone(), Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let closed = served.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let says = replies[next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1)];
                let (noted, closed) = (noted.clone(), closed.clone());
                tokio::spawn(async move {
                    serve(stream, says, noted).await;
                    closed.fetch_add(1, Ordering::Relaxed);
                });
            }
        });

        Self { url, requests, served, _task: task }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn serve(mut stream: TcpStream, says: Says, noted: Requests) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }

    let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
    noted.lock().expect("no panic").push(line);

    let ok =
        |length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    let response = match says {
        Says::Profile(body) => [ok(body.len()), body.to_vec()].concat(),
        Says::Status(status, body) => {
            let length = body.len();
            format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\n\r\n{body}")
                .into_bytes()
        }
        Says::Half(body) => [ok(body.len()), body[..body.len() / 2].to_vec()].concat(),
        Says::Endless(body) | Says::Stalls(body) => {
            [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), body.to_vec()].concat()
        }
        Says::Hangs => Vec::new(),
    };

    if stream.write_all(&response).await.is_err() {
        return;
    }

    match says {
        Says::Endless(_) => while stream.write_all(&[0; 1 << 16]).await.is_ok() {},
        Says::Hangs | Says::Stalls(_) => std::future::pending().await,
        Says::Half(_) => {}
        Says::Profile(_) | Says::Status(..) => _ = stream.read(&mut [0]).await,
    }
}

impl Run {
    fn start(options: ProfileOptions, own: Option<OwnPod>, metrics: &MetricsAddresses) -> Self {
        let profiler = Profiler::new(options, own, metrics.clone());
        let (feed, observations) = Feed::new(100, ServerClock::new());
        let (probes, asked) = mpsc::channel(10);
        let task =
            tokio::spawn(answer_profiles(profiler, feed, Arc::new(Mutex::new(asked)), false));

        Self { probes, observations, _task: task }
    }

    /// A source for the server, with the shortest possible waits.
    fn of(server: &Server, dir: Option<PathBuf>) -> Self {
        let wait = Some(Duration::from_millis(1));
        let options = ProfileOptions { url: server.url.parse().ok(), dir, wait, off: false };
        Self::start(options, None, &MetricsAddresses::default())
    }

    async fn ask(&self, kind: ProfileKind) {
        self.probes.send(probe(kind)).await.expect("the source runs");
    }

    async fn next(&mut self) -> Observation {
        let mut batch = Vec::new();
        self.observations.recv_many(&mut batch, 1).await;
        batch.pop().expect("an observation").1
    }

    /// Asks and returns the answer.
    async fn answer(&mut self, kind: ProfileKind) -> Answer {
        self.ask(kind).await;
        match self.next().await {
            Observation::Answered { probe, answer } if probe == self::probe(kind) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn is_silent(&mut self) -> bool {
        self.observations.try_recv().is_none()
    }
}

fn probe(kind: ProfileKind) -> Probe {
    Probe::Profile { instance: INSTANCE.to_owned(), kind }
}

fn profiled(answer: Answer) -> ProfileView {
    match answer {
        Answer::Profiled(view) => *view,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn two_heap_profiles_are_compared_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[1])]).await;
    let mut run = Run::of(&server, Some(folder.path().to_owned()));
    let view = profiled(run.answer(ProfileKind::Heap).await);

    assert_eq!((view.instance.as_str(), view.kind), (INSTANCE, ProfileKind::Heap));
    assert!(view.from < view.to && view.stacks[0].functions[0] == "main.remember", "{view:?}");
    assert_eq!(server.requests(), ["GET /debug/pprof/heap HTTP/1.1"; 2]);

    let store = ProfileStore::new(Some(folder.path()));
    let kept = store.list().expect("readable");

    assert_eq!((kept.len(), &kept[0].name, &kept[1].name), (2, &view.file, &view.first_file));
    assert_eq!(store.read(&kept[0].name).expect("readable").as_deref(), Some(HEAP[1]));
    assert_eq!(store.read(&kept[1].name).expect("readable").as_deref(), Some(HEAP[0]));
    assert!(run.is_silent());
}

#[tokio::test]
async fn goroutines_are_compared_without_a_directory() {
    let server = Server::start(&[Says::Profile(GOROUTINES[0]), Says::Profile(GOROUTINES[1])]).await;
    let view = profiled(Run::of(&server, None).answer(ProfileKind::Goroutines).await);

    assert_eq!((view.stacks[0].growth, view.file.as_str()), (200, ""));
    assert_eq!(server.requests(), ["GET /debug/pprof/goroutine HTTP/1.1"; 2]);
}

#[tokio::test]
async fn a_healthy_operator_has_no_growing_stack() {
    let server = Server::start(&[Says::Profile(HEAP[1])]).await;
    let view = profiled(Run::of(&server, None).answer(ProfileKind::Heap).await);

    assert_eq!(view.stacks, []);
}

#[tokio::test]
async fn an_unwritable_directory_does_not_prevent_a_comparison() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("file");
    std::fs::write(&dir, "").expect("written");

    let server = Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[1])]).await;
    let view = profiled(Run::of(&server, Some(dir)).answer(ProfileKind::Heap).await);

    assert_eq!((view.stacks.len(), view.file.as_str()), (1, ""));
}

#[tokio::test]
async fn an_operator_without_pprof_switches_the_source_off_and_is_no_error() {
    for (replies, reason) in [
        (&[Says::Status("404 Not Found", "404 page not found")][..], "HTTP 404"),
        (&[Says::Status("302 Found", "")], "HTTP 302"),
        (&[Says::Status("200 OK", "<html>")], "responds with text"),
        (&[Says::Profile(b"hello")], "not a profile"),
        (&[Says::Profile(b"")], "not a profile"),
        (&[Says::Endless(b"hello")], "not a profile"),
    ] {
        let server = Server::start(replies).await;
        let mut run = Run::of(&server, None);

        assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Absent, "{reason}");

        let Observation::SourceOff { source: SourceId::Profiles, reason: said } = run.next().await
        else {
            panic!("{reason}: not off")
        };

        assert!(
            said.starts_with("the operator serves no pprof at http://127") && said.contains(reason),
            "{said}"
        );
        assert_eq!(run.answer(ProfileKind::Goroutines).await, Answer::Absent);
        assert!(run.is_silent(), "reported once");
    }
}

#[tokio::test]
async fn a_refusal_shows_nothing_about_pprof() {
    for (replies, cause) in [
        (&[Says::Status("403 Forbidden", "")][..], Cause::Forbidden),
        (&[Says::Status("401 Unauthorized", "")], Cause::Unauthorized),
        (&[Says::Status("429 Too Many Requests", "")], Cause::Throttled),
        (&[Says::Status("503 Service Unavailable", "")], Cause::ServerError),
        (&[Says::Half(HEAP[0])], Cause::Connection),
        (&[Says::Profile(HEAP[0]), Says::Status("404 Not Found", "")], Cause::NotFound),
        (&[Says::Profile(HEAP[1]), Says::Profile(HEAP[0])], Cause::Other),
        (&[Says::Profile(GOROUTINES[0])], Cause::Undecodable),
        (&[Says::Profile(&[0x1f, 0x8b, 1, 2, 3])], Cause::Undecodable),
        (&[Says::Endless(HEAP[0])], Cause::TooLarge),
    ] {
        let server = Server::start(replies).await;
        let mut run = Run::of(&server, None);

        assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Failed(cause));
        assert!(run.is_silent(), "{cause}: no failure of the source");
    }
}

#[tokio::test]
async fn an_operator_that_is_not_there_is_no_operator_without_pprof() {
    let server = Server::start(&[Says::Hangs]).await;
    let url = server.url.clone();
    server._task.abort();
    while TcpStream::connect(&url["http://".len()..]).await.is_ok() {}
    let mut run = Run::of(&server, None);

    assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Failed(Cause::Refused));
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for replies in [&[Says::Hangs][..], &[Says::Stalls(HEAP[0])], &[Says::Stalls(b"")]] {
        let server = Server::start(replies).await;
        let mut run = Run::of(&server, None);
        run.ask(ProfileKind::Heap).await;

        // The request must arrive in real time before the virtual time passes.
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }

        tokio::time::pause();
        assert!(matches!(
            run.next().await,
            Observation::Answered { answer: Answer::Failed(Cause::Timeout), .. }
        ));

        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_comparison_leaves_room_for_other_tasks() {
    let server = Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[1])]).await;
    let mut run = Run::of(&server, None);
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = ticks.clone();
    let ticking = tokio::spawn(async move {
        loop {
            tokio::task::yield_now().await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });

    profiled(run.answer(ProfileKind::Heap).await);
    assert!(ticks.load(Ordering::Relaxed) > 0);

    ticking.abort();
}

#[tokio::test]
async fn comparisons_of_a_kind_are_rare() {
    let server = Server::start(&[Says::Profile(HEAP[1])]).await;
    let mut run = Run::of(&server, None);
    profiled(run.answer(ProfileKind::Heap).await);

    assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Failed(Cause::Throttled));
    assert_eq!(server.requests().len(), 2);
    assert_eq!(
        run.answer(ProfileKind::Goroutines).await,
        Answer::Failed(Cause::Undecodable),
        "the other kind may"
    );

    tokio::time::pause();
    tokio::time::advance(REST - Duration::from_secs(10)).await;

    assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Failed(Cause::Throttled));

    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    profiled(run.answer(ProfileKind::Heap).await);
}

#[tokio::test]
async fn a_failure_may_be_repeated_earlier() {
    let mut schedule = ComparisonSchedule::default();
    tokio::time::pause();

    assert_eq!(schedule.admit("a", ProfileKind::Heap), Ok(true));
    assert_eq!(schedule.admit("a", ProfileKind::Heap), Ok(false), "it will answer");
    assert_eq!(schedule.admit("b", ProfileKind::Heap), Err(Cause::Throttled));
    assert_eq!(schedule.admit("b", ProfileKind::Goroutines), Ok(true), "only fetches take turns");

    schedule.ended(ProfileKind::Heap, false);
    assert_eq!(schedule.admit("a", ProfileKind::Heap), Err(Cause::Throttled));

    tokio::time::advance(REST_AFTER_FAILURE).await;
    assert_eq!(schedule.admit("a", ProfileKind::Heap), Ok(true));
}

#[tokio::test]
async fn a_slow_leak_gets_more_time() {
    // Without a collection, the second profile equals the first.
    let server =
        Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[0]), Says::Profile(HEAP[1])])
            .await;
    let options = ProfileOptions { url: server.url.parse().ok(), ..ProfileOptions::default() };
    let mut run = Run::start(options, None, &MetricsAddresses::default());

    run.ask(ProfileKind::Heap).await;
    for (times, wait) in [(1, 60), (2, 240)] {
        // The request needs real time, and only the wait after it is virtual.
        while server.served.load(Ordering::Relaxed) < times {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }

        pass(wait - 10).await;
        assert_eq!(server.requests().len(), times, "too early");

        pass(10).await;
    }

    let Observation::Answered { answer, .. } = run.next().await else { panic!("no answer") };
    assert_eq!(profiled(answer).stacks[0].functions[0], "main.remember");
    assert_eq!(server.requests().len(), 3);
}

/// Lets virtual time pass, and then gives real time to the tasks.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test]
async fn without_profiles_every_answer_is_that_there_are_none() {
    let server = Server::start(&[Says::Profile(HEAP[0])]).await;
    let options =
        ProfileOptions { off: true, url: server.url.parse().ok(), ..ProfileOptions::default() };
    let mut run = Run::start(options, Some(own()), &MetricsAddresses::default());
    let off = Observation::SourceOff { source: SourceId::Profiles, reason: OFF.to_owned() };

    assert_eq!(run.next().await, off);
    assert_eq!(run.answer(ProfileKind::Heap).await, Answer::Absent);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn only_programs_of_the_own_pod_are_asked() {
    let metrics = MetricsAddresses::default();
    let elsewhere = "198.51.100.1:8080".parse().expect("an address");
    metrics.write().expect("no panic").insert("team-a/other".to_owned(), elsewhere);

    let server = Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[1])]).await;
    let local = server.url["http://".len()..].parse().expect("an address");
    metrics.write().expect("no panic").insert("team-a/with-metrics".to_owned(), local);

    let profiler = Profiler::new(ProfileOptions::default(), Some(own()), metrics);
    let last = |instance: &str| -> Result<String, String> {
        match profiler.endpoints(instance) {
            Ok(endpoints) => Ok(endpoints.last().expect("an endpoint").to_string()),
            Err(NoComparison::NoPprof(reason)) => Err(reason),
            Err(other) => panic!("{other:?}"),
        }
    };

    assert_eq!(last(INSTANCE), Ok("http://[::1]:8081/debug/pprof".to_owned()));
    assert_eq!(last("team-a/with-metrics"), Ok(format!("{}/debug/pprof", server.url)));
    assert_eq!(last("127.0.0.1:9090"), Ok("http://127.0.0.1:9090/debug/pprof".to_owned()));

    for instance in ["team-a/other", "team-a/unknown", "198.51.100.1:8080"] {
        assert!(
            last(instance).is_err_and(|reason| reason.contains("only from its own Pod")),
            "{instance}"
        );
    }

    let options = ProfileOptions {
        url: "http://198.51.100.1:6060".parse().ok(),
        ..ProfileOptions::default()
    };
    let profiler = Profiler::new(options, Some(own()), MetricsAddresses::default());

    assert!(
        matches!(profiler.endpoints(INSTANCE), Err(NoComparison::NoPprof(reason)) if reason.contains("198.51.100.1"))
    );
}

#[tokio::test]
async fn pprof_beside_the_metrics_is_found() {
    let server = Server::start(&[Says::Profile(HEAP[0]), Says::Profile(HEAP[1])]).await;
    let metrics = MetricsAddresses::default();
    let local = server.url["http://".len()..].parse().expect("an address");
    metrics.write().expect("no panic").insert(INSTANCE.to_owned(), local);

    let options =
        ProfileOptions { wait: Some(Duration::from_millis(1)), ..ProfileOptions::default() };
    let mut run = Run::start(options, Some(own()), &metrics);

    assert_eq!(profiled(run.answer(ProfileKind::Heap).await).stacks.len(), 1);
}

#[test]
fn on_the_network_of_a_node_only_the_port_of_the_metrics_is_tried() {
    let tried = |own: OwnPod| -> Vec<String> {
        let metrics = MetricsAddresses::default();
        let address = "127.0.0.1:8443".parse().expect("an address");
        metrics.write().expect("no panic").insert(INSTANCE.to_owned(), address);

        let endpoints =
            Profiler::new(ProfileOptions::default(), Some(own), metrics).endpoints(INSTANCE);
        endpoints
            .expect("an endpoint")
            .iter()
            .map(|endpoint| endpoint.address.to_string())
            .collect()
    };

    assert_eq!(
        tried(own()).len(),
        7,
        "the usual ports on both addresses of loopback, and the metrics"
    );

    let on_node = OwnPod { host_network: true, ..own() };
    let blind =
        Profiler::new(ProfileOptions::default(), Some(on_node), MetricsAddresses::default());

    assert!(
        matches!(blind.endpoints(INSTANCE), Err(NoComparison::NoPprof(reason)) if reason.contains("network of its node"))
    );
    assert_eq!(
        tried(OwnPod { host_network: true, ..own() }),
        ["127.0.0.1:8443"],
        "other ports may be of any program"
    );
}
