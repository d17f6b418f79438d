//! A server for tests, with or without TLS, that answers well or badly. Each connection has a
//! thread of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwatch_testbed::wait::pause;
use rustls::{ServerConnection, StreamOwned};

use loopwatch_testbed::tls::server_config;

/// How the server answers.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// A status, further headers (each with its line end) and a body.
    Full(u16, &'static str, Vec<u8>),
    /// No answer.
    Hang,
    /// A body that begins, and never ends, with a pause after each byte.
    Drip,
    /// A body without an end, as fast as possible.
    Endless,
    /// A body of 1 GiB.
    Large,
    /// A part of a body.
    Cut,
    /// 401 without this token, and 200 with it.
    Token(&'static str),
    /// The path, and a body; 404 for all others.
    Only(&'static str, &'static str),
}

/// A running server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    tls: bool,
    requests: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<Reply>>,
    stopped: Arc<AtomicBool>,
}

/// A free port on loopback.
const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 22;
/// Metrics of a control loop.
pub(super) const METRICS: &str = "# TYPE controller_runtime_reconcile_total counter\n\
    controller_runtime_reconcile_total{controller=\"a\",result=\"success\"} 3\n";

impl Reply {
    pub(super) fn text(text: &str) -> Self {
        Self::Full(200, "content-type: text/plain; version=0.0.4\r\n", text.into())
    }

    pub(super) fn status(status: u16) -> Self {
        Self::Full(status, "", b"text of the operator\n".to_vec())
    }
}

impl Server {
    pub(super) fn plain(answer: Reply) -> Self {
        Self::start(answer, false, LOOPBACK.into())
    }

    pub(super) fn tls(answer: Reply) -> Self {
        Self::start(answer, true, LOOPBACK.into())
    }

    /// A server that listens on all addresses.
    pub(super) fn everywhere(answer: Reply) -> Self {
        Self::start(answer, false, (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Another server at the same port, at this address only.
    pub(super) fn beside(&self, address: Ipv4Addr, answer: Reply) -> Self {
        Self::start(answer, self.tls, (address, self.address.port()).into())
    }

    fn start(answer: Reply, tls: bool, listen: SocketAddr) -> Self {
        let listener = TcpListener::bind(listen).expect("a port");
        let mut address = listener.local_addr().expect("its address");
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }

        let (requests, answer, stopped) =
            (Arc::default(), Arc::new(Mutex::new(answer)), Arc::default());
        let server = Self { address, tls, requests, answer, stopped };
        let (requests, answer, stopped) =
            (server.requests.clone(), server.answer.clone(), server.stopped.clone());

        std::thread::spawn(move || {
            for socket in listener.incoming().filter_map(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }

                let (requests, answer) = (requests.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut refusal = socket.try_clone().expect("a second handle");
                    let served = match tls {
                        false => serve(socket, &requests, &answer),
                        true => {
                            let connection =
                                ServerConnection::new(server_config()).expect("a connection");
                            serve(StreamOwned::new(connection, socket), &requests, &answer)
                        }
                    };

                    if served.is_err() {
                        // As Go answers to a request with the wrong protocol.
                        let _ = refusal.write_all(
                            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request\n",
                        );
                    }
                });
            }
        });

        server
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}/metrics", if self.tls { "https" } else { "http" }, self.address)
    }

    pub(super) fn answer(&self, answer: Reply) {
        *self.answer.lock().expect("no panic") = answer;
    }

    /// The heads of all requests, in lower case.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Stops listening. Open connections go on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        pause(Duration::from_millis(50));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

/// Serves one connection. An error before the first request means that the client does not speak
/// this protocol.
fn serve(
    mut stream: impl Read + Write,
    requests: &Mutex<Vec<String>>,
    answer: &Mutex<Reply>,
) -> Result<(), std::io::Error> {
    let mut first = true;
    loop {
        let head = match read(&mut stream) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(()),
            Err(error) => return if first { Err(error) } else { Ok(()) },
        };

        first = false;
        requests.lock().expect("no panic").push(head.clone());

        let answer = answer.lock().expect("no panic").clone();
        if write(&mut stream, &head, answer).is_err() {
            return Ok(());
        }
    }
}

/// Reads the head of a request; `None` if the connection ends.
fn read(stream: &mut impl Read) -> Result<Option<String>, std::io::Error> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }

        bytes.push(byte[0]);
        if bytes == [TLS_HANDSHAKE] {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }

    Ok(Some(String::from_utf8_lossy(&bytes).to_lowercase()))
}

/// An error means that the connection is over.
fn write(stream: &mut impl Write, head: &str, answer: Reply) -> Result<(), std::io::Error> {
    let over = || Err(std::io::ErrorKind::ConnectionAborted.into());
    match answer {
        Reply::Full(status, headers, body) => full(stream, status, headers, &body),
        Reply::Hang => {
            pause(Duration::from_secs(3600));
            over()
        }
        Reply::Drip => {
            stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1000000\r\n\r\n")?;
            loop {
                stream.write_all(b"a")?;
                stream.flush()?;
                pause(Duration::from_millis(10));
            }
        }
        Reply::Endless => {
            stream.write_all(b"HTTP/1.1 200 x\r\n\r\n")?;
            loop {
                stream.write_all(&b"a 1\n".repeat(10_000))?;
            }
        }
        Reply::Large => {
            stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1073741824\r\n\r\n")?;
            (0..1 << 10).try_for_each(|_| stream.write_all(&b"a 1\n".repeat(1 << 18)))
        }
        Reply::Cut => {
            stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1000\r\n\r\na 1\n")?;
            stream.flush()?;
            over()
        }
        Reply::Token(token) => match head.contains(&format!("authorization: bearer {token}\r\n")) {
            true => full(stream, 200, "", METRICS.as_bytes()),
            false => full(stream, 401, "", b"Unauthorized\n"),
        },
        Reply::Only(path, body) => match head.starts_with(&format!("get {path} ")) {
            true => full(stream, 200, "", body.as_bytes()),
            false => full(stream, 404, "", b"404 page not found\n"),
        },
    }
}

fn full(
    stream: &mut impl Write,
    status: u16,
    headers: &str,
    body: &[u8],
) -> Result<(), std::io::Error> {
    let length = body.len();
    stream.write_all(
        format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{headers}\r\n").as_bytes(),
    )?;
    stream.write_all(body)?;

    stream.flush()
}
