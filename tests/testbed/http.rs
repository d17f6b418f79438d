//! A client for plain HTTP, mostly on loopback. It uses HTTP/1.0 with one connection per request, so an
//! answer ends with its connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends a request to a port of this machine. The returned stream yields the answer.
pub fn send(
    method: &str,
    port: u16,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<TcpStream, std::io::Error> {
    send_to(SocketAddr::from(([127, 0, 0, 1], port)), method, path, headers, body)
}

fn send_to(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<TcpStream, std::io::Error> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;

    let mut head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }

    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    Ok(stream)
}

/// Sends a request to a port of this machine and reads the answer.
pub fn request(
    method: &str,
    port: u16,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<HttpResponse, String> {
    request_from(SocketAddr::from(([127, 0, 0, 1], port)), method, path, headers, body)
}

fn request_from(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<HttpResponse, String> {
    let asked = format!("{method} {address}{path}");
    let mut bytes = Vec::new();
    let read = send_to(address, method, path, headers, body)
        .and_then(|mut stream| stream.read_to_end(&mut bytes));

    read.map_err(|error| format!("{asked}: {error}"))?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{asked}: no answer"))?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());

    Ok(HttpResponse {
        status: status.ok_or_else(|| format!("{asked}: {head:?}"))?,
        body: body.to_owned(),
    })
}

/// Gets `path` at an address of this machine, and ignores the answer.
pub fn touch(address: SocketAddr, path: &str) -> Result<(), String> {
    let answer = send_to(address, "GET", path, &[], "");
    let read = answer.and_then(|mut stream| stream.read_to_end(&mut Vec::new()));
    read.map(drop).map_err(|error| format!("GET {address}{path}: {error}"))
}

/// Gets `path`. Every status except 200 is an error.
pub fn get(port: u16, path: &str) -> Result<String, String> {
    get_from(SocketAddr::from(([127, 0, 0, 1], port)), path)
}

/// Gets `path` from an address, such as that of a Pod. Every status except 200 is an error.
pub fn get_from(address: SocketAddr, path: &str) -> Result<String, String> {
    match request_from(address, "GET", path, &[], "")? {
        HttpResponse { status: 200, body, .. } => Ok(body),
        HttpResponse { status, body, .. } => Err(format!("GET {path}: {status} {body}")),
    }
}

/// Encodes a text as part of a query.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
