//! A stand-in over plain HTTP, for programs: it serves any number of generated objects of any size,
//! and can lack what a real API server has. Its account may do everything with its own kinds and
//! nothing else.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::world::{ServedKind, World, page_of};
use crate::kube::RUNTIME;

/// What the stand-in serves, and how.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Number of kinds: `Kind0`, `Kind1` and so on, all in the group [`GROUP`].
    pub kinds: usize,
    /// Number of objects of each kind.
    pub objects: usize,
    /// Size of each object, in bytes.
    pub bytes: usize,
    /// The response to a request for a streamed list.
    pub streamed: StreamedLists,
    /// Changes per second of the objects of each kind, on open watches.
    pub changes: u32,
    /// The number of objects of each kind, the last ones, that a tenant has filled with as many and
    /// as long names as loopwatch reads.
    pub fat: usize,
}

/// The response to a request for a streamed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamedLists {
    /// As from version 1.32 on.
    Supported,
    /// As before version 1.32: status 422.
    Refused,
    /// As behind a proxy that drops the parameters: a plain watch, which begins with all objects
    /// and never says so.
    Ignored,
}

/// A running stand-in.
pub struct Standin {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    traits: Traits,
    /// The kinds and the permissions.
    world: World,
    /// Method, path and query of every request.
    requests: Mutex<Vec<String>>,
    /// Events sent so far.
    events: AtomicU64,
    /// The longest time by which an event was late because the client did not read, in
    /// milliseconds.
    late_ms: AtomicU64,
}

/// A request, as far as the stand-in reads it.
struct Asked {
    path: String,
    query: String,
    body: Value,
}

/// The group of all kinds.
pub const GROUP: &str = "standin.loopwatch.dev";
/// A part of a spec, with as many values per byte as usual.
const FILL: &str =
    "{\"name\":\"one\",\"value\":\"some text\",\"enabled\":true,\"ports\":[80,443]},";
/// Buffer of a connection: that of an API server on a busy node.
const SEND_BUFFER: u32 = 256 << 10;
/// The resource version of all lists.
const VERSION: u64 = 1_000_000;
/// Interval between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

impl Default for Traits {
    fn default() -> Self {
        Self {
            kinds: 1,
            objects: 10,
            bytes: 1_000,
            streamed: StreamedLists::Supported,
            changes: 0,
            fat: 0,
        }
    }
}

impl Traits {
    fn world(&self) -> World {
        let name = |text: String| -> &'static str { text.leak() };
        let kinds: Vec<ServedKind> = (0..self.kinds)
            .map(|number| {
                let (kind, resource) = (format!("Kind{number}"), format!("kind{number}s"));
                (GROUP, "v1", name(kind), name(resource), true, true)
            })
            .collect();

        let resources: Vec<&str> = kinds.iter().map(|kind| kind.3).collect();
        let statuses: Vec<String> = resources.iter().map(|name| format!("{name}/status")).collect();
        let statuses: Vec<&str> = statuses.iter().map(String::as_str).collect();

        World::new(&kinds).allow("", &["get", "list", "watch"], GROUP, &resources).allow(
            "",
            &["update"],
            GROUP,
            &statuses,
        )
    }
}

impl Standin {
    /// Starts a stand-in.
    pub fn start(traits: Traits) -> Self {
        let shared = Arc::new(Shared {
            world: traits.world(),
            traits,
            requests: Mutex::default(),
            events: AtomicU64::new(0),
            late_ms: AtomicU64::new(0),
        });

        let listener = RUNTIME.block_on(async { listen() });
        let port = listener.local_addr().expect("our own port").port();
        let serving = shared.clone();
        RUNTIME.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                // The client may end the connection at any time.
                RUNTIME.spawn(async move { _ = serve(stream, &shared).await });
            }
        });

        Self { port, shared }
    }

    /// Turns a command of the program into `loopwatch run` against this API server. Its kubeconfig
    /// is in `folder`, which is its home, too.
    pub fn run_beside<'a>(&self, command: &'a mut Command, folder: &Path) -> &'a mut Command {
        let file = folder.join("kubeconfig");
        std::fs::write(&file, self.kubeconfig().to_string())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        command
            .arg("run")
            .arg(format!("--kubeconfig={}", file.display()))
            .env("HOME", folder)
            .env_remove("KUBECONFIG")
    }

    fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "standin",
            "clusters": [{"name": "standin", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "users": [{"name": "user", "user": {}}],
            "contexts": [{"name": "standin", "context": {"cluster": "standin", "user": "user"}}],
        })
    }

    /// Returns how many requests so far contain all of these words.
    pub fn asked(&self, words: &[&str]) -> usize {
        self.requests()
            .iter()
            .filter(|request| words.iter().all(|word| request.contains(word)))
            .count()
    }

    /// Returns the method, the path and the query of every request so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of events sent so far.
    pub fn events(&self) -> u64 {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the longest time by which an event was late because the client did not read.
    pub fn late(&self) -> Duration {
        Duration::from_millis(self.shared.late_ms.load(Ordering::Relaxed))
    }
}

fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(SEND_BUFFER).expect("a buffer");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    socket.listen(1024).expect("a free port")
}

fn not_found() -> (u16, Value) {
    (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}))
}

/// Serves one connection.
async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);

    while let Some((method, asked)) = read(&mut input).await? {
        let line = format!("{method} {}?{}", asked.path, asked.query);
        shared.requests.lock().unwrap_or_else(PoisonError::into_inner).push(line);

        let words: Vec<&str> = asked.path.trim_matches('/').split('/').collect();
        match words[..] {
            ["apis", GROUP, "v1", _] if refuses_watch(&shared.traits, &asked) => {
                respond(&mut output, 422, &watch_refusal()).await?;
            }
            ["apis", GROUP, "v1", resource] if asked.has("watch=true") => {
                return watch(&mut output, shared, resource, &asked).await;
            }
            ["apis", GROUP, "v1", resource] => list(&mut output, shared, resource, &asked).await?,
            _ => {
                let (status, answer) =
                    shared.world.document(&asked.path, &asked.body).unwrap_or_else(not_found);
                respond(&mut output, status, &answer).await?;
            }
        }
    }

    Ok(())
}

async fn read(
    input: &mut BufReader<tokio::net::tcp::OwnedReadHalf>,
) -> std::io::Result<Option<(String, Asked)>> {
    let (mut first, mut length) = (String::new(), 0);
    if input.read_line(&mut first).await? == 0 {
        return Ok(None);
    }

    loop {
        let mut header = String::new();
        input.read_line(&mut header).await?;
        if let Some((name, value)) = header.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        } else {
            break;
        }
    }

    let mut body = vec![0; length];
    input.read_exact(&mut body).await?;

    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let body = serde_json::from_slice(&body).unwrap_or_default();

    Ok(Some((method.to_owned(), Asked { path: path.to_owned(), query: query.to_owned(), body })))
}

/// Lists objects in pages.
async fn list(
    output: &mut OwnedWriteHalf,
    shared: &Shared,
    resource: &str,
    asked: &Asked,
) -> std::io::Result<()> {
    let traits = &shared.traits;
    let (range, metadata) = page_of(traits.objects, &asked.query, VERSION);
    let from = range.start;

    begin(output).await?;
    chunk(output, format!("{{\"kind\":\"List\",\"metadata\":{metadata},\"items\":[").as_bytes())
        .await?;
    for index in range {
        let comma = if index > from { "," } else { "" };
        chunk(output, format!("{comma}{}", object(traits, resource, index, 1)).as_bytes()).await?;
    }

    chunk(output, b"]}").await?;
    output.write_all(b"0\r\n\r\n").await
}

fn refuses_watch(traits: &Traits, asked: &Asked) -> bool {
    traits.streamed == StreamedLists::Refused
        && asked.has("watch=true")
        && asked.has("sendInitialEvents=true")
}

fn watch_refusal() -> Value {
    json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"})
}

/// Watches objects: begins with a list if asked for one, and then changes them.
async fn watch(
    output: &mut OwnedWriteHalf,
    shared: &Shared,
    resource: &str,
    asked: &Asked,
) -> std::io::Result<()> {
    let traits = &shared.traits;
    let lists = asked.has("sendInitialEvents=true");
    begin(output).await?;

    if lists {
        for index in 0..traits.objects {
            event(output, "ADDED", &object(traits, resource, index, 1)).await?;
        }
        if traits.streamed == StreamedLists::Supported {
            bookmark(output, VERSION, true).await?;
        }
    }

    if traits.changes == 0 {
        loop {
            tokio::time::sleep(BOOKMARK_EVERY).await;
            bookmark(output, VERSION, false).await?;
        }
    }

    change(output, shared, resource).await
}

