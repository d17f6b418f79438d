//! An API server for tests, with scripted responses in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use kube::client::Body;
use loopwatch_model::observation::Observation;
use loopwatch_model::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::feed::{Clock, ServerClock};
use crate::sources::api_server::Cluster;

pub(crate) mod tls;
pub(crate) mod world;

type Broken = Box<dyn std::error::Error + Send + Sync>;
type FakeResponse = Response<UnsyncBoxBody<Bytes, Broken>>;

/// The response to one request.
pub(crate) enum Reply {
    /// A status, headers and a body.
    Response(u16, Vec<(&'static str, String)>, String),
    /// 200, and a body that comes in pieces.
    Streamed(Vec<Piece>),
    /// The connection is refused.
    Refused,
    /// No response at all.
    Silence,
}

/// A piece of a body.
pub(crate) enum Piece {
    /// Text, and a line end.
    Line(String),
    /// Text as it is.
    Text(String),
    /// Nothing for this time.
    Pause(Duration),
    /// Nothing until this happens.
    Until(futures::future::BoxFuture<'static, ()>),
    /// The connection is cut.
    Cut,
    /// Nothing more, on an open connection.
    Silence,
}

/// Answers requests in order. After the last reply, requests get no response.
#[derive(Clone, Default)]
pub(crate) struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
    ended: Arc<Notify>,
}

/// A clock that runs with the test's virtual time.
pub(crate) struct VirtualClock(Instant);

// === impl Script ===

impl Script {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: Arc::new(Mutex::new(replies.into_iter().collect())), ..Self::default() }
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let script = self.clone();
        cluster(move |request| {
            let reply = script.reply(&request);
            async move { answer(reply).await }
        })
    }

    /// Waits until a request arrives for which there is no reply left.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// All requests, as `METHOD path?query`, without the parts that never differ.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.lock_asked().iter().map(|(_, request)| request.clone()).collect()
    }

    /// The time between each request and the previous one.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.lock_asked().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    fn reply(&self, request: &Request<Body>) -> Reply {
        self.lock_asked().push((Instant::now(), describe(request)));
        let next = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or_else(|| {
            self.ended.notify_one();
            Reply::Silence
        })
    }

    fn lock_asked(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, String)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl VirtualClock ===

impl VirtualClock {
    /// The clock of an API server that sends no dates.
    pub(crate) fn server() -> ServerClock {
        ServerClock::of(Arc::new(Self(Instant::now())))
    }
}

impl Clock for VirtualClock {
    fn wall(&self) -> Timestamp {
        Timestamp(i64::try_from(self.0.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A cluster whose requests go to a function instead of an API server.
pub(crate) fn cluster<F, A>(serve: F) -> Cluster
where
    F: FnMut(Request<Body>) -> A + Send + 'static,
    A: Future<Output = Result<FakeResponse, Broken>> + Send + 'static,
{
    Cluster::from_client(Client::new(tower::service_fn(serve), "op"), "https://fake")
}

/// Sends a reply.
pub(crate) async fn answer(reply: Reply) -> Result<FakeResponse, Broken> {
    let (status, headers, pieces) = match reply {
        Reply::Response(status, headers, body) => (status, headers, vec![Piece::Text(body)]),
        Reply::Streamed(pieces) => (200, vec![], pieces),
        Reply::Refused => {
            return Err(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)));
        }
        Reply::Silence => std::future::pending().await,
    };

    let mut answer =
        Response::new(StreamBody::new(stream::unfold(pieces.into_iter(), next)).boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(status)?;
    for (name, value) in headers {
        answer.headers_mut().insert(name, value.parse()?);
    }

    Ok(answer)
}

async fn next(
    mut pieces: std::vec::IntoIter<Piece>,
) -> Option<(Result<Frame<Bytes>, Broken>, std::vec::IntoIter<Piece>)> {
    let text = loop {
        match pieces.next()? {
            Piece::Line(line) => break line + "\n",
            Piece::Text(text) => break text,
            Piece::Pause(time) => tokio::time::sleep(time).await,
            Piece::Until(event) => event.await,
            Piece::Cut => {
                let cut = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                return Some((Err(Box::new(cut)), Vec::new().into_iter()));
            }
            Piece::Silence => std::future::pending().await,
        }
    };
    Some((Ok(Frame::data(Bytes::from(text))), pieces))
}

/// `GET widgets limit=100 continue=abc`: the last word of the path and what differs between
/// requests.
fn describe(request: &Request<Body>) -> String {
    let uri = request.uri();
    let mut words = vec![
        request.method().to_string(),
        uri.path().rsplit('/').next().unwrap_or_default().to_owned(),
    ];
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("allowWatchBookmarks" | "resourceVersionMatch" | "timeoutSeconds", _) => {}
            ("watch", _) => words.push("watch".to_owned()),
            ("sendInitialEvents", _) => words.push("initial".to_owned()),
            ("resourceVersion", version) => words.push(format!("from={version}")),
            (name, value) => words.push(format!("{name}={value}")),
        }
    }

    if request
        .headers()
        .get("accept")
        .is_some_and(|v| v.as_bytes().windows(7).any(|w| w == b"Partial"))
    {
        words.push("metadata".to_owned());
    }

    words.join(" ")
}

/// Describes an observation in a few words.
pub(crate) fn say(observation: &Observation) -> String {
    match observation {
        Observation::KindsDiscovered(kinds) => {
            let say = |kind: &loopwatch_model::observation::WatchedKind| {
                let missing = if kind.missing.is_empty() {
                    String::new()
                } else {
                    format!(" -{}", kind.missing.join("-"))
                };

                format!("{}@{}{missing}", kind.watch, kind.version)
            };
            format!("kinds [{}]", kinds.iter().map(say).collect::<Vec<_>>().join(", "))
        }
        Observation::ListBegan { epoch, .. } => format!("began {epoch}"),
        Observation::Listed { object, .. } => {
            format!("listed {}@{}", object.key.name, object.version)
        }
        Observation::ListEnded { epoch, version, .. } => format!("ended {epoch} at {version}"),
        Observation::Applied { object, .. } => {
            format!("applied {}@{}", object.key.name, object.version)
        }
        Observation::Deleted { key, version, .. } => format!("deleted {}@{version}", key.name),
        Observation::Progressed { version, .. } => format!("progressed to {version}"),
        Observation::SourceFailed { cause, .. } => format!("failed: {cause}"),
        Observation::SourceRecovered { .. } => "works".to_owned(),
        Observation::Skipped { cause, .. } => format!("skipped: {cause}"),
        Observation::DefinitionSeen(view) => format!("definition {} {:?}", view.name, view.status),
        Observation::DefinitionGone(name) => format!("no definition {name}"),
        Observation::DefinitionsListed(names) => format!("definitions {}", names.join(", ")),
        other => format!("{other:?}"),
    }
}
