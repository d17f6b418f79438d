//! A receiver for tests: a server on a local port that follows a script.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What the receiver does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Responds with a status, headers (each with its line end) and a body.
    Response(u16, String, String),
    /// Reads the request and never answers.
    Hang,
    /// Reads the request and closes the connection.
    Close,
    /// Responds 200, but sends the body byte by byte, without an end.
    TrickleBody,
    /// Sends the head of a response byte by byte, without an end.
    TrickleHead,
}

/// The requests so far, each with its head and body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<Mutex<Vec<Request>>>);

type Request = (String, Vec<u8>);

pub(crate) struct FakeReceiver {
    pub(crate) url: String,
    pub(crate) requests: Requests,
    serving: JoinHandle<()>,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self::Response(status, String::new(), String::new())
    }
}

impl Requests {
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let requests = self.0.lock().expect("no panic");
        requests
            .iter()
            .map(|(head, body)| (head.clone(), String::from_utf8_lossy(body).into_owned()))
            .collect()
    }

    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.0.lock().expect("no panic").iter().map(|(_, body)| body.clone()).collect()
    }
}

impl FakeReceiver {
    /// Starts a receiver that gives these replies, and then responds 200.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let requests = Requests::default();
        let seen = requests.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(serve(stream, replies.clone(), seen.clone()));
            }
        });

        Self { url, requests, serving }
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn received(&self, count: usize) -> Vec<(String, String)> {
        eventually(|| self.requests.all().len() >= count).await;
        self.requests.all()
    }
}

impl Drop for FakeReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Waits until a condition holds, as [`standing_still`] does.
pub(crate) async fn eventually(is_so: impl Fn() -> bool) {
    let done = poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending });
    standing_still(done).await;
}

/// Waits for a future. If the test's clock is paused, it stands still meanwhile: tokio advances it
/// only when there is nothing else to do. So no timer can be the cause of an event, however slow
/// the machine is. Fails after a minute.
pub(crate) async fn standing_still<T>(future: impl Future<Output = T>) -> T {
    let began = std::time::Instant::now();
    let busy = async {
        loop {
            std::thread::park_timeout(Duration::from_millis(1)); // yields the processor to others
            assert!(began.elapsed() < Duration::from_secs(60), "nothing happens any more");

            tokio::task::yield_now().await;
        }
    };

    tokio::select! {
        biased;
        done = future => done,
        never = busy => never,
    }
}

/// Serves one connection until it ends. Errors mean that the client is gone.
async fn serve(mut stream: TcpStream, replies: Arc<Mutex<VecDeque<Reply>>>, requests: Requests) {
    while let Some(request) = read(&mut stream).await {
        requests.0.lock().expect("no panic").push(request);
        let reply = replies.lock().expect("no panic").pop_front().unwrap_or(Reply::status(200));
        let written = match reply {
            Reply::Response(status, headers, body) => {
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
                );

                stream.write_all(text.as_bytes()).await
            }
            Reply::Hang => std::future::pending().await,
            Reply::Close => return,
            Reply::TrickleBody => {
                trickle(&mut stream, "HTTP/1.1 200 x\r\ncontent-length: 1000000\r\n\r\n").await
            }
            Reply::TrickleHead => trickle(&mut stream, "").await,
        };

        if written.is_err() {
            return;
        }
    }
}

async fn trickle(stream: &mut TcpStream, head: &str) -> std::io::Result<()> {
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(b"H").await?;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Reads one request: its head, and the body whose length `content-length` announces.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(length) if length > 0 => bytes.extend_from_slice(&chunk[..length]),
            _ => return None,
        }

        if !bytes[0].is_ascii_alphabetic() {
            return None; // a TLS handshake
        }

        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let (head, body) =
            (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), &bytes[end + 4..]);
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or("0", str::trim);

        if body.len() >= length.parse().expect("a length") {
            return Some((head, body.to_vec()));
        }
    }
}
