//! Reads the body of a response in small pieces, with a limit before and after decompression, and
//! without blocking the thread.

use std::io::{BufRead, ErrorKind, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use flate2::bufread::GzDecoder;
use http::{Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use loopwatch_model::observation::Cause;
use tokio::time::Instant;

use crate::net::Failure;

/// Takes the body of a response.
pub(super) trait BodySink {
    /// Takes the next small piece.
    fn take(&mut self, piece: &[u8]) -> Result<Flow, Failure>;
}

/// Whether to continue reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Enough,
}

/// Counts what a response costs, and yields to other tasks.
#[derive(Debug)]
pub(super) struct Meter {
    /// Limit on `wire` and on `bytes`.
    limit: u64,
    /// Bytes received.
    wire: u64,
    /// Bytes after decompression.
    pub(super) bytes: u64,
    /// Time that loopwatch itself has spent.
    pub(super) work: Duration,
    /// The part of `work` since loopwatch last yielded to other tasks.
    unbroken: Duration,
}

/// Decompresses one response.
struct Inflater {
    decoder: GzDecoder<Arrived>,
    buffer: Box<[u8; PIECE]>,
}

/// The compressed bytes that have arrived but are not yet decompressed.
struct Arrived {
    bytes: Bytes,
    complete: bool,
}

/// The largest piece, in bytes.
const PIECE: usize = 16 << 10;
/// Time after which loopwatch yields to other tasks.
const UNBROKEN: Duration = Duration::from_micros(300);

/// Reads a body until it ends or the sink has enough.
pub(super) async fn read<S: BodySink>(
    response: Response<Incoming>,
    sink: &mut S,
    meter: &mut Meter,
) -> Result<(), Failure> {
    let mut inflater =
        match response.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes()) {
            None | Some(b"" | b"identity") => None,
            Some(b"gzip" | b"x-gzip") => Some(Inflater::new()),
            Some(_) => {
                return Err(undecodable(
                    "the response has an encoding that loopwatch did not ask for",
                ));
            }
        };

    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cut_off(meter, Failure::peer(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        meter.arrived(data.len())?;

        let flow = match &mut inflater {
            None => give(&data, sink, meter).await?,
            Some(inflater) => inflater.give(data, sink, meter).await?,
        };
        if flow == Flow::Enough {
            return Ok(());
        }
    }

    match &mut inflater {
        Some(inflater) => inflater.finish(sink, meter).await,
        None => Ok(()),
    }
}

/// Passes data on in pieces.
async fn give<S: BodySink>(data: &[u8], sink: &mut S, meter: &mut Meter) -> Result<Flow, Failure> {
    for piece in data.chunks(PIECE) {
        let began = Instant::now();
        let flow = meter.take(piece, sink)?;
        meter.worked(began).await;

        if flow == Flow::Enough {
            return Ok(flow);
        }
    }

    Ok(Flow::More)
}

fn cut_off(meter: &Meter, failure: Failure) -> Failure {
    let detail =
        format!("the response was cut off after {} bytes: {}", meter.bytes, failure.detail);
    Failure { detail, ..failure }
}

fn undecodable(detail: impl Into<String>) -> Failure {
    Failure::new(Cause::Undecodable, detail)
}

impl Meter {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, wire: 0, bytes: 0, work: Duration::ZERO, unbroken: Duration::ZERO }
    }

    fn arrived(&mut self, bytes: usize) -> Result<(), Failure> {
        self.wire += bytes as u64;
        self.check(self.wire)
    }

    fn take<S: BodySink>(&mut self, piece: &[u8], sink: &mut S) -> Result<Flow, Failure> {
        let text = piece.trim_ascii_start();
        if self.bytes == 0 && text.starts_with(b"<") {
            return Err(undecodable("the response is a web page, not metrics"));
        }

        self.bytes += piece.len() as u64;
        self.check(self.bytes)?;
        sink.take(piece)
    }

    fn check(&self, bytes: u64) -> Result<(), Failure> {
        if bytes <= self.limit {
            return Ok(());
        }

        let detail = format!("the response is larger than {} MiB", self.limit >> 20);
        Err(Failure::new(Cause::TooLarge, detail))
    }

    /// Yields to other tasks now and then.
    async fn worked(&mut self, since: Instant) {
        let time = since.elapsed();
        self.work += time;
        self.unbroken += time;

        if self.unbroken >= UNBROKEN {
            tokio::task::yield_now().await;
            self.unbroken = Duration::ZERO;
        }
    }
}

impl Inflater {
    fn new() -> Self {
        let arrived = Arrived { bytes: Bytes::new(), complete: false };
        Self { decoder: GzDecoder::new(arrived), buffer: Box::new([0; PIECE]) }
    }

    async fn give<S: BodySink>(
        &mut self,
        data: Bytes,
        sink: &mut S,
        meter: &mut Meter,
    ) -> Result<Flow, Failure> {
        self.decoder.get_mut().bytes = data;
        loop {
            let began = Instant::now();
            let flow = match self.decoder.read(&mut self.buffer[..]) {
                // Nothing may follow the end.
                Ok(0) => return Ok(Flow::Enough),
                Ok(length) => meter.take(&self.buffer[..length], sink)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Flow::More),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(undecodable("the compressed response was cut off"));
                }
                Err(_) => return Err(undecodable("the response is not valid gzip")),
            };

            meter.worked(began).await;
            if flow == Flow::Enough {
                return Ok(flow);
            }
        }
    }

    /// Takes what the decoder still holds. A response without its end is invalid.
    async fn finish<S: BodySink>(
        &mut self,
        sink: &mut S,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        self.decoder.get_mut().complete = true;
        self.give(Bytes::new(), sink, meter).await.map(drop)
    }
}

impl Read for Arrived {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(into.len());
        into[..length].copy_from_slice(&available[..length]);
        self.consume(length);

        Ok(length)
    }
}

impl BufRead for Arrived {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.bytes.is_empty() && !self.complete {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(&self.bytes)
    }

    fn consume(&mut self, length: usize) {
        self.bytes.advance(length);
    }
}