/// Changes one object after the other, at a steady rate.
async fn change(
    output: &mut OwnedWriteHalf,
    shared: &Shared,
    resource: &str,
) -> std::io::Result<()> {
    let traits = &shared.traits;
    let (began, mut sent) = (Instant::now(), 0_u64);
    loop {
        // Sends what is due, in steps of a few milliseconds.
        let due = (began.elapsed().as_secs_f64() * f64::from(traits.changes)) as u64;
        while sent < due {
            let index = usize::try_from(sent).unwrap_or(0) % traits.objects;
            event(output, "MODIFIED", &object(traits, resource, index, 2 + sent)).await?;
            sent += 1;
            shared.events.fetch_add(1, Ordering::Relaxed);

            let at = Duration::from_secs_f64(sent as f64 / f64::from(traits.changes));
            let late =
                u64::try_from(began.elapsed().saturating_sub(at).as_millis()).unwrap_or(u64::MAX);
            shared.late_ms.fetch_max(late, Ordering::Relaxed);
        }

        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// An object as JSON, of the size that the traits demand.
fn object(traits: &Traits, resource: &str, index: usize, generation: u64) -> String {
    if index >= traits.objects - traits.fat {
        return fat_object(resource, index, generation);
    }

    let version = VERSION + generation;
    let rest = format!(
        "{{\"apiVersion\":\"{GROUP}/v1\",\"metadata\":{{\"name\":\"object-{index}\",\"namespace\":\"default\",\
         \"uid\":\"{resource}-{index}\",\"resourceVersion\":\"{version}\",\"generation\":{generation},\
         \"creationTimestamp\":\"2026-01-01T00:00:00Z\"}},\"status\":{{\"observedGeneration\":{generation},\
         \"conditions\":[{{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Done\",\
         \"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}}]}},\"spec\":{{\"fill\":[]}}}}"
    );

    let missing = traits.bytes.saturating_sub(rest.len()) / FILL.len();
    rest.replace("\"fill\":[]", &format!("\"fill\":[{}0]", FILL.repeat(missing)))
}

/// An object of a tenant who wants to use up the memory of whoever reads it. Each second one is
/// being deleted.
fn fat_object(resource: &str, index: usize, generation: u64) -> String {
    let long = |what: &str, number: usize| format!("{:x<250}", format!("{what}-{index}-{number}"));
    let names = |what: &str| (0..64).map(|number| long(what, number)).collect::<Vec<String>>();
    let owners: Vec<Value> = (0..64)
        .map(|n| {
            json!({"apiVersion": format!("{}/v1", long("g", n)), "kind": long("k", n), "name": long("n", n),
                "uid": long("u", n)})
        })
        .collect();
    let conditions: Vec<Value> = (0..64)
        .map(|n| {
            json!({"type": long("c", n), "status": "False", "reason": "r".repeat(128),
                "message": format!("{index} {}", "m".repeat(240))})
        })
        .collect();
    let references: serde_json::Map<String, Value> =
        (0..32).map(|n| (format!("a{n}"), json!({"secretName": long("s", n)}))).collect();

    let mut metadata = json!({"name": format!("fat-{index}"), "namespace": "tenant", "uid": format!("{resource}-{index}"),
        "resourceVersion": (VERSION + generation).to_string(), "generation": generation,
        "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": names("f"), "ownerReferences": owners});
    if index.is_multiple_of(2) {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }

    json!({"apiVersion": format!("{GROUP}/v1"), "metadata": metadata, "spec": references,
        "status": {"observedGeneration": generation, "conditions": conditions}})
    .to_string()
}

async fn event(output: &mut OwnedWriteHalf, kind: &str, object: &str) -> std::io::Result<()> {
    chunk(output, format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").as_bytes()).await
}

async fn bookmark(
    output: &mut OwnedWriteHalf,
    version: u64,
    ends_list: bool,
) -> std::io::Result<()> {
    let annotations =
        if ends_list { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    event(output, "BOOKMARK", &json!({"metadata": metadata}).to_string()).await
}

async fn begin(output: &mut OwnedWriteHalf) -> std::io::Result<()> {
    output.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").await
}

async fn chunk(output: &mut OwnedWriteHalf, bytes: &[u8]) -> std::io::Result<()> {
    let head = format!("{:x}\r\n", bytes.len());
    output.write_all(&[head.as_bytes(), bytes, b"\r\n"].concat()).await
}

async fn respond(output: &mut OwnedWriteHalf, status: u16, answer: &Value) -> std::io::Result<()> {
    let body = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );

    output.write_all(format!("{head}{body}").as_bytes()).await
}

impl Asked {
    fn has(&self, pair: &str) -> bool {
        self.query.split('&').any(|part| part == pair)
    }
}
