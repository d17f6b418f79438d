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
pub const KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsufrRZ/TR0HVcQkYPdL9pQzOW6FmcBAKy9Ac0NqPcZShRANCAARx\
    XRuuFBT2XXFX9L+GpJLrdDOPvWMtOhRFnJg0svuLoaysRskCAcGfNxbjO7b9Q4/dwyrT+CNadjwtYY1o1hsM";

/// Another certificate authority, valid for 100 years.
pub const OTHER_AUTHORITY: &str = "\
    MIIBfTCCASOgAwIBAgIUH6mmoq4ohO97Lqy+PDsZNQdWuA4wCgYIKoZIzj0EAwIwEzERMA8GA1UEAwwIb3RoZXIgY2EwIBcNMjYxM\
    TI2MjMyNzM0WhgPMjEyNjExMDIyMzI3MzRaMBMxETAPBgNVBAMMCG90aGVyIGNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE/x\
    jyjyYesp1QLJJuhBcODC2qwZBgUE0UbxeWm7NE8xH3eeX6Ya2u2RaFF/XKn+EbItaCZQVe0Da258YmrK8MtaNTMFEwHQYDVR0OBBY\
    EFJ6wWHNg417PZtn6QrRiciZCgZ57MB8GA1UdIwQYMBaAFJ6wWHNg417PZtn6QrRiciZCgZ57MA8GA1UdEwEB/wQFMAMBAf8wCgYI\
    KoZIzj0EAwIDSAAwRQIhAO3SoQOQyf4lOMkKaI/C48BEeyb306pHmGUm0yHZYtCIAiA+0Vb84hH5xsPC1kS37ilHCm8a07p40y1+E\
    68rVJ/z3A==";
/// Its certificate for 127.0.0.1.
pub const OTHER_CERTIFICATE: &str = "\
    MIIBnTCCAUKgAwIBAgIUL+xVJ83IQ2ncte7WGdAzsSZ8oCkwCgYIKoZIzj0EAwIwEzERMA8GA1UEAwwIb3RoZXIgY2EwIBcNMjYxM\
    TI2MjMyNzM0WhgPMjEyNjExMDIyMzI3MzRaMBIxEDAOBgNVBAMMB3NlcnZlcjIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATFnn\
    0mgTO0QN+5Ys7KP6Od58GlprXTOJhRw4djhixQZ8icK65a8ZwsXzZlxFg4+FWvEqXNUiS/lfi4imbf8P5+o3MwcTAPBgNVHREECDA\
    GhwR/AAABMBMGA1UdJQQMMAoGCCsGAQUFBwMBMAkGA1UdEwQCMAAwHQYDVR0OBBYEFAFO+qmSLFtDsG7MLCYUiB2oa8BaMB8GA1Ud\
    IwQYMBaAFJ6wWHNg417PZtn6QrRiciZCgZ57MAoGCCqGSM49BAMCA0kAMEYCIQCxyUEKO8nWAOW/4fyV9qf1IJoGObeJg3tM7b0zh\
    LueggIhAI7sWhAhDb6f6U9DGT2dJ3uBQlyKGYRzg9lLOr3p9ipG";
/// The key of that certificate, which protects nothing.
pub const OTHER_KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbK3aG07RRMDclUZZAhcXX85XCYJVZNR07bq/l0CcWN+hRANCAATFn\
    n0mgTO0QN+5Ys7KP6Od58GlprXTOJhRw4djhixQZ8icK65a8ZwsXzZlxFg4+FWvEqXNUiS/lfi4imbf8P5+";
/// A certificate for a client, from the other authority.
pub const CLIENT_CERTIFICATE: &str = "\
    MIIBoTCCAUigAwIBAgIUL+xVJ83IQ2ncte7WGdAzsSZ8oCowCgYIKoZIzj0EAwIwEzERMA8GA1UEAwwIb3RoZXIgY2EwIBcNMjYxM\
    TI2MjMyNzM0WhgPMjEyNjExMDIyMzI3MzRaMBIxEDAOBgNVBAMMB2NsaWVudDIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQIkH\
    JBFjSCDFV7Qci4S45L3Jc3/RRY93BzV480O2ctpw27zwAwrTX0FeXR5c4I8k3xBVgrb0RgUM3oePgo3nwFo3kwdzAVBgNVHREEDjA\
    Mggpwcm9tZXRoZXVzMBMGA1UdJQQMMAoGCCsGAQUFBwMCMAkGA1UdEwQCMAAwHQYDVR0OBBYEFEnyFDbxls1XhvO/jSDQy/O0oukE\
    MB8GA1UdIwQYMBaAFJ6wWHNg417PZtn6QrRiciZCgZ57MAoGCCqGSM49BAMCA0cAMEQCIEkxnBcPMpqQoIvK+rYzTFLEk8GsRXff/\
    l1reRiWBF28AiAQJ2lMZCoX97KDWu4W5E4fppvfOC+ti8OtE2lftoKq4g==";
/// The key of that certificate, which protects nothing.
pub const CLIENT_KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgPDjz2kOWzyESJOtDW3K82Qjn+gK4ZaSP2YJz0PSnqNGhRANCAAQIk\
    HJBFjSCDFV7Qci4S45L3Jc3/RRY93BzV480O2ctpw27zwAwrTX0FeXR5c4I8k3xBVgrb0RgUM3oePgo3nwF";

/// An authority whose certificate has expired, in 2021.
pub const EXPIRED_AUTHORITY: &str = "\
    MIIBeDCCAR+gAwIBAgIUNJ+I5jyElb7dBUXHjqGBfvi4rHkwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHZXhwaXJlZDAeFw0yMDAxM\
    DEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBIxEDAOBgNVBAMMB2V4cGlyZWQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQHJ/1xe/\
    TLopUuwAvCd2uQkYE/Wg0sJpjSvDnVPh6VwB507nyV48MS/9VrBuxzxJib2B7lzQOL68Rd0Wfheonbo1MwUTAdBgNVHQ4EFgQUgv6\
    NHrRnGz/pYWjAcIA9gNWOGIUwHwYDVR0jBBgwFoAUgv6NHrRnGz/pYWjAcIA9gNWOGIUwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjO\
    PQQDAgNHADBEAiB8fFoKgrb6TIumcKQZ/dxc3LlAePftNONwZ4/iMpWZ8wIgTlBuYWzLNzO7VHUvMUQ3zNv45MOrfltsQQNO1aULo\
    sA=";

/// One of these certificates or keys in PEM.
pub fn pem(text: &str) -> String {
    let label = match [KEY, OTHER_KEY, CLIENT_KEY].contains(&text) {
        true => "PRIVATE KEY",
        false => "CERTIFICATE",
    };
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// One of these certificates or keys in binary.
pub fn der(text: &str) -> Vec<u8> {
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
