//! A receiver of webhooks on loopback, which stores all requests, and answers them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// A receiver of webhooks.
pub struct Webhook {
    /// Its port.
    pub port: u16,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Starts a receiver that answers with an empty body.
    pub fn listen() -> Self {
        Self::answering(|_| None)
    }

    /// Starts a receiver that answers each request with what `answer` returns.
    pub fn answering(answer: impl Fn(&Value) -> Option<Value> + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("our own port").port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();

        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(body) = receive(stream, &answer) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(body);
                }
            }
        });

        Self { port, received }
    }

    /// Returns the bodies of all requests so far.
    pub fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads a request and answers with 200. A body that is not JSON counts as null.
fn receive(stream: TcpStream, answer: &impl Fn(&Value) -> Option<Value>) -> Option<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;

    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }

        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }

    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;

    let body = serde_json::from_slice(&body).unwrap_or_default();
    let answer = answer(&body).map_or(String::new(), |answer| answer.to_string());
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());

    reader.into_inner().write_all(format!("{head}{answer}").as_bytes()).ok()?;
    Some(body)
}
