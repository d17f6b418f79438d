//! Streams `/metrics`: loopwatch renders each chunk when the client is ready to take it, so that the
//! memory of a scrape is proportional to a chunk.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;

use super::exporter::Exporter;
use crate::export::metrics::{Render, TextFormat, wanted_format, wants_gzip};

/// An exposition that is being sent.
struct Scrape {
    exporter: Arc<Exporter>,
    render: Render,
    encoder: Encoder,
    began: Instant,
    by_prometheus: bool,
}

/// The header by which a Prometheus, or an agent with its code, says how long it waits.
const OF_PROMETHEUS: &str = "x-prometheus-scrape-timeout-seconds";

/// The content encoding of a response.
enum Encoder {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Done,
}

pub(super) async fn metrics(State(exporter): State<Arc<Exporter>>, headers: HeaderMap) -> Response {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let format = wanted_format(text(header::ACCEPT));
    let gzip = wants_gzip(text(header::ACCEPT_ENCODING));

    let by_prometheus = headers.contains_key(OF_PROMETHEUS);

    let scrape = Scrape::new(exporter, format, gzip, by_prometheus);
    let mut response = scrape.body().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(format.content_type()));
    headers.insert(header::VARY, header::HeaderValue::from_static("accept, accept-encoding"));

    if gzip {
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
    }

    response
}

impl Scrape {
    fn new(exporter: Arc<Exporter>, format: TextFormat, gzip: bool, by_prometheus: bool) -> Self {
        let render = exporter.render(format);
        Self { exporter, render, encoder: Encoder::new(gzip), began: Instant::now(), by_prometheus }
    }

    /// The body, which renders each part when the connection asks for it.
    fn body(self) -> Body {
        Body::from_stream(stream::unfold(Some(self), |scrape| async {
            let mut scrape = scrape?;
            let (bytes, last) = scrape.next();
            if last {
                scrape.exporter.scrape_times().note(scrape.by_prometheus);
                scrape
                    .exporter
                    .metrics
                    .render_seconds
                    .observe(scrape.began.elapsed().as_secs_f64());
            }

            // A scrape must not hold up the other tasks of the thread for longer than one chunk.
            tokio::task::yield_now().await;
            Some((Ok::<_, Infallible>(bytes), (!last).then_some(scrape)))
        }))
    }

    /// The next bytes that are not empty, and whether they are the last.
    fn next(&mut self) -> (Bytes, bool) {
        loop {
            let (bytes, last) = self.encoder.next(&mut self.render);
            if last || !bytes.is_empty() {
                return (bytes, last);
            }
        }
    }
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
