//! A receiver with TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A certificate authority for tests, valid until 2120.
const AUTHORITY: &str = "\
    MIIBPTCB46ADAgECAgEBMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMMAmNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAw\
    WjANMQswCQYDVQQDDAJjYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABO7tg1pCc3F6tfTVLwML2unQ8GXcSLNUyPdCaQf/yZbH\
    iRjXweF0GvrF23yZwc29bq0duK7SIpHJAXNpQ79dHRqjMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFLqgAHtYd8asDDBW\
    +GXnsAlU3hk9MAoGCCqGSM49BAMCA0kAMEYCIQCI9oUaRjT5zA4j/1voPWBOwwEI+2i8ucicGGXYHBEFOwIhAPvVgpf6/UK/VaSn\
    DiEaOvsxSHqzguo8fY8WgbyM8kSk";
/// Its certificate for 127.0.0.1.
const CERTIFICATE: &str = "\
    MIIBhDCCASqgAwIBAgIBAjAKBggqhkjOPQQDAjANMQswCQYDVQQDDAJjYTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAw\
    MFowEzERMA8GA1UEAwwIcmVjZWl2ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARxXRuuFBT2XXFX9L+GpJLrdDOPvWMtOhRF\
    nJg0svuLoaysRskCAcGfNxbjO7b9Q4/dwyrT+CNadjwtYY1o1hsMo3MwcTAPBgNVHREECDAGhwR/AAABMAkGA1UdEwQCMAAwEwYD\
    VR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0OBBYEFFDXr4hkfXU4e/k5u03gdoYtROAYMB8GA1UdIwQYMBaAFLqgAHtYd8asDDBW+GXn\
    sAlU3hk9MAoGCCqGSM49BAMCA0gAMEUCIQD5Zkt6W6FwXORS3+7EprYuV7sM4rsMVGAKsde/2TXxcAIgYpf4oY0J8SD6L/IQSDns\
    R9R03SwoAoP1ujKykyDKSvk=";
/// The key of that certificate, which protects nothing.
const KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsufrRZ/TR0HVcQkYPdL9pQzOW6FmcBAKy9Ac0NqPcZShRANCAARx\
    XRuuFBT2XXFX9L+GpJLrdDOPvWMtOhRFnJg0svuLoaysRskCAcGfNxbjO7b9Q4/dwyrT+CNadjwtYY1o1hsM";

fn der(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("base64")
}

/// Starts a receiver that accepts everything; returns its URL.
fn start() -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(der(KEY)).expect("a key");
    let certificates = vec![CertificateDer::from(der(CERTIFICATE))];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key).expect("valid");
    let config = Arc::new(config);
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
    let pem = |der: &str| format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
    let url = start();
    let within = Duration::from_secs(20);
    let untrusted = WebhookClient::new(webhook(&url), within).post(b"{}").await;
    assert!(matches!(&untrusted, Answer::Failed { problem, .. } if problem.contains("ertificate")), "{untrusted:?}");

    let mut client = WebhookClient::new(Webhook { ca_file: Some(file.clone()), ..webhook(&url) }, within);
    assert!(matches!(client.post(b"{}").await, Answer::Failed { .. }), "the file is missing");
    std::fs::write(&file, pem(CERTIFICATE)).expect("written");
    assert!(matches!(client.post(b"{}").await, Answer::Failed { .. }), "not an authority");
    std::fs::write(&file, pem(AUTHORITY)).expect("written");
    assert_eq!(client.post(b"{}").await, Answer::Accepted, "the file is read again");
    let other = url.replace("127.0.0.1", "localhost");
    let mut client = WebhookClient::new(Webhook { ca_file: Some(file), ..webhook(&other) }, within);
    assert!(matches!(client.post(b"{}").await, Answer::Failed { .. }), "a certificate for another host");
}
