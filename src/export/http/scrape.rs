//! `/metrics`, streamed: memory follows the size of a chunk, and a client that does not read holds up nobody.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

use crate::export::exporter::Exporter;
use crate::export::prometheus::{Render, negotiate};

/// How long a scrape waits for its turn. Prometheus gives up after ten seconds by default.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long one chunk may wait for a client to read.
const STALLED: Duration = Duration::from_secs(10);

/// A part of the body; `None` says that it is complete. A body that ends without it is reported as broken, so that no
/// scraper takes the first half of an exposition for the whole.
type Part = Option<Bytes>;

pub(super) async fn metrics(State(exporter): State<Arc<Exporter>>, headers: HeaderMap) -> Response {
    let Ok(Ok(turn)) = timeout(PATIENCE, exporter.renders.clone().acquire_owned()).await else {
        let busy = "busy with other scrapes\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], busy).into_response();
    };
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let format = negotiate::format(text(header::ACCEPT));
    let gzip = negotiate::gzip(text(header::ACCEPT_ENCODING));

    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(produce(exporter, turn, format, gzip, sender));
    let mut response = body(receiver).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(format.content_type()));
    headers.insert(header::VARY, header::HeaderValue::from_static("accept, accept-encoding"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
    }
    response
}

/// Renders until the end, or until nobody reads any more.
async fn produce(
    exporter: Arc<Exporter>,
    _turn: OwnedSemaphorePermit,
    format: crate::export::prometheus::TextFormat,
    gzip: bool,
    parts: mpsc::Sender<Part>,
) {
    let began = Instant::now();
    let mut render = exporter.render(format);
    let mut packing = Packing::new(gzip);
    loop {
        let (bytes, last) = packing.next(&mut render);
        if !bytes.is_empty() && !hand_over(&parts, Some(bytes)).await {
            return;
        }
        if last {
            break;
        }
    }
    if hand_over(&parts, None).await {
        exporter.metrics.render_seconds.observe(began.elapsed().as_secs_f64());
    }
}

async fn hand_over(parts: &mpsc::Sender<Part>, part: Part) -> bool {
    matches!(timeout(STALLED, parts.send(part)).await, Ok(Ok(())))
}

fn body(receiver: mpsc::Receiver<Part>) -> Body {
    Body::from_stream(stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(None) => None,
            None => Some((Err(io::Error::other("the exposition was cut off")), None)),
        }
    }))
}

/// Chunks as they go over the wire.
enum Packing {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Done,
}

impl Packing {
    fn new(gzip: bool) -> Self {
        // Level 1 is eight times as fast as the usual 6 and makes 15 of 24 times of it smaller.
        if gzip { Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())) } else { Self::Plain }
    }

    /// The next bytes, perhaps none, and whether they are the last.
    fn next(&mut self, render: &mut Render) -> (Bytes, bool) {
        let chunk = render.next_chunk();
        match (self, chunk) {
            (Self::Plain, Some(chunk)) => (chunk.into(), false),
            (Self::Gzip(gzip), Some(chunk)) => {
                let _ = gzip.write_all(chunk.as_bytes()); // writing to memory does not fail
                (std::mem::take(gzip.get_mut()).into(), false)
            }
            (packing, None) => match std::mem::replace(packing, Self::Done) {
                Self::Gzip(gzip) => (gzip.finish().unwrap_or_default().into(), true),
                Self::Plain | Self::Done => (Bytes::new(), true),
            },
            (Self::Done, Some(_)) => (Bytes::new(), true),
        }
    }
}
