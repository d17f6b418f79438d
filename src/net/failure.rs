//! Failures of requests, mostly to the API server. Only this file maps errors to causes.

use std::error::Error;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kube::client::AuthError;
use loopwatch_model::observation::Cause;
use serde::Deserialize;

/// One failed request or stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Failure {
    /// The cause, from a closed list.
    pub cause: Cause,
    /// A description for people.
    pub detail: String,
    /// The HTTP status, or the code of a `Status` inside a stream.
    pub status: Option<u16>,
    /// The wait that the API server requests.
    pub retry_after: Option<Duration>,
    /// Whether the API server has not reached the requested resource version, and may never do so.
    pub version_too_large: bool,
    /// The name of the object that does not exist, according to the API server; otherwise empty,
    /// for example because the API server does not know the path. A proxy may name another object
    /// than the requested one.
    pub absent_object: String,
}

/// The fields of `metav1.Status` that loopwatch reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApiStatus {
    message: String,
    reason: String,
    code: u16,
    details: ApiStatusDetails,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiStatusDetails {
    name: String,
    retry_after_seconds: u64,
    /// Go writes an empty list as `null`.
    causes: Option<Vec<ApiStatusCause>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ApiStatusCause {
    reason: String,
}

/// The cause in a `Status` for a resource version in the future.
const VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
/// The message for it, which is all that API servers before 1.19 send.
const VERSION_TOO_LARGE_MESSAGE: &str = "Too large resource version";
/// etcd's message for a version that it no longer has. Not every API server translates it into a
/// 410.
const COMPACTED_MESSAGE: &str = "required revision has been compacted";

/// Longest wait that an API server can request.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(120);

impl Failure {
    /// A failure without a response from the API server.
    #[must_use]
    pub(crate) fn new(cause: Cause, detail: impl Into<String>) -> Self {
        let (detail, version_too_large, absent_object) = (detail.into(), false, String::new());
        Self { cause, detail, status: None, retry_after: None, version_too_large, absent_object }
    }

    /// No response in time.
    pub(crate) fn timeout(what: &str, after: Duration) -> Self {
        Self::new(Cause::Timeout, format!("{what}: no response within {} s", after.as_secs()))
    }

    /// From an HTTP response other than a success, with the readable part of its body.
    pub(crate) fn http(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut status_object: ApiStatus = serde_json::from_slice(body).unwrap_or_default();
        status_object.code = status.as_u16();
        if status_object.message.is_empty() {
            // Proxies and load balancers send other bodies.
            status_object.message =
                String::from_utf8_lossy(body).trim().chars().take(200).collect();
        }

        let mut failure = Self::from_status(status_object);
        if let Some(seconds) =
            headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok())
        {
            failure.retry_after = Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
        }

        failure
    }

    /// From a `Status` object, such as in an ERROR event of a stream.
    pub(crate) fn from_status(status: ApiStatus) -> Self {
        let ApiStatus { message, reason, code, details } = status;
        let version_too_large =
            details.causes.iter().flatten().any(|cause| cause.reason == VERSION_TOO_LARGE)
                || message.contains(VERSION_TOO_LARGE_MESSAGE);
        let absent_object =
            if code == 404 && reason == "NotFound" { details.name } else { String::new() };
        let cause = match (code, reason.as_str()) {
            _ if message.contains(COMPACTED_MESSAGE) => Cause::Gone,
            (410, _) | (_, "Expired" | "Gone") => Cause::Gone,
            (401, _) => Cause::Unauthorized,
            (403, _) => Cause::Forbidden,
            (404 | 405, _) => Cause::NotFound,
            (429, _) => Cause::Throttled,
            (408, _) | (_, "Timeout") => Cause::Timeout,
            (500.., _) => Cause::ServerError,
            (400..=499, _) => Cause::Invalid,
            _ => Cause::Other,
        };

        let name = if reason.is_empty() { "the API server responded" } else { &reason };
        let detail = match (code, message.is_empty()) {
            (0, true) => name.to_owned(),
            (0, false) => message,
            (_, true) => format!("{name}: HTTP {code}"),
            (_, false) => format!("HTTP {code}: {message}"),
        };

        let retry_after = (details.retry_after_seconds > 0)
            .then(|| Duration::from_secs(details.retry_after_seconds).min(LONGEST_RETRY_AFTER));
        Self { cause, detail, status: Some(code), retry_after, version_too_large, absent_object }
    }

    /// Whether the API server rejects the requested resource version: it is too large, or invalid.
    pub(crate) fn rejects_version(&self) -> bool {
        self.version_too_large || (self.cause == Cause::Invalid && self.status.is_some())
    }

    /// From text that is not the expected JSON.
    pub(crate) fn undecodable(error: &serde_json::Error) -> Self {
        // Gives only the position: the text of the error may quote the object.
        let (line, column) = (error.line(), error.column());
        Self::new(
            Cause::Undecodable,
            format!("unexpected or invalid JSON at line {line}, column {column}"),
        )
    }

    /// From a connection error of a server other than the API server.
    pub(crate) fn peer(error: &(dyn Error + 'static)) -> Self {
        let cause = if is_refused(error) { Cause::Refused } else { transport(error) };
        Self::new(cause, layers(error))
    }

    /// From an error of the client: no response, or only a part of one.
    pub(crate) fn client(error: &kube::Error) -> Self {
        let cause = match error {
            kube::Error::Auth(_) => Cause::Unauthorized,
            kube::Error::RustlsTls(_) | kube::Error::TlsRequired => Cause::Tls,
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
                transport(error)
            }
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Cause::Undecodable,
            kube::Error::InferKubeconfig(_)
            | kube::Error::InferConfig(_)
            | kube::Error::ProxyProtocolDisabled { .. }
            | kube::Error::ProxyProtocolUnsupported { .. } => Cause::Invalid,
            _ => Cause::Other,
        };
        Self::new(cause, layers(error))
    }
}

