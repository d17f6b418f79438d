//! The ports of the built program: who reaches the page, and TLS with a certificate that changes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_testbed::{tls, wait};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{IN_CLUSTER, eventually, free_port, get, loopwatch, start, stop, text};

/// A TLS connection to a port, from a client that trusts this authority.
fn connect(port: u16, authority: &str) -> Option<StreamOwned<ClientConnection, TcpStream>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(tls::der(authority))).expect("a certificate");

    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("valid");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    client.complete_io(&mut stream).ok()?;
    Some(StreamOwned::new(client, stream))
}

/// The status line of a request on an open connection.
fn status(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut part).expect("answered") {
            0 => break,
            length => answer.extend_from_slice(&part[..length]),
        }
    }
    text(&answer).lines().next().unwrap_or_default().to_owned()
}

/// Replaces a file, like the kubelet.
fn replace(folder: &Path, name: &str, content: &str) {
    std::fs::write(folder.join("new"), content).expect("written");
    std::fs::rename(folder.join("new"), folder.join(name)).expect("renamed");
}

#[test]
fn a_rotated_certificate_serves_new_connections_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    replace(folder, "tls.crt", &tls::pem(tls::CERTIFICATE));
    replace(folder, "tls.key", &tls::pem(tls::KEY));
    replace(folder, "web.yml", "tls_server_config: {cert_file: tls.crt, key_file: tls.key}\n");

    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command.args(["run", "--listen=127.0.0.1:0"]).env_remove(IN_CLUSTER);
    let flag = format!("--web-config-file={}", folder.join("web.yml").display());
    let (child, port) = start(command.arg(flag));

    let mut open = eventually(|| connect(port, tls::AUTHORITY));
    assert_eq!(status(&mut open, "/livez"), "HTTP/1.1 200 OK");
    let mut page = eventually(|| connect(port, tls::AUTHORITY));
    assert_eq!(status(&mut page, "/"), "HTTP/1.1 200 OK", "outside a Pod, one port serves all");
    assert!(get(port, "/livez").starts_with("HTTP/1.1 200"), "the probe of the kubelet");
    assert!(get(port, "/metrics").starts_with("HTTP/1.1 400"), "not without TLS");

    replace(folder, "tls.crt", &tls::pem(tls::OTHER_CERTIFICATE));
    replace(folder, "tls.key", &tls::pem(tls::OTHER_KEY));
    let patience = Duration::from_secs(60);
    let mut new = wait::eventually(patience, "the new certificate is in use", || {
        connect(port, tls::OTHER_AUTHORITY).ok_or_else(|| "not yet".to_owned())
    });

    assert_eq!(status(&mut new, "/livez"), "HTTP/1.1 200 OK");
    assert!(connect(port, tls::AUTHORITY).is_none(), "the old certificate is gone");
    assert_eq!(status(&mut open, "/livez"), "HTTP/1.1 200 OK", "the old connection goes on");
    stop(child);
}

/// A container of the Pod that forwards plain TCP, for example to add TLS, looks like a user of
/// `kubectl port-forward`.
#[test]
fn in_a_pod_a_proxy_before_the_metrics_does_not_reach_the_page() {
    let ui = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    command.args(["run", "--listen", "127.0.0.1:0"]).arg(format!("--ui-port={ui}"));
    let (child, port) =
        start(command.env(IN_CLUSTER, "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "1"));

    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxied = proxy.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut client in proxy.incoming().map_while(Result::ok) {
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let (mut request, mut to) =
                (client.try_clone().expect("a stream"), server.try_clone().expect("a stream"));
            std::thread::spawn(move || std::io::copy(&mut request, &mut to));
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        }
    });

    assert!(get(proxied, "/metrics").starts_with("HTTP/1.1 200"));
    for path in ["/", "/objects", "/api/v1/findings", "/api/v1/profiles", "/debug/model"] {
        let answer = get(proxied, path);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("9917:9918"), "{answer}");
        eventually(|| TcpStream::connect(("127.0.0.1", ui)).ok());
        assert!(get(ui, path).starts_with("HTTP/1.1 200"), "{path}");
    }

    stop(child);
}

/// The user wanted protection, and nobody can tell which.
#[test]
fn an_invalid_flag_for_access_closes_the_port() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    std::fs::write(&file, "{}\n").expect("written");

    for flags in [
        vec!["--web-auth=token".to_owned()],
        vec!["--tls".to_owned(), format!("--web-config-file={}", file.display())],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
        command.args(["run", "--listen=127.0.0.1:0", "--expose-ui"]).args(&flags);
        let (child, port) = start(command.env_remove(IN_CLUSTER));

        wait::pause(Duration::from_secs(4)); // the first poll of the file is over
        assert!(get(port, "/livez").starts_with("HTTP/1.1 200"), "{flags:?}");
        for path in ["/metrics", "/", "/api/v1/findings"] {
            let answer = get(port, path);
            assert!(answer.starts_with("HTTP/1.1 503"), "{flags:?} {path}: {answer}");
        }

        stop(child);
    }
}

#[test]
fn an_invalid_web_configuration_file_ends_only_a_strict_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    std::fs::write(&file, "tls_config: {}\n").expect("written");
    let flag = format!("--web-config-file={}", file.display());

    let strict = loopwatch(&["run", "--strict", "--listen=127.0.0.1:0", &flag]);
    let error = text(&strict.stderr);
    assert!(
        strict.status.code() == Some(2)
            && error.contains("web.yml: ")
            && error.contains("tls_config"),
        "{error}"
    );

    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwatch"));
    let (child, port) =
        start(command.args(["run", "--listen=127.0.0.1:0", &flag]).env_remove(IN_CLUSTER));
    assert!(get(port, "/livez").starts_with("HTTP/1.1 200"));
    assert!(get(port, "/metrics").starts_with("HTTP/1.1 503"));
    stop(child);
}
