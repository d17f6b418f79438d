//! An HTTP client for one server other than the API server. It keeps one connection open for a
//! while.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use loopwatch_model::observation::Cause;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tower::util::BoxService;
use tower::{BoxError, Service as _, ServiceExt as _};

use super::credentials::certificates;
use super::failure::{Failure, layers};
use super::name_lookup::NameLookups;

/// A client of one server.
pub(crate) struct Client {
    trust: Trust,
    connect_within: Option<Duration>,
    /// The name in the certificate, if the URLs of the requests contain an address instead.
    server_name: Option<String>,
    /// `None` before the first request and after a failure.
    service: Option<HttpService>,
}

/// Which servers a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The client uses no TLS.
    Plain,
    /// Servers with a certificate from an authority of the system.
    System,
    /// Servers with a certificate from one of these authorities.
    Authorities {
        /// The file with the authorities.
        file: PathBuf,
        /// Its content.
        pem: Vec<u8>,
    },
    /// All servers, with any certificate.
    Anyone,
}

type HttpService = BoxService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

/// How long a connection stays open without a request.
const IDLE: Duration = Duration::from_secs(30);
/// The largest head of a response, and the largest piece of a body, in bytes.
const MAX_BUFFER: usize = 64 << 10;

impl Client {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, connect_within: None, server_name: None, service: None }
    }

    /// Limits the time for each new connection.
    pub(crate) fn connecting_within(&mut self, limit: Duration) -> &mut Self {
        self.connect_within = Some(limit);
        self
    }

    /// Sets the name in the certificate, if the URLs of the requests contain an address instead.
    pub(crate) fn named(self, server_name: Option<String>) -> Self {
        Self { server_name, ..self }
    }

    /// Changes which servers the client trusts. A change closes the connection.
    pub(super) fn trust(&mut self, trust: Trust) {
        if self.trust != trust {
            (self.trust, self.service) = (trust, None);
        }
    }

    /// Sends a request, and waits a limited time for the head of the response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, Failure> {
        let sent = timeout(within, self.call(request)).await;
        sent.unwrap_or_else(|_| {
            self.disconnect();
            Err(no_response(within))
        })
    }

    /// Sends a request, and waits without limit for the head of the response.
    pub(super) async fn call(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let service = self.service().await?;
        let sending = async { service.ready().await?.call(request).await };
        sending.await.map_err(|error| Failure::peer(&*error))
    }

    /// Closes the connection, which may be half-open.
    pub(crate) fn disconnect(&mut self) {
        self.service = None;
    }

    async fn service(&mut self) -> Result<&mut HttpService, Failure> {
        let service = match self.service.take() {
            Some(service) => service,
            None => {
                let (trust, server_name) = (self.trust.clone(), self.server_name.clone());
                let built = trust.service(self.connect_within, server_name).await;
                built.map_err(|problem| Failure::new(Cause::Tls, problem))?
            }
        };

        Ok(self.service.insert(service))
    }
}

/// The failure of a server that does not respond in time.
pub(super) fn no_response(within: Duration) -> Failure {
    Failure::new(Cause::Timeout, format!("no response within {} s", within.as_secs_f32()))
}

impl Trust {
    /// Builds the service of a client. Another thread loads the certificates of the system, which
    /// takes some milliseconds.
    ///
    /// # Errors
    /// Names the file of the authorities if it cannot be used.
    async fn service(
        self,
        connect_within: Option<Duration>,
        server_name: Option<String>,
    ) -> Result<HttpService, String> {
        let mut connector = HttpConnector::new_with_resolver(NameLookups::of_system());
        connector.enforce_http(false); // TLS is the next layer
        connector.set_connect_timeout(connect_within);

        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_max_idle_per_host(1).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
        builder.http1_max_buf_size(MAX_BUFFER);

        let connector = match self {
            Self::Plain => {
                return Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)));
            }
            Self::Anyone => self.secure(connector, server_name)?,
            Self::System | Self::Authorities { .. } => {
                spawn_blocking(|| self.secure(connector, server_name))
                    .await
                    .map_err(|error| error.to_string())??
            }
        };

        Ok(BoxService::new(builder.build(connector).map_err(BoxError::from)))
    }

    /// Adds TLS to a connector.
    fn secure(
        self,
        connector: HttpConnector<NameLookups>,
        server_name: Option<String>,
    ) -> Result<impl Connect + Clone + Send + Sync + 'static, String> {
        // rustls does not choose between two linked providers. An error means that one is already
        // installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(Uri::from_static("https://peer"));
        config.tls_server_name = server_name;

        match self {
            Self::Plain | Self::System => {}
            Self::Authorities { file, pem } => config.root_cert = Some(certificates(&file, &pem)?),
            Self::Anyone => {
                (config.accept_invalid_certs, config.root_cert) = (true, Some(Vec::new()))
            }
        }

        config.rustls_https_connector_with_connector(connector).map_err(|error| layers(&error))
    }
}
