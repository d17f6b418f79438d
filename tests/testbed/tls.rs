//! A certificate for servers of tests.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority for tests, valid until 2120.
pub const AUTHORITY: &str = "\
    MIIBPTCB46ADAgECAgEBMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMMAmNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAw\
    WjANMQswCQYDVQQDDAJjYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABO7tg1pCc3F6tfTVLwML2unQ8GXcSLNUyPdCaQf/yZbH\
    iRjXweF0GvrF23yZwc29bq0duK7SIpHJAXNpQ79dHRqjMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFLqgAHtYd8asDDBW\
    +GXnsAlU3hk9MAoGCCqGSM49BAMCA0kAMEYCIQCI9oUaRjT5zA4j/1voPWBOwwEI+2i8ucicGGXYHBEFOwIhAPvVgpf6/UK/VaSn\
    DiEaOvsxSHqzguo8fY8WgbyM8kSk";
/// Its certificate for 127.0.0.1.
pub const CERTIFICATE: &str = "\
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

/// The configuration of a server with that certificate.
pub fn server_config() -> Arc<ServerConfig> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::try_from(der(KEY)).expect("a key");
    let certificates = vec![CertificateDer::from(der(CERTIFICATE))];
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("valid");

    Arc::new(config)
}
