//! Requests metrics once. Whatever the server does, the request takes limited time and memory and
//! ends with a reason.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use loopwatch_model::observation::Cause;
use tokio::time::{Instant, timeout};

use super::body::{self, BodySink, Meter};
use crate::net::{Client, Failure, HttpUrl, Trust, authorization};
use crate::telemetry::VERSION;

/// Limits of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLimits {
    /// For the TCP connection.
    pub(super) connect: Duration,
    /// For the head of the response. Most operators collect all metrics before they start to
    /// respond.
    pub(super) head: Duration,
    /// For everything.
    pub(super) whole: Duration,
    /// For the body, before and after decompression.
    pub(super) bytes: u64,
}

/// Which addresses may serve the operator's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The address of loopwatch's own Pod.
    pub(super) own: Option<IpAddr>,
    /// The addresses of other Pods of the operator.
    pub(super) pods: Vec<IpAddr>,
    /// The token of loopwatch's own Pod; `None` unless that Pod has its own network, and thus its
    /// own loopback.
    pub(super) token: Option<PodToken>,
}

/// The token of loopwatch's own Pod, and who in that Pod may get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodToken {
    pub(super) file: PathBuf,
    /// The ports that the Pod's spec names for the metrics of the operator's own container. Another
    /// container may listen at any other port.
    pub(super) ports: Vec<u16>,
}

/// A client for one endpoint.
pub(super) struct MetricsClient {
    url: HttpUrl,
    /// The token, if this endpoint may get it.
    token: Option<PathBuf>,
    /// Whether only the port keeps the token from this endpoint.
    is_unnamed_port: bool,
    /// Whether the endpoint has requested the token.
    authorized: bool,
    remote: bool,
    client: Client,
}

/// The result of one request, and what it cost.
pub(super) struct Attempt<S> {
    pub(super) result: Result<S, Failure>,
    /// The time that it took.
    pub(super) took: Duration,
    /// At most the time that the server took, without loopwatch's own work.
    pub(super) cost: Duration,
    /// The bytes of the body.
    pub(super) bytes: u64,
}

