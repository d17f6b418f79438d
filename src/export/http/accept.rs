//! Connections. Every client in the cluster can reach this port, but `axum::serve` limits neither the number of
//! connections nor the time that a request may take to arrive.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::guard::Peer;
use super::router;
use crate::export::exporter::Exporter;

/// Limits of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerLimits {
    /// Concurrent connections. Scrapers and probes need a handful; a browser opens six.
    pub connections: usize,
    /// Time for a request head to arrive, and for a connection to be idle.
    pub request_head: Duration,
    /// Lifetime of a connection, longer than any scrape. It disconnects clients that have stopped reading.
    pub lifetime: Duration,
    /// Time for responses in progress to complete at shutdown or at the end of a connection's lifetime.
    pub grace: Duration,
}

/// Serves `exporter` on `listener` until `shutdown` completes.
pub(crate) async fn serve(listener: TcpListener, exporter: Arc<Exporter>, shutdown: impl Future<Output = ()>) {
    serve_with(listener, exporter, ServerLimits::default(), shutdown).await;
}

/// Like [`serve`], with other limits.
pub(super) async fn serve_with(
    listener: TcpListener,
    exporter: Arc<Exporter>,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()>,
) {
    let router = router(exporter);
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let (slot, stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &slots) => accepted,
        };
        connections.spawn(connection(slot, stream, peer, router.clone(), limits, stopping.clone()));
    }
    drop(listener);
    let _ = stop.send(true);
    if timeout(limits.grace, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        debug!(open = connections.len(), "connections aborted at shutdown");
    }
}

/// Waits for a free slot before it accepts, so that excess connections wait in the kernel's queue.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (OwnedSemaphorePermit, TcpStream, SocketAddr) {
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return std::future::pending().await; // the semaphore is never closed
        };
        match listener.accept().await {
            Ok((stream, peer)) => return (slot, stream, peer),
            Err(error) => {
                // Most likely the process is out of file descriptors, which is temporary. Pauses to avoid a busy loop.
                warn!(%error, "failed to accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(
    _slot: OwnedSemaphorePermit,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ServerLimits,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true); // only affects latency
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(Body::new))
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_head)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        _ = stopping.wait_for(|stop| *stop) => None,
        () = sleep(limits.lifetime) => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            serving.as_mut().graceful_shutdown();
            timeout(limits.grace, serving).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%peer, error = %ErrorChain(&error), "connection ended"),
        Err(_) => debug!(%peer, "connection aborted"),
    }
}

/// An error with its sources, which hyper's own message omits.
struct ErrorChain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

// === impl ServerLimits ===

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            request_head: Duration::from_secs(10),
            lifetime: Duration::from_secs(300),
            grace: Duration::from_secs(5),
        }
    }
}
