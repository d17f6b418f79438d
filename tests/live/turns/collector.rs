//! A collector that behaves as a test asks, and keeps each root that arrives, however often.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwatch_testbed::wait::pause;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

/// A collector.
pub(crate) struct Collector {
    /// Its port.
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    requests: usize,
    roots: Vec<Root>,
}

/// A root that has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// The name of the object.
    pub(crate) object: String,
    /// The service that sent it.
    pub(crate) service: String,
}

/// How the collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// 200.
    Fine,
    /// 200, after [`SLOW`].
    Slow,
    /// Nothing.
    Hanging,
    /// Closes each connection.
    Away,
    /// 500 with a web page.
    Broken,
    /// 200 with a web page.
    WebPage,
    /// 429, with `Retry-After`.
    Busy,
}

/// The time that a slow collector takes to answer.
pub(crate) const SLOW: Duration = Duration::from_millis(1_500);

impl Mood {
    pub(crate) const ALL: [Self; 7] = [
        Self::Fine,
        Self::Slow,
        Self::Hanging,
        Self::Away,
        Self::Broken,
        Self::WebPage,
        Self::Busy,
    ];

    /// Whether the collector refuses spans for good, so that loopwatch gives up on them.
    pub(crate) const fn refuses(self) -> bool {
        matches!(self, Self::Broken | Self::WebPage)
    }

    const fn answer(self) -> &'static str {
        match self {
            Self::Fine | Self::Slow | Self::Hanging | Self::Away => {
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
            }
            Self::Broken => {
                "HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"
            }
            Self::WebPage => {
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>"
            }
            Self::Busy => {
                "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n"
            }
        }
    }
}

impl Collector {
    pub(crate) fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("our own port").port();
        let state = Arc::new(Mutex::new(State { mood, requests: 0, roots: Vec::new() }));
        let shared = state.clone();

        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });

        Self { port, state }
    }

    pub(crate) fn be(&self, mood: Mood) {
        locked(&self.state).mood = mood;
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        locked(&self.state).requests
    }

    /// Returns the roots that it has accepted, in their order.
    pub(crate) fn roots(&self) -> Vec<Root> {
        locked(&self.state).roots.clone()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    while let Some(body) = read(&mut stream) {
        let mood = {
            let mut state = locked(state);
            state.requests += 1;
            state.mood
        };
        match mood {
            Mood::Slow => pause(SLOW),
            Mood::Hanging => pause(Duration::from_secs(5)),
            _ => {}
        }

        if mood == Mood::Away {
            return;
        }

        if matches!(mood, Mood::Fine | Mood::Slow) {
            locked(state).roots.extend(roots(&body));
        }

        if mood == Mood::Hanging || stream.write_all(mood.answer().as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads the body of the next request.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }

    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())?;
    let mut body = vec![0; length];

    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn roots(body: &[u8]) -> Vec<Root> {
    let request = ExportTraceServiceRequest::decode(body).expect("a request of OTLP");
    let mut roots = Vec::new();
    for of_resource in request.resource_spans {
        let service = of_resource
            .resource
            .as_ref()
            .map(|of| text(&of.attributes, "service.name"))
            .unwrap_or_default();
        let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);

        roots.extend(spans.filter(|span| span.parent_span_id.is_empty()).map(|span| Root {
            object: text(&span.attributes, "k8s.object.name"),
            service: service.clone(),
        }));
    }

    roots
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes
        .iter()
        .find(|attribute| attribute.key == key)
        .and_then(|found| found.value.clone()?.value);
    match value {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
