//! One request that sends something to a receiver: the webhook of `--notify`, or an Alertmanager.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;
use tower::{Service as _, ServiceExt as _};

use crate::sources::failure::layers;
use crate::sources::peer::{Peer, authorization, retry_after};
use crate::telemetry::VERSION;

/// A receiver, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) uri: Uri,
    /// The address to connect to, if the name of the host stands for several.
    pub(super) address: Option<SocketAddr>,
    /// A file with the bearer token.
    pub(super) token_file: Option<PathBuf>,
    /// A file with the certificate authorities to trust instead of those of the system.
    pub(super) ca_file: Option<PathBuf>,
    /// Whether a success with a web page is none: another server than this receiver has answered,
    /// such as a proxy that asks for a password.
    pub(super) refuses_pages: bool,
}

/// Sends requests to a receiver, over one connection that stays open for a while.
pub(super) struct Poster {
    destination: Destination,
    /// Time for a request, with the connection and the head of the response.
    within: Duration,
    peer: Peer,
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

/// Time to read the body of a response. Only a connection without a rest of it can serve the next
/// request.
const BODY_WITHIN: Duration = Duration::from_secs(1);
/// The largest body that is read, in bytes.
const MAX_BODY: usize = 64 << 10;

/// The problem of a success with a web page.
pub(super) const A_PAGE: &str = "the response is a web page: the URL may be wrong";

/// Whether the body of a response is a web page.
pub(super) fn is_page(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.to_ascii_lowercase().starts_with("text/html")
}

impl Destination {
    /// Returns the URL to request: with the address instead of the name of the host, if there is
    /// one.
    fn target(&self) -> Result<Uri, String> {
        let Some(address) = self.address else { return Ok(self.uri.clone()) };
        let mut parts = self.uri.clone().into_parts();
        parts.authority =
            Some(address.to_string().parse().map_err(|_| format!("{address} is no address"))?);

        Uri::from_parts(parts).map_err(|error| error.to_string())
    }

    /// Returns the name in the certificate, if the URL to request has an address instead.
    fn server_name(&self) -> Option<String> {
        self.address
            .and_then(|_| self.uri.host())
            .map(|host| host.trim_matches(['[', ']']).to_owned())
    }
}

impl Poster {
    pub(super) fn new(destination: Destination, within: Duration) -> Self {
        let peer = Peer::new(&destination.uri, destination.ca_file.clone())
            .named(destination.server_name());
        Self { destination, within, peer }
    }

    /// Sends a body in JSON and waits for the answer.
    pub(super) async fn post(&mut self, body: &[u8]) -> Answer {
        let failed = |problem| Answer::Failed { problem, retry_after: None };
        match timeout(self.within, self.request(body)).await {
            Ok(Ok(response)) => {
                let answer = match is_page(response.headers()) && self.destination.refuses_pages {
                    true if response.status().is_success() => Answer::Refused(A_PAGE.to_owned()),
                    _ => Answer::of(response.status(), response.headers()),
                };
                let body = Limited::new(response.into_body(), MAX_BODY).collect();

                drop(timeout(BODY_WITHIN, body).await); // the status says it all
                answer
            }
            Ok(Err(problem)) => failed(problem),
            Err(_) => {
                self.peer.disconnect();
                failed(format!("no response within {} s", self.within.as_secs_f32()))
            }
        }
    }

    async fn request(&mut self, body: &[u8]) -> Result<http::Response<Incoming>, String> {
        let mut request = Request::post(self.destination.target()?)
            .header(header::HOST, self.destination.uri.authority().map_or("", Authority::as_str))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, format!("loopwatch/{VERSION}"))
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|error| error.to_string())?;

        if let Some(file) = &self.destination.token_file {
            request.headers_mut().insert(header::AUTHORIZATION, authorization(file).await?);
        }

        let http = self.peer.client().await?;
        let response = http.ready().await.map_err(|error| layers(&*error))?.call(request);
        response.await.map_err(|error| layers(&*error))
    }
}

impl Answer {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let problem = format!("HTTP {}", status.as_u16());
        if status.is_success() {
            Self::Accepted
        } else if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            Self::Failed { problem, retry_after: retry_after(headers) }
        } else {
            Self::Refused(problem) // redirects, too: the token must not go elsewhere
        }
    }
}
