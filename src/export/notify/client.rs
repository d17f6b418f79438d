//! One request to the webhook.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;
use tower::{Service as _, ServiceExt as _};

use super::Webhook;
use crate::sources::failure::layers;
use crate::sources::peer::{Peer, authorization, retry_after};
use crate::telemetry::VERSION;

/// Sends requests to the webhook, over one connection that stays open for a while.
pub(super) struct WebhookClient {
    webhook: Webhook,
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

/// Time to read the body of a response. Only a connection without a rest of it can serve the next request.
const BODY_WITHIN: Duration = Duration::from_secs(1);
/// The largest body that is read, in bytes.
const MAX_BODY: usize = 64 << 10;

// === impl WebhookClient ===

impl WebhookClient {
    pub(super) fn new(webhook: Webhook, within: Duration) -> Self {
        let peer = Peer::new(webhook.url.uri(), webhook.ca_file.clone());
        Self { webhook, within, peer }
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
                self.peer.disconnect();
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
        let http = self.peer.client().await?;
        let response = http.ready().await.map_err(|error| layers(&*error))?.call(request);
        response.await.map_err(|error| layers(&*error))
    }
}

// === impl Answer ===

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
