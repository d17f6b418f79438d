//! A server for a few requests, each with a connection of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

/// An answer: the status, the type of the content, and the content.
pub type Answer = (u16, &'static str, String);

/// Answers `GET /metrics` and the like with what `answer` returns for the method and the path.
pub fn serve(address: &str, answer: impl Fn(&str, &str) -> Answer + Send + 'static) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let _ = respond(connection, &answer); // the client may have gone
        }
    });

    Ok(())
}

fn respond(connection: TcpStream, answer: &impl Fn(&str, &str) -> Answer) -> std::io::Result<()> {
    let mut lines = BufReader::new(&connection).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }

    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = answer(method, path);
    let length = body.len();

    write!(
        &connection,
        "HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
