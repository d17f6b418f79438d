//! TCP connections that read in batches, so that a busy watch wakes the process less often.
//!
//! The kernel wakes the process for every packet of a connection that is registered with the
//! runtime, even while nothing reads from it. A wake-up costs more than reading several packets. If
//! its reader asks for batches, a connection therefore leaves the runtime's registry while data
//! keeps arriving, and reads when a timer fires:
//!
//! ```text
//!                    two reads in a moment
//!  Registered ─────────────────────────────────────▶ Batch ──────┐ data: waits again
//!      ▲                                              │     ▲────┘
//!      └───────── nothing to read, or a write ────────┘
//! ```

use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt as _;
use tower::util::MapResponse;

use crate::net::NameLookups;
use crate::system::coarse_timers;

/// Opens connections that can read in batches.
pub(super) type BatchedConnector =
    MapResponse<HttpConnector<NameLookups>, fn(TokioIo<TcpStream>) -> TokioIo<BatchedStream>>;

/// How long a connection waits for data before each read. The reader of a response sets it; the
/// next request on the same connection resets it to zero. Each response carries it as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchTime(Arc<AtomicU32>);

/// A TCP connection that can read in batches.
#[derive(Debug)]
pub(super) struct BatchedStream {
    /// The socket, while the runtime waits for its packets. If neither this nor `batch` is set,
    /// the connection has failed.
    registered: Option<TcpStream>,
    batch: Option<Batch>,
    batch_time: BatchTime,
    /// When a read last left the socket empty.
    emptied_at: Option<Instant>,
    /// The bytes that were read since then.
    bytes: usize,
}

/// A socket that is not registered with the runtime.
#[derive(Debug)]
struct Batch {
    socket: std::net::TcpStream,
    /// Fires when it is time to read.
    timer: Pin<Box<Sleep>>,
    /// The task that waits for the timer.
    reader: Option<Waker>,
    /// Whether the server has closed the connection, so that there is nothing to wait for.
    is_closed: bool,
}

/// Longest time between two reads after which a connection begins a batch.
const MOMENT: Duration = Duration::from_millis(100);

/// Bytes that may arrive during one batch: three quarters of the window with which Linux opens a
/// connection. If the window fills up, the API server has to wait. The measured rate is then too
/// low, and the API server may close the stream as that of a slow client.
const BATCH_BYTES: usize = 48 << 10;

/// The connector of a cluster.
pub(super) fn connector() -> BatchedConnector {
    let mut http = HttpConnector::new_with_resolver(NameLookups::of_system());
    http.enforce_http(false); // TLS is the next layer
    http.map_response(|connected| TokioIo::new(BatchedStream::new(connected.into_inner())))
}

impl BatchTime {
    /// Sets the time, in whole milliseconds. Zero means that the connection reads each packet at
    /// once.
    pub(crate) fn set(&self, time: Duration) {
        self.0.store(u32::try_from(time.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed).into())
    }
}

impl BatchedStream {
    fn new(socket: TcpStream) -> Self {
        Self {
            registered: Some(socket),
            batch: None,
            batch_time: BatchTime::default(),
            emptied_at: None,
            bytes: 0,
        }
    }

    /// Notes that the socket is empty. Returns how long to wait before the next read.
    fn emptied(&mut self) -> Duration {
        let (now, bytes) = (Instant::now(), std::mem::take(&mut self.bytes));
        let before = self.emptied_at.replace(now);

        // A single change causes no additional wake-up.
        let within = before.map_or(Duration::MAX, |before| now - before);
        if self.batch.is_none() && within > MOMENT {
            Duration::ZERO
        } else {
            batch_time_for(self.batch_time.get(), bytes, within)
        }
    }

    fn begin_batch(&mut self, wait: Duration) {
        // Deregistering fails only if the runtime's registry is broken. The next call then reports
        // a lost connection.
        let socket = self.registered.take().and_then(|socket| socket.into_std().ok());
        self.batch = socket.map(|socket| {
            let timer = Box::pin(tokio::time::sleep_until(coarse_timers::after(wait)));
            let is_closed = is_closed(&socket);
            Batch { socket, timer, reader: None, is_closed }
        });
    }

    /// Ends the batch.
    fn register(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let Some(Batch { socket, .. }) = self.batch.take() {
            self.registered = Some(TcpStream::from_std(socket)?);
        }
        self.registered.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Ends the batch for a request.
    fn register_to_write(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.batch_time.set(Duration::ZERO);
        if let Some(Batch { reader: Some(reader), .. }) = &self.batch {
            reader.wake_by_ref(); // the timer will not fire
        }

        self.register()
    }
}

impl Batch {
    fn wait(&mut self, wait: Duration) {
        self.timer.as_mut().reset(coarse_timers::after(wait));
    }
}

/// Whether the server has closed a connection that has no unread data. If the connection noticed
/// this only after the wait, the next request would use a dead connection.
fn is_closed(socket: &std::net::TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        }
    }
}

/// The time until the next read. It is shorter the more bytes arrived in the time `within`.
fn batch_time_for(longest: Duration, bytes: usize, within: Duration) -> Duration {
    let within = within.clamp(Duration::from_millis(1), Duration::from_secs(1));
    longest.min(within.mul_f64(BATCH_BYTES as f64 / bytes.max(1) as f64))
}

impl AsyncRead for BatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while let Some(Batch { socket, timer, reader, is_closed: closed }) = &mut this.batch {
            if !*closed && timer.as_mut().poll(context).is_pending() {
                *reader = Some(context.waker().clone());
                return Poll::Pending;
            }

            let space = buffer.initialize_unfilled();
            match socket.read(space) {
                Ok(read) => {
                    let emptied = 0 < read && read < space.len();
                    *closed |= emptied && is_closed(socket);
                    buffer.advance(read);
                    this.bytes += read;

                    if emptied {
                        let wait = this.emptied();
                        this.batch.iter_mut().for_each(|batch| batch.wait(wait));
                    }

                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => _ = this.register()?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }

        let before = buffer.filled().len();
        ready!(this.register()?.poll_read(context, buffer))?;

        let read = buffer.filled().len() - before;
        this.bytes += read;
        if 0 < read && buffer.remaining() > 0 {
            let wait = this.emptied();
            if !wait.is_zero() {
                this.begin_batch(wait);
            }
        }

        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.register_to_write()?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.register_to_write()?.poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // a socket has nothing to flush
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.register_to_write()?.poll_shutdown(context)
    }
}

impl Connection for BatchedStream {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.batch_time.clone())
    }
}

#[cfg(test)]
mod tests;
