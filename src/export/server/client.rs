//! The client of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tokio_util::sync::CancellationToken;

use super::backpressure::Backpressure;
use super::policy::Port;

/// The client of a connection; an extension of every request.
#[derive(Clone, Debug)]
pub(super) struct Client {
    address: SocketAddr,
    /// The port that accepted the connection.
    port: Port,
    transport: Transport,
    backpressure: Backpressure,
    close: CancellationToken,
}

/// How a client is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transport {
    #[default]
    Plain,
    Tls {
        /// Whether the client has a valid certificate.
        has_certificate: bool,
    },
}

impl Default for Client {
    /// A client whose address is unknown.
    fn default() -> Self {
        Self::new((Ipv6Addr::UNSPECIFIED, 0).into(), Port::Metrics, CancellationToken::new())
    }
}

impl Client {
    /// The client at this address. `close` closes the connection.
    pub(super) fn new(address: SocketAddr, port: Port, close: CancellationToken) -> Self {
        let (transport, backpressure) = (Transport::Plain, Backpressure::default());
        Self { address, port, transport, backpressure, close }
    }

    /// The same client, connected in this way.
    pub(super) fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// The port that accepted the connection.
    pub(super) fn port(&self) -> Port {
        self.port
    }

    pub(super) fn peer(&self) -> IpAddr {
        self.address.ip()
    }

    /// Whether the connection waits for the client to read.
    pub(super) fn backpressure(&self) -> Backpressure {
        self.backpressure.clone()
    }

    /// Closes the connection when it is cancelled.
    pub(super) fn close(&self) -> CancellationToken {
        self.close.clone()
    }
}