/// The formats that loopwatch reads.
const ACCEPT: &str =
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.6,*/*;q=0.1";
/// Time to read the body of a refusal.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);
/// The largest body of a refusal to read, in bytes.
const MAX_REFUSAL: usize = 4 << 10;
/// Characters of that body to quote.
const QUOTED: usize = 160;

impl Reach {
    pub(super) fn client(&self, url: HttpUrl) -> MetricsClient {
        let ip = url.ip();
        let near = ip.is_some_and(|ip| ip.is_loopback() || self.own == Some(ip));
        let of_pod = ip.is_some_and(|ip| self.pods.contains(&ip));
        let trust = match url.is_https() {
            false => Trust::Plain,
            // Operators sign their own certificates.
            true if near || of_pod => Trust::Anyone,
            true => Trust::System,
        };

        let may_ask = self.token.as_ref().filter(|_| url.is_https() && near);
        let named = may_ask.filter(|token| token.ports.contains(&url.port()));
        let token = named.map(|token| token.file.clone());
        let is_unnamed_port = may_ask.is_some() && token.is_none();
        let remote = !ip.is_some_and(|ip| ip.is_loopback());
        let client = Client::new(trust);

        MetricsClient { url, token, is_unnamed_port, authorized: false, remote, client }
    }
}

impl MetricsClient {
    /// The address for display, without the query.
    pub(super) fn shown(&self) -> String {
        format!("{}{}", self.url, self.url.path())
    }

    pub(super) fn url(&self) -> &HttpUrl {
        &self.url
    }

    pub(super) fn may_get_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the last answer needed the token.
    pub(super) fn needed_token(&self) -> bool {
        self.authorized
    }

    /// Returns the same endpoint without the token.
    pub(super) fn anonymous(self) -> Self {
        Self { token: None, ..self }
    }

    /// Requests the metrics. `sink` gets the content type, and takes the body.
    pub(super) async fn get<S: BodySink>(
        &mut self,
        limits: RequestLimits,
        sink: impl FnOnce(Option<&str>) -> S,
    ) -> Attempt<S> {
        let (began, shown) = (Instant::now(), self.shown());
        let mut meter = Meter::new(limits.bytes);
        let result = match timeout(limits.whole, self.try_get(limits, sink, &mut meter)).await {
            Ok(result) => result,
            Err(_) => {
                let (seconds, bytes) = (limits.whole.as_secs_f32(), meter.bytes);
                let detail =
                    format!("the response was incomplete after {seconds} s and {bytes} bytes");
                Err(Failure::new(Cause::Timeout, detail))
            }
        };

        if result.is_err() {
            // The connection may be half-open, and another process may listen there next time.
            self.client.disconnect();
            self.authorized = false;
        }

        let result = result.map_err(|failure| Failure {
            detail: format!("{shown}: {}", failure.detail),
            ..failure
        });
        let took = began.elapsed();

        Attempt { result, took, cost: took.saturating_sub(meter.work), bytes: meter.bytes }
    }

    async fn try_get<S: BodySink>(
        &mut self,
        limits: RequestLimits,
        sink: impl FnOnce(Option<&str>) -> S,
        meter: &mut Meter,
    ) -> Result<S, Failure> {
        let mut response = self.send(limits).await?;
        let asks = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status());
        if asks && !self.authorized && self.token.is_some() {
            // Without reading the body, the connection could not serve the next request.
            let _ = refusal_text(response).await;
            self.authorized = true;
            response = self.send(limits).await?;
        }

        if response.status() != StatusCode::OK {
            return Err(self.refused(response).await);
        }

        let content_type = text_of(response.headers(), &header::CONTENT_TYPE);
        if let Some(kind) = content_type.as_deref().filter(|kind| !is_metrics(kind)) {
            return Err(Failure::new(
                Cause::Undecodable,
                format!("the response is {}, not metrics", quoted(kind)),
            ));
        }

        let mut sink = sink(content_type.as_deref());
        body::read(response, &mut sink, meter).await?;
        Ok(sink)
    }

    /// Sends the request, and waits for the head of the response.
    async fn send(&mut self, limits: RequestLimits) -> Result<Response<Incoming>, Failure> {
        let request = self.request().await?;
        self.client.connecting_within(limits.connect).send(request, limits.head).await
    }

    async fn request(&self) -> Result<Request<Full<Bytes>>, Failure> {
        // Compression costs the operator CPU time, and on loopback it saves nothing.
        let encoding = if self.remote { "gzip" } else { "identity" };
        let mut request = Request::get(self.url.uri())
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, encoding)
            .header(header::USER_AGENT, format!("loopwatch/{VERSION}"))
            .body(Full::default())
            .map_err(|error| Failure::new(Cause::Invalid, error.to_string()))?;

        if let Some(file) = self.token.as_ref().filter(|_| self.authorized) {
            // Reads the file for each request, because the kubelet replaces the token regularly.
            let token = authorization(file).await;
            let token: HeaderValue = token.map_err(|problem| {
                let advice = "mount the token of the service account in loopwatch's container";
                Failure::new(
                    Cause::Unauthorized,
                    format!("it asks for credentials, but loopwatch {problem}; {advice}"),
                )
            })?;

            request.headers_mut().insert(header::AUTHORIZATION, token);
        }

        Ok(request)
    }

    /// Why the endpoint does not get the token, and the way out.
    fn why_anonymous(&self) -> String {
        if self.is_unnamed_port {
            let port = self.url.port();
            return format!(
                "the spec of the Pod does not name port {port} for the metrics of the operator's container, so loopwatch sends \
                 no token there: name the port `metrics` in that container and let the account get its Pod \
                 (deploy/components/reader-rights), or set --scrape {}{}",
                self.url,
                self.url.path()
            );
        }

        "loopwatch sends the token of its service account only over TLS, only to its own Pod, and not if that uses the network \
         of its node"
            .to_owned()
    }

    /// The failure for an unsuccessful response.
    async fn refused(&self, response: Response<Incoming>) -> Failure {
        let status = response.status();
        let why_anonymous = self.why_anonymous();
        let path = self.url.path();
        let (cause, advice) = match status.as_u16() {
            401 if self.authorized => (
                Cause::Unauthorized,
                "the operator does not accept the token of its own service account".to_owned(),
            ),
            401 => (Cause::Unauthorized, format!("it asks for credentials, but {why_anonymous}")),
            403 if self.authorized => (
                Cause::Forbidden,
                format!(
                    "the service account needs the rule `nonResourceURLs: [\"{path}\"], verbs: [\"get\"]`; the component \
                     deploy/components/reader-rights grants it"
                ),
            ),
            403 => (
                Cause::Forbidden,
                format!("it refuses requests without credentials, but {why_anonymous}"),
            ),
            300..=399 => (
                Cause::Invalid,
                "loopwatch does not follow redirects; set --scrape URL to the final address"
                    .to_owned(),
            ),
            404 | 405 => (Cause::NotFound, "no metrics here".to_owned()),
            429 => (Cause::Throttled, "too many requests".to_owned()),
            // For example, the operator may not have the permission to review tokens.
            500.. => (Cause::ServerError, refusal_text(response).await),
            _ => (Cause::Invalid, refusal_text(response).await),
        };

        let colon = if advice.is_empty() { "" } else { ": " };
        let detail = format!("HTTP {}{colon}{advice}", status.as_u16());
        Failure { status: Some(status.as_u16()), ..Failure::new(cause, detail) }
    }
}

/// The beginning of the body of a refusal.
async fn refusal_text(response: Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), MAX_REFUSAL).collect();
    match timeout(REFUSAL_WITHIN, body).await {
        Ok(Ok(body)) => quoted(&String::from_utf8_lossy(&body.to_bytes())),
        _ => String::new(),
    }
}

/// A text of the server for display: one line of limited length.
fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(QUOTED).collect()
}

fn text_of(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Whether a content type may be that of metrics. Some operators send none, or a general one.
fn is_metrics(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    !["html", "json", "xml", "image/", "javascript", "protobuf"]
        .iter()
        .any(|other| kind.contains(other))
}
