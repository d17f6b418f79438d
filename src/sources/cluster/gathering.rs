//! Connections that read in batches.
//!
//! The kernel wakes the process for every packet of a connection that is registered with the runtime, even while nobody
//! wants to read from it. A wake-up costs more than reading several packets. A connection whose reader asked for it
//! therefore leaves the runtime's registry while data keeps arriving, and reads when a timer fires:
//!
//! ```text
//!                    two reads in a moment
//!  Registered ─────────────────────────────────────▶ Gathering ──┐ data: waits again
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

use crate::sources::wakeups;

/// Opens connections that can gather.
pub(super) type GatheringConnector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> TokioIo<GatheringStream>>;

/// How long a connection gathers data before each read. The reader of a response sets it; the next request on the same
/// connection resets it to zero. A response brings it along as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatherTime(Arc<AtomicU32>);

/// A TCP connection that can gather.
#[derive(Debug)]
pub(super) struct GatheringStream {
    /// The socket, while the runtime waits for its packets. If neither this nor `gathering` is set, the connection has
    /// failed.
    registered: Option<TcpStream>,
    gathering: Option<Gathering>,
    gather_time: GatherTime,
    /// The last read that left the socket empty.
    emptied_at: Option<Instant>,
}

/// A socket that is not registered with the runtime.
#[derive(Debug)]
struct Gathering {
    socket: std::net::TcpStream,
    /// Fires when it is time to read.
    timer: Pin<Box<Sleep>>,
    /// The task that waits for the timer.
    reader: Option<Waker>,
}

/// Longest time between two reads after which a connection begins to gather.
const MOMENT: Duration = Duration::from_millis(100);

/// The connector of a cluster.
pub(super) fn connector() -> GatheringConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false); // TLS is the next layer
    http.map_response(|connected| TokioIo::new(GatheringStream::new(connected.into_inner())))
}

// === impl GatherTime ===

impl GatherTime {
    /// Sets the time, in whole milliseconds. Zero means that the connection reads each packet at once.
    pub(crate) fn set(&self, time: Duration) {
        self.0.store(u32::try_from(time.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed).into())
    }
}

// === impl GatheringStream ===

impl GatheringStream {
    fn new(socket: TcpStream) -> Self {
        Self { registered: Some(socket), gathering: None, gather_time: GatherTime::default(), emptied_at: None }
    }

    /// Notes that the socket is empty. Begins to gather if it was empty a moment ago, too, so that a single change
    /// causes no additional wake-up.
    fn emptied(&mut self) {
        let (wait, now) = (self.gather_time.get(), Instant::now());
        let before = self.emptied_at.replace(now);
        if wait.is_zero() || before.is_none_or(|before| now - before > MOMENT) {
            return;
        }
        // Deregistering fails only if the runtime's registry is broken. The next call then reports a lost connection.
        let socket = self.registered.take().and_then(|socket| socket.into_std().ok());
        self.gathering = socket.map(|socket| {
            let timer = Box::pin(tokio::time::sleep_until(wakeups::after(wait)));
            Gathering { socket, timer, reader: None }
        });
    }

    /// Stops gathering.
    fn register(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let Some(Gathering { socket, .. }) = self.gathering.take() {
            self.registered = Some(TcpStream::from_std(socket)?);
        }
        self.registered.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Stops gathering for a request.
    fn register_to_write(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.gather_time.set(Duration::ZERO);
        if let Some(Gathering { reader: Some(reader), .. }) = &self.gathering {
            reader.wake_by_ref(); // the timer will not fire
        }
        self.register()
    }
}

impl AsyncRead for GatheringStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while let Some(Gathering { socket, timer, reader }) = &mut this.gathering {
            if timer.as_mut().poll(context).is_pending() {
                *reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            let space = buffer.initialize_unfilled();
            match socket.read(space) {
                Ok(read) => {
                    if 0 < read && read < space.len() {
                        let next = wakeups::after(this.gather_time.get());
                        timer.as_mut().reset(next);
                    }
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => _ = this.register()?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let before = buffer.filled().len();
        ready!(this.register()?.poll_read(context, buffer))?;
        if before < buffer.filled().len() && buffer.remaining() > 0 {
            this.emptied();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GatheringStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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

impl Connection for GatheringStream {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.gather_time.clone())
    }
}

#[cfg(test)]
mod tests;
