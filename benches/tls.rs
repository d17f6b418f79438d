//! Compares scrapes of the port with TLS and without it, over one connection and over a new one for
//! each scrape. `cargo bench --profile dist --bench tls` prints the table of `benches/README.md`.
//!
//! No API server answers, so that the process does nothing else, and the response has the series of
//! loopwatch itself. It is not compressed, so that there is more to encrypt.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints its result, or why there is none"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwatch_testbed::guard::{self, Process, Program};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{http, ports, tls, usage};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Scrapes in each row of the table.
const SCRAPES: u32 = 1000;

/// The end of a response in chunks.
const END: &[u8] = b"\r\n0\r\n\r\n";

const WEB_CONFIG: &str = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n";

/// A configuration with a server that does not exist.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {token: none}}]
current-context: none
";

/// A connection to the port.
trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// A running loopwatch.
struct Server {
    process: Process,
    port: u16,
    /// The client's side of TLS, if the port requires it.
    tls: Option<Arc<ClientConfig>>,
}

fn main() {
    guard::stand_guard_if_asked();
    if std::env::args().any(|argument| argument == "--list") {
        return; // `cargo bench -- --list` runs every benchmark with this flag
    }

    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    for (name, text) in [
        ("tls.crt", tls::pem(tls::CERTIFICATE)),
        ("tls.key", tls::pem(tls::KEY)),
        ("web.yml", WEB_CONFIG.to_owned()),
        ("kubeconfig", KUBECONFIG.to_owned()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap_or_else(|error| panic!("{error}"));
    }

    println!("| | CPU time | duration | memory after 1,000 scrapes | size |");
    println!("|---|---|---|---|---|");
    for encrypted in [false, true] {
        for reconnects in [false, true] {
            measure(&Server::start(folder.path(), encrypted), reconnects);
        }
    }
}

/// Prints a row of the table.
fn measure(server: &Server, reconnects: bool) {
    let mut kept = server.connect();
    let bytes = scrape(&mut *kept, false);

    let pid = server.process.id();
    let (cpu, began) = (usage::cpu(pid), Instant::now());
    for _ in 0..SCRAPES {
        match reconnects {
            true => scrape(&mut *server.connect(), true),
            false => scrape(&mut *kept, false),
        };
    }

    let (took, used) = (began.elapsed() / SCRAPES, (usage::cpu(pid) - cpu) / SCRAPES);
    let memory = usage::memory(pid, "VmRSS") as f64 / f64::from(1 << 20);
    println!(
        "| {}, {} | {} µs | {} µs | {memory:.1} MiB | {:.1} KiB |",
        if server.tls.is_some() { "TLS" } else { "plain" },
        if reconnects { "a new connection each time" } else { "one connection" },
        used.as_micros(),
        took.as_micros(),
        bytes as f64 / 1024.0
    );
}

impl Server {
    fn start(folder: &Path, encrypted: bool) -> Self {
        let port = ports::free();
        let program = Path::new(env!("CARGO_BIN_EXE_loopwatch"));
        let mut program = Program::new("tls.loopwatch", program, folder)
            .env("HOME", folder)
            .arg("run")
            .arg(format!("--listen=127.0.0.1:{port}"))
            .arg(format!("--kubeconfig={}", folder.join("kubeconfig").display()));
        if encrypted {
            let file = folder.join("web.yml");
            program = program.arg(format!("--web-config-file={}", file.display()));
        }

        let server = Self { process: program.start(), port, tls: encrypted.then(client) };
        eventually(Duration::from_secs(30), "it serves metrics", || {
            // Health checks need no TLS. Without it, a port that requires it answers 400, and one
            // that has not read its file answers 503.
            match http::request("GET", port, "/metrics", &[], "")?.status {
                200 | 400 => Ok(()),
                status => Err(format!("HTTP {status}")),
            }
        });
        server
    }

    fn connect(&self) -> Box<dyn Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port));
        let stream = stream.unwrap_or_else(|error| panic!("connect: {error}"));
        stream.set_nodelay(true).unwrap_or_else(|error| panic!("{error}"));
        let Some(tls) = &self.tls else { return Box::new(stream) };

        let name = ServerName::try_from("127.0.0.1").unwrap_or_else(|error| panic!("{error}"));
        let connection = ClientConnection::new(Arc::clone(tls), name);
        let connection = connection.unwrap_or_else(|error| panic!("{error}"));
        Box::new(StreamOwned::new(connection, stream))
    }
}

/// A client that trusts the certificate.
fn client() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from(tls::der(tls::AUTHORITY));
    roots.add(authority).unwrap_or_else(|error| panic!("{error}"));

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.unwrap_or_else(|error| panic!("{error}"));
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Scrapes once, and returns the size of the response.
fn scrape(connection: &mut dyn Connection, last: bool) -> usize {
    let connection_header = if last { "Connection: close\r\n" } else { "" };
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{connection_header}\r\n");
    connection.write_all(request.as_bytes()).unwrap_or_else(|error| panic!("scrape: {error}"));

    let (mut response, mut part) = (Vec::new(), vec![0; 64 << 10]);
    while !response.ends_with(END) {
        match connection.read(&mut part) {
            Ok(length) if length > 0 => response.extend_from_slice(&part[..length]),
            ended => panic!("the response ended after {} bytes: {ended:?}", response.len()),
        }
    }

    assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response));
    response.len()
}
