//! Scripted responses of an API server, in the virtual time of a test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A failed request or body.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;
/// A response without a server.
pub type InProcessResponse = Response<UnsyncBoxBody<Bytes, Broken>>;

/// The response to one request.
pub enum Reply {
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
pub enum Piece {
    /// Text, and a line end.
    Line(String),
    /// Text as it is.
    Text(String),
    /// Nothing for this time.
    Pause(Duration),
    /// Nothing until this happens.
    Until(BoxFuture<'static, ()>),
    /// The connection is cut.
    Cut,
    /// Nothing more, on an open connection.
    Silence,
}

/// Answers requests in order. After the last reply, requests get no response.
#[derive(Clone, Default)]
pub struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
    ended: Arc<Notify>,
}

impl Script {
    /// A script of these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { replies: Arc::new(Mutex::new(replies.into_iter().collect())), ..Self::default() }
    }

    /// A client whose requests the script answers.
    pub fn client(&self) -> Client {
        let script = self.clone();
        client(move |request| {
            let reply = script.reply(&request);
            async move { answer(reply).await }
        })
    }

    /// Waits until a request arrives for which there is no reply left.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// All requests, as `METHOD path?query`, without the parts that never differ.
    pub fn asked(&self) -> Vec<String> {
        self.lock_asked().iter().map(|(_, request)| request.clone()).collect()
    }

    /// The time between each request and the previous one.
    pub fn waits(&self) -> Vec<Duration> {
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

    fn lock_asked(&self) -> MutexGuard<'_, Vec<(Instant, String)>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client whose requests go to a function instead of an API server.
pub fn client<F, A>(serve: F) -> Client
where
    F: FnMut(Request<Body>) -> A + Send + 'static,
    A: Future<Output = Result<InProcessResponse, Broken>> + Send + 'static,
{
    Client::new(tower::service_fn(serve), "op")
}

/// Sends a reply.
pub async fn answer(reply: Reply) -> Result<InProcessResponse, Broken> {
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
