//! Serves connections. Every client in the cluster can reach the port of the metrics, but
//! `axum::serve` limits neither the number of connections nor the time that a request may take to
//! arrive.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::access::Encryption;
use super::backpressure::Backpressure;
use super::client::{Client, Transport};
use super::connections::{Activity, Connections};
use super::exporter::Exporter;
use super::policy::Port;
use super::routes::router;

#[derive(Clone, Copy, Debug)]
pub(super) struct ServerLimits {
    /// Concurrent connections. Scrapers and probes need a handful; a browser opens six.
    pub connections: usize,
    /// Concurrent connections of one peer address, which several clients may share behind a proxy
    /// or a gateway.
    pub per_peer: usize,
    /// Time for a request head to arrive, and for a connection to be idle.
    pub request_head: Duration,
    /// Lifetime of a connection, longer than any scrape. It disconnects clients that have stopped
    /// reading.
    pub lifetime: Duration,
    /// Time for responses in progress to complete at shutdown or at the end of a connection's
    /// lifetime.
    pub grace: Duration,
}

/// A connection, perhaps encrypted.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The first byte of a TLS connection: the type of a record with a handshake.
const TLS_HANDSHAKE: u8 = 22;

/// Serves the paths of `port` on `listener` until `shutdown` completes.
pub(crate) async fn serve(
    listener: TcpListener,
    port: Port,
    exporter: Arc<Exporter>,
    shutdown: impl Future<Output = ()>,
) {
    serve_with(listener, port, exporter, ServerLimits::default(), shutdown).await;
}

/// Like [`serve`], with other limits.
pub(super) async fn serve_with(
    listener: TcpListener,
    port: Port,
    exporter: Arc<Exporter>,
    limits: ServerLimits,
    shutdown: impl Future<Output = ()>,
) {
    let router = router(exporter.clone());
    let (stop, stopping) = watch::channel(false);
    let mut connections = Connections::new(limits.connections, limits.per_peer);
    let mut shutdown = pin!(shutdown);

    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            true = connections.ended() => continue,
            accepted = accept(&listener) => accepted,
        };
        if connections.make_room(peer.ip()) {
            let (router, stopping) = (router.clone(), stopping.clone());
            connections.spawn(peer.ip(), |activity| {
                let client = Client::new(peer, port, CancellationToken::new());
                let encryption = match port {
                    Port::Ui => Encryption::Off,
                    Port::Metrics | Port::Both => exporter.access().encryption(),
                };
                connection(activity, stream, encryption, client, router, limits, stopping)
            });
        } else {
            debug!(%peer, "connection refused: this peer has too many, and all of them are busy");
        }
    }

    drop(listener);
    let _ = stop.send(true);
    if timeout(limits.grace, async { while connections.ended().await {} }).await.is_err() {
        debug!(open = connections.len(), "connections aborted at shutdown");
    }
}

/// Accepts the next connection. An IPv4 peer of a socket for both families has its IPv4 address.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                return (stream, SocketAddr::new(peer.ip().to_canonical(), peer.port()));
            }
            Err(error) => {
                // Most likely, the process has no free file descriptor, which is temporary. A pause
                // avoids a busy loop.
                warn!(%error, "failed to accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Encrypts a connection if the port requires it. A client that does not begin with TLS stays in
/// plain text, in which it can only open the health checks: a broken certificate must not make the
/// kubelet restart the container.
async fn encrypt(
    stream: TcpStream,
    encryption: Encryption,
    backpressure: &Backpressure,
) -> io::Result<(Box<dyn Stream>, Transport)> {
    let _ = stream.set_nodelay(true); // affects only latency
    let Encryption::Required(config) = encryption else {
        return Ok((Box::new(backpressure.of(stream)), Transport::Plain));
    };

    let mut first = [0];
    stream.peek(&mut first).await?;
    if first != [TLS_HANDSHAKE] {
        return Ok((Box::new(backpressure.of(stream)), Transport::Plain));
    }

    let config = config.ok_or_else(|| io::Error::other("there is no certificate yet"))?;
    let stream = TlsAcceptor::from(config).accept(backpressure.of(stream)).await?;
    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
    Ok((Box::new(stream), Transport::Tls { has_certificate }))
}

async fn connection(
    activity: Activity,
    stream: TcpStream,
    encryption: Encryption,
    client: Client,
    router: Router,
    limits: ServerLimits,
    mut stopping: watch::Receiver<bool>,
) {
    let (peer, close, backpressure) = (client.peer(), client.close(), client.backpressure());
    let encrypted = encrypt(stream, encryption, &backpressure);
    let (stream, transport) = match timeout(limits.request_head, encrypted).await {
        Ok(Ok(encrypted)) => encrypted,
        Ok(Err(error)) => return debug!(%peer, %error, "connection ended before TLS began"),
        Err(_) => return debug!(%peer, "connection closed: TLS did not begin in time"),
    };

    let client = client.over(transport);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        activity.requested();
        let (activity, response) =
            (activity.clone(), router.clone().oneshot(request.map(Body::new)));
        async move {
            let response = response.await;
            let busy = activity.busy();
            response.map(|response| response.map(|body| busy.during(body)))
        }
    });

    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_head)
            .max_buf_size(32 * 1024)
            .serve_connection(TokioIo::new(stream), service)
    );
    let early = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = close.cancelled() => {
            debug!(%peer, "connection closed: its client reads too slowly");
            return;
        }
        _ = stopping.wait_for(|stop| *stop) => None,
        () = sleep(limits.lifetime) => None,
    };

    let ended = match early {
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

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            per_peer: 32,
            request_head: Duration::from_secs(10),
            lifetime: Duration::from_secs(300),
            grace: Duration::from_secs(5),
        }
    }
}
