//! A receiver with TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::sources::fake::tls::{AUTHORITY, CERTIFICATE, server_config};

/// Starts a receiver that accepts everything; returns its URL.
fn start() -> String {
    let config = server_config();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for socket in listener.incoming().filter_map(Result::ok) {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = StreamOwned::new(connection, socket);
            let mut request = [0; 4096];

            // The client ends a connection that it does not trust.
            if stream.read(&mut request).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"HTTP/1.1 204 x\r\nconnection: close\r\n\r\n");
            }
        }
    });

    url
}

#[tokio::test]
async fn a_receiver_needs_a_certificate_of_the_given_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.crt");
    let pem =
        |der: &str| format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
    let url = start();
    let within = Duration::from_secs(20);
    let untrusted = Poster::new(webhook(&url).into(), within).post(b"{}").await;

    assert!(
        matches!(&untrusted, Answer::Failed { problem, .. } if problem.contains("ertificate")),
        "{untrusted:?}"
    );

    let mut client =
        Poster::new(Webhook { ca_file: Some(file.clone()), ..webhook(&url) }.into(), within);

    assert!(matches!(client.post(b"{}").await, Answer::Failed { .. }), "the file is missing");

    std::fs::write(&file, pem(CERTIFICATE)).expect("written");
    assert!(matches!(client.post(b"{}").await, Answer::Failed { .. }), "not an authority");

    std::fs::write(&file, pem(AUTHORITY)).expect("written");
    assert_eq!(client.post(b"{}").await, Answer::Accepted, "the file is read again");

    let other = url.replace("127.0.0.1", "localhost");
    let mut client =
        Poster::new(Webhook { ca_file: Some(file.clone()), ..webhook(&other) }.into(), within);

    assert!(
        matches!(client.post(b"{}").await, Answer::Failed { .. }),
        "a certificate for another host"
    );

    // With an address, the name of the host still decides: `localhost` is at this address, too.
    let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
    for (url, is_trusted) in [(&url, true), (&other, false)] {
        let destination = Destination {
            address,
            ..Webhook { ca_file: Some(file.clone()), ..webhook(url) }.into()
        };
        let answer = Poster::new(destination, within).post(b"{}").await;

        assert_eq!(answer == Answer::Accepted, is_trusted, "{url}: {answer:?}");
    }
}
