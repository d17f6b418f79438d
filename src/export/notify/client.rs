//! One request to the webhook.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower::util::BoxService;
use tower::{BoxError, Service as _, ServiceExt as _};

use super::Webhook;
use crate::sources::failure::layers;
use crate::telemetry::VERSION;

/// Sends requests to the webhook, over one connection that stays open for a while.
pub(super) struct WebhookClient {
    webhook: Webhook,
    /// Time for a request, with the connection and the head of the response.
    within: Duration,
    /// The HTTP client, with the certificate authorities that it trusts.
    http: Option<(Option<Vec<u8>>, Http)>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The receiver accepted it.
    Accepted,
    /// The receiver will not accept it later either.
    Refused(String),
    /// The receiver may accept it later.
    Failed {
        problem: String,
        /// The wait that the receiver asks for.
        retry_after: Option<Duration>,
    },
}

type Http = BoxService<Request<Full<Bytes>>, http::Response<Incoming>, BoxError>;

/// Time to read the body of a response. Only a connection without a rest of it can serve the next request.
const BODY_WITHIN: Duration = Duration::from_secs(1);
/// The largest body that is read, in bytes.
const MAX_BODY: usize = 64 << 10;
/// How long a connection stays open without a request.
const IDLE: Duration = Duration::from_secs(30);
/// The largest token or certificate file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The longest wait that a receiver can ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

// === impl WebhookClient ===

impl WebhookClient {
    pub(super) fn new(webhook: Webhook, within: Duration) -> Self {
        Self { webhook, within, http: None }
    }

    /// Sends a body and waits for the answer.
    pub(super) async fn post(&mut self, body: &[u8]) -> Answer {
        let failed = |problem| Answer::Failed { problem, retry_after: None };
        match timeout(self.within, self.request(body)).await {
            Ok(Ok(response)) => {
                let answer = Answer::of(response.status(), response.headers());
                let body = Limited::new(response.into_body(), MAX_BODY).collect();
                drop(timeout(BODY_WITHIN, body).await); // the status says it all
                answer
            }
            Ok(Err(problem)) => failed(problem),
            Err(_) => {
                self.http = None; // the connection may be half open
                failed(format!("no response within {} s", self.within.as_secs_f32()))
            }
        }
    }

    async fn request(&mut self, body: &[u8]) -> Result<http::Response<Incoming>, String> {
        let mut request = Request::post(self.webhook.url.uri())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, format!("loopwatch/{VERSION}"))
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|error| error.to_string())?;
        if let Some(file) = &self.webhook.token_file {
            request.headers_mut().insert(header::AUTHORIZATION, authorization(file).await?);
        }
        let http = self.http().await?;
        let response = http.ready().await.map_err(|error| layers(&*error))?.call(request);
        response.await.map_err(|error| layers(&*error))
    }

    /// Returns the HTTP client: a new one if the file of the certificate authorities has changed.
    async fn http(&mut self) -> Result<&mut Http, String> {
        let authorities = match self.webhook.ca_file.as_ref().filter(|_| self.webhook.url.is_https()) {
            Some(file) => Some(read(file).await?),
            None => None,
        };
        let same = self.http.take().filter(|(known, _)| *known == authorities);
        let http = match same {
            Some((_, http)) => http,
            None => connect(&self.webhook, authorities.clone()).await?,
        };
        Ok(&mut self.http.insert((authorities, http)).1)
    }
}

// === impl Answer ===

impl Answer {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let problem = format!("HTTP {}", status.as_u16());
        if status.is_success() {
            Self::Accepted
        } else if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let retry_after = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
            Self::Failed { problem, retry_after }
        } else {
            Self::Refused(problem) // redirects, too: the token must not go elsewhere
        }
    }
}

/// Builds an HTTP client. Loading the certificates of the system takes some milliseconds, so another thread does it.
async fn connect(webhook: &Webhook, authorities: Option<Vec<u8>>) -> Result<Http, String> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false); // TLS is the next layer
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.pool_max_idle_per_host(1).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
    if !webhook.url.is_https() {
        return Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)));
    }
    let (uri, file) = (webhook.url.uri().clone(), webhook.ca_file.clone().unwrap_or_default());
    let building = spawn_blocking(move || {
        // rustls does not choose between two linked providers. An error means that one is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(uri);
        config.root_cert = authorities.map(|pem| certificates(&file, &pem)).transpose()?;
        config.rustls_https_connector_with_connector(connector).map_err(|error| layers(&error))
    });
    let connector = building.await.map_err(|error| error.to_string())??;
    Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)))
}

/// The certificates of a PEM file.
fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).map(|c| c.map(|c| c.to_vec())).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} contains no valid certificate in PEM", file.display())),
    }
}

/// The header with the token of a file. The errors do not quote the token.
async fn authorization(file: &Path) -> Result<HeaderValue, String> {
    let invalid = || format!("{} contains no valid token", file.display());
    let token = String::from_utf8(read(file).await?).map_err(|_| invalid())?;
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads a small file. A named pipe would block, and a device may have no end.
async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let path: PathBuf = file.to_owned();
    let reading = spawn_blocking(move || {
        use std::io::Read as _;
        let metadata = std::fs::metadata(&path)?;
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            return Err(std::io::Error::other("not a regular file of at most 1 MiB"));
        }
        let mut content = Vec::new();
        std::fs::File::open(&path)?.take(MAX_FILE).read_to_end(&mut content)?;
        Ok(content)
    });
    let content = reading.await.map_err(|error| error.to_string())?;
    content.map_err(|error| format!("cannot read {}: {error}", file.display()))
}
