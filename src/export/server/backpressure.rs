//! Whether a connection waits for its client to read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the last write to a connection had to wait, because its buffers are full: the client has
/// not read what is in them. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Backpressure(Arc<AtomicBool>);

/// A connection that notes its backpressure.
#[derive(Debug)]
pub(super) struct NotingStream {
    stream: TcpStream,
    backpressure: Backpressure,
}

impl Backpressure {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes the backpressure of a connection.
    pub(super) fn of(&self, stream: TcpStream) -> NotingStream {
        NotingStream { stream, backpressure: self.clone() }
    }

    fn note<T>(&self, write: Poll<T>) -> Poll<T> {
        self.0.store(write.is_pending(), Ordering::Relaxed);
        write
    }
}

impl AsyncRead for NotingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for NotingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.backpressure.note(write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.backpressure.note(write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
