//! Carries the requests of the OTLP exporter over loopwatch's own HTTP client, and keeps what
//! became of the last one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tower::{Service as _, ServiceExt as _};

use super::Target;
use crate::export::delivery::post::{A_PAGE, is_page};
use crate::lock::lock;
use crate::sources::failure::layers;
use crate::sources::peer::{Peer, authorization, retry_after};

/// The transport of the exporter. All clones share it.
#[derive(Clone)]
pub(super) struct Transport(Arc<Shared>);

struct Shared {
    token_file: Option<PathBuf>,
    /// For one request, with the connection and the response.
    within: Duration,
    peer: Mutex<Peer>,
    answer: SyncMutex<Option<Answer>>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The collector accepted it, except for some spans, and said why.
    Accepted { rejected: u64, message: String },
    /// The collector will not accept it later either.
    Refused(String),
    /// The collector may accept it later.
    Failed {
        problem: String,
        /// The wait that the collector asks for.
        retry_after: Option<Duration>,
    },
}

/// Time to read the body of a response.
const BODY_WITHIN: Duration = Duration::from_secs(1);

/// The largest body of a response that is read, in bytes.
const MAX_BODY: usize = 64 << 10;

/// The part of a message of the collector that the log shows, in characters.
const MAX_MESSAGE: usize = 200;

impl Transport {
    pub(super) fn new(target: &Target) -> Self {
        let peer = Mutex::new(Peer::new(target.url.uri(), target.ca_file.clone()));
        let answer = SyncMutex::default();
        Self(Arc::new(Shared {
            token_file: target.token_file.clone(),
            within: target.within,
            peer,
            answer,
        }))
    }

    /// Returns what became of the last request, once.
    pub(super) fn answer(&self) -> Option<Answer> {
        lock(&self.0.answer).take()
    }

    async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        if let Some(file) = &self.0.token_file {
            request.headers_mut().insert(header::AUTHORIZATION, authorization(file).await?);
        }

        let mut peer = self.0.peer.lock().await;
        let http = peer.client().await?.ready().await.map_err(|error| layers(&*error))?;
        let response = http.call(request.map(Full::new)).await.map_err(|error| layers(&*error))?;
        let (head, body) = response.into_parts();
        let body = match timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => {
                // The status says what became of the spans, and only a connection without a rest
                // can serve the next request.
                peer.disconnect();
                Bytes::new()
            }
        };

        Ok(Response::from_parts(head, body))
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = match timeout(self.0.within, self.send(request)).await {
            Ok(sent) => sent,
            Err(_) => {
                self.0.peer.lock().await.disconnect();
                Err(format!("no response within {} s", self.0.within.as_secs_f32()))
            }
        };

        let answer = match &sent {
            Ok(response) => Answer::of(response.status(), response.headers(), response.body()),
            Err(problem) => Answer::Failed { problem: problem.clone(), retry_after: None },
        };

        *lock(&self.0.answer) = Some(answer);
        sent.map_err(HttpError::from)
    }
}

impl Answer {
    /// Reads a response as the specification of OTLP says.
    fn of(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Self {
        if status.is_success() {
            return Self::of_success(headers, body);
        }

        let problem = format!("HTTP {}", status.as_u16());
        match status.as_u16() {
            429 | 502 | 503 | 504 => Self::Failed { problem, retry_after: retry_after(headers) },
            _ => Self::Refused(problem), // redirects, too: the token must not go elsewhere
        }
    }

    /// Another server than a collector may respond with a page, which means that the spans are
    /// lost. Any other body that is not of OTLP says nothing.
    fn of_success(headers: &HeaderMap, body: &Bytes) -> Self {
        if is_page(headers) {
            return Self::Refused(A_PAGE.to_owned());
        }

        let response = ExportTraceServiceResponse::decode(body.clone()).unwrap_or_default();
        let partial = response.partial_success.unwrap_or_default();
        let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
        let message =
            partial.error_message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();

        Self::Accepted { rejected, message }
    }
}
