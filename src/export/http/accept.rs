//! Connections. `axum::serve` has no bound on their number and no limit on the time a request may take to arrive, and
//! this port can be reached by everyone in the cluster.

use std::io;
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

/// Bounds of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time. Scrapers and probes need a handful; a page needs six.
    pub connections: usize,
    /// How long a request head may take to arrive, and how long a connection may be idle.
    pub header: Duration,
    /// How long a connection may live: whoever stops reading is cut off then. Longer than any scrape.
    pub age: Duration,
    /// How long answers under way may take at shutdown.
    pub grace: Duration,
}

/// Serves `exporter` on `listener` until `shutdown` completes.
pub async fn serve(listener: TcpListener, exporter: Arc<Exporter>, shutdown: impl Future<Output = ()>) {
    serve_with(listener, exporter, Limits::default(), shutdown).await;
}

/// As [`serve`], with other bounds.
pub async fn serve_with(
    listener: TcpListener,
    exporter: Arc<Exporter>,
    limits: Limits,
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
        debug!(left = connections.len(), "connections cut off at shutdown");
    }
}

/// Waits for a free slot first: what does not fit waits in the kernel's queue.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (OwnedSemaphorePermit, TcpStream, SocketAddr) {
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            return std::future::pending().await; // the semaphore is never closed
        };
        match listener.accept().await {
            Ok((stream, peer)) => return (slot, stream, peer),
            Err(error) => {
                // Out of descriptors, most likely: that passes, and must not spin until it does.
                warn!(%error, "cannot accept a connection");
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
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true); // a matter of speed only
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(Body::new))
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        _ = stopping.wait_for(|stop| *stop) => None,
        () = sleep(limits.age) => None,
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
        Ok(Err(error)) => debug!(%peer, error = %Chain(&error), "connection ended"),
        Err(_) => debug!(%peer, "connection cut off"),
    }
}

/// An error with what caused it; hyper's own message leaves that out.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
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

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            header: Duration::from_secs(10),
            age: Duration::from_secs(300),
            grace: Duration::from_secs(5),
        }
    }
}

/// Opens the port; the error names the address.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("failed to listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}