/// Searches the layers of an error for the cause of the lost connection.
fn transport(error: &(dyn Error + 'static)) -> Cause {
    if error.is::<rustls::Error>() {
        return Cause::Tls;
    }

    let io = error.downcast_ref::<std::io::Error>();
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
        return Cause::Timeout;
    }

    // The `source` of an io::Error skips the error inside it, so check that one first.
    let inside = io.and_then(|io| io.get_ref()).map(|inside| inside as &(dyn Error + 'static));
    inside.or_else(|| error.source()).map_or(Cause::Connection, transport)
}

/// Whether nothing listens at the address.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
        || error.source().is_some_and(is_refused)
}

/// Joins the texts of all layers of an error: "client error (Connect): Connection refused (os error
/// 111)".
pub(crate) fn layers(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();

    // The outermost layer only names the library.
    let mut layer = error.source().or(Some(error));
    while let Some(error) = layer {
        if let Some(text) = without_secrets(error).or_else(|| without_tls(error)) {
            words.push(text);
            break;
        }

        let text = error.to_string();

        // Many layers repeat the text of the layer below.
        if !words.iter().any(|said| said.contains(&text)) {
            words.push(text);
        }

        layer = error.source();
    }

    let said = words.join(": ");

    // rustls appends a link that no reader of an alert needs.
    said.split(": https://docs.rs/").next().unwrap_or_default().to_owned()
}

/// The replacement for the text of an error that would quote credentials: a login plugin's output
/// or environment, or a proxy's password.
fn without_secrets(error: &(dyn Error + 'static)) -> Option<String> {
    match error.downcast_ref::<AuthError>() {
        Some(AuthError::AuthExecRun { out, .. }) => {
            return Some(format!("the login plugin of the kubeconfig failed with {}", out.status));
        }
        Some(
            AuthError::AuthExecParse(_)
            | AuthError::ParseTokenKey(_)
            | AuthError::MalformedTokenExpirationDate(_),
        ) => {
            return Some(
                "the output of the login plugin of the kubeconfig cannot be read".to_owned(),
            );
        }
        _ => {}
    }

    match error.downcast_ref::<kube::Error>()? {
        kube::Error::ProxyProtocolUnsupported { proxy_url }
        | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => {
            let (scheme, host) =
                (proxy_url.scheme_str().unwrap_or_default(), proxy_url.host().unwrap_or_default());
            Some(format!("the protocol of the proxy {scheme}://{host} is not supported"))
        }
        _ => None,
    }
}

/// The replacement for the text of rustls about a server that answers a handshake in plain text.
fn without_tls(error: &(dyn Error + 'static)) -> Option<String> {
    let inside = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
    let inside = inside.map_or(error, |inside| inside as &(dyn Error + 'static));
    let is_plain = matches!(
        inside.downcast_ref::<rustls::Error>()?,
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)
    );

    is_plain.then(|| "the server does not speak TLS; use http:// instead of https://".to_owned())
}

/// The first line of an error. Further lines may quote the file, and a kubeconfig contains tokens.
pub(crate) fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_certificate_error_is_found_in_any_layer() {
        let certificate =
            rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, certificate));
        let failure = Failure::client(&kube::Error::Service(Box::new(wrapped)));

        assert_eq!(failure.cause, Cause::Tls);
        assert_eq!(failure.detail, "invalid peer certificate: UnknownIssuer");
    }

    #[test]
    fn a_server_without_tls_is_named_in_plain_words() {
        let plain = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, plain);
        let failure = Failure::client(&kube::Error::Service(Box::new(wrapped)));

        assert_eq!(failure.cause, Cause::Tls);
        assert_eq!(
            failure.detail,
            "the server does not speak TLS; use http:// instead of https://"
        );
    }

    #[test]
    fn errors_do_not_quote_credentials() -> io::Result<()> {
        let out = Box::new(
            std::process::Command::new("sh").args(["-c", "echo S3CRET; exit 7"]).output()?,
        );
        let failed = || AuthError::AuthExecRun {
            cmd: r#"KEY="S3CRET" "login""#.to_owned(),
            out: out.clone(),
        };
        let proxy_url =
            Box::new(http::Uri::from_static("https://user:S3CRET@proxy.example.com:3129"));

        let not_a_time = "S3CRET".parse::<jiff::Timestamp>().expect_err("not a time");
        for (error, expected) in [
            (kube::Error::Auth(failed()), "exit status: 7"),
            (kube::Error::Service(Box::new(failed())), "exit status: 7"),
            (
                kube::Error::Auth(AuthError::MalformedTokenExpirationDate(not_a_time)),
                "cannot be read",
            ),
            (kube::Error::ProxyProtocolUnsupported { proxy_url }, "https://proxy.example.com"),
        ] {
            let detail = Failure::client(&error).detail;
            assert!(detail.contains(expected) && !detail.contains("S3CRET"), "{detail}");
        }

        Ok(())
    }

    #[test]
    fn a_version_that_is_too_large_or_compacted_is_recognized() {
        let failure = |body: &str| {
            Failure::http(StatusCode::GATEWAY_TIMEOUT, &HeaderMap::new(), body.as_bytes())
        };
        for body in [
            r#"{"reason":"Timeout","message":"because","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
            r#"{"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 7"}"#,
        ] {
            assert!(failure(body).rejects_version(), "{body}");
        }

        let busy = failure(r#"{"reason":"Timeout","message":"because","details":{"causes":null}}"#);
        assert_eq!((busy.cause, busy.rejects_version()), (Cause::Timeout, false));

        let compacted =
            failure(r#"{"message":"etcdserver: mvcc: required revision has been compacted"}"#);

        assert_eq!(compacted.cause, Cause::Gone);
    }

    #[test]
    fn the_body_of_a_proxy_error_is_quoted() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("86400"));

        let failure =
            Failure::http(StatusCode::BAD_GATEWAY, &headers, b"<html>upstream is gone</html>");

        assert_eq!((failure.cause, failure.status), (Cause::ServerError, Some(502)));
        assert_eq!(failure.detail, "HTTP 502: <html>upstream is gone</html>");
        assert_eq!(failure.retry_after, Some(LONGEST_RETRY_AFTER));
    }
}
