//! Streams `/metrics`: its memory is proportional to a chunk, and a client that stops reading does
//! not block others.

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

use super::exporter::Exporter;
use crate::export::metrics::{Render, TextFormat, wanted_format, wants_gzip};

/// How long a scrape waits for its turn. Prometheus times out after ten seconds by default.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for a client to read one chunk.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A part of the body; `None` marks its end. A body without this mark ends with an error, so that
/// scrapers reject a truncated exposition.
type BodyPart = Option<Bytes>;

pub(super) async fn metrics(State(exporter): State<Arc<Exporter>>, headers: HeaderMap) -> Response {
    let Ok(Ok(turn)) = timeout(QUEUE_TIMEOUT, exporter.renders.clone().acquire_owned()).await
    else {
        let busy = "too many concurrent scrapes; retry later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], busy)
            .into_response();
    };

    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let format = wanted_format(text(header::ACCEPT));
    let gzip = wants_gzip(text(header::ACCEPT_ENCODING));

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

/// Renders the whole exposition. Stops early if the client no longer reads.
async fn produce(
    exporter: Arc<Exporter>,
    _turn: OwnedSemaphorePermit,
    format: TextFormat,
    gzip: bool,
    parts: mpsc::Sender<BodyPart>,
) {
    let began = Instant::now();
    let mut render = exporter.render(format);
    let mut encoder = Encoder::new(gzip);

    loop {
        let (bytes, last) = encoder.next(&mut render);
        if !bytes.is_empty() && !send(&parts, Some(bytes)).await {
            return;
        }

        if last {
            break;
        }
    }

    if send(&parts, None).await {
        exporter.metrics.render_seconds.observe(began.elapsed().as_secs_f64());
    }
}

/// Whether the client took `part` in time.
async fn send(parts: &mpsc::Sender<BodyPart>, part: BodyPart) -> bool {
    matches!(timeout(READ_TIMEOUT, parts.send(part)).await, Ok(Ok(())))
}

fn body(receiver: mpsc::Receiver<BodyPart>) -> Body {
    Body::from_stream(stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(None) => None,
            None => Some((Err(io::Error::other("the exposition is truncated")), None)),
        }
    }))
}

/// The content encoding of a response.
enum Encoder {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Done,
}

impl Encoder {
    fn new(gzip: bool) -> Self {
        // Level 1 is eight times faster than the default level 6, and compresses by a factor of 15
        // instead of 24.
        if gzip { Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())) } else { Self::Plain }
    }

    /// Returns the next bytes, which may be empty, and whether they are the last.
    fn next(&mut self, render: &mut Render) -> (Bytes, bool) {
        let chunk = render.next_chunk();
        match (self, chunk) {
            (Self::Plain, Some(chunk)) => (chunk.into(), false),
            (Self::Gzip(gzip), Some(chunk)) => {
                let _ = gzip.write_all(chunk.as_bytes()); // writing to memory cannot fail
                (std::mem::take(gzip.get_mut()).into(), false)
            }
            (encoder, None) => match std::mem::replace(encoder, Self::Done) {
                Self::Gzip(gzip) => (gzip.finish().unwrap_or_default().into(), true),
                Self::Plain | Self::Done => (Bytes::new(), true),
            },
            (Self::Done, Some(_)) => (Bytes::new(), true),
        }
    }
}
