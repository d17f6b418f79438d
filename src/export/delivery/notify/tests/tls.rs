//! A receiver with TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use loopwatch_testbed::tls::{AUTHORITY, CERTIFICATE, server_config};
use rustls::{ServerConnection, StreamOwned};

use super::*;

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
    let untrusted = webhook(&url).poster(within).post(b"{}").await;

    assert!(
        matches!(&untrusted, Delivery::Failed { problem, .. } if problem.contains("ertificate")),
        "{untrusted:?}"
    );

    let mut client = Webhook { ca_file: Some(file.clone()), ..webhook(&url) }.poster(within);

    assert!(matches!(client.post(b"{}").await, Delivery::Failed { .. }), "the file is missing");

    std::fs::write(&file, pem(CERTIFICATE)).expect("written");
    assert!(matches!(client.post(b"{}").await, Delivery::Failed { .. }), "not an authority");

    std::fs::write(&file, pem(AUTHORITY)).expect("written");
    assert_eq!(client.post(b"{}").await, Delivery::Accepted(()), "the file is read again");

    let other = url.replace("127.0.0.1", "localhost");
    let mut client = Webhook { ca_file: Some(file.clone()), ..webhook(&other) }.poster(within);

    assert!(
        matches!(client.post(b"{}").await, Delivery::Failed { .. }),
        "a certificate for another host"
    );

    // The URL contains an address, but the name of the host still decides: `localhost` is at this
    // address, too.
    let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
    for (url, is_trusted) in [(&url, true), (&other, false)] {
        let Webhook { url, token_file, .. } = webhook(url);
        let ca_file = Some(file.clone());
        let destination = Destination { url: url.clone(), address, token_file, ca_file, within };
        let answer = Poster::new(destination, false).post(b"{}").await;

        assert_eq!(answer == Delivery::Accepted(()), is_trusted, "{url}: {answer:?}");
    }
}
