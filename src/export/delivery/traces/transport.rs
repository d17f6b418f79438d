//! Sends the requests of the OTLP exporter with loopwatch's own HTTP client, and keeps the outcome
//! of the last one.

use std::sync::{Arc, Mutex as SyncMutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::sync::Mutex;

use super::collector::Collector;
use crate::export::delivery::post::Delivery;
use crate::lock::lock;
use crate::net::{Destination, Transport};

/// The client of the exporter. All clones share it.
#[derive(Clone)]
pub(super) struct OtlpClient(Arc<Shared>);

struct Shared {
    transport: Mutex<Transport>,
    delivery: SyncMutex<Option<Delivery<Rejected>>>,
}

/// Spans that the collector refused, although it accepted the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) spans: u64,
    /// Why the collector refused them.
    pub(super) message: String,
}

/// The maximum length of a collector's message in the log, in characters.
const MAX_MESSAGE: usize = 200;

impl OtlpClient {
    pub(super) fn new(collector: &Collector) -> Self {
        let transport = Mutex::new(Transport::new(Destination {
            url: collector.url.clone(),
            address: None,
            token_file: collector.token_file.clone(),
            ca_file: collector.ca_file.clone(),
            within: collector.within,
        }));
        Self(Arc::new(Shared { transport, delivery: SyncMutex::default() }))
    }

    /// Takes the outcome of the last request.
    pub(super) fn delivery(&self) -> Option<Delivery<Rejected>> {
        lock(&self.0.delivery).take()
    }
}

impl std::fmt::Debug for OtlpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpClient").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.0.transport.lock().await.send(request).await;
        let delivery = match &sent {
            Ok(response) => delivery(response),
            Err(problem) => Delivery::Failed { problem: problem.clone(), retry_after: None },
        };

        *lock(&self.0.delivery) = Some(delivery);
        sent.map_err(HttpError::from)
    }
}

/// Reads a response according to the OTLP specification.
fn delivery(response: &Response<Bytes>) -> Delivery<Rejected> {
    let (status, headers) = (response.status(), response.headers());
    if !status.is_success() {
        let is_passing = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        return Delivery::of_refusal(status, headers, is_passing);
    }

    // A body that is not OTLP is ignored.
    let said = ExportTraceServiceResponse::decode(response.body().clone()).unwrap_or_default();
    let partial = said.partial_success.unwrap_or_default();
    let spans = u64::try_from(partial.rejected_spans).unwrap_or(0);
    let message =
        partial.error_message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();

    Delivery::unless_page(headers).map(|()| Rejected { spans, message })
}
